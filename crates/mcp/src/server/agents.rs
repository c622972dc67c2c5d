//! `tools/call` of an agent: a run of its own, told as it goes on. What the run asks a person goes to the client.

use std::sync::Arc;

use rmcp::model::{CallToolRequestParams, CallToolResponse, CallToolResult, MetaObject};
use rmcp::service::RequestContext;
use rmcp::{ErrorData, RoleServer};
use serde_json::{Map, Value, json};
use toolwright_engine::Session;
use toolwright_engine::agents::{AgentRequest, StartError};
use toolwright_engine::runs::{Seen, SignalError, Snapshot, Watch};
use toolwright_machine::agent::Decision;
use toolwright_machine::timeline::Told;
use toolwright_machine::view;
use toolwright_tools::Hearing;
use toolwright_types::{ErrorCode, RunId, RunStatus, ToolError};

use super::consent::{self, Verdict};
use super::offer::Callable;
use super::progress::Progress;
use super::{Server, results, unavailable};

/// Where the run is, in `_meta` of a result.
const RUN: &str = "toolwright/run";

impl Server {
    pub(super) async fn call_agent(
        &self,
        session: &Session,
        agent: &Callable,
        request: CallToolRequestParams,
        cx: &RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let arguments = Value::Object(request.arguments.clone().unwrap_or_default());
        let arguments = match agent.tool.admit(arguments) {
            Ok(arguments) => arguments,
            Err(violations) => {
                let error =
                    ToolError::new(ErrorCode::ValidationError, "the arguments do not fit").reason("input_schema");
                return Ok(results::of_error(&error.detail("errors", json!(violations))).into());
            }
        };
        let binding =
            json!([session.realm.realm, session.principal.id, agent.tool.content_hash, arguments]).to_string();
        let known = request.request_state.as_deref().and_then(|state| self.0.consents.open(state, &binding));
        let known: Option<RunId> = known.and_then(|state| state.as_str()?.parse().ok());
        let progress = Progress::of(cx);
        let began = match known {
            Some(run) => self.take_up(session, run, &request, &progress).await,
            None => self.start(session, agent, &arguments, cx, &progress).await,
        };
        let mut snapshot = match began {
            Ok(snapshot) => snapshot,
            Err(refused) => return Ok(results::of_error(&refused.0?).into()),
        };
        loop {
            match snapshot.run.status() {
                RunStatus::AwaitingApproval if !consent::can_ask(cx) => return Ok(waits(&snapshot).into()),
                RunStatus::AwaitingApproval if consent::is_stateless(cx) => {
                    let state = self.0.consents.seal(json!(snapshot.run.id()), &binding)?;
                    return Ok(consent::asked(questions(&snapshot), state)?.into());
                }
                RunStatus::AwaitingApproval => {
                    snapshot = match self.ask_for(session, &snapshot, cx, &progress).await {
                        Ok(snapshot) => snapshot,
                        Err(refused) => return Ok(results::of_error(&refused.0?).into()),
                    };
                }
                RunStatus::AwaitingClient => {
                    // Nobody could ever return a result.
                    let _ = self.engine().runs.cancel(session, snapshot.run.id()).await;
                    return Ok(results::of_error(&wants_a_client(&snapshot)).into());
                }
                _ => return Ok(of_run(&snapshot).into()),
            }
        }
    }

    /// Starts a run and follows it to its first rest.
    async fn start(
        &self,
        session: &Session,
        agent: &Callable,
        arguments: &Value,
        cx: &RequestContext<RoleServer>,
        progress: &Progress,
    ) -> Result<Arc<Snapshot>, Refused> {
        let request = AgentRequest {
            message: arguments.get("task").and_then(Value::as_str).unwrap_or_default().to_owned(),
            context: arguments.get("context").and_then(Value::as_object).cloned().unwrap_or_else(Map::new),
            ..AgentRequest::default()
        };
        let engine = self.engine();
        let started = engine.agents.start(session, agent.name(), request).await?;
        let outcome = follow(engine.runs.watch_started(&started), progress, engine.runs.outcome(&started));
        let settled = match cx.ct.run_until_cancelled(outcome).await {
            Some(settled) => settled,
            None => engine.runs.cancel(session, started.run).await?.settled().await,
        };
        settled.ok_or_else(Refused::lost)
    }

    /// Goes on with a run that waited, with what the client brought.
    async fn take_up(
        &self,
        session: &Session,
        run: RunId,
        request: &CallToolRequestParams,
        progress: &Progress,
    ) -> Result<Arc<Snapshot>, Refused> {
        let mut snapshot = self.engine().runs.get(session, run).await?.snapshot;
        for approval in snapshot.run.approvals() {
            // What was not answered is asked again.
            let answer = consent::answer(request.input_responses.as_ref(), approval.call_id.as_str());
            let Some(verdict) = answer else { continue };
            snapshot = self.decide(session, run, approval.call_id, verdict, progress).await?;
        }
        Ok(snapshot)
    }

    /// Asks an older client about everything that a run waits for.
    async fn ask_for(
        &self,
        session: &Session,
        waiting: &Snapshot,
        cx: &RequestContext<RoleServer>,
        progress: &Progress,
    ) -> Result<Arc<Snapshot>, Refused> {
        let mut settled = None;
        for approval in waiting.run.approvals() {
            let verdict = consent::ask(cx, consent::may_call(&approval.tool, &approval.input)).await?;
            settled = Some(self.decide(session, waiting.run.id(), approval.call_id, verdict, progress).await?);
        }
        settled.ok_or_else(Refused::lost)
    }

    async fn decide(
        &self,
        session: &Session,
        run: RunId,
        call: toolwright_types::CallId,
        verdict: Verdict,
        progress: &Progress,
    ) -> Result<Arc<Snapshot>, Refused> {
        let runs = &self.engine().runs;
        let decision = match verdict {
            Verdict::Approved => Decision::Approve,
            Verdict::Denied { reason } => Decision::Deny { reason },
        };
        let steered = runs.decide(session, run, call, decision).await?;
        progress.during("the run", Hearing::nothing(), steered.settled()).await.ok_or_else(Refused::lost)
    }
}

/// Why a run could not be begun or gone on with: something the caller reads, or a failure of the server.
struct Refused(Result<ToolError, ErrorData>);

impl Refused {
    fn lost() -> Self {
        Self(Ok(ToolError::new(ErrorCode::Unknown, "the agent's run was lost").reason("lost")))
    }
}

impl From<ErrorData> for Refused {
    fn from(error: ErrorData) -> Self {
        Self(Err(error))
    }
}

impl From<StartError> for Refused {
    fn from(error: StartError) -> Self {
        match error {
            StartError::Unavailable(error) => Self(Err(unavailable(error))),
            error => Self(Ok(ToolError::new(ErrorCode::PolicyDenied, error.to_string()).reason("agent"))),
        }
    }
}

impl From<SignalError> for Refused {
    fn from(error: SignalError) -> Self {
        match error {
            SignalError::Unavailable(error) => Self(Err(unavailable(error))),
            error => Self(Ok(ToolError::new(ErrorCode::PolicyDenied, error.to_string()).reason("run"))),
        }
    }
}

/// Tells what a run does until it rests.
async fn follow(
    mut watch: Watch,
    progress: &Progress,
    rest: impl Future<Output = Option<Arc<Snapshot>>>,
) -> Option<Arc<Snapshot>> {
    let mut rest = std::pin::pin!(rest);
    loop {
        tokio::select! {
            // What happened is told before it is said that all has: a quick run is at rest before it was looked at.
            biased;
            seen = watch.next() => match seen {
                Some(Seen::Entry { moments, .. }) => {
                    for message in moments.into_iter().filter_map(|moment| told(moment.what)) {
                        progress.say(message).await;
                    }
                }
                Some(_) => {}
                None => return rest.await,
            },
            settled = &mut rest => return settled,
        }
    }
}

fn told(what: Told) -> Option<String> {
    match what {
        Told::Thinking => Some("thinking".to_owned()),
        Told::CallStarted(call) => Some(format!("calling {}", call.invocation.tool_ref)),
        Told::CallEnded(call) => Some(format!("{} ended", call.invocation.tool_ref)),
        Told::ApprovalRequired(asked) => Some(format!("waiting for consent to call {}", asked.tool)),
        Told::Text(_) | Told::Usage { .. } | Told::ClientAction(_) | Told::Ended { .. } => None,
    }
}

fn questions(snapshot: &Snapshot) -> Vec<(String, String)> {
    let approvals = snapshot.run.approvals().into_iter();
    approvals.map(|asked| (asked.call_id.to_string(), consent::may_call(&asked.tool, &asked.input))).collect()
}

/// A run that has ended.
fn of_run(snapshot: &Snapshot) -> CallToolResult {
    let run = &snapshot.run;
    let response = view::agent_response(run, &run.outputs());
    let good = matches!(response.status, RunStatus::Completed | RunStatus::MaxIterations | RunStatus::BudgetExceeded);
    if !good {
        let why = run.ending().and_then(|ending| ending.message.as_deref()).unwrap_or("no reason given");
        let code = if response.status == RunStatus::Timeout { ErrorCode::Timeout } else { ErrorCode::Unknown };
        let error = ToolError::new(code, format!("the agent's run ended {}: {why}", response.status)).reason("agent");
        return with_run(results::of_error(&error), run.id());
    }
    let mut result = results::of_output(&Value::String(response.response_text.clone()));
    result.structured_content = Some(json!({
        "responseText": response.response_text,
        "outputContext": response.output_context,
        "status": response.status,
        "reason": response.reason,
        "runId": run.id(),
    }));
    with_run(result, run.id())
}

/// A run that waits for a person whom the client cannot ask. It is no failure: it goes on when somebody decides.
fn waits(snapshot: &Snapshot) -> CallToolResult {
    let id = snapshot.run.id();
    let calls: Vec<String> = snapshot.run.approvals().into_iter().map(|asked| asked.call_id.to_string()).collect();
    let text = format!(
        "Run {id} waits for a person to decide on {}, and this client cannot ask one. Decide over REST at \
         /api/v1/ai/runs/{id}/approvals/CALL or with `toolwright runs`, then read the resource toolwright://runs/{id}.",
        calls.join(", ")
    );
    let mut result = results::of_output(&Value::String(text));
    result.structured_content = Some(json!({ "status": snapshot.run.status(), "runId": id, "approvals": calls }));
    with_run(result, id)
}

fn wants_a_client(snapshot: &Snapshot) -> ToolError {
    let tools: Vec<String> = snapshot.run.client_actions().into_iter().map(|action| action.tool).collect();
    let message = format!(
        "the agent called {}, whose last step is a client's and which no MCP client can take; run the agent over REST",
        tools.join(", ")
    );
    ToolError::new(ErrorCode::PolicyDenied, message).reason("client_tool")
}

fn with_run(mut result: CallToolResult, run: RunId) -> CallToolResult {
    result.meta = Some(MetaObject::from(Map::from_iter([(RUN.to_owned(), json!(run))])));
    result
}
