//! Every provider's streaming format, spoken by a server in the test: what is sent, what is understood, and what
//! happens when it breaks.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests and their helpers stop at the first surprise")]

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
