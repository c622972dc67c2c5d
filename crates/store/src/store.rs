//! Opening a database, and the doors to what is in it.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use sqlx::migrate::{MigrateError, Migrator};
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous};
use sqlx::{Connection as _, SqliteConnection, SqlitePool};
use toolwright_types::{Clock, RealmScope, Timestamp, TypeId};

use crate::db::{Db, Unavailable};
use crate::{Conversations, Definitions, Drifts, Records, References, Runs, SealKey, Secrets, Tenancy};

/// How long a SQLite connection waits for another process that is writing.
const BUSY_TIMEOUT: Duration = Duration::from_secs(10);
const SQLITE_READERS: u32 = 4;
#[cfg(feature = "postgres")]
const POSTGRES_CONNECTIONS: u32 = 10;
/// How long a query waits for a connection, and a start for a server that is starting too.
#[cfg(feature = "postgres")]
const POSTGRES_PATIENCE: Duration = Duration::from_secs(10);
/// How long a connection that was just used is taken to be alive.
#[cfg(feature = "postgres")]
const POSTGRES_FRESH: Duration = Duration::from_millis(500);

static SQLITE_MIGRATIONS: Migrator = sqlx::migrate!("migrations/sqlite");
#[cfg(feature = "postgres")]
static POSTGRES_MIGRATIONS: Migrator = sqlx::migrate!("migrations/postgres");

/// What a store is made of.
pub struct Options {
    /// Where the data is.
    pub url: Location,
    /// When a commit counts.
    pub sync: Promise,
    /// Where time comes from.
    pub clock: Arc<dyn Clock>,
    /// What secrets are sealed with.
    pub seal: SealKey,
}

/// When a commit counts as made.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Promise {
    /// When it is on the disk: it survives a power cut.
    #[default]
    Disk,
    /// When the operating system, or the database server, has it: it survives the end of this server, and a power cut may
    /// lose the last of them. Nothing is damaged either way.
    System,
}

/// A database.
#[derive(Clone, PartialEq, Eq)]
pub enum Location {
    /// A file for one server, created when missing; its folder must exist.
    Sqlite(PathBuf),
    /// A server, as `postgres://user:password@host/database`.
    Postgres(String),
}

/// The password in a Postgres URL stays out of logs.
impl fmt::Debug for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Location::Sqlite(path) => f.debug_tuple("Sqlite").field(path).finish(),
            Location::Postgres(_) => f.write_str("Postgres(…)"),
        }
    }
}

/// Why a store cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The file cannot be opened or created.
    #[error("open database file `{}`", path.display())]
    Sqlite {
        /// The file.
        path: PathBuf,
        /// What SQLite said.
        #[source]
        source: sqlx::Error,
    },
    /// The URL is wrong, or the server does not let us in.
    #[error("connect to Postgres")]
    Postgres(#[source] sqlx::Error),
    /// This binary was built with SQLite only.
    #[error("this build has no Postgres support; build it with the feature `postgres`")]
    PostgresNotBuiltIn,
    /// A later release has changed the database.
    #[error(
        "the database has migration {0}, which this release does not know; start the release that made it, or a later one"
    )]
    Newer(i64),
    /// The tables could not be brought up to date.
    #[error("migrate the database")]
    Migrate(#[source] MigrateError),
}

/// An open database. Clones share its connections.
#[derive(Clone)]
pub struct Store {
    pub(crate) db: Db,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) seal: Arc<SealKey>,
}

impl Store {
    /// Connects, and brings the tables up to date.
    pub async fn open(options: Options) -> Result<Self, OpenError> {
        let Options { url, sync, clock, seal } = options;
        let db = match url {
            Location::Sqlite(path) => open_sqlite(path, sync).await?,
            #[cfg(feature = "postgres")]
            Location::Postgres(url) => open_postgres(&url, sync).await?,
            #[cfg(not(feature = "postgres"))]
            Location::Postgres(_) => return Err(OpenError::PostgresNotBuiltIn),
        };
        Ok(Self { db, clock, seal: Arc::new(seal) })
    }

    /// Orgs, realms, principals and their keys.
    pub fn tenancy(&self) -> Tenancy<'_> {
        Tenancy::new(self)
    }

    /// The definitions of one realm.
    pub fn in_realm(&self, scope: &RealmScope) -> Definitions<'_> {
        Definitions::new(self, scope)
    }

    /// The secrets that apply in one realm.
    pub fn secrets(&self, scope: &RealmScope) -> Secrets<'_> {
        Secrets::new(self, scope)
    }

    /// The records of one type of one realm.
    pub fn records(&self, scope: &RealmScope, of: TypeId) -> Records<'_> {
        Records::new(self, scope, of)
    }

    /// The runs of one realm.
    pub fn runs(&self, scope: &RealmScope) -> Runs<'_> {
        Runs::new(self, scope)
    }

    /// The drift that was seen in one realm.
    pub fn drifts(&self, scope: &RealmScope) -> Drifts<'_> {
        Drifts::new(self, scope)
    }

    /// The reference data of one realm.
    pub fn references(&self, scope: &RealmScope) -> References<'_> {
        References::new(self, scope)
    }

    /// The conversations of one realm.
    pub fn conversations(&self, scope: &RealmScope) -> Conversations<'_> {
        Conversations::new(self, scope)
    }

    /// Grows with every change of a definition, identity or secret, by whichever server: while two answers are
    /// equal, none has changed between them. What runs write does not count.
    pub async fn generation(&self) -> Result<i64, Unavailable> {
        read!(&self.db, |pool| sqlx::query_scalar("SELECT value FROM generation WHERE id = 1").fetch_one(pool))
    }

    /// Whether the database answers.
    pub async fn ping(&self) -> Result<(), Unavailable> {
        let one: Result<i64, Unavailable> =
            read!(&self.db, |pool| sqlx::query_scalar("SELECT CAST(1 AS BIGINT)").fetch_one(pool));
        one.map(|_| ())
    }

    /// Takes back every right to renew a secret: for the one server of a database, which has just started.
    pub async fn release_renewals(&self) -> Result<(), Unavailable> {
        let mut tx = self.db.begin().await?;
        execute!(tx, sqlx::query("UPDATE secrets SET claimed_until = NULL WHERE claimed_until IS NOT NULL"))?;
        tx.commit().await
    }

    /// Waits for the queries under way and closes every connection; later calls give [`Unavailable`].
    pub async fn close(&self) {
        self.db.close().await;
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.clock.now()
    }
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let database = match &self.db {
            Db::Sqlite { .. } => "sqlite",
            #[cfg(feature = "postgres")]
            Db::Postgres(_) => "postgres",
        };
        f.debug_struct("Store").field("database", &database).finish_non_exhaustive()
    }
}

async fn open_sqlite(path: PathBuf, sync: Promise) -> Result<Db, OpenError> {
    let synchronous = match sync {
        Promise::Disk => SqliteSynchronous::Full,
        Promise::System => SqliteSynchronous::Normal,
    };
    let connect = SqliteConnectOptions::new()
        .filename(&path)
        .create_if_missing(true)
        .journal_mode(SqliteJournalMode::Wal)
        .synchronous(synchronous)
        .foreign_keys(true)
        .busy_timeout(BUSY_TIMEOUT)
        // What a statement of many rows needs to undo itself halfway would be written to a file, and that took a fifth
        // of the time of such statements.
        .pragma("temp_store", "memory");
    let failed = |source| OpenError::Sqlite { path: path.clone(), source };

    // A file does not hang up, so there is nothing to find out before each use.
    let pool = || SqlitePoolOptions::new().test_before_acquire(false);
    // SQLite takes a transaction back by itself when the disk is full, and the driver does not notice: such a connection
    // would never write again.
    let usable = |connection: &SqliteConnection| !connection.is_in_transaction();
    let writer = pool()
        .max_connections(1)
        .before_acquire(move |connection, _| Box::pin(std::future::ready(Ok(usable(connection)))))
        .connect_with(connect.clone())
        .await
        .map_err(failed)?;
    migrate_sqlite(&writer).await?;
    let readers = pool()
        .max_connections(SQLITE_READERS)
        .connect_with(connect.pragma("query_only", "on"))
        .await
        .map_err(failed)?;
    Ok(Db::Sqlite { writer, readers })
}

/// All steps or none. On Postgres each is its own transaction, under a lock that keeps other servers waiting.
async fn migrate_sqlite(writer: &SqlitePool) -> Result<(), OpenError> {
    let failed = |error| OpenError::Migrate(MigrateError::Execute(error));
    let mut tx = writer.begin_with("BEGIN IMMEDIATE").await.map_err(failed)?;
    SQLITE_MIGRATIONS.run_direct(None, &mut *tx, false).await.map_err(migration_error)?;
    tx.commit().await.map_err(failed)
}

#[cfg(feature = "postgres")]
async fn open_postgres(url: &str, sync: Promise) -> Result<Db, OpenError> {
    use sqlx::Executor as _;
    let mut connect: sqlx::postgres::PgConnectOptions = url.parse().map_err(OpenError::Postgres)?;
    if sync == Promise::System {
        connect = connect.options([("synchronous_commit", "off")]);
    }
    let pool = sqlx::postgres::PgPoolOptions::new()
        .max_connections(POSTGRES_CONNECTIONS)
        .acquire_timeout(POSTGRES_PATIENCE)
        // To ask each time would be a round trip before every statement.
        .test_before_acquire(false)
        .before_acquire(|connection, known| {
            Box::pin(async move { Ok(known.idle_for < POSTGRES_FRESH || connection.ping().await.is_ok()) })
        })
        // It compiles every expression of a filter that looks expensive, which takes longer than to run it.
        .after_connect(|connection, _| Box::pin(async move { connection.execute("SET jit = off").await.map(drop) }))
        .connect_with(connect)
        .await
        .map_err(OpenError::Postgres)?;
    POSTGRES_MIGRATIONS.run(&pool).await.map_err(migration_error)?;
    Ok(Db::Postgres(pool))
}

fn migration_error(error: MigrateError) -> OpenError {
    match error {
        MigrateError::VersionMissing(version) => OpenError::Newer(version),
        other => OpenError::Migrate(other),
    }
}
