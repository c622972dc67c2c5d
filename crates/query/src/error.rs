//! The error for a text that does not parse.

use crate::Position;

/// The error for a text that is not a valid query, sort order or projection.
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

    /// The broken rule and the remedy, without the position.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// The position of the error in the text.
    pub fn position(&self) -> Position {
        self.position
    }
}
