//! The part of the parser that reads tokens: it peeks at, consumes and expects tokens, and limits the nesting.

use super::lexer::{Lexer, Token};
use super::{MAX_CONDITIONS, MAX_ELEMENTS, MAX_NESTING, SyntaxError};

pub(super) type ParseResult<T> = Result<T, SyntaxError>;

/// A parser with one token of lookahead.
pub(super) struct Parser<'s> {
    lexer: Lexer<'s>,
    /// The next token.
    pub token: Token<'s>,
    /// The byte offset of the next token.
    pub offset: usize,
    /// Whether white space precedes the next token.
    pub after_space: bool,
    nesting: u16,
    /// The number of enclosing element matches.
    elements: u16,
    conditions: usize,
    /// The byte offset of the first `text(…)`. A second one is an error.
    pub text_offset: Option<usize>,
}

impl<'s> Parser<'s> {
    pub(super) fn new(source: &'s str) -> ParseResult<Self> {
        let mut lexer = Lexer::new(source);
        let (offset, token) = lexer.next()?;
        Ok(Self { lexer, token, offset, after_space: false, nesting: 0, elements: 0, conditions: 0, text_offset: None })
    }

    pub(super) fn advance(&mut self) -> ParseResult<()> {
        let end = self.lexer.offset;
        (self.offset, self.token) = self.lexer.next()?;
        self.after_space = self.offset > end;
        Ok(())
    }

    pub(super) fn next_is(&self, punct: &str) -> bool {
        matches!(self.token, Token::Punct(next) if next == punct)
    }

    pub(super) fn eat(&mut self, punct: &str) -> ParseResult<bool> {
        let found = self.next_is(punct);
        if found {
            self.advance()?;
        }
        Ok(found)
    }

    pub(super) fn eat_any(&mut self, puncts: &[&'static str]) -> ParseResult<Option<&'static str>> {
        let found = puncts.iter().find(|punct| self.next_is(punct)).copied();
        if found.is_some() {
            self.advance()?;
        }
        Ok(found)
    }

    pub(super) fn expect(&mut self, punct: &str, purpose: &str) -> ParseResult<()> {
        if self.eat(punct)? { Ok(()) } else { Err(self.expected(&format!("`{punct}` {purpose}"))) }
    }

    pub(super) fn expected(&self, what: &str) -> SyntaxError {
        SyntaxError::new(self.offset, format!("expected {what}, found {}", self.token.describe()))
    }

    /// Like [`Self::expected`], with a hint.
    pub(super) fn expected_with_hint(&self, what: &str, hint: &str) -> SyntaxError {
        SyntaxError::new(self.offset, format!("expected {what}, found {}; {hint}", self.token.describe()))
    }

    pub(super) fn nested<T>(&mut self, inner: impl FnOnce(&mut Self) -> ParseResult<T>) -> ParseResult<T> {
        if self.nesting == MAX_NESTING {
            let message = format!("a query must be nested at most {MAX_NESTING} levels deep; split it");
            return Err(SyntaxError::new(self.offset, message));
        }
        self.nesting += 1;
        let value = inner(self);
        self.nesting -= 1;
        value
    }

    /// Parses the inside of an element match and checks the nesting limit.
    pub(super) fn nested_element<T>(&mut self, inner: impl FnOnce(&mut Self) -> ParseResult<T>) -> ParseResult<T> {
        if self.elements == MAX_ELEMENTS {
            let message = format!(
                "element matches must be nested at most {MAX_ELEMENTS} levels deep; use a longer path before `{{`"
            );
            return Err(SyntaxError::new(self.offset, message));
        }
        self.elements += 1;
        let value = self.nested(inner);
        self.elements -= 1;
        value
    }

    pub(super) fn count_condition(&mut self) -> ParseResult<()> {
        self.conditions += 1;
        if self.conditions > MAX_CONDITIONS {
            let message =
                format!("a query must have at most {MAX_CONDITIONS} conditions; use a list such as `field:^[a, b]`");
            return Err(SyntaxError::new(self.offset, message));
        }
        Ok(())
    }
}
