//! The executions of agentic tools: listing, details, and executing the plan of an earlier execution again.

use axum::Json;
use axum::extract::State;
use axum::response::Response;
use serde::Deserialize;
use serde_json::Value;
use toolwright_catalog::Session;
use toolwright_runs::{RunKind, RunQuery, RunRecord};

use super::document::VIEWS;
use super::execution_views::{ExecutionSummaryView, ExecutionView};
use super::{TAG, invoke};
use crate::extract::{Caller, JsonBody, PathName, PathPair, QueryParams};
use crate::list_params;
use crate::problem::{Code, Problem};
use crate::routes::runs::run_id;
use crate::state::AppState;
use crate::views::PageView;

/// The parameters of a list of executions.
#[derive(Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct ExecutionListParams {
    /// `running`, `success`, `error` or `timeout`.
    status: Option<String>,
    /// The page size, from 1 to 100. Default: 20.
    limit: Option<u32>,
    /// `nextCursor` of the previous page.
    cursor: Option<String>,
}

/// Lists the executions of an agentic tool, newest first.
#[utoipa::path(get, path = "/api/v1/agentic-tools/{ref}/executions", tag = TAG, operation_id = "listAgenticToolExecutions",
    params(("ref" = String, Path), ExecutionListParams),
    responses((status = 200, body = PageView<ExecutionSummaryView>)))]
pub(super) async fn list(
    State(engine): State<AppState>,
    Caller(session): Caller,
    PathName(reference): PathName,
    QueryParams(params): QueryParams<ExecutionListParams>,
) -> Result<Json<PageView<ExecutionSummaryView>>, Problem> {
    let tool = VIEWS.find(&engine.registry, &session, &reference).await?;
    let query = RunQuery {
        kind: Some(RunKind::AgenticTool),
        subject: Some(tool.meta.ref_name.to_string()),
        status: invoke::run_statuses(params.status.as_deref())?,
        limit: list_params::limit(params.limit)?,
        cursor: list_params::cursor(params.cursor.as_deref())?,
        ..RunQuery::default()
    };
    let page = engine.runs.list(&session, query).await?;
    Ok(Json(PageView {
        items: page.items.iter().map(ExecutionSummaryView::new).collect(),
        next_cursor: page.next.map(|cursor| cursor.to_string()),
    }))
}

/// Returns an execution with its model calls, its tool calls and its cost.
#[utoipa::path(get, path = "/api/v1/agentic-tools/{ref}/executions/{id}", tag = TAG, operation_id = "getAgenticToolExecution",
    params(("ref" = String, Path), ("id" = String, Path)),
    responses((status = 200, body = ExecutionView)))]
pub(super) async fn get(
    State(engine): State<AppState>,
    Caller(session): Caller,
    PathPair(reference, id): PathPair,
) -> Result<Json<ExecutionView>, Problem> {
    let record = find(&engine, &session, &reference, &id).await?;
    let view = ExecutionView::new(session.realm.realm.to_string(), &record.row, &record.snapshot);
    Ok(Json(view.ok_or_else(|| not_found(&id))?))
}

/// The changes for executing a plan again.
#[derive(Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct RerunBody {
    /// The input of the call. Default: the input of the earlier execution.
    #[serde(default)]
    params: Option<Value>,
    /// A changed plan. Default: the plan of the earlier execution.
    #[serde(default)]
    #[schema(value_type = Option<Object>)]
    execution_plan: Option<Value>,
}

/// Executes the plan of an execution again, without calling a model.
#[utoipa::path(post, path = "/api/v1/agentic-tools/{ref}/executions/{id}/rerun", tag = TAG, operation_id = "rerunAgenticToolExecution",
    request_body = RerunBody, params(("ref" = String, Path), ("id" = String, Path)),
    responses((status = 200, body = invoke::InvocationView), (status = 202, body = invoke::InvocationView)))]
pub(super) async fn rerun(
    State(engine): State<AppState>,
    Caller(session): Caller,
    PathPair(reference, id): PathPair,
    JsonBody(body): JsonBody<RerunBody>,
) -> Result<Response, Problem> {
    let record = find(&engine, &session, &reference, &id).await?;
    let execution = record.snapshot.start.agentic.as_deref().ok_or_else(|| not_found(&id))?;
    let plan = match body.execution_plan {
        Some(plan) => {
            serde_json::from_value(plan).map_err(|error| Problem::invalid("/executionPlan", error.to_string()))?
        }
        None => {
            let progress = record.snapshot.run.plan_progress();
            let without = "the execution has no plan; only executions in the deterministic mode have one";
            progress.map(|progress| progress.plan().clone()).ok_or_else(|| Problem::invalid("id", without))?
        }
    };
    let input = body.params.unwrap_or_else(|| execution.input.clone());
    let tool = invoke::find_tool(&engine, &session, &reference).await?;
    let handle = engine.agents.start_plan(&session, &tool, input, plan).await?;
    invoke::respond_with_run(&engine, &session, &tool, &handle).await
}

/// Returns an execution of the tool `reference`. Fails if the session may not read it.
async fn find(engine: &AppState, session: &Session, reference: &str, id: &str) -> Result<RunRecord, Problem> {
    let tool = VIEWS.find(&engine.registry, session, reference).await?;
    let record = engine.runs.get(session, run_id(id)?).await?;
    let of_tool = record.snapshot.start.subject == tool.meta.ref_name.as_str();
    if of_tool && record.snapshot.start.agentic.is_some() { Ok(record) } else { Err(not_found(id)) }
}

fn not_found(id: &str) -> Problem {
    Problem::new(Code::NotFound, format!("there is no execution `{id}` of this agentic tool"))
}
