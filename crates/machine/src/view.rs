//! The same outputs in the shapes of other worlds. Every view is a function of [`AgentOutputs`]; none is kept.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use toolwright_types::{CallId, CallSource, ErrorCode, ResponseFormat, ToolEnvelope};

use crate::agent::{AgentRun, CallToRun, ClientRequest};
use crate::{AgentOutputs, RunStatus};

/// How an invocation ended, in the words of the agent service.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum InvocationStatus {
    /// It went through.
    Success,
    /// It was tried and failed.
    Error,
    /// It was not tried.
    Skipped,
    /// It was not tried because the principal may not.
    PermissionDenied,
}

/// One call as the agent service shows it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ToolInvocation {
    /// The tool.
    pub tool_ref: String,
    /// The arguments.
    pub input: Value,
    /// The result; null when it failed.
    pub output: Value,
    /// How long it took.
    pub duration_ms: u64,
    /// Whether the result was remembered from an earlier call.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cached: bool,
    /// Where the result comes from in a trial, if the tool was not called for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<CallSource>,
    /// How it ended; absent while the client has to act.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<InvocationStatus>,
    /// Why it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error_message: Option<String>,
}

/// One call as clients with tools of their own see it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct AgentToolCall {
    /// The call.
    #[schema(value_type = String)]
    pub call_id: CallId,
    /// Always true: the server mediates every call.
    pub is_server_tool: bool,
    /// Whether the server's part succeeded.
    pub was_executed: bool,
    /// Whether the client has to act now.
    pub requires_client_execution: bool,
    /// What the client acts on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prepared_payload: Option<Value>,
    /// The final result as JSON text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result_json: Option<String>,
}

/// One entry of an agent response's `toolCalls`: both views side by side.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct ToolCallEntry {
    /// The agent service's view.
    #[serde(flatten)]
    pub invocation: ToolInvocation,
    /// The client's view.
    #[serde(flatten)]
    pub call: AgentToolCall,
}

/// What an agent answered, as the agent service shows it; the conversation's id is the caller's to add.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct AgentResponse {
    /// The answer.
    pub response_text: String,
    /// Finished calls in order, then those the client has to perform.
    pub tool_calls: Vec<ToolCallEntry>,
    /// How often the model was asked.
    pub iterations_used: u32,
    /// How many tokens that took.
    pub tokens_used: u64,
    /// Where the run stands.
    pub status: RunStatus,
    /// Why it ended, where there is more to say than the status.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The answer as data, where data was asked for and given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_context: Option<Value>,
}

/// The agent service's view of a run, at any time, and of its outputs at that time.
pub fn agent_response(run: &AgentRun, outputs: &AgentOutputs) -> AgentResponse {
    let structured = run.response_format() != &ResponseFormat::Text;
    let output_context = structured.then(|| serde_json::from_str(&outputs.response).ok()).flatten();
    AgentResponse {
        tool_calls: tool_calls(outputs, &run.client_actions()),
        iterations_used: run.model_calls(),
        tokens_used: run.spent().usage.total(),
        status: run.status(),
        reason: run.ending().and_then(|ending| ending.reason.clone()),
        output_context,
        response_text: outputs.response.clone(),
    }
}

/// The calls of a run: finished ones in order, then those that wait for the client.
pub fn tool_calls(outputs: &AgentOutputs, waiting: &[ClientRequest]) -> Vec<ToolCallEntry> {
    outputs.in_order().map(ToolCallEntry::from).chain(waiting.iter().map(ToolCallEntry::from)).collect()
}

impl From<&ToolEnvelope> for ToolCallEntry {
    fn from(envelope: &ToolEnvelope) -> Self {
        Self { invocation: envelope.into(), call: envelope.into() }
    }
}

impl From<&ToolEnvelope> for ToolInvocation {
    fn from(envelope: &ToolEnvelope) -> Self {
        Self {
            tool_ref: envelope.name.clone(),
            input: envelope.input.clone(),
            output: envelope.output.clone(),
            duration_ms: envelope.t_end.millis_since(envelope.t_start),
            cached: envelope.cached,
            source: envelope.metadata.source,
            status: Some(InvocationStatus::from(envelope)),
            error_message: envelope.error.as_ref().map(|error| error.message.clone()),
        }
    }
}

impl From<&ToolEnvelope> for InvocationStatus {
    fn from(envelope: &ToolEnvelope) -> Self {
        let Some(error) = &envelope.error else {
            return InvocationStatus::Success;
        };
        let detail = |key: &str| error.details.as_ref().and_then(|details| details.get(key));
        if error.code == ErrorCode::PolicyDenied && envelope.metadata.attempt == 0 {
            let permission = detail("reason").and_then(Value::as_str) == Some("permission");
            return if permission { InvocationStatus::PermissionDenied } else { InvocationStatus::Skipped };
        }
        let never_started = detail("started").and_then(Value::as_bool) == Some(false);
        if never_started { InvocationStatus::Skipped } else { InvocationStatus::Error }
    }
}

impl From<&ToolEnvelope> for AgentToolCall {
    fn from(envelope: &ToolEnvelope) -> Self {
        Self {
            call_id: envelope.call_id.clone(),
            is_server_tool: true,
            was_executed: envelope.is_success() && envelope.metadata.source != Some(CallSource::Captured),
            requires_client_execution: false,
            prepared_payload: None,
            result_json: envelope.is_success().then(|| envelope.output.to_string()),
        }
    }
}

impl From<&CallToRun> for ToolCallEntry {
    fn from(call: &CallToRun) -> Self {
        Self::unfinished(&call.facts.name, &call.call_id, &call.input)
    }
}

impl ToolCallEntry {
    /// A call that has begun and not ended.
    fn unfinished(tool: &str, call_id: &CallId, input: &Value) -> Self {
        let invocation = ToolInvocation {
            tool_ref: tool.to_owned(),
            input: input.clone(),
            output: Value::Null,
            duration_ms: 0,
            cached: false,
            source: None,
            status: None,
            error_message: None,
        };
        let call = AgentToolCall {
            call_id: call_id.clone(),
            is_server_tool: true,
            was_executed: false,
            requires_client_execution: false,
            prepared_payload: None,
            result_json: None,
        };
        Self { invocation, call }
    }
}

impl From<&ClientRequest> for ToolCallEntry {
    fn from(request: &ClientRequest) -> Self {
        let mut entry = Self::unfinished(&request.tool, &request.call_id, &request.input);
        entry.call.was_executed = true;
        entry.call.requires_client_execution = true;
        entry.call.prepared_payload = Some(request.prepared_payload.clone());
        entry
    }
}
