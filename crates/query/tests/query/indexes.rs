//! Conditions on searchable fields must use the index in both databases.

use serde_json::{Map, json};
use tokio::runtime::Runtime;
use toolwright_query::sql::{Dialect, IndexKind, Layout, SearchableField, compile};
use toolwright_query::{BindContext, Query};

use crate::databases::{Databases, layout};

fn fields() -> [(&'static str, SearchableField); 3] {
    [
        ("by_status", SearchableField::new("status", IndexKind::Text).unwrap()),
        ("by_price", SearchableField::new("price", IndexKind::Number).unwrap()),
        ("by_created", SearchableField::new("audit.created", IndexKind::Timestamp).unwrap()),
    ]
}

fn searchable() -> Layout {
    layout().with_searchable(fields().map(|(_, field)| field))
}

async fn filled(dialect: Dialect) -> Databases {
    let mut databases = Databases::open().await;
    let records: Vec<_> = (0..500)
        .map(|n| {
            let created = format!("20{:02}-01-15T10:00:00Z", n % 90);
            json!({"id": format!("{n:03}"), "status": format!("s{n}"), "price": n, "audit": {"created": created}})
        })
        .collect();
    databases.fill(&records).await;
    for (name, field) in fields() {
        let expression = searchable().index_expression(&field, dialect);
        databases.execute(&format!("CREATE INDEX {name} ON records ({expression})"), dialect).await;
    }
    databases.execute("ANALYZE", dialect).await;
    databases
}

const SERVED: &[(&str, &str, usize)] = &[
    ("status:S7", "by_status", 1),
    ("status:s7~cs", "by_status", 1),
    ("status:\"s7\"", "by_status", 1),
    ("status:^[s7, s8, S9]", "by_status", 2),
    ("status:^[${list}]", "by_status", 2),
    ("status:s49*", "by_status", 11),
    ("status:S49?~ci", "by_status", 10),
    ("status:s49*~cs", "by_status", 11),
    ("status:>=s99~ci", "by_status", 1),
    ("status:s7 && price:<#10", "by_status", 1),
    ("price:#7", "by_price", 1),
    ("price:7", "by_price", 1),
    ("price:>##498.5", "by_price", 1),
    ("price:^[#1, #2, ##3.5]", "by_price", 2),
    ("audit.created:>2089-01-01", "by_created", 5),
    ("audit.created:2089-01-15T11:00:00+01:00", "by_created", 5),
];

fn check(dialect: Dialect) {
    let variables = Map::from_iter([("list".to_owned(), json!(["s1", "s2"]))]);
    Runtime::new().unwrap().block_on(async {
        let mut databases = filled(dialect).await;
        for (source, index, count) in SERVED {
            let filter = Query::parse(source).unwrap().bind(&BindContext::new(&variables)).unwrap();
            let fragment = compile(&filter, &searchable(), dialect, 1);
            let plan = databases.plan(&fragment, dialect).await;
            assert!(plan.contains(index), "{source} is not served by {index}:\n{plan}\n{}", fragment.sql);
            assert_eq!(databases.ids(&fragment, dialect).await.len(), *count, "{source}");
        }
    });
}

#[test]
fn sqlite_uses_the_index_of_a_searchable_field() {
    check(Dialect::Sqlite);
}

#[test]
fn postgres_uses_the_index_of_a_searchable_field() {
    check(Dialect::Postgres);
}

/// A database uses an index only for the expression that the index was created with. If a release changed an
/// expression, the databases would no longer use existing indexes.
#[test]
fn index_expressions_are_the_same_as_in_earlier_releases() {
    let [(_, text), (_, number), _] = fields();
    let cases = [
        (
            &text,
            Dialect::Sqlite,
            "(lower(CASE json_type(record, '$.status') WHEN 'text' THEN json_extract(record, '$.status') END))",
        ),
        (
            &number,
            Dialect::Sqlite,
            "(CASE WHEN json_type(record, '$.price') IN ('integer', 'real') THEN CAST(json_extract(record, '$.price') AS REAL) END)",
        ),
        (
            &text,
            Dialect::Postgres,
            "(lower((CASE jsonb_typeof(record #> '{status}') WHEN 'string' THEN (record #>> '{status}') END) COLLATE \"C\"))",
        ),
        (
            &number,
            Dialect::Postgres,
            "(CASE jsonb_typeof(record #> '{price}') WHEN 'number' THEN ((record #>> '{price}'))::float8 END)",
        ),
    ];
    for (field, dialect, expected) in cases {
        assert_eq!(searchable().index_expression(field, dialect), expected);
    }
}
