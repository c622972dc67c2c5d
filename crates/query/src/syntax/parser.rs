//! A recursive descent parser. `&&` binds tighter than `||`.

use std::str::FromStr;

use super::ast::{Condition, Direction, ExpandPath, ExpandSegment, Item, Term};
use super::lexer::Token;
use super::tokens::{ParseResult, Parser};
use super::value::ParsedValue;
use super::{MAX_LENGTH, SyntaxError};
use crate::{Case, CompareOp, Field, Literal, ParseError, Projection};

const FUNCTIONS: &[&str] = &["text", "expand", "hasEdge", "hasOutgoingEdge", "hasIncomingEdge"];

const OPERATORS: &[&str] = &[":!^", ":<=", ":>=", ":!", ":<", ":>", ":~", ":^", ":"];

pub(crate) fn parse(source: &str) -> Result<Condition, SyntaxError> {
    let mut parser = start(source)?;
    if parser.token == Token::End {
        return Err(SyntaxError::new(0, "the query is empty; write a condition such as `status:open`"));
    }
    let query = parser.query()?;
    parser.end()?;
    Ok(query)
}

impl Projection {
    /// Parses a projection such as `+a, -b.c`, optionally in brackets. A field without a sign is included.
    pub fn parse(source: &str) -> Result<Self, ParseError> {
        projection(source).map_err(|error| error.locate(source))
    }
}

impl FromStr for Projection {
    type Err = ParseError;

    fn from_str(source: &str) -> Result<Self, ParseError> {
        Self::parse(source)
    }
}

/// Parses the projection `[+a, -b]` or `+a, -b`, as after `fields:`.
fn projection(source: &str) -> Result<Projection, SyntaxError> {
    let mut parser = start(source)?;
    let bracket = parser.eat("[")?;
    let fields = parser.projection()?;
    if bracket {
        parser.expect("]", "after the fields")?;
    }
    match parser.token {
        Token::End => Ok(fields),
        _ => Err(parser.expected("`,` or the end")),
    }
}

fn start(source: &str) -> ParseResult<Parser<'_>> {
    if source.len() > MAX_LENGTH {
        let message = format!("a query must be at most {MAX_LENGTH} bytes, got {}", source.len());
        return Err(SyntaxError::new(MAX_LENGTH, message));
    }
    Parser::new(source)
}

impl<'s> Parser<'s> {
    fn end(&self) -> ParseResult<()> {
        let hint = match self.token {
            Token::End => return Ok(()),
            Token::Punct(punct) if punct.starts_with(':') => {
                "put a value that contains `:` in quotes, and write `&&` or `||` between conditions"
            }
            Token::Punct(")" | "]" | "}") => "there is no matching opening bracket",
            Token::Punct("~cs" | "~ci") => "it is allowed only after a text",
            Token::Punct("*" | "?") => "wildcards are allowed only in a text after `:` or `:!`",
            Token::Word(word) if word.starts_with('.') => "write a decimal number as `##19.99`",
            Token::Punct("(") => "put a value that contains brackets in quotes",
            _ => "write `&&` or `||` between conditions, and put a value with other characters in quotes",
        };
        Err(self.expected_with_hint("`&&`, `||` or the end", hint))
    }

    fn query(&mut self) -> ParseResult<Condition> {
        let start = self.offset;
        let mut branches = vec![self.all()?];
        while self.eat("||")? {
            branches.push(self.all()?);
        }
        if branches.len() > 1 {
            self.no_text_since(start, "inside `||`")?;
        }
        Ok(combine(branches, Condition::Or, |branch| match branch {
            Condition::Or(inner) => Ok(inner),
            other => Err(other),
        }))
    }

    fn all(&mut self) -> ParseResult<Condition> {
        let mut parts = vec![self.unit()?];
        while self.eat("&&")? {
            parts.push(self.unit()?);
        }
        Ok(combine(parts, Condition::And, |part| match part {
            Condition::And(inner) => Ok(inner),
            other => Err(other),
        }))
    }

    fn unit(&mut self) -> ParseResult<Condition> {
        let offset = self.offset;
        if self.eat("(")? {
            let inner = self.nested(Self::query)?;
            self.expect(")", &format!("for the bracket opened at byte {offset}"))?;
            return Ok(inner);
        }
        if self.eat("!!")? {
            let inner = self.nested(Self::unit)?;
            self.no_text_since(offset, "after `!!`")?;
            return Ok(Condition::Not(Box::new(inner)));
        }
        self.count_condition()?;
        let Token::Word(word) = self.token else {
            return Err(self.expected("a condition such as `field:value`"));
        };
        self.advance()?;
        match self.token {
            Token::Punct("(") => self.function(offset, word),
            _ => self.comparison(offset, word),
        }
    }

    /// Rejects `text(…)` after the offset `start`. Some stores use a separate index for full-text search, and such an
    /// index cannot evaluate `text(…)` inside another condition.
    fn no_text_since(&self, start: usize, purpose: &str) -> ParseResult<()> {
        match self.text_offset.filter(|offset| *offset >= start) {
            Some(offset) => {
                let message = format!("`text(…)` is not allowed {purpose}; join it to the query with `&&`");
                Err(SyntaxError::new(offset, message))
            }
            None => Ok(()),
        }
    }

    fn comparison(&mut self, offset: usize, word: &str) -> ParseResult<Condition> {
        let Some(operator) = self.eat_any(OPERATORS)? else {
            return Err(self.expected(&format!("an operator such as `:` after `{}`", super::lexer::shorten(word))));
        };
        let field = Field::parse(word).map_err(|error| SyntaxError::new(offset, error.to_string()))?;
        match operator {
            ":<" => self.compare(field, CompareOp::Less),
            ":>" => self.compare(field, CompareOp::Greater),
            ":<=" => self.compare(field, CompareOp::LessOrEqual),
            ":>=" => self.compare(field, CompareOp::GreaterOrEqual),
            ":^" => self.list(field, false),
            ":!^" => self.list(field, true),
            ":~" => self.present(field),
            ":!" => self.equal(field, true),
            _ => self.equal(field, false),
        }
    }

    fn equal(&mut self, field: Field, negated: bool) -> ParseResult<Condition> {
        match self.token {
            Token::Punct("{") if !negated => return self.element(field),
            Token::Punct("{") => {
                return Err(self.expected_with_hint("a value", &format!("write `!!{field}:{{…}}` for no such element")));
            }
            Token::Punct("[") if !negated && field.as_str() == "fields" => return self.fields(),
            Token::Punct("[") => {
                return Err(self.expected_with_hint("a value", &format!("write a list as `{field}:^[a, b]`")));
            }
            _ => {}
        }
        match self.value()? {
            ParsedValue::Null => Ok(Condition::Null { field, negated }),
            ParsedValue::Bool(value) => Ok(Condition::Bool { field, value, negated }),
            ParsedValue::Reference(id) => Ok(Condition::Reference { field, id, negated }),
            ParsedValue::Pattern(pattern) => {
                let case = self.case(Case::Insensitive)?;
                Ok(Condition::Like { field, pattern, case, negated })
            }
            ParsedValue::Literal(value) => {
                let case = self.case_of(&value, Case::Insensitive)?;
                Ok(Condition::Equal { field, value, case, negated })
            }
        }
    }

    fn compare(&mut self, field: Field, op: CompareOp) -> ParseResult<Condition> {
        let offset = self.offset;
        let ParsedValue::Literal(value) = self.value()? else {
            let message = format!("`:{}` requires a text, a number or a date; use `:` for other values", op.symbol());
            return Err(SyntaxError::new(offset, message));
        };
        let case = self.case_of(&value, Case::Sensitive)?;
        Ok(Condition::Compare { field, op, value, case })
    }

    /// Parses `field:~` (the field exists and is not null). `field:~value` means the same as `field:value`.
    fn present(&mut self, field: Field) -> ParseResult<Condition> {
        match self.token {
            Token::Word(_) | Token::Quoted(_) | Token::Variable(_) => self.equal(field, false),
            _ => Ok(Condition::Present(field)),
        }
    }

    fn list(&mut self, field: Field, negated: bool) -> ParseResult<Condition> {
        let offset = self.offset;
        if !self.eat("[")? {
            let items = vec![self.item()?];
            return Ok(Condition::In { field, items, negated });
        }
        if self.next_is("]") {
            return Err(self.expected_with_hint("a value", "a list must have at least one value"));
        }
        let mut items = vec![self.item()?];
        while self.eat(",")? {
            items.push(self.item()?);
        }
        self.expect("]", &format!("or `,` in the list opened at byte {offset}"))?;
        Ok(Condition::In { field, items, negated })
    }

    fn item(&mut self) -> ParseResult<Item> {
        let offset = self.offset;
        match self.value()? {
            ParsedValue::Literal(value) => Ok(Item::Literal(value)),
            ParsedValue::Bool(value) => Ok(Item::Bool(value)),
            ParsedValue::Reference(id) => Ok(Item::Reference(id)),
            ParsedValue::Null => {
                Err(SyntaxError::new(offset, "`null` is not allowed in a list; write `field:null || field:^[…]`"))
            }
            ParsedValue::Pattern(_) => {
                Err(SyntaxError::new(offset, "wildcards are not allowed in a list; write `field:a* || field:b*`"))
            }
        }
    }

    fn element(&mut self, field: Field) -> ParseResult<Condition> {
        let offset = self.offset;
        self.advance()?;
        let inner = Box::new(self.nested_element(Self::query)?);
        self.no_text_since(offset, "inside `{…}`")?;
        self.expect("}", &format!("for the brace opened at byte {offset}"))?;
        Ok(Condition::Element { field, inner })
    }

    fn fields(&mut self) -> ParseResult<Condition> {
        let offset = self.offset;
        self.advance()?;
        let fields = self.projection()?;
        self.expect("]", &format!("or `,` in the list opened at byte {offset}"))?;
        Ok(Condition::Fields(fields))
    }

    fn projection(&mut self) -> ParseResult<Projection> {
        let mut fields = Projection::default();
        loop {
            let plus = self.eat("+")?;
            let offset = self.offset;
            let Token::Word(word) = self.token else {
                return Err(self.expected("a field such as `+name` or `-name`"));
            };
            self.advance()?;
            let (exclude, name) = match word.strip_prefix('-') {
                Some(name) if !plus => (true, name.trim_start()),
                _ => (false, word),
            };
            let field = Field::parse(name).map_err(|error| SyntaxError::new(offset, error.to_string()))?;
            fields.push(field, exclude);
            if !self.eat(",")? {
                return Ok(fields);
            }
        }
    }

    fn function(&mut self, offset: usize, name: &str) -> ParseResult<Condition> {
        let direction = match name {
            "text" => return self.text(offset),
            "expand" => return self.expand(),
            "hasEdge" | "hasOutgoingEdge" => Direction::Outgoing,
            "hasIncomingEdge" => Direction::Incoming,
            _ => {
                let known = FUNCTIONS.join(", ");
                let name = super::lexer::shorten(name);
                return Err(SyntaxError::new(offset, format!("unknown function `{name}`; expected one of {known}")));
            }
        };
        self.advance()?;
        let relation = self.term("the name of a relation")?;
        self.expect(",", "between the relation and the record at its other end")?;
        let other = self.record("the record at the other end")?;
        self.expect(")", "after the record")?;
        Ok(Condition::Edge { direction, relation, other })
    }

    fn text(&mut self, offset: usize) -> ParseResult<Condition> {
        if self.text_offset.replace(offset).is_some() {
            return Err(SyntaxError::new(offset, "a query must contain at most one `text(…)`; put all words into one"));
        }
        self.advance()?;
        let words_offset = self.offset;
        let words = self.term("the search words")?;
        if let Term::Word(words) | Term::Quoted(words) = &words {
            super::value::check_length(words_offset, words)?;
            if words.trim().is_empty() {
                return Err(SyntaxError::new(words_offset, "`text(…)` must contain at least one word"));
            }
        }
        self.expect(")", "after the words; put words with other characters in quotes")?;
        Ok(Condition::Text(words))
    }

    fn expand(&mut self) -> ParseResult<Condition> {
        let offset = self.offset;
        self.advance()?;
        let mut segments = Vec::new();
        while let Token::Word(word) = self.token {
            let name = if segments.is_empty() { word } else { word.strip_prefix('.').unwrap_or(word) };
            let field = Field::parse(name).map_err(|error| SyntaxError::new(self.offset, error.to_string()))?;
            self.advance()?;
            segments.push(ExpandSegment { field, each: self.eat("[*]")? });
        }
        if segments.is_empty() {
            return Err(self.expected("the path of related records, as in `expand(customer)`"));
        }
        let mut filter = None;
        if self.eat(",")? {
            filter = Some(Box::new(self.nested(Self::query)?));
            self.no_text_since(offset, "inside `expand(…)`")?;
        }
        self.expect(")", "after the path, as in `expand(orders[*].lines)`")?;
        Ok(Condition::Expand { path: ExpandPath(segments), filter })
    }

    fn case(&mut self, default: Case) -> ParseResult<Case> {
        Ok(match self.eat_any(&["~cs", "~ci"])? {
            Some("~cs") => Case::Sensitive,
            Some(_) => Case::Insensitive,
            None => default,
        })
    }

    /// Parses `~cs` or `~ci` after a literal. After an id, the suffix is accepted and ignored, because ids are compared
    /// case-insensitively.
    fn case_of(&mut self, value: &Literal, default: Case) -> ParseResult<Case> {
        match value {
            Literal::Word(_) | Literal::Quoted(_) | Literal::Variable(_) => self.case(default),
            Literal::Id(_) => self.case(default).map(|_| default),
            Literal::Number(_) | Literal::DateTime(_) => Ok(default),
        }
    }
}

/// Combines parts with `&&` or `||`. A single part is returned unchanged, and nested parts with the same operator
/// become one list.
fn combine(
    mut parts: Vec<Condition>,
    whole: fn(Vec<Condition>) -> Condition,
    open: fn(Condition) -> Result<Vec<Condition>, Condition>,
) -> Condition {
    if parts.len() == 1
        && let Some(only) = parts.pop()
    {
        return only;
    }
    let mut flat = Vec::with_capacity(parts.len());
    for part in parts {
        match open(part) {
            Ok(inner) => flat.extend(inner),
            Err(other) => flat.push(other),
        }
    }
    whole(flat)
}
