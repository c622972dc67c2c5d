//! The provider-independent messages between a run and a model.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::Attachment;

/// One message of a conversation with a model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "role", rename_all = "lowercase")]
pub enum Message {
    /// The system prompt.
    System {
        /// The text.
        content: String,
    },
    /// A message from a person or from the caller of the agent.
    User {
        /// The text.
        content: String,
    },
    /// A reply of the model.
    Assistant {
        /// The text; empty if the reply only requests calls.
        #[serde(default)]
        content: String,
        /// The requested calls, in the order in which the model wrote them.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        tool_calls: Vec<RequestedCall>,
        /// Opaque provider data that must be sent back, such as thinking blocks and their signatures.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        thinking: Vec<Value>,
    },
    /// The result of one call.
    Tool {
        /// The id that the model assigned to the call.
        id: String,
        /// The name of the tool.
        name: String,
        /// The result as shown to the model.
        content: String,
        /// Whether the call failed.
        #[serde(default)]
        is_error: bool,
        /// Images from the call, for models with image input.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        images: Vec<Attachment>,
    },
}

/// A call that a model requested.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RequestedCall {
    /// The id that the model assigned.
    pub id: String,
    /// The name of the tool in the request to the model.
    pub name: String,
    /// The arguments.
    pub arguments: Arguments,
}

/// The arguments of a requested call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Arguments {
    /// A JSON value, almost always an object.
    Json(Value),
    /// The arguments as text, if they are not valid JSON or are nested too deeply for a journal.
    Malformed(String),
}

impl Arguments {
    /// The arguments as JSON. Text that is not valid JSON becomes a string.
    pub fn to_value(&self) -> Value {
        match self {
            Arguments::Json(value) => value.clone(),
            Arguments::Malformed(text) => Value::String(text.clone()),
        }
    }
}

/// A tool as offered to a model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OfferedTool {
    /// The name of the tool. If a model provider does not accept this name, its adapter sends another name and
    /// translates it back in replies.
    pub name: String,
    /// The description for the model.
    pub description: String,
    /// The input schema.
    pub input_schema: Value,
}

/// A request to a model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ModelRequest {
    /// The provider's name for the model.
    pub model: String,
    /// The conversation so far, oldest message first. The list is shared because a run sends many requests that differ
    /// by a few messages.
    pub messages: Arc<Vec<Message>>,
    /// The tools that the model may call.
    #[serde(default)]
    pub tools: Arc<Vec<OfferedTool>>,
    /// The sampling temperature.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub temperature: Option<f64>,
    /// The maximum number of output tokens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_output_tokens: Option<u32>,
    /// The format of the answer.
    #[serde(default)]
    pub response_format: ResponseFormat,
    /// Whether the model may request several calls in one reply.
    #[serde(default = "default_true")]
    pub parallel_tool_calls: bool,
    /// Provider-specific parameters.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub extra: Map<String, Value>,
    /// The images that messages refer to, by URL. They are fetched for each model call and not stored. An image that is
    /// missing in this map is not sent.
    #[serde(skip)]
    pub images: BTreeMap<String, Image>,
}

impl ModelRequest {
    /// The request of a run that calls no model.
    pub fn none() -> Self {
        Self {
            model: String::new(),
            messages: Arc::default(),
            tools: Arc::default(),
            temperature: None,
            max_output_tokens: None,
            response_format: ResponseFormat::Text,
            parallel_tool_calls: false,
            extra: Map::new(),
            images: BTreeMap::new(),
        }
    }

    /// Whether this is the request of a run that calls no model.
    pub fn is_none(&self) -> bool {
        *self == Self::none()
    }
}

/// An image as sent to a model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Image {
    /// The media type.
    pub content_type: String,
    /// The content in base64.
    pub base64: String,
}

/// The format of a model's answer.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ResponseFormat {
    /// Text.
    #[default]
    Text,
    /// Any JSON.
    Json,
    /// JSON that matches this schema.
    Structured(Value),
}

/// The reply of a model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ModelReply {
    /// The text.
    #[serde(default)]
    pub content: String,
    /// The requested calls.
    #[serde(default)]
    pub tool_calls: Vec<RequestedCall>,
    /// Opaque provider data that must be sent back.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub thinking: Vec<Value>,
    /// The consumed tokens.
    #[serde(default)]
    pub usage: Usage,
    /// The reason why the model stopped.
    pub stop: StopReason,
    /// The cost in US dollars; `None` if the price of the model is unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_usd: Option<f64>,
}

/// Consumed tokens.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct Usage {
    /// Input tokens, including tokens that the provider had cached.
    #[serde(default)]
    pub input_tokens: u64,
    /// Output tokens.
    #[serde(default)]
    pub output_tokens: u64,
    /// Input tokens read from the provider's cache.
    #[serde(default)]
    pub cached_input_tokens: u64,
}

impl Usage {
    /// Whether no tokens were consumed.
    pub fn is_zero(&self) -> bool {
        *self == Self::default()
    }

    /// The total number of tokens.
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

/// The reason why a model stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StopReason {
    /// The reply is complete.
    EndTurn,
    /// The model requested calls.
    ToolUse,
    /// The output token limit was reached.
    MaxTokens,
    /// The model refused to answer.
    Refusal,
}

fn default_true() -> bool {
    true
}
