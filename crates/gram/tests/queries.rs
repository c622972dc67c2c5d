//! Queries, changes and differences.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "helpers of tests")]

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

fn ask(text: &str, query: &str) -> Vec<String> {
    let pattern = parse(text).unwrap();
    let query = Query::parse(query).unwrap_or_else(|error| panic!("{}", error.render(query)));
    let graph = Graph::of([&pattern]);
    let found = query.run(&graph).unwrap();
    let answers = found
        .iter()
        .map(|found| query.variables().map(|name| found.get(name).unwrap().identity()).collect::<Vec<_>>().join(" "));
    answers.collect()
}

fn answers(query: &str, expected: &[&str]) {
    assert_eq!(ask(TEXT, query), expected, "{query}");
}

#[test]
fn agents_that_reach_a_writing_tool_without_approval() {
    let expected = ["desk store", "clerk store"];
    answers(r#"(agent:Agent)==>(tool:Tool {effect: "writes", approval:: absent})"#, &expected);
    answers(r#"(agent:Agent)==>(tool:Tool {effect: "writes"}) @@not (tool)-[:NEEDS]->(:Approval)"#, &expected);
    answers(r#"(agent:Agent)==>(tool:Tool {effect: "writes", approval:: not`required`})"#, &expected);
    answers(r#"(agent:Agent)==>(:Tool {effect: "writes", approval:: absent})"#, &["desk", "clerk"]);
}

#[test]
fn labels_and_names() {
    answers("(a:Agent)", &["desk", "clerk", "boss"]);
    answers("(t:Tool)", &["lookUp", "ask", "store", "fire"]);
    answers("(t:ToolSpecification)", &["lookUp", "ask", "store", "fire"]);
    answers("(`clerk`)-->(a)", &["boss"]);
    answers("[t:Tool | [| (`id`)]]", &["lookUp", "store"]);
    answers("(x:Agent:Tool)", &[]);
    answers("(x:Nobody)", &[]);
}

#[test]
fn tests_of_properties() {
    answers(r#"(a:Agent {model: "OpenAI/gpt-4o"})"#, &["desk", "boss"]);
    answers(r#"(a:Agent {risk: 2.0})"#, &["desk"]);
    answers(r#"(a:Agent {risk:: 3...})"#, &["boss"]);
    answers(r#"(a:Agent {risk:: 7..1})"#, &["desk", "boss"]);
    answers(r#"(a:Agent {risk:: ...5})"#, &["desk"]);
    answers(r#"(a:Agent {risk:: [2, 3]})"#, &["desk"]);
    answers(r#"(a:Agent {risk:: absent})"#, &["clerk"]);
    answers(r#"(a:Agent {risk:: present})"#, &["desk", "boss"]);
    answers(r#"(a:Agent {model:: starts`OpenAI/`})"#, &["desk", "boss"]);
    answers(r#"(a:Agent {model:: ends`claude`})"#, &["clerk"]);
    answers(r#"(a:Agent {instruction:: contains`people`})"#, &["desk"]);
    answers(r#"(a:Agent {tags:: contains`slow`})"#, &["clerk"]);
    answers(r#"(t:Tool {effect: writes})"#, &["store", "fire"]);
    answers(r#"(t:Tool {effect:: not`reads`})"#, &["store", "fire"]);
}

#[test]
fn elements_and_relations() {
    answers("[a:Agent | (t:Tool {effect: \"writes\"})]", &["clerk store", "boss fire"]);
    answers(
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
    answers("(a)-[:DELEGATES]->(b)", &["desk clerk"]);
    answers("(a)<-[:DELEGATES]-(b)", &["clerk desk"]);
    answers("(a)-[:DELEGATES]-(b)", &["desk clerk", "clerk desk"]);
    answers("(a:Agent)-[{weight:: 0.4..0.6}]->(b)", &["desk clerk"]);
    answers("(a:Agent)-->(b)-->(c)", &["desk clerk boss"]);
    answers("(a)-->(a)", &[]);
}

#[test]
fn reaching_goes_over_any_number_of_steps() {
    answers("(`desk`)==>(t:Tool)", &["lookUp", "ask", "store", "fire"]);
    answers("(`desk`)=[:DELEGATES]=>(t)", &["clerk"]);
    answers("(t:Tool {approval: \"required\"})<==(a:Agent)", &["fire desk", "fire clerk", "fire boss"]);
    answers("(a:Agent)==>(:Approval)", &["desk", "clerk", "boss"]);
    answers("(a:Agent)==>(a)", &[]);
    assert_eq!(ask("(a:A)-->(b:A)-->(c:A)-->(a)", "(x:A)==>(x)"), ["a", "b", "c"]);
}

#[test]
fn what_must_not_be_there() {
    answers("(a:Agent) @@not (a)-->()", &["boss"]);
    answers("(a:Agent) @@not ()-->(a)", &["desk"]);
    answers("(a:Agent) @@not (a {risk:: present})", &["clerk"]);
    answers("(a:Agent) @@not (:Nobody)", &["desk", "clerk", "boss"]);
    answers("(a:Agent) @@not (:Agent)", &[]);
    answers("(a:Agent) @@not [a | (:Tool {effect: \"reads\"})]", &["clerk", "boss"]);
}

#[test]
fn parameters_belong_to_their_tool() {
    answers("(t:Tool)==>(p {default:: present})", &["ask question"]);
    answers("(t:Tool)==>(`id`)", &["lookUp", "ask", "store"]);
    answers("(`lookUp`)==>(p:Text)", &[]);
}

#[test]
fn several_texts_are_one_graph() {
    let agents = parse("[a:Agent {instruction: \"i\", model: \"m\"} | t]").unwrap();
    let tools = parse("[t:Tool {description: \"d\", effect: \"writes\"} | (p::Text)==>(::String)]").unwrap();
    let query = Query::parse("(a:Agent)==>(t:Tool {effect: \"writes\"})").unwrap();
    let graph = Graph::of([&agents, &tools]);
    let found = query.run(&graph).unwrap();
    assert_eq!(found.len(), 1);
    assert!(found[0].get("t").unwrap().has_label("Tool"), "the definition, not the reference");
}

#[test]
fn a_query_explains_itself() {
    let query = Query::parse("(a:Agent)==>(t:Tool {effect: \"writes\"}) @@not (t)-[:NEEDS]->(:Approval)").unwrap();
    let expected = [
        "`a` has the label `Agent`",
        "`t` has the label `ToolSpecification` and has `effect` \"writes\"",
        "`a` reaches `t`",
        "it is not so that thing 3 has the label `Approval` and thing 4 has the label `NEEDS` and thing 4 is a relation from `t` to thing 3",
    ];
    assert_eq!(query.explain(), expected);
}

#[test]
fn what_is_no_query_is_refused_where_it_is_wrong() {
    let cases = [
        ("", "a query asks for at least one thing, as in `(a:Agent)` at 1:1"),
        ("@@not (a)", "a query asks for at least one thing, as in `(a:Agent)` at 1:1"),
        ("{a: 1} (b)", "a query has no record of its own at 1:1"),
        ("(a) @k(1) (b)", "the only annotation in a query is `@@not` at 1:5"),
        ("(a)~~>(b)", "queries know `-->` (related) and `==>` (reaches) at 1:4"),
        ("(a)==(b)", "`==>` and `<==` have one head: reaching has a direction at 1:4"),
        ("(a)=[r]=>(b)", "`r` cannot be a variable: there may be many relations on the way at 1:4"),
        (
            "()()()()()()()()()()()()()()()()()()()()()()()()()()()()()()()()(a)",
            "a query asks for at most 32 things at once at 1:66",
        ),
        (
            "(a {b:: c})",
            "unknown test at 1:9; known are absent, present, ranges, arrays, and not, contains, starts, ends before text in backticks",
        ),
        (
            "(a",
            "expected `)`, found the end of the text at 1:3; a node holds an identifier, labels and a record, in this order, each once",
        ),
    ];
    for (text, expected) in cases {
        assert_eq!(Query::parse(text).unwrap_err().to_string(), expected, "{text}");
    }
}

#[test]
fn a_query_that_asks_too_much_is_stopped() {
    let text: String = (0..600).map(|index| format!("(n{index}:N)\n")).collect();
    let pattern = parse(&text).unwrap();
    let graph = Graph::of([&pattern]);
    let error = Query::parse("(a:N) (b:N) (c:N)").unwrap().run(&graph).unwrap_err();
    assert_eq!(error.to_string(), "the query takes more than 20000000 steps; add labels or properties to it");
}

fn rewritten(query: &str, changes: &str) -> (String, usize) {
    let rewrite = Rewrite::parse(Query::parse(query).unwrap(), changes).unwrap();
    let rewritten = rewrite.apply(&[TEXT], &[]).unwrap().remove(0);
    (rewritten.text, rewritten.changed)
}

#[test]
fn a_change_is_made_where_the_thing_is_defined() {
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
fn a_change_that_changes_nothing_is_not_counted() {
    assert_eq!(rewritten("(a:Agent)", "(a:Agent)"), (TEXT.to_owned(), 0));
}

#[test]
fn a_change_names_a_variable() {
    let query = || Query::parse("(a:Agent)").unwrap();
    let refused = |changes: &str| Rewrite::parse(query(), changes).unwrap_err().to_string();
    assert_eq!(refused("(b {c: 1})"), "a change begins with a variable of the query at 1:2");
    assert_eq!(refused("(a {c:: 1})"), "after two colons only `absent` can follow at 1:9");
    assert_eq!(refused("@@not (a {c: 1})"), "`@@not` takes labels away, as in `@@not (tool:Draft)` at 1:1");
    assert!(refused("(a)-->(b)").starts_with("a change is a node"));
    assert!(refused("[a]").starts_with("a change is a node"));
}

#[test]
fn layout_and_order_of_patterns_are_no_difference() {
    let differences = |before: &str, after: &str| diff(&parse(before).unwrap(), &parse(after).unwrap());
    assert_eq!(differences("(a) (b {c: 1})", "// moved\n(b{c:0x1})\n\n(`a`)"), []);
    assert_eq!(differences("(a)-[r]->(b)", "[r | (a), (b)]"), []);
    assert_eq!(differences(TEXT, &print(&parse(TEXT).unwrap())), []);
}

#[test]
fn differences_say_what_became_of_what() {
    let cases = [
        ("(a)", "(a) (b:B)", vec!["added (b:B)"]),
        ("(a) (b:B)", "(a)", vec!["removed (b:B)"]),
        ("(a {k: 1})", "(a {k: 2})", vec!["a: `k` was 1, is 2"]),
        ("{k: 1} (a)", "(a)", vec!["removed `k`, which was 1"]),
        ("[a | (b), (c)]", "[a | (c), (b)]", vec!["a: elements in another order"]),
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
