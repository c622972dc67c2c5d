//! Benchmark of the writer on SQLite: CPU time per journal entry, CPU time per run, and throughput.
//!
//! Run it with `cargo bench -p toolwright-store --bench writer`. It works only on Linux, because it reads its CPU time
//! from `/proc`.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::indexing_slicing,
    reason = "benchmarks may panic and print their results"
)]

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::json;
use tempfile::TempDir;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use toolwright_store::{
    EntryNotes, JournalEntry, JournalPosition, Location, NewRun, RunChange, RunKind, RunLabels, RunState, SealKey,
    ServerId, Store, StoreOptions, WriterOptions,
};
use toolwright_types::{Clock as _, DocumentId, Owner, PrincipalId, RealmId, RunId, RunStatus, SystemClock, Timestamp};

/// The number of runs. They append entries in rotation.
const RUNS: u64 = 16;

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() {
    println!(
        "| operation | per transaction | CPU µs per operation | of it in the kernel | operations per second |\n|---|---|---|---|---|"
    );
    for (size, count) in [(1, 4_000), (16, 64_000), (256, 128_000)] {
        measure("entries of 300 bytes", size, appends(count)).await;
    }
    for (size, count) in [(1, 4_000), (16, 32_000), (256, 64_000)] {
        measure("runs of one entry", size, direct_calls(count)).await;
    }
}

/// The changes to write, prepared before the measurement.
struct Work {
    setup: Vec<(RunId, Vec<RunChange>)>,
    measured: Vec<(RunId, Vec<RunChange>)>,
}

/// Writes the changes with `size` calls per transaction and prints the result.
async fn measure(what: &str, size: usize, work: impl FnOnce(RealmId) -> Work) {
    let folder = TempDir::new().unwrap();
    let store = Store::open(StoreOptions {
        url: Location::Sqlite(folder.path().join("store.db")),
        sync: toolwright_store::SyncMode::Disk,
        clock: Arc::new(SystemClock),
        seal: SealKey::from_base64(&format!("{}=", "A".repeat(43))).unwrap(),
    })
    .await
    .unwrap();
    let org = store.tenancy().ensure_org(&"acme".parse().unwrap()).await.unwrap();
    let realm = store.tenancy().ensure_realm(org, &"main".parse().unwrap()).await.unwrap().realm;
    let Work { setup, measured } = work(realm);
    write_all(&store, size, setup).await;

    let count = measured.len() as f64;
    let (started, before) = (Instant::now(), cpu());
    write_all(&store, size, measured).await;
    let (took, after) = (started.elapsed(), cpu());

    let each = |ticks: u64| ticks as f64 * MICROS_PER_TICK / count;
    let (total, kernel) = (each(after[0] + after[1] - before[0] - before[1]), each(after[1] - before[1]));
    println!("| {what} | {size} | {total:.1} | {kernel:.1} | {:.0} |", count / took.as_secs_f64());
    store.close().await;
}

async fn write_all(store: &Store, size: usize, work: Vec<(RunId, Vec<RunChange>)>) {
    let changes = work.first().map_or(1, |(_, changes)| changes.len());
    // Every batch is full: no caller waits for a commit, and the linger time is longer than the measurement.
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
        let append_in_turn = |index| (runs[(index % RUNS) as usize].id, vec![append(index / RUNS + 1)]);
        Work {
            setup: runs.iter().map(|run| (run.id, vec![begin(realm, run)])).collect(),
            measured: (0..count).map(append_in_turn).collect(),
        }
    }
}

fn direct_calls(count: u64) -> impl FnOnce(RealmId) -> Work {
    move |realm| {
        let call = |run: NewRun| {
            let ended = RunChange::UpdateState { state: state(RunStatus::Completed), waits: Vec::new() };
            (run.id, vec![begin(realm, &run), append(1), ended])
        };
        Work { setup: Vec::new(), measured: (0..count).map(|_| call(new_run())).collect() }
    }
}

fn begin(realm: RealmId, run: &NewRun) -> RunChange {
    RunChange::Begin { realm, run: Box::new(run.clone()), state: Box::new(state(RunStatus::Running)) }
}

fn append(n: u64) -> RunChange {
    let body = json!({"tool": "orders/search", "input": {"q": "x".repeat(100)}, "output": "y".repeat(130), "n": n});
    RunChange::Append(JournalEntry {
        n,
        at: now(),
        kind: "call_finished".into(),
        body: body.to_string(),
        hash: [0; 32],
        notes: EntryNotes::default(),
    })
}

fn new_run() -> NewRun {
    NewRun {
        id: RunId::generate(),
        kind: RunKind::Tool,
        subject: "orders/search".into(),
        subject_hash: "a".repeat(64),
        parent: None,
        conversation: None,
        owner: Owner::new(PrincipalId::generate()),
        principal: PrincipalId::generate(),
        durable: false,
        started_at: now(),
        fork: None,
        trial: None,
        shared_parts: Vec::new(),
        labels: RunLabels::default(),
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
        journal_position: JournalPosition::default(),
    }
}

fn now() -> Timestamp {
    SystemClock.now()
}

/// Linux reports CPU times in ticks of 10 ms on all common systems.
const MICROS_PER_TICK: f64 = 10_000.0;

/// The CPU time of this process in ticks: the sum of user mode and kernel mode.
fn cpu() -> [u64; 2] {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    // Skip the process name: it is in parentheses and may contain spaces. The later fields contain no spaces.
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
    [fields[11].parse().unwrap(), fields[12].parse().unwrap()]
}
