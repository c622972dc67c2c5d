//! Lists and counts runs.

use toolwright_query::Filter;
use toolwright_query::sql::Dialect;
use toolwright_types::{ConversationId, PrincipalId, RunId, RunStatus, Timestamp, TrialKind};

use super::rows::{RunRow, run_columns};
use super::{Owners, RealmRuns, Run, RunKind};
use crate::db::StoreError;
use crate::page::{Page, TimeCursor, push_limit};
use crate::row_filter::{FieldColumn, RowView};
use crate::sql::{Bound, Sql};

/// The position after a run in a list.
pub type RunCursor = TimeCursor<RunId>;

/// A query for runs. Fields that are `None` or empty do not restrict the result.
#[derive(Debug, Clone)]
pub struct RunQuery {
    /// The principal whose permissions the run uses.
    pub principal: Option<PrincipalId>,
    /// The run must have one of these statuses.
    pub status: Vec<RunStatus>,
    /// The name that the agent or tool had when the run started.
    pub subject: Option<String>,
    /// The conversation that the run belongs to.
    pub conversation: Option<ConversationId>,
    /// The parent run.
    pub parent: Option<RunId>,
    /// The kind of run.
    pub kind: Option<RunKind>,
    /// The kind of trial that the run belongs to.
    pub trial: Option<TrialKind>,
    /// For a comparison, the id of the trial. For a replay or a shadow run, the id of the original run.
    pub trial_of: Option<String>,
    /// The earliest start time.
    pub since: Option<Timestamp>,
    /// The time before which the run must have started.
    pub until: Option<Timestamp>,
    /// The lowest cost, in US dollars.
    pub min_cost_usd: Option<f64>,
    /// The highest cost, in US dollars.
    pub max_cost_usd: Option<f64>,
    /// A tool that the run called, or the tool of a direct call.
    pub called_tool: Option<String>,
    /// Text in the subject, the user's message or the status message. The case of ASCII letters is ignored.
    pub text: Option<String>,
    /// A filter on the JSON object that clients receive for a run.
    pub matching: Option<Filter>,
    /// The page size. Values outside 1–1000 are set to the nearest limit.
    pub limit: u32,
    /// The cursor that was returned with the previous page. `None` for the first page.
    pub cursor: Option<RunCursor>,
}

impl Default for RunQuery {
    fn default() -> Self {
        Self {
            principal: None,
            status: Vec::new(),
            subject: None,
            conversation: None,
            parent: None,
            kind: None,
            trial: None,
            trial_of: None,
            since: None,
            until: None,
            min_cost_usd: None,
            max_cost_usd: None,
            called_tool: None,
            text: None,
            matching: None,
            limit: 20,
            cursor: None,
        }
    }
}

/// The fields of a run that filters can use.
const LIST_VIEW: RowView = RowView {
    id: "r.id",
    body: None,
    fields: &[
        ("id", FieldColumn::Scalar("r.id")),
        ("kind", FieldColumn::Scalar("r.kind")),
        ("subject", FieldColumn::Scalar("r.subject")),
        ("agentRef", FieldColumn::Scalar("r.subject")),
        ("agentVersion", FieldColumn::Scalar("r.agent_version")),
        ("correlationId", FieldColumn::Scalar("r.correlation_id")),
        ("userMessage", FieldColumn::Scalar("r.user_message")),
        ("parentRunId", FieldColumn::Scalar("r.parent_id")),
        ("conversationId", FieldColumn::Scalar("r.conversation_id")),
        ("durable", FieldColumn::Boolean("r.durable")),
        ("status", FieldColumn::Scalar("r.status")),
        ("reason", FieldColumn::Scalar("r.reason")),
        ("iterationsUsed", FieldColumn::Scalar("r.iterations")),
        ("tokensUsed", FieldColumn::Scalar("r.tokens")),
        ("costUsd", FieldColumn::Scalar("r.cost_usd")),
        ("startedAt", FieldColumn::Timestamp("r.started_at")),
        ("endedAt", FieldColumn::Timestamp("r.ended_at")),
    ],
};

impl RunQuery {
    /// Whether filters in `matching` can use this field.
    pub fn is_filterable(field: &str) -> bool {
        LIST_VIEW.is_filterable(field)
    }
}

impl RealmRuns<'_> {
    /// Returns one page of the runs of `owners`, newest first.
    pub async fn list(&self, owners: Owners, query: &RunQuery) -> Result<Page<Run, RunCursor>, StoreError> {
        let mut sql = Sql::new(concat!("SELECT ", run_columns!()));
        self.push_from(&mut sql, owners, query)?;
        if let Some((at, run)) = query.cursor.as_ref().map(RunCursor::position) {
            sql.push(" AND (r.started_at, r.id) < (").integer(at).push(", ").text(run.to_string()).push(")");
        }
        sql.push(" ORDER BY r.started_at DESC, r.id DESC");
        push_limit(&mut sql, query.limit);

        let (text, values) = sql.into_parts();
        let rows: Vec<RunRow> = read!(&self.store.db, |pool| bind_all!(sqlx::query_as(text), values).fetch_all(pool))?;
        Page::from_rows(rows, query.limit, |last: &Run| RunCursor::after(last.started_at, last.id))
    }

    /// Counts the runs of `owners` that match the query, across all pages.
    pub async fn count(&self, owners: Owners, query: &RunQuery) -> Result<u64, StoreError> {
        let mut sql = Sql::new("SELECT COUNT(*)");
        self.push_from(&mut sql, owners, query)?;
        let (text, values) = sql.into_parts();
        let count: i64 = read!(&self.store.db, |pool| bind_all!(sqlx::query_scalar(text), values).fetch_one(pool))?;
        u64::try_from(count).map_err(StoreError::unreadable)
    }

    /// Appends ` FROM runs r WHERE …` with the conditions of the query.
    fn push_from(&self, sql: &mut Sql, owners: Owners, query: &RunQuery) -> Result<(), StoreError> {
        sql.push(" FROM runs r WHERE r.realm_id = ").text(self.realm.to_string());
        owners.push(sql);
        push_filters(sql, query);
        if let Some(text) = &query.text {
            push_text(sql, self.store.db.dialect(), text);
        }
        query.matching.as_ref().map_or(Ok(()), |filter| LIST_VIEW.push(sql, &self.store.db, filter))
    }
}

fn push_filters(sql: &mut Sql, query: &RunQuery) {
    if let Some(principal) = query.principal {
        sql.push(" AND r.principal_id = ").text(principal.to_string());
    }
    if let Some(subject) = &query.subject {
        sql.push(" AND r.subject = ").free_text(subject);
    }
    if let Some(conversation) = query.conversation {
        sql.push(" AND r.conversation_id = ").text(conversation.to_string());
    }
    if let Some(parent) = query.parent {
        sql.push(" AND r.parent_id = ").text(parent.to_string());
    }
    if let Some(kind) = query.kind {
        sql.push(" AND r.kind = ").text(kind.as_str());
        // Repeats the condition of a partial index, because the databases cannot derive it from a bound value.
        if kind != RunKind::Tool {
            sql.push(" AND r.kind <> 'tool'");
        }
    }
    if let Some(trial) = query.trial {
        sql.push(" AND r.trial_kind = ").text(trial.as_str());
    }
    if let Some(of) = &query.trial_of {
        sql.push(" AND r.trial_of = ").free_text(of);
    }
    if let Some(since) = query.since {
        sql.push(" AND r.started_at >= ").integer(since.as_micros());
    }
    if let Some(until) = query.until {
        sql.push(" AND r.started_at < ").integer(until.as_micros());
    }
    if let Some(cost) = query.min_cost_usd {
        sql.push(" AND r.cost_usd >= ").bind(Bound::Float(cost));
    }
    if let Some(cost) = query.max_cost_usd {
        sql.push(" AND r.cost_usd <= ").bind(Bound::Float(cost));
    }
    if let Some(tool) = &query.called_tool {
        // The journal of a direct call that only reads is stored in the row of the run, so it has no rows in the table
        // `journal`.
        sql.push(" AND ((r.kind = 'tool' AND r.subject = ").free_text(tool);
        sql.push(") OR EXISTS (SELECT 1 FROM journal j WHERE j.tool = ").free_text(tool).push(" AND j.run_id = r.id))");
    }
    for (index, status) in query.status.iter().enumerate() {
        sql.push(if index == 0 { " AND r.status IN (" } else { ", " }).text(status.as_str());
    }
    if !query.status.is_empty() {
        sql.push(")");
        if !query.status.contains(&RunStatus::Completed) {
            sql.push(" AND r.status <> 'COMPLETED'");
        }
    }
}

/// Appends the condition that one of the searched columns contains the text. `LIKE` of SQLite ignores the case of ASCII
/// letters, as `ILIKE` of Postgres does.
fn push_text(sql: &mut Sql, dialect: Dialect, text: &str) {
    let pattern = format!("%{}%", text.replace('\\', r"\\").replace('%', r"\%").replace('_', r"\_"));
    let operator = match dialect {
        Dialect::Sqlite => " LIKE ",
        Dialect::Postgres => " ILIKE ",
    };
    for (index, column) in ["r.subject", "r.user_message", "r.message"].into_iter().enumerate() {
        sql.push(if index == 0 { " AND (" } else { " OR " }).push(column).push(operator).free_text(&pattern);
        sql.push(r" ESCAPE '\'");
    }
    sql.push(")");
}
