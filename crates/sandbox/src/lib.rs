//! Code that users or models write: Python, JavaScript and WASM under hard limits.
//!
//! Code runs in a worker process that has given up everything but its pipes. The server sends it a [`Job`], answers the calls
//! it may make, and ends it when it takes too long.

mod assignment;
mod confine;
pub mod frame;
mod interpreter;
mod interpreters;
mod job;
mod pool;
mod python;
mod worker;

pub use assignment::Assignment;
pub use confine::{Isolation, Mechanism};
pub use interpreter::{Host, Interpreter};
pub use interpreters::of as interpreter;
pub use job::{Done, Failure, Job, Language, Limit, Limits};
pub use pool::{AsyncHost, Sandbox, SandboxConfig};
pub use python::Python;
pub use worker::worker_main;
