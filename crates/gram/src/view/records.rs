//! What a run leaves behind, as patterns: an answer and the tools that were called for it.
//!
//! ```text
//! [:AgentResponse {content: "Hello, World!"} |
//!   (:ToolInvocation {args: json`{"personName":"World"}`, result: json`"Hello, World!"`, toolName: "sayHello"})
//! ]
//! ```
//!
//! Arguments and results are JSON of any depth, which values of properties cannot hold; they are tagged strings.

use serde::{Deserialize, Serialize};
use serde_json::Value as Json;

use crate::model::{Pattern, Scalar, Symbol, Value};

const RESPONSE: &str = "AgentResponse";
const INVOCATION: &str = "ToolInvocation";

pub(super) fn is_response(pattern: &Pattern) -> bool {
    pattern.has_label(RESPONSE)
}

/// An agent's answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AgentResponse {
    /// The text.
    pub content: String,
    /// The tools that were called, in the order of the calls.
    #[serde(default)]
    pub tools_used: Vec<ToolInvocation>,
}

/// One call of a tool.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolInvocation {
    /// The tool.
    pub tool_name: String,
    /// What it was called with.
    pub args: Json,
    /// What it returned, or the message it failed with.
    #[serde(with = "outcome")]
    pub result: Result<Json, String>,
}

/// A pattern that is no [`AgentResponse`] or [`ToolInvocation`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RecordError {
    /// The label is missing.
    #[error("pattern must have the label `{0}`")]
    Label(&'static str),
    /// A property is missing or not what it should be.
    #[error("property `{key}` must be {expected}")]
    Property {
        /// The property.
        key: &'static str,
        /// What it should be.
        expected: &'static str,
    },
    /// Neither a result nor an error, or both.
    #[error("an invocation has either a `result` or an `error`")]
    Outcome,
}

impl From<&AgentResponse> for Pattern {
    fn from(response: &AgentResponse) -> Self {
        let pattern = Pattern::default().label(RESPONSE).property("content", response.content.as_str());
        response.tools_used.iter().map(Pattern::from).fold(pattern, Pattern::element)
    }
}

impl TryFrom<&Pattern> for AgentResponse {
    type Error = RecordError;

    fn try_from(pattern: &Pattern) -> Result<Self, RecordError> {
        if !pattern.has_label(RESPONSE) {
            return Err(RecordError::Label(RESPONSE));
        }
        let tools_used: Result<Vec<ToolInvocation>, RecordError> =
            pattern.elements.iter().map(ToolInvocation::try_from).collect();
        Ok(Self { content: text(pattern, "content")?, tools_used: tools_used? })
    }
}

impl From<&ToolInvocation> for Pattern {
    fn from(invocation: &ToolInvocation) -> Self {
        let pattern = Pattern::default().label(INVOCATION).property("toolName", invocation.tool_name.as_str());
        let pattern = pattern.property("args", tagged_json(&invocation.args));
        match &invocation.result {
            Ok(value) => pattern.property("result", tagged_json(value)),
            Err(message) => pattern.property("error", message.as_str()),
        }
    }
}

impl TryFrom<&Pattern> for ToolInvocation {
    type Error = RecordError;

    fn try_from(pattern: &Pattern) -> Result<Self, RecordError> {
        if !pattern.has_label(INVOCATION) {
            return Err(RecordError::Label(INVOCATION));
        }
        let result = match (pattern.get("result"), pattern.get("error")) {
            (Some(_), None) => Ok(json(pattern, "result")?),
            (None, Some(_)) => Err(text(pattern, "error")?),
            _ => return Err(RecordError::Outcome),
        };
        Ok(Self { tool_name: text(pattern, "toolName")?, args: json(pattern, "args")?, result })
    }
}

pub(super) fn text(pattern: &Pattern, key: &'static str) -> Result<String, RecordError> {
    let text = pattern.get(key).and_then(Value::as_text);
    text.map(str::to_owned).ok_or(RecordError::Property { key, expected: "a string" })
}

fn json(pattern: &Pattern, key: &'static str) -> Result<Json, RecordError> {
    let text = text(pattern, key)?;
    serde_json::from_str(&text).map_err(|_| RecordError::Property { key, expected: "JSON in a string" })
}

fn tagged_json(json: &Json) -> Value {
    match Symbol::new("json") {
        Some(tag) => Value::Scalar(Scalar::Tagged { tag, content: json.to_string() }),
        None => Value::from(json.to_string()),
    }
}

/// `{"success": …}` or `{"error": "…"}`.
mod outcome {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};
    use serde_json::Value as Json;

    #[derive(Serialize, Deserialize)]
    #[serde(rename_all = "lowercase")]
    enum Outcome {
        Success(Json),
        Error(String),
    }

    pub fn serialize<S: Serializer>(result: &Result<Json, String>, serializer: S) -> Result<S::Ok, S::Error> {
        match result {
            Ok(value) => Outcome::Success(value.clone()),
            Err(message) => Outcome::Error(message.clone()),
        }
        .serialize(serializer)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Result<Json, String>, D::Error> {
        Ok(match Outcome::deserialize(deserializer)? {
            Outcome::Success(value) => Ok(value),
            Outcome::Error(message) => Err(message),
        })
    }
}
