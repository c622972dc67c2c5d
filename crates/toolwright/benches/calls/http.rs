//! The real binary over real sockets: start-up, memory, requests per second.

use std::time::Duration;

use crate::server::{load, request, resident, start, stop};

const CONNECTIONS: usize = 32;
const DURATION: Duration = Duration::from_secs(5);

pub fn measure() {
    let folder = tempfile::tempdir().unwrap();
    let first = start(&folder, &[]);
    stop(first.child);
    let mut starts: Vec<f64> = Vec::new();
    for _ in 0..9 {
        let server = start(&folder, &[]);
        starts.push(server.millis);
        stop(server.child);
    }
    starts.sort_by(f64::total_cmp);
    let server = start(&folder, &[]);
    let idle = resident(server.child.id());
    println!("| the server | |\n|---|---|");
    println!("| first start, with an empty folder | {:.0} ms |", first.millis);
    println!("| start, median of 9 | {:.0} ms |", starts[starts.len() / 2]);
    println!("| resident memory, idle | {idle:.1} MB |");

    let execute = request("POST", "/api/v1/ai/tools/calculator/execute", r#"{"input":{"expression":"1 + 2 * 3"}}"#);
    let health = request("GET", "/healthz", "");
    let baseline = load(&server.address, &health, CONNECTIONS, DURATION);
    let calls = load(&server.address, &execute, CONNECTIONS, DURATION);
    let busy = resident(server.child.id());
    println!("| resident memory, after {} calls | {busy:.1} MB |", calls.count());
    println!("\n| over HTTP, {CONNECTIONS} connections | p50 µs | p99 µs | requests/s |\n|---|---|---|---|");
    baseline.row("`GET /healthz`, the baseline");
    calls.row("`POST …/calculator/execute`");
    println!(
        "\nA call reaches {:.0} % of the baseline's rate. Client and server share the machine.",
        100.0 * calls.per_second() / baseline.per_second()
    );
    stop(server.child);
}
