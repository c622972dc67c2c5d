//! Parses and prints queries. Matching is not part of this module.

mod ast;
mod lexer;
mod parser;
mod print;
mod tokens;
mod value;

pub use ast::{CompareOp, Condition, Direction, ExpandPath, Item, Literal, NumberLiteral, ObjectId, RecordId, Term};
pub(crate) use parser::parse;

use crate::{ParseError, Position};

/// The maximum length of a query, in bytes.
pub const MAX_LENGTH: usize = 64 * 1024;

/// The maximum nesting of groups, negations and element matches. Parsing, printing and matching are recursive, so the
/// limit protects the stack. SQLite also rejects statements that are nested much deeper than this limit.
pub const MAX_NESTING: u16 = 32;

/// The maximum nesting of element matches `field:{…}`. They are the most expensive conditions for SQLite.
pub const MAX_ELEMENTS: u16 = 8;

/// The maximum number of conditions in a query. The SQL statement for such a query stays well below the limits of the
/// databases.
pub const MAX_CONDITIONS: usize = 200;

/// The maximum number of characters of a pattern or of the words of `text(…)`.
pub const MAX_PATTERN: usize = 1000;

/// A syntax error at a byte offset. Line and column are computed later, and only if the error is returned to the
/// caller.
#[derive(Debug)]
pub(crate) struct SyntaxError {
    offset: usize,
    message: String,
}

impl SyntaxError {
    fn new(offset: usize, message: impl Into<String>) -> Self {
        Self { offset, message: message.into() }
    }

    pub(crate) fn locate(self, source: &str) -> ParseError {
        ParseError::new(self.message, Position::from_offset(source, self.offset))
    }
}
