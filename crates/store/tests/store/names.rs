//! Names: case, renaming, and texts that are none.

use serde_json::json;
use toolwright_store::{CreateError, Ref, ReplaceError};
use toolwright_types::DocumentKind::{Provider, Tool};

use crate::support::{TestDb, name, realm, revision};

on_both_databases!(
    a_name_is_found_in_any_case_and_taken_in_any_case,
    a_document_can_be_renamed_but_not_onto_another,
    a_name_that_reads_like_an_id_is_refused,
    text_that_names_nothing_finds_nothing,
);

fn by_name(text: &str) -> Ref {
    Ref::parse(Tool, text)
}

async fn a_name_is_found_in_any_case_and_taken_in_any_case(db: TestDb) {
    let store = db.open().await;
    let realm = realm(&store, "main").await;
    let definitions = store.in_realm(&realm);
    definitions.create(Tool, revision("sayHello", json!({})), "someone").await.unwrap();

    let found = definitions.get(Tool, &by_name("SAYhello")).await.unwrap().unwrap();
    assert_eq!(found.meta.ref_name, name("sayHello"));
    let again = definitions.create(Tool, revision("SayHello", json!({})), "someone").await.unwrap_err();
    assert!(matches!(&again, CreateError::Duplicate(taken) if *taken == name("SayHello")), "{again:?}");
    assert_eq!(again.to_string(), "`SayHello` already exists");
    definitions.create(Provider, revision("sayHello", json!({})), "someone").await.expect("another kind, another name");
}

async fn a_document_can_be_renamed_but_not_onto_another(db: TestDb) {
    let store = db.open().await;
    let realm = realm(&store, "main").await;
    let definitions = store.in_realm(&realm);
    let id = definitions.create(Tool, revision("old", json!({})), "someone").await.unwrap().meta.id;
    definitions.create(Tool, revision("taken", json!({})), "someone").await.unwrap();

    let renamed =
        definitions.replace(Tool, &by_name("old"), Some(1), revision("New", json!({})), "someone").await.unwrap();
    assert_eq!((renamed.meta.id.as_str(), renamed.meta.ref_name.as_str()), (id.as_str(), "New"));
    assert_eq!(definitions.get(Tool, &by_name("old")).await.unwrap(), None);
    let onto = definitions.replace(Tool, &by_name("new"), None, revision("TAKEN", json!({})), "someone").await;
    assert!(matches!(onto, Err(ReplaceError::Duplicate(_))), "{onto:?}");
    assert_eq!(definitions.get(Tool, &by_name("new")).await.unwrap().unwrap(), renamed);
}

async fn a_name_that_reads_like_an_id_is_refused(db: TestDb) {
    let store = db.open().await;
    let realm = realm(&store, "main").await;
    let definitions = store.in_realm(&realm);
    let id = Tool.new_id();
    let refused = definitions.create(Tool, revision(&id, json!({})), "someone").await.unwrap_err();
    assert!(matches!(refused, CreateError::NameIsId(_)), "{refused:?}");
    definitions.create(Provider, revision(&id, json!({})), "someone").await.expect("it is no provider's id");
}

async fn text_that_names_nothing_finds_nothing(db: TestDb) {
    let store = db.open().await;
    let realm = realm(&store, "main").await;
    let definitions = store.in_realm(&realm);
    definitions.create(Tool, revision("t", json!({})), "someone").await.unwrap();
    for text in ["", "\0", "t\0", "tool_", "tool_\0", "%", "' OR 1 = 1 --", &Tool.new_id(), &"x".repeat(100_000)] {
        assert_eq!(definitions.get(Tool, &by_name(text)).await.unwrap(), None, "{text:?}");
    }
    assert_eq!(definitions.get(Tool, &Ref::Id("\0".into())).await.unwrap(), None);
}
