//! Opening, closing, opening again, and several stores on one database.

use secrecy::{ExposeSecret as _, SecretString};
use serde_json::json;
use toolwright_store::{Location, NewKey, OpenError, Options, Promise, Ref, SecretScope, Store};
use toolwright_types::DocumentKind::Tool;

use crate::support::{TestDb, name, on_postgres, on_sqlite, principal, realm, revision};

on_both_databases!(
    everything_is_there_after_a_restart,
    a_closed_store_says_so,
    what_the_system_was_given_is_there_for_the_next_store,
    stores_on_one_database_see_each_others_changes,
    a_database_of_a_later_release_is_left_alone,
);

async fn everything_is_there_after_a_restart(db: TestDb) {
    let store = db.open().await;
    let main = realm(&store, "main").await;
    let someone = principal(&store, &main, "someone").await;
    let tool = store.in_realm(&main).create(Tool, revision("t", json!({"says": 1})), "someone").await.unwrap();
    let key = NewKey { principal: someone, label: "laptop".into(), hash: [7; 32], expires_at: None };
    store.tenancy().create_key(key, "someone").await.unwrap();
    store.secrets(&main).put(SecretScope::Realm, &name("s"), SecretString::from("shh"), "someone").await.unwrap();
    let generation = store.generation().await.unwrap();
    store.close().await;

    let store = db.open().await;
    store.ping().await.unwrap();
    assert_eq!(store.generation().await.unwrap(), generation, "opening changes nothing");
    assert_eq!(realm(&store, "main").await, main);
    assert_eq!(store.in_realm(&main).get(Tool, &Ref::parse(Tool, "t")).await.unwrap(), Some(tool));
    assert_eq!(store.tenancy().find_key(&[7; 32]).await.unwrap().unwrap().1.id, someone);
    let secret = store.secrets(&main).lookup(&name("s"), someone).await.unwrap().unwrap();
    assert_eq!(store.secrets(&main).unseal(&secret).await.unwrap().expose_secret(), "shh");
}

async fn a_closed_store_says_so(db: TestDb) {
    let store = db.open().await;
    let main = realm(&store, "main").await;
    store.close().await;
    let closed = store.ping().await.unwrap_err();
    assert_eq!(closed.to_string(), "the store is unavailable");
    assert!(std::error::Error::source(&closed).is_some());
    store.in_realm(&main).create(Tool, revision("t", json!({})), "someone").await.unwrap_err();
}

async fn what_the_system_was_given_is_there_for_the_next_store(db: TestDb) {
    let hasty = Store::open(Options { sync: Promise::System, ..db.options() }).await.unwrap();
    let main = realm(&hasty, "main").await;
    let tool = hasty.in_realm(&main).create(Tool, revision("t", json!({"says": 1})), "someone").await.unwrap();
    let store = db.open().await;
    assert_eq!(store.in_realm(&main).get(Tool, &Ref::parse(Tool, "t")).await.unwrap(), Some(tool));
}

async fn stores_on_one_database_see_each_others_changes(db: TestDb) {
    let (one, two) = (db.open().await, db.open().await);
    let main = realm(&one, "main").await;
    assert_eq!(realm(&two, "main").await, main);
    let tool = Ref::parse(Tool, "t");
    let seen = two.generation().await.unwrap();

    one.in_realm(&main).create(Tool, revision("t", json!({"says": 1})), "someone").await.unwrap();
    one.in_realm(&main).replace(Tool, &tool, None, revision("t", json!({"says": 2})), "someone").await.unwrap();
    assert_eq!(two.in_realm(&main).get(Tool, &tool).await.unwrap().unwrap().body["says"], 2);
    one.in_realm(&main).delete(Tool, &tool, None).await.unwrap();
    one.secrets(&main).put(SecretScope::Org, &name("s"), SecretString::from("x"), "someone").await.unwrap();
    assert_eq!(two.generation().await.unwrap(), seen + 4, "each change counts once, of whatever kind");
}

async fn a_database_of_a_later_release_is_left_alone(db: TestDb) {
    db.open().await.close().await;
    db.tamper(
        "INSERT INTO _sqlx_migrations (version, description, success, checksum, execution_time)
         VALUES (9999, 'from the future', TRUE, '', 0)",
    )
    .await;
    let refused = Store::open(db.options()).await.unwrap_err();
    assert!(matches!(refused, OpenError::Newer(9999)), "{refused:?}");
}

/// As when several servers start on a new Postgres. A SQLite file belongs to one server.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn servers_that_start_at_once_migrate_once() {
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
async fn a_file_that_cannot_be_opened_is_named() {
    on_sqlite(|db| async move {
        let nowhere = Location::Sqlite("/no/such/folder/store.db".into());
        let refused = Store::open(Options { url: nowhere, ..db.options() }).await.unwrap_err();
        assert_eq!(refused.to_string(), "open database file `/no/such/folder/store.db`");
    })
    .await;
}

#[tokio::test]
async fn a_password_is_in_no_message() {
    on_sqlite(|db| async move {
        for url in ["postgres://someone:hunter2@127.0.0.1:99999/x", "postgres://someone:hunter2@[::/x"] {
            let url = Location::Postgres(url.into());
            assert!(!format!("{url:?}").contains("hunter2"));
            let refused = Store::open(Options { url, ..db.options() }).await.unwrap_err();
            let shown = format!("{refused:?} {refused}");
            assert!(!shown.contains("hunter2"), "{shown}");
        }
    })
    .await;
}
