//! Tests of documents, their revisions and their isolation by realm.

use serde_json::{Value, json};
use toolwright_store::{CreateError, DeleteError, DocumentRef, InvalidBody, NewRevision, ReplaceError};
use toolwright_types::DocumentKind::Tool;
use toolwright_types::{DefinitionSource, Document, json::hex_digest};

use crate::support::{TestDb, name, realm, revision};

on_both_databases!(
    document_is_read_back_as_written,
    write_with_an_outdated_revision_fails_and_returns_the_current_one,
    documents_are_not_visible_in_another_realm,
    name_of_a_deleted_document_can_be_reused,
    body_with_nul_or_more_than_100_levels_is_rejected,
);

fn by_name(text: &str) -> DocumentRef {
    DocumentRef::parse(Tool, text)
}

fn says(document: &Document<Value>) -> &Value {
    &document.body["says"]
}

async fn document_is_read_back_as_written(db: TestDb) {
    let store = db.open().await;
    let realm = realm(&store, "main").await;
    let definitions = store.definitions(&realm);
    let body = json!({
        "zebra": 1, "apple": {"y": [1.5, null, true], "b": "ü \u{1F600} \" \\ \n"}, "mango": 12345678901234567_u64,
    });
    let new = NewRevision { source: DefinitionSource::Gram, ..revision("Search/Deals", body.clone()) };

    let created = definitions.create(Tool, new, "someone").await.unwrap();
    let read = definitions.get(Tool, &by_name("Search/Deals")).await.unwrap().unwrap();

    assert_eq!(read, created);
    assert_eq!(read.body.to_string(), body.to_string(), "the order of keys is preserved");
    assert_eq!(read.meta.ref_name, name("Search/Deals"));
    assert_eq!((read.meta.revision, read.meta.source), (1, DefinitionSource::Gram));
    assert_eq!(read.meta.content_hash, hex_digest(&body));
    assert_eq!((read.meta.created_by.as_str(), read.meta.updated_by.as_str()), ("someone", "someone"));
    assert!(read.meta.id.starts_with("tool_"));
    assert_eq!(definitions.get(Tool, &by_name(&read.meta.id)).await.unwrap().unwrap(), read);

    let next = revision("Search/Deals", json!({"says": "two"}));
    let replaced = definitions.replace(Tool, &by_name(&read.meta.id), Some(1), next, "another").await.unwrap();
    assert_eq!(definitions.get(Tool, &by_name("search/deals")).await.unwrap().unwrap(), replaced);
    assert_eq!((replaced.meta.revision, says(&replaced)), (2, &json!("two")));
    assert_eq!((replaced.meta.created_by.as_str(), replaced.meta.updated_by.as_str()), ("someone", "another"));
    assert_eq!(replaced.meta.created_at, created.meta.created_at);
    assert!(replaced.meta.updated_at > created.meta.updated_at);
}

async fn write_with_an_outdated_revision_fails_and_returns_the_current_one(db: TestDb) {
    let store = db.open().await;
    let realm = realm(&store, "main").await;
    let definitions = store.definitions(&realm);
    let tool = by_name("t");
    definitions.create(Tool, revision("t", json!({"says": 1})), "someone").await.unwrap();
    definitions.replace(Tool, &tool, None, revision("t", json!({"says": 2})), "someone").await.unwrap();

    let before = store.generation().await.unwrap();
    let stale = definitions.replace(Tool, &tool, Some(1), revision("u", json!({"says": 3})), "another").await;
    assert!(matches!(stale, Err(ReplaceError::Stale { current: 2 })), "{stale:?}");
    let stale = definitions.delete(Tool, &tool, Some(1)).await;
    assert!(matches!(stale, Err(DeleteError::Stale { current: 2 })), "{stale:?}");
    let missing = definitions.replace(Tool, &by_name("nobody"), Some(1), revision("u", json!({})), "another").await;
    assert!(matches!(missing, Err(ReplaceError::NotFound)), "{missing:?}");

    let found = definitions.get(Tool, &tool).await.unwrap().unwrap();
    assert_eq!((found.meta.revision, says(&found)), (2, &json!(2)));
    assert_eq!(store.generation().await.unwrap(), before);
}

async fn documents_are_not_visible_in_another_realm(db: TestDb) {
    let store = db.open().await;
    let (here, there) = (realm(&store, "here").await, realm(&store, "there").await);
    let (ours, theirs) = (store.definitions(&here), store.definitions(&there));
    let own = ours.create(Tool, revision("t", json!({"says": "ours"})), "someone").await.unwrap();
    let other = theirs.create(Tool, revision("T", json!({"says": "theirs"})), "another").await.unwrap();
    theirs.create(Tool, revision("only-there", json!({})), "another").await.unwrap();

    assert_eq!(says(&ours.get(Tool, &by_name("t")).await.unwrap().unwrap()), "ours");
    assert_eq!(says(&theirs.get(Tool, &by_name("t")).await.unwrap().unwrap()), "theirs");
    assert_eq!(ours.get(Tool, &by_name("only-there")).await.unwrap(), None);
    assert_eq!(ours.count(Tool, &[], None).await.unwrap(), 1);

    let foreign = DocumentRef::Id(other.meta.id.clone());
    assert_eq!(ours.get(Tool, &foreign).await.unwrap(), None);
    assert_eq!(ours.get_version(Tool, &foreign, &"1.0.0".parse().unwrap()).await.unwrap(), None);
    assert_eq!(ours.versions(Tool, &foreign).await.unwrap(), []);
    let replaced = ours.replace(Tool, &foreign, None, revision("t", json!({})), "someone").await;
    assert!(matches!(replaced, Err(ReplaceError::NotFound)), "{replaced:?}");
    let deleted = ours.delete(Tool, &foreign, None).await;
    assert!(matches!(deleted, Err(DeleteError::NotFound)), "{deleted:?}");
    assert_eq!(theirs.get(Tool, &foreign).await.unwrap().unwrap(), other);
    assert_eq!(ours.get(Tool, &by_name("t")).await.unwrap().unwrap(), own);
}

async fn name_of_a_deleted_document_can_be_reused(db: TestDb) {
    let store = db.open().await;
    let realm = realm(&store, "main").await;
    let definitions = store.definitions(&realm);
    let first = definitions.create(Tool, revision("t", json!({"says": 1})), "someone").await.unwrap();
    definitions.delete(Tool, &by_name("T"), Some(1)).await.unwrap();

    let id = DocumentRef::Id(first.meta.id.clone());
    assert_eq!(definitions.get(Tool, &by_name("t")).await.unwrap(), None);
    assert_eq!(definitions.get(Tool, &id).await.unwrap(), None);
    assert_eq!(definitions.versions(Tool, &id).await.unwrap(), []);
    assert_eq!(definitions.by_hash(Tool, &first.meta.content_hash).await.unwrap(), None);
    assert_eq!(definitions.count(Tool, &[], None).await.unwrap(), 0);
    assert!(matches!(definitions.delete(Tool, &id, None).await, Err(DeleteError::NotFound)));

    let second = definitions.create(Tool, revision("t", json!({"says": 2})), "another").await.unwrap();
    assert_ne!(second.meta.id, first.meta.id);
    assert_eq!(second.meta.revision, 1);
    definitions.delete(Tool, &by_name("t"), None).await.unwrap();
    definitions
        .create(Tool, revision("t", json!({"says": 3})), "another")
        .await
        .expect("a name can be reused repeatedly");
}

async fn body_with_nul_or_more_than_100_levels_is_rejected(db: TestDb) {
    let store = db.open().await;
    let realm = realm(&store, "main").await;
    let definitions = store.definitions(&realm);
    let nested = |levels| (0..levels).fold(json!("deep"), |inner, _| json!([inner]));
    for (body, because) in [
        (json!({"a": ["\0"]}), InvalidBody::Nul),
        (json!({"a\0": 1}), InvalidBody::Nul),
        (nested(101), InvalidBody::TooDeep),
    ] {
        let error = definitions.create(Tool, revision("t", body), "someone").await.unwrap_err();
        assert!(matches!(&error, CreateError::Body(reason) if *reason == because), "{error:?}");
    }
    definitions.create(Tool, revision("t", nested(100)), "someone").await.unwrap();
    assert_eq!(definitions.get(Tool, &by_name("t")).await.unwrap().unwrap().body, nested(100));
}
