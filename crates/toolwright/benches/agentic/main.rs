//! Benchmarks agentic tools through the whole server, and compares them with an agent that makes the same calls: one
//! search, then one update for each of five deals.
//!
//! The server is the real binary. Its CPU time is read from `/proc`. Scripts replace the models and respond at once, so
//! the results show the overhead of the runtime and contain no model latency. The tools return their input.
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

use std::time::Duration;

use serde_json::{Value, json};

use server::{Server, cpu_seconds, load, request, send_request, start, stop};

const DEALS: usize = 5;
const DURATION: Duration = Duration::from_secs(6);
const TASK: &str = "Update all Acme Corp deals to Negotiation";

fn main() {
    let folder = tempfile::tempdir().unwrap();
    let server = start(&folder, &[("RUST_LOG", "warn")]);
    define(&server);
    println!("# Toolwright: the cost of an agentic tool\n");
    println!("One search and {DEALS} updates. Scripts replace the models.\n");
    println!("| what | concurrent | CPU ms per task | tasks/s | p50 ms | p99 ms |\n|---|---|---|---|---|---|");
    let variants = [
        ("agent", agent_request()),
        ("agentic tool, agentic mode", tool_request("free")),
        ("agentic tool, deterministic mode", tool_request("planned")),
    ];
    for width in [1, 16] {
        for (name, request) in &variants {
            measure(&server, name, request, width);
        }
    }
    println!("\n| what | model calls | input and output tokens |\n|---|---|---|");
    for (name, request) in &variants {
        print_model_use(&server, name, request);
    }
    stop(server.child);
}

fn measure(server: &Server, name: &str, request: &[u8], width: usize) {
    load(&server.address, request, width, Duration::from_secs(1));
    let before = cpu_seconds(server.child.id());
    let tasks = load(&server.address, request, width, DURATION);
    let cpu_used = cpu_seconds(server.child.id()) - before;
    println!(
        "| {name} | {width} | {:.2} | {:.0} | {:.1} | {:.1} |",
        1e3 * cpu_used / tasks.count() as f64,
        tasks.per_second(),
        tasks.percentile(50.0) / 1e3,
        tasks.percentile(99.0) / 1e3
    );
}

/// Prints the number of model calls and tokens of one task. The model is a script, so the number of tokens is an
/// estimate of the server.
fn print_model_use(server: &Server, name: &str, request: &[u8]) {
    let response: Value = serde_json::from_str(&send_request(&server.address, request)).unwrap();
    let (calls, tokens) = match response["meta"].as_object() {
        Some(meta) => {
            let steps = meta["trace"]["steps"].as_array().unwrap();
            (steps.iter().filter(|step| step["type"] == "llm_call").count(), meta["totalTokens"].clone())
        }
        None => {
            (usize::try_from(response["iterationsUsed"].as_u64().unwrap()).unwrap(), response["tokensUsed"].clone())
        }
    };
    println!("| {name} | {calls} | {tokens} |");
}

fn agent_request() -> Vec<u8> {
    request("POST", "/api/v1/ai/agents/plain/execute", &json!({ "userMessage": TASK }).to_string())
}

fn tool_request(tool: &str) -> Vec<u8> {
    let body = json!({ "tool": tool, "params": { "task": TASK } });
    request("POST", "/api/v1/agentic-tools/invoke", &body.to_string())
}

fn define(server: &Server) {
    let deals: Vec<Value> = (0..DEALS).map(|deal| json!({ "id": format!("10{deal}"), "stage": "closed" })).collect();
    let found = json!({ "company": "Acme Corp", "results": deals });
    let list =
        json!({ "company": { "type": "string" }, "results": { "type": "array", "items": { "type": "object" } } });
    let deal = json!({ "id": { "type": "string" }, "stage": { "type": "string", "enum": ["negotiation", "closed"] } });
    for (name, effects, properties) in [("search", "reads", list), ("update", "writes", deal)] {
        let tool = json!({
            "refName": name, "description": "Finds or changes deals.", "toolType": "FUNCTION", "sideEffects": effects,
            "invocation": { "path": "echo" }, "outputJsonSchema": {},
            "inputJsonSchema": { "type": "object", "properties": properties }
        });
        create(server, "ai/tools", &tool);
    }
    let done = json!({ "text": "Updated 5 deals of Acme Corp to Negotiation." });
    let updates: Vec<Value> = (0..DEALS)
        .map(|deal| json!({ "name": "update", "arguments": { "id": format!("10{deal}"), "stage": "negotiation" } }))
        .collect();
    let select = json!({ "rules": [
        { "when": { "turn": 0 }, "reply": { "toolCalls": [{ "name": "search", "arguments": found }] } },
        { "when": { "turn": 1 }, "reply": { "toolCalls": updates } },
    ], "otherwise": done });
    let plan = json!({ "steps": [
        { "step": 1, "parameters": found },
        { "step": 2, "forEach": "${steps.1.output.results}", "parameters": { "id": "${item.id}", "stage": "negotiation" } },
    ] });
    let write_plan = json!({ "rules": [
        { "when": { "user": "The plan was executed" }, "reply": done },
        { "reply": { "text": plan.to_string() } },
    ] });
    let model =
        |script: &Value| json!({ "provider": "scripted", "model": "bench", "extraParams": { "script": script } });
    let agent = json!({
        "refName": "plain", "systemPrompt": "You manage deals.", "llmConfig": model(&select),
        "toolRefs": ["search", "update"], "memoryConfig": { "persistConversation": false }
    });
    create(server, "ai/agents", &agent);
    let available = json!({ "availableTools": [{ "actionSlug": "search" }, { "actionSlug": "update" }] });
    let sequence =
        json!({ "sequence": [{ "step": 1, "actionSlug": "search" }, { "step": 2, "actionSlug": "update" }] });
    for (name, mode, script, allocation) in
        [("free", "agentic", &select, available), ("planned", "deterministic", &write_plan, sequence)]
    {
        let tool = json!({
            "name": name, "description": "Manages deals.", "executionMode": mode, "toolAllocation": allocation,
            "embeddedLLMConfig": model(script)
        });
        create(server, "agentic-tools", &tool);
    }
}

fn create(server: &Server, kind: &str, definition: &Value) {
    send_request(&server.address, &request("POST", &format!("/api/v1/{kind}"), &definition.to_string()));
}
