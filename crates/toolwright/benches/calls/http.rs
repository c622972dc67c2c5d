//! Measures the real binary over sockets: start-up time, memory and requests per second.

use std::time::Duration;

use crate::server::{load, request, resident_mb, start, stop};

const CONNECTIONS: usize = 32;
const DURATION: Duration = Duration::from_secs(5);

pub(crate) fn measure() {
    let folder = tempfile::tempdir().unwrap();
    let first = start(&folder, &[]);
    stop(first.child);
    let mut starts: Vec<f64> = Vec::new();
    for _ in 0..9 {
        let server = start(&folder, &[]);
        starts.push(server.startup_ms);
        stop(server.child);
    }
    starts.sort_by(f64::total_cmp);
    let server = start(&folder, &[]);
    let idle = resident_mb(server.child.id());
    println!("| server | |\n|---|---|");
    println!("| first start, empty data folder | {:.0} ms |", first.startup_ms);
    println!("| start, median of 9 | {:.0} ms |", starts[starts.len() / 2]);
    println!("| resident memory, idle | {idle:.1} MB |");

    let execute = request("POST", "/api/v1/ai/tools/calculator/execute", r#"{"input":{"expression":"1 + 2 * 3"}}"#);
    let health = request("GET", "/healthz", "");
    let baseline = load(&server.address, &health, CONNECTIONS, DURATION);
    let calls = load(&server.address, &execute, CONNECTIONS, DURATION);
    let busy = resident_mb(server.child.id());
    println!("| resident memory, after {} calls | {busy:.1} MB |", calls.count());
    println!("\n| over HTTP, {CONNECTIONS} connections | p50 µs | p99 µs | requests/s |\n|---|---|---|---|");
    baseline.row("`GET /healthz`(baseline)");
    calls.row("`POST …/calculator/execute`");
    println!(
        "\nA call reaches {:.0} % of the baseline's rate. Client and server share the machine.",
        100.0 * calls.per_second() / baseline.per_second()
    );
    stop(server.child);
}
