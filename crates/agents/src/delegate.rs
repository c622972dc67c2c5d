//! Executes calls to agents, workflows, agentic tools and composite tools. Each of these calls starts a run. The child run gets a
//! share of the parent run's remaining budget.

use std::sync::{Arc, OnceLock, Weak};

use futures::future::BoxFuture;
use serde_json::{Map, Value, json};
use toolwright_machine::view;
use toolwright_tools::executor::{Attempt, Backend, BackendReply};
use toolwright_tools::{CompiledTool, RunFunction, ToolFailure};
use toolwright_types::{ChildRun, ErrorCode, RunStatus, SideEffects, ToolType};

use super::agentic::{self, AgenticCall};
use super::composite;
use super::spec::{ParentRun, RunDraft, RunOrigin};
use super::workflow::{self, WorkflowCall};
use super::{Agents, Inner, StartError};
use toolwright_catalog::Session;
use toolwright_runs::{RunMeta, RunSnapshot, child_run_id};

/// The maximum depth of child runs.
pub(super) const MAX_DELEGATION_DEPTH: u8 = 5;

/// The backend of tools of type AGENT, WORKFLOW, AGENTIC and COMPOSITE, and of functions that run an agent or a workflow.
/// [`DelegateBackend::bind`] connects it to [`Agents`] after
/// both are created, because of a cycle: `Agents` needs the executor, and the executor needs this backend.
#[derive(Default)]
pub struct DelegateBackend {
    agents: OnceLock<Weak<Inner>>,
}

impl DelegateBackend {
    /// Connects the backend to the agents. Only the first call of this function has an effect.
    pub fn bind(&self, agents: &Agents) {
        let _ = self.agents.set(agents.downgrade());
    }

    async fn call(&self, attempt: Attempt<'_>) -> Result<BackendReply, ToolFailure> {
        let agents = self.agents.get().and_then(Weak::upgrade).map(Agents);
        let agents = agents.ok_or_else(|| denied("no_agents", "agents cannot run in this context".into()))?;
        let cx = attempt.cx;
        let name =
            attempt.tool.definition.invocation.path.as_deref().unwrap_or(attempt.tool.definition.ref_name.as_str());
        let Some(RunMeta { start: parent, home, owner }) = agents.0.runs.meta(cx.run) else {
            return Err(denied("not_in_a_run", format!("`{name}` starts a run, so only a run can call it")));
        };
        if parent.depth >= MAX_DELEGATION_DEPTH {
            return Err(denied(
                "too_deep",
                format!("runs may start child runs at most {MAX_DELEGATION_DEPTH} levels deep"),
            ));
        }
        let run = child_run_id(attempt.idempotency_key.as_str());
        let lost = || ToolFailure::fatal(ErrorCode::Unknown, "the child run was lost");
        let snapshot = match agents.0.runs.wait_for_rest(&home, run).await.map_err(|error| unread(&error))? {
            // The child run already exists, because an earlier attempt of this call started it.
            Some(snapshot) => snapshot,
            None => {
                let origin = RunOrigin {
                    run,
                    realm: cx.realm.clone(),
                    home,
                    owner: (owner, parent.owner.clone()),
                    principal: cx.principal.clone(),
                    parent: Some(ParentRun {
                        call: attempt.call_id.clone(),
                        start: parent,
                        allowance: cx.resources.allowance,
                    }),
                    conversation: None,
                    session: cx.caller.session.clone(),
                    hops: cx.hops,
                    correlation: cx.caller.correlation_id.clone(),
                };
                let draft = match attempt.tool.definition.tool_type {
                    ToolType::Function | ToolType::Workflow => {
                        Box::pin(agents.draft_function(&attempt, name, origin)).await?
                    }
                    ToolType::Agentic => agents.draft_agentic_child(&attempt, origin).await.map_err(refused)?,
                    ToolType::Composite => Box::pin(agents.draft_composite(&attempt, origin)).await?,
                    _ => {
                        let task = attempt.input.get("task").and_then(Value::as_str).unwrap_or_default().to_owned();
                        let context = attempt.input.get("context").and_then(Value::as_object).cloned();
                        let call = AgentCall { agent: name, task, context: context.unwrap_or_default() };
                        agents.draft_delegate(call, origin).await.map_err(refused)?
                    }
                };
                let launched = agents.launch(draft, Vec::new()).await;
                let handle = launched.map_err(|error| denied("delegate", error.to_string()))?;
                agents.0.runs.settled(&handle).await.ok_or_else(lost)?
            }
        };
        if snapshot.run.ending().is_some() {
            if attempt.tool.run_function() == Some(RunFunction::Agent) {
                let session = Session::new(Arc::clone(&cx.principal), Arc::clone(&cx.realm));
                let pins = agents.pins(&session, &snapshot).await.map_err(|error| unread(&error))?;
                // A required pin without a value has already failed the run of the agent.
                return workflow::agent_outcome(&snapshot, &pins.unwrap_or_default());
            }
            return match attempt.tool.definition.tool_type {
                ToolType::Function | ToolType::Workflow => workflow::workflow_outcome(&snapshot),
                ToolType::Agentic => agentic::outcome(&snapshot),
                ToolType::Composite => composite::outcome(&attempt, &snapshot),
                _ => outcome(&snapshot),
            };
        }
        // The child run is suspended. The message to `pause` makes the executor drop this future. The parent run
        // repeats the call after the child run has ended.
        let Some(pause) = &cx.resources.pause else {
            let message = format!("run `{run}` waits, but the call was made by another tool, which cannot wait");
            return Err(denied("waiting", message));
        };
        pause.send((run, snapshot.run.status()));
        std::future::pending().await
    }
}

/// A call to an agent.
struct AgentCall<'a> {
    agent: &'a str,
    task: String,
    context: Map<String, Value>,
}

impl Agents {
    /// Drafts the run that a workflow tool, or a function that runs an agent or a workflow, starts.
    async fn draft_function(
        &self,
        attempt: &Attempt<'_>,
        name: &str,
        origin: RunOrigin,
    ) -> Result<Box<RunDraft>, ToolFailure> {
        let arguments = attempt.arguments()?;
        let text = |field: &str| arguments.get(field).and_then(Value::as_str).unwrap_or_default();
        match attempt.tool.run_function() {
            Some(RunFunction::Agent) => {
                let context = arguments.get("context").and_then(Value::as_object).cloned().unwrap_or_default();
                let call = AgentCall { agent: text("agentRef"), task: text("prompt").to_owned(), context };
                self.draft_delegate(call, origin).await.map_err(refused)
            }
            Some(RunFunction::Workflow) => {
                let input = arguments.get("input").cloned().unwrap_or_default();
                self.draft_child_workflow(text("workflowRef"), input, origin).await.map_err(refused)
            }
            None => self.draft_child_workflow(name, arguments, origin).await.map_err(refused),
        }
    }

    /// Drafts the run of a workflow that another run calls. The principal of the calling run needs the permission to
    /// execute the workflow.
    async fn draft_child_workflow(
        &self,
        name: &str,
        input: Value,
        origin: RunOrigin,
    ) -> Result<Box<RunDraft>, StartError> {
        let session = Session::new(Arc::clone(&origin.principal), Arc::clone(&origin.realm));
        let found = self.find_workflow(&origin.realm, name).await?;
        self.check_may_execute(&session, &found)?;
        self.draft_workflow(WorkflowCall::new(&found, input).await?, origin).await
    }

    /// Drafts the run of an agent that another run calls. The principal of the calling run needs the permission to run
    /// the agent. The child run acts as that principal, or as the agent's `principalRef`.
    async fn draft_delegate(&self, call: AgentCall<'_>, mut origin: RunOrigin) -> Result<Box<RunDraft>, StartError> {
        let AgentCall { agent: name, task, context } = call;
        let session = Session {
            hops: origin.hops,
            correlation: origin.correlation.clone(),
            ..Session::new(Arc::clone(&origin.principal), Arc::clone(&origin.realm))
        };
        let agent = self.find(&session, name).await?;
        self.check_may_run(&session, &agent)?;
        origin.principal = self.effective_principal(&session, &agent, None).await?;
        self.draft_run(&agent, origin, context, task).await
    }

    /// Drafts the run of an agentic tool. The executor has already checked the permission to call the tool.
    async fn draft_agentic_child(&self, attempt: &Attempt<'_>, origin: RunOrigin) -> Result<Box<RunDraft>, StartError> {
        let agent = self.0.resolver.catalog.embedded_agent(&origin.realm, attempt.tool).await?;
        let agent = agent.ok_or_else(|| StartError::NoTools("the tool has no embedded model".to_owned()))?;
        let call = AgenticCall { tool: attempt.tool, input: attempt.input, plan: None };
        Box::pin(self.draft_agentic(&agent, call, origin)).await
    }
}

impl Backend for DelegateBackend {
    fn attempt<'a>(&'a self, attempt: Attempt<'a>) -> BoxFuture<'a, Result<BackendReply, ToolFailure>> {
        Box::pin(self.call(attempt))
    }

    /// Starting a run counts as a read: only the tools of the child run write, and each of their calls is checked
    /// against the rules of both runs. A read is repeated after a crash, and the repeated call finds the existing child
    /// run.
    fn effects(&self, _tool: &CompiledTool, _input: &Value) -> SideEffects {
        SideEffects::Reads
    }
}

fn outcome(snapshot: &RunSnapshot) -> Result<BackendReply, ToolFailure> {
    let run = &snapshot.run;
    let response = view::agent_response(run, &run.outputs());
    let cost_usd = Some(run.resource_usage().cost_usd);
    let (usage, tool_calls) = (run.resource_usage().usage, run.resource_usage().tool_calls);
    let child_run = Some(Box::new(ChildRun { run_id: run.id(), usage, tool_calls, operation: None }));
    if matches!(response.status, RunStatus::Completed | RunStatus::MaxIterations | RunStatus::BudgetExceeded) {
        let output = json!({
            "responseText": response.response_text,
            "outputContext": response.output_context,
            "status": response.status,
            "reason": response.reason,
            "runId": run.id(),
            "usage": usage,
            "toolCallsUsed": tool_calls,
        });
        return Ok(BackendReply { cost_usd, child_run, ..BackendReply::from_output(output) });
    }
    let (code, message) = match (response.status, run.ending()) {
        (RunStatus::Timeout, _) => (ErrorCode::Timeout, "the agent took too long".to_owned()),
        (status, ending) => {
            let why = ending.and_then(|ending| ending.message.as_deref()).unwrap_or("no reason given");
            (ErrorCode::Unknown, format!("the agent's run ended {status}: {why}"))
        }
    };
    let mut failure = ToolFailure::fatal(code, message).reason("delegate");
    failure.error = failure.error.detail("runId", json!(run.id())).detail("usage", json!(usage));
    failure.error = failure.error.detail("toolCallsUsed", tool_calls);
    (failure.cost_usd, failure.child_run) = (cost_usd, child_run);
    Err(failure)
}

fn unread(error: &toolwright_catalog::Unavailable) -> ToolFailure {
    tracing::error!(error = error as &dyn std::error::Error, "child run cannot be read");
    ToolFailure::fatal(ErrorCode::Unknown, "the agent's run cannot be read")
}

fn refused(error: StartError) -> ToolFailure {
    let reason = match error {
        StartError::NoTools(_) => "NO_AVAILABLE_TOOLS",
        StartError::Model(_) => "LLM_PROVIDER_ERROR",
        _ => "delegate",
    };
    denied(reason, error.to_string())
}

fn denied(reason: &str, message: String) -> ToolFailure {
    ToolFailure::fatal(ErrorCode::PolicyDenied, message).reason(reason)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn call_to_an_agentic_tool_whose_model_cannot_be_used_fails_with_the_reason_of_model_providers() {
        for (error, reason) in [
            (StartError::Model("provider `nope` does not exist".into()), "LLM_PROVIDER_ERROR"),
            (StartError::NoTools("none".into()), "NO_AVAILABLE_TOOLS"),
            (StartError::TooManyRuns(1), "delegate"),
        ] {
            let details = refused(error).error.details.unwrap();
            assert_eq!(details["reason"], reason);
        }
    }
}
