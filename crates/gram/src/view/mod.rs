//! Provides typed access to patterns that represent agents, tools, responses and conversations.
//!
//! A view can be created only from a valid pattern. Its setters reject values that would make the pattern invalid. A
//! view stores only the pattern.
//!
//! ```
//! use toolwright_gram::{AgentSpecView, DefinitionIndex, parse};
//!
//! let mut agent = parse(r#"
//!     [greeter:Agent {instruction: "Greet people.", model: "OpenAI/gpt-4o-mini"} |
//!       [sayHello:ToolSpecification {description: "Says hello"} | (personName::Text)==>(::String)]
//!     ]"#).unwrap();
//!
//! let mut view = AgentSpecView::new(&mut agent, &DefinitionIndex::default()).unwrap();
//! view.set_model("Anthropic/claude-sonnet").unwrap();
//! assert_eq!(view.model(), "Anthropic/claude-sonnet");
//! assert_eq!(view.tools().next().unwrap().identity(), "sayHello");
//! ```

mod agent;
mod conversation;
mod response;
mod text_property;
mod tool;

pub use agent::{AgentBuilder, AgentSpecView, validate_agent};
pub use conversation::{ConversationContext, Message, MessageRole};
pub use response::{AgentResponse, FromPatternError, ToolInvocation};
pub use tool::{ToolSpecBuilder, ToolSpecView, validate_tool};

use crate::signature::SignatureError;

/// The reason why a pattern is not a valid agent or tool, and the element that is invalid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{kind}")]
pub struct ValidationError {
    /// The path from the pattern to the invalid element, with one element index per level. Empty if the pattern itself
    /// is invalid.
    pub path: Vec<usize>,
    /// The kind of error.
    pub kind: ValidationErrorKind,
}

impl ValidationError {
    fn at_root(kind: ValidationErrorKind) -> Self {
        Self { path: Vec::new(), kind }
    }

    fn nested(mut self, index: usize) -> Self {
        self.path.insert(0, index);
        self
    }
}

/// The kind of a [`ValidationError`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ValidationErrorKind {
    /// The pattern does not have the label `Agent`.
    #[error("agent pattern must have the label `Agent`")]
    MissingAgentLabel,
    /// The agent has no name.
    #[error("agent must have a name before its label, as in `[name:Agent …]`")]
    MissingAgentName,
    /// A required property of an agent is missing.
    #[error("agent `{agent}` must have the property `{key}`")]
    MissingProperty {
        /// The agent.
        agent: String,
        /// The property.
        key: &'static str,
    },
    /// An element of an agent is neither a tool nor a reference to one.
    #[error("element `{element}` of agent `{agent}` must be a tool: give it the label `ToolSpecification` or `Tool`")]
    NotATool {
        /// The agent.
        agent: String,
        /// The element in gram.
        element: String,
    },
    /// Two tools of an agent have the same name.
    #[error("agent `{agent}` must not have two tools with the name `{tool}`")]
    DuplicateTool {
        /// The agent.
        agent: String,
        /// The tool.
        tool: String,
    },
    /// The pattern has none of the labels of a tool specification.
    #[error("tool pattern must have the label `ToolSpecification` or `Tool`")]
    MissingToolLabel,
    /// The tool has no name.
    #[error("tool must have a name before its label, as in `[name:ToolSpecification …]`")]
    MissingToolName,
    /// The tool has no description.
    #[error("tool `{tool}` must have the property `description`")]
    MissingDescription {
        /// The tool.
        tool: String,
    },
    /// The tool does not have exactly one element.
    #[error("tool `{tool}` must have exactly one element, its type signature, got {count}")]
    SignatureCount {
        /// The tool.
        tool: String,
        /// The number of elements.
        count: usize,
    },
    /// The element of the tool is not a valid signature.
    #[error("tool `{tool}`: {source}")]
    Signature {
        /// The tool.
        tool: String,
        /// The error of the signature.
        source: SignatureError,
    },
    /// A property is not a string.
    #[error("property `{key}` of `{subject}` must be a string; write it in quotes")]
    NotAString {
        /// The agent or tool.
        subject: String,
        /// The property.
        key: &'static str,
    },
    /// A required property is empty.
    #[error("property `{key}` of `{subject}` must not be empty")]
    EmptyProperty {
        /// The agent or tool.
        subject: String,
        /// The property.
        key: &'static str,
    },
}
