//! What holds for every text, pattern and signature.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "helpers of tests"
)]

mod differences;
#[path = "../grammar/generate.rs"]
mod generate;
mod notation;
#[expect(dead_code, reason = "the list of differences is tested with the grammar")]
#[path = "../grammar/differences.rs"]
mod reference;
mod signatures;
mod strategies;
mod views;
