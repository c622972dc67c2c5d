//! From a scalar of the tree to its value.

use super::value::{Decimal, Measurement, Number, Range, Scalar, Symbol};
use crate::diagnostic::{Code, Mistake, shown};
use crate::syntax::{Node, Token, TokenKind};

/// The value of a scalar, or what is wrong with it: a number may be too large although it is well written.
pub(super) fn scalar(node: Node) -> Result<Scalar, Mistake> {
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

fn range(lower: Token, dots: Token, upper: Option<Token>) -> Result<Range, Mistake> {
    match upper {
        Some(upper) if dots.kind == TokenKind::Range => Ok(Range::Between(number(lower)?, number(upper)?)),
        _ => Ok(Range::From(number(lower)?)),
    }
}

fn number(token: Token) -> Result<Number, Mistake> {
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
        let mistake =
            Mistake::new(Code::NumberOutOfRange, token.span, format!("number `{}` is too large", shown(token.text)));
        mistake.hint("integers have 64 bits; write longer ones as strings")
    })
}

fn measurement(text: &str) -> Option<Measurement> {
    let unit = text.find(|c: char| c.is_ascii_alphabetic())?;
    let (amount, unit) = text.split_at_checked(unit)?;
    Measurement::new(amount.parse().ok()?, unit)
}

/// A fenced string, tagged or not. Its content is what stands between its first line and the closing backticks.
fn fenced(token: Token) -> Scalar {
    let inner = token.text.strip_prefix("```").and_then(|text| text.strip_suffix("```")).unwrap_or_default();
    let mut header = inner;
    let mut tag = "";
    // The lexer has let only blanks, comments and one tag pass before the line break.
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

/// A tree without mistakes has a value for each scalar; this is the answer for any other.
fn misplaced(node: Node) -> Mistake {
    Mistake::new(Code::UnexpectedToken, node.span(), "expected a value")
}
