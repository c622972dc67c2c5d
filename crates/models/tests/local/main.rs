//! The parts of the crate that need no network: model references, prices, token estimates and scripted models.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test stops at the first unexpected value")]

mod config;
mod prices;
mod scripted;
mod tokens;
