//! Tests of records: queries with indexes, isolation by type and realm, and conditional writes.

use serde_json::{Value, json};
use toolwright_query::sql::{Column, Dialect, IndexKind, Layout, SearchableField, compile};
use toolwright_query::{BindContext, Filter, Query, Sort};
use toolwright_store::{
    DeleteError, DocumentRef, RealmRecords, RecordPage, RecordWrite, Selection, Store, WriteRecordsError,
};
use toolwright_types::{DocumentKind, RealmScope, Timestamp, TypeId};

use crate::support::{TestDb, realm, revision};

on_both_databases!(
    records_are_not_visible_in_another_type_or_realm,
    indexing_fields_creates_missing_indexes_and_drops_obsolete_ones,
    query_plan_uses_the_index_of_the_entity_type,
    write_returns_false_for_records_with_a_version_conflict,
    writing_records_of_a_deleted_type_is_rejected,
    filter_does_not_match_hidden_fields,
);

async fn entity(store: &Store, realm: &RealmScope, name: &str) -> TypeId {
    let new = revision(name, json!({ "refName": name }));
    let created = store.definitions(realm).create(DocumentKind::Type, new, "someone").await.unwrap();
    created.meta.id.parse().unwrap()
}

fn write(id: &str, replaces: Option<i64>, mut body: Value) -> RecordWrite {
    body["id"] = json!(id);
    let version = replaces.unwrap_or(0) + 1;
    RecordWrite { id: id.into(), replaces, version, body, by: "someone".into(), at: Timestamp::from_micros(1) }
}

fn filter(query: &str) -> Filter {
    Query::parse(query).unwrap().bind(&BindContext::empty()).unwrap()
}

fn searchable() -> Vec<SearchableField> {
    vec![
        SearchableField::new("status", IndexKind::Text).unwrap(),
        SearchableField::new("price", IndexKind::Number).unwrap(),
    ]
}

async fn found(records: &RealmRecords<'_>, query: &str) -> Vec<String> {
    let page = RecordPage { sort: Sort::default(), after: None, skip: 0, limit: 100 };
    let found = records.find(&Selection::of(filter(query), searchable()), &page).await.unwrap();
    found.iter().map(|record| record["id"].as_str().unwrap().to_owned()).collect()
}

async fn records_are_not_visible_in_another_type_or_realm(db: TestDb) {
    let store = db.open().await;
    let (one, two) = (realm(&store, "one").await, realm(&store, "two").await);
    let (orders, things) = (entity(&store, &one, "Order").await, entity(&store, &one, "Thing").await);
    let theirs = entity(&store, &two, "Order").await;
    for (scope, of) in [(&one, orders), (&one, things), (&two, theirs)] {
        let written = store.records(scope, of).write(&[write("a", None, json!({ "of": of.to_string() }))]).await;
        assert_eq!(written.unwrap(), [true]);
    }
    for (scope, of) in [(&one, orders), (&one, things), (&two, theirs)] {
        let all = Selection::of(Filter::match_all(), vec![]);
        let page = RecordPage { sort: Sort::default(), after: None, skip: 0, limit: 10 };
        let records = store.records(scope, of).find(&all, &page).await.unwrap();
        assert_eq!((records.len(), &records[0]["of"]), (1, &json!(of.to_string())));
    }
    // The type belongs to realm `one`. In realm `two` it has no records, and writing a record is an error.
    assert_eq!(found(&store.records(&two, orders), "id:a").await, [""; 0]);
    let error = store.records(&two, orders).write(&[write("b", None, json!({}))]).await.unwrap_err();
    assert!(matches!(error, WriteRecordsError::UnknownType), "{error:?}");
    let all = Selection::of(Filter::match_all(), vec![]);
    assert_eq!(store.records(&two, orders).remove(&all, None).await.unwrap(), 0);
    assert_eq!(store.records(&one, orders).remove(&all, None).await.unwrap(), 1);
    assert_eq!(store.records(&one, things).count(&all).await.unwrap(), 1);
}

/// Returns the definitions of the indexes of the `records` table, sorted.
async fn indexes(db: &TestDb) -> Vec<String> {
    let statement = match db.is_sqlite() {
        true => "SELECT sql FROM sqlite_master WHERE type = 'index' AND tbl_name = 'records' AND sql IS NOT NULL",
        false => "SELECT indexdef FROM pg_indexes WHERE tablename = 'records' AND indexname <> 'records_pkey'",
    };
    let mut definitions: Vec<String> = db.column(statement.to_owned(), &[], 0).await;
    definitions.sort();
    definitions
}

async fn indexing_fields_creates_missing_indexes_and_drops_obsolete_ones(db: TestDb) {
    let store = db.open().await;
    let realm = realm(&store, "main").await;
    let of = entity(&store, &realm, "Order").await;
    let records = store.records(&realm, of);
    records.index(&searchable()).await.unwrap();
    let made = indexes(&db).await;
    assert_eq!(made.len(), 3, "{made:#?}");
    assert!(made.iter().all(|definition| definition.contains(&of.to_string())), "{made:#?}");
    records.index(&searchable()).await.unwrap();
    assert_eq!(indexes(&db).await, made, "existing indexes are not created again");
    let changed = [
        SearchableField::new("status", IndexKind::Text).unwrap(),
        SearchableField::new("price", IndexKind::Text).unwrap(),
    ];
    records.index(&changed).await.unwrap();
    let after = indexes(&db).await;
    assert_eq!((after.len(), after.iter().filter(|definition| made.contains(definition)).count()), (3, 2));
    records.index(&[]).await.unwrap();
    assert_eq!(indexes(&db).await.len(), 1);
    let other = entity(&store, &realm, "Other").await;
    store.records(&realm, other).index(&searchable()).await.unwrap();
    records.drop_indexes().await.unwrap();
    assert_eq!(indexes(&db).await.len(), 3, "the indexes of another type stay");
}

async fn query_plan_uses_the_index_of_the_entity_type(db: TestDb) {
    let store = db.open().await;
    let realm = realm(&store, "main").await;
    for name in ["Order", "Other"] {
        let of = entity(&store, &realm, name).await;
        let records = store.records(&realm, of);
        records.index(&searchable()).await.unwrap();
        let all: Vec<RecordWrite> = (0..2000)
            .map(|n| write(&format!("r{n:04}"), None, json!({ "status": format!("s{}", n % 500), "price": n })))
            .collect();
        records.write(&all).await.unwrap();
    }
    let of: TypeId = store
        .definitions(&realm)
        .get(DocumentKind::Type, &DocumentRef::Name("order".into()))
        .await
        .unwrap()
        .unwrap()
        .meta
        .id
        .parse()
        .unwrap();
    db.tamper("ANALYZE").await;
    let records = store.records(&realm, of);
    assert_eq!(found(&records, "status:S7").await, ["r0007", "r0507", "r1007", "r1507"]);
    for query in ["status:S7", "price:>#1990", "status:^[s1, s2] && price:<#100"] {
        let explained = db.explain(&realm, of, &filter(query)).await;
        let prefix = format!("records_{}_", of.to_string().trim_start_matches("type_").to_lowercase());
        assert!(explained.contains(&prefix), "{query}:\n{explained}");
        assert!(!explained.to_lowercase().contains("seq scan"), "{query}:\n{explained}");
    }
}

async fn write_returns_false_for_records_with_a_version_conflict(db: TestDb) {
    let store = db.open().await;
    let realm = realm(&store, "main").await;
    let records_of = entity(&store, &realm, "Order").await;
    let records = store.records(&realm, records_of);
    let first = [write("a", None, json!({ "n": 1 })), write("b", None, json!({})), write("a", None, json!({ "n": 2 }))];
    assert_eq!(records.write(&first).await.unwrap(), [true, true, false]);
    let second = [
        write("a", Some(1), json!({ "n": 3 })),
        write("b", Some(7), json!({ "n": 3 })),
        write("c", Some(1), json!({})),
        write("d", None, json!({})),
        write("b", None, json!({})),
    ];
    assert_eq!(records.write(&second).await.unwrap(), [true, false, false, true, false]);
    assert_eq!(found(&records, "n:#3").await, ["a"]);
    assert_eq!(found(&records, "id:~").await, ["a", "b", "d"]);
    // One invalid body fails the whole batch.
    let third = [write("e", None, json!({})), write("f", None, json!({ "text": "\0" }))];
    assert!(matches!(records.write(&third).await, Err(WriteRecordsError::Body(_))));
    assert_eq!(found(&records, "id:e").await, [""; 0]);
    let one = Selection::of(Filter::ids(["a".into()]), vec![]);
    assert_eq!(records.remove(&one, Some(1)).await.unwrap(), 0);
    assert_eq!(records.remove(&one, Some(2)).await.unwrap(), 1);
}

async fn writing_records_of_a_deleted_type_is_rejected(db: TestDb) {
    let store = db.open().await;
    let realm = realm(&store, "main").await;
    let of = entity(&store, &realm, "Order").await;
    let records = store.records(&realm, of);
    records.write(&[write("a", None, json!({}))]).await.unwrap();
    let delete = || async {
        store.definitions(&realm).delete(DocumentKind::Type, &DocumentRef::Name("Order".into()), None).await
    };
    assert!(matches!(delete().await, Err(DeleteError::HasRecords)));
    records.remove(&Selection::of(Filter::match_all(), vec![]), None).await.unwrap();
    delete().await.unwrap();
    assert!(matches!(records.write(&[write("b", None, json!({}))]).await, Err(WriteRecordsError::UnknownType)));
}

async fn filter_does_not_match_hidden_fields(db: TestDb) {
    let store = db.open().await;
    let realm = realm(&store, "main").await;
    let of = entity(&store, &realm, "Order").await;
    let records = store.records(&realm, of);
    let bodies = [
        ("a", json!({ "open": "gold", "shut": { "x": "lead" } })),
        ("b", json!({ "open": "lead", "it's \"": "gold" })),
    ];
    records.write(&bodies.map(|(id, body)| write(id, None, body))).await.unwrap();
    for (query, hidden, expected) in [
        ("text(gold)", vec![], vec!["a", "b"]),
        ("text(gold)", vec!["open"], vec!["b"]),
        ("text(lead)", vec!["shut"], vec!["b"]),
        ("text(lead)", vec!["shut", "open"], vec![]),
        ("text(gold)", vec!["x') --"], vec!["a", "b"]),
    ] {
        let hidden: Vec<String> = hidden.into_iter().map(str::to_owned).collect();
        let selection = Selection { stored: Filter::match_all(), visible: filter(query), hidden, searchable: vec![] };
        let page = RecordPage { sort: Sort::default(), after: None, skip: 0, limit: 10 };
        let found = records.find(&selection, &page).await.unwrap();
        let ids: Vec<&str> = found.iter().map(|record| record["id"].as_str().unwrap()).collect();
        assert_eq!(ids, expected, "{query} without {:?}", selection.hidden);
        assert_eq!(records.count(&selection).await.unwrap(), expected.len() as u64);
    }
}

impl TestDb {
    /// Returns the query plan of the database for this filter.
    async fn explain(&self, realm: &RealmScope, of: TypeId, filter: &Filter) -> String {
        let (dialect, explain, column) = match self.is_sqlite() {
            true => (Dialect::Sqlite, "EXPLAIN QUERY PLAN", 3),
            false => (Dialect::Postgres, "EXPLAIN", 0),
        };
        let layout = Layout::new(Column::new("r.id").unwrap(), Column::new("r.body").unwrap());
        let condition = compile(filter, &layout.with_searchable(searchable()), dialect, 1);
        let scope = format!("r.realm_id = '{}' AND r.type_id = '{of}'", realm.realm);
        let statement =
            format!("{explain} SELECT r.id FROM records r WHERE {scope} AND {} ORDER BY r.id LIMIT 20", condition.sql);
        self.column(statement, &condition.params, column).await.join("\n")
    }
}
