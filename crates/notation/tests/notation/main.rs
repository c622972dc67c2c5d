//! Definitions as gram and back: every definition survives, and every example reads as what it says.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod examples;
mod generate;
mod round_trip;
