//! Lists of runs, page by page.

use toolwright_query::Filter;
use toolwright_types::{ConversationId, PrincipalId, RunId, RunStatus, Timestamp, TrialKind};

use super::rows::{RunRow, run_columns};
use super::{Run, RunKind, Runs};
use crate::db::Unavailable;
use crate::matching::{Cell, Shown};
use crate::page::{Page, TimeCursor, push_limit};
use crate::sql::Sql;

/// Where a page of runs ended.
pub type RunCursor = TimeCursor<RunId>;

/// Which runs, from where on. What is absent does not matter.
#[derive(Debug, Clone)]
pub struct RunQuery {
    /// Who asked for it.
    pub owner: Option<PrincipalId>,
    /// On whose authority it acts.
    pub principal: Option<PrincipalId>,
    /// It has one of these; any, when there are none.
    pub status: Vec<RunStatus>,
    /// The name of its agent or tool, as the run recorded it.
    pub subject: Option<String>,
    /// The conversation it is part of.
    pub conversation: Option<ConversationId>,
    /// The run that started it.
    pub parent: Option<RunId>,
    /// What it is an execution of.
    pub kind: Option<RunKind>,
    /// The kind of trial it is a part of.
    pub trial: Option<TrialKind>,
    /// The trial it is a part of, or the run that it replays or is the shadow of.
    pub trial_of: Option<String>,
    /// It began then or later.
    pub since: Option<Timestamp>,
    /// What must hold for the run as it is listed; nothing when absent.
    pub matching: Option<Filter>,
    /// How many; at least 1 and at most 1000 are given whatever is asked.
    pub limit: u32,
    /// Where the page before ended.
    pub cursor: Option<RunCursor>,
}

impl Default for RunQuery {
    fn default() -> Self {
        Self {
            owner: None,
            principal: None,
            status: Vec::new(),
            subject: None,
            conversation: None,
            parent: None,
            kind: None,
            trial: None,
            trial_of: None,
            since: None,
            matching: None,
            limit: 20,
            cursor: None,
        }
    }
}

/// A run as it is listed.
const SHOWN: Shown = Shown {
    id: "r.id",
    body: None,
    fields: &[
        ("id", Cell::Plain("r.id")),
        ("kind", Cell::Plain("r.kind")),
        ("subject", Cell::Plain("r.subject")),
        ("agentRef", Cell::Plain("r.subject")),
        ("parentRunId", Cell::Plain("r.parent_id")),
        ("conversationId", Cell::Plain("r.conversation_id")),
        ("durable", Cell::Truth("r.durable")),
        ("status", Cell::Plain("r.status")),
        ("reason", Cell::Plain("r.reason")),
        ("iterationsUsed", Cell::Plain("r.iterations")),
        ("tokensUsed", Cell::Plain("r.tokens")),
        ("costUsd", Cell::Plain("r.cost_usd")),
        ("startedAt", Cell::Moment("r.started_at")),
        ("endedAt", Cell::Moment("r.ended_at")),
    ],
};

impl RunQuery {
    /// Whether `matching` can ask about this field.
    pub fn knows(field: &str) -> bool {
        SHOWN.knows(field)
    }
}

impl Runs<'_> {
    /// One page of runs, those that began last first.
    pub async fn list(&self, query: &RunQuery) -> Result<Page<Run, RunCursor>, Unavailable> {
        let mut sql = Sql::new(concat!("SELECT ", run_columns!()));
        self.push_from(&mut sql, query)?;
        if let Some((at, run)) = query.cursor.as_ref().map(RunCursor::position) {
            sql.push(" AND (r.started_at, r.id) < (").integer(at).push(", ").text(run.to_string()).push(")");
        }
        sql.push(" ORDER BY r.started_at DESC, r.id DESC");
        push_limit(&mut sql, query.limit);

        let (text, values) = sql.into_parts();
        let rows: Vec<RunRow> = read!(&self.store.db, |pool| bind_all!(sqlx::query_as(text), values).fetch_all(pool))?;
        Page::of(rows, query.limit, |last: &Run| RunCursor::after(last.started_at, last.id))
    }

    /// How many runs there are on all pages.
    pub async fn count(&self, query: &RunQuery) -> Result<u64, Unavailable> {
        let mut sql = Sql::new("SELECT COUNT(*)");
        self.push_from(&mut sql, query)?;
        let (text, values) = sql.into_parts();
        let count: i64 = read!(&self.store.db, |pool| bind_all!(sqlx::query_scalar(text), values).fetch_one(pool))?;
        Ok(u64::try_from(count).unwrap_or(0))
    }

    /// ` FROM runs r WHERE …`: the runs that are wanted.
    fn push_from(&self, sql: &mut Sql, query: &RunQuery) -> Result<(), Unavailable> {
        sql.push(" FROM runs r WHERE r.realm_id = ").text(self.realm.to_string());
        push_filters(sql, query);
        query.matching.as_ref().map_or(Ok(()), |filter| SHOWN.push(sql, &self.store.db, filter))
    }
}

fn push_filters(sql: &mut Sql, query: &RunQuery) {
    if let Some(owner) = query.owner {
        sql.push(" AND r.owner_id = ").text(owner.to_string());
    }
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
    for (at, status) in query.status.iter().enumerate() {
        sql.push(if at == 0 { " AND r.status IN (" } else { ", " }).text(status.as_str());
    }
    if !query.status.is_empty() {
        sql.push(")");
    }
}
