//! Tests the binary with the MCP conformance suite, and with reference servers and clients of the protocol.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking, also in its helpers"
)]

mod clients;
mod conformance;
mod login;
mod peers;
mod servers;
mod stdio;
#[path = "../support/mod.rs"]
mod support;
