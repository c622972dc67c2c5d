//! From text to tree: the grammar of CEL, without types, bytes, messages and optionals.
//!
//! The parser is our own. The `cel` crate's generated parser needs about 180 KiB of stack for each
//! level of brackets (twelve levels overflow a 2 MiB thread in a debug build), keeps global caches
//! behind locks, and gives no position for a node without them. This one keeps the position in each
//! node, bounds its own recursion, and knows our functions, so that an unknown one is an error when
//! a definition is saved. `cel` remains the reference: `tests/grammar.rs` compares the two.
//!
//! Not here: what a tree means (`eval`), and text around expressions (`template`).

mod ast;
mod calls;
mod cursor;
mod functions;
mod lexer;
mod literal;
mod parser;

pub(crate) use ast::{Kind, Loop, Macro, Node, Operator, Step};
pub(crate) use functions::Function;
pub(crate) use lexer::{Lexer, Token};
pub(crate) use parser::parse;

/// Longest expression, in bytes.
pub(crate) const MAX_SOURCE: usize = 16 * 1024;

/// Deepest tree. Long chains (`a + b + …`, `a.b.c…`, `a ? b : c ? …`) are flat nodes and do not count.
pub(crate) const MAX_DEPTH: u16 = 128;

/// Deepest brackets, which is what the parser's own recursion follows.
pub(crate) const MAX_NESTING: u16 = 32;

/// A mistake in the text, at a byte offset.
#[derive(Debug)]
pub(crate) struct SyntaxError {
    pub at: usize,
    pub message: String,
}

impl SyntaxError {
    pub fn new(at: usize, message: impl Into<String>) -> Self {
        Self { at, message: message.into() }
    }
}
