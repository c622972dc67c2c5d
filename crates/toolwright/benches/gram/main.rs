//! Benchmarks gram queries over 10,000 agents. The queries run over REST on the definitions of a realm, and with the
//! CLI on a file.
//!
//! The server is the real binary. On the first query after a change, the server builds a graph of the definitions and
//! caches the graph.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    clippy::indexing_slicing,
    reason = "a benchmark stops at the first error and prints its results"
)]

#[path = "../common/percentiles.rs"]
#[allow(dead_code, reason = "shared with the other benchmarks")]
mod percentiles;
#[path = "../common/server.rs"]
#[allow(dead_code, reason = "shared with the other benchmarks")]
mod server;

use std::process::{Command, Stdio};
use std::time::Instant;

use serde_json::{Value, json};

use server::{Server, request, resident_mb, send_request, start, stop};

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
    println!("# Toolwright: gram queries over {AGENTS} agents and {TOOLS} tools\n");
    println!("| query | matches | first, ms | cached, ms | file, ms |\n|---|---|---|---|---|");
    let file = folder.path().join("all.gram");
    std::fs::write(&file, gram_text()).unwrap();
    for query in QUERIES {
        // This change invalidates the cached graph, so the next query includes the time to build the graph.
        send(&server, "PUT", "/api/v1/ai/agents/agent-0", &agent(0));
        let (first, matches) = query_over_rest(&server, query);
        let cached = best(|| query_over_rest(&server, query).0);
        let by_file = best(|| query_file(&file, query));
        println!("| `{query}` | {matches} | {first:.0} | {cached:.1} | {by_file:.0} |");
    }
    println!("\nResident memory of the server: {:.0} MB.", resident_mb(server.child.id()));
    stop(server.child);
}

/// Returns the definition of a tool. Every hundredth tool writes.
fn tool(index: usize) -> Value {
    let effect = if index.is_multiple_of(100) { "writes" } else { "reads" };
    json!({
        "refName": format!("tool-{index}"), "toolType": "FUNCTION", "description": "Performs one operation.",
        "sideEffects": effect, "invocation": { "path": "echo" },
        "inputJsonSchema": { "type": "object", "properties": { "id": { "type": "integer" } }, "required": ["id"] },
    })
}

/// Returns the definition of an agent with one tool. Every second agent delegates to another.
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

/// Returns all agents and tools in gram notation.
fn gram_text() -> String {
    let tools = (0..TOOLS).map(|index| toolwright_notation::write_tool(&serde_json::from_value(tool(index)).unwrap()));
    let agents =
        (0..AGENTS).map(|index| toolwright_notation::write_agent(&serde_json::from_value(agent(index)).unwrap()));
    toolwright_gram::print(&toolwright_gram::Pattern::from_members(tools.chain(agents).collect()))
}

fn send(server: &Server, method: &str, path: &str, body: &Value) {
    send_request(&server.address, &request(method, path, &body.to_string()));
}

/// Sends a query over REST. Returns the latency in milliseconds and the number of matches.
fn query_over_rest(server: &Server, query: &str) -> (f64, usize) {
    let body = json!({ "query": query }).to_string();
    let started = Instant::now();
    let response = send_request(&server.address, &request("POST", "/api/v1/ai/gram/query", &body));
    let millis = started.elapsed().as_secs_f64() * 1e3;
    let response: Value = serde_json::from_str(&response).unwrap();
    (millis, response["matches"].as_array().unwrap().len())
}

/// Runs the query on a file with the CLI. Returns the duration in milliseconds.
fn query_file(file: &std::path::Path, query: &str) -> f64 {
    let started = Instant::now();
    let command = Command::new(env!("CARGO_BIN_EXE_toolwright"))
        .args(["gram", "query", query])
        .arg(file)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    assert!(command.unwrap().success());
    started.elapsed().as_secs_f64() * 1e3
}

/// Returns the shortest of several measurements.
fn best(mut measure: impl FnMut() -> f64) -> f64 {
    (0..ROUNDS).map(|_| measure()).fold(f64::INFINITY, f64::min)
}
