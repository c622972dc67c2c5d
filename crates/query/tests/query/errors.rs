//! Errors of queries: each states its position, the broken rule and the remedy.

use serde_json::{Map, Value, json};
use toolwright_query::{
    BindContext, Field, MAX_CONDITIONS, MAX_ELEMENTS, MAX_LENGTH, MAX_NESTING, MAX_PATTERN, MAX_SEGMENTS, Projection,
    Query, Sort,
};

fn syntax_error(source: &str) -> String {
    match Query::parse(source) {
        Ok(query) => panic!("{source} was accepted as {query}"),
        Err(error) => error.to_string(),
    }
}

#[test]
fn syntax_error_explains_the_mistake_and_has_a_position() {
    let cases = [
        ("", "the query is empty; write a condition such as `status:open` at 1:1"),
        (" ", "the query is empty; write a condition such as `status:open` at 1:1"),
        ("a", "expected an operator such as `:` after `a`, found the end at 1:2"),
        ("a b c", "expected an operator such as `:` after `a b c`, found the end at 1:6"),
        (":x", "expected a condition such as `field:value`, found `:` at 1:1"),
        ("a:", "expected a value, found the end at 1:3"),
        ("a:b &&", "expected a condition such as `field:value`, found the end at 1:7"),
        ("&& a:b", "expected a condition such as `field:value`, found `&&` at 1:1"),
        ("a:b || || c:d", "expected a condition such as `field:value`, found `||` at 1:8"),
        (
            "a:b & c:d",
            "expected `&&`, `||` or the end, found `:`; put a value that contains `:` in quotes, and write `&&` or `||` between conditions at 1:8",
        ),
        (
            "a:b c:d",
            "expected `&&`, `||` or the end, found `:`; put a value that contains `:` in quotes, and write `&&` or `||` between conditions at 1:6",
        ),
        ("a:b | c:d", "`|` is not an operator; write `||` at 1:5"),
        ("(a:b", "expected `)` for the bracket opened at byte 0, found the end at 1:5"),
        ("a:b)", "expected `&&`, `||` or the end, found `)`; there is no matching opening bracket at 1:4"),
        ("(a:b))", "expected `&&`, `||` or the end, found `)`; there is no matching opening bracket at 1:6"),
        ("()", "expected a condition such as `field:value`, found `)` at 1:2"),
        ("!a:b", "`!` is not an operator; write `!!` before a condition, or `:!` after a field at 1:1"),
        ("!!", "expected a condition such as `field:value`, found the end at 1:3"),
        ("a=b", "`=` is not an operator; write `field:value` at 1:2"),
        ("a:=b", "`=` is not an operator; write `field:value` at 1:3"),
        ("a<5", "`<` is not an operator; write `field:<value` at 1:2"),
        ("a:\"open", "unterminated quoted text; close it with `\"` at 1:3"),
        ("a:\"two\nlines\"", "a quoted text must not contain a line break; close it with `\"` on the same line at 1:3"),
        ("a:\"nul\0\"", "a quoted text must not contain the character U+0000 at 1:3"),
        ("a:größe€", "`€` is not allowed in a bare word; put a value in quotes at 1:8"),
        ("größe€:a", "`€` is not allowed in a bare word; put a value in quotes at 1:6"),
        ("a:@@", "`@@` must be followed by the id of a record, as in `@@ord-1` or `@@\"ord 1\"` at 1:3"),
        ("a:@@ \"x\"", "`@@` must be followed by the id of a record, as in `@@ord-1` or `@@\"ord 1\"` at 1:3"),
        ("a:@@\"\"", "`@@` must be followed by the id of a record, as in `@@ord-1` or `@@\"ord 1\"` at 1:3"),
        ("hasEdge(owns, @@)", "`@@` must be followed by the id of a record, as in `@@ord-1` or `@@\"ord 1\"` at 1:15"),
        ("a:#", "expected digits after `#`; write a whole number as `#42`, a decimal one as `##19.99` at 1:3"),
        ("a:#x", "expected digits after `#`; write a whole number as `#42`, a decimal one as `##19.99` at 1:3"),
        ("a:##.5", "expected digits after `#`; write a whole number as `#42`, a decimal one as `##19.99` at 1:3"),
        ("a:#1.5", "expected `&&`, `||` or the end, found `.5`; write a decimal number as `##19.99` at 1:5"),
        (
            "a:#99999999999999999999",
            "`#99999999999999999999` does not fit in 64 bits; write `##99999999999999999999.0` at 1:3",
        ),
        ("a:##1.5.2", "expected `&&`, `||` or the end, found `.2`; write a decimal number as `##19.99` at 1:8"),
        ("a:>", "expected a value, found the end at 1:4"),
        ("a:>null", "`:>` requires a text, a number or a date; use `:` for other values at 1:4"),
        ("a:>true", "`:>` requires a text, a number or a date; use `:` for other values at 1:4"),
        ("a:>@@507f1f77bcf86cd799439011", "`:>` requires a text, a number or a date; use `:` for other values at 1:4"),
        ("a:>x*", "`:>` requires a text, a number or a date; use `:` for other values at 1:4"),
        ("a:^[]", "expected a value, found `]`; a list must have at least one value at 1:5"),
        ("a:^[a,]", "expected a value, found `]` at 1:7"),
        ("a:^[a b:c]", "expected `]` or `,` in the list opened at byte 3, found `:` at 1:8"),
        ("a:^[null]", "`null` is not allowed in a list; write `field:null || field:^[…]` at 1:5"),
        ("a:^[a*]", "wildcards are not allowed in a list; write `field:a* || field:b*` at 1:5"),
        ("a:[x]", "expected a value, found `[`; write a list as `a:^[a, b]` at 1:3"),
        ("a:!{b:c}", "expected a value, found `{`; write `!!a:{…}` for no such element at 1:4"),
        ("a:{b:c", "expected `}` for the brace opened at byte 2, found the end at 1:7"),
        ("a:{}", "expected a condition such as `field:value`, found `}` at 1:4"),
        ("a:*", "`*` alone matches every text; write `field:~` for a field that has a value at 1:3"),
        ("a:!*", "`*` alone matches every text; write `field:~` for a field that has a value at 1:4"),
        ("a:*~cs", "`*` alone matches every text; write `field:~` for a field that has a value at 1:3"),
        ("a:#1~cs", "expected `&&`, `||` or the end, found `~cs`; it is allowed only after a text at 1:5"),
        ("a:2024-01-01~ci", "expected `&&`, `||` or the end, found `~ci`; it is allowed only after a text at 1:13"),
        (
            "a:2024-02-31",
            "`2024-02-31` is not a valid date; write `2024-01-31` or `2024-01-31T10:00:00Z`, or quote it as a text at 1:3",
        ),
        (
            "a:2024-01-01T25:00:00",
            "`2024-01-01T25:00:00` is not a valid date; write `2024-01-31` or `2024-01-31T10:00:00Z`, or quote it as a text at 1:3",
        ),
        (
            "a:2024-01-01T10:00",
            "expected `&&`, `||` or the end, found `:`; put a value that contains `:` in quotes, and write `&&` or `||` between conditions at 1:16",
        ),
        ("a:${}", "expected a variable such as `${name}`: letters, digits and `_` in braces at 1:3"),
        ("a:${1x}", "expected a variable such as `${name}`: letters, digits and `_` in braces at 1:3"),
        ("a:${x.y}", "expected a variable such as `${name}`: letters, digits and `_` in braces at 1:3"),
        ("a:$x", "expected a variable such as `${name}`: letters, digits and `_` in braces at 1:3"),
        ("a:${x", "expected a variable such as `${name}`: letters, digits and `_` in braces at 1:3"),
        (
            "a..b:c",
            "the names in path `a..b` must not be empty or begin or end with a space; write a path such as `address.city` at 1:1",
        ),
        (
            ".a:b",
            "the names in path `.a` must not be empty or begin or end with a space; write a path such as `address.city` at 1:1",
        ),
        (
            "a.:b",
            "the names in path `a.` must not be empty or begin or end with a space; write a path such as `address.city` at 1:1",
        ),
        (
            "a. b:c",
            "the names in path `a. b` must not be empty or begin or end with a space; write a path such as `address.city` at 1:1",
        ),
        (
            "foo(a)",
            "unknown function `foo`; expected one of text, expand, hasEdge, hasOutgoingEdge, hasIncomingEdge at 1:1",
        ),
        ("text()", "expected the search words, found `)` at 1:6"),
        ("text(\"\")", "`text(…)` must contain at least one word at 1:6"),
        ("text(\"  \")", "`text(…)` must contain at least one word at 1:6"),
        ("text(a) && text(b)", "a query must contain at most one `text(…)`; put all words into one at 1:12"),
        ("a:b || text(c)", "`text(…)` is not allowed inside `||`; join it to the query with `&&` at 1:8"),
        ("(a:b && text(c)) || d:e", "`text(…)` is not allowed inside `||`; join it to the query with `&&` at 1:9"),
        ("!!text(a)", "`text(…)` is not allowed after `!!`; join it to the query with `&&` at 1:3"),
        ("a:{text(b)}", "`text(…)` is not allowed inside `{…}`; join it to the query with `&&` at 1:4"),
        ("expand(a, text(b))", "`text(…)` is not allowed inside `expand(…)`; join it to the query with `&&` at 1:11"),
        ("expand()", "expected the path of related records, as in `expand(customer)`, found `)` at 1:8"),
        (
            "expand(a..b)",
            "the names in path `a..b` must not be empty or begin or end with a space; write a path such as `address.city` at 1:8",
        ),
        ("hasEdge(a)", "expected `,` between the relation and the record at its other end, found `)` at 1:10"),
        ("hasEdge(a, )", "expected the record at the other end, found `)` at 1:12"),
        ("hasEdge(#1, b)", "expected the name of a relation, found `#1` at 1:9"),
        ("fields:[]", "expected a field such as `+name` or `-name`, found `]` at 1:9"),
        ("fields:[+]", "expected a field such as `+name` or `-name`, found `]` at 1:10"),
        ("a:!b~xx", "`~` is not an operator; write `~cs` or `~ci` after a text, `:~` after a field at 1:5"),
        (
            "a:b ? c",
            "expected `&&`, `||` or the end, found `?`; wildcards are allowed only in a text after `:` or `:!` at 1:5",
        ),
        (
            "a:foo* bar*",
            "expected `&&`, `||` or the end, found `bar`; write `&&` or `||` between conditions, and put a value with other characters in quotes at 1:8",
        ),
        ("a:b && (c:d || e:f", "expected `)` for the bracket opened at byte 7, found the end at 1:19"),
        ("a:b\n&& c:d\n&& =", "`=` is not an operator; write `field:value` at 3:4"),
        ("a:x;y", "`;` is not allowed in a bare word; put a value in quotes at 1:4"),
        ("text:~ (", "expected `&&`, `||` or the end, found `(`; put a value that contains brackets in quotes at 1:8"),
    ];
    for (source, expected) in cases {
        assert_eq!(syntax_error(source), expected, "{source}");
    }
}

#[test]
fn error_position_has_line_column_and_offset() {
    let error = Query::parse("name:\"é\" &&\n \"é\"").unwrap_err();
    let position = error.position();
    assert_eq!((position.line, position.column, position.offset), (2, 2, 14));
    assert_eq!(error.message(), "expected a condition such as `field:value`, found a quoted text");
}

#[test]
fn queries_beyond_the_limits_are_rejected() {
    let cases = [
        (
            format!("a:\"{}\"", "x".repeat(MAX_LENGTH)),
            format!("a query must be at most {MAX_LENGTH} bytes, got {}", MAX_LENGTH + 4),
        ),
        (
            vec!["a:b"; MAX_CONDITIONS + 1].join("&&"),
            "a query must have at most 200 conditions; use a list such as `field:^[a, b]`".into(),
        ),
        (format!("{}:x", vec!["a"; MAX_SEGMENTS + 1].join(".")), "a path must have at most 16 names".into()),
        (format!("a:{}*", "x".repeat(MAX_PATTERN)), "a search text must have at most 1000 characters".into()),
        (format!("text({})", "x".repeat(MAX_PATTERN + 1)), "a search text must have at most 1000 characters".into()),
        (format!("a:##{}.0", "9".repeat(400)), format!("`##{}…` is too large for a number", "9".repeat(40))),
        (
            "a:{".repeat(1000),
            format!("element matches must be nested at most {MAX_ELEMENTS} levels deep; use a longer path before `{{`"),
        ),
        ("(".repeat(1000), format!("a query must be nested at most {MAX_NESTING} levels deep; split it")),
    ];
    for (source, expected) in cases {
        let error = Query::parse(&source).unwrap_err();
        assert_eq!(error.message(), expected);
    }
}

#[test]
fn queries_at_the_limits_are_accepted() {
    let (nesting, elements) = (usize::from(MAX_NESTING), usize::from(MAX_ELEMENTS));
    let cases = [
        format!("a:\"{}\"", "x".repeat(MAX_LENGTH - 4)),
        vec!["a:b"; MAX_CONDITIONS].join("||"),
        format!("{}:x", vec!["a"; MAX_SEGMENTS].join(".")),
        format!("a:{}*", "x".repeat(MAX_PATTERN - 1)),
        format!("a:{}", "?".repeat(MAX_PATTERN)),
        format!("{}a:b{}", "(".repeat(nesting), ")".repeat(nesting)),
        format!("{}a:b", "!!".repeat(nesting)),
        format!("{}a:b{}", "a:{".repeat(elements), "}".repeat(elements)),
    ];
    for source in cases {
        let query = Query::parse(&source).unwrap();
        query.bind(&BindContext::empty()).unwrap().matches(&json!({"a": "b"}));
    }
}

/// A test thread has 2 MiB of stack. Parsing must not overflow the stack and must finish quickly.
#[test]
fn malformed_queries_of_up_to_a_million_bytes_are_rejected() {
    let units = [
        "(",
        "!!",
        "a:{",
        "((((a:b||",
        "a:b&&",
        "a:b||",
        "\"",
        "\"\"",
        "#",
        "*",
        "?",
        "a ",
        "a & ",
        "&",
        " ",
        "\n",
        "$",
        "${",
        "a:^[",
        "a:^[a,",
        "expand(",
        "expand(a,",
        "é",
        "a.",
        "[*]",
        "\0",
        "2024-01-01T",
        "a:*a",
    ];
    for unit in units {
        for length in [MAX_LENGTH, 1_000_000] {
            let source = unit.repeat(length / unit.len());
            assert!(Query::parse(&source).is_err(), "{unit}");
        }
    }
}

#[test]
fn unbound_and_unsupported_variables_are_rejected() {
    let Value::Object(variables) = json!({
        "null": null, "list": [1], "object": {}, "deep": [[1]], "nul": "a\u{0}", "flag": true, "blank": "  ",
        "long": "x ".repeat(600),
    }) else {
        panic!()
    };
    let cases = [
        ("a:${x}", "unresolved variable `${x}`"),
        ("a:^[${x}]", "unresolved variable `${x}`"),
        ("a:^[b, ${x}]", "unresolved variable `${x}`"),
        ("a:${null}", "variable `${null}` must be a text, a number or a boolean, got null"),
        ("a:^[${null}]", "variable `${null}` must be a text, a number, a boolean or a list of them, got null"),
        ("a:${list}", "variable `${list}` must be a text, a number or a boolean, got a list"),
        ("a:>${object}", "variable `${object}` must be a text, a number or a boolean, got an object"),
        ("a:^[${deep}]", "variable `${deep}` must be a text, a number, a boolean or a list of them, got a list"),
        ("a:${nul}", "variable `${nul}` must be a text, a number or a boolean, got a text with the character U+0000"),
        ("a:^[${nul}]", "variable `${nul}` must be a text, got a text with the character U+0000"),
        ("a:>${flag}", "variable `${flag}` must be a text or a number, got a boolean"),
        ("text(${blank})", "variable `${blank}` must contain at least one word"),
        ("text(${long})", "variable `${long}` must be a text of at most 1000 characters, got a longer text"),
        ("hasEdge(owns, x)", "relation `hasEdge(owns, x)` is not resolved"),
        ("b:c || !!hasIncomingEdge(\"o w\", x)", "relation `hasIncomingEdge(o w, x)` is not resolved"),
        ("hasEdge(${x}, y)", "unresolved variable `${x}`"),
    ];
    for (source, expected) in cases {
        let error = Query::parse(source).unwrap().bind(&BindContext::new(&variables)).unwrap_err();
        assert_eq!(error.to_string(), expected, "{source}");
    }
    let nothing = Map::new();
    assert!(Query::parse("a:${x}").unwrap().bind(&BindContext::new(&nothing)).is_err());
}

#[test]
fn invalid_sort_orders_and_projections_are_rejected_with_their_position() {
    let sorts = [
        ("", "`` is not a field; write names of letters, digits and `_ / @ ' -`, separated by dots at 1:1"),
        ("a,b:up", "`up` is not a direction; write `asc` or `desc` at 1:3"),
        ("a,,b", "`` is not a field; write names of letters, digits and `_ / @ ' -`, separated by dots at 1:3"),
        ("a,b,c,d,e,f,g,h,i", "a sort order must have at most 8 fields at 1:17"),
        (
            "a;DROP TABLE x",
            "`a;DROP TABLE x` is not a field; write names of letters, digits and `_ / @ ' -`, separated by dots at 1:1",
        ),
    ];
    for (source, expected) in sorts {
        assert_eq!(Sort::parse(source).unwrap_err().to_string(), expected, "{source}");
    }
    let parts = [
        ("", "expected a field such as `+name` or `-name`, found the end at 1:1"),
        ("[a", "expected `]` after the fields, found the end at 1:3"),
        ("a, #1", "expected a field such as `+name` or `-name`, found `#1` at 1:4"),
        ("a:b", "expected `,` or the end, found `:` at 1:2"),
    ];
    for (source, expected) in parts {
        assert_eq!(Projection::parse(source).unwrap_err().to_string(), expected, "{source}");
    }
    assert_eq!(
        Field::parse("a\"b").unwrap_err().to_string(),
        "`a\"b` is not a field; write names of letters, digits and `_ / @ ' -`, separated by dots"
    );
}
