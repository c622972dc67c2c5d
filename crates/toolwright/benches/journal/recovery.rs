//! Measures how long a restarted server takes to recover the runs of the server that was killed.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Instant;

use axum::Router;
use axum::routing::get;
use serde_json::{Value, json};

use crate::durable_run::create;
use crate::server::{Server, cpu_seconds, request, resident_mb, send_request, start, stop};

const RUNS: usize = 10_000;

/// An HTTP service that counts requests and answers none of them until `responding` is set.
#[derive(Default)]
struct HeldService {
    requests: AtomicUsize,
    responding: AtomicBool,
}

pub(crate) fn measure() {
    let folder = tempfile::tempdir().unwrap();
    let service = Arc::new(HeldService::default());
    let address = serve(&service);
    let environment = [("RUST_LOG", "warn"), ("TOOLWRIGHT_EGRESS_ALLOW", "127.0.0.0/8")];
    let server = start(&folder, &environment);
    define(&server, address);
    let run = request("POST", "/api/v1/ai/agents/patient/execute/durable", r#"{"userMessage":"Continue."}"#);
    for _ in 0..RUNS {
        send_request(&server.address, &run);
    }
    while service.requests.load(Ordering::Relaxed) < RUNS {
        std::thread::yield_now();
    }
    stop(server.child);
    service.responding.store(true, Ordering::Relaxed);

    let started = Instant::now();
    let server = start(&folder, &environment);
    let ready = server.startup_ms;
    let unfinished = request("GET", "/api/v1/ai/runs?status=RUNNING&limit=1", "");
    while !parse_json(&send_request(&server.address, &unfinished))["items"].as_array().unwrap().is_empty() {
        std::thread::yield_now();
    }
    let elapsed = started.elapsed().as_secs_f64();
    let ended = request("GET", "/api/v1/ai/runs?status=COMPLETED&limit=1", "");
    assert_eq!(
        parse_json(&send_request(&server.address, &ended))["items"].as_array().unwrap().len(),
        1,
        "the runs have completed"
    );
    println!(
        "\n{RUNS} durable runs had a call in progress when their server was killed. The next server is ready after {ready:.0} ms and \
         has completed all of them after {elapsed:.1} s ({:.0} runs/s, {:.2} ms CPU each, {:.0} MB).",
        RUNS as f64 / elapsed,
        1e3 * cpu_seconds(server.child.id()) / RUNS as f64,
        resident_mb(server.child.id())
    );
    stop(server.child);
}

fn parse_json(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

fn define(server: &Server, service: SocketAddr) {
    let tool = json!({
        "refName": "ask", "description": "Queries the service.", "toolType": "EXTERNAL_REST", "sideEffects": "reads", "timeoutMs": 600_000,
        "invocation": { "method": "GET", "path": format!("http://{service}/ask") }, "outputJsonSchema": {}
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

fn serve(service: &Arc<HeldService>) -> SocketAddr {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let (address, service) = (listener.local_addr().unwrap(), Arc::clone(service));
    let respond = move || {
        let service = Arc::clone(&service);
        async move {
            service.requests.fetch_add(1, Ordering::Relaxed);
            if !service.responding.load(Ordering::Relaxed) {
                std::future::pending::<()>().await;
            }
            axum::Json(json!({ "ok": true }))
        }
    };
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let listener = tokio::net::TcpListener::from_std(listener).unwrap();
            axum::serve(listener, Router::new().route("/ask", get(respond))).await.unwrap();
        });
    });
    address
}
