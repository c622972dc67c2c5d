//! Edits one record (`{…}`): replaces values in place, appends new properties, and removes properties with their commas
//! and lines.

use super::editor::Editor;
use crate::model::{Properties, Subject};
use crate::position::Span;
use crate::print::{print_name, print_subject, print_value};
use crate::syntax::{Node, Token, TokenKind};

/// A property in the source text of a record.
struct RecordProperty<'t> {
    key: String,
    node: Node<'t>,
    is_kept: bool,
}

/// A range of removed text.
#[derive(Clone, Copy)]
struct Removed {
    end: usize,
    /// Whether the text directly before the range is a line comment. A line break must follow such a comment.
    follows_line_comment: bool,
}

impl<'t> Editor<'t> {
    /// Changes the properties of a record from `before` to `after`.
    pub(super) fn record(&mut self, record: Node<'t>, before: &Properties, after: &Properties) {
        let existing: Vec<RecordProperty> = record.nodes().map(|node| RecordProperty::new(node, after)).collect();
        let has_comments = record.token_range().any(|index| self.is_comment(index));
        if !has_comments && !existing.iter().any(|property| property.is_kept) {
            return self.replace_record(record, after);
        }
        let mut added = Vec::new();
        for (key, value) in after.iter().filter(|(key, value)| before.get(*key) != Some(*value)) {
            // If a key occurs several times, the last property with this key is the valid one.
            match existing
                .iter()
                .rfind(|existing| existing.key == *key)
                .and_then(|existing| existing.node.nodes().next())
            {
                Some(old) => self.replace(old.span(), print_value(value)),
                None => added.push(format!("{}: {}", print_name(key), print_value(value))),
            }
        }
        self.remove_properties(record, &existing);
        if !added.is_empty() {
            self.append_properties(record, &existing, &added);
        }
    }

    /// Replaces a whole record. The record has no comments, and none of its properties is kept.
    fn replace_record(&mut self, record: Node<'t>, after: &Properties) {
        if after.is_empty() {
            let start = self.blanks_before(record.token_range().start).map_or(record.span().start, |it| it.span.start);
            return self.remove(Span::new(start, record.span().end));
        }
        let subject = Subject { properties: after.clone(), ..Subject::default() };
        self.replace(record.span(), print_subject(&subject));
    }

    /// Removes the properties that are not kept, and one comma for each of them.
    fn remove_properties(&mut self, record: Node<'t>, existing: &[RecordProperty<'t>]) {
        let mut commas: Vec<Option<Token>> =
            record.tokens().filter(|token| token.kind == TokenKind::Comma).map(Some).collect();
        let mut previous = None;
        for (index, property) in existing.iter().enumerate().filter(|(_, property)| !property.is_kept) {
            let own = commas.get_mut(index).and_then(Option::take);
            match own {
                Some(_) => {}
                // No comma follows the last property. Instead, the comma before it is removed.
                None => {
                    let before = commas.iter_mut().rev().find_map(Option::take);
                    before.into_iter().for_each(|comma| self.remove_comma(comma));
                }
            }
            previous = Some(self.remove_property(property.node, own, previous));
        }
    }

    /// Removes a comma after which no property remains. Also removes the whitespace after the comma, unless a comment
    /// follows the whitespace.
    fn remove_comma(&mut self, comma: Token<'t>) {
        let blanks = self.blanks_before(comma.index + 2).filter(|_| !self.is_comment(comma.index + 2));
        self.remove(Span::new(comma.span.start, blanks.map_or(comma.span.end, |blanks| blanks.span.end)));
    }

    /// Removes a property and its comma. If the property is alone on a line, removes the line. Otherwise removes the
    /// adjacent whitespace.
    ///
    /// `previous` is the text that was removed before `property`. If it ends at `property` and a line comment precedes
    /// it, the line break between the two must be kept, because it ends the comment.
    fn remove_property(&mut self, property: Node<'t>, comma: Option<Token<'t>>, previous: Option<Removed>) -> Removed {
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
        let left_start = left.map_or(span.start, |left| left.span.start);
        let follows_line_comment = match previous {
            Some(previous) if previous.end == left_start => previous.follows_line_comment,
            _ => {
                let before = self.token_before(left.map_or(tokens.start, |left| left.index));
                before.is_some_and(|token| token.kind == TokenKind::LineComment)
            }
        };
        match (left, right) {
            (Some(left), right) if breaks(Some(left)) && breaks(right) => span.start = last_break(left),
            (left, Some(right)) if !breaks(Some(right)) && (comma.is_some() || breaks(left)) => {
                span.end = right.span.end;
            }
            (Some(left), _) if !follows_line_comment => span.start = left.span.start,
            _ => {}
        }
        self.remove(span);
        Removed { end: span.end, follows_line_comment: follows_line_comment && span.start == left_start }
    }

    /// Appends properties to a record. If the last property is on a separate line, each new property gets a separate
    /// line.
    fn append_properties(&mut self, record: Node<'t>, existing: &[RecordProperty<'t>], added: &[String]) {
        let Some(last) = existing.iter().rfind(|property| property.is_kept) else {
            // The record contains only comments. The new properties are written before the comments.
            return self.insert(record.span().start + 1, added.join(", ") + " ");
        };
        let first = last.node.token_range().start;
        let left = self.token_before(first).filter(|token| token.text.contains('\n') && !token.kind.is_comment());
        let line = left.map(|left| self.tree.source().get(last_break(left)..left.span.end).unwrap_or_default());
        self.insert(last.node.span().end, ",");
        // Comments after the last property belong to that property, so new properties are written after the comments.
        // Comments inside a removed property are removed with it.
        let is_removed = |index: usize| existing.iter().any(|it| !it.is_kept && it.node.token_range().contains(&index));
        let mut comments = (last.node.token_range().end..record.token_range().end).rev();
        let comment = comments.find(|index| self.is_comment(*index) && !is_removed(*index));
        let comment = comment.and_then(|index| self.tree.token(index));
        let end = comment.map_or(last.node.span().end, |comment| comment.span.start + comment.text.trim_end().len());
        let after_line_comment = comment.is_some_and(|comment| comment.kind == TokenKind::LineComment);
        let separator = line.unwrap_or(if after_line_comment { "\n" } else { " " });
        let text: Vec<String> = added.iter().map(|property| format!("{separator}{property}")).collect();
        self.insert(end, text.join(","));
    }

    fn is_comment(&self, index: usize) -> bool {
        self.tree.token(index).is_some_and(|token| token.kind.is_comment())
    }
}

impl<'t> RecordProperty<'t> {
    fn new(node: Node<'t>, after: &Properties) -> Self {
        let key = node.tokens().next().map(|key| key.value().into_owned()).unwrap_or_default();
        let is_kept = after.contains_key(&key);
        Self { key, node, is_kept }
    }
}

/// Returns the offset of the last line break in `blanks`.
fn last_break(blanks: Token) -> usize {
    let before = blanks.text.rfind('\n').map(|at| blanks.text.get(..at).unwrap_or_default()).unwrap_or_default();
    blanks.span.start + before.strip_suffix('\r').unwrap_or(before).len()
}
