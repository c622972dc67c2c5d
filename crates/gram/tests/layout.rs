//! Tests of the formatter.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "test helpers")]

use toolwright_gram::format;

fn assert_formatted(text: &str, expected: &str) {
    assert_eq!(format(text).unwrap(), expected);
}

#[test]
fn short_patterns_are_written_on_one_line() {
    assert_formatted("( a :A{b:1 ,c:[1,2]} )", "(a:A {b: 1, c: [1, 2]})\n");
    assert_formatted("[a|b,c]", "[a | b, c]\n");
    assert_formatted("[|a]", "[| a]\n");
    assert_formatted("(a) - [ r:R ] -> (b)", "(a)-[r:R]->(b)\n");
    assert_formatted("@@x:L@k(1) (a)", "@@x:L@k (1)\n(a)\n");
    assert_formatted("@@x:L  @ l ( [1,2] )(a)", "@@x:L @l([1, 2]) (a)\n");
    assert_formatted("{a:1 .. 2,b:md `x`,c:{d:1}}", "{a: 1..2, b: md`x`, c: {d: 1}}\n");
    assert_formatted("(a::T)==>(::R)", "(a::T)==>(::R)\n");
}

#[test]
fn long_patterns_are_broken_into_lines_at_elements_and_arrows() {
    assert_formatted(
        "[hello:Agent {description: \"A friendly agent that uses a tool to greet users\", instruction: \"Greet everybody who says hello.\"} | \
         [sayHello:Tool {description: \"Returns a friendly greeting\"} | (personName::Text)==>(::String)], other]",
        r#"[hello:Agent {
  description: "A friendly agent that uses a tool to greet users",
  instruction: "Greet everybody who says hello."
} |
  [sayHello:Tool {description: "Returns a friendly greeting"} | (personName::Text)==>(::String)],
  other
]
"#,
    );
    assert_formatted(
        "(personName::Text {description: \"the one to greet\"})==>(age::Int {default: 18, description: \"in years\"})==>(::String)",
        r#"(personName::Text {description: "the one to greet"})
  ==>(age::Int {default: 18, description: "in years"})
  ==>(::String)
"#,
    );
}

#[test]
fn comments_stay_before_or_after_the_same_tokens() {
    assert_formatted(
        "// first\n\n\n\n(a) // about a\n/** about b */ (b)\n[c | // elements\n  d, // about d\n  // about e\n  e\n  // the end\n]\n// last",
        r#"// first

(a) // about a
/** about b */
(b)
[c | // elements
  d, // about d
  // about e
  e
  // the end
]
// last
"#,
    );
}

#[test]
fn doc_comment_at_the_start_of_a_line_gets_its_own_line() {
    assert_formatted("(\n/** d */ a)", "(\n/** d */\na)\n");
    assert_formatted("(/** d */ a // e\n)", "( /** d */ a // e\n)\n");
    assert_formatted("(a)-/** d */->(b)", "(a)\n  - /** d */ ->(b)\n");
}

#[test]
fn blank_lines_are_preserved_only_between_patterns() {
    assert_formatted("(a)\n\n\n(b)\n(c)", "(a)\n\n(b)\n(c)\n");
    assert_formatted("[a |\n\n\n(b)\n\n]", "[a | (b)]\n");
    assert_formatted("\n\n(a)\n\n\n", "(a)\n");
}

#[test]
fn text_of_only_whitespace_is_formatted_to_empty_text() {
    assert_formatted("", "");
    assert_formatted(" \n ", "");
    assert_formatted("\u{feff}(a)", "(a)\n");
}

#[test]
fn formatting_text_with_a_syntax_error_fails() {
    assert!(format("(a").is_err());
}
