//! Splits a template into literal text and `${…}` placeholders.

use std::ops::Range;

use crate::expression::locate;
use crate::syntax::{Lexer, SyntaxError, Token};
use crate::{Expression, ParseError, Position};

/// A segment of a template with its byte range in the source.
#[derive(Debug, Clone)]
pub(super) struct Segment {
    pub span: Range<usize>,
    pub kind: SegmentKind,
}

#[derive(Debug, Clone)]
pub(super) enum SegmentKind {
    /// Literal text. `$${` is already replaced by `${`.
    Text(String),
    Placeholder(Placeholder),
}

/// An expression in a text.
#[derive(Debug, Clone)]
pub(super) struct Placeholder {
    pub expression: Expression,
    /// The position of the expression in the text.
    pub start: Position,
}

/// Splits `source` into text and placeholders. `$${` is a literal `${`.
pub(super) fn split(source: &str) -> Result<Vec<Segment>, ParseError> {
    let mut segments = Vec::new();
    let mut offset = 0;
    while let Some(rest) = source.get(offset..).filter(|rest| !rest.is_empty()) {
        offset = if rest.starts_with("$${") {
            push_text(&mut segments, offset..offset + 3, "${");
            offset + 3
        } else if rest.starts_with("${") {
            let (end, placeholder) = placeholder(source, offset)?;
            let kind = SegmentKind::Placeholder(placeholder);
            segments.push(Segment { span: offset..end, kind });
            end
        } else {
            let end = offset + plain_length(rest);
            push_text(&mut segments, offset..end, source.get(offset..end).unwrap_or_default());
            end
        };
    }
    Ok(segments)
}

/// The length of the text before the next `$${` or `${`.
fn plain_length(rest: &str) -> usize {
    let candidates = rest.match_indices('$').map(|(offset, _)| offset);
    let special = |offset: &usize| {
        let after = rest.get(*offset..).unwrap_or_default();
        *offset > 0 && (after.starts_with("${") || after.starts_with("$${"))
    };
    candidates.into_iter().find(special).unwrap_or(rest.len())
}

fn push_text(segments: &mut Vec<Segment>, span: Range<usize>, text: &str) {
    if let Some(Segment { span: last, kind: SegmentKind::Text(before) }) = segments.last_mut() {
        last.end = span.end;
        before.push_str(text);
    } else {
        let kind = SegmentKind::Text(text.to_owned());
        segments.push(Segment { span, kind });
    }
}

/// Parses the placeholder at `offset`. Returns its end and the placeholder.
fn placeholder(source: &str, offset: usize) -> Result<(usize, Placeholder), ParseError> {
    let begin = offset + 2;
    let end = closing_brace(source, begin).map_err(|error| {
        let unterminated = SyntaxError::new(offset, "`${` is not closed; add `}`, or write `$${` for a literal `${`");
        locate(source, error.unwrap_or(unterminated))
    })?;
    let start = Position::from_offset(source, begin);
    let inner = source.get(begin..end).unwrap_or_default();
    let expression = Expression::parse(inner).map_err(|error| error.shifted_by(start))?;
    Ok((end + 1, Placeholder { expression, start }))
}

/// Finds the brace that closes the `${` before `begin`. Skips nested braces and strings.
fn closing_brace(source: &str, begin: usize) -> Result<usize, Option<SyntaxError>> {
    let mut lexer = Lexer::starting(source, begin);
    let mut open = 0usize;
    loop {
        let (offset, token) = lexer.next().map_err(Some)?;
        match token {
            Token::End => return Err(None),
            Token::Punct("{") => open += 1,
            Token::Punct("}") => match open.checked_sub(1) {
                Some(left) => open = left,
                None => return Ok(offset),
            },
            _ => {}
        }
    }
}
