//! Converts the result of an agentic tool's run to the result of the call that started the run.

use serde_json::{Map, Value, json};
use toolwright_machine::agent::json_answer;
use toolwright_machine::{AgentRun, Breach, Ending};
use toolwright_runs::RunSnapshot;
use toolwright_tools::ToolFailure;
use toolwright_tools::executor::BackendReply;
use toolwright_types::{ChildRun, ErrorCode, RunStatus, ToolEnvelope, ToolError};

/// The maximum number of tool results in a partial result.
const MAX_PARTIAL_RESULTS: usize = 20;
/// The maximum number of warnings from calls in a result.
const MAX_CALL_WARNINGS: usize = 20;

/// The result of an agentic tool's run that has ended.
#[derive(Debug, Clone)]
pub struct AgenticResult {
    /// The output, or the error. A run that reached its limit of steps has a partial output and a warning.
    pub output: Result<Value, ToolError>,
    /// Problems that did not stop the run.
    pub warnings: Vec<String>,
}

/// Returns the result of an agentic tool's run; `None` while the run has not ended.
pub fn agentic_result(snapshot: &RunSnapshot) -> Option<AgenticResult> {
    let run = &snapshot.run;
    let ending = run.ending()?;
    let mut warnings = snapshot.start.warnings.clone();
    warnings.extend(run.warnings().iter().cloned());
    warnings.extend(call_warnings(run));
    if ending.status == RunStatus::Completed {
        warnings.extend(cost_warning(run));
    }
    let output = match (ending.status, ending.reason.as_deref()) {
        (RunStatus::Completed, None) => Ok(result(run)),
        (RunStatus::Completed, Some("max_tokens")) => {
            warnings.push("the answer was cut because the model ran out of output tokens".to_owned());
            Ok(result(run))
        }
        (RunStatus::MaxIterations, _) if has_success(run) => {
            let message = ending.message.as_deref().unwrap_or("the limit of steps is reached");
            warnings.push(format!("MAX_STEPS_EXCEEDED: {message}; the result is partial"));
            Ok(partial_result(run))
        }
        _ => {
            let error = failure(ending).detail("runId", json!(run.id())).detail("partialResult", partial_result(run));
            Err(error)
        }
    };
    Some(AgenticResult { output, warnings })
}

/// Whether a call of the run succeeded.
fn has_success(run: &AgentRun) -> bool {
    run.outputs().in_order().any(ToolEnvelope::is_success)
}

/// Returns a warning if the last call of a run exceeded its cost limit. The limit cannot stop the run any more, because
/// the work is done.
fn cost_warning(run: &AgentRun) -> Option<String> {
    let (limit_usd, cost_usd) = (run.limits().max_cost_usd?, run.resource_usage().cost_usd);
    let code = Breach::Cost { limit_usd }.code();
    (cost_usd > limit_usd).then(|| format!("{code}: the cost is {cost_usd} USD, and the limit is {limit_usd} USD"))
}

/// Converts the result of a run that has ended to the result of the call that started the run.
pub(crate) fn outcome(snapshot: &RunSnapshot) -> Result<BackendReply, ToolFailure> {
    let run = &snapshot.run;
    let (cost_usd, child_run) = (Some(run.resource_usage().cost_usd), Some(Box::new(child_run(run))));
    let Some(AgenticResult { output, warnings }) = agentic_result(snapshot) else {
        return Err(ToolFailure::fatal(ErrorCode::Unknown, "the run has not ended"));
    };
    match output {
        Ok(output) => Ok(BackendReply { cost_usd, child_run, warnings, ..BackendReply::from_output(output) }),
        Err(error) => Err(ToolFailure { cost_usd, child_run, retryable: false, ..ToolFailure::from(error) }),
    }
}

/// Returns the warnings of the calls, such as outputs that do not match their schemas. Equal warnings are returned
/// once.
fn call_warnings(run: &AgentRun) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    for envelope in run.outputs().in_order() {
        for warning in &envelope.metadata.warnings {
            let warning = format!("`{}`: {warning}", envelope.name);
            if found.len() < MAX_CALL_WARNINGS && !found.contains(&warning) {
                found.push(warning);
            }
        }
    }
    found
}

fn child_run(run: &AgentRun) -> ChildRun {
    // The calls of a plan are not chosen by a model, so they do not count toward limits for tool calls.
    let tool_calls = if run.plan_progress().is_some() { 0 } else { run.resource_usage().tool_calls };
    ChildRun { run_id: run.id(), usage: run.resource_usage().usage, tool_calls, operation: None }
}

/// The answer of the model as JSON. An answer that is not a JSON object becomes the field `summary`.
fn result(run: &AgentRun) -> Value {
    let response = run.outputs().response;
    let mut fields = match serde_json::from_str(json_answer(&response)) {
        Ok(Value::Object(fields)) => fields,
        Ok(other) => return other,
        Err(_) => Map::from_iter([("summary".to_owned(), json!(response))]),
    };
    // The result lists failed items even if the model does not mention them.
    let errors = run.plan_progress().map(|progress| progress.item_errors()).unwrap_or_default();
    if !errors.is_empty() && !fields.contains_key("errors") {
        fields.insert("errors".to_owned(), Value::Array(errors));
    }
    Value::Object(fields)
}

/// What a run has done so far: the report of its plan, or the results of its calls.
fn partial_result(run: &AgentRun) -> Value {
    if let Some(progress) = run.plan_progress() {
        return progress.result_without_model();
    }
    if run.follows_plan() {
        return json!({ "summary": "No step was executed.", "operations_executed": [] });
    }
    let outputs = run.outputs();
    let done: Vec<Value> = outputs
        .in_order()
        .filter(|envelope| envelope.is_success())
        .map(|envelope| json!({ "tool": envelope.name, "output": envelope.output }))
        .collect();
    let operations: Vec<&Value> = done.iter().filter_map(|call| call.get("tool")).collect();
    let mut fields = Map::new();
    fields.insert("summary".to_owned(), json!(outputs.response));
    fields.insert("operations_executed".to_owned(), json!(operations));
    fields.insert("results".to_owned(), json!(done.iter().rev().take(MAX_PARTIAL_RESULTS).rev().collect::<Vec<_>>()));
    let unknown: Vec<Value> = outputs
        .in_order()
        .filter(|envelope| has_unknown_outcome(envelope))
        .map(|envelope| json!({ "tool": envelope.name, "parameters": envelope.input, "outcome": "unknown" }))
        .collect();
    if !unknown.is_empty() {
        fields.insert("unknown_calls".to_owned(), json!(unknown.iter().take(MAX_PARTIAL_RESULTS).collect::<Vec<_>>()));
    }
    Value::Object(fields)
}

/// Whether a call was sent and its outcome is unknown. A caller must not repeat such a call without a check.
fn has_unknown_outcome(envelope: &ToolEnvelope) -> bool {
    let details = envelope.error.as_ref().and_then(|error| error.details.as_ref());
    details.and_then(|details| details.get("outcome")?.as_str()) == Some("unknown")
}

fn failure(ending: &Ending) -> ToolError {
    let reason = ending.reason.as_deref().unwrap_or("ended");
    let message = ending.message.clone().unwrap_or_else(|| "no reason given".to_owned());
    let by_name = |name: &str| ErrorCode::ALL.into_iter().find(|code| code.as_str() == name);
    let (code, reason) = match (ending.status, reason) {
        (RunStatus::Timeout, _) => (ErrorCode::Timeout, "TIMEOUT"),
        (RunStatus::BudgetExceeded | RunStatus::MaxIterations, reason) => (ErrorCode::PolicyDenied, reason),
        (RunStatus::Cancelled, _) => (ErrorCode::Unknown, "cancelled"),
        (_, "approval_denied" | "approval_expired") => (ErrorCode::PolicyDenied, reason),
        (_, "INVALID_LLM_OUTPUT" | "answer_schema") => (ErrorCode::ProviderError, "INVALID_LLM_OUTPUT"),
        (_, "INVALID_GENERATED_PARAMETERS") => (ErrorCode::ValidationError, reason),
        (_, "MAX_ITEMS_EXCEEDED") => (ErrorCode::PolicyDenied, reason),
        (_, "refusal" | "max_tokens" | "empty_reply") => (ErrorCode::ProviderError, "LLM_PROVIDER_ERROR"),
        (_, reason) if reason.starts_with("model_") => (ErrorCode::ProviderError, "LLM_PROVIDER_ERROR"),
        (_, reason) => match by_name(reason) {
            Some(code) => (code, "step_failed"),
            None => (ErrorCode::Unknown, reason),
        },
    };
    ToolError::new(code, message).reason(reason)
}
