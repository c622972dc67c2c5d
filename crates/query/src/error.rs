//! What can go wrong, as values: once when a query is read ([`ParseError`]), once when it meets its variables
//! ([`BindError`]). A document cannot make a query fail: what does not fit does not match.

use crate::{Edge, Position};

/// A text that is not a query, a sort order or a list of fields.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message} at {position}")]
pub struct ParseError {
    message: String,
    position: Position,
}

impl ParseError {
    pub(crate) fn new(message: impl Into<String>, position: Position) -> Self {
        Self { message: message.into(), position }
    }

    /// What is wrong and what would be right, without the place.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// Where in the text.
    pub fn position(&self) -> Position {
        self.position
    }
}

/// A query that asks for something its scope does not have.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BindError {
    /// A variable that the scope does not know.
    #[error("unresolved variable `${{{0}}}`")]
    UnknownVariable(Box<str>),
    /// A variable whose value nothing can be compared with.
    #[error("variable `${{{name}}}` is {found}; {expected}")]
    UnusableVariable {
        /// Its name.
        name: Box<str>,
        /// What it holds, in words.
        found: &'static str,
        /// What it may hold in this place.
        expected: &'static str,
    },
    /// `text(…)` with a variable that holds no words.
    #[error("variable `${{{0}}}` holds no words to search for")]
    NoWords(Box<str>),
    /// A relation that was not looked up before.
    #[error("relation `{0}` was not looked up")]
    UnknownEdge(Edge),
}
