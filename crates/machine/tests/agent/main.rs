//! The agent machine on its boundary: effects out, events in, nothing else.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "tests stop at the first surprise, and helpers outside of `#[test]` are tests too"
)]

mod approvals;
mod bench;
mod bundles;
mod client_tools;
mod doubts;
mod journal;
mod limits;
mod loops;
mod order;
mod pins;
mod plans;
mod policies;
mod properties;
mod recordings;
mod repair;
mod saved;
mod script;
mod shown;
mod views;
