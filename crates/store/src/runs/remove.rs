//! Deletes runs and the shared parts to which no run refers. A deleted run leaves a tombstone.

use std::collections::HashSet;

use toolwright_types::{RealmId, RunId, RunStatus, Timestamp};

use super::{PartHash, RealmRuns};
use crate::db::StoreError;
use crate::page;
use crate::sql::{Sql, statement_chunks, storable};
use crate::store::Store;

/// A tombstone: the data that is kept about a deleted run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tombstone {
    /// The id of the run.
    pub run: RunId,
    /// The name of the agent or tool.
    pub subject: String,
    /// The final status.
    pub status: String,
    /// The number of journal entries.
    pub entries: u64,
    /// The hash of the last entry, in hexadecimal.
    pub head_hash: String,
    /// The time of the deletion.
    pub deleted_at: Timestamp,
    /// The user who deleted the run.
    pub deleted_by: String,
}

#[derive(sqlx::FromRow)]
struct TombstoneRow {
    #[sqlx(try_from = "String")]
    run_id: RunId,
    subject: String,
    status: String,
    entries: i64,
    head_hash: Vec<u8>,
    deleted_at: i64,
    deleted_by: String,
}

impl RealmRuns<'_> {
    /// Deletes a run that has ended, with its journal. Returns `false` if the run does not exist or has not ended.
    pub async fn delete(&self, run: RunId, by: &str, now: Timestamp) -> Result<bool, StoreError> {
        let mut tx = self.store.db.begin().await?;
        let tombstone = "INSERT INTO tombstones (run_id, realm_id, kind, subject, owner_id, status, started_at, ended_at, entries, head_hash,
                                              deleted_at, deleted_by)
                      SELECT r.id, r.realm_id, r.kind, r.subject, r.owner_id, r.status, r.started_at, r.ended_at, r.last_entry_n,
                             r.last_entry_hash, CAST($3 AS BIGINT), $4
                      FROM runs r WHERE r.realm_id = $1 AND r.id = $2 AND r.ended_at IS NOT NULL";
        let (realm, id) = (self.realm.to_string(), run.to_string());
        let inserted = execute!(
            tx,
            sqlx::query(tombstone).bind(realm.clone()).bind(id.clone()).bind(now.as_micros()).bind(storable(by))
        )?;
        if inserted == 0 {
            return Ok(false);
        }
        execute!(tx, sqlx::query("DELETE FROM journal WHERE run_id = $1").bind(id.clone()))?;
        execute!(tx, sqlx::query("DELETE FROM waits WHERE run_id = $1").bind(id.clone()))?;
        execute!(tx, sqlx::query("DELETE FROM decisions WHERE run_id = $1").bind(id.clone()))?;
        execute!(tx, sqlx::query("DELETE FROM effects WHERE run_id = $1").bind(id.clone()))?;
        execute!(tx, sqlx::query("DELETE FROM tasks WHERE run_id = $1").bind(id.clone()))?;
        execute!(tx, sqlx::query("DELETE FROM inbox WHERE run_id = $1").bind(id.clone()))?;
        execute!(tx, sqlx::query("DELETE FROM checkpoints WHERE run_id = $1").bind(id.clone()))?;
        execute!(tx, sqlx::query("DELETE FROM runs WHERE id = $1").bind(id.clone()))?;
        tx.commit_unannounced().await?;
        Ok(true)
    }

    /// Returns the tombstone of a deleted run.
    pub async fn tombstone(&self, run: RunId) -> Result<Option<Tombstone>, StoreError> {
        let row: Option<TombstoneRow> = read!(&self.store.db, |pool| {
            sqlx::query_as(
                "SELECT t.run_id, t.subject, t.status, t.entries, t.head_hash, t.deleted_at, t.deleted_by FROM tombstones t
                 WHERE t.realm_id = $1 AND t.run_id = $2",
            )
            .bind(self.realm.to_string())
            .bind(run.to_string())
            .fetch_optional(pool)
        })?;
        row.map(Tombstone::try_from).transpose()
    }
}

impl TryFrom<TombstoneRow> for Tombstone {
    type Error = StoreError;

    fn try_from(row: TombstoneRow) -> Result<Self, StoreError> {
        Ok(Self {
            run: row.run_id,
            subject: row.subject,
            status: row.status,
            entries: u64::try_from(row.entries).map_err(StoreError::unreadable)?,
            head_hash: data_encoding::HEXLOWER.encode(&row.head_hash),
            deleted_at: Timestamp::from_micros(row.deleted_at),
            deleted_by: row.deleted_by,
        })
    }
}

impl Store {
    /// Returns runs of all realms that ended with this status before `before`, oldest first. A limit outside 1–1000 is
    /// set to the nearest bound.
    pub async fn runs_ended_before(
        &self,
        status: RunStatus,
        before: Timestamp,
        limit: u32,
    ) -> Result<Vec<(RealmId, RunId)>, StoreError> {
        let rows: Vec<(String, String)> = read!(&self.db, |pool| {
            sqlx::query_as(
                "SELECT r.realm_id, r.id FROM runs r WHERE r.status = $1 AND r.ended_at < $2 ORDER BY r.ended_at LIMIT $3",
            )
            .bind(status.as_str())
            .bind(before.as_micros())
            .bind(i64::from(page::clamp(limit)))
            .fetch_all(pool)
        })?;
        let parsed = rows.into_iter().map(|(realm, run)| {
            let realm = RealmId::try_from(realm).map_err(StoreError::unreadable)?;
            Ok((realm, RunId::try_from(run).map_err(StoreError::unreadable)?))
        });
        parsed.collect()
    }

    /// Deletes the shared parts to which no run refers and which were last used before `since`. Returns their number.
    pub async fn delete_unreferenced_parts(&self, since: Timestamp) -> Result<u64, StoreError> {
        let old: Vec<(String, String)> = read!(&self.db, |pool| {
            sqlx::query_as("SELECT p.realm_id, p.hash FROM shared_parts p WHERE p.last_used_at < $1")
                .bind(since.as_micros())
                .fetch_all(pool)
        })?;
        if old.is_empty() {
            return Ok(0);
        }
        // `DISTINCT` keeps the result small: runs of one agent refer to the same parts and so have the same list.
        let lists: Vec<(String, String)> =
            read!(&self.db, |pool| sqlx::query_as("SELECT DISTINCT r.realm_id, r.shared_parts FROM runs r")
                .fetch_all(pool))?;
        let referenced: HashSet<(&str, &str)> =
            lists.iter().flat_map(|(realm, list)| list.split(',').map(move |hash| (realm.as_str(), hash))).collect();
        let is_unreferenced =
            |(realm, hash): &(String, PartHash)| !referenced.contains(&(realm.as_str(), hash.as_str()));
        let unreferenced: Vec<(String, PartHash)> = old.iter().filter(|part| is_unreferenced(part)).cloned().collect();
        let mut deleted = 0;
        for parts in statement_chunks(&unreferenced, 2) {
            let mut tx = self.db.begin().await?;
            let mut sql = Sql::with_many_values(&tx, "DELETE FROM shared_parts WHERE (realm_id, hash) IN (VALUES ");
            sql.rows(parts, |sql, (realm, hash)| {
                sql.text(realm.as_str()).push(", ").text(hash.as_str());
            });
            // This condition keeps the parts that a run has used since the first query.
            sql.push(") AND last_used_at < ").integer(since.as_micros());
            deleted += sql.execute(&mut tx).await?;
            tx.commit_unannounced().await?;
        }
        Ok(deleted)
    }
}
