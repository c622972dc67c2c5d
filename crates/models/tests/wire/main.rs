//! The wire formats of all providers, tested against a mock server: requests, streamed replies and errors.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test stops at the first unexpected value")]

#[path = "../support/mod.rs"]
mod support;

mod anthropic;
mod clients;
mod faults;
mod gemini;
mod helix;
mod openai;
mod requests;
mod responses;
mod retry;
mod server;
