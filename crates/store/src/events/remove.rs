//! Deletes old events.

use toolwright_types::Timestamp;

use super::read::with_readable;
use super::{EventPosition, RealmEvents};
use crate::db::{Db, StoreError};

impl RealmEvents<'_> {
    /// Deletes the events before the time `before`, and the events that are not among the newest `keep` events. Returns
    /// the number of deleted events.
    pub async fn delete_old(&self, before: Timestamp, keep: u32) -> Result<u64, StoreError> {
        let expired = with_readable!(
            &self.store.db,
            "SELECT transaction_id, seq FROM events WHERE realm_id = $1 AND at < $2 AND ",
            " ORDER BY transaction_id DESC, seq DESC LIMIT 1"
        );
        let surplus = with_readable!(
            &self.store.db,
            "SELECT transaction_id, seq FROM events WHERE realm_id = $1 AND ",
            " ORDER BY transaction_id DESC, seq DESC LIMIT 1 OFFSET $2"
        );
        let mut last: Option<(i64, i64)> = None;
        for (sql, value) in [(expired, before.as_micros()), (surplus, i64::from(keep))] {
            let found: Option<(i64, i64)> = read!(&self.store.db, |pool| {
                sqlx::query_as(sql).bind(self.realm.to_string()).bind(value).fetch_optional(pool)
            })?;
            last = last.max(found);
        }
        match last {
            Some((transaction, seq)) => self.delete_until(EventPosition { transaction, seq }).await,
            None => Ok(0),
        }
    }

    async fn delete_until(&self, last: EventPosition) -> Result<u64, StoreError> {
        let mut tx = self.store.db.begin().await?;
        let deleted = execute!(
            tx,
            sqlx::query("DELETE FROM events WHERE realm_id = $1 AND (transaction_id, seq) <= ($2, $3)")
                .bind(self.realm.to_string())
                .bind(last.transaction)
                .bind(last.seq)
        )?;
        execute!(
            tx,
            sqlx::query(
                "INSERT INTO deleted_events (realm_id, transaction_id, seq) VALUES ($1, $2, $3)
                 ON CONFLICT (realm_id) DO UPDATE SET transaction_id = excluded.transaction_id, seq = excluded.seq
                 WHERE (excluded.transaction_id, excluded.seq) > (deleted_events.transaction_id, deleted_events.seq)",
            )
            .bind(self.realm.to_string())
            .bind(last.transaction)
            .bind(last.seq)
        )?;
        tx.commit_unannounced().await?;
        Ok(deleted)
    }
}
