//! Many writers at once: nothing is lost, nothing is numbered twice.

use serde_json::json;
use tokio::task::JoinSet;
use toolwright_store::{CreateError, Ref, ReplaceError, Store};
use toolwright_types::DocumentKind::Tool;
use toolwright_types::RealmScope;

use crate::support::{TestDb, realm, revision, version};

on_both_databases!(
    parallel_increments_are_all_counted,
    parallel_writers_of_versions_all_succeed,
    of_parallel_creators_one_wins,
);

const WRITERS: u64 = 16;
const ROUNDS: u64 = 4;

fn tool() -> Ref {
    Ref::parse(Tool, "t")
}

/// Adds one to the document's number, again and again until no one else was faster; gives the revision it made.
async fn increment(store: &Store, realm: &RealmScope) -> i64 {
    let definitions = store.in_realm(realm);
    loop {
        let read = definitions.get(Tool, &tool()).await.unwrap().unwrap();
        let count = read.body["count"].as_u64().unwrap();
        let new = revision("t", json!({"count": count + 1}));
        match definitions.replace(Tool, &tool(), Some(read.meta.revision), new, "w").await {
            Ok(written) => return written.meta.revision,
            Err(ReplaceError::Stale { current }) => assert!(current > read.meta.revision),
            Err(other) => panic!("{other:?}"),
        }
    }
}

async fn parallel_increments_are_all_counted(db: TestDb) {
    // Two stores, as two servers have them.
    let stores = [db.open().await, db.open().await];
    let realm = realm(&stores[0], "main").await;
    stores[0].in_realm(&realm).create(Tool, revision("t", json!({"count": 0})), "someone").await.unwrap();
    let before = stores[0].generation().await.unwrap();

    let mut writers = JoinSet::new();
    for writer in 0..WRITERS {
        let (store, realm) = (stores[writer as usize % 2].clone(), realm.clone());
        writers.spawn(async move {
            let mut revisions = Vec::new();
            for _ in 0..ROUNDS {
                revisions.push(increment(&store, &realm).await);
            }
            revisions
        });
    }
    let mut revisions = writers.join_all().await.concat();
    revisions.sort_unstable();

    let writes = WRITERS * ROUNDS;
    assert_eq!(revisions, (2..=writes as i64 + 1).collect::<Vec<_>>(), "each write has its own revision");
    let read = stores[1].in_realm(&realm).get(Tool, &tool()).await.unwrap().unwrap();
    assert_eq!(read.body["count"], writes, "no update is lost");
    let after = stores[1].generation().await.unwrap();
    assert_eq!(after - before, writes as i64, "and each is announced");
}

async fn parallel_writers_of_versions_all_succeed(db: TestDb) {
    let store = db.open().await;
    let realm = realm(&store, "main").await;
    store.in_realm(&realm).create(Tool, revision("t", json!({"n": 0})), "someone").await.unwrap();

    let mut writers = JoinSet::new();
    for n in 1..=WRITERS {
        let (store, realm) = (store.clone(), realm.clone());
        writers.spawn(async move {
            let new = version(&format!("1.{n}.0"), true, revision("t", json!({"n": n})));
            store.in_realm(&realm).replace(Tool, &tool(), None, new, "w").await.unwrap();
        });
    }
    writers.join_all().await;

    let definitions = store.in_realm(&realm);
    let versions = definitions.versions(Tool, &tool()).await.unwrap();
    let numbers: Vec<_> = versions.iter().map(|version| version.body["n"].as_u64().unwrap()).collect();
    assert_eq!(numbers, (0..=WRITERS).rev().collect::<Vec<_>>());
    assert_eq!(definitions.get(Tool, &tool()).await.unwrap().unwrap().body["n"], WRITERS);
}

async fn of_parallel_creators_one_wins(db: TestDb) {
    let store = db.open().await;
    let realm = realm(&store, "main").await;
    let mut writers = JoinSet::new();
    for n in 0..WRITERS {
        let (store, realm) = (store.clone(), realm.clone());
        writers.spawn(async move { store.in_realm(&realm).create(Tool, revision("t", json!({"n": n})), "w").await });
    }
    let results = writers.join_all().await;
    assert_eq!(results.iter().filter(|result| result.is_ok()).count(), 1);
    assert!(results.iter().all(|result| matches!(result, Ok(_) | Err(CreateError::Duplicate(_)))), "{results:?}");
}
