//! Tests of the writer: order, batching, failures and shutdown.

use std::future::{Future, ready};
use std::time::Duration;

use tokio::task::JoinSet;
use toolwright_store::{
    JournalPosition, NewRun, Owners, RunChange, RunQuery, ServerId, Store, WaitKind, WriteError, Writer, WriterOptions,
};
use toolwright_types::{DocumentId, RealmScope, RunId, RunStatus};

use crate::run_support::{
    RunningWriter, add_turns, append, begin, entry, new_conversation, new_run, numbers, open, state, turn,
    update_state, wait,
};
use crate::support::{TestDb, realm};

on_both_databases!(
    entries_of_concurrent_runs_are_stored_completely_and_in_order,
    last_of_several_states_in_one_transaction_is_stored,
    write_to_a_run_of_another_server_fails_without_affecting_other_runs,
    changes_of_a_failed_run_are_rejected_until_the_failure_is_cleared,
    changes_queued_behind_a_failed_change_of_the_same_run_are_not_written,
    write_to_an_unknown_run_fails_without_affecting_other_runs,
    commits_after_the_database_is_closed_fail_for_every_run_with_changes,
    stopping_the_writer_writes_the_queued_changes,
    journal_after_a_crash_is_gapless_and_has_all_committed_entries,
    full_batch_is_written_although_no_caller_waits,
    write_waits_while_the_queue_is_full,
    changes_from_builders_are_written_in_queue_order_and_a_builder_panic_affects_only_its_run,
    writing_runs_does_not_change_the_generation_of_the_store,
    inline_journal_is_read_like_a_journal_with_one_row_per_entry,
    dropping_the_last_writer_writes_the_queued_changes,
);

const HOUR: Duration = Duration::from_secs(3600);

/// Options with which the writer delays all writes until a caller waits for a commit.
fn lingering_options() -> WriterOptions {
    WriterOptions { linger: HOUR, ..WriterOptions::default() }
}

/// Whether the future completes at its first poll.
async fn is_ready<T>(future: impl Future<Output = T>) -> bool {
    tokio::select! { biased; _ = future => true, () = ready(()) => false }
}

async fn started_run(writer: &Writer, realm: &RealmScope) -> NewRun {
    let run = new_run();
    writer.commit(run.id, vec![begin(realm, &run)]).await.unwrap();
    run
}

async fn entries_of_concurrent_runs_are_stored_completely_and_in_order(db: TestDb) {
    const RUNS: u64 = 24;
    const ENTRIES: u64 = 60;
    let store = db.open().await;
    let realm = realm(&store, "main").await;
    // The limits are small, so that the queue and the batches are often full.
    let running =
        RunningWriter::with(&store, WriterOptions { queue: 7, max_batch: 33, linger: Duration::from_millis(1) });
    let mut drivers = JoinSet::new();
    for seed in 0..RUNS {
        let (writer, realm, store) = (running.writer.clone(), realm.clone(), store.clone());
        drivers.spawn(async move {
            let run = new_run();
            writer.write(run.id, vec![begin(&realm, &run)]).await.unwrap();
            let (mut n, mut size) = (0, seed);
            while n < ENTRIES {
                size = (size * 5 + 3) % 7 + 1;
                let next = (n + size).min(ENTRIES);
                let changes: Vec<RunChange> = (n + 1..=next).map(append).collect();
                n = next;
                if size % 3 == 0 {
                    writer.commit(run.id, changes).await.unwrap();
                    let seen = numbers(&store, &realm, run.id).await;
                    assert_eq!(seen, (1..=n).collect::<Vec<_>>(), "committed entries can be read");
                } else {
                    writer.write(run.id, changes).await.unwrap();
                }
            }
            writer.commit(run.id, vec![update_state(RunStatus::Completed)]).await.unwrap();
            run.id
        });
    }
    for run in drivers.join_all().await {
        let entries = store.runs(&realm).entries(run, 0, 1000).await.unwrap();
        assert_eq!(entries, (1..=ENTRIES).map(entry).collect::<Vec<_>>());
    }
    let completed = RunQuery { status: vec![RunStatus::Completed], limit: 1000, ..RunQuery::default() };
    assert_eq!(store.runs(&realm).list(Owners::All, &completed).await.unwrap().items.len() as u64, RUNS);
    running.stop().await;
}

async fn last_of_several_states_in_one_transaction_is_stored(db: TestDb) {
    let store = db.open().await;
    let realm = realm(&store, "main").await;
    let running = RunningWriter::with(&store, lingering_options());
    let old = started_run(&running.writer, &realm).await;
    let new = new_run();
    let suspended = |tool| RunChange::UpdateState {
        state: state(RunStatus::AwaitingApproval),
        waits: vec![wait(tool, WaitKind::Approval, 1)],
    };
    running.writer.write(old.id, vec![suspended("a")]).await.unwrap();
    running.writer.write(new.id, vec![begin(&realm, &new), suspended("a")]).await.unwrap();
    running.writer.write(old.id, vec![update_state(RunStatus::Running), suspended("b")]).await.unwrap();
    running.writer.commit(new.id, vec![suspended("b"), update_state(RunStatus::Error)]).await.unwrap();

    let runs = store.runs(&realm);
    assert_eq!(runs.get(old.id).await.unwrap().unwrap().state, state(RunStatus::AwaitingApproval));
    assert_eq!(runs.get(new.id).await.unwrap().unwrap().state, state(RunStatus::Error));
    let pending = runs.waits(Owners::All, &Default::default()).await.unwrap().items;
    let pending: Vec<_> = pending.into_iter().map(|pending| (pending.run, pending.wait)).collect();
    assert_eq!(pending, [(old.id, wait("b", WaitKind::Approval, 1))]);
    running.stop().await;
}

async fn write_to_a_run_of_another_server_fails_without_affecting_other_runs(db: TestDb) {
    // Each store represents a server. Both servers write to the same run.
    let (one, two) = (db.open().await, db.open().await);
    let realm = realm(&one, "main").await;
    let (first, second) = (RunningWriter::start(&one), RunningWriter::with(&two, lingering_options()));
    let contested = started_run(&first.writer, &realm).await;
    first.writer.commit(contested.id, vec![append(1)]).await.unwrap();

    let conversation = new_conversation();
    let others: Vec<NewRun> = (0..5).map(|_| new_run()).collect();
    second.writer.write(others[0].id, vec![open(&realm, &conversation)]).await.unwrap();
    for (at, run) in others.iter().enumerate() {
        let turns_added = add_turns(&realm, conversation.id, vec![turn("user", &at.to_string(), 1)]);
        second.writer.write(run.id, vec![begin(&realm, run), append(1), turns_added]).await.unwrap();
        if at == 2 {
            second
                .writer
                .write(contested.id, vec![append(1), append(2), update_state(RunStatus::Error)])
                .await
                .unwrap();
        }
    }
    // All changes are in one batch. The batch fails, so the writer writes its changes again, run by run.
    second.writer.commit(others[0].id, vec![append(2)]).await.unwrap();

    for run in &others {
        let expected: &[u64] = if run.id == others[0].id { &[1, 2] } else { &[1] };
        assert_eq!(numbers(&one, &realm, run.id).await, expected);
    }
    let turns = one.conversations(&realm).turns(conversation.id, 0, 100).await.unwrap();
    let turns_added: Vec<_> = turns.iter().map(|turn| (turn.index, turn.content.as_str())).collect();
    assert_eq!(turns_added, [(0, "0"), (1, "1"), (2, "2"), (3, "3"), (4, "4")], "the retry writes each turn once");
    assert_eq!(numbers(&one, &realm, contested.id).await, [1]);
    assert_eq!(one.runs(&realm).get(contested.id).await.unwrap().unwrap().state, state(RunStatus::Running));

    let error = second.writer.write(contested.id, vec![append(3)]).await.unwrap_err();
    // Postgres reports that another server drives the run; SQLite reports the duplicate entry.
    let rejected = matches!(error, WriteError::Conflict(run) | WriteError::LeaseLost(run) if run == contested.id);
    assert!(rejected, "{error:?}");
    assert!(error.to_string().contains(&contested.id.to_string()), "{error}");
    first.writer.commit(contested.id, vec![append(2)]).await.unwrap();
    assert_eq!(numbers(&one, &realm, contested.id).await, [1, 2], "the first owner continues");
    first.stop().await;
    second.stop().await;
}

async fn changes_of_a_failed_run_are_rejected_until_the_failure_is_cleared(db: TestDb) {
    let store = db.open().await;
    let realm = realm(&store, "main").await;
    let running = RunningWriter::with(&store, lingering_options());
    let writer = &running.writer;
    let (run, other) = (started_run(writer, &realm).await, started_run(writer, &realm).await);
    writer.commit(run.id, vec![append(1)]).await.unwrap();

    // The second change is queued before the failure of the first change is known.
    writer.write(run.id, vec![append(1)]).await.unwrap();
    writer.write(run.id, vec![append(2)]).await.unwrap();
    writer.commit(other.id, vec![append(1)]).await.unwrap();
    assert_eq!(numbers(&store, &realm, run.id).await, [1], "no entry is written after the gap");
    for error in [writer.write(run.id, vec![append(2)]).await, writer.commit(run.id, Vec::new()).await] {
        assert!(matches!(error, Err(WriteError::Conflict(_))), "{error:?}");
    }
    writer.commit(other.id, vec![append(2)]).await.unwrap();

    writer.clear_failure(run.id).await.unwrap();
    writer.commit(run.id, vec![append(2)]).await.unwrap();
    assert_eq!(numbers(&store, &realm, run.id).await, [1, 2]);
    // Changes that were queued before `clear_failure` stay rejected. Later changes are written.
    writer.write(run.id, vec![append(2)]).await.unwrap();
    writer.write(run.id, vec![append(7)]).await.unwrap();
    writer.clear_failure(run.id).await.unwrap();
    writer.commit(run.id, vec![append(3)]).await.unwrap();
    assert_eq!(numbers(&store, &realm, run.id).await, [1, 2, 3]);
    writer.clear_failure(RunId::generate()).await.unwrap();
    running.stop().await;
}

async fn changes_queued_behind_a_failed_change_of_the_same_run_are_not_written(db: TestDb) {
    let store = db.open().await;
    let realm = realm(&store, "main").await;
    // Each call gets its own transaction. All calls are queued before the first is written.
    let (writer, service) = store.writer(ServerId::generate(), WriterOptions { max_batch: 1, ..lingering_options() });
    let (run, other) = (new_run(), new_run());
    for (id, change) in [
        (run.id, begin(&realm, &run)),
        (run.id, append(1)),
        (run.id, append(1)),
        (other.id, begin(&realm, &other)),
        (run.id, append(2)),
        (other.id, append(1)),
        (run.id, update_state(RunStatus::Completed)),
    ] {
        writer.write(id, vec![change]).await.unwrap();
    }
    drop(writer);
    service.run(Default::default()).await;
    assert_eq!(numbers(&store, &realm, run.id).await, [1]);
    assert_eq!(store.runs(&realm).get(run.id).await.unwrap().unwrap().state, state(RunStatus::Running));
    assert_eq!(numbers(&store, &realm, other.id).await, [1]);
}

async fn write_to_an_unknown_run_fails_without_affecting_other_runs(db: TestDb) {
    let store = db.open().await;
    let realm = realm(&store, "main").await;
    let running = RunningWriter::with(&store, lingering_options());
    let run = started_run(&running.writer, &realm).await;
    for change in [append(1), update_state(RunStatus::Error)] {
        let unknown = RunId::generate();
        running.writer.write(unknown, vec![change]).await.unwrap();
        running.writer.commit(run.id, Vec::new()).await.unwrap();
        let error = running.writer.commit(unknown, Vec::new()).await.unwrap_err();
        let failed = match &error {
            WriteError::Conflict(run) | WriteError::LeaseLost(run) | WriteError::Store { run, .. } => *run,
            WriteError::Stopped => panic!("the writer must not stop"),
        };
        assert_eq!(failed, unknown);
    }
    running.writer.commit(run.id, vec![append(1)]).await.unwrap();
    assert_eq!(numbers(&store, &realm, run.id).await, [1]);
    running.stop().await;
}

async fn commits_after_the_database_is_closed_fail_for_every_run_with_changes(db: TestDb) {
    let store = db.open().await;
    let realm = realm(&store, "main").await;
    let running = RunningWriter::with(&store, lingering_options());
    let (one, two) = (started_run(&running.writer, &realm).await, started_run(&running.writer, &realm).await);
    store.close().await;
    running.writer.write(one.id, vec![append(1)]).await.unwrap();
    running.writer.commit(two.id, Vec::new()).await.expect("the run has no pending changes");
    for (run, changes) in [(&two, vec![append(1)]), (&one, Vec::new())] {
        let error = running.writer.commit(run.id, changes).await.unwrap_err();
        assert!(matches!(&error, WriteError::Store { run: id, .. } if *id == run.id), "{error:?}");
    }
    running.stop().await;
}

async fn stopping_the_writer_writes_the_queued_changes(db: TestDb) {
    let store = db.open().await;
    let realm = realm(&store, "main").await;
    let running = RunningWriter::with(&store, lingering_options());
    let (writer, server) = (running.writer.clone(), running.server.clone());
    let run = started_run(&writer, &realm).await;
    for n in 1..=50 {
        writer.write(run.id, vec![append(n)]).await.unwrap();
    }
    running.stop().await;
    assert_eq!(numbers(&store, &realm, run.id).await, (1..=50).collect::<Vec<_>>());
    for stopped in [
        writer.write(run.id, vec![append(51)]).await,
        writer.commit(run.id, Vec::new()).await,
        writer.clear_failure(run.id).await,
    ] {
        assert!(matches!(stopped, Err(WriteError::Stopped)), "{stopped:?}");
    }

    // The service also stops when the last writer is dropped.
    let (writer, service) = store.writer(server, lingering_options());
    writer.write(run.id, vec![append(51)]).await.unwrap();
    drop(writer);
    service.run(Default::default()).await;
    assert_eq!(numbers(&store, &realm, run.id).await.last(), Some(&51));
}

/// Drives runs until the writer has stopped. Returns each run with the number of its last committed entry.
fn drive(writer: &Writer, realm: &RealmScope, runs: u64) -> JoinSet<(RunId, u64)> {
    let mut drivers = JoinSet::new();
    for _ in 0..runs {
        let (writer, realm) = (writer.clone(), realm.clone());
        drivers.spawn(async move {
            let run = new_run();
            let (mut n, mut committed) = (0, 0);
            let mut begin = vec![begin(&realm, &run)];
            loop {
                begin.extend([append(n + 1), append(n + 2)]);
                let changes = std::mem::take(&mut begin);
                n += 2;
                let outcome = if n % 6 == 0 {
                    writer.commit(run.id, changes).await.inspect(|()| committed = n)
                } else {
                    writer.write(run.id, changes).await
                };
                match outcome {
                    Ok(()) => {}
                    Err(WriteError::Stopped) => return (run.id, committed),
                    Err(other) => panic!("{other:?}"),
                }
            }
        });
    }
    drivers
}

async fn journal_after_a_crash_is_gapless_and_has_all_committed_entries(db: TestDb) {
    let store = db.open().await;
    let realm = realm(&store, "main").await;
    for crash in 1..=8 {
        let options = WriterOptions { queue: 16, max_batch: 10, linger: Duration::from_millis(1) };
        let running = RunningWriter::with(&store, options);
        let drivers = drive(&running.writer, &realm, 6);
        // The service is aborted after a separate run has committed `crash` times.
        let clock = started_run(&running.writer, &realm).await;
        for n in 1..=crash {
            running.writer.commit(clock.id, vec![append(n)]).await.unwrap();
        }
        running.kill().await;
        assert_eq!(numbers(&store, &realm, clock.id).await, (1..=crash).collect::<Vec<_>>());
        for (run, committed) in drivers.join_all().await {
            let found = numbers(&store, &realm, run).await;
            assert_eq!(found, (1..=found.len() as u64).collect::<Vec<_>>(), "the journal has no gaps");
            assert!(found.len() as u64 >= committed, "{} of {committed}", found.len());
            assert_eq!(found.len() % 2, 0, "the changes of one call are written together or not at all");
        }
    }
}

async fn full_batch_is_written_although_no_caller_waits(db: TestDb) {
    let store = db.open().await;
    let realm = realm(&store, "main").await;
    let running = RunningWriter::with(&store, WriterOptions { max_batch: 3, ..lingering_options() });
    let run = started_run(&running.writer, &realm).await;
    for n in 1..=3 {
        running.writer.write(run.id, vec![append(n)]).await.unwrap();
    }
    // Wait until the entries are stored. The full batch is written although no caller waits for it.
    while numbers(&store, &realm, run.id).await != [1, 2, 3] {}
    running.stop().await;
}

async fn write_waits_while_the_queue_is_full(db: TestDb) {
    let store = db.open().await;
    let realm = realm(&store, "main").await;
    let (writer, service) = store.writer(ServerId::generate(), WriterOptions { queue: 2, ..lingering_options() });
    let run = new_run();
    let write = |changes| writer.write(run.id, changes);
    assert!(is_ready(write(vec![begin(&realm, &run)])).await);
    assert!(is_ready(write(vec![append(1)])).await);
    assert!(!is_ready(write(vec![append(7)])).await, "the queue is full, so the caller has to wait");

    let stop = Default::default();
    let service = JoinSet::from_iter([service.run(stop)]);
    writer.commit(run.id, vec![append(2)]).await.unwrap();
    assert_eq!(numbers(&store, &realm, run.id).await, [1, 2]);
    drop(writer);
    service.join_all().await;
}

async fn changes_from_builders_are_written_in_queue_order_and_a_builder_panic_affects_only_its_run(db: TestDb) {
    let store = db.open().await;
    let realm = realm(&store, "main").await;
    let running = RunningWriter::with(&store, lingering_options());
    let (run, broken) = (started_run(&running.writer, &realm).await, started_run(&running.writer, &realm).await);
    running.writer.build_and_write(broken.id, Box::new(|| panic!("the changes cannot be built"))).await.unwrap();
    running.writer.build_and_write(run.id, Box::new(|| vec![append(1), append(2)])).await.unwrap();
    running.writer.commit(run.id, vec![append(3)]).await.unwrap();
    assert_eq!(numbers(&store, &realm, run.id).await, [1, 2, 3]);
    running.writer.commit(broken.id, vec![append(1)]).await.unwrap();
    assert_eq!(numbers(&store, &realm, broken.id).await, [1]);
    running.stop().await;
}

async fn writing_runs_does_not_change_the_generation_of_the_store(db: TestDb) {
    let store = db.open().await;
    let realm = realm(&store, "main").await;
    let before = store.generation().await.unwrap();
    let running = RunningWriter::start(&store);
    let (run, conversation) = (new_run(), new_conversation());
    let changes = vec![open(&realm, &conversation), begin(&realm, &run), append(1), update_state(RunStatus::Completed)];
    running.writer.commit(run.id, changes).await.unwrap();
    running.writer.write(run.id, vec![append(1)]).await.unwrap();
    running.writer.clear_failure(run.id).await.unwrap();
    running.stop().await;
    assert_eq!(store.generation().await.unwrap(), before);
}

/// Servers clone the writer and the store into many tasks.
#[test]
fn writer_and_store_can_be_shared_between_tasks() {
    fn check<T: Clone + Send + Sync + 'static>() {}
    check::<Writer>();
    check::<Store>();
}

async fn inline_journal_is_read_like_a_journal_with_one_row_per_entry(db: TestDb) {
    let store = db.open().await;
    let realm = realm(&store, "main").await;
    let running = RunningWriter::with(&store, lingering_options());
    let ended = |run: &NewRun| {
        let mut state = state(RunStatus::Completed);
        state.ended_at = Some(run.started_at);
        state.journal_position = JournalPosition { n: 3, hash: entry(3).hash };
        RunChange::Begin { realm: realm.realm, run: Box::new(run.clone()), state: Box::new(state) }
    };
    let (whole, empty, other) = (new_run(), new_run(), new_run());
    running.writer.write(whole.id, [ended(&whole)].into_iter().chain((1..=3).map(append)).collect()).await.unwrap();
    running.writer.write(other.id, vec![begin(&realm, &other), append(1)]).await.unwrap();
    running.writer.commit(empty.id, vec![ended(&empty)]).await.unwrap();

    let runs = store.runs(&realm);
    assert_eq!(numbers(&store, &realm, other.id).await, [1]);
    assert_eq!(numbers(&store, &realm, empty.id).await, Vec::<u64>::new());
    for (after, limit, expected) in [(0, 1000, 1..4), (0, 2, 1..3), (1, 1000, 2..4), (2, 1, 3..4), (3, 9, 4..4)] {
        let entries = runs.entries(whole.id, after, limit).await.unwrap();
        assert_eq!(entries, expected.map(entry).collect::<Vec<_>>(), "{limit} after {after}");
    }
    let stored = runs.get(whole.id).await.unwrap().unwrap();
    assert_eq!((stored.state.status, stored.state.journal_position.n), (RunStatus::Completed, 3));

    // A second insert of the same run is a conflict.
    let again = running.writer.commit(whole.id, vec![ended(&whole), append(1)]).await;
    assert!(matches!(again, Err(WriteError::Conflict(_))), "{again:?}");
    assert!(runs.delete(whole.id, "ada", whole.started_at).await.unwrap());
    assert_eq!(runs.tombstone(whole.id).await.unwrap().unwrap().entries, 3);
    assert!(runs.entries(whole.id, 0, 1000).await.unwrap().is_empty());
    running.stop().await;
}

async fn dropping_the_last_writer_writes_the_queued_changes(db: TestDb) {
    let store = db.open().await;
    let realm = realm(&store, "main").await;
    let (writer, service) = store.writer(ServerId::generate(), lingering_options());
    let run = new_run();
    let mut working = JoinSet::new();
    working.spawn(service.run(Default::default()));
    writer.write(run.id, vec![begin(&realm, &run), append(1)]).await.unwrap();
    drop(writer);
    tokio::time::timeout(HOUR / 60, working.join_all()).await.unwrap();
    assert_eq!(numbers(&store, &realm, run.id).await, [1]);
}
