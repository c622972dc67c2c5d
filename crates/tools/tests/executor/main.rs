//! Tests of the executor through its public interface: in-memory ports, servers on loopback, and a real cause for every
//! failure.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::large_futures,
    reason = "tests stop at the first surprise, and helpers outside of `#[test]` are tests too"
)]

mod auth;
mod batch;
mod batch_runner;
mod cache;
mod client_tools;
mod codes;
mod codes_upstream;
mod compliance;
mod egress;
mod envelope;
mod fallbacks;
mod library;
mod mtls;
mod prices;
mod properties;
mod recorder;
mod redaction;
mod redirects;
mod retries;
mod size;
mod templates;
mod test_functions;
mod world;
