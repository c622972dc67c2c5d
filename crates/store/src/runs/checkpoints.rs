//! Stores the newest checkpoint of each run that has not ended.

use toolwright_types::RunId;

use super::{RealmRuns, StoredCheckpoint};
use crate::db::{StoreError, Tx};
use crate::sql::{Sql, count, statement_chunks};

impl RealmRuns<'_> {
    /// Returns the newest checkpoint of a run. `None` if the run has no checkpoint or has ended.
    pub async fn checkpoint(&self, run: RunId) -> Result<Option<StoredCheckpoint>, StoreError> {
        let row: Option<(i64, String)> = read!(&self.store.db, |pool| {
            sqlx::query_as(
                "SELECT c.n, c.body FROM checkpoints c JOIN runs r ON r.id = c.run_id WHERE r.realm_id = $1 AND c.run_id = $2",
            )
            .bind(self.realm.to_string())
            .bind(run.to_string())
            .fetch_optional(pool)
        })?;
        row.map(|(n, body)| Ok(StoredCheckpoint { n: u64::try_from(n).map_err(StoreError::unreadable)?, body }))
            .transpose()
    }
}

/// Inserts checkpoints or replaces older ones.
pub(crate) async fn upsert(tx: &mut Tx, checkpoints: &[(RunId, &StoredCheckpoint)]) -> Result<(), StoreError> {
    for checkpoints in statement_chunks(checkpoints, 3) {
        let mut sql = Sql::with_many_values(tx, "INSERT INTO checkpoints (run_id, n, body) VALUES ");
        sql.rows(checkpoints, |sql, (run, checkpoint)| {
            sql.text(*run).push(", ").integer(count(checkpoint.n)).push(", ").text(checkpoint.body.as_str());
        });
        // A newer checkpoint is never replaced by an older one. A server that writes an older checkpoint no longer
        // drives the run.
        sql.push(" ON CONFLICT (run_id) DO UPDATE SET n = excluded.n, body = excluded.body WHERE checkpoints.n <= excluded.n");
        sql.execute(tx).await?;
    }
    Ok(())
}

/// Deletes the checkpoints of runs that have ended.
pub(crate) async fn delete(tx: &mut Tx, runs: &[RunId]) -> Result<(), StoreError> {
    for runs in statement_chunks(runs, 1) {
        let mut sql = Sql::with_many_values(tx, "DELETE FROM checkpoints WHERE run_id IN (VALUES ");
        sql.rows(runs, |sql, run| {
            sql.text(*run);
        });
        sql.push(")");
        sql.execute(tx).await?;
    }
    Ok(())
}
