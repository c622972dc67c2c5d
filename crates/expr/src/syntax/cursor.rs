//! The parser's hand on the tokens: look at one, take one, insist on one, count brackets.

use super::{Lexer, MAX_NESTING, Node, Operator, SyntaxError, Token};

pub(super) type Parsed<T = Node> = Result<T, SyntaxError>;

/// A parser and the token it is about to read.
pub(super) struct Parser<'s> {
    lexer: Lexer<'s>,
    /// The token to be read next, and where it begins.
    pub token: Token<'s>,
    pub at: usize,
    nesting: u16,
}

impl<'s> Parser<'s> {
    pub fn new(source: &'s str) -> Parsed<Self> {
        let mut lexer = Lexer::new(source);
        let (at, token) = lexer.next()?;
        Ok(Self { lexer, token, at, nesting: 0 })
    }

    pub fn nested<T>(&mut self, inner: impl FnOnce(&mut Self) -> Parsed<T>) -> Parsed<T> {
        if self.nesting == MAX_NESTING {
            let message = format!("brackets are nested more than {MAX_NESTING} deep; split the expression");
            return Err(SyntaxError::new(self.at, message));
        }
        self.nesting += 1;
        let value = inner(self);
        self.nesting -= 1;
        value
    }

    pub fn advance(&mut self) -> Parsed<()> {
        (self.at, self.token) = self.lexer.next()?;
        Ok(())
    }

    pub fn eat(&mut self, sign: &str) -> Parsed<bool> {
        let found = matches!(self.token, Token::Sign(next) if next == sign);
        if found {
            self.advance()?;
        }
        Ok(found)
    }

    pub fn eat_operator(&mut self, operators: &[Operator]) -> Parsed<Option<Operator>> {
        let (Token::Sign(next) | Token::Name(next)) = self.token else {
            return Ok(None);
        };
        let found = operators.iter().find(|operator| operator.symbol() == next).copied();
        if found.is_some() {
            self.advance()?;
        }
        Ok(found)
    }

    pub fn count(&mut self, sign: &str) -> Parsed<usize> {
        let mut count = 0;
        while self.eat(sign)? {
            count += 1;
        }
        Ok(count)
    }

    pub fn expect(&mut self, sign: &str, place: &str) -> Parsed<()> {
        match self.eat(sign)? {
            true => Ok(()),
            false => Err(self.expected(&format!("`{sign}` {place}"))),
        }
    }

    pub fn close(&mut self, sign: &str, opened: usize) -> Parsed<()> {
        self.expect(sign, &format!("for the bracket opened at byte {opened}"))
    }

    pub fn expected(&self, what: &str) -> SyntaxError {
        let found = self.token.describe();
        SyntaxError::new(self.at, format!("expected {what}, found {found}"))
    }
}
