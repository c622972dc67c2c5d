//! Lists the waits of the runs of a realm.

use toolwright_types::{CallId, Owner, RunId};

use super::rows::WaitRow;
use super::{Ancestry, CallFilter, Owners, RealmRuns, Wait, WaitKind, filters};
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
    /// The filter on the waiting calls. `since` and `before` restrict the time at which the wait started.
    pub filter: CallFilter,
    /// An ancestor of the waiting run: its parent run, or the parent run of an ancestor.
    pub below: Option<RunId>,
    /// The page size. Values outside 1–1000 are set to the nearest limit.
    pub limit: u32,
    /// The cursor that was returned with the previous page. `None` for the first page.
    pub cursor: Option<WaitCursor>,
}

impl Default for WaitQuery {
    fn default() -> Self {
        Self { kind: None, filter: CallFilter::default(), below: None, limit: 20, cursor: None }
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
    /// The parent run and the root run of the waiting run.
    pub ancestry: Ancestry,
    /// The wait.
    pub wait: Wait,
}

impl RealmRuns<'_> {
    /// Returns one page of waits of runs that belong to `owners`, oldest first.
    pub async fn waits(&self, owners: Owners, query: &WaitQuery) -> Result<Page<PendingWait, WaitCursor>, StoreError> {
        let mut sql = Sql::new(
            "SELECT c.run_id, r.subject, r.owner_id, c.call_id, c.kind, c.tool, c.body, c.requested_at, c.expires_at, ",
        );
        filters::push_ancestry(&mut sql);
        sql.push(" FROM waits c JOIN runs r ON r.id = c.run_id WHERE c.realm_id = ");
        sql.text(self.realm.to_string());
        owners.push(&mut sql);
        if let Some(kind) = query.kind {
            sql.push(" AND c.kind = ").text(kind.as_str());
        }
        query.filter.push(&mut sql, "c.requested_at");
        if let Some(run) = query.below {
            filters::push_below(&mut sql, run);
        }
        if let Some((at, (run, call))) = query.cursor.as_ref().map(WaitCursor::position) {
            sql.push(" AND (c.requested_at, c.run_id, c.call_id) > (").integer(at);
            sql.push(", ").text(run.to_string()).push(", ").free_text(call.as_str()).push(")");
        }
        sql.push(" ORDER BY c.requested_at, c.run_id, c.call_id");
        push_limit(&mut sql, query.limit);

        let (text, values) = sql.into_parts();
        let rows: Vec<WaitRow> = read!(&self.store.db, |pool| bind_all!(sqlx::query_as(text), values).fetch_all(pool))?;
        Page::from_rows(rows, query.limit, |last: &PendingWait| {
            WaitCursor::after(last.wait.requested_at, (last.run, last.wait.call_id.clone()))
        })
    }
}
