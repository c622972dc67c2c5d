//! From tokens to nodes: patterns, paths, subjects and annotations. Recursion follows brackets only, and those are
//! counted.
//!
//! After a mistake the parser goes on at the next place where it can make sense of the text, and says nothing about what
//! it passes on the way.

use super::lexer::{Lexed, lex};
use super::tree::Entry;
use super::{MAX_NESTING, NodeKind as N, TokenKind as K};
use crate::diagnostic::{Code, MAX_MISTAKES, Mistake, shown};
use crate::position::Span;

/// What becomes of a text.
pub(super) struct Built {
    pub tokens: Vec<Lexed>,
    pub nodes: Vec<Entry>,
    pub mistakes: Vec<Mistake>,
}

pub(super) fn parse(source: &str) -> Built {
    Parser::new(source, false).run()
}

pub(super) fn parse_signature(source: &str) -> Built {
    Parser::new(source, true).run()
}

pub(super) struct Parser<'s> {
    source: &'s str,
    tokens: Vec<Lexed>,
    /// The token that is looked at. Never layout.
    at: usize,
    /// One past the last token that was taken.
    taken: usize,
    nodes: Vec<Entry>,
    mistakes: Vec<Mistake>,
    /// The token of the last mistake: one mistake for each is enough.
    reported_at: Option<usize>,
    pub(super) depth: usize,
    /// Whether maps may stand in arrays and maps, as in the documentation of type signatures.
    pub(super) nested_values: bool,
}

/// A node that is not finished.
#[derive(Clone, Copy)]
pub(super) struct Open(usize);

impl<'s> Parser<'s> {
    fn new(source: &'s str, nested_values: bool) -> Self {
        let (tokens, mistakes) = lex(source);
        let nodes = Vec::with_capacity(tokens.len() / 2 + 1);
        let (at, taken, depth, reported_at) = (0, 0, 0, None);
        Self { source, tokens, at, taken, nodes, mistakes, reported_at, depth, nested_values }
    }

    fn run(mut self) -> Built {
        self.document();
        Built { tokens: self.tokens, nodes: self.nodes, mistakes: self.mistakes }
    }

    fn document(&mut self) {
        let document = self.open(N::Document);
        self.skip_layout();
        if self.kind() == K::OpenRecord {
            self.record();
        }
        while self.kind() != K::End {
            match self.kind() {
                K::OpenNode | K::OpenBracket | K::At | K::DoubleAt => self.pattern(),
                K::OpenRecord => {
                    self.unexpected("a pattern", "a record stands only once, before the first pattern");
                    self.record();
                }
                K::Comma => {
                    self.unexpected("a pattern", "patterns of a text stand side by side, without commas");
                    self.take();
                }
                _ => {
                    self.unexpected("a pattern", "patterns begin with `(`, `[` or `@`");
                    self.take();
                }
            }
        }
        self.taken = self.tokens.len().saturating_sub(1);
        self.close(document);
    }

    /// A pattern with its annotations.
    fn pattern(&mut self) {
        match self.kind() {
            K::At | K::DoubleAt => {
                let annotated = self.open(N::Annotated);
                self.annotations();
                // An annotation means a pattern around the annotated one: without this, the model could be one level
                // deeper than the text, and its bracket form could not be read again.
                self.depth += 1;
                match self.kind() {
                    K::OpenNode | K::OpenBracket => self.plain_pattern(),
                    _ => self.unexpected("the annotated pattern", "`@key(value)` stands before a pattern"),
                }
                self.depth -= 1;
                self.close(annotated);
            }
            _ => self.plain_pattern(),
        }
    }

    fn plain_pattern(&mut self) {
        match self.kind() {
            K::OpenBracket => self.bracket(),
            _ => self.path(),
        }
    }

    fn annotations(&mut self) {
        let mut first = true;
        loop {
            match self.kind() {
                K::DoubleAt => {
                    if !first {
                        self.unexpected(
                            "`@key(value)` or the pattern",
                            "`@@` stands only once, before other annotations",
                        );
                    }
                    self.identified();
                }
                K::At => self.annotation(),
                _ => return,
            }
            first = false;
        }
    }

    fn identified(&mut self) {
        let node = self.open(N::Identified);
        self.take();
        if !self.kind().is_identifier() && !matches!(self.kind(), K::Colon | K::DoubleColon) {
            self.unexpected("an identifier or a label after `@@`", "write `@@id`, `@@:Label` or `@@id:Label`");
        }
        self.identifier_and_labels();
        self.close(node);
    }

    fn annotation(&mut self) {
        let node = self.open(N::Annotation);
        self.take();
        match self.kind() {
            K::Symbol | K::Malformed => self.take(),
            _ => self.unexpected("a key after `@`", "write `@key(value)`; the key is a plain name"),
        }
        if self.kind() == K::OpenNode {
            self.take();
            self.value();
            self.expect(K::CloseNode, "`)` after the value of an annotation");
        } else {
            self.unexpected("`(` after the key of an annotation", "write `@key(value)`");
        }
        self.close(node);
    }

    fn bracket(&mut self) {
        let bracket = self.open(N::Bracket);
        self.depth += 1;
        if self.depth > MAX_NESTING {
            self.give_up();
        } else {
            self.take();
            self.subject();
            if self.kind() == K::Pipe {
                self.take();
                self.elements();
            }
            self.expect_bracket("`|` or `]`");
        }
        self.depth -= 1;
        self.close(bracket);
    }

    fn elements(&mut self) {
        loop {
            self.element();
            if !matches!(self.kind(), K::Comma | K::CloseBracket | K::End) {
                self.unexpected("`,` or `]`", "elements are separated by commas; a reference is a name only");
                self.skip_to(&[K::Comma, K::CloseBracket]);
            }
            if self.kind() != K::Comma {
                return;
            }
            self.take();
        }
    }

    fn element(&mut self) {
        match self.kind() {
            K::OpenNode | K::OpenBracket => self.plain_pattern(),
            K::At | K::DoubleAt => {
                self.unexpected("an element", "annotations stand at the top level, not inside of brackets");
                self.pattern();
            }
            kind if kind.is_identifier() => {
                let reference = self.open(N::Reference);
                self.take();
                self.close(reference);
            }
            K::CloseBracket => self.unexpected("an element", "leave out the `|` or comma before `]`"),
            K::SingleQuoted | K::DoubleQuoted => {
                self.unexpected("an element", "names with unusual letters stand in backticks");
                self.take();
            }
            _ => self.unexpected("an element", "elements are patterns `[…]`, nodes `(…)`, paths or references"),
        }
    }

    fn path(&mut self) {
        let path = self.open(N::Path);
        self.node();
        while self.arrow() {
            match self.kind() {
                K::OpenNode => self.node(),
                _ => {
                    self.unexpected("a node after the arrow", "arrows stand between nodes, as in `(a)-->(b)`");
                    break;
                }
            }
        }
        self.close(path);
    }

    fn node(&mut self) {
        let node = self.open(N::Node);
        self.take();
        self.subject();
        if self.kind() != K::CloseNode {
            self.unexpected("`)`", "a node holds an identifier, labels and a record, in this order, each once");
            self.skip_to(&[K::CloseNode]);
        }
        if self.kind() == K::CloseNode {
            self.take();
        }
        self.close(node);
    }

    /// Identifier, labels and record, as far as they are there.
    pub(super) fn subject(&mut self) {
        let begins = |kind: K| kind.is_identifier() || matches!(kind, K::Colon | K::DoubleColon | K::OpenRecord);
        if !begins(self.kind()) {
            return;
        }
        let subject = self.open(N::Subject);
        self.identifier_and_labels();
        if self.kind() == K::OpenRecord {
            self.record();
        }
        self.close(subject);
    }

    fn identifier_and_labels(&mut self) {
        if self.kind().is_identifier() {
            self.take();
        }
        while matches!(self.kind(), K::Colon | K::DoubleColon) {
            self.take();
            if self.kind().is_label() {
                self.take();
            } else {
                self.unexpected("a label", "labels are names; others stand in backticks");
            }
        }
    }

    pub(super) fn expect_bracket(&mut self, expected: &str) {
        if self.kind() != K::CloseBracket {
            self.unexpected(expected, "brackets hold an identifier, labels and a record, then elements after `|`");
            self.skip_to(&[K::CloseBracket]);
        }
        if self.kind() == K::CloseBracket {
            self.take();
        }
    }

    pub(super) fn expect(&mut self, kind: K, expected: &str) {
        if self.kind() == kind {
            self.take();
        } else {
            self.unexpected(expected, "");
        }
    }

    /// Passes tokens up to one of `wanted`, or up to where an enclosing pattern can go on.
    pub(super) fn skip_to(&mut self, wanted: &[K]) {
        loop {
            let kind = self.kind();
            let closes = matches!(kind, K::CloseNode | K::CloseBracket | K::CloseRecord | K::End);
            if closes || wanted.contains(&kind) || (matches!(kind, K::OpenNode | K::OpenBracket) && self.begins_line())
            {
                return;
            }
            self.take();
        }
    }

    /// Takes the rest of the text as it is: brackets this deep are not read.
    pub(super) fn give_up(&mut self) {
        let message = format!("brackets nested more than {MAX_NESTING} deep");
        let mistake = Mistake::new(Code::TooDeep, self.span(), message);
        self.mistakes.push(mistake.hint("name the inner patterns and refer to them"));
        while self.kind() != K::End {
            self.take();
        }
        self.reported_at = Some(self.at);
    }

    pub(super) fn unexpected(&mut self, expected: &str, hint: &str) {
        if self.reported_at == Some(self.at) || self.kind() == K::Malformed || self.mistakes.len() > 2 * MAX_MISTAKES {
            return;
        }
        self.reported_at = Some(self.at);
        let found = self.found();
        let mistake = Mistake::new(Code::UnexpectedToken, self.span(), format!("expected {expected}, found {found}"));
        self.mistakes.push(if hint.is_empty() { mistake } else { mistake.hint(hint) });
    }

    fn found(&self) -> String {
        let text = self.span().of(self.source);
        match self.kind() {
            K::End => "the end of the text".to_owned(),
            K::Backticked | K::Fenced => shown(text),
            _ => format!("`{}`", shown(text)),
        }
    }

    pub(super) fn kind(&self) -> K {
        self.tokens.get(self.at).map_or(K::End, |token| token.kind)
    }

    pub(super) fn text(&self) -> &'s str {
        self.span().of(self.source)
    }

    fn span(&self) -> Span {
        let start = |index: usize| self.tokens.get(index).map_or(self.source.len(), |token| token.start as usize);
        Span::new(start(self.at), start(self.at + 1))
    }

    /// Whether the token is the first of its line.
    fn begins_line(&self) -> bool {
        let before = self.at.checked_sub(1).and_then(|index| self.tokens.get(index));
        let layout = before.filter(|token| token.kind == K::Whitespace);
        let (Some(layout), Some(here)) = (layout, self.tokens.get(self.at)) else { return false };
        Span::new(layout.start as usize, here.start as usize).of(self.source).contains('\n')
    }

    pub(super) fn take(&mut self) {
        if self.kind() != K::End {
            self.at += 1;
            self.taken = self.at;
            self.skip_layout();
        }
    }

    fn skip_layout(&mut self) {
        while self.kind().is_trivia() {
            self.at += 1;
        }
    }

    pub(super) fn open(&mut self, kind: N) -> Open {
        let first_token = if kind == N::Document { 0 } else { index(self.at) };
        self.nodes.push(Entry { kind, first_token, end_token: first_token, end_node: 0 });
        Open(self.nodes.len() - 1)
    }

    pub(super) fn close(&mut self, open: Open) {
        let (end_token, end_node) = (index(self.taken), index(self.nodes.len()));
        if let Some(entry) = self.nodes.get_mut(open.0) {
            entry.end_token = end_token.max(entry.first_token);
            entry.end_node = end_node;
        }
    }
}

/// Tokens and nodes are counted in 32 bits: a text has fewer than 4 Gi of either.
fn index(index: usize) -> u32 {
    u32::try_from(index).unwrap_or(u32::MAX)
}
