//! Executes delegation: an agent calls another agent as a tool. The call starts a child run with a share of the parent
//! run's remaining budget.

use std::sync::{OnceLock, Weak};

use futures::future::BoxFuture;
use serde_json::{Map, Value, json};
use toolwright_machine::view;
use toolwright_tools::ToolFailure;
use toolwright_tools::executor::{Attempt, Backend, BackendReply};
use toolwright_types::{ErrorCode, RunId, RunStatus};

use super::spec::{ParentRun, RunOrigin};
use super::{Agents, Inner};
use toolwright_catalog::Session;
use toolwright_runs::{RunMeta, RunSnapshot};

/// The maximum depth of child runs.
pub(super) const MAX_DELEGATION_DEPTH: u8 = 5;

/// The backend of tools of type AGENT. [`DelegateBackend::bind`] connects it to [`Agents`] after both are created,
/// because of a cycle: `Agents` needs the executor, and the executor needs this backend.
#[derive(Default)]
pub struct DelegateBackend {
    agents: OnceLock<Weak<Inner>>,
}

impl DelegateBackend {
    /// Connects the backend to the agents. Later calls have no effect.
    pub fn bind(&self, agents: &Agents) {
        let _ = self.agents.set(agents.downgrade());
    }

    async fn call(&self, attempt: Attempt<'_>) -> Result<BackendReply, ToolFailure> {
        let agents = self.agents.get().and_then(Weak::upgrade).map(Agents);
        let agents = agents.ok_or_else(|| denied("no_agents", "agents cannot run in this context".into()))?;
        let cx = attempt.cx;
        let name = attempt.tool.definition.invocation.path.as_deref().unwrap_or_default();
        let Some(RunMeta { start: parent, home, owner }) = agents.0.runs.meta(cx.run) else {
            return Err(denied("not_in_a_run", format!("agent `{name}` can only be called by another agent")));
        };
        if parent.depth >= MAX_DELEGATION_DEPTH {
            return Err(denied("too_deep", format!("agents may delegate at most {MAX_DELEGATION_DEPTH} levels deep")));
        }
        // The call has the permissions of the calling run, like a call to any other tool.
        let correlation = cx.caller.correlation_id.clone();
        let session = Session {
            hops: cx.hops,
            correlation: correlation.clone(),
            ..Session::new(cx.principal.clone(), cx.realm.clone())
        };
        let refused = |error: super::StartError| denied("delegate", error.to_string());
        let agent = agents.find(&session, name).await.map_err(refused)?;
        agents.check_may_run(&session, &agent).map_err(refused)?;
        let principal = agents.effective_principal(&session, &agent, None).await.map_err(refused)?;
        let run = child_run_id(attempt.idempotency_key.as_str());
        let lost = || ToolFailure::fatal(ErrorCode::Unknown, "the agent's run was lost");
        let snapshot = match agents.0.runs.wait_for_rest(&home, run).await.map_err(|error| unread(&error))? {
            // The child run already exists, because an earlier attempt of this call started it.
            Some(snapshot) => snapshot,
            None => {
                let origin = RunOrigin {
                    run,
                    realm: cx.realm.clone(),
                    home,
                    owner: (owner, parent.owner.clone()),
                    principal,
                    parent: Some(ParentRun {
                        call: attempt.call_id.clone(),
                        start: parent,
                        allowance: cx.resources.allowance,
                    }),
                    conversation: None,
                    session: cx.caller.session.clone(),
                    hops: cx.hops,
                    correlation,
                };
                let task = attempt.input.get("task").and_then(Value::as_str).unwrap_or_default().to_owned();
                let context = attempt.input.get("context").and_then(Value::as_object).cloned().unwrap_or_else(Map::new);
                let draft = agents.draft_run(&agent, origin, context, task).await.map_err(refused)?;
                let launched = agents.launch(draft, Vec::new()).await;
                let handle = launched.map_err(|error| denied("delegate", error.to_string()))?;
                agents.0.runs.settled(&handle).await.ok_or_else(lost)?
            }
        };
        if snapshot.run.ending().is_some() {
            return outcome(&snapshot);
        }
        // The child run is suspended. The message to `pause` makes the executor drop this future. The parent run
        // repeats the call when the child run has ended.
        if let Some(pause) = &cx.resources.pause {
            pause.send((run, snapshot.run.status()));
        }
        std::future::pending().await
    }
}

impl Backend for DelegateBackend {
    fn attempt<'a>(&'a self, attempt: Attempt<'a>) -> BoxFuture<'a, Result<BackendReply, ToolFailure>> {
        Box::pin(self.call(attempt))
    }
}

fn outcome(snapshot: &RunSnapshot) -> Result<BackendReply, ToolFailure> {
    let run = &snapshot.run;
    let response = view::agent_response(run, &run.outputs());
    let cost_usd = Some(run.resource_usage().cost_usd);
    if matches!(response.status, RunStatus::Completed | RunStatus::MaxIterations | RunStatus::BudgetExceeded) {
        let output = json!({
            "responseText": response.response_text,
            "outputContext": response.output_context,
            "status": response.status,
            "reason": response.reason,
            "runId": run.id(),
            "usage": run.resource_usage().usage,
            "toolCallsUsed": run.resource_usage().tool_calls,
        });
        return Ok(BackendReply { cost_usd, ..BackendReply::from_output(output) });
    }
    let (code, message) = match (response.status, run.ending()) {
        (RunStatus::Timeout, _) => (ErrorCode::Timeout, "the agent took too long".to_owned()),
        (status, ending) => {
            let why = ending.and_then(|ending| ending.message.as_deref()).unwrap_or("no reason given");
            (ErrorCode::Unknown, format!("the agent's run ended {status}: {why}"))
        }
    };
    let mut failure = ToolFailure::fatal(code, message).reason("delegate");
    failure.error = failure.error.detail("runId", json!(run.id())).detail("usage", json!(run.resource_usage().usage));
    failure.error = failure.error.detail("toolCallsUsed", run.resource_usage().tool_calls);
    failure.cost_usd = cost_usd;
    Err(failure)
}

/// Derives the id of a child run from the idempotency key of its call. So a repeated call finds the child run that the
/// first attempt started.
pub(super) fn child_run_id(key: &str) -> RunId {
    let digest = toolwright_types::json::digest(&json!([key, "run"]));
    RunId::from_bits(digest.iter().take(16).fold(0, |bits, byte| (bits << 8) | u128::from(*byte)))
}

fn unread(error: &toolwright_catalog::Unavailable) -> ToolFailure {
    tracing::error!(error = error as &dyn std::error::Error, "child run cannot be read");
    ToolFailure::fatal(ErrorCode::Unknown, "the agent's run cannot be read")
}

fn denied(reason: &str, message: String) -> ToolFailure {
    ToolFailure::fatal(ErrorCode::PolicyDenied, message).reason(reason)
}
