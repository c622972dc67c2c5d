//! Differential tests: matching in memory, SQLite and Postgres must return the same documents for every query.

use std::cell::RefCell;

use proptest::prelude::*;
use proptest::test_runner::{Config, TestCaseError, TestRunner};
use serde_json::{Value, json};
use tokio::runtime::Runtime;
use toolwright_query::sql::{Dialect, Fragment, IndexKind, SearchableField, compile};
use toolwright_query::{BindContext, Filter, Query, sql};

use crate::databases::{Databases, layout};
use crate::generate::{all_queries, documents, edge_case_queries, edge_case_values, edges, queries, texts, variables};

const BOTH: [Dialect; 2] = [Dialect::Sqlite, Dialect::Postgres];

/// Assigns an id to each document.
fn numbered(documents: Vec<Value>) -> Vec<Value> {
    let number = |(index, mut document): (usize, Value)| {
        document["id"] = format!("{index:03}").into();
        document
    };
    documents.into_iter().enumerate().map(number).collect()
}

fn bound(source: &str) -> Filter {
    let (variables, edges) = (variables(), edges());
    let query = Query::parse(source).unwrap_or_else(|error| panic!("{source}: {error}"));
    query.bind(&BindContext::new(&variables).with_edges(&edges)).unwrap_or_else(|error| panic!("{source}: {error}"))
}

fn found_in_memory(filter: &Filter, documents: &[Value]) -> Vec<String> {
    let found = documents.iter().filter(|document| filter.matches(document));
    found.map(|document| document["id"].as_str().unwrap().to_owned()).collect()
}

async fn agree(
    databases: &mut Databases,
    layout: &sql::Layout,
    documents: &[Value],
    queries: &[String],
) -> Result<(), TestCaseError> {
    databases.fill(documents).await;
    for source in queries {
        let filter = bound(source);
        let expected = found_in_memory(&filter, documents);
        for dialect in BOTH {
            let fragment = compile(&filter, layout, dialect, 1);
            let found = databases.ids(&fragment, dialect).await;
            prop_assert_eq!(&found, &expected, "{:?} (left) and memory differ for {}\n{:?}", dialect, source, fragment);
        }
    }
    Ok(())
}

fn compare(
    cases: u32,
    layout: &sql::Layout,
    documents: impl Strategy<Value = Value>,
    queries: impl Strategy<Value = String>,
) {
    let runtime = Runtime::new().unwrap();
    let databases = RefCell::new(runtime.block_on(Databases::open()));
    let mut runner = TestRunner::new(Config { cases, failure_persistence: None, ..Config::default() });
    let strategy = (prop::collection::vec(documents, 1..40), prop::collection::vec(queries, 1..10));
    let outcome = runner.run(&strategy, |(documents, queries)| {
        runtime.block_on(agree(&mut databases.borrow_mut(), layout, &numbered(documents), &queries))
    });
    outcome.unwrap_or_else(|failure| panic!("{failure}"));
}

/// Compares the databases with matching in memory, for every condition and every edge case value. Random tests rarely
/// generate some of these combinations.
fn compare_all(layout: &sql::Layout, field: &str, documents: Vec<Value>) {
    let mut queries = edge_case_queries(field);
    let negated: Vec<String> = queries.iter().step_by(7).map(|query| format!("!!{query}")).collect();
    queries.extend(negated);
    assert!(queries.len() > 2500, "{}", queries.len());
    Runtime::new().unwrap().block_on(async {
        agree(&mut Databases::open().await, layout, &numbered(documents), &queries).await.unwrap();
    });
}

#[test]
fn sql_and_in_memory_queries_match_the_same_documents_for_every_edge_case_value() {
    compare_all(&layout(), "a", edge_case_values().into_iter().map(|value| json!({"a": value})).collect());
}

#[test]
fn sql_and_in_memory_queries_match_the_same_documents_for_indexed_texts() {
    let texts = edge_case_values().into_iter().filter(|value| value.is_string() || value.is_null());
    let documents: Vec<Value> = texts.map(|value| json!({"a": {"b": value}})).chain([json!({})]).collect();
    for kind in [IndexKind::Text, IndexKind::Timestamp] {
        compare_all(&layout().with_searchable([SearchableField::new("a.b", kind).unwrap()]), "a.b", documents.clone());
    }
}

#[test]
fn sql_and_in_memory_queries_match_the_same_documents_for_indexed_numbers() {
    let numbers = edge_case_values().into_iter().filter(|value| value.is_number() || value.is_null());
    let documents = numbers.map(|value| json!({"a": value})).chain([json!({})]).collect();
    compare_all(&layout().with_searchable([SearchableField::new("a", IndexKind::Number).unwrap()]), "a", documents);
}

#[test]
fn sql_and_in_memory_queries_match_the_same_documents_for_random_queries() {
    compare(256, &layout(), documents(), queries());
}

#[test]
fn sql_and_in_memory_queries_match_the_same_documents_with_relations_and_output_options() {
    compare(64, &layout(), documents(), all_queries());
}

/// Documents as [`SearchableField`] requires them: a text, a number and a date, each of which may be null or missing.
fn documents_with_searchable_fields() -> impl Strategy<Value = Value> {
    let maybe = |value: BoxedStrategy<Value>| prop_oneof![6 => value.prop_map(Some), 1 => Just(Some(Value::Null)), 1 => Just(None)];
    let text = maybe(texts().prop_map(Value::from).boxed());
    let number = maybe(prop_oneof![(-8i64..8).prop_map(Value::from), (-8.0..8.0).prop_map(Value::from)].boxed());
    let date = maybe(texts().prop_map(Value::from).boxed());
    (documents(), text, number, date).prop_map(|(mut document, text, number, date)| {
        for (name, value) in [("a", text), ("b", number), ("c", None)] {
            document.as_object_mut().unwrap().remove(name);
            if let Some(value) = value {
                document[name] = value;
            }
        }
        if let Some(date) = date {
            document["c"] = json!({"d": date});
        }
        document
    })
}

#[test]
fn sql_and_in_memory_queries_match_the_same_documents_for_random_queries_on_indexed_fields() {
    let searchable = [("a", IndexKind::Text), ("b", IndexKind::Number), ("c.d", IndexKind::Timestamp)];
    let searchable = searchable.map(|(field, kind)| SearchableField::new(field, kind).unwrap());
    compare(160, &layout().with_searchable(searchable), documents_with_searchable_fields(), queries());
}

/// Queries at the limits of the parser must not exceed the limits of the databases for the depth and length of a
/// statement.
#[test]
fn queries_at_the_parser_limits_run_on_both_databases() {
    use toolwright_query::{MAX_CONDITIONS, MAX_ELEMENTS, MAX_LENGTH, MAX_NESTING, MAX_PATTERN, MAX_SEGMENTS};
    let nesting = usize::from(MAX_NESTING);
    let deep = vec!["a"; MAX_SEGMENTS].join(".");
    let levels = usize::from(MAX_ELEMENTS);
    let elements = format!("{deep}:{{").repeat(levels);
    let groups = "(x:y || z:x && ".repeat(nesting - levels);
    let mixed = (0..nesting / 2).fold("a:b".to_owned(), |inner, _| format!("(!!{inner} || c:#1 && d:null)"));
    let sources = [
        vec!["a:b"; MAX_CONDITIONS].join("||"),
        vec!["a.b.c:>2024-01-15"; MAX_CONDITIONS].join("&&"),
        vec!["a.b:^[x,#1,@@507f1f77bcf86cd799439011,2024-01-01]"; MAX_CONDITIONS].join("&&"),
        format!("{}a:b", "!!".repeat(nesting)),
        format!("{groups}{elements}{deep}:>2024-01-15{}{}", "}".repeat(levels), ")".repeat(nesting - levels)),
        mixed,
        format!("{deep}:2024-01-15"),
        format!("a:{}*", "?".repeat(MAX_PATTERN - 1)),
        format!("a:^[{}1]", "1,".repeat(MAX_LENGTH / 2 - 10)),
        format!("a:\"{}\"", "x".repeat(MAX_LENGTH - 4)),
    ];
    let runtime = Runtime::new().unwrap();
    let documents = numbered(vec![json!({"a": "b"}), json!({"a": {"a": [{"a": "b"}]}}), json!({"a": 1})]);
    runtime.block_on(async {
        let mut databases = Databases::open().await;
        agree(&mut databases, &layout(), &documents, &sources).await.unwrap();
        let many: Vec<Filter> = (0..1000).map(|_| bound("a:b")).collect();
        for (filter, expected) in [(Filter::all(&many), 1), (Filter::any(&many), 1), (Filter::any([]), 0)] {
            for dialect in BOTH {
                let found = databases.ids(&compile(&filter, &layout(), dialect, 1), dialect).await;
                assert_eq!(found.len(), expected);
            }
        }
    });
}

#[test]
fn placeholders_are_numbered_from_the_given_number() {
    let Fragment { sql, params } = compile(&bound("a:b && c:>#1"), &layout(), Dialect::Sqlite, 4);
    assert!(sql.contains("$4") && sql.contains("$7") && !sql.contains("$3") && !sql.contains("$8"), "{sql}");
    assert_eq!(params.len(), 4);
    assert_eq!(compile(&Filter::match_all(), &layout(), Dialect::Postgres, 1).sql, "(1 = 1)");
}
