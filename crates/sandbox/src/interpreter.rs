//! What a worker runs code with.

use serde_json::Value;

use crate::{Done, Failure, Job};

/// Runs jobs of one language, one after the other, each as if it were the first.
pub trait Interpreter {
    /// Runs a job to its end.
    fn run(&mut self, job: &Job, host: &mut dyn Host) -> Result<Done, Failure>;
}

/// What code can reach outside of itself.
pub trait Host {
    /// Calls a function that the job was granted. An error is an exception for the code, which it may catch.
    fn call(&mut self, function: &str, arguments: Value) -> Result<Value, String>;
}
