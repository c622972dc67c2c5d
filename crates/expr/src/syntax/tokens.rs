//! Token handling of the parser: peeks at, consumes and expects tokens, and limits the nesting.

use super::{Lexer, MAX_NESTING, Node, Operator, SyntaxError, Token};

pub(super) type ParseResult<T = Node> = Result<T, SyntaxError>;

/// A parser with one token of lookahead.
pub(super) struct Parser<'s> {
    lexer: Lexer<'s>,
    /// The next token.
    pub token: Token<'s>,
    /// The byte offset of the next token.
    pub offset: usize,
    nesting: u16,
}

impl<'s> Parser<'s> {
    pub(super) fn new(source: &'s str) -> ParseResult<Self> {
        let mut lexer = Lexer::new(source);
        let (offset, token) = lexer.next()?;
        Ok(Self { lexer, token, offset, nesting: 0 })
    }

    pub(super) fn nested<T>(&mut self, inner: impl FnOnce(&mut Self) -> ParseResult<T>) -> ParseResult<T> {
        if self.nesting == MAX_NESTING {
            let message = format!("brackets must be nested at most {MAX_NESTING} levels deep; split the expression");
            return Err(SyntaxError::new(self.offset, message));
        }
        self.nesting += 1;
        let value = inner(self);
        self.nesting -= 1;
        value
    }

    pub(super) fn advance(&mut self) -> ParseResult<()> {
        (self.offset, self.token) = self.lexer.next()?;
        Ok(())
    }

    pub(super) fn eat(&mut self, punct: &str) -> ParseResult<bool> {
        let found = matches!(self.token, Token::Punct(next) if next == punct);
        if found {
            self.advance()?;
        }
        Ok(found)
    }

    pub(super) fn eat_operator(&mut self, operators: &[Operator]) -> ParseResult<Option<Operator>> {
        let (Token::Punct(next) | Token::Ident(next)) = self.token else {
            return Ok(None);
        };
        let found = operators.iter().find(|operator| operator.symbol() == next).copied();
        if found.is_some() {
            self.advance()?;
        }
        Ok(found)
    }

    pub(super) fn eat_repeated(&mut self, punct: &str) -> ParseResult<usize> {
        let mut count = 0;
        while self.eat(punct)? {
            count += 1;
        }
        Ok(count)
    }

    pub(super) fn expect(&mut self, punct: &str, purpose: &str) -> ParseResult<()> {
        match self.eat(punct)? {
            true => Ok(()),
            false => Err(self.expected(&format!("`{punct}` {purpose}"))),
        }
    }

    pub(super) fn expect_closing(&mut self, punct: &str, opened: usize) -> ParseResult<()> {
        self.expect(punct, &format!("for the bracket opened at byte {opened}"))
    }

    pub(super) fn expected(&self, what: &str) -> SyntaxError {
        let found = self.token.describe();
        SyntaxError::new(self.offset, format!("expected {what}, found {found}"))
    }
}
