//! WASM.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::{Value, json};
use toolwright_sandbox::{Failure, Language, interpreter};

use crate::{Functions, assert_failures, job, result, run};

const WASM: Language = Language::Wasm;

/// Copies standard input to a stream.
fn copies_to(stream: u32) -> String {
    format!(
        r#"(module
  (import "wasi_snapshot_preview1" "fd_read" (func $read (param i32 i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "fd_write" (func $write (param i32 i32 i32 i32) (result i32)))
  (memory (export "memory") 2)
  (func (export "_start")
    (loop $more
      (i32.store (i32.const 0) (i32.const 16))
      (i32.store (i32.const 4) (i32.const 7))
      (drop (call $read (i32.const 0) (i32.const 0) (i32.const 1) (i32.const 8)))
      (i32.store (i32.const 4) (i32.load (i32.const 8)))
      (drop (call $write (i32.const {stream}) (i32.const 0) (i32.const 1) (i32.const 12)))
      (br_if $more (i32.load (i32.const 8))))))"#
    )
}

/// Sends standard input to the host as a request, and writes the answer to standard output.
const ASKS: &str = r#"(module
  (import "wasi_snapshot_preview1" "fd_read" (func $read (param i32 i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "fd_write" (func $write (param i32 i32 i32 i32) (result i32)))
  (import "toolwright" "call" (func $call (param i32 i32) (result i32)))
  (import "toolwright" "answer" (func $answer (param i32)))
  (memory (export "memory") 2)
  (func (export "_start")
    (i32.store (i32.const 0) (i32.const 16))
    (i32.store (i32.const 4) (i32.const 4096))
    (drop (call $read (i32.const 0) (i32.const 0) (i32.const 1) (i32.const 8)))
    (i32.store (i32.const 4) (call $call (i32.const 16) (i32.load (i32.const 8))))
    (call $answer (i32.const 16))
    (drop (call $write (i32.const 1) (i32.const 0) (i32.const 1) (i32.const 12)))))"#;

#[test]
fn inputs_come_on_standard_input_and_the_result_leaves_on_standard_output() {
    let inputs = json!({"text": "ä", "numbers": [1, 2.5, null], "deep": {"er": true}});
    assert_eq!(result(WASM, &copies_to(1), inputs.clone()), inputs);
}

#[test]
fn standard_error_is_what_was_printed() {
    let done = run(WASM, &job(&copies_to(2), json!({"a": 1}))).expect("it runs");
    assert_eq!((done.result, done.stdout.as_str()), (Value::Null, r#"{"a":1}"#));
}

#[test]
fn a_module_may_come_as_base64() {
    let binary = wat::parse_str(copies_to(1)).expect("the module is right");
    let mut code = STANDARD.encode(binary);
    code.insert(20, '\n');
    assert_eq!(result(WASM, &code, json!({"a": 1})), json!({"a": 1}));
}

#[test]
fn functions_of_the_host_are_asked_by_a_request() {
    let table = [
        (json!({"function": "echo", "arguments": {"a": 1}}), json!({"value": {"a": 1}})),
        (json!({"function": "count"}), json!({"value": 1})),
        (json!({"function": "fail"}), json!({"error": "`fail` is closed today"})),
        (json!({"function": "other"}), json!({"error": "there is no function `other` here"})),
        (
            json!({"function": "echo", "arguments": 1}),
            json!({"error": "`echo` takes an object of named arguments, not a number"}),
        ),
    ];
    for (request, answer) in table {
        assert_eq!(result(WASM, ASKS, request), answer);
    }
    let wrong = result(WASM, ASKS, json!({"name": "echo"}));
    assert!(wrong["error"].as_str().is_some_and(|text| text.contains("missing field `function`")), "{wrong}");
}

#[test]
fn an_exit_code_is_a_failure_with_the_end_of_standard_error() {
    let code = copies_to(2).replace(
        "(br_if $more (i32.load (i32.const 8)))",
        "(br_if $more (i32.load (i32.const 8)))) (call $exit (i32.const 3)",
    );
    let code = code.replacen(
        "(module",
        "(module (import \"wasi_snapshot_preview1\" \"proc_exit\" (func $exit (param i32)))",
        1,
    );
    let failed = run(WASM, &job(&code, json!({"why": "because"})));
    let Err(Failure::Exception { message, stdout, .. }) = failed else { panic!("{failed:?}") };
    assert_eq!(message, r#"the module ended with exit code 3: {"why":"because"}"#);
    assert_eq!(stdout, r#"{"why":"because"}"#);
}

#[test]
fn text_that_is_wrong_has_a_line() {
    assert_failures(
        WASM,
        &[
            ("(module\n  (func (export \"_start\")\n    (i32.wrong)))", "unknown operator", Some(3)),
            ("(module\n  (func $a (call $b)))", "unknown func", Some(2)),
        ],
    );
}

#[test]
fn a_module_that_is_kept_begins_anew_each_time() {
    let code = r#"(module
      (import "wasi_snapshot_preview1" "fd_write" (func $write (param i32 i32 i32 i32) (result i32)))
      (memory (export "memory") 1)
      (data (i32.const 0) "\10\00\00\00\01\00\00\00")
      (data (i32.const 16) "0")
      (func (export "_start")
        (i32.store8 (i32.const 16) (i32.add (i32.load8_u (i32.const 16)) (i32.const 1)))
        (drop (call $write (i32.const 1) (i32.const 0) (i32.const 1) (i32.const 8)))))"#;
    let mut interpreter = interpreter(WASM).expect("it is built in");
    for _ in 0..3 {
        let done = interpreter.run(&job(code, json!({})), &mut Functions::default()).expect("it runs");
        assert_eq!(done.result, json!(1));
    }
}
