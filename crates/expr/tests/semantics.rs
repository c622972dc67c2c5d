//! Semantics of the expression language: tables of expressions with their values.
#![allow(clippy::panic, clippy::unwrap_used, reason = "a test fails at the first unexpected error")]

use serde_json::{Value, json};
use toolwright_expr::{EvalError, EvalErrorKind, EvalLimits, Evaluation, Expression, Scope, evaluate};

fn data() -> Value {
    json!({
        "orderId": "o-1",
        "name": "Ada",
        "n": 7,
        "half": 0.5,
        "big": 18_446_744_073_709_551_615u64,
        "flag": true,
        "nothing": null,
        "items": [{"id": 1, "ok": true}, {"id": 2, "ok": false}, {"id": 3, "ok": true}],
        "tags": ["a", "b", "c"],
        "map": {"length": "own key", "x-y": 1, "b": 2},
        "validate": {"errors": ["e1"]},
        "text": "héllo",
    })
}

fn run(source: &str) -> Result<Evaluation, EvalError> {
    let data = data();
    let expression = Expression::parse(source).unwrap_or_else(|error| panic!("{source}: {error}"));
    expression.evaluate(&Scope::new(&data))
}

/// Checks that each expression evaluates to the value without a warning.
fn assert_values(cases: &[(&str, Value)]) {
    for (source, expected) in cases {
        let result = run(source).unwrap_or_else(|error| panic!("{source}: {error}"));
        assert_eq!(&result.value, expected, "{source}");
        assert_eq!(result.warnings, Vec::<String>::new(), "{source}");
    }
}

fn assert_fails(kind: EvalErrorKind, sources: &[&str]) {
    for source in sources {
        match run(source) {
            Ok(result) => panic!("{source} gave {}", result.value),
            Err(error) => assert_eq!(error.kind(), kind, "{source}: {error}"),
        }
    }
}

#[test]
fn templates_from_example_definitions_evaluate_without_warnings() {
    let scope = json!({
        "name": "n", "orderId": 5, "validate": {"errors": [1]}, "validationErrors": ["x"],
    });
    let cases = [
        ("${param.name}", json!("n")),
        ("${orderId}", json!(5)),
        ("${input.orderId}", json!(5)),
        ("${validate.errors.length > 0}", json!(true)),
        (
            "Order ${orderId} failed validation: ${validationErrors}. Determine resolution.",
            json!(r#"Order 5 failed validation: ["x"]. Determine resolution."#),
        ),
    ];
    for (source, expected) in cases {
        let result = evaluate(source, &scope).unwrap();
        assert_eq!((result.value, result.warnings), (expected, vec![]), "{source}");
    }
}

#[test]
fn literals_and_paths_evaluate_to_the_expected_values() {
    assert_values(&[
        ("null", json!(null)),
        ("-9223372036854775808", json!(i64::MIN)),
        ("18446744073709551615u", json!(u64::MAX)),
        ("0x1F", json!(31)),
        ("-0xA", json!(-10)),
        (".5 + 1e-1", json!(0.6)),
        (r#"'a\n\x41\u00e9\101\''"#, json!("a\nAéA'")),
        (r#"r'\d'"#, json!("\\d")),
        ("'''it's \"x\"\n'''", json!("it's \"x\"\n")),
        ("[1, 'a', null,]", json!([1, "a", null])),
        ("{'a': 1, 2: [true], false: null}", json!({"a": 1, "2": [true], "false": null})),
        ("param.items[0].id", json!(1)),
        ("items[2.0].id", json!(3)),
        ("map['x-y'] + map.`x-y`", json!(2)),
        ("{'a': {'b': 5}}.a.b", json!(5)),
        ("[[1, 2], [3]][0][1]", json!(2)),
        ("{1: 'a'}[1.0] + {2: 'b'}[2u]", json!("ab")),
        ("[,] == []", json!(true)),
        ("n // a comment\n + 1", json!(8)),
    ]);
}

#[test]
fn arithmetic_on_integers_gives_an_integer_and_on_mixed_numbers_a_double() {
    assert_values(&[
        ("1 == 1.0", json!(true)),
        ("1 + 0.5", json!(1.5)),
        ("7 / 2", json!(3)),
        ("-7 / 2", json!(-3)),
        ("-7 % 2", json!(-1)),
        ("7 / 2.0", json!(3.5)),
        ("2 * 3 + 4 * 5 - 1", json!(25)),
        ("10 - 2 - 3", json!(5)),
        ("n > half", json!(true)),
        ("1u < 2.5", json!(true)),
        ("9007199254740993 == 9007199254740992.0", json!(false)),
        ("big > 9223372036854775807", json!(true)),
        ("big - 1u", json!(u64::MAX - 1)),
        ("--n", json!(7)),
        ("-n", json!(-7)),
        ("-half", json!(-0.5)),
        ("[1, 2.0] == [1.0, 2]", json!(true)),
        ("2 in [1.0, 2.0]", json!(true)),
    ]);
    assert_fails(
        EvalErrorKind::Overflow,
        &[
            "9223372036854775807 + 1",
            "-9223372036854775808 - 1",
            "9223372036854775807 * 2",
            "-(-9223372036854775808)",
            "-9223372036854775808 / -1",
            "big + 1",
            "1e308 * 10.0",
        ],
    );
    assert_fails(EvalErrorKind::DivisionByZero, &["1 / 0", "1 % 0", "1.0 / 0.0", "1 / (n - 7)"]);
    assert_fails(
        EvalErrorKind::Type,
        &["5.0 % 2", "'a' + 1", "1 - 'a'", "-name", "nothing + 1", "{} + {}", "{'a': 1, 'a': 2}", "{1.5: 1}"],
    );
}

#[test]
fn values_of_different_types_can_be_tested_for_equality_but_not_ordered() {
    assert_values(&[
        ("1 == '1'", json!(false)),
        ("null == false", json!(false)),
        ("nothing == null", json!(true)),
        ("{'a': 1, 'b': 2} == {'b': 2.0, 'a': 1}", json!(true)),
        ("{'a': 1} != {'a': 2}", json!(true)),
        ("'a' < 'b' && 'Z' < 'a'", json!(true)),
        ("'\\uffff' < '\\U00010000'", json!(true)),
        ("false < true", json!(true)),
        ("1 <= 1.0 && 2 >= 1", json!(true)),
        ("'b' in tags", json!(true)),
        ("'x-y' in map", json!(true)),
        ("'zz' in map", json!(false)),
        ("[] in map", json!(false)),
    ]);
    assert_fails(EvalErrorKind::Type, &["1 < 'a'", "[1] < [2]", "null < 1", "nothing > 0", "1 in 2"]);
}

#[test]
fn logical_operator_ignores_errors_if_another_operand_decides_the_result() {
    assert_values(&[
        ("false && 1 / 0 == 0", json!(false)),
        ("1 / 0 == 0 && false", json!(false)),
        ("true || name", json!(true)),
        ("name || true", json!(true)),
        ("!flag", json!(false)),
        ("!!flag", json!(true)),
        ("flag ? 'y' : 'n'", json!("y")),
        ("false ? 1 : n == 7 ? 2 : 3", json!(2)),
        ("true ? 1 : 1 / 0", json!(1)),
        ("true || false && false", json!(true)),
    ]);
    assert_fails(EvalErrorKind::DivisionByZero, &["true && 1 / 0 == 0", "1 / 0 == 0 || false"]);
    assert_fails(EvalErrorKind::Type, &["!n", "n && true", "name ? 1 : 2", "false || null"]);
}

#[test]
fn length_is_the_size_of_a_value_without_a_field_named_length() {
    assert_values(&[
        ("map.length", json!("own key")),
        ("tags.length", json!(3)),
        ("validate.length", json!(1)),
        ("text.length", json!(5)),
        ("'héllo'.length", json!(5)),
        ("[1, 2].length + 1", json!(3)),
        ("has(tags.length)", json!(true)),
    ]);
}

#[test]
fn missing_path_is_null_with_a_warning() {
    let cases = [
        ("unknown", "`unknown` is missing; using null"),
        ("param.a", "`param.a` is missing; using null"),
        ("param.a.b.c", "`param.a` is missing; using null for `param.a.b.c`"),
        ("gone.errors.length", "`gone` is missing; using null for `gone.errors.length`"),
        ("items[9]", "`items[9]` is missing; using null"),
        ("items[-1].id", "`items[-1]` is missing; using null for `items[-1].id`"),
        ("map['q']", "`map[\"q\"]` is missing; using null"),
        ("name.first", "`name.first` is missing; using null"),
        ("n.length", "`n.length` is missing; using null"),
        ("nothing.x", "`nothing.x` is missing; using null"),
        ("tags.length.x", "`tags.length` is missing; using null for `tags.length.x`"),
        ("[1][4]", "`(…)[4]` is missing; using null"),
    ];
    for (source, warning) in cases {
        let result = run(source).unwrap_or_else(|error| panic!("{source}: {error}"));
        assert_eq!((result.value, result.warnings), (json!(null), vec![warning.to_owned()]), "{source}");
    }
    assert_fails(EvalErrorKind::Type, &["tags['a']", "name[0]", "map[[]]"]);
}

#[test]
fn equal_warnings_are_reported_once_and_at_most_32_are_kept() {
    let result = run("items.map(x, x.none)").unwrap();
    assert_eq!(result.value, json!([null, null, null]));
    assert_eq!(result.warnings, ["`x.none` is missing; using null"]);

    let list = (0..100).map(|i| format!("a{i}")).collect::<Vec<_>>().join(",");
    assert_eq!(run(&format!("[{list}]")).unwrap().warnings.len(), 32);
}

#[test]
fn has_macro_does_not_warn_about_missing_paths() {
    assert_values(&[
        ("has(param.name)", json!(true)),
        ("has(param.nothing)", json!(true)),
        ("has(param.a)", json!(false)),
        ("has(param.a.b.c)", json!(false)),
        ("has(gone.b)", json!(false)),
        ("has(items[0].ok)", json!(true)),
        ("has({'a': 1}.a)", json!(true)),
        ("has(param.a) ? param.a : 'default'", json!("default")),
    ]);
}

#[test]
fn comprehension_macros_iterate_over_list_items_and_map_keys() {
    assert_values(&[
        ("items.all(x, x.id > 0)", json!(true)),
        ("items.exists(x, x.id == 2)", json!(true)),
        ("items.exists_one(x, x.ok)", json!(false)),
        ("items.existsOne(x, !x.ok)", json!(true)),
        ("items.filter(x, x.ok).map(x, x.id)", json!([1, 3])),
        ("items.map(x, x.ok, x.id * 2)", json!([2, 6])),
        ("map.map(k, k)", json!(["length", "x-y", "b"])),
        ("{'a': 1, 'b': 2}.filter(k, k != 'a')", json!(["b"])),
        ("[].all(x, x)", json!(true)),
        ("[].exists(x, x)", json!(false)),
        ("[[1, 2], [3]].map(x, x.map(y, y + x.length))", json!([[3, 4], [4]])),
        ("[1].map(n, n)", json!([1])),
        ("[{'v': [1]}].map(x, x.v[0])", json!([1])),
        ("[1, 0].exists(x, 1 / x == 1)", json!(true)),
        ("[0, 2].all(x, 1 / x > 0)", json!(false)),
    ]);
    assert_fails(EvalErrorKind::Type, &["n.map(x, x)", "nothing.all(x, x)", "[1].filter(x, x)"]);
    assert_fails(EvalErrorKind::DivisionByZero, &["[0].all(x, 1 / x == 0)", "[0].map(x, 1 / x)"]);
}

#[test]
fn functions_return_their_results_and_reject_unsupported_types() {
    assert_values(&[
        ("size(tags) + size('é') + size({'a': 1}) + tags.size()", json!(8)),
        ("text.contains('éll') && name.startsWith('A') && name.endsWith('da')", json!(true)),
        ("name.matches('^A.a$') && matches(name, 'd')", json!(true)),
        ("tags.filter(t, t.matches('[' + 'ab' + ']'))", json!(["a", "b"])),
        ("string(1) + string(1.0) + string(1.5) + string(true) + string('s')", json!("111.5trues")),
        ("string([1, null])", json!("[1,null]")),
        ("[int('42'), int(-3.9), int(big - 18446744073709551610u), uint(3.2)]", json!([42, -3, 5, 3])),
        ("[double('1.5'), double(2)]", json!([1.5, 2.0])),
        ("[bool('true'), bool('0'), bool(false)]", json!([true, false, false])),
        (
            "[type(1), type(1.0), type('a'), type([]), type({}), type(null), type(true)]",
            json!(["int", "double", "string", "list", "map", "null", "bool"]),
        ),
        ("[min(3, 1.5, 2), max([1, 4, 2]), max('a', 'b'), min(5)]", json!([1.5, 4, "b", 5])),
        ("' aB '.trim().lowerAscii() + 'é'.upperAscii()", json!("abé")),
        ("'a,b,c'.split(',')", json!(["a", "b", "c"])),
        ("'a,b,c'.split(',', 2)", json!(["a", "b,c"])),
        ("'a,b'.split(',', 0)", json!([])),
        ("'aé'.split('')", json!(["a", "é"])),
        ("'abc'.split('', 2)", json!(["a", "bc"])),
        ("tags.join() + tags.join('-')", json!("abca-b-c")),
        ("dyn(n) + 1", json!(8)),
        ("{'a': 1, 'b': null, 'c': [2]}.omit(['a', 'gone', 7])", json!({ "b": null, "c": [2] })),
    ]);
    assert_fails(
        EvalErrorKind::Type,
        &[
            "size(1)",
            "n.contains('a')",
            "name.contains(1)",
            "min([])",
            "max(1, 'a')",
            "[1].join()",
            "n.omit([])",
            "{'a': 1}.omit('a')",
        ],
    );
    assert_fails(
        EvalErrorKind::Conversion,
        &["int('x')", "int(1e30)", "double('NaN')", "bool('yes')", "uint(-1)", "int(null)"],
    );
    assert_fails(EvalErrorKind::Pattern, &["name.matches('(' + '')"]);
}

#[test]
fn added_name_hides_the_input_field_of_the_same_name() {
    let input = json!({"step": "bare", "input": "own"});
    let step = json!({"out": 1});
    let scope = Scope::new(&input).with("step", &step);
    for (source, expected) in [
        ("step", &step),
        ("input.step", &json!("bare")),
        ("param", &input),
        ("input.input", &json!("own")),
        ("[1].map(step, step)[0]", &json!(1)),
    ] {
        let value = Expression::parse(source).unwrap().evaluate(&scope).unwrap().value;
        assert_eq!(&value, expected, "{source}");
    }
}

#[test]
fn evaluation_error_contains_line_and_column() {
    let error = run("n +\n  'ä' * 2").unwrap_err();
    assert_eq!(error.to_string(), "`*` cannot combine string and int; it takes two numbers at 2:9");
    assert_eq!(error.position().offset, 13);
}

#[test]
fn only_names_separated_by_dots_count_as_a_path() {
    for (source, is_path) in
        [("a", true), ("param.a.b", true), ("a[0]", false), ("a.b + 1", false), ("a.size()", false), ("'a'.b", false)]
    {
        assert_eq!(Expression::parse(source).unwrap().is_path(), is_path, "{source}");
    }
}

#[test]
fn evaluation_that_exceeds_a_limit_fails() {
    let list = json!({"list": (0..1000).collect::<Vec<_>>(), "long": "x".repeat(1_000_000)});
    let scope = Scope::new(&list);
    let hostile = [
        "list.all(a, list.all(b, true))",
        "list.map(a, list)",
        "list.map(a, list.map(b, list.map(c, c)))",
        "list.all(a, long == long)",
        "list.all(a, long.contains('y') == false)",
        "list.all(a, long.matches('y$') == false)",
        "list.all(a, long.length > 0)",
        "list.map(a, long)",
        "list.map(a, long + long)",
        "list.map(a, long.upperAscii())",
        "long.split('')",
        "list.all(a, long.matches(string(a)) == false)",
        "list.all(a, (list + list).length > 0)",
    ];
    for source in hostile {
        let result = Expression::parse(source).unwrap().evaluate(&scope);
        assert_eq!(result.unwrap_err().kind(), EvalErrorKind::Budget, "{source}");
    }
    let doubling = "[1].map(a, ['0123456789abcdef'].map(s, s+s+s+s+s+s+s+s).map(s, s+s+s+s+s+s+s+s).map(s, s+s+s+s+s+s+s+s)\
        .map(s, s+s+s+s+s+s+s+s).map(s, s+s+s+s+s+s+s+s).map(s, s+s+s+s+s+s+s+s).map(s, s+s+s+s+s+s+s+s))";
    let result = Expression::parse(doubling).unwrap().evaluate(&scope);
    assert_eq!(result.unwrap_err().kind(), EvalErrorKind::Budget);

    let small = EvalLimits { cost: 10, ..EvalLimits::default() };
    let sum = Expression::parse("1+1+1+1+1+1+1+1").unwrap();
    assert!(sum.evaluate(&scope).is_ok());
    assert_eq!(sum.evaluate_within(&scope, small).unwrap_err().kind(), EvalErrorKind::Budget);
    let shallow = EvalLimits { depth: 2, ..EvalLimits::default() };
    let deep = Expression::parse("[[[1]]]").unwrap();
    assert_eq!(deep.evaluate_within(&scope, shallow).unwrap_err().kind(), EvalErrorKind::Budget);
}

#[test]
fn exceeded_budget_is_an_error_even_if_another_operand_decides_the_result() {
    let list = json!({"list": (0..1000).collect::<Vec<_>>()});
    let source = "list.all(a, list.all(b, true)) || true";
    let result = Expression::parse(source).unwrap().evaluate(&Scope::new(&list));
    assert_eq!(result.unwrap_err().kind(), EvalErrorKind::Budget);
}

#[test]
fn evaluate_accepts_an_expression_or_template_and_rejects_a_scope_that_is_not_an_object() {
    let result = evaluate("a + 1", &json!({"a": 1})).unwrap();
    assert_eq!(serde_json::to_value(result).unwrap(), json!({"value": 2, "warnings": []}));
    assert_eq!(evaluate("${a}", &json!({"a": [1]})).unwrap().value, json!([1]));
    assert_eq!(
        evaluate("a", &json!([1])).unwrap_err().to_string(),
        "scope must be an object whose keys are the names that the expression uses, got list"
    );
}
