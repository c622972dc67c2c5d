//! Tests of queries, rewrites and differences.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "test helpers")]

use toolwright_gram::{Graph, Query, Rewrite, diff, parse, print};

const TEXT: &str = r#"
{team: "support"}
[desk:Agent {instruction: "Help people.", model: "OpenAI/gpt-4o", risk: 2} | lookUp, ask]
[clerk:Agent {instruction: "File things.", model: "Anthropic/claude", tags: ["filing", "slow"]} | store]
[boss:Agent {instruction: "Decide.", model: "OpenAI/gpt-4o", risk: 7} |
  [fire:ToolSpecification {description: "Fires", effect: writes, approval: "required"} | (who::Text)==>(::Boolean)]
]
[lookUp:Tool {description: "Looks up", effect: "reads"} | (id::Int)==>(::String)]
[ask:Tool {description: "Asks", effect: "reads"} | (id::Int)==>(question::Text {default: "?"})==>(::String)]
[store:Tool {description: "Stores", effect: "writes"} | (id::Int)==>(::Boolean)]
(desk)-[:DELEGATES {weight: 0.5}]->(clerk)
(clerk)-[:ASKS]->(boss)
(audit:Approval)
(fire)-[:NEEDS]->(audit)
"#;

fn run_query(text: &str, query: &str) -> Vec<String> {
    let pattern = parse(text).unwrap();
    let query = Query::parse(query).unwrap_or_else(|error| panic!("{}", error.render(query)));
    let graph = Graph::from_patterns([&pattern]);
    let found = query.run(&graph).unwrap();
    let answers = found
        .iter()
        .map(|found| query.variables().map(|name| found.get(name).unwrap().identity()).collect::<Vec<_>>().join(" "));
    answers.collect()
}

fn assert_matches(query: &str, expected: &[&str]) {
    assert_eq!(run_query(TEXT, query), expected, "{query}");
}

#[test]
fn query_finds_agents_that_reach_a_tool_that_writes_without_approval() {
    let expected = ["desk store", "clerk store"];
    assert_matches(r#"(agent:Agent)==>(tool:Tool {effect: "writes", approval:: absent})"#, &expected);
    assert_matches(r#"(agent:Agent)==>(tool:Tool {effect: "writes"}) @@not (tool)-[:NEEDS]->(:Approval)"#, &expected);
    assert_matches(r#"(agent:Agent)==>(tool:Tool {effect: "writes", approval:: not`required`})"#, &expected);
    assert_matches(r#"(agent:Agent)==>(:Tool {effect: "writes", approval:: absent})"#, &["desk", "clerk"]);
}

#[test]
fn query_selects_items_by_label_and_by_name() {
    assert_matches("(a:Agent)", &["desk", "clerk", "boss"]);
    assert_matches("(t:Tool)", &["lookUp", "ask", "store", "fire"]);
    assert_matches("(t:ToolSpecification)", &["lookUp", "ask", "store", "fire"]);
    assert_matches("(`clerk`)-->(a)", &["boss"]);
    assert_matches("[t:Tool | [| (`id`)]]", &["lookUp", "store"]);
    assert_matches("(x:Agent:Tool)", &[]);
    assert_matches("(x:Nobody)", &[]);
}

#[test]
fn query_selects_items_by_property_predicates() {
    assert_matches(r#"(a:Agent {model: "OpenAI/gpt-4o"})"#, &["desk", "boss"]);
    assert_matches(r#"(a:Agent {risk: 2.0})"#, &["desk"]);
    assert_matches(r#"(a:Agent {risk:: 3...})"#, &["boss"]);
    assert_matches(r#"(a:Agent {risk:: 7..1})"#, &["desk", "boss"]);
    assert_matches(r#"(a:Agent {risk:: ...5})"#, &["desk"]);
    assert_matches(r#"(a:Agent {risk:: [2, 3]})"#, &["desk"]);
    assert_matches(r#"(a:Agent {risk:: absent})"#, &["clerk"]);
    assert_matches(r#"(a:Agent {risk:: present})"#, &["desk", "boss"]);
    assert_matches(r#"(a:Agent {model:: starts`OpenAI/`})"#, &["desk", "boss"]);
    assert_matches(r#"(a:Agent {model:: ends`claude`})"#, &["clerk"]);
    assert_matches(r#"(a:Agent {instruction:: contains`people`})"#, &["desk"]);
    assert_matches(r#"(a:Agent {tags:: contains`slow`})"#, &["clerk"]);
    assert_matches(r#"(t:Tool {effect: writes})"#, &["store", "fire"]);
    assert_matches(r#"(t:Tool {effect:: not`reads`})"#, &["store", "fire"]);
}

#[test]
fn query_matches_elements_and_relations() {
    assert_matches("[a:Agent | (t:Tool {effect: \"writes\"})]", &["clerk store", "boss fire"]);
    assert_matches(
        "[a:Agent | x, y]",
        &[
            "desk lookUp lookUp",
            "desk lookUp ask",
            "desk ask lookUp",
            "desk ask ask",
            "clerk store store",
            "boss fire fire",
        ],
    );
    assert_matches("(a)-[:DELEGATES]->(b)", &["desk clerk"]);
    assert_matches("(a)<-[:DELEGATES]-(b)", &["clerk desk"]);
    assert_matches("(a)-[:DELEGATES]-(b)", &["desk clerk", "clerk desk"]);
    assert_matches("(a:Agent)-[{weight:: 0.4..0.6}]->(b)", &["desk clerk"]);
    assert_matches("(a:Agent)-->(b)-->(c)", &["desk clerk boss"]);
    assert_matches("(a)-->(a)", &[]);
}

#[test]
fn query_with_double_arrow_matches_paths_of_any_length() {
    assert_matches("(`desk`)==>(t:Tool)", &["lookUp", "ask", "store", "fire"]);
    assert_matches("(`desk`)=[:DELEGATES]=>(t)", &["clerk"]);
    assert_matches("(t:Tool {approval: \"required\"})<==(a:Agent)", &["fire desk", "fire clerk", "fire boss"]);
    assert_matches("(a:Agent)==>(:Approval)", &["desk", "clerk", "boss"]);
    assert_matches("(a:Agent)==>(a)", &[]);
    assert_eq!(run_query("(a:A)-->(b:A)-->(c:A)-->(a)", "(x:A)==>(x)"), ["a", "b", "c"]);
}

#[test]
fn matches_of_a_pattern_annotated_with_not_are_excluded() {
    assert_matches("(a:Agent) @@not (a)-->()", &["boss"]);
    assert_matches("(a:Agent) @@not ()-->(a)", &["desk"]);
    assert_matches("(a:Agent) @@not (a {risk:: present})", &["clerk"]);
    assert_matches("(a:Agent) @@not (:Nobody)", &["desk", "clerk", "boss"]);
    assert_matches("(a:Agent) @@not (:Agent)", &[]);
    assert_matches("(a:Agent) @@not [a | (:Tool {effect: \"reads\"})]", &["clerk", "boss"]);
}

#[test]
fn parameters_with_the_same_name_in_two_tools_are_different_items() {
    assert_matches("(t:Tool)==>(p {default:: present})", &["ask question"]);
    assert_matches("(t:Tool)==>(`id`)", &["lookUp", "ask", "store"]);
    assert_matches("(`lookUp`)==>(p:Text)", &[]);
}

#[test]
fn query_follows_references_to_definitions_in_other_documents() {
    let agents = parse("[a:Agent {instruction: \"i\", model: \"m\"} | t]").unwrap();
    let tools = parse("[t:Tool {description: \"d\", effect: \"writes\"} | (p::Text)==>(::String)]").unwrap();
    let query = Query::parse("(a:Agent)==>(t:Tool {effect: \"writes\"})").unwrap();
    let graph = Graph::from_patterns([&agents, &tools]);
    let found = query.run(&graph).unwrap();
    assert_eq!(found.len(), 1);
    assert!(found[0].get("t").unwrap().has_label("Tool"), "the match is the definition, not the reference");
}

#[test]
fn explain_returns_one_sentence_per_condition() {
    let query = Query::parse("(a:Agent)==>(t:Tool {effect: \"writes\"}) @@not (t)-[:NEEDS]->(:Approval)").unwrap();
    let expected = [
        "`a` has the label `Agent`",
        "`t` has the label `ToolSpecification` and has `effect` \"writes\"",
        "`a` reaches `t`",
        "there is no match in which item 3 has the label `Approval` and item 4 has the label `NEEDS` and item 4 is a relation from `t` to item 3",
    ];
    assert_eq!(query.explain(), expected);
}

#[test]
fn invalid_query_is_rejected_with_its_position() {
    let cases = [
        ("", "query must contain at least one pattern, as in `(a:Agent)` at 1:1"),
        ("@@not (a)", "query must contain at least one pattern, as in `(a:Agent)` at 1:1"),
        ("{a: 1} (b)", "query must not begin with a record at 1:1"),
        ("(a) @k(1) (b)", "annotation in a query must be `@@not` before a pattern at 1:5"),
        ("(a)~~>(b)", "arrow must be `-->` (related) or `==>` (reaches) at 1:4"),
        ("(a)==(b)", "arrow must have exactly one head: `==>` or `<==` at 1:4"),
        ("(a)=[r]=>(b)", "`r` must not be a variable: the path may have many relations at 1:4"),
        (
            "()()()()()()()()()()()()()()()()()()()()()()()()()()()()()()()()(a)",
            "query must not have more than 32 variables at 1:66",
        ),
        (
            "(a {b:: c})",
            "unknown predicate at 1:9; write absent, present, a range, an array, or not, contains, starts or ends before text in backticks",
        ),
        (
            "(a",
            "expected `)`, found the end of the text at 1:3; a node contains an identifier, labels and a record, in this order",
        ),
    ];
    for (text, expected) in cases {
        assert_eq!(Query::parse(text).unwrap_err().to_string(), expected, "{text}");
    }
}

#[test]
fn query_that_exceeds_the_search_limit_fails() {
    let text: String = (0..600).map(|index| format!("(n{index}:N)\n")).collect();
    let pattern = parse(&text).unwrap();
    let graph = Graph::from_patterns([&pattern]);
    let error = Query::parse("(a:N) (b:N) (c:N)").unwrap().run(&graph).unwrap_err();
    assert_eq!(
        error.to_string(),
        "query exceeds the limit of 20000000 search steps; add labels or properties to narrow it"
    );
}

fn rewritten(query: &str, changes: &str) -> (String, usize) {
    let rewrite = Rewrite::parse(Query::parse(query).unwrap(), changes).unwrap();
    let rewritten = rewrite.apply(&[TEXT], &[]).unwrap().remove(0);
    (rewritten.text, rewritten.changed)
}

#[test]
fn rewrite_changes_labels_and_properties_of_matched_items() {
    let (text, changed) = rewritten(
        "(agent:Agent)==>(tool:Tool {effect: \"writes\", approval:: absent})",
        "(tool:Dangerous {approval: \"required\", effect:: absent}) @@not (tool:Tool) (agent {checked: true})",
    );
    assert_eq!(changed, 3);
    let lines: Vec<String> =
        diff(&parse(TEXT).unwrap(), &parse(&text).unwrap()).iter().map(ToString::to_string).collect();
    assert_eq!(
        lines,
        [
            "desk: added `checked` true",
            "clerk: added `checked` true",
            "store: removed label `Tool`",
            "store: added label `Dangerous`",
            "store: removed `effect`, which was \"writes\"",
            "store: added `approval` \"required\"",
        ]
    );
}

#[test]
fn rewrite_that_changes_nothing_counts_zero_items() {
    assert_eq!(rewritten("(a:Agent)", "(a:Agent)"), (TEXT.to_owned(), 0));
}

#[test]
fn malformed_rewrite_is_rejected_with_its_position() {
    let query = || Query::parse("(a:Agent)").unwrap();
    let rejection = |changes: &str| Rewrite::parse(query(), changes).unwrap_err().to_string();
    assert_eq!(rejection("(b {c: 1})"), "change must begin with a variable of the query at 1:2");
    assert_eq!(rejection("(a {c:: 1})"), "only `absent` may follow two colons at 1:9");
    assert_eq!(
        rejection("@@not (a {c: 1})"),
        "`@@not` must precede a node with labels only, as in `@@not (tool:Draft)` at 1:1"
    );
    assert!(rejection("(a)-->(b)").starts_with("change must be a node"));
    assert!(rejection("[a]").starts_with("change must be a node"));
}

#[test]
fn diff_ignores_layout_and_top_level_order() {
    let differences = |before: &str, after: &str| diff(&parse(before).unwrap(), &parse(after).unwrap());
    assert_eq!(differences("(a) (b {c: 1})", "// moved\n(b{c:0x1})\n\n(`a`)"), []);
    assert_eq!(differences("(a)-[r]->(b)", "[r | (a), (b)]"), []);
    assert_eq!(differences(TEXT, &print(&parse(TEXT).unwrap())), []);
}

#[test]
fn diff_describes_each_change() {
    let cases = [
        ("(a)", "(a) (b:B)", vec!["added (b:B)"]),
        ("(a) (b:B)", "(a)", vec!["removed (b:B)"]),
        ("(a {k: 1})", "(a {k: 2})", vec!["a: `k` was 1, is 2"]),
        ("{k: 1} (a)", "(a)", vec!["removed `k`, which was 1"]),
        ("[a | (b), (c)]", "[a | (c), (b)]", vec!["a: elements were reordered"]),
        (
            "[t:Tool {description: \"d\"} | (p::Text)==>(::String)]",
            "[t:Tool {description: \"d\"} | (p::Int)==>(::String)]",
            vec!["t | 1 | p: removed label `Text`", "t | 1 | p: added label `Int`"],
        ),
        ("(a)-->(b)", "(a)-->(c)", vec!["1: removed (b)", "1: added (c)"]),
    ];
    for (before, after, expected) in cases {
        let found: Vec<String> =
            diff(&parse(before).unwrap(), &parse(after).unwrap()).iter().map(ToString::to_string).collect();
        assert_eq!(found, expected, "{before} to {after}");
    }
}
