//! Tests the events of a realm: when they are written, and in which order they are read.

use std::time::Duration;

use serde_json::json;
use sqlx::Connection as _;
use toolwright_store::{EventPage, EventPosition, EventType, RunChange, RunState, Store, Wait, WaitKind};
use toolwright_types::DocumentKind::Tool;
use toolwright_types::{RealmScope, RunStatus};

use crate::run_support::{RunningWriter, append, at, begin, new_run, state, wait};
use crate::support::{TestDb, on_postgres, realm, realm_with_tools, revision};

on_both_databases!(
    run_has_an_event_for_each_change_of_its_status_and_for_each_new_wait,
    change_that_is_rejected_has_no_event,
    deletion_is_reported_to_readers_that_have_not_read_the_deleted_events,
);

/// The maximum time that a test waits for events to become readable.
const TIMEOUT: Duration = Duration::from_secs(60);

async fn read_now(store: &Store, realm: &RealmScope, after: EventPosition) -> EventPage {
    store.events(realm).read_after(after, 100).await.unwrap()
}

/// Reads until no event is delayed. Transactions of other tests on the same Postgres server delay events too.
async fn read(store: &Store, realm: &RealmScope, after: EventPosition) -> EventPage {
    let reading = async {
        loop {
            let page = read_now(store, realm, after).await;
            if !page.delayed {
                return page;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(TIMEOUT, reading).await.expect("the events become readable")
}

async fn types(store: &Store, realm: &RealmScope) -> Vec<EventType> {
    read(store, realm, EventPosition::default()).await.events.iter().map(|event| event.event_type).collect()
}

/// A state of a run that this server still drives.
fn update(status: RunStatus, waits: &[Wait]) -> RunChange {
    let ended_at = status.is_terminal().then(|| at(9));
    RunChange::UpdateState { state: RunState { driven: true, ended_at, ..state(status) }, waits: waits.to_vec() }
}

async fn run_has_an_event_for_each_change_of_its_status_and_for_each_new_wait(db: TestDb) {
    use EventType::{ApprovalRequested, RunChanged, RunEnded, RunStarted};
    let store = db.open().await;
    let realm = realm(&store, "main").await;
    let running = RunningWriter::start(&store);
    let run = new_run();
    let waits = [wait("one", WaitKind::Approval, 1), wait("two", WaitKind::Client, 1)];
    let more = [waits[0].clone(), wait("three", WaitKind::Approval, 2)];
    for (changes, expected) in [
        (vec![begin(&realm, &run), append(1)], vec![RunStarted]),
        (vec![update(RunStatus::AwaitingApproval, &waits)], vec![RunChanged, ApprovalRequested]),
        (vec![update(RunStatus::AwaitingApproval, &waits)], vec![]),
        (vec![update(RunStatus::AwaitingApproval, &more)], vec![ApprovalRequested]),
        (vec![update(RunStatus::Completed, &[])], vec![RunEnded]),
    ] {
        let before = types(&store, &realm).await.len();
        running.writer.commit(run.id, changes).await.unwrap();
        assert_eq!(types(&store, &realm).await[before..], expected);
    }
    let events = read(&store, &realm, EventPosition::default()).await.events;
    assert!(events.iter().all(|event| event.owner == Some(run.owner)), "{events:?}");
    let whole = new_run();
    running.writer.commit(whole.id, vec![begin(&realm, &whole), update(RunStatus::Error, &[])]).await.unwrap();
    assert_eq!(types(&store, &realm).await[events.len()..], [RunStarted, RunEnded]);
    running.stop().await;
}

async fn change_that_is_rejected_has_no_event(db: TestDb) {
    let store = db.open().await;
    let realm = realm_with_tools(&store, &[("a", json!({}))]).await;
    let running = RunningWriter::start(&store);
    let run = new_run();
    running.writer.commit(run.id, vec![begin(&realm, &run), append(1)]).await.unwrap();
    store.definitions(&realm).create(Tool, revision("a", json!({})), "x").await.unwrap_err();
    let conflict = vec![update(RunStatus::AwaitingClient, &[]), append(1)];
    running.writer.commit(run.id, conflict).await.unwrap_err();
    assert_eq!(types(&store, &realm).await, [EventType::DefinitionCreated, EventType::RunStarted]);
    running.stop().await;
}

async fn deletion_is_reported_to_readers_that_have_not_read_the_deleted_events(db: TestDb) {
    let store = db.open().await;
    let tools = ["a", "b", "c"].map(|name| (name, json!({})));
    let realm = realm_with_tools(&store, &tools).await;
    let events = store.events(&realm);
    let positions: Vec<_> = read(&store, &realm, EventPosition::default()).await.events;
    let positions: Vec<_> = positions.into_iter().map(|event| event.position).collect();
    assert_eq!(events.delete_old(at(-1_000_000_000_000_000), 5).await.unwrap(), 0);
    assert_eq!(events.delete_old(at(-1_000_000_000_000_000), 1).await.unwrap(), 2);
    assert!(read(&store, &realm, positions[0]).await.lost);
    let page = read(&store, &realm, positions[1]).await;
    assert_eq!((page.lost, page.events.len()), (false, 1));
    let bounds = events.bounds().await.unwrap();
    assert_eq!((bounds.deleted, bounds.newest), (positions[1], positions[2]));
    assert_eq!(events.delete_old(at(1_000_000_000_000_000), 5).await.unwrap(), 1);
    let bounds = events.bounds().await.unwrap();
    assert_eq!((bounds.deleted, bounds.newest), (positions[2], positions[2]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn event_of_a_transaction_that_commits_late_is_not_skipped() {
    on_postgres(async |db: TestDb| {
        let store = db.open().await;
        let realm = realm(&store, "main").await;
        let mut connection = db.postgres().await;
        let mut late = connection.begin().await.unwrap();
        let insert = "INSERT INTO events (realm_id, at, event_type, kind, subject_id, ref_name)
                      VALUES ($1, 0, 'DRIFT_FOUND', 'drift', 'd', 'late')";
        sqlx::query(insert).bind(realm.realm.to_string()).execute(&mut *late).await.unwrap();
        store.definitions(&realm).create(Tool, revision("early", json!({})), "x").await.unwrap();
        let page = read_now(&store, &realm, EventPosition::default()).await;
        assert_eq!((page.events, page.delayed), (Vec::new(), true), "the older transaction is still active");
        assert_eq!(store.events(&realm).bounds().await.unwrap().newest, EventPosition::default());
        late.commit().await.unwrap();
        let page = read(&store, &realm, EventPosition::default()).await;
        let names: Vec<_> = page.events.iter().map(|event| event.ref_name.as_deref().unwrap()).collect();
        assert_eq!((names, page.delayed), (vec!["late", "early"], false));
    })
    .await;
}
