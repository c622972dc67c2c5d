//! Replaces subjects in source text with minimal edits.

use crate::model::{Properties, Subject, SubjectSite};
use crate::position::Span;
use crate::print::{print_name, print_subject, print_value};
use crate::syntax::{Node, NodeKind, Token, TokenKind, Tree, is_symbol};

/// Collects edits of a source text.
pub(super) struct Editor<'t> {
    pub(super) tree: &'t Tree<'t>,
    edits: Vec<(Span, String)>,
}

impl<'t> Editor<'t> {
    pub(super) fn new(tree: &'t Tree<'t>) -> Self {
        Self { tree, edits: Vec::new() }
    }

    /// Replaces the subject `before` at `site` with `after`.
    pub(super) fn subject(&mut self, site: SubjectSite<'t>, before: &Subject, after: &Subject) {
        match site {
            SubjectSite::Delimited(node) => match node.child(NodeKind::Subject) {
                Some(subject) => {
                    self.labels(subject, before, after);
                    self.properties(subject, before, after);
                }
                None => self.insert_subject(node, after),
            },
            // A reference consists of a name only. To get labels or properties, it must become a node.
            SubjectSite::Reference(reference) => {
                self.insert(reference.span().start, "(");
                self.insert(reference.span().end, format!("{})", after_name(after)));
            }
            SubjectSite::AnnotatedPattern(node) => self.annotations(node, after),
            SubjectSite::Unwritable => {}
        }
    }

    /// Applies all edits and returns the new text.
    pub(super) fn finish(mut self) -> String {
        // At the same offset, an insertion sorts before a removal, because the span of an insertion is empty.
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

    /// Returns the whitespace before a token if it can be removed. Whitespace with a line break is not returned,
    /// because the line break may end a line comment.
    pub(super) fn blanks_before(&self, index: usize) -> Option<Token<'t>> {
        let blanks = self.token_before(index).filter(|token| token.kind == TokenKind::Whitespace)?;
        (!blanks.text.contains('\n')).then_some(blanks)
    }

    /// Writes a subject into a node, bracket or arrow that has no subject yet.
    fn insert_subject(&mut self, node: Node<'t>, subject: &Subject) {
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
                // If the record is now the first token in its brackets, the space before the record is superfluous.
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

    /// Removes a label and its colon. A comment between them is preserved.
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

    /// Replaces the annotations of a pattern. If annotations cannot express the subject, writes a bracket around the
    /// pattern instead. Comments between the annotations are moved before the new text.
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

/// Returns the text of labels and properties to be inserted after a name.
fn after_name(subject: &Subject) -> String {
    let text = print_subject(&Subject { identity: String::new(), ..subject.clone() });
    if text.starts_with('{') { format!(" {text}") } else { text }
}

/// Returns the subject as annotations, to be inserted before a pattern, or `None` if annotations cannot express it.
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
