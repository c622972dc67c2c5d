//! Converts a query to a filter: replaces variables by values and relations by filters, and compiles patterns.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt;

use aho_corasick::AhoCorasick;
use regex::Regex;
use serde_json::{Map, Value};

use crate::datetime::micros;
use crate::filter::{Bound, Like, Predicate, ValueSet, ValueTest, Words};
use crate::{Case, Condition, Direction, Filter, Item, Literal, MAX_PATTERN, ObjectId, Term, WildcardPattern};

/// Maps each edge of a query to a filter that matches the documents with this edge. Such a filter compares ids or the
/// values of a field.
pub type EdgeFilters = HashMap<Edge, Filter>;

/// The relation that a condition `hasEdge(…)`, `hasOutgoingEdge(…)` or `hasIncomingEdge(…)` tests.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Edge {
    /// Whether the matching documents are the source or the target of the relation.
    pub direction: Direction,
    /// The name of the relation.
    pub relation: String,
    /// The document at the other end, by id or name.
    pub other: String,
}

impl fmt::Display for Edge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}({}, {})", self.direction.function(), self.relation, self.other)
    }
}

/// The input for binding a query: the values of its variables and the filters of its edges.
#[derive(Debug, Clone, Copy, Default)]
pub struct BindContext<'s> {
    variables: Option<&'s Map<String, Value>>,
    edges: Option<&'s EdgeFilters>,
}

impl<'s> BindContext<'s> {
    /// Creates a context for queries without variables.
    pub fn empty() -> Self {
        Self::default()
    }

    /// Creates a context with the values of variables.
    pub fn new(variables: &'s Map<String, Value>) -> Self {
        Self { variables: Some(variables), edges: None }
    }

    /// Adds a filter for each edge of [`crate::Query::edges`].
    pub fn with_edges(self, edges: &'s EdgeFilters) -> Self {
        Self { edges: Some(edges), ..self }
    }

    fn variable(&self, name: &str) -> Result<&'s Value, QueryBindError> {
        let found = self.variables.and_then(|variables| variables.get(name));
        found.ok_or_else(|| QueryBindError::UnknownVariable(name.into()))
    }

    /// Returns the value of a variable, which must be a text, a number or a boolean.
    fn scalar(&self, name: &str) -> Result<&'s Value, QueryBindError> {
        let value = self.variable(name)?;
        check_scalar(name, value, "a text, a number or a boolean")?;
        Ok(value)
    }

    fn term<'t>(&self, term: &'t Term) -> Result<Cow<'t, str>, QueryBindError> {
        let name = match term {
            Term::Word(text) | Term::Quoted(text) => return Ok(Cow::Borrowed(text)),
            Term::Variable(name) => name,
        };
        match self.scalar(name)? {
            Value::String(text) => Ok(Cow::Owned(text.clone())),
            other => Ok(Cow::Owned(other.to_string())),
        }
    }
}

fn check_scalar(name: &str, value: &Value, expected: &'static str) -> Result<(), QueryBindError> {
    let found = match value {
        Value::Null => "null",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
        Value::String(text) if text.contains('\0') => "a text with the character U+0000",
        _ => return Ok(()),
    };
    Err(QueryBindError::UnusableVariable { name: name.into(), found, expected })
}

/// The reason why a query cannot be bound. Matching never fails: a value of an unexpected type does not match.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum QueryBindError {
    /// A variable has no value.
    #[error("unresolved variable `${{{0}}}`")]
    UnknownVariable(Box<str>),
    /// The value of a variable has an unsupported type.
    #[error("variable `${{{name}}}` must be {expected}, got {found}")]
    UnusableVariable {
        /// The name of the variable.
        name: Box<str>,
        /// A description of the value.
        found: &'static str,
        /// A description of the supported values.
        expected: &'static str,
    },
    /// The value of a variable in `text(…)` contains no words.
    #[error("variable `${{{0}}}` must contain at least one word")]
    NoWords(Box<str>),
    /// The context contains no filter for an edge of the query.
    #[error("relation `{0}` is not resolved")]
    UnknownEdge(Edge),
}

pub(crate) fn filter(root: &Condition, context: &BindContext<'_>) -> Result<Filter, QueryBindError> {
    Ok(Filter::from_root(predicate(root, context)?.unwrap_or(Predicate::And(Vec::new()))))
}

pub(crate) fn edges(root: &Condition, context: &BindContext<'_>) -> Result<Vec<Edge>, QueryBindError> {
    let mut found = Vec::new();
    let mut open = vec![root];
    while let Some(condition) = open.pop() {
        match condition {
            Condition::And(parts) | Condition::Or(parts) => open.extend(parts.iter().rev()),
            Condition::Not(inner) | Condition::Element { inner, .. } => open.push(inner),
            Condition::Edge { direction, relation, other } => {
                let edge = edge(*direction, relation, other, context)?;
                if !found.contains(&edge) {
                    found.push(edge);
                }
            }
            _ => {}
        }
    }
    Ok(found)
}

fn edge(
    direction: Direction,
    relation: &Term,
    other: &Term,
    context: &BindContext<'_>,
) -> Result<Edge, QueryBindError> {
    let (relation, other) = (context.term(relation)?.into_owned(), context.term(other)?.into_owned());
    Ok(Edge { direction, relation, other })
}

/// Converts a condition. Returns `None` for a condition that does not filter, such as `expand(b)`. So `a || expand(b)`
/// is equivalent to `a`.
fn predicate(condition: &Condition, context: &BindContext<'_>) -> Result<Option<Predicate>, QueryBindError> {
    let value = |field: &crate::Field, value_test| Predicate::Value { field: field.clone(), value_test };
    let (negated, predicate) = match condition {
        Condition::And(parts) => return combine(parts, context, Predicate::And),
        Condition::Or(parts) => return combine(parts, context, Predicate::Or),
        Condition::Not(inner) => return Ok(predicate(inner, context)?.map(|inner| Predicate::Not(Box::new(inner)))),
        Condition::Element { field, inner } => {
            let inner = predicate(inner, context)?;
            return Ok(inner.map(|inner| Predicate::Element { field: field.clone(), inner: Box::new(inner) }));
        }
        Condition::Expand { .. } | Condition::Fields(_) => return Ok(None),
        Condition::Present(field) => (false, Predicate::Present(field.clone())),
        Condition::Null { field, negated } => (!negated, Predicate::Present(field.clone())),
        Condition::Bool { field, value: boolean, negated } => (*negated, value(field, ValueTest::Bool(*boolean))),
        Condition::Equal { field, value: literal, case, negated } => {
            let mut values = ValueSet::default();
            add_literal(&mut values, literal, *case, context)?;
            (*negated, value(field, ValueTest::In(values.sorted())))
        }
        Condition::Reference { field, id, negated } => {
            let mut values = ValueSet::default();
            values.insert_reference(id);
            (*negated, value(field, ValueTest::In(values)))
        }
        Condition::Compare { field, op, value: literal, case } => {
            (false, value(field, ValueTest::Compare(*op, bound(literal, *case, context)?)))
        }
        Condition::Like { field, pattern, case, negated } => {
            (*negated, value(field, ValueTest::Like(like(pattern, *case))))
        }
        Condition::In { field, items, negated } => (*negated, value(field, ValueTest::In(value_set(items, context)?))),
        Condition::Edge { direction, relation, other } => {
            let edge = edge(*direction, relation, other, context)?;
            let found = context.edges.and_then(|edges| edges.get(&edge));
            (false, Predicate::Shared(found.ok_or(QueryBindError::UnknownEdge(edge))?.root.clone()))
        }
        Condition::Text(words) => (false, Predicate::Words(self::words(words, context)?)),
    };
    Ok(Some(if negated { Predicate::Not(Box::new(predicate)) } else { predicate }))
}

fn combine(
    parts: &[Condition],
    context: &BindContext<'_>,
    combined: fn(Vec<Predicate>) -> Predicate,
) -> Result<Option<Predicate>, QueryBindError> {
    let mut predicates = Vec::with_capacity(parts.len());
    for part in parts {
        predicates.extend(predicate(part, context)?);
    }
    Ok((!predicates.is_empty()).then(|| combined(predicates)))
}

fn value_set(items: &[Item], context: &BindContext<'_>) -> Result<ValueSet, QueryBindError> {
    let mut values = ValueSet::default();
    if let [Item::Literal(Literal::Variable(name))] = items
        && let Value::String(text) = context.variable(name)?
    {
        check_scalar(name, &Value::String(text.clone()), "a text")?;
        text.split(',').map(str::trim).filter(|part| !part.is_empty()).for_each(|part| {
            add_text(&mut values, part, Case::Sensitive);
        });
        return Ok(values.sorted());
    }
    for item in items {
        match item {
            Item::Literal(Literal::Variable(name)) => add_collection(&mut values, name, context)?,
            Item::Literal(literal) => add_literal(&mut values, literal, Case::Sensitive, context)?,
            Item::Bool(value) => add_bool(&mut values, *value),
            Item::Reference(id) => values.insert_reference(id),
        }
    }
    Ok(values.sorted())
}

/// Adds the value of a variable to `values`. If the value is a list, adds each item.
fn add_collection(values: &mut ValueSet, name: &str, context: &BindContext<'_>) -> Result<(), QueryBindError> {
    let items = match context.variable(name)? {
        Value::Array(items) => items.as_slice(),
        other => std::slice::from_ref(other),
    };
    for value in items {
        check_scalar(name, value, "a text, a number, a boolean or a list of them")?;
        add_value(values, value, Case::Sensitive);
    }
    Ok(())
}

fn add_literal(
    values: &mut ValueSet,
    literal: &Literal,
    case: Case,
    context: &BindContext<'_>,
) -> Result<(), QueryBindError> {
    match literal {
        Literal::Quoted(text) => values.insert_text(text, case),
        Literal::Word(word) => {
            values.insert_text(word, case);
            parse_number(word).into_iter().for_each(|number| values.insert_number(number));
        }
        Literal::Id(id) => values.folded.push(id.as_str().to_owned()),
        Literal::Number(number) => {
            values.insert_number(number.as_f64());
            values.exact.push(number.to_string());
        }
        Literal::DateTime(timestamp) => values.timestamps.push(timestamp.as_micros()),
        Literal::Variable(name) => add_value(values, context.scalar(name)?, case),
    }
    Ok(())
}

fn add_value(values: &mut ValueSet, value: &Value, case: Case) {
    match value {
        Value::String(text) => add_text(values, text, case),
        Value::Bool(value) => add_bool(values, *value),
        Value::Number(number) => {
            values.insert_number(number.as_f64().unwrap_or_default());
            values.exact.push(number.to_string());
        }
        Value::Null | Value::Array(_) | Value::Object(_) => {}
    }
}

/// Adds a text to `values`. If the text is also an id, a boolean, a number or a date, adds that value too.
fn add_text(values: &mut ValueSet, text: &str, case: Case) {
    let case = if ObjectId::parse(text).is_some() { Case::Insensitive } else { case };
    values.insert_text(text, case);
    values.timestamps.extend(micros(text));
    parse_number(text).into_iter().for_each(|number| values.insert_number(number));
    match text {
        "true" => values.bools.push(true),
        "false" => values.bools.push(false),
        _ => {}
    }
}

fn add_bool(values: &mut ValueSet, value: bool) {
    values.bools.push(value);
    values.exact.push(value.to_string());
}

fn bound(literal: &Literal, case: Case, context: &BindContext<'_>) -> Result<Bound, QueryBindError> {
    let text = |text: &str, case| {
        let text = match case {
            Case::Sensitive => text.to_owned(),
            Case::Insensitive => text.to_ascii_lowercase(),
        };
        Some((text, case))
    };
    let word = |word: &str| Bound { text: text(word, case), number: parse_number(word), timestamp: None };
    let number = |number| Bound { number: Some(number), ..Bound::default() };
    let timestamp = |micros| Bound { timestamp: Some(micros), ..Bound::default() };
    Ok(match literal {
        Literal::Quoted(quoted) => Bound { text: text(quoted, case), ..Bound::default() },
        Literal::Word(bare) => word(bare),
        Literal::Id(id) => Bound { text: text(id.as_str(), Case::Insensitive), ..Bound::default() },
        Literal::Number(value) => number(value.as_f64()),
        Literal::DateTime(value) => timestamp(value.as_micros()),
        Literal::Variable(name) => match context.scalar(name)? {
            Value::String(value) => micros(value).map_or_else(|| word(value), timestamp),
            Value::Number(value) => number(value.as_f64().unwrap_or_default()),
            _ => {
                let expected = "a text or a number";
                return Err(QueryBindError::UnusableVariable { name: name.clone(), found: "a boolean", expected });
            }
        },
    })
}

/// Parses a number such as `12`, `-7` or `0.5`. A text such as `1e5` is not a number here, because it is more often a
/// product code than a number with an exponent.
fn parse_number(word: &str) -> Option<f64> {
    let digits = word.strip_prefix('-').unwrap_or(word);
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, "0"));
    let all_digits = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    let number = (all_digits(whole) && all_digits(fraction)).then(|| word.parse::<f64>().ok()).flatten();
    number.filter(|number| number.is_finite())
}

fn like(pattern: &WildcardPattern, case: Case) -> Like {
    Like { pattern: pattern.clone(), case, regex: compile_regex(pattern, case) }
}

#[expect(
    clippy::expect_used,
    reason = "the pieces are escaped and short: see the test `queries_at_the_limits_are_accepted`"
)]
fn compile_regex(pattern: &WildcardPattern, case: Case) -> Regex {
    pattern.regex(case).expect("an escaped text of limited length is a valid regex")
}

fn words(term: &Term, context: &BindContext<'_>) -> Result<Words, QueryBindError> {
    let text = context.term(term)?;
    let list: Vec<String> = text.split_whitespace().map(str::to_ascii_lowercase).collect();
    if let Term::Variable(name) = term {
        // The parser has already checked the words that are written in the query, so only words from variables are
        // checked here.
        if list.is_empty() {
            return Err(QueryBindError::NoWords(name.clone()));
        }
        if text.chars().nth(MAX_PATTERN).is_some() {
            let (found, expected) = ("a longer text", "a text of at most 1000 characters");
            return Err(QueryBindError::UnusableVariable { name: name.clone(), found, expected });
        }
    }
    let finder = finder(&list);
    Ok(Words { list, finder })
}

#[expect(clippy::expect_used, reason = "the build fails only for gigabytes of words, and their length is limited")]
fn finder(words: &[String]) -> AhoCorasick {
    AhoCorasick::builder().ascii_case_insensitive(true).build(words).expect("the words are few and short")
}
