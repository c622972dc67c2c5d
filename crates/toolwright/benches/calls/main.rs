//! Benchmarks one call through the executor and over HTTP, and the components of a call.
//!
//! All measurements are made in one run on one machine. Their ratios can therefore be compared with the ratios on other
//! machines. The absolute times cannot.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    clippy::indexing_slicing,
    reason = "a benchmark stops at the first error and prints its results"
)]

mod components;
mod http;
#[path = "../common/percentiles.rs"]
#[allow(dead_code, reason = "shared with the other benchmarks")]
mod percentiles;
#[path = "../common/server.rs"]
#[allow(dead_code, reason = "shared with the other benchmarks")]
mod server;

use std::sync::Arc;
use std::time::Instant;

use serde_json::{Value, json};
use toolwright_catalog::Session;
use toolwright_engine::{Engine, Options};
use toolwright_store::SealKey;
use toolwright_tools::{CallContext, CallOutcome, CallRequest, Preparation};
use toolwright_types::{DefinitionSource, DocumentId, RunId, ToolDefinition};

use percentiles::Latencies;

const CALLS: usize = 50_000;

fn main() {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    println!("# Toolwright: the cost of a call\n\n{}\n", machine());
    runtime.block_on(async {
        let folder = tempfile::tempdir().unwrap();
        let seal = SealKey::from_file(folder.path().join("seal.key")).unwrap();
        let (engine, _) = Engine::open(Options::in_folder(folder.path().to_owned(), seal)).await.unwrap();
        let session = engine.identity.admin_session().await.unwrap();
        define_tools(&engine, &session).await;

        let components = components::measure(&engine, &session).await;
        println!("| component of a call | µs, median |\n|---|---|");
        for (name, micros) in &components {
            println!("| {name} | {micros:.2} |");
        }
        let sum: f64 = components
            .iter()
            .filter(|(name, _)| components::IN_EVERY_CALL.contains(name))
            .map(|(_, micros)| micros)
            .sum();
        println!("\n| call through the executor | p50 µs | p99 µs | calls/s |\n|---|---|---|---|");
        let uncached = sequential(&engine, &session, "bench").await;
        uncached.row("sequential");
        concurrent(&engine, &session, "bench", 64).await.row("64 concurrent");
        sequential(&engine, &session, "bench_cached").await.row("sequential, from the cache");
        println!(
            "\nThe components of every call add up to {sum:.1} µs; a whole call takes {:.1} times as long.\n",
            uncached.percentile(50.0) / sum
        );
        engine.close().await;
    });
    http::measure();
}

async fn define_tools(engine: &Engine, session: &Session) {
    let schema = json!({
        "type": "object",
        "properties": { "customer": { "type": "string", "minLength": 1 }, "amount": { "type": "number", "minimum": 0 }, "tags": { "type": "array", "items": { "type": "string" } } },
        "required": ["customer", "amount"], "additionalProperties": false
    });
    for (name, cache) in [("bench", "none"), ("bench_cached", "forever")] {
        let tool = json!({ "refName": name, "description": "Returns its input.", "toolType": "FUNCTION", "cache": cache, "invocation": { "path": "echo" }, "inputJsonSchema": schema, "outputJsonSchema": schema });
        engine.registry.create::<ToolDefinition>(session, tool, DefinitionSource::Manual).await.unwrap();
    }
}

/// Returns the input that every benchmark call uses.
pub fn input() -> Value {
    json!({ "customer": "Acme Corp", "amount": 1250.5, "tags": ["new", "west"] })
}

async fn call(engine: &Engine, session: &Session, tool: &str) -> f64 {
    let cx = CallContext::direct(Arc::clone(&session.realm), Arc::clone(&session.principal), RunId::generate());
    let request = CallRequest { tool: tool.to_owned(), version: None, input: input() };
    let start = Instant::now();
    let executor = engine.calls.executor();
    let outcome = match executor.prepare_direct(&cx, request).await {
        Preparation::Ready(ready) => executor.call(&cx, *ready).await,
        Preparation::Refused(envelope) => CallOutcome::Done(envelope),
    };
    let micros = start.elapsed().as_secs_f64() * 1e6;
    assert!(matches!(outcome, CallOutcome::Done(envelope) if envelope.is_success()));
    micros
}

async fn sequential(engine: &Engine, session: &Session, tool: &str) -> Latencies {
    for _ in 0..2_000 {
        call(engine, session, tool).await;
    }
    let start = Instant::now();
    let mut micros = Vec::with_capacity(CALLS);
    for _ in 0..CALLS {
        micros.push(call(engine, session, tool).await);
    }
    Latencies::new(micros, start.elapsed())
}

async fn concurrent(engine: &Engine, session: &Session, tool: &str, width: usize) -> Latencies {
    let tasks = tokio_util::task::TaskTracker::new();
    let start = Instant::now();
    let workers: Vec<_> = (0..width)
        .map(|_| {
            let (engine, session, tool) = (engine.clone(), session.clone(), tool.to_owned());
            tasks.spawn(async move {
                let mut micros = Vec::with_capacity(CALLS / width);
                for _ in 0..CALLS / width {
                    micros.push(call(&engine, &session, &tool).await);
                    // The calls never wait for IO. Without this yield, a worker would occupy its core until all its
                    // calls are done, and only one worker per core would run at a time.
                    tokio::task::yield_now().await;
                }
                micros
            })
        })
        .collect();
    let mut all = Vec::with_capacity(CALLS);
    for worker in workers {
        all.extend(worker.await.unwrap());
    }
    Latencies::new(all, start.elapsed())
}

fn machine() -> String {
    let cpu_seconds = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = cpu_seconds
        .lines()
        .find_map(|line| line.strip_prefix("model name"))
        .unwrap_or(": unknown")
        .trim_start_matches([' ', '\t', ':'])
        .to_owned();
    let cores = std::thread::available_parallelism().map(usize::from).unwrap_or(0);
    format!("{cores} cores, {model}. {CALLS} calls each, after a warm-up.")
}
