//! How long a server takes to go on with the runs that a killed one left.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Instant;

use axum::Router;
use axum::routing::get;
use serde_json::{Value, json};

use crate::runs::create;
use crate::server::{Server, ask, cpu, request, resident, start, stop};

const RUNS: usize = 10_000;

/// A system that answers nobody until it is told to.
#[derive(Default)]
struct Stubborn {
    asked: AtomicUsize,
    answers: AtomicBool,
}

pub fn measure() {
    let folder = tempfile::tempdir().unwrap();
    let system = Arc::new(Stubborn::default());
    let address = serve(&system);
    let environment = [("RUST_LOG", "warn"), ("TOOLWRIGHT_EGRESS_ALLOW", "127.0.0.0/8")];
    let server = start(&folder, &environment);
    define(&server, address);
    let run = request("POST", "/api/v1/ai/agents/patient/execute/durable", r#"{"userMessage":"Go on."}"#);
    for _ in 0..RUNS {
        ask(&server.address, &run);
    }
    while system.asked.load(Ordering::Relaxed) < RUNS {
        std::thread::yield_now();
    }
    stop(server.child);
    system.answers.store(true, Ordering::Relaxed);

    let begun = Instant::now();
    let server = start(&folder, &environment);
    let ready = server.millis;
    let unfinished = request("GET", "/api/v1/ai/runs?status=RUNNING&limit=1", "");
    while !read(&ask(&server.address, &unfinished))["items"].as_array().unwrap().is_empty() {
        std::thread::yield_now();
    }
    let took = begun.elapsed().as_secs_f64();
    let ended = request("GET", "/api/v1/ai/runs?status=COMPLETED&limit=1", "");
    assert_eq!(read(&ask(&server.address, &ended))["items"].as_array().unwrap().len(), 1, "they have ended");
    println!(
        "\n{RUNS} durable runs in the middle of a call when their server was killed: the next one answers after {ready:.0} ms, and has \
         finished all of them after {took:.1} s ({:.0} runs/s, {:.2} ms CPU each, {:.0} MB).",
        RUNS as f64 / took,
        1e3 * cpu(server.child.id()) / RUNS as f64,
        resident(server.child.id())
    );
    stop(server.child);
}

fn read(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

fn define(server: &Server, system: SocketAddr) {
    let tool = json!({
        "refName": "ask", "description": "Asks.", "toolType": "EXTERNAL_REST", "sideEffects": "reads", "timeoutMs": 600_000,
        "invocation": { "method": "GET", "path": format!("http://{system}/ask") }, "outputJsonSchema": {}
    });
    create(server, "tools", &tool);
    let script = json!({ "rules": [{ "when": { "turn": 0 }, "reply": { "toolCalls": [{ "name": "ask", "arguments": {} }] } }], "otherwise": { "text": "Done." } });
    let agent = json!({
        "refName": "patient", "toolRefs": ["ask"], "executionConfig": { "timeoutSeconds": 3600 },
        "llmConfig": { "provider": "scripted", "model": "bench", "extraParams": { "script": script } },
        "memoryConfig": { "persistConversation": false }
    });
    create(server, "agents", &agent);
}

fn serve(system: &Arc<Stubborn>) -> SocketAddr {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let (address, system) = (listener.local_addr().unwrap(), Arc::clone(system));
    let answer = move || {
        let system = Arc::clone(&system);
        async move {
            system.asked.fetch_add(1, Ordering::Relaxed);
            if !system.answers.load(Ordering::Relaxed) {
                std::future::pending::<()>().await;
            }
            axum::Json(json!({ "ok": true }))
        }
    };
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let listener = tokio::net::TcpListener::from_std(listener).unwrap();
            axum::serve(listener, Router::new().route("/ask", get(answer))).await.unwrap();
        });
    });
    address
}
