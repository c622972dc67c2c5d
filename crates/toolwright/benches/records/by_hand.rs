//! The same questions as someone would ask them who knows the tables.

use sqlx::{AssertSqlSafe, Connection, Executor, PgConnection, SqliteConnection};
use toolwright_engine::Session;
use toolwright_store::Location;
use toolwright_types::TypeId;

pub enum ByHand {
    Sqlite(SqliteConnection, Statements),
    Postgres(PgConnection, Statements),
}

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
                let connection = SqliteConnection::connect(&format!("sqlite://{}", path.display())).await.unwrap();
                // As the indexes have it: an expression is found by its text.
                let text = |name: &str| {
                    format!(
                        "lower(CASE json_type(body, '$.{name}') WHEN 'text' THEN json_extract(body, '$.{name}') END)"
                    )
                };
                ByHand::Sqlite(connection, statements(&text("customerId"), &text("status")))
            }
            Location::Postgres(url) => {
                let connection = PgConnection::connect(url).await.unwrap();
                let text = |name: &str| {
                    format!(
                        "lower((CASE jsonb_typeof(body #> '{{{name}}}') WHEN 'string' THEN (body #>> '{{{name}}}') END) COLLATE \"C\")"
                    )
                };
                ByHand::Postgres(connection, statements(&text("customerId"), &text("status")))
            }
        }
    }

    pub async fn analyze(&mut self) {
        match self {
            ByHand::Sqlite(connection, _) => connection.execute("ANALYZE").await.map(drop).unwrap(),
            ByHand::Postgres(connection, _) => connection.execute("VACUUM ANALYZE records").await.map(drop).unwrap(),
        }
    }

    /// How many there are of one customer: counted, or on a page.
    pub async fn ask(&mut self, customer: &str, limit: u32) -> u64 {
        macro_rules! ask {
            ($connection:expr, $statements:expr) => {
                if limit == 0 {
                    let count: i64 = sqlx::query_scalar(AssertSqlSafe($statements.count.clone()))
                        .bind(customer)
                        .fetch_one($connection)
                        .await
                        .unwrap();
                    count as u64
                } else {
                    let bodies: Vec<String> = sqlx::query_scalar(AssertSqlSafe($statements.find.clone()))
                        .bind(customer)
                        .fetch_all($connection)
                        .await
                        .unwrap();
                    // A page is no use before it is read.
                    let read: Vec<serde_json::Value> =
                        bodies.iter().map(|body| serde_json::from_str(body).unwrap()).collect();
                    read.len() as u64
                }
            };
        }
        match self {
            ByHand::Sqlite(connection, statements) => ask!(connection, statements),
            ByHand::Postgres(connection, statements) => ask!(connection, statements),
        }
    }
}
