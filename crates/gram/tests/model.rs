//! What texts mean, and which names in them are wrong.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "helpers of tests")]

use serde_json::{Value as Json, json};
use toolwright_gram::{Code, Definitions, Pattern, check, parse, print};

fn meaning(text: &str) -> Pattern {
    parse(text).unwrap()
}

/// `first` and `second` are two ways to write the same.
fn same(first: &str, second: &str) {
    assert_eq!(meaning(first), meaning(second), "{first} and {second}");
}

#[test]
fn paths_are_relations() {
    same("(a)-[r]->(b)", "[r | a, b]");
    same("(a)<-[r]-(b)", "[r | b, a]");
    same("(a)-[r]-(b)", "[r | a, b]");
    same("(a)<-[r]->(b)", "[r | a, b]");
    same("(a)=[r:L {w: 1}]=>(b)", "[r:L {w: 1} | (a), (b)]");
    same("(a)-->(b)", "[ | a, b]");
    same("(a)-->(b)-->(c)", "[:Gram.Walk | [ | a, b], [ | b, c]]");
    same("(a)<-[r]-(b)-[s]->(c)", "[:Gram.Walk | [r | b, a], [s | b, c]]");
}

#[test]
fn annotations_are_patterns_around() {
    same("@k(1) (a)", "[{k: 1} | (a)]");
    same("@@x:L @k(1) @l(2) (a)-->(b)", "[x:L {k: 1, l: 2} | (a)-->(b)]");
}

#[test]
fn several_patterns_have_a_root() {
    same("(a) (b)", "[:Gram.Root | (a), (b)]");
    same("{k: 1} (a)", "[:Gram.Root {k: 1} | (a)]");
    same("{} (a)", "[:Gram.Root | (a)]");
    same("", "[:Gram.Root]");
    assert!(meaning("(a) (b)").is_root() && !meaning("(a)").is_root());
    assert_eq!(meaning("(a) (b)").members().len(), 2);
    assert_eq!(meaning("(a)").members().len(), 1);
}

#[test]
fn a_name_is_its_text_however_it_is_written() {
    same("(a)", "(`a`)");
    same("(7)", "(`7`)");
    same("(a:B::C)", "[a::C:`B`]");
    same("{a: 1, `b`: 2}", "{\"b\": 2, a: 1}");
}

#[test]
fn numbers_are_their_value() {
    same("{a: 0x1F, b: 017}", "{a: 31, b: 15}");
    same("{a: -0}", "{a: 0}");
    same("{a: 1.50}", "{a: 1.5}");
    let error = parse("(a {b: 9223372036854775808})").unwrap_err();
    assert_eq!(error.as_slice()[0].code, Code::NumberOutOfRange);
    assert!(parse("{a: -9223372036854775808}").is_ok());
    assert!(parse(&format!("{{a: {}.0}}", "9".repeat(400))).is_err());
}

#[test]
fn strings_are_their_text() {
    same("{a: 'x'}", "{a: \"x\"}");
    same("{a: \"a\\nb\"}", "{a: ```\na\nb```}");
    same("{a: md`x`}", "{a: ```md /** c */ // d\nx```}");
    same("{a: \"\\/\\/x\"}", "{a: \"//x\"}");
}

#[test]
fn json_is_what_the_other_implementations_write() {
    let pattern =
        meaning("[a:A {i: 1, d: 1.5, b: true, s: \"t\", y: sym, t: md`x`, r: 1..2, m: 5kg, l: [1], o: {k: 1}} | b]");
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
fn json_that_cannot_be_written_is_refused() {
    let property = |value: Json| json!({"subject": {"properties": {"k": value}}});
    let cases = [
        (property(json!(null)), "null is not a value; leave the property out"),
        (property(json!([])), "an array without items cannot be written"),
        (property(json!([[1]])), "arrays hold plain values, and maps do not nest"),
        (property(json!({"a": {"b": 1}})), "arrays hold plain values, and maps do not nest"),
        (property(json!(u64::MAX)), "number `18446744073709551615` is too large"),
        (property(json!({"type": "symbol", "value": "true"})), "not a value of type `symbol`"),
        (property(json!({"type": "range"})), "not a value of type `range`"),
        (property(json!({"type": "measurement", "unit": "k g", "value": 1})), "not a value of type `measurement`"),
        (property(json!({"type": "map", "value": 1})), "not a value of type `map`"),
    ];
    for (json, expected) in cases {
        assert_eq!(serde_json::from_value::<Pattern>(json).unwrap_err().to_string(), expected);
    }
    let nested = (0..60).fold(json!({"subject": {}}), |inner, _| json!({"subject": {}, "elements": [inner]}));
    let error = serde_json::from_value::<Pattern>(nested).unwrap_err();
    assert_eq!(error.to_string(), "patterns nested more than 48 deep");
}

#[test]
fn the_canonical_text_is_the_shortest_notation_that_fits() {
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
        assert_eq!(print(&meaning(text)), expected, "{text}");
    }
}

fn names(text: &str) -> Vec<String> {
    check(text, &Definitions::default()).iter().map(|mistake| mistake.to_string()).collect()
}

#[test]
fn a_name_is_defined_once() {
    assert_eq!(names("[a]\n[a]"), ["`a` is defined twice at 2:2; the first definition is at 1:2"]);
    assert_eq!(names("(a)-[r]->(b)\n(a)-[r]->(c)"), ["`r` is defined twice at 2:6; the first definition is at 1:6"]);
    assert_eq!(names("@@a (b) [a]"), ["`a` is defined twice at 1:10; the first definition is at 1:3"]);
    for fine in ["(a) (a:A)", "(a) [a | b] (b)", "(a)-[r]->(b) (a)-[r]->(b)", "[a | (b)] (b)", "[a] (a)-->(c)"] {
        assert_eq!(names(fine), Vec::<String>::new(), "{fine}");
    }
}

#[test]
fn a_reference_has_a_definition_before_or_after_or_elsewhere() {
    assert_eq!(names("[a | b]"), ["`b` is not defined at 1:6; define it as `[b …]` or `(b)`"]);
    for fine in ["[a | b] [b]", "[b] [a | b]", "[a | b] (b)-->(c)", "[a | r] (b)-[r]->(c)", "[a | x] @@x (b)"] {
        assert_eq!(names(fine), Vec::<String>::new(), "{fine}");
    }
    let other = meaning("[b:B]");
    assert_eq!(check("[a | b]", &Definitions::of([&other])), Vec::new());
}

#[test]
fn nothing_contains_itself() {
    assert_eq!(names("[a | a]"), ["`a` contains itself at 1:6"]);
    assert_eq!(names("[a | [b | a]]"), ["`a` contains itself at 1:11"]);
    assert_eq!(names("[a | b]\n[b | a]"), ["`a` contains itself at 2:6"]);
    assert_eq!(names("[a | (a)-->(b)]"), ["`a` contains itself at 1:7"]);
    assert_eq!(names("[name | (name::Text)]"), Vec::<String>::new(), "a parameter is a thing of its own");
}

#[test]
fn a_key_occurs_once() {
    let expected = ["key `b` occurs twice at 1:11; only the last one would count"];
    assert_eq!(names("(a {b: 1, `b`: 2})"), expected);
    assert_eq!(names("{a: {b: 1, b: 2}}").len(), 1);
}

#[test]
fn definitions_stand_in_for_references() {
    let text = meaning("[a:Agent | t, u] [t:Tool {description: \"d\"} | (p::Text)==>(::String)]");
    let definitions = Definitions::of([&text]);
    let agent = definitions.inline(definitions.get("a").unwrap());
    assert!(agent.elements[0].has_label("Tool"));
    assert!(agent.elements[1].is_reference(), "what is not known stays a name");
}
