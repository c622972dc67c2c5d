//! Tests of syntax errors: messages, positions and hints.

use toolwright_gram::{Diagnostic, Tree};

fn errors(text: &str) -> Vec<String> {
    Tree::parse(text).errors().iter().map(Diagnostic::to_string).collect()
}

#[test]
fn syntax_error_has_a_message_a_position_and_a_hint() {
    let cases = [
        ("(a)->(b)", "expected an arrow, found `->` at 1:4; arrows have two strokes: `-->`"),
        (
            "(a)\n  (b",
            "expected `)`, found the end of the text at 2:5; a node contains an identifier, labels and a record, in this order",
        ),
        ("[a |]", "expected an element, found `]` at 1:5; remove the `|` or comma before `]`"),
        ("{a: 1,}", "expected a key, found `}` at 1:7; remove the comma before `}`"),
        (
            "(a), (b)",
            "expected a pattern, found `,` at 1:4; separate top-level patterns by whitespace instead of commas",
        ),
        ("(a) {b: 1}", "expected a pattern, found `{` at 1:5; only one record is allowed, before the first pattern"),
        ("{a: \"b\\u0041\"}", "unknown escape `\\u` at 1:7; known escapes are \\b \\f \\n \\r \\t \\/ \\\\ and \\\""),
        (
            "{a: \"b}",
            "string is not closed at 1:5; close it with \" on the same line, write `\\n` or use a ``` fence ```",
        ),
        ("(größe)", "unknown character `öße` at 1:4; write names with non-ASCII letters in backticks"),
        ("{a: []}", "expected a value, found `]` at 1:6; arrays must have at least one value and no trailing comma"),
        (
            "(a)-[r]=>(b)",
            "expected the end of the arrow, found `=>` at 1:8; the arrow starts with `-`; write `-->` or `-[…]->`",
        ),
        (
            "@k (a)",
            "expected the annotated pattern, found the end of the text at 1:7; a pattern must follow `@key(value)`",
        ),
        ("/* c */ (a)", "unknown character `/` at 1:1; comments are written `// …` or `/** … */`"),
        (
            "{a: {b: {c: 1}}}",
            "expected a value without `{`, found `{` at 1:9; maps do not nest; use elements for nested data",
        ),
    ];
    for (text, expected) in cases {
        assert_eq!(errors(text).first().map(String::as_str), Some(expected), "{text:?}");
    }
}

#[test]
fn errors_in_several_patterns_are_all_reported() {
    let text = "(a)->(b)\n[c | \"d\"]\n(ok)\n{e: 1}\n(f {g: 1,})\n[h | i]";
    let lines: Vec<u32> = Tree::parse(text).errors().iter().map(|error| error.position.line).collect();
    assert_eq!(lines, [1, 2, 4, 5]);
}

#[test]
fn text_with_one_error_has_one_diagnostic() {
    for text in ["(a b c d)", "{a: \"b\n}", "[a | b c d e]", "(é)", "{a: [[1]]}", "@@ (a)"] {
        assert_eq!(errors(text).len(), 1, "{text:?}: {:?}", errors(text));
    }
}

#[test]
fn at_most_50_syntax_errors_are_reported() {
    let found = errors(&"(a b)\n".repeat(100));
    assert_eq!(found.len(), 51);
    assert!(found[50].starts_with("too many errors"), "{}", found[50]);
}
