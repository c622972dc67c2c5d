//! Code that users or models write: Python, JavaScript and WASM under hard limits.
//!
//! Code runs in a worker process that has given up everything but its pipes. The server sends it a [`Job`], answers the calls
//! it may make, and ends it when it takes too long.

mod interpreter;
mod interpreters;
mod job;

pub use interpreter::{Host, Interpreter};
pub use interpreters::of as interpreter;
pub use job::{Done, Failure, Job, Language, Limit, Limits};
