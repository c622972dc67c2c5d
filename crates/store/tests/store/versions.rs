//! Tests of document versions and of the choice of the head version.

use serde_json::{Value, json};
use toolwright_store::{DocumentRef, NewRevision};
use toolwright_types::DocumentKind::{Provider, Tool};
use toolwright_types::{Document, json::hex_digest};

use crate::support::{TestDb, realm, revision, version};

on_both_databases!(
    head_is_highest_active_version_or_highest_version_if_none_is_active,
    writing_a_lower_version_does_not_change_the_head,
    versions_are_listed_in_semver_order_with_their_newest_revision,
    document_of_a_kind_without_versions_returns_only_the_newest_revision,
    past_revision_is_found_by_its_content_hash,
);

fn by_name(text: &str) -> DocumentRef {
    DocumentRef::parse(Tool, text)
}

fn says(document: &Document<Value>) -> &Value {
    &document.body["says"]
}

async fn head_is_highest_active_version_or_highest_version_if_none_is_active(db: TestDb) {
    let store = db.open().await;
    let realm = realm(&store, "main").await;
    let definitions = store.definitions(&realm);
    let tool = by_name("t");
    let first = version("1.9.0", false, revision("t", json!({"says": "1.9.0"})));
    definitions.create(Tool, first, "someone").await.unwrap();

    for (number, active, head) in [
        ("1.10.0", false, "1.10.0"),        // no version is active, so the highest
        ("0.1.0", true, "0.1.0"),           // the only active one
        ("2.0.0-rc.1", true, "2.0.0-rc.1"), // a higher active one
        ("2.0.0", false, "2.0.0-rc.1"),     // higher, but not active
        ("1.9.0", true, "2.0.0-rc.1"),      // active, but lower
        ("2.0.0-rc.1", false, "1.9.0"),     // the head is deactivated
        ("2.0.0", true, "2.0.0"),           // the highest is activated
    ] {
        let new = version(number, active, revision("t", json!({"says": number})));
        let written = definitions.replace(Tool, &tool, None, new, "someone").await.unwrap();
        assert_eq!(says(&written), number, "a write returns its own content");
        let found = definitions.get(Tool, &tool).await.unwrap().unwrap();
        assert_eq!(says(&found), head, "after writing {number}, active: {active}");
        assert_eq!(found.meta.revision, written.meta.revision);
        assert_eq!(found.meta.content_hash, hex_digest(&found.body));
    }
}

async fn writing_a_lower_version_does_not_change_the_head(db: TestDb) {
    let store = db.open().await;
    let realm = realm(&store, "main").await;
    let definitions = store.definitions(&realm);
    let tool = by_name("t");
    definitions.create(Tool, revision("t", json!({"says": "one"})), "someone").await.unwrap();
    let second = version("2.0.0", true, revision("t", json!({"says": "two"})));
    definitions.replace(Tool, &tool, Some(1), second, "another").await.unwrap();
    let repaired = definitions.replace(Tool, &tool, Some(2), revision("t", json!({"says": "one, repaired"})), "cy");
    repaired.await.unwrap();

    let head = definitions.get(Tool, &tool).await.unwrap().unwrap();
    assert_eq!(says(&head), "two");
    assert_eq!(head.meta.revision, 3, "the revision that the next write must expect");
    let old = definitions.get_version(Tool, &tool, &"1.0.0".parse().unwrap()).await.unwrap().unwrap();
    assert_eq!((says(&old), old.meta.updated_by.as_str()), (&json!("one, repaired"), "cy"));
    assert_eq!(old.meta.revision, 3);
    definitions.replace(Tool, &tool, Some(head.meta.revision), revision("t", json!({})), "cy").await.unwrap();
    assert_eq!(definitions.get_version(Tool, &tool, &"3.0.0".parse().unwrap()).await.unwrap(), None);
}

async fn versions_are_listed_in_semver_order_with_their_newest_revision(db: TestDb) {
    let store = db.open().await;
    let realm = realm(&store, "main").await;
    let definitions = store.definitions(&realm);
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

async fn document_of_a_kind_without_versions_returns_only_the_newest_revision(db: TestDb) {
    let store = db.open().await;
    let realm = realm(&store, "main").await;
    let definitions = store.definitions(&realm);
    let crm = DocumentRef::parse(Provider, "crm");
    let new = |text: &str, active| NewRevision { version: None, active, ..revision("crm", json!({"says": text})) };
    let created = definitions.create(Provider, new("one", true), "someone").await.unwrap();
    assert!(created.meta.id.starts_with("prov_"));
    definitions.replace(Provider, &crm, Some(1), new("two", false), "someone").await.unwrap();

    assert_eq!(says(&definitions.get(Provider, &crm).await.unwrap().unwrap()), "two");
    assert_eq!(definitions.versions(Provider, &crm).await.unwrap().len(), 1);
    assert_eq!(definitions.get(Tool, &by_name("crm")).await.unwrap(), None);
    assert_eq!(definitions.get(Tool, &DocumentRef::Id(created.meta.id)).await.unwrap(), None);
}

async fn past_revision_is_found_by_its_content_hash(db: TestDb) {
    let store = db.open().await;
    let (here, there) = (realm(&store, "here").await, realm(&store, "there").await);
    let definitions = store.definitions(&here);
    let first = definitions.create(Tool, revision("t", json!({"says": 1})), "someone").await.unwrap();
    definitions.replace(Tool, &by_name("t"), None, revision("t", json!({"says": 2})), "another").await.unwrap();

    let found = definitions.by_hash(Tool, &first.meta.content_hash).await.unwrap().unwrap();
    assert_eq!(found, first);
    assert_eq!(definitions.by_hash(Provider, &first.meta.content_hash).await.unwrap(), None);
    assert_eq!(store.definitions(&there).by_hash(Tool, &first.meta.content_hash).await.unwrap(), None);
    assert_eq!(definitions.by_hash(Tool, "\0").await.unwrap(), None);
}
