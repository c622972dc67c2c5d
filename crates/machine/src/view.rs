//! Views of an agent's outputs in the formats of other APIs. Every view is computed from [`AgentOutputs`]; none is
//! stored.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use toolwright_types::{CallId, CallSource, ErrorCode, ResponseFormat, ToolEnvelope};

use crate::agent::{AgentRun, CallToRun, ClientActionRequest};
use crate::{AgentOutputs, RunStatus};

/// The status of a call in the response of an agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum InvocationStatus {
    /// The call succeeded.
    Success,
    /// The call was attempted and failed.
    Error,
    /// The call was not attempted.
    Skipped,
    /// The call was not attempted because the principal lacks the permission.
    PermissionDenied,
}

/// A call and its result, in the response of an agent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct ToolInvocation {
    /// The tool.
    pub tool_ref: String,
    /// The arguments.
    pub input: Value,
    /// The output; null if the call failed.
    pub output: Value,
    /// The duration in milliseconds.
    pub duration_ms: u64,
    /// Whether the output came from the result cache.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cached: bool,
    /// The source of the result, if the tool was not executed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<CallSource>,
    /// The status; absent while the client must act.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<InvocationStatus>,
    /// The error message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error_message: Option<String>,
}

/// A call in the format for clients that perform the last part of a call. Contains the payload that the server
/// prepared for the client.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct AgentToolCall {
    /// The call.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub call_id: CallId,
    /// Always true, because every call goes through the server.
    pub is_server_tool: bool,
    /// Whether the part of the call that runs on the server succeeded.
    pub was_executed: bool,
    /// Whether the client must act now.
    pub requires_client_execution: bool,
    /// The payload for the client.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prepared_payload: Option<Value>,
    /// The final result as JSON text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result_json: Option<String>,
}

/// The status of a call in a [`ToolResult`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum ToolResultStatus {
    /// The call succeeded.
    Success,
    /// The call failed, and no other status applies.
    Error,
    /// The tool did not respond in time.
    Timeout,
    /// A policy, a limit or a missing permission does not allow the call.
    PermissionDenied,
    /// The input does not match the tool's schema.
    ValidationError,
}

/// The result of a direct call in a short form: the main fields of the envelope.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct ToolResult {
    /// The tool.
    pub tool_ref: String,
    /// The status.
    pub status: ToolResultStatus,
    /// The output; null if the call failed.
    pub data: Value,
    /// The error message; null if the call succeeded.
    pub error_message: Option<String>,
    /// The status of the last HTTP response of the upstream, if any.
    pub http_status: Option<u16>,
    /// The duration in milliseconds.
    pub duration_ms: u64,
    /// Selected headers of the upstream's response, by their lower-case names, such as `link` and `x-total-count`. Also
    /// `callId`, `version` and, if the call failed, `errorCode` and `reason`.
    pub metadata: BTreeMap<String, String>,
}

/// One entry of `toolCalls` in an agent response. It has the fields of [`ToolInvocation`] and of [`AgentToolCall`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ToolCallEntry {
    /// The call and its result.
    #[serde(flatten)]
    pub invocation: ToolInvocation,
    /// The call id, and the fields for a client that performs the last part of the call.
    #[serde(flatten)]
    pub call: AgentToolCall,
}

/// The response of an agent: the answer, the calls, the consumed resources and the status.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct AgentResponse {
    /// The answer.
    pub response_text: String,
    /// Finished calls in order, then the calls that await the client.
    pub tool_calls: Vec<ToolCallEntry>,
    /// The number of model calls.
    pub iterations_used: u32,
    /// The number of consumed tokens.
    pub tokens_used: u64,
    /// The status of the run.
    pub status: RunStatus,
    /// A stable reason code, if the status alone does not explain the ending.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The answer as data, if structured output was requested and the answer is valid JSON.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_context: Option<Value>,
}

/// Builds the response of a run from its current outputs. The run may still be running.
pub fn agent_response(run: &AgentRun, outputs: &AgentOutputs) -> AgentResponse {
    let structured = run.response_format() != &ResponseFormat::Text;
    let output_context = structured.then(|| serde_json::from_str(&outputs.response).ok()).flatten();
    AgentResponse {
        tool_calls: tool_calls(outputs, &run.pending_client_actions()),
        iterations_used: run.started_model_calls(),
        tokens_used: run.resource_usage().usage.total(),
        status: run.status(),
        reason: run.ending().and_then(|ending| ending.reason.clone()),
        output_context,
        response_text: outputs.response.clone(),
    }
}

/// The calls of a run: finished calls in order, then the calls that await the client.
pub fn tool_calls(outputs: &AgentOutputs, waiting: &[ClientActionRequest]) -> Vec<ToolCallEntry> {
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

impl From<ErrorCode> for ToolResultStatus {
    fn from(code: ErrorCode) -> Self {
        match code {
            ErrorCode::ValidationError => ToolResultStatus::ValidationError,
            ErrorCode::Timeout => ToolResultStatus::Timeout,
            ErrorCode::PolicyDenied => ToolResultStatus::PermissionDenied,
            // A missing or rejected secret does not mean that the caller lacks a permission.
            ErrorCode::AuthRequired
            | ErrorCode::RateLimit
            | ErrorCode::ProviderError
            | ErrorCode::NetworkError
            | ErrorCode::SandboxError
            | ErrorCode::Unknown => ToolResultStatus::Error,
        }
    }
}

impl From<&ToolEnvelope> for ToolResult {
    fn from(envelope: &ToolEnvelope) -> Self {
        let error = envelope.error.as_ref();
        let mut metadata = envelope.metadata.headers.clone();
        metadata.insert("callId".to_owned(), envelope.call_id.to_string());
        metadata.insert("version".to_owned(), envelope.version.clone());
        if let Some(error) = error {
            metadata.insert("errorCode".to_owned(), error.code.to_string());
            let reason = error.details.as_ref().and_then(|details| details.get("reason")?.as_str());
            metadata.extend(reason.map(|reason| ("reason".to_owned(), reason.to_owned())));
        }
        Self {
            tool_ref: envelope.name.clone(),
            status: error.map_or(ToolResultStatus::Success, |error| error.code.into()),
            data: envelope.output.clone(),
            error_message: error.map(|error| error.message.clone()),
            http_status: envelope.metadata.http_status,
            duration_ms: envelope.t_end.millis_since(envelope.t_start),
            metadata,
        }
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
    /// Creates the entry of a call without a result.
    pub fn unfinished(tool: &str, call_id: &CallId, input: &Value) -> Self {
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

impl From<&ClientActionRequest> for ToolCallEntry {
    fn from(request: &ClientActionRequest) -> Self {
        let mut entry = Self::unfinished(&request.tool, &request.call_id, &request.input);
        entry.call.was_executed = true;
        entry.call.requires_client_execution = true;
        entry.call.prepared_payload = Some(request.prepared_payload.clone());
        entry
    }
}
