//! Parses the grammar of CEL without types, bytes, messages and optionals.
//!
//! The crate does not use the parser of the `cel` crate for three reasons. That parser needs about 180 KiB of stack for
//! each level of brackets, so twelve levels overflow a 2 MiB thread in a debug build. It uses global caches with locks.
//! And it stores the positions of nodes outside of the tree. The parser of this crate stores the position in each node
//! and limits its recursion. It also knows the functions, so that an unknown function is an error when a definition is
//! saved. `tests/grammar.rs` checks that both parsers accept the same texts.
//!
//! Not here: evaluation (`eval`) and text around expressions (`template`).

mod ast;
mod calls;
mod functions;
mod lexer;
mod literal;
mod parser;
mod tokens;

pub(crate) use ast::{Comprehension, Macro, Node, NodeKind, Operator, PathSegment};
pub(crate) use functions::Function;
pub(crate) use lexer::{Lexer, Token};
pub(crate) use parser::{is_name, parse};

/// The maximum length of an expression, in bytes.
pub(crate) const MAX_SOURCE: usize = 16 * 1024;

/// The maximum depth of a tree. A long chain (`a + b + …`, `a.b.c…`, `a ? b : c ? …`) is a single node and adds only
/// one level.
pub(crate) const MAX_DEPTH: u16 = 128;

/// The maximum nesting of brackets, which determines the recursion of the parser.
pub(crate) const MAX_NESTING: u16 = 32;

/// A syntax error at a byte offset.
#[derive(Debug)]
pub(crate) struct SyntaxError {
    pub offset: usize,
    pub message: String,
}

impl SyntaxError {
    pub(crate) fn new(offset: usize, message: impl Into<String>) -> Self {
        Self { offset, message: message.into() }
    }
}
