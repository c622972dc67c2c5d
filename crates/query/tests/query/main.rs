//! Tests of the query language: semantics, errors, and equal results in memory, SQLite and Postgres.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails at the first unexpected error"
)]

mod columns;
mod databases;
mod differential;
mod documented;
mod errors;
mod generate;
mod indexes;
mod injection;
mod pages;
mod properties;
mod semantics;
