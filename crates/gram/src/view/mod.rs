//! Agents and tools as what they are in the model: patterns of a certain form, with typed access to their parts.
//!
//! A view is made from a pattern that keeps to the form and keeps it so: what a setter would break, it refuses. The pattern
//! stays the only copy; nothing is stored beside it.
//!
//! ```
//! use toolwright_gram::{AgentView, Definitions, parse};
//!
//! let mut agent = parse(r#"
//!     [greeter:Agent {instruction: "Greet people.", model: "OpenAI/gpt-4o-mini"} |
//!       [sayHello:ToolSpecification {description: "Says hello"} | (personName::Text)==>(::String)]
//!     ]"#).unwrap();
//!
//! let mut view = AgentView::new(&mut agent, &Definitions::default()).unwrap();
//! view.set_model("Anthropic/claude-sonnet").unwrap();
//! assert_eq!(view.model(), "Anthropic/claude-sonnet");
//! assert_eq!(view.tools().next().unwrap().identity(), "sayHello");
//! ```

mod agent;
mod messages;
mod records;
mod text;
mod tool;

pub use agent::{AgentParts, AgentView, validate_agent};
pub use messages::{ConversationContext, Message, Role};
pub use records::{AgentResponse, RecordError, ToolInvocation};
pub use tool::{ToolSpecParts, ToolSpecView, validate_tool};

use crate::model::Pattern;
use crate::signature::SignatureError;

/// Labels of an agent.
pub(crate) const AGENT: &str = "Agent";

/// Labels of a tool specification. The first is the one that is written.
pub(crate) const TOOL_LABELS: [&str; 2] = ["ToolSpecification", "Tool"];

/// Whether a pattern says that it is an agent.
pub fn is_agent(pattern: &Pattern) -> bool {
    pattern.has_label(AGENT)
}

/// Whether a pattern says that it is a tool specification, in either vocabulary.
pub fn is_tool(pattern: &Pattern) -> bool {
    TOOL_LABELS.iter().any(|label| pattern.has_label(label))
}

/// Patterns that hold their elements, also when there are two of them, which would otherwise be a relation.
pub(crate) fn is_container(pattern: &Pattern) -> bool {
    is_agent(pattern) || is_tool(pattern) || records::is_response(pattern)
}

/// Why a pattern is not an agent or tool, and which part of it is to blame.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{flaw}")]
pub struct Problem {
    /// Leads from the pattern to the element that is wrong, one index for each level; empty for the pattern itself.
    pub path: Vec<usize>,
    /// What is wrong.
    pub flaw: Flaw,
}

impl Problem {
    fn here(flaw: Flaw) -> Self {
        Self { path: Vec::new(), flaw }
    }

    fn below(mut self, index: usize) -> Self {
        self.path.insert(0, index);
        self
    }
}

/// What is wrong with an agent or tool.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Flaw {
    /// The pattern has no label `Agent`.
    #[error("agent pattern must have the label `Agent`")]
    NoAgentLabel,
    /// The agent has no name.
    #[error("agent must have a name: an identifier before its label, as in `[name:Agent …]`")]
    NoAgentName,
    /// A property of an agent that must be there is not.
    #[error("agent `{agent}` must have the property `{key}`")]
    AgentWithout {
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
        /// The element as it is written.
        element: String,
    },
    /// Two tools of one agent have the same name.
    #[error("agent `{agent}` has two tools of the name `{tool}`")]
    DuplicateTool {
        /// The agent.
        agent: String,
        /// The tool.
        tool: String,
    },
    /// The pattern has neither of the labels of a tool.
    #[error("tool pattern must have the label `ToolSpecification` or `Tool`")]
    NoToolLabel,
    /// The tool has no name.
    #[error("tool must have a name: an identifier before its label, as in `[name:ToolSpecification …]`")]
    NoToolName,
    /// The tool has no description.
    #[error("tool `{tool}` must have the property `description`")]
    NoDescription {
        /// The tool.
        tool: String,
    },
    /// The tool does not have exactly one element.
    #[error("tool `{tool}` must have exactly one element, its type signature, not {count}")]
    NotOneSignature {
        /// The tool.
        tool: String,
        /// How many elements it has.
        count: usize,
    },
    /// The element of the tool is no signature.
    #[error("tool `{tool}`: {source}")]
    Signature {
        /// The tool.
        tool: String,
        /// What is wrong with it.
        source: SignatureError,
    },
    /// A property that must be text is not.
    #[error("property `{key}` of `{of}` must be a string; put it in quotes")]
    NotText {
        /// The agent or tool.
        of: String,
        /// The property.
        key: &'static str,
    },
    /// A property that must say something is empty.
    #[error("property `{key}` of `{of}` must not be empty")]
    Empty {
        /// The agent or tool.
        of: String,
        /// The property.
        key: &'static str,
    },
}
