//! The embedded JavaScript interpreter.

use serde_json::{Value, json};
use toolwright_sandbox::{JobError, Language};

use crate::{assert_failures, assert_results, job, result, run};

const JAVASCRIPT: Language = Language::JavaScript;

#[test]
fn job_result_is_the_variable_named_result_or_else_the_last_expression() {
    assert_results(
        JAVASCRIPT,
        &[
            ("", Value::Null),
            ("// nothing", Value::Null),
            ("1 + 1", json!(2)),
            ("1 + 1; // a comment", json!(2)),
            ("const x = 5", Value::Null),
            ("result = 5", json!(5)),
            ("var result = 5; 7", json!(5)),
            ("let result = 5; 7", json!(5)),
            ("const result = 5", json!(5)),
            ("const {result} = {result: 5}", json!(5)),
            ("const result = null; 7", Value::Null),
            ("let result; 7", json!(7)),
            ("globalThis.result = 5", json!(5)),
            ("if (n === 2) { result = 5 }", json!(5)),
            ("if (n === 2) { 5 }", json!(5)),
            ("(() => { const result = 5; return 7 })()", json!(7)),
            ("({a: 1})", json!({"a": 1})),
            ("`text\nof two lines`", json!("text\nof two lines")),
            ("await 5", json!(5)),
            ("const x = await Promise.resolve(5); x + 1", json!(6)),
            ("const result = await (async () => 5)()", json!(5)),
            ("Promise.resolve(5)", json!(5)),
            ("result = Promise.resolve(5)", json!(5)),
            ("(async () => { await 0; return n })()", json!(2)),
            ("Promise.resolve().then(() => { result = 5 }); 7", json!(5)),
        ],
    );
}

#[test]
fn inputs_are_available_as_a_whole_and_as_one_variable_per_field() {
    let inputs =
        json!({"a": 1, "id": 7, "class": 2, "not a name": 3, "result": 4, "inputs": 5, "echo": 6, "Object": 8});
    let code = "[a, id, inputs['class'], inputs['not a name'], inputs.result, inputs.inputs, inputs.echo, typeof Object, echo({x: 1})]";
    assert_eq!(result(JAVASCRIPT, code, inputs), json!([1, 7, 2, 3, 4, 5, 6, "function", {"x": 1}]));
    assert_eq!(result(JAVASCRIPT, "const a = inputs.a + 1; a", json!({"a": 1})), json!(2));
    assert_eq!(result(JAVASCRIPT, "inputs", json!(null)), Value::Null);
}

#[test]
fn json_values_are_converted_without_loss() {
    let big = json!({"max": u64::MAX, "min": i64::MIN, "tenth": 0.1, "minus": -0.0});
    assert_eq!(result(JAVASCRIPT, "result = inputs", big.clone()), big);
    assert_eq!(result(JAVASCRIPT, "[max - 1n, min + 1n, tenth]", big), json!([u64::MAX - 1, i64::MIN + 1, 0.1]));
    assert_results(
        JAVASCRIPT,
        &[
            ("[undefined, null, , 1]", json!([null, null, null, 1])),
            ("({a: undefined, b: null})", json!({"b": null})),
            ("10n ** 19n", json!(10_000_000_000_000_000_000_u64)),
            ("2 ** 53 - 1", json!(9_007_199_254_740_991_i64)),
            ("1e21", json!(1e21)),
            ("new Date(0)", json!("1970-01-01T00:00:00.000Z")),
            ("({toJSON() { return {a: [this.b]} }, b: 1})", json!({"a": [1]})),
            ("class P { constructor() { this.x = 1 } get y() { return 2 } }; new P()", json!({"x": 1})),
            ("({get a() { return n }})", json!({"a": 2})),
            ("[new Number(1), new String('a')].map(x => x.valueOf())", json!([1, "a"])),
            ("Object.create(null)", json!({})),
            ("({[Symbol('hidden')]: 1, shown: 2})", json!({"shown": 2})),
            ("'😀'", json!("😀")),
        ],
    );
}

#[test]
fn error_for_a_result_that_is_not_json_states_the_cause() {
    assert_failures(
        JAVASCRIPT,
        &[
            ("NaN", "`NaN` cannot be converted to JSON", None),
            ("[1 / 0]", "`inf` cannot be converted to JSON", None),
            ("2n ** 64n", "more than 64 bits", None),
            ("-(2n ** 63n) - 1n", "more than 64 bits", None),
            ("() => 1", "a function cannot be converted to JSON; call it", None),
            ("Symbol('a')", "a symbol cannot be converted to JSON", None),
            ("new Map()", "type `Map` cannot be converted to JSON; use `Object.fromEntries`", None),
            ("new Set()", "type `Set` cannot be converted to JSON; use `Array.from`", None),
            ("new Uint8Array(2)", "type `Uint8Array` cannot be converted to JSON", None),
            ("new ArrayBuffer(2)", "type `ArrayBuffer` cannot be converted to JSON", None),
            ("/a/", "type `RegExp` cannot be converted to JSON", None),
            ("[Promise.resolve(1)]", "type `Promise` cannot be converted to JSON; await it", None),
            ("new Error('x')", "type `Error` cannot be converted to JSON", None),
            ("'\\ud800'", "a lone surrogate", None),
            ("({get a() { throw new TypeError('mine') }})", "TypeError: mine", Some(1)),
        ],
    );
}

#[test]
fn host_functions_accept_one_object_and_reject_other_arguments() {
    assert_results(
        JAVASCRIPT,
        &[
            ("echo()", json!({})),
            ("echo({a: 1, b: [n]})", json!({"a": 1, "b": [2]})),
            ("await echo({a: 1})", json!({"a": 1})),
            ("[1, 2].map(() => count())", json!([1, 2])),
            (
                "try { fail({}) } catch (e) { result = [e instanceof Error, e.message] }",
                json!([true, "`fail` is unavailable"]),
            ),
            (
                "try { echo(1) } catch (e) { result = e.message }",
                json!("`echo` takes an object of named arguments, got a number"),
            ),
            (
                "try { echo({}, {}) } catch (e) { result = e.message }",
                json!("`echo` takes one object, got 2 arguments"),
            ),
            (
                "try { echo({a: () => 1}) } catch (e) { result = e.message }",
                json!("a function cannot be converted to JSON; call it"),
            ),
            ("echo.name", json!("echo")),
        ],
    );
    assert_failures(JAVASCRIPT, &[("1;\nfail({})", "Error: `fail` is unavailable", Some(2))]);
}

#[test]
fn errors_contain_the_line_number() {
    assert_failures(
        JAVASCRIPT,
        &[
            ("1;\nlet = (", "SyntaxError", Some(2)),
            ("\n\nmissing", "ReferenceError: missing is not defined", Some(3)),
            ("function f() {\n  throw new RangeError('no')\n}\n\nf()", "RangeError: no", Some(2)),
            ("throw 'text'", "text", None),
            ("throw null", "null", None),
            ("await null;\n\nthrow new Error('later')", "Error: later", Some(3)),
            ("JSON.parse('{')", "SyntaxError", Some(1)),
            ("const x = 1\nconst x = 2", "SyntaxError", Some(2)),
            ("a\0b", "NUL", None),
        ],
    );
    let unparsed = run(JAVASCRIPT, &job("let x = (", json!({})));
    assert!(matches!(unparsed, Err(JobError::Code { .. })), "{unparsed:?}");
    let raised = run(JAVASCRIPT, &job("throw new SyntaxError('mine')", json!({})));
    assert!(matches!(raised, Err(JobError::Exception { .. })), "{raised:?}");
}

#[test]
fn printed_text_is_kept_when_the_code_fails() {
    let code = "print('a', 1, [2], {b: 3}); console.log(undefined, null, new Error('x'), Symbol('s')); 7";
    let output = run(JAVASCRIPT, &job(code, json!({}))).expect("the job must succeed");
    assert_eq!(
        (output.stdout.as_str(), output.result),
        ("a 1 [2] {\"b\":3}\nundefined null Error: x Symbol(s)\n", json!(7))
    );
    let failed = run(JAVASCRIPT, &job("print('so far'); missing", json!({})));
    assert!(matches!(failed, Err(JobError::Exception { ref stdout, .. }) if stdout == "so far\n"), "{failed:?}");
}

#[test]
fn running_a_job_twice_returns_the_same_result() {
    let code = "[Math.random(), Math.random(), new Date(0).getTime(), new Date(2020, 0) instanceof Date]";
    let (first, second) = (result(JAVASCRIPT, code, json!({})), result(JAVASCRIPT, code, json!({})));
    assert_eq!(first, second);
    assert_ne!(first[0], first[1]);
}
