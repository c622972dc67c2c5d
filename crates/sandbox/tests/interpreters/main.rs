//! What code of each language can do, what it gets, and what it cannot do. Everything runs in the process of the test.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod attempts;
#[path = "../corpus/mod.rs"]
mod corpus;
mod javascript;
mod python;
mod round_trips;
#[cfg(feature = "wasm")]
mod wasm;

use serde_json::{Value, json};
use toolwright_sandbox::{Done, Failure, Host, Job, Language, Limits, interpreter};

/// A host with three functions: one that gives back its arguments, one that fails, and one that counts its calls.
#[derive(Default)]
struct Functions {
    counted: u64,
}

impl Host for Functions {
    fn call(&mut self, function: &str, arguments: Value) -> Result<Value, String> {
        match function {
            "echo" => Ok(arguments),
            "count" => {
                self.counted += 1;
                Ok(self.counted.into())
            }
            _ => Err(format!("`{function}` is closed today")),
        }
    }
}

fn job(code: &str, inputs: Value) -> Job {
    let functions = ["echo", "count", "fail"].map(str::to_owned).to_vec();
    Job { code: code.to_owned(), inputs, functions, limits: Limits::default() }
}

fn run(language: Language, job: &Job) -> Result<Done, Failure> {
    interpreter(language).expect("the language is built in").run(job, &mut Functions::default())
}

/// The result of code that is expected to have one.
fn result(language: Language, code: &str, inputs: Value) -> Value {
    match run(language, &job(code, inputs)) {
        Ok(done) => done.result,
        Err(failure) => panic!("{code}\nfailed: {failure:?}"),
    }
}

/// Runs a table of code and results, and shows all that differ.
fn assert_results(language: Language, table: &[(&str, Value)]) {
    let differ: Vec<_> = table
        .iter()
        .filter_map(|(code, expected)| {
            let outcome = run(language, &job(code, json!({"n": 2})));
            let same = outcome.as_ref().is_ok_and(|done| done.result == *expected);
            (!same).then(|| format!("{code:?}: expected {expected}, got {outcome:?}"))
        })
        .collect();
    assert!(differ.is_empty(), "{}", differ.join("\n"));
}

/// Runs a table of code that fails: with which message, and where.
fn assert_failures(language: Language, table: &[(&str, &str, Option<u32>)]) {
    let differ: Vec<_> = table
        .iter()
        .filter_map(|(code, part, at)| {
            let outcome = run(language, &job(code, json!({})));
            let same = match &outcome {
                Err(Failure::Code { message, line } | Failure::Exception { message, line, .. }) => {
                    message.contains(part) && line == at
                }
                _ => false,
            };
            (!same).then(|| format!("{code:?}: expected {part:?} at {at:?}, got {outcome:?}"))
        })
        .collect();
    assert!(differ.is_empty(), "{}", differ.join("\n"));
}
