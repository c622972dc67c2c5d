//! Queries: parsed, printed, parsed again, asked of documents and compiled; and the orders and cursors that go with them.
#![no_main]

use libfuzzer_sys::fuzz_target;
use serde_json::{Map, Value, json};
use toolwright_query::sql::{Column, Dialect, Kind, Layout, Searchable, after, compile, order_by};
use toolwright_query::{Cursor, Edges, Filter, Projection, Query, Scope, Sort};

fuzz_target!(|text: &str| {
    let documents = documents();
    if let Ok(query) = Query::parse(text) {
        let printed = query.to_string();
        let again = Query::parse(&printed).expect("what is printed can be read");
        assert_eq!(again, query, "{printed}");
        assert_eq!(again.to_string(), printed);
        let _ = query.plan();
        ask(&query, &documents);
    }
    if let Ok(sort) = Sort::parse(text) {
        assert_eq!(Sort::parse(&sort.to_string()).expect("what is printed can be read"), sort);
        page(&sort, &documents);
    }
    if let Ok(projection) = Projection::parse(text) {
        assert_eq!(Projection::parse(&projection.to_string()).expect("what is printed can be read"), projection);
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

/// Negated, a query finds what it did not find before; and nothing it says is part of the statement.
fn ask(query: &Query, documents: &[Value]) {
    let variables = Map::from_iter([("a".to_owned(), json!("b")), ("b".to_owned(), json!([1, "x"]))]);
    let scope = Scope::new(&variables);
    let edges: Edges =
        query.edges(&scope).unwrap_or_default().into_iter().map(|edge| (edge, Filter::ids(["1".into()]))).collect();
    let Ok(filter) = query.bind(&scope.with_edges(&edges)) else { return };
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

fn page(sort: &Sort, documents: &[Value]) {
    for document in documents {
        let cursor = Cursor::after(None, sort, document, "1");
        assert_eq!(Cursor::decode(&cursor.to_string(), None, sort).expect("a cursor of this list"), cursor);
        for dialect in [Dialect::Sqlite, Dialect::Postgres] {
            let _ = (order_by(sort, &layout(), dialect, 1), after(&cursor, sort, &layout(), dialect, 1));
        }
    }
}

fn layout() -> Layout {
    let column = |name| Column::new(name).expect("a plain name");
    let field = |name, kind| Searchable::new(name, kind).expect("a plain path");
    Layout::new(column("id"), column("r.record")).with_searchable([
        field("a", Kind::Text),
        field("c.d", Kind::Number),
        field("d", Kind::Moment),
    ])
}
