//! Parses the value after an operator. The parser decides here whether a word is a date, an id, a reference or a
//! keyword.

use std::borrow::Cow;

use super::ast::{Literal, NumberLiteral, ObjectId, RecordId, Term};
use super::lexer::{Token, shorten};
use super::tokens::{ParseResult, Parser};
use super::{MAX_PATTERN, SyntaxError};
use crate::DateTimeLiteral;
use crate::datetime::looks_like_date;
use crate::pattern::{Piece, WildcardPattern};

pub(super) enum ParsedValue {
    Null,
    Bool(bool),
    Reference(RecordId),
    Literal(Literal),
    Pattern(WildcardPattern),
}

/// The prefix of the id of a referenced record.
pub(super) const REFERENCE: &str = "@@";

pub(super) fn boolean(word: &str) -> Option<bool> {
    match word {
        "true" | "TRUE" => Some(true),
        "false" | "FALSE" => Some(false),
        _ => None,
    }
}

pub(super) fn check_length(offset: usize, text: &str) -> ParseResult<()> {
    if text.chars().nth(MAX_PATTERN).is_some() {
        let message = format!("a search text must have at most {MAX_PATTERN} characters");
        return Err(SyntaxError::new(offset, message));
    }
    Ok(())
}

impl<'s> Parser<'s> {
    pub(super) fn value(&mut self) -> ParseResult<ParsedValue> {
        let offset = self.offset;
        match self.token.clone() {
            Token::Punct("*" | "?") => self.pattern(offset, None),
            Token::Quoted(text) => {
                self.advance()?;
                if self.wildcard_follows() {
                    return self.pattern(offset, Some(Piece::Quoted(text.into())));
                }
                Ok(ParsedValue::Literal(Literal::Quoted(text.into())))
            }
            Token::Word(word) => {
                self.advance()?;
                if self.wildcard_follows() {
                    return self.pattern(offset, Some(Piece::Word(word.into())));
                }
                match self.reference_id(offset, word)? {
                    Some(id) => Ok(ParsedValue::Reference(RecordId::new(&id))),
                    None => word_value(offset, word),
                }
            }
            Token::DateTime(text) => {
                self.advance()?;
                date_time(offset, text)
            }
            Token::Integer(digits) => {
                self.advance()?;
                let value = digits.parse().map_err(|_| {
                    let digits = shorten(digits);
                    SyntaxError::new(offset, format!("`#{digits}` does not fit in 64 bits; write `##{digits}.0`"))
                })?;
                Ok(ParsedValue::Literal(Literal::Number(NumberLiteral::Integer(value))))
            }
            Token::Decimal(digits) => {
                self.advance()?;
                let value = digits.parse().ok().filter(|value: &f64| value.is_finite());
                let value = value.ok_or_else(|| {
                    SyntaxError::new(offset, format!("`##{}` is too large for a number", shorten(digits)))
                })?;
                Ok(ParsedValue::Literal(Literal::Number(NumberLiteral::Decimal(value))))
            }
            Token::Variable(name) => {
                self.advance()?;
                Ok(ParsedValue::Literal(Literal::Variable(name.into())))
            }
            Token::Punct(_) | Token::End => Err(self.expected("a value")),
        }
    }

    fn wildcard_follows(&self) -> bool {
        self.next_is("*") || self.next_is("?")
    }

    /// Parses a pattern that consists of several tokens without white space between them. White space is allowed after
    /// a leading `*` and before a trailing `*`.
    fn pattern(&mut self, offset: usize, first: Option<Piece>) -> ParseResult<ParsedValue> {
        let mut pieces: Vec<Piece> = first.into_iter().collect();
        loop {
            let after_first_star = matches!(pieces.as_slice(), [Piece::Any]);
            let piece = match self.token.clone() {
                Token::Punct("*") => Piece::Any,
                Token::Punct("?") if !self.after_space || pieces.is_empty() => Piece::One,
                Token::Word(word) if !self.after_space || after_first_star => Piece::Word(word.into()),
                Token::Quoted(text) if !self.after_space || after_first_star => Piece::Quoted(text.into()),
                _ => break,
            };
            self.advance()?;
            if piece != Piece::Any || pieces.last() != Some(&Piece::Any) {
                pieces.push(piece);
            }
        }
        if pieces == [Piece::Any] {
            return Err(SyntaxError::new(
                offset,
                "`*` alone matches every text; write `field:~` for a field that has a value",
            ));
        }
        let pattern = WildcardPattern::new(pieces);
        check_length(offset, &pattern.to_string())?;
        Ok(ParsedValue::Pattern(pattern))
    }

    /// Returns the id after `@@`. The id is the rest of the word, or a quoted text directly after `@@`. Returns `None`
    /// if the word does not start with `@@`.
    fn reference_id(&mut self, offset: usize, word: &'s str) -> ParseResult<Option<Cow<'s, str>>> {
        let Some(id) = word.strip_prefix(REFERENCE).map(str::trim_start) else { return Ok(None) };
        let id = match (id, self.token.clone()) {
            ("", Token::Quoted(text)) if !self.after_space && !text.is_empty() => {
                self.advance()?;
                text
            }
            ("", _) => {
                let message = "`@@` must be followed by the id of a record, as in `@@ord-1` or `@@\"ord 1\"`";
                return Err(SyntaxError::new(offset, message));
            }
            (id, _) => Cow::Borrowed(id),
        };
        Ok(Some(id))
    }

    /// Parses a function argument that is the id or the name of a record. `@@` before an id is optional here.
    pub(super) fn record(&mut self, what: &str) -> ParseResult<Term> {
        let offset = self.offset;
        let word = match self.token {
            Token::Word(word) => word,
            _ => return self.term(what),
        };
        self.advance()?;
        // The id is stored as a quoted text, so that the printed query parses to the same tree.
        Ok(self
            .reference_id(offset, word)?
            .map_or_else(|| Term::Word(word.into()), |id| Term::Quoted(id.as_ref().into())))
    }

    pub(super) fn term(&mut self, what: &str) -> ParseResult<Term> {
        let term = match &self.token {
            Token::Word(word) => Term::Word((*word).into()),
            Token::Quoted(text) => Term::Quoted(text.as_ref().into()),
            Token::Variable(name) => Term::Variable((*name).into()),
            _ => return Err(self.expected(what)),
        };
        self.advance()?;
        Ok(term)
    }
}

fn word_value(offset: usize, word: &str) -> ParseResult<ParsedValue> {
    if word == "null" {
        return Ok(ParsedValue::Null);
    }
    if let Some(value) = boolean(word) {
        return Ok(ParsedValue::Bool(value));
    }
    if let Some(id) = ObjectId::parse(word) {
        return Ok(ParsedValue::Literal(Literal::Id(id)));
    }
    if looks_like_date(word) {
        return date_time(offset, word);
    }
    Ok(ParsedValue::Literal(Literal::Word(word.into())))
}

fn date_time(offset: usize, text: &str) -> ParseResult<ParsedValue> {
    match DateTimeLiteral::parse(text) {
        Some(date_time) => Ok(ParsedValue::Literal(Literal::DateTime(date_time))),
        None => {
            let message = format!(
                "`{}` is not a valid date; write `2024-01-31` or `2024-01-31T10:00:00Z`, or quote it as a text",
                shorten(text)
            );
            Err(SyntaxError::new(offset, message))
        }
    }
}
