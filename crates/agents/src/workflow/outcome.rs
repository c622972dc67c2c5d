//! Converts the results of runs that a workflow or another run started to the results of the calls.

use serde_json::{Map, Value, json};
use toolwright_machine::workflow::StepStatus;
use toolwright_machine::{AgentOutputs, AgentRun, view};
use toolwright_runs::RunSnapshot;
use toolwright_tools::ToolFailure;
use toolwright_tools::executor::BackendReply;
use toolwright_types::{ChildRun, ErrorCode, RunStatus, ToolError};

use crate::Pins;

/// Returns the result of a call that ran a workflow: the output of the workflow.
pub(crate) fn workflow_outcome(snapshot: &RunSnapshot) -> Result<BackendReply, ToolFailure> {
    let run = &snapshot.run;
    let (cost_usd, child_run) = (Some(run.resource_usage().cost_usd), Some(Box::new(child_run(run, 0))));
    if run.status() == RunStatus::Completed {
        let output = run.workflow_output().clone();
        return Ok(BackendReply { cost_usd, child_run, ..BackendReply::from_output(output) });
    }
    let failed = run.step_reports().into_iter().find(|step| step.status == StepStatus::Failed && step.error.is_some());
    let code = failed.as_ref().and_then(|step| step.error.as_ref()).map(|error| error.code);
    let error = ending_error(run, code).detail("runId", json!(run.id()));
    let error = match failed {
        Some(step) => error.detail("step", step.name),
        None => error,
    };
    Err(ToolFailure { cost_usd, child_run, retryable: false, ..ToolFailure::from(error) })
}

/// Returns the result of a workflow step that ran an agent: the outputs of the agent with its pins. The fields are the
/// same for every agent and every configuration of its tools. If the agent failed, the error contains the outputs.
pub(crate) fn agent_outcome(snapshot: &RunSnapshot, pins: &Pins) -> Result<BackendReply, ToolFailure> {
    let run = &snapshot.run;
    let usage = run.resource_usage();
    let (cost_usd, child_run) = (Some(usage.cost_usd), Some(Box::new(child_run(run, usage.tool_calls))));
    let outputs = run.outputs();
    let response = view::agent_response(run, &outputs);
    let fields = json!({
        "status": response.status,
        "reason": response.reason,
        "runId": run.id(),
        "outputContext": response.output_context,
        "pins": pins,
        "usage": usage.usage,
        "toolCallsUsed": usage.tool_calls,
    });
    let output = with_outputs(fields, outputs);
    if matches!(response.status, RunStatus::Completed | RunStatus::MaxIterations | RunStatus::BudgetExceeded) {
        return Ok(BackendReply { cost_usd, child_run, ..BackendReply::from_output(output) });
    }
    let error = ending_error(run, None).detail("runId", json!(run.id())).detail("outputs", output);
    Err(ToolFailure { cost_usd, child_run, retryable: false, ..ToolFailure::from(error) })
}

/// Adds the outputs of an agent to other fields.
fn with_outputs(fields: Value, outputs: AgentOutputs) -> Value {
    let mut all = match serde_json::to_value(outputs) {
        Ok(Value::Object(outputs)) => outputs,
        _ => Map::new(),
    };
    // The names of the outputs are a contract, so fields without a value are present too.
    for optional in ["last_tool", "traces_url"] {
        all.entry(optional).or_insert(Value::Null);
    }
    if let Value::Object(fields) = fields {
        all.extend(fields);
    }
    Value::Object(all)
}

fn child_run(run: &AgentRun, tool_calls: u32) -> ChildRun {
    ChildRun { run_id: run.id(), usage: run.resource_usage().usage, tool_calls, operation: None }
}

/// The error of a run that did not complete.
fn ending_error(run: &AgentRun, code: Option<ErrorCode>) -> ToolError {
    let ending = run.ending();
    let reason = ending.and_then(|ending| ending.reason.as_deref()).unwrap_or("ended");
    let message = ending.and_then(|ending| ending.message.clone());
    let code = match (run.status(), code) {
        (RunStatus::Timeout, _) => ErrorCode::Timeout,
        (RunStatus::BudgetExceeded | RunStatus::MaxIterations, _) => ErrorCode::PolicyDenied,
        (RunStatus::Error, Some(code)) => code,
        (RunStatus::Error, None) if reason.starts_with("model_") => ErrorCode::ProviderError,
        _ => ErrorCode::Unknown,
    };
    ToolError::new(code, message.unwrap_or_else(|| format!("the run ended {}", run.status()))).reason(reason)
}
