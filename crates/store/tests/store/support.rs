//! Creates a separate database for each test, on SQLite and on Postgres.

use std::future::Future;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use serde_json::Value;
use sqlx::{AssertSqlSafe, Connection, Executor, PgConnection, Row as _, SqliteConnection};
use tempfile::TempDir;
use tokio::task::JoinSet;
use toolwright_query::sql::Param;
use toolwright_store::{ListQuery, Location, NewRevision, RealmDefinitions, SealKey, Store, StoreOptions, SyncMode};
use toolwright_types::DocumentKind::Tool;
use toolwright_types::{Clock, DefinitionSource, DocumentId, PrincipalId, RealmScope, RefName, RunId, Timestamp};

/// Defines two tests per function, one on SQLite and one on Postgres: `on_both_databases!(first, second);`.
macro_rules! on_both_databases {
    ($($test:ident),* $(,)?) => {
        mod sqlite {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $test() {
                $crate::support::on_sqlite(super::$test).await;
            })*
        }

        mod postgres {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $test() {
                $crate::support::on_postgres(super::$test).await;
            })*
        }
    };
}

/// A database that exists for the duration of one test.
#[derive(Clone)]
pub(crate) struct TestDb {
    pub clock: Arc<TestClock>,
    url: Location,
    seal: String,
}

pub(crate) async fn on_sqlite<F: Future<Output = ()> + Send + 'static>(test: impl FnOnce(TestDb) -> F) {
    let folder = TempDir::new().unwrap();
    outcome(test(TestDb::at(Location::Sqlite(folder.path().join("store.db"))))).await.unwrap();
}

pub(crate) async fn on_postgres<F: Future<Output = ()> + Send + 'static>(test: impl FnOnce(TestDb) -> F) {
    on_postgres_with("", test).await;
}

/// Like [`on_postgres`], with a database that is created with these options.
pub(crate) async fn on_postgres_with<F: Future<Output = ()> + Send + 'static>(
    options: &str,
    test: impl FnOnce(TestDb) -> F,
) {
    let server = std::env::var("TOOLWRIGHT_TEST_POSTGRES_URL").unwrap_or_else(|_| {
        panic!(
            "TOOLWRIGHT_TEST_POSTGRES_URL is not set: run the tests with `make test` or `scripts/with-services COMMAND`"
        )
    });
    let database = RunId::generate().to_string().replace("run_", "tw_").to_lowercase();
    administer(&server, format!("CREATE DATABASE {database} {options}")).await;
    let outcome = outcome(test(TestDb::at(Location::Postgres(format!("{server}/{database}"))))).await;
    administer(&server, format!("DROP DATABASE {database} WITH (FORCE)")).await;
    outcome.unwrap_or_else(rethrow);
}

/// Runs the test in a task and returns its outcome, so that the database is dropped even if the test panics.
async fn outcome(test: impl Future<Output = ()> + Send + 'static) -> Result<(), tokio::task::JoinError> {
    JoinSet::from_iter([test]).join_next().await.unwrap()
}

fn rethrow(panic: tokio::task::JoinError) {
    std::panic::resume_unwind(panic.into_panic());
}

async fn administer(server: &str, statement: String) {
    let mut connection = PgConnection::connect(&format!("{server}/postgres")).await.unwrap();
    connection.execute(AssertSqlSafe(statement)).await.unwrap();
    connection.close().await.unwrap();
}

impl TestDb {
    fn at(url: Location) -> Self {
        // A seal key of 32 zero bytes, in base64.
        let seal = format!("{}=", "A".repeat(43));
        Self { clock: Arc::new(TestClock::default()), url, seal }
    }

    pub(crate) async fn open(&self) -> Store {
        Store::open(self.options()).await.unwrap()
    }

    pub(crate) fn options(&self) -> StoreOptions {
        StoreOptions {
            url: self.url.clone(),
            sync: SyncMode::Disk,
            clock: self.clock.clone(),
            seal: SealKey::from_base64(&self.seal).unwrap(),
        }
    }

    /// Returns the same database with another seal key.
    pub(crate) fn with_other_key(&self) -> Self {
        Self { seal: format!("{}Q=", "A".repeat(42)), ..self.clone() }
    }

    /// Executes a statement directly on the database, without the store.
    pub(crate) async fn tamper(&self, statement: impl Into<String>) {
        let statement = AssertSqlSafe(statement.into());
        match &self.url {
            Location::Sqlite(path) => {
                let mut connection = SqliteConnection::connect(&sqlite_url(path)).await.unwrap();
                connection.execute(statement).await.unwrap();
                connection.close().await.unwrap();
            }
            Location::Postgres(url) => {
                let mut connection = PgConnection::connect(url).await.unwrap();
                connection.execute(statement).await.unwrap();
                connection.close().await.unwrap();
            }
        }
    }

    /// Opens a connection to the Postgres database, without the store.
    pub(crate) async fn postgres(&self) -> PgConnection {
        let Location::Postgres(url) = &self.url else { panic!("the database is not Postgres") };
        PgConnection::connect(url).await.unwrap()
    }

    pub(crate) fn is_sqlite(&self) -> bool {
        matches!(self.url, Location::Sqlite(_))
    }

    /// Executes a statement and returns one column of its rows, as text.
    pub(crate) async fn column(&self, statement: String, params: &[Param], at: usize) -> Vec<String> {
        let statement = AssertSqlSafe(statement);
        match &self.url {
            Location::Sqlite(path) => {
                let mut connection = SqliteConnection::connect(&sqlite_url(path)).await.unwrap();
                let query = params.iter().fold(sqlx::query(statement), |query, param| match param {
                    Param::Text(text) => query.bind(text.clone()),
                    Param::Integer(integer) => query.bind(*integer),
                    Param::Real(real) => query.bind(*real),
                });
                query.fetch_all(&mut connection).await.unwrap().iter().map(|row| row.get(at)).collect()
            }
            Location::Postgres(url) => {
                let mut connection = PgConnection::connect(url).await.unwrap();
                let query = params.iter().fold(sqlx::query(statement), |query, param| match param {
                    Param::Text(text) => query.bind(text.clone()),
                    Param::Integer(integer) => query.bind(*integer),
                    Param::Real(real) => query.bind(*real),
                });
                query.fetch_all(&mut connection).await.unwrap().iter().map(|row| row.get(at)).collect()
            }
        }
    }
}

fn sqlite_url(path: &std::path::Path) -> String {
    format!("sqlite://{}", PathBuf::from(path).display())
}

/// A clock that advances by a millisecond on every call.
#[derive(Default)]
pub(crate) struct TestClock(AtomicI64);

impl TestClock {
    pub(crate) fn advance_seconds(&self, seconds: i64) {
        self.0.fetch_add(seconds * 1_000_000, Ordering::SeqCst);
    }
}

impl Clock for TestClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_micros(1_790_000_000_000_000 + self.0.fetch_add(1000, Ordering::SeqCst))
    }
}

/// Returns the realm with this name in the org `acme`. Creates org and realm if they do not exist.
pub(crate) async fn realm(store: &Store, name: &str) -> RealmScope {
    let org = store.tenancy().ensure_org(&"acme".parse().unwrap()).await.unwrap();
    store.tenancy().ensure_realm(org, &name.parse().unwrap()).await.unwrap()
}

/// Returns the principal with this name and home realm. Creates the principal if it does not exist.
pub(crate) async fn principal(store: &Store, home: &RealmScope, name: &str) -> PrincipalId {
    let name = name.parse().unwrap();
    store.tenancy().ensure_principal(home.org, &name, home.realm, &[]).await.unwrap().id
}

pub(crate) fn name(text: &str) -> RefName {
    text.parse().unwrap()
}

/// An active revision of version 1.0.0.
pub(crate) fn revision(ref_name: &str, body: Value) -> NewRevision {
    NewRevision {
        ref_name: name(ref_name),
        version: Some("1.0.0".parse().unwrap()),
        active: true,
        source: DefinitionSource::Manual,
        apply_set: None,
        body,
    }
}

pub(crate) fn version(number: &str, active: bool, new: NewRevision) -> NewRevision {
    NewRevision { version: Some(number.parse().unwrap()), active, ..new }
}

/// Creates a realm with these tools.
pub(crate) async fn realm_with_tools(store: &Store, tools: &[(&str, Value)]) -> RealmScope {
    let realm = realm(store, "main").await;
    for (name, body) in tools {
        store.definitions(&realm).create(Tool, revision(name, body.clone()), "someone").await.unwrap();
    }
    realm
}

/// Returns the names of the listed documents, in order.
pub(crate) async fn names(definitions: &RealmDefinitions<'_>, query: &ListQuery) -> Vec<String> {
    let page = definitions.list(Tool, query).await.unwrap();
    page.items.iter().map(|item| item.meta.ref_name.to_string()).collect()
}
