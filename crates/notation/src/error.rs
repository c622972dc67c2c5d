//! The errors that occur when definitions are read.

/// The reason why a pattern is not a valid definition, and the element that is invalid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct DefinitionError {
    /// The path from the pattern to the invalid element, one index per level. Empty for the pattern itself.
    pub path: Vec<usize>,
    /// The message: a lower-case fragment that names the agent or tool.
    pub message: String,
}

impl DefinitionError {
    pub(crate) fn at_root(message: impl Into<String>) -> Self {
        Self { path: Vec::new(), message: message.into() }
    }

    pub(crate) fn nested(mut self, index: usize) -> Self {
        self.path.insert(0, index);
        self
    }
}

impl From<toolwright_gram::ValidationError> for DefinitionError {
    fn from(error: toolwright_gram::ValidationError) -> Self {
        Self { message: error.to_string(), path: error.path }
    }
}
