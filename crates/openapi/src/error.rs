//! The errors that occur when a document is read and its parts are converted.

/// The reason why a document cannot be imported, in general or with the given options.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct DocumentError {
    /// A JSON pointer into the document; empty for the document itself.
    pub pointer: String,
    /// The violated rule and its remedy.
    pub message: String,
}

impl DocumentError {
    pub(crate) fn at(pointer: impl Into<String>, message: impl Into<String>) -> Self {
        Self { pointer: pointer.into(), message: message.into() }
    }
}

/// The reason why one operation or one schema cannot be converted. Other operations and schemas are still converted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(crate) struct ConversionError(pub String);
