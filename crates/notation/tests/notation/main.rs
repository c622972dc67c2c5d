//! Tests of the conversion between gram and definitions.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "test helpers")]

mod examples;
mod generate;
mod round_trip;
