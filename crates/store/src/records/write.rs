//! Writing records: new ones, and those that are still what their writer had read.

use std::collections::HashSet;

use serde_json::Value;
use toolwright_query::sql::Dialect;
use toolwright_types::Timestamp;

use super::Records;
use crate::InvalidBody;
use crate::db::{Tx, Unavailable};
use crate::definitions::check_body;
use crate::sql::{Sql, in_statements};

/// One record to be written.
#[derive(Debug, Clone)]
pub struct RecordWrite {
    /// Its id.
    pub id: String,
    /// The version that is replaced; none for a record that must not exist yet.
    pub replaces: Option<i64>,
    /// The version it has from now on.
    pub version: i64,
    /// The whole record as it is shown.
    pub body: Value,
    /// Who writes.
    pub by: String,
    /// When.
    pub at: Timestamp,
}

/// Why nothing was written.
#[derive(Debug, thiserror::Error)]
pub enum WriteRecordsError {
    /// The type was removed meanwhile.
    #[error("the type does not exist")]
    NoType,
    /// A body cannot be stored.
    #[error(transparent)]
    Body(#[from] InvalidBody),
    /// The database failed.
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
}

/// Values in a row that is inserted.
const VALUES: usize = 7;

impl Records<'_> {
    /// Writes all in one transaction. Says of each whether it was written: one that exists, where it must not, or is at
    /// another version, was not.
    pub async fn write(&self, writes: &[RecordWrite]) -> Result<Vec<bool>, WriteRecordsError> {
        writes.iter().try_for_each(|write| check_body(&write.body))?;
        let mut tx = self.store.db.begin().await?;
        self.hold_type(&mut tx).await?;
        let mut written = HashSet::new();
        let (new, old): (Vec<&RecordWrite>, Vec<&RecordWrite>) =
            writes.iter().partition(|write| write.replaces.is_none());
        for rows in in_statements(&new, VALUES) {
            written.extend(self.insert(&mut tx, rows).await?);
        }
        for write in old {
            if self.update(&mut tx, write).await? {
                written.insert(write.id.clone());
            }
        }
        tx.commit_unannounced().await?;
        Ok(writes.iter().map(|write| written.remove(&write.id)).collect())
    }

    /// Keeps the type from being removed until the end of the transaction.
    async fn hold_type(&self, tx: &mut Tx) -> Result<(), WriteRecordsError> {
        let mut sql = Sql::new("SELECT 1 FROM documents WHERE deleted_at IS NULL AND id = ");
        sql.text(self.of.to_string()).push(" AND realm_id = ").text(self.realm.to_string());
        if self.dialect() == Dialect::Postgres {
            sql.push(" FOR SHARE");
        }
        let (text, values) = sql.into_parts();
        let found: Option<i32> = within!(*tx, |conn| bind_all!(sqlx::query_scalar(text), values).fetch_optional(conn))?;
        found.map(drop).ok_or(WriteRecordsError::NoType)
    }

    /// The ids of those that were not there.
    async fn insert(&self, tx: &mut Tx, rows: &[&RecordWrite]) -> Result<Vec<String>, Unavailable> {
        let json = self.json_cast();
        let mut sql = Sql::with_many_values(
            tx,
            "INSERT INTO records (realm_id, type_id, id, version, body, created_by, created_at, updated_by, updated_at) VALUES ",
        );
        sql.rows(rows, |sql, write| {
            sql.id(self.realm).push(", ").id(self.of).push(", ");
            sql.text(write.id.as_str()).push(", ").integer(write.version).push(", ");
            sql.text(write.body.to_string()).push(json);
            for _ in ["created", "updated"] {
                sql.push(", ").text(write.by.as_str()).push(", ").integer(write.at.as_micros());
            }
        });
        sql.push(" ON CONFLICT DO NOTHING RETURNING id");
        let (text, values) = sql.into_parts();
        within!(*tx, |conn| bind_all!(sqlx::query_scalar(text), values).fetch_all(conn))
    }

    async fn update(&self, tx: &mut Tx, write: &RecordWrite) -> Result<bool, Unavailable> {
        let mut sql = Sql::new("UPDATE records SET version = ");
        sql.integer(write.version).push(", body = ").text(write.body.to_string()).push(self.json_cast());
        sql.push(", updated_by = ").text(write.by.as_str()).push(", updated_at = ").integer(write.at.as_micros());
        sql.push(" WHERE ");
        self.push_place(&mut sql, "");
        sql.push(" AND id = ").text(write.id.as_str());
        sql.push(" AND version = ").bind(crate::sql::Bound::IntegerOrNull(write.replaces));
        Ok(sql.execute(tx).await? > 0)
    }

    fn json_cast(&self) -> &'static str {
        match self.dialect() {
            Dialect::Sqlite => "",
            Dialect::Postgres => "::jsonb",
        }
    }
}
