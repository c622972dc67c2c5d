//! Copies an SQLite database while servers use it.

use std::fs::OpenOptions;
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{ConnectOptions as _, Connection as _, SqliteConnection};

/// The reason why a database could not be copied.
#[derive(Debug, thiserror::Error)]
pub enum BackupError {
    /// The target cannot be created, for example because it exists.
    #[error("create `{path}`")]
    Create {
        /// The file.
        path: PathBuf,
        /// The error.
        #[source]
        source: io::Error,
    },
    /// SQLite rejected the file or failed.
    #[error("read `{path}` as a database")]
    Sqlite {
        /// The file.
        path: PathBuf,
        /// The error.
        #[source]
        source: sqlx::Error,
    },
    /// The file is a damaged database.
    #[error("the database `{path}` is damaged: {finding}")]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The first problem that SQLite reported.
        finding: String,
    },
}

/// Copies an SQLite database into a new file that only the file's owner can access. The copy has one consistent state.
/// Servers can write to the source database during the copy.
pub async fn copy_sqlite(source: &Path, target: &Path) -> Result<(), BackupError> {
    let failed = |error| BackupError::Sqlite { path: source.to_owned(), source: error };
    let mut database = open(source).await.map_err(failed)?;
    // SQLite accepts an empty file as the target. Creating it here sets its mode, and fails if the file exists.
    OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(target)
        .map_err(|error| BackupError::Create { path: target.to_owned(), source: error })?;
    sqlx::query("VACUUM INTO ?").bind(target.to_string_lossy()).execute(&mut database).await.map_err(failed)?;
    database.close().await.map_err(failed)
}

/// Checks that a file is an undamaged SQLite database.
pub async fn check_sqlite(path: &Path) -> Result<(), BackupError> {
    let failed = |error| BackupError::Sqlite { path: path.to_owned(), source: error };
    let mut database = open(path).await.map_err(failed)?;
    let finding: String =
        sqlx::query_scalar("PRAGMA integrity_check(1)").fetch_one(&mut database).await.map_err(failed)?;
    database.close().await.map_err(failed)?;
    match finding.as_str() {
        "ok" => Ok(()),
        _ => Err(BackupError::Damaged { path: path.to_owned(), finding }),
    }
}

async fn open(path: &Path) -> Result<SqliteConnection, sqlx::Error> {
    SqliteConnectOptions::new().filename(path).connect().await
}
