//! Texts in inputs: templates, redacted texts, and texts that a model wrote.

use super::values::Piece;

/// What the executor writes in place of a secret.
const REDACTED: &str = "[redacted]";
/// The minimum length of a text that counts as written by a model, in characters.
const MIN_WRITTEN_CHARS: usize = 40;
/// The minimum number of words of a text that counts as written by a model.
const MIN_WRITTEN_WORDS: usize = 5;

/// Whether a text contains a redacted secret.
pub(super) fn is_redacted(text: &str) -> bool {
    text.contains(REDACTED)
}

/// Whether a model wrote this text: the parts that no earlier output contains are long, and consist of words.
pub(super) fn is_written(pieces: &[Piece<'_>]) -> bool {
    let literals = || pieces.iter().filter_map(literal);
    let chars: usize = literals().map(|text| text.chars().count()).sum();
    let words: usize = literals().map(|text| text.split_whitespace().count()).sum();
    chars >= MIN_WRITTEN_CHARS && words >= MIN_WRITTEN_WORDS
}

/// Whether the literal parts contain a digit. A number in an answer is rarely the same in the next run.
pub(super) fn has_literal_digit(pieces: &[Piece<'_>]) -> bool {
    pieces.iter().filter_map(literal).any(|text| text.contains(|c: char| c.is_ascii_digit()))
}

/// The text of a template.
pub(super) fn template(pieces: &[Piece<'_>]) -> String {
    let text = |piece: &Piece<'_>| match piece {
        Piece::Literal(text) => escape(text),
        Piece::Link(found) => reference(&found.expression),
    };
    pieces.iter().map(text).collect()
}

/// A template that is one expression.
pub(super) fn reference(expression: &str) -> String {
    format!("${{{expression}}}")
}

/// A template with this literal text.
pub(super) fn escape(text: &str) -> String {
    text.replace("${", "$${")
}

fn literal<'t>(piece: &Piece<'t>) -> Option<&'t str> {
    match piece {
        Piece::Literal(text) => Some(text),
        Piece::Link(_) => None,
    }
}
