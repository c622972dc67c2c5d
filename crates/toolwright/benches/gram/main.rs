//! What it costs to ask a question of 10,000 agents: over REST, from the definitions of a realm, and on the command line,
//! from a file.
//!
//! The server is the real binary. It makes a graph of the definitions when it is first asked after a change and keeps it.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout, clippy::indexing_slicing)]

#[path = "../common/percentiles.rs"]
#[allow(dead_code, reason = "shared with the other benchmarks")]
mod percentiles;
#[path = "../common/server.rs"]
#[allow(dead_code, reason = "shared with the other benchmarks")]
mod server;

use std::process::{Command, Stdio};
use std::time::Instant;

use serde_json::{Value, json};

use server::{Server, ask, request, resident, start, stop};

const AGENTS: usize = 10_000;
const TOOLS: usize = 1_000;
const ROUNDS: usize = 9;

const QUERIES: [&str; 3] = [
    r#"(agent:Agent)==>(tool:Tool {sideEffects: "writes", requiresConfirmation:: absent})"#,
    r#"[agent:Agent | (tool:Tool {sideEffects: "writes"})] @@not (agent)-[:DELEGATES_TO]->(:Agent)"#,
    "(`agent-7`)==>(tool:Tool)",
];

fn main() {
    let folder = tempfile::tempdir().unwrap();
    let server = start(&folder, &[("RUST_LOG", "warn")]);
    define(&server);
    println!("# Toolwright: a question about {AGENTS} agents and {TOOLS} tools\n");
    println!("| query | matches | first, ms | then, ms | from a file, ms |\n|---|---|---|---|---|");
    let file = folder.path().join("all.gram");
    std::fs::write(&file, text()).unwrap();
    for query in QUERIES {
        // A change, so that the graph is made anew.
        send(&server, "PUT", "/api/v1/ai/agents/agent-0", &agent(0));
        let (first, matches) = over_rest(&server, query);
        let then = best(|| over_rest(&server, query).0);
        let by_file = best(|| on_file(&file, query));
        println!("| `{query}` | {matches} | {first:.0} | {then:.1} | {by_file:.0} |");
    }
    println!("\nThe server has {:.0} MB.", resident(server.child.id()));
    stop(server.child);
}

/// Every hundredth tool writes; agents have a tool each and delegate to another.
fn tool(index: usize) -> Value {
    let effect = if index.is_multiple_of(100) { "writes" } else { "reads" };
    json!({
        "refName": format!("tool-{index}"), "toolType": "FUNCTION", "description": "Does one thing of many.",
        "sideEffects": effect, "invocation": { "path": "echo" },
        "inputJsonSchema": { "type": "object", "properties": { "id": { "type": "integer" } }, "required": ["id"] },
    })
}

fn agent(index: usize) -> Value {
    let delegates = if index.is_multiple_of(2) { vec![] } else { vec![format!("agent-{}", index / 1000)] };
    json!({
        "refName": format!("agent-{index}"), "description": "One of many.", "systemPrompt": "Help people who ask.",
        "toolRefs": [format!("tool-{}", index % TOOLS)], "delegateAgentRefs": delegates,
    })
}

fn define(server: &Server) {
    for index in 0..TOOLS {
        send(server, "POST", "/api/v1/ai/tools", &tool(index));
    }
    for index in 0..AGENTS {
        send(server, "POST", "/api/v1/ai/agents", &agent(index));
    }
}

/// The same definitions as gram.
fn text() -> String {
    let tools = (0..TOOLS).map(|index| toolwright_notation::write_tool(&serde_json::from_value(tool(index)).unwrap()));
    let agents =
        (0..AGENTS).map(|index| toolwright_notation::write_agent(&serde_json::from_value(agent(index)).unwrap()));
    toolwright_gram::print(&toolwright_gram::Pattern::root_of(tools.chain(agents).collect()))
}

fn send(server: &Server, method: &str, path: &str, body: &Value) {
    ask(&server.address, &request(method, path, &body.to_string()));
}

/// Milliseconds, and how many matches there are.
fn over_rest(server: &Server, query: &str) -> (f64, usize) {
    let body = json!({ "query": query }).to_string();
    let begun = Instant::now();
    let answer = ask(&server.address, &request("POST", "/api/v1/ai/gram/query", &body));
    let millis = begun.elapsed().as_secs_f64() * 1e3;
    let answer: Value = serde_json::from_str(&answer).unwrap();
    (millis, answer["matches"].as_array().unwrap().len())
}

/// Milliseconds from the start of the process to its end.
fn on_file(file: &std::path::Path, query: &str) -> f64 {
    let begun = Instant::now();
    let command = Command::new(env!("CARGO_BIN_EXE_toolwright"))
        .args(["gram", "query", query])
        .arg(file)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    assert!(command.unwrap().success());
    begun.elapsed().as_secs_f64() * 1e3
}

fn best(mut measure: impl FnMut() -> f64) -> f64 {
    (0..ROUNDS).map(|_| measure()).fold(f64::INFINITY, f64::min)
}
