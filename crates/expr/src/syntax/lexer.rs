//! Splits an expression into tokens.

use super::{SyntaxError, literal};

/// A token of an expression.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Token<'s> {
    Ident(&'s str),
    /// A name in backticks, which may contain `-`, `.`, `/` and spaces.
    QuotedIdent(&'s str),
    /// An integer without its sign. `unsigned` if it has the suffix `u`.
    Int {
        magnitude: u64,
        unsigned: bool,
    },
    Double(f64),
    Text(String),
    Punct(&'static str),
    End,
}

impl Token<'_> {
    /// The token as shown in error messages.
    pub(crate) fn describe(&self) -> String {
        match self {
            Token::Ident(name) | Token::QuotedIdent(name) => format!("`{name}`"),
            Token::Int { magnitude, .. } => format!("`{magnitude}`"),
            Token::Double(value) => format!("`{value}`"),
            Token::Text(_) => "a string".to_owned(),
            Token::Punct(punct) => format!("`{punct}`"),
            Token::End => "the end".to_owned(),
        }
    }
}

/// Operators and punctuation, longest first.
const PUNCTUATION: &[&str] = &[
    "&&", "||", "==", "!=", "<=", ">=", "<", ">", "+", "-", "*", "/", "%", "!", "?", ":", ".", ",", "(", ")", "[", "]",
    "{", "}",
];

/// Reads tokens from a text.
#[derive(Debug, Clone)]
pub(crate) struct Lexer<'s> {
    source: &'s str,
    offset: usize,
    /// The kind of the previous token. It decides whether `.1` is a field or a number.
    previous: Previous,
}

/// The kind of the previous token.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Previous {
    /// A token after which a dot accesses a field: a name or a closing bracket.
    Value,
    /// The dot after a value.
    FieldDot,
    Other,
}

impl<'s> Lexer<'s> {
    pub(crate) fn new(source: &'s str) -> Self {
        Self::starting(source, 0)
    }

    /// Creates a lexer that starts at byte `offset` of `source`.
    pub(crate) fn starting(source: &'s str, offset: usize) -> Self {
        Self { source, offset, previous: Previous::Other }
    }

    /// Returns the next token and its byte offset.
    pub(crate) fn next(&mut self) -> Result<(usize, Token<'s>), SyntaxError> {
        let after_dot = self.previous == Previous::FieldDot && self.rest().starts_with(|c: char| c.is_ascii_digit());
        self.skip_blanks();
        let start = self.offset;
        let rest = self.rest();
        let Some(first) = rest.chars().next() else {
            return Ok((start, Token::End));
        };
        let token = if after_dot {
            // A field name of digits only, directly after the dot, as in `steps.1.items`.
            Token::Ident(self.take_while(|c| c.is_ascii_digit()))
        } else if self.previous == Previous::Value && first == '.' {
            self.punct(first)?
        } else if let Some(text) = literal::string(rest) {
            let (length, text) = text.map_err(|error| error.shifted_by(start))?;
            self.offset += length;
            Token::Text(text)
        } else if starts_number(rest) {
            let (length, number) = literal::number(rest).map_err(|error| error.shifted_by(start))?;
            self.offset += length;
            number
        } else if first == '_' || first.is_ascii_alphabetic() {
            Token::Ident(self.take_while(|c| c == '_' || c.is_ascii_alphanumeric()))
        } else if first == '`' {
            self.quoted_ident()?
        } else {
            self.punct(first)?
        };
        self.previous = match &token {
            Token::Punct(".") if self.previous == Previous::Value => Previous::FieldDot,
            Token::Ident(_) | Token::QuotedIdent(_) | Token::Punct("]" | ")") => Previous::Value,
            _ => Previous::Other,
        };
        Ok((start, token))
    }

    fn rest(&self) -> &'s str {
        self.source.get(self.offset..).unwrap_or_default()
    }

    fn skip_blanks(&mut self) {
        loop {
            self.take_while(|c| matches!(c, ' ' | '\t' | '\n' | '\r' | '\x0b' | '\x0c'));
            if !self.rest().starts_with("//") {
                return;
            }
            self.take_while(|c| c != '\n');
        }
    }

    fn take_while(&mut self, wanted: impl Fn(char) -> bool) -> &'s str {
        let rest = self.rest();
        let length = rest.find(|c| !wanted(c)).unwrap_or(rest.len());
        self.offset += length;
        rest.get(..length).unwrap_or_default()
    }

    fn quoted_ident(&mut self) -> Result<Token<'s>, SyntaxError> {
        let start = self.offset;
        self.offset += 1;
        let name = self.take_while(|c| c.is_ascii_alphanumeric() || "_.-/ ".contains(c));
        if name.is_empty() || !self.rest().starts_with('`') {
            return Err(SyntaxError::new(
                start,
                "a name in backticks must consist of letters, digits, `_`, `.`, `-`, `/` and spaces, and end with a backtick",
            ));
        }
        self.offset += 1;
        Ok(Token::QuotedIdent(name))
    }

    fn punct(&mut self, first: char) -> Result<Token<'s>, SyntaxError> {
        let rest = self.rest();
        let punct = PUNCTUATION.iter().find(|punct| rest.starts_with(**punct));
        let punct = punct.ok_or_else(|| SyntaxError::new(self.offset, stray(first)))?;
        self.offset += punct.len();
        Ok(Token::Punct(punct))
    }
}

fn starts_number(rest: &str) -> bool {
    let digits = rest.strip_prefix('.').unwrap_or(rest);
    digits.starts_with(|c: char| c.is_ascii_digit())
}

fn stray(character: char) -> String {
    match character {
        '=' => "`=` is not an operator; write `==` to compare".to_owned(),
        '&' => "`&` is not an operator; write `&&`".to_owned(),
        '|' => "`|` is not an operator; write `||`".to_owned(),
        '\\' => "`\\` is not allowed outside a string; write quotes in an expression without a backslash, or use the other kind of quotes".to_owned(),
                '$' => "`$` is not allowed in an expression; write names without `${…}`".to_owned(),
                other => format!("`{}` is not allowed in an expression", other.escape_debug()),
    }
}
