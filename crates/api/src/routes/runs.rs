//! Runs: what they did, what they do, and steering them.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use serde_json::Value;
use toolwright_engine::Session;
use toolwright_engine::runs::{RunKind, RunQuery, Steered, WaitKind, WaitQuery};
use toolwright_machine::agent::Decision;
use toolwright_types::{CallId, RunId, RunStatus};

use super::agents::{self, ToolResultBody, answer, lost};
use crate::collection::CountView;
use crate::extract::{App, Body, Caller, Named, NamedWith, Parameters};
use crate::lists;
use crate::problem::{Code, Problem};
use crate::run_views::{AcceptedView, AgentResponseView, ApprovalView, RunSummaryView, RunView, StreamEventView};
use crate::stream;
use crate::views::PageView;

const TAG: &str = "runs";

/// Which runs.
#[derive(Deserialize, utoipa::IntoParams, utoipa::ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct WantedRuns {
    /// One status, or several separated by commas.
    status: Option<String>,
    /// What was run: `agent` or `tool`.
    kind: Option<String>,
    /// The agent.
    agent_ref: Option<String>,
    /// The tool that was called directly.
    tool_ref: Option<String>,
    /// The conversation.
    conversation_id: Option<String>,
    /// The run that started them.
    parent_run_id: Option<String>,
    /// The trial that they are a part of, or the run that they replay or are the shadow of.
    trial_of: Option<String>,
    /// In the query language, over the runs as they are listed.
    query: Option<String>,
    /// 1 to 100; 20 when absent.
    limit: Option<u32>,
    /// Where the page before ended.
    cursor: Option<String>,
}

/// Lists runs, those that began last first: the caller's own, or everyone's for whoever may see them.
#[utoipa::path(get, path = "/api/v1/ai/runs", tag = TAG, operation_id = "listRuns", params(WantedRuns),
    responses((status = 200, body = PageView<RunSummaryView>), (status = "4XX", body = Problem, content_type = "application/problem+json")))]
pub async fn list(
    State(engine): State<App>,
    Caller(session): Caller,
    Parameters(wanted): Parameters<WantedRuns>,
) -> Result<Json<PageView<RunSummaryView>>, Problem> {
    page(&engine, &session, wanted.query()?).await
}

/// Finds runs like the list, with the parameters as a body.
#[utoipa::path(post, path = "/api/v1/ai/runs/query", tag = TAG, operation_id = "queryRuns", request_body = WantedRuns,
    responses((status = 200, body = PageView<RunSummaryView>), (status = "4XX", body = Problem, content_type = "application/problem+json")))]
pub async fn query(
    State(engine): State<App>,
    Caller(session): Caller,
    Body(wanted): Body<WantedRuns>,
) -> Result<Json<PageView<RunSummaryView>>, Problem> {
    page(&engine, &session, wanted.query()?).await
}

/// Counts runs; where a page begins and how long it is makes no difference.
#[utoipa::path(get, path = "/api/v1/ai/runs/count", tag = TAG, operation_id = "countRuns", params(WantedRuns),
    responses((status = 200, body = CountView), (status = "4XX", body = Problem, content_type = "application/problem+json")))]
pub async fn count(
    State(engine): State<App>,
    Caller(session): Caller,
    Parameters(wanted): Parameters<WantedRuns>,
) -> Result<Json<CountView>, Problem> {
    Ok(Json(CountView { count: engine.runs.count(&session, wanted.query()?).await? }))
}

async fn page(engine: &App, session: &Session, query: RunQuery) -> Result<Json<PageView<RunSummaryView>>, Problem> {
    let page = engine.runs.list(session, query).await?;
    Ok(Json(PageView {
        items: page.items.iter().map(RunSummaryView::new).collect(),
        next_cursor: page.next.map(|cursor| cursor.to_string()),
    }))
}

impl WantedRuns {
    fn query(self) -> Result<RunQuery, Problem> {
        let status = self.status.as_deref().unwrap_or_default().split(',').filter(|text| !text.is_empty());
        let status: Result<Vec<RunStatus>, _> = status.map(|text| text.trim().parse()).collect();
        let mut kind = self.kind.as_deref().map(str::parse).transpose();
        let subject = match (self.agent_ref, self.tool_ref) {
            (Some(_), Some(_)) => {
                return Err(Problem::invalid("toolRef", "a run is of an agent or of a tool: leave one out"));
            }
            (Some(agent), None) => Some((RunKind::Agent, agent)),
            (None, tool) => tool.map(|tool| (RunKind::Tool, tool)),
        };
        if let (Some((of, _)), Ok(None)) = (&subject, &kind) {
            kind = Ok(Some(*of));
        }
        Ok(RunQuery {
            status: status.map_err(|error| Problem::invalid("status", error.to_string()))?,
            kind: kind.map_err(|error| Problem::invalid("kind", error.to_string()))?,
            subject: subject.map(|(_, name)| name),
            conversation: parsed("conversationId", self.conversation_id.as_deref())?,
            parent: parsed("parentRunId", self.parent_run_id.as_deref())?,
            trial_of: self.trial_of,
            matching: lists::matching_known(self.query.as_deref(), RunQuery::knows)?,
            limit: lists::limit(self.limit)?,
            cursor: lists::cursor(self.cursor.as_deref())?,
            ..RunQuery::default()
        })
    }
}

/// A run with everything it did.
#[utoipa::path(get, path = "/api/v1/ai/runs/{id}", tag = TAG, operation_id = "getRun", params(("id" = String, Path)),
    responses((status = 200, body = RunView), (status = "4XX", body = Problem, content_type = "application/problem+json")))]
pub async fn get(
    State(engine): State<App>,
    Caller(session): Caller,
    Named(id): Named,
) -> Result<Json<RunView>, Problem> {
    let record = engine.runs.get(&session, run_id(&id)?).await?;
    let began = Arc::clone(&record.snapshot.began);
    let response = answer(&engine, &session, record.snapshot).await?;
    Ok(Json(RunView::new(&record.row, &began, response)))
}

/// Deletes a run that has ended, with its journal. A tombstone stays.
#[utoipa::path(delete, path = "/api/v1/ai/runs/{id}", tag = TAG, operation_id = "deleteRun", params(("id" = String, Path)),
    responses((status = 204), (status = "4XX", body = Problem, content_type = "application/problem+json")))]
pub async fn delete(
    State(engine): State<App>,
    Caller(session): Caller,
    Named(id): Named,
) -> Result<StatusCode, Problem> {
    engine.runs.delete(&session, run_id(&id)?).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Where to begin.
#[derive(Deserialize)]
pub struct From {
    after: Option<u64>,
}

/// What happens in a run, from the beginning or from after `Last-Event-ID` on.
#[utoipa::path(get, path = "/api/v1/ai/runs/{id}/events", tag = TAG, operation_id = "watchRun",
    params(("id" = String, Path), ("Last-Event-ID" = Option<String>, Header, description = "the last event that was seen"),
        ("after" = Option<u64>, Query, description = "the same, where headers cannot be set")),
    responses((status = 200, body = StreamEventView, content_type = "text/event-stream"),
        (status = "4XX", body = Problem, content_type = "application/problem+json")))]
pub async fn events(
    State(engine): State<App>,
    Caller(session): Caller,
    Named(id): Named,
    Parameters(from): Parameters<From>,
    headers: HeaderMap,
) -> Result<impl IntoResponse, Problem> {
    let seen = match headers.get("last-event-id") {
        None => from.after.unwrap_or(0),
        Some(value) => {
            let number = value.to_str().ok().and_then(|text| text.trim().parse().ok());
            number.ok_or_else(|| Problem::invalid("Last-Event-ID", "is the `id` of an event of this run"))?
        }
    };
    let run = run_id(&id)?;
    let watch = engine.runs.watch(&session, run, seen).await?;
    let agent = watch.agent().to_owned();
    Ok(stream::events(watch, run.to_string(), agent, engine.stopping()))
}

/// Whether to wait for the run.
#[derive(Deserialize)]
pub struct Patience {
    #[serde(default = "yes")]
    wait: bool,
}

fn yes() -> bool {
    true
}

/// Stops a run, and every run that it started.
#[utoipa::path(post, path = "/api/v1/ai/runs/{id}/cancel", tag = TAG, operation_id = "cancelRun", params(("id" = String, Path)),
    responses((status = 200, body = AgentResponseView), (status = "4XX", body = Problem, content_type = "application/problem+json")))]
pub async fn cancel(State(engine): State<App>, Caller(session): Caller, Named(id): Named) -> Result<Response, Problem> {
    let run = run_id(&id)?;
    let steered = engine.runs.cancel(&session, run).await?;
    respond(&engine, &session, run, steered, true).await
}

/// A decision on a call.
#[derive(Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct DecisionBody {
    /// `approve`, `deny` or `edit`.
    decision: String,
    /// Why not, for the model.
    #[serde(default)]
    reason: Option<String>,
    /// What to call the tool with instead, for `edit`.
    #[serde(default)]
    #[schema(value_type = Option<Object>)]
    input: Option<Value>,
}

impl DecisionBody {
    fn decision(self) -> Result<Decision, Problem> {
        match (self.decision.as_str(), self.input, self.reason) {
            ("approve", None, _) => Ok(Decision::Approve),
            ("deny", None, reason) => Ok(Decision::Deny { reason }),
            ("edit", Some(input), _) => Ok(Decision::Edit { input }),
            ("edit", None, _) => Err(Problem::invalid("/input", "is what the tool is called with instead")),
            ("approve" | "deny", Some(_), _) => Err(Problem::invalid("/input", "is only for `edit`")),
            _ => Err(Problem::invalid("/decision", "is `approve`, `deny` or `edit`")),
        }
    }
}

/// Decides on a call that waits for an approval. Answers when the run next rests, or at once with `wait=false`.
#[utoipa::path(post, path = "/api/v1/ai/runs/{id}/approvals/{callId}", tag = TAG, operation_id = "decideApproval", request_body = DecisionBody,
    params(("id" = String, Path), ("callId" = String, Path), ("wait" = Option<bool>, Query)),
    responses((status = 200, body = AgentResponseView), (status = 202, body = AcceptedView),
        (status = "4XX", body = Problem, content_type = "application/problem+json")))]
pub async fn decide(
    State(engine): State<App>,
    Caller(session): Caller,
    NamedWith(id, call): NamedWith,
    Parameters(patience): Parameters<Patience>,
    Body(body): Body<DecisionBody>,
) -> Result<Response, Problem> {
    let run = run_id(&id)?;
    let call_id: CallId =
        serde_json::from_value(Value::String(call)).map_err(|_| Problem::invalid("callId", "is no call id"))?;
    let steered = engine.runs.decide(&session, run, call_id, body.decision()?).await?;
    respond(&engine, &session, run, steered, patience.wait).await
}

/// Results of client tools.
#[derive(Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ToolResultsBody {
    results: Vec<ToolResultBody>,
}

/// Returns what a client made of its calls. Answers when the run next rests, or at once with `wait=false`.
#[utoipa::path(post, path = "/api/v1/ai/runs/{id}/tool-results", tag = TAG, operation_id = "returnToolResults", request_body = ToolResultsBody,
    params(("id" = String, Path), ("wait" = Option<bool>, Query)),
    responses((status = 200, body = AgentResponseView), (status = 202, body = AcceptedView),
        (status = "4XX", body = Problem, content_type = "application/problem+json")))]
pub async fn tool_results(
    State(engine): State<App>,
    Caller(session): Caller,
    Named(id): Named,
    Parameters(patience): Parameters<Patience>,
    Body(body): Body<ToolResultsBody>,
) -> Result<Response, Problem> {
    let run = run_id(&id)?;
    let results = agents::results("/results", body.results)?;
    if results.is_empty() {
        return Err(Problem::invalid("/results", "holds at least one result"));
    }
    let steered = engine.runs.return_results(&session, run, results).await?;
    respond(&engine, &session, run, steered, patience.wait).await
}

/// Which approvals.
#[derive(Deserialize, utoipa::IntoParams)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct WantedApprovals {
    /// Of one run.
    run_id: Option<String>,
    /// 1 to 100; 20 when absent.
    limit: Option<u32>,
    /// Where the page before ended.
    cursor: Option<String>,
}

/// Lists the calls that wait for a person, those that wait longest first.
#[utoipa::path(get, path = "/api/v1/ai/approvals", tag = TAG, operation_id = "listApprovals", params(WantedApprovals),
    responses((status = 200, body = PageView<ApprovalView>), (status = "4XX", body = Problem, content_type = "application/problem+json")))]
pub async fn approvals(
    State(engine): State<App>,
    Caller(session): Caller,
    Parameters(wanted): Parameters<WantedApprovals>,
) -> Result<Json<PageView<ApprovalView>>, Problem> {
    let query = WaitQuery {
        kind: Some(WaitKind::Approval),
        run: parsed("runId", wanted.run_id.as_deref())?,
        limit: lists::limit(wanted.limit)?,
        cursor: lists::cursor(wanted.cursor.as_deref())?,
        ..WaitQuery::default()
    };
    let page = engine.runs.waits(&session, query).await?;
    Ok(Json(PageView {
        items: page.items.iter().filter_map(ApprovalView::of_wait).collect(),
        next_cursor: page.next.map(|cursor| cursor.to_string()),
    }))
}

async fn respond(
    engine: &App,
    session: &Session,
    run: RunId,
    steered: Steered,
    wait: bool,
) -> Result<Response, Problem> {
    if !wait {
        return Ok((StatusCode::ACCEPTED, Json(AcceptedView::running(run))).into_response());
    }
    let settled = steered.settled().await.ok_or_else(lost)?;
    Ok(Json(answer(engine, session, settled).await?).into_response())
}

pub(super) fn run_id(text: &str) -> Result<RunId, Problem> {
    text.parse().map_err(|_| Problem::new(Code::NotFound, format!("there is no run `{text}`")))
}

fn parsed<T: std::str::FromStr>(name: &str, text: Option<&str>) -> Result<Option<T>, Problem> {
    text.map(|text| text.parse().map_err(|_| Problem::invalid(name, format!("`{text}` is no such id")))).transpose()
}
