//! What is not a query; every refusal says where and what would be right.

use serde_json::{Map, Value, json};
use toolwright_query::{
    Field, MAX_CONDITIONS, MAX_ELEMENTS, MAX_LENGTH, MAX_NESTING, MAX_PATTERN, MAX_SEGMENTS, Projection, Query, Scope,
    Sort,
};

fn refusal(source: &str) -> String {
    match Query::parse(source) {
        Ok(query) => panic!("{source} was accepted as {query}"),
        Err(error) => error.to_string(),
    }
}

#[test]
fn refusals_say_where_and_what_would_be_right() {
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
            "expected `&&`, `||` or the end, found `:`; a value that holds `:` needs quotes, and conditions need `&&` or `||` between them at 1:8",
        ),
        (
            "a:b c:d",
            "expected `&&`, `||` or the end, found `:`; a value that holds `:` needs quotes, and conditions need `&&` or `||` between them at 1:6",
        ),
        ("a:b | c:d", "`|` is not an operator; write `||` at 1:5"),
        ("(a:b", "expected `)` for the bracket opened at byte 0, found the end at 1:5"),
        ("a:b)", "expected `&&`, `||` or the end, found `)`; nothing is open here that it could close at 1:4"),
        ("(a:b))", "expected `&&`, `||` or the end, found `)`; nothing is open here that it could close at 1:6"),
        ("()", "expected a condition such as `field:value`, found `)` at 1:2"),
        ("!a:b", "`!` is not an operator; write `!!` before a condition, or `:!` after a field at 1:1"),
        ("!!", "expected a condition such as `field:value`, found the end at 1:3"),
        ("a=b", "`=` is not an operator; write `field:value` at 1:2"),
        ("a:=b", "`=` is not an operator; write `field:value` at 1:3"),
        ("a<5", "`<` is not an operator; write `field:<value` at 1:2"),
        ("a:\"open", "the quoted text that begins here does not end; close it with `\"` at 1:3"),
        ("a:\"two\nlines\"", "a quoted text cannot hold a line break; close it with `\"` on the same line at 1:3"),
        ("a:\"nul\0\"", "a quoted text cannot hold the character U+0000 at 1:3"),
        ("a:größe€", "`€` cannot stand in a bare word; put a value in quotes at 1:8"),
        ("größe€:a", "`€` cannot stand in a bare word; put a value in quotes at 1:6"),
        ("a:@@", "`@@` stands before the id of a record, as in `@@ord-1` or `@@\"ord 1\"` at 1:3"),
        ("a:@@ \"x\"", "`@@` stands before the id of a record, as in `@@ord-1` or `@@\"ord 1\"` at 1:3"),
        ("a:@@\"\"", "`@@` stands before the id of a record, as in `@@ord-1` or `@@\"ord 1\"` at 1:3"),
        ("hasEdge(owns, @@)", "`@@` stands before the id of a record, as in `@@ord-1` or `@@\"ord 1\"` at 1:15"),
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
        ("a:>null", "`:>` compares with a text, a number or a date; use `:` here at 1:4"),
        ("a:>true", "`:>` compares with a text, a number or a date; use `:` here at 1:4"),
        ("a:>@@507f1f77bcf86cd799439011", "`:>` compares with a text, a number or a date; use `:` here at 1:4"),
        ("a:>x*", "`:>` compares with a text, a number or a date; use `:` here at 1:4"),
        ("a:^[]", "expected a value, found `]`; a list has at least one at 1:5"),
        ("a:^[a,]", "expected a value, found `]` at 1:7"),
        ("a:^[a b:c]", "expected `]` or `,` in the list opened at byte 3, found `:` at 1:8"),
        ("a:^[null]", "`null` cannot stand in a list; write `field:null || field:^[…]` at 1:5"),
        ("a:^[a*]", "wildcards cannot stand in a list; write `field:a* || field:b*` at 1:5"),
        ("a:[x]", "expected a value, found `[`; write a list as `a:^[a, b]` at 1:3"),
        ("a:!{b:c}", "expected a value, found `{`; write `!!a:{…}` for no such element at 1:4"),
        ("a:{b:c", "expected `}` for the brace opened at byte 2, found the end at 1:7"),
        ("a:{}", "expected a condition such as `field:value`, found `}` at 1:4"),
        ("a:*", "`*` alone stands for every text; write `field:~` for a field that has a value at 1:3"),
        ("a:!*", "`*` alone stands for every text; write `field:~` for a field that has a value at 1:4"),
        ("a:*~cs", "`*` alone stands for every text; write `field:~` for a field that has a value at 1:3"),
        (
            "a:#1~cs",
            "expected `&&`, `||` or the end, found `~cs`; it follows a text that is compared, nothing else at 1:5",
        ),
        (
            "a:2024-01-01~ci",
            "expected `&&`, `||` or the end, found `~ci`; it follows a text that is compared, nothing else at 1:13",
        ),
        (
            "a:2024-02-31",
            "`2024-02-31` is not a date that exists; write `2024-01-31` or `2024-01-31T10:00:00Z`, or quote it as a text at 1:3",
        ),
        (
            "a:2024-01-01T25:00:00",
            "`2024-01-01T25:00:00` is not a date that exists; write `2024-01-31` or `2024-01-31T10:00:00Z`, or quote it as a text at 1:3",
        ),
        (
            "a:2024-01-01T10:00",
            "expected `&&`, `||` or the end, found `:`; a value that holds `:` needs quotes, and conditions need `&&` or `||` between them at 1:16",
        ),
        ("a:${}", "expected a variable such as `${name}`: letters, digits and `_` in braces at 1:3"),
        ("a:${1x}", "expected a variable such as `${name}`: letters, digits and `_` in braces at 1:3"),
        ("a:${x.y}", "expected a variable such as `${name}`: letters, digits and `_` in braces at 1:3"),
        ("a:$x", "expected a variable such as `${name}`: letters, digits and `_` in braces at 1:3"),
        ("a:${x", "expected a variable such as `${name}`: letters, digits and `_` in braces at 1:3"),
        (
            "a..b:c",
            "the path `a..b` has a name that is empty or begins or ends with a space; write it as in `address.city` at 1:1",
        ),
        (
            ".a:b",
            "the path `.a` has a name that is empty or begins or ends with a space; write it as in `address.city` at 1:1",
        ),
        (
            "a.:b",
            "the path `a.` has a name that is empty or begins or ends with a space; write it as in `address.city` at 1:1",
        ),
        (
            "a. b:c",
            "the path `a. b` has a name that is empty or begins or ends with a space; write it as in `address.city` at 1:1",
        ),
        ("foo(a)", "unknown function `foo`; there are text, expand, hasEdge, hasOutgoingEdge, hasIncomingEdge at 1:1"),
        ("text()", "expected the words to search for, found `)` at 1:6"),
        ("text(\"\")", "`text(…)` needs at least one word at 1:6"),
        ("text(\"  \")", "`text(…)` needs at least one word at 1:6"),
        ("text(a) && text(b)", "`text(…)` can stand once in a query; put all words into one at 1:12"),
        ("a:b || text(c)", "`text(…)` cannot stand inside `||`; join it to the query with `&&` at 1:8"),
        ("(a:b && text(c)) || d:e", "`text(…)` cannot stand inside `||`; join it to the query with `&&` at 1:9"),
        ("!!text(a)", "`text(…)` cannot stand after `!!`; join it to the query with `&&` at 1:3"),
        ("a:{text(b)}", "`text(…)` cannot stand inside `{…}`; join it to the query with `&&` at 1:4"),
        ("expand(a, text(b))", "`text(…)` cannot stand inside `expand(…)`; join it to the query with `&&` at 1:11"),
        ("expand()", "expected the path of related records, as in `expand(customer)`, found `)` at 1:8"),
        (
            "expand(a..b)",
            "the path `a..b` has a name that is empty or begins or ends with a space; write it as in `address.city` at 1:8",
        ),
        ("hasEdge(a)", "expected `,` between the relation and the record at its other end, found `)` at 1:10"),
        ("hasEdge(a, )", "expected the record at the other end, found `)` at 1:12"),
        ("hasEdge(#1, b)", "expected the name of a relation, found `#1` at 1:9"),
        ("fields:[]", "expected a field such as `+name` or `-name`, found `]` at 1:9"),
        ("fields:[+]", "expected a field such as `+name` or `-name`, found `]` at 1:10"),
        ("a:!b~xx", "`~` is not an operator; write `~cs` or `~ci` after a text, `:~` after a field at 1:5"),
        ("a:b ? c", "expected `&&`, `||` or the end, found `?`; wildcards stand in a text after `:` or `:!` at 1:5"),
        (
            "a:foo* bar*",
            "expected `&&`, `||` or the end, found `bar`; conditions need `&&` or `||` between them, and a value with other characters needs quotes at 1:8",
        ),
        ("a:b && (c:d || e:f", "expected `)` for the bracket opened at byte 7, found the end at 1:19"),
        ("a:b\n&& c:d\n&& =", "`=` is not an operator; write `field:value` at 3:4"),
        ("a:x;y", "`;` cannot stand in a bare word; put a value in quotes at 1:4"),
        ("text:~ (", "expected `&&`, `||` or the end, found `(`; a value that holds brackets needs quotes at 1:8"),
    ];
    for (source, expected) in cases {
        assert_eq!(refusal(source), expected, "{source}");
    }
}

#[test]
fn a_place_is_a_line_a_column_and_an_offset() {
    let error = Query::parse("name:\"é\" &&\n \"é\"").unwrap_err();
    let at = error.position();
    assert_eq!((at.line, at.column, at.offset), (2, 2, 14));
    assert_eq!(error.message(), "expected a condition such as `field:value`, found a quoted text");
}

#[test]
fn limits_are_named() {
    let cases = [
        (format!("a:\"{}\"", "x".repeat(MAX_LENGTH)), format!("the query is longer than {MAX_LENGTH} bytes")),
        (
            vec!["a:b"; MAX_CONDITIONS + 1].join("&&"),
            "the query has more than 200 conditions; use a list such as `field:^[a, b]`".into(),
        ),
        (format!("{}:x", vec!["a"; MAX_SEGMENTS + 1].join(".")), "a path has more than 16 names".into()),
        (format!("a:{}*", "x".repeat(MAX_PATTERN)), "a text that is searched for has more than 1000 characters".into()),
        (
            format!("text({})", "x".repeat(MAX_PATTERN + 1)),
            "a text that is searched for has more than 1000 characters".into(),
        ),
        (format!("a:##{}.0", "9".repeat(400)), format!("`##{}…` is too large for a number", "9".repeat(40))),
        (
            "a:{".repeat(1000),
            format!("element matches are nested more than {MAX_ELEMENTS} deep; use a longer path before `{{`"),
        ),
        ("(".repeat(1000), format!("the query is nested more than {MAX_NESTING} deep; split it")),
    ];
    for (source, expected) in cases {
        let error = Query::parse(&source).unwrap_err();
        assert_eq!(error.message(), expected);
    }
}

#[test]
fn what_is_just_within_the_limits_is_accepted() {
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
        query.bind(&Scope::empty()).unwrap().matches(&json!({"a": "b"}));
    }
}

/// Test threads have 2 MiB of stack. What matters is that an answer comes, and at once.
#[test]
fn a_megabyte_of_anything_is_refused_without_harm() {
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
fn a_query_needs_what_it_names() {
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
        ("a:${null}", "variable `${null}` is null; it must hold a text, a number or a boolean here"),
        ("a:^[${null}]", "variable `${null}` is null; it must hold a text, a number, a boolean or a list of them here"),
        ("a:${list}", "variable `${list}` is a list; it must hold a text, a number or a boolean here"),
        ("a:>${object}", "variable `${object}` is an object; it must hold a text, a number or a boolean here"),
        (
            "a:^[${deep}]",
            "variable `${deep}` is a list; it must hold a text, a number, a boolean or a list of them here",
        ),
        (
            "a:${nul}",
            "variable `${nul}` is a text with the character U+0000; it must hold a text, a number or a boolean here",
        ),
        ("a:^[${nul}]", "variable `${nul}` is a text with the character U+0000; it must hold text here"),
        ("a:>${flag}", "variable `${flag}` is a boolean; it must hold a text or a number to be ordered by"),
        ("text(${blank})", "variable `${blank}` holds no words to search for"),
        ("text(${long})", "variable `${long}` is a text too long to search for; it must hold at most 1000 characters"),
        ("hasEdge(owns, x)", "relation `hasEdge(owns, x)` was not looked up"),
        ("b:c || !!hasIncomingEdge(\"o w\", x)", "relation `hasIncomingEdge(o w, x)` was not looked up"),
        ("hasEdge(${x}, y)", "unresolved variable `${x}`"),
    ];
    for (source, expected) in cases {
        let error = Query::parse(source).unwrap().bind(&Scope::new(&variables)).unwrap_err();
        assert_eq!(error.to_string(), expected, "{source}");
    }
    let nothing = Map::new();
    assert!(Query::parse("a:${x}").unwrap().bind(&Scope::new(&nothing)).is_err());
}

#[test]
fn orders_and_parts_are_refused_with_their_place() {
    let sorts = [
        ("", "`` is not a field; write names of letters, digits and `_ / @ ' -` with dots between them at 1:1"),
        ("a,b:up", "`up` is not a direction; write `asc` or `desc` at 1:3"),
        ("a,,b", "`` is not a field; write names of letters, digits and `_ / @ ' -` with dots between them at 1:3"),
        ("a,b,c,d,e,f,g,h,i", "a list is sorted by at most 8 fields at 1:17"),
        (
            "a;DROP TABLE x",
            "`a;DROP TABLE x` is not a field; write names of letters, digits and `_ / @ ' -` with dots between them at 1:1",
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
        "`a\"b` is not a field; write names of letters, digits and `_ / @ ' -` with dots between them"
    );
}
