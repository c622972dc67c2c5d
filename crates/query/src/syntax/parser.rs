//! From tokens to the tree: `||` over `&&` over units.

use super::ast::{Condition, Direction, ExpandPath, ExpandStep, Item, Term};
use super::cursor::{Parsed, Parser};
use super::lexer::Token;
use super::value::Value;
use super::{MAX_LENGTH, SyntaxError};
use crate::{Case, Field, Literal, Order, Projection};

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

/// `[+a, -b]` or `+a, -b`, as it stands after `fields:`.
pub(crate) fn fields(source: &str) -> Result<Projection, SyntaxError> {
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

fn start(source: &str) -> Parsed<Parser<'_>> {
    if source.len() > MAX_LENGTH {
        return Err(SyntaxError::new(MAX_LENGTH, format!("the query is longer than {MAX_LENGTH} bytes")));
    }
    Parser::new(source)
}

impl<'s> Parser<'s> {
    fn end(&self) -> Parsed<()> {
        let hint = match self.token {
            Token::End => return Ok(()),
            Token::Sign(sign) if sign.starts_with(':') => {
                "a value that holds `:` needs quotes, and conditions need `&&` or `||` between them"
            }
            Token::Sign(")" | "]" | "}") => "nothing is open here that it could close",
            Token::Sign("~cs" | "~ci") => "it follows a text that is compared, nothing else",
            Token::Sign("*" | "?") => "wildcards stand in a text after `:` or `:!`",
            Token::Word(word) if word.starts_with('.') => "write a decimal number as `##19.99`",
            Token::Sign("(") => "a value that holds brackets needs quotes",
            _ => "conditions need `&&` or `||` between them, and a value with other characters needs quotes",
        };
        Err(self.expected_but("`&&`, `||` or the end", hint))
    }

    fn query(&mut self) -> Parsed<Condition> {
        let start = self.at;
        let mut branches = vec![self.all()?];
        while self.eat("||")? {
            branches.push(self.all()?);
        }
        if branches.len() > 1 {
            self.no_text_since(start, "inside `||`")?;
        }
        Ok(joined(branches, Condition::Any, |branch| match branch {
            Condition::Any(inner) => Ok(inner),
            other => Err(other),
        }))
    }

    fn all(&mut self) -> Parsed<Condition> {
        let mut parts = vec![self.unit()?];
        while self.eat("&&")? {
            parts.push(self.unit()?);
        }
        Ok(joined(parts, Condition::All, |part| match part {
            Condition::All(inner) => Ok(inner),
            other => Err(other),
        }))
    }

    fn unit(&mut self) -> Parsed<Condition> {
        let at = self.at;
        if self.eat("(")? {
            let inner = self.nested(Self::query)?;
            self.expect(")", &format!("for the bracket opened at byte {at}"))?;
            return Ok(inner);
        }
        if self.eat("!!")? {
            let inner = self.nested(Self::unit)?;
            self.no_text_since(at, "after `!!`")?;
            return Ok(Condition::Not(Box::new(inner)));
        }
        self.count_condition()?;
        let Token::Word(word) = self.token else {
            return Err(self.expected("a condition such as `field:value`"));
        };
        self.advance()?;
        match self.token {
            Token::Sign("(") => self.function(at, word),
            _ => self.comparison(at, word),
        }
    }

    /// A search over the whole document has its own index in some stores, which cannot serve parts of a query.
    fn no_text_since(&self, start: usize, place: &str) -> Parsed<()> {
        match self.text_at.filter(|at| *at >= start) {
            Some(at) => {
                let message = format!("`text(…)` cannot stand {place}; join it to the query with `&&`");
                Err(SyntaxError::new(at, message))
            }
            None => Ok(()),
        }
    }

    fn comparison(&mut self, at: usize, word: &str) -> Parsed<Condition> {
        let Some(operator) = self.eat_any(OPERATORS)? else {
            return Err(self.expected(&format!("an operator such as `:` after `{}`", super::lexer::shortened(word))));
        };
        let field = Field::parse(word).map_err(|error| SyntaxError::new(at, error.to_string()))?;
        match operator {
            ":<" => self.order(field, Order::Less),
            ":>" => self.order(field, Order::Greater),
            ":<=" => self.order(field, Order::AtMost),
            ":>=" => self.order(field, Order::AtLeast),
            ":^" => self.list(field, false),
            ":!^" => self.list(field, true),
            ":~" => self.present(field),
            ":!" => self.equal(field, true),
            _ => self.equal(field, false),
        }
    }

    fn equal(&mut self, field: Field, negated: bool) -> Parsed<Condition> {
        match self.token {
            Token::Sign("{") if !negated => return self.element(field),
            Token::Sign("{") => {
                return Err(self.expected_but("a value", &format!("write `!!{field}:{{…}}` for no such element")));
            }
            Token::Sign("[") if !negated && field.as_str() == "fields" => return self.fields(),
            Token::Sign("[") => return Err(self.expected_but("a value", &format!("write a list as `{field}:^[a, b]`"))),
            _ => {}
        }
        match self.value()? {
            Value::Null => Ok(Condition::Null { field, negated }),
            Value::Truth(value) => Ok(Condition::Truth { field, value, negated }),
            Value::Reference(id) => Ok(Condition::Refers { field, id, negated }),
            Value::Pattern(pattern) => {
                let case = self.case(Case::Insensitive)?;
                Ok(Condition::Like { field, pattern, case, negated })
            }
            Value::Literal(value) => {
                let case = self.case_of(&value, Case::Insensitive)?;
                Ok(Condition::Equal { field, value, case, negated })
            }
        }
    }

    fn order(&mut self, field: Field, order: Order) -> Parsed<Condition> {
        let at = self.at;
        let Value::Literal(value) = self.value()? else {
            let message = format!("`:{}` compares with a text, a number or a date; use `:` here", order.sign());
            return Err(SyntaxError::new(at, message));
        };
        let case = self.case_of(&value, Case::Sensitive)?;
        Ok(Condition::Order { field, order, value, case })
    }

    /// `field:~`, or `field:~value`, which is present and equal.
    fn present(&mut self, field: Field) -> Parsed<Condition> {
        match self.token {
            Token::Word(_) | Token::Quoted(_) | Token::Variable(_) => self.equal(field, false),
            _ => Ok(Condition::Present(field)),
        }
    }

    fn list(&mut self, field: Field, negated: bool) -> Parsed<Condition> {
        let at = self.at;
        if !self.eat("[")? {
            let items = vec![self.item()?];
            return Ok(Condition::In { field, items, negated });
        }
        if self.sees("]") {
            return Err(self.expected_but("a value", "a list has at least one"));
        }
        let mut items = vec![self.item()?];
        while self.eat(",")? {
            items.push(self.item()?);
        }
        self.expect("]", &format!("or `,` in the list opened at byte {at}"))?;
        Ok(Condition::In { field, items, negated })
    }

    fn item(&mut self) -> Parsed<Item> {
        let at = self.at;
        match self.value()? {
            Value::Literal(value) => Ok(Item::Literal(value)),
            Value::Truth(value) => Ok(Item::Truth(value)),
            Value::Reference(id) => Ok(Item::Reference(id)),
            Value::Null => Err(SyntaxError::new(at, "`null` cannot stand in a list; write `field:null || field:^[…]`")),
            Value::Pattern(_) => {
                Err(SyntaxError::new(at, "wildcards cannot stand in a list; write `field:a* || field:b*`"))
            }
        }
    }

    fn element(&mut self, field: Field) -> Parsed<Condition> {
        let at = self.at;
        self.advance()?;
        let inner = Box::new(self.nested_element(Self::query)?);
        self.no_text_since(at, "inside `{…}`")?;
        self.expect("}", &format!("for the brace opened at byte {at}"))?;
        Ok(Condition::Element { field, inner })
    }

    fn fields(&mut self) -> Parsed<Condition> {
        let at = self.at;
        self.advance()?;
        let fields = self.projection()?;
        self.expect("]", &format!("or `,` in the list opened at byte {at}"))?;
        Ok(Condition::Fields(fields))
    }

    fn projection(&mut self) -> Parsed<Projection> {
        let mut fields = Projection::default();
        loop {
            let plus = self.eat("+")?;
            let at = self.at;
            let Token::Word(word) = self.token else {
                return Err(self.expected("a field such as `+name` or `-name`"));
            };
            self.advance()?;
            let (leave_out, name) = match word.strip_prefix('-') {
                Some(name) if !plus => (true, name.trim_start()),
                _ => (false, word),
            };
            let field = Field::parse(name).map_err(|error| SyntaxError::new(at, error.to_string()))?;
            fields.push(field, leave_out);
            if !self.eat(",")? {
                return Ok(fields);
            }
        }
    }

    fn function(&mut self, at: usize, name: &str) -> Parsed<Condition> {
        let direction = match name {
            "text" => return self.text(at),
            "expand" => return self.expand(),
            "hasEdge" | "hasOutgoingEdge" => Direction::Outgoing,
            "hasIncomingEdge" => Direction::Incoming,
            _ => {
                let there = FUNCTIONS.join(", ");
                let name = super::lexer::shortened(name);
                return Err(SyntaxError::new(at, format!("unknown function `{name}`; there are {there}")));
            }
        };
        self.advance()?;
        let predicate = self.term("the name of a relation")?;
        self.expect(",", "between the relation and the record at its other end")?;
        let other = self.record("the record at the other end")?;
        self.expect(")", "after the record")?;
        Ok(Condition::Edge { direction, predicate, other })
    }

    fn text(&mut self, at: usize) -> Parsed<Condition> {
        if self.text_at.replace(at).is_some() {
            return Err(SyntaxError::new(at, "`text(…)` can stand once in a query; put all words into one"));
        }
        self.advance()?;
        let words_at = self.at;
        let words = self.term("the words to search for")?;
        if let Term::Word(words) | Term::Quoted(words) = &words {
            super::value::check_length(words_at, words)?;
            if words.trim().is_empty() {
                return Err(SyntaxError::new(words_at, "`text(…)` needs at least one word"));
            }
        }
        self.expect(")", "after the words; words with other characters need quotes")?;
        Ok(Condition::Text(words))
    }

    fn expand(&mut self) -> Parsed<Condition> {
        let at = self.at;
        self.advance()?;
        let mut steps = Vec::new();
        while let Token::Word(word) = self.token {
            let name = if steps.is_empty() { word } else { word.strip_prefix('.').unwrap_or(word) };
            let field = Field::parse(name).map_err(|error| SyntaxError::new(self.at, error.to_string()))?;
            self.advance()?;
            steps.push(ExpandStep { field, each: self.eat("[*]")? });
        }
        if steps.is_empty() {
            return Err(self.expected("the path of related records, as in `expand(customer)`"));
        }
        let mut filter = None;
        if self.eat(",")? {
            filter = Some(Box::new(self.nested(Self::query)?));
            self.no_text_since(at, "inside `expand(…)`")?;
        }
        self.expect(")", "after the path, as in `expand(orders[*].lines)`")?;
        Ok(Condition::Expand { path: ExpandPath(steps), filter })
    }

    fn case(&mut self, default: Case) -> Parsed<Case> {
        Ok(match self.eat_any(&["~cs", "~ci"])? {
            Some("~cs") => Case::Sensitive,
            Some(_) => Case::Insensitive,
            None => default,
        })
    }

    /// Ids have no case, so the mark may stand there and changes nothing.
    fn case_of(&mut self, value: &Literal, default: Case) -> Parsed<Case> {
        match value {
            Literal::Word(_) | Literal::Quoted(_) | Literal::Variable(_) => self.case(default),
            Literal::Id(_) => self.case(default).map(|_| default),
            Literal::Number(_) | Literal::Moment(_) => Ok(default),
        }
    }
}

/// One part is itself; parts that are of the same kind become part of the whole.
fn joined(
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
