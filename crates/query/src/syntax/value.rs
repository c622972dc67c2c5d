//! What stands after an operator: a word is only here found to be a date, an id, a reference or a keyword.

use std::borrow::Cow;

use super::ast::{Literal, Number, ObjectId, RecordId, Term};
use super::cursor::{Parsed, Parser};
use super::lexer::{Token, shortened};
use super::{MAX_PATTERN, SyntaxError};
use crate::Moment;
use crate::moment::looks_like_day;
use crate::pattern::{Pattern, Piece};

pub(super) enum Value {
    Null,
    Truth(bool),
    Reference(RecordId),
    Literal(Literal),
    Pattern(Pattern),
}

/// What stands before the id of a record that is referred to.
pub(super) const REFERENCE: &str = "@@";

pub(super) fn truth(word: &str) -> Option<bool> {
    match word {
        "true" | "TRUE" => Some(true),
        "false" | "FALSE" => Some(false),
        _ => None,
    }
}

pub(super) fn check_length(at: usize, text: &str) -> Parsed<()> {
    if text.chars().nth(MAX_PATTERN).is_some() {
        let message = format!("a text that is searched for has more than {MAX_PATTERN} characters");
        return Err(SyntaxError::new(at, message));
    }
    Ok(())
}

impl<'s> Parser<'s> {
    pub fn value(&mut self) -> Parsed<Value> {
        let at = self.at;
        match self.token.clone() {
            Token::Sign("*" | "?") => self.pattern(at, None),
            Token::Quoted(text) => {
                self.advance()?;
                if self.wildcard_follows() {
                    return self.pattern(at, Some(Piece::Quoted(text.into())));
                }
                Ok(Value::Literal(Literal::Quoted(text.into())))
            }
            Token::Word(word) => {
                self.advance()?;
                if self.wildcard_follows() {
                    return self.pattern(at, Some(Piece::Word(word.into())));
                }
                match self.referred(at, word)? {
                    Some(id) => Ok(Value::Reference(RecordId::new(&id))),
                    None => word_value(at, word),
                }
            }
            Token::Moment(text) => {
                self.advance()?;
                moment(at, text)
            }
            Token::Whole(digits) => {
                self.advance()?;
                let value = digits.parse().map_err(|_| {
                    let digits = shortened(digits);
                    SyntaxError::new(at, format!("`#{digits}` does not fit in 64 bits; write `##{digits}.0`"))
                })?;
                Ok(Value::Literal(Literal::Number(Number::Whole(value))))
            }
            Token::Decimal(digits) => {
                self.advance()?;
                let value = digits.parse().ok().filter(|value: &f64| value.is_finite());
                let value = value.ok_or_else(|| {
                    SyntaxError::new(at, format!("`##{}` is too large for a number", shortened(digits)))
                })?;
                Ok(Value::Literal(Literal::Number(Number::Decimal(value))))
            }
            Token::Variable(name) => {
                self.advance()?;
                Ok(Value::Literal(Literal::Variable(name.into())))
            }
            Token::Sign(_) | Token::End => Err(self.expected("a value")),
        }
    }

    fn wildcard_follows(&self) -> bool {
        self.sees("*") || self.sees("?")
    }

    /// Pieces that touch. White space may follow a first `*` and precede a last one, as the grammar has it.
    fn pattern(&mut self, at: usize, first: Option<Piece>) -> Parsed<Value> {
        let mut pieces: Vec<Piece> = first.into_iter().collect();
        loop {
            let after_first_star = matches!(pieces.as_slice(), [Piece::Any]);
            let piece = match self.token.clone() {
                Token::Sign("*") => Piece::Any,
                Token::Sign("?") if !self.apart || pieces.is_empty() => Piece::One,
                Token::Word(word) if !self.apart || after_first_star => Piece::Word(word.into()),
                Token::Quoted(text) if !self.apart || after_first_star => Piece::Quoted(text.into()),
                _ => break,
            };
            self.advance()?;
            if piece != Piece::Any || pieces.last() != Some(&Piece::Any) {
                pieces.push(piece);
            }
        }
        if pieces == [Piece::Any] {
            return Err(SyntaxError::new(
                at,
                "`*` alone stands for every text; write `field:~` for a field that has a value",
            ));
        }
        let pattern = Pattern::new(pieces);
        check_length(at, &pattern.to_string())?;
        Ok(Value::Pattern(pattern))
    }

    /// The id that a word refers to, which was read: what follows `@@` in it, or in quotes right after it.
    fn referred(&mut self, at: usize, word: &'s str) -> Parsed<Option<Cow<'s, str>>> {
        let Some(id) = word.strip_prefix(REFERENCE).map(str::trim_start) else { return Ok(None) };
        let id = match (id, self.token.clone()) {
            ("", Token::Quoted(text)) if !self.apart && !text.is_empty() => {
                self.advance()?;
                text
            }
            ("", _) => {
                let message = "`@@` stands before the id of a record, as in `@@ord-1` or `@@\"ord 1\"`";
                return Err(SyntaxError::new(at, message));
            }
            (id, _) => Cow::Borrowed(id),
        };
        Ok(Some(id))
    }

    /// A record by its id or its name; `@@` says that it is the id, which the place says already.
    pub fn record(&mut self, what: &str) -> Parsed<Term> {
        let at = self.at;
        let word = match self.token {
            Token::Word(word) => word,
            _ => return self.term(what),
        };
        self.advance()?;
        // In quotes, so that an id is printed as what it was read as.
        Ok(self.referred(at, word)?.map_or_else(|| Term::Word(word.into()), |id| Term::Quoted(id.as_ref().into())))
    }

    pub fn term(&mut self, what: &str) -> Parsed<Term> {
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

fn word_value(at: usize, word: &str) -> Parsed<Value> {
    if word == "null" {
        return Ok(Value::Null);
    }
    if let Some(value) = truth(word) {
        return Ok(Value::Truth(value));
    }
    if let Some(id) = ObjectId::parse(word) {
        return Ok(Value::Literal(Literal::Id(id)));
    }
    if looks_like_day(word) {
        return moment(at, word);
    }
    Ok(Value::Literal(Literal::Word(word.into())))
}

fn moment(at: usize, text: &str) -> Parsed<Value> {
    match Moment::parse(text) {
        Some(moment) => Ok(Value::Literal(Literal::Moment(moment))),
        None => {
            let message = format!(
                "`{}` is not a date that exists; write `2024-01-31` or `2024-01-31T10:00:00Z`, or quote it as a text",
                shortened(text)
            );
            Err(SyntaxError::new(at, message))
        }
    }
}
