//! Tests of document names: case, renaming and invalid names.

use serde_json::json;
use toolwright_store::{CreateError, DocumentRef, ReplaceError};
use toolwright_types::DocumentKind::{Provider, Tool};

use crate::support::{TestDb, name, realm, revision};

on_both_databases!(
    document_names_are_case_insensitive,
    renaming_to_a_name_in_use_is_rejected,
    name_in_the_form_of_an_id_is_rejected,
    get_with_an_unknown_or_invalid_name_returns_none,
);

fn by_name(text: &str) -> DocumentRef {
    DocumentRef::parse(Tool, text)
}

async fn document_names_are_case_insensitive(db: TestDb) {
    let store = db.open().await;
    let realm = realm(&store, "main").await;
    let definitions = store.definitions(&realm);
    definitions.create(Tool, revision("sayHello", json!({})), "someone").await.unwrap();

    let found = definitions.get(Tool, &by_name("SAYhello")).await.unwrap().unwrap();
    assert_eq!(found.meta.ref_name, name("sayHello"));
    let again = definitions.create(Tool, revision("SayHello", json!({})), "someone").await.unwrap_err();
    assert!(matches!(&again, CreateError::Duplicate(taken) if *taken == name("SayHello")), "{again:?}");
    assert_eq!(again.to_string(), "`SayHello` already exists");
    definitions.create(Provider, revision("sayHello", json!({})), "someone").await.expect("names are unique per kind");
}

async fn renaming_to_a_name_in_use_is_rejected(db: TestDb) {
    let store = db.open().await;
    let realm = realm(&store, "main").await;
    let definitions = store.definitions(&realm);
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

async fn name_in_the_form_of_an_id_is_rejected(db: TestDb) {
    let store = db.open().await;
    let realm = realm(&store, "main").await;
    let definitions = store.definitions(&realm);
    let id = Tool.new_id();
    let error = definitions.create(Tool, revision(&id, json!({})), "someone").await.unwrap_err();
    assert!(matches!(error, CreateError::NameIsId(_)), "{error:?}");
    definitions
        .create(Provider, revision(&id, json!({})), "someone")
        .await
        .expect("the id of a tool is a valid name of a provider");
}

async fn get_with_an_unknown_or_invalid_name_returns_none(db: TestDb) {
    let store = db.open().await;
    let realm = realm(&store, "main").await;
    let definitions = store.definitions(&realm);
    definitions.create(Tool, revision("t", json!({})), "someone").await.unwrap();
    for text in ["", "\0", "t\0", "tool_", "tool_\0", "%", "' OR 1 = 1 --", &Tool.new_id(), &"x".repeat(100_000)] {
        assert_eq!(definitions.get(Tool, &by_name(text)).await.unwrap(), None, "{text:?}");
    }
    assert_eq!(definitions.get(Tool, &DocumentRef::Id("\0".into())).await.unwrap(), None);
}
