//! Versions: which one is the head, and what becomes of the others.

use serde_json::{Value, json};
use toolwright_store::{NewRevision, Ref};
use toolwright_types::DocumentKind::{Provider, Tool};
use toolwright_types::{Document, json::hex_digest};

use crate::support::{TestDb, realm, revision, version};

on_both_databases!(
    the_head_is_the_highest_active_version,
    a_revision_of_an_old_version_leaves_the_head_alone,
    versions_are_in_semantic_order_at_their_newest_revision,
    kinds_without_versions_keep_only_their_newest,
    a_content_hash_finds_the_revision_that_had_it,
);

fn by_name(text: &str) -> Ref {
    Ref::parse(Tool, text)
}

fn says(document: &Document<Value>) -> &Value {
    &document.body["says"]
}

async fn the_head_is_the_highest_active_version(db: TestDb) {
    let store = db.open().await;
    let realm = realm(&store, "main").await;
    let definitions = store.in_realm(&realm);
    let tool = by_name("t");
    let first = version("1.9.0", false, revision("t", json!({"says": "1.9.0"})));
    definitions.create(Tool, first, "someone").await.unwrap();

    for (number, active, head) in [
        ("1.10.0", false, "1.10.0"),        // nothing is active yet, so the highest
        ("0.1.0", true, "0.1.0"),           // the only active one
        ("2.0.0-rc.1", true, "2.0.0-rc.1"), // a higher active one
        ("2.0.0", false, "2.0.0-rc.1"),     // higher, but a draft
        ("1.9.0", true, "2.0.0-rc.1"),      // active, but lower
        ("2.0.0-rc.1", false, "1.9.0"),     // the head is withdrawn
        ("2.0.0", true, "2.0.0"),           // the draft is activated
    ] {
        let new = version(number, active, revision("t", json!({"says": number})));
        let written = definitions.replace(Tool, &tool, None, new, "someone").await.unwrap();
        assert_eq!(says(&written), number, "a write shows what it wrote");
        let found = definitions.get(Tool, &tool).await.unwrap().unwrap();
        assert_eq!(says(&found), head, "after writing {number}, active: {active}");
        assert_eq!(found.meta.revision, written.meta.revision);
        assert_eq!(found.meta.content_hash, hex_digest(&found.body));
    }
}

async fn a_revision_of_an_old_version_leaves_the_head_alone(db: TestDb) {
    let store = db.open().await;
    let realm = realm(&store, "main").await;
    let definitions = store.in_realm(&realm);
    let tool = by_name("t");
    definitions.create(Tool, revision("t", json!({"says": "one"})), "someone").await.unwrap();
    let second = version("2.0.0", true, revision("t", json!({"says": "two"})));
    definitions.replace(Tool, &tool, Some(1), second, "another").await.unwrap();
    let repaired = definitions.replace(Tool, &tool, Some(2), revision("t", json!({"says": "one, repaired"})), "cy");
    repaired.await.unwrap();

    let head = definitions.get(Tool, &tool).await.unwrap().unwrap();
    assert_eq!(says(&head), "two");
    assert_eq!(head.meta.revision, 3, "the number that the next write is compared with");
    let old = definitions.get_version(Tool, &tool, &"1.0.0".parse().unwrap()).await.unwrap().unwrap();
    assert_eq!((says(&old), old.meta.updated_by.as_str()), (&json!("one, repaired"), "cy"));
    assert_eq!(old.meta.revision, 3);
    definitions.replace(Tool, &tool, Some(head.meta.revision), revision("t", json!({})), "cy").await.unwrap();
    assert_eq!(definitions.get_version(Tool, &tool, &"3.0.0".parse().unwrap()).await.unwrap(), None);
}

async fn versions_are_in_semantic_order_at_their_newest_revision(db: TestDb) {
    let store = db.open().await;
    let realm = realm(&store, "main").await;
    let definitions = store.in_realm(&realm);
    let tool = by_name("t");
    definitions.create(Tool, version("1.9.0", true, revision("t", json!({"says": "old"}))), "someone").await.unwrap();
    for (number, text) in [("1.10.0", "b"), ("1.9.0", "c"), ("1.10.0-beta", "a"), ("0.2.0", "d")] {
        let new = version(number, true, revision("t", json!({"says": text})));
        definitions.replace(Tool, &tool, None, new, "someone").await.unwrap();
    }

    let versions = definitions.versions(Tool, &tool).await.unwrap();
    assert_eq!(versions.iter().map(says).collect::<Vec<_>>(), ["b", "a", "c", "d"]);
    assert_eq!(definitions.versions(Tool, &by_name("nobody")).await.unwrap(), []);
}

async fn kinds_without_versions_keep_only_their_newest(db: TestDb) {
    let store = db.open().await;
    let realm = realm(&store, "main").await;
    let definitions = store.in_realm(&realm);
    let crm = Ref::parse(Provider, "crm");
    let new = |text: &str, active| NewRevision { version: None, active, ..revision("crm", json!({"says": text})) };
    let created = definitions.create(Provider, new("one", true), "someone").await.unwrap();
    assert!(created.meta.id.starts_with("prov_"));
    definitions.replace(Provider, &crm, Some(1), new("two", false), "someone").await.unwrap();

    assert_eq!(says(&definitions.get(Provider, &crm).await.unwrap().unwrap()), "two");
    assert_eq!(definitions.versions(Provider, &crm).await.unwrap().len(), 1);
    assert_eq!(definitions.get(Tool, &by_name("crm")).await.unwrap(), None);
    assert_eq!(definitions.get(Tool, &Ref::Id(created.meta.id)).await.unwrap(), None);
}

async fn a_content_hash_finds_the_revision_that_had_it(db: TestDb) {
    let store = db.open().await;
    let (here, there) = (realm(&store, "here").await, realm(&store, "there").await);
    let definitions = store.in_realm(&here);
    let first = definitions.create(Tool, revision("t", json!({"says": 1})), "someone").await.unwrap();
    definitions.replace(Tool, &by_name("t"), None, revision("t", json!({"says": 2})), "another").await.unwrap();

    let found = definitions.by_hash(Tool, &first.meta.content_hash).await.unwrap().unwrap();
    assert_eq!(found, first);
    assert_eq!(definitions.by_hash(Provider, &first.meta.content_hash).await.unwrap(), None);
    assert_eq!(store.in_realm(&there).by_hash(Tool, &first.meta.content_hash).await.unwrap(), None);
    assert_eq!(definitions.by_hash(Tool, "\0").await.unwrap(), None);
}
