//! Databases that are not ours: their tables looked at, and their rows found and written as records.
//!
//! Which database may be reached, by whom and how a table is shown are decided elsewhere. Here a connection is opened, read-only
//! unless it is said otherwise, and a statement on a foreign table has an end: a database that does not answer costs its own
//! callers some seconds, and nobody else anything.

mod postgres;
mod rows;
mod sqlite;
mod tables;
mod write;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use secrecy::SecretString;
use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection, SqlitePoolOptions};
use toolwright_query::sql::Dialect;

pub use rows::Table;
pub use tables::{ColumnInfo, ForeignKey, TableInfo};
pub use write::{Replaced, RowWrite, RowWritten, RowsRemoved, WritableColumn};

use crate::db::{Db, Unavailable};
use crate::records::dialect;

/// Connections to one database: it has other things to do.
const CONNECTIONS: u32 = 5;
/// How long a call waits for a connection, one that is not open yet included.
const CONNECT_PATIENCE: Duration = Duration::from_secs(3);
/// How long a statement may take. Postgres ends it by itself a little before that.
const PATIENCE: Duration = Duration::from_secs(20);
/// How long SQLite works on one; Postgres is told so by a setting.
const SQLITE_STATEMENT: Duration = Duration::from_secs(15);
/// Connections that nobody uses are closed.
const IDLE: Duration = Duration::from_secs(120);

/// What every statement relies on: times are told in UTC, a backslash in a text is a backslash, and nothing takes for ever.
#[cfg(feature = "postgres")]
macro_rules! postgres_settings {
    () => {
        "SET jit = off; SET TimeZone = 'UTC'; SET standard_conforming_strings = on; SET statement_timeout = '15s'"
    };
}

/// Where a database is.
#[derive(Debug, Clone)]
pub enum Address {
    /// A file that exists.
    Sqlite(PathBuf),
    /// A server.
    Postgres(PostgresAddress),
}

/// Where a Postgres is, and how it lets us in. All of it is said: nothing comes from the environment of this server.
#[derive(Debug, Clone)]
pub struct PostgresAddress {
    /// A name or an address.
    pub host: String,
    /// The port.
    pub port: u16,
    /// Who we are there.
    pub user: String,
    /// How that is proven.
    pub password: SecretString,
    /// Which of its databases.
    pub database: String,
    /// How the connection is protected.
    pub tls: Tls,
}

/// How a connection is protected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tls {
    /// Not at all.
    Off,
    /// If the server can.
    Prefer,
    /// Encrypted.
    Require,
    /// Encrypted, and the server proves its name.
    VerifyFull,
}

/// What a connection may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Reach {
    /// Look.
    Read,
    /// Look and change.
    Write,
}

/// A database that is not ours. Clones share its connections, which are opened when they are needed.
#[derive(Clone)]
pub struct Elsewhere {
    pub(crate) db: Db,
}

impl Elsewhere {
    /// Prepares connections. Nothing is opened yet. None if this build cannot speak to such a database.
    pub fn new(address: &Address, reach: Reach) -> Option<Self> {
        match address {
            Address::Sqlite(path) => Some(Self { db: open_sqlite(path, reach) }),
            #[cfg(feature = "postgres")]
            Address::Postgres(address) => Some(Self { db: open_postgres(address, reach) }),
            #[cfg(not(feature = "postgres"))]
            Address::Postgres(_) => None,
        }
    }

    /// Closes the connections.
    pub async fn close(&self) {
        self.db.close().await;
    }

    /// What the database speaks.
    pub fn dialect(&self) -> Dialect {
        dialect(&self.db)
    }
}

fn open_sqlite(path: &Path, reach: Reach) -> Db {
    let mut connect = SqliteConnectOptions::new()
        .filename(path)
        .create_if_missing(false)
        .read_only(reach == Reach::Read)
        .foreign_keys(true)
        .busy_timeout(CONNECT_PATIENCE)
        // A view in a file from somewhere may not call what has effects.
        .pragma("trusted_schema", "off");
    if reach == Reach::Read {
        connect = connect.pragma("query_only", "on");
    }
    // It has one writer at a time: queueing for it here is fairer than polling for its lock.
    let (connections, patience) = match reach {
        Reach::Read => (CONNECTIONS, CONNECT_PATIENCE),
        Reach::Write => (1, PATIENCE),
    };
    let pool = SqlitePoolOptions::new()
        .max_connections(connections)
        .acquire_timeout(patience)
        .idle_timeout(IDLE)
        .test_before_acquire(false)
        .after_connect(|connection, _| Box::pin(ends_by_itself(connection)))
        .before_acquire(|connection, _| Box::pin(async move { ends_by_itself(connection).await.map(|()| true) }))
        .connect_lazy_with(connect);
    Db::Sqlite { writer: pool.clone(), readers: pool }
}

/// Lets SQLite give up the next statement after a while: whoever asked has gone by then, and the connection is wanted.
async fn ends_by_itself(connection: &mut SqliteConnection) -> Result<(), sqlx::Error> {
    let until = Instant::now() + SQLITE_STATEMENT;
    connection.lock_handle().await?.set_progress_handler(10_000, move || Instant::now() < until);
    Ok(())
}

#[cfg(feature = "postgres")]
fn open_postgres(address: &PostgresAddress, reach: Reach) -> Db {
    use secrecy::ExposeSecret;
    use sqlx::Executor as _;
    use sqlx::postgres::{PgConnectOptions, PgPoolOptions, PgSslMode};
    let mode = match address.tls {
        Tls::Off => PgSslMode::Disable,
        Tls::Prefer => PgSslMode::Prefer,
        Tls::Require => PgSslMode::Require,
        Tls::VerifyFull => PgSslMode::VerifyFull,
    };
    let connect = PgConnectOptions::new_without_pgpass()
        .host(&address.host)
        .port(address.port)
        .username(&address.user)
        .password(address.password.expose_secret())
        .database(&address.database)
        .ssl_mode(mode)
        .application_name("toolwright");
    // As statements and not as options of the connection, which poolers refuse.
    let settings = match reach {
        Reach::Read => concat!("SET default_transaction_read_only = on; ", postgres_settings!()),
        Reach::Write => postgres_settings!(),
    };
    let pool = PgPoolOptions::new()
        .max_connections(CONNECTIONS)
        .acquire_timeout(CONNECT_PATIENCE)
        .idle_timeout(IDLE)
        .after_connect(move |connection, _| Box::pin(async move { connection.execute(settings).await.map(drop) }))
        .connect_lazy_with(connect);
    Db::Postgres(pool)
}

/// The answer, or that there was none in time.
async fn in_time<T>(answer: impl Future<Output = Result<T, Unavailable>>) -> Result<T, Unavailable> {
    let late = |_| Unavailable::from(std::io::Error::from(std::io::ErrorKind::TimedOut));
    tokio::time::timeout(PATIENCE, answer).await.map_err(late)?
}
