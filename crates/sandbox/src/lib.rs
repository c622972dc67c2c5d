//! Runs Python, JavaScript and WASM that users or models wrote, under hard limits.
//!
//! Code runs in a worker process without network access. The worker communicates only with the server, over pipes. Only
//! code in CPython can access files: it can read the Python installation and write to a directory in memory. The server
//! sends a [`Job`] to the worker and answers the code's calls to host functions. It kills the worker when the job
//! exceeds a limit.

mod confine;
pub mod frame;
mod interpreter;
mod interpreters;
mod job;
mod pool;
mod python_installation;
mod worker;
mod worker_config;

pub use confine::Isolation;
pub use interpreter::{Host, Interpreter};
pub use interpreters::interpreter_for;
pub use job::{Job, JobError, JobLimits, JobOutput, Language, Limit};
pub use pool::{AsyncHost, JobOwner, Sandbox, SandboxConfig};
pub use python_installation::PythonInstallation;
pub use worker::worker_main;
pub use worker_config::{Mechanism, WorkerConfig};
