//! Tests of opening and closing stores, and of several stores on one database.

use secrecy::{ExposeSecret as _, SecretString};
use serde_json::json;
use toolwright_store::{DocumentRef, Location, NewApiKey, OpenStoreError, SecretScope, Store, StoreOptions, SyncMode};
use toolwright_types::DocumentKind::Tool;

use crate::support::{TestDb, name, on_postgres, on_sqlite, principal, realm, revision};

on_both_databases!(
    data_is_unchanged_after_close_and_reopen,
    calls_on_a_closed_store_return_an_error,
    commit_with_sync_mode_system_is_visible_to_another_store,
    change_by_one_store_is_visible_to_another_store_on_the_same_database,
    database_of_a_newer_release_is_rejected,
);

async fn data_is_unchanged_after_close_and_reopen(db: TestDb) {
    let store = db.open().await;
    let main = realm(&store, "main").await;
    let someone = principal(&store, &main, "someone").await;
    let tool = store.definitions(&main).create(Tool, revision("t", json!({"says": 1})), "someone").await.unwrap();
    let key = NewApiKey { principal: someone, label: "laptop".into(), hash: [7; 32], expires_at: None };
    store.tenancy().create_key(key, "someone").await.unwrap();
    store.secrets(&main).put(SecretScope::Realm, &name("s"), SecretString::from("shh"), "someone").await.unwrap();
    let generation = store.generation().await.unwrap();
    store.close().await;

    let store = db.open().await;
    store.ping().await.unwrap();
    assert_eq!(store.generation().await.unwrap(), generation, "opening does not change the generation");
    assert_eq!(realm(&store, "main").await, main);
    assert_eq!(store.definitions(&main).get(Tool, &DocumentRef::parse(Tool, "t")).await.unwrap(), Some(tool));
    assert_eq!(store.tenancy().find_key(&[7; 32]).await.unwrap().unwrap().1.id, someone);
    let secret = store.secrets(&main).lookup(&name("s"), someone).await.unwrap().unwrap();
    assert_eq!(store.secrets(&main).unseal(&secret).await.unwrap().expose_secret(), "shh");
}

async fn calls_on_a_closed_store_return_an_error(db: TestDb) {
    let store = db.open().await;
    let main = realm(&store, "main").await;
    store.close().await;
    let closed = store.ping().await.unwrap_err();
    assert_eq!(closed.to_string(), "the database failed");
    assert!(std::error::Error::source(&closed).is_some());
    store.definitions(&main).create(Tool, revision("t", json!({})), "someone").await.unwrap_err();
}

async fn commit_with_sync_mode_system_is_visible_to_another_store(db: TestDb) {
    let system_sync = Store::open(StoreOptions { sync: SyncMode::System, ..db.options() }).await.unwrap();
    let main = realm(&system_sync, "main").await;
    let tool = system_sync.definitions(&main).create(Tool, revision("t", json!({"says": 1})), "someone").await.unwrap();
    let store = db.open().await;
    assert_eq!(store.definitions(&main).get(Tool, &DocumentRef::parse(Tool, "t")).await.unwrap(), Some(tool));
}

async fn change_by_one_store_is_visible_to_another_store_on_the_same_database(db: TestDb) {
    let (one, two) = (db.open().await, db.open().await);
    let main = realm(&one, "main").await;
    assert_eq!(realm(&two, "main").await, main);
    let tool = DocumentRef::parse(Tool, "t");
    let seen = two.generation().await.unwrap();

    one.definitions(&main).create(Tool, revision("t", json!({"says": 1})), "someone").await.unwrap();
    one.definitions(&main).replace(Tool, &tool, None, revision("t", json!({"says": 2})), "someone").await.unwrap();
    assert_eq!(two.definitions(&main).get(Tool, &tool).await.unwrap().unwrap().body["says"], 2);
    one.definitions(&main).delete(Tool, &tool, None).await.unwrap();
    one.secrets(&main).put(SecretScope::Org, &name("s"), SecretString::from("x"), "someone").await.unwrap();
    assert_eq!(two.generation().await.unwrap(), seen + 4, "each change increments the generation once");
}

async fn database_of_a_newer_release_is_rejected(db: TestDb) {
    db.open().await.close().await;
    db.tamper(
        "INSERT INTO _sqlx_migrations (version, description, success, checksum, execution_time)
         VALUES (9999, 'from the future', TRUE, '', 0)",
    )
    .await;
    let error = Store::open(db.options()).await.unwrap_err();
    assert!(matches!(error, OpenStoreError::Newer(9999)), "{error:?}");
}

/// Tested on Postgres only, because only one server may use an SQLite file.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_opens_of_a_new_database_all_succeed() {
    on_postgres(|db| async move {
        let mut starts = tokio::task::JoinSet::new();
        for _ in 0..4 {
            let db = db.clone();
            starts.spawn(async move { db.open().await.generation().await.unwrap() });
        }
        assert_eq!(starts.join_all().await, [0; 4]);
    })
    .await;
}

#[tokio::test]
async fn open_error_contains_the_file_path() {
    on_sqlite(|db| async move {
        let nowhere = Location::Sqlite("/no/such/folder/store.db".into());
        let error = Store::open(StoreOptions { url: nowhere, ..db.options() }).await.unwrap_err();
        assert_eq!(error.to_string(), "open database file `/no/such/folder/store.db`");
    })
    .await;
}

#[tokio::test]
async fn postgres_password_is_not_in_debug_output_or_errors() {
    on_sqlite(|db| async move {
        for url in ["postgres://someone:hunter2@127.0.0.1:99999/x", "postgres://someone:hunter2@[::/x"] {
            let url = Location::Postgres(url.into());
            assert!(!format!("{url:?}").contains("hunter2"));
            let error = Store::open(StoreOptions { url, ..db.options() }).await.unwrap_err();
            let shown = format!("{error:?} {error}");
            assert!(!shown.contains("hunter2"), "{shown}");
        }
    })
    .await;
}
