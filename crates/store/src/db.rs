//! One of two databases behind one set of queries.
//!
//! A query is written once, with `$1` placeholders that both understand, and handed to `read!`, `within!` or
//! `execute!`, which compile it against each database. What is not here: any query but the ones every write needs.

use sqlx::sqlite::Sqlite;
#[cfg(feature = "postgres")]
use sqlx::{PgPool, postgres::Postgres};
use sqlx::{SqlitePool, Transaction};

/// The database could not be reached, or gave an answer that cannot be right.
#[derive(Debug, thiserror::Error)]
#[error("the store is unavailable")]
pub struct Unavailable(#[from] sqlx::Error);

impl From<std::io::Error> for Unavailable {
    fn from(error: std::io::Error) -> Self {
        Self(sqlx::Error::Io(error))
    }
}

impl Unavailable {
    /// A stored value that this release cannot read.
    pub(crate) fn unreadable(error: impl std::error::Error + Send + Sync + 'static) -> Self {
        Self(sqlx::Error::Decode(Box::new(error)))
    }

    /// What somebody has to change before the database can be asked; none if trying again may help.
    pub fn remedy(&self) -> Option<&'static str> {
        let error = self.0.as_database_error()?;
        match (error.code()?.as_ref(), error.try_downcast_ref::<sqlx::sqlite::SqliteError>().is_some()) {
            ("26", true) => Some("the file is no SQLite database; name one that is"),
            ("28000" | "28P01", false) => Some("the server refuses the user or the password of the URL; correct it"),
            ("3D000", false) => Some("the server has no database of that name; correct the URL"),
            _ => None,
        }
    }

    /// What a database says against a change that it understands and does not take; none if it could not be asked.
    pub(crate) fn refusal(&self) -> Option<String> {
        let error = self.0.as_database_error()?;
        let code = error.code()?;
        let refused = match error.try_downcast_ref::<sqlx::sqlite::SqliteError>() {
            // Read-only, too large, a constraint or a trigger, a kind that does not fit; the rest of the code says which.
            Some(_) => code.parse::<u32>().is_ok_and(|code| matches!(code & 0xff, 8 | 18 | 19 | 20)),
            // Values, constraints, what views and triggers check, columns that only the database fills, and permission.
            None => {
                let class = code.get(..2).unwrap_or_default();
                matches!(class, "22" | "23" | "44" | "P0") || matches!(code.as_ref(), "428C9" | "42501" | "55000")
            }
        };
        refused.then(|| error.message().to_owned())
    }

    pub(crate) fn is_duplicate(&self) -> bool {
        self.0.as_database_error().is_some_and(|error| error.is_unique_violation())
    }

    /// Whether a row that was to be changed is not there, or is not the writer's to change.
    pub(crate) fn is_missing(&self) -> bool {
        matches!(self.0, sqlx::Error::RowNotFound)
    }

    pub(crate) fn is_dangling(&self) -> bool {
        self.0.as_database_error().is_some_and(|error| error.is_foreign_key_violation())
    }
}

/// Connections to the database in use.
#[derive(Clone)]
pub(crate) enum Db {
    /// SQLite has one writer at a time; queueing for it here is fairer than polling for its lock.
    Sqlite { writer: SqlitePool, readers: SqlitePool },
    #[cfg(feature = "postgres")]
    Postgres(PgPool),
}

/// A change under way; dropped without [`Tx::commit`], nothing of it has happened.
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
        .map_err($crate::db::Unavailable::from)
    };
}

/// Runs one query of a transaction that gives rows: `within!(tx, |conn| sqlx::query_as(…).fetch_one(conn))`.
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
        .map_err($crate::db::Unavailable::from)
    };
}

/// Runs one statement of a transaction and gives the number of rows it touched.
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
        .map_err($crate::db::Unavailable::from)
    };
}

impl Db {
    pub(crate) async fn begin(&self) -> Result<Tx, Unavailable> {
        Ok(match self {
            // A transaction that reads first and asks for the lock later can fail halfway with "busy".
            Db::Sqlite { writer, .. } => Tx::Sqlite(writer.begin_with("BEGIN IMMEDIATE").await?),
            #[cfg(feature = "postgres")]
            Db::Postgres(pool) => Tx::Postgres(pool.begin().await?),
        })
    }

    pub(crate) async fn close(&self) {
        match self {
            Db::Sqlite { writer, readers } => {
                readers.close().await;
                // The last connection to go writes the log back into the file.
                writer.close().await;
            }
            #[cfg(feature = "postgres")]
            Db::Postgres(pool) => pool.close().await,
        }
    }
}

impl Tx {
    /// Makes the change real and announces it to every server that polls the generation.
    pub(crate) async fn commit(mut self) -> Result<(), Unavailable> {
        // INVARIANT: the last statement of every transaction, so that writers take this row's lock in one order.
        execute!(self, sqlx::query("UPDATE generation SET value = value + 1 WHERE id = 1"))?;
        self.commit_unannounced().await
    }

    /// Makes the change real. For what no server keeps in memory: runs and conversations.
    pub(crate) async fn commit_unannounced(self) -> Result<(), Unavailable> {
        match self {
            Tx::Sqlite(transaction) => transaction.commit().await?,
            #[cfg(feature = "postgres")]
            Tx::Postgres(transaction) => transaction.commit().await?,
        }
        Ok(())
    }

    /// Marks the place that [`Tx::back_to_savepoint`] returns to.
    pub(crate) async fn savepoint(&mut self) -> Result<(), Unavailable> {
        execute!(*self, sqlx::query("SAVEPOINT part")).map(|_| ())
    }

    /// Keeps what was done since the savepoint, and forgets the savepoint.
    pub(crate) async fn keep_since_savepoint(&mut self) -> Result<(), Unavailable> {
        execute!(*self, sqlx::query("RELEASE SAVEPOINT part")).map(|_| ())
    }

    /// Undoes what was done since the savepoint, and forgets the savepoint; also after a statement that failed.
    pub(crate) async fn back_to_savepoint(&mut self) -> Result<(), Unavailable> {
        execute!(*self, sqlx::query("ROLLBACK TO SAVEPOINT part"))?;
        self.keep_since_savepoint().await
    }
}
