//! Attempts to get out of a sandbox or to use it up, and what comes of each.
//!
//! Shared by the tests of the interpreters and of the workers around them: an attempt that is marked [`Attempt::outside`] is
//! stopped by the worker's own limits alone and must not be run in the process of a test.

pub mod javascript;
pub mod python;
pub mod wasm;

use std::{borrow::Cow, time::Duration};

use toolwright_sandbox::{Done, Failure, Job, Language, Limit, Limits};

/// One attempt.
pub struct Attempt {
    pub name: &'static str,
    pub language: Language,
    pub code: Cow<'static, str>,
    pub expected: Expected,
    /// Whether only the process around the interpreter can stop it.
    pub outside: bool,
}

/// What comes of an attempt.
#[derive(Debug)]
pub enum Expected {
    /// It is harmless: a result, as JSON.
    Value(&'static str),
    /// It is not even begun, because of something that the message says.
    Unreadable(&'static str),
    /// It fails with a message that has this in it.
    Exception(&'static str),
    /// It goes beyond a limit.
    Limit(Limit),
}

impl Attempt {
    /// Marks an attempt that no library can stop.
    pub fn outside(self) -> Self {
        Self { outside: true, ..self }
    }

    /// The attempt as a job, with limits that are soon reached. Time is short only where it is what ends the job, so that a slow
    /// machine changes nothing.
    pub fn job(&self) -> Job {
        let short = matches!(self.expected, Expected::Limit(Limit::Time));
        let time = if short { Duration::from_millis(400) } else { Duration::from_secs(60) };
        let limits = Limits { time, memory: 64 << 20, output: 64 << 10, depth: 200, host_calls: 10 };
        let inputs = serde_json::json!({"secret": "s3cr3t", "items": [1, 2, 3]});
        Job { code: self.code.clone().into_owned(), inputs, functions: vec!["echo".to_owned()], limits }
    }

    /// What is wrong with an outcome, if anything is.
    pub fn objection(&self, outcome: &Result<Done, Failure>) -> Option<String> {
        let fine = match (&self.expected, outcome) {
            (Expected::Value(json), Ok(done)) => {
                serde_json::from_str::<serde_json::Value>(json).expect("a value of the corpus is JSON") == done.result
            }
            (Expected::Unreadable(part), Err(Failure::Code { message, .. }))
            | (Expected::Exception(part), Err(Failure::Exception { message, .. })) => message.contains(part),
            (Expected::Limit(limit), Err(Failure::Limit { limit: reached })) => limit == reached,
            _ => false,
        };
        (!fine).then(|| format!("{:?}, {}: expected {:?}, got {outcome:?}", self.language, self.name, self.expected))
    }
}

/// Every attempt, in every language.
pub fn all() -> Vec<Attempt> {
    [python::attempts(), javascript::attempts(), wasm::attempts()].into_iter().flatten().collect()
}

fn attempt(language: Language, name: &'static str, code: impl Into<Cow<'static, str>>, expected: Expected) -> Attempt {
    Attempt { name, language, code: code.into(), expected, outside: false }
}
