//! SQL injection: no part of a query may become part of the SQL text.

use serde_json::{Map, Value, json};
use tokio::runtime::Runtime;
use toolwright_query::sql::{
    Column, Dialect, Fragment, IndexKind, Layout, SearchableField, after_cursor, compile, order_by,
};
use toolwright_query::{BindContext, Cursor, Direction, Edge, EdgeFilters, Field, Filter, Query, Sort};

use crate::databases::{Databases, layout};

const HOSTILE: &[&str] = &[
    "'; DROP TABLE records; --",
    "' OR '1'='1",
    "\" OR 1=1 --",
    "\\'; DROP TABLE records; --",
    "$1",
    "$999",
    "?1",
    ":name",
    "%",
    "_",
    "\\",
    "\\\\",
    "*/ DROP TABLE records /*",
    "\") ; DROP TABLE records; --",
    "{\"a\":1}",
    "[\"x\"]",
    "$.** ? (@ == 1)",
    "COLLATE",
    "::text",
    "\u{2019}",
    "ʼ; DROP",
];

fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('"', "\"\""))
}

/// Returns queries that contain `text` in every place where the grammar allows a text.
fn queries_with(text: &str) -> Vec<String> {
    let text = quoted(text);
    vec![
        format!("a:{text}"),
        format!("a:!{text}"),
        format!("a:{text}~cs"),
        format!("a:>{text}"),
        format!("a:<={text}~ci"),
        format!("a:*{text}*"),
        format!("a:{text}*~cs"),
        format!("a:*{text}"),
        format!("a:x?{text}"),
        format!("a:^[{text}]"),
        format!("a:^[{text}, b, c]"),
        format!("a:!^[{text}]"),
        format!("a.b:{{c:{text} && d.e:*{text}}}"),
        format!("s:{text}"),
        format!("s:{text}*"),
        format!("s:^[{text}, b]"),
        format!("text({text})"),
        "a:${text}".to_owned(),
        "s:>${text}".to_owned(),
        "a:^[${text}, b]".to_owned(),
        "a:^[${list}]".to_owned(),
        format!("hasEdge({text}, {text})"),
    ]
}

fn fragment(source: &str, text: &str, dialect: Dialect) -> Fragment {
    let variables = Map::from_iter([("text".to_owned(), json!(text)), ("list".to_owned(), json!([text, "other"]))]);
    let edge = Edge { direction: Direction::Outgoing, relation: text.into(), other: text.into() };
    let edges = EdgeFilters::from([(edge, Filter::ids([text.to_owned()]))]);
    let filter = Query::parse(source).unwrap().bind(&BindContext::new(&variables).with_edges(&edges)).unwrap();
    compile(&filter, &searchable(), dialect, 1)
}

fn searchable() -> Layout {
    layout().with_searchable([SearchableField::new("s", IndexKind::Text).unwrap()])
}

#[test]
fn sql_text_is_the_same_for_harmless_and_malicious_values() {
    let runtime = Runtime::new().unwrap();
    let mut databases = runtime.block_on(Databases::open());
    runtime.block_on(databases.fill(&[json!({"id": "1", "a": "x"})]));
    for dialect in [Dialect::Sqlite, Dialect::Postgres] {
        for text in HOSTILE {
            for (harmless, hostile) in queries_with("harmless").iter().zip(queries_with(text)) {
                let made = fragment(&hostile, text, dialect);
                assert_eq!(made.sql, fragment(harmless, "harmless", dialect).sql, "{hostile}");
                runtime.block_on(databases.ids(&made, dialect));
            }
        }
        let left = runtime.block_on(databases.ids(&Fragment { sql: "1 = 1".into(), params: vec![] }, dialect));
        assert_eq!(left, ["1"]);
    }
}

/// A path may contain single quotes and spaces, but no other characters that are special in SQL.
#[test]
fn sql_text_is_the_same_for_harmless_and_malicious_field_names() {
    let runtime = Runtime::new().unwrap();
    let mut databases = runtime.block_on(Databases::open());
    let record = json!({"id": "1", "a' OR 'b": {"O'x": "y"}, "n' --": 1});
    runtime.block_on(databases.fill(&[record]));
    let source = |first: &str, second: &str| {
        format!("{first}.{second}:y && {first}:~ && {first}.{second}:y* && !!{first}:{{{second}:x}}")
    };
    for dialect in [Dialect::Sqlite, Dialect::Postgres] {
        let hostile = fragment(&source("a' OR 'b", "O'x"), "", dialect);
        assert_eq!(hostile.sql, fragment(&source("a", "b"), "", dialect).sql);
        assert_eq!(runtime.block_on(databases.ids(&hostile, dialect)), ["1"]);

        let (sort, plain) = (Sort::parse("n' --, -a' OR 'b.O'x").unwrap(), Sort::parse("n, -a.b").unwrap());
        let cursor = |sort: &Sort| Cursor::after(None, sort, &json!({"n": "'; --", "n' --": "'; --"}), "' OR 1=1");
        let made = |sort: &Sort| after_cursor(&cursor(sort), sort, &layout(), dialect, 1);
        assert_eq!(made(&sort).sql, made(&plain).sql);
        let order = |sort: &Sort| order_by(sort, &layout(), dialect, made(sort).params.len() + 1);
        assert_eq!(order(&sort).sql, order(&plain).sql);
        runtime.block_on(databases.listed(&made(&sort), &order(&sort), dialect));
    }
}

#[test]
fn column_and_field_names_with_special_characters_are_rejected() {
    for name in ["", "a b", "a;b", "a'b", "a\"b", "1a", "a.b.c", "a.", ".a", "ä", "a-b", "a--", &"a".repeat(64)] {
        assert!(Column::new(name).is_err(), "{name}");
    }
    for name in ["record", "r.record", "_r1.X"] {
        assert!(Column::new(name).is_ok(), "{name}");
    }
    for field in ["a'b", "a b", "a-b", "a/b", "@a", "a&b", "0", "a.0", "a.b c", "ä", ""] {
        assert!(SearchableField::new(field, IndexKind::Text).is_err(), "{field}");
    }
    for field in ["a", "a.b", "_x.y1"] {
        assert!(SearchableField::new(field, IndexKind::Number).is_ok(), "{field}");
    }
    for field in ["a\"b", "a\\b", "a\0b", "a\nb", "a$b", "a[0]", "a]b", "a\u{2028}b", "a”b", "a;b", "a(b", "a%b"] {
        assert!(Field::parse(field).is_err(), "{field}");
    }
    let message = Column::new("a;b").unwrap_err().to_string();
    assert_eq!(message, "`a;b` is not a valid column name; write letters, digits and `_`");
}

#[test]
fn field_paths_and_values_of_a_query_are_sql_parameters() {
    let made = fragment("a:\"x'y\" && b:>##1.5 && c:<1970-01-02", "", Dialect::Sqlite);
    let shown: Vec<Value> = made.params.iter().map(|param| json!(format!("{param:?}"))).collect();
    let expected = [
        "Text(\"$.\\\"a\\\"\")",
        "Text(\"x'y\")",
        "Text(\"$.\\\"b\\\"\")",
        "Real(1.5)",
        "Text(\"$.\\\"c\\\"\")",
        "Integer(86400000000)",
    ];
    assert_eq!(shown, expected);
}
