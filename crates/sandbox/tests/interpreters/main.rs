//! The embedded interpreters: results, inputs, host calls, errors and limits. Everything runs in the test process.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "tests may panic; the exemption of the lints for tests does not cover helper functions"
)]

mod attempts;
#[path = "../corpus/mod.rs"]
mod corpus;
mod javascript;
mod python;
mod round_trips;
#[cfg(feature = "wasm")]
mod wasm;

use serde_json::{Value, json};
use toolwright_sandbox::{Host, Job, JobError, JobLimits, JobOutput, Language, interpreter_for};

/// A host with three functions: `echo` returns its arguments, `count` counts its calls, and `fail` fails.
#[derive(Default)]
struct TestHost {
    count: u64,
}

impl Host for TestHost {
    fn call(&mut self, function: &str, arguments: Value) -> Result<Value, String> {
        match function {
            "echo" => Ok(arguments),
            "count" => {
                self.count += 1;
                Ok(self.count.into())
            }
            _ => Err(format!("`{function}` is unavailable")),
        }
    }
}

fn job(code: &str, inputs: Value) -> Job {
    let functions = ["echo", "count", "fail"].map(str::to_owned).to_vec();
    Job { code: code.to_owned(), inputs, functions, limits: JobLimits::default() }
}

fn run(language: Language, job: &Job) -> Result<JobOutput, JobError> {
    interpreter_for(language).expect("the language is built in").run(job, &mut TestHost::default())
}

/// Runs code that must succeed, and returns its result.
fn result(language: Language, code: &str, inputs: Value) -> Value {
    match run(language, &job(code, inputs)) {
        Ok(output) => output.result,
        Err(failure) => panic!("{code}\nfailed: {failure:?}"),
    }
}

/// Runs a table of code and expected results, and reports every mismatch.
fn assert_results(language: Language, table: &[(&str, Value)]) {
    let mismatches: Vec<_> = table
        .iter()
        .filter_map(|(code, expected)| {
            let outcome = run(language, &job(code, json!({"n": 2})));
            let same = outcome.as_ref().is_ok_and(|output| output.result == *expected);
            (!same).then(|| format!("{code:?}: expected {expected}, got {outcome:?}"))
        })
        .collect();
    assert!(mismatches.is_empty(), "{}", mismatches.join("\n"));
}

/// Runs a table of code that must fail, with a part of the expected message and the expected line.
fn assert_failures(language: Language, table: &[(&str, &str, Option<u32>)]) {
    let mismatches: Vec<_> = table
        .iter()
        .filter_map(|(code, text, expected_line)| {
            let outcome = run(language, &job(code, json!({})));
            let same = match &outcome {
                Err(JobError::Code { message, line } | JobError::Exception { message, line, .. }) => {
                    message.contains(text) && line == expected_line
                }
                _ => false,
            };
            (!same).then(|| format!("{code:?}: expected {text:?} at line {expected_line:?}, got {outcome:?}"))
        })
        .collect();
    assert!(mismatches.is_empty(), "{}", mismatches.join("\n"));
}
