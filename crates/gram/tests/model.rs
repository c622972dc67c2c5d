//! Tests of parsing, JSON, printing and name checks.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "test helpers")]

use serde_json::{Value as Json, json};
use toolwright_gram::{DefinitionIndex, DiagnosticCode, Pattern, check, parse, print};

fn parsed(text: &str) -> Pattern {
    parse(text).unwrap()
}

/// Asserts that two texts are parsed to the same pattern.
fn assert_same(first: &str, second: &str) {
    assert_eq!(parsed(first), parsed(second), "{first} and {second}");
}

#[test]
fn arrows_are_parsed_as_relations() {
    assert_same("(a)-[r]->(b)", "[r | a, b]");
    assert_same("(a)<-[r]-(b)", "[r | b, a]");
    assert_same("(a)-[r]-(b)", "[r | a, b]");
    assert_same("(a)<-[r]->(b)", "[r | a, b]");
    assert_same("(a)=[r:L {w: 1}]=>(b)", "[r:L {w: 1} | (a), (b)]");
    assert_same("(a)-->(b)", "[ | a, b]");
    assert_same("(a)-->(b)-->(c)", "[:Gram.Walk | [ | a, b], [ | b, c]]");
    assert_same("(a)<-[r]-(b)-[s]->(c)", "[:Gram.Walk | [r | b, a], [s | b, c]]");
}

#[test]
fn annotations_are_parsed_as_enclosing_patterns() {
    assert_same("@k(1) (a)", "[{k: 1} | (a)]");
    assert_same("@@x:L @k(1) @l(2) (a)-->(b)", "[x:L {k: 1, l: 2} | (a)-->(b)]");
}

#[test]
fn document_with_several_patterns_is_parsed_into_a_root_pattern() {
    assert_same("(a) (b)", "[:Gram.Root | (a), (b)]");
    assert_same("{k: 1} (a)", "[:Gram.Root {k: 1} | (a)]");
    assert_same("{} (a)", "[:Gram.Root | (a)]");
    assert_same("", "[:Gram.Root]");
    assert!(parsed("(a) (b)").is_root() && !parsed("(a)").is_root());
    assert_eq!(parsed("(a) (b)").members().len(), 2);
    assert_eq!(parsed("(a)").members().len(), 1);
}

#[test]
fn quoted_and_unquoted_names_are_equal() {
    assert_same("(a)", "(`a`)");
    assert_same("(7)", "(`7`)");
    assert_same("(a:B::C)", "[a::C:`B`]");
    assert_same("{a: 1, `b`: 2}", "{\"b\": 2, a: 1}");
}

#[test]
fn numbers_in_different_notations_are_equal_by_value() {
    assert_same("{a: 0x1F, b: 017}", "{a: 31, b: 15}");
    assert_same("{a: -0}", "{a: 0}");
    assert_same("{a: 1.50}", "{a: 1.5}");
    let error = parse("(a {b: 9223372036854775808})").unwrap_err();
    assert_eq!(error.as_slice()[0].code, DiagnosticCode::NumberOutOfRange);
    assert!(parse("{a: -9223372036854775808}").is_ok());
    assert!(parse(&format!("{{a: {}.0}}", "9".repeat(400))).is_err());
}

#[test]
fn strings_with_different_quotes_are_equal() {
    assert_same("{a: 'x'}", "{a: \"x\"}");
    assert_same("{a: \"a\\nb\"}", "{a: ```\na\nb```}");
    assert_same("{a: md`x`}", "{a: ```md /** c */ // d\nx```}");
    assert_same("{a: \"\\/\\/x\"}", "{a: \"//x\"}");
}

#[test]
fn each_value_type_has_the_documented_json_form() {
    let pattern =
        parsed("[a:A {i: 1, d: 1.5, b: true, s: \"t\", y: sym, t: md`x`, r: 1..2, m: 5kg, l: [1], o: {k: 1}} | b]");
    let expected = json!({
        "subject": {
            "identity": "a",
            "labels": ["A"],
            "properties": {
                "b": true, "d": 1.5, "i": 1, "l": [1], "m": {"type": "measurement", "unit": "kg", "value": 5}, "o": {"k": 1},
                "r": {"type": "range", "lower": 1, "upper": 2}, "s": "t",
                "t": {"type": "tagged", "tag": "md", "content": "x"}, "y": {"type": "symbol", "value": "sym"},
            },
        },
        "elements": [{"subject": {"identity": "b", "labels": [], "properties": {}}, "elements": []}],
    });
    assert_eq!(serde_json::to_value(&pattern).unwrap(), expected);
    assert_eq!(serde_json::from_value::<Pattern>(expected).unwrap(), pattern);
}

#[test]
fn json_that_gram_cannot_express_is_rejected() {
    let property = |value: Json| json!({"subject": {"properties": {"k": value}}});
    let cases = [
        (property(json!(null)), "null is not allowed; omit the property"),
        (property(json!([])), "array must not be empty"),
        (property(json!([[1]])), "arrays must contain only scalars, and maps must not contain maps"),
        (property(json!({"a": {"b": 1}})), "arrays must contain only scalars, and maps must not contain maps"),
        (property(json!(u64::MAX)), "number `18446744073709551615` is out of range"),
        (property(json!({"type": "symbol", "value": "true"})), "object is not a valid value of type `symbol`"),
        (property(json!({"type": "range"})), "object is not a valid value of type `range`"),
        (
            property(json!({"type": "measurement", "unit": "k g", "value": 1})),
            "object is not a valid value of type `measurement`",
        ),
        (property(json!({"type": "map", "value": 1})), "object is not a valid value of type `map`"),
    ];
    for (json, expected) in cases {
        assert_eq!(serde_json::from_value::<Pattern>(json).unwrap_err().to_string(), expected);
    }
    let nested = (0..60).fold(json!({"subject": {}}), |inner, _| json!({"subject": {}, "elements": [inner]}));
    let error = serde_json::from_value::<Pattern>(nested).unwrap_err();
    assert_eq!(error.to_string(), "patterns must not nest more than 48 levels deep");
}

#[test]
fn printed_text_is_the_canonical_notation_of_the_pattern() {
    let cases = [
        ("[r:L | a, b]", "(a)-[r:L]->(b)\n"),
        ("[:Gram.Walk | [ | a, b], [ | c, b]]", "(a)-->(b)<--(c)\n"),
        ("[:Gram.Walk | [ | a, b], [ | c, d]]", "[:Gram.Walk | (a)-->(b), (c)-->(d)]\n"),
        ("[a]", "(a)\n"),
        ("@k(1) (a)", "[{k: 1} | (a)]\n"),
        ("{} (a)", "{}\n(a)\n"),
        ("[x | a] (a:A)", "[x | a]\n(a:A)\n"),
        ("[a:Agent | t, u]", "[a:Agent | t, u]\n"),
        ("[t:Tool | (p::Text)-->(n::Int)-->(::String)]", "[t:Tool | (p::Text)==>(n::Int)==>(::String)]\n"),
        ("(`a b`:`c d` {`e f`: 'g'})", "(`a b`:`c d` {`e f`: \"g\"})\n"),
        ("{a: -0xF}", "{a: -0xF}\n"),
        ("{a: 100000000000000000000.0}", "{a: 100000000000000000000.0}\n"),
    ];
    for (text, expected) in cases {
        assert_eq!(print(&parsed(text)), expected, "{text}");
    }
}

fn name_errors(text: &str) -> Vec<String> {
    check(text, &DefinitionIndex::default()).iter().map(|error| error.to_string()).collect()
}

#[test]
fn duplicate_definition_is_reported_by_check() {
    assert_eq!(name_errors("[a]\n[a]"), ["`a` is defined more than once at 2:2; the first definition is at 1:2"]);
    assert_eq!(
        name_errors("(a)-[r]->(b)\n(a)-[r]->(c)"),
        ["`r` is defined more than once at 2:6; the first definition is at 1:6"]
    );
    assert_eq!(name_errors("@@a (b) [a]"), ["`a` is defined more than once at 1:10; the first definition is at 1:3"]);
    for fine in ["(a) (a:A)", "(a) [a | b] (b)", "(a)-[r]->(b) (a)-[r]->(b)", "[a | (b)] (b)", "[a] (a)-->(c)"] {
        assert_eq!(name_errors(fine), Vec::<String>::new(), "{fine}");
    }
}

#[test]
fn reference_without_a_definition_is_reported_by_check() {
    assert_eq!(name_errors("[a | b]"), ["`b` is not defined at 1:6; define it as `[b …]` or `(b)`"]);
    for fine in ["[a | b] [b]", "[b] [a | b]", "[a | b] (b)-->(c)", "[a | r] (b)-[r]->(c)", "[a | x] @@x (b)"] {
        assert_eq!(name_errors(fine), Vec::<String>::new(), "{fine}");
    }
    let other = parsed("[b:B]");
    assert_eq!(check("[a | b]", &DefinitionIndex::from_patterns([&other])), Vec::new());
}

#[test]
fn pattern_that_contains_itself_is_reported_by_check() {
    assert_eq!(name_errors("[a | a]"), ["`a` contains itself at 1:6"]);
    assert_eq!(name_errors("[a | [b | a]]"), ["`a` contains itself at 1:11"]);
    assert_eq!(name_errors("[a | b]\n[b | a]"), ["`a` contains itself at 2:6"]);
    assert_eq!(name_errors("[a | (a)-->(b)]"), ["`a` contains itself at 1:7"]);
    assert_eq!(
        name_errors("[name | (name::Text)]"),
        Vec::<String>::new(),
        "a parameter is independent of the pattern that contains it"
    );
}

#[test]
fn duplicate_key_is_reported_by_check() {
    let expected = ["key `b` is duplicated at 1:11; only the last value is used"];
    assert_eq!(name_errors("(a {b: 1, `b`: 2})"), expected);
    assert_eq!(name_errors("{a: {b: 1, b: 2}}").len(), 1);
}

#[test]
fn inline_replaces_known_references_by_their_definitions() {
    let text = parsed("[a:Agent | t, u] [t:Tool {description: \"d\"} | (p::Text)==>(::String)]");
    let definitions = DefinitionIndex::from_patterns([&text]);
    let agent = definitions.inline(definitions.get("a").unwrap());
    assert!(agent.elements[0].has_label("Tool"));
    assert!(agent.elements[1].is_reference(), "an unknown reference is not replaced");
}
