//! What is said between a run and a model, in no provider's words.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::Attachment;

/// One message of a conversation with a model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "role", rename_all = "lowercase")]
pub enum Message {
    /// Instructions.
    System {
        /// The text.
        content: String,
    },
    /// What a person, or whoever called the agent, says.
    User {
        /// The text.
        content: String,
    },
    /// What the model said and wants done.
    Assistant {
        /// The text; empty when it only calls tools.
        #[serde(default)]
        content: String,
        /// The calls, in the order it made them.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        tool_calls: Vec<RequestedCall>,
        /// What the provider wants to see again (thinking and its signatures), opaque to everyone else.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        thinking: Vec<Value>,
    },
    /// What became of one call.
    Tool {
        /// The id the model gave the call.
        id: String,
        /// The tool.
        name: String,
        /// What the model is shown.
        content: String,
        /// Whether the call failed.
        #[serde(default)]
        is_error: bool,
        /// Pictures that came with it, for a model that can look at them.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        images: Vec<Attachment>,
    },
}

/// A call that a model asks for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RequestedCall {
    /// The id the model gave it.
    pub id: String,
    /// The tool, by the name it was offered under.
    pub name: String,
    /// The arguments.
    pub arguments: Arguments,
}

/// The arguments of a requested call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Arguments {
    /// Any JSON value; almost always an object.
    Json(Value),
    /// What the model wrote, when that is not JSON.
    Malformed(String),
}

/// A tool as a model is offered it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OfferedTool {
    /// The tool's own name; a provider that does not take it gets another, and maps it back.
    pub name: String,
    /// When to use it.
    pub description: String,
    /// What it takes.
    pub input_schema: Value,
}

/// What a model is asked.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ModelRequest {
    /// The model's name at its provider.
    pub model: String,
    /// The conversation so far, oldest first. Shared, because a run asks many times with few more each time.
    pub messages: Arc<Vec<Message>>,
    /// The tools it may call.
    #[serde(default)]
    pub tools: Arc<Vec<OfferedTool>>,
    /// How freely it speaks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub temperature: Option<f64>,
    /// How much it may say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_output_tokens: Option<u32>,
    /// What its answer must be.
    #[serde(default)]
    pub response_format: ResponseFormat,
    /// Whether it may ask for several calls at once.
    #[serde(default = "yes")]
    pub parallel_tool_calls: bool,
    /// What only this provider understands.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub extra: Map<String, Value>,
    /// The pictures that messages name, by their address. Fetched when the model is asked and never written down: what
    /// is not here is not shown.
    #[serde(skip)]
    pub images: BTreeMap<String, Image>,
}

/// A picture as models are sent it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Image {
    /// Its media type.
    pub content_type: String,
    /// Its bytes, in base64.
    pub base64: String,
}

/// What a model's answer must be.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ResponseFormat {
    /// Text.
    #[default]
    Text,
    /// Any JSON.
    Json,
    /// JSON that fits this schema.
    Structured(Value),
}

/// What a model answered.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ModelReply {
    /// The text.
    #[serde(default)]
    pub content: String,
    /// The calls it asks for.
    #[serde(default)]
    pub tool_calls: Vec<RequestedCall>,
    /// What the provider wants to see again.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub thinking: Vec<Value>,
    /// What it consumed.
    #[serde(default)]
    pub usage: Usage,
    /// Why it stopped.
    pub stop: StopReason,
    /// What it cost; None when the model's price is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_usd: Option<f64>,
}

/// Tokens that were consumed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Usage {
    /// Read, cached ones included.
    #[serde(default)]
    pub input_tokens: u64,
    /// Written.
    #[serde(default)]
    pub output_tokens: u64,
    /// Read from the provider's cache.
    #[serde(default)]
    pub cached_input_tokens: u64,
}

impl Usage {
    /// Whether nothing was consumed.
    pub fn is_zero(&self) -> bool {
        *self == Self::default()
    }

    /// All tokens.
    pub fn total(self) -> u64 {
        self.input_tokens.saturating_add(self.output_tokens)
    }
}

impl std::ops::AddAssign for Usage {
    fn add_assign(&mut self, more: Self) {
        self.input_tokens = self.input_tokens.saturating_add(more.input_tokens);
        self.output_tokens = self.output_tokens.saturating_add(more.output_tokens);
        self.cached_input_tokens = self.cached_input_tokens.saturating_add(more.cached_input_tokens);
    }
}

/// Why a model stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StopReason {
    /// It had said what it wanted.
    EndTurn,
    /// It waits for tools.
    ToolUse,
    /// It ran out of room.
    MaxTokens,
    /// It declines to answer.
    Refusal,
}

fn yes() -> bool {
    true
}
