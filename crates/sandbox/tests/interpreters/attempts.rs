//! The corpus, as far as an interpreter stops it by itself.

use std::collections::HashSet;

use toolwright_sandbox::{Language, interpreter};

use crate::{Functions, corpus};

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

/// Runs the attempts one after the other in one interpreter, as a worker would.
fn hold(language: Language) {
    let mut interpreter = interpreter(language).expect("the language is built in");
    let inside = corpus::all().into_iter().filter(|attempt| attempt.language == language && !attempt.outside);
    let objections: Vec<_> = inside
        .filter_map(|attempt| attempt.objection(&interpreter.run(&attempt.job(), &mut Functions::default())))
        .collect();
    assert!(objections.is_empty(), "{}", objections.join("\n"));
}
