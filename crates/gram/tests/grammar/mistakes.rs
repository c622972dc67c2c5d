//! What a mistake says.

use toolwright_gram::{Diagnostic, Tree};

fn mistakes(text: &str) -> Vec<String> {
    Tree::parse(text).mistakes().iter().map(Diagnostic::to_string).collect()
}

#[test]
fn a_mistake_says_where_it_is_what_is_wrong_and_what_would_be_right() {
    let cases = [
        ("(a)->(b)", "expected an arrow, found `->` at 1:4; arrows have two strokes: `-->`"),
        (
            "(a)\n  (b",
            "expected `)`, found the end of the text at 2:5; a node holds an identifier, labels and a record, in this order, each once",
        ),
        ("[a |]", "expected an element, found `]` at 1:5; leave out the `|` or comma before `]`"),
        ("{a: 1,}", "expected a key, found `}` at 1:7; leave out the comma before `}`"),
        ("(a), (b)", "expected a pattern, found `,` at 1:4; patterns of a text stand side by side, without commas"),
        ("(a) {b: 1}", "expected a pattern, found `{` at 1:5; a record stands only once, before the first pattern"),
        ("{a: \"b\\u0041\"}", "unknown escape `\\u` at 1:7; known are \\b \\f \\n \\r \\t \\/ \\\\ and \\\""),
        (
            "{a: \"b}",
            "string without an end at 1:5; close it with \" on the same line, write `\\n` or use a ``` fence ```",
        ),
        ("(größe)", "unknown character `öße` at 1:4; put names with such letters in backticks"),
        ("{a: []}", "expected a value, found `]` at 1:6; arrays hold at least one value and end without a comma"),
        (
            "(a)-[r]=>(b)",
            "expected the end of the arrow, found `=>` at 1:8; it began with `-`; write `-->` or `-[…]->`",
        ),
        (
            "@k (a)",
            "expected the annotated pattern, found the end of the text at 1:7; `@key(value)` stands before a pattern",
        ),
        ("/* c */ (a)", "unknown character `/` at 1:1; comments are `// …` and `/** … */`"),
        (
            "{a: {b: {c: 1}}}",
            "expected a value without `{`, found `{` at 1:9; maps do not nest; use an element for what lies deeper",
        ),
    ];
    for (text, expected) in cases {
        assert_eq!(mistakes(text).first().map(String::as_str), Some(expected), "{text:?}");
    }
}

#[test]
fn several_mistakes_of_a_text_are_found_at_once() {
    let text = "(a)->(b)\n[c | \"d\"]\n(ok)\n{e: 1}\n(f {g: 1,})\n[h | i]";
    let lines: Vec<u32> = Tree::parse(text).mistakes().iter().map(|mistake| mistake.position.line).collect();
    assert_eq!(lines, [1, 2, 4, 5]);
}

#[test]
fn one_mistake_is_reported_once() {
    for text in ["(a b c d)", "{a: \"b\n}", "[a | b c d e]", "(é)", "{a: [[1]]}", "@@ (a)"] {
        assert_eq!(mistakes(text).len(), 1, "{text:?}: {:?}", mistakes(text));
    }
}

#[test]
fn a_text_of_mistakes_is_cut_short() {
    let found = mistakes(&"(a b)\n".repeat(100));
    assert_eq!(found.len(), 51);
    assert!(found[50].starts_with("more mistakes than are listed"), "{}", found[50]);
}
