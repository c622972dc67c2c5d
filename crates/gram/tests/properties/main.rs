//! Property tests of texts, patterns and signatures.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "test helpers")]

mod differences;
#[path = "../grammar/generate.rs"]
mod generate;
mod notation;
#[expect(dead_code, reason = "the grammar tests use the list of differences")]
#[path = "../grammar/differences.rs"]
mod reference;
mod signatures;
mod strategies;
mod views;
