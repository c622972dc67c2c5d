//! How formatted text looks.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "helpers of tests")]

use toolwright_gram::format;

fn formatted(text: &str, expected: &str) {
    assert_eq!(format(text).unwrap(), expected);
}

#[test]
fn what_fits_stands_in_one_line() {
    formatted("( a :A{b:1 ,c:[1,2]} )", "(a:A {b: 1, c: [1, 2]})\n");
    formatted("[a|b,c]", "[a | b, c]\n");
    formatted("[|a]", "[| a]\n");
    formatted("(a) - [ r:R ] -> (b)", "(a)-[r:R]->(b)\n");
    formatted("@@x:L@k(1) (a)", "@@x:L@k (1)\n(a)\n");
    formatted("@@x:L  @ l ( [1,2] )(a)", "@@x:L @l([1, 2]) (a)\n");
    formatted("{a:1 .. 2,b:md `x`,c:{d:1}}", "{a: 1..2, b: md`x`, c: {d: 1}}\n");
    formatted("(a::T)==>(::R)", "(a::T)==>(::R)\n");
}

#[test]
fn what_does_not_fit_is_broken_where_it_is_structured() {
    formatted(
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
    formatted(
        "(personName::Text {description: \"the one to greet\"})==>(age::Int {default: 18, description: \"in years\"})==>(::String)",
        r#"(personName::Text {description: "the one to greet"})
  ==>(age::Int {default: 18, description: "in years"})
  ==>(::String)
"#,
    );
}

#[test]
fn comments_stay_where_they_belong() {
    formatted(
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
fn a_comment_with_a_line_of_its_own_keeps_it_anywhere() {
    formatted("(\n/** d */ a)", "(\n/** d */\na)\n");
    formatted("(/** d */ a // e\n)", "( /** d */ a // e\n)\n");
    formatted("(a)-/** d */->(b)", "(a)\n  - /** d */ ->(b)\n");
}

#[test]
fn blank_lines_are_kept_between_patterns_only() {
    formatted("(a)\n\n\n(b)\n(c)", "(a)\n\n(b)\n(c)\n");
    formatted("[a |\n\n\n(b)\n\n]", "[a | (b)]\n");
    formatted("\n\n(a)\n\n\n", "(a)\n");
}

#[test]
fn nothing_becomes_nothing() {
    formatted("", "");
    formatted(" \n ", "");
    formatted("\u{feff}(a)", "(a)\n");
}

#[test]
fn a_text_with_mistakes_is_not_touched() {
    assert!(format("(a").is_err());
}
