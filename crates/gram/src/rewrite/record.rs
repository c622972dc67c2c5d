//! Changes to one record: values in their places, new properties at the end, old ones gone with their commas and lines.

use super::edit::Editor;
use crate::model::{Properties, Subject};
use crate::position::Span;
use crate::print::{print_name, print_subject, print_value};
use crate::syntax::{Node, Token, TokenKind};

/// A property of a record as it is written.
struct Written<'t> {
    key: String,
    node: Node<'t>,
    stays: bool,
}

impl<'t> Editor<'t> {
    /// Makes a record say `after` instead of `before`.
    pub(super) fn record(&mut self, record: Node<'t>, before: &Properties, after: &Properties) {
        let written: Vec<Written> = record.nodes().map(|node| Written::of(node, after)).collect();
        let has_comments = record.token_range().any(|index| self.is_comment(index));
        if !has_comments && !written.iter().any(|property| property.stays) {
            return self.anew(record, after);
        }
        let mut added = Vec::new();
        for (key, value) in after.iter().filter(|(key, value)| before.get(*key) != Some(*value)) {
            // Of two properties with one key the last counts.
            match written.iter().rfind(|written| written.key == *key).and_then(|written| written.node.nodes().next()) {
                Some(old) => self.replace(old.span(), print_value(value)),
                None => added.push(format!("{}: {}", print_name(key), print_value(value))),
            }
        }
        self.take_away(record, &written);
        if !added.is_empty() {
            self.add(record, &written, &added);
        }
    }

    /// Writes a record of which nothing stays.
    fn anew(&mut self, record: Node<'t>, after: &Properties) {
        if after.is_empty() {
            let start = self.blanks_before(record.token_range().start).map_or(record.span().start, |it| it.span.start);
            return self.remove(Span::new(start, record.span().end));
        }
        let subject = Subject { properties: after.clone(), ..Subject::default() };
        self.replace(record.span(), print_subject(&subject));
    }

    /// Removes what does not stay, with as many commas.
    fn take_away(&mut self, record: Node<'t>, written: &[Written<'t>]) {
        let mut commas: Vec<Option<Token>> =
            record.tokens().filter(|token| token.kind == TokenKind::Comma).map(Some).collect();
        for (index, property) in written.iter().enumerate().filter(|(_, property)| !property.stays) {
            let own = commas.get_mut(index).and_then(Option::take);
            match own {
                Some(_) => {}
                // The last one has no comma behind it; the one before it is not needed any more.
                None => {
                    let before = commas.iter_mut().rev().find_map(Option::take);
                    before.into_iter().for_each(|comma| self.remove_comma(comma));
                }
            }
            self.remove_property(property.node, own);
        }
    }

    /// Removes a comma behind which no property follows, and the blanks behind it unless they precede a comment.
    fn remove_comma(&mut self, comma: Token<'t>) {
        let blanks = self.blanks_before(comma.index + 2).filter(|_| !self.is_comment(comma.index + 2));
        self.remove(Span::new(comma.span.start, blanks.map_or(comma.span.end, |blanks| blanks.span.end)));
    }

    /// Removes a property and its comma: with its line if it had one, else with the blanks next to it.
    fn remove_property(&mut self, property: Node<'t>, comma: Option<Token<'t>>) {
        let tokens = property.token_range();
        let mut span = property.span();
        let mut next = tokens.end;
        if let Some(comma) = comma {
            if (tokens.end..comma.index).any(|index| self.is_comment(index)) {
                self.remove(comma.span);
            } else {
                (span.end, next) = (comma.span.end, comma.index + 1);
            }
        }
        let blanks = |token: Option<Token<'t>>| token.filter(|token| token.kind == TokenKind::Whitespace);
        let (left, right) = (blanks(self.token_before(tokens.start)), blanks(self.tree.token(next)));
        let breaks = |blanks: Option<Token>| blanks.is_some_and(|blanks| blanks.text.contains('\n'));
        match (left, right) {
            (Some(left), right) if breaks(Some(left)) && breaks(right) => span.start = last_break(left),
            (left, Some(right)) if !breaks(Some(right)) && (comma.is_some() || breaks(left)) => {
                span.end = right.span.end;
            }
            (Some(left), _) if !self.ends_comment(left) => span.start = left.span.start,
            _ => {}
        }
        self.remove(span);
    }

    /// Adds properties at the end of a record: each in a line of its own if the last one has one.
    fn add(&mut self, record: Node<'t>, written: &[Written<'t>], added: &[String]) {
        let Some(last) = written.iter().rfind(|property| property.stays) else {
            // There are comments; they come last.
            return self.insert(record.span().start + 1, added.join(", ") + " ");
        };
        let first = last.node.token_range().start;
        let left = self.token_before(first).filter(|token| token.text.contains('\n') && !token.kind.is_comment());
        let line = left.map(|left| self.tree.source().get(last_break(left)..left.span.end).unwrap_or_default());
        self.insert(last.node.span().end, ",");
        // Comments behind the last property belong to it.
        let mut comments = (last.node.token_range().end..record.token_range().end).rev();
        let comment = comments.find(|index| self.is_comment(*index)).and_then(|index| self.tree.token(index));
        let end = comment.map_or(last.node.span().end, |comment| comment.span.start + comment.text.trim_end().len());
        let after_line_comment = comment.is_some_and(|comment| comment.kind == TokenKind::LineComment);
        let separator = line.unwrap_or(if after_line_comment { "\n" } else { " " });
        let text: Vec<String> = added.iter().map(|property| format!("{separator}{property}")).collect();
        self.insert(end, text.join(","));
    }

    fn is_comment(&self, index: usize) -> bool {
        self.tree.token(index).is_some_and(|token| token.kind.is_comment())
    }

    /// Whether the line break in some blanks is the end of a comment.
    fn ends_comment(&self, blanks: Token) -> bool {
        self.token_before(blanks.index).is_some_and(|token| token.kind == TokenKind::LineComment)
    }
}

impl<'t> Written<'t> {
    fn of(node: Node<'t>, after: &Properties) -> Self {
        let key = node.tokens().next().map(|key| key.value().into_owned()).unwrap_or_default();
        let stays = after.contains_key(&key);
        Self { key, node, stays }
    }
}

/// Where the last line break in some blanks begins.
fn last_break(blanks: Token) -> usize {
    let before = blanks.text.rfind('\n').map(|at| blanks.text.get(..at).unwrap_or_default()).unwrap_or_default();
    blanks.span.start + before.strip_suffix('\r').unwrap_or(before).len()
}
