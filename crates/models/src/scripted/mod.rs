//! A rule-based replacement for a model, for tests and demonstrations without a network.
//!
//! A script is a list of rules. The first rule that matches the request determines the reply. The same request always
//! gets the same reply, so a run with a scripted model can be replayed and forked like any other run. See [`Script`] for
//! the format.

mod context;
mod placeholders;
mod rule;

use std::fmt;

use futures::future::BoxFuture;
use serde::Deserialize;
use serde_json::Value;
use toolwright_types::{ModelReply, ModelRequest};

use crate::{ErrorKind, Model, ModelError, Sink};
use context::RequestContext;
use placeholders::Placeholders;
use rule::{Rule, ScriptedReply};

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
/// | `match` | a user message matches this regular expression, ignoring case; the latest such message is used |
/// | `wants` | the reply must be JSON whose schema has this property |
///
/// Replies may contain placeholders:
///
/// | placeholder | value |
/// |---|---|
/// | `{{user}}` | the last user message |
/// | `{{user/0/name}}` | a JSON pointer into that message: into its `<data>` block, or the message itself |
/// | `{{result}}`, `{{result/items/0/name}}` | the last message if it is a result, and a JSON pointer into it |
/// | `{{results/0}}`, `{{results/0/items/0/name}}` | the first result since the last user message, and a pointer into it |
/// | `{{city}}` | the group `(?<city>…)` of `match` |
///
/// `{{a|b}}` has the value of the first of several placeholders that has one. A placeholder without a value becomes
/// `?`. `{{city:compact}}` has only the letters and digits of the value, in lower case. Inserted values are not
/// searched for placeholders.
///
/// A reply has `text`, or `json`: a value that is written as JSON text. A call has `arguments`, or `rawArguments` for
/// text that is not JSON. If a string in `json` or `arguments` consists of one placeholder, the value of the placeholder
/// replaces the string and keeps its type. A reply may also set `stop`, `thinking` and `usage`.
#[derive(Debug, Clone, Default, Deserialize)]
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
    /// A reply has both `text` and `json`.
    #[error("a reply of the script must have either a `text` or a `json`")]
    TextOrJson,
}

impl Script {
    /// Parses a script from JSON text.
    pub fn from_json(text: &str) -> Result<Self, InvalidScript> {
        Self::from_value(serde_json::from_str(text)?)
    }

    /// Parses a script from a JSON value.
    pub fn from_value(value: Value) -> Result<Self, InvalidScript> {
        let script: Script = serde_json::from_value(value)?;
        if let Some(index) = script.rules.iter().position(|rule| rule.reply.is_some() == rule.error.is_some()) {
            return Err(InvalidScript::ReplyOrError(index));
        }
        let mut replies = script.rules.iter().filter_map(|rule| rule.reply.as_ref()).chain(&script.otherwise);
        if replies.any(ScriptedReply::has_two_contents) { Err(InvalidScript::TextOrJson) } else { Ok(script) }
    }

    /// Returns a script with the rules of this script, followed by those of `next`. Of two default replies, the one of
    /// `next` is used.
    #[must_use]
    pub fn followed_by(mut self, next: Script) -> Self {
        self.rules.extend(next.rules);
        Self { rules: self.rules, otherwise: next.otherwise.or(self.otherwise) }
    }

    /// A script that repeats the last user message.
    pub fn echo() -> Self {
        Self { rules: Vec::new(), otherwise: Some(ScriptedReply::from_text("{{user}}")) }
    }

    fn answer(&self, request: &ModelRequest) -> Result<ModelReply, ModelError> {
        let context = RequestContext::new(request);
        let matching = self.rules.iter().find_map(|rule| Some((rule, context.matches(&rule.when)?)));
        let (reply, groups) = match matching {
            Some((Rule { error: Some(error), .. }, _)) => return Err(error.to_model_error()),
            Some((rule, groups)) => (rule.reply.as_ref(), groups),
            None => (self.otherwise.as_ref(), Vec::new()),
        };
        let none = || ModelError::new(ErrorKind::Unsupported, "no rule of the script matches the request");
        Ok(reply.ok_or_else(none)?.to_model_reply(request, &Placeholders::new(&context, groups)))
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
