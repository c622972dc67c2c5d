//! One meaning: memory, SQLite and Postgres give the same answer to any query over any documents.

use std::cell::RefCell;

use proptest::prelude::*;
use proptest::test_runner::{Config, TestCaseError, TestRunner};
use serde_json::{Value, json};
use tokio::runtime::Runtime;
use toolwright_query::sql::{Dialect, Fragment, Kind, Searchable, compile};
use toolwright_query::{Filter, Query, Scope, sql};

use crate::databases::{Databases, layout};
use crate::generate::{all_queries, documents, edges, queries, telling_queries, telling_values, texts, variables};

const BOTH: [Dialect; 2] = [Dialect::Sqlite, Dialect::Postgres];

/// Gives each document an id of its own.
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
    query.bind(&Scope::new(&variables).with_edges(&edges)).unwrap_or_else(|error| panic!("{source}: {error}"))
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

/// Every kind of condition against every kind of value: what is rare at random is all here.
fn compare_all(layout: &sql::Layout, field: &str, documents: Vec<Value>) {
    let mut queries = telling_queries(field);
    let negated: Vec<String> = queries.iter().step_by(7).map(|query| format!("!!{query}")).collect();
    queries.extend(negated);
    assert!(queries.len() > 2500, "{}", queries.len());
    Runtime::new().unwrap().block_on(async {
        agree(&mut Databases::open().await, layout, &numbered(documents), &queries).await.unwrap();
    });
}

#[test]
fn they_agree_on_every_value_and_every_condition() {
    compare_all(&layout(), "a", telling_values().into_iter().map(|value| json!({"a": value})).collect());
}

#[test]
fn they_agree_on_every_searchable_text() {
    let texts = telling_values().into_iter().filter(|value| value.is_string() || value.is_null());
    let documents: Vec<Value> = texts.map(|value| json!({"a": {"b": value}})).chain([json!({})]).collect();
    for kind in [Kind::Text, Kind::Moment] {
        compare_all(&layout().with_searchable([Searchable::new("a.b", kind).unwrap()]), "a.b", documents.clone());
    }
}

#[test]
fn they_agree_on_every_searchable_number() {
    let numbers = telling_values().into_iter().filter(|value| value.is_number() || value.is_null());
    let documents = numbers.map(|value| json!({"a": value})).chain([json!({})]).collect();
    compare_all(&layout().with_searchable([Searchable::new("a", Kind::Number).unwrap()]), "a", documents);
}

#[test]
fn memory_and_databases_agree() {
    compare(256, &layout(), documents(), queries());
}

#[test]
fn they_agree_on_relations_and_on_what_filters_nothing() {
    compare(64, &layout(), documents(), all_queries());
}

/// Documents that keep the promise of [`Searchable`]: a text, a number and a date, each null or missing at times.
fn promised() -> impl Strategy<Value = Value> {
    let maybe = |value: BoxedStrategy<Value>| prop_oneof![6 => value.prop_map(Some), 1 => Just(Some(Value::Null)), 1 => Just(None)];
    let text = maybe(texts().prop_map(Value::from).boxed());
    let number = maybe(prop_oneof![(-8i64..8).prop_map(Value::from), (-8.0..8.0).prop_map(Value::from)].boxed());
    let moment = maybe(texts().prop_map(Value::from).boxed());
    (documents(), text, number, moment).prop_map(|(mut document, text, number, moment)| {
        for (name, value) in [("a", text), ("b", number), ("c", None)] {
            document.as_object_mut().unwrap().remove(name);
            if let Some(value) = value {
                document[name] = value;
            }
        }
        if let Some(moment) = moment {
            document["c"] = json!({"d": moment});
        }
        document
    })
}

#[test]
fn they_agree_on_searchable_fields() {
    let searchable = [("a", Kind::Text), ("b", Kind::Number), ("c.d", Kind::Moment)];
    let searchable = searchable.map(|(field, kind)| Searchable::new(field, kind).unwrap());
    compare(160, &layout().with_searchable(searchable), promised(), queries());
}

/// The databases limit how deep and how long a statement may be.
#[test]
fn the_largest_queries_run_on_both() {
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
fn placeholders_go_on_from_where_the_statement_is() {
    let Fragment { sql, params } = compile(&bound("a:b && c:>#1"), &layout(), Dialect::Sqlite, 4);
    assert!(sql.contains("$4") && sql.contains("$7") && !sql.contains("$3") && !sql.contains("$8"), "{sql}");
    assert_eq!(params.len(), 4);
    assert_eq!(compile(&Filter::everything(), &layout(), Dialect::Postgres, 1).sql, "(1 = 1)");
}
