//! The executions of agentic tools: listing, details, and executing the plan of an earlier execution again.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::Response;
use serde::Deserialize;
use serde_json::Value;
use toolwright_catalog::Session;
use toolwright_catalog::registry::json_pointer;
use toolwright_machine::plan::Plan;
use toolwright_runs::{RunKind, RunQuery, RunRecord};
use toolwright_types::{Document, ExecutionMode, ToolDefinition};

use super::document::VIEWS;
use super::execution_views::{ExecutionSummaryView, ExecutionView, plan_of};
use super::{TAG, invoke};
use crate::extract::{Caller, JsonBody, PathName, PathPair, QueryParams};
use crate::list_params;
use crate::problem::{Code, Problem};
use crate::routes::agents::response_view;
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

/// Returns an execution with its model calls, its tool calls and its cost. For the id of a direct call that was refused
/// before the model was called, returns the error.
#[utoipa::path(get, path = "/api/v1/agentic-tools/{ref}/executions/{id}", tag = TAG, operation_id = "getAgenticToolExecution",
    params(("ref" = String, Path), ("id" = String, Path)),
    responses((status = 200, body = ExecutionView)))]
pub(super) async fn get(
    State(engine): State<AppState>,
    Caller(session): Caller,
    PathPair(reference, id): PathPair,
) -> Result<Json<ExecutionView>, Problem> {
    let (tool, record) = find(&engine, &session, &reference, &id).await?;
    let RunRecord { row, snapshot, .. } = record;
    let realm = session.realm.realm.to_string();
    let view = match snapshot.start.agentic {
        Some(_) => {
            let waits = snapshot.run.ending().is_none();
            let approvals = if waits {
                response_view(&engine, &session, Arc::clone(&snapshot)).await?.approvals
            } else {
                Vec::new()
            };
            ExecutionView::new(realm, &row, &snapshot, approvals)
        }
        None => ExecutionView::refused(realm, &tool, &row, &snapshot),
    };
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
    let (_, record) = find(&engine, &session, &reference, &id).await?;
    let execution = record.snapshot.start.agentic.as_deref();
    let refused = "the call was refused before it made a plan; invoke the tool again";
    let execution = execution.ok_or_else(|| Problem::invalid("id", refused))?;
    let plan = match body.execution_plan {
        Some(plan) => parse_plan(plan)?,
        None => {
            let progress = record.snapshot.run.plan_progress();
            progress.map(|progress| progress.plan().clone()).ok_or_else(|| without_plan(execution.mode, &record))?
        }
    };
    let input = body.params.unwrap_or_else(|| execution.input.clone());
    let tool = invoke::find_tool(&engine, &session, &reference).await?;
    let handle = engine.agents.start_plan(&session, &tool, input, plan).await?;
    invoke::respond_with_run(&engine, &session, &tool, &handle).await
}

/// Parses a changed plan. An error has the path of the wrong field.
fn parse_plan(plan: Value) -> Result<Plan, Problem> {
    if !plan.is_object() {
        return Err(Problem::invalid("/executionPlan", "must be an object with `steps`"));
    }
    serde_path_to_error::deserialize(plan).map_err(|error| {
        let path = format!("/executionPlan{}", json_pointer(error.path()));
        let message = error.inner().to_string();
        // The names of types in the source code mean nothing to a client.
        let message = match message.split_once(", expected struct ") {
            Some((found, _)) => format!("{found}, expected an object"),
            None => message,
        };
        Problem::invalid(&path, message)
    })
}

/// The problem for an execution without a plan that can be executed again.
fn without_plan(mode: ExecutionMode, record: &RunRecord) -> Problem {
    let run = &record.snapshot.run;
    let message = match (mode, plan_of(run), run.ending()) {
        (ExecutionMode::Agentic, ..) => "the execution has no plan; only executions in the deterministic mode have one",
        (_, Some(_), None) => "the plan waits for its approval; decide the approval first, or send `executionPlan`",
        (_, Some(_), Some(_)) => "the plan was not approved; send `executionPlan` to execute a plan",
        (_, None, None) => "the model has not written the plan yet; repeat the request later, or send `executionPlan`",
        (_, None, Some(_)) => "the model wrote no valid plan; send `executionPlan` to execute a plan",
    };
    Problem::invalid("id", message)
}

/// Returns an agentic tool and the run `id`: an execution of the tool, or a direct call of the tool. Fails if the session
/// may not read them.
async fn find(
    engine: &AppState,
    session: &Session,
    reference: &str,
    id: &str,
) -> Result<(Document<ToolDefinition>, RunRecord), Problem> {
    let tool = VIEWS.find(&engine.registry, session, reference).await?;
    let record = engine.runs.get(session, run_id(id)?).await?;
    // A direct call that was refused has the name from the request, which may be the id of the tool.
    let subject = &record.snapshot.start.subject;
    let of_tool = subject.eq_ignore_ascii_case(tool.meta.ref_name.as_str()) || *subject == tool.meta.id;
    let kind = matches!(record.row.kind, RunKind::AgenticTool | RunKind::Tool);
    if of_tool && kind { Ok((tool, record)) } else { Err(not_found(id)) }
}

fn not_found(id: &str) -> Problem {
    Problem::new(Code::NotFound, format!("there is no execution `{id}` of this agentic tool"))
}
