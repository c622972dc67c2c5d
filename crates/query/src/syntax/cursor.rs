//! The parser's hand on the tokens: look at one, take one, insist on one, count levels.

use super::lexer::{Lexer, Token};
use super::{MAX_CONDITIONS, MAX_ELEMENTS, MAX_NESTING, SyntaxError};

pub(super) type Parsed<T> = Result<T, SyntaxError>;

/// A parser and the token it is about to read.
pub(super) struct Parser<'s> {
    lexer: Lexer<'s>,
    /// The token to be read next, and where it begins.
    pub token: Token<'s>,
    pub at: usize,
    /// Whether white space precedes it.
    pub apart: bool,
    nesting: u16,
    /// How many of the levels are elements.
    elements: u16,
    conditions: usize,
    /// Where the one `text(…)` stands.
    pub text_at: Option<usize>,
}

impl<'s> Parser<'s> {
    pub fn new(source: &'s str) -> Parsed<Self> {
        let mut lexer = Lexer::new(source);
        let (at, token) = lexer.next()?;
        Ok(Self { lexer, token, at, apart: false, nesting: 0, elements: 0, conditions: 0, text_at: None })
    }

    pub fn advance(&mut self) -> Parsed<()> {
        let end = self.lexer.at;
        (self.at, self.token) = self.lexer.next()?;
        self.apart = self.at > end;
        Ok(())
    }

    pub fn sees(&self, sign: &str) -> bool {
        matches!(self.token, Token::Sign(next) if next == sign)
    }

    pub fn eat(&mut self, sign: &str) -> Parsed<bool> {
        let found = self.sees(sign);
        if found {
            self.advance()?;
        }
        Ok(found)
    }

    pub fn eat_any(&mut self, signs: &[&'static str]) -> Parsed<Option<&'static str>> {
        let found = signs.iter().find(|sign| self.sees(sign)).copied();
        if found.is_some() {
            self.advance()?;
        }
        Ok(found)
    }

    pub fn expect(&mut self, sign: &str, place: &str) -> Parsed<()> {
        if self.eat(sign)? { Ok(()) } else { Err(self.expected(&format!("`{sign}` {place}"))) }
    }

    pub fn expected(&self, what: &str) -> SyntaxError {
        SyntaxError::new(self.at, format!("expected {what}, found {}", self.token.describe()))
    }

    /// The same, with a word of advice.
    pub fn expected_but(&self, what: &str, hint: &str) -> SyntaxError {
        SyntaxError::new(self.at, format!("expected {what}, found {}; {hint}", self.token.describe()))
    }

    pub fn nested<T>(&mut self, inner: impl FnOnce(&mut Self) -> Parsed<T>) -> Parsed<T> {
        if self.nesting == MAX_NESTING {
            let message = format!("the query is nested more than {MAX_NESTING} deep; split it");
            return Err(SyntaxError::new(self.at, message));
        }
        self.nesting += 1;
        let value = inner(self);
        self.nesting -= 1;
        value
    }

    /// One level that is an element match.
    pub fn nested_element<T>(&mut self, inner: impl FnOnce(&mut Self) -> Parsed<T>) -> Parsed<T> {
        if self.elements == MAX_ELEMENTS {
            let message =
                format!("element matches are nested more than {MAX_ELEMENTS} deep; use a longer path before `{{`");
            return Err(SyntaxError::new(self.at, message));
        }
        self.elements += 1;
        let value = self.nested(inner);
        self.elements -= 1;
        value
    }

    pub fn count_condition(&mut self) -> Parsed<()> {
        self.conditions += 1;
        if self.conditions > MAX_CONDITIONS {
            let message =
                format!("the query has more than {MAX_CONDITIONS} conditions; use a list such as `field:^[a, b]`");
            return Err(SyntaxError::new(self.at, message));
        }
        Ok(())
    }
}
