//! Where runs stood: the newest checkpoint of each that has not ended.

use toolwright_types::RunId;

use super::{Checkpoint, Runs};
use crate::db::{Tx, Unavailable};
use crate::sql::{Sql, count, in_statements};

impl Runs<'_> {
    /// The newest checkpoint of a run; none when there is none, or it has ended.
    pub async fn checkpoint(&self, run: RunId) -> Result<Option<Checkpoint>, Unavailable> {
        let row: Option<(i64, String)> = read!(&self.store.db, |pool| {
            sqlx::query_as(
                "SELECT c.n, c.body FROM checkpoints c JOIN runs r ON r.id = c.run_id WHERE r.realm_id = $1 AND c.run_id = $2",
            )
            .bind(self.realm.to_string())
            .bind(run.to_string())
            .fetch_optional(pool)
        })?;
        Ok(row.map(|(n, body)| Checkpoint { n: u64::try_from(n).unwrap_or(0), body }))
    }
}

/// Puts these in the place of older ones.
pub(crate) async fn put(tx: &mut Tx, checkpoints: &[(RunId, &Checkpoint)]) -> Result<(), Unavailable> {
    for checkpoints in in_statements(checkpoints, 3) {
        let mut sql = Sql::with_many_values(tx, "INSERT INTO checkpoints (run_id, n, body) VALUES ");
        sql.rows(checkpoints, |sql, (run, checkpoint)| {
            sql.text(*run).push(", ").integer(count(checkpoint.n)).push(", ").text(checkpoint.body.as_str());
        });
        // Whoever would go back has been overtaken.
        sql.push(" ON CONFLICT (run_id) DO UPDATE SET n = excluded.n, body = excluded.body WHERE checkpoints.n <= excluded.n");
        sql.execute(tx).await?;
    }
    Ok(())
}

/// Removes those of runs that have ended.
pub(crate) async fn remove(tx: &mut Tx, runs: &[RunId]) -> Result<(), Unavailable> {
    for runs in in_statements(runs, 1) {
        let mut sql = Sql::with_many_values(tx, "DELETE FROM checkpoints WHERE run_id IN (VALUES ");
        sql.rows(runs, |sql, run| {
            sql.text(*run);
        });
        sql.push(")");
        sql.execute(tx).await?;
    }
    Ok(())
}
