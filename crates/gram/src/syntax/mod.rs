//! From text to a lossless tree: every byte belongs to a token, every token to a node.
//!
//! The grammar is that of `tree-sitter-gram` 0.6.1. The parser is our own: it keeps positions, reports several mistakes
//! with a hint each, and takes time in proportion to the text whatever the text is.
//!
//! Tokens do not depend on where they stand, so that one pass over the text finds them all; what a token may not mean
//! in its place (a measurement as an identifier) is a mistake in every case, and the parser says so.
//!
//! Not here: what a tree means (`model`), and how it should look (`layout`).

mod arrows;
mod kind;
mod lexer;
mod literals;
mod parser;
mod records;
mod tree;

pub use kind::{Family, NodeKind, TokenKind};
pub use tree::{Child, Node, Token, Tree};

pub(crate) use literals::{is_integer, is_symbol, unescape};

/// Deepest brackets in a text. The JSON form of any text that keeps to it can be read by parsers that stop at 128 levels,
/// with room for a document around it.
pub const MAX_NESTING: usize = 48;
