//! What a journal entry and a whole run cost: processor time of this process for each, and the rate, on SQLite.
//!
//! `cargo bench -p toolwright-store --bench writer`. Linux only: that is where it can read its own processor time.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::indexing_slicing,
    reason = "a measurement stops at the first surprise and prints what it found"
)]

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::json;
use tempfile::TempDir;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use toolwright_store::{
    Change, Entry, Location, NewRun, Options, RunKind, RunState, SealKey, Store, Writer, WriterOptions,
};
use toolwright_types::{Clock as _, DocumentId, PrincipalId, RealmId, RunId, RunStatus, SystemClock, Timestamp};

const RUNS: u64 = 16;

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() {
    println!("| what | in a transaction | CPU µs each | of it in the kernel | each second |\n|---|---|---|---|---|");
    for (size, count) in [(1, 4_000), (16, 64_000), (64, 64_000), (256, 128_000)] {
        measure("entries of 300 bytes", size, count, 1, append_all).await;
    }
    for (size, count) in [(1, 2_000), (16, 16_000), (256, 32_000)] {
        measure("runs of one entry", size, count, 3, direct_calls).await;
    }
}

/// Writes `count` things of so many changes each, `size` of them in a transaction.
async fn measure<F: Future<Output = ()>>(
    what: &str,
    size: usize,
    count: u64,
    changes: usize,
    write: impl FnOnce(Writer, RealmId, u64) -> F,
) {
    let folder = TempDir::new().unwrap();
    let store = Store::open(Options {
        url: Location::Sqlite(folder.path().join("store.db")),
        clock: Arc::new(SystemClock),
        seal: SealKey::from_base64(&format!("{}=", "A".repeat(43))).unwrap(),
    })
    .await
    .unwrap();
    let org = store.tenancy().ensure_org(&"acme".parse().unwrap()).await.unwrap();
    let realm = store.tenancy().ensure_realm(org, &"main".parse().unwrap()).await.unwrap().realm;
    // Full batches only: nothing is waited for, and the patience is longer than the measurement.
    let options = WriterOptions { queue: 4096, max_batch: size * changes, linger: Duration::from_secs(600) };
    let (writer, service) = store.writer(options);
    let stop = CancellationToken::new();
    let service = JoinSet::from_iter([service.run(stop.clone())]);

    let (began, before) = (Instant::now(), cpu());
    write(writer, realm, count).await;
    stop.cancel();
    service.join_all().await;
    let (took, after) = (began.elapsed(), cpu());

    let each = |ticks: u64| ticks as f64 * MICROS_OF_A_TICK / count as f64;
    let (total, kernel) = (each(after[0] + after[1] - before[0] - before[1]), each(after[1] - before[1]));
    println!("| {what} | {size} | {total:.1} | {kernel:.1} | {:.0} |", count as f64 / took.as_secs_f64());
    store.close().await;
}

async fn append_all(writer: Writer, realm: RealmId, count: u64) {
    let runs: Vec<NewRun> = (0..RUNS).map(|_| new_run()).collect();
    for run in &runs {
        writer.write(run.id, vec![begin(realm, run)]).await.unwrap();
    }
    for at in 0..count {
        let run = &runs[(at % RUNS) as usize];
        writer.write(run.id, vec![append(at / RUNS + 1)]).await.unwrap();
    }
}

async fn direct_calls(writer: Writer, realm: RealmId, count: u64) {
    for _ in 0..count {
        let run = new_run();
        let ended = Change::Settle { state: state(RunStatus::Completed), waits: Vec::new() };
        writer.write(run.id, vec![begin(realm, &run), append(1), ended]).await.unwrap();
    }
}

fn begin(realm: RealmId, run: &NewRun) -> Change {
    Change::Begin { realm, run: run.clone(), state: state(RunStatus::Running) }
}

fn append(n: u64) -> Change {
    let body = json!({"tool": "orders/search", "input": {"q": "x".repeat(100)}, "output": "y".repeat(130), "n": n});
    Change::Append(Entry { n, at: now(), kind: "call_finished".into(), body: body.to_string() })
}

fn new_run() -> NewRun {
    NewRun {
        id: RunId::generate(),
        kind: RunKind::Tool,
        subject: "orders/search".into(),
        subject_hash: "a".repeat(64),
        parent: None,
        conversation: None,
        owner: PrincipalId::generate(),
        principal: PrincipalId::generate(),
        durable: false,
        started_at: now(),
    }
}

fn state(status: RunStatus) -> RunState {
    RunState {
        status,
        reason: None,
        message: None,
        updated_at: now(),
        ended_at: None,
        wake_at: None,
        iterations: 0,
        tokens: 0,
        cost_usd: 0.0,
    }
}

fn now() -> Timestamp {
    SystemClock.now()
}

/// Linux counts in hundredths of a second on every machine it matters on.
const MICROS_OF_A_TICK: f64 = 10_000.0;

/// The ticks of processor time this process has had: its own, and the kernel's for it.
fn cpu() -> [u64; 2] {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    // The name before the parenthesis may hold spaces; the fields after it do not.
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
    [fields[11].parse().unwrap(), fields[12].parse().unwrap()]
}
