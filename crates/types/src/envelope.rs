//! The envelope: the result of one tool call. Its field names are a published contract.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{CallId, CallSource, RunId, Timestamp, Usage};

/// The result of one call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ToolEnvelope {
    /// The id of the call, derived from its tool, version and input.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub call_id: CallId,
    /// The name of the tool.
    pub name: String,
    /// The version that ran; empty if the tool is unknown.
    pub version: String,
    /// The arguments as the caller sent them.
    pub input: Value,
    /// The output of the tool; null if the call failed.
    #[serde(default)]
    pub output: Value,
    /// The error; null if the call succeeded.
    #[serde(default)]
    pub error: Option<ToolError>,
    /// The time when the call started.
    #[cfg_attr(feature = "openapi", schema(value_type = String, format = DateTime))]
    pub t_start: Timestamp,
    /// The time when the outcome was known.
    #[cfg_attr(feature = "openapi", schema(value_type = String, format = DateTime))]
    pub t_end: Timestamp,
    /// Whether the output came from the result cache.
    #[serde(default)]
    pub cached: bool,
    /// Whether `output` is truncated; the complete output is then attached as a blob.
    #[serde(default)]
    pub truncated: bool,
    /// Payloads stored outside of the envelope.
    #[serde(default)]
    pub attachments: Vec<Attachment>,
    /// Further information about the call.
    #[serde(default)]
    pub metadata: CallMetadata,
}

impl ToolEnvelope {
    /// Whether the call succeeded.
    pub fn is_success(&self) -> bool {
        self.error.is_none()
    }
}

/// A payload in blob storage.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Attachment {
    /// The kind of payload.
    pub kind: AttachmentKind,
    /// The URL of the payload.
    pub url: String,
    /// The media type, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content_type: Option<String>,
    /// The size in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
}

/// The kinds of attachments.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "lowercase")]
pub enum AttachmentKind {
    /// Any content.
    Blob,
    /// An image.
    Image,
    /// Tabular data.
    Table,
}

/// Information about a call beyond the published contract.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct CallMetadata {
    /// The number of attempts; 0 if the tool was not run.
    #[serde(default)]
    pub attempt: u32,
    /// The cost in US dollars, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_usd: Option<f64>,
    /// The principal whose permissions applied to the call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub principal: Option<String>,
    /// The policy that decided on the call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy_id: Option<String>,
    /// Where the final part of the call ran.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub execution_site: Option<ExecutionSite>,
    /// The scope of the secret that was used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret_scope: Option<String>,
    /// Warnings about the call.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
    /// Messages of the tool for the caller and the model. Successful and failed calls can have messages.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub messages: Vec<String>,
    /// The status of the last HTTP response.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub http_status: Option<u16>,
    /// Selected headers of the last HTTP response.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, String>,
    /// The id of the original call, if a person edited its input before approving it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub edited_from: Option<CallId>,
    /// The implementation that ran, as `tool@version`, if a library maps the tool to another implementation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub implementation: Option<String>,
    /// The source of the result, if the tool was not executed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<CallSource>,
    /// The names in the input that were replaced by ids, by field.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub resolved_inputs: BTreeMap<String, ResolvedInput>,
    /// The calls to other tools that this call made, in start order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub calls: Vec<NestedCall>,
    /// The run that this call started, if it called an agent, an agentic tool or a composite tool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub child_run: Option<Box<ChildRun>>,
}

/// The run that a call started.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ChildRun {
    /// The id of the run.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub run_id: RunId,
    /// The tokens that the run consumed.
    pub usage: Usage,
    /// The number of tool calls that models chose in the run.
    pub tool_calls: u32,
    /// The operation to which a composite tool routed the call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operation: Option<String>,
}

/// A call that was made by another call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[cfg_attr(feature = "openapi", schema(as = PartCall))]
pub struct NestedCall {
    /// The id of the call.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub call_id: CallId,
    /// The name of the tool.
    pub name: String,
    /// The version that ran; empty if the tool is unknown.
    pub version: String,
    /// The arguments; omitted if they would make the envelope too large.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub input: Value,
    /// The error, without details.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<ToolError>,
    /// The time when the call started.
    #[cfg_attr(feature = "openapi", schema(value_type = String, format = DateTime))]
    pub t_start: Timestamp,
    /// The time when the outcome was known. Absent if the outer call ended before this call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>, format = DateTime))]
    pub t_end: Option<Timestamp>,
    /// The source of the result, if the tool was not executed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<CallSource>,
    /// The cost of the call in US dollars, including the cost of the calls that it made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_usd: Option<f64>,
    /// The calls that this call made.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "openapi", schema(no_recursion))]
    pub calls: Vec<NestedCall>,
}

/// A name in the input and the id that it was resolved to.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ResolvedInput {
    /// The value that the caller sent.
    pub original: Value,
    /// The value that the tool received.
    pub resolved: Value,
}

/// Where the final part of a call runs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "lowercase")]
pub enum ExecutionSite {
    /// On this server.
    #[default]
    Server,
    /// On the client. The server prepares a payload for it.
    Client,
}

/// The error of a failed call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ToolError {
    /// The stable code.
    pub code: ErrorCode,
    /// A message for people and models.
    pub message: String,
    /// Further information that depends on the code. `details.reason` is a stable code for the exact cause.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub details: Option<Value>,
    /// The time to wait before a retry, in seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after_s: Option<f64>,
}

impl ToolError {
    /// Creates an error with a code and a message.
    pub fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), details: None, retry_after_s: None }
    }

    /// Sets `details.reason`.
    pub fn reason(self, reason: &str) -> Self {
        self.detail("reason", reason)
    }

    /// Adds a field to `details`.
    pub fn detail(mut self, key: &str, value: impl Into<Value>) -> Self {
        let details = self.details.get_or_insert_with(|| Value::Object(Default::default()));
        if let Value::Object(fields) = details {
            fields.insert(key.to_owned(), value.into());
        }
        self
    }

    /// Sets the time to wait before a retry.
    pub fn retry_after(mut self, seconds: f64) -> Self {
        self.retry_after_s = Some(seconds);
        self
    }
}

/// The nine error codes of an envelope.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum ErrorCode {
    /// The input does not match the tool's schema.
    ValidationError,
    /// The tool did not respond in time.
    Timeout,
    /// A rate limit of this server or of the upstream was exceeded.
    RateLimit,
    /// A policy or a limit does not allow the call.
    PolicyDenied,
    /// A secret is missing, or the upstream rejected it.
    AuthRequired,
    /// The upstream returned an error or an invalid response.
    ProviderError,
    /// The upstream could not be reached.
    NetworkError,
    /// Sandboxed code failed or exceeded a limit.
    SandboxError,
    /// The call was cancelled, its implementation panicked, or its outcome is unknown.
    Unknown,
}

impl ErrorCode {
    /// All codes, in the order of the contract.
    pub const ALL: [ErrorCode; 9] = [
        ErrorCode::ValidationError,
        ErrorCode::Timeout,
        ErrorCode::RateLimit,
        ErrorCode::PolicyDenied,
        ErrorCode::AuthRequired,
        ErrorCode::ProviderError,
        ErrorCode::NetworkError,
        ErrorCode::SandboxError,
        ErrorCode::Unknown,
    ];

    /// The name on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            ErrorCode::ValidationError => "VALIDATION_ERROR",
            ErrorCode::Timeout => "TIMEOUT",
            ErrorCode::RateLimit => "RATE_LIMIT",
            ErrorCode::PolicyDenied => "POLICY_DENIED",
            ErrorCode::AuthRequired => "AUTH_REQUIRED",
            ErrorCode::ProviderError => "PROVIDER_ERROR",
            ErrorCode::NetworkError => "NETWORK_ERROR",
            ErrorCode::SandboxError => "SANDBOX_ERROR",
            ErrorCode::Unknown => "UNKNOWN",
        }
    }
}

impl std::fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}
