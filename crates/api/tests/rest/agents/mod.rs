//! Tests agent runs: responses, permissions, limits and tools.

mod authority;
mod limits;
mod responses;
mod tools;
mod usage;
