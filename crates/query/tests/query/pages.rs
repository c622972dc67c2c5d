//! Pagination: the pages of SQLite and Postgres, joined, must equal the list sorted in memory.

use std::cell::RefCell;

use proptest::prelude::*;
use proptest::sample::select;
use proptest::test_runner::{Config, TestCaseError, TestRunner};
use serde_json::{Value, json};
use tokio::runtime::Runtime;
use toolwright_query::sql::{Dialect, Fragment, after_cursor, order_by};
use toolwright_query::{Cursor, InvalidCursor, Query, Sort, SortValue};

use crate::databases::{Databases, layout};
use crate::generate::documents;

fn in_memory(sort: &Sort, documents: &[Value]) -> Vec<String> {
    let mut keyed: Vec<(Vec<SortValue>, &str)> =
        documents.iter().map(|document| (sort.values(document), document["id"].as_str().unwrap())).collect();
    keyed.sort_by(|left, right| sort.compare((&left.0, left.1), (&right.0, right.1)));
    keyed.into_iter().map(|(_, id)| id.to_owned()).collect()
}

async fn in_pages(databases: &mut Databases, sort: &Sort, documents: &[Value], dialect: Dialect) -> Vec<String> {
    let mut list: Vec<String> = Vec::new();
    let mut cursor: Option<Cursor> = None;
    loop {
        let condition = match &cursor {
            Some(cursor) => after_cursor(cursor, sort, &layout(), dialect, 1),
            None => Fragment { sql: "1 = 1".into(), params: vec![] },
        };
        let mut order = order_by(sort, &layout(), dialect, condition.params.len() + 1);
        order.sql.push_str(" LIMIT 3");
        let page = databases.listed(&condition, &order, dialect).await;
        let Some(last) = page.last().cloned() else { return list };
        list.extend(page);
        assert!(list.len() <= documents.len(), "a page repeats rows: {list:?}");
        let document = documents.iter().find(|document| document["id"] == last.as_str()).unwrap();
        let text = Cursor::after(None, sort, document, &last).to_string();
        cursor = Some(Cursor::decode(&text, None, sort).unwrap());
    }
}

async fn agree(databases: &mut Databases, sort: &Sort, documents: &[Value]) -> Result<(), TestCaseError> {
    databases.fill(documents).await;
    let expected = in_memory(sort, documents);
    for dialect in [Dialect::Sqlite, Dialect::Postgres] {
        let found = in_pages(databases, sort, documents, dialect).await;
        prop_assert_eq!(&found, &expected, "{:?} (left) and memory differ, sorted by {}", dialect, sort);
    }
    Ok(())
}

#[test]
fn concatenated_pages_of_each_database_equal_the_list_sorted_in_memory() {
    let runtime = Runtime::new().unwrap();
    let databases = RefCell::new(runtime.block_on(Databases::open()));
    let key = select(vec!["a", "-a", "b", "-b", "a.b", "-c.d", "a.0", "x&y:desc", "O'x", "id", "-id"]);
    let strategy = (prop::collection::vec(documents(), 1..12), prop::collection::vec(key, 1..4));
    let mut runner = TestRunner::new(Config { cases: 96, failure_persistence: None, ..Config::default() });
    let outcome = runner.run(&strategy, |(documents, keys)| {
        let number = |(index, mut document): (usize, Value)| {
            document["id"] = format!("{}", (b'a' + index as u8) as char).into();
            document
        };
        let documents: Vec<Value> = documents.into_iter().enumerate().map(number).collect();
        let sort = Sort::parse(&keys.join(", ")).unwrap();
        runtime.block_on(agree(&mut databases.borrow_mut(), &sort, &documents))
    });
    outcome.unwrap_or_else(|failure| panic!("{failure}"));
}

#[test]
fn values_of_different_types_are_sorted_by_type_then_value() {
    let documents: Vec<Value> =
        [json!({}), json!([1]), json!("b"), json!("B"), json!(2), json!(-0.5), json!(true), json!(false)]
            .into_iter()
            .enumerate()
            .map(|(index, value)| json!({"id": index.to_string(), "v": value}))
            .chain([json!({"id": "8"})])
            .collect();
    assert_eq!(in_memory(&Sort::parse("v").unwrap(), &documents).concat(), "876543201");
    assert_eq!(in_memory(&Sort::parse("v:DESC").unwrap(), &documents).concat(), "012345678");
    assert_eq!(Sort::parse("+a, -b.c, d:Desc").unwrap().to_string(), "a:asc, b.c:desc, d:desc");
}

#[test]
fn cursor_is_rejected_for_another_query_or_sort_order() {
    let (query, sort) = (Query::parse("a:b && c:d").unwrap(), Sort::parse("name").unwrap());
    let text = Cursor::after(Some(&query), &sort, &json!({"name": "x"}), "7").to_string();
    let same = Query::parse("(a:b)&&c:d").unwrap();
    let decoded = Cursor::decode(&text, Some(&same), &sort).unwrap();
    assert_eq!((decoded.id(), decoded.values()), ("7", [SortValue::Text("x".into())].as_slice()));
    let other = Query::parse("a:b").unwrap();
    assert_eq!(Cursor::decode(&text, Some(&other), &sort), Err(InvalidCursor::OtherList));
    assert_eq!(Cursor::decode(&text, Some(&query), &Sort::parse("-name").unwrap()), Err(InvalidCursor::OtherList));
    for text in ["", "x", "e30", "bnVsbA", "🦀"] {
        assert_eq!(Cursor::decode(text, Some(&query), &sort), Err(InvalidCursor::Malformed), "{text}");
    }
}
