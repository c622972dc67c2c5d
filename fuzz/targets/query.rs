//! Parses and prints queries, evaluates them on documents and compiles them to SQL. Does the same with sort orders and
//! cursors.
#![no_main]

use libfuzzer_sys::fuzz_target;
use serde_json::{Map, Value, json};
use toolwright_query::sql::{Column, Dialect, IndexKind, Layout, SearchableField, after_cursor, compile, order_by};
use toolwright_query::{BindContext, Cursor, EdgeFilters, Filter, Projection, Query, Sort};

fuzz_target!(|text: &str| {
    let documents = documents();
    if let Ok(query) = Query::parse(text) {
        let printed = query.to_string();
        let again = Query::parse(&printed).expect("a printed value must parse");
        assert_eq!(again, query, "{printed}");
        assert_eq!(again.to_string(), printed);
        let _ = query.output_options();
        evaluate_and_compile(&query, &documents);
    }
    if let Ok(sort) = Sort::parse(text) {
        assert_eq!(Sort::parse(&sort.to_string()).expect("a printed value must parse"), sort);
        check_cursors(&sort, &documents);
    }
    if let Ok(projection) = Projection::parse(text) {
        assert_eq!(Projection::parse(&projection.to_string()).expect("a printed value must parse"), projection);
        documents.iter().for_each(|document| drop(projection.apply(document)));
    }
    let _ = Cursor::decode(text, None, &Sort::default());
});

fn documents() -> [Value; 3] {
    [
        json!({ "id": "1", "a": "b", "b": [1, 2.5, "2024-01-15", null, { "c": true, "d": ["x", "Y"] }], "c": { "d": -7 } }),
        json!({ "a": [{ "b": [{ "c": "507f1f77bcf86cd799439011" }] }, []], "d": "2024-01-15T10:00:00.5+02:00", "x&y": "ä%_\\" }),
        json!({}),
    ]
}

/// Evaluates a query on the documents. Also checks that no text of the query becomes part of the SQL statement.
fn evaluate_and_compile(query: &Query, documents: &[Value]) {
    let variables = Map::from_iter([("a".to_owned(), json!("b")), ("b".to_owned(), json!([1, "x"]))]);
    let context = BindContext::new(&variables);
    let edges: EdgeFilters =
        query.edges(&context).unwrap_or_default().into_iter().map(|edge| (edge, Filter::ids(["1".into()]))).collect();
    let Ok(filter) = query.bind(&context.with_edges(&edges)) else { return };
    documents.iter().for_each(|document| drop(filter.matches(document)));
    for dialect in [Dialect::Sqlite, Dialect::Postgres] {
        let fragment = compile(&filter, &layout(), dialect, 1);
        assert!(
            fragment.sql.is_ascii() && !fragment.sql.contains(';') && !fragment.sql.contains("--"),
            "{}",
            fragment.sql
        );
    }
}

fn check_cursors(sort: &Sort, documents: &[Value]) {
    for document in documents {
        let cursor = Cursor::after(None, sort, document, "1");
        assert_eq!(Cursor::decode(&cursor.to_string(), None, sort).expect("an encoded cursor must decode"), cursor);
        for dialect in [Dialect::Sqlite, Dialect::Postgres] {
            let _ = (order_by(sort, &layout(), dialect, 1), after_cursor(&cursor, sort, &layout(), dialect, 1));
        }
    }
}

fn layout() -> Layout {
    let column = |name| Column::new(name).expect("a valid column name");
    let field = |name, kind| SearchableField::new(name, kind).expect("a valid path");
    Layout::new(column("id"), column("r.record")).with_searchable([
        field("a", IndexKind::Text),
        field("c.d", IndexKind::Number),
        field("d", IndexKind::Timestamp),
    ])
}
