//! The envelope: the receipt of one tool call. Its field names are a published contract.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{CallId, CallSource, Timestamp};

/// The receipt of one call, whoever made it and however it ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct ToolEnvelope {
    /// The deterministic identity of the call.
    #[schema(value_type = String)]
    pub call_id: CallId,
    /// The tool's name.
    pub name: String,
    /// The version that ran; empty when the tool is not known.
    pub version: String,
    /// The arguments as they were given.
    pub input: Value,
    /// What the tool returned; null when it failed.
    #[serde(default)]
    pub output: Value,
    /// Why it failed; null when it succeeded.
    #[serde(default)]
    pub error: Option<ToolError>,
    /// When the call was taken up.
    #[schema(value_type = String, format = DateTime)]
    pub t_start: Timestamp,
    /// When its outcome was known.
    #[schema(value_type = String, format = DateTime)]
    pub t_end: Timestamp,
    /// Whether the output came from the result cache.
    #[serde(default)]
    pub cached: bool,
    /// Whether `output` is only the beginning; the whole is then attached as a blob.
    #[serde(default)]
    pub truncated: bool,
    /// Payloads kept beside the envelope.
    #[serde(default)]
    pub attachments: Vec<Attachment>,
    /// What else is known about the call.
    #[serde(default)]
    pub metadata: CallMetadata,
}

impl ToolEnvelope {
    /// Whether the call succeeded.
    pub fn is_success(&self) -> bool {
        self.error.is_none()
    }
}

/// A payload kept in blob storage.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Attachment {
    /// What the payload is.
    pub kind: AttachmentKind,
    /// Where it can be fetched.
    pub url: String,
    /// Its media type, where known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content_type: Option<String>,
    /// Its size.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
}

/// What an attachment holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum AttachmentKind {
    /// Anything.
    Blob,
    /// A picture.
    Image,
    /// Rows and columns.
    Table,
}

/// What is known about a call beyond the published contract.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct CallMetadata {
    /// How many attempts were made; 0 when the tool was not run.
    #[serde(default)]
    pub attempt: u32,
    /// What the call cost, where known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_usd: Option<f64>,
    /// The principal on whose authority it ran.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub principal: Option<String>,
    /// The policy that decided.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy_id: Option<String>,
    /// Where the final step ran.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub execution_site: Option<ExecutionSite>,
    /// The scope whose secret was used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret_scope: Option<String>,
    /// What the reader should know although the call went through.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
    /// The status of the last HTTP answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub http_status: Option<u16>,
    /// Selected headers of the last HTTP answer.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, String>,
    /// The call this one replaced when its input was edited before approval.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub edited_from: Option<CallId>,
    /// What ran, as `tool@version`, where a library bound the tool to another one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub implementation: Option<String>,
    /// Where the result comes from, if the tool was not called for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<CallSource>,
    /// Names in the input for which the tool was given ids, by field.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub resolved_inputs: BTreeMap<String, ResolvedInput>,
    /// The calls that it made of other tools, in the order of their beginning.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub calls: Vec<PartCall>,
}

/// A call that another call made.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct PartCall {
    /// Its identity.
    #[schema(value_type = String)]
    pub call_id: CallId,
    /// The tool's name.
    pub name: String,
    /// The version that ran; empty when the tool is not known.
    pub version: String,
    /// The arguments; left out where they would make the receipt large.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub input: Value,
    /// Why it failed, without details.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<ToolError>,
    /// When it was taken up.
    #[schema(value_type = String, format = DateTime)]
    pub t_start: Timestamp,
    /// When its outcome was known; left out where it was given up with the call that made it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub t_end: Option<Timestamp>,
    /// Where the result comes from, if the tool was not called for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<CallSource>,
    /// The calls that it made in its turn.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(no_recursion)]
    pub calls: Vec<PartCall>,
}

/// A name that was given, and the id that it stands for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct ResolvedInput {
    /// What was given.
    pub original: Value,
    /// What the tool got.
    pub resolved: Value,
}

/// Who performed the final step of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum ExecutionSite {
    /// This server.
    Server,
    /// The caller, from a payload the server prepared.
    Client,
}

/// Why a call failed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct ToolError {
    /// The stable code to branch on.
    pub code: ErrorCode,
    /// What happened, for a person or a model.
    pub message: String,
    /// More, by code; `details.reason` names the exact cause.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub details: Option<Value>,
    /// How long to wait before trying again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after_s: Option<f64>,
}

impl ToolError {
    /// An error with a code and a message.
    pub fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), details: None, retry_after_s: None }
    }

    /// The same error with `details.reason`.
    pub fn reason(self, reason: &str) -> Self {
        self.detail("reason", reason)
    }

    /// The same error with one more field in `details`.
    pub fn detail(mut self, key: &str, value: impl Into<Value>) -> Self {
        let details = self.details.get_or_insert_with(|| Value::Object(Default::default()));
        if let Value::Object(fields) = details {
            fields.insert(key.to_owned(), value.into());
        }
        self
    }

    /// The same error with a time to wait.
    pub fn retry_after(mut self, seconds: f64) -> Self {
        self.retry_after_s = Some(seconds);
        self
    }
}

/// The nine codes an envelope can carry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum ErrorCode {
    /// The input does not fit the tool's schema.
    ValidationError,
    /// The tool did not answer in time.
    Timeout,
    /// Too many calls, ours or the upstream's limit.
    RateLimit,
    /// A rule forbids the call.
    PolicyDenied,
    /// No secret, or one the upstream refused.
    AuthRequired,
    /// The upstream answered with an error or nonsense.
    ProviderError,
    /// The upstream could not be reached.
    NetworkError,
    /// Sandboxed code failed or exceeded a limit.
    SandboxError,
    /// Cancelled, panicked, or of unknown outcome.
    Unknown,
}

impl ErrorCode {
    /// Every code, in the order of the contract.
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

    /// The code as it is written on the wire.
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
