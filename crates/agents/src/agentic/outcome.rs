//! Converts the result of an agentic tool's run to the result of the call that started the run.

use serde_json::{Map, Value, json};
use toolwright_machine::{AgentRun, Ending};
use toolwright_runs::RunSnapshot;
use toolwright_tools::ToolFailure;
use toolwright_tools::executor::BackendReply;
use toolwright_types::{ChildRun, ErrorCode, RunStatus, ToolError};

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
    let output = match (ending.status, ending.reason.as_deref()) {
        (RunStatus::Completed, None) => Ok(result(run)),
        (RunStatus::Completed, Some("max_tokens")) => {
            warnings.push("the answer was cut because the model ran out of output tokens".to_owned());
            Ok(result(run))
        }
        (RunStatus::MaxIterations, _) => {
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
    let mut fields = match serde_json::from_str(strip_code_fence(&response)) {
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

/// Removes the Markdown code fence that models often put around JSON.
fn strip_code_fence(text: &str) -> &str {
    let trimmed = text.trim();
    let inner = trimmed.strip_prefix("```json").or_else(|| trimmed.strip_prefix("```"));
    inner.and_then(|inner| inner.trim_end().strip_suffix("```")).map_or(trimmed, str::trim)
}

/// What a run has done so far: the report of its plan, or the results of its calls.
fn partial_result(run: &AgentRun) -> Value {
    if let Some(progress) = run.plan_progress() {
        return progress.result_without_model();
    }
    let outputs = run.outputs();
    let done: Vec<Value> = outputs
        .in_order()
        .filter(|envelope| envelope.is_success())
        .map(|envelope| json!({ "tool": envelope.name, "output": envelope.output }))
        .collect();
    let operations: Vec<&Value> = done.iter().filter_map(|call| call.get("tool")).collect();
    json!({
        "summary": outputs.response,
        "operations_executed": operations,
        "results": done.iter().rev().take(MAX_PARTIAL_RESULTS).rev().collect::<Vec<_>>(),
    })
}

fn failure(ending: &Ending) -> ToolError {
    let reason = ending.reason.as_deref().unwrap_or("ended");
    let message = ending.message.clone().unwrap_or_else(|| "no reason given".to_owned());
    let by_name = |name: &str| ErrorCode::ALL.into_iter().find(|code| code.as_str() == name);
    let (code, reason) = match (ending.status, reason) {
        (RunStatus::Timeout, _) => (ErrorCode::Timeout, "TIMEOUT"),
        (RunStatus::BudgetExceeded, reason) => (ErrorCode::PolicyDenied, reason),
        (RunStatus::Cancelled, _) => (ErrorCode::Unknown, "cancelled"),
        (_, "approval_denied") => (ErrorCode::PolicyDenied, "approval_denied"),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_fence_around_json_is_removed() {
        for text in ["{\"a\":1}", " {\"a\":1}\n", "```json\n{\"a\":1}\n```", "```\n{\"a\":1}\n```\n"] {
            assert_eq!(strip_code_fence(text), "{\"a\":1}");
        }
        assert_eq!(strip_code_fence("no ``` fence"), "no ``` fence");
    }
}
