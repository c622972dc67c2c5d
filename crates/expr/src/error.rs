//! Errors: [`ParseError`] when a definition is saved, [`EvalError`] when an expression is evaluated.
//! A missing path is not an error. It evaluates to null and adds a warning.

use std::fmt;

use crate::Position;

/// The error for a source text that is not a valid expression, template, selector or mapping.
///
/// Parsing reports this error when a definition that contains the text is saved. Evaluation never reports it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message} at {location}")]
pub struct ParseError {
    message: String,
    location: Location,
}

impl ParseError {
    pub(crate) fn new(message: impl Into<String>, position: Position) -> Self {
        Self { message: message.into(), location: Location::new(position) }
    }

    /// The broken rule and the remedy, without the position.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// The position of the error in the source text.
    pub fn position(&self) -> Position {
        self.location.position
    }

    /// The JSON pointer of the invalid value if the source is a [`ValueTemplate`](crate::ValueTemplate).
    pub fn pointer(&self) -> Option<&str> {
        self.location.pointer.as_deref()
    }

    /// Converts the position of an error in a part of a text to a position in the whole text. The part begins at
    /// `start`.
    pub(crate) fn shifted_by(mut self, start: Position) -> Self {
        self.location.position = start.shift(self.location.position);
        self
    }

    pub(crate) fn with_pointer(mut self, pointer: &str) -> Self {
        self.location.pointer = Some(pointer.to_owned());
        self
    }
}

/// The error for a valid text whose evaluation fails because of the data.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message} at {location}")]
pub struct EvalError {
    kind: EvalErrorKind,
    message: String,
    location: Location,
}

/// The category of an [`EvalError`], for callers that handle categories differently.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EvalErrorKind {
    /// An operator or function got a value of an unsupported type.
    Type,
    /// Division or remainder by zero.
    DivisionByZero,
    /// The result is too large for its number type, or JSON cannot represent it.
    Overflow,
    /// A value cannot be converted, as in `int("x")`.
    Conversion,
    /// A regular expression that was computed during evaluation is invalid or too large.
    Pattern,
    /// The evaluation exceeded its cost or output limit.
    Budget,
    /// An escape function rejected a value, for example a header value with a line break.
    Escape,
    /// The rendered text is not valid JSON.
    InvalidJson,
}

impl EvalError {
    pub(crate) fn new(kind: EvalErrorKind, message: impl Into<String>, position: Position) -> Self {
        Self { kind, message: message.into(), location: Location::new(position) }
    }

    /// The category of the error, for callers that handle categories differently.
    pub fn kind(&self) -> EvalErrorKind {
        self.kind
    }

    /// The broken rule and the remedy, without the position.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// The position of the error in the source text.
    pub fn position(&self) -> Position {
        self.location.position
    }

    /// The JSON pointer of the string that cannot be evaluated if the source is a
    /// [`ValueTemplate`](crate::ValueTemplate).
    pub fn pointer(&self) -> Option<&str> {
        self.location.pointer.as_deref()
    }

    pub(crate) fn shifted_by(mut self, start: Position) -> Self {
        self.location.position = start.shift(self.location.position);
        self
    }

    pub(crate) fn with_pointer(mut self, pointer: &str) -> Self {
        self.location.pointer = Some(pointer.to_owned());
        self
    }
}

/// An error of [`evaluate`](crate::evaluate), which parses and evaluates a text.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The text does not parse.
    #[error(transparent)]
    Parse(#[from] ParseError),
    /// The evaluation failed.
    #[error(transparent)]
    Eval(#[from] EvalError),
    /// The scope is not a JSON object.
    #[error("scope must be an object whose keys are the names that the expression uses, got {found}")]
    Scope {
        /// The type of the value that was passed as the scope.
        found: &'static str,
    },
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Location {
    position: Position,
    pointer: Option<String>,
}

impl Location {
    fn new(position: Position) -> Self {
        Self { position, pointer: None }
    }
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(pointer) = &self.pointer {
            write!(f, "`{pointer}` ")?;
        }
        self.position.fmt(f)
    }
}
