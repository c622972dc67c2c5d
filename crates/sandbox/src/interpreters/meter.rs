//! What a job has used, and whether that was too much.

use std::time::{Duration, Instant};

use serde_json::Value;

use super::values;
use crate::{Failure, Host, Job, Limit, Limits};

scoped_tls_hkt::scoped_thread_local!(
    /// The host of the job that runs, for libraries whose callbacks cannot borrow.
    pub(super) static mut HOST: for<'a> &'a mut (dyn Host + 'a)
);

/// Counts what one job uses. The first limit that it goes beyond is what ends it.
#[derive(Debug)]
pub(super) struct Meter {
    limits: Limits,
    functions: Vec<String>,
    begun: Instant,
    waited: Duration,
    calls: u32,
    printed: Vec<u8>,
    beyond: Option<Limit>,
}

/// Why the host has no answer.
#[derive(Debug)]
pub(super) enum NoAnswer {
    /// The job is over.
    Ends(Limit),
    /// The code may catch it.
    Error(String),
}

impl Meter {
    pub(super) fn new(job: &Job) -> Self {
        Self {
            limits: job.limits,
            functions: job.functions.clone(),
            begun: Instant::now(),
            waited: Duration::ZERO,
            calls: 0,
            printed: Vec::new(),
            beyond: None,
        }
    }

    /// Notes that the job is over, and tells which limit ended it.
    pub(super) fn end(&mut self, limit: Limit) -> Limit {
        *self.beyond.get_or_insert(limit)
    }

    /// The limit that ended the job.
    pub(super) fn beyond(&self) -> Option<Limit> {
        self.beyond
    }

    /// Whether the job must stop, because of its time or anything else.
    pub(super) fn over(&mut self) -> bool {
        if self.beyond.is_none() && self.begun.elapsed().saturating_sub(self.waited) > self.limits.time {
            self.end(Limit::Time);
        }
        self.beyond.is_some()
    }

    pub(super) fn print(&mut self, text: &[u8]) -> Result<(), Limit> {
        let length = self.printed.len().saturating_add(text.len());
        if values::exceeds(length, self.limits.output) {
            return Err(self.end(Limit::Output));
        }
        self.printed.extend_from_slice(text);
        Ok(())
    }

    /// What was printed. Bytes that are no text are replaced.
    pub(super) fn stdout(&self) -> String {
        String::from_utf8_lossy(&self.printed).into_owned()
    }

    /// Whether code may call a function of the host.
    pub(super) fn grants(&self, function: &str) -> bool {
        self.functions.iter().any(|granted| granted == function)
    }

    /// Calls the host. The time that it takes is not the job's.
    pub(super) fn call(&mut self, host: &mut dyn Host, function: &str, arguments: Value) -> Result<Value, NoAnswer> {
        if !self.grants(function) {
            return Err(NoAnswer::Error(format!("there is no function `{function}` here")));
        }
        if self.calls >= self.limits.host_calls {
            return Err(NoAnswer::Ends(self.end(Limit::HostCalls)));
        }
        if !arguments.is_object() {
            let text = format!("`{function}` takes an object of named arguments, not {}", values::kind(&arguments));
            return Err(NoAnswer::Error(text));
        }
        self.fits(&arguments).map_err(NoAnswer::Ends)?;
        self.calls += 1;
        let begun = Instant::now();
        let answer = host.call(function, arguments);
        self.waited += begun.elapsed();
        answer.map_err(NoAnswer::Error)
    }

    /// Whether a value is small enough to leave the worker.
    pub(super) fn fits(&mut self, value: &Value) -> Result<(), Limit> {
        if values::fits(value, self.limits.output) { Ok(()) } else { Err(self.end(Limit::Output)) }
    }

    /// A failure of the code, with what it had printed.
    pub(super) fn exception(&self, message: &str, line: Option<u32>) -> Failure {
        Failure::Exception { message: values::shortened(message), line, stdout: self.stdout() }
    }
}
