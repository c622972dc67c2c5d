//! What a run of an agent costs: ten turns with four calls each, then an answer, through the whole server.
//!
//! The server is the real binary; its CPU and memory are read from outside. The model answers at once, either by a script
//! in the server or over HTTP from this process, so that what remains is the runtime's own cost.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout, clippy::indexing_slicing)]

mod model;
#[path = "../common/percentiles.rs"]
#[allow(dead_code, reason = "shared with the other benchmark")]
mod percentiles;
#[path = "../common/server.rs"]
#[allow(dead_code, reason = "shared with the other benchmark")]
mod server;

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use server::{Server, ask, cpu, load, request, resident, start, stop};

const TURNS: usize = 10;
const CALLS: usize = 4;
const DURATION: Duration = Duration::from_secs(6);
const WAITING: usize = 10_000;

fn main() {
    let folder = tempfile::tempdir().unwrap();
    let model = model::serve();
    let base = format!("http://{model}/v1");
    let environment = [
        ("OPENAI_BASE_URL", base.as_str()),
        ("OPENAI_API_KEY", "none"),
        ("TOOLWRIGHT_EGRESS_ALLOW", "127.0.0.0/8"),
        ("RUST_LOG", "warn"),
    ];
    let server = start(&folder, &environment);
    define(&server);
    println!("# Toolwright: the cost of a run\n");
    println!(
        "{TURNS} turns with {CALLS} calls each, then an answer: {} model calls, {} tool calls.\n",
        TURNS + 1,
        TURNS * CALLS
    );
    println!("| the model | at once | CPU ms per run | runs/s | p50 ms | p99 ms |\n|---|---|---|---|---|---|");
    for (name, agent) in [("a script in the server", "scripted"), ("over HTTP, streaming", "remote")] {
        for width in [1, 16, 128] {
            measure(&server, name, agent, width);
        }
    }
    side_by_side(&server);
    stop(server.child);
    waiting();
}

fn measure(server: &Server, name: &str, agent: &str, width: usize) {
    let run = run_of(agent);
    load(&server.address, &run, width, Duration::from_secs(1));
    let before = cpu(server.child.id());
    let runs = load(&server.address, &run, width, DURATION);
    let used = cpu(server.child.id()) - before;
    println!(
        "| {name} | {width} | {:.2} | {:.0} | {:.1} | {:.1} |",
        1e3 * used / runs.count() as f64,
        runs.per_second(),
        runs.percentile(50.0) / 1e3,
        runs.percentile(99.0) / 1e3
    );
}

/// Four tools of 200 ms in one reply.
fn side_by_side(server: &Server) {
    let mut millis: Vec<f64> = (0..5)
        .map(|_| {
            let begun = Instant::now();
            ask(&server.address, &run_of("slow"));
            begun.elapsed().as_secs_f64() * 1e3
        })
        .collect();
    millis.sort_by(f64::total_cmp);
    println!("\nFour calls of 200 ms in one reply: the run takes {:.0} ms (median of 5).\n", millis[2]);
}

/// Memory of runs that wait for an approval.
fn waiting() {
    let folder = tempfile::tempdir().unwrap();
    let server = start(&folder, &[("RUST_LOG", "warn")]);
    define(&server);
    let before = resident(server.child.id());
    let begun = Instant::now();
    let workers: Vec<_> = (0..16)
        .map(|_| {
            let address = server.address.clone();
            std::thread::spawn(move || (0..WAITING / 16).for_each(|_| drop(ask(&address, &run_of("careful")))))
        })
        .collect();
    workers.into_iter().for_each(|worker| worker.join().unwrap());
    let after = resident(server.child.id());
    let count: Value =
        serde_json::from_str(&ask(&server.address, &request("GET", "/api/v1/ai/approvals?limit=1", ""))).unwrap();
    assert_eq!(count["items"].as_array().unwrap().len(), 1, "runs wait");
    println!(
        "{WAITING} runs that wait for an approval: {before:.0} MB before, {after:.0} MB after ({:.1} kB each), started in {:.1} s.",
        (after - before) * 1024.0 / WAITING as f64,
        begun.elapsed().as_secs_f64()
    );
    stop(server.child);
}

fn run_of(agent: &str) -> Vec<u8> {
    request("POST", &format!("/api/v1/ai/agents/{agent}/execute"), r#"{"userMessage":"Go on."}"#)
}

fn define(server: &Server) {
    let schema = json!({
        "type": "object",
        "properties": { "customer": { "type": "string", "minLength": 1 }, "turn": { "type": "integer" }, "call": { "type": "integer" } },
        "required": ["customer"]
    });
    for (name, more) in [
        ("lookup", json!({})),
        ("change", json!({ "sideEffects": "writes" })),
        (
            "wait",
            json!({ "toolType": "EXTERNAL_REST", "invocation": { "method": "GET", "path": format!("http://{}/slow?${{param.call}}", model::slow()) } }),
        ),
    ] {
        let mut tool = json!({
            "refName": name, "description": "Looks up a customer.", "toolType": "FUNCTION", "sideEffects": "reads",
            "invocation": { "path": "echo" }, "inputJsonSchema": schema, "outputJsonSchema": {}
        });
        tool.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        create(server, "tools", &tool);
    }
    // Given, because counting them is the script's cost and not the runtime's.
    let usage = json!({ "inputTokens": 100, "outputTokens": 10 });
    let turns = (0..TURNS).map(
        |turn| json!({ "when": { "turn": turn }, "reply": { "toolCalls": calls("lookup", turn), "usage": usage } }),
    );
    let script = json!({ "rules": turns.collect::<Vec<_>>(), "otherwise": { "text": "Done.", "usage": usage } });
    let once = |tool: &str| json!({ "rules": [{ "when": { "turn": 0 }, "reply": { "toolCalls": calls(tool, 0) } }], "otherwise": { "text": "Done.", "usage": usage } });
    let agents = [
        ("scripted", json!({ "provider": "scripted", "model": "bench", "extraParams": { "script": script } })),
        ("remote", json!({ "provider": "openai", "model": "gpt-4o" })),
        ("slow", json!({ "provider": "scripted", "model": "bench", "extraParams": { "script": once("wait") } })),
        ("careful", json!({ "provider": "scripted", "model": "bench", "extraParams": { "script": once("change") } })),
    ];
    for (name, llm) in agents {
        create(
            server,
            "agents",
            &json!({
                "refName": name, "systemPrompt": "You look up customers.", "llmConfig": llm, "toolRefs": ["lookup", "change", "wait"],
                "requiresApproval": name == "careful", "executionConfig": { "maxIterations": 12 }, "policy": { "maxToolCalls": 50 },
                "memoryConfig": { "persistConversation": false }
            }),
        );
    }
}

/// The calls of one turn; no two of a run are the same.
pub fn calls(tool: &str, turn: usize) -> Vec<Value> {
    (0..CALLS)
        .map(|call| json!({ "name": tool, "arguments": { "customer": "Acme Corp", "turn": turn, "call": call } }))
        .collect()
}

fn create(server: &Server, kind: &str, definition: &Value) {
    ask(&server.address, &request("POST", &format!("/api/v1/ai/{kind}"), &definition.to_string()));
}
