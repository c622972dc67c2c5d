//! Runs of workflows: execute, read, signal, pause, resume and run again.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::LOCATION;
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use serde_json::Value;
use toolwright_agents::{RerunSteps, StartedWorkflow, WorkflowRequest};
use toolwright_catalog::{Session, VersionedRef};
use toolwright_runs::{AcceptedCommand, RunKind, RunSnapshot};
use toolwright_types::RunId;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::agents::journal_lost;
use super::runs::{RunListParams, WaitParam, run_id};
use crate::extract::{Caller, CallerKey, JsonBody, OptionalJsonBody, PathName, PathPair, QueryParams};
use crate::problem::{Code, Problem};
use crate::routes::tools::parse_requirement;
use crate::run_views::{AcceptedView, ApprovalView, RunSummaryView};
use crate::state::AppState;
use crate::stream;
use crate::stream_views::StreamEventView;
use crate::views::PageView;
use crate::workflow_views::{WorkflowInstanceView, WorkflowRunView};

const TAG: &str = "workflows";

/// Returns the routes, with their OpenAPI description.
pub(crate) fn routes() -> OpenApiRouter<AppState> {
    OpenApiRouter::new()
        .routes(routes!(execute))
        .routes(routes!(execute_stream))
        .routes(routes!(execute_durable))
        .routes(routes!(list))
        .routes(routes!(get))
        .routes(routes!(signal))
        .routes(routes!(pause))
        .routes(routes!(resume))
        .routes(routes!(cancel))
        .routes(routes!(retry))
}

/// The input of a workflow run.
#[derive(Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct WorkflowExecuteBody {
    /// The input of the workflow.
    #[serde(default)]
    input: Value,
    /// An exact version of the workflow or a requirement such as `^1.2`. Default: the highest active version.
    #[serde(default)]
    version: Option<String>,
    /// The only step to execute. The steps before it are skipped, so their outputs are null.
    #[serde(default)]
    only_step: Option<String>,
}

/// Runs a workflow and returns when the run ends or waits.
#[utoipa::path(post, path = "/api/v1/ai/workflows/{ref}/execute", tag = TAG, operation_id = "executeWorkflow", request_body = WorkflowExecuteBody,
    params(("ref" = String, Path)),
    responses((status = 200, body = WorkflowRunView)))]
pub(crate) async fn execute(
    State(engine): State<AppState>,
    Caller(session): Caller,
    PathName(workflow): PathName,
    JsonBody(body): JsonBody<WorkflowExecuteBody>,
) -> Result<Json<WorkflowRunView>, Problem> {
    let started = start(&engine, &session, &workflow, body, None).await?;
    let snapshot = engine.runs.settled(&started.handle).await.ok_or_else(journal_lost)?;
    Ok(Json(view(&engine, &session, &snapshot).await?))
}

/// Runs a workflow and streams its events.
#[utoipa::path(post, path = "/api/v1/ai/workflows/{ref}/execute/stream", tag = TAG, operation_id = "streamWorkflow", request_body = WorkflowExecuteBody,
    params(("ref" = String, Path)),
    responses((status = 200, body = StreamEventView, content_type = "text/event-stream")))]
pub(crate) async fn execute_stream(
    State(engine): State<AppState>,
    Caller(session): Caller,
    CallerKey(key): CallerKey,
    PathName(workflow): PathName,
    JsonBody(body): JsonBody<WorkflowExecuteBody>,
) -> Result<impl IntoResponse, Problem> {
    let started = start(&engine, &session, &workflow, body, None).await?;
    let watch = engine.runs.watch_handle(&started.handle);
    Ok(stream::events(watch, started.run.to_string(), workflow, key, engine.shutdown_token()))
}

/// Starts a durable run, which survives a crash of the server, and returns at once.
#[utoipa::path(post, path = "/api/v1/ai/workflows/{ref}/execute/durable", tag = TAG, operation_id = "startWorkflow", request_body = WorkflowExecuteBody,
    params(("ref" = String, Path)),
    responses((status = 202, body = AcceptedView, headers(("Location" = String, description = "the path of the instance")))))]
pub(crate) async fn execute_durable(
    State(engine): State<AppState>,
    Caller(session): Caller,
    PathName(workflow): PathName,
    JsonBody(body): JsonBody<WorkflowExecuteBody>,
) -> Result<impl IntoResponse, Problem> {
    Ok(accepted(&start(&engine, &session, &workflow, body, Some(true)).await?))
}

async fn start(
    engine: &AppState,
    session: &Session,
    workflow: &str,
    body: WorkflowExecuteBody,
    durable: Option<bool>,
) -> Result<StartedWorkflow, Problem> {
    let (name, version) = match (workflow.split_once('@'), body.version) {
        (Some((name, version)), None) => (name, Some(version.to_owned())),
        (Some(_), Some(_)) => {
            return Err(Problem::invalid("/version", "must be absent if the path has a version"));
        }
        (None, version) => (workflow, version),
    };
    let version_req = version.as_deref().map(parse_requirement).transpose()?;
    let reference = VersionedRef { name, version_req }.to_string();
    let request = WorkflowRequest { input: body.input, durable, only: body.only_step, ..WorkflowRequest::default() };
    Ok(engine.agents.start_workflow(session, &reference, request).await?)
}

fn accepted(started: &StartedWorkflow) -> impl IntoResponse + use<> {
    let location = [(LOCATION, format!("/api/v1/ai/workflow-instances/{}", started.run))];
    (StatusCode::ACCEPTED, location, Json(AcceptedView::running(started.run)))
}

/// Lists workflow runs, newest first: the caller's own, or all runs if the caller may read them.
#[utoipa::path(get, path = "/api/v1/ai/workflow-instances", tag = TAG, operation_id = "listWorkflowInstances", params(RunListParams),
    responses((status = 200, body = PageView<RunSummaryView>)))]
pub(crate) async fn list(
    State(engine): State<AppState>,
    Caller(session): Caller,
    QueryParams(params): QueryParams<RunListParams>,
) -> Result<Json<PageView<RunSummaryView>>, Problem> {
    Ok(Json(params.of_kind(RunKind::Workflow)?.page(&engine.runs, &session).await?))
}

/// Returns a workflow run with its steps.
#[utoipa::path(get, path = "/api/v1/ai/workflow-instances/{id}", tag = TAG, operation_id = "getWorkflowInstance", params(("id" = String, Path)),
    responses((status = 200, body = WorkflowInstanceView)))]
pub(crate) async fn get(
    State(engine): State<AppState>,
    Caller(session): Caller,
    PathName(id): PathName,
) -> Result<Json<WorkflowInstanceView>, Problem> {
    let record = engine.runs.get(&session, instance_id(&id)?).await?;
    if record.row.kind != RunKind::Workflow {
        return Err(not_found(&id));
    }
    let state = view(&engine, &session, &record.snapshot).await?;
    Ok(Json(WorkflowInstanceView::new(&record.row, state)))
}

/// Sends a signal to a workflow run. The body is the payload. The first step that waits for the signal receives it; if no
/// step waits, the next one that does receives it. Responds when the run ends or waits again, or at once with
/// `wait=false`.
#[utoipa::path(post, path = "/api/v1/ai/workflow-instances/{id}/signals/{name}", tag = TAG, operation_id = "signalWorkflow", request_body = Option<Value>,
    params(("id" = String, Path), ("name" = String, Path), ("wait" = Option<bool>, Query)),
    responses((status = 200, body = WorkflowRunView), (status = 202, body = AcceptedView)))]
pub(crate) async fn signal(
    State(engine): State<AppState>,
    Caller(session): Caller,
    PathPair(id, name): PathPair,
    QueryParams(params): QueryParams<WaitParam>,
    OptionalJsonBody(payload): OptionalJsonBody<Value>,
) -> Result<Response, Problem> {
    let run = instance_id(&id)?;
    if name.is_empty() || name.len() > MAX_SIGNAL_NAME {
        return Err(Problem::invalid("name", format!("must have 1 to {MAX_SIGNAL_NAME} bytes")));
    }
    let command = engine.runs.signal(&session, run, name, payload).await?;
    respond(&engine, &session, run, command, params.wait()).await
}

/// The maximum length of the name of a signal.
const MAX_SIGNAL_NAME: usize = 128;

/// Pauses a workflow run: the calls in progress end, and nothing else starts.
#[utoipa::path(post, path = "/api/v1/ai/workflow-instances/{id}/pause", tag = TAG, operation_id = "pauseWorkflow",
    params(("id" = String, Path), ("wait" = Option<bool>, Query)),
    responses((status = 200, body = WorkflowRunView), (status = 202, body = AcceptedView)))]
pub(crate) async fn pause(
    State(engine): State<AppState>,
    Caller(session): Caller,
    PathName(id): PathName,
    QueryParams(params): QueryParams<WaitParam>,
) -> Result<Response, Problem> {
    let run = instance_id(&id)?;
    let command = engine.runs.pause(&session, run).await?;
    respond(&engine, &session, run, command, params.wait()).await
}

/// Resumes a paused workflow run. Responds when the run ends or waits again, or at once with `wait=false`.
#[utoipa::path(post, path = "/api/v1/ai/workflow-instances/{id}/resume", tag = TAG, operation_id = "resumeWorkflow",
    params(("id" = String, Path), ("wait" = Option<bool>, Query)),
    responses((status = 200, body = WorkflowRunView), (status = 202, body = AcceptedView)))]
pub(crate) async fn resume(
    State(engine): State<AppState>,
    Caller(session): Caller,
    PathName(id): PathName,
    QueryParams(params): QueryParams<WaitParam>,
) -> Result<Response, Problem> {
    let run = instance_id(&id)?;
    let command = engine.runs.resume(&session, run).await?;
    respond(&engine, &session, run, command, params.wait()).await
}

/// Cancels a workflow run and its child runs.
#[utoipa::path(post, path = "/api/v1/ai/workflow-instances/{id}/cancel", tag = TAG, operation_id = "cancelWorkflow", params(("id" = String, Path)),
    responses((status = 200, body = WorkflowRunView)))]
pub(crate) async fn cancel(
    State(engine): State<AppState>,
    Caller(session): Caller,
    PathName(id): PathName,
) -> Result<Response, Problem> {
    let run = instance_id(&id)?;
    let command = engine.runs.cancel(&session, run).await?;
    respond(&engine, &session, run, command, true).await
}

/// The steps that a new run executes. It reuses the results of all other steps of the earlier run.
#[derive(Default, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(crate) struct WorkflowRetryBody {
    /// The step from which the workflow runs again. Default: the steps that failed or did not run.
    from_step: Option<String>,
    /// The only step to execute. Must be absent with `fromStep`.
    only_step: Option<String>,
    /// Whether all items of a failed `forEach` run again. Default: only the failed items.
    #[serde(deserialize_with = "toolwright_types::null_as_default")]
    all_items: bool,
    /// Whether the new run uses the current definition. Default: the definition of the earlier run.
    #[serde(deserialize_with = "toolwright_types::null_as_default")]
    latest: bool,
}

impl WorkflowRetryBody {
    fn steps(&self) -> Result<RerunSteps, Problem> {
        match (&self.from_step, &self.only_step) {
            (Some(_), Some(_)) => Err(Problem::invalid("/onlyStep", "must be absent if `fromStep` is set")),
            (Some(step), None) => Ok(RerunSteps::From(step.clone())),
            (None, Some(step)) => Ok(RerunSteps::Only(step.clone())),
            (None, None) => Ok(RerunSteps::Failed { items: !self.all_items }),
        }
    }
}

/// Starts a new run that reuses results of a workflow run, and executes the failed steps again. Responds when the new
/// run ends or waits, or at once with `wait=false`.
#[utoipa::path(post, path = "/api/v1/ai/workflow-instances/{id}/retry", tag = TAG, operation_id = "retryWorkflow", request_body = WorkflowRetryBody,
    params(("id" = String, Path), ("wait" = Option<bool>, Query)),
    responses((status = 200, body = WorkflowRunView), (status = 202, body = AcceptedView)))]
pub(crate) async fn retry(
    State(engine): State<AppState>,
    Caller(session): Caller,
    PathName(id): PathName,
    QueryParams(params): QueryParams<WaitParam>,
    OptionalJsonBody(body): OptionalJsonBody<WorkflowRetryBody>,
) -> Result<Response, Problem> {
    let (run, steps) = (instance_id(&id)?, body.steps()?);
    let started = engine.agents.rerun_workflow(&session, run, steps, body.latest).await?;
    if !params.wait() {
        return Ok(accepted(&started).into_response());
    }
    let snapshot = engine.runs.settled(&started.handle).await.ok_or_else(journal_lost)?;
    Ok(Json(view(&engine, &session, &snapshot).await?).into_response())
}

async fn respond(
    engine: &AppState,
    session: &Session,
    run: RunId,
    command: AcceptedCommand,
    wait: bool,
) -> Result<Response, Problem> {
    if !wait {
        return Ok((StatusCode::ACCEPTED, Json(AcceptedView::running(run))).into_response());
    }
    let snapshot = command.settled().await.ok_or_else(journal_lost)?;
    Ok(Json(view(engine, session, &snapshot).await?).into_response())
}

/// Creates the view of a workflow run, with the approvals of its child runs.
async fn view(engine: &AppState, session: &Session, snapshot: &RunSnapshot) -> Result<WorkflowRunView, Problem> {
    let mut view = WorkflowRunView::new(snapshot);
    if !view.waiting_child_runs.is_empty() {
        for approval in &engine.runs.approvals_below(session, snapshot.run.id()).await? {
            view.approvals.push(ApprovalView::from_wait(approval)?);
        }
    }
    Ok(view)
}

fn instance_id(id: &str) -> Result<RunId, Problem> {
    run_id(id).map_err(|_| not_found(id))
}

fn not_found(id: &str) -> Problem {
    Problem::new(Code::NotFound, format!("workflow instance `{id}` does not exist"))
}
