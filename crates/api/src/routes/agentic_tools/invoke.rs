//! Invokes agentic tools: a direct call, with the trace and the cost of its run in the response.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use toolwright_agents::{AgenticResult, agentic_result};
use toolwright_catalog::Session;
use toolwright_runs::{DirectOutcome, RunHandle, RunSnapshot};
use toolwright_tools::{CallRequest, CompiledTool};
use toolwright_types::{ExecutionMode, RunId, RunStatus, ToolEnvelope, ToolError, ToolType};

use super::TAG;
use super::call_order::merge_calls;
use super::document::VIEWS;
use super::execution_views::{CostBreakdown, ExecutionStatus};
use crate::extract::{Caller, JsonBody};
use crate::problem::Problem;
use crate::routes::agents::{journal_lost, response_view};
use crate::routes::tools::{parse_requirement, split_reference};
use crate::run_views::{ApprovalView, ClientActionView};
use crate::state::AppState;

/// A call to an agentic tool.
#[derive(Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct InvokeBody {
    /// The slug or id of the tool, with an optional version: `deal-manager@1.2.0`.
    #[serde(default)]
    #[schema(value_type = String, required = true)]
    tool: Option<String>,
    /// The input of the tool.
    #[serde(default)]
    params: Value,
}

/// The result of an invocation.
#[derive(Serialize, Deserialize, utoipa::ToSchema)]
pub struct InvocationView {
    /// Whether the tool has a result.
    pub success: bool,
    /// The status of the run. Present if the run waits for an approval or a client, or if it did not complete.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<RunStatus>,
    /// The result; null if the call failed or waits.
    pub data: Value,
    /// Why the call failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<ToolError>,
    /// The calls that wait for approval.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub approvals: Vec<ApprovalView>,
    /// The actions that the client has to perform.
    #[serde(rename = "clientActions", default, skip_serializing_if = "Vec::is_empty")]
    pub client_actions: Vec<ClientActionView>,
    /// Problems that did not stop the execution.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
    /// The execution.
    pub meta: InvocationMeta,
}

/// Data about the execution of an invocation.
#[derive(Debug, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct InvocationMeta {
    /// The slug of the tool.
    pub agentic_tool: String,
    /// The id of the execution, which is the id of its run. If the call was refused before the model was called, the id
    /// of the refused direct call's run. The route of executions returns both.
    pub execution_id: String,
    /// How the tool uses its model.
    pub mode: ExecutionMode,
    /// The cost in US dollars.
    pub total_cost: f64,
    /// The number of tokens.
    pub total_tokens: u64,
    /// The duration in milliseconds.
    pub duration_ms: u64,
    /// The calls to the model and to tools.
    pub trace: TraceView,
}

/// The calls of an execution.
#[derive(Debug, Default, Serialize, Deserialize, utoipa::ToSchema)]
pub struct TraceView {
    /// The calls, in the order of their start.
    pub steps: Vec<TraceStep>,
}

/// A call that an execution made to its model or to a tool.
#[derive(Debug, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct TraceStep {
    /// `llm_call` or `tool_call`.
    #[serde(rename = "type")]
    pub kind: String,
    /// For a call to the model: the purpose, such as `planning`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub purpose: Option<String>,
    /// For a call to a tool: the name of the tool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub action: Option<String>,
    /// For a call to the model: the number of tokens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens: Option<u64>,
    /// The cost in US dollars.
    pub cost: f64,
    /// The duration in milliseconds.
    pub latency_ms: u64,
    /// For a call to a tool: `success` or `error`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<String>,
}

/// Invokes an agentic tool. If the invocation waits for an approval or a client, the status of the response is 202. The
/// client then decides each approval under the `runId` in `approvals`, and reads the execution.
#[utoipa::path(post, path = "/api/v1/agentic-tools/invoke", tag = TAG, operation_id = "invokeAgenticTool", request_body = InvokeBody,
    responses((status = 200, body = InvocationView), (status = 202, body = InvocationView)))]
pub(super) async fn invoke(
    State(engine): State<AppState>,
    Caller(session): Caller,
    JsonBody(body): JsonBody<InvokeBody>,
) -> Result<Response, Problem> {
    let reference = body.tool.ok_or_else(|| Problem::invalid("/tool", "is required"))?;
    let tool = find_tool(&engine, &session, &reference).await?;
    let (name, version) = split_reference(&reference);
    let version = version.map(parse_requirement).transpose()?;
    let input = if body.params.is_null() { json!({}) } else { body.params };
    let request = CallRequest { tool: name.to_owned(), version, input };
    let (run, outcome) = engine.calls.execute(&session, request).await?;
    match outcome {
        DirectOutcome::Done(envelope) => {
            let child = envelope.metadata.child_run.as_ref().map(|child| child.run_id);
            let snapshot = match child {
                Some(child) => Some(engine.runs.get(&session, child).await?.snapshot),
                None => None,
            };
            Ok(Json(ended(&tool, run, &envelope, snapshot.as_deref())).into_response())
        }
        DirectOutcome::Waiting(snapshot) => {
            let child = snapshot.run.suspended_children().first().map(|child| child.run);
            let waiting = response_view(&engine, &session, Arc::clone(&snapshot)).await?;
            let child = match child {
                Some(child) => engine.runs.get(&session, child).await?.snapshot,
                None => snapshot,
            };
            let (status, meta) = (child.run.status(), InvocationMeta::new(&tool, child.run.id(), Some(&child)));
            Ok(waits(status, waiting.approvals, waiting.client_actions, meta))
        }
    }
}

/// Waits for a run of the tool to end or to suspend, and responds with its result.
pub(super) async fn respond_with_run(
    engine: &AppState,
    session: &Session,
    tool: &CompiledTool,
    handle: &Arc<RunHandle>,
) -> Result<Response, Problem> {
    let snapshot = engine.runs.settled(handle).await.ok_or_else(journal_lost)?;
    let meta = InvocationMeta::new(tool, snapshot.run.id(), Some(&snapshot));
    let Some(AgenticResult { output, warnings }) = agentic_result(&snapshot) else {
        let status = snapshot.run.status();
        let waiting = response_view(engine, session, snapshot).await?;
        return Ok(waits(status, waiting.approvals, waiting.client_actions, meta));
    };
    let (data, error) = match output {
        Ok(data) => (data, None),
        Err(error) => (Value::Null, Some(error)),
    };
    let view = InvocationView {
        success: error.is_none(),
        status: unless_completed(&snapshot),
        data,
        error,
        approvals: Vec::new(),
        client_actions: Vec::new(),
        warnings,
        meta,
    };
    Ok(Json(view).into_response())
}

fn waits(
    status: RunStatus,
    approvals: Vec<ApprovalView>,
    client_actions: Vec<ClientActionView>,
    meta: InvocationMeta,
) -> Response {
    let view = InvocationView {
        success: false,
        status: Some(status),
        data: Value::Null,
        error: None,
        approvals,
        client_actions,
        warnings: Vec::new(),
        meta,
    };
    (StatusCode::ACCEPTED, Json(view)).into_response()
}

fn ended(tool: &CompiledTool, run: RunId, envelope: &ToolEnvelope, snapshot: Option<&RunSnapshot>) -> InvocationView {
    let execution = envelope.metadata.child_run.as_ref().map_or(run, |child| child.run_id);
    let mut meta = InvocationMeta::new(tool, execution, snapshot);
    meta.duration_ms = envelope.t_end.millis_since(envelope.t_start);
    InvocationView {
        success: envelope.is_success(),
        status: snapshot.and_then(unless_completed),
        data: envelope.output.clone(),
        error: envelope.error.clone(),
        approvals: Vec::new(),
        client_actions: Vec::new(),
        warnings: envelope.metadata.warnings.clone(),
        meta,
    }
}

fn unless_completed(snapshot: &RunSnapshot) -> Option<RunStatus> {
    Some(snapshot.run.status()).filter(|status| *status != RunStatus::Completed)
}

impl InvocationMeta {
    fn new(tool: &CompiledTool, execution: RunId, snapshot: Option<&RunSnapshot>) -> Self {
        let mode = tool.definition.agentic.as_ref().map_or(ExecutionMode::Agentic, |config| config.execution_mode);
        let costs = snapshot.map(CostBreakdown::new);
        Self {
            agentic_tool: tool.definition.ref_name.to_string(),
            execution_id: execution.to_string(),
            mode,
            total_cost: costs.as_ref().map_or(0.0, |costs| costs.total_cost),
            total_tokens: costs.as_ref().map_or(0, |costs| costs.total_tokens),
            duration_ms: snapshot.map_or(0, |snapshot| snapshot.run.resource_usage().active_us / 1000),
            trace: TraceView { steps: snapshot.map(trace).unwrap_or_default() },
        }
    }
}

/// Returns the calls of a run to its model and to tools, in the order of their start.
fn trace(snapshot: &RunSnapshot) -> Vec<TraceStep> {
    let run = &snapshot.run;
    let model = run.model_calls().iter().map(|call| {
        let step = TraceStep {
            kind: "llm_call".to_owned(),
            purpose: Some(call.purpose.as_str().to_owned()),
            action: None,
            tokens: Some(call.usage.total()),
            cost: call.cost_usd.unwrap_or(0.0),
            latency_ms: call.ended_at.millis_since(call.started_at),
            status: None,
        };
        (call.started_at, step)
    });
    let outputs = run.outputs();
    let tools = outputs.in_order().map(|envelope| {
        let step = TraceStep {
            kind: "tool_call".to_owned(),
            purpose: None,
            action: Some(envelope.name.clone()),
            tokens: None,
            cost: envelope.metadata.cost_usd.unwrap_or(0.0),
            latency_ms: envelope.t_end.millis_since(envelope.t_start),
            status: Some(if envelope.is_success() { "success" } else { "error" }.to_owned()),
        };
        (envelope.t_start, step)
    });
    merge_calls(model, tools)
}

/// Returns the compiled agentic tool that a reference names.
pub(super) async fn find_tool(
    engine: &AppState,
    session: &Session,
    reference: &str,
) -> Result<Arc<CompiledTool>, Problem> {
    let (name, version) = split_reference(reference);
    let version = version.map(parse_requirement).transpose()?;
    let found = engine.calls.find(&session.realm, name, version.as_ref()).await?;
    let agentic = found.filter(|tool| tool.definition.tool_type == ToolType::Agentic);
    if let Some(tool) = agentic {
        return Ok(tool);
    }
    let draft = VIEWS.find(&engine.registry, session, name).await?;
    if let (Some(version), Some((_, wanted))) = (&version, reference.split_once('@')) {
        let versions = engine.registry.catalog().versions(&session.realm, name).await?;
        let available: Vec<String> = versions.iter().map(|tool| tool.definition.version.to_string()).collect();
        if !versions.iter().any(|tool| version.matches(&tool.definition.version)) {
            let available = available.join(", ");
            let detail = format!("no version of agentic tool `{name}` matches `{wanted}`; it has {available}");
            return Err(Problem::invalid("/tool", detail));
        }
    }
    let detail = format!(
        "agentic tool `{name}` has no active version; activate it with `status: active`, or name the version: `{name}@{}`",
        draft.body.version
    );
    Err(Problem::invalid("/tool", detail))
}

/// Returns the run statuses that correspond to an execution status. The list is empty if `status` is `None`.
pub(super) fn run_statuses(status: Option<&str>) -> Result<Vec<RunStatus>, Problem> {
    let Some(text) = status else { return Ok(Vec::new()) };
    let wanted: Result<ExecutionStatus, _> = serde_json::from_value(json!(text));
    let rule = "must be `running`, `success`, `error` or `timeout`";
    let wanted = wanted.map_err(|_| Problem::invalid("status", format!("{rule}, got `{text}`")))?;
    Ok(RunStatus::ALL.into_iter().filter(|status| ExecutionStatus::of(*status) == wanted).collect())
}
