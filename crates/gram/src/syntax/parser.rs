//! Parses patterns, paths, subjects and annotations. The parser recurses only for brackets and nested values, and their
//! depth is limited.
//!
//! After an error the parser skips tokens until it can continue. It reports no errors for skipped tokens.

use super::lexer::{RawToken, lex};
use super::tree::NodeData;
use super::{MAX_NESTING, NodeKind as N, TokenKind as K};
use crate::diagnostic::{DiagnosticCode, MAX_DIAGNOSTICS, SpannedError, abbreviate};
use crate::position::Span;

/// The result of parsing.
pub(super) struct ParseOutput {
    pub tokens: Vec<RawToken>,
    pub nodes: Vec<NodeData>,
    pub errors: Vec<SpannedError>,
}

pub(super) fn parse(source: &str) -> ParseOutput {
    Parser::new(source, false).run()
}

pub(super) fn parse_signature(source: &str) -> ParseOutput {
    Parser::new(source, true).run()
}

pub(super) struct Parser<'s> {
    source: &'s str,
    tokens: Vec<RawToken>,
    /// The index of the current token, which is never whitespace or a comment.
    at: usize,
    /// The index after the last consumed token.
    taken: usize,
    nodes: Vec<NodeData>,
    errors: Vec<SpannedError>,
    /// The token of the last error. At most one error is reported per token.
    reported_at: Option<usize>,
    pub(super) depth: usize,
    /// Whether arrays and maps may contain maps. This is allowed only in type signatures.
    pub(super) nested_values: bool,
}

/// The index of a node whose end has not been parsed yet.
#[derive(Clone, Copy)]
pub(super) struct NodeMarker(usize);

impl<'s> Parser<'s> {
    fn new(source: &'s str, nested_values: bool) -> Self {
        let (tokens, errors) = lex(source);
        let nodes = Vec::with_capacity(tokens.len() / 2 + 1);
        let (at, taken, depth, reported_at) = (0, 0, 0, None);
        Self { source, tokens, at, taken, nodes, errors, reported_at, depth, nested_values }
    }

    fn run(mut self) -> ParseOutput {
        self.document();
        ParseOutput { tokens: self.tokens, nodes: self.nodes, errors: self.errors }
    }

    fn document(&mut self) {
        let document = self.open(N::Document);
        self.skip_trivia();
        if self.kind() == K::OpenRecord {
            self.record();
        }
        while self.kind() != K::End {
            match self.kind() {
                K::OpenNode | K::OpenBracket | K::At | K::DoubleAt => self.pattern(),
                K::OpenRecord => {
                    self.unexpected("a pattern", "only one record is allowed, before the first pattern");
                    self.record();
                }
                K::Comma => {
                    self.unexpected("a pattern", "separate top-level patterns by whitespace instead of commas");
                    self.bump();
                }
                _ => {
                    self.unexpected("a pattern", "patterns start with `(`, `[` or `@`");
                    self.bump();
                }
            }
        }
        self.taken = self.tokens.len().saturating_sub(1);
        self.close(document);
    }

    /// Parses a pattern with its annotations.
    fn pattern(&mut self) {
        match self.kind() {
            K::At | K::DoubleAt => {
                let annotated = self.open(N::AnnotatedPattern);
                self.annotations();
                // `@k(1) (a)` means `[{k: 1} | (a)]`, which is one level deeper. So an annotation counts as a level.
                // Otherwise the bracket form of a valid text could exceed the nesting limit.
                self.depth += 1;
                match self.kind() {
                    K::OpenNode | K::OpenBracket => self.plain_pattern(),
                    _ => self.unexpected("the annotated pattern", "a pattern must follow `@key(value)`"),
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
                            "`@@` is allowed once, before other annotations",
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
        let node = self.open(N::IdentifiedAnnotation);
        self.bump();
        if !self.kind().is_identifier() && !matches!(self.kind(), K::Colon | K::DoubleColon) {
            self.unexpected("an identifier or a label after `@@`", "write `@@id`, `@@:Label` or `@@id:Label`");
        }
        self.identifier_and_labels();
        self.close(node);
    }

    fn annotation(&mut self) {
        let node = self.open(N::Annotation);
        self.bump();
        match self.kind() {
            K::Symbol | K::Malformed => self.bump(),
            _ => self.unexpected("a key after `@`", "write `@key(value)`; the key is a plain name"),
        }
        if self.kind() == K::OpenNode {
            self.bump();
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
            self.abort_too_deep();
        } else {
            self.bump();
            self.subject();
            if self.kind() == K::Pipe {
                self.bump();
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
                self.unexpected("`,` or `]`", "separate elements by commas; a reference is a name without labels");
                self.skip_to(&[K::Comma, K::CloseBracket]);
            }
            if self.kind() != K::Comma {
                return;
            }
            self.bump();
        }
    }

    fn element(&mut self) {
        match self.kind() {
            K::OpenNode | K::OpenBracket => self.plain_pattern(),
            K::At | K::DoubleAt => {
                self.unexpected("an element", "annotations are allowed only at the top level, not inside of brackets");
                self.pattern();
            }
            kind if kind.is_identifier() => {
                let reference = self.open(N::Reference);
                self.bump();
                self.close(reference);
            }
            K::CloseBracket => self.unexpected("an element", "remove the `|` or comma before `]`"),
            K::SingleQuoted | K::DoubleQuoted => {
                self.unexpected("an element", "write names with special characters in backticks");
                self.bump();
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
                    self.unexpected("a node after the arrow", "arrows connect nodes, as in `(a)-->(b)`");
                    break;
                }
            }
        }
        self.close(path);
    }

    fn node(&mut self) {
        let node = self.open(N::Node);
        self.bump();
        self.subject();
        if self.kind() != K::CloseNode {
            self.unexpected("`)`", "a node contains an identifier, labels and a record, in this order");
            self.skip_to(&[K::CloseNode]);
        }
        if self.kind() == K::CloseNode {
            self.bump();
        }
        self.close(node);
    }

    /// Parses an optional identifier, labels and record.
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
            self.bump();
        }
        while matches!(self.kind(), K::Colon | K::DoubleColon) {
            self.bump();
            if self.kind().is_label() {
                self.bump();
            } else {
                self.unexpected("a label", "labels are names, or text in backticks");
            }
        }
    }

    pub(super) fn expect_bracket(&mut self, expected: &str) {
        if self.kind() != K::CloseBracket {
            self.unexpected(expected, "brackets contain an identifier, labels and a record, then elements after `|`");
            self.skip_to(&[K::CloseBracket]);
        }
        if self.kind() == K::CloseBracket {
            self.bump();
        }
    }

    pub(super) fn expect(&mut self, kind: K, expected: &str) {
        if self.kind() == kind {
            self.bump();
        } else {
            self.unexpected(expected, "");
        }
    }

    /// Skips tokens up to one of `targets`, or up to a token at which an enclosing pattern can continue.
    pub(super) fn skip_to(&mut self, targets: &[K]) {
        loop {
            let kind = self.kind();
            let closes = matches!(kind, K::CloseNode | K::CloseBracket | K::CloseRecord | K::End);
            if closes || targets.contains(&kind) || (matches!(kind, K::OpenNode | K::OpenBracket) && self.begins_line())
            {
                return;
            }
            self.bump();
        }
    }

    /// Reports that the brackets are nested too deeply, and skips the remaining text.
    pub(super) fn abort_too_deep(&mut self) {
        let message = format!("brackets must not nest more than {MAX_NESTING} levels deep");
        let error = SpannedError::new(DiagnosticCode::TooDeep, self.span(), message);
        self.errors.push(error.hint("define the inner patterns separately and refer to them by name"));
        while self.kind() != K::End {
            self.bump();
        }
        self.reported_at = Some(self.at);
    }

    pub(super) fn unexpected(&mut self, expected: &str, hint: &str) {
        if self.reported_at == Some(self.at) || self.kind() == K::Malformed || self.errors.len() > 2 * MAX_DIAGNOSTICS {
            return;
        }
        self.reported_at = Some(self.at);
        let found = self.found();
        let error = SpannedError::new(
            DiagnosticCode::UnexpectedToken,
            self.span(),
            format!("expected {expected}, found {found}"),
        );
        self.errors.push(if hint.is_empty() { error } else { error.hint(hint) });
    }

    fn found(&self) -> String {
        let text = self.span().slice(self.source);
        match self.kind() {
            K::End => "the end of the text".to_owned(),
            K::Backticked | K::Fenced => abbreviate(text),
            _ => format!("`{}`", abbreviate(text)),
        }
    }

    pub(super) fn kind(&self) -> K {
        self.tokens.get(self.at).map_or(K::End, |token| token.kind)
    }

    pub(super) fn text(&self) -> &'s str {
        self.span().slice(self.source)
    }

    fn span(&self) -> Span {
        let start = |index: usize| self.tokens.get(index).map_or(self.source.len(), |token| token.start as usize);
        Span::new(start(self.at), start(self.at + 1))
    }

    /// Returns whether the current token is the first of its line.
    fn begins_line(&self) -> bool {
        let before = self.at.checked_sub(1).and_then(|index| self.tokens.get(index));
        let layout = before.filter(|token| token.kind == K::Whitespace);
        let (Some(layout), Some(here)) = (layout, self.tokens.get(self.at)) else { return false };
        Span::new(layout.start as usize, here.start as usize).slice(self.source).contains('\n')
    }

    pub(super) fn bump(&mut self) {
        if self.kind() != K::End {
            self.at += 1;
            self.taken = self.at;
            self.skip_trivia();
        }
    }

    fn skip_trivia(&mut self) {
        while self.kind().is_trivia() {
            self.at += 1;
        }
    }

    pub(super) fn open(&mut self, kind: N) -> NodeMarker {
        let first_token = if kind == N::Document { 0 } else { index(self.at) };
        self.nodes.push(NodeData { kind, first_token, end_token: first_token, end_node: 0 });
        NodeMarker(self.nodes.len() - 1)
    }

    pub(super) fn close(&mut self, open: NodeMarker) {
        let (end_token, end_node) = (index(self.taken), index(self.nodes.len()));
        if let Some(entry) = self.nodes.get_mut(open.0) {
            entry.end_token = end_token.max(entry.first_token);
            entry.end_node = end_node;
        }
    }
}

/// Converts an index to 32 bits. A text is shorter than 4 GiB, so it has fewer than 2³² tokens and nodes.
fn index(index: usize) -> u32 {
    u32::try_from(index).unwrap_or(u32::MAX)
}
