//! Tests of equality filters on documents.

use serde_json::{Value, json};
use toolwright_store::{DocumentRef, FieldEquals, ListError, ListQuery};
use toolwright_types::DocumentKind::Tool;

use crate::support::{TestDb, names, realm, realm_with_tools, revision};

on_both_databases!(
    filter_value_matches_only_values_of_the_same_json_type,
    filter_matches_array_elements_and_nested_fields,
    filter_does_not_match_older_revisions,
    filter_with_an_array_value_or_more_than_16_path_segments_is_rejected,
    filter_with_sql_injection_or_nul_matches_nothing,
);

fn equals(path: &[&str], value: Value) -> FieldEquals {
    FieldEquals { path: path.iter().map(|&segment| segment.to_owned()).collect(), value }
}

async fn filter_value_matches_only_values_of_the_same_json_type(db: TestDb) {
    let store = db.open().await;
    let realm = realm_with_tools(
        &store,
        &[
            ("text-one", json!({"v": "1"})),
            ("text-true", json!({"v": "true"})),
            ("one", json!({"v": 1})),
            ("float-one", json!({"v": 1.0})),
            ("half", json!({"v": 0.5})),
            ("big", json!({"v": 9_007_199_254_740_993_i64})),
            ("bigger", json!({"v": 9_007_199_254_740_992_i64})),
            ("yes", json!({"v": true})),
            ("no", json!({"v": false})),
            ("null", json!({"v": null})),
            ("absent", json!({"w": 1})),
            ("object", json!({"v": {"v": 1}})),
        ],
    )
    .await;
    let definitions = store.definitions(&realm);
    for (value, expected) in [
        (json!("1"), vec!["text-one"]),
        (json!("true"), vec!["text-true"]),
        (json!(1), vec!["float-one", "one"]),
        (json!(1.0), vec!["float-one", "one"]),
        (json!(0.5), vec!["half"]),
        (json!(9_007_199_254_740_993_i64), vec!["big"]),
        (json!(true), vec!["yes"]),
        (json!(false), vec!["no"]),
        (json!(null), vec!["null"]),
        (json!("nothing like it"), vec![]),
    ] {
        let filters = vec![equals(&["v"], value.clone())];
        let count = definitions.count(Tool, &filters, None).await.unwrap();
        let query = ListQuery { filters, ..ListQuery::default() };
        assert_eq!(names(&definitions, &query).await, expected, "{value}");
        assert_eq!(count, expected.len() as u64, "{value}");
    }
}

async fn filter_matches_array_elements_and_nested_fields(db: TestDb) {
    let store = db.open().await;
    let realm = realm_with_tools(
        &store,
        &[
            (
                "a",
                json!({"tags": ["crm", "sales"], "enabled": true, "invocation": {"method": "GET", "x.y": [1, true]}}),
            ),
            ("b", json!({"tags": ["crm"], "enabled": false, "invocation": {"method": "POST"}})),
            ("c", json!({"tags": "crm", "enabled": true, "invocation": "method"})),
            ("d", json!({"tags": [["crm"]], "enabled": true, "invocation": ["method", "GET"]})),
            ("e", json!({"tags": [], "$ref": {"a\"b": "odd"}})),
        ],
    )
    .await;
    let definitions = store.definitions(&realm);
    for (filters, expected) in [
        (vec![equals(&["tags"], json!("crm"))], vec!["a", "b", "c"]),
        (vec![equals(&["tags"], json!("sales"))], vec!["a"]),
        (vec![equals(&["tags"], json!("crm")), equals(&["tags"], json!("sales"))], vec!["a"]),
        (vec![equals(&["tags"], json!("crm")), equals(&["enabled"], json!(true))], vec!["a", "c"]),
        (vec![equals(&["invocation", "method"], json!("GET"))], vec!["a"]),
        (vec![equals(&["invocation"], json!("method"))], vec!["c", "d"]),
        (vec![equals(&["invocation", "x.y"], json!(true))], vec!["a"]),
        (vec![equals(&["invocation", "0"], json!("method"))], vec![]),
        (vec![equals(&["invocation", "method", "deeper"], json!("GET"))], vec![]),
        (vec![equals(&["$ref", "a\"b"], json!("odd"))], vec!["e"]),
        (vec![], vec!["a", "b", "c", "d", "e"]),
    ] {
        let query = ListQuery { filters, ..ListQuery::default() };
        assert_eq!(names(&definitions, &query).await, expected, "{:?}", query.filters);
    }
    let mut query = ListQuery { filters: vec![equals(&["tags"], json!("crm"))], limit: 2, ..ListQuery::default() };
    query.cursor = definitions.list(Tool, &query).await.unwrap().next;
    assert_eq!(names(&definitions, &query).await, ["c"], "filters apply to every page");
}

async fn filter_does_not_match_older_revisions(db: TestDb) {
    let store = db.open().await;
    let realm = realm_with_tools(&store, &[("a", json!({"category": "old"}))]).await;
    let definitions = store.definitions(&realm);
    let new = revision("a", json!({"category": "new"}));
    definitions.replace(Tool, &DocumentRef::parse(Tool, "a"), None, new, "someone").await.unwrap();
    assert_eq!(definitions.count(Tool, &[equals(&["category"], json!("old"))], None).await.unwrap(), 0);
    assert_eq!(definitions.count(Tool, &[equals(&["category"], json!("new"))], None).await.unwrap(), 1);
}

async fn filter_with_an_array_value_or_more_than_16_path_segments_is_rejected(db: TestDb) {
    let store = db.open().await;
    let realm = realm(&store, "main").await;
    let definitions = store.definitions(&realm);
    let error = definitions.count(Tool, &[equals(&["a", "b"], json!([1]))], None).await.unwrap_err();
    assert!(matches!(&error, ListError::FilterNotScalar(path) if path == "a.b"), "{error:?}");
    let error = definitions.count(Tool, &[equals(&["a"; 17], json!(1))], None).await.unwrap_err();
    assert!(matches!(error, ListError::FilterTooDeep(_)), "{error:?}");
    definitions.count(Tool, &[equals(&["a"; 16], json!(1))], None).await.unwrap();
}

async fn filter_with_sql_injection_or_nul_matches_nothing(db: TestDb) {
    let store = db.open().await;
    let realm = realm_with_tools(&store, &[("a", json!({"v": "x"}))]).await;
    let definitions = store.definitions(&realm);
    for filter in [
        equals(&["v"], json!("\0")),
        equals(&["v\0"], json!("x")),
        equals(&["v') OR 1 = 1 --"], json!("x")),
        equals(&["v"], json!("x' OR '1' = '1")),
        equals(&[], json!("x")),
        equals(&[""], json!("x")),
        equals(&["$.v"], json!("x")),
        equals(&["v"], json!(u64::MAX)),
        equals(&["v"], json!(f64::MAX)),
    ] {
        assert_eq!(definitions.count(Tool, std::slice::from_ref(&filter), None).await.unwrap(), 0, "{filter:?}");
    }
}
