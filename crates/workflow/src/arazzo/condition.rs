//! Conditions: comparisons of values with constants, joined by `&&`, `||` and `!`. Arazzo calls them simple conditions.
//! The same conditions have two notations, that of Arazzo and that of expressions.

use serde_json::Value;

use super::path::{read_string_literal, string_literal};

/// The maximum depth of a condition.
const MAX_DEPTH: usize = 30;

/// A condition. Values are in the notation from which the condition was read.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Condition {
    Constant(bool),
    All(Vec<Condition>),
    Any(Vec<Condition>),
    Not(Box<Condition>),
    Compare { left: String, op: Comparison, right: Operand },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Comparison {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

/// The right side of a comparison.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Operand {
    Literal(Value),
    Value(String),
}

/// A notation of conditions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Notation {
    /// `$steps.a.outputs.status == 'ok'`. Comparisons of texts ignore the case.
    Arazzo,
    /// `string(a.status).lowerAscii() == 'ok'`.
    Expression,
}

/// The text before and after a value whose text is compared without case, in an expression.
const CASELESS: (&str, &str) = ("string(", ").lowerAscii()");

const COMPARISONS: [(&str, Comparison); 6] = [
    ("==", Comparison::Equal),
    ("!=", Comparison::NotEqual),
    ("<=", Comparison::LessOrEqual),
    (">=", Comparison::GreaterOrEqual),
    ("<", Comparison::Less),
    (">", Comparison::Greater),
];

impl Comparison {
    fn symbol(self) -> &'static str {
        COMPARISONS.iter().find(|(_, comparison)| *comparison == self).map_or("==", |(symbol, _)| symbol)
    }

    /// The comparison with its sides exchanged.
    fn flipped(self) -> Self {
        match self {
            Comparison::Less => Comparison::Greater,
            Comparison::LessOrEqual => Comparison::GreaterOrEqual,
            Comparison::Greater => Comparison::Less,
            Comparison::GreaterOrEqual => Comparison::LessOrEqual,
            same => same,
        }
    }

    fn is_equality(self) -> bool {
        matches!(self, Comparison::Equal | Comparison::NotEqual)
    }
}

impl Condition {
    /// Joins conditions with `&&`. Constants are evaluated.
    pub(crate) fn all(conditions: impl IntoIterator<Item = Condition>) -> Self {
        let mut parts = Vec::new();
        for condition in conditions {
            match condition {
                Condition::Constant(true) => {}
                Condition::Constant(false) => return Condition::Constant(false),
                Condition::All(more) => parts.extend(more),
                other => parts.push(other),
            }
        }
        match parts.len() {
            0 => Condition::Constant(true),
            1 => parts.swap_remove(0),
            _ => Condition::All(parts),
        }
    }

    /// The conditions that are joined with `&&`.
    pub(crate) fn parts(self) -> Vec<Condition> {
        match self {
            Condition::All(parts) => parts,
            other => vec![other],
        }
    }

    /// Reads a condition.
    pub(crate) fn parse(text: &str, notation: Notation) -> Result<Self, String> {
        let mut parser = Parser { rest: text, notation, depth: 0 };
        let condition = parser.any()?;
        match parser.peek() {
            "" => Ok(condition),
            rest => Err(format!("`{}` cannot be converted; {EXPECTED}", shorten(rest))),
        }
    }

    /// Writes the condition.
    pub(crate) fn write(&self, notation: Notation) -> String {
        let join = |parts: &[Condition], symbol: &str| {
            let parts: Vec<String> = parts.iter().map(|part| part.write_part(notation)).collect();
            parts.join(symbol)
        };
        match self {
            Condition::Constant(value) => value.to_string(),
            Condition::All(parts) => join(parts, " && "),
            Condition::Any(parts) => join(parts, " || "),
            Condition::Not(inner) => format!("!({})", inner.write(notation)),
            Condition::Compare { left, op, right } => {
                let symbol = op.symbol();
                match (right, notation) {
                    (Operand::Value(right), _) => format!("{left} {symbol} {right}"),
                    (Operand::Literal(Value::String(text)), Notation::Arazzo) => {
                        format!("{left} {symbol} '{}'", text.replace('\'', "''"))
                    }
                    (Operand::Literal(Value::String(text)), Notation::Expression) => {
                        format!("{}{left}{} {symbol} {}", CASELESS.0, CASELESS.1, string_literal(text))
                    }
                    (Operand::Literal(literal), _) => format!("{left} {symbol} {literal}"),
                }
            }
        }
    }

    fn write_part(&self, notation: Notation) -> String {
        match self {
            Condition::All(_) | Condition::Any(_) => format!("({})", self.write(notation)),
            _ => self.write(notation),
        }
    }

    /// Converts the values of the condition to another notation.
    pub(crate) fn map(self, convert: &mut impl FnMut(&str) -> Result<String, String>) -> Result<Self, String> {
        let mut all =
            |parts: Vec<Condition>| parts.into_iter().map(|part| part.map(convert)).collect::<Result<Vec<_>, String>>();
        Ok(match self {
            Condition::Constant(value) => Condition::Constant(value),
            Condition::All(parts) => Condition::All(all(parts)?),
            Condition::Any(parts) => Condition::Any(all(parts)?),
            Condition::Not(inner) => Condition::Not(Box::new(inner.map(convert)?)),
            Condition::Compare { left, op, right } => {
                let left = convert(&left)?;
                let right = match right {
                    Operand::Value(right) => Operand::Value(convert(&right)?),
                    literal @ Operand::Literal(_) => literal,
                };
                Condition::Compare { left, op, right }
            }
        })
    }

    /// Evaluates the condition for a value with the name `name`. `None` if it reads other values.
    pub(crate) fn evaluate(&self, name: &str, value: f64) -> Option<bool> {
        match self {
            Condition::Constant(value) => Some(*value),
            Condition::All(parts) => parts.iter().try_fold(true, |all, part| Some(part.evaluate(name, value)? && all)),
            Condition::Any(parts) => parts.iter().try_fold(false, |any, part| Some(part.evaluate(name, value)? || any)),
            Condition::Not(inner) => inner.evaluate(name, value).map(|value| !value),
            Condition::Compare { left, op, right: Operand::Literal(literal) } if left == name => {
                let literal = literal.as_f64().or_else(|| literal.as_str()?.parse().ok())?;
                let order = value.partial_cmp(&literal)?;
                Some(match op {
                    Comparison::Equal => order.is_eq(),
                    Comparison::NotEqual => order.is_ne(),
                    Comparison::Less => order.is_lt(),
                    Comparison::LessOrEqual => order.is_le(),
                    Comparison::Greater => order.is_gt(),
                    Comparison::GreaterOrEqual => order.is_ge(),
                })
            }
            Condition::Compare { .. } => None,
        }
    }
}

const EXPECTED: &str =
    "a condition compares values with constants: `==`, `!=`, `<`, `<=`, `>`, `>=`, `&&`, `||`, `!` and brackets";

struct Parser<'a> {
    rest: &'a str,
    notation: Notation,
    depth: usize,
}

/// A side of a comparison.
enum Side {
    Literal(Value),
    Value(String),
    /// A value whose text is compared without case.
    Caseless(String),
}

impl<'a> Parser<'a> {
    fn peek(&mut self) -> &'a str {
        self.rest = self.rest.trim_start();
        self.rest
    }

    fn eat(&mut self, symbol: &str) -> bool {
        match self.peek().strip_prefix(symbol) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    fn any(&mut self) -> Result<Condition, String> {
        let mut parts = vec![self.all()?];
        while self.eat("||") {
            parts.push(self.all()?);
        }
        Ok(if parts.len() == 1 { parts.swap_remove(0) } else { Condition::Any(parts) })
    }

    fn all(&mut self) -> Result<Condition, String> {
        let mut parts = vec![self.part()?];
        while self.eat("&&") {
            parts.push(self.part()?);
        }
        Ok(if parts.len() == 1 { parts.swap_remove(0) } else { Condition::All(parts) })
    }

    fn part(&mut self) -> Result<Condition, String> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(format!("a condition must not be nested more than {MAX_DEPTH} times"));
        }
        let part = if self.eat("(") {
            self.close()
        } else if !self.peek().starts_with("!=") && self.eat("!") {
            let inner = if self.eat("(") { self.close()? } else { self.comparison()? };
            Ok(Condition::Not(Box::new(inner)))
        } else {
            self.comparison()
        };
        self.depth -= 1;
        part
    }

    fn close(&mut self) -> Result<Condition, String> {
        let inner = self.any()?;
        if self.eat(")") { Ok(inner) } else { Err("a bracket is not closed".to_owned()) }
    }

    fn comparison(&mut self) -> Result<Condition, String> {
        let left = self.side()?;
        let found = COMPARISONS.iter().find(|(symbol, _)| self.peek().starts_with(symbol));
        let Some((symbol, op)) = found else {
            return match left {
                Side::Literal(Value::Bool(value)) => Ok(Condition::Constant(value)),
                // A value as a condition passes if it is true.
                Side::Value(left) => Ok(compare(left, Comparison::Equal, Operand::Literal(Value::Bool(true)))),
                _ => Err(format!("a constant is not a condition; {EXPECTED}")),
            };
        };
        self.eat(symbol);
        let right = self.side()?;
        let is_arazzo = self.notation == Notation::Arazzo;
        match (left, right) {
            (Side::Caseless(left), Side::Literal(Value::String(text)))
            | (Side::Literal(Value::String(text)), Side::Caseless(left)) => compare_text(left, *op, text),
            (Side::Value(left), Side::Literal(Value::String(text)))
            | (Side::Literal(Value::String(text)), Side::Value(left)) => {
                if is_arazzo {
                    return compare_text(left, *op, text);
                }
                let lower = string_literal(&text.to_ascii_lowercase());
                Err(format!(
                    "Arazzo compares texts without their case; write `{}{left}{} {symbol} {lower}`",
                    CASELESS.0, CASELESS.1
                ))
            }
            (Side::Value(left), Side::Literal(literal)) => Ok(compare(left, *op, Operand::Literal(literal))),
            (Side::Literal(literal), Side::Value(right)) => Ok(compare(right, op.flipped(), Operand::Literal(literal))),
            (Side::Value(left), Side::Value(right)) if !op.is_equality() => {
                Ok(compare(left, *op, Operand::Value(right)))
            }
            (Side::Value(_), Side::Value(_)) => Err(
                "two values cannot be compared for equality, because Arazzo ignores the case of texts; compare with a \
                     constant"
                    .to_owned(),
            ),
            _ => Err(format!("this comparison cannot be converted; {EXPECTED}")),
        }
    }

    fn side(&mut self) -> Result<Side, String> {
        let rest = self.peek();
        if rest.starts_with('\'') || rest.starts_with('"') && self.notation == Notation::Expression {
            return self.text().map(|text| Side::Literal(Value::String(text)));
        }
        let length = rest.find(|c: char| c.is_whitespace() || "=!<>&|()".contains(c)).unwrap_or(rest.len());
        let (word, after) = rest.split_at(length);
        if word.starts_with(|c: char| c.is_ascii_digit() || c == '-') || ["true", "false", "null"].contains(&word) {
            let literal = serde_json::from_str(word);
            let literal = literal.map_err(|_| format!("`{word}` is neither a number nor a value; {EXPECTED}"))?;
            self.rest = after;
            return Ok(Side::Literal(literal));
        }
        match self.notation {
            Notation::Arazzo if word.starts_with('$') => {
                self.rest = after;
                Ok(Side::Value(word.to_owned()))
            }
            Notation::Expression => self.expression(),
            Notation::Arazzo => Err(format!("`{}` cannot be converted; {EXPECTED}", shorten(rest))),
        }
    }

    /// Reads a path, or the text of a path without its case.
    fn expression(&mut self) -> Result<Side, String> {
        let rest = self.rest;
        if let Some((path, after)) = rest.strip_prefix(CASELESS.0).and_then(|rest| rest.split_once(CASELESS.1)) {
            self.rest = after;
            return Ok(Side::Caseless(path.to_owned()));
        }
        // A path ends before white space or an operator outside of brackets and backticks.
        let mut end = None;
        for (at, c) in rest.char_indices() {
            end = match (end, c) {
                (None, '`' | '\'') => Some(c),
                (Some(quote), c) if c == quote => None,
                (None, c) if c.is_whitespace() || "=!<>&|()".contains(c) => {
                    return self.value(at, rest);
                }
                (open, _) => open,
            };
        }
        self.value(rest.len(), rest)
    }

    fn value(&mut self, length: usize, rest: &str) -> Result<Side, String> {
        let (value, after) = self.rest.split_at_checked(length).unwrap_or((self.rest, ""));
        if value.is_empty() || after.starts_with('(') {
            return Err(format!("`{}` cannot be converted; {EXPECTED}", shorten(rest)));
        }
        self.rest = after;
        Ok(Side::Value(value.to_owned()))
    }

    fn text(&mut self) -> Result<String, String> {
        let unclosed = || "a text is not closed".to_owned();
        if self.notation == Notation::Expression {
            let (text, length) = read_string_literal(self.rest).ok_or_else(unclosed)?;
            self.rest = self.rest.get(length..).unwrap_or_default();
            return Ok(text);
        }
        // Two quotes stand for one.
        let mut text = String::new();
        let mut rest = self.rest.strip_prefix('\'').unwrap_or_default();
        loop {
            let (part, after) = rest.split_once('\'').ok_or_else(unclosed)?;
            text.push_str(part);
            match after.strip_prefix('\'') {
                Some(more) => {
                    text.push('\'');
                    rest = more;
                }
                None => {
                    self.rest = after;
                    return Ok(text);
                }
            }
        }
    }
}

fn compare(left: String, op: Comparison, right: Operand) -> Condition {
    Condition::Compare { left, op, right }
}

/// Compares the text of a value without its case.
fn compare_text(left: String, op: Comparison, text: String) -> Result<Condition, String> {
    if !op.is_equality() {
        return Err("texts can only be compared for equality".to_owned());
    }
    if !text.is_ascii() {
        return Err(format!(
            "`{text}` has characters whose case cannot be ignored; compare with a text of ASCII characters"
        ));
    }
    if ["null", "true", "false"].contains(&text.to_ascii_lowercase().as_str()) {
        return Err(format!("the text '{text}' is equal to the value {text} in Arazzo; compare with the value"));
    }
    Ok(compare(left, op, Operand::Literal(Value::String(text.to_ascii_lowercase()))))
}

fn shorten(text: &str) -> String {
    let short: String = text.chars().take(60).collect();
    if short.len() < text.len() { format!("{short}…") } else { short }
}
