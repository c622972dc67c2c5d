//! Deleting runs, what is left of them, and what nothing names any more.

use std::collections::HashSet;

use toolwright_types::{RealmId, RunId, RunStatus, Timestamp};

use super::{PartHash, Runs};
use crate::db::Unavailable;
use crate::page;
use crate::sql::{Sql, in_statements, storable};
use crate::store::Store;

/// What is left of a run that was deleted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tombstone {
    /// The run.
    pub run: RunId,
    /// The agent or tool.
    pub subject: String,
    /// How it had ended.
    pub status: String,
    /// How many entries its journal had.
    pub entries: u64,
    /// The hash of the last one, in hexadecimal digits; empty where there was none.
    pub head: String,
    /// When it was deleted.
    pub deleted_at: Timestamp,
    /// By whom.
    pub deleted_by: String,
}

#[derive(sqlx::FromRow)]
struct TombstoneRow {
    #[sqlx(try_from = "String")]
    run_id: RunId,
    subject: String,
    status: String,
    entries: i64,
    head: Option<Vec<u8>>,
    deleted_at: i64,
    deleted_by: String,
}

impl Runs<'_> {
    /// Deletes a run that has ended, with its journal. False when there is none, or it has not ended.
    pub async fn delete(&self, run: RunId, by: &str, now: Timestamp) -> Result<bool, Unavailable> {
        let mut tx = self.store.db.begin().await?;
        let buried = "INSERT INTO tombstones (run_id, realm_id, kind, subject, owner_id, status, started_at, ended_at, entries, head,
                                              deleted_at, deleted_by)
                      SELECT r.id, r.realm_id, r.kind, r.subject, r.owner_id, r.status, r.started_at, r.ended_at, r.marked_n,
                             r.marked_hash, CAST($3 AS BIGINT), $4
                      FROM runs r WHERE r.realm_id = $1 AND r.id = $2 AND r.ended_at IS NOT NULL";
        let (realm, id) = (self.realm.to_string(), run.to_string());
        let buried = execute!(
            tx,
            sqlx::query(buried).bind(realm.clone()).bind(id.clone()).bind(now.as_micros()).bind(storable(by))
        )?;
        if buried == 0 {
            return Ok(false);
        }
        execute!(tx, sqlx::query("DELETE FROM journal WHERE run_id = $1").bind(id.clone()))?;
        execute!(tx, sqlx::query("DELETE FROM waits WHERE run_id = $1").bind(id.clone()))?;
        execute!(tx, sqlx::query("DELETE FROM steps WHERE run_id = $1").bind(id.clone()))?;
        execute!(tx, sqlx::query("DELETE FROM checkpoints WHERE run_id = $1").bind(id.clone()))?;
        execute!(tx, sqlx::query("DELETE FROM runs WHERE id = $1").bind(id.clone()))?;
        tx.commit_unannounced().await?;
        Ok(true)
    }

    /// What is left of a run that was deleted.
    pub async fn tombstone(&self, run: RunId) -> Result<Option<Tombstone>, Unavailable> {
        let row: Option<TombstoneRow> = read!(&self.store.db, |pool| {
            sqlx::query_as(
                "SELECT t.run_id, t.subject, t.status, t.entries, t.head, t.deleted_at, t.deleted_by FROM tombstones t
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
    type Error = Unavailable;

    fn try_from(row: TombstoneRow) -> Result<Self, Unavailable> {
        Ok(Self {
            run: row.run_id,
            subject: row.subject,
            status: row.status,
            entries: u64::try_from(row.entries).map_err(Unavailable::unreadable)?,
            head: data_encoding::HEXLOWER.encode(&row.head.unwrap_or_default()),
            deleted_at: Timestamp::from_micros(row.deleted_at),
            deleted_by: row.deleted_by,
        })
    }
}

impl Store {
    /// Runs of any realm that ended with this status before `before`; at least 1 and at most 1000 whatever the limit
    /// says.
    pub async fn ended_before(
        &self,
        status: RunStatus,
        before: Timestamp,
        limit: u32,
    ) -> Result<Vec<(RealmId, RunId)>, Unavailable> {
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
            let realm = RealmId::try_from(realm).map_err(Unavailable::unreadable)?;
            Ok((realm, RunId::try_from(run).map_err(Unavailable::unreadable)?))
        });
        parsed.collect()
    }

    /// Deletes the parts that no run names and none has wanted kept since `since`; gives how many.
    pub async fn sweep_parts(&self, since: Timestamp) -> Result<u64, Unavailable> {
        let old: Vec<(String, String)> = read!(&self.db, |pool| {
            sqlx::query_as("SELECT p.realm_id, p.hash FROM parts p WHERE p.kept_at < $1")
                .bind(since.as_micros())
                .fetch_all(pool)
        })?;
        if old.is_empty() {
            return Ok(0);
        }
        // Runs of one agent name the same parts, so there are few different lists.
        let lists: Vec<(String, String)> =
            read!(&self.db, |pool| sqlx::query_as("SELECT DISTINCT r.realm_id, r.parts FROM runs r").fetch_all(pool))?;
        let named: HashSet<(&str, &str)> =
            lists.iter().flat_map(|(realm, list)| list.split(',').map(move |hash| (realm.as_str(), hash))).collect();
        let unnamed = |(realm, hash): &(String, PartHash)| !named.contains(&(realm.as_str(), hash.as_str()));
        let unnamed: Vec<(String, PartHash)> = old.iter().filter(|part| unnamed(part)).cloned().collect();
        let mut swept = 0;
        for parts in in_statements(&unnamed, 2) {
            let mut tx = self.db.begin().await?;
            let mut sql = Sql::with_many_values(&tx, "DELETE FROM parts WHERE (realm_id, hash) IN (VALUES ");
            sql.rows(parts, |sql, (realm, hash)| {
                sql.text(realm.as_str()).push(", ").text(hash.as_str());
            });
            // One that a run has wanted meanwhile stays.
            sql.push(") AND kept_at < ").integer(since.as_micros());
            swept += sql.execute(&mut tx).await?;
            tx.commit_unannounced().await?;
        }
        Ok(swept)
    }
}
