//! What a single thing must be.

use crate::model::{Array, Number, Pattern, Range, Scalar, Value};

/// The labels and properties that a thing must have.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Test {
    pub identity: Option<String>,
    pub labels: Vec<String>,
    pub properties: Vec<(String, Predicate)>,
}

/// What a property must be.
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

impl Test {
    pub fn is_empty(&self) -> bool {
        self.identity.is_none() && self.labels.is_empty() && self.properties.is_empty()
    }

    pub fn accepts(&self, pattern: &Pattern) -> bool {
        self.identity.as_deref().is_none_or(|identity| pattern.identity() == identity)
            && self.labels.iter().all(|label| has_label(pattern, label))
            && self.properties.iter().all(|(key, predicate)| predicate.accepts(pattern.get(key)))
    }
}

/// The one name of labels that mean the same.
pub(crate) fn canonical_label(label: &str) -> &str {
    if label == "Tool" { "ToolSpecification" } else { label }
}

fn has_label(pattern: &Pattern, label: &str) -> bool {
    pattern.subject.labels.iter().any(|own| canonical_label(own) == label)
}

impl Predicate {
    fn accepts(&self, value: Option<&Value>) -> bool {
        match (self, value) {
            (Self::Absent, value) => value.is_none(),
            (Self::Not(unwanted), value) => value.and_then(text) != Some(unwanted.as_str()),
            (_, None) => false,
            (Self::Present, Some(_)) => true,
            (Self::Equals(wanted), Some(value)) => same(wanted, value),
            (Self::Within(range), Some(value)) => is_within(range, value),
            (Self::OneOf(wanted), Some(Value::Scalar(value))) => {
                wanted.as_slice().iter().any(|one| same_scalar(one, value))
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

fn same(wanted: &Value, value: &Value) -> bool {
    match (wanted, value) {
        (Value::Scalar(wanted), Value::Scalar(value)) => same_scalar(wanted, value),
        (Value::Array(wanted), Value::Array(value)) => {
            let (wanted, value) = (wanted.as_slice(), value.as_slice());
            wanted.len() == value.len() && wanted.iter().zip(value).all(|(wanted, value)| same_scalar(wanted, value))
        }
        _ => wanted == value,
    }
}

/// Strings and symbols are the same when their text is, numbers when they are equal and of one unit.
fn same_scalar(wanted: &Scalar, value: &Scalar) -> bool {
    match (wanted, value) {
        (Scalar::Number(Number::Integer(wanted)), Scalar::Number(Number::Integer(value))) => wanted == value,
        (Scalar::Number(wanted), Scalar::Number(value)) => {
            wanted.as_f64() == value.as_f64() && wanted.unit() == value.unit()
        }
        _ => match (scalar_text(wanted), scalar_text(value)) {
            (Some(wanted), Some(value)) => wanted == value,
            _ => wanted == value,
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
