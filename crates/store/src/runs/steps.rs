//! The steps of runs that no single server drives: a conductor outside hands them out, and whichever server it reaches
//! makes them.
//!
//! A row is written before its step begins. So a step that is handed out twice, because a server or the conductor died
//! in between, is known to be a repetition, and one whose outcome is here is not made again.

use toolwright_types::{RealmScope, RunId, Timestamp};

use super::rows::{RunInRealmRow, run_columns};
use super::{Run, ServerId};
use crate::db::{Tx, Unavailable};
use crate::page;
use crate::store::Store;

/// What is known of a step that is about to be made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StepState {
    /// Nobody has begun it before. From now on somebody has.
    Fresh,
    /// A server has begun it, and may be at it.
    UnderWay,
    /// A server has begun it and is gone, or has stopped without an outcome.
    Lost,
    /// It was made.
    Done,
    /// The run has ended, or there is none.
    Pointless,
}

/// What was said to a run, and what the run answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Said {
    /// What was said, as JSON; nothing when the row is a step.
    pub body: Option<String>,
    /// The answer, or the outcome of the step, as JSON.
    pub outcome: Option<String>,
}

impl Store {
    /// A run of any realm.
    pub async fn run_anywhere(&self, run: RunId) -> Result<Option<(RealmScope, Run)>, Unavailable> {
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

    /// The conducted runs that are under way or due, and of which nothing was heard since `before`; by their ids, those
    /// after `after`, at least 1 and at most 1000 whatever the limit says.
    pub async fn conducted_runs(
        &self,
        before: Timestamp,
        after: Option<RunId>,
        limit: u32,
    ) -> Result<Vec<RunId>, Unavailable> {
        let rows: Vec<(String,)> = read!(&self.db, |pool| {
            sqlx::query_as(
                "SELECT r.id FROM runs r WHERE r.driver_id = $1 AND r.id > $3 AND
                        (r.status = 'RUNNING' AND r.updated_at < $2 OR r.wake_at < $2)
                 ORDER BY r.id LIMIT $4",
            )
            .bind(ServerId::CONDUCTOR)
            .bind(before.as_micros())
            .bind(after.map(String::from).unwrap_or_default())
            .bind(i64::from(page::clamp(limit)))
            .fetch_all(pool)
        })?;
        rows.into_iter().map(|(run,)| RunId::try_from(run).map_err(Unavailable::unreadable)).collect()
    }

    /// How many runs wait for a conductor.
    pub async fn count_conducted(&self) -> Result<u64, Unavailable> {
        let count: i64 = read!(&self.db, |pool| {
            sqlx::query_scalar("SELECT COUNT(*) FROM runs WHERE driver_id = $1")
                .bind(ServerId::CONDUCTOR)
                .fetch_one(pool)
        })?;
        u64::try_from(count).map_err(Unavailable::unreadable)
    }

    /// Says that a server begins a step now, unless one has before.
    pub async fn begin_step(
        &self,
        run: RunId,
        id: &str,
        server: &ServerId,
        now: Timestamp,
    ) -> Result<StepState, Unavailable> {
        let mut tx = self.db.begin().await?;
        let begun = execute!(
            tx,
            sqlx::query(
                "INSERT INTO steps (run_id, id, server_id, begun_at)
                 SELECT r.id, $2, $3, $4 FROM runs r WHERE r.id = $1 AND r.ended_at IS NULL
                 ON CONFLICT (run_id, id) DO NOTHING"
            )
            .bind(run.to_string())
            .bind(id.to_owned())
            .bind(server.to_string())
            .bind(now.as_micros())
        )?;
        if begun == 1 {
            tx.commit_unannounced().await?;
            return Ok(StepState::Fresh);
        }
        let found: Option<(Option<String>, String, Option<i64>)> = within!(tx, |conn| {
            sqlx::query_as(
                "SELECT t.outcome, t.server_id, s.lease_until FROM steps t LEFT JOIN servers s ON s.id = t.server_id
                 WHERE t.run_id = $1 AND t.id = $2",
            )
            .bind(run.to_string())
            .bind(id.to_owned())
            .fetch_optional(conn)
        })?;
        let alive = |by: &str, until: Option<i64>| by != server.as_str() && until > Some(now.as_micros());
        Ok(match found {
            None => StepState::Pointless,
            Some((Some(_), ..)) => StepState::Done,
            Some((None, by, until)) if alive(&by, until) => StepState::UnderWay,
            Some(_) => StepState::Lost,
        })
    }

    /// Writes what came of a step, unless that is known.
    pub async fn end_step(&self, run: RunId, id: &str, outcome: &str) -> Result<(), Unavailable> {
        let mut tx = self.db.begin().await?;
        let sql = "UPDATE steps SET outcome = $3 WHERE run_id = $1 AND id = $2 AND outcome IS NULL";
        execute!(tx, sqlx::query(sql).bind(run.to_string()).bind(id.to_owned()).bind(outcome.to_owned()))?;
        tx.commit_unannounced().await
    }

    /// Keeps what is said to a run until the run has heard it.
    pub async fn say(
        &self,
        run: RunId,
        id: &str,
        body: &str,
        server: &ServerId,
        now: Timestamp,
    ) -> Result<(), Unavailable> {
        let mut tx = self.db.begin().await?;
        let sql = "INSERT INTO steps (run_id, id, server_id, begun_at, body) VALUES ($1, $2, $3, $4, $5)";
        execute!(
            tx,
            sqlx::query(sql)
                .bind(run.to_string())
                .bind(id.to_owned())
                .bind(server.to_string())
                .bind(now.as_micros())
                .bind(body.to_owned())
        )?;
        tx.commit_unannounced().await
    }

    /// A step, or something that was said.
    pub async fn said(&self, run: RunId, id: &str) -> Result<Option<Said>, Unavailable> {
        let row: Option<(Option<String>, Option<String>)> = read!(&self.db, |pool| {
            sqlx::query_as("SELECT body, outcome FROM steps WHERE run_id = $1 AND id = $2")
                .bind(run.to_string())
                .bind(id.to_owned())
                .fetch_optional(pool)
        })?;
        Ok(row.map(|(body, outcome)| Said { body, outcome }))
    }

    /// Forgets something that was said, once whoever said it has the answer.
    pub async fn unsay(&self, run: RunId, id: &str) -> Result<(), Unavailable> {
        let mut tx = self.db.begin().await?;
        let sql = "DELETE FROM steps WHERE run_id = $1 AND id = $2";
        execute!(tx, sqlx::query(sql).bind(run.to_string()).bind(id.to_owned()))?;
        tx.commit_unannounced().await
    }
}

/// Writes what runs answered to what was said to them.
pub(crate) async fn answer(tx: &mut Tx, answers: &[(RunId, &str, &str)]) -> Result<(), Unavailable> {
    for (run, id, answer) in answers {
        let sql = "UPDATE steps SET outcome = $3 WHERE run_id = $1 AND id = $2";
        execute!(*tx, sqlx::query(sql).bind(run.to_string()).bind((*id).to_owned()).bind((*answer).to_owned()))?;
    }
    Ok(())
}

/// Deletes the steps of runs that have ended. What was said to them stays until its answer is read.
pub(crate) async fn clear(tx: &mut Tx, runs: &[RunId]) -> Result<(), Unavailable> {
    for run in runs {
        execute!(*tx, sqlx::query("DELETE FROM steps WHERE run_id = $1 AND body IS NULL").bind(run.to_string()))?;
    }
    Ok(())
}
