//! A rule-based replacement for a model, for tests and demonstrations without a network.
//!
//! A script is a list of rules. The first rule that matches the request determines the reply. The same request always
//! gets the same reply, so a run with a scripted model can be replayed and forked like any other run. See [`Script`]
//! for the format.

use std::fmt;

use futures::future::BoxFuture;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use toolwright_types::{Arguments, Message, ModelReply, ModelRequest, RequestedCall, StopReason, Usage};

use crate::{ErrorKind, Model, ModelError, Sink, estimate_request_tokens, estimate_tokens};

/// The rules of a scripted model.
///
/// ```json
/// {
///   "rules": [
///     { "when": { "user": "weather", "turn": 0 },
///       "reply": { "text": "Let me look.", "toolCalls": [{ "name": "weather", "arguments": { "city": "{{user}}" } }] } },
///     { "when": { "afterTool": "weather" }, "reply": { "text": "It says: {{result}}" } },
///     { "when": { "user": "crash" }, "error": { "kind": "overloaded", "message": "too busy" } }
///   ],
///   "otherwise": { "text": "I only know the weather." }
/// }
/// ```
///
/// The conditions of `when`. A rule matches if all of its conditions are met:
///
/// | condition | holds if |
/// |---|---|
/// | `user` | the last user message contains this text, ignoring case |
/// | `turn` | the model has replied this many times since the last user message |
/// | `afterTool` | the last message is the result of this tool |
/// | `result` | that result contains this text, ignoring case |
/// | `failed` | `true`: that result is an error; `false`: it is not |
/// | `offers` | the request offers this tool |
/// | `system` | the instructions contain this text, ignoring case |
///
/// Replies may contain the placeholders `{{user}}`, `{{result}}` and, for a JSON result, a pointer such as
/// `{{result/items/0/name}}`. A call has `arguments`, or `rawArguments` for text that is not JSON. A reply may also set
/// `stop`, `thinking` and `usage`.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Script {
    #[serde(default)]
    rules: Vec<Rule>,
    otherwise: Option<ScriptedReply>,
}

/// An invalid script.
#[derive(Debug, thiserror::Error)]
pub enum InvalidScript {
    /// The text is not valid JSON, or does not have the format of a script.
    #[error("the script cannot be parsed")]
    Json(#[from] serde_json::Error),
    /// A rule does not have exactly one of `reply` and `error`.
    #[error("rule {0} of the script must have either a `reply` or an `error`")]
    ReplyOrError(usize),
}

impl Script {
    /// Parses a script from JSON text.
    pub fn from_json(text: &str) -> Result<Self, InvalidScript> {
        Self::from_value(serde_json::from_str(text)?)
    }

    /// Parses a script from a JSON value.
    pub fn from_value(value: Value) -> Result<Self, InvalidScript> {
        let script: Script = serde_json::from_value(value)?;
        match script.rules.iter().position(|rule| rule.reply.is_some() == rule.error.is_some()) {
            Some(index) => Err(InvalidScript::ReplyOrError(index)),
            None => Ok(script),
        }
    }

    /// A script that repeats the last user message.
    pub fn echo() -> Self {
        Self {
            rules: Vec::new(),
            otherwise: Some(ScriptedReply { text: "{{user}}".into(), ..ScriptedReply::default() }),
        }
    }

    fn answer(&self, request: &ModelRequest) -> Result<ModelReply, ModelError> {
        let context = RequestContext::new(request);
        match self.rules.iter().find(|rule| context.matches(&rule.when)) {
            Some(Rule { error: Some(error), .. }) => Err(error.to_model_error()),
            Some(Rule { reply: Some(reply), .. }) => Ok(reply.to_model_reply(request, &context)),
            _ => match &self.otherwise {
                Some(reply) => Ok(reply.to_model_reply(request, &context)),
                None => Err(ModelError::new(ErrorKind::Unsupported, "no rule of the script matches the request")),
            },
        }
    }
}

/// A model that follows a script.
pub struct ScriptedModel(Script);

impl ScriptedModel {
    /// Creates a model that follows `script`. A request may override the script with `extra.script`.
    pub fn new(script: Script) -> Self {
        Self(script)
    }

    fn answer(&self, request: &ModelRequest, sink: &mut dyn Sink) -> Result<ModelReply, ModelError> {
        let invalid = |error| ModelError::new(ErrorKind::InvalidRequest, format!("`extra.script`: {error}"));
        let own = request.extra.get("script").filter(|script| !script.is_null());
        let own = own.map(|script| Script::from_value(script.clone())).transpose().map_err(invalid)?;
        let reply = own.as_ref().unwrap_or(&self.0).answer(request)?;
        for block in reply.thinking.iter().filter_map(|block| block.get("text")?.as_str()) {
            sink.thinking(block);
        }
        // Sends one word per delta, to imitate a model's stream.
        for piece in reply.content.split_inclusive(' ') {
            sink.text(piece);
        }
        Ok(reply)
    }
}

impl Model for ScriptedModel {
    fn complete<'a>(
        &'a self,
        request: &'a ModelRequest,
        sink: &'a mut dyn Sink,
    ) -> BoxFuture<'a, Result<ModelReply, ModelError>> {
        let reply = self.answer(request, sink);
        Box::pin(std::future::ready(reply))
    }
}

impl fmt::Debug for ScriptedModel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ScriptedModel({} rules, not a model)", self.0.rules.len())
    }
}

#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Rule {
    #[serde(default)]
    when: Condition,
    reply: Option<ScriptedReply>,
    error: Option<ScriptedError>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Condition {
    user: Option<String>,
    turn: Option<usize>,
    after_tool: Option<String>,
    result: Option<String>,
    failed: Option<bool>,
    offers: Option<String>,
    system: Option<String>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct ScriptedReply {
    #[serde(default)]
    text: String,
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
struct ScriptedError {
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
    fn to_model_error(&self) -> ModelError {
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
    fn to_model_reply(&self, request: &ModelRequest, context: &RequestContext<'_>) -> ModelReply {
        let calls = self.tool_calls.iter().enumerate().map(|(index, call)| RequestedCall {
            id: call.id.clone().unwrap_or_else(|| format!("scripted_{}", context.earlier_calls + index)),
            name: call.name.clone(),
            arguments: match &call.raw_arguments {
                Some(raw) => Arguments::Malformed(raw.clone()),
                None => Arguments::Json(context.fill_value(&Value::Object(call.arguments.clone()))),
            },
        });
        let tool_calls: Vec<RequestedCall> = calls.collect();
        let content = context.fill(&self.text);
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

/// The parts of a request that conditions and placeholders refer to.
struct RequestContext<'a> {
    request: &'a ModelRequest,
    user: &'a str,
    turn: usize,
    /// The tool name, text and error flag of the last message, if that message is a tool result.
    last_result: Option<(&'a str, &'a str, bool)>,
    /// The number of calls in earlier replies.
    earlier_calls: usize,
}

impl<'a> RequestContext<'a> {
    fn new(request: &'a ModelRequest) -> Self {
        let mut context = RequestContext { request, user: "", turn: 0, last_result: None, earlier_calls: 0 };
        for message in request.messages.iter() {
            context.last_result = None;
            match message {
                Message::System { .. } => {}
                Message::User { content } => (context.user, context.turn) = (content, 0),
                Message::Assistant { tool_calls, .. } => {
                    context.turn += 1;
                    context.earlier_calls += tool_calls.len();
                }
                Message::Tool { name, content, is_error, .. } => context.last_result = Some((name, content, *is_error)),
            }
        }
        context
    }

    fn matches(&self, when: &Condition) -> bool {
        let contains = |text: &str, expected: &Option<String>| {
            expected.as_ref().is_none_or(|expected| text.to_lowercase().contains(&expected.to_lowercase()))
        };
        let instructions = self.request.messages.iter().filter_map(|message| match message {
            Message::System { content } => Some(content.as_str()),
            _ => None,
        });
        let (tool, result, failed) = self.last_result.unwrap_or_default();
        contains(self.user, &when.user)
            && when.turn.is_none_or(|turn| turn == self.turn)
            && when.after_tool.as_ref().is_none_or(|name| name == tool)
            && contains(result, &when.result)
            && when.failed.is_none_or(|expected| self.last_result.is_some() && expected == failed)
            && when.offers.as_ref().is_none_or(|name| self.request.tools.iter().any(|tool| tool.name == *name))
            && (when.system.is_none() || contains(&instructions.collect::<Vec<_>>().join("\n"), &when.system))
    }

    /// Fills in the placeholders of a text. Placeholders in inserted values are not filled in, because a user message
    /// may contain `{{result}}`.
    fn fill(&self, text: &str) -> String {
        let mut pieces = text.split("{{");
        let mut filled = pieces.next().unwrap_or_default().to_owned();
        for piece in pieces {
            let placeholder = piece.split_once("}}").and_then(|(name, rest)| Some((self.placeholder(name)?, rest)));
            match placeholder {
                Some((value, rest)) => {
                    filled.push_str(&value);
                    filled.push_str(rest);
                }
                None => {
                    filled.push_str("{{");
                    filled.push_str(piece);
                }
            }
        }
        filled
    }

    fn placeholder(&self, name: &str) -> Option<String> {
        let result = self.last_result.map_or("", |(_, text, _)| text);
        match name {
            "user" => Some(self.user.to_owned()),
            "result" => Some(result.to_owned()),
            _ => {
                let pointer = name.strip_prefix("result").filter(|pointer| pointer.starts_with('/'))?;
                let parsed: Value = serde_json::from_str(result).unwrap_or_default();
                Some(match parsed.pointer(pointer) {
                    Some(Value::String(text)) => text.clone(),
                    Some(value) => value.to_string(),
                    None => "?".to_owned(),
                })
            }
        }
    }

    fn fill_value(&self, value: &Value) -> Value {
        match value {
            Value::String(text) => Value::String(self.fill(text)),
            Value::Array(items) => items.iter().map(|item| self.fill_value(item)).collect(),
            Value::Object(fields) => {
                Value::Object(fields.iter().map(|(name, value)| (name.clone(), self.fill_value(value))).collect())
            }
            other => other.clone(),
        }
    }
}
