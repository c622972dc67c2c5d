//! Tests the attempts of the corpus that an interpreter stops by itself, without the limits of a worker process.

use std::{collections::HashSet, time::Duration};

use serde_json::json;
use toolwright_sandbox::{JobError, JobLimits, Language, interpreter_for};

use crate::{TestHost, corpus, job, run};

#[test]
fn each_python_escape_attempt_has_its_listed_outcome() {
    assert_outcomes(Language::Python);
}

#[test]
fn each_javascript_escape_attempt_has_its_listed_outcome() {
    assert_outcomes(Language::JavaScript);
}

#[cfg(feature = "wasm")]
#[test]
fn each_wasm_escape_attempt_has_its_listed_outcome() {
    assert_outcomes(Language::Wasm);
}

#[test]
fn names_of_escape_attempts_are_unique() {
    let attempts = corpus::all();
    let names: HashSet<_> = attempts.iter().map(|attempt| (attempt.language, attempt.name)).collect();
    assert_eq!(names.len(), attempts.len());
}

#[test]
fn zero_and_maximum_limits_do_not_crash_an_interpreter() {
    let defaults = JobLimits::default();
    let sizes = (0..12).map(|power| JobLimits { memory: 4_u64.pow(power), ..defaults });
    let others = [
        JobLimits { depth: 0, ..defaults },
        JobLimits { output: 0, ..defaults },
        JobLimits { time: Duration::ZERO, ..defaults },
        JobLimits { host_calls: 0, ..defaults },
        JobLimits { memory: 0, ..defaults },
        JobLimits { memory: u64::MAX, depth: u32::MAX, output: u64::MAX, time: Duration::MAX, host_calls: u32::MAX },
    ];
    let codes = [
        (Language::Python, "def f(): return echo(a=1)\nf()"),
        (Language::JavaScript, "const f = () => echo({a: 1}); f()"),
        (Language::Wasm, "(module (memory (export \"memory\") 1) (func (export \"_start\")))"),
    ];
    for limits in sizes.chain(others) {
        for (language, code) in codes {
            if interpreter_for(language).is_none() {
                continue;
            }
            let outcome = run(language, &toolwright_sandbox::Job { limits, ..job(code, json!({"text": "x"})) });
            assert!(matches!(outcome, Ok(_) | Err(JobError::Limit { .. })), "{language:?} {limits:?}: {outcome:?}");
        }
    }
}

/// Runs the attempts of a language one after the other in one interpreter, as a worker does.
fn assert_outcomes(language: Language) {
    let mut interpreter = interpreter_for(language).expect("the language is built in");
    let attempts = corpus::all().into_iter().filter(|attempt| attempt.language == language && !attempt.needs_process);
    let mismatches: Vec<_> = attempts
        .filter_map(|attempt| attempt.mismatch(&interpreter.run(&attempt.job(), &mut TestHost::default())))
        .collect();
    assert!(mismatches.is_empty(), "{}", mismatches.join("\n"));
}
