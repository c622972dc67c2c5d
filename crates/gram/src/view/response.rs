//! Converts the response of an agent (its text and tool calls) to and from a pattern:
//!
//! ```text
//! [:AgentResponse {content: "Hello, World!"} |
//!   (:ToolInvocation {args: json`{"personName":"World"}`, result: json`"Hello, World!"`, toolName: "sayHello"})
//! ]
//! ```
//!
//! Arguments and results are JSON text in tagged strings, because property values cannot contain nested JSON.

use serde::{Deserialize, Serialize};
use serde_json::Value as Json;

use crate::labels::RESPONSE;
use crate::model::{Pattern, Scalar, Symbol, Value};

const INVOCATION: &str = "ToolInvocation";

/// The response of an agent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AgentResponse {
    /// The text.
    pub content: String,
    /// The tool calls, in the order in which they were made.
    #[serde(default)]
    pub tools_used: Vec<ToolInvocation>,
}

/// One tool call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolInvocation {
    /// The name of the tool.
    pub tool_name: String,
    /// The arguments.
    pub args: Json,
    /// The result, or the error message.
    #[serde(with = "outcome")]
    pub result: Result<Json, String>,
}

/// The reason why a pattern cannot be converted to a response, tool call, conversation or message.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FromPatternError {
    /// The pattern does not have this label.
    #[error("pattern must have the label `{0}`")]
    Label(&'static str),
    /// A property is missing or invalid.
    #[error("property `{key}` must be {expected}")]
    Property {
        /// The property.
        key: &'static str,
        /// A description of the valid values.
        expected: &'static str,
    },
    /// The tool call has neither a result nor an error, or it has both.
    #[error("tool invocation must have either a `result` or an `error`")]
    Outcome,
}

impl From<&AgentResponse> for Pattern {
    fn from(response: &AgentResponse) -> Self {
        let pattern = Pattern::default().label(RESPONSE).property("content", response.content.as_str());
        response.tools_used.iter().map(Pattern::from).fold(pattern, Pattern::element)
    }
}

impl TryFrom<&Pattern> for AgentResponse {
    type Error = FromPatternError;

    fn try_from(pattern: &Pattern) -> Result<Self, FromPatternError> {
        if !pattern.has_label(RESPONSE) {
            return Err(FromPatternError::Label(RESPONSE));
        }
        let tools_used: Result<Vec<ToolInvocation>, FromPatternError> =
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
    type Error = FromPatternError;

    fn try_from(pattern: &Pattern) -> Result<Self, FromPatternError> {
        if !pattern.has_label(INVOCATION) {
            return Err(FromPatternError::Label(INVOCATION));
        }
        let result = match (pattern.get("result"), pattern.get("error")) {
            (Some(_), None) => Ok(json(pattern, "result")?),
            (None, Some(_)) => Err(text(pattern, "error")?),
            _ => return Err(FromPatternError::Outcome),
        };
        Ok(Self { tool_name: text(pattern, "toolName")?, args: json(pattern, "args")?, result })
    }
}

pub(super) fn text(pattern: &Pattern, key: &'static str) -> Result<String, FromPatternError> {
    let text = pattern.get(key).and_then(Value::as_text);
    text.map(str::to_owned).ok_or(FromPatternError::Property { key, expected: "a string" })
}

fn json(pattern: &Pattern, key: &'static str) -> Result<Json, FromPatternError> {
    let text = text(pattern, key)?;
    serde_json::from_str(&text).map_err(|_| FromPatternError::Property { key, expected: "JSON in a string" })
}

fn tagged_json(json: &Json) -> Value {
    match Symbol::new("json") {
        Some(tag) => Value::Scalar(Scalar::Tagged { tag, content: json.to_string() }),
        None => Value::from(json.to_string()),
    }
}

/// Serializes a result as `{"success": …}` or `{"error": "…"}`.
mod outcome {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};
    use serde_json::Value as Json;

    #[derive(Serialize, Deserialize)]
    #[serde(rename_all = "lowercase")]
    enum Outcome {
        Success(Json),
        Error(String),
    }

    pub(super) fn serialize<S: Serializer>(result: &Result<Json, String>, serializer: S) -> Result<S::Ok, S::Error> {
        match result {
            Ok(value) => Outcome::Success(value.clone()),
            Err(message) => Outcome::Error(message.clone()),
        }
        .serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Result<Json, String>, D::Error> {
        Ok(match Outcome::deserialize(deserializer)? {
            Outcome::Success(value) => Ok(value),
            Outcome::Error(message) => Err(message),
        })
    }
}
