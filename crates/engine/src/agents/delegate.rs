//! Agents as tools of agents: a call starts a run of its own, under what the calling run has left.

use std::sync::{OnceLock, Weak};

use futures::future::BoxFuture;
use serde_json::{Map, Value, json};
use toolwright_machine::view;
use toolwright_tools::ToolFailure;
use toolwright_tools::executor::{Attempt, Backend, Reply};
use toolwright_types::{ErrorCode, RunId, RunStatus};

use super::spec::{Origin, Parent};
use super::{Agents, Inner};
use crate::access::Session;
use crate::runs::{Birth, Snapshot};

/// How many runs may start runs in a row.
const DEEPEST: u8 = 5;

/// Runs AGENT tools. Knows the agents only once they exist: they need the executor, which needs this.
#[derive(Default)]
pub(crate) struct Delegation {
    agents: OnceLock<Weak<Inner>>,
}

impl Delegation {
    pub fn bind(&self, agents: &Agents) {
        let _ = self.agents.set(agents.downgrade());
    }

    async fn call(&self, attempt: Attempt<'_>) -> Result<Reply, ToolFailure> {
        let agents = self.agents.get().and_then(Weak::upgrade).map(Agents);
        let agents = agents.ok_or_else(|| denied("no_agents", "agents cannot be run here".into()))?;
        let cx = attempt.cx;
        let name = attempt.tool.definition.invocation.path.as_deref().unwrap_or_default();
        let Some(Birth { began: whole, home, owner }) = agents.0.runs.birth(cx.run) else {
            return Err(denied("not_in_a_run", format!("agent `{name}` can only be called by another agent")));
        };
        if whole.depth >= DEEPEST {
            return Err(denied("too_deep", format!("agents have delegated {DEEPEST} times in a row")));
        }
        // The caller acts on its own authority here, as at every other tool.
        let session = Session { principal: cx.principal.clone(), realm: cx.realm.clone() };
        let refused = |error: super::StartError| denied("delegate", error.to_string());
        let agent = agents.find(&session, name).await.map_err(refused)?;
        agents.may_run(&session, &agent).map_err(refused)?;
        let (principal, _) = agents.effective(&session, &agent, None).await.map_err(refused)?;
        let run = child_of(attempt.idempotency_key.as_str());
        let lost = || ToolFailure::fatal(ErrorCode::Unknown, "the agent's run was lost");
        let snapshot = match agents.0.runs.rest_of(&home, run).await.map_err(|error| unread(&error))? {
            // The call is made once more, because the run it started has gone on.
            Some(snapshot) => snapshot,
            None => {
                let origin = Origin {
                    run,
                    realm: cx.realm.clone(),
                    home,
                    owner: (owner, whole.owner.clone()),
                    principal,
                    parent: Some(Parent { call: attempt.call_id.clone(), began: whole, allowance: cx.lent.allowance }),
                    conversation: None,
                    session: cx.caller.session.clone(),
                };
                let task = attempt.input.get("task").and_then(Value::as_str).unwrap_or_default().to_owned();
                let context = attempt.input.get("context").and_then(Value::as_object).cloned().unwrap_or_else(Map::new);
                let draft = agents.draft(&agent, origin, context, task).await.map_err(refused)?;
                let launched = agents.launch(draft, Vec::new()).await;
                let live = launched.map_err(|error| denied("delegate", error.to_string()))?;
                agents.0.runs.settled(&live).await.ok_or_else(lost)?
            }
        };
        if snapshot.run.ending().is_some() {
            return outcome(&snapshot);
        }
        // It waits for somebody, and so does this call: whoever made it drops it, and makes it again when there is news.
        if let Some(pause) = &cx.lent.pause {
            pause.say((run, snapshot.run.status()));
        }
        std::future::pending().await
    }
}

impl Backend for Delegation {
    fn attempt<'a>(&'a self, attempt: Attempt<'a>) -> BoxFuture<'a, Result<Reply, ToolFailure>> {
        Box::pin(self.call(attempt))
    }
}

fn outcome(snapshot: &Snapshot) -> Result<Reply, ToolFailure> {
    let run = &snapshot.run;
    let response = view::agent_response(run, &run.outputs());
    let cost_usd = Some(run.spent().cost_usd);
    if matches!(response.status, RunStatus::Completed | RunStatus::MaxIterations | RunStatus::BudgetExceeded) {
        let output = json!({
            "responseText": response.response_text,
            "outputContext": response.output_context,
            "status": response.status,
            "reason": response.reason,
            "runId": run.id(),
            "usage": run.spent().usage,
            "toolCallsUsed": run.spent().tool_calls,
        });
        return Ok(Reply { cost_usd, ..Reply::of(output) });
    }
    let (code, message) = match (response.status, run.ending()) {
        (RunStatus::Timeout, _) => (ErrorCode::Timeout, "the agent took too long".to_owned()),
        (status, ending) => {
            let why = ending.and_then(|ending| ending.message.as_deref()).unwrap_or("no reason given");
            (ErrorCode::Unknown, format!("the agent's run ended {status}: {why}"))
        }
    };
    let mut failure = ToolFailure::fatal(code, message).reason("delegate");
    failure.error = failure.error.detail("runId", json!(run.id())).detail("usage", json!(run.spent().usage));
    failure.error = failure.error.detail("toolCallsUsed", run.spent().tool_calls);
    failure.cost_usd = cost_usd;
    Err(failure)
}

/// The same for the same call of the same run, so that a restart finds the run it had started.
pub(super) fn child_of(key: &str) -> RunId {
    let digest = toolwright_types::json::digest(&json!([key, "run"]));
    RunId::from_bits(digest.iter().take(16).fold(0, |bits, byte| (bits << 8) | u128::from(*byte)))
}

fn unread(error: &crate::Unavailable) -> ToolFailure {
    tracing::error!(error = error as &dyn std::error::Error, "a delegate's run cannot be read");
    ToolFailure::fatal(ErrorCode::Unknown, "the agent's run cannot be read now")
}

fn denied(reason: &str, message: String) -> ToolFailure {
    ToolFailure::fatal(ErrorCode::PolicyDenied, message).reason(reason)
}
