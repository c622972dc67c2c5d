//! Inserts and updates records. An update is applied only if the record has not changed since the caller read it.

use std::collections::HashSet;

use serde_json::Value;
use toolwright_query::sql::Dialect;
use toolwright_types::Timestamp;

use super::RealmRecords;
use crate::InvalidBody;
use crate::db::{StoreError, Tx};
use crate::definitions::check_body;
use crate::sql::{Sql, statement_chunks};

/// One record to write.
#[derive(Debug, Clone)]
pub struct RecordWrite {
    /// The id.
    pub id: String,
    /// The version to replace. `None` inserts a record that must not exist yet.
    pub replaces: Option<i64>,
    /// The new version.
    pub version: i64,
    /// The complete record.
    pub body: Value,
    /// The writer.
    pub by: String,
    /// The time of the write.
    pub at: Timestamp,
}

/// The reason why nothing was written.
#[derive(Debug, thiserror::Error)]
pub enum WriteRecordsError {
    /// The entity type was deleted.
    #[error("the type does not exist")]
    UnknownType,
    /// A body cannot be stored.
    #[error(transparent)]
    Body(#[from] InvalidBody),
    /// The database failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// The number of bound values per inserted row.
const VALUES_PER_ROW: usize = 7;

impl RealmRecords<'_> {
    /// Writes records in one transaction. Returns one boolean per record: whether it was written. An insert is not
    /// written if the record exists already. An update is not written if the stored record has another version.
    pub async fn write(&self, writes: &[RecordWrite]) -> Result<Vec<bool>, WriteRecordsError> {
        writes.iter().try_for_each(|write| check_body(&write.body))?;
        let mut tx = self.store.db.begin().await?;
        self.lock_type(&mut tx).await?;
        let mut written = HashSet::new();
        let (new, old): (Vec<&RecordWrite>, Vec<&RecordWrite>) =
            writes.iter().partition(|write| write.replaces.is_none());
        for rows in statement_chunks(&new, VALUES_PER_ROW) {
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

    /// Locks the row of the type until the end of the transaction, so that no other transaction can delete the type.
    async fn lock_type(&self, tx: &mut Tx) -> Result<(), WriteRecordsError> {
        let mut sql = Sql::new("SELECT 1 FROM documents WHERE deleted_at IS NULL AND id = ");
        sql.text(self.entity_type.to_string()).push(" AND realm_id = ").text(self.realm.to_string());
        if self.dialect() == Dialect::Postgres {
            sql.push(" FOR SHARE");
        }
        let (text, values) = sql.into_parts();
        let found: Option<i32> = within!(*tx, |conn| bind_all!(sqlx::query_scalar(text), values).fetch_optional(conn))?;
        found.map(drop).ok_or(WriteRecordsError::UnknownType)
    }

    /// Inserts the records that do not exist yet, and returns their ids.
    async fn insert(&self, tx: &mut Tx, rows: &[&RecordWrite]) -> Result<Vec<String>, StoreError> {
        let json = self.json_cast();
        let mut sql = Sql::with_many_values(
            tx,
            "INSERT INTO records (realm_id, type_id, id, version, body, created_by, created_at, updated_by, updated_at) VALUES ",
        );
        sql.rows(rows, |sql, write| {
            sql.id(self.realm).push(", ").id(self.entity_type).push(", ");
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

    async fn update(&self, tx: &mut Tx, write: &RecordWrite) -> Result<bool, StoreError> {
        let mut sql = Sql::new("UPDATE records SET version = ");
        sql.integer(write.version).push(", body = ").text(write.body.to_string()).push(self.json_cast());
        sql.push(", updated_by = ").text(write.by.as_str()).push(", updated_at = ").integer(write.at.as_micros());
        sql.push(" WHERE ");
        self.push_realm_and_type(&mut sql, "");
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
