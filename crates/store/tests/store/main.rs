//! Tests of the store. Most tests run on SQLite and on Postgres.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "tests may panic; the exemption of the lints for tests does not cover helper functions"
)]

#[macro_use]
mod support;

mod concurrent_writes;
mod conversations;
mod documents;
mod events;
mod filters;
mod lists;
mod names;
mod opening;
mod projections;
mod records;
mod references;
mod run_support;
mod runs;
mod secrets;
mod tasks;
mod tenancy;
mod versions;
mod writer;
