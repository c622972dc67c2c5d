//! What is wrong with a text, where, and what would be right.

use std::fmt;

use serde::Serialize;

use crate::model::locate_element;
use crate::position::{Lines, Position, Span};
use crate::syntax::Tree;

/// One mistake in a text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Diagnostic {
    /// The kind of mistake, for code that branches.
    pub code: Code,
    /// The bytes that are wrong.
    pub span: Span,
    /// Where they begin.
    #[serde(flatten)]
    pub position: Position,
    /// Where they end: the place behind the last of them.
    pub end: Position,
    /// What is wrong: a lower-case fragment with the input in backticks.
    pub message: String,
    /// What would be right, when that can be said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

/// The kind of a [`Diagnostic`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Code {
    /// The bytes are not UTF-8.
    InvalidUtf8,
    /// The text is larger than a tree can address.
    TooLarge,
    /// Brackets are nested deeper than [`crate::MAX_NESTING`].
    TooDeep,
    /// There are more mistakes than were listed.
    TooManyErrors,
    /// A character that no token begins with.
    UnknownCharacter,
    /// A string, name or doc comment that does not end.
    Unclosed,
    /// A backslash before a character that it does not go with.
    InvalidEscape,
    /// A fence whose first line is more than a tag.
    InvalidFence,
    /// A token that cannot stand where it stands.
    UnexpectedToken,
    /// An integer that does not fit in 64 bits, or a decimal that is not finite.
    NumberOutOfRange,
    /// A key that occurs twice in one record or map.
    DuplicateKey,
    /// An identifier that is defined twice.
    DuplicateDefinition,
    /// A reference to an identifier that nothing defines.
    UndefinedReference,
    /// A pattern that contains itself.
    SelfReference,
    /// An `Agent` pattern that is not an agent.
    InvalidAgent,
    /// A tool pattern that is not a tool specification.
    InvalidTool,
    /// A type signature that gives no schema.
    InvalidSignature,
    /// A pattern that is not a query.
    InvalidQuery,
}

impl Code {
    /// The name that is stable across versions.
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
    /// A mistake of an element of the pattern of `source`. `path` leads to it as [`crate::Problem::path`] does; the whole
    /// text is to blame when it cannot be read.
    pub fn of_element(source: &str, path: &[usize], code: Code, message: impl Into<String>) -> Self {
        let span = locate_element(&Tree::parse(source), path);
        let lines = Lines::of(source);
        let (position, end) = (lines.position(span.start), lines.position(span.end));
        Self { code, span, position, end, message: message.into(), hint: None }
    }

    /// The mistake with the line it stands in and a caret below it.
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

/// A text that cannot be read: one or more mistakes, in the order of the text.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct Diagnostics(Vec<Diagnostic>);

impl Diagnostics {
    /// All of `found` as an error, or nothing when nothing was found.
    pub(crate) fn check(found: Vec<Diagnostic>) -> Result<(), Self> {
        if found.is_empty() { Ok(()) } else { Err(Self(found)) }
    }

    /// The only mistake of a text.
    pub(crate) fn of_one(source: &str, mistake: Mistake) -> Self {
        Self(locate(source, vec![mistake]))
    }

    /// The mistakes.
    pub fn as_slice(&self) -> &[Diagnostic] {
        &self.0
    }

    /// The mistakes.
    pub fn into_vec(self) -> Vec<Diagnostic> {
        self.0
    }

    /// All mistakes as [`Diagnostic::render`] shows them.
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

/// A mistake before its line and column are known. Positions are looked up once, at the end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Mistake {
    pub code: Code,
    pub span: Span,
    pub message: String,
    pub hint: Option<String>,
}

impl Mistake {
    pub fn new(code: Code, span: Span, message: impl Into<String>) -> Self {
        Self { code, span, message: message.into(), hint: None }
    }

    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

/// Most mistakes that are listed for one text. Finding the column of each may take a walk through the whole text.
pub(crate) const MAX_MISTAKES: usize = 50;

/// Gives each mistake its position, in the order of the text.
pub(crate) fn locate(source: &str, mut mistakes: Vec<Mistake>) -> Vec<Diagnostic> {
    if mistakes.is_empty() {
        return Vec::new();
    }
    mistakes.sort_by_key(|mistake| mistake.span);
    if mistakes.len() > MAX_MISTAKES {
        mistakes.truncate(MAX_MISTAKES);
        let end = Span::new(source.len(), source.len());
        mistakes.push(Mistake::new(Code::TooManyErrors, end, "more mistakes than are listed"));
    }
    let lines = Lines::of(source);
    let located = mistakes.into_iter().map(|mistake| Diagnostic {
        code: mistake.code,
        span: mistake.span,
        position: lines.position(mistake.span.start),
        end: lines.position(mistake.span.end.min(source.len())),
        message: mistake.message,
        hint: mistake.hint,
    });
    located.collect()
}

/// A piece of the text for a message: short, and in one line.
pub(crate) fn shown(text: &str) -> String {
    const LONGEST: usize = 30;
    let mut shown = String::new();
    for (index, c) in text.chars().enumerate() {
        match c {
            _ if index == LONGEST => {
                shown.push('…');
                break;
            }
            c if c.is_control() => shown.extend(c.escape_default()),
            c => shown.push(c),
        }
    }
    shown
}

/// Characters of a line that are shown on each side of a mistake: a line may be a megabyte long.
const EXCERPT: usize = 60;

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

        let mut shown: Vec<char> = before.chars().rev().take(EXCERPT).collect();
        shown.reverse();
        let cut = before.chars().rev().nth(EXCERPT).is_some();
        let before: String = cut.then_some('…').into_iter().chain(shown).collect();
        let after: String = after.chars().take(EXCERPT).collect();

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
        let mistake = Mistake::new(Code::UnexpectedToken, Span::new(start, end), "expected `)`, found `,`");
        locate(source, vec![mistake.hint("close the node")]).remove(0)
    }

    #[test]
    fn a_caret_stands_below_the_mistake() {
        let source = "(a)\n\t(bé, c)";
        let rendered = diagnostic(source, 9, 10).render(source);
        let expected = "error[unexpected-token]: expected `)`, found `,`\n --> 2:5\n  |\n2 | \t(bé, c)\n  | \t   ^\n  = close the node\n";
        assert_eq!(rendered, expected);
    }

    #[test]
    fn a_long_line_is_cut() {
        let source = "a".repeat(1_000_000);
        let rendered = diagnostic(&source, 500_000, 500_001).render(&source);
        assert!(rendered.len() < 500, "{}", rendered.len());
    }

    #[test]
    fn several_mistakes_come_in_order() {
        let mistake = |at| Mistake::new(Code::Unclosed, Span::new(at, at), "x");
        let found = locate("abc", vec![mistake(2), mistake(0)]);
        assert_eq!(Diagnostics(found).to_string(), "x at 1:1 (and 1 more)");
    }
}
