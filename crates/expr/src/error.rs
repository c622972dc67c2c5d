//! What can go wrong, as values: once when a definition is saved ([`ParseError`]), once when it
//! runs ([`EvalError`]). A missing path is neither; it is a warning beside the value.

use std::fmt;

use crate::Position;

/// A text that is not an expression, template, selector or mapping.
///
/// Found when the text is saved, never when it runs.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message} at {place}")]
pub struct ParseError {
    message: String,
    place: Place,
}

impl ParseError {
    pub(crate) fn new(message: impl Into<String>, position: Position) -> Self {
        Self { message: message.into(), place: Place::new(position) }
    }

    /// What is wrong and what would be right, without the place.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// Where in the text.
    pub fn position(&self) -> Position {
        self.place.position
    }

    /// The JSON pointer of the text, when it is part of an object template.
    pub fn pointer(&self) -> Option<&str> {
        self.place.pointer.as_deref()
    }

    /// The error of a part that begins at `start` of a larger text.
    pub(crate) fn moved(mut self, start: Position) -> Self {
        self.place.position = start.then(self.place.position);
        self
    }

    pub(crate) fn inside(mut self, pointer: &str) -> Self {
        self.place.pointer = Some(pointer.to_owned());
        self
    }
}

/// A valid text that cannot give a value for the data at hand.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message} at {place}")]
pub struct EvalError {
    kind: EvalErrorKind,
    message: String,
    place: Place,
}

/// The reason of an [`EvalError`], for code that branches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EvalErrorKind {
    /// An operator or function met a value of a type it does not take.
    Type,
    /// Division or remainder by zero.
    DivisionByZero,
    /// A number too large for the result, or one that JSON cannot carry.
    Overflow,
    /// A conversion of a value that has no such meaning, as in `int("x")`.
    Conversion,
    /// A regular expression, made at run time, that is wrong or too large.
    Pattern,
    /// The step or size limit of the evaluation was reached.
    Budget,
    /// An escaper refused a value for its position, as a line break in a header.
    Refused,
    /// The rendered text is not the JSON it was meant to be.
    InvalidJson,
}

impl EvalError {
    pub(crate) fn new(kind: EvalErrorKind, message: impl Into<String>, position: Position) -> Self {
        Self { kind, message: message.into(), place: Place::new(position) }
    }

    /// The reason, for code that branches.
    pub fn kind(&self) -> EvalErrorKind {
        self.kind
    }

    /// What is wrong and what would be right, without the place.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// Where in the text.
    pub fn position(&self) -> Position {
        self.place.position
    }

    /// The JSON pointer of the text, when it is part of an object template.
    pub fn pointer(&self) -> Option<&str> {
        self.place.pointer.as_deref()
    }

    pub(crate) fn moved(mut self, start: Position) -> Self {
        self.place.position = start.then(self.place.position);
        self
    }

    pub(crate) fn inside(mut self, pointer: &str) -> Self {
        self.place.pointer = Some(pointer.to_owned());
        self
    }
}

/// A text that was parsed and evaluated in one go failed in one of the two ways.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The text is wrong.
    #[error(transparent)]
    Parse(#[from] ParseError),
    /// The text does not fit the data.
    #[error(transparent)]
    Eval(#[from] EvalError),
    /// The scope is not a JSON object.
    #[error("the scope is a {found}; send an object whose keys are the names that the expression uses")]
    Scope {
        /// What came instead of an object.
        found: &'static str,
    },
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Place {
    position: Position,
    pointer: Option<String>,
}

impl Place {
    fn new(position: Position) -> Self {
        Self { position, pointer: None }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(pointer) = &self.pointer {
            write!(f, "`{pointer}` ")?;
        }
        self.position.fmt(f)
    }
}
