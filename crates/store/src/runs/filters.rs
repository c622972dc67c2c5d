//! Conditions that the lists of approvals, decisions and effects share.

use toolwright_types::{RunId, Timestamp};

use super::{Ancestry, rows};
use crate::db::StoreError;
use crate::sql::Sql;

/// The maximum number of levels above or below a run that a query follows. Runs delegate at most five levels deep.
const MAX_LEVELS: i64 = 8;

/// A filter on calls and their runs. Fields that are `None` do not restrict the result.
#[derive(Debug, Clone, Default)]
pub struct CallFilter {
    /// The name of the tool.
    pub tool: Option<String>,
    /// The name of the agent that made the call.
    pub agent: Option<String>,
    /// The run that made the call.
    pub run: Option<RunId>,
    /// The name of the principal whose permissions the run uses.
    pub principal: Option<String>,
    /// The start of the time range, inclusive. The query that uses the filter defines which time is compared.
    pub since: Option<Timestamp>,
    /// The end of the time range, exclusive.
    pub before: Option<Timestamp>,
}

impl CallFilter {
    /// Appends the conditions. `c` is the row of the call and has a column `tool`. `r` is the row of the run that made
    /// the call. `time` is the column that is compared with the time range.
    pub(super) fn push(&self, sql: &mut Sql, time: &'static str) {
        if let Some(tool) = &self.tool {
            sql.push(" AND c.tool = ").free_text(tool);
        }
        if let Some(agent) = &self.agent {
            sql.push(" AND r.kind = 'agent' AND r.subject = ").free_text(agent);
        }
        if let Some(run) = self.run {
            sql.push(" AND c.run_id = ").text(run.to_string());
        }
        if let Some(principal) = &self.principal {
            sql.push(" AND r.principal_id IN (SELECT p.id FROM principals p WHERE p.name_key = ");
            sql.free_text(&principal.to_ascii_lowercase()).push(")");
        }
        if let Some(since) = self.since {
            sql.push(" AND ").push(time).push(" >= ").integer(since.as_micros());
        }
        if let Some(before) = self.before {
            sql.push(" AND ").push(time).push(" < ").integer(before.as_micros());
        }
    }
}

/// Appends the columns `parent_id` and `root_id` of the run `r`. Both columns are null for a run without a parent.
pub(super) fn push_ancestry(sql: &mut Sql) {
    sql.push(
        "r.parent_id, CASE WHEN r.parent_id IS NULL THEN NULL ELSE (
             WITH RECURSIVE up (id, parent_id, level) AS (
                 SELECT a.id, a.parent_id, 1 FROM runs a WHERE a.id = r.parent_id
                 UNION ALL
                 SELECT a.id, a.parent_id, up.level + 1 FROM runs a JOIN up ON a.id = up.parent_id WHERE up.level < ",
    );
    sql.integer(MAX_LEVELS).push(") SELECT up.id FROM up ORDER BY up.level DESC LIMIT 1) END AS root_id");
}

/// Appends the condition that the run of the call `c` is a descendant of `run`: a child run, or a child run of a
/// descendant. Deeper than the direct child runs, only runs that have not ended are searched.
pub(super) fn push_below(sql: &mut Sql, run: RunId) {
    sql.push(
        " AND c.run_id IN (
             WITH RECURSIVE down (id, level) AS (
                 SELECT b.id, 1 FROM runs b WHERE b.parent_id = ",
    );
    sql.text(run.to_string()).push(
        " UNION ALL
          SELECT b.id, down.level + 1 FROM runs b JOIN down ON b.parent_id = down.id
          WHERE b.ended_at IS NULL AND down.level < ",
    );
    sql.integer(MAX_LEVELS).push(") SELECT down.id FROM down)");
}

impl Ancestry {
    /// Reads the columns of [`push_ancestry`].
    pub(super) fn read(parent: Option<String>, root: Option<String>) -> Result<Self, StoreError> {
        let (parent, root) = (rows::run_id(parent)?, rows::run_id(root)?);
        // If the parent run was deleted, the query finds no root run, and the id of the parent is used.
        Ok(Self { parent, root: root.or(parent) })
    }
}
