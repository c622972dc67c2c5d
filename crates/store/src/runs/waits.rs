//! What the runs of a realm wait for.

use toolwright_types::{CallId, PrincipalId, RunId};

use super::rows::WaitRow;
use super::{Runs, Wait, WaitKind};
use crate::db::Unavailable;
use crate::page::{Page, TimeCursor, push_limit};
use crate::sql::Sql;

/// Where a page of waits ended.
pub type WaitCursor = TimeCursor<(RunId, CallId)>;

/// Which waits, from where on. What is absent does not matter.
#[derive(Debug, Clone)]
pub struct WaitQuery {
    /// Who has to act.
    pub kind: Option<WaitKind>,
    /// Who asked for the run that waits.
    pub owner: Option<PrincipalId>,
    /// The run that waits.
    pub run: Option<RunId>,
    /// How many; at least 1 and at most 1000 are given whatever is asked.
    pub limit: u32,
    /// Where the page before ended.
    pub cursor: Option<WaitCursor>,
}

impl Default for WaitQuery {
    fn default() -> Self {
        Self { kind: None, owner: None, run: None, limit: 20, cursor: None }
    }
}

/// A wait, with the run that waits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PendingWait {
    /// The run.
    pub run: RunId,
    /// The name of its agent or tool.
    pub subject: String,
    /// Who asked for it.
    pub owner: PrincipalId,
    /// What it waits for.
    pub wait: Wait,
}

impl Runs<'_> {
    /// One page of waits, the longest first.
    pub async fn waits(&self, query: &WaitQuery) -> Result<Page<PendingWait, WaitCursor>, Unavailable> {
        let mut sql = Sql::new(
            "SELECT w.run_id, r.subject, r.owner_id, w.call_id, w.kind, w.body, w.asked_at, w.expires_at
             FROM waits w JOIN runs r ON r.id = w.run_id WHERE w.realm_id = ",
        );
        sql.text(self.realm.to_string());
        if let Some(kind) = query.kind {
            sql.push(" AND w.kind = ").text(kind.as_str());
        }
        if let Some(owner) = query.owner {
            sql.push(" AND r.owner_id = ").text(owner.to_string());
        }
        if let Some(run) = query.run {
            sql.push(" AND w.run_id = ").text(run.to_string());
        }
        if let Some((at, (run, call))) = query.cursor.as_ref().map(WaitCursor::position) {
            sql.push(" AND (w.asked_at, w.run_id, w.call_id) > (").integer(at);
            sql.push(", ").text(run.to_string()).push(", ").free_text(call.as_str()).push(")");
        }
        sql.push(" ORDER BY w.asked_at, w.run_id, w.call_id");
        push_limit(&mut sql, query.limit);

        let (text, values) = sql.into_parts();
        let rows: Vec<WaitRow> = read!(&self.store.db, |pool| bind_all!(sqlx::query_as(text), values).fetch_all(pool))?;
        Page::of(rows, query.limit, |last: &PendingWait| {
            WaitCursor::after(last.wait.asked_at, (last.run, last.wait.call_id.clone()))
        })
    }
}
