//! Converts conversations to and from patterns:
//!
//! ```text
//! [:ConversationContext |
//!   (:Message {content: "Greet World", role: "user"}),
//!   (:Message {content: "Hello, World!", name: "sayHello", role: "function"})
//! ]
//! ```

use serde::{Deserialize, Serialize};

use super::response::{FromPatternError, text};
use crate::model::{Pattern, Value};

const CONTEXT: &str = "ConversationContext";
const MESSAGE: &str = "Message";

/// The messages of a conversation, oldest first.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConversationContext {
    /// The messages.
    pub messages: Vec<Message>,
}

/// One message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Message {
    /// The role of the author.
    #[serde(flatten)]
    pub role: MessageRole,
    /// The text.
    pub content: String,
}

/// The role of a message's author.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "role", rename_all = "lowercase")]
pub enum MessageRole {
    /// The author of the agent, who wrote its instructions.
    System,
    /// The user of the agent.
    User,
    /// The agent.
    Assistant,
    /// A tool.
    Function {
        /// The name of the tool.
        name: String,
    },
}

impl MessageRole {
    fn as_str(&self) -> &'static str {
        match self {
            MessageRole::System => "system",
            MessageRole::User => "user",
            MessageRole::Assistant => "assistant",
            MessageRole::Function { .. } => "function",
        }
    }
}

impl From<&ConversationContext> for Pattern {
    fn from(context: &ConversationContext) -> Self {
        context.messages.iter().map(Pattern::from).fold(Pattern::default().label(CONTEXT), Pattern::element)
    }
}

impl TryFrom<&Pattern> for ConversationContext {
    type Error = FromPatternError;

    fn try_from(pattern: &Pattern) -> Result<Self, FromPatternError> {
        if !pattern.has_label(CONTEXT) {
            return Err(FromPatternError::Label(CONTEXT));
        }
        let messages: Result<Vec<Message>, FromPatternError> = pattern.elements.iter().map(Message::try_from).collect();
        Ok(Self { messages: messages? })
    }
}

impl From<&Message> for Pattern {
    fn from(message: &Message) -> Self {
        let pattern = Pattern::default().label(MESSAGE).property("role", message.role.as_str());
        let pattern = match &message.role {
            MessageRole::Function { name } => pattern.property("name", name.as_str()),
            _ => pattern,
        };
        pattern.property("content", message.content.as_str())
    }
}

impl TryFrom<&Pattern> for Message {
    type Error = FromPatternError;

    fn try_from(pattern: &Pattern) -> Result<Self, FromPatternError> {
        if !pattern.has_label(MESSAGE) {
            return Err(FromPatternError::Label(MESSAGE));
        }
        let role = match pattern.get("role").and_then(Value::as_text) {
            Some("system") => MessageRole::System,
            Some("user") => MessageRole::User,
            Some("assistant") => MessageRole::Assistant,
            Some("function") => MessageRole::Function { name: text(pattern, "name")? },
            _ => {
                let expected = "one of `system`, `user`, `assistant` and `function`";
                return Err(FromPatternError::Property { key: "role", expected });
            }
        };
        Ok(Self { role, content: text(pattern, "content")? })
    }
}
