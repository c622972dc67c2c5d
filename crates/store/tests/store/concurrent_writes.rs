//! Tests of concurrent writes to documents: no write is lost and no revision number is used twice.

use serde_json::json;
use tokio::task::JoinSet;
use toolwright_store::{CreateError, DocumentRef, ReplaceError, Store};
use toolwright_types::DocumentKind::Tool;
use toolwright_types::RealmScope;

use crate::support::{TestDb, realm, revision, version};

on_both_databases!(
    concurrent_increments_are_not_lost,
    concurrent_writes_of_different_versions_are_all_kept,
    exactly_one_of_16_concurrent_creates_of_a_name_succeeds,
);

const WRITERS: u64 = 16;
const ROUNDS: u64 = 4;

fn tool() -> DocumentRef {
    DocumentRef::parse(Tool, "t")
}

/// Increments the counter in the document. Retries if another writer was faster. Returns the new revision.
async fn increment(store: &Store, realm: &RealmScope) -> i64 {
    let definitions = store.definitions(realm);
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

async fn concurrent_increments_are_not_lost(db: TestDb) {
    // Each store represents a server.
    let stores = [db.open().await, db.open().await];
    let realm = realm(&stores[0], "main").await;
    stores[0].definitions(&realm).create(Tool, revision("t", json!({"count": 0})), "someone").await.unwrap();
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
    let read = stores[1].definitions(&realm).get(Tool, &tool()).await.unwrap().unwrap();
    assert_eq!(read.body["count"], writes, "no update is lost");
    let after = stores[1].generation().await.unwrap();
    assert_eq!(after - before, writes as i64, "each write increments the generation");
}

async fn concurrent_writes_of_different_versions_are_all_kept(db: TestDb) {
    let store = db.open().await;
    let realm = realm(&store, "main").await;
    store.definitions(&realm).create(Tool, revision("t", json!({"n": 0})), "someone").await.unwrap();

    let mut writers = JoinSet::new();
    for n in 1..=WRITERS {
        let (store, realm) = (store.clone(), realm.clone());
        writers.spawn(async move {
            let new = version(&format!("1.{n}.0"), true, revision("t", json!({"n": n})));
            store.definitions(&realm).replace(Tool, &tool(), None, new, "w").await.unwrap();
        });
    }
    writers.join_all().await;

    let definitions = store.definitions(&realm);
    let versions = definitions.versions(Tool, &tool()).await.unwrap();
    let numbers: Vec<_> = versions.iter().map(|version| version.body["n"].as_u64().unwrap()).collect();
    assert_eq!(numbers, (0..=WRITERS).rev().collect::<Vec<_>>());
    assert_eq!(definitions.get(Tool, &tool()).await.unwrap().unwrap().body["n"], WRITERS);
}

async fn exactly_one_of_16_concurrent_creates_of_a_name_succeeds(db: TestDb) {
    let store = db.open().await;
    let realm = realm(&store, "main").await;
    let mut writers = JoinSet::new();
    for n in 0..WRITERS {
        let (store, realm) = (store.clone(), realm.clone());
        writers.spawn(async move { store.definitions(&realm).create(Tool, revision("t", json!({"n": n})), "w").await });
    }
    let results = writers.join_all().await;
    assert_eq!(results.iter().filter(|result| result.is_ok()).count(), 1);
    assert!(results.iter().all(|result| matches!(result, Ok(_) | Err(CreateError::Duplicate(_)))), "{results:?}");
}
