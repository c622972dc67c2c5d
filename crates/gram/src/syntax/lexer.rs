//! Splits text into tokens in linear time. If a string or comment is not closed, the text that was searched for the end
//! becomes one malformed token, so that no text is searched twice.

use super::TokenKind as K;
use super::kind::ArrowStyle;
use super::literals::{is_symbol_byte, number, symbol_length};
use crate::diagnostic::{DiagnosticCode, MAX_DIAGNOSTICS, SpannedError, abbreviate};
use crate::position::Span;

/// A token. It starts at `start` and ends at the start of the next token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct RawToken {
    pub kind: K,
    pub start: u32,
}

/// Returns all tokens of a text, followed by [`K::End`], and the lexical errors.
///
/// The text must be shorter than 4 GiB.
pub(super) fn lex(source: &str) -> (Vec<RawToken>, Vec<SpannedError>) {
    let mut lexer = Lexer { source, bytes: source.as_bytes(), at: 0, errors: Vec::new() };
    let mut tokens = Vec::with_capacity(source.len() / 3 + 1);
    loop {
        let start = u32::try_from(lexer.at).unwrap_or(u32::MAX);
        let kind = lexer.token();
        tokens.push(RawToken { kind, start });
        if kind == K::End {
            return (tokens, lexer.errors);
        }
    }
}

const BYTE_ORDER_MARK: &str = "\u{feff}";

struct Lexer<'s> {
    source: &'s str,
    bytes: &'s [u8],
    at: usize,
    errors: Vec<SpannedError>,
}

impl Lexer<'_> {
    fn token(&mut self) -> K {
        let Some(first) = self.peek(0) else { return K::End };
        match first {
            b'\t'..=b'\r' | b' ' => self.whitespace(),
            b'a'..=b'z' | b'A'..=b'Z' | b'_' => self.bump(symbol_length(self.rest()), K::Symbol),
            b'0'..=b'9' => self.number(),
            b'-' => self.line_or_number(),
            b'=' => self.line(ArrowStyle::Double),
            b'~' => self.line(ArrowStyle::Squiggle),
            b'<' => self.head_left(),
            b'(' => self.bump(1, K::OpenNode),
            b')' => self.bump(1, K::CloseNode),
            b'[' => self.bump(1, K::OpenBracket),
            b']' => self.bump(1, K::CloseBracket),
            b'{' => self.bump(1, K::OpenRecord),
            b'}' => self.bump(1, K::CloseRecord),
            b'|' => self.bump(1, K::Pipe),
            b',' => self.bump(1, K::Comma),
            b':' => self.one_or_two(K::Colon, K::DoubleColon),
            b'@' => self.one_or_two(K::At, K::DoubleAt),
            b'.' => self.dots(),
            b'/' => self.comment(),
            b'"' => self.quoted(b'"', K::DoubleQuoted),
            b'\'' => self.quoted(b'\'', K::SingleQuoted),
            b'`' if self.rest().starts_with(b"```") => self.fence(),
            b'`' => self.quoted(b'`', K::Backticked),
            _ if self.at == 0 && self.source.starts_with(BYTE_ORDER_MARK) => {
                self.bump(BYTE_ORDER_MARK.len(), K::Whitespace)
            }
            _ => self.unknown_character(),
        }
    }

    fn whitespace(&mut self) -> K {
        while matches!(self.peek(0), Some(b'\t'..=b'\r' | b' ')) {
            self.at += 1;
        }
        K::Whitespace
    }

    fn number(&mut self) -> K {
        let (kind, length) = number(self.rest()).unwrap_or((K::Malformed, 1));
        self.bump(length, kind)
    }

    fn line_or_number(&mut self) -> K {
        match self.peek(1) {
            Some(b'0'..=b'9') => self.number(),
            _ => self.line(ArrowStyle::Single),
        }
    }

    fn line(&mut self, style: ArrowStyle) -> K {
        match self.peek(1) {
            Some(b'>') => self.bump(2, K::HeadRight(style)),
            _ => self.bump(1, K::Line(style)),
        }
    }

    fn head_left(&mut self) -> K {
        match self.peek(1) {
            Some(b'-') => self.bump(2, K::HeadLeft(ArrowStyle::Single)),
            Some(b'=') => self.bump(2, K::HeadLeft(ArrowStyle::Double)),
            Some(b'~') => self.bump(2, K::HeadLeft(ArrowStyle::Squiggle)),
            _ => self.unknown_character(),
        }
    }

    fn one_or_two(&mut self, one: K, two: K) -> K {
        if self.peek(1) == self.peek(0) { self.bump(2, two) } else { self.bump(1, one) }
    }

    fn dots(&mut self) -> K {
        match self.rest() {
            [_, b'.', b'.', ..] => self.bump(3, K::OpenRange),
            [_, b'.', ..] => self.bump(2, K::Range),
            _ => self.unknown_character(),
        }
    }

    fn comment(&mut self) -> K {
        match self.rest() {
            [_, b'/', ..] => {
                let length = self.find(b"\n", 2).unwrap_or(self.rest().len());
                self.bump(length, K::LineComment)
            }
            [_, b'*', b'*', ..] => match self.find(b"*/", 3) {
                Some(end) => self.bump(end + 2, K::DocComment),
                None => self.unclosed("doc comment", "end it with `*/`"),
            },
            _ => self.unknown_character(),
        }
    }

    fn quoted(&mut self, quote: u8, kind: K) -> K {
        let start = self.at;
        let mut at = self.at + 1;
        let mut kind = kind;
        loop {
            match self.bytes.get(at) {
                Some(b'\\') => {
                    if !self.is_escape(at, quote) {
                        kind = K::Malformed;
                    }
                    // The backslash and the escaped byte are skipped. A line break is not skipped, because it ends the
                    // string.
                    at += if matches!(self.bytes.get(at + 1), None | Some(b'\n')) { 1 } else { 2 };
                }
                Some(byte) if *byte == quote => {
                    self.at = at + 1;
                    return kind;
                }
                Some(b'\n') | None => {
                    self.at = at;
                    let error = SpannedError::new(
                        DiagnosticCode::Unclosed,
                        Span::new(start, start + 1),
                        "string is not closed",
                    );
                    let quote = char::from(quote);
                    self.report(
                        error.hint(format!(
                            "close it with {quote} on the same line, write `\\n` or use a ``` fence ```"
                        )),
                    );
                    return K::Malformed;
                }
                Some(_) => at += 1,
            }
        }
    }

    /// Returns whether the backslash at `at` starts a known escape sequence. Reports an error if it does not.
    fn is_escape(&mut self, at: usize, quote: u8) -> bool {
        let escaped = self.source.get(at + 1..).and_then(|rest| rest.chars().next());
        match escaped {
            Some('b' | 'f' | 'n' | 'r' | 't' | '/' | '\\') => true,
            Some(c) if c == char::from(quote) => true,
            Some(c) if c != '\n' => {
                let span = Span::new(at, at + 1 + c.len_utf8());
                let error = SpannedError::new(DiagnosticCode::InvalidEscape, span, format!("unknown escape `\\{c}`"));
                let quote = char::from(quote);
                self.report(error.hint(format!("known escapes are \\b \\f \\n \\r \\t \\/ \\\\ and \\{quote}")));
                false
            }
            // A line break or the end of the text follows the backslash. No error is reported here, because the caller
            // reports that the string is not closed.
            _ => true,
        }
    }

    fn fence(&mut self) -> K {
        let start = self.at;
        self.at += 3;
        let Some(tag) = self.fence_header() else {
            let span = Span::new(start, start + 3);
            let error =
                SpannedError::new(DiagnosticCode::InvalidFence, span, "fence must have a line break after its tag");
            self.report(
                error.hint("write three backticks and an optional tag, and start the content on the next line"),
            );
            return K::Malformed;
        };
        let is_boolean = matches!(tag.slice(self.source), "true" | "false");
        if is_boolean {
            let message = format!("`{}` must not be a tag", tag.slice(self.source));
            self.report(
                SpannedError::new(DiagnosticCode::InvalidFence, tag, message)
                    .hint("it is a boolean; choose another tag"),
            );
        }
        match self.find(b"```", 0) {
            Some(end) => self.bump(end + 3, if is_boolean { K::Malformed } else { K::Fenced }),
            None => {
                self.at = start;
                self.unclosed("fence", "end it with three backticks")
            }
        }
    }

    /// Skips the text between the opening backticks and the content of a fenced string: blanks, comments and the tag.
    /// Returns the tag.
    fn fence_header(&mut self) -> Option<Span> {
        let mut tag = Span::new(self.at, self.at);
        loop {
            match self.peek(0)? {
                b'\n' => {
                    self.at += 1;
                    return Some(tag);
                }
                b'\t'..=b'\r' | b' ' => self.at += 1,
                b'/' => match self.comment() {
                    kind if kind.is_comment() => {}
                    _ => return None,
                },
                b'a'..=b'z' | b'A'..=b'Z' | b'_' if tag.start == tag.end => {
                    let start = self.at;
                    self.at += symbol_length(self.rest());
                    tag = Span::new(start, self.at);
                }
                _ => return None,
            }
        }
    }

    fn unclosed(&mut self, what: &str, hint: &str) -> K {
        let span = Span::new(self.at, self.at + 3);
        self.report(SpannedError::new(DiagnosticCode::Unclosed, span, format!("{what} is not closed")).hint(hint));
        self.bump(self.rest().len(), K::Malformed)
    }

    fn unknown_character(&mut self) -> K {
        let start = self.at;
        let rest = self.source.get(start..).unwrap_or_default();
        let first = rest.chars().next().unwrap_or_default();
        // A whole name in another script, or a repeated character, becomes one token, so that it causes one error and
        // not one error per character.
        let belongs = |byte: u8| match first {
            first if first.is_ascii() => char::from(byte) == first,
            _ => !byte.is_ascii() || is_symbol_byte(byte),
        };
        let length = rest.bytes().take_while(|byte| belongs(*byte)).count();
        let text = rest.get(..length).unwrap_or_default();
        let span = Span::new(start, start + length);
        let error = SpannedError::new(
            DiagnosticCode::UnknownCharacter,
            span,
            format!("unknown character `{}`", abbreviate(text)),
        );
        self.report(match first {
            c if !c.is_ascii() => error.hint("write names with non-ASCII letters in backticks"),
            '/' => error.hint("comments are written `// …` or `/** … */`"),
            '#' => error.hint("comments start with `//`"),
            _ => error,
        });
        self.bump(length, K::Malformed)
    }

    fn report(&mut self, error: SpannedError) {
        if self.errors.len() <= MAX_DIAGNOSTICS {
            self.errors.push(error);
        }
    }

    fn find(&self, needle: &[u8], from: usize) -> Option<usize> {
        let haystack = self.rest().get(from..)?;
        haystack.windows(needle.len()).position(|window| window == needle).map(|at| at + from)
    }

    fn bump(&mut self, length: usize, kind: K) -> K {
        self.at += length;
        kind
    }

    fn peek(&self, ahead: usize) -> Option<u8> {
        self.bytes.get(self.at + ahead).copied()
    }

    fn rest(&self) -> &[u8] {
        self.bytes.get(self.at..).unwrap_or_default()
    }
}
