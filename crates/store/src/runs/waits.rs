//! Lists the waits of the runs of a realm.

use toolwright_types::{CallId, Owner, RunId};

use super::rows::WaitRow;
use super::{Owners, RealmRuns, Wait, WaitKind};
use crate::db::StoreError;
use crate::page::{Page, TimeCursor, push_limit};
use crate::sql::Sql;

/// The position after a wait in a list.
pub type WaitCursor = TimeCursor<(RunId, CallId)>;

/// A query for waits. Fields that are `None` do not restrict the result.
#[derive(Debug, Clone)]
pub struct WaitQuery {
    /// The kind of wait.
    pub kind: Option<WaitKind>,
    /// The waiting run.
    pub run: Option<RunId>,
    /// The page size. Values outside 1–1000 are set to the nearest limit.
    pub limit: u32,
    /// The cursor that was returned with the previous page. `None` for the first page.
    pub cursor: Option<WaitCursor>,
}

impl Default for WaitQuery {
    fn default() -> Self {
        Self { kind: None, run: None, limit: 20, cursor: None }
    }
}

/// A wait with its run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PendingWait {
    /// The waiting run.
    pub run: RunId,
    /// The name of the run's agent or tool.
    pub subject: String,
    /// The principal that requested the run.
    pub owner: Owner,
    /// The wait.
    pub wait: Wait,
}

impl RealmRuns<'_> {
    /// Returns one page of the waits of runs of `owners`, oldest first.
    pub async fn waits(&self, owners: Owners, query: &WaitQuery) -> Result<Page<PendingWait, WaitCursor>, StoreError> {
        let mut sql = Sql::new(
            "SELECT w.run_id, r.subject, r.owner_id, w.call_id, w.kind, w.body, w.requested_at, w.expires_at
             FROM waits w JOIN runs r ON r.id = w.run_id WHERE w.realm_id = ",
        );
        sql.text(self.realm.to_string());
        owners.push(&mut sql);
        if let Some(kind) = query.kind {
            sql.push(" AND w.kind = ").text(kind.as_str());
        }
        if let Some(run) = query.run {
            sql.push(" AND w.run_id = ").text(run.to_string());
        }
        if let Some((at, (run, call))) = query.cursor.as_ref().map(WaitCursor::position) {
            sql.push(" AND (w.requested_at, w.run_id, w.call_id) > (").integer(at);
            sql.push(", ").text(run.to_string()).push(", ").free_text(call.as_str()).push(")");
        }
        sql.push(" ORDER BY w.requested_at, w.run_id, w.call_id");
        push_limit(&mut sql, query.limit);

        let (text, values) = sql.into_parts();
        let rows: Vec<WaitRow> = read!(&self.store.db, |pool| bind_all!(sqlx::query_as(text), values).fetch_all(pool))?;
        Page::from_rows(rows, query.limit, |last: &PendingWait| {
            WaitCursor::after(last.wait.requested_at, (last.run, last.wait.call_id.clone()))
        })
    }
}
