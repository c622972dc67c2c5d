//! Parses number and string literals of CEL.

use super::{SyntaxError, Token};

impl SyntaxError {
    /// Converts the offset of an error in a part of the source to an offset in the whole source. The part begins at
    /// `start`.
    pub(crate) fn shifted_by(mut self, start: usize) -> Self {
        self.offset += start;
        self
    }
}

/// Parses the number at the start of `rest`. Returns its length and its token.
pub(super) fn number(rest: &str) -> Result<(usize, Token<'static>), SyntaxError> {
    if let Some(digits) = rest.strip_prefix("0x").or_else(|| rest.strip_prefix("0X")) {
        return integer(2, digits, 16);
    }
    let whole = digits(rest);
    let after_whole = rest.get(whole..).unwrap_or_default();
    let length = whole + fraction(after_whole);
    let length = length + exponent(rest.get(length..).unwrap_or_default());
    if length == whole {
        return integer(0, rest, 10);
    }
    let text = rest.get(..length).unwrap_or_default();
    match text.parse::<f64>() {
        Ok(value) if value.is_finite() => Ok((length, Token::Double(value))),
        _ => Err(SyntaxError::new(0, format!("number `{text}` is too large"))),
    }
}

/// Parses the string at the start of `rest`, if there is one. Returns its length and its content.
pub(super) fn string(rest: &str) -> Option<Result<(usize, String), SyntaxError>> {
    let prefix = rest.bytes().take(3).position(|byte| matches!(byte, b'"' | b'\''))?;
    let (raw, bytes) = match rest.get(..prefix)?.to_ascii_lowercase().as_str() {
        "" => (false, false),
        "r" => (true, false),
        "b" | "br" | "rb" => (true, true),
        _ => return None,
    };
    if bytes {
        let message = "bytes literals are not supported; use a string";
        return Some(Err(SyntaxError::new(0, message)));
    }
    let quoted = rest.get(prefix..)?;
    let read = StringLiteral::new(quoted, raw)?.read();
    Some(read.map(|(length, text)| (prefix + length, text)))
}

fn integer(prefix: usize, rest: &str, radix: u32) -> Result<(usize, Token<'static>), SyntaxError> {
    let length = rest.find(|c: char| !c.is_digit(radix)).unwrap_or(rest.len());
    let (text, after) = rest.split_at_checked(length).unwrap_or_default();
    let magnitude = u64::from_str_radix(text, radix)
        .map_err(|_| SyntaxError::new(0, format!("`{text}` is not a 64-bit integer")))?;
    let unsigned = after.starts_with(['u', 'U']);
    let token = Token::Int { magnitude, unsigned };
    Ok((prefix + length + usize::from(unsigned), token))
}

fn digits(rest: &str) -> usize {
    rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len())
}

/// The length of a fraction such as `.5`. A dot without digits is not part of a number.
fn fraction(rest: &str) -> usize {
    match rest.strip_prefix('.').map(digits) {
        None | Some(0) => 0,
        Some(count) => 1 + count,
    }
}

/// The length of an exponent such as `e-3`. An `e` without digits is not part of a number.
fn exponent(rest: &str) -> usize {
    let Some(after) = rest.strip_prefix(['e', 'E']) else {
        return 0;
    };
    let unsigned = after.strip_prefix(['+', '-']).unwrap_or(after);
    match digits(unsigned) {
        0 => 0,
        count => rest.len() - unsigned.len() + count,
    }
}

/// A parser of one string literal.
struct StringLiteral<'s> {
    quoted: &'s str,
    delimiter: &'s str,
    raw: bool,
}

impl<'s> StringLiteral<'s> {
    fn new(quoted: &'s str, raw: bool) -> Option<Self> {
        let triple = quoted.starts_with("\"\"\"") || quoted.starts_with("'''");
        let delimiter = quoted.get(..if triple { 3 } else { 1 })?;
        Some(Self { quoted, delimiter, raw })
    }

    fn read(&self) -> Result<(usize, String), SyntaxError> {
        let mut text = String::new();
        let mut offset = self.delimiter.len();
        loop {
            let rest = self.quoted.get(offset..).unwrap_or_default();
            if rest.starts_with(self.delimiter) {
                return Ok((offset + self.delimiter.len(), text));
            }
            match rest.chars().next() {
                None => return Err(self.unterminated()),
                Some('\n' | '\r') if self.delimiter.len() == 1 => return Err(self.unterminated()),
                Some('\\') if !self.raw => offset += escape(rest, &mut text).map_err(|e| e.shifted_by(offset))?,
                Some(character) => {
                    text.push(character);
                    offset += character.len_utf8();
                }
            }
        }
    }

    fn unterminated(&self) -> SyntaxError {
        let delimiter = self.delimiter;
        SyntaxError::new(0, format!("unterminated string; close it with `{delimiter}`"))
    }
}

/// Appends the character of the escape sequence at the start of `rest` and returns the length of the sequence.
fn escape(rest: &str, text: &mut String) -> Result<usize, SyntaxError> {
    let mut characters = rest.chars().skip(1);
    let plain = match characters.next() {
        Some('a') => '\x07',
        Some('b') => '\x08',
        Some('f') => '\x0c',
        Some('n') => '\n',
        Some('r') => '\r',
        Some('t') => '\t',
        Some('v') => '\x0b',
        Some(same @ ('\\' | '\'' | '"' | '`' | '?')) => same,
        Some('x' | 'X') => return code(rest, 2, 2, 16, text),
        Some('u') => return code(rest, 2, 4, 16, text),
        Some('U') => return code(rest, 2, 8, 16, text),
        Some('0'..='3') => return code(rest, 1, 3, 8, text),
        _ => return Err(wrong_escape(rest, 2)),
    };
    text.push(plain);
    Ok(2)
}

/// Parses the digits of an escape sequence such as `\u00e9`. The `count` digits are the code point of a character.
fn code(rest: &str, skip: usize, count: usize, radix: u32, text: &mut String) -> Result<usize, SyntaxError> {
    let end = skip + count;
    let character = rest
        .get(skip..end)
        .filter(|digits| digits.chars().all(|c| c.is_digit(radix)))
        .and_then(|digits| u32::from_str_radix(digits, radix).ok())
        .and_then(char::from_u32)
        .ok_or_else(|| wrong_escape(rest, end))?;
    text.push(character);
    Ok(end)
}

fn wrong_escape(rest: &str, length: usize) -> SyntaxError {
    let shown: String = rest.chars().take(length).collect();
    SyntaxError::new(0, format!("`{shown}` is not an escape sequence; write `\\\\` for a backslash"))
}
