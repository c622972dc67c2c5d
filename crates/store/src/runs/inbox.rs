//! Stores the inbox of runs that the external scheduler drives: the commands to a run and the run's replies.

use toolwright_types::{RunId, Timestamp};

use crate::db::{StoreError, Tx};
use crate::store::Store;

/// A command to a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InboxItem {
    /// The command, as JSON.
    pub command: String,
    /// The reply, as JSON. `None` until the run has applied the command.
    pub reply: Option<String>,
}

impl Store {
    /// Stores a command. The sender deletes the command after reading the reply.
    pub async fn inbox_put(&self, run: RunId, id: &str, command: &str, now: Timestamp) -> Result<(), StoreError> {
        let mut tx = self.db.begin().await?;
        let sql = "INSERT INTO inbox (run_id, id, received_at, command) VALUES ($1, $2, $3, $4)";
        execute!(
            tx,
            sqlx::query(sql).bind(run.to_string()).bind(id.to_owned()).bind(now.as_micros()).bind(command.to_owned())
        )?;
        tx.commit_unannounced().await
    }

    /// Returns a command with its reply.
    pub async fn inbox_get(&self, run: RunId, id: &str) -> Result<Option<InboxItem>, StoreError> {
        let row: Option<(String, Option<String>)> = read!(&self.db, |pool| {
            sqlx::query_as("SELECT command, reply FROM inbox WHERE run_id = $1 AND id = $2")
                .bind(run.to_string())
                .bind(id.to_owned())
                .fetch_optional(pool)
        })?;
        Ok(row.map(|(command, reply)| InboxItem { command, reply }))
    }

    /// Stores the reply to a command on behalf of a run that has ended and cannot reply. Does nothing if the command
    /// already has a reply.
    pub async fn inbox_reply(&self, run: RunId, id: &str, reply: &str) -> Result<(), StoreError> {
        let mut tx = self.db.begin().await?;
        let sql = "UPDATE inbox SET reply = $3 WHERE run_id = $1 AND id = $2 AND reply IS NULL";
        execute!(tx, sqlx::query(sql).bind(run.to_string()).bind(id.to_owned()).bind(reply.to_owned()))?;
        tx.commit_unannounced().await
    }

    /// Deletes a command whose reply was read.
    pub async fn inbox_delete(&self, run: RunId, id: &str) -> Result<(), StoreError> {
        let mut tx = self.db.begin().await?;
        let sql = "DELETE FROM inbox WHERE run_id = $1 AND id = $2";
        execute!(tx, sqlx::query(sql).bind(run.to_string()).bind(id.to_owned()))?;
        tx.commit_unannounced().await
    }
}

/// Stores the replies that runs gave to commands.
pub(crate) async fn reply(tx: &mut Tx, replies: &[(RunId, &str, &str)]) -> Result<(), StoreError> {
    for (run, id, reply) in replies {
        let sql = "UPDATE inbox SET reply = $3 WHERE run_id = $1 AND id = $2";
        execute!(*tx, sqlx::query(sql).bind(run.to_string()).bind((*id).to_owned()).bind((*reply).to_owned()))?;
    }
    Ok(())
}
