//! The interface between a worker and the interpreter it runs.

use serde_json::Value;

use crate::{Job, JobError, JobOutput};

/// Runs jobs of one language, one after the other. No state carries over from one job to the next.
pub trait Interpreter {
    /// Runs a job to completion.
    fn run(&mut self, job: &Job, host: &mut dyn Host) -> Result<JobOutput, JobError>;
}

/// The host functions: functions outside of the sandbox that code can call. An interpreter calls them through this
/// trait.
pub trait Host {
    /// Calls a function that the job may call. The code sees an error as an exception that it may catch.
    fn call(&mut self, function: &str, arguments: Value) -> Result<Value, String>;
}
