//! Not a model: answers by rules, for tests and demonstrations without a network.
//!
//! A script is data. The first rule that fits the request answers; the same request always gets the same reply, so a
//! run over a script can be replayed and forked like any other. See [`Script`] for the form.

use std::fmt;

use futures::future::BoxFuture;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use toolwright_types::{Arguments, Message, ModelReply, ModelRequest, RequestedCall, StopReason, Usage};

use crate::{ErrorKind, Model, ModelError, Sink, estimate_request_tokens, estimate_tokens};

/// Rules that answer instead of a model.
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
/// `when`: `user` is part of the last thing the user said, in any case; `turn` counts the replies since then; `afterTool`
/// names the tool whose result came last; `result` is part of that result; `failed` says whether it is an error; `offers`
/// names an offered tool; `system` is part of the instructions. All that are given must hold. `{{user}}` and `{{result}}`
/// stand for those texts, `{{result/items/0/name}}` for a place in a result that is JSON. A call has `arguments`, or `rawArguments` for what is not JSON. `stop`, `thinking` and `usage`
/// may be given too.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Script {
    #[serde(default)]
    rules: Vec<Rule>,
    otherwise: Option<Reply>,
}

/// A text that holds no script.
#[derive(Debug, thiserror::Error)]
pub enum InvalidScript {
    /// It is not the JSON of a script.
    #[error("the script cannot be read")]
    Json(#[from] serde_json::Error),
    /// A rule does nothing, or two things.
    #[error("rule {0} of the script needs either a `reply` or an `error`")]
    NotOneAnswer(usize),
}

impl Script {
    /// The script in `text`.
    pub fn from_json(text: &str) -> Result<Self, InvalidScript> {
        Self::from_value(serde_json::from_str(text)?)
    }

    /// The script in `value`.
    pub fn from_value(value: Value) -> Result<Self, InvalidScript> {
        let script: Script = serde_json::from_value(value)?;
        match script.rules.iter().position(|rule| rule.reply.is_some() == rule.error.is_some()) {
            Some(index) => Err(InvalidScript::NotOneAnswer(index)),
            None => Ok(script),
        }
    }

    /// The script that repeats what the user says.
    pub fn echo() -> Self {
        Self { rules: Vec::new(), otherwise: Some(Reply { text: "{{user}}".into(), ..Reply::default() }) }
    }

    fn answer(&self, request: &ModelRequest) -> Result<ModelReply, ModelError> {
        let scene = Scene::of(request);
        match self.rules.iter().find(|rule| scene.fits(&rule.when)) {
            Some(Rule { error: Some(error), .. }) => Err(error.to_error()),
            Some(Rule { reply: Some(reply), .. }) => Ok(reply.to_reply(request, &scene)),
            _ => match &self.otherwise {
                Some(reply) => Ok(reply.to_reply(request, &scene)),
                None => Err(ModelError::new(ErrorKind::Unsupported, "the script has no rule for this request")),
            },
        }
    }
}

/// Answers by a script.
pub struct Scripted(Script);

impl Scripted {
    /// Answers by `script`, unless a request brings its own in `extra.script`.
    pub fn new(script: Script) -> Self {
        Self(script)
    }

    fn answer(&self, request: &ModelRequest, sink: &mut dyn Sink) -> Result<ModelReply, ModelError> {
        let wrong = |error| ModelError::new(ErrorKind::InvalidRequest, format!("extra.script: {error}"));
        let own = request.extra.get("script").filter(|script| !script.is_null());
        let own = own.map(|script| Script::from_value(script.clone())).transpose().map_err(wrong)?;
        let reply = own.as_ref().unwrap_or(&self.0).answer(request)?;
        for block in reply.thinking.iter().filter_map(|block| block.get("text")?.as_str()) {
            sink.thinking(block);
        }
        // Word by word, as a model would.
        for piece in reply.content.split_inclusive(' ') {
            sink.text(piece);
        }
        Ok(reply)
    }
}

impl Model for Scripted {
    fn complete<'a>(
        &'a self,
        request: &'a ModelRequest,
        sink: &'a mut dyn Sink,
    ) -> BoxFuture<'a, Result<ModelReply, ModelError>> {
        let answered = self.answer(request, sink);
        Box::pin(std::future::ready(answered))
    }
}

impl fmt::Debug for Scripted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Scripted({} rules, not a model)", self.0.rules.len())
    }
}

#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Rule {
    #[serde(default)]
    when: When,
    reply: Option<Reply>,
    error: Option<Failure>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct When {
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
struct Reply {
    #[serde(default)]
    text: String,
    #[serde(default)]
    tool_calls: Vec<Call>,
    #[serde(default)]
    thinking: String,
    stop: Option<StopReason>,
    usage: Option<Usage>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Call {
    name: String,
    id: Option<String>,
    #[serde(default)]
    arguments: Map<String, Value>,
    raw_arguments: Option<String>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Failure {
    kind: FailureKind,
    #[serde(default)]
    message: String,
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
enum FailureKind {
    Auth,
    RateLimit,
    Overloaded,
    Timeout,
    Network,
    InvalidRequest,
    Malformed,
    Unsupported,
}

impl Failure {
    fn to_error(&self) -> ModelError {
        let kind = match self.kind {
            FailureKind::Auth => ErrorKind::Auth,
            FailureKind::RateLimit => ErrorKind::RateLimit { retry_after: None },
            FailureKind::Overloaded => ErrorKind::Overloaded { retry_after: None },
            FailureKind::Timeout => ErrorKind::Timeout,
            FailureKind::Network => ErrorKind::Network,
            FailureKind::InvalidRequest => ErrorKind::InvalidRequest,
            FailureKind::Malformed => ErrorKind::Malformed,
            FailureKind::Unsupported => ErrorKind::Unsupported,
        };
        ModelError::new(kind, format!("by script: {}", self.message))
    }
}

impl Reply {
    fn to_reply(&self, request: &ModelRequest, scene: &Scene<'_>) -> ModelReply {
        let calls = self.tool_calls.iter().enumerate().map(|(index, call)| RequestedCall {
            id: call.id.clone().unwrap_or_else(|| format!("scripted_{}", scene.calls_before + index)),
            name: call.name.clone(),
            arguments: match &call.raw_arguments {
                Some(raw) => Arguments::Malformed(raw.clone()),
                None => Arguments::Json(scene.fill_value(&Value::Object(call.arguments.clone()))),
            },
        });
        let tool_calls: Vec<RequestedCall> = calls.collect();
        let content = scene.fill(&self.text);
        let usual = if tool_calls.is_empty() { StopReason::EndTurn } else { StopReason::ToolUse };
        let thinking = Some(&self.thinking).filter(|text| !text.is_empty());
        let estimate = || Usage {
            input_tokens: estimate_request_tokens(request),
            output_tokens: estimate_tokens(&content)
                + tool_calls.iter().map(|call| estimate_tokens(&format!("{call:?}"))).sum::<u64>(),
            cached_input_tokens: 0,
        };
        ModelReply {
            usage: self.usage.unwrap_or_else(estimate),
            stop: self.stop.unwrap_or(usual),
            thinking: thinking.map(|text| json!({"type": "scripted", "text": text})).into_iter().collect(),
            content,
            tool_calls,
            cost_usd: Some(0.0),
        }
    }
}

/// What a script looks at in a request.
struct Scene<'a> {
    request: &'a ModelRequest,
    user: &'a str,
    turn: usize,
    /// The result that came last, if nothing came after it: tool, text, failed.
    last_result: Option<(&'a str, &'a str, bool)>,
    calls_before: usize,
}

impl<'a> Scene<'a> {
    fn of(request: &'a ModelRequest) -> Self {
        let mut scene = Scene { request, user: "", turn: 0, last_result: None, calls_before: 0 };
        for message in request.messages.iter() {
            scene.last_result = None;
            match message {
                Message::System { .. } => {}
                Message::User { content } => (scene.user, scene.turn) = (content, 0),
                Message::Assistant { tool_calls, .. } => {
                    scene.turn += 1;
                    scene.calls_before += tool_calls.len();
                }
                Message::Tool { name, content, is_error, .. } => scene.last_result = Some((name, content, *is_error)),
            }
        }
        scene
    }

    fn fits(&self, when: &When) -> bool {
        let part = |part: &Option<String>, whole: &str| {
            part.as_ref().is_none_or(|part| whole.to_lowercase().contains(&part.to_lowercase()))
        };
        let instructions = self.request.messages.iter().filter_map(|message| match message {
            Message::System { content } => Some(content.as_str()),
            _ => None,
        });
        let (tool, result, failed) = self.last_result.unwrap_or_default();
        part(&when.user, self.user)
            && when.turn.is_none_or(|turn| turn == self.turn)
            && when.after_tool.as_ref().is_none_or(|name| name == tool)
            && part(&when.result, result)
            && when.failed.is_none_or(|expected| self.last_result.is_some() && expected == failed)
            && when.offers.as_ref().is_none_or(|name| self.request.tools.iter().any(|tool| tool.name == *name))
            && (when.system.is_none() || part(&when.system, &instructions.collect::<Vec<_>>().join("\n")))
    }

    /// The text with its placeholders filled in, each once: a user who says `{{result}}` gets just that.
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

#[cfg(test)]
#[path = "scripted_tests.rs"]
mod tests;
