//! Tests of runs that execute a workflow, through the public API of the machine: effects out, events in.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a failed assumption must fail the test, also in helpers outside of `#[test]`"
)]

mod checks;
mod differential;
mod errors;
mod for_each;
mod harness;
mod order;
mod pauses;
mod retries;
mod reuse;
mod types;
mod waits;
