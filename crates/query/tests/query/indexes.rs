//! A searchable field is found through its index, on both databases.

use serde_json::{Map, json};
use tokio::runtime::Runtime;
use toolwright_query::sql::{Dialect, Kind, Layout, Searchable, compile};
use toolwright_query::{Query, Scope};

use crate::databases::{Databases, layout};

fn fields() -> [(&'static str, Searchable); 3] {
    [
        ("by_status", Searchable::new("status", Kind::Text).unwrap()),
        ("by_price", Searchable::new("price", Kind::Number).unwrap()),
        ("by_created", Searchable::new("audit.created", Kind::Moment).unwrap()),
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
            let filter = Query::parse(source).unwrap().bind(&Scope::new(&variables)).unwrap();
            let fragment = compile(&filter, &searchable(), dialect, 1);
            let plan = databases.plan(&fragment, dialect).await;
            assert!(plan.contains(index), "{source} is not served by {index}:\n{plan}\n{}", fragment.sql);
            assert_eq!(databases.ids(&fragment, dialect).await.len(), *count, "{source}");
        }
    });
}

#[test]
fn sqlite_uses_the_index() {
    check(Dialect::Sqlite);
}

#[test]
fn postgres_uses_the_index() {
    check(Dialect::Postgres);
}

/// An index that exists is used only while the expression stays what it was.
#[test]
fn the_expressions_are_a_contract() {
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
