//! Tests of JSONPath selectors and response mappings.
#![allow(clippy::panic, clippy::unwrap_used, reason = "a test fails at the first unexpected error")]

use serde_json::{Value, json};
use toolwright_budget::within;
use toolwright_expr::{EvalErrorKind, JsonPath, Mapping, Scope};

fn document() -> Value {
    json!({
        "a": [0, 1, 2, 3, 4, 5],
        "s": ["ab", "b", "abc"],
        "m": [{"x": 1}, {"y": 2}, {"x": null}],
        "n": [[1, 2], [3], []],
        "status": "ok",
    })
}

#[test]
fn selectors_return_the_nodes_that_rfc_9535_requires() {
    let document = document();
    for (selector, expected) in [
        ("$.a[5:1:-2]", json!([5, 3])),
        ("$.a[::-1]", json!([5, 4, 3, 2, 1, 0])),
        ("$.a[::0]", json!([])),
        ("$.a[-2:]", json!([4, 5])),
        ("$.a[0, 0]", json!([0, 0])),
        ("$.m[?@.x == @.absent]", json!([{"y": 2}])),
        ("$.m[?@.x != @.absent]", json!([{"x": 1}, {"x": null}])),
        ("$.m[?@.x == null]", json!([{"x": null}])),
        ("$.m[?!@.x]", json!([{"y": 2}])),
        ("$.n..*", json!([[1, 2], [3], [], 1, 2, 3])),
        ("$.s[?match(@, 'a.')]", json!(["ab"])),
        ("$.s[?search(@, '^b')]", json!(["b"])),
        ("$.s[?match(@, '[')]", json!([])),
        ("$.n[?count(@[*]) > 1]", json!([[1, 2]])),
        ("$.n[?length(@) == 1]", json!([[3]])),
        ("$.m[?value(@..x) == 1]", json!([{"x": 1}])),
        ("$.a[?@ >= 2 && @ < 4 || @ == 5.0]", json!([2, 3, 5])),
        ("$['\\u0061'][-1]", json!([5])),
    ] {
        let path = JsonPath::parse(selector).unwrap_or_else(|error| panic!("{selector}: {error}"));
        let nodes = path.query(&document).unwrap();
        assert_eq!(json!(nodes), expected, "{selector}");
    }
}

#[test]
fn invalid_selectors_are_rejected_with_their_position() {
    for (selector, column) in
        [("", 1), ("a", 1), ("$.a[01]", 6), ("$.a ", 4), ("$.a[?foo(@)]", 6), ("$.a[?length(@.*) == 1]", 6)]
    {
        let error = JsonPath::parse(selector).expect_err(selector);
        assert_eq!(error.position().column, column, "{selector}: {error}");
    }
}

#[test]
fn selector_with_an_invalid_escape_sequence_is_rejected() {
    for selector in [r"$['\u']", r"$['\u12']", r"$['\uea5T']", r"$['\q']", r"$['a\", "$['$\\\\\\\\\\u\u{a954}"] {
        let error = JsonPath::parse(selector).expect_err(selector);
        assert!(error.to_string().contains("four hexadecimal digits"), "{selector}: {error}");
    }
    for selector in [r"$['\u00e9\n\t\\']", r#"$["a\"b"]"#, r"$['it\'s']"] {
        assert!(JsonPath::parse(selector).is_ok(), "{selector}");
    }
}

#[test]
fn query_that_visits_or_selects_too_many_nodes_is_stopped_with_an_error() {
    for (open, close) in [("(", ")"), ("[?@", "]"), ("!(", ")"), ("length(", ")"), ("[?", "]"), ("[?@.a[?", "]]")] {
        for count in [1, 5, 30, 100, 1000] {
            let selector = format!("$[?{}@.a{}]", open.repeat(count), close.repeat(count));
            let _ = JsonPath::parse(&selector);
            let _ = JsonPath::parse(&format!("$[?{}", open.repeat(count)));
        }
    }
    let deep = (0..120).fold(json!(1), |inner, _| json!([inner]));
    let wide = json!((0..20_000).collect::<Vec<_>>());
    let selectors = [
        ("$..*..*..*..*..*..*", &deep),
        (
            "$[*,*][*,*][*,*][*,*][*,*][*,*][*,*][*,*][*,*][*,*][*,*][*,*][*,*][*,*][*,*][*,*][*,*][*,*][*,*][*,*][*,*]",
            &deep,
        ),
        ("$[?count($[?count($.*) > 1]) > 1]", &wide),
        ("$[?count($..*) > 1]", &wide),
        ("$[?$ == $]", &wide),
    ];
    for (selector, document) in selectors {
        let path = JsonPath::parse(selector).unwrap();
        let error = path.query(document).expect_err(selector).to_string();
        assert!(error.contains("at most 20000000 steps") || error.contains("select less"), "{error}");
    }
    // A filter that only tests whether a node exists stops at the first node.
    assert_eq!(JsonPath::parse("$[?$[?$.*]]").unwrap().query(&wide).unwrap().len(), 20_000);
}

/// Returns the number of steps that a query is charged.
fn steps(selector: &str, document: &Value) -> u64 {
    let path = JsonPath::parse(selector).unwrap();
    let is_enough = |steps: &u64| within(*steps, || path.query(document)).is_ok();
    let most = (0..40).map(|power| 1 << power).find(is_enough).unwrap();
    // A bisection finds the exact number of steps.
    let (mut low, mut high) = (most / 2, most);
    while low + 1 < high {
        let middle = low.midpoint(high);
        if is_enough(&middle) { high = middle } else { low = middle }
    }
    high
}

#[test]
fn literal_pattern_and_pattern_that_all_nodes_share_are_compiled_once() {
    let words = json!(vec!["a"; 1_000]);
    // The pattern is expensive to compile and cheap to match.
    let literal = steps(&format!("$[?search(@, '{}')]", "(a|b)".repeat(200)), &words);
    assert!(literal < 50_000, "{literal}");
    // A pattern that is the same for all nodes is compiled once. Different patterns are compiled for each node.
    let same: Value = (0..1_000).map(|_| json!({ "text": "a", "pattern": "[ab]" })).collect();
    let different: Value = (0..1_000).map(|n| json!({ "text": "a", "pattern": format!("[a{n}]") })).collect();
    let selector = "$[?search(@.text, @.pattern)]";
    assert!(steps(selector, &same) < 20_000, "{}", steps(selector, &same));
    assert!(steps(selector, &different) > 1_000_000, "{}", steps(selector, &different));
}

#[test]
fn literal_pattern_that_is_too_large_is_rejected() {
    let error = JsonPath::parse("$[?search(@, '(a{0,60}b{0,60}c{0,60}){0,20}')]").unwrap_err();
    assert!(error.message().contains("at most 262144 bytes when compiled"), "{error}");
    assert_eq!(error.position().column, 4);
}

#[test]
fn regex_search_charges_steps_for_the_length_of_the_text() {
    let text = json!(["a".repeat(1 << 20)]);
    assert!(steps("$[?search(@, 'b')]", &text) > 1 << 20);
    let tests = vec!["search(@, 'b')"; 100].join("||");
    assert!(JsonPath::parse(&format!("$[?{tests}]")).unwrap().query(&text).is_err());
}

#[test]
fn selector_that_can_match_at_most_one_node_is_singular() {
    for singular in
        ["$", "$.a", "$ .a [0]", "$['a b']", "$[\"a']\"].b", "$['it\\'s']", "$.a[-1].ü", "$[ 'a' ]", "$['?']"]
    {
        assert!(JsonPath::parse(singular).unwrap().is_singular(), "{singular}");
    }
    for plural in ["$.*", "$[*]", "$..a", "$[0,1]", "$[0:1]", "$[:]", "$[?@.a]", "$.a[*].b", "$['a','b']"] {
        assert!(!JsonPath::parse(plural).unwrap().is_singular(), "{plural}");
    }
}

#[test]
fn mapping_can_be_a_selector_or_an_expression_or_a_template() {
    let response = document();
    let input = json!({"status": "of the input", "limit": 3});
    let scope = Scope::new(&input);
    for (mapping, expected) in [
        ("$", response.clone()),
        ("$.status", json!("ok")),
        ("$.a[:2]", json!([0, 1])),
        ("$.m[*].x", json!([1, null])),
        ("$.none[*]", json!([])),
        ("${response.status}", json!("ok")),
        ("${body.a[1]}", json!(1)),
        ("${a.filter(x, x > limit)}", json!([4, 5])),
        ("size(a)", json!(6)),
        ("status", json!("ok")),
        ("input.status", json!("of the input")),
        ("Status ${status}", json!("Status ok")),
    ] {
        let result = Mapping::parse(mapping).unwrap().apply(&response, &scope);
        let result = result.unwrap_or_else(|error| panic!("{mapping}: {error}"));
        assert_eq!((result.value, result.warnings), (expected, vec![]), "{mapping}");
    }
}

#[test]
fn mapping_to_a_missing_node_gives_null_and_a_warning() {
    let (response, input) = (document(), json!({}));
    let result = Mapping::parse("$.data.id").unwrap().apply(&response, &Scope::new(&input)).unwrap();
    assert_eq!(result.value, json!(null));
    assert_eq!(result.warnings, ["`$.data.id` matches nothing in the response; using null"]);
}

#[test]
fn invalid_mapping_fails_to_parse_and_division_by_zero_fails_on_apply() {
    for mapping in ["", "$.", "$[", "${", "$x", "a +", "$${a} ${"] {
        assert!(Mapping::parse(mapping).is_err(), "{mapping}");
    }
    let (response, input) = (document(), json!({}));
    let error = Mapping::parse("1 / 0").unwrap().apply(&response, &Scope::new(&input)).unwrap_err();
    assert_eq!(error.kind(), EvalErrorKind::DivisionByZero);
}
