//! Benchmarks the routes that read runs, approvals, effects and definitions, on a database with 100,000 runs and a
//! million journal entries, and the routes that read one run with 20,000 entries. After each request, the SQL of the
//! route is executed directly, for comparison. The query plan of the SQL is checked too.
//!
//! The benchmark measures SQLite, and also Postgres when `scripts/with-services` starts it. `TOOLWRIGHT_BENCH_RUNS` sets
//! the number of runs, and `TOOLWRIGHT_BENCH_ROUNDS` the number of requests per route.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    clippy::indexing_slicing,
    reason = "a benchmark stops at the first error and prints its results"
)]

mod database;
#[path = "../common/percentiles.rs"]
#[allow(dead_code, reason = "shared with the other benchmarks")]
mod percentiles;
mod routes;
#[path = "../common/server.rs"]
#[allow(dead_code, reason = "shared with the other benchmarks")]
mod server;

use std::io::Write as _;
use std::net::TcpStream;
use std::time::Instant;

use serde_json::{Value, json};

use database::Database;
use percentiles::Latencies;
use routes::{Names, Route};
use server::{Server, read_response, request, resident_mb, send_request, start, stop};

/// The number of writes in the long run. Each write has two journal entries.
const LONG_RUN_ITEMS: usize = 10_000;

fn main() {
    let setting = |name: &str, default: usize| std::env::var(name).ok().map_or(default, |text| text.parse().unwrap());
    let (runs, rounds) = (setting("TOOLWRIGHT_BENCH_RUNS", 100_000), setting("TOOLWRIGHT_BENCH_ROUNDS", 200));
    println!("# Toolwright: reads among {runs} runs\n");
    println!("| database, route | p50 µs | p99 µs | SQL by hand p50 | p99 | ratio | without index |");
    println!("|---|---|---|---|---|---|---|");
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("toolwright.db");
    measure(&runtime, "SQLite", &folder, &[], &format!("sqlite://{}", path.display()), runs, rounds);
    if let Ok(postgres) = std::env::var("TOOLWRIGHT_TEST_POSTGRES_URL") {
        let (folder, url) = (tempfile::tempdir().unwrap(), runtime.block_on(database::create(&postgres)));
        let environment = [("TOOLWRIGHT_DATABASE_URL", url.as_str())];
        measure(&runtime, "Postgres", &folder, &environment, &url, runs, rounds);
    }
}

fn measure(
    runtime: &tokio::runtime::Runtime,
    name: &str,
    folder: &tempfile::TempDir,
    environment: &[(&str, &str)],
    url: &str,
    runs: usize,
    rounds: usize,
) {
    let server = start(folder, environment);
    let run = create_template(&server);
    let mut database = runtime.block_on(Database::connect(url));
    runtime.block_on(database.fill(&run, runs));
    let started = Instant::now();
    let long = create_long_run(&server);
    let seconds = started.elapsed().as_secs_f64();
    let entries = runtime.block_on(database.entries());
    println!("| {name}: {entries} entries; {LONG_RUN_ITEMS} writes in one run took {seconds:.1} s | | | | | | |");
    let memory = resident_mb(server.child.id());
    let names = runtime.block_on(database.names(&Names { long, ..run }));
    for route in routes::all(&names) {
        let (ours, by_hand) = alternate(runtime, &server, &mut database, &route, rounds);
        let columns =
            |latencies: &Latencies| format!("{:.0} | {:.0}", latencies.percentile(50.0), latencies.percentile(99.0));
        let compared = by_hand.map_or("– | – | –".to_owned(), |by_hand| {
            let ratio = ours.percentile(50.0) / by_hand.percentile(50.0);
            format!("{} | {ratio:.2}", columns(&by_hand))
        });
        let scanned = route.sql.as_deref().map(|sql| runtime.block_on(database.scanned_tables(sql)));
        println!("| {name}, {} | {} | {compared} | {} |", route.name, columns(&ours), scanned.unwrap_or_default());
    }
    let growth = resident_mb(server.child.id()) - memory;
    println!("| {name}: memory {memory:.0} MB before the reads, {growth:.0} MB more after them | | | | | | |");
    stop(server.child);
}

/// Sends the request of a route and executes its SQL in turn, so that other load affects both equally.
fn alternate(
    runtime: &tokio::runtime::Runtime,
    server: &Server,
    database: &mut Database,
    route: &Route,
    rounds: usize,
) -> (Latencies, Option<Latencies>) {
    let request = request("GET", &route.path, "");
    let mut stream = TcpStream::connect(&server.address).unwrap();
    stream.set_nodelay(true).unwrap();
    let (mut ours, mut by_hand, mut buffer) = (Vec::new(), Vec::new(), vec![0; 4 * 1024 * 1024]);
    let started = Instant::now();
    for _ in 0..rounds {
        let start = Instant::now();
        stream.write_all(&request).unwrap();
        read_response(&mut stream, &mut buffer);
        ours.push(start.elapsed().as_secs_f64() * 1e6);
        if let Some(sql) = &route.sql {
            let start = Instant::now();
            runtime.block_on(database.rows(sql));
            by_hand.push(start.elapsed().as_secs_f64() * 1e6);
        }
    }
    let wall = started.elapsed();
    let by_hand = (!by_hand.is_empty()).then(|| Latencies::new(by_hand, wall));
    (Latencies::new(ours, wall), by_hand)
}

/// Creates definitions, one ended run with approved writes, and one run that waits. Returns the ids of both runs.
fn create_template(server: &Server) -> Names {
    let post = |path: &str, body: &Value| -> Value {
        let response =
            send_request(&server.address, &request("POST", &format!("/api/v1/ai/{path}"), &body.to_string()));
        serde_json::from_str(&response).unwrap()
    };
    post(
        "tools",
        &json!({ "refName": "pay", "toolType": "FUNCTION", "sideEffects": "writes", "requiresConfirmation": true,
            "invocation": { "path": "echo" }, "outputJsonSchema": {} }),
    );
    let calls: Vec<Value> = (0..2).map(|amount| json!({ "name": "pay", "arguments": { "amount": amount } })).collect();
    let rules = json!([{ "when": { "turn": 0 }, "reply": { "toolCalls": calls } }, { "reply": { "text": "Paid." } }]);
    let model = json!({ "provider": "scripted", "model": "rules", "extraParams": { "script": { "rules": rules } } });
    post("agents", &json!({ "refName": "payer", "toolRefs": ["pay"], "llmConfig": model }));
    let waiting = post("agents/payer/execute", &json!({ "userMessage": "Wait." }))["runId"].clone();
    let mut run = post("agents/payer/execute", &json!({ "userMessage": "Pay." }));
    while let Some(approval) = run["approvals"].get(0).cloned() {
        let path = format!("runs/{}/approvals/{}", text(&approval["runId"]), text(&approval["callId"]));
        run = post(&path, &json!({ "decision": "approve" }));
    }
    assert_eq!(run["status"], "COMPLETED", "{run}");
    Names { run: text(&run["runId"]), waiting: text(&waiting), ..Names::default() }
}

/// Executes an agentic tool that writes once for each item of a long list. Returns the id of its run.
fn create_long_run(server: &Server) -> String {
    let post = |path: &str, body: &Value| -> Value {
        let response = send_request(&server.address, &request("POST", path, &body.to_string()));
        serde_json::from_str(&response).unwrap()
    };
    let put = json!({ "refName": "put", "toolType": "FUNCTION", "sideEffects": "writes", "invocation": { "path": "echo" },
        "outputJsonSchema": {} });
    post("/api/v1/ai/tools", &put);
    let step = json!({ "step": 1, "forEach": "${input.items}", "parameters": { "item": "${item}" } });
    let rules = json!([{ "when": { "user": "The plan was executed" }, "reply": { "text": "Done." } },
        { "reply": { "text": json!({ "reasoning": "All items.", "steps": [step] }).to_string() } }]);
    let model = json!({ "provider": "scripted", "model": "rules", "extraParams": { "script": { "rules": rules } } });
    let tool = json!({ "name": "Put all", "slug": "put-all", "description": "Writes all items.", "executionMode": "deterministic",
        "embeddedLLMConfig": model, "toolAllocation": { "sequence": [{ "step": 1, "actionSlug": "put" }] },
        "inputSchema": { "type": "object", "properties": { "task": { "type": "string" }, "items": { "type": "array" } } },
        "safetyLimits": { "maxItems": LONG_RUN_ITEMS, "maxDurationSeconds": 3600 } });
    post("/api/v1/agentic-tools", &tool);
    let items: Vec<String> = (0..LONG_RUN_ITEMS).map(|item| format!("item {item}")).collect();
    let params = json!({ "tool": "put-all", "params": { "task": "Write all items.", "items": items } });
    let response = post("/api/v1/agentic-tools/invoke", &params);
    assert_eq!(response["success"], true, "{response}");
    text(&response["meta"]["executionId"])
}

fn text(value: &Value) -> String {
    value.as_str().unwrap().to_owned()
}
