//! Tests of reference data: replacing items and claiming due syncs.

use serde_json::{Map, Value, json};
use toolwright_store::{NewReferenceItem, ReferenceItem, ReferenceSet, SyncCounts};
use toolwright_types::Timestamp;

use crate::support::{TestDb, name, principal, realm};

on_both_databases!(
    replacing_items_writes_the_given_items_and_marks_all_others_as_deleted,
    failed_sync_does_not_change_the_items,
    reference_data_is_not_visible_in_another_realm,
    due_sync_cannot_be_claimed_twice,
    paging_returns_every_reference_item_once,
);

fn item(id: Value, name: &str) -> NewReferenceItem {
    NewReferenceItem { id, name: name.into(), metadata: Map::from_iter([("n".to_owned(), json!(name.len()))]) }
}

fn names(items: &[ReferenceItem]) -> Vec<&str> {
    items.iter().map(|item| item.name.as_str()).collect()
}

async fn replacing_items_writes_the_given_items_and_marks_all_others_as_deleted(db: TestDb) {
    let store = db.open().await;
    let main = realm(&store, "main").await;
    let by = principal(&store, &main, "someone").await;
    let (provider, data) = (name("Crm"), store.references(&main));
    let users = ReferenceSet { provider: &provider, data_type: "users" };
    let first = vec![item(json!(7), "Ada"), item(json!("b"), "Bo"), item(json!("c"), "Cy")];
    assert_eq!(
        data.replace(users, first.clone(), by, None).await.unwrap(),
        SyncCounts { created: 3, updated: 0, deleted: 0 }
    );
    assert_eq!(data.replace(users, first, by, None).await.unwrap(), SyncCounts::default());
    let second = vec![item(json!(7), "Ada"), item(json!("b"), "Bob"), item(json!("d"), "Di")];
    assert_eq!(data.replace(users, second, by, None).await.unwrap(), SyncCounts { created: 1, updated: 1, deleted: 1 });
    // Provider names are case-insensitive.
    let lower = name("crm");
    let present = data.items(ReferenceSet { provider: &lower, data_type: "users" }, 10).await.unwrap();
    assert_eq!(names(&present), ["Ada", "Bob", "Di"]);
    assert_eq!((&present[0].id, present[0].external_id.as_str()), (&json!(7), "7"));
    assert_eq!(data.count_of_type("users").await.unwrap(), 3);
    assert_eq!(data.types().await.unwrap(), ["users"]);
    let all = data.page(&provider, None, None, 10).await.unwrap();
    let gone: Vec<&str> = all.iter().filter(|item| !item.active).map(|item| item.name.as_str()).collect();
    assert_eq!(gone, ["Cy"]);
    // A restored item counts as created.
    assert_eq!(
        data.replace(users, vec![item(json!("c"), "Cy")], by, None).await.unwrap(),
        SyncCounts { created: 1, updated: 0, deleted: 3 }
    );
}

async fn failed_sync_does_not_change_the_items(db: TestDb) {
    let store = db.open().await;
    let main = realm(&store, "main").await;
    let by = principal(&store, &main, "someone").await;
    let (provider, data) = (name("crm"), store.references(&main));
    let users = ReferenceSet { provider: &provider, data_type: "users" };
    data.replace(users, vec![item(json!("a"), "Ada")], by, None).await.unwrap();
    data.record_failure(users, "no answer", by, None).await.unwrap();
    assert_eq!(names(&data.items(users, 10).await.unwrap()), ["Ada"]);
    let state = data.sync_states(&provider).await.unwrap().remove(0);
    assert_eq!(state.error.as_deref(), Some("no answer"));
    assert!(state.synced_at.is_some_and(|synced| synced <= state.attempted_at), "{state:?}");
    data.replace(users, vec![], by, None).await.unwrap();
    assert_eq!(data.sync_states(&provider).await.unwrap()[0].error, None);
}

async fn reference_data_is_not_visible_in_another_realm(db: TestDb) {
    let store = db.open().await;
    let (main, other) = (realm(&store, "main").await, realm(&store, "other").await);
    let by = principal(&store, &main, "someone").await;
    let provider = name("crm");
    let users = ReferenceSet { provider: &provider, data_type: "users" };
    store.references(&main).replace(users, vec![item(json!("a"), "Ada")], by, None).await.unwrap();
    let data = store.references(&other);
    assert!(
        data.items(users, 10).await.unwrap().is_empty() && data.items_of_type("users", 10).await.unwrap().is_empty()
    );
    assert!(data.page(&provider, None, None, 10).await.unwrap().is_empty());
    assert!(data.sync_states(&provider).await.unwrap().is_empty() && data.types().await.unwrap().is_empty());
}

async fn due_sync_cannot_be_claimed_twice(db: TestDb) {
    let store = db.open().await;
    let main = realm(&store, "main").await;
    let by = principal(&store, &main, "someone").await;
    let (provider, data) = (name("crm"), store.references(&main));
    let set = |data_type| ReferenceSet { provider: &provider, data_type };
    let past = Some(Timestamp::from_micros(1));
    data.replace(set("users"), vec![], by, past).await.unwrap();
    data.replace(set("stages"), vec![], by, None).await.unwrap();
    let later = Some(Timestamp::from_micros(4_102_444_800_000_000));
    data.record_failure(set("teams"), "why", by, later).await.unwrap();
    let due = store.due_references(10).await.unwrap();
    assert_eq!(due.iter().map(|due| due.data_type.as_str()).collect::<Vec<_>>(), ["users"]);
    assert_eq!((due[0].realm, due[0].principal, &due[0].provider), (main.realm, by, &provider));
    assert!(store.claim_reference(&due[0], later).await.unwrap());
    assert!(!store.claim_reference(&due[0], later).await.unwrap(), "another server was first");
    assert!(store.due_references(10).await.unwrap().is_empty());
}

async fn paging_returns_every_reference_item_once(db: TestDb) {
    let store = db.open().await;
    let main = realm(&store, "main").await;
    let by = principal(&store, &main, "someone").await;
    let (provider, data) = (name("crm"), store.references(&main));
    for data_type in ["users", "stages"] {
        let items = (0..5).map(|n| item(json!(format!("{n}/x")), "same")).collect();
        data.replace(ReferenceSet { provider: &provider, data_type }, items, by, None).await.unwrap();
    }
    let mut seen = Vec::new();
    loop {
        let last: Option<(String, String)> = seen.last().cloned();
        let after = last.as_ref().map(|(data_type, id)| (data_type.as_str(), id.as_str()));
        let page = data.page(&provider, None, after, 3).await.unwrap();
        if page.is_empty() {
            break;
        }
        seen.extend(page.into_iter().map(|item| (item.data_type, item.external_id)));
    }
    assert_eq!(seen.len(), 10);
    assert_eq!(data.page(&provider, Some("users"), None, 100).await.unwrap().len(), 5);
}
