//! Parses text into a lossless tree: every byte belongs to a token, and every token to a node.
//!
//! The grammar is that of `tree-sitter-gram` 0.6.1. This parser reports several errors per text, each with a position
//! and a hint. It takes linear time for every input.
//!
//! Tokens do not depend on their context, so the lexer finds them in one pass. The parser reports tokens that are not
//! allowed at their position, for example a measurement where an identifier is required.
//!
//! Module `model` defines the meaning of a tree; module `layout` formats it.

mod arrows;
mod kind;
mod lexer;
mod literals;
mod parser;
mod records;
mod tree;

pub use kind::{ArrowStyle, NodeKind, TokenKind};
pub use tree::{Child, Node, Token, Tree};

pub(crate) use literals::{is_integer, is_symbol, unescape};

/// The maximum nesting of brackets. Many JSON parsers stop at 128 levels. With this limit they can read the JSON form
/// of every document, even inside another JSON document.
pub const MAX_NESTING: usize = 48;
