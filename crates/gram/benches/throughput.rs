//! Measures the speed of parsing, printing and queries, and compares this parser with the reference parser.
//!
//! Run it with `cargo bench -p toolwright-gram`. Each figure is the best of several rounds over the same text, which
//! reduces the effect of other processes on the result.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a developer tool")]

use std::fmt::Write;
use std::hint::black_box;
use std::time::{Duration, Instant};

use toolwright_gram::{Graph, MAX_NESTING, Query, Tree, decode, format, parse, print};

const ROUNDS: usize = 7;
const AGENTS: usize = 10_000;

fn main() {
    let text = agents(AGENTS);
    println!("{AGENTS} agents, {:.1} MB", megabytes(&text));
    throughput(&text);
    queries(&text);
    hostile_input();
}

fn throughput(text: &str) {
    let mut reference = tree_sitter::Parser::new();
    reference.set_language(&tree_sitter_gram::LANGUAGE.into()).unwrap();
    let pattern = parse(text).unwrap();

    let theirs = best(|| drop(black_box(reference.parse(text, None))));
    let ours = best(|| drop(black_box(Tree::parse(text))));
    rate("tree-sitter: text to tree", text, theirs);
    rate("text to tree", text, ours);
    println!("{:<34}{:>9.1} times", "  faster than tree-sitter", theirs.as_secs_f64() / ours.as_secs_f64());
    rate("text to pattern", text, best(|| drop(black_box(parse(text)))));
    rate("pattern to text", text, best(|| drop(black_box(print(&pattern)))));
    rate("format", text, best(|| drop(black_box(format(text)))));
}

fn queries(text: &str) {
    let pattern = parse(text).unwrap();
    time("pattern to graph", best(|| drop(black_box(Graph::from_patterns([&pattern])))), "");
    let graph = Graph::from_patterns([&pattern]);
    for source in [
        r#"(agent:Agent)==>(tool:Tool {effect: "writes", approval:: absent})"#,
        r#"[agent:Agent | (tool:Tool {effect: "writes"})]"#,
        r#"(agent:Agent)-[:DELEGATES]->(other:Agent) @@not [other | (:Tool {effect: "writes"})]"#,
        r#"(`agent_7`)==>(tool:Tool)"#,
    ] {
        let query = Query::parse(source).unwrap();
        let matches = query.run(&graph).unwrap().len();
        let name = std::format!("{matches} matches");
        time(&name, best(|| drop(black_box(query.run(&graph)))), source);
    }
}

/// Parses one megabyte of each hostile input. Each input should take only milliseconds.
fn hostile_input() {
    let megabyte = |part: &str| part.repeat(1_000_000 / part.len());
    let deep = "[|".repeat(MAX_NESTING * 2);
    let cases = [
        ("[", megabyte("[")),
        ("(a)-->", megabyte("(a)-->")),
        ("`", megabyte("`")),
        ("```/**", megabyte("```/**")),
        ("\"", megabyte("\"")),
        ("\\", megabyte("\\")),
        ("{a:", megabyte("{a:")),
        ("@", megabyte("@")),
        ("é", megabyte("é")),
        ("[|[|… a, a, a", deep + &megabyte("a,")),
    ];
    for (name, text) in &cases {
        let start = Instant::now();
        let errors = Tree::parse(text).errors().len();
        println!(
            "{:<34}{:>9.1} ms, {errors} errors",
            std::format!("1 MB of {name}"),
            start.elapsed().as_secs_f64() * 1e3
        );
    }
    let mut bytes = megabyte("(a)\n").into_bytes();
    bytes.push(0xFF);
    let start = Instant::now();
    let errors = decode(&bytes).unwrap_err().as_slice().len();
    let millis = start.elapsed().as_secs_f64() * 1e3;
    println!("{:<34}{millis:>9.1} ms, {errors} errors", "1 MB that ends with invalid UTF-8");
}

/// Generates typical agents with two tools each.
fn agents(count: usize) -> String {
    let mut text = String::from("{kind: \"benchmark\"}\n");
    for index in 0..count {
        let effect = if index % 10 == 0 { "writes" } else { "reads" };
        write!(
            text,
            r#"// agent number {index}
[agent_{index}:Agent {{
  description: "A friendly agent that greets users and looks things up",
  instruction: "Have friendly conversations. When the user says hello, use the `sayHello` tool to respond.",
  model: "OpenAI/gpt-4o-mini"
}} |
  [sayHello_{index}:ToolSpecification {{description: "Returns a friendly greeting for the given name", effect: "reads"}} |
    (personName::Text {{default: "world"}})==>(age::Int {{default: 18}})==>(::String)
  ],
  [change_{index}:Tool {{description: "Changes an entry", effect: "{effect}", limits: [1, 2.5, 10kg]}} |
    (entryId::Int)==>(::Boolean)
  ]
]
(agent_{index})-[:DELEGATES {{weight: 0.5}}]->(agent_{next})
"#,
            next = index / 2,
        )
        .unwrap();
    }
    text
}

fn best(mut work: impl FnMut()) -> Duration {
    let round = |_| {
        let start = Instant::now();
        work();
        start.elapsed()
    };
    (0..ROUNDS).map(round).min().unwrap_or_default()
}

fn rate(name: &str, text: &str, time: Duration) {
    println!("{name:<34}{:>9.1} MB/s{:>10.1} ms", megabytes(text) / time.as_secs_f64(), time.as_secs_f64() * 1e3);
}

fn time(name: &str, time: Duration, what: &str) {
    println!("{name:<34}{:>24.1} ms  {what}", time.as_secs_f64() * 1e3);
}

fn megabytes(text: &str) -> f64 {
    text.len() as f64 / 1e6
}
