//! Benchmarks workflow runs through the whole server: a graph of 100 trivial steps, ten wide and ten deep, then graphs of
//! up to 10,000 steps, then 10,000 instances that wait.
//!
//! The server is the real binary. Its CPU time and memory are read from `/proc`.
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

use serde_json::{Value, json};

use server::{Server, cpu_seconds, load, request, resident_mb, send_request, start, stop};

const WIDTH: usize = 10;
const DEPTH: usize = 10;
const DURATION: Duration = Duration::from_secs(6);
const WAITING_RUNS: usize = 10_000;

fn main() {
    let folder = tempfile::tempdir().unwrap();
    let server = start(&folder, &[("RUST_LOG", "warn")]);
    println!("# Toolwright: the cost of a workflow\n");
    println!(
        "A graph of {} steps, {WIDTH} wide and {DEPTH} deep. Each step depends on the {WIDTH} steps before it.\n",
        WIDTH * DEPTH
    );
    println!(
        "| steps | durable | concurrent runs | CPU ms per run | CPU µs per step | runs/s | p50 ms | p99 ms |\n|---|---|---|---|---|---|---|---|"
    );
    for (name, handler) in [("tool `echo`", "echo"), ("transform", "quantum.flow.transform")] {
        for durable in [false, true] {
            let workflow = format!("{}_{durable}", handler.replace('.', "_"));
            define(&server, &workflow, &grid(handler), durable);
            for connections in [1, 16] {
                measure(&server, name, &workflow, durable, connections);
            }
        }
    }
    measure_growth(&server);
    stop(server.child);
    measure_waiting_runs();
}

fn measure(server: &Server, name: &str, workflow: &str, durable: bool, connections: usize) {
    let run = execute(workflow);
    assert_completed(&send_request(&server.address, &run));
    load(&server.address, &run, connections, Duration::from_secs(1));
    let before = cpu_seconds(server.child.id());
    let runs = load(&server.address, &run, connections, DURATION);
    let cpu_ms = 1e3 * (cpu_seconds(server.child.id()) - before) / runs.count() as f64;
    println!(
        "| {name} | {durable} | {connections} | {cpu_ms:.2} | {:.1} | {:.0} | {:.1} | {:.1} |",
        1e3 * cpu_ms / (WIDTH * DEPTH) as f64,
        runs.per_second(),
        runs.percentile(50.0) / 1e3,
        runs.percentile(99.0) / 1e3
    );
}

/// Measures how the cost of a run grows with the number of its steps.
fn measure_growth(server: &Server) {
    println!("\nRuns of larger graphs, one at a time, not durable.\n");
    println!("| graph | steps | CPU ms per run | CPU µs per step | ms |\n|---|---|---|---|---|");
    for count in [100, 1_000, 10_000] {
        for (shape, steps) in [("chain", chain(count)), ("wide", wide(count))] {
            let workflow = format!("{shape}_{count}");
            define(server, &workflow, &steps, false);
            let run = execute(&workflow);
            assert_completed(&send_request(&server.address, &run));
            let repetitions = 10_000 / count;
            let (before, started) = (cpu_seconds(server.child.id()), Instant::now());
            for _ in 0..repetitions.max(2) {
                send_request(&server.address, &run);
            }
            let runs = repetitions.max(2) as f64;
            let (cpu_ms, wall) =
                (1e3 * (cpu_seconds(server.child.id()) - before) / runs, started.elapsed().as_secs_f64() / runs);
            println!("| {shape} | {count} | {cpu_ms:.1} | {:.1} | {:.1} |", 1e3 * cpu_ms / count as f64, wall * 1e3);
        }
    }
}

/// Measures the memory that instances need while they wait for a signal.
fn measure_waiting_runs() {
    let folder = tempfile::tempdir().unwrap();
    let server = start(&folder, &[("RUST_LOG", "warn")]);
    let steps = json!([
        { "name": "load", "handlerRef": "echo", "input": { "order": "${input.order}" } },
        { "name": "wait", "handlerRef": "quantum.flow.waitForSignal", "input": { "signal": "paid" }, "dependsOn": ["load"] },
        { "name": "ship", "handlerRef": "echo", "input": { "order": "${load.order}" }, "dependsOn": ["wait"] },
    ]);
    define(&server, "waiting", &steps, true);
    send_request(&server.address, &execute("waiting"));
    let before = resident_mb(server.child.id());
    let started = Instant::now();
    let workers: Vec<_> = (0..16)
        .map(|_| {
            let address = server.address.clone();
            std::thread::spawn(move || {
                (0..WAITING_RUNS / 16).for_each(|_| drop(send_request(&address, &execute("waiting"))));
            })
        })
        .collect();
    workers.into_iter().for_each(|worker| worker.join().unwrap());
    let (seconds, after) = (started.elapsed().as_secs_f64(), resident_mb(server.child.id()));
    let path = "/api/v1/ai/runs/count?status=WAITING";
    let count: Value = serde_json::from_str(&send_request(&server.address, &request("GET", path, ""))).unwrap();
    println!(
        "\n{} instances wait for a signal: {before:.0} MB before, {after:.0} MB after ({:.1} kB each), started in {seconds:.1} s.",
        count["count"],
        (after - before) * 1024.0 / WAITING_RUNS as f64,
    );
    stop(server.child);
}

fn grid(handler: &str) -> Value {
    let name = |layer: usize, at: usize| format!("s{layer}_{at}");
    let step = |layer: usize, at: usize| {
        let before = layer.checked_sub(1).into_iter().flat_map(|before| (0..WIDTH).map(move |at| name(before, at)));
        let value = layer
            .checked_sub(1)
            .map_or_else(|| "${input.n}".to_owned(), |before| format!("${{{}.n}}", name(before, at)));
        json!({
            "name": name(layer, at), "handlerRef": handler, "input": { "n": value },
            "dependsOn": before.collect::<Vec<_>>(),
        })
    };
    (0..DEPTH).flat_map(|layer| (0..WIDTH).map(move |at| (layer, at))).map(|(layer, at)| step(layer, at)).collect()
}

fn chain(count: usize) -> Value {
    let step = |at: usize| {
        let before: Vec<String> = at.checked_sub(1).map(|before| format!("s{before}")).into_iter().collect();
        json!({ "name": format!("s{at}"), "handlerRef": "echo", "input": { "n": at }, "dependsOn": before })
    };
    (0..count).map(step).collect()
}

fn wide(count: usize) -> Value {
    (0..count).map(|at| json!({ "name": format!("s{at}"), "handlerRef": "echo", "input": { "n": at } })).collect()
}

fn define(server: &Server, name: &str, steps: &Value, durable: bool) {
    let definition = json!({ "refName": name, "steps": steps, "durable": durable, "output": {} });
    let created = send_request(&server.address, &request("POST", "/api/v1/ai/workflows", &definition.to_string()));
    assert!(created.contains("\"revision\":1"), "{}", created.chars().take(500).collect::<String>());
}

fn execute(workflow: &str) -> Vec<u8> {
    request("POST", &format!("/api/v1/ai/workflows/{workflow}/execute"), r#"{"input":{"n":1}}"#)
}

fn assert_completed(response: &str) {
    assert!(response.contains("\"status\":\"COMPLETED\""), "{}", response.chars().take(500).collect::<String>());
}
