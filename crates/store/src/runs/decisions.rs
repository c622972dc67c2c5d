//! Stores and lists the decisions on approvals. A decision is stored in the same transaction as its journal entry.

use std::str::FromStr;

use toolwright_types::{CallId, Owner, PrincipalId, RunId, Timestamp};

use super::rows::{InvalidRow, call_id};
use super::{Ancestry, CallFilter, Owners, RealmRuns, filters};
use crate::db::{StoreError, Tx};
use crate::page::{Page, TimeCursor, push_limit};
use crate::sql::{Bound, Sql, count, statement_chunks, storable};

/// The position after a decision in a list.
pub type DecisionCursor = TimeCursor<(RunId, u64)>;

/// The outcome of an approval request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DecisionOutcome {
    /// A person approved the call.
    Approved,
    /// A person denied the call.
    Denied,
    /// A person approved the call with another input.
    Edited,
    /// The approval expired before a decision.
    Expired,
}

impl DecisionOutcome {
    /// All outcomes.
    pub const ALL: [Self; 4] = [Self::Approved, Self::Denied, Self::Edited, Self::Expired];

    /// The name of the outcome in the database and in the REST API.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Approved => "approved",
            Self::Denied => "denied",
            Self::Edited => "edited",
            Self::Expired => "expired",
        }
    }
}

impl FromStr for DecisionOutcome {
    type Err = StoreError;

    fn from_str(text: &str) -> Result<Self, StoreError> {
        let found = Self::ALL.into_iter().find(|outcome| outcome.as_str() == text);
        found.ok_or_else(|| StoreError::unreadable(InvalidRow("`outcome` of a decision is unknown")))
    }
}

/// A decision on an approval, as it is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredDecision {
    /// The number of the journal entry that records the decision.
    pub n: u64,
    /// The call that needed the approval.
    pub call_id: CallId,
    /// The name of the tool.
    pub tool: String,
    /// The outcome.
    pub outcome: DecisionOutcome,
    /// The name of the principal that decided. `None` if the approval expired.
    pub decided_by: Option<String>,
    /// The time of the decision.
    pub decided_at: Timestamp,
    /// The approval request, the reason for the decision and the edited input, as JSON.
    pub body: String,
}

/// A decision with its run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DecisionRecord {
    /// The run of the call.
    pub run: RunId,
    /// The name of the run's agent or tool.
    pub subject: String,
    /// The principal that requested the run.
    pub owner: Owner,
    /// The parent run and the root run.
    pub ancestry: Ancestry,
    /// The decision.
    pub decision: StoredDecision,
}

/// A query for decisions. Fields that are `None` or empty do not restrict the result.
#[derive(Debug, Clone)]
pub struct DecisionQuery {
    /// The filter on the calls that needed approval. `since` and `before` restrict the time of the decision.
    pub filter: CallFilter,
    /// The name of the principal that decided.
    pub decided_by: Option<String>,
    /// The decision must have one of these outcomes.
    pub outcomes: Vec<DecisionOutcome>,
    /// The page size. Values outside 1–1000 are set to the nearest limit.
    pub limit: u32,
    /// The cursor that was returned with the previous page. `None` for the first page.
    pub cursor: Option<DecisionCursor>,
}

impl Default for DecisionQuery {
    fn default() -> Self {
        Self { filter: CallFilter::default(), decided_by: None, outcomes: Vec::new(), limit: 20, cursor: None }
    }
}

impl RealmRuns<'_> {
    /// Returns one page of decisions on calls of runs that belong to `owners`, newest first.
    pub async fn decisions(
        &self,
        owners: Owners,
        query: &DecisionQuery,
    ) -> Result<Page<DecisionRecord, DecisionCursor>, StoreError> {
        let mut sql = Sql::new(
            "SELECT c.run_id, c.n, c.call_id, c.tool, c.outcome, c.decided_by, c.decided_at, c.body, r.subject, r.owner_id, ",
        );
        filters::push_ancestry(&mut sql);
        sql.push(" FROM decisions c JOIN runs r ON r.id = c.run_id WHERE c.realm_id = ").text(self.realm.to_string());
        owners.push(&mut sql);
        query.filter.push(&mut sql, "c.decided_at");
        if let Some(name) = &query.decided_by {
            sql.push(" AND LOWER(c.decided_by) = ").free_text(&name.to_ascii_lowercase());
        }
        if let Some((first, rest)) = query.outcomes.split_first() {
            sql.push(" AND c.outcome IN (").text(first.as_str());
            for outcome in rest {
                sql.push(", ").text(outcome.as_str());
            }
            sql.push(")");
        }
        if let Some((at, (run, n))) = query.cursor.as_ref().map(DecisionCursor::position) {
            sql.push(" AND (c.decided_at, c.run_id, c.n) < (").integer(at);
            sql.push(", ").text(run.to_string()).push(", ").integer(count(*n)).push(")");
        }
        sql.push(" ORDER BY c.decided_at DESC, c.run_id DESC, c.n DESC");
        push_limit(&mut sql, query.limit);

        let (text, values) = sql.into_parts();
        let rows: Vec<DecisionRow> =
            read!(&self.store.db, |pool| bind_all!(sqlx::query_as(text), values).fetch_all(pool))?;
        Page::from_rows(rows, query.limit, |last: &DecisionRecord| {
            DecisionCursor::after(last.decision.decided_at, (last.run, last.decision.n))
        })
    }
}

#[derive(sqlx::FromRow)]
struct DecisionRow {
    #[sqlx(try_from = "String")]
    run_id: RunId,
    n: i64,
    call_id: String,
    tool: String,
    outcome: String,
    decided_by: Option<String>,
    decided_at: i64,
    body: String,
    subject: String,
    #[sqlx(try_from = "String")]
    owner_id: PrincipalId,
    parent_id: Option<String>,
    root_id: Option<String>,
}

impl TryFrom<DecisionRow> for DecisionRecord {
    type Error = StoreError;

    fn try_from(row: DecisionRow) -> Result<Self, StoreError> {
        Ok(Self {
            run: row.run_id,
            subject: row.subject,
            owner: Owner::new(row.owner_id),
            ancestry: Ancestry::read(row.parent_id, row.root_id)?,
            decision: StoredDecision {
                n: u64::try_from(row.n).map_err(StoreError::unreadable)?,
                call_id: call_id(row.call_id)?,
                tool: row.tool,
                outcome: row.outcome.parse()?,
                decided_by: row.decided_by,
                decided_at: Timestamp::from_micros(row.decided_at),
                body: row.body,
            },
        })
    }
}

pub(crate) async fn insert(tx: &mut Tx, decisions: &[(RunId, &StoredDecision)]) -> Result<(), StoreError> {
    for decisions in statement_chunks(decisions, 10) {
        let mut sql = Sql::with_many_values(
            tx,
            "INSERT INTO decisions (run_id, n, call_id, realm_id, tool, outcome, decided_by, decided_at, body) VALUES ",
        );
        sql.rows(decisions, |sql, (run, decision)| {
            sql.text(*run).push(", ").integer(count(decision.n)).push(", ").text(decision.call_id.as_str());
            sql.push(", (SELECT r.realm_id FROM runs r WHERE r.id = ").text(*run).push(")");
            sql.push(", ").free_text(&decision.tool).push(", ").text(decision.outcome.as_str());
            sql.push(", ").bind(Bound::TextOrNull(decision.decided_by.as_deref().map(storable)));
            sql.push(", ").integer(decision.decided_at.as_micros()).push(", ").text(decision.body.as_str());
        });
        sql.execute(tx).await?;
    }
    Ok(())
}
