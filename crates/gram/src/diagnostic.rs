//! Diagnostics: errors in a source text with their positions and suggested fixes.

use std::fmt;

use serde::Serialize;

use crate::position::{LineIndex, Position, Span};

/// One error in a source text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Diagnostic {
    /// The kind of error.
    pub code: DiagnosticCode,
    /// The range of bytes that the error refers to.
    pub span: Span,
    /// The position of the first character.
    #[serde(flatten)]
    pub position: Position,
    /// The position after the last character.
    pub end: Position,
    /// The message: a lower-case sentence fragment that quotes source text in backticks.
    pub message: String,
    /// A suggested fix, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

/// The kind of a [`Diagnostic`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum DiagnosticCode {
    /// The bytes are not UTF-8.
    InvalidUtf8,
    /// The text is too large for the syntax tree.
    TooLarge,
    /// Brackets nest deeper than [`crate::MAX_NESTING`].
    TooDeep,
    /// The text has more errors than the maximum number of reported errors.
    TooManyErrors,
    /// A character that cannot start a token.
    UnknownCharacter,
    /// A string, quoted name or doc comment that is not closed.
    Unclosed,
    /// An unknown escape sequence.
    InvalidEscape,
    /// A fenced string (three backticks) whose first line contains more than a tag.
    InvalidFence,
    /// A token that the grammar does not allow at its position.
    UnexpectedToken,
    /// An integer that does not fit into 64 bits, or a decimal that is not finite.
    NumberOutOfRange,
    /// A key that occurs twice in one record or map.
    DuplicateKey,
    /// An identifier that is defined twice.
    DuplicateDefinition,
    /// A reference to an undefined identifier.
    UndefinedReference,
    /// A pattern that contains itself, directly or through references.
    SelfReference,
    /// An invalid agent.
    InvalidAgent,
    /// An invalid tool specification.
    InvalidTool,
    /// An invalid type signature.
    InvalidSignature,
    /// An invalid query.
    InvalidQuery,
}

impl DiagnosticCode {
    /// Returns the name of the code. The name does not change between releases.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::InvalidUtf8 => "invalid-utf8",
            Self::TooLarge => "too-large",
            Self::TooDeep => "too-deep",
            Self::TooManyErrors => "too-many-errors",
            Self::UnknownCharacter => "unknown-character",
            Self::Unclosed => "unclosed",
            Self::InvalidEscape => "invalid-escape",
            Self::InvalidFence => "invalid-fence",
            Self::UnexpectedToken => "unexpected-token",
            Self::NumberOutOfRange => "number-out-of-range",
            Self::DuplicateKey => "duplicate-key",
            Self::DuplicateDefinition => "duplicate-definition",
            Self::UndefinedReference => "undefined-reference",
            Self::SelfReference => "self-reference",
            Self::InvalidAgent => "invalid-agent",
            Self::InvalidTool => "invalid-tool",
            Self::InvalidSignature => "invalid-signature",
            Self::InvalidQuery => "invalid-query",
        }
    }
}

impl Diagnostic {
    /// Renders the diagnostic with the source line and carets below the error.
    pub fn render(&self, source: &str) -> String {
        let excerpt = Excerpt::around(source, self.span);
        let number = self.position.line.to_string();
        let margin = " ".repeat(number.len());
        let mut text = format!(
            "error[{}]: {}\n{margin}--> {}\n{margin} |\n{number} | {}\n{margin} | {}{}\n",
            self.code.as_str(),
            self.message,
            self.position,
            excerpt.line,
            excerpt.padding,
            "^".repeat(excerpt.carets),
        );
        if let Some(hint) = &self.hint {
            text.push_str(&format!("{margin} = {hint}\n"));
        }
        text
    }
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at {}", self.message, self.position)?;
        match &self.hint {
            Some(hint) => write!(f, "; {hint}"),
            None => Ok(()),
        }
    }
}

/// The errors of an invalid document, ordered by position. There is at least one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct Diagnostics(Vec<Diagnostic>);

impl Diagnostics {
    /// Returns `found` as an error unless it is empty.
    pub(crate) fn ensure_empty(found: Vec<Diagnostic>) -> Result<(), Self> {
        if found.is_empty() { Ok(()) } else { Err(Self(found)) }
    }

    /// Creates diagnostics that consist of one error.
    pub(crate) fn single(source: &str, error: SpannedError) -> Self {
        Self(locate(source, vec![error]))
    }

    /// Returns the diagnostics.
    pub fn as_slice(&self) -> &[Diagnostic] {
        &self.0
    }

    /// Returns the diagnostics.
    pub fn into_vec(self) -> Vec<Diagnostic> {
        self.0
    }

    /// Renders all diagnostics with [`Diagnostic::render`].
    pub fn render(&self, source: &str) -> String {
        self.0.iter().map(|diagnostic| diagnostic.render(source)).collect::<Vec<_>>().join("\n")
    }
}

impl fmt::Display for Diagnostics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(first) = self.0.first() {
            first.fmt(f)?;
        }
        match self.0.len().saturating_sub(1) {
            0 => Ok(()),
            more => write!(f, " (and {more} more)"),
        }
    }
}

/// An error that has a byte span, but no line and column yet. [`locate`] adds line and column to all errors at once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SpannedError {
    pub code: DiagnosticCode,
    pub span: Span,
    pub message: String,
    pub hint: Option<String>,
}

impl SpannedError {
    pub(crate) fn new(code: DiagnosticCode, span: Span, message: impl Into<String>) -> Self {
        Self { code, span, message: message.into(), hint: None }
    }

    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

/// The maximum number of errors that are reported for one text. The limit bounds the time, because computing the column
/// of an error scans the whole line, and a line may be long.
pub(crate) const MAX_DIAGNOSTICS: usize = 50;

/// Adds positions to the errors and sorts them by span.
pub(crate) fn locate(source: &str, mut errors: Vec<SpannedError>) -> Vec<Diagnostic> {
    if errors.is_empty() {
        return Vec::new();
    }
    errors.sort_by_key(|error| error.span);
    if errors.len() > MAX_DIAGNOSTICS {
        errors.truncate(MAX_DIAGNOSTICS);
        let end = Span::new(source.len(), source.len());
        errors.push(SpannedError::new(
            DiagnosticCode::TooManyErrors,
            end,
            "too many errors; the remaining errors are not reported",
        ));
    }
    let lines = LineIndex::new(source);
    let located = errors.into_iter().map(|error| Diagnostic {
        code: error.code,
        span: error.span,
        position: lines.position(error.span.start),
        end: lines.position(error.span.end.min(source.len())),
        message: error.message,
        hint: error.hint,
    });
    located.collect()
}

/// Shortens source text for a message and escapes its control characters.
pub(crate) fn abbreviate(text: &str) -> String {
    const MAX_CHARS: usize = 30;
    let mut short = String::new();
    for (index, c) in text.chars().enumerate() {
        match c {
            _ if index == MAX_CHARS => {
                short.push('…');
                break;
            }
            c if c.is_control() => short.extend(c.escape_default()),
            c => short.push(c),
        }
    }
    short
}

/// The number of characters shown on each side of an error. The rest of the line is omitted, because a line may be a
/// megabyte long.
const CONTEXT_CHARS: usize = 60;

struct Excerpt {
    line: String,
    padding: String,
    carets: usize,
}

impl Excerpt {
    fn around(source: &str, span: Span) -> Self {
        let before = source.get(..span.start).unwrap_or(source);
        let after = source.get(before.len()..).unwrap_or_default();
        let before = before.rsplit('\n').next().unwrap_or_default();
        let after = after.split('\n').next().unwrap_or_default().trim_end_matches('\r');

        let mut shown: Vec<char> = before.chars().rev().take(CONTEXT_CHARS).collect();
        shown.reverse();
        let cut = before.chars().rev().nth(CONTEXT_CHARS).is_some();
        let before: String = cut.then_some('…').into_iter().chain(shown).collect();
        let after: String = after.chars().take(CONTEXT_CHARS).collect();

        let covered = span.end.saturating_sub(span.start);
        let carets = after.char_indices().take_while(|(at, _)| *at < covered).count().max(1);
        let padding = before.chars().map(|c| if c == '\t' { '\t' } else { ' ' }).collect();
        Self { line: format!("{before}{after}"), padding, carets }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn diagnostic(source: &str, start: usize, end: usize) -> Diagnostic {
        let error =
            SpannedError::new(DiagnosticCode::UnexpectedToken, Span::new(start, end), "expected `)`, found `,`");
        locate(source, vec![error.hint("close the node")]).remove(0)
    }

    #[test]
    fn render_puts_carets_below_the_error() {
        let source = "(a)\n\t(bé, c)";
        let rendered = diagnostic(source, 9, 10).render(source);
        let expected = "error[unexpected-token]: expected `)`, found `,`\n --> 2:5\n  |\n2 | \t(bé, c)\n  | \t   ^\n  = close the node\n";
        assert_eq!(rendered, expected);
    }

    #[test]
    fn rendered_error_shows_only_part_of_a_very_long_line() {
        let source = "a".repeat(1_000_000);
        let rendered = diagnostic(&source, 500_000, 500_001).render(&source);
        assert!(rendered.len() < 500, "{}", rendered.len());
    }

    #[test]
    fn diagnostics_are_sorted_by_position() {
        let error = |at| SpannedError::new(DiagnosticCode::Unclosed, Span::new(at, at), "x");
        let found = locate("abc", vec![error(2), error(0)]);
        assert_eq!(Diagnostics(found).to_string(), "x at 1:1 (and 1 more)");
    }
}
