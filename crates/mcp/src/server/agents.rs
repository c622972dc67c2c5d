//! Handles `tools/call` of an agent: starts a run, reports its progress, and asks the user for approvals through the
//! client (elicitation).

use std::sync::Arc;

use rmcp::model::{CallToolRequestParams, CallToolResponse, CallToolResult, MetaObject};
use rmcp::service::RequestContext;
use rmcp::{ErrorData, RoleServer};
use serde_json::{Map, Value, json};
use toolwright_agents::{AgentRequest, StartError};
use toolwright_catalog::Session;
use toolwright_machine::agent::{ApprovalRequest, Decision};
use toolwright_machine::timeline::RunUpdateKind;
use toolwright_machine::view;
use toolwright_runs::{CommandError, RunSnapshot, RunWatch, WatchEvent};
use toolwright_tools::UpdateReceiver;
use toolwright_types::{CallId, ErrorCode, RunId, RunStatus, ToolError};

use super::consent::{self, ConsentDecision};
use super::progress::Progress;
use super::shown_input::TooManyValues;
use super::tool_listing::Callable;
use super::{Server, results, unavailable};

/// The name of the field in a result's `_meta` that contains the run id.
const RUN_META_KEY: &str = "toolwright/run";

impl Server {
    pub(super) async fn call_agent(
        &self,
        session: &Session,
        agent: &Callable,
        request: CallToolRequestParams,
        cx: &RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let arguments = Value::Object(request.arguments.clone().unwrap_or_default());
        let arguments = match agent.tool.validate_input(arguments).await {
            Ok(arguments) => arguments,
            Err(violations) => {
                let error = ToolError::new(ErrorCode::ValidationError, "the arguments do not match the input schema")
                    .reason("input_schema");
                return Ok(results::from_error(&error.detail("errors", json!(violations))).into());
            }
        };
        let binding =
            json!([session.realm.realm, session.principal.id, agent.tool.content_hash, arguments]).to_string();
        let waiting_run =
            request.request_state.as_deref().and_then(|state| self.0.consent_tokens.open(state, &binding));
        let waiting_run: Option<RunId> = waiting_run.and_then(|state| state.as_str()?.parse().ok());
        let progress = Progress::from_context(cx);
        let started = match waiting_run {
            Some(run) => self.resume(session, run, &request, &progress).await,
            None => self.start(session, agent, &arguments, cx, &progress).await,
        };
        let mut snapshot = match started {
            Ok(snapshot) => snapshot,
            Err(error) => return Ok(results::from_error(&error.0?).into()),
        };
        loop {
            match snapshot.run.status() {
                RunStatus::AwaitingApproval => {
                    // If the input of a call cannot be shown in the MCP client, a user can read and approve it over
                    // REST.
                    let prompts = approval_prompts(&snapshot).ok().filter(|_| consent::supports_elicitation(cx));
                    let Some(prompts) = prompts else { return Ok(awaiting_approval_result(&snapshot).into()) };
                    if consent::is_stateless(cx) {
                        let state = self.0.consent_tokens.seal(json!(snapshot.run.id()), &binding)?;
                        let prompts = prompts.into_iter().map(|(call, text)| (call.to_string(), text));
                        return Ok(consent::input_required(prompts, state)?.into());
                    }
                    snapshot = match self.elicit_approvals(session, &snapshot, prompts, cx, &progress).await {
                        Ok(snapshot) => snapshot,
                        Err(error) => return Ok(results::from_error(&error.0?).into()),
                    };
                }
                RunStatus::AwaitingClient => {
                    // An MCP client cannot execute client tools, so the run can never continue.
                    let _ = self.engine().runs.cancel(session, snapshot.run.id()).await;
                    return Ok(results::from_error(&client_tool_error(&snapshot)).into());
                }
                _ => return Ok(run_result(&snapshot).into()),
            }
        }
    }

    /// Starts a run and reports its progress until the run ends or is suspended.
    async fn start(
        &self,
        session: &Session,
        agent: &Callable,
        arguments: &Value,
        cx: &RequestContext<RoleServer>,
        progress: &Progress,
    ) -> Result<Arc<RunSnapshot>, AgentCallError> {
        let request = AgentRequest {
            message: arguments.get("task").and_then(Value::as_str).unwrap_or_default().to_owned(),
            context: arguments.get("context").and_then(Value::as_object).cloned().unwrap_or_else(Map::new),
            ..AgentRequest::default()
        };
        let engine = self.engine();
        let started = engine.agents.start(session, agent.name(), request).await?;
        let outcome = report_until_settled(
            engine.runs.watch_handle(&started.handle),
            progress,
            engine.runs.settled(&started.handle),
        );
        let settled = match cx.ct.run_until_cancelled(outcome).await {
            Some(settled) => settled,
            None => engine.runs.cancel(session, started.run).await?.settled().await,
        };
        settled.ok_or_else(AgentCallError::lost)
    }

    /// Continues a suspended run with the decisions that the client sent.
    async fn resume(
        &self,
        session: &Session,
        run: RunId,
        request: &CallToolRequestParams,
        progress: &Progress,
    ) -> Result<Arc<RunSnapshot>, AgentCallError> {
        let mut snapshot = self.engine().runs.get(session, run).await?.snapshot;
        for approval in snapshot.run.pending_approvals() {
            // An approval without a decision is skipped here and requested again later.
            let decision = consent::parse_decision(request.input_responses.as_ref(), approval.call_id.as_str());
            let Some(decision) = decision else { continue };
            snapshot = self.decide(session, run, approval.call_id, decision, progress).await?;
        }
        Ok(snapshot)
    }

    /// Asks the user for a decision on every pending approval, through a client that has an MCP session.
    async fn elicit_approvals(
        &self,
        session: &Session,
        waiting: &RunSnapshot,
        prompts: Vec<(CallId, String)>,
        cx: &RequestContext<RoleServer>,
        progress: &Progress,
    ) -> Result<Arc<RunSnapshot>, AgentCallError> {
        let mut settled = None;
        for (call, text) in prompts {
            let decision = consent::elicit(cx, text).await?;
            settled = Some(self.decide(session, waiting.run.id(), call, decision, progress).await?);
        }
        settled.ok_or_else(AgentCallError::lost)
    }

    async fn decide(
        &self,
        session: &Session,
        run: RunId,
        call: CallId,
        decision: ConsentDecision,
        progress: &Progress,
    ) -> Result<Arc<RunSnapshot>, AgentCallError> {
        let runs = &self.engine().runs;
        let decision = match decision {
            ConsentDecision::Approved => Decision::Approve,
            ConsentDecision::Denied { reason } => Decision::Deny { reason },
        };
        let steered = runs.decide(session, run, call, decision, None).await?;
        progress
            .report_during("the run", UpdateReceiver::never(), steered.settled())
            .await
            .ok_or_else(AgentCallError::lost)
    }
}

/// The reason why an agent call failed: a tool error that the caller receives as a result, or a JSON-RPC error.
struct AgentCallError(Result<ToolError, ErrorData>);

impl AgentCallError {
    fn lost() -> Self {
        Self(Ok(ToolError::new(ErrorCode::Unknown, "the agent's run was lost; its journal could not be written")
            .reason("lost")))
    }
}

impl From<ErrorData> for AgentCallError {
    fn from(error: ErrorData) -> Self {
        Self(Err(error))
    }
}

impl From<StartError> for AgentCallError {
    fn from(error: StartError) -> Self {
        match error {
            StartError::Unavailable(error) => Self(Err(unavailable(error))),
            error => Self(Ok(ToolError::new(ErrorCode::PolicyDenied, error.to_string()).reason("agent"))),
        }
    }
}

impl From<CommandError> for AgentCallError {
    fn from(error: CommandError) -> Self {
        match error {
            CommandError::Unavailable(error) => Self(Err(unavailable(error))),
            error => Self(Ok(ToolError::new(ErrorCode::PolicyDenied, error.to_string()).reason("run"))),
        }
    }
}

/// Reports the updates of a run until the run ends or is suspended.
async fn report_until_settled(
    mut watch: RunWatch,
    progress: &Progress,
    rest: impl Future<Output = Option<Arc<RunSnapshot>>>,
) -> Option<Arc<RunSnapshot>> {
    let mut rest = std::pin::pin!(rest);
    loop {
        tokio::select! {
            // If an update and the end of the run are ready at the same time, the update is handled first. All updates
            // of a short run are therefore reported.
            biased;
            seen = watch.next() => match seen {
                Some(WatchEvent::Entry { updates, .. }) => {
                    for message in updates.into_iter().filter_map(|update| progress_message(update.kind)) {
                        progress.report(message).await;
                    }
                }
                Some(_) => {}
                None => return rest.await,
            },
            settled = &mut rest => return settled,
        }
    }
}

fn progress_message(update: RunUpdateKind) -> Option<String> {
    match update {
        RunUpdateKind::Thinking => Some("thinking".to_owned()),
        RunUpdateKind::CallStarted(call) => Some(format!("calling {}", call.invocation.tool_ref)),
        RunUpdateKind::CallEnded(call) => Some(format!("{} ended", call.invocation.tool_ref)),
        RunUpdateKind::ApprovalRequired(approval) => Some(format!("waiting for approval to call {}", approval.tool)),
        RunUpdateKind::ChildWaiting(child) => Some(format!("{} waits in run {}", child.tool, child.run)),
        RunUpdateKind::Text(_)
        | RunUpdateKind::Usage { .. }
        | RunUpdateKind::ClientAction(_)
        | RunUpdateKind::Ended { .. } => None,
    }
}

/// Returns the question for each pending approval. Fails if an input cannot be shown.
fn approval_prompts(snapshot: &RunSnapshot) -> Result<Vec<(CallId, String)>, TooManyValues> {
    let approvals = snapshot.run.pending_approvals().into_iter();
    let prompt = |approval: ApprovalRequest| {
        let text = consent::confirmation_text(&approval.tool, &approval.input)?;
        Ok((approval.call_id, text))
    };
    approvals.map(prompt).collect()
}

/// The result of a run that ended.
fn run_result(snapshot: &RunSnapshot) -> CallToolResult {
    let run = &snapshot.run;
    let response = view::agent_response(run, &run.outputs());
    let succeeded =
        matches!(response.status, RunStatus::Completed | RunStatus::MaxIterations | RunStatus::BudgetExceeded);
    if !succeeded {
        let message = run.ending().and_then(|ending| ending.message.as_deref()).unwrap_or("no reason given");
        let code = if response.status == RunStatus::Timeout { ErrorCode::Timeout } else { ErrorCode::Unknown };
        let error = ToolError::new(code, format!("the agent's run ended with status {}: {message}", response.status))
            .reason("agent");
        return with_run_id(results::from_error(&error), run.id());
    }
    let mut result = results::from_output(&Value::String(response.response_text.clone()));
    result.structured_content = Some(json!({
        "responseText": response.response_text,
        "outputContext": response.output_context,
        "status": response.status,
        "reason": response.reason,
        "runId": run.id(),
    }));
    with_run_id(result, run.id())
}

/// The result of a run that waits for approvals, for a client that does not support elicitation. It is not an error:
/// the run continues when a user decides elsewhere.
fn awaiting_approval_result(snapshot: &RunSnapshot) -> CallToolResult {
    let id = snapshot.run.id();
    let calls: Vec<String> =
        snapshot.run.pending_approvals().into_iter().map(|approval| approval.call_id.to_string()).collect();
    let text = format!(
        "Run {id} waits for approval of {}, and this client does not support elicitation. Decide over REST at \
         /api/v1/ai/runs/{id}/approvals/CALL or with `toolwright runs`, then read the resource toolwright://runs/{id}.",
        calls.join(", ")
    );
    let mut result = results::from_output(&Value::String(text));
    result.structured_content = Some(json!({ "status": snapshot.run.status(), "runId": id, "approvals": calls }));
    with_run_id(result, id)
}

fn client_tool_error(snapshot: &RunSnapshot) -> ToolError {
    let tools: Vec<String> = snapshot.run.pending_client_actions().into_iter().map(|action| action.tool).collect();
    let message = format!(
        "the agent called {}, which a client has to complete; MCP clients cannot do that, so run the agent over REST",
        tools.join(", ")
    );
    ToolError::new(ErrorCode::PolicyDenied, message).reason("client_tool")
}

fn with_run_id(mut result: CallToolResult, run: RunId) -> CallToolResult {
    result.meta = Some(MetaObject::from(Map::from_iter([(RUN_META_KEY.to_owned(), json!(run))])));
    result
}
