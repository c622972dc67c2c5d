//! A changed subject in the place of another, with as little else changed as can be.

use crate::model::{Properties, Site, Subject};
use crate::position::Span;
use crate::print::{print_name, print_subject, print_value};
use crate::syntax::{Node, NodeKind, Token, TokenKind, Tree, is_symbol};

/// Collects changes to a text.
pub(super) struct Editor<'t> {
    pub(super) tree: &'t Tree<'t>,
    edits: Vec<(Span, String)>,
}

impl<'t> Editor<'t> {
    pub fn new(tree: &'t Tree<'t>) -> Self {
        Self { tree, edits: Vec::new() }
    }

    /// Writes `after` where `before` is written.
    pub fn subject(&mut self, site: Site<'t>, before: &Subject, after: &Subject) {
        match site {
            Site::Room(node) => match node.child(NodeKind::Subject) {
                Some(subject) => {
                    self.labels(subject, before, after);
                    self.properties(subject, before, after);
                }
                None => self.fill(node, after),
            },
            // A reference is a name only; with more to say it is a node.
            Site::Reference(reference) => {
                self.insert(reference.span().start, "(");
                self.insert(reference.span().end, format!("{})", behind_name(after)));
            }
            Site::Annotated(node) => self.annotations(node, after),
            Site::None => {}
        }
    }

    /// The text with all changes made.
    pub fn finish(mut self) -> String {
        // At one place, what is inserted comes before what is taken away behind it.
        self.edits.sort_by_key(|(span, _)| *span);
        let source = self.tree.source();
        let mut text = String::with_capacity(source.len() + 64);
        let mut at = 0;
        for (span, replacement) in &self.edits {
            text.push_str(source.get(at..span.start).unwrap_or_default());
            text.push_str(replacement);
            at = at.max(span.end);
        }
        text.push_str(source.get(at..).unwrap_or_default());
        text
    }

    pub(super) fn insert(&mut self, at: usize, text: impl Into<String>) {
        self.replace(Span::new(at, at), text);
    }

    pub(super) fn replace(&mut self, span: Span, text: impl Into<String>) {
        self.edits.push((span, text.into()));
    }

    pub(super) fn remove(&mut self, span: Span) {
        self.replace(span, "");
    }

    pub(super) fn token_before(&self, index: usize) -> Option<Token<'t>> {
        index.checked_sub(1).and_then(|index| self.tree.token(index))
    }

    /// The blanks before a token, if they can go: they neither break a line nor end a comment.
    pub(super) fn blanks_before(&self, index: usize) -> Option<Token<'t>> {
        let blanks = self.token_before(index).filter(|token| token.kind == TokenKind::Whitespace)?;
        (!blanks.text.contains('\n')).then_some(blanks)
    }

    /// Writes a subject into a node, bracket or arrow that has none.
    fn fill(&mut self, node: Node<'t>, subject: &Subject) {
        let text = print_subject(subject);
        let mut tokens = node.tokens();
        let (first, second) = (tokens.next(), tokens.next());
        let is_open = |token: &Token| matches!(token.kind, TokenKind::OpenNode | TokenKind::OpenBracket);
        match [first, second].into_iter().flatten().find(is_open) {
            Some(open) => {
                let has_bar = self.tree.token(open.index + 1).is_some_and(|next| next.kind == TokenKind::Pipe);
                self.insert(open.span.end, if has_bar { text + " " } else { text });
            }
            None => self.insert(first.map_or(0, |stroke| stroke.span.end), format!("[{text}]")),
        }
    }

    fn labels(&mut self, subject: Node<'t>, before: &Subject, after: &Subject) {
        let mut colon: Option<Token> = None;
        let (mut end, mut has_name) = (None, false);
        for token in subject.tokens() {
            match (token.kind, colon) {
                (TokenKind::Colon | TokenKind::DoubleColon, _) => colon = Some(token),
                (_, Some(colon)) if !after.labels.contains(&*token.value()) => self.remove_label(colon, token),
                _ => has_name = true,
            }
            end = Some(token.span.end);
        }
        let colon = colon.map_or(":", |colon| colon.text);
        let added = after.labels.difference(&before.labels);
        let added: String = added.map(|label| format!("{colon}{}", print_name(label))).collect();
        match (end, subject.child(NodeKind::Record)) {
            _ if added.is_empty() => {
                // What stands first in its brackets needs no blank before it.
                let record = subject.child(NodeKind::Record).filter(|_| !has_name);
                let blanks = record.and_then(|record| self.blanks_before(record.token_range().start));
                if let Some(blanks) = blanks.filter(|blanks| blanks.span.start >= subject.span().start) {
                    self.remove(blanks.span);
                }
            }
            (Some(end), _) => self.insert(end, added),
            (None, _) => self.insert(subject.span().start, added + " "),
        }
    }

    /// Takes a label and its colon away; a comment between them stays.
    fn remove_label(&mut self, colon: Token<'t>, label: Token<'t>) {
        let start = self.blanks_before(colon.index).map_or(colon.span.start, |blanks| blanks.span.start);
        let between = (colon.index..label.index).filter_map(|index| self.tree.token(index));
        if between.into_iter().any(|token| token.kind.is_comment()) {
            self.remove(Span::new(start, colon.span.end));
            self.remove(label.span);
        } else {
            self.remove(Span::new(start, label.span.end));
        }
    }

    fn properties(&mut self, subject: Node<'t>, before: &Subject, after: &Subject) {
        match subject.child(NodeKind::Record) {
            Some(record) => self.record(record, &before.properties, &after.properties),
            None if after.properties.is_empty() => {}
            None => {
                let record = Subject { properties: after.properties.clone(), ..Subject::default() };
                self.insert(subject.span().end, format!(" {}", print_subject(&record)));
            }
        }
    }

    /// Writes annotations anew, or brackets where annotations cannot say it. Comments between them come first.
    fn annotations(&mut self, annotated: Node<'t>, after: &Subject) {
        let tokens = annotated.token_range();
        let is_pattern = |part: &Node| matches!(part.kind(), NodeKind::Bracket | NodeKind::Path);
        let Some(inner) = annotated.nodes().find(is_pattern) else { return };
        let mut text = String::new();
        for comment in (tokens.start..inner.token_range().start).filter_map(|index| self.tree.token(index)) {
            if comment.kind.is_comment() {
                text.push_str(comment.text.trim_end());
                text.push('\n');
            }
        }
        match as_annotations(after) {
            Some(annotations) => text.push_str(&annotations),
            None => {
                text.push_str(&format!("[{} | ", print_subject(after)));
                self.insert(inner.span().end, "]");
            }
        }
        self.replace(Span::new(annotated.span().start, inner.span().start), text);
    }
}

/// Labels and properties as they follow a name.
fn behind_name(subject: &Subject) -> String {
    let text = print_subject(&Subject { identity: String::new(), ..subject.clone() });
    if text.starts_with('{') { format!(" {text}") } else { text }
}

/// A subject as annotations, ready to stand before a pattern; none when there is no way to write it so.
fn as_annotations(subject: &Subject) -> Option<String> {
    let Subject { identity, labels, properties } = subject;
    if !properties.keys().all(|key| is_symbol(key)) || subject.is_empty() {
        return None;
    }
    let name = Subject { properties: Properties::new(), ..subject.clone() };
    let name = (!identity.is_empty() || !labels.is_empty()).then(|| format!("@@{} ", print_subject(&name)));
    let keys = properties.iter().map(|(key, value)| format!("@{key}({}) ", print_value(value)));
    Some(name.into_iter().chain(keys).collect())
}
