//! Opens a database and applies migrations. Each kind of data has its own module, which adds methods to [`Store`] that
//! return handles.

use std::fmt;
use std::fs::{self, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use sqlx::migrate::{MigrateError, Migrator};
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous};
use sqlx::{Connection as _, SqliteConnection, SqlitePool};
use tokio::sync::watch;
use toolwright_types::{Clock, Timestamp};

use crate::SealKey;
use crate::db::{Db, StoreError};

/// The time that an SQLite connection waits for a write lock of another process.
const BUSY_TIMEOUT: Duration = Duration::from_secs(10);
const SQLITE_READERS: u32 = 4;
#[cfg(feature = "postgres")]
const POSTGRES_CONNECTIONS: u32 = 10;
/// The time that a query waits for a connection. At startup it is also the time to wait for a database server that is
/// still starting.
#[cfg(feature = "postgres")]
const POSTGRES_ACQUIRE_TIMEOUT: Duration = Duration::from_secs(10);
/// A connection that was idle for less than this time is used without first sending a ping.
#[cfg(feature = "postgres")]
const POSTGRES_PING_AFTER_IDLE: Duration = Duration::from_millis(500);

static SQLITE_MIGRATIONS: Migrator = sqlx::migrate!("migrations/sqlite");
#[cfg(feature = "postgres")]
static POSTGRES_MIGRATIONS: Migrator = sqlx::migrate!("migrations/postgres");

/// The options for opening a store.
pub struct StoreOptions {
    /// The database.
    pub url: Location,
    /// The durability of a commit.
    pub sync: SyncMode,
    /// The clock.
    pub clock: Arc<dyn Clock>,
    /// The key that seals secrets.
    pub seal: SealKey,
}

/// The durability that a commit guarantees.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum SyncMode {
    /// A commit returns when the data is on disk. Committed data survives a power failure.
    #[default]
    Disk,
    /// A commit returns when the operating system or the database server has received the data. Committed data survives
    /// a crash of this process. A power failure may lose the last commits, but does not corrupt the database.
    System,
}

/// The location of a database.
#[derive(Clone, PartialEq, Eq)]
pub enum Location {
    /// An SQLite file that one server uses. The file is created if it does not exist; its directory must exist.
    Sqlite(PathBuf),
    /// A Postgres URL, as `postgres://user:password@host/database`.
    Postgres(String),
}

/// Does not print the Postgres URL, because the URL contains a password.
impl fmt::Debug for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Location::Sqlite(path) => f.debug_tuple("Sqlite").field(path).finish(),
            Location::Postgres(_) => f.write_str("Postgres(…)"),
        }
    }
}

/// The reason why a store cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenStoreError {
    /// The file cannot be opened or created.
    #[error("open database file `{}`", path.display())]
    Sqlite {
        /// The file.
        path: PathBuf,
        /// The error of SQLite.
        #[source]
        source: sqlx::Error,
    },
    /// The URL is invalid, or the server rejected the connection.
    #[error("connect to Postgres")]
    Postgres(#[source] sqlx::Error),
    /// The location is a Postgres URL, but this binary was built without Postgres support.
    #[error("this build has no Postgres support; build it with the feature `postgres`")]
    PostgresNotBuiltIn,
    /// The database contains a migration that this release does not know, because a newer release has migrated the
    /// database.
    #[error(
        "the database has migration {0}, which this release does not know; start the release that applied it, or a newer one"
    )]
    Newer(i64),
    /// The migrations failed.
    #[error("migrate the database")]
    Migrate(#[source] MigrateError),
}

/// An open database. Clones share its connections.
#[derive(Clone)]
pub struct Store {
    pub(crate) db: Db,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) seal: Arc<SealKey>,
    /// Notified after each commit of events.
    events_written: watch::Sender<()>,
}

impl Store {
    /// Connects to the database and applies pending migrations.
    pub async fn open(options: StoreOptions) -> Result<Self, OpenStoreError> {
        let StoreOptions { url, sync, clock, seal } = options;
        let db = match url {
            Location::Sqlite(path) => open_sqlite(path, sync).await?,
            #[cfg(feature = "postgres")]
            Location::Postgres(url) => open_postgres(&url, sync).await?,
            #[cfg(not(feature = "postgres"))]
            Location::Postgres(_) => return Err(OpenStoreError::PostgresNotBuiltIn),
        };
        Ok(Self { db, clock, seal: Arc::new(seal), events_written: watch::Sender::new(()) })
    }

    /// Returns the generation. Every change of a definition, identity or secret by any server increments it. While the
    /// generation stays the same, cached definitions, identities and secrets are valid. Changes of runs, records and
    /// conversations do not increment it.
    pub async fn generation(&self) -> Result<i64, StoreError> {
        read!(&self.db, |pool| sqlx::query_scalar("SELECT value FROM generation WHERE id = 1").fetch_one(pool))
    }

    /// Returns the kind of the database: `sqlite` or `postgres`.
    pub fn database_kind(&self) -> &'static str {
        match &self.db {
            Db::Sqlite { .. } => "sqlite",
            #[cfg(feature = "postgres")]
            Db::Postgres(_) => "postgres",
        }
    }

    /// Checks that the database responds.
    pub async fn ping(&self) -> Result<(), StoreError> {
        let one: Result<i64, StoreError> =
            read!(&self.db, |pool| sqlx::query_scalar("SELECT CAST(1 AS BIGINT)").fetch_one(pool));
        one.map(|_| ())
    }

    /// Releases all claims to renew secrets. A server calls this after startup, and only if it shares the database with
    /// no other server.
    pub async fn release_renewals(&self) -> Result<(), StoreError> {
        let mut tx = self.db.begin().await?;
        execute!(tx, sqlx::query("UPDATE secrets SET claimed_until = NULL WHERE claimed_until IS NOT NULL"))?;
        tx.commit().await
    }

    /// Waits for running queries and closes all connections. Later calls return [`StoreError`].
    pub async fn close(&self) {
        self.db.close().await;
    }

    /// Returns a receiver that is notified when this process has committed events of any realm. It is not notified of
    /// events that other servers commit.
    pub fn watch_events(&self) -> watch::Receiver<()> {
        self.events_written.subscribe()
    }

    pub(crate) fn announce_events(&self) {
        self.events_written.send_replace(());
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.clock.now()
    }
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Store").field("database", &self.database_kind()).finish_non_exhaustive()
    }
}

async fn open_sqlite(path: PathBuf, sync: SyncMode) -> Result<Db, OpenStoreError> {
    let synchronous = match sync {
        SyncMode::Disk => SqliteSynchronous::Full,
        SyncMode::System => SqliteSynchronous::Normal,
    };
    let connect = SqliteConnectOptions::new()
        .filename(&path)
        .create_if_missing(true)
        .journal_mode(SqliteJournalMode::Wal)
        .synchronous(synchronous)
        .foreign_keys(true)
        .busy_timeout(BUSY_TIMEOUT)
        // By default SQLite writes the statement journal of a multi-row statement to a temporary file. In measurements
        // this took a fifth of the statement's time.
        .pragma("temp_store", "memory");
    let failed = |source| OpenStoreError::Sqlite { path: path.clone(), source };
    restrict_to_owner(&path).map_err(|error| failed(error.into()))?;

    // A connection to a file cannot be lost, so it is not tested before each use.
    let pool = || SqlitePoolOptions::new().test_before_acquire(false);
    // When the disk is full, SQLite rolls the transaction back, but sqlx still counts it as open. Such a connection
    // could never write again, so it is discarded.
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

/// Creates the database file with access for its owner only, and removes the access of other users from existing
/// database files. SQLite gives a new log and a new shared-memory file the mode of the database file.
fn restrict_to_owner(path: &Path) -> io::Result<()> {
    OpenOptions::new().append(true).create(true).mode(0o600).open(path)?;
    for suffix in ["", "-wal", "-shm"] {
        let mut name = path.as_os_str().to_owned();
        name.push(suffix);
        match fs::metadata(&name) {
            Ok(file) if file.permissions().mode() & 0o077 != 0 => {
                fs::set_permissions(&name, Permissions::from_mode(0o600))?;
            }
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

/// Applies all migrations in one transaction. On Postgres, by contrast, each migration runs in a separate transaction,
/// and a lock makes other servers wait.
async fn migrate_sqlite(writer: &SqlitePool) -> Result<(), OpenStoreError> {
    let failed = |error| OpenStoreError::Migrate(MigrateError::Execute(error));
    let mut tx = writer.begin_with("BEGIN IMMEDIATE").await.map_err(failed)?;
    SQLITE_MIGRATIONS.run_direct(None, &mut *tx, false).await.map_err(migration_error)?;
    tx.commit().await.map_err(failed)
}

#[cfg(feature = "postgres")]
async fn open_postgres(url: &str, sync: SyncMode) -> Result<Db, OpenStoreError> {
    use sqlx::Executor as _;
    let mut connect: sqlx::postgres::PgConnectOptions = url.parse().map_err(OpenStoreError::Postgres)?;
    if sync == SyncMode::System {
        connect = connect.options([("synchronous_commit", "off")]);
    }
    let pool = sqlx::postgres::PgPoolOptions::new()
        .max_connections(POSTGRES_CONNECTIONS)
        .acquire_timeout(POSTGRES_ACQUIRE_TIMEOUT)
        // A ping before each statement would cost a round trip, so only idle connections are pinged (below).
        .test_before_acquire(false)
        .before_acquire(|connection, metadata| {
            Box::pin(async move { Ok(metadata.idle_for < POSTGRES_PING_AFTER_IDLE || connection.ping().await.is_ok()) })
        })
        // The JIT compiler of Postgres compiles every filter expression that it considers expensive. Compiling takes
        // longer than evaluating the expression.
        .after_connect(|connection, _| Box::pin(async move { connection.execute("SET jit = off").await.map(drop) }))
        .connect_with(connect)
        .await
        .map_err(OpenStoreError::Postgres)?;
    POSTGRES_MIGRATIONS.run(&pool).await.map_err(migration_error)?;
    Ok(Db::Postgres(pool))
}

fn migration_error(error: MigrateError) -> OpenStoreError {
    match error {
        MigrateError::VersionMissing(version) => OpenStoreError::Newer(version),
        other => OpenStoreError::Migrate(other),
    }
}
