//! Runs: list, read, watch, cancel, decide and return results.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use serde_json::Value;
use toolwright_catalog::Session;
use toolwright_machine::agent::Decision;
use toolwright_runs::{AcceptedCommand, RunKind, RunQuery, Runs};
use toolwright_types::{CallId, RunId, RunStatus, Timestamp};

use super::agents::{self, ToolResultBody, journal_lost, response_view};
use crate::collection::CountView;
use crate::extract::{Caller, CallerKey, JsonBody, PathName, PathPair, QueryParams};
use crate::list_params;
use crate::problem::{Code, Problem};
use crate::run_views::{AcceptedView, AgentResponseView, RunSummaryView, RunView};
use crate::state::AppState;
use crate::stream;
use crate::stream_views::StreamEventView;
use crate::views::PageView;

const TAG: &str = "runs";

/// The parameters of a list of runs.
#[derive(Deserialize, utoipa::IntoParams, utoipa::ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct RunListParams {
    /// One status, or several separated by commas.
    status: Option<String>,
    /// `agent`, `tool`, `agentic-tool`, `composite-tool` or `workflow`.
    kind: Option<String>,
    /// The agent.
    agent_ref: Option<String>,
    /// The workflow.
    workflow_ref: Option<String>,
    /// The tool of a direct call.
    tool_ref: Option<String>,
    /// A tool that the run called, either as a direct call or in an agent's run.
    called_tool_ref: Option<String>,
    /// The name of the principal that the run acts as.
    principal: Option<String>,
    /// The earliest start of the runs, in RFC 3339.
    #[schema(value_type = Option<String>, format = DateTime)]
    #[param(value_type = Option<String>, format = DateTime)]
    started_after: Option<String>,
    /// The time before which the run started, in RFC 3339.
    #[schema(value_type = Option<String>, format = DateTime)]
    #[param(value_type = Option<String>, format = DateTime)]
    started_before: Option<String>,
    /// The minimum cost of the runs, in US dollars.
    min_cost_usd: Option<f64>,
    /// The maximum cost of the runs, in US dollars.
    max_cost_usd: Option<f64>,
    /// Selects runs with this text in the name of the agent or tool, in the first 500 characters of the user's message,
    /// or in the message about the end of the run.
    text: Option<String>,
    /// The conversation.
    conversation_id: Option<String>,
    /// The parent run.
    parent_run_id: Option<String>,
    /// The trial of the runs, or the run that they replay or shadow.
    trial_of: Option<String>,
    /// A query in the query language, on the fields of the listed runs.
    query: Option<String>,
    /// The page size, from 1 to 100. Default: 20.
    limit: Option<u32>,
    /// `nextCursor` of the previous page.
    cursor: Option<String>,
}

/// Lists runs, newest first: the caller's own, or all runs if the caller may read them.
#[utoipa::path(get, path = "/api/v1/ai/runs", tag = TAG, operation_id = "listRuns", params(RunListParams),
    responses((status = 200, body = PageView<RunSummaryView>)))]
pub(crate) async fn list(
    State(runs): State<Runs>,
    Caller(session): Caller,
    QueryParams(params): QueryParams<RunListParams>,
) -> Result<Json<PageView<RunSummaryView>>, Problem> {
    Ok(Json(params.page(&runs, &session).await?))
}

/// Lists runs. The body contains the parameters of the list.
#[utoipa::path(post, path = "/api/v1/ai/runs/query", tag = TAG, operation_id = "queryRuns", request_body = RunListParams,
    responses((status = 200, body = PageView<RunSummaryView>)))]
pub(crate) async fn query(
    State(runs): State<Runs>,
    Caller(session): Caller,
    JsonBody(params): JsonBody<RunListParams>,
) -> Result<Json<PageView<RunSummaryView>>, Problem> {
    Ok(Json(params.page(&runs, &session).await?))
}

/// Counts runs. `limit` and `cursor` have no effect.
#[utoipa::path(get, path = "/api/v1/ai/runs/count", tag = TAG, operation_id = "countRuns", params(RunListParams),
    responses((status = 200, body = CountView)))]
pub(crate) async fn count(
    State(runs): State<Runs>,
    Caller(session): Caller,
    QueryParams(params): QueryParams<RunListParams>,
) -> Result<Json<CountView>, Problem> {
    let query = params.query(&runs, &session).await?;
    Ok(Json(CountView { count: runs.count(&session, query).await? }))
}

impl RunListParams {
    /// Selects runs of one kind. Fails if the parameters select another kind.
    pub(super) fn of_kind(mut self, kind: RunKind) -> Result<Self, Problem> {
        let name = kind.as_str();
        if self.kind.as_deref().is_some_and(|other| other != name) {
            return Err(Problem::invalid("kind", format!("must be `{name}` or absent")));
        }
        self.kind = Some(name.to_owned());
        Ok(self)
    }

    /// Reads one page of the list.
    pub(super) async fn page(self, runs: &Runs, session: &Session) -> Result<PageView<RunSummaryView>, Problem> {
        let query = self.query(runs, session).await?;
        let page = runs.list(session, query).await?;
        Ok(PageView {
            items: page.items.iter().map(RunSummaryView::new).collect(),
            next_cursor: page.next.map(|cursor| cursor.to_string()),
        })
    }

    async fn query(mut self, runs: &Runs, session: &Session) -> Result<RunQuery, Problem> {
        let principal = self.principal.take();
        let query = self.without_principal()?;
        Ok(match principal {
            Some(name) => runs.acting_as(session, query, &name).await?,
            None => query,
        })
    }

    fn without_principal(self) -> Result<RunQuery, Problem> {
        let status = self.status.as_deref().unwrap_or_default().split(',').filter(|text| !text.is_empty());
        let status: Result<Vec<RunStatus>, _> = status.map(|text| text.trim().parse()).collect();
        let mut kind = self.kind.as_deref().map(str::parse).transpose();
        let subjects = [
            self.agent_ref.map(|agent| (RunKind::Agent, agent)),
            self.tool_ref.map(|tool| (RunKind::Tool, tool)),
            self.workflow_ref.map(|workflow| (RunKind::Workflow, workflow)),
        ];
        let mut subjects = subjects.into_iter().flatten();
        let subject = subjects.next();
        if subjects.next().is_some() {
            let message = "at most one of `agentRef`, `toolRef` and `workflowRef` can be set";
            return Err(Problem::invalid("toolRef", message));
        }
        if let (Some((of, _)), Ok(None)) = (&subject, &kind) {
            kind = Ok(Some(*of));
        }
        Ok(RunQuery {
            status: status.map_err(|error| Problem::invalid("status", error.to_string()))?,
            kind: kind.map_err(|error| Problem::invalid("kind", error.to_string()))?,
            subject: subject.map(|(_, name)| name),
            conversation: parse_optional("conversationId", self.conversation_id.as_deref())?,
            parent: parse_optional("parentRunId", self.parent_run_id.as_deref())?,
            trial_of: self.trial_of,
            since: parse_time("startedAfter", self.started_after.as_deref())?,
            until: parse_time("startedBefore", self.started_before.as_deref())?,
            min_cost_usd: self.min_cost_usd,
            max_cost_usd: self.max_cost_usd,
            called_tool: self.called_tool_ref,
            text: self.text.filter(|text| !text.is_empty()),
            matching: list_params::filter_on_known_fields(self.query.as_deref(), RunQuery::is_filterable)?,
            limit: list_params::limit(self.limit)?,
            cursor: list_params::cursor(self.cursor.as_deref())?,
            ..RunQuery::default()
        })
    }
}

/// Returns a run with its calls and outputs.
#[utoipa::path(get, path = "/api/v1/ai/runs/{id}", tag = TAG, operation_id = "getRun", params(("id" = String, Path)),
    responses((status = 200, body = RunView)))]
pub(crate) async fn get(
    State(engine): State<AppState>,
    Caller(session): Caller,
    PathName(id): PathName,
) -> Result<Json<RunView>, Problem> {
    let record = engine.runs.get(&session, run_id(&id)?).await?;
    let began = Arc::clone(&record.snapshot.start);
    let response = response_view(&engine, &session, record.snapshot).await?;
    Ok(Json(RunView::new(&record.row, &began, response)))
}

/// Deletes a run that has ended, with its journal. A tombstone remains.
#[utoipa::path(delete, path = "/api/v1/ai/runs/{id}", tag = TAG, operation_id = "deleteRun", params(("id" = String, Path)),
    responses((status = 204)))]
pub(crate) async fn delete(
    State(runs): State<Runs>,
    Caller(session): Caller,
    PathName(id): PathName,
) -> Result<StatusCode, Problem> {
    runs.delete(&session, run_id(&id)?).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// The parameters of an event stream.
#[derive(Deserialize)]
pub(crate) struct EventParams {
    after: Option<u64>,
}

/// Streams the events of a run, from the beginning or after `Last-Event-ID`.
#[utoipa::path(get, path = "/api/v1/ai/runs/{id}/events", tag = TAG, operation_id = "watchRun",
    params(("id" = String, Path), ("Last-Event-ID" = Option<String>, Header, description = "the id of the last event that was received"),
        ("after" = Option<u64>, Query, description = "like `Last-Event-ID`, for clients that cannot set headers")),
    responses((status = 200, body = StreamEventView, content_type = "text/event-stream")))]
pub(crate) async fn events(
    State(engine): State<AppState>,
    Caller(session): Caller,
    CallerKey(key): CallerKey,
    PathName(id): PathName,
    QueryParams(params): QueryParams<EventParams>,
    headers: HeaderMap,
) -> Result<impl IntoResponse, Problem> {
    let after = match headers.get("last-event-id") {
        None => params.after.unwrap_or(0),
        Some(value) => {
            let number = value.to_str().ok().and_then(|text| text.trim().parse().ok());
            number.ok_or_else(|| Problem::invalid("Last-Event-ID", "must be the `id` of an event of this run"))?
        }
    };
    let run = run_id(&id)?;
    let watch = engine.runs.watch(&session, run, after).await?;
    let agent = watch.agent().to_owned();
    Ok(stream::events(watch, run.to_string(), agent, key, engine.shutdown_token()))
}

/// The `wait` parameter. `true`: the response is sent when the run has ended or waits for an approval or a client.
/// `false`: the response is sent at once.
#[derive(Deserialize)]
pub(crate) struct WaitParam {
    #[serde(default = "default_true")]
    wait: bool,
}

impl WaitParam {
    /// Whether the response waits for the run.
    pub(super) fn wait(&self) -> bool {
        self.wait
    }
}

fn default_true() -> bool {
    true
}

/// Cancels a run and its child runs.
#[utoipa::path(post, path = "/api/v1/ai/runs/{id}/cancel", tag = TAG, operation_id = "cancelRun", params(("id" = String, Path)),
    responses((status = 200, body = AgentResponseView)))]
pub(crate) async fn cancel(
    State(engine): State<AppState>,
    Caller(session): Caller,
    PathName(id): PathName,
) -> Result<Response, Problem> {
    let run = run_id(&id)?;
    let handle = engine.runs.cancel(&session, run).await?;
    respond(&engine, &session, run, handle, true).await
}

/// A decision on a call.
#[derive(Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct DecisionBody {
    /// `approve`, `deny` or `edit`.
    pub decision: String,
    /// The reason. The model sees the reason of a denial.
    #[serde(default)]
    pub reason: Option<String>,
    /// The new arguments, for `edit`.
    #[serde(default)]
    pub input: Option<Value>,
}

impl DecisionBody {
    /// Decides on a call. `place` is the JSON pointer of this body in the request.
    pub(super) async fn decide(
        self,
        runs: &Runs,
        session: &Session,
        run: RunId,
        call: &str,
        place: &str,
    ) -> Result<AcceptedCommand, Problem> {
        let call_id: CallId = serde_json::from_value(Value::String(call.to_owned()))
            .map_err(|_| Problem::invalid("callId", "must be a call id"))?;
        let (decision, reason) = self.decision(place)?;
        Ok(runs.decide(session, run, call_id, decision, reason).await?)
    }

    /// Returns the decision, and the reason for an approval or an edit. The reason for a denial is a part of the
    /// decision itself.
    fn decision(self, place: &str) -> Result<(Decision, Option<String>), Problem> {
        let invalid = |field: &str, rule: &str| Problem::invalid(&format!("{place}/{field}"), rule);
        match (self.decision.as_str(), self.input, self.reason) {
            ("approve", None, reason) => Ok((Decision::Approve, reason)),
            ("deny", None, reason) => Ok((Decision::Deny { reason }, None)),
            ("edit", Some(input), reason) => Ok((Decision::Edit { input }, reason)),
            ("edit", None, _) => Err(invalid("input", "is required for `edit`")),
            ("approve" | "deny", Some(_), _) => Err(invalid("input", "must be absent unless the decision is `edit`")),
            (other, ..) => Err(invalid("decision", &format!("must be `approve`, `deny` or `edit`, got `{other}`"))),
        }
    }
}

/// Decides on a call that waits for approval. Returns when the run ends or waits again, or at once with `wait=false`.
#[utoipa::path(post, path = "/api/v1/ai/runs/{id}/approvals/{callId}", tag = TAG, operation_id = "decideApproval", request_body = DecisionBody,
    params(("id" = String, Path), ("callId" = String, Path), ("wait" = Option<bool>, Query)),
    responses((status = 200, body = AgentResponseView), (status = 202, body = AcceptedView)))]
pub(crate) async fn decide(
    State(engine): State<AppState>,
    Caller(session): Caller,
    PathPair(id, call): PathPair,
    QueryParams(params): QueryParams<WaitParam>,
    JsonBody(body): JsonBody<DecisionBody>,
) -> Result<Response, Problem> {
    let run = run_id(&id)?;
    let handle = body.decide(&engine.runs, &session, run, &call, "").await?;
    respond(&engine, &session, run, handle, params.wait).await
}

/// The results of client tools.
#[derive(Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ToolResultsBody {
    results: Vec<ToolResultBody>,
}

/// Sends the results of client tools to a run. Responds when the run ends or waits again, or at once with `wait=false`.
#[utoipa::path(post, path = "/api/v1/ai/runs/{id}/tool-results", tag = TAG, operation_id = "returnToolResults", request_body = ToolResultsBody,
    params(("id" = String, Path), ("wait" = Option<bool>, Query)),
    responses((status = 200, body = AgentResponseView), (status = 202, body = AcceptedView)))]
pub(crate) async fn tool_results(
    State(engine): State<AppState>,
    Caller(session): Caller,
    PathName(id): PathName,
    QueryParams(params): QueryParams<WaitParam>,
    JsonBody(body): JsonBody<ToolResultsBody>,
) -> Result<Response, Problem> {
    let run = run_id(&id)?;
    let results = agents::client_results("/results", body.results)?;
    if results.is_empty() {
        return Err(Problem::invalid("/results", "must have at least one result"));
    }
    let handle = engine.runs.return_results(&session, run, results).await?;
    respond(&engine, &session, run, handle, params.wait).await
}

async fn respond(
    engine: &AppState,
    session: &Session,
    run: RunId,
    handle: AcceptedCommand,
    wait: bool,
) -> Result<Response, Problem> {
    if !wait {
        return Ok((StatusCode::ACCEPTED, Json(AcceptedView::running(run))).into_response());
    }
    let snapshot = handle.settled().await.ok_or_else(journal_lost)?;
    Ok(Json(response_view(engine, session, snapshot).await?).into_response())
}

pub(super) fn run_id(text: &str) -> Result<RunId, Problem> {
    text.parse().map_err(|_| Problem::new(Code::NotFound, format!("run `{text}` does not exist")))
}

fn parse_time(name: &str, text: Option<&str>) -> Result<Option<Timestamp>, Problem> {
    let invalid = |text| Problem::invalid(name, format!("must be a time such as `2026-11-18T09:30:00Z`, got `{text}`"));
    text.map(|text| text.parse().map_err(|_| invalid(text))).transpose()
}

pub(crate) fn parse_optional<T: std::str::FromStr>(name: &str, text: Option<&str>) -> Result<Option<T>, Problem> {
    text.map(|text| text.parse().map_err(|_| Problem::invalid(name, format!("must be an id, got `{text}`"))))
        .transpose()
}
