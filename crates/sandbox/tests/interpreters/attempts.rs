//! The corpus, as far as an interpreter stops it by itself.

use std::{collections::HashSet, time::Duration};

use serde_json::json;
use toolwright_sandbox::{Failure, Language, Limits, interpreter};

use crate::{Functions, corpus, job, run};

#[test]
fn attempts_in_python_end_as_they_should() {
    hold(Language::Python);
}

#[test]
fn attempts_in_javascript_end_as_they_should() {
    hold(Language::JavaScript);
}

#[cfg(feature = "wasm")]
#[test]
fn attempts_in_wasm_end_as_they_should() {
    hold(Language::Wasm);
}

#[test]
fn each_attempt_has_a_name_of_its_own() {
    let attempts = corpus::all();
    let names: HashSet<_> = attempts.iter().map(|attempt| (attempt.language, attempt.name)).collect();
    assert_eq!(names.len(), attempts.len());
}

#[test]
fn limits_that_leave_nothing_are_failures_and_no_crashes() {
    let usual = Limits::default();
    let sizes = (0..12).map(|power| Limits { memory: 4_u64.pow(power), ..usual });
    let others = [
        Limits { depth: 0, ..usual },
        Limits { output: 0, ..usual },
        Limits { time: Duration::ZERO, ..usual },
        Limits { host_calls: 0, ..usual },
        Limits { memory: 0, ..usual },
        Limits { memory: u64::MAX, depth: u32::MAX, output: u64::MAX, time: Duration::MAX, host_calls: u32::MAX },
    ];
    let codes = [
        (Language::Python, "def f(): return echo(a=1)\nf()"),
        (Language::JavaScript, "const f = () => echo({a: 1}); f()"),
        (Language::Wasm, "(module (memory (export \"memory\") 1) (func (export \"_start\")))"),
    ];
    for limits in sizes.chain(others) {
        for (language, code) in codes {
            if interpreter(language).is_none() {
                continue;
            }
            let outcome = run(language, &toolwright_sandbox::Job { limits, ..job(code, json!({"text": "x"})) });
            assert!(matches!(outcome, Ok(_) | Err(Failure::Limit { .. })), "{language:?} {limits:?}: {outcome:?}");
        }
    }
}

/// Runs the attempts one after the other in one interpreter, as a worker would.
fn hold(language: Language) {
    let mut interpreter = interpreter(language).expect("the language is built in");
    let inside = corpus::all().into_iter().filter(|attempt| attempt.language == language && !attempt.outside);
    let objections: Vec<_> = inside
        .filter_map(|attempt| attempt.objection(&interpreter.run(&attempt.job(), &mut Functions::default())))
        .collect();
    assert!(objections.is_empty(), "{}", objections.join("\n"));
}
