//! From text to tokens. Each byte is looked at a bounded number of times: a search that fails takes everything it
//! searched as one malformed token.

use super::TokenKind as K;
use super::kind::Family;
use super::literals::{is_symbol_byte, number, symbol_length};
use crate::diagnostic::{Code, MAX_MISTAKES, Mistake, shown};
use crate::position::Span;

/// A token begins at `start` and ends where the next one begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Lexed {
    pub kind: K,
    pub start: u32,
}

/// All tokens of a text, with an [`K::End`] after the last, and the mistakes in them.
///
/// The text must be shorter than 4 GiB.
pub(super) fn lex(source: &str) -> (Vec<Lexed>, Vec<Mistake>) {
    let mut lexer = Lexer { source, bytes: source.as_bytes(), at: 0, mistakes: Vec::new() };
    let mut tokens = Vec::with_capacity(source.len() / 3 + 1);
    loop {
        let start = u32::try_from(lexer.at).unwrap_or(u32::MAX);
        let kind = lexer.token();
        tokens.push(Lexed { kind, start });
        if kind == K::End {
            return (tokens, lexer.mistakes);
        }
    }
}

const BYTE_ORDER_MARK: &str = "\u{feff}";

struct Lexer<'s> {
    source: &'s str,
    bytes: &'s [u8],
    at: usize,
    mistakes: Vec<Mistake>,
}

impl Lexer<'_> {
    fn token(&mut self) -> K {
        let Some(first) = self.peek(0) else { return K::End };
        match first {
            b'\t'..=b'\r' | b' ' => self.whitespace(),
            b'a'..=b'z' | b'A'..=b'Z' | b'_' => self.take(symbol_length(self.rest()), K::Symbol),
            b'0'..=b'9' => self.number(),
            b'-' => self.line_or_number(),
            b'=' => self.line(Family::Double),
            b'~' => self.line(Family::Squiggle),
            b'<' => self.head_left(),
            b'(' => self.take(1, K::OpenNode),
            b')' => self.take(1, K::CloseNode),
            b'[' => self.take(1, K::OpenBracket),
            b']' => self.take(1, K::CloseBracket),
            b'{' => self.take(1, K::OpenRecord),
            b'}' => self.take(1, K::CloseRecord),
            b'|' => self.take(1, K::Pipe),
            b',' => self.take(1, K::Comma),
            b':' => self.one_or_two(K::Colon, K::DoubleColon),
            b'@' => self.one_or_two(K::At, K::DoubleAt),
            b'.' => self.dots(),
            b'/' => self.comment(),
            b'"' => self.quoted(b'"', K::DoubleQuoted),
            b'\'' => self.quoted(b'\'', K::SingleQuoted),
            b'`' if self.rest().starts_with(b"```") => self.fence(),
            b'`' => self.quoted(b'`', K::Backticked),
            _ if self.at == 0 && self.source.starts_with(BYTE_ORDER_MARK) => {
                self.take(BYTE_ORDER_MARK.len(), K::Whitespace)
            }
            _ => self.unknown(),
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
        self.take(length, kind)
    }

    fn line_or_number(&mut self) -> K {
        match self.peek(1) {
            Some(b'0'..=b'9') => self.number(),
            _ => self.line(Family::Single),
        }
    }

    fn line(&mut self, family: Family) -> K {
        match self.peek(1) {
            Some(b'>') => self.take(2, K::HeadRight(family)),
            _ => self.take(1, K::Line(family)),
        }
    }

    fn head_left(&mut self) -> K {
        match self.peek(1) {
            Some(b'-') => self.take(2, K::HeadLeft(Family::Single)),
            Some(b'=') => self.take(2, K::HeadLeft(Family::Double)),
            Some(b'~') => self.take(2, K::HeadLeft(Family::Squiggle)),
            _ => self.unknown(),
        }
    }

    fn one_or_two(&mut self, one: K, two: K) -> K {
        if self.peek(1) == self.peek(0) { self.take(2, two) } else { self.take(1, one) }
    }

    fn dots(&mut self) -> K {
        match self.rest() {
            [_, b'.', b'.', ..] => self.take(3, K::OpenRange),
            [_, b'.', ..] => self.take(2, K::Range),
            _ => self.unknown(),
        }
    }

    fn comment(&mut self) -> K {
        match self.rest() {
            [_, b'/', ..] => {
                let length = self.find(b"\n", 2).unwrap_or(self.rest().len());
                self.take(length, K::LineComment)
            }
            [_, b'*', b'*', ..] => match self.find(b"*/", 3) {
                Some(end) => self.take(end + 2, K::DocComment),
                None => self.unclosed("doc comment", "end it with `*/`"),
            },
            _ => self.unknown(),
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
                    // The escaped byte is skipped too, unless it ends the line.
                    at += if matches!(self.bytes.get(at + 1), None | Some(b'\n')) { 1 } else { 2 };
                }
                Some(byte) if *byte == quote => {
                    self.at = at + 1;
                    return kind;
                }
                Some(b'\n') | None => {
                    self.at = at;
                    let mistake = Mistake::new(Code::Unclosed, Span::new(start, start + 1), "string without an end");
                    let quote = char::from(quote);
                    self.report(
                        mistake.hint(format!(
                            "close it with {quote} on the same line, write `\\n` or use a ``` fence ```"
                        )),
                    );
                    return K::Malformed;
                }
                Some(_) => at += 1,
            }
        }
    }

    /// Whether the backslash at `at` begins a known escape. If not, says so.
    fn is_escape(&mut self, at: usize, quote: u8) -> bool {
        let escaped = self.source.get(at + 1..).and_then(|rest| rest.chars().next());
        match escaped {
            Some('b' | 'f' | 'n' | 'r' | 't' | '/' | '\\') => true,
            Some(c) if c == char::from(quote) => true,
            Some(c) if c != '\n' => {
                let span = Span::new(at, at + 1 + c.len_utf8());
                let mistake = Mistake::new(Code::InvalidEscape, span, format!("unknown escape `\\{c}`"));
                let quote = char::from(quote);
                self.report(mistake.hint(format!("known are \\b \\f \\n \\r \\t \\/ \\\\ and \\{quote}")));
                false
            }
            // The string does not end either, which is the larger mistake.
            _ => true,
        }
    }

    fn fence(&mut self) -> K {
        let start = self.at;
        self.at += 3;
        let Some(tag) = self.fence_header() else {
            let span = Span::new(start, start + 3);
            let mistake = Mistake::new(Code::InvalidFence, span, "fence without a line break after its tag");
            self.report(mistake.hint("write three backticks, perhaps a tag, and begin the content on the next line"));
            return K::Malformed;
        };
        let is_boolean = matches!(tag.of(self.source), "true" | "false");
        if is_boolean {
            let message = format!("`{}` cannot be a tag", tag.of(self.source));
            self.report(
                Mistake::new(Code::InvalidFence, tag, message).hint("it reads as a boolean; choose another tag"),
            );
        }
        match self.find(b"```", 0) {
            Some(end) => self.take(end + 3, if is_boolean { K::Malformed } else { K::Fenced }),
            None => {
                self.at = start;
                self.unclosed("fence", "end it with three backticks")
            }
        }
    }

    /// Passes what stands between the backticks and the content. Comments may stand there too.
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
        self.report(Mistake::new(Code::Unclosed, span, format!("{what} without an end")).hint(hint));
        self.take(self.rest().len(), K::Malformed)
    }

    fn unknown(&mut self) -> K {
        let start = self.at;
        let rest = self.source.get(start..).unwrap_or_default();
        let first = rest.chars().next().unwrap_or_default();
        // A name in another script is one mistake, not one for each letter, and so is a row of the same sign.
        let belongs = |byte: u8| match first {
            first if first.is_ascii() => char::from(byte) == first,
            _ => !byte.is_ascii() || is_symbol_byte(byte),
        };
        let length = rest.bytes().take_while(|byte| belongs(*byte)).count();
        let text = rest.get(..length).unwrap_or_default();
        let span = Span::new(start, start + length);
        let mistake = Mistake::new(Code::UnknownCharacter, span, format!("unknown character `{}`", shown(text)));
        self.report(match first {
            c if !c.is_ascii() => mistake.hint("put names with such letters in backticks"),
            '/' => mistake.hint("comments are `// …` and `/** … */`"),
            '#' => mistake.hint("comments begin with `//`"),
            _ => mistake,
        });
        self.take(length, K::Malformed)
    }

    fn report(&mut self, mistake: Mistake) {
        if self.mistakes.len() <= MAX_MISTAKES {
            self.mistakes.push(mistake);
        }
    }

    fn find(&self, needle: &[u8], from: usize) -> Option<usize> {
        let haystack = self.rest().get(from..)?;
        haystack.windows(needle.len()).position(|window| window == needle).map(|at| at + from)
    }

    fn take(&mut self, length: usize, kind: K) -> K {
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
