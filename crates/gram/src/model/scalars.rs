//! Converts scalar nodes of the syntax tree to values.

use super::value::{Decimal, Measurement, Number, Range, Scalar, Symbol};
use crate::diagnostic::{DiagnosticCode, SpannedError, abbreviate};
use crate::syntax::{Node, Token, TokenKind};

/// Returns the value of a scalar node. Fails if a number is out of range.
pub(super) fn scalar(node: Node) -> Result<Scalar, SpannedError> {
    let mut tokens = node.tokens();
    let (first, second, third) = (tokens.next(), tokens.next(), tokens.next());
    let Some(first) = first else { return Err(misplaced(node)) };
    match (first.kind, second, third) {
        (TokenKind::OpenRange, Some(upper), _) => Ok(Scalar::Range(Range::To(number(upper)?))),
        (kind, Some(dots), upper) if kind.is_number() => range(first, dots, upper).map(Scalar::Range),
        (kind, None, _) if kind.is_number() => number(first).map(Scalar::Number),
        (TokenKind::Symbol, Some(content), _) => {
            let tag = Symbol::new(first.text).ok_or_else(|| misplaced(node))?;
            Ok(Scalar::Tagged { tag, content: content.value().into_owned() })
        }
        (TokenKind::Symbol, None, _) => match first.text {
            "true" => Ok(Scalar::Boolean(true)),
            "false" => Ok(Scalar::Boolean(false)),
            name => Symbol::new(name).map(Scalar::Symbol).ok_or_else(|| misplaced(node)),
        },
        (TokenKind::Fenced, ..) => Ok(fenced(first)),
        _ => Ok(Scalar::String(first.value().into_owned())),
    }
}

fn range(lower: Token, dots: Token, upper: Option<Token>) -> Result<Range, SpannedError> {
    match upper {
        Some(upper) if dots.kind == TokenKind::Range => Ok(Range::Between(number(lower)?, number(upper)?)),
        _ => Ok(Range::From(number(lower)?)),
    }
}

fn number(token: Token) -> Result<Number, SpannedError> {
    let read = match token.kind {
        TokenKind::Integer => token.text.parse().ok().map(Number::Integer),
        TokenKind::Hexadecimal => {
            i64::from_str_radix(token.text.trim_start_matches("0x"), 16).ok().map(Number::Integer)
        }
        TokenKind::Octal => i64::from_str_radix(token.text, 8).ok().map(Number::Integer),
        TokenKind::Decimal => token.text.parse().ok().and_then(Decimal::new).map(Number::Decimal),
        TokenKind::Measurement => measurement(token.text).map(Number::Measurement),
        _ => None,
    };
    read.ok_or_else(|| {
        let error = SpannedError::new(
            DiagnosticCode::NumberOutOfRange,
            token.span,
            format!("number `{}` is out of range", abbreviate(token.text)),
        );
        error.hint("integers must fit into 64 bits and decimals must be finite; write other numbers as strings")
    })
}

fn measurement(text: &str) -> Option<Measurement> {
    let unit = text.find(|c: char| c.is_ascii_alphabetic())?;
    let (amount, unit) = text.split_at_checked(unit)?;
    Measurement::new(amount.parse().ok()?, unit)
}

/// Returns the value of a fenced string. The content starts on the line after the opening backticks.
fn fenced(token: Token) -> Scalar {
    let inner = token.text.strip_prefix("```").and_then(|text| text.strip_suffix("```")).unwrap_or_default();
    let mut header = inner;
    let mut tag = "";
    // The lexer has checked that only blanks, comments and one tag precede the line break.
    let content = loop {
        header = header.trim_start_matches(['\t', '\u{b}', '\u{c}', '\r', ' ']);
        header = if let Some(content) = header.strip_prefix('\n') {
            break content;
        } else if let Some(comment) = header.strip_prefix("/**") {
            comment.split_once("*/").map_or("\n", |(_, rest)| rest)
        } else if header.starts_with("//") {
            header.find('\n').and_then(|end| header.get(end..)).unwrap_or("\n")
        } else {
            let end = header.find([' ', '\t', '\u{b}', '\u{c}', '\r', '\n', '/']).unwrap_or(header.len());
            match header.split_at_checked(end) {
                Some((name, rest)) if !name.is_empty() => {
                    tag = name;
                    rest
                }
                _ => break header,
            }
        };
    };
    match Symbol::new(tag) {
        Some(tag) => Scalar::Tagged { tag, content: content.to_owned() },
        None => Scalar::String(content.to_owned()),
    }
}

/// The error for a scalar node without a value. A valid tree contains no such node.
fn misplaced(node: Node) -> SpannedError {
    SpannedError::new(DiagnosticCode::UnexpectedToken, node.span(), "expected a value")
}
