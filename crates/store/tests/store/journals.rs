//! The writer: everything, once, in order, whoever else fails.

use std::future::{Future, ready};
use std::time::Duration;

use tokio::task::JoinSet;
use toolwright_store::{Change, Mark, NewRun, RunQuery, ServerId, Store, WaitKind, WriteError, Writer, WriterOptions};
use toolwright_types::{DocumentId, RealmScope, RunId, RunStatus};

use crate::running::{
    Writing, append, begin, entry, new_conversation, new_run, numbers, open, say, settle, state, turn, wait,
};
use crate::support::{TestDb, realm};

on_both_databases!(
    many_runs_at_once_lose_nothing_and_keep_their_order,
    states_of_one_transaction_come_down_to_the_last,
    an_owner_who_comes_second_is_told_and_hurts_nobody_else,
    a_refused_run_stays_refused_until_it_is_forgotten,
    what_is_queued_behind_a_failed_change_is_not_written,
    a_run_that_does_not_exist_fails_alone,
    a_database_that_is_gone_is_told_to_every_run,
    stopping_writes_what_is_queued,
    a_crash_leaves_a_prefix_with_all_that_was_promised,
    a_full_batch_does_not_linger,
    a_full_queue_makes_callers_wait,
    writing_runs_announces_no_change_of_definitions,
    a_run_that_was_over_before_it_was_written_is_read_like_any_other,
    a_writer_that_nobody_can_reach_any_more_writes_at_once,
);

const HOUR: Duration = Duration::from_secs(3600);

/// Holds everything back until someone waits for it.
fn patient() -> WriterOptions {
    WriterOptions { linger: HOUR, ..WriterOptions::default() }
}

/// Whether it is done the first time it is asked.
async fn is_ready<T>(future: impl Future<Output = T>) -> bool {
    tokio::select! { biased; _ = future => true, () = ready(()) => false }
}

async fn begun(writer: &Writer, realm: &RealmScope) -> NewRun {
    let run = new_run();
    writer.commit(run.id, vec![begin(realm, &run)]).await.unwrap();
    run
}

async fn many_runs_at_once_lose_nothing_and_keep_their_order(db: TestDb) {
    const RUNS: u64 = 24;
    const ENTRIES: u64 = 60;
    let store = db.open().await;
    let realm = realm(&store, "main").await;
    // Small, so that queue and batches are full again and again.
    let writing = Writing::with(&store, WriterOptions { queue: 7, max_batch: 33, linger: Duration::from_millis(1) });
    let mut drivers = JoinSet::new();
    for seed in 0..RUNS {
        let (writer, realm, store) = (writing.writer.clone(), realm.clone(), store.clone());
        drivers.spawn(async move {
            let run = new_run();
            writer.write(run.id, vec![begin(&realm, &run)]).await.unwrap();
            let (mut n, mut size) = (0, seed);
            while n < ENTRIES {
                size = (size * 5 + 3) % 7 + 1;
                let next = (n + size).min(ENTRIES);
                let changes: Vec<Change> = (n + 1..=next).map(append).collect();
                n = next;
                if size % 3 == 0 {
                    writer.commit(run.id, changes).await.unwrap();
                    let seen = numbers(&store, &realm, run.id).await;
                    assert_eq!(seen, (1..=n).collect::<Vec<_>>(), "what is committed can be read");
                } else {
                    writer.write(run.id, changes).await.unwrap();
                }
            }
            writer.commit(run.id, vec![settle(RunStatus::Completed)]).await.unwrap();
            run.id
        });
    }
    for run in drivers.join_all().await {
        let entries = store.runs(&realm).entries(run, 0, 1000).await.unwrap();
        assert_eq!(entries, (1..=ENTRIES).map(entry).collect::<Vec<_>>());
    }
    let completed = RunQuery { status: vec![RunStatus::Completed], limit: 1000, ..RunQuery::default() };
    assert_eq!(store.runs(&realm).list(&completed).await.unwrap().items.len() as u64, RUNS);
    writing.stop().await;
}

async fn states_of_one_transaction_come_down_to_the_last(db: TestDb) {
    let store = db.open().await;
    let realm = realm(&store, "main").await;
    let writing = Writing::with(&store, patient());
    let old = begun(&writing.writer, &realm).await;
    let new = new_run();
    let suspended = |tool| Change::Settle {
        state: state(RunStatus::AwaitingApproval),
        waits: vec![wait(tool, WaitKind::Approval, 1)],
    };
    writing.writer.write(old.id, vec![suspended("a")]).await.unwrap();
    writing.writer.write(new.id, vec![begin(&realm, &new), suspended("a")]).await.unwrap();
    writing.writer.write(old.id, vec![settle(RunStatus::Running), suspended("b")]).await.unwrap();
    writing.writer.commit(new.id, vec![suspended("b"), settle(RunStatus::Error)]).await.unwrap();

    let runs = store.runs(&realm);
    assert_eq!(runs.get(old.id).await.unwrap().unwrap().state, state(RunStatus::AwaitingApproval));
    assert_eq!(runs.get(new.id).await.unwrap().unwrap().state, state(RunStatus::Error));
    let pending = runs.waits(&Default::default()).await.unwrap().items;
    let pending: Vec<_> = pending.into_iter().map(|pending| (pending.run, pending.wait)).collect();
    assert_eq!(pending, [(old.id, wait("b", WaitKind::Approval, 1))]);
    writing.stop().await;
}

async fn an_owner_who_comes_second_is_told_and_hurts_nobody_else(db: TestDb) {
    // Two servers that both believe to own a run.
    let (one, two) = (db.open().await, db.open().await);
    let realm = realm(&one, "main").await;
    let (first, second) = (Writing::start(&one), Writing::with(&two, patient()));
    let contested = begun(&first.writer, &realm).await;
    first.writer.commit(contested.id, vec![append(1)]).await.unwrap();

    let talk = new_conversation();
    let others: Vec<NewRun> = (0..5).map(|_| new_run()).collect();
    second.writer.write(others[0].id, vec![open(&realm, &talk)]).await.unwrap();
    for (at, run) in others.iter().enumerate() {
        let said = say(&realm, talk.id, vec![turn("user", &at.to_string(), 1)]);
        second.writer.write(run.id, vec![begin(&realm, run), append(1), said]).await.unwrap();
        if at == 2 {
            second.writer.write(contested.id, vec![append(1), append(2), settle(RunStatus::Error)]).await.unwrap();
        }
    }
    // All of this is one batch, which is repeated run by run.
    second.writer.commit(others[0].id, vec![append(2)]).await.unwrap();

    for run in &others {
        let expected: &[u64] = if run.id == others[0].id { &[1, 2] } else { &[1] };
        assert_eq!(numbers(&one, &realm, run.id).await, expected);
    }
    let turns = one.conversations(&realm).turns(talk.id, 0, 100).await.unwrap();
    let said: Vec<_> = turns.iter().map(|turn| (turn.index, turn.content.as_str())).collect();
    assert_eq!(said, [(0, "0"), (1, "1"), (2, "2"), (3, "3"), (4, "4")], "what was repeated is there once");
    assert_eq!(numbers(&one, &realm, contested.id).await, [1]);
    assert_eq!(one.runs(&realm).get(contested.id).await.unwrap().unwrap().state, state(RunStatus::Running));

    let refused = second.writer.write(contested.id, vec![append(3)]).await.unwrap_err();
    assert!(matches!(refused, WriteError::Conflict(run) if run == contested.id), "{refused:?}");
    assert!(refused.to_string().contains(&contested.id.to_string()), "{refused}");
    first.writer.commit(contested.id, vec![append(2)]).await.unwrap();
    assert_eq!(numbers(&one, &realm, contested.id).await, [1, 2], "the first owner goes on");
    first.stop().await;
    second.stop().await;
}

async fn a_refused_run_stays_refused_until_it_is_forgotten(db: TestDb) {
    let store = db.open().await;
    let realm = realm(&store, "main").await;
    let writing = Writing::with(&store, patient());
    let writer = &writing.writer;
    let (run, other) = (begun(writer, &realm).await, begun(writer, &realm).await);
    writer.commit(run.id, vec![append(1)]).await.unwrap();

    // Queued before anyone knows that the one before has failed.
    writer.write(run.id, vec![append(1)]).await.unwrap();
    writer.write(run.id, vec![append(2)]).await.unwrap();
    writer.commit(other.id, vec![append(1)]).await.unwrap();
    assert_eq!(numbers(&store, &realm, run.id).await, [1], "nothing is written over the gap");
    for refused in [writer.write(run.id, vec![append(2)]).await, writer.commit(run.id, Vec::new()).await] {
        assert!(matches!(refused, Err(WriteError::Conflict(_))), "{refused:?}");
    }
    writer.commit(other.id, vec![append(2)]).await.unwrap();

    writer.forget(run.id).await.unwrap();
    writer.commit(run.id, vec![append(2)]).await.unwrap();
    assert_eq!(numbers(&store, &realm, run.id).await, [1, 2]);
    // What was queued before stays refused, what comes after is written, even in the same breath.
    writer.write(run.id, vec![append(2)]).await.unwrap();
    writer.write(run.id, vec![append(7)]).await.unwrap();
    writer.forget(run.id).await.unwrap();
    writer.commit(run.id, vec![append(3)]).await.unwrap();
    assert_eq!(numbers(&store, &realm, run.id).await, [1, 2, 3]);
    writer.forget(RunId::generate()).await.unwrap();
    writing.stop().await;
}

async fn what_is_queued_behind_a_failed_change_is_not_written(db: TestDb) {
    let store = db.open().await;
    let realm = realm(&store, "main").await;
    // One call to a transaction, and all of them queued before the first is written.
    let (writer, service) = store.writer(ServerId::generate(), WriterOptions { max_batch: 1, ..patient() });
    let (run, other) = (new_run(), new_run());
    for (id, change) in [
        (run.id, begin(&realm, &run)),
        (run.id, append(1)),
        (run.id, append(1)),
        (other.id, begin(&realm, &other)),
        (run.id, append(2)),
        (other.id, append(1)),
        (run.id, settle(RunStatus::Completed)),
    ] {
        writer.write(id, vec![change]).await.unwrap();
    }
    drop(writer);
    service.run(Default::default()).await;
    assert_eq!(numbers(&store, &realm, run.id).await, [1]);
    assert_eq!(store.runs(&realm).get(run.id).await.unwrap().unwrap().state, state(RunStatus::Running));
    assert_eq!(numbers(&store, &realm, other.id).await, [1]);
}

async fn a_run_that_does_not_exist_fails_alone(db: TestDb) {
    let store = db.open().await;
    let realm = realm(&store, "main").await;
    let writing = Writing::with(&store, patient());
    let run = begun(&writing.writer, &realm).await;
    for change in [append(1), settle(RunStatus::Error)] {
        let nobody = RunId::generate();
        writing.writer.write(nobody, vec![change]).await.unwrap();
        writing.writer.commit(run.id, Vec::new()).await.unwrap();
        let refused = writing.writer.commit(nobody, Vec::new()).await.unwrap_err();
        let named = match &refused {
            WriteError::Conflict(run) | WriteError::Unavailable { run, .. } => *run,
            WriteError::Stopped => panic!("the writer goes on"),
        };
        assert_eq!(named, nobody);
    }
    writing.writer.commit(run.id, vec![append(1)]).await.unwrap();
    assert_eq!(numbers(&store, &realm, run.id).await, [1]);
    writing.stop().await;
}

async fn a_database_that_is_gone_is_told_to_every_run(db: TestDb) {
    let store = db.open().await;
    let realm = realm(&store, "main").await;
    let writing = Writing::with(&store, patient());
    let (one, two) = (begun(&writing.writer, &realm).await, begun(&writing.writer, &realm).await);
    store.close().await;
    writing.writer.write(one.id, vec![append(1)]).await.unwrap();
    writing.writer.commit(two.id, Vec::new()).await.expect("nothing of this run is missing");
    for (run, changes) in [(&two, vec![append(1)]), (&one, Vec::new())] {
        let refused = writing.writer.commit(run.id, changes).await.unwrap_err();
        assert!(matches!(&refused, WriteError::Unavailable { run: id, .. } if *id == run.id), "{refused:?}");
    }
    writing.stop().await;
}

async fn stopping_writes_what_is_queued(db: TestDb) {
    let store = db.open().await;
    let realm = realm(&store, "main").await;
    let writing = Writing::with(&store, patient());
    let (writer, server) = (writing.writer.clone(), writing.server.clone());
    let run = begun(&writer, &realm).await;
    for n in 1..=50 {
        writer.write(run.id, vec![append(n)]).await.unwrap();
    }
    writing.stop().await;
    assert_eq!(numbers(&store, &realm, run.id).await, (1..=50).collect::<Vec<_>>());
    for stopped in [
        writer.write(run.id, vec![append(51)]).await,
        writer.commit(run.id, Vec::new()).await,
        writer.forget(run.id).await,
    ] {
        assert!(matches!(stopped, Err(WriteError::Stopped)), "{stopped:?}");
    }

    // Also without being told: the last writer goes.
    let (writer, service) = store.writer(server, patient());
    writer.write(run.id, vec![append(51)]).await.unwrap();
    drop(writer);
    service.run(Default::default()).await;
    assert_eq!(numbers(&store, &realm, run.id).await.last(), Some(&51));
}

/// Drives runs until the writer is gone, and gives each with the number of the last entry that was promised.
fn drive(writer: &Writer, realm: &RealmScope, runs: u64) -> JoinSet<(RunId, u64)> {
    let mut drivers = JoinSet::new();
    for _ in 0..runs {
        let (writer, realm) = (writer.clone(), realm.clone());
        drivers.spawn(async move {
            let run = new_run();
            let (mut n, mut promised) = (0, 0);
            let mut begin = vec![begin(&realm, &run)];
            loop {
                begin.extend([append(n + 1), append(n + 2)]);
                let changes = std::mem::take(&mut begin);
                n += 2;
                let outcome = if n % 6 == 0 {
                    writer.commit(run.id, changes).await.inspect(|()| promised = n)
                } else {
                    writer.write(run.id, changes).await
                };
                match outcome {
                    Ok(()) => {}
                    Err(WriteError::Stopped) => return (run.id, promised),
                    Err(other) => panic!("{other:?}"),
                }
            }
        });
    }
    drivers
}

async fn a_crash_leaves_a_prefix_with_all_that_was_promised(db: TestDb) {
    let store = db.open().await;
    let realm = realm(&store, "main").await;
    for crash in 1..=8 {
        let options = WriterOptions { queue: 16, max_batch: 10, linger: Duration::from_millis(1) };
        let writing = Writing::with(&store, options);
        let drivers = drive(&writing.writer, &realm, 6);
        // The service is killed wherever it happens to be when so many commits of one more run have passed.
        let clock = begun(&writing.writer, &realm).await;
        for n in 1..=crash {
            writing.writer.commit(clock.id, vec![append(n)]).await.unwrap();
        }
        writing.kill().await;
        assert_eq!(numbers(&store, &realm, clock.id).await, (1..=crash).collect::<Vec<_>>());
        for (run, promised) in drivers.join_all().await {
            let found = numbers(&store, &realm, run).await;
            assert_eq!(found, (1..=found.len() as u64).collect::<Vec<_>>(), "no gaps");
            assert!(found.len() as u64 >= promised, "{} of {promised}", found.len());
            assert_eq!(found.len() % 2, 0, "what was written in one call is there as a whole or not at all");
        }
    }
}

async fn a_full_batch_does_not_linger(db: TestDb) {
    let store = db.open().await;
    let realm = realm(&store, "main").await;
    let writing = Writing::with(&store, WriterOptions { max_batch: 3, ..patient() });
    let run = begun(&writing.writer, &realm).await;
    for n in 1..=3 {
        writing.writer.write(run.id, vec![append(n)]).await.unwrap();
    }
    // Nobody waits for it; it comes all the same.
    while numbers(&store, &realm, run.id).await != [1, 2, 3] {}
    writing.stop().await;
}

async fn a_full_queue_makes_callers_wait(db: TestDb) {
    let store = db.open().await;
    let realm = realm(&store, "main").await;
    let (writer, service) = store.writer(ServerId::generate(), WriterOptions { queue: 2, ..patient() });
    let run = new_run();
    let write = |changes| writer.write(run.id, changes);
    assert!(is_ready(write(vec![begin(&realm, &run)])).await);
    assert!(is_ready(write(vec![append(1)])).await);
    assert!(!is_ready(write(vec![append(7)])).await, "the queue is full; this caller gave up");

    let stop = Default::default();
    let service = JoinSet::from_iter([service.run(stop)]);
    writer.commit(run.id, vec![append(2)]).await.unwrap();
    assert_eq!(numbers(&store, &realm, run.id).await, [1, 2]);
    drop(writer);
    service.join_all().await;
}

async fn writing_runs_announces_no_change_of_definitions(db: TestDb) {
    let store = db.open().await;
    let realm = realm(&store, "main").await;
    let before = store.generation().await.unwrap();
    let writing = Writing::start(&store);
    let (run, talk) = (new_run(), new_conversation());
    let changes = vec![open(&realm, &talk), begin(&realm, &run), append(1), settle(RunStatus::Completed)];
    writing.writer.commit(run.id, changes).await.unwrap();
    writing.writer.write(run.id, vec![append(1)]).await.unwrap();
    writing.writer.forget(run.id).await.unwrap();
    writing.stop().await;
    assert_eq!(store.generation().await.unwrap(), before);
}

/// What the futures of a server need.
#[test]
fn a_writer_can_be_shared_between_tasks() {
    fn check<T: Clone + Send + Sync + 'static>() {}
    check::<Writer>();
    check::<Store>();
}

async fn a_run_that_was_over_before_it_was_written_is_read_like_any_other(db: TestDb) {
    let store = db.open().await;
    let realm = realm(&store, "main").await;
    let writing = Writing::with(&store, patient());
    let told = |run: &NewRun| {
        let mut over = state(RunStatus::Completed);
        over.ended_at = Some(run.started_at);
        over.mark = Mark { n: 3, hash: entry(3).hash };
        Change::Begin { realm: realm.realm, run: Box::new(run.clone()), state: Box::new(over) }
    };
    let (whole, empty, other) = (new_run(), new_run(), new_run());
    writing.writer.write(whole.id, [told(&whole)].into_iter().chain((1..=3).map(append)).collect()).await.unwrap();
    writing.writer.write(other.id, vec![begin(&realm, &other), append(1)]).await.unwrap();
    writing.writer.commit(empty.id, vec![told(&empty)]).await.unwrap();

    let runs = store.runs(&realm);
    assert_eq!(numbers(&store, &realm, other.id).await, [1]);
    assert_eq!(numbers(&store, &realm, empty.id).await, Vec::<u64>::new());
    for (after, limit, expected) in [(0, 1000, 1..4), (0, 2, 1..3), (1, 1000, 2..4), (2, 1, 3..4), (3, 9, 4..4)] {
        let entries = runs.entries(whole.id, after, limit).await.unwrap();
        assert_eq!(entries, expected.map(entry).collect::<Vec<_>>(), "{limit} after {after}");
    }
    let stored = runs.get(whole.id).await.unwrap().unwrap();
    assert_eq!((stored.state.status, stored.state.mark.n), (RunStatus::Completed, 3));

    // It is there once, whoever writes it again.
    let again = writing.writer.commit(whole.id, vec![told(&whole), append(1)]).await;
    assert!(matches!(again, Err(WriteError::Conflict(_))), "{again:?}");
    assert!(runs.delete(whole.id, "ada", whole.started_at).await.unwrap());
    assert_eq!(runs.tombstone(whole.id).await.unwrap().unwrap().entries, 3);
    assert!(runs.entries(whole.id, 0, 1000).await.unwrap().is_empty());
    writing.stop().await;
}

async fn a_writer_that_nobody_can_reach_any_more_writes_at_once(db: TestDb) {
    let store = db.open().await;
    let realm = realm(&store, "main").await;
    let (writer, service) = store.writer(ServerId::generate(), patient());
    let run = new_run();
    let mut working = JoinSet::new();
    working.spawn(service.run(Default::default()));
    writer.write(run.id, vec![begin(&realm, &run), append(1)]).await.unwrap();
    drop(writer);
    tokio::time::timeout(HOUR / 60, working.join_all()).await.unwrap();
    assert_eq!(numbers(&store, &realm, run.id).await, [1]);
}
