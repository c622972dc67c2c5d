//! The lossless syntax tree. It is stored as flat lists of tokens and nodes, so that dropping a tree needs no
//! recursion.

use std::borrow::Cow;

use super::lexer::RawToken;
use super::parser::{self, ParseOutput};
use super::{NodeKind, TokenKind, unescape};
use crate::diagnostic::{Diagnostic, DiagnosticCode, Diagnostics, SpannedError, locate};
use crate::position::Span;

/// A lossless syntax tree: joining its tokens gives the source text.
#[derive(Debug)]
pub struct Tree<'s> {
    source: &'s str,
    tokens: Vec<RawToken>,
    nodes: Vec<NodeData>,
    errors: Vec<Diagnostic>,
}

/// The data of one node: the range of its tokens, and the index after its last descendant. Nodes are stored in source
/// order; a parent comes before its children.
#[derive(Debug, Clone, Copy)]
pub(super) struct NodeData {
    pub kind: NodeKind,
    pub first_token: u32,
    pub end_token: u32,
    pub end_node: u32,
}

impl<'s> Tree<'s> {
    /// Parses a text. Never fails: [`Tree::errors`] returns the syntax errors.
    pub fn parse(source: &'s str) -> Self {
        Self::build(source, parser::parse)
    }

    /// Parses a type signature. Unlike in other gram text, arrays and maps may contain maps.
    pub(crate) fn parse_signature(source: &'s str) -> Self {
        Self::build(source, parser::parse_signature)
    }

    fn build(source: &'s str, parse: impl FnOnce(&str) -> ParseOutput) -> Self {
        if u32::try_from(source.len()).is_err() {
            let error = SpannedError::new(DiagnosticCode::TooLarge, Span::new(0, 0), "text must be smaller than 4 GiB");
            return Self { source: "", tokens: Vec::new(), nodes: Vec::new(), errors: locate("", vec![error]) };
        }
        let ParseOutput { tokens, nodes, errors } = parse(source);
        Self { source, tokens, nodes, errors: locate(source, errors) }
    }

    /// Returns the source text.
    pub fn source(&self) -> &'s str {
        self.source
    }

    /// Returns the syntax errors.
    pub fn errors(&self) -> &[Diagnostic] {
        &self.errors
    }

    /// Returns the tree, or its syntax errors if there are any.
    pub fn into_result(self) -> Result<Self, Diagnostics> {
        Diagnostics::ensure_empty(self.errors.clone())?;
        Ok(self)
    }

    /// Returns all tokens, including whitespace and comments, without the end token.
    pub fn tokens(&self) -> impl Iterator<Item = Token<'_>> {
        (0..self.tokens.len().saturating_sub(1)).filter_map(|index| self.token(index))
    }

    /// Returns the root node, which is the document.
    pub fn root(&self) -> Node<'_> {
        Node { tree: self, index: 0 }
    }

    pub(crate) fn token(&self, index: usize) -> Option<Token<'_>> {
        let token = self.tokens.get(index)?;
        let end = self.tokens.get(index + 1)?.start;
        let span = Span::new(token.start as usize, end as usize);
        Some(Token { kind: token.kind, span, text: span.slice(self.source), index })
    }

    fn entry(&self, index: usize) -> NodeData {
        const NOTHING: NodeData = NodeData { kind: NodeKind::Document, first_token: 0, end_token: 0, end_node: 0 };
        self.nodes.get(index).copied().unwrap_or(NOTHING)
    }
}

/// A token of a [`Tree`].
#[derive(Debug, Clone, Copy)]
pub struct Token<'t> {
    /// The kind.
    pub kind: TokenKind,
    /// The span.
    pub span: Span,
    /// The source text.
    pub text: &'t str,
    pub(crate) index: usize,
}

impl<'t> Token<'t> {
    /// Returns the name, key or string of the token, without quotes and with escape sequences resolved.
    pub fn value(&self) -> Cow<'t, str> {
        let inner = || self.text.get(1..self.text.len().saturating_sub(1)).unwrap_or_default();
        match self.kind {
            TokenKind::SingleQuoted | TokenKind::DoubleQuoted | TokenKind::Backticked => unescape(inner()),
            _ => Cow::Borrowed(self.text),
        }
    }
}

/// A node of a [`Tree`].
#[derive(Debug, Clone, Copy)]
pub struct Node<'t> {
    tree: &'t Tree<'t>,
    index: usize,
}

impl<'t> Node<'t> {
    /// Returns the kind.
    pub fn kind(self) -> NodeKind {
        self.tree.entry(self.index).kind
    }

    /// Returns the span from the first to the last token.
    pub fn span(self) -> Span {
        let entry = self.tree.entry(self.index);
        let start =
            self.tree.token(entry.first_token as usize).map_or(self.tree.source.len(), |token| token.span.start);
        let last = (entry.end_token as usize).checked_sub(1).and_then(|last| self.tree.token(last));
        Span::new(start, last.map_or(start, |token| token.span.end.max(start)))
    }

    /// Returns the source text, including whitespace and comments between tokens.
    pub fn text(self) -> &'t str {
        self.span().slice(self.tree.source)
    }

    /// Returns the index range of the tokens.
    pub(crate) fn token_range(self) -> std::ops::Range<usize> {
        let entry = self.tree.entry(self.index);
        entry.first_token as usize..entry.end_token as usize
    }

    /// Returns the child nodes and tokens in order, without whitespace and comments.
    pub fn children(self) -> impl Iterator<Item = Child<'t>> + use<'t> {
        let entry = self.tree.entry(self.index);
        let mut children = Children {
            tree: self.tree,
            node: self.index + 1,
            end_node: entry.end_node as usize,
            token: entry.first_token as usize,
            end_token: entry.end_token as usize,
        };
        std::iter::from_fn(move || children.next())
    }

    /// Returns the child nodes.
    pub fn nodes(self) -> impl Iterator<Item = Node<'t>> + use<'t> {
        let end = self.tree.entry(self.index).end_node as usize;
        let mut next = self.index + 1;
        std::iter::from_fn(move || {
            let node = Node { tree: self.tree, index: next };
            (next < end).then(|| {
                next = self.tree.entry(next).end_node as usize;
                node
            })
        })
    }

    /// Returns the child tokens, without whitespace and comments.
    pub fn tokens(self) -> impl Iterator<Item = Token<'t>> + use<'t> {
        self.children().filter_map(|child| match child {
            Child::Token(token) => Some(token),
            Child::Node(_) => None,
        })
    }

    /// Returns the first child node of a kind.
    pub fn child(self, kind: NodeKind) -> Option<Node<'t>> {
        self.nodes().find(|node| node.kind() == kind)
    }
}

/// A child of a node.
#[derive(Debug, Clone, Copy)]
pub enum Child<'t> {
    /// A node.
    Node(Node<'t>),
    /// A token.
    Token(Token<'t>),
}

struct Children<'t> {
    tree: &'t Tree<'t>,
    node: usize,
    end_node: usize,
    token: usize,
    end_token: usize,
}

impl<'t> Children<'t> {
    fn next(&mut self) -> Option<Child<'t>> {
        loop {
            if self.node < self.end_node {
                let entry = self.tree.entry(self.node);
                if entry.first_token as usize <= self.token {
                    let node = Node { tree: self.tree, index: self.node };
                    self.node = entry.end_node as usize;
                    self.token = self.token.max(entry.end_token as usize);
                    return Some(Child::Node(node));
                }
            }
            if self.token >= self.end_token {
                return None;
            }
            let token = self.tree.token(self.token)?;
            self.token += 1;
            if !token.kind.is_trivia() {
                return Some(Child::Token(token));
            }
        }
    }
}
