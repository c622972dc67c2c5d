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
    Change, Entry, Location, Mark, NewRun, Options, RunKind, RunState, SealKey, ServerId, Store, WriterOptions,
};
use toolwright_types::{Clock as _, DocumentId, PrincipalId, RealmId, RunId, RunStatus, SystemClock, Timestamp};

/// So many runs take turns at appending.
const RUNS: u64 = 16;

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() {
    println!("| what | in a transaction | CPU µs each | of it in the kernel | each second |\n|---|---|---|---|---|");
    for (size, count) in [(1, 4_000), (16, 64_000), (256, 128_000)] {
        measure("entries of 300 bytes", size, appends(count)).await;
    }
    for (size, count) in [(1, 4_000), (16, 32_000), (256, 64_000)] {
        measure("runs of one entry", size, direct_calls(count)).await;
    }
}

/// Changes that are there before the clock runs.
struct Work {
    first: Vec<(RunId, Vec<Change>)>,
    measured: Vec<(RunId, Vec<Change>)>,
}

/// Writes all of it, `size` calls in a transaction.
async fn measure(what: &str, size: usize, work: impl FnOnce(RealmId) -> Work) {
    let folder = TempDir::new().unwrap();
    let store = Store::open(Options {
        url: Location::Sqlite(folder.path().join("store.db")),
        sync: toolwright_store::Promise::Disk,
        clock: Arc::new(SystemClock),
        seal: SealKey::from_base64(&format!("{}=", "A".repeat(43))).unwrap(),
    })
    .await
    .unwrap();
    let org = store.tenancy().ensure_org(&"acme".parse().unwrap()).await.unwrap();
    let realm = store.tenancy().ensure_realm(org, &"main".parse().unwrap()).await.unwrap().realm;
    let Work { first, measured } = work(realm);
    write_all(&store, size, first).await;

    let count = measured.len() as f64;
    let (began, before) = (Instant::now(), cpu());
    write_all(&store, size, measured).await;
    let (took, after) = (began.elapsed(), cpu());

    let each = |ticks: u64| ticks as f64 * MICROS_OF_A_TICK / count;
    let (total, kernel) = (each(after[0] + after[1] - before[0] - before[1]), each(after[1] - before[1]));
    println!("| {what} | {size} | {total:.1} | {kernel:.1} | {:.0} |", count / took.as_secs_f64());
    store.close().await;
}

async fn write_all(store: &Store, size: usize, work: Vec<(RunId, Vec<Change>)>) {
    let changes = work.first().map_or(1, |(_, changes)| changes.len());
    // Full batches only: nothing is waited for, and the patience is longer than the measurement.
    let options = WriterOptions { queue: 4096, max_batch: size * changes, linger: Duration::from_secs(600) };
    let (writer, service) = store.writer(ServerId::generate(), options);
    let service = JoinSet::from_iter([service.run(CancellationToken::new())]);
    for (run, changes) in work {
        writer.write(run, changes).await.unwrap();
    }
    drop(writer);
    service.join_all().await;
}

fn appends(count: u64) -> impl FnOnce(RealmId) -> Work {
    move |realm| {
        let runs: Vec<NewRun> = (0..RUNS).map(|_| new_run()).collect();
        let append_in_turn = |at| (runs[(at % RUNS) as usize].id, vec![append(at / RUNS + 1)]);
        Work {
            first: runs.iter().map(|run| (run.id, vec![begin(realm, run)])).collect(),
            measured: (0..count).map(append_in_turn).collect(),
        }
    }
}

fn direct_calls(count: u64) -> impl FnOnce(RealmId) -> Work {
    move |realm| {
        let call = |run: NewRun| {
            let ended = Change::Settle { state: state(RunStatus::Completed), waits: Vec::new() };
            (run.id, vec![begin(realm, &run), append(1), ended])
        };
        Work { first: Vec::new(), measured: (0..count).map(|_| call(new_run())).collect() }
    }
}

fn begin(realm: RealmId, run: &NewRun) -> Change {
    Change::Begin { realm, run: Box::new(run.clone()), state: Box::new(state(RunStatus::Running)) }
}

fn append(n: u64) -> Change {
    let body = json!({"tool": "orders/search", "input": {"q": "x".repeat(100)}, "output": "y".repeat(130), "n": n});
    Change::Append(Entry { n, at: now(), kind: "call_finished".into(), body: body.to_string(), hash: [0; 32] })
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
        fork: None,
        trial: None,
        parts: Vec::new(),
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
        driven: status == RunStatus::Running,
        mark: Mark::default(),
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
