//! The binary against the conformance suite of the protocol, its reference servers and clients.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod clients;
mod conformance;
mod login;
mod peers;
mod servers;
mod stdio;
#[path = "../support/mod.rs"]
mod support;
