//! Measures the resources that a job uses and enforces its limits.

use std::time::{Duration, Instant};

use serde_json::Value;

use super::values;
use crate::{Host, Job, JobError, JobLimits, Limit};

scoped_tls_hkt::scoped_thread_local!(
    /// The host of the current job, for libraries whose callbacks cannot borrow local variables.
    pub(super) static mut HOST: for<'a> &'a mut (dyn Host + 'a)
);

/// Measures the resource use of one job. If the job exceeds several limits, the limit that it exceeded first is
/// reported.
#[derive(Debug)]
pub(super) struct Meter {
    limits: JobLimits,
    functions: Vec<String>,
    started: Instant,
    host_time: Duration,
    calls: u32,
    printed: Vec<u8>,
    exceeded: Option<Limit>,
}

/// The reason why a host call has no result.
#[derive(Debug)]
pub(super) enum HostCallError {
    /// The job exceeded a limit and must end.
    LimitExceeded(Limit),
    /// The call failed. The code may catch the exception.
    Failed(String),
}

impl Meter {
    pub(super) fn new(job: &Job) -> Self {
        Self {
            limits: job.limits,
            functions: job.functions.clone(),
            started: Instant::now(),
            host_time: Duration::ZERO,
            calls: 0,
            printed: Vec::new(),
            exceeded: None,
        }
    }

    /// Records that the job exceeded a limit, and returns the first limit that it exceeded.
    pub(super) fn exceed(&mut self, limit: Limit) -> Limit {
        *self.exceeded.get_or_insert(limit)
    }

    /// Returns the first limit that the job exceeded.
    pub(super) fn exceeded(&self) -> Option<Limit> {
        self.exceeded
    }

    /// Returns whether the job must stop, because its time is up or it exceeded another limit.
    pub(super) fn must_stop(&mut self) -> bool {
        if self.exceeded.is_none() && self.started.elapsed().saturating_sub(self.host_time) > self.limits.time {
            self.exceed(Limit::Time);
        }
        self.exceeded.is_some()
    }

    pub(super) fn print(&mut self, text: &[u8]) -> Result<(), Limit> {
        let length = self.printed.len().saturating_add(text.len());
        if values::exceeds(length, self.limits.output) {
            return Err(self.exceed(Limit::Output));
        }
        self.printed.extend_from_slice(text);
        Ok(())
    }

    /// Returns the printed text. Invalid UTF-8 is replaced.
    pub(super) fn stdout(&self) -> String {
        String::from_utf8_lossy(&self.printed).into_owned()
    }

    /// Returns whether the job may call a host function with this name.
    pub(super) fn is_granted(&self, function: &str) -> bool {
        self.functions.iter().any(|granted| granted == function)
    }

    /// Calls a host function. Its time does not count against the job's time limit.
    pub(super) fn call(
        &mut self,
        host: &mut dyn Host,
        function: &str,
        arguments: Value,
    ) -> Result<Value, HostCallError> {
        if !self.is_granted(function) {
            return Err(HostCallError::Failed(format!("function `{function}` does not exist")));
        }
        if self.calls >= self.limits.host_calls {
            return Err(HostCallError::LimitExceeded(self.exceed(Limit::HostCalls)));
        }
        if !arguments.is_object() {
            let text =
                format!("`{function}` takes an object of named arguments, got {}", values::type_name(&arguments));
            return Err(HostCallError::Failed(text));
        }
        self.check_size(&arguments).map_err(HostCallError::LimitExceeded)?;
        self.calls += 1;
        let started = Instant::now();
        let answer = host.call(function, arguments);
        self.host_time += started.elapsed();
        answer.map_err(HostCallError::Failed)
    }

    /// Checks that a value is small enough to leave the worker.
    pub(super) fn check_size(&mut self, value: &Value) -> Result<(), Limit> {
        if values::fits(value, self.limits.output) { Ok(()) } else { Err(self.exceed(Limit::Output)) }
    }

    /// Creates the error for an exception that the code did not catch. The error contains the text that the code
    /// printed.
    pub(super) fn exception(&self, message: &str, line: Option<u32>) -> JobError {
        JobError::Exception { message: values::truncate_message(message), line, stdout: self.stdout() }
    }
}
