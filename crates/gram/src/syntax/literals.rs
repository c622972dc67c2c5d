//! Recognizes names, numbers and escape sequences.

use std::borrow::Cow;

use super::TokenKind;

/// Returns the length of the longest symbol at the start of `bytes`, or 0.
pub(super) fn symbol_length(bytes: &[u8]) -> usize {
    match bytes.first() {
        Some(b'a'..=b'z' | b'A'..=b'Z' | b'_') => 1 + run(bytes.get(1..), is_symbol_byte),
        _ => 0,
    }
}

pub(super) fn is_symbol_byte(byte: u8) -> bool {
    matches!(byte, b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'_' | b'.' | b'-' | b'@')
}

/// Returns whether `text` can be written as a symbol.
pub(crate) fn is_symbol(text: &str) -> bool {
    !text.is_empty() && symbol_length(text.as_bytes()) == text.len()
}

/// Returns whether `text` can be written as an integer.
pub(crate) fn is_integer(text: &str) -> bool {
    number(text.as_bytes()) == Some((TokenKind::Integer, text.len()))
}

/// Returns the kind and length of the longest number at the start of `bytes`.
pub(super) fn number(bytes: &[u8]) -> Option<(TokenKind, usize)> {
    let negative = bytes.first() == Some(&b'-');
    let sign = usize::from(negative);
    let whole = match bytes.get(sign)? {
        b'0' => 1,
        b'1'..=b'9' => run(bytes.get(sign..), |byte| byte.is_ascii_digit()),
        _ => return None,
    };
    let integer = sign + whole;
    let zero = bytes.get(sign) == Some(&b'0');
    let rest = bytes.get(integer..).unwrap_or_default();
    if zero && !negative {
        let octal = run(Some(rest), |byte| matches!(byte, b'0'..=b'7'));
        if octal > 0 {
            return Some((TokenKind::Octal, integer + octal));
        }
    }
    if rest.first() == Some(&b'.') {
        let fraction = run(rest.get(1..), |byte| byte.is_ascii_digit());
        if fraction > 0 {
            return Some((TokenKind::Decimal, integer + 1 + fraction));
        }
    }
    let unit = run(Some(rest), |byte| byte.is_ascii_alphabetic());
    if zero && !negative && rest.first() == Some(&b'x') {
        let digits = run(rest.get(1..), |byte| byte.is_ascii_hexdigit());
        // `0xF` can be read as a hexadecimal number or as 0 with the unit `xF`. The longer token is used. If both have
        // the same length, the token is a hexadecimal number.
        if digits > 0 && digits + 1 >= unit {
            return Some((TokenKind::Hexadecimal, integer + 1 + digits));
        }
    }
    if unit > 0 {
        return Some((TokenKind::Measurement, integer + unit));
    }
    Some((TokenKind::Integer, integer))
}

/// Replaces the escape sequences in the content of a quoted token by the characters that they stand for.
pub(crate) fn unescape(content: &str) -> Cow<'_, str> {
    if !content.contains('\\') {
        return Cow::Borrowed(content);
    }
    let mut text = String::with_capacity(content.len());
    let mut chars = content.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => text.extend(chars.next().map(escaped)),
            _ => text.push(c),
        }
    }
    Cow::Owned(text)
}

/// Returns the character for the escape sequence `\c`. The lexer accepts only known escape sequences.
fn escaped(c: char) -> char {
    match c {
        'b' => '\u{8}',
        'f' => '\u{c}',
        'n' => '\n',
        'r' => '\r',
        't' => '\t',
        other => other,
    }
}

fn run(bytes: Option<&[u8]>, matching: impl Fn(u8) -> bool) -> usize {
    bytes.unwrap_or_default().iter().take_while(|byte| matching(**byte)).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn number_token_is_the_longest_numeric_prefix() {
        let cases = [
            ("0", Some((TokenKind::Integer, 1))),
            ("-0", Some((TokenKind::Integer, 2))),
            ("08", Some((TokenKind::Integer, 1))),
            ("017", Some((TokenKind::Octal, 3))),
            ("0178", Some((TokenKind::Octal, 3))),
            ("-07", Some((TokenKind::Integer, 2))),
            ("0x", Some((TokenKind::Measurement, 2))),
            ("0xF", Some((TokenKind::Hexadecimal, 3))),
            ("-0xF", Some((TokenKind::Measurement, 4))),
            ("0xFg", Some((TokenKind::Measurement, 4))),
            ("0x1g", Some((TokenKind::Hexadecimal, 3))),
            ("12kg", Some((TokenKind::Measurement, 4))),
            ("1.5", Some((TokenKind::Decimal, 3))),
            ("1.", Some((TokenKind::Integer, 1))),
            ("1..2", Some((TokenKind::Integer, 1))),
            ("-", None),
            ("", None),
            ("x", None),
        ];
        for (text, expected) in cases {
            assert_eq!(number(text.as_bytes()), expected, "{text}");
        }
    }

    #[test]
    fn symbols_and_decimal_integers_are_recognized() {
        for name in ["a", "_", "a.b", "a-b", "a@b", "A1"] {
            assert!(is_symbol(name), "{name}");
        }
        for name in ["", "1a", "a b", "é", "a:b", ".a"] {
            assert!(!is_symbol(name), "{name}");
        }
        assert!(is_integer("-12") && !is_integer("012") && !is_integer("1.0") && !is_integer(""));
    }

    #[test]
    fn escape_sequences_are_replaced_by_their_characters() {
        assert_eq!(unescape(r#"a\n\t\\\/\"\`"#), "a\n\t\\/\"`");
        assert_eq!(unescape("plain"), "plain");
    }
}
