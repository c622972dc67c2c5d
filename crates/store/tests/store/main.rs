//! The store's promises, each kept on both databases by the same test.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test stops at the first surprise; the lints' own exemption does not reach helpers"
)]

#[macro_use]
mod support;

mod conversations;
mod documents;
mod filters;
mod journals;
mod lists;
mod names;
mod opening;
mod records;
mod references;
mod running;
mod runs;
mod secrets;
mod steps;
mod tenancy;
mod versions;
mod writers;
