//! An in-memory SQLite database and a Postgres connection, each with a temporary table of records.

use serde_json::Value;
use sqlx::postgres::PgArguments;
use sqlx::sqlite::SqliteArguments;
use sqlx::{AssertSqlSafe, Connection, Executor, PgConnection, Row, SqliteConnection};
use toolwright_query::sql::{Column, Dialect, Fragment, Layout, Param};

pub(crate) struct Databases {
    pub sqlite: SqliteConnection,
    pub postgres: PgConnection,
}

pub(crate) fn layout() -> Layout {
    Layout::new(Column::new("id").unwrap(), Column::new("r.record").unwrap())
}

impl Databases {
    pub(crate) async fn open() -> Self {
        let server = std::env::var("TOOLWRIGHT_TEST_POSTGRES_URL").unwrap_or_else(|_| {
            panic!("TOOLWRIGHT_TEST_POSTGRES_URL is not set; run the tests with `make test` or `scripts/with-services COMMAND`")
        });
        let mut sqlite = SqliteConnection::connect("sqlite::memory:").await.unwrap();
        let mut postgres = PgConnection::connect(&format!("{server}/postgres")).await.unwrap();
        postgres.execute("SET jit = off").await.unwrap();
        sqlite.execute("CREATE TABLE records (id text PRIMARY KEY, record text NOT NULL)").await.unwrap();
        postgres.execute("CREATE TEMP TABLE records (id text PRIMARY KEY, record jsonb NOT NULL)").await.unwrap();
        Self { sqlite, postgres }
    }

    pub(crate) async fn execute(&mut self, statement: &str, dialect: Dialect) {
        let statement = AssertSqlSafe(statement.to_owned());
        match dialect {
            Dialect::Sqlite => self.sqlite.execute(statement).await.map(drop).unwrap(),
            Dialect::Postgres => self.postgres.execute(statement).await.map(drop).unwrap(),
        }
    }

    /// Replaces all records.
    pub(crate) async fn fill(&mut self, records: &[Value]) {
        self.sqlite.execute("DELETE FROM records").await.unwrap();
        self.postgres.execute("DELETE FROM records").await.unwrap();
        for record in records {
            let (id, text) = (record["id"].as_str().unwrap(), record.to_string());
            let insert = sqlx::query("INSERT INTO records VALUES ($1, $2)").bind(id).bind(text);
            insert.execute(&mut self.sqlite).await.unwrap();
        }
        let all = Value::from(records).to_string();
        let insert = "INSERT INTO records SELECT e ->> 'id', e FROM jsonb_array_elements($1::jsonb) AS e";
        sqlx::query(insert).bind(all).execute(&mut self.postgres).await.unwrap();
    }

    pub(crate) async fn ids(&mut self, condition: &Fragment, dialect: Dialect) -> Vec<String> {
        self.listed(condition, &Fragment { sql: "id".into(), params: vec![] }, dialect).await
    }

    /// Returns the ids of the records that satisfy `condition`, sorted by `order`. The placeholders of `condition`
    /// start at 1, and the placeholders of `order` continue their numbers.
    pub(crate) async fn listed(&mut self, condition: &Fragment, order: &Fragment, dialect: Dialect) -> Vec<String> {
        let statement = format!("SELECT id FROM records AS r WHERE {} ORDER BY {}", condition.sql, order.sql);
        let params: Vec<&Param> = condition.params.iter().chain(&order.params).collect();
        self.first_column(&statement, &params, dialect).await
    }

    /// Returns the query plan of the database.
    pub(crate) async fn plan(&mut self, condition: &Fragment, dialect: Dialect) -> String {
        let (explain, column) = match dialect {
            Dialect::Sqlite => ("EXPLAIN QUERY PLAN", 3),
            Dialect::Postgres => ("EXPLAIN", 0),
        };
        let statement = format!("{explain} SELECT id FROM records AS r WHERE {}", condition.sql);
        let params: Vec<&Param> = condition.params.iter().collect();
        self.column(&statement, &params, dialect, column).await.join("\n")
    }

    async fn first_column(&mut self, statement: &str, params: &[&Param], dialect: Dialect) -> Vec<String> {
        self.column(statement, params, dialect, 0).await
    }

    pub(crate) async fn column(
        &mut self,
        statement: &str,
        params: &[&Param],
        dialect: Dialect,
        column: usize,
    ) -> Vec<String> {
        let failed = |error: sqlx::Error| -> Vec<String> { panic!("{error}\n{statement}\n{params:?}") };
        match dialect {
            Dialect::Sqlite => {
                let query = sqlx::query_with::<sqlx::Sqlite, _>(
                    AssertSqlSafe(statement.to_owned()),
                    SqliteArguments::default(),
                );
                let query = params.iter().fold(query.persistent(false), |query, param| match param {
                    Param::Text(text) => query.bind(text.clone()),
                    Param::Integer(integer) => query.bind(*integer),
                    Param::Real(real) => query.bind(*real),
                });
                let rows = query.fetch_all(&mut self.sqlite).await;
                rows.map(|rows| rows.iter().map(|row| row.get(column)).collect()).unwrap_or_else(failed)
            }
            Dialect::Postgres => {
                let query =
                    sqlx::query_with::<sqlx::Postgres, _>(AssertSqlSafe(statement.to_owned()), PgArguments::default());
                let query = params.iter().fold(query.persistent(false), |query, param| match param {
                    Param::Text(text) => query.bind(text.clone()),
                    Param::Integer(integer) => query.bind(*integer),
                    Param::Real(real) => query.bind(*real),
                });
                let rows = query.fetch_all(&mut self.postgres).await;
                rows.map(|rows| rows.iter().map(|row| row.get(column)).collect()).unwrap_or_else(failed)
            }
        }
    }
}
