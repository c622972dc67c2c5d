//! Accesses external databases: reads their schemas, and reads and writes their rows as records.
//!
//! The caller decides who may use which database, and how a table maps to an entity type. Connections are read-only
//! unless the caller requests write access. Every statement has a time limit, so that an unresponsive database does not
//! block callers forever.

mod postgres;
mod records;
mod sqlite;
mod tables;
mod write;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use secrecy::SecretString;
use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection, SqlitePoolOptions};
use toolwright_query::sql::Dialect;

pub use records::ExternalTable;
pub use tables::{ColumnInfo, ForeignKey, TableInfo};
pub use write::{ExpectedRow, RowRemoveOutcome, RowWrite, RowWriteOutcome, WritableColumn};

use crate::db::{Db, StoreError};

/// The maximum number of connections to one database. It is low because the database also serves other clients.
const MAX_CONNECTIONS: u32 = 5;
/// The time that a call waits for a connection, including the time to open it.
const ACQUIRE_TIMEOUT: Duration = Duration::from_secs(3);
/// The time after which a caller stops waiting for a statement. The database cancels the statement earlier.
const STATEMENT_TIMEOUT: Duration = Duration::from_secs(20);
/// The time after which SQLite cancels a statement. On Postgres, `statement_timeout` does the same.
const SQLITE_STATEMENT_LIMIT: Duration = Duration::from_secs(15);
/// The time after which an idle connection is closed.
const IDLE_TIMEOUT: Duration = Duration::from_secs(120);

/// The connection settings that all statements need: no JIT compilation, time zone UTC, no backslash escapes in string
/// literals, and a statement timeout.
#[cfg(feature = "postgres")]
macro_rules! postgres_settings {
    () => {
        "SET jit = off; SET TimeZone = 'UTC'; SET standard_conforming_strings = on; SET statement_timeout = '15s'"
    };
}

/// The address of a database.
#[derive(Debug, Clone)]
pub enum DatabaseAddress {
    /// An existing file.
    Sqlite(PathBuf),
    /// A server.
    Postgres(PostgresAddress),
}

/// The address and credentials of a Postgres server. No missing value is filled in from environment variables or
/// password files of this process.
#[derive(Debug, Clone)]
pub struct PostgresAddress {
    /// The host name or IP address.
    pub host: String,
    /// The port.
    pub port: u16,
    /// The user name.
    pub user: String,
    /// The password.
    pub password: SecretString,
    /// The database name.
    pub database: String,
    /// The TLS mode.
    pub tls: TlsMode,
}

/// The TLS mode of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TlsMode {
    /// No TLS.
    Off,
    /// TLS if the server supports it.
    Prefer,
    /// TLS without verification of the server.
    Require,
    /// TLS with verification of the certificate and host name.
    VerifyFull,
}

/// Whether a connection may write.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum AccessMode {
    /// Read-only.
    Read,
    /// Read and write.
    Write,
}

/// An external database. Clones share its connections, which are opened on demand.
#[derive(Clone)]
pub struct ExternalDatabase {
    pub(crate) db: Db,
}

impl ExternalDatabase {
    /// Creates the connection pool without opening a connection. Returns `None` if this build does not support the
    /// database.
    pub fn new(address: &DatabaseAddress, access: AccessMode) -> Option<Self> {
        match address {
            DatabaseAddress::Sqlite(path) => Some(Self { db: open_sqlite(path, access) }),
            #[cfg(feature = "postgres")]
            DatabaseAddress::Postgres(address) => Some(Self { db: open_postgres(address, access) }),
            #[cfg(not(feature = "postgres"))]
            DatabaseAddress::Postgres(_) => None,
        }
    }

    /// Closes the connections.
    pub async fn close(&self) {
        self.db.close().await;
    }

    /// The SQL dialect of the database.
    pub fn dialect(&self) -> Dialect {
        self.db.dialect()
    }
}

fn open_sqlite(path: &Path, access: AccessMode) -> Db {
    let mut connect = SqliteConnectOptions::new()
        .filename(path)
        .create_if_missing(false)
        .read_only(access == AccessMode::Read)
        .foreign_keys(true)
        .busy_timeout(ACQUIRE_TIMEOUT)
        // The file is not trusted, so its views must not be able to call functions with side effects.
        .pragma("trusted_schema", "off");
    if access == AccessMode::Read {
        connect = connect.pragma("query_only", "on");
    }
    // SQLite allows one writer at a time, so all writes use one connection. Tasks that wait for this connection get it
    // in order. If tasks polled for the database lock instead, the order would be random.
    let (connections, acquire_timeout) = match access {
        AccessMode::Read => (MAX_CONNECTIONS, ACQUIRE_TIMEOUT),
        AccessMode::Write => (1, STATEMENT_TIMEOUT),
    };
    let pool = SqlitePoolOptions::new()
        .max_connections(connections)
        .acquire_timeout(acquire_timeout)
        .idle_timeout(IDLE_TIMEOUT)
        .test_before_acquire(false)
        .after_connect(|connection, _| Box::pin(limit_statement_time(connection)))
        .before_acquire(|connection, _| Box::pin(async move { limit_statement_time(connection).await.map(|()| true) }))
        .connect_lazy_with(connect);
    Db::Sqlite { writer: pool.clone(), readers: pool }
}

/// Makes SQLite cancel the connection's statements once `SQLITE_STATEMENT_LIMIT` has elapsed after this call. Otherwise
/// a slow statement would occupy the connection even after its caller has stopped waiting.
async fn limit_statement_time(connection: &mut SqliteConnection) -> Result<(), sqlx::Error> {
    let until = Instant::now() + SQLITE_STATEMENT_LIMIT;
    connection.lock_handle().await?.set_progress_handler(10_000, move || Instant::now() < until);
    Ok(())
}

#[cfg(feature = "postgres")]
fn open_postgres(address: &PostgresAddress, access: AccessMode) -> Db {
    use secrecy::ExposeSecret;
    use sqlx::Executor as _;
    use sqlx::postgres::{PgConnectOptions, PgPoolOptions, PgSslMode};
    let mode = match address.tls {
        TlsMode::Off => PgSslMode::Disable,
        TlsMode::Prefer => PgSslMode::Prefer,
        TlsMode::Require => PgSslMode::Require,
        TlsMode::VerifyFull => PgSslMode::VerifyFull,
    };
    let connect = PgConnectOptions::new_without_pgpass()
        .host(&address.host)
        .port(address.port)
        .username(&address.user)
        .password(address.password.expose_secret())
        .database(&address.database)
        .ssl_mode(mode)
        .application_name("toolwright");
    // The settings are sent as statements, because connection poolers such as PgBouncer reject them as connection
    // options.
    let settings = match access {
        AccessMode::Read => concat!("SET default_transaction_read_only = on; ", postgres_settings!()),
        AccessMode::Write => postgres_settings!(),
    };
    let pool = PgPoolOptions::new()
        .max_connections(MAX_CONNECTIONS)
        .acquire_timeout(ACQUIRE_TIMEOUT)
        .idle_timeout(IDLE_TIMEOUT)
        .after_connect(move |connection, _| Box::pin(async move { connection.execute(settings).await.map(drop) }))
        .connect_lazy_with(connect);
    Db::Postgres(pool)
}

/// Fails if the future does not complete within the time limit.
async fn with_timeout<T>(future: impl Future<Output = Result<T, StoreError>>) -> Result<T, StoreError> {
    let timed_out = |_| StoreError::from(std::io::Error::from(std::io::ErrorKind::TimedOut));
    tokio::time::timeout(STATEMENT_TIMEOUT, future).await.map_err(timed_out)?
}
