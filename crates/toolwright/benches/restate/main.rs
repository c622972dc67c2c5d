//! Benchmarks durable runs that Restate schedules. For comparison, it also measures the same runs without Restate, and
//! the same number of steps with Restate's SDK alone.
//!
//! Run it with `scripts/with-services cargo bench -p toolwright --bench restate`. The servers are the real binaries. Load
//! generator, Toolwright, Restate and Postgres share the machine.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::indexing_slicing,
    reason = "a benchmark stops at the first error and prints its results"
)]

mod bare;
#[path = "../common/durable_run.rs"]
mod durable_run;
#[path = "../common/percentiles.rs"]
#[allow(dead_code, reason = "shared with the other benchmarks")]
mod percentiles;
#[path = "../../tests/support/restate.rs"]
mod restate;
#[path = "../common/server.rs"]
#[allow(dead_code, reason = "shared with the other benchmarks")]
mod server;

use std::time::Duration;

use durable_run::{CALLS, Database, STEPS, TURNS, define, run_request};
use restate::{Restate, free_ports};
use serde_json::json;
use server::{cpu_seconds, load, start, stop};
use toolwright_tools::http::{EgressPolicy, HttpClient};

const WIDTHS: [usize; 3] = [1, 16, 64];
const WARM_UP: Duration = Duration::from_secs(1);
const DURATION: Duration = Duration::from_secs(5);

fn main() {
    let postgres = std::env::var("TOOLWRIGHT_TEST_POSTGRES_URL").expect("run this with `scripts/with-services`");
    println!("# Toolwright: durable runs on Restate\n");
    println!("{} model calls and {} tool calls a run.\n", TURNS + 1, TURNS * CALLS);
    println!("| | concurrent runs | steps/s | p50 ms | p99 ms | CPU µs per step: server | Restate |");
    println!("|---|---|---|---|---|---|---|");
    measure_runs("without Restate, SQLite", false, None);
    measure_runs("without Restate, Postgres", false, Some(&postgres));
    measure_runs("Restate, SQLite", true, None);
    measure_runs("Restate, Postgres", true, Some(&postgres));
    measure_bare();
}

/// Measures the runs of one server. The server gets a new Restate if `with_restate` is set, and a new database if
/// `postgres` is set.
fn measure_runs(name: &str, with_restate: bool, postgres: Option<&str>) {
    let (folder, restate) = (tempfile::tempdir().unwrap(), with_restate.then(|| block_on(Restate::start())));
    let database = postgres.map(|server| Database::create(server, "restate"));
    let mut environment = vec![("RUST_LOG", "warn".to_owned())];
    environment.extend(database.as_ref().map(|database| ("TOOLWRIGHT_DATABASE_URL", database.url())));
    environment.extend(restate.iter().flat_map(|restate| restate.server_env(free_ports::<1>()[0])));
    let environment: Vec<(&str, &str)> = environment.iter().map(|(name, value)| (*name, value.as_str())).collect();
    let server = start(&folder, &environment);
    define(&server);
    let processes = Processes { server: server.child.id(), restate: restate.as_ref().map(Restate::pid) };
    measure(name, &server.address, &run_request(), &processes);
    stop(server.child);
}

fn measure_bare() {
    let restate = block_on(Restate::start());
    let uri = format!("http://{}", bare::serve());
    let register = async {
        let http = HttpClient::new(EgressPolicy::unrestricted()).unrestricted_client().unwrap();
        let request = http.post(format!("{}/deployments", restate.admin_url())).json(&json!({ "uri": uri }));
        request.send().await.unwrap().error_for_status().unwrap();
    };
    block_on(register);
    let address = restate.url().strip_prefix("http://").unwrap().to_owned();
    let processes = Processes { server: std::process::id(), restate: Some(restate.pid()) };
    let request = server::request("POST", "/restate/call/Bare/run", &STEPS.to_string());
    measure("Restate's SDK alone", &address, &request, &processes);
}

/// The processes whose CPU time is measured. When the SDK alone is measured, the server is this process, which also
/// contains the load generator.
struct Processes {
    server: u32,
    restate: Option<u32>,
}

fn measure(name: &str, address: &str, request: &[u8], processes: &Processes) {
    for width in WIDTHS {
        load(address, request, width, WARM_UP);
        let cpu = || (cpu_seconds(processes.server), processes.restate.map(cpu_seconds).unwrap_or_default());
        let before = cpu();
        let runs = load(address, request, width, DURATION);
        let after = cpu();
        let micros_per_step = |used: f64| 1e6 * used / (runs.count() * STEPS) as f64;
        println!(
            "| {name} | {width} | {:.0} | {:.1} | {:.1} | {:.0} | {:.0} |",
            runs.per_second() * STEPS as f64,
            runs.percentile(50.0) / 1e3,
            runs.percentile(99.0) / 1e3,
            micros_per_step(after.0 - before.0),
            micros_per_step(after.1 - before.1),
        );
    }
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
}
