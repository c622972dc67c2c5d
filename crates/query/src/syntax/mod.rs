//! Text to tree and back. Knows nothing of documents.

mod ast;
mod cursor;
pub(crate) mod lexer;
mod parser;
pub(crate) mod print;
mod value;

pub use ast::{Case, Condition, Direction, ExpandPath, Item, Literal, Number, ObjectId, Order, RecordId, Term};
pub(crate) use parser::{fields, parse};

use crate::{ParseError, Position};

/// The longest text that is read as a query, in bytes.
pub const MAX_LENGTH: usize = 64 * 1024;

/// How deep groups, negations and element matches may be nested. Reading, printing and asking recurse this deep, and SQLite
/// refuses statements that are much deeper.
pub const MAX_NESTING: u16 = 32;

/// How many of these levels may be element matches, which cost SQLite the most.
pub const MAX_ELEMENTS: u16 = 8;

/// How many conditions a query may have. Databases have limits for statements; this keeps well below them.
pub const MAX_CONDITIONS: usize = 200;

/// Most characters of a pattern or of the words of `text(…)`.
pub const MAX_PATTERN: usize = 1000;

/// An error whose place is still an offset: lines are counted only when there is one.
#[derive(Debug)]
pub(crate) struct SyntaxError {
    at: usize,
    message: String,
}

impl SyntaxError {
    fn new(at: usize, message: impl Into<String>) -> Self {
        Self { at, message: message.into() }
    }

    pub(crate) fn locate(self, source: &str) -> ParseError {
        ParseError::new(self.message, Position::of(source, self.at))
    }
}
