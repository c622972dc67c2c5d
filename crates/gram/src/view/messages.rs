//! What was said, as patterns.
//!
//! ```text
//! [:ConversationContext |
//!   (:Message {content: "Greet World", role: "user"}),
//!   (:Message {content: "Hello, World!", name: "sayHello", role: "function"})
//! ]
//! ```

use serde::{Deserialize, Serialize};

use super::records::{RecordError, text};
use crate::model::{Pattern, Value};

const CONTEXT: &str = "ConversationContext";
const MESSAGE: &str = "Message";

/// The messages of a conversation, the latest last.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConversationContext {
    /// The messages.
    pub messages: Vec<Message>,
}

/// One message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Message {
    /// Who says it.
    #[serde(flatten)]
    pub role: Role,
    /// The text.
    pub content: String,
}

/// Who says something.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "role", rename_all = "lowercase")]
pub enum Role {
    /// The author of the agent.
    System,
    /// Whoever uses it.
    User,
    /// The agent.
    Assistant,
    /// A tool, by its name.
    Function {
        /// The tool.
        name: String,
    },
}

impl Role {
    fn word(&self) -> &'static str {
        match self {
            Role::System => "system",
            Role::User => "user",
            Role::Assistant => "assistant",
            Role::Function { .. } => "function",
        }
    }
}

impl From<&ConversationContext> for Pattern {
    fn from(context: &ConversationContext) -> Self {
        context.messages.iter().map(Pattern::from).fold(Pattern::default().label(CONTEXT), Pattern::element)
    }
}

impl TryFrom<&Pattern> for ConversationContext {
    type Error = RecordError;

    fn try_from(pattern: &Pattern) -> Result<Self, RecordError> {
        if !pattern.has_label(CONTEXT) {
            return Err(RecordError::Label(CONTEXT));
        }
        let messages: Result<Vec<Message>, RecordError> = pattern.elements.iter().map(Message::try_from).collect();
        Ok(Self { messages: messages? })
    }
}

impl From<&Message> for Pattern {
    fn from(message: &Message) -> Self {
        let pattern = Pattern::default().label(MESSAGE).property("role", message.role.word());
        let pattern = match &message.role {
            Role::Function { name } => pattern.property("name", name.as_str()),
            _ => pattern,
        };
        pattern.property("content", message.content.as_str())
    }
}

impl TryFrom<&Pattern> for Message {
    type Error = RecordError;

    fn try_from(pattern: &Pattern) -> Result<Self, RecordError> {
        if !pattern.has_label(MESSAGE) {
            return Err(RecordError::Label(MESSAGE));
        }
        let role = match pattern.get("role").and_then(Value::as_text) {
            Some("system") => Role::System,
            Some("user") => Role::User,
            Some("assistant") => Role::Assistant,
            Some("function") => Role::Function { name: text(pattern, "name")? },
            _ => {
                let expected = "one of `system`, `user`, `assistant` and `function`";
                return Err(RecordError::Property { key: "role", expected });
            }
        };
        Ok(Self { role, content: text(pattern, "content")? })
    }
}
