//! The language as its users meet it: what it says, what it refuses, and that two databases agree with memory.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "tests and their helpers stop at the first surprise"
)]

mod columns;
mod databases;
mod differential;
mod documented;
mod generate;
mod indexes;
mod injection;
mod pages;
mod properties;
mod refusals;
mod samples;
