//! Finds the holes in a text.

use std::ops::Range;

use crate::expression::located;
use crate::syntax::{Lexer, SyntaxError, Token};
use crate::{Expression, ParseError, Position};

/// A stretch of a template and the bytes of the source it came from.
#[derive(Debug, Clone)]
pub(super) struct Part {
    pub span: Range<usize>,
    pub kind: PartKind,
}

#[derive(Debug, Clone)]
pub(super) enum PartKind {
    /// Text, its escapes already resolved.
    Text(String),
    Hole(Hole),
}

/// An expression within a text.
#[derive(Debug, Clone)]
pub(super) struct Hole {
    pub expression: Expression,
    /// Where the expression begins in the text.
    pub start: Position,
}

/// Splits `source` into text and holes. `$${` is a literal `${`.
pub(super) fn split(source: &str) -> Result<Vec<Part>, ParseError> {
    let mut parts = Vec::new();
    let mut at = 0;
    while let Some(rest) = source.get(at..).filter(|rest| !rest.is_empty()) {
        at = if rest.starts_with("$${") {
            push_text(&mut parts, at..at + 3, "${");
            at + 3
        } else if rest.starts_with("${") {
            let (end, hole) = hole(source, at)?;
            let kind = PartKind::Hole(hole);
            parts.push(Part { span: at..end, kind });
            end
        } else {
            let end = at + plain_length(rest);
            push_text(&mut parts, at..end, source.get(at..end).unwrap_or_default());
            end
        };
    }
    Ok(parts)
}

/// The length of the text before the next `$${` or `${`.
fn plain_length(rest: &str) -> usize {
    let candidates = rest.match_indices('$').map(|(at, _)| at);
    let special = |at: &usize| {
        let after = rest.get(*at..).unwrap_or_default();
        *at > 0 && (after.starts_with("${") || after.starts_with("$${"))
    };
    candidates.into_iter().find(special).unwrap_or(rest.len())
}

fn push_text(parts: &mut Vec<Part>, span: Range<usize>, text: &str) {
    if let Some(Part { span: last, kind: PartKind::Text(before) }) = parts.last_mut() {
        last.end = span.end;
        before.push_str(text);
    } else {
        let kind = PartKind::Text(text.to_owned());
        parts.push(Part { span, kind });
    }
}

/// Reads the hole that begins at `at`; gives where it ends.
fn hole(source: &str, at: usize) -> Result<(usize, Hole), ParseError> {
    let begin = at + 2;
    let end = closing_brace(source, begin).map_err(|error| {
        let unterminated = SyntaxError::new(at, "`${` is not closed; add `}`, or write `$${` for the two characters");
        located(source, error.unwrap_or(unterminated))
    })?;
    let start = Position::of(source, begin);
    let inner = source.get(begin..end).unwrap_or_default();
    let expression = Expression::parse(inner).map_err(|error| error.moved(start))?;
    Ok((end + 1, Hole { expression, start }))
}

/// The brace that belongs to the `${` before `begin`, braces and strings between them respected.
fn closing_brace(source: &str, begin: usize) -> Result<usize, Option<SyntaxError>> {
    let mut lexer = Lexer::starting(source, begin);
    let mut open = 0usize;
    loop {
        let (at, token) = lexer.next().map_err(Some)?;
        match token {
            Token::End => return Err(None),
            Token::Sign("{") => open += 1,
            Token::Sign("}") => match open.checked_sub(1) {
                Some(left) => open = left,
                None => return Ok(at),
            },
            _ => {}
        }
    }
}
