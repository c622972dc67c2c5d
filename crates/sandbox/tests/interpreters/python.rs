//! The embedded Python interpreter.

use serde_json::{Value, json};
use toolwright_sandbox::{JobError, JobLimits, Language, Limit};

use crate::{assert_failures, assert_results, job, result, run};

const PYTHON: Language = Language::Python;

#[test]
fn job_result_is_the_variable_named_result_or_else_the_last_expression() {
    assert_results(
        PYTHON,
        &[
            ("", Value::Null),
            ("\n\n", Value::Null),
            ("# nothing", Value::Null),
            ("1 + 1", json!(2)),
            ("1 + 1\n", json!(2)),
            ("1 + 1  # a comment", json!(2)),
            ("1 + 1;", json!(2)),
            ("x = 1; x + 1", json!(2)),
            ("x = 5", Value::Null),
            ("result = 5", json!(5)),
            ("result = 5\n7", json!(5)),
            ("result = None\n7", Value::Null),
            ("result: int = 5", json!(5)),
            ("x = result = 5", json!(5)),
            ("(result := 5)", json!(5)),
            ("result, other = 5, 6", json!(5)),
            ("result = 1\nresult += 4", json!(5)),
            ("for result in range(6):\n    pass", json!(5)),
            ("if n == 2:\n    result = 5", json!(5)),
            ("if n == 3:\n    result = 5\nn", json!(2)),
            ("def f():\n    result = 5\n    return 7\nf()", json!(7)),
            ("def f():\n    global result\n    result = 5\nf()", json!(5)),
            ("\"\"\"text\nof two lines\"\"\"", json!("text\nof two lines")),
            ("x = '''\nresult\n'''\nx", json!("\nresult\n")),
            ("1 + \\\n1", json!(2)),
            ("(1 +\n 1\n)", json!(2)),
            ("[\n  1,\n  2, # two\n]", json!([1, 2])),
            ("if n:\n    n", Value::Null),
            ("while False:\n    pass\nelse:\n    result = 3", json!(3)),
            ("try:\n    1 / 0\nexcept ZeroDivisionError:\n    result = 'caught'", json!("caught")),
            ("def result():\n    return 1\nresult = result()", json!(1)),
            ("result = [x * n for x in range(3)]", json!([0, 2, 4])),
            ("result = 5\r\nresult + 1", json!(5)),
        ],
    );
}

#[test]
fn inputs_are_available_as_a_whole_and_as_one_variable_per_field() {
    let inputs = json!({"a": 1, "id": 7, "class": 2, "not a name": 3, "result": 4, "inputs": 5, "echo": 6});
    let code =
        "[a, id, inputs['class'], inputs['not a name'], inputs['result'], inputs['inputs'], inputs['echo'], echo(x=1)]";
    assert_eq!(result(PYTHON, code, inputs), json!([1, 7, 2, 3, 4, 5, 6, {"x": 1}]));
    assert_eq!(result(PYTHON, "inputs", json!(null)), Value::Null);
}

#[test]
fn json_values_are_converted_without_loss() {
    let big = json!({"max": u64::MAX, "min": i64::MIN, "tenth": 0.1, "minus": -0.0, "whole": 1.0});
    assert_eq!(result(PYTHON, "result = inputs", big.clone()), big);
    assert_eq!(
        result(PYTHON, "[max - 1, min + 1, type(whole) is float]", big),
        json!([u64::MAX - 1, i64::MIN + 1, true])
    );
    assert_results(
        PYTHON,
        &[
            ("(1, 2)", json!([1, 2])),
            ("{'a': (1, [2])}", json!({"a": [1, [2]]})),
            ("True", json!(true)),
            ("10 ** 19", json!(10_000_000_000_000_000_000_u64)),
            ("2 ** 63 - 2 ** 62", json!(4_611_686_018_427_387_904_i64)),
        ],
    );
}

#[test]
fn error_for_a_result_that_is_not_json_states_a_remedy() {
    assert_failures(
        PYTHON,
        &[
            ("{1, 2}", "type `set` cannot be converted to JSON; use `sorted`", None),
            ("b'x'", "type `bytes` cannot be converted to JSON; use `.decode()`", None),
            ("{1: 2}", "key of type `int` cannot be converted to JSON", None),
            ("{None: 2}", "key of type `NoneType` cannot be converted to JSON", None),
            ("float('nan')", "`nan` cannot be converted to JSON", None),
            ("[float('-inf')]", "`-inf` cannot be converted to JSON", None),
            ("2 ** 64", "more than 64 bits", None),
            ("-2 ** 63 - 1", "more than 64 bits", None),
            ("len", "cannot be converted to JSON", None),
            ("lambda: 1", "cannot be converted to JSON", None),
            ("...", "type `ellipsis` cannot be converted to JSON", None),
            ("class A:\n    pass\nA()", "cannot be converted to JSON", None),
            (
                "from datetime import date\ndate(2020, 1, 2)",
                "type `date` cannot be converted to JSON; use `.isoformat()`",
                None,
            ),
        ],
    );
}

#[test]
fn host_functions_take_keyword_arguments_or_a_dict() {
    assert_results(
        PYTHON,
        &[
            ("echo()", json!({})),
            ("echo(a=1, b=[n])", json!({"a": 1, "b": [2]})),
            ("echo({'a': 1})", json!({"a": 1})),
            ("[count() for _ in range(3)]", json!([1, 2, 3])),
            ("f = echo\nf(x=1)['x']", json!(1)),
            ("def f(x):\n    return echo(x=x)['x']\n[f(x) for x in [1, 2]]", json!([1, 2])),
            ("try:\n    fail()\nexcept Exception as e:\n    result = str(e)", json!("`fail` is unavailable")),
            (
                "try:\n    echo(1)\nexcept TypeError as e:\n    result = str(e)",
                json!("`echo` takes keyword arguments or one dict"),
            ),
            ("try:\n    echo(a={1})\nexcept TypeError as e:\n    result = 'no sets'", json!("no sets")),
        ],
    );
    assert_failures(PYTHON, &[("x = 1\nfail()", "RuntimeError: `fail` is unavailable", Some(2))]);
}

#[test]
fn errors_contain_the_line_number() {
    assert_failures(
        PYTHON,
        &[
            ("x = 1\ny = (", "SyntaxError", Some(2)),
            ("x = 1\n  y = 2", "SyntaxError", Some(2)),
            ("\n\n1 / 0", "ZeroDivisionError: division by zero", Some(3)),
            ("def f():\n    return missing\n\nf()", "NameError: name 'missing' is not defined", Some(2)),
            ("raise ValueError('no')", "ValueError: no", Some(1)),
            ("x = '''\n\n'''\n[][1]", "IndexError", Some(4)),
            ("raise SyntaxError('mine')", "SyntaxError: mine", Some(1)),
            ("raise TimeoutError('mine')", "TimeoutError: mine", Some(1)),
        ],
    );
    let unparsed = run(PYTHON, &job("x = (", json!({})));
    assert!(matches!(unparsed, Err(JobError::Code { .. })), "{unparsed:?}");
    let raised = run(PYTHON, &job("raise SyntaxError('mine')", json!({})));
    assert!(matches!(raised, Err(JobError::Exception { .. })), "{raised:?}");
}

#[test]
fn printed_text_is_kept_when_the_code_fails() {
    let output =
        run(PYTHON, &job("print('a', 1, [2], sep='-', end='!')\nprint()\n7", json!({}))).expect("the job must succeed");
    assert_eq!((output.stdout.as_str(), output.result), ("a-1-[2]!\n", json!(7)));
    let failed = run(PYTHON, &job("print('so far')\n1 / 0", json!({})));
    assert!(matches!(failed, Err(JobError::Exception { ref stdout, .. }) if stdout == "so far\n"), "{failed:?}");
}

#[test]
fn recursion_over_the_limit_fails_unless_the_code_catches_the_error() {
    let mut deep = job("def f(n): return 0 if n == 0 else 1 + f(n - 1)\nf(90)", json!({}));
    deep.limits = JobLimits { depth: 100, ..JobLimits::default() };
    assert_eq!(run(PYTHON, &deep).expect("the recursion is within the limit").result, json!(90));
    deep.code = deep.code.replace("90", "110");
    assert_eq!(run(PYTHON, &deep), Err(JobError::Limit { limit: Limit::Depth }));
    deep.code = format!("try:\n    {}\nexcept RecursionError:\n    result = 'caught'", "f = lambda: f(); f()");
    assert_eq!(run(PYTHON, &deep).expect("the code catches the error").result, json!("caught"));
}

/// `docs/sandbox.md` lists these features. If a later version of the interpreter supports one of them, this test fails
/// and the page needs an update.
#[test]
fn unsupported_python_features_have_an_error_message() {
    let unparsed = "does not yet support";
    assert_failures(
        PYTHON,
        &[
            ("class A:\n    pass\nclass B(A):\n    pass", unparsed, Some(3)),
            ("class E(Exception):\n    pass", unparsed, Some(1)),
            ("def g():\n    yield 1", unparsed, Some(2)),
            ("match 1:\n    case 1:\n        pass", unparsed, Some(1)),
            ("x = {'a': 1}\ndel x['a']", unparsed, Some(2)),
            ("class A:\n    @property\n    def p(self): return 1", unparsed, Some(2)),
            ("class A:\n    @staticmethod\n    def s(): return 1", unparsed, Some(2)),
            ("try:\n    pass\nexcept* ValueError:\n    pass", unparsed, Some(1)),
            ("'%d' % 1", "unsupported operand", Some(1)),
            ("{'a': 1} | {'b': 2}", "unsupported operand", Some(1)),
            ("next(x for x in [1])", "not an iterator", Some(1)),
            ("class A:\n    def __add__(self, o): return 1\nA() + 1", "unsupported operand", Some(3)),
            ("class A:\n    def __len__(self): return 1\nlen(A())", "has no len", Some(3)),
            ("class A:\n    def __getitem__(self, i): return 1\nA()[0]", "not subscriptable", Some(3)),
            ("class A:\n    def __call__(self): return 1\nA()()", "not callable", Some(3)),
            ("class A:\n    def __lt__(self, o): return True\nA() < A()", "not supported", Some(3)),
            ("callable(len)", "NameError", Some(1)),
            ("bytearray(b'')", "NameError", Some(1)),
            ("complex(1, 2)", "NameError", Some(1)),
            ("import functools\nfunctools.lru_cache", "no attribute", Some(2)),
            ("import itertools\nitertools.groupby", "no attribute", Some(2)),
            ("from dataclasses import asdict", "cannot import name", Some(1)),
            ("import random", "No module named", Some(1)),
            ("import decimal", "No module named", Some(1)),
            ("import csv", "No module named", Some(1)),
            ("import hashlib", "No module named", Some(1)),
            ("import statistics", "No module named", Some(1)),
            ("import string", "No module named", Some(1)),
            ("import time", "No module named", Some(1)),
            ("import uuid", "No module named", Some(1)),
            ("import enum", "No module named", Some(1)),
            ("import copy", "No module named", Some(1)),
            ("import heapq", "No module named", Some(1)),
            ("import urllib.parse", "No module named", Some(1)),
            ("import zoneinfo", "No module named", Some(1)),
            ("list(map(lambda x: echo(x=x), [1]))", "'echo' is not yet supported in this context", Some(1)),
            ("sorted([1, 2], key=lambda x: count())", "'count' is not yet supported in this context", Some(1)),
            ("await echo()", "can't be awaited", Some(1)),
        ],
    );
    assert_eq!(result(PYTHON, "class A:\n    def __bool__(self): return False\nbool(A())", json!({})), json!(true));
}

#[test]
fn documented_modules_can_be_imported() {
    for module in [
        "asyncio",
        "base64",
        "binascii",
        "collections",
        "dataclasses",
        "datetime",
        "functools",
        "itertools",
        "json",
        "math",
        "os",
        "pathlib",
        "re",
        "sys",
        "typing",
        "unicodedata",
    ] {
        assert_eq!(result(PYTHON, &format!("import {module}\n1"), json!({})), json!(1));
    }
}
