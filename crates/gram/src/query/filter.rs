//! Filters that test one item: its identity, labels and properties.

use crate::model::{Array, Number, Pattern, Range, Scalar, Value};

/// The identity, labels and properties that an item must have to match.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct PatternFilter {
    pub identity: Option<String>,
    pub labels: Vec<String>,
    pub properties: Vec<(String, Predicate)>,
}

/// A predicate on the value of a property.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Predicate {
    Equals(Value),
    Absent,
    Present,
    Within(Range),
    OneOf(Array),
    Not(String),
    Contains(String),
    Starts(String),
    Ends(String),
}

impl PatternFilter {
    pub(super) fn is_empty(&self) -> bool {
        self.identity.is_none() && self.labels.is_empty() && self.properties.is_empty()
    }

    pub(super) fn matches(&self, pattern: &Pattern) -> bool {
        self.identity.as_deref().is_none_or(|identity| pattern.identity() == identity)
            && self.labels.iter().all(|label| has_label(pattern, label))
            && self.properties.iter().all(|(key, predicate)| predicate.matches(pattern.get(key)))
    }
}

/// Returns the canonical name of a label: `Tool` is an alias of `ToolSpecification`.
pub(crate) fn canonical_label(label: &str) -> &str {
    if label == "Tool" { "ToolSpecification" } else { label }
}

fn has_label(pattern: &Pattern, label: &str) -> bool {
    pattern.subject.labels.iter().any(|own| canonical_label(own) == label)
}

impl Predicate {
    fn matches(&self, value: Option<&Value>) -> bool {
        match (self, value) {
            (Self::Absent, value) => value.is_none(),
            (Self::Not(excluded), value) => value.and_then(text) != Some(excluded.as_str()),
            (_, None) => false,
            (Self::Present, Some(_)) => true,
            (Self::Equals(expected), Some(value)) => same(expected, value),
            (Self::Within(range), Some(value)) => is_within(range, value),
            (Self::OneOf(expected), Some(Value::Scalar(value))) => {
                expected.as_slice().iter().any(|one| same_scalar(one, value))
            }
            (Self::OneOf(_), Some(_)) => false,
            (Self::Contains(part), Some(value)) => any_text(value, |text| text.contains(part.as_str())),
            (Self::Starts(part), Some(value)) => any_text(value, |text| text.starts_with(part.as_str())),
            (Self::Ends(part), Some(value)) => any_text(value, |text| text.ends_with(part.as_str())),
        }
    }
}

fn text(value: &Value) -> Option<&str> {
    match value {
        Value::Scalar(scalar) => scalar_text(scalar),
        _ => None,
    }
}

fn scalar_text(scalar: &Scalar) -> Option<&str> {
    match scalar {
        Scalar::String(text) | Scalar::Tagged { content: text, .. } => Some(text),
        Scalar::Symbol(symbol) => Some(symbol.as_str()),
        _ => None,
    }
}

fn any_text(value: &Value, test: impl Fn(&str) -> bool) -> bool {
    match value {
        Value::Array(items) => items.as_slice().iter().filter_map(scalar_text).any(test),
        value => text(value).is_some_and(test),
    }
}

fn same(expected: &Value, value: &Value) -> bool {
    match (expected, value) {
        (Value::Scalar(expected), Value::Scalar(value)) => same_scalar(expected, value),
        (Value::Array(expected), Value::Array(value)) => {
            let (expected, value) = (expected.as_slice(), value.as_slice());
            expected.len() == value.len()
                && expected.iter().zip(value).all(|(expected, value)| same_scalar(expected, value))
        }
        _ => expected == value,
    }
}

/// Strings and symbols are equal if they have the same text. Numbers are equal if they have the same value and unit.
fn same_scalar(expected: &Scalar, value: &Scalar) -> bool {
    match (expected, value) {
        (Scalar::Number(Number::Integer(expected)), Scalar::Number(Number::Integer(value))) => expected == value,
        (Scalar::Number(expected), Scalar::Number(value)) => {
            expected.as_f64() == value.as_f64() && expected.unit() == value.unit()
        }
        _ => match (scalar_text(expected), scalar_text(value)) {
            (Some(expected), Some(value)) => expected == value,
            _ => expected == value,
        },
    }
}

fn is_within(range: &Range, value: &Value) -> bool {
    let Value::Scalar(Scalar::Number(value)) = value else { return false };
    let above = |lower: &Number| lower.unit() == value.unit() && value.as_f64() >= lower.as_f64();
    let below = |upper: &Number| upper.unit() == value.unit() && value.as_f64() <= upper.as_f64();
    match range {
        Range::Between(lower, upper) => above(lower) && below(upper),
        Range::From(lower) => above(lower),
        Range::To(upper) => below(upper),
    }
}
