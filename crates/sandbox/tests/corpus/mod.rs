//! Attempts to escape from a sandbox or to exhaust its resources, with their expected outcomes.
//!
//! Tests of the interpreters and tests of the workers share this corpus. Only the limits of the worker process stop an
//! attempt that is marked [`Attempt::needs_process`], so such an attempt must not run inside a test process.

pub(crate) mod javascript;
pub(crate) mod python;
pub(crate) mod wasm;

use std::{borrow::Cow, time::Duration};

use toolwright_sandbox::{Job, JobError, JobLimits, JobOutput, Language, Limit};

/// One attempt.
pub(crate) struct Attempt {
    pub name: &'static str,
    pub language: Language,
    pub code: Cow<'static, str>,
    pub expected: Expected,
    /// Whether only the limits of the worker process can stop the attempt.
    pub needs_process: bool,
}

/// The expected outcome of an attempt.
#[derive(Debug)]
pub(crate) enum Expected {
    /// The code is harmless and returns this value, as JSON.
    Value(&'static str),
    /// The code is rejected before it runs, with a message that contains this text.
    Rejected(&'static str),
    /// The code fails with a message that contains this text.
    Exception(&'static str),
    /// The code exceeds this limit.
    Limit(Limit),
}

impl Attempt {
    /// Marks an attempt that only the limits of the worker process can stop.
    pub(crate) fn needs_process(self) -> Self {
        Self { needs_process: true, ..self }
    }

    /// Returns the attempt as a job with low limits. The time limit is low only if it is expected to end the job. So
    /// the outcome does not depend on the speed of the machine.
    pub(crate) fn job(&self) -> Job {
        let short = matches!(self.expected, Expected::Limit(Limit::Time));
        let time = if short { Duration::from_millis(400) } else { Duration::from_secs(60) };
        let limits = JobLimits { time, memory: 64 << 20, output: 64 << 10, depth: 200, host_calls: 10 };
        let inputs = serde_json::json!({"secret": "s3cr3t", "items": [1, 2, 3]});
        Job { code: self.code.clone().into_owned(), inputs, functions: vec!["echo".to_owned()], limits }
    }

    /// Returns a description of the mismatch if an outcome is not the expected one.
    pub(crate) fn mismatch(&self, outcome: &Result<JobOutput, JobError>) -> Option<String> {
        let matches = match (&self.expected, outcome) {
            (Expected::Value(json), Ok(output)) => {
                serde_json::from_str::<serde_json::Value>(json).expect("an expected value must be JSON")
                    == output.result
            }
            (Expected::Rejected(text), Err(JobError::Code { message, .. }))
            | (Expected::Exception(text), Err(JobError::Exception { message, .. })) => message.contains(text),
            (Expected::Limit(limit), Err(JobError::Limit { limit: reached })) => limit == reached,
            _ => false,
        };
        (!matches).then(|| format!("{:?}, {}: expected {:?}, got {outcome:?}", self.language, self.name, self.expected))
    }
}

/// Returns the attempts in all languages.
pub(crate) fn all() -> Vec<Attempt> {
    [python::attempts(), javascript::attempts(), wasm::attempts()].into_iter().flatten().collect()
}

fn attempt(language: Language, name: &'static str, code: impl Into<Cow<'static, str>>, expected: Expected) -> Attempt {
    Attempt { name, language, code: code.into(), expected, needs_process: false }
}
