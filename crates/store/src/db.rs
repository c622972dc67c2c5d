//! Runs the same queries on SQLite and on Postgres.
//!
//! A query is written once, with `$1` placeholders that both databases understand. The macros `read!`, `within!` and
//! `execute!` compile it for each database.

use sqlx::sqlite::Sqlite;
#[cfg(feature = "postgres")]
use sqlx::{PgPool, postgres::Postgres};
use sqlx::{SqlitePool, Transaction};
use toolwright_query::sql::Dialect;

/// The database failed, or it returned a value that this release cannot read.
#[derive(Debug, thiserror::Error)]
#[error("the database failed")]
pub struct StoreError(#[from] sqlx::Error);

impl From<std::io::Error> for StoreError {
    fn from(error: std::io::Error) -> Self {
        Self(sqlx::Error::Io(error))
    }
}

impl StoreError {
    /// Creates the error for a stored value that this release cannot read.
    pub(crate) fn unreadable(error: impl std::error::Error + Send + Sync + 'static) -> Self {
        Self(sqlx::Error::Decode(Box::new(error)))
    }

    /// Whether the disk of the database is full.
    pub fn is_disk_full(&self) -> bool {
        if let sqlx::Error::Io(error) = &self.0 {
            return error.kind() == std::io::ErrorKind::StorageFull;
        }
        let Some(error) = self.0.as_database_error() else { return false };
        match (error.code().as_deref(), error.try_downcast_ref::<sqlx::sqlite::SqliteError>().is_some()) {
            // SQLITE_FULL, and SQLITE_IOERR_SHMSIZE: the shared-memory file cannot grow.
            (Some("13" | "4874"), true) => true,
            (Some("53100"), false) => true,
            _ => false,
        }
    }

    /// Returns what an operator must change before the database can be used. `None` if a retry may help.
    pub fn remedy(&self) -> Option<&'static str> {
        let error = self.0.as_database_error()?;
        match (error.code()?.as_ref(), error.try_downcast_ref::<sqlx::sqlite::SqliteError>().is_some()) {
            ("26", true) => Some("the file is not an SQLite database; use another file"),
            ("28000" | "28P01", false) => Some("the server rejected the user or the password of the URL; correct them"),
            ("3D000", false) => Some("the server has no database with this name; correct the URL"),
            _ => None,
        }
    }

    /// Returns the database's message if the database rejected a statement that violates a constraint, a type or a
    /// permission. `None` if the database failed for another reason.
    pub(crate) fn rejection(&self) -> Option<String> {
        let error = self.0.as_database_error()?;
        let code = error.code()?;
        let rejected = match error.try_downcast_ref::<sqlx::sqlite::SqliteError>() {
            // The low byte is SQLite's primary error code. The four codes are SQLITE_READONLY, SQLITE_TOOBIG,
            // SQLITE_CONSTRAINT and SQLITE_MISMATCH.
            Some(_) => code.parse::<u32>().is_ok_and(|code| matches!(code & 0xff, 8 | 18 | 19 | 20)),
            // SQLSTATE classes: data exception, integrity constraint violation, WITH CHECK OPTION violation, PL/pgSQL
            // error. SQLSTATE codes: write to a generated column, insufficient privilege, object not in prerequisite
            // state.
            None => {
                let class = code.get(..2).unwrap_or_default();
                matches!(class, "22" | "23" | "44" | "P0") || matches!(code.as_ref(), "428C9" | "42501" | "55000")
            }
        };
        rejected.then(|| error.message().to_owned())
    }

    pub(crate) fn is_unique_violation(&self) -> bool {
        self.0.as_database_error().is_some_and(|error| error.is_unique_violation())
    }

    pub(crate) fn is_foreign_key_violation(&self) -> bool {
        self.0.as_database_error().is_some_and(|error| error.is_foreign_key_violation())
    }
}

/// The connection pools of the database in use.
#[derive(Clone)]
pub(crate) enum Db {
    /// SQLite allows one writer at a time, so all writes use one connection. Tasks that wait for this connection get it
    /// in order. If tasks polled for the database lock instead, the order would be random.
    Sqlite { writer: SqlitePool, readers: SqlitePool },
    #[cfg(feature = "postgres")]
    Postgres(PgPool),
}

/// A transaction. It is rolled back unless [`Tx::commit`] or [`Tx::commit_unannounced`] is called.
pub(crate) enum Tx {
    Sqlite(Transaction<'static, Sqlite>),
    #[cfg(feature = "postgres")]
    Postgres(Transaction<'static, Postgres>),
}

/// Runs one query outside a transaction: `read!(db, |pool| sqlx::query(…).fetch_all(pool))`.
macro_rules! read {
    ($db:expr, |$pool:ident| $query:expr) => {
        match $db {
            $crate::db::Db::Sqlite { readers: $pool, .. } => $query.await,
            #[cfg(feature = "postgres")]
            $crate::db::Db::Postgres($pool) => $query.await,
        }
        .map_err($crate::db::StoreError::from)
    };
}

/// Runs one query inside a transaction and returns its rows: `within!(tx, |conn| sqlx::query_as(…).fetch_one(conn))`.
macro_rules! within {
    ($tx:expr, |$conn:ident| $query:expr) => {
        match &mut $tx {
            $crate::db::Tx::Sqlite(transaction) => {
                let $conn = &mut **transaction;
                $query.await
            }
            #[cfg(feature = "postgres")]
            $crate::db::Tx::Postgres(transaction) => {
                let $conn = &mut **transaction;
                $query.await
            }
        }
        .map_err($crate::db::StoreError::from)
    };
}

/// Executes one statement inside a transaction and returns the number of affected rows.
macro_rules! execute {
    ($tx:expr, $query:expr) => {
        match &mut $tx {
            $crate::db::Tx::Sqlite(transaction) => {
                $query.execute(&mut **transaction).await.map(|done| done.rows_affected())
            }
            #[cfg(feature = "postgres")]
            $crate::db::Tx::Postgres(transaction) => {
                $query.execute(&mut **transaction).await.map(|done| done.rows_affected())
            }
        }
        .map_err($crate::db::StoreError::from)
    };
}

impl Db {
    /// The SQL dialect of the database.
    pub(crate) fn dialect(&self) -> Dialect {
        match self {
            Db::Sqlite { .. } => Dialect::Sqlite,
            #[cfg(feature = "postgres")]
            Db::Postgres(_) => Dialect::Postgres,
        }
    }

    pub(crate) async fn begin(&self) -> Result<Tx, StoreError> {
        Ok(match self {
            // `IMMEDIATE` takes the write lock at once. Otherwise a transaction that reads first and writes later can
            // fail with "busy" when it requests the lock.
            Db::Sqlite { writer, .. } => Tx::Sqlite(writer.begin_with("BEGIN IMMEDIATE").await?),
            #[cfg(feature = "postgres")]
            Db::Postgres(pool) => Tx::Postgres(pool.begin().await?),
        })
    }

    pub(crate) async fn close(&self) {
        match self {
            Db::Sqlite { writer, readers } => {
                readers.close().await;
                // When the last connection closes, SQLite copies the write-ahead log into the database file.
                writer.close().await;
            }
            #[cfg(feature = "postgres")]
            Db::Postgres(pool) => pool.close().await,
        }
    }
}

impl Tx {
    /// Commits and increments the generation. The new generation tells other servers that a definition, identity or
    /// secret changed.
    pub(crate) async fn commit(mut self) -> Result<(), StoreError> {
        // INVARIANT: this is the last statement of the transaction. All writers therefore lock the generation's row
        // last, which prevents deadlocks.
        execute!(self, sqlx::query("UPDATE generation SET value = value + 1 WHERE id = 1"))?;
        self.commit_unannounced().await
    }

    /// Commits without incrementing the generation. Used for data that servers do not cache, such as runs, records and
    /// conversations.
    pub(crate) async fn commit_unannounced(self) -> Result<(), StoreError> {
        match self {
            Tx::Sqlite(transaction) => transaction.commit().await?,
            #[cfg(feature = "postgres")]
            Tx::Postgres(transaction) => transaction.commit().await?,
        }
        Ok(())
    }

    /// Creates the savepoint that [`Tx::rollback_to_savepoint`] returns to.
    pub(crate) async fn savepoint(&mut self) -> Result<(), StoreError> {
        execute!(*self, sqlx::query("SAVEPOINT part")).map(|_| ())
    }

    /// Releases the savepoint and keeps the changes that were made after it.
    pub(crate) async fn release_savepoint(&mut self) -> Result<(), StoreError> {
        execute!(*self, sqlx::query("RELEASE SAVEPOINT part")).map(|_| ())
    }

    /// Undoes the changes that were made after the savepoint, and releases the savepoint. This is also possible after a
    /// failed statement.
    pub(crate) async fn rollback_to_savepoint(&mut self) -> Result<(), StoreError> {
        execute!(*self, sqlx::query("ROLLBACK TO SAVEPOINT part"))?;
        self.release_savepoint().await
    }
}
