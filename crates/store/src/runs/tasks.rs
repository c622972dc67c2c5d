//! Stores the tasks of runs that the external scheduler drives. The scheduler hands each task to a server, which
//! executes it.
//!
//! A task that writes to the outside world has a row before the write starts. If a server or the scheduler crashes, the
//! scheduler may hand out the same task again. The row shows that the task was started before, and a task with a stored
//! outcome is not executed again. Other tasks have a row only if two invocations could otherwise execute them at the
//! same time.

use toolwright_types::{RealmScope, RunId, Timestamp};

use super::rows::{RunInRealmRow, run_columns};
use super::{Run, ServerId};
use crate::db::{StoreError, Tx};
use crate::page;
use crate::store::Store;

/// A task that a server is about to execute.
#[derive(Debug, Clone, Copy)]
pub struct TaskStart<'a> {
    /// The run.
    pub run: RunId,
    /// The id of the task within the run.
    pub id: &'a str,
    /// The scheduler's request to execute the task. The scheduler repeats the request until it gets a reply.
    pub invocation: &'a str,
    /// The server that executes the task.
    pub server: &'a ServerId,
    /// The time of the start.
    pub at: Timestamp,
    /// Whether the task may be executed again if it was started before and has no outcome.
    pub repeatable: bool,
}

/// The state of a task that a server is about to execute.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TaskState {
    /// This call has registered the start. The task had not been started before, or it is repeatable and no other
    /// invocation executes it.
    New,
    /// Another server has started the task for the same invocation and may still be executing it.
    Running,
    /// Another server has started the task for another invocation and may still be executing it.
    Claimed,
    /// The task was started, but no server executes it any more and it has no outcome.
    Lost,
    /// The task has an outcome.
    Done,
    /// The run has ended or does not exist.
    Obsolete,
}

/// The stored state of a task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredTask {
    /// The event that records the result of the task, as JSON. `None` until the task has finished.
    pub outcome: Option<String>,
}

impl Store {
    /// Returns a run of any realm.
    pub async fn run_anywhere(&self, run: RunId) -> Result<Option<(RealmScope, Run)>, StoreError> {
        let row: Option<RunInRealmRow> = read!(&self.db, |pool| {
            sqlx::query_as(concat!(
                "SELECT m.id, m.org_id, m.name, ",
                run_columns!(),
                " FROM runs r JOIN realms m ON m.id = r.realm_id WHERE r.id = $1"
            ))
            .bind(run.to_string())
            .fetch_optional(pool)
        })?;
        row.map(RunInRealmRow::into_pair).transpose()
    }

    /// Returns runs that the external scheduler should have continued and may have forgotten: running runs that have
    /// not changed since `before`, and runs whose wake time was earlier than `before`. The list is sorted by id and
    /// starts after `after`. A limit outside 1–1000 is set to the nearest bound.
    pub async fn scheduled_runs(
        &self,
        before: Timestamp,
        after: Option<RunId>,
        limit: u32,
    ) -> Result<Vec<RunId>, StoreError> {
        let rows: Vec<(String,)> = read!(&self.db, |pool| {
            sqlx::query_as(
                "SELECT r.id FROM runs r WHERE r.driver_id = $1 AND r.id > $3 AND
                        (r.status = 'RUNNING' AND r.updated_at < $2 OR r.wake_at < $2)
                 ORDER BY r.id LIMIT $4",
            )
            .bind(ServerId::SCHEDULER)
            .bind(before.as_micros())
            .bind(after.map(String::from).unwrap_or_default())
            .bind(i64::from(page::clamp(limit)))
            .fetch_all(pool)
        })?;
        rows.into_iter().map(|(run,)| RunId::try_from(run).map_err(StoreError::unreadable)).collect()
    }

    /// Returns the number of runs that the external scheduler drives.
    pub async fn count_scheduled(&self) -> Result<u64, StoreError> {
        let count: i64 = read!(&self.db, |pool| {
            sqlx::query_scalar("SELECT COUNT(*) FROM runs WHERE driver_id = $1")
                .bind(ServerId::SCHEDULER)
                .fetch_one(pool)
        })?;
        u64::try_from(count).map_err(StoreError::unreadable)
    }

    /// Registers that a server starts a task, if the server may execute it. Returns the state of the task.
    pub async fn start_task(&self, start: TaskStart<'_>) -> Result<TaskState, StoreError> {
        let TaskStart { run, id, invocation, server, at, repeatable } = start;
        let mut tx = self.db.begin().await?;
        let started = execute!(
            tx,
            sqlx::query(
                "INSERT INTO tasks (run_id, id, invocation_id, server_id, started_at)
                 SELECT r.id, $2, $3, $4, $5 FROM runs r WHERE r.id = $1 AND r.ended_at IS NULL
                 ON CONFLICT (run_id, id) DO UPDATE
                 SET invocation_id = excluded.invocation_id, server_id = excluded.server_id, started_at = excluded.started_at
                 WHERE $6 AND tasks.outcome IS NULL
                   AND (tasks.invocation_id = excluded.invocation_id OR tasks.server_id = excluded.server_id
                        OR NOT EXISTS (SELECT 1 FROM servers s WHERE s.id = tasks.server_id AND s.lease_until > $5))"
            )
            .bind(run.to_string())
            .bind(id.to_owned())
            .bind(invocation.to_owned())
            .bind(server.to_string())
            .bind(at.as_micros())
            .bind(repeatable)
        )?;
        if started == 1 {
            tx.commit_unannounced().await?;
            return Ok(TaskState::New);
        }
        let found: Option<(Option<String>, String, String, Option<i64>)> = within!(tx, |conn| {
            sqlx::query_as(
                "SELECT t.outcome, t.invocation_id, t.server_id, s.lease_until
                 FROM tasks t LEFT JOIN servers s ON s.id = t.server_id WHERE t.run_id = $1 AND t.id = $2",
            )
            .bind(run.to_string())
            .bind(id.to_owned())
            .fetch_optional(conn)
        })?;
        let alive = |by: &str, until: Option<i64>| by != server.as_str() && until > Some(at.as_micros());
        Ok(match found {
            None => TaskState::Obsolete,
            Some((Some(_), ..)) => TaskState::Done,
            Some((None, owner, by, until)) if alive(&by, until) => {
                if owner == invocation {
                    TaskState::Running
                } else {
                    TaskState::Claimed
                }
            }
            Some(_) => TaskState::Lost,
        })
    }

    /// Stores the outcome of a task. Does nothing if the task already has an outcome.
    pub async fn finish_task(&self, run: RunId, id: &str, outcome: &str) -> Result<(), StoreError> {
        let mut tx = self.db.begin().await?;
        let sql = "UPDATE tasks SET outcome = $3 WHERE run_id = $1 AND id = $2 AND outcome IS NULL";
        execute!(tx, sqlx::query(sql).bind(run.to_string()).bind(id.to_owned()).bind(outcome.to_owned()))?;
        tx.commit_unannounced().await
    }

    /// The stored state of a task.
    pub async fn task(&self, run: RunId, id: &str) -> Result<Option<StoredTask>, StoreError> {
        let row: Option<(Option<String>,)> = read!(&self.db, |pool| {
            sqlx::query_as("SELECT outcome FROM tasks WHERE run_id = $1 AND id = $2")
                .bind(run.to_string())
                .bind(id.to_owned())
                .fetch_optional(pool)
        })?;
        Ok(row.map(|(outcome,)| StoredTask { outcome }))
    }

    /// Deletes a task that was registered but not executed.
    pub async fn delete_task(&self, run: RunId, id: &str) -> Result<(), StoreError> {
        let mut tx = self.db.begin().await?;
        let sql = "DELETE FROM tasks WHERE run_id = $1 AND id = $2";
        execute!(tx, sqlx::query(sql).bind(run.to_string()).bind(id.to_owned()))?;
        tx.commit_unannounced().await
    }
}

/// Deletes the tasks of runs that have ended.
pub(crate) async fn clear(tx: &mut Tx, runs: &[RunId]) -> Result<(), StoreError> {
    for run in runs {
        execute!(*tx, sqlx::query("DELETE FROM tasks WHERE run_id = $1").bind(run.to_string()))?;
    }
    Ok(())
}
