//! The embedded WASM runtime.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::{Value, json};
use toolwright_sandbox::{JobError, Language, interpreter_for};

use crate::{TestHost, assert_failures, job, result, run};

const WASM: Language = Language::Wasm;

/// Returns a module that copies standard input to a stream.
fn copy_to(stream: u32) -> String {
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

/// A module that sends standard input to the host as a request and writes the answer to standard output.
const CALL_HOST: &str = r#"(module
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
fn inputs_are_read_from_stdin_and_the_result_from_stdout() {
    let inputs = json!({"text": "ä", "numbers": [1, 2.5, null], "deep": {"er": true}});
    assert_eq!(result(WASM, &copy_to(1), inputs.clone()), inputs);
}

#[test]
fn text_on_stderr_becomes_the_printed_text() {
    let output = run(WASM, &job(&copy_to(2), json!({"a": 1}))).expect("the job must succeed");
    assert_eq!((output.result, output.stdout.as_str()), (Value::Null, r#"{"a":1}"#));
}

#[test]
fn module_in_base64_is_accepted() {
    let binary = wat::parse_str(copy_to(1)).expect("the module must be valid");
    let mut code = STANDARD.encode(binary);
    code.insert(20, '\n');
    assert_eq!(result(WASM, &code, json!({"a": 1})), json!({"a": 1}));
}

#[test]
fn host_functions_are_called_with_a_json_request() {
    let table = [
        (json!({"function": "echo", "arguments": {"a": 1}}), json!({"value": {"a": 1}})),
        (json!({"function": "count"}), json!({"value": 1})),
        (json!({"function": "fail"}), json!({"error": "`fail` is unavailable"})),
        (json!({"function": "other"}), json!({"error": "function `other` does not exist"})),
        (
            json!({"function": "echo", "arguments": 1}),
            json!({"error": "`echo` takes an object of named arguments, got a number"}),
        ),
    ];
    for (request, answer) in table {
        assert_eq!(result(WASM, CALL_HOST, request), answer);
    }
    let invalid = result(WASM, CALL_HOST, json!({"name": "echo"}));
    assert!(invalid["error"].as_str().is_some_and(|text| text.contains("missing field `function`")), "{invalid}");
}

#[test]
fn nonzero_exit_code_is_an_error_with_the_end_of_stderr() {
    let code = copy_to(2).replace(
        "(br_if $more (i32.load (i32.const 8)))",
        "(br_if $more (i32.load (i32.const 8)))) (call $exit (i32.const 3)",
    );
    let code = code.replacen(
        "(module",
        "(module (import \"wasi_snapshot_preview1\" \"proc_exit\" (func $exit (param i32)))",
        1,
    );
    let failed = run(WASM, &job(&code, json!({"why": "because"})));
    let Err(JobError::Exception { message, stdout, .. }) = failed else { panic!("{failed:?}") };
    assert_eq!(message, r#"the module exited with code 3: {"why":"because"}"#);
    assert_eq!(stdout, r#"{"why":"because"}"#);
}

#[test]
fn syntax_error_in_a_text_module_is_reported_with_its_line() {
    assert_failures(
        WASM,
        &[
            ("(module\n  (func (export \"_start\")\n    (i32.wrong)))", "unknown operator", Some(3)),
            ("(module\n  (func $a (call $b)))", "unknown func", Some(2)),
        ],
    );
}

#[test]
fn cached_module_starts_with_fresh_memory() {
    let code = r#"(module
      (import "wasi_snapshot_preview1" "fd_write" (func $write (param i32 i32 i32 i32) (result i32)))
      (memory (export "memory") 1)
      (data (i32.const 0) "\10\00\00\00\01\00\00\00")
      (data (i32.const 16) "0")
      (func (export "_start")
        (i32.store8 (i32.const 16) (i32.add (i32.load8_u (i32.const 16)) (i32.const 1)))
        (drop (call $write (i32.const 1) (i32.const 0) (i32.const 1) (i32.const 8)))))"#;
    let mut interpreter = interpreter_for(WASM).expect("WASM must be built in");
    for _ in 0..3 {
        let output = interpreter.run(&job(code, json!({})), &mut TestHost::default()).expect("the job must succeed");
        assert_eq!(output.result, json!(1));
    }
}
