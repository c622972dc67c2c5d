//! The same questions as someone would ask them who knows the tables: on a connection of their own, and through a pool like
//! the server's, where one question is asked of another connection than the last.

use sqlx::postgres::PgPoolOptions;
use sqlx::sqlite::SqlitePoolOptions;
use sqlx::{AssertSqlSafe, Connection, Executor, PgConnection, PgPool, SqliteConnection, SqlitePool};
use toolwright_engine::Session;
use toolwright_store::Location;
use toolwright_types::TypeId;

pub enum ByHand {
    Sqlite(SqliteConnection, SqlitePool, Statements),
    Postgres(PgConnection, PgPool, Statements),
}

/// As many connections as the server has.
const SQLITE_CONNECTIONS: u32 = 4;
const POSTGRES_CONNECTIONS: u32 = 10;

pub struct Statements {
    find: String,
    count: String,
}

/// A database of its own on that server.
pub async fn new_database(server: &str) -> String {
    let name = format!("bench_records_{}", std::process::id());
    let mut connection = PgConnection::connect(&format!("{server}/postgres")).await.unwrap();
    connection.execute(AssertSqlSafe(format!("DROP DATABASE IF EXISTS {name}"))).await.unwrap();
    connection.execute(AssertSqlSafe(format!("CREATE DATABASE {name}"))).await.unwrap();
    format!("{server}/{name}")
}

impl ByHand {
    pub async fn connect(location: &Location, session: &Session, of: TypeId) -> Self {
        let place = format!("realm_id = '{}' AND type_id = '{of}'", session.realm.realm);
        let statements = |customer: &str, status: &str| Statements {
            find: format!(
                "SELECT CAST(body AS TEXT) FROM records WHERE {place} AND {customer} = $1 AND {status} = 'open' ORDER BY id LIMIT 21"
            ),
            count: format!("SELECT COUNT(*) FROM records WHERE {place} AND {customer} = $1 AND {status} = 'open'"),
        };
        match location {
            Location::Sqlite(path) => {
                let url = format!("sqlite://{}", path.display());
                let connection = SqliteConnection::connect(&url).await.unwrap();
                let pool = SqlitePoolOptions::new().min_connections(SQLITE_CONNECTIONS);
                let pool =
                    pool.max_connections(SQLITE_CONNECTIONS).test_before_acquire(false).connect(&url).await.unwrap();
                // As the indexes have it: an expression is found by its text.
                let text = |name: &str| {
                    format!(
                        "lower(CASE json_type(body, '$.{name}') WHEN 'text' THEN json_extract(body, '$.{name}') END)"
                    )
                };
                ByHand::Sqlite(connection, pool, statements(&text("customerId"), &text("status")))
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
                ByHand::Postgres(connection, pool, statements(&text("customerId"), &text("status")))
            }
        }
    }

    pub async fn analyze(&mut self) {
        match self {
            ByHand::Sqlite(connection, ..) => connection.execute("ANALYZE").await.map(drop).unwrap(),
            ByHand::Postgres(connection, ..) => connection.execute("VACUUM ANALYZE records").await.map(drop).unwrap(),
        }
    }

    /// How many there are of one customer: counted, or on a page.
    pub async fn ask(&mut self, customer: &str, limit: u32, pooled: bool) -> u64 {
        macro_rules! ask {
            ($executor:expr, $statements:expr) => {
                if limit == 0 {
                    let count = sqlx::query_scalar(AssertSqlSafe($statements.count.clone())).bind(customer);
                    let count: i64 = count.fetch_one($executor).await.unwrap();
                    count as u64
                } else {
                    let bodies = sqlx::query_scalar(AssertSqlSafe($statements.find.clone())).bind(customer);
                    let bodies: Vec<String> = bodies.fetch_all($executor).await.unwrap();
                    // A page is no use before it is read.
                    let read: Vec<serde_json::Value> =
                        bodies.iter().map(|body| serde_json::from_str(body).unwrap()).collect();
                    read.len() as u64
                }
            };
        }
        match (self, pooled) {
            (ByHand::Sqlite(connection, _, statements), false) => ask!(connection, statements),
            (ByHand::Sqlite(_, pool, statements), true) => ask!(&*pool, statements),
            (ByHand::Postgres(connection, _, statements), false) => ask!(connection, statements),
            (ByHand::Postgres(_, pool, statements), true) => ask!(&*pool, statements),
        }
    }
}
