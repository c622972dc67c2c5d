//! From text to tokens, one at a time.

use super::{SyntaxError, literal};

/// A word, number, string or sign.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Token<'s> {
    Name(&'s str),
    /// A name in backticks, which may hold `-`, `.`, `/` and spaces.
    Quoted(&'s str),
    /// Without sign; `unsigned` when written with the suffix `u`.
    Int {
        magnitude: u64,
        unsigned: bool,
    },
    Double(f64),
    Text(String),
    Sign(&'static str),
    End,
}

impl Token<'_> {
    /// The token as an error message names it.
    pub fn describe(&self) -> String {
        match self {
            Token::Name(name) | Token::Quoted(name) => format!("`{name}`"),
            Token::Int { magnitude, .. } => format!("`{magnitude}`"),
            Token::Double(value) => format!("`{value}`"),
            Token::Text(_) => "a string".to_owned(),
            Token::Sign(sign) => format!("`{sign}`"),
            Token::End => "the end".to_owned(),
        }
    }
}

/// Signs, the longer ones first.
const SIGNS: &[&str] = &[
    "&&", "||", "==", "!=", "<=", ">=", "<", ">", "+", "-", "*", "/", "%", "!", "?", ":", ".", ",", "(", ")", "[", "]",
    "{", "}",
];

/// Reads tokens off the front of a text.
#[derive(Debug, Clone)]
pub(crate) struct Lexer<'s> {
    source: &'s str,
    at: usize,
}

impl<'s> Lexer<'s> {
    pub fn new(source: &'s str) -> Self {
        Self { source, at: 0 }
    }

    /// Starts at byte `at` of `source`.
    pub fn starting(source: &'s str, at: usize) -> Self {
        Self { source, at }
    }

    /// The next token and the offset at which it begins.
    pub fn next(&mut self) -> Result<(usize, Token<'s>), SyntaxError> {
        self.skip_blanks();
        let start = self.at;
        let rest = self.rest();
        let Some(first) = rest.chars().next() else {
            return Ok((start, Token::End));
        };
        let token = if let Some(text) = literal::string(rest) {
            let (length, text) = text.map_err(|error| error.after(start))?;
            self.at += length;
            Token::Text(text)
        } else if starts_number(rest) {
            let (length, number) = literal::number(rest).map_err(|error| error.after(start))?;
            self.at += length;
            number
        } else if first == '_' || first.is_ascii_alphabetic() {
            Token::Name(self.take_while(|c| c == '_' || c.is_ascii_alphanumeric()))
        } else if first == '`' {
            self.quoted_name()?
        } else {
            self.sign(first)?
        };
        Ok((start, token))
    }

    fn rest(&self) -> &'s str {
        self.source.get(self.at..).unwrap_or_default()
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
        self.at += length;
        rest.get(..length).unwrap_or_default()
    }

    fn quoted_name(&mut self) -> Result<Token<'s>, SyntaxError> {
        let start = self.at;
        self.at += 1;
        let name = self.take_while(|c| c.is_ascii_alphanumeric() || "_.-/ ".contains(c));
        if name.is_empty() || !self.rest().starts_with('`') {
            return Err(SyntaxError::new(
                start,
                "a name in backticks holds letters, digits, `_`, `.`, `-`, `/` and spaces, and ends with a backtick",
            ));
        }
        self.at += 1;
        Ok(Token::Quoted(name))
    }

    fn sign(&mut self, first: char) -> Result<Token<'s>, SyntaxError> {
        let rest = self.rest();
        let sign = SIGNS.iter().find(|sign| rest.starts_with(**sign));
        let sign = sign.ok_or_else(|| SyntaxError::new(self.at, stray(first)))?;
        self.at += sign.len();
        Ok(Token::Sign(sign))
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
        '\\' => "`\\` stands outside a string; inside an expression, quotes need no backslash, or use the other kind of quotes".to_owned(),
        '$' => "`$` has no meaning inside an expression; write names without `${…}`".to_owned(),
        other => format!("`{}` has no meaning in an expression", other.escape_debug()),
    }
}
