//! Lists trials. A trial has no row of its own: it consists of the runs that contain its id.

use toolwright_types::{RunStatus, Timestamp, TrialId, TrialKind};

use super::{Owners, RealmRuns};
use crate::db::StoreError;
use crate::page::{Page, push_limit};
use crate::sql::Sql;

/// A trial, computed from the rows of its runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TrialSummary {
    /// The id of the trial.
    pub id: TrialId,
    /// The agent.
    pub agent: String,
    /// The names of the arms (compared variants) that have at least one run, sorted.
    pub arms: Vec<String>,
    /// The number of runs.
    pub runs: i64,
    /// The number of runs that are in progress.
    pub running: i64,
    /// When the first run started.
    pub started_at: Timestamp,
    /// When a run last changed.
    pub updated_at: Timestamp,
}

/// A query for trials. Fields that are `None` do not restrict the result.
#[derive(Debug, Clone, Default)]
pub struct TrialQuery {
    /// The name of the agent.
    pub agent: Option<String>,
    /// If set, only trials that are under way (`true`) or that are not (`false`). A trial is under way while one of its
    /// runs is in progress, or if it is in `active`.
    pub under_way: Option<bool>,
    /// Trials that are under way even if none of their runs is in progress.
    pub active: Vec<TrialId>,
    /// The last trial of the previous page.
    pub after: Option<TrialId>,
    /// The page size. Values outside 1–1000 are set to the nearest limit.
    pub limit: u32,
}

impl RealmRuns<'_> {
    /// Returns a page of the trials that have a run of `owners`, newest first. The cursor is the id of the last trial.
    pub async fn trials(&self, owners: Owners, query: &TrialQuery) -> Result<Page<TrialSummary, TrialId>, StoreError> {
        let mut sql = Sql::new(
            "SELECT r.trial_of, MIN(r.subject) AS agent, MIN(r.trial_arm) AS first_arm, MAX(r.trial_arm) AS last_arm,
                    COUNT(*) AS runs, MIN(r.started_at) AS started_at, MAX(r.updated_at) AS updated_at, ",
        );
        push_running(&mut sql);
        // The ids of trials are sorted by time. So the index on the trial id has the same order as the list, and only
        // the runs of one page are read.
        sql.push(" AS running FROM runs r WHERE r.realm_id = ").text(self.realm.to_string());
        sql.push(" AND r.trial_of IS NOT NULL AND r.trial_kind = ").text(TrialKind::Compare.as_str());
        owners.push(&mut sql);
        if let Some(agent) = &query.agent {
            sql.push(" AND r.subject = ").free_text(agent);
        }
        if let Some(after) = query.after {
            sql.push(" AND r.trial_of < ").text(after.to_string());
        }
        sql.push(" GROUP BY r.trial_of");
        if let Some(under_way) = query.under_way {
            sql.push(if under_way { " HAVING (" } else { " HAVING NOT (" });
            push_running(&mut sql);
            sql.push(" > 0");
            for (index, trial) in query.active.iter().enumerate() {
                sql.push(if index == 0 { " OR r.trial_of IN (" } else { ", " }).text(trial.to_string());
            }
            sql.push(if query.active.is_empty() { ")" } else { "))" });
        }
        sql.push(" ORDER BY r.trial_of DESC");
        push_limit(&mut sql, query.limit);
        let (text, values) = sql.into_parts();
        let rows: Vec<TrialRow> =
            read!(&self.store.db, |pool| bind_all!(sqlx::query_as(text), values).fetch_all(pool))?;
        Page::from_rows(rows, query.limit, |last: &TrialSummary| last.id)
    }
}

/// Appends the number of runs in progress.
fn push_running(sql: &mut Sql) {
    sql.push("SUM(CASE WHEN r.status = ").text(RunStatus::Running.as_str()).push(" THEN 1 ELSE 0 END)");
}

#[derive(sqlx::FromRow)]
struct TrialRow {
    #[sqlx(try_from = "String")]
    trial_of: TrialId,
    agent: String,
    first_arm: String,
    last_arm: String,
    runs: i64,
    running: i64,
    started_at: i64,
    updated_at: i64,
}

impl TryFrom<TrialRow> for TrialSummary {
    type Error = StoreError;

    fn try_from(row: TrialRow) -> Result<Self, StoreError> {
        let mut arms = vec![row.first_arm, row.last_arm];
        arms.dedup();
        Ok(Self {
            id: row.trial_of,
            agent: row.agent,
            arms,
            runs: row.runs,
            running: row.running,
            started_at: Timestamp::from_micros(row.started_at),
            updated_at: Timestamp::from_micros(row.updated_at),
        })
    }
}
