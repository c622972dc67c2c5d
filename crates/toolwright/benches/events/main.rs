//! Benchmarks the event stream of a realm with many listeners: the time until all of them receive a change, and the
//! rate of direct calls while the listeners are connected.
//!
//! `TOOLWRIGHT_BENCH_LISTENERS` sets the number of listeners. The benchmark needs two open files for each listener.
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

use std::time::{Duration, Instant};

use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::mpsc;

use percentiles::Latencies;
use server::{Server, load, request, resident_mb, send_request, start, stop};

/// The number of changes that are measured.
const CHANGES: usize = 100;
const CALL_CONNECTIONS: usize = 8;
const CALL_DURATION: Duration = Duration::from_secs(5);

fn main() {
    let listeners: usize = std::env::var("TOOLWRIGHT_BENCH_LISTENERS").ok().map_or(1_000, |text| text.parse().unwrap());
    let folder = tempfile::tempdir().unwrap();
    let server = start(&folder, &[]);
    define(&server);
    println!("# Toolwright: events, {listeners} listeners\n");
    println!("| direct reads | p50 µs | p99 µs | per second |\n|---|---|---|---|");
    let call = request("POST", "/api/v1/ai/tools/look/execute", r#"{"input":{}}"#);
    load(&server.address, &call, CALL_CONNECTIONS, CALL_DURATION).row("no listeners");
    let memory = resident_mb(server.child.id());
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let (arrivals, mut arrived) = mpsc::unbounded_channel();
    for _ in 0..listeners {
        runtime.spawn(listen(server.address.clone(), arrivals.clone()));
    }
    // Each listener first receives READY.
    wait_for(&mut arrived, listeners);
    load(&server.address, &call, CALL_CONNECTIONS, CALL_DURATION).row(&format!("{listeners} listeners"));
    let memory = (resident_mb(server.child.id()) - memory) * 1024.0 / listeners as f64;

    let (mut all, mut last) = (Vec::new(), Vec::new());
    let started = Instant::now();
    for change in 0..CHANGES {
        let body = json!({ "refName": "changing", "systemPrompt": change.to_string() }).to_string();
        let change = request("PUT", "/api/v1/ai/agents/changing", &body);
        let start = Instant::now();
        send_request(&server.address, &change);
        let times: Vec<f64> =
            wait_for(&mut arrived, listeners).into_iter().map(|at| (at - start).as_secs_f64() * 1e6).collect();
        last.push(times.iter().copied().fold(0.0, f64::max));
        all.extend(times);
    }
    println!("\n| from the request of a change to its event | p50 µs | p99 µs | per second |\n|---|---|---|---|");
    Latencies::new(all, started.elapsed()).row("each listener");
    Latencies::new(last, started.elapsed()).row("the last listener");
    println!("\nMemory per listener: {memory:.0} kB.");
    runtime.shutdown_background();
    stop(server.child);
}

fn define(server: &Server) {
    let tool = json!({
        "refName": "look", "toolType": "FUNCTION", "sideEffects": "reads", "invocation": { "path": "echo" },
        "outputJsonSchema": {}
    });
    for (kind, definition) in [("tools", tool), ("agents", json!({ "refName": "changing" }))] {
        send_request(&server.address, &request("POST", &format!("/api/v1/ai/{kind}"), &definition.to_string()));
    }
}

/// Listens to the stream and reports the arrival of each event.
async fn listen(address: String, arrivals: mpsc::UnboundedSender<Instant>) {
    let mut stream = TcpStream::connect(&address).await.unwrap();
    stream.write_all(&request("GET", "/api/v1/ai/events", "")).await.unwrap();
    let (mut buffer, mut text) = ([0; 4096], String::new());
    loop {
        let read = stream.read(&mut buffer).await.unwrap();
        assert!(read > 0, "the server closed the stream");
        let now = Instant::now();
        text.push_str(&String::from_utf8_lossy(&buffer[..read]));
        while let Some((event, rest)) = text.split_once("\n\n") {
            assert!(!event.contains("RESET"), "{event}");
            if event.contains("data: ") && arrivals.send(now).is_err() {
                return;
            }
            text = rest.to_owned();
        }
    }
}

fn wait_for(arrived: &mut mpsc::UnboundedReceiver<Instant>, count: usize) -> Vec<Instant> {
    (0..count).map(|_| arrived.blocking_recv().unwrap()).collect()
}
