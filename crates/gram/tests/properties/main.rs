//! What holds for every text, pattern and signature.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "helpers of tests"
)]

#[path = "../grammar/generate.rs"]
mod generate;
mod notation;
mod signatures;
mod strategies;
mod views;
