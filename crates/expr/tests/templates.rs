//! Tests of templates for text, JSON text and JSON values.
#![allow(clippy::panic, clippy::unwrap_used, reason = "a test fails at the first unexpected error")]

use serde_json::{Value, json};
use toolwright_expr::{EvalErrorKind, JsonTextTemplate, Scope, Template, ValueTemplate, escape, escape::EscapeError};

fn input() -> Value {
    json!({"id": 7, "name": "Ada \"A\" \\ Ü\n", "list": [1, "x"], "object": {"k": null}, "none": null})
}

fn text(source: &str) -> String {
    let input = input();
    let template = Template::parse(source).unwrap_or_else(|error| panic!("{source}: {error}"));
    template.render(&Scope::new(&input), escape::text).unwrap().text
}

#[test]
fn text_template_replaces_placeholders_and_unescapes_doubled_dollars() {
    for (source, expected) in [
        ("", ""),
        ("plain $ $$ {x} }", "plain $ $$ {x} }"),
        ("a${id}b${ id + 1 }c", "a7b8c"),
        ("$${id}", "${id}"),
        ("$$${id}", "$${id}"),
        ("${'$'}${id}", "$7"),
        ("${ {'a': '}'}.a }!", "}!"),
        ("${ '${' }", "${"),
        ("${list} ${object} ${none}.", "[1,\"x\"] {\"k\":null} ."),
        ("é${id}é", "é7é"),
    ] {
        assert_eq!(text(source), expected, "{source}");
    }
}

#[test]
fn invalid_placeholder_is_rejected_with_its_position_in_the_whole_text() {
    for (source, expected) in [
        ("ab ${id", "`${` is not closed; add `}`, or write `$${` for a literal `${` at 1:4"),
        ("ab ${", "`${` is not closed; add `}`, or write `$${` for a literal `${` at 1:4"),
        ("ab\n  ${id +}", "expected a value, found the end at 2:9"),
        ("ab ${}", "the expression is empty; write a path such as `param.name` at 1:6"),
        ("ü ${it's}", "unterminated string; close it with `'` at 1:7"),
        ("${a ${b}}", "`$` is not allowed in an expression; write names without `${…}` at 1:5"),
    ] {
        assert_eq!(Template::parse(source).unwrap_err().to_string(), expected, "{source}");
    }
}

#[test]
fn template_reports_whether_it_is_literal_or_a_single_expression() {
    let literal = Template::parse("a $${b}").unwrap();
    assert!(literal.is_literal());
    assert_eq!(literal.literal(), Some("a ${b}"));
    assert!(literal.single().is_none());

    let single = Template::parse("${ id }").unwrap();
    assert!(!single.is_literal());
    assert_eq!(single.single().unwrap().source(), " id ");

    let mixed = Template::parse("${id} ").unwrap();
    assert!(mixed.single().is_none() && !mixed.is_literal());
    assert_eq!(mixed.expressions().count(), 1);
}

#[test]
fn template_with_a_single_expression_keeps_the_type_of_its_value() {
    let input = input();
    let scope = Scope::new(&input);
    let value = |source: &str| Template::parse(source).unwrap().evaluate(&scope).unwrap().value;
    assert_eq!(value("${list}"), json!([1, "x"]));
    assert_eq!(value("${id}"), json!(7));
    assert_eq!(value("${id} "), json!("7 "));
}

#[test]
fn missing_value_gives_a_warning_and_evaluation_error_has_a_position() {
    let input = input();
    let scope = Scope::new(&input);
    let rendered = Template::parse("[${gone}]").unwrap().render(&scope, escape::text).unwrap();
    assert_eq!(rendered.text, "[]");
    assert_eq!(rendered.warnings, ["`gone` is missing; using null"]);

    let error = Template::parse("ab ${1/0}").unwrap().render(&scope, escape::text).unwrap_err();
    assert_eq!((error.kind(), error.position().column), (EvalErrorKind::DivisionByZero, 8));

    let error = Template::parse("X: ${name}").unwrap().render(&scope, escape::header).unwrap_err();
    assert_eq!(
        error.to_string(),
        "`${name}`: a value in a header must not contain the control character `\\n`; remove it first at 1:6"
    );
    let reject = |_: &Value| Err(EscapeError::new("not today"));
    let error = Template::parse("${id}").unwrap().render(&scope, reject).unwrap_err();
    assert_eq!((error.kind(), error.message()), (EvalErrorKind::Escape, "`${id}`: not today"));
}

#[test]
fn rendered_text_counts_against_the_output_limit() {
    let input = json!({"long": "x".repeat(1_000_000)});
    let template = Template::parse(&"${long}".repeat(20)).unwrap();
    let error = template.render(&Scope::new(&input), escape::text).unwrap_err();
    assert_eq!(error.kind(), EvalErrorKind::Budget);
}

#[test]
fn json_text_template_escapes_values_inside_strings_and_writes_json_outside() {
    let input = input();
    let scope = Scope::new(&input);
    for (source, expected) in [
        (r#"{"a": ${id}, "b": "${id}"}"#, json!({"a": 7, "b": "7"})),
        (r#"{"a": ${name}, "b": "<${name}>"}"#, json!({"a": input["name"], "b": "<Ada \"A\" \\ Ü\n>"})),
        (r#"{"a": ${none}, "b": "${none}"}"#, json!({"a": null, "b": ""})),
        (r#"{"a": ${list}, "b": "${list}"}"#, json!({"a": [1, "x"], "b": "[1,\"x\"]"})),
        (r#"{"\"${id}": "\\${id}\u0041${id}"}"#, json!({"\"7": "\\7A7"})),
        (r#"{${string(id)}: 1}"#, json!({"7": 1})),
        (r#"["$${x}", "${ "a" + 'b' }"]"#, json!(["${x}", "ab"])),
        ("${object}", json!({"k": null})),
        ("[1, 2]", json!([1, 2])),
    ] {
        let template = JsonTextTemplate::parse(source).unwrap_or_else(|error| panic!("{source}: {error}"));
        let rendered = template.render(&scope).unwrap_or_else(|error| panic!("{source}: {error}"));
        assert_eq!(serde_json::from_str::<Value>(&rendered.text).unwrap(), expected, "{source}");
    }
}

#[test]
fn json_text_template_with_invalid_json_is_rejected() {
    for (source, column) in [
        (r#"{"a": ${id}"#, 11),
        (r#"{"a" ${id}}"#, 6),
        (r#"{"a": 1${id}}"#, 8),
        (r#"["x${id}]"#, 9),
        (r#"["\${id}"]"#, 4),
        (r#"["\u00${id}"]"#, 7),
        (r#"[$${x}]"#, 2),
        ("[1e99999]", 8),
        ("", 1),
    ] {
        let error = JsonTextTemplate::parse(source).expect_err(source);
        assert_eq!(error.position().column, column, "{source}: {error}");
    }
    let input = input();
    let keyed = JsonTextTemplate::parse("{${id}: 1}").unwrap();
    let error = keyed.render(&Scope::new(&input)).unwrap_err();
    assert_eq!(error.kind(), EvalErrorKind::InvalidJson);
}

#[test]
fn rendered_value_template_keeps_value_types_and_key_order() {
    let input = input();
    let template = json!({
        "plain": {"a": [1, null, "text"]},
        "typed": "${list}",
        "text": "id ${id}",
        "escaped": "$${id}",
        "deep": [{"x": "${object.k}"}, true],
        "k${id}": "${id + 1}",
    });
    let rendered = ValueTemplate::compile(&template).unwrap().render(&Scope::new(&input)).unwrap();
    assert_eq!(rendered.warnings, Vec::<String>::new());
    assert_eq!(
        rendered.value,
        json!({
            "plain": {"a": [1, null, "text"]},
            "typed": [1, "x"],
            "text": "id 7",
            "escaped": "${id}",
            "deep": [{"x": null}, true],
            "k7": 8,
        })
    );
    let keys: Vec<&String> = rendered.value.as_object().unwrap().keys().collect();
    assert_eq!(keys, ["plain", "typed", "text", "escaped", "deep", "k7"]);
}

#[test]
fn value_template_without_expressions_is_literal() {
    assert!(ValueTemplate::compile(&json!({"a": ["b", {"c": 1}]})).unwrap().is_literal());
    assert!(!ValueTemplate::compile(&json!({"a": ["b", {"${c}": 1}]})).unwrap().is_literal());
}

#[test]
fn value_template_errors_contain_the_json_pointer() {
    let error = ValueTemplate::compile(&json!({"a/b": [0, "x ${"]})).unwrap_err();
    assert_eq!(error.pointer(), Some("/a~1b/1"));
    assert_eq!(error.to_string(), "`${` is not closed; add `}`, or write `$${` for a literal `${` at `/a~1b/1` 1:3");
    let error = ValueTemplate::compile(&json!({"a": {"${": 1}})).unwrap_err();
    assert_eq!(error.pointer(), Some("/a/${"));

    let input = input();
    let template = ValueTemplate::compile(&json!({"a": [{"b": "n: ${id / 0}"}]})).unwrap();
    let error = template.render(&Scope::new(&input)).unwrap_err();
    assert_eq!((error.pointer(), error.position().column), (Some("/a/0/b"), 11));
}

#[test]
fn two_keys_that_render_to_the_same_text_give_a_warning() {
    let input = input();
    let template = ValueTemplate::compile(&json!({"${id}": 1, "7": 2})).unwrap();
    let rendered = template.render(&Scope::new(&input)).unwrap();
    assert_eq!(rendered.value, json!({"7": 2}));
    assert_eq!(rendered.warnings, ["two keys render to `7`; using the later one"]);
}

#[test]
fn value_template_nested_200_levels_is_rejected() {
    let deep = (0..200).fold(json!("${id}"), |inner, _| json!([inner]));
    assert!(ValueTemplate::compile(&deep).is_err());
}
