//! Splits a query into tokens.

use std::borrow::Cow;

use super::SyntaxError;
use crate::text::is_letter;

/// A token of a query.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Token<'s> {
    /// A bare word: text without quotes. Its meaning (a field, a value, a date, an id) depends on the context.
    Word(&'s str),
    /// A date with a time. It is the only unquoted value that may contain colons.
    DateTime(&'s str),
    Quoted(Cow<'s, str>),
    /// The text of an integer such as `#42`, without `#`.
    Integer(&'s str),
    /// The text of a decimal such as `##19.99`, without `##`.
    Decimal(&'s str),
    Variable(&'s str),
    Punct(&'static str),
    End,
}

impl Token<'_> {
    /// The token as shown in error messages.
    pub(super) fn describe(&self) -> String {
        match self {
            Token::Word(text) | Token::DateTime(text) => format!("`{}`", shorten(text)),
            Token::Quoted(_) => "a quoted text".to_owned(),
            Token::Integer(digits) => format!("`#{}`", shorten(digits)),
            Token::Decimal(digits) => format!("`##{}`", shorten(digits)),
            Token::Variable(name) => format!("`${{{}}}`", shorten(name)),
            Token::Punct(punct) => format!("`{punct}`"),
            Token::End => "the end".to_owned(),
        }
    }
}

/// Operators and punctuation, longest first.
const PUNCTUATION: &[&str] = &[
    ":!^", ":<=", ":>=", "~cs", "~ci", "[*]", ":!", ":<", ":>", ":~", ":^", "&&", "||", "!!", ":", "(", ")", "[", "]",
    "{", "}", ",", "*", "?", "+",
];

/// The maximum number of characters of a token in an error message.
const MAX_SHOWN: usize = 40;

pub(super) fn shorten(text: &str) -> Cow<'_, str> {
    match text.char_indices().nth(MAX_SHOWN) {
        Some((cut, _)) => Cow::Owned(format!("{}…", text.get(..cut).unwrap_or_default())),
        None => Cow::Borrowed(text),
    }
}

/// Reads tokens from a text.
pub(super) struct Lexer<'s> {
    source: &'s str,
    /// The byte offset at which the last token ends.
    pub offset: usize,
}

impl<'s> Lexer<'s> {
    pub(super) fn new(source: &'s str) -> Self {
        Self { source, offset: 0 }
    }

    /// Returns the next token and its byte offset.
    pub(super) fn next(&mut self) -> Result<(usize, Token<'s>), SyntaxError> {
        let blanks = length_while(self.rest(), |byte| byte.is_ascii_whitespace());
        self.offset += blanks;
        let start = self.offset;
        let token = match self.rest().as_bytes().first() {
            None => Token::End,
            Some(b'"') => self.quoted()?,
            Some(b'#') => self.number()?,
            Some(b'$') => self.variable()?,
            Some(_) if self.rest().starts_with(is_bare) => self.word(),
            Some(_) => self.punct()?,
        };
        Ok((start, token))
    }

    fn rest(&self) -> &'s str {
        self.source.get(self.offset..).unwrap_or_default()
    }

    fn take(&mut self, length: usize) -> &'s str {
        let taken = self.rest().get(..length).unwrap_or_default();
        self.offset += taken.len();
        taken
    }

    fn word(&mut self) -> Token<'s> {
        match date_time_length(self.rest()) {
            Some(length) => Token::DateTime(self.take(length)),
            None => Token::Word(self.take(word_length(self.rest()))),
        }
    }

    /// Reads a quoted text. `""` is an escaped quote, and a backslash has no special meaning.
    fn quoted(&mut self) -> Result<Token<'s>, SyntaxError> {
        let start = self.offset;
        let body = self.rest().get(1..).unwrap_or_default();
        let mut end = 0;
        loop {
            let tail = body.get(end..).unwrap_or_default();
            let Some(next) = tail.find(['"', '\n', '\r']) else {
                return Err(SyntaxError::new(start, "unterminated quoted text; close it with `\"`"));
            };
            if !tail.get(next..).is_some_and(|stop| stop.starts_with('"')) {
                let message = "a quoted text must not contain a line break; close it with `\"` on the same line";
                return Err(SyntaxError::new(start, message));
            }
            end += next;
            if !body.get(end + 1..).is_some_and(|after| after.starts_with('"')) {
                break;
            }
            end += 2;
        }
        self.offset += end + 2;
        let text = body.get(..end).unwrap_or_default();
        if text.contains('\0') {
            return Err(SyntaxError::new(start, "a quoted text must not contain the character U+0000"));
        }
        Ok(Token::Quoted(if text.contains('"') { text.replace("\"\"", "\"").into() } else { text.into() }))
    }

    fn number(&mut self) -> Result<Token<'s>, SyntaxError> {
        let start = self.offset;
        let puncts = length_while(self.rest(), |byte| byte == b'#').min(2);
        self.take(puncts);
        let minus = usize::from(self.rest().starts_with('-'));
        let digits = digits_after(self.rest(), minus);
        if digits == 0 {
            let message = "expected digits after `#`; write a whole number as `#42`, a decimal one as `##19.99`";
            return Err(SyntaxError::new(start, message));
        }
        if puncts == 1 {
            return Ok(Token::Integer(self.take(minus + digits)));
        }
        let whole = minus + digits;
        let point = self.rest().as_bytes().get(whole) == Some(&b'.');
        let fraction = if point { digits_after(self.rest(), whole + 1) } else { 0 };
        let length = if fraction > 0 { whole + 1 + fraction } else { whole };
        Ok(Token::Decimal(self.take(length)))
    }

    fn variable(&mut self) -> Result<Token<'s>, SyntaxError> {
        let start = self.offset;
        let error =
            || SyntaxError::new(start, "expected a variable such as `${name}`: letters, digits and `_` in braces");
        let body = self.rest().strip_prefix("${").ok_or_else(error)?;
        let length = length_while(body, |byte| byte == b'_' || byte.is_ascii_alphanumeric());
        let name = body.get(..length).unwrap_or_default();
        let closed = body.get(length..).is_some_and(|after| after.starts_with('}'));
        if !closed || name.is_empty() || name.starts_with(|c: char| c.is_ascii_digit()) {
            return Err(error());
        }
        self.offset += "${}".len() + length;
        Ok(Token::Variable(name))
    }

    fn punct(&mut self) -> Result<Token<'s>, SyntaxError> {
        if let Some(punct) = PUNCTUATION.iter().find(|punct| self.rest().starts_with(**punct)) {
            self.offset += punct.len();
            return Ok(Token::Punct(punct));
        }
        let first = self.rest().chars().next().unwrap_or_default();
        Err(SyntaxError::new(self.offset, stray(first)))
    }
}

fn stray(found: char) -> String {
    match found {
        '&' => "a single `&` is allowed only between words; write `&&` between conditions".to_owned(),
        '|' => "`|` is not an operator; write `||`".to_owned(),
        '!' => "`!` is not an operator; write `!!` before a condition, or `:!` after a field".to_owned(),
        '~' => "`~` is not an operator; write `~cs` or `~ci` after a text, `:~` after a field".to_owned(),
        '=' => "`=` is not an operator; write `field:value`".to_owned(),
        '<' | '>' => format!("`{found}` is not an operator; write `field:{found}value`"),
        other if other.is_control() => format!("the character U+{:04X} is not allowed here", u32::from(other)),
        other => format!("`{other}` is not allowed in a bare word; put a value in quotes"),
    }
}

/// Whether a character is allowed in a bare word: letters and digits of any script, combining accents, and some signs.
fn is_bare(c: char) -> bool {
    is_letter(c) || "_./@'-".contains(c)
}

/// Whether the text is one bare word.
pub(super) fn is_bare_word(text: &str) -> bool {
    text.starts_with(is_bare) && word_length(text) == text.len()
}

/// The length of the bare word at the start of `text`. A bare word may contain spaces and `&`, but not `&&`.
fn word_length(text: &str) -> usize {
    let mut length = bare_length(text);
    loop {
        let after = text.get(length..).unwrap_or_default();
        let mut gap = length_while(after, is_space);
        let tail = after.get(gap..).unwrap_or_default();
        if tail.starts_with('&') && !tail.starts_with("&&") {
            gap += 1;
            gap += length_while(after.get(gap..).unwrap_or_default(), is_space);
        }
        let run = bare_length(after.get(gap..).unwrap_or_default());
        if run == 0 {
            return length;
        }
        length += gap + run;
    }
}

/// The length of `YYYY-MM-DDTHH:MM:SS[.frac][Z|±HH:MM]` at the start of a text.
fn date_time_length(text: &str) -> Option<usize> {
    const SHAPE: &[u8] = b"0000-00-00T00:00:00";
    let bytes = text.as_bytes();
    let fits = |shape: &[u8], from: usize| {
        let part = bytes.get(from..from + shape.len())?;
        let same = part.iter().zip(shape).all(|(byte, punct)| match punct {
            b'0' => byte.is_ascii_digit(),
            punct => byte == punct,
        });
        same.then_some(from + shape.len())
    };
    let mut length = fits(SHAPE, 0)?;
    if bytes.get(length) == Some(&b'.') {
        let digits = digits_after(text, length + 1);
        length += if digits > 0 { 1 + digits } else { 0 };
    }
    let zone = fits(b"Z", length).or_else(|| fits(b"+00:00", length)).or_else(|| fits(b"-00:00", length));
    Some(zone.unwrap_or(length))
}

fn is_space(byte: u8) -> bool {
    byte == b' ' || byte == b'\t'
}

fn digits_after(text: &str, from: usize) -> usize {
    length_while(text.get(from..).unwrap_or_default(), |byte| byte.is_ascii_digit())
}

fn bare_length(text: &str) -> usize {
    text.find(|c| !is_bare(c)).unwrap_or(text.len())
}

fn length_while(text: &str, wanted: impl Fn(u8) -> bool) -> usize {
    text.bytes().position(|byte| !wanted(byte)).unwrap_or(text.len())
}
