//! Tests for existing tables whose columns are the fields of a record: SQL and matching in memory must find the same
//! records.

use std::cell::RefCell;

use proptest::prelude::*;
use proptest::test_runner::{Config, TestCaseError, TestRunner};
use serde_json::{Value, json};
use sqlx::{AssertSqlSafe, Executor, Row};
use tokio::runtime::Runtime;
use toolwright_query::sql::{self, ColumnType, Dialect, Layout, TableColumn, TableName};
use toolwright_query::{BindContext, Cursor, Filter, Query, Sort, SortValue};

use crate::databases::Databases;
use crate::generate::{edge_case_queries, edge_case_values, edges, queries, variables};

const BOTH: [Dialect; 2] = [Dialect::Sqlite, Dialect::Postgres];

/// Field, column, column type, and the declared type in SQLite and Postgres.
const COLUMNS: &[(&str, &str, ColumnType, &str, &str)] = &[
    ("a", "a", ColumnType::Text, "TEXT", "text"),
    ("b", "b", ColumnType::Integer, "INTEGER", "bigint"),
    ("c", "c", ColumnType::Json, "JSON", "jsonb"),
    ("d", "d", ColumnType::Timestamp, "DATETIME", "timestamptz"),
    ("O'x", "O'x \"of\" ä", ColumnType::Decimal, "DECIMAL", "numeric"),
    ("double", "double", ColumnType::Double, "REAL", "double precision"),
    ("single", "single", ColumnType::Float, "REAL", "real"),
    ("truth", "truth", ColumnType::Bool, "BOOLEAN", "boolean"),
    ("local", "local", ColumnType::LocalTimestamp, "TIMESTAMP", "timestamp"),
    ("day", "DAY", ColumnType::Date, "DATE", "date"),
    ("uuid", "uuid", ColumnType::Uuid, "UUID", "uuid"),
    ("bytes", "bytes", ColumnType::Bytes, "BLOB", "bytea"),
    ("list", "list", ColumnType::Composite, "JSON", "text[]"),
    ("short", "short", ColumnType::Other, "", "character(4)"),
    ("nocase", "nocase", ColumnType::Text, "TEXT COLLATE NOCASE", "varchar COLLATE \"C\""),
    ("parent", "parent", ColumnType::Integer, "INTEGER", "integer"),
];

fn column(field: &str) -> TableColumn {
    let (field, column, column_type, ..) = COLUMNS.iter().find(|(name, ..)| *name == field).unwrap();
    TableColumn::new(field, column, *column_type).unwrap()
}

fn layout(key: (&str, ColumnType)) -> Layout {
    let fields = COLUMNS.iter().map(|(field, ..)| {
        let column = column(field);
        if *field == "parent" { column.as_reference() } else { column }
    });
    Layout::from_columns(TableColumn::new("key", key.0, key.1).unwrap(), fields)
}

fn keys(dialect: Dialect) -> [(&'static str, ColumnType); 3] {
    // SQLite has no UUID type, so the column has the type `Other` there.
    let uuid = if dialect == Dialect::Postgres { ColumnType::Uuid } else { ColumnType::Other };
    [("key", ColumnType::Integer), ("code", ColumnType::Text), ("ukey", uuid)]
}

fn definition(dialect: Dialect) -> String {
    let columns: Vec<String> = COLUMNS
        .iter()
        .map(|(_, column, _, sqlite, postgres)| {
            let declared = if dialect == Dialect::Sqlite { sqlite } else { postgres };
            format!("\"{}\" {declared}", column.replace('"', "\"\""))
        })
        .collect();
    let uuid = if dialect == Dialect::Sqlite { "TEXT" } else { "uuid" };
    format!("(key INTEGER PRIMARY KEY, code TEXT UNIQUE, ukey {uuid} UNIQUE, {})", columns.join(", "))
}

/// Returns a row with this value in every column whose type can represent it.
fn row(index: usize, value: &Value) -> Value {
    const DATES: [&str; 4] =
        ["2024-01-15T12:00:00Z", "2024-01-15T00:00:00Z", "1969-12-31T23:59:59.999999Z", "2024-02-29T10:00:00.5Z"];
    const UUIDS: [&str; 2] = ["507f1f77-bcf8-6cd7-9943-901100000000", "00000000-0000-0000-0000-000000000001"];
    let number = value.as_f64().filter(|number| *number == 0.0 || (1e-30..1e30).contains(&number.abs()));
    let text = value.as_str();
    let date = DATES[index % DATES.len()];
    let short = text.filter(|text| text.chars().count() <= 4);
    json!({
        "key": index, "code": format!("k{index:03}"), "ukey": format!("00000000-0000-0000-0000-{index:012}"),
        "a": text, "nocase": text, "short": short,
        "b": value.as_i64(), "O'x \"of\" ä": number, "double": value.as_f64(), "single": number.map(|number| number % 1000.0),
        "c": if value.is_null() { Value::Null } else { value.clone() },
        "truth": value.as_bool().or_else(|| number.map(|number| number > 0.0)),
        "d": text.map(|_| date), "local": text.map(|_| date.trim_end_matches('Z')),
        "DAY": text.map(|_| &date[..10]), "uuid": text.map(|_| UUIDS[index % 2]),
        "bytes": null, "list": text.map(|text| vec![text, "x y"]), "parent": number.map(|_| index / 2),
    })
}

/// The same table in both databases.
struct Tables {
    databases: Databases,
    rows: TableName,
}

impl Tables {
    async fn open() -> Self {
        let mut databases = Databases::open().await;
        for dialect in BOTH {
            let temporary = if dialect == Dialect::Postgres { "TEMP " } else { "" };
            databases.execute(&format!("CREATE {temporary}TABLE \"ro ws\" {}", definition(dialect)), dialect).await;
        }
        databases.postgres.execute("SET TimeZone = 'UTC'").await.unwrap();
        Self { databases, rows: TableName::new(None, "ro ws").unwrap() }
    }

    async fn fill(&mut self, values: &[Value]) {
        let rows: Vec<Value> = values.iter().enumerate().map(|(index, value)| row(index, value)).collect();
        for dialect in BOTH {
            self.databases.execute("DELETE FROM \"ro ws\"", dialect).await;
        }
        let all = Value::from(rows.as_slice()).to_string();
        let insert = "INSERT INTO \"ro ws\" SELECT * FROM jsonb_populate_recordset(null::\"ro ws\", $1::jsonb)";
        sqlx::query(insert).bind(all).execute(&mut self.databases.postgres).await.unwrap();
        for row in &rows {
            let names: Vec<&String> = row.as_object().unwrap().keys().collect();
            let quoted: Vec<String> = names.iter().map(|name| format!("\"{}\"", name.replace('"', "\"\""))).collect();
            let placeholders: Vec<String> = (1..=names.len()).map(|number| format!("${number}")).collect();
            let insert = format!("INSERT INTO \"ro ws\" ({}) VALUES ({})", quoted.join(", "), placeholders.join(", "));
            let query =
                names.iter().fold(sqlx::query(AssertSqlSafe(insert)), |query, name| match &row[name.as_str()] {
                    Value::Null => query.bind(None::<String>),
                    Value::Bool(truth) => query.bind(*truth),
                    // SQLite distinguishes integers and floating point numbers, so each number is bound with its type.
                    Value::Number(number) if name.as_str() != "c" => match number.as_i64() {
                        Some(integer) => query.bind(integer),
                        None => query.bind(number.as_f64().unwrap()),
                    },
                    Value::String(text) if name.as_str() != "c" => query.bind(text.clone()),
                    other => query.bind(other.to_string()),
                });
            query.execute(&mut self.databases.sqlite).await.unwrap();
        }
        for dialect in BOTH {
            let bytes = if dialect == Dialect::Postgres { "'\\x00ff'::bytea" } else { "x'00ff'" };
            self.databases.execute(&format!("UPDATE \"ro ws\" SET bytes = {bytes} WHERE key % 2 = 0"), dialect).await;
        }
    }

    /// Runs a statement and returns one text for each row.
    async fn texts(&mut self, selected: &str, rest: &sql::Fragment, dialect: Dialect) -> Vec<String> {
        let statement = format!("SELECT {selected} FROM {} AS t WHERE {}", self.rows.fragment().sql, rest.sql);
        let failed = |error: sqlx::Error| -> Vec<String> { panic!("{error}\n{statement}\n{:?}", rest.params) };
        macro_rules! fetch {
            ($connection:expr) => {{
                let query = rest.params.iter().fold(
                    sqlx::query(AssertSqlSafe(statement.clone())).persistent(false),
                    |query, param| match param {
                        sql::Param::Text(text) => query.bind(text.clone()),
                        sql::Param::Integer(integer) => query.bind(*integer),
                        sql::Param::Real(real) => query.bind(*real),
                    },
                );
                let rows = query.fetch_all($connection).await;
                rows.map(|rows| rows.iter().map(|row| row.get(0)).collect()).unwrap_or_else(failed)
            }};
        }
        match dialect {
            Dialect::Sqlite => fetch!(&mut self.databases.sqlite),
            Dialect::Postgres => fetch!(&mut self.databases.postgres),
        }
    }

    async fn records(&mut self, layout: &Layout, dialect: Dialect) -> Vec<Value> {
        let every = sql::Fragment { sql: "1 = 1 ORDER BY key".into(), params: vec![] };
        let texts = self.texts(&layout.record(dialect).sql, &every, dialect).await;
        texts.iter().map(|text| serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))).collect()
    }

    /// Compares the rows that SQL finds with the records that match in memory. Repeats the comparison for each of the
    /// first `count` columns of `keys` as the key column.
    async fn agree(&mut self, queries: &[String], count: usize) -> Result<(), TestCaseError> {
        let (variables, edges) = (variables(), edges());
        for dialect in BOTH {
            for key in keys(dialect).into_iter().take(count) {
                let layout = layout(key);
                let records = self.records(&layout, dialect).await;
                for source in queries {
                    let query = Query::parse(source).unwrap_or_else(|error| panic!("{source}: {error}"));
                    let filter = query.bind(&BindContext::new(&variables).with_edges(&edges)).unwrap();
                    let mut expected = ids(records.iter().filter(|record| filter.matches(record)));
                    let condition = sql::compile(&filter, &layout, dialect, 1);
                    let mut found = self.texts(&format!("CAST({} AS TEXT)", key.0), &condition, dialect).await;
                    expected.sort();
                    found.sort();
                    prop_assert_eq!(
                        &found,
                        &expected,
                        "{:?} (left) and memory differ for {}\n{:?}",
                        dialect,
                        source,
                        condition
                    );
                }
            }
        }
        Ok(())
    }
}

fn ids<'r>(records: impl Iterator<Item = &'r Value>) -> Vec<String> {
    records.map(|record| record["id"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn sql_and_in_memory_queries_match_the_same_rows_for_every_condition_and_column_type() {
    Runtime::new().unwrap().block_on(async {
        let mut tables = Tables::open().await;
        tables.fill(&edge_case_values()).await;
        for (at, (field, ..)) in COLUMNS.iter().enumerate() {
            // Each column is tested with a different subset of the conditions. Together, the tests of all columns use
            // every condition.
            let some: Vec<String> = edge_case_queries(field).into_iter().skip(at % 29).step_by(29).collect();
            let negated: Vec<String> = some.iter().step_by(5).map(|query| format!("!!{query}")).collect();
            tables.agree(&[some, negated].concat(), 1).await.unwrap();
        }
        let keyed = [
            "id:#7",
            "id:7",
            "id:\"07\"",
            "id:^[3, k003, 12]",
            "id:k003~cs",
            "id:K003",
            "parent:#3",
            "parent:^[3]",
            "id:~",
        ];
        tables.agree(&keyed.map(str::to_owned), 3).await.unwrap();
    });
}

#[test]
fn sql_and_in_memory_queries_match_the_same_rows_for_random_queries() {
    let runtime = Runtime::new().unwrap();
    let tables = RefCell::new(runtime.block_on(async {
        let mut tables = Tables::open().await;
        tables.fill(&edge_case_values()).await;
        tables
    }));
    let mut runner = TestRunner::new(Config { cases: 96, failure_persistence: None, ..Config::default() });
    let outcome = runner.run(&prop::collection::vec(queries(), 1..6), |queries| {
        runtime.block_on(tables.borrow_mut().agree(&queries, 1))
    });
    outcome.unwrap_or_else(|failure| panic!("{failure}"));
}

#[test]
fn filter_by_ids_finds_rows_for_every_key_type() {
    Runtime::new().unwrap().block_on(async {
        let mut tables = Tables::open().await;
        tables.fill(&[json!(1), json!("a"), json!(2.5)]).await;
        for dialect in BOTH {
            for key in keys(dialect) {
                let layout = layout(key);
                let all = ids(tables.records(&layout, dialect).await.iter());
                let wanted = [
                    vec![all[1].clone(), all[2].clone()],
                    vec![all[0].clone()],
                    vec!["01".into(), " 1".into(), "x".into()],
                ];
                for (wanted, expected) in wanted.iter().zip([2, 1, 0]) {
                    let condition = sql::compile(&Filter::ids(wanted.clone()), &layout, dialect, 1);
                    let found = tables.texts(&format!("CAST({} AS TEXT)", key.0), &condition, dialect).await;
                    assert_eq!(found.len(), expected, "{dialect:?} {key:?} {wanted:?}");
                }
            }
        }
    });
}

#[test]
fn pages_of_an_existing_table_contain_every_row_once_in_sort_order() {
    Runtime::new().unwrap().block_on(async {
        let mut tables = Tables::open().await;
        tables.fill(&edge_case_values()).await;
        for dialect in BOTH {
            for (key, sort) in keys(dialect)
                .into_iter()
                .flat_map(|key| ["", "a", "-double, a", "truth, -d", "-c"].map(|sort| (key, sort)))
            {
                let layout = layout(key);
                let records = tables.records(&layout, dialect).await;
                let sort = if sort.is_empty() { Sort::default() } else { Sort::parse(sort).unwrap() };
                let values = |record: &Value| -> Vec<SortValue> { sort.values(record) };
                let (mut list, mut cursor): (Vec<Value>, Option<Cursor>) = (Vec::new(), None);
                loop {
                    let mut page = match &cursor {
                        Some(cursor) => sql::after_cursor(cursor, &sort, &layout, dialect, 1),
                        None => sql::Fragment { sql: "1 = 1".into(), params: vec![] },
                    };
                    let order = sql::order_by(&sort, &layout, dialect, page.params.len() + 1);
                    page.sql = format!("{} ORDER BY {} LIMIT 20", page.sql, order.sql);
                    page.params.extend(order.params);
                    let texts = tables.texts(&layout.record(dialect).sql, &page, dialect).await;
                    let Some(last) = texts.last() else { break };
                    let last: Value = serde_json::from_str(last).unwrap();
                    let text = Cursor::after(None, &sort, &last, last["id"].as_str().unwrap()).to_string();
                    cursor = Some(Cursor::decode(&text, None, &sort).unwrap());
                    list.extend(texts.iter().map(|text| serde_json::from_str::<Value>(text).unwrap()));
                    assert!(list.len() <= records.len(), "a page repeats rows");
                }
                assert_eq!(list.len(), records.len(), "{dialect:?} {key:?} {sort}");
                // Rows with equal sort values are ordered by the key, and this order differs between databases. So the
                // order of the ids is not checked.
                let in_order =
                    list.windows(2).all(|pair| sort.compare((&values(&pair[0]), ""), (&values(&pair[1]), "")).is_le());
                assert!(in_order, "{dialect:?} {key:?} {sort}");
            }
        }
    });
}

#[test]
fn every_column_type_is_converted_to_the_expected_json() {
    Runtime::new().unwrap().block_on(async {
        let mut tables = Tables::open().await;
        tables.fill(&[json!("ab"), json!(1.5), json!(null)]).await;
        for (statement, dialect) in [
            ("UPDATE \"ro ws\" SET \"O'x \"\"of\"\" ä\" = 12345678901234567890.5, double = 'NaN', d = 'infinity' WHERE key = 1", Dialect::Postgres),
            ("UPDATE \"ro ws\" SET \"O'x \"\"of\"\" ä\" = 9e999, d = '2024-01-15 12:00:00', local = '2024-01-15 12:00:00.25', truth = 7 WHERE key = 1", Dialect::Sqlite),
        ] {
            tables.databases.execute(statement, dialect).await;
        }
        let expect = |dialect: Dialect| match dialect {
            Dialect::Sqlite => json!([
                { "id": "0", "a": "ab", "b": null, "c": "ab", "d": "2024-01-15T12:00:00Z", "O'x": null, "double": null, "single": null,
                  "truth": null, "local": "2024-01-15T12:00:00", "day": "2024-01-15", "uuid": "507f1f77-bcf8-6cd7-9943-901100000000",
                  "bytes": "00ff", "list": ["ab", "x y"], "short": "ab", "nocase": "ab", "parent": null },
                { "id": "1", "a": null, "b": null, "c": 1.5, "d": "2024-01-15T12:00:00Z", "O'x": "Inf", "double": 1.5, "single": 1.5,
                  "truth": 7, "local": "2024-01-15T12:00:00.25Z", "day": null, "uuid": null, "bytes": null, "list": null, "short": null,
                  "nocase": null, "parent": "0" },
            ]),
            Dialect::Postgres => json!([
                { "id": "0", "a": "ab", "b": null, "c": "ab", "d": "2024-01-15T12:00:00+00:00", "O'x": null, "double": null,
                  "single": null, "truth": null, "local": "2024-01-15T12:00:00+00:00", "day": "2024-01-15",
                  "uuid": "507f1f77-bcf8-6cd7-9943-901100000000", "bytes": "00ff", "list": ["ab", "x y"], "short": "ab",
                  "nocase": "ab", "parent": null },
                { "id": "1", "a": null, "b": null, "c": 1.5, "d": "infinity", "O'x": "12345678901234567890.5", "double": "NaN",
                  "single": 1.5, "truth": true, "local": null, "day": null, "uuid": null, "bytes": null, "list": null,
                  "short": null, "nocase": null, "parent": "0" },
            ]),
        };
        for dialect in BOTH {
            let records = tables.records(&layout(("key", ColumnType::Integer)), dialect).await;
            assert_eq!(Value::from(&records[..2]), expect(dialect), "{dialect:?}");
        }
    });
}

#[test]
fn table_with_300_columns_is_read_as_one_record() {
    Runtime::new().unwrap().block_on(async {
        let mut databases = Databases::open().await;
        let names: Vec<String> = (0..300).map(|n| format!("c{n}")).collect();
        let columns = names.iter().map(|name| TableColumn::new(name, name, ColumnType::Integer).unwrap());
        let layout = Layout::from_columns(TableColumn::new("id", "id", ColumnType::Integer).unwrap(), columns);
        let declared: Vec<String> = names.iter().map(|name| format!("{name} INTEGER DEFAULT 7")).collect();
        for dialect in BOTH {
            let temporary = if dialect == Dialect::Postgres { "TEMP " } else { "" };
            let create = format!("CREATE {temporary}TABLE wide (id INTEGER PRIMARY KEY, {})", declared.join(", "));
            databases.execute(&create, dialect).await;
            databases.execute("INSERT INTO wide (id) VALUES (1)", dialect).await;
        }
        let mut tables = Tables { databases, rows: TableName::new(None, "wide").unwrap() };
        for dialect in BOTH {
            let every = sql::Fragment { sql: "1 = 1".into(), params: vec![] };
            let texts = tables.texts(&layout.record(dialect).sql, &every, dialect).await;
            let record: Value = serde_json::from_str(&texts[0]).unwrap();
            assert_eq!((record.as_object().unwrap().len(), &record["c299"]), (301, &json!(7)), "{dialect:?}");
        }
    });
}

/// Comparisons of numbers and dates, and case-sensitive comparisons of texts, use the indexes of the table.
#[test]
fn conditions_on_indexed_columns_use_the_indexes_of_the_table() {
    Runtime::new().unwrap().block_on(async {
        let mut tables = Tables::open().await;
        let many: Vec<Value> = (0..2000).map(|n| if n % 2 == 0 { json!(n) } else { json!(format!("t{n}")) }).collect();
        tables.fill(&many).await;
        for dialect in BOTH {
            for name in ["a", "b", "d", "parent"] {
                tables.databases.execute(&format!("CREATE INDEX by_{name} ON \"ro ws\" ({name})"), dialect).await;
            }
            tables.databases.execute("ANALYZE", dialect).await;
        }
        tables.databases.postgres.execute("SET enable_seqscan = off").await.unwrap();
        for (query, index, dialects) in [
            ("a:t77~cs", "by_a", &BOTH[..]),
            ("a:^[t1, t3]", "by_a", &BOTH),
            ("b:#40", "by_b", &BOTH),
            ("b:>#1990", "by_b", &BOTH),
            ("parent:3", "by_parent", &BOTH),
            ("d:>=2024-02-29", "by_d", &BOTH[1..]),
        ] {
            let filter = Query::parse(query).unwrap().bind(&BindContext::empty()).unwrap();
            for dialect in dialects {
                let condition = sql::compile(&filter, &layout(("key", ColumnType::Integer)), *dialect, 1);
                let (explain, selected) = match dialect {
                    Dialect::Sqlite => ("EXPLAIN QUERY PLAN", 3),
                    Dialect::Postgres => ("EXPLAIN", 0),
                };
                let plan = tables.query_plan(explain, selected, &condition, *dialect).await;
                assert!(plan.contains(index), "{dialect:?} {query}\n{plan}");
            }
        }
    });
}

impl Tables {
    async fn query_plan(
        &mut self,
        explain: &str,
        column: usize,
        condition: &sql::Fragment,
        dialect: Dialect,
    ) -> String {
        let statement = format!("{explain} SELECT key FROM {} AS t WHERE {}", self.rows.fragment().sql, condition.sql);
        self.databases
            .column(&statement, &condition.params.iter().collect::<Vec<_>>(), dialect, column)
            .await
            .join("\n")
    }
}
