//! From a query and what it is asked with to a filter: variables become values, relations become ids, patterns are compiled.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt;

use aho_corasick::AhoCorasick;
use regex::Regex;
use serde_json::{Map, Value};

use crate::filter::{Among, Like, Limit, Probe, Test, Words};
use crate::moment::micros;
use crate::{BindError, Case, Condition, Direction, Filter, Item, Literal, MAX_PATTERN, ObjectId, Pattern, Term};

/// What the documents that have an edge are known by, for each edge a query asks for: their ids, or a field that they have.
pub type Edges = HashMap<Edge, Filter>;

/// A relation that `hasEdge(…)` asks for.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Edge {
    /// Seen from the documents that are looked for.
    pub direction: Direction,
    /// The name of the relation.
    pub predicate: String,
    /// The document at the other end, by id or name.
    pub other: String,
}

impl fmt::Display for Edge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}({}, {})", self.direction.function(), self.predicate, self.other)
    }
}

/// What a query is asked with: values of variables, and relations that were looked up.
#[derive(Debug, Clone, Copy, Default)]
pub struct Scope<'s> {
    variables: Option<&'s Map<String, Value>>,
    edges: Option<&'s Edges>,
}

impl<'s> Scope<'s> {
    /// For queries without variables.
    pub fn empty() -> Self {
        Self::default()
    }

    /// With values of variables.
    pub fn new(variables: &'s Map<String, Value>) -> Self {
        Self { variables: Some(variables), edges: None }
    }

    /// With the answer to [`crate::Query::edges`].
    pub fn with_edges(self, edges: &'s Edges) -> Self {
        Self { edges: Some(edges), ..self }
    }

    fn variable(&self, name: &str) -> Result<&'s Value, BindError> {
        let found = self.variables.and_then(|variables| variables.get(name));
        found.ok_or_else(|| BindError::UnknownVariable(name.into()))
    }

    /// One value that something can be compared with.
    fn scalar(&self, name: &str) -> Result<&'s Value, BindError> {
        let value = self.variable(name)?;
        usable(name, value, "it must hold a text, a number or a boolean here")?;
        Ok(value)
    }

    fn term<'t>(&self, term: &'t Term) -> Result<Cow<'t, str>, BindError> {
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

fn usable(name: &str, value: &Value, expected: &'static str) -> Result<(), BindError> {
    let found = match value {
        Value::Null => "null",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
        Value::String(text) if text.contains('\0') => "a text with the character U+0000",
        _ => return Ok(()),
    };
    Err(BindError::UnusableVariable { name: name.into(), found, expected })
}

pub(crate) fn filter(root: &Condition, scope: &Scope<'_>) -> Result<Filter, BindError> {
    Ok(Filter::of(test(root, scope)?.unwrap_or(Test::All(Vec::new()))))
}

pub(crate) fn edges(root: &Condition, scope: &Scope<'_>) -> Result<Vec<Edge>, BindError> {
    let mut found = Vec::new();
    let mut open = vec![root];
    while let Some(condition) = open.pop() {
        match condition {
            Condition::All(parts) | Condition::Any(parts) => open.extend(parts.iter().rev()),
            Condition::Not(inner) | Condition::Element { inner, .. } => open.push(inner),
            Condition::Edge { direction, predicate, other } => {
                let edge = edge(*direction, predicate, other, scope)?;
                if !found.contains(&edge) {
                    found.push(edge);
                }
            }
            _ => {}
        }
    }
    Ok(found)
}

fn edge(direction: Direction, predicate: &Term, other: &Term, scope: &Scope<'_>) -> Result<Edge, BindError> {
    let (predicate, other) = (scope.term(predicate)?.into_owned(), scope.term(other)?.into_owned());
    Ok(Edge { direction, predicate, other })
}

/// None for what filters nothing, wherever it stands: `a || expand(b)` is `a`.
fn test(condition: &Condition, scope: &Scope<'_>) -> Result<Option<Test>, BindError> {
    let value = |field: &crate::Field, probe| Test::Value { field: field.clone(), probe };
    let (negated, test) = match condition {
        Condition::All(parts) => return joined(parts, scope, Test::All),
        Condition::Any(parts) => return joined(parts, scope, Test::Any),
        Condition::Not(inner) => return Ok(test(inner, scope)?.map(|inner| Test::Not(Box::new(inner)))),
        Condition::Element { field, inner } => {
            let inner = test(inner, scope)?;
            return Ok(inner.map(|inner| Test::Element { field: field.clone(), inner: Box::new(inner) }));
        }
        Condition::Expand { .. } | Condition::Fields(_) => return Ok(None),
        Condition::Present(field) => (false, Test::Present(field.clone())),
        Condition::Null { field, negated } => (!negated, Test::Present(field.clone())),
        Condition::Truth { field, value: truth, negated } => (*negated, value(field, Probe::Truth(*truth))),
        Condition::Equal { field, value: literal, case, negated } => {
            let mut among = Among::default();
            add_literal(&mut among, literal, *case, scope)?;
            (*negated, value(field, Probe::Among(among.sorted())))
        }
        Condition::Refers { field, id, negated } => {
            let mut among = Among::default();
            among.reference(id);
            (*negated, value(field, Probe::Among(among)))
        }
        Condition::Order { field, order, value: literal, case } => {
            (false, value(field, Probe::Order(*order, limit(literal, *case, scope)?)))
        }
        Condition::Like { field, pattern, case, negated } => {
            (*negated, value(field, Probe::Like(like(pattern, *case))))
        }
        Condition::In { field, items, negated } => (*negated, value(field, Probe::Among(list(items, scope)?))),
        Condition::Edge { direction, predicate, other } => {
            let edge = edge(*direction, predicate, other, scope)?;
            let found = scope.edges.and_then(|edges| edges.get(&edge));
            (false, Test::Shared(found.ok_or(BindError::UnknownEdge(edge))?.root.clone()))
        }
        Condition::Text(words) => (false, Test::Words(self::words(words, scope)?)),
    };
    Ok(Some(if negated { Test::Not(Box::new(test)) } else { test }))
}

fn joined(parts: &[Condition], scope: &Scope<'_>, whole: fn(Vec<Test>) -> Test) -> Result<Option<Test>, BindError> {
    let mut tests = Vec::with_capacity(parts.len());
    for part in parts {
        tests.extend(test(part, scope)?);
    }
    Ok((!tests.is_empty()).then(|| whole(tests)))
}

fn list(items: &[Item], scope: &Scope<'_>) -> Result<Among, BindError> {
    let mut among = Among::default();
    if let [Item::Literal(Literal::Variable(name))] = items
        && let Value::String(text) = scope.variable(name)?
    {
        usable(name, &Value::String(text.clone()), "it must hold text here")?;
        text.split(',').map(str::trim).filter(|part| !part.is_empty()).for_each(|part| {
            add_text(&mut among, part, Case::Sensitive);
        });
        return Ok(among.sorted());
    }
    for item in items {
        match item {
            Item::Literal(Literal::Variable(name)) => add_collection(&mut among, name, scope)?,
            Item::Literal(literal) => add_literal(&mut among, literal, Case::Sensitive, scope)?,
            Item::Truth(value) => add_truth(&mut among, *value),
            Item::Reference(id) => among.reference(id),
        }
    }
    Ok(among.sorted())
}

fn add_collection(among: &mut Among, name: &str, scope: &Scope<'_>) -> Result<(), BindError> {
    let value = scope.variable(name)?;
    let values = match value {
        Value::Array(values) => values.as_slice(),
        other => std::slice::from_ref(other),
    };
    for value in values {
        usable(name, value, "it must hold a text, a number, a boolean or a list of them here")?;
        add_value(among, value, Case::Sensitive);
    }
    Ok(())
}

fn add_literal(among: &mut Among, literal: &Literal, case: Case, scope: &Scope<'_>) -> Result<(), BindError> {
    match literal {
        Literal::Quoted(text) => among.text(text, case),
        Literal::Word(word) => {
            among.text(word, case);
            number_in(word).into_iter().for_each(|number| among.number(number));
        }
        Literal::Id(id) => among.folded.push(id.as_str().to_owned()),
        Literal::Number(number) => {
            among.number(number.as_f64());
            among.exact.push(number.to_string());
        }
        Literal::Moment(moment) => among.moments.push(moment.as_micros()),
        Literal::Variable(name) => add_value(among, scope.scalar(name)?, case),
    }
    Ok(())
}

fn add_value(among: &mut Among, value: &Value, case: Case) {
    match value {
        Value::String(text) => add_text(among, text, case),
        Value::Bool(value) => add_truth(among, *value),
        Value::Number(number) => {
            among.number(number.as_f64().unwrap_or_default());
            among.exact.push(number.to_string());
        }
        Value::Null | Value::Array(_) | Value::Object(_) => {}
    }
}

/// A text from outside of the query may mean an id, a boolean, a number or a date just as well.
fn add_text(among: &mut Among, text: &str, case: Case) {
    let case = if ObjectId::parse(text).is_some() { Case::Insensitive } else { case };
    among.text(text, case);
    among.moments.extend(micros(text));
    number_in(text).into_iter().for_each(|number| among.number(number));
    match text {
        "true" => among.truths.push(true),
        "false" => among.truths.push(false),
        _ => {}
    }
}

fn add_truth(among: &mut Among, value: bool) {
    among.truths.push(value);
    among.exact.push(value.to_string());
}

fn limit(literal: &Literal, case: Case, scope: &Scope<'_>) -> Result<Limit, BindError> {
    let text = |text: &str, case| {
        let text = match case {
            Case::Sensitive => text.to_owned(),
            Case::Insensitive => text.to_ascii_lowercase(),
        };
        Some((text, case))
    };
    let word = |word: &str| Limit { text: text(word, case), number: number_in(word), moment: None };
    let number = |number| Limit { number: Some(number), ..Limit::default() };
    let moment = |micros| Limit { moment: Some(micros), ..Limit::default() };
    Ok(match literal {
        Literal::Quoted(quoted) => Limit { text: text(quoted, case), ..Limit::default() },
        Literal::Word(bare) => word(bare),
        Literal::Id(id) => Limit { text: text(id.as_str(), Case::Insensitive), ..Limit::default() },
        Literal::Number(value) => number(value.as_f64()),
        Literal::Moment(value) => moment(value.as_micros()),
        Literal::Variable(name) => match scope.scalar(name)? {
            Value::String(value) => micros(value).map_or_else(|| word(value), moment),
            Value::Number(value) => number(value.as_f64().unwrap_or_default()),
            _ => {
                let expected = "it must hold a text or a number to be ordered by";
                return Err(BindError::UnusableVariable { name: name.clone(), found: "a boolean", expected });
            }
        },
    })
}

/// `12`, `-7`, `0.5`; an exponent makes it a word: codes such as `1e5` are not meant as numbers.
fn number_in(word: &str) -> Option<f64> {
    let digits = word.strip_prefix('-').unwrap_or(word);
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, "0"));
    let all_digits = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    let number = (all_digits(whole) && all_digits(fraction)).then(|| word.parse::<f64>().ok()).flatten();
    number.filter(|number| number.is_finite())
}

fn like(pattern: &Pattern, case: Case) -> Like {
    Like { pattern: pattern.clone(), case, regex: compiled(pattern, case) }
}

#[expect(
    clippy::expect_used,
    reason = "pieces are escaped and short: test `what_is_just_within_the_limits_is_accepted`"
)]
fn compiled(pattern: &Pattern, case: Case) -> Regex {
    pattern.regex(case).expect("an escaped text of limited length")
}

fn words(term: &Term, scope: &Scope<'_>) -> Result<Words, BindError> {
    let text = scope.term(term)?;
    let list: Vec<String> = text.split_whitespace().map(str::to_ascii_lowercase).collect();
    if let Term::Variable(name) = term {
        // Words that stand in the query itself were checked by the parser.
        if list.is_empty() {
            return Err(BindError::NoWords(name.clone()));
        }
        if text.chars().nth(MAX_PATTERN).is_some() {
            let (found, expected) = ("a text too long to search for", "it must hold at most 1000 characters");
            return Err(BindError::UnusableVariable { name: name.clone(), found, expected });
        }
    }
    let finder = finder(&list);
    Ok(Words { list, finder })
}

#[expect(clippy::expect_used, reason = "fails only for gigabytes of words, and their length is limited")]
fn finder(words: &[String]) -> AhoCorasick {
    AhoCorasick::builder().ascii_case_insensitive(true).build(words).expect("a few short words")
}
