//! The rules of a script: their conditions and replies.

use regex::{Regex, RegexBuilder};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use toolwright_types::{Arguments, ModelReply, ModelRequest, RequestedCall, StopReason, Usage};

use super::placeholders::{self, Placeholders};
use crate::{ErrorKind, ModelError, estimate_request_tokens, estimate_tokens};

/// The maximum size of a compiled pattern. It is limited, because scripts can be part of a request.
const MAX_PATTERN_BYTES: usize = 1 << 20;

#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Rule {
    #[serde(default)]
    pub when: Condition,
    pub reply: Option<ScriptedReply>,
    pub error: Option<ScriptedError>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Condition {
    pub user: Option<String>,
    pub turn: Option<usize>,
    pub after_tool: Option<String>,
    pub result: Option<String>,
    pub failed: Option<bool>,
    pub offers: Option<String>,
    pub system: Option<String>,
    #[serde(rename = "match")]
    pub pattern: Option<Pattern>,
    pub wants: Option<String>,
}

/// A regular expression, compiled when the script is parsed.
#[derive(Debug, Clone, Deserialize)]
#[serde(try_from = "String")]
pub(super) struct Pattern(pub Regex);

impl TryFrom<String> for Pattern {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let mut builder = RegexBuilder::new(&text);
        let regex = builder.case_insensitive(true).size_limit(MAX_PATTERN_BYTES).build();
        let regex = regex.map_err(|error| format!("`match` must be a regular expression: {error}"))?;
        match regex.capture_names().flatten().find(|name| placeholders::RESERVED.contains(name)) {
            Some(name) => Err(format!("a group of `match` must not be named `{name}`, which is another placeholder")),
            None => Ok(Self(regex)),
        }
    }
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct ScriptedReply {
    #[serde(default)]
    text: String,
    json: Option<Value>,
    #[serde(default)]
    tool_calls: Vec<ScriptedCall>,
    #[serde(default)]
    thinking: String,
    stop: Option<StopReason>,
    usage: Option<Usage>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct ScriptedCall {
    name: String,
    id: Option<String>,
    #[serde(default)]
    arguments: Map<String, Value>,
    raw_arguments: Option<String>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct ScriptedError {
    kind: ScriptedErrorKind,
    #[serde(default)]
    message: String,
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
enum ScriptedErrorKind {
    Auth,
    RateLimit,
    Overloaded,
    Timeout,
    Network,
    InvalidRequest,
    Malformed,
    Unsupported,
}

impl ScriptedError {
    pub(super) fn to_model_error(&self) -> ModelError {
        let kind = match self.kind {
            ScriptedErrorKind::Auth => ErrorKind::Auth,
            ScriptedErrorKind::RateLimit => ErrorKind::RateLimit { retry_after: None },
            ScriptedErrorKind::Overloaded => ErrorKind::Overloaded { retry_after: None },
            ScriptedErrorKind::Timeout => ErrorKind::Timeout,
            ScriptedErrorKind::Network => ErrorKind::Network,
            ScriptedErrorKind::InvalidRequest => ErrorKind::InvalidRequest,
            ScriptedErrorKind::Malformed => ErrorKind::Malformed,
            ScriptedErrorKind::Unsupported => ErrorKind::Unsupported,
        };
        ModelError::new(kind, format!("scripted error: {}", self.message))
    }
}

impl ScriptedReply {
    pub(super) fn from_text(text: &str) -> Self {
        Self { text: text.to_owned(), ..Self::default() }
    }

    pub(super) fn has_two_contents(&self) -> bool {
        self.json.is_some() && !self.text.is_empty()
    }

    pub(super) fn to_model_reply(&self, request: &ModelRequest, placeholders: &Placeholders<'_>) -> ModelReply {
        let calls = self.tool_calls.iter().enumerate().map(|(index, call)| RequestedCall {
            id: call.id.clone().unwrap_or_else(|| format!("scripted_{}", placeholders.earlier_calls() + index)),
            name: call.name.clone(),
            arguments: match &call.raw_arguments {
                Some(raw) => Arguments::Malformed(raw.clone()),
                None => Arguments::Json(placeholders.fill_typed(&Value::Object(call.arguments.clone()))),
            },
        });
        let tool_calls: Vec<RequestedCall> = calls.collect();
        let content = match &self.json {
            Some(value) => placeholders.fill_typed(value).to_string(),
            None => placeholders.fill(&self.text),
        };
        let default_stop = if tool_calls.is_empty() { StopReason::EndTurn } else { StopReason::ToolUse };
        let thinking = Some(&self.thinking).filter(|text| !text.is_empty());
        let estimate = || Usage {
            input_tokens: estimate_request_tokens(request),
            output_tokens: estimate_tokens(&content)
                + tool_calls.iter().map(|call| estimate_tokens(&format!("{call:?}"))).sum::<u64>(),
            cached_input_tokens: 0,
        };
        ModelReply {
            usage: self.usage.unwrap_or_else(estimate),
            stop: self.stop.unwrap_or(default_stop),
            thinking: thinking.map(|text| json!({"type": "scripted", "text": text})).into_iter().collect(),
            content,
            tool_calls,
            cost_usd: Some(0.0),
        }
    }
}
