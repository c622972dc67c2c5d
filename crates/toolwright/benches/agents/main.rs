//! Benchmarks an agent run through the whole server: ten turns with four calls each, then an answer.
//!
//! The server is the real binary. Its CPU time and memory are read from `/proc`. The model responds at once, so that
//! the results show the cost of the runtime. The model is either a script in the server or an HTTP service in this
//! process.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    clippy::indexing_slicing,
    reason = "a benchmark stops at the first error and prints its results"
)]

mod model;
#[path = "../common/percentiles.rs"]
#[allow(dead_code, reason = "shared with the other benchmarks")]
mod percentiles;
#[path = "../common/server.rs"]
#[allow(dead_code, reason = "shared with the other benchmarks")]
mod server;

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use server::{Server, cpu_seconds, load, request, resident_mb, send_request, start, stop};

const TURNS: usize = 10;
const CALLS: usize = 4;
const DURATION: Duration = Duration::from_secs(6);
const WAITING_RUNS: usize = 10_000;

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
    println!("| model | concurrent runs | CPU ms per run | runs/s | p50 ms | p99 ms |\n|---|---|---|---|---|---|");
    for (name, agent) in [("script in the server", "scripted"), ("over HTTP, streaming", "remote")] {
        for width in [1, 16, 128] {
            measure(&server, name, agent, width);
        }
    }
    measure_parallel_calls(&server);
    stop(server.child);
    measure_waiting_runs();
}

fn measure(server: &Server, name: &str, agent: &str, width: usize) {
    let run = run_request(agent);
    load(&server.address, &run, width, Duration::from_secs(1));
    let before = cpu_seconds(server.child.id());
    let runs = load(&server.address, &run, width, DURATION);
    let cpu_used = cpu_seconds(server.child.id()) - before;
    println!(
        "| {name} | {width} | {:.2} | {:.0} | {:.1} | {:.1} |",
        1e3 * cpu_used / runs.count() as f64,
        runs.per_second(),
        runs.percentile(50.0) / 1e3,
        runs.percentile(99.0) / 1e3
    );
}

/// Measures a run whose model reply contains four calls of 200 ms each.
fn measure_parallel_calls(server: &Server) {
    let mut millis: Vec<f64> = (0..5)
        .map(|_| {
            let started = Instant::now();
            send_request(&server.address, &run_request("slow"));
            started.elapsed().as_secs_f64() * 1e3
        })
        .collect();
    millis.sort_by(f64::total_cmp);
    println!("\nFour calls of 200 ms in one reply: the run takes {:.0} ms (median of 5).\n", millis[2]);
}

/// Measures the memory that runs need while they wait for an approval.
fn measure_waiting_runs() {
    let folder = tempfile::tempdir().unwrap();
    let server = start(&folder, &[("RUST_LOG", "warn")]);
    define(&server);
    let before = resident_mb(server.child.id());
    let started = Instant::now();
    let workers: Vec<_> = (0..16)
        .map(|_| {
            let address = server.address.clone();
            std::thread::spawn(move || {
                (0..WAITING_RUNS / 16).for_each(|_| drop(send_request(&address, &run_request("careful"))))
            })
        })
        .collect();
    workers.into_iter().for_each(|worker| worker.join().unwrap());
    let after = resident_mb(server.child.id());
    let count: Value =
        serde_json::from_str(&send_request(&server.address, &request("GET", "/api/v1/ai/approvals?limit=1", "")))
            .unwrap();
    assert_eq!(count["items"].as_array().unwrap().len(), 1, "runs wait for approval");
    println!(
        "{WAITING_RUNS} runs that wait for an approval: {before:.0} MB before, {after:.0} MB after ({:.1} kB each), started in {:.1} s.",
        (after - before) * 1024.0 / WAITING_RUNS as f64,
        started.elapsed().as_secs_f64()
    );
    stop(server.child);
}

fn run_request(agent: &str) -> Vec<u8> {
    request("POST", &format!("/api/v1/ai/agents/{agent}/execute"), r#"{"userMessage":"Continue."}"#)
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
            json!({ "toolType": "EXTERNAL_REST", "invocation": { "method": "GET", "path": format!("http://{}/slow?${{param.call}}", model::slow_service()) } }),
        ),
    ] {
        let mut tool = json!({
            "refName": name, "description": "Looks up a customer.", "toolType": "FUNCTION", "sideEffects": "reads",
            "invocation": { "path": "echo" }, "inputJsonSchema": schema, "outputJsonSchema": {}
        });
        tool.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        create(server, "tools", &tool);
    }
    // The token usage is fixed. Without it the scripted model would count tokens, and the benchmark would measure that
    // work too.
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

/// Returns the calls of one turn. No two calls of a run have the same arguments.
pub fn calls(tool: &str, turn: usize) -> Vec<Value> {
    (0..CALLS)
        .map(|call| json!({ "name": tool, "arguments": { "customer": "Acme Corp", "turn": turn, "call": call } }))
        .collect()
}

fn create(server: &Server, kind: &str, definition: &Value) {
    send_request(&server.address, &request("POST", &format!("/api/v1/ai/{kind}"), &definition.to_string()));
}
