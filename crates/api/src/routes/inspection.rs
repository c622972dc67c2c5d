//! Parts of runs: pages of the journal, the state after an entry, and the tree of child runs.

use axum::Json;
use axum::extract::State;
use serde::Deserialize;
use toolwright_runs::{InspectError, JournalPageQuery, Runs};

use super::runs::run_id;
use crate::extract::{Caller, PathName, QueryParams};
use crate::inspection_views::{JournalEntryView, RunStateView, RunTreeView};
use crate::list_params;
use crate::problem::Problem;
use crate::views::PageView;

const TAG: &str = "runs";

/// The parameters of a page of a journal.
#[derive(Deserialize, utoipa::IntoParams)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct JournalParams {
    /// The number of the first entry, from 1. Default: 1.
    from: Option<u64>,
    /// The kind of the entries, such as `model_replied` or `call_ended`. Default: all kinds.
    kind: Option<String>,
    /// The page size, from 1 to 100. Default: 20.
    limit: Option<u32>,
    /// `nextCursor` of the previous page. It replaces `from`.
    cursor: Option<String>,
}

/// Returns one page of the journal of a run.
#[utoipa::path(get, path = "/api/v1/ai/runs/{id}/journal", tag = TAG, operation_id = "getRunJournal",
    params(("id" = String, Path), JournalParams), responses((status = 200, body = PageView<JournalEntryView>)))]
pub(crate) async fn journal(
    State(runs): State<Runs>,
    Caller(session): Caller,
    PathName(id): PathName,
    QueryParams(params): QueryParams<JournalParams>,
) -> Result<Json<PageView<JournalEntryView>>, Problem> {
    let query = JournalPageQuery {
        from: list_params::cursor(params.cursor.as_deref())?.or(number("from", params.from)?).unwrap_or(1),
        kind: params.kind,
        limit: list_params::limit(params.limit)?,
    };
    let page = runs.journal_page(&session, run_id(&id)?, query).await?;
    Ok(Json(PageView {
        items: page.entries.into_iter().map(JournalEntryView::from).collect(),
        next_cursor: page.next.map(|n| n.to_string()),
    }))
}

/// Rejects numbers above the maximum in the API description, which is the largest number that a database can store.
fn number(name: &str, number: Option<u64>) -> Result<Option<u64>, Problem> {
    match number {
        Some(number) if i64::try_from(number).is_err() => {
            Err(Problem::invalid(name, format!("must be at most {}, got {number}", i64::MAX)))
        }
        other => Ok(other),
    }
}

/// The parameters of the state of a run.
#[derive(Deserialize, utoipa::IntoParams)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct StateParams {
    /// The number of the entry, from 1. Default: the last entry.
    at: Option<u64>,
    /// The maximum number of messages, from 1 to 100. Default: 20.
    limit: Option<u32>,
    /// Only messages before this index are returned. Default: the last messages.
    before_message: Option<u64>,
}

/// Returns the state of a run after an entry: what the model saw, which tools it was offered, what is left of the
/// budget, and which calls were open. The time is proportional to the number of entries up to `at`.
#[utoipa::path(get, path = "/api/v1/ai/runs/{id}/state", tag = TAG, operation_id = "getRunState",
    params(("id" = String, Path), StateParams), responses((status = 200, body = RunStateView)))]
pub(crate) async fn state(
    State(runs): State<Runs>,
    Caller(session): Caller,
    PathName(id): PathName,
    QueryParams(params): QueryParams<StateParams>,
) -> Result<Json<RunStateView>, Problem> {
    let limit = list_params::limit(params.limit)?;
    let before = number("beforeMessage", params.before_message)?;
    let state = runs.state_at(&session, run_id(&id)?, number("at", params.at)?).await?;
    Ok(Json(RunStateView::new(&state, before, limit)))
}

/// Returns a run and its child runs. A tree has at most 500 runs.
#[utoipa::path(get, path = "/api/v1/ai/runs/{id}/tree", tag = TAG, operation_id = "getRunTree",
    params(("id" = String, Path)), responses((status = 200, body = RunTreeView)))]
pub(crate) async fn tree(
    State(runs): State<Runs>,
    Caller(session): Caller,
    PathName(id): PathName,
) -> Result<Json<RunTreeView>, Problem> {
    Ok(Json(RunTreeView::new(&runs.tree(&session, run_id(&id)?).await?)))
}

impl From<InspectError> for Problem {
    fn from(error: InspectError) -> Self {
        let text = error.to_string();
        match error {
            InspectError::Run(inner) => inner.into(),
            InspectError::NoEntry { .. } => Problem::invalid("at", text),
        }
    }
}
