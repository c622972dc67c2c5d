//! The lossless tree: flat lists of tokens and nodes, so that it costs no recursion to build, to walk or to drop.

use std::borrow::Cow;

use super::lexer::Lexed;
use super::parser::{self, Built};
use super::{NodeKind, TokenKind, unescape};
use crate::diagnostic::{Code, Diagnostic, Diagnostics, Mistake, locate};
use crate::position::Span;

/// A text, taken apart. The tokens put together again are the text.
#[derive(Debug)]
pub struct Tree<'s> {
    source: &'s str,
    tokens: Vec<Lexed>,
    nodes: Vec<Entry>,
    mistakes: Vec<Diagnostic>,
}

/// One node: its tokens, and where the nodes below it end. Nodes are kept in the order of the text, parents first.
#[derive(Debug, Clone, Copy)]
pub(super) struct Entry {
    pub kind: NodeKind,
    pub first_token: u32,
    pub end_token: u32,
    pub end_node: u32,
}

impl<'s> Tree<'s> {
    /// Reads any text. What does not fit the grammar is in [`Tree::mistakes`].
    pub fn parse(source: &'s str) -> Self {
        Self::build(source, parser::parse)
    }

    /// Also takes maps as items of arrays and as values of maps, which the documentation of type signatures uses although
    /// the grammar has no place for them.
    pub(crate) fn parse_signature(source: &'s str) -> Self {
        Self::build(source, parser::parse_signature)
    }

    fn build(source: &'s str, parse: impl FnOnce(&str) -> Built) -> Self {
        if u32::try_from(source.len()).is_err() {
            let mistake = Mistake::new(Code::TooLarge, Span::new(0, 0), "text of 4 GiB or more");
            return Self { source: "", tokens: Vec::new(), nodes: Vec::new(), mistakes: locate("", vec![mistake]) };
        }
        let Built { tokens, nodes, mistakes } = parse(source);
        Self { source, tokens, nodes, mistakes: locate(source, mistakes) }
    }

    /// The text.
    pub fn source(&self) -> &'s str {
        self.source
    }

    /// Where the text breaks the grammar.
    pub fn mistakes(&self) -> &[Diagnostic] {
        &self.mistakes
    }

    /// The tree itself, when the text keeps to the grammar.
    pub fn valid(self) -> Result<Self, Diagnostics> {
        Diagnostics::check(self.mistakes.clone())?;
        Ok(self)
    }

    /// All tokens with layout and comments, without the end.
    pub fn tokens(&self) -> impl Iterator<Item = Token<'_>> {
        (0..self.tokens.len().saturating_sub(1)).filter_map(|index| self.token(index))
    }

    /// The whole text as a node.
    pub fn root(&self) -> Node<'_> {
        Node { tree: self, index: 0 }
    }

    pub(crate) fn token(&self, index: usize) -> Option<Token<'_>> {
        let token = self.tokens.get(index)?;
        let end = self.tokens.get(index + 1)?.start;
        let span = Span::new(token.start as usize, end as usize);
        Some(Token { kind: token.kind, span, text: span.of(self.source), index })
    }

    fn entry(&self, index: usize) -> Entry {
        const NOTHING: Entry = Entry { kind: NodeKind::Document, first_token: 0, end_token: 0, end_node: 0 };
        self.nodes.get(index).copied().unwrap_or(NOTHING)
    }
}

/// A token of a [`Tree`].
#[derive(Debug, Clone, Copy)]
pub struct Token<'t> {
    /// What it is.
    pub kind: TokenKind,
    /// Where it stands.
    pub span: Span,
    /// How it is written.
    pub text: &'t str,
    pub(crate) index: usize,
}

impl<'t> Token<'t> {
    /// The name, key or string that the token stands for: without quotes, escapes resolved.
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
    /// What it stands for.
    pub fn kind(self) -> NodeKind {
        self.tree.entry(self.index).kind
    }

    /// From its first token to its last.
    pub fn span(self) -> Span {
        let entry = self.tree.entry(self.index);
        let start =
            self.tree.token(entry.first_token as usize).map_or(self.tree.source.len(), |token| token.span.start);
        let last = (entry.end_token as usize).checked_sub(1).and_then(|last| self.tree.token(last));
        Span::new(start, last.map_or(start, |token| token.span.end.max(start)))
    }

    /// Its text, with the layout inside.
    pub fn text(self) -> &'t str {
        self.span().of(self.tree.source)
    }

    /// The indexes of its first token and of the one after its last.
    pub(crate) fn token_range(self) -> std::ops::Range<usize> {
        let entry = self.tree.entry(self.index);
        entry.first_token as usize..entry.end_token as usize
    }

    /// Nodes and tokens directly below, in order, without layout and comments.
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

    /// The nodes directly below.
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

    /// The tokens directly below, without layout and comments.
    pub fn tokens(self) -> impl Iterator<Item = Token<'t>> + use<'t> {
        self.children().filter_map(|child| match child {
            Child::Token(token) => Some(token),
            Child::Node(_) => None,
        })
    }

    /// The first node of that kind directly below.
    pub fn child(self, kind: NodeKind) -> Option<Node<'t>> {
        self.nodes().find(|node| node.kind() == kind)
    }
}

/// What stands directly below a node.
#[derive(Debug, Clone, Copy)]
pub enum Child<'t> {
    /// A smaller node.
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
