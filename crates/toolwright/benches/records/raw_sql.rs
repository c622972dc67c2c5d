//! Runs the queries of the benchmark as SQL statements, either on one connection or through a pool of the same size as
//! the server's pool. With a pool, successive queries use different connections.

use sqlx::postgres::PgPoolOptions;
use sqlx::sqlite::SqlitePoolOptions;
use sqlx::{AssertSqlSafe, Connection, Executor, PgConnection, PgPool, SqliteConnection, SqlitePool};
use toolwright_catalog::Session;
use toolwright_store::Location;
use toolwright_types::TypeId;

pub(crate) enum RawSql {
    Sqlite(SqliteConnection, SqlitePool, Statements),
    Postgres(PgConnection, PgPool, Statements),
}

// These are the sizes of the server's pools.
const SQLITE_CONNECTIONS: u32 = 4;
const POSTGRES_CONNECTIONS: u32 = 10;

pub(crate) struct Statements {
    find: String,
    count: String,
}

/// Creates an empty database on a Postgres server and returns its URL.
pub(crate) async fn new_database(server: &str) -> String {
    let name = format!("bench_records_{}", std::process::id());
    let mut connection = PgConnection::connect(&format!("{server}/postgres")).await.unwrap();
    connection.execute(AssertSqlSafe(format!("DROP DATABASE IF EXISTS {name}"))).await.unwrap();
    connection.execute(AssertSqlSafe(format!("CREATE DATABASE {name}"))).await.unwrap();
    format!("{server}/{name}")
}

impl RawSql {
    pub(crate) async fn connect(location: &Location, session: &Session, type_id: TypeId) -> Self {
        let scope = format!("realm_id = '{}' AND type_id = '{type_id}'", session.realm.realm);
        let statements = |customer: &str, status: &str| Statements {
            find: format!(
                "SELECT CAST(body AS TEXT) FROM records WHERE {scope} AND {customer} = $1 AND {status} = 'open' ORDER BY id LIMIT 21"
            ),
            count: format!("SELECT COUNT(*) FROM records WHERE {scope} AND {customer} = $1 AND {status} = 'open'"),
        };
        match location {
            Location::Sqlite(path) => {
                let url = format!("sqlite://{}", path.display());
                let connection = SqliteConnection::connect(&url).await.unwrap();
                let pool = SqlitePoolOptions::new().min_connections(SQLITE_CONNECTIONS);
                let pool =
                    pool.max_connections(SQLITE_CONNECTIONS).test_before_acquire(false).connect(&url).await.unwrap();
                // SQLite uses an index on an expression only if the query contains the same expression.
                let text = |name: &str| {
                    format!(
                        "lower(CASE json_type(body, '$.{name}') WHEN 'text' THEN json_extract(body, '$.{name}') END)"
                    )
                };
                RawSql::Sqlite(connection, pool, statements(&text("customerId"), &text("status")))
            }
            Location::Postgres(url) => {
                let connection = PgConnection::connect(url).await.unwrap();
                let pool = PgPoolOptions::new().min_connections(POSTGRES_CONNECTIONS);
                let pool =
                    pool.max_connections(POSTGRES_CONNECTIONS).test_before_acquire(false).connect(url).await.unwrap();
                let text = |name: &str| {
                    format!(
                        "lower((CASE jsonb_typeof(body #> '{{{name}}}') WHEN 'string' THEN (body #>> '{{{name}}}') END) COLLATE \"C\")"
                    )
                };
                RawSql::Postgres(connection, pool, statements(&text("customerId"), &text("status")))
            }
        }
    }

    pub(crate) async fn analyze(&mut self) {
        match self {
            RawSql::Sqlite(connection, ..) => connection.execute("ANALYZE").await.map(drop).unwrap(),
            RawSql::Postgres(connection, ..) => connection.execute("VACUUM ANALYZE records").await.map(drop).unwrap(),
        }
    }

    /// Counts the open orders of a customer if `limit` is 0. Otherwise reads at most `limit` of them. Returns the
    /// number of orders.
    pub(crate) async fn query(&mut self, customer: &str, limit: u32, pooled: bool) -> u64 {
        macro_rules! run {
            ($executor:expr, $statements:expr) => {
                if limit == 0 {
                    let count = sqlx::query_scalar(AssertSqlSafe($statements.count.clone())).bind(customer);
                    let count: i64 = count.fetch_one($executor).await.unwrap();
                    count as u64
                } else {
                    let bodies = sqlx::query_scalar(AssertSqlSafe($statements.find.clone())).bind(customer);
                    let bodies: Vec<String> = bodies.fetch_all($executor).await.unwrap();
                    // The server also parses the bodies, so the comparison must include the time for parsing.
                    let records: Vec<serde_json::Value> =
                        bodies.iter().map(|body| serde_json::from_str(body).unwrap()).collect();
                    records.len() as u64
                }
            };
        }
        match (self, pooled) {
            (RawSql::Sqlite(connection, _, statements), false) => run!(connection, statements),
            (RawSql::Sqlite(_, pool, statements), true) => run!(&*pool, statements),
            (RawSql::Postgres(connection, _, statements), false) => run!(connection, statements),
            (RawSql::Postgres(_, pool, statements), true) => run!(&*pool, statements),
        }
    }
}
