//! How fast texts are read, printed and queried, next to the reference parser in the same run.
//!
//! `cargo bench -p toolwright-gram`. Each figure is the best of several rounds over the same text, so that other work on the
//! machine disturbs it little.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a program for developers")]

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
    hostile();
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
    time("pattern to graph", best(|| drop(black_box(Graph::of([&pattern])))), "");
    let graph = Graph::of([&pattern]);
    for source in [
        r#"(agent:Agent)==>(tool:Tool {effect: "writes", approval:: absent})"#,
        r#"[agent:Agent | (tool:Tool {effect: "writes"})]"#,
        r#"(agent:Agent)-[:DELEGATES]->(other:Agent) @@not [other | (:Tool {effect: "writes"})]"#,
        r#"(`agent_7`)==>(tool:Tool)"#,
    ] {
        let query = Query::parse(source).unwrap();
        let answers = query.run(&graph).unwrap().len();
        let name = std::format!("{answers} answers");
        time(&name, best(|| drop(black_box(query.run(&graph)))), source);
    }
}

/// A megabyte of each: what matters is that an answer comes at once.
fn hostile() {
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
        let mistakes = Tree::parse(text).mistakes().len();
        println!(
            "{:<34}{:>9.1} ms, {mistakes} mistakes",
            std::format!("1 MB of {name}"),
            start.elapsed().as_secs_f64() * 1e3
        );
    }
    let mut bytes = megabyte("(a)\n").into_bytes();
    bytes.push(0xFF);
    let start = Instant::now();
    let mistakes = decode(&bytes).unwrap_err().as_slice().len();
    let millis = start.elapsed().as_secs_f64() * 1e3;
    println!("{:<34}{millis:>9.1} ms, {mistakes} mistakes", "1 MB that ends with no UTF-8");
}

/// Agents of the usual form, each with two tools of its own.
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
