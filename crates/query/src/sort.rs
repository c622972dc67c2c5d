//! The order of lists. Values of different kinds have an order too, so that every document has its place.

use std::cmp::Ordering;
use std::fmt;
use std::str::FromStr;

use serde_json::Value;

use crate::{Field, ParseError, Position};

/// By what a list is sorted; ids decide between what is equal.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Sort {
    keys: Vec<SortKey>,
}

/// One of the fields that a list is sorted by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SortKey {
    /// Where. An array on the way has no value here.
    pub field: Field,
    /// The largest first.
    pub descending: bool,
}

/// A statement needs several expressions for each.
const MAX_KEYS: usize = 8;

impl Sort {
    /// Reads `name, -created` or `name:asc, created:desc`.
    pub fn parse(source: &str) -> Result<Self, ParseError> {
        let mut keys = Vec::new();
        let mut at = 0;
        for part in source.split(',') {
            let error = |message: String| ParseError::new(message, Position::of(source, at));
            keys.push(key(part.trim()).map_err(error)?);
            if keys.len() > MAX_KEYS {
                return Err(error(format!("a list is sorted by at most {MAX_KEYS} fields")));
            }
            at += part.len() + 1;
        }
        Ok(Self { keys })
    }

    /// The fields, the most important one first.
    pub fn keys(&self) -> &[SortKey] {
        &self.keys
    }

    /// What the document is sorted by.
    pub fn values(&self, document: &Value) -> Vec<SortValue> {
        self.keys.iter().map(|key| SortValue::of(at(document, &key.field))).collect()
    }

    /// The order of two documents, each given by its values and its id.
    pub fn compare(&self, left: (&[SortValue], &str), right: (&[SortValue], &str)) -> Ordering {
        let pairs = left.0.iter().zip(right.0).zip(&self.keys);
        let mut found = pairs.map(|((left, right), key)| {
            let found = left.compare(right);
            if key.descending { found.reverse() } else { found }
        });
        found.find(|found| found.is_ne()).unwrap_or_else(|| left.1.cmp(right.1))
    }
}

fn key(text: &str) -> Result<SortKey, String> {
    let (name, direction) = text.split_once(':').map_or((text, None), |(name, direction)| (name, Some(direction)));
    let (name, descending) = match (name.strip_prefix('-'), direction) {
        (Some(name), None) => (name, true),
        (_, Some(direction)) if direction.eq_ignore_ascii_case("desc") => (name, true),
        (_, Some(direction)) if direction.eq_ignore_ascii_case("asc") => (name, false),
        (_, Some(direction)) => return Err(format!("`{direction}` is not a direction; write `asc` or `desc`")),
        (None, None) => (name.strip_prefix('+').unwrap_or(name), false),
    };
    let field = Field::parse(name).map_err(|error| error.to_string())?;
    Ok(SortKey { field, descending })
}

fn at<'d>(document: &'d Value, field: &Field) -> &'d Value {
    let found = field.segments().try_fold(document, |value, name| value.as_object()?.get(name));
    found.unwrap_or(&Value::Null)
}

impl fmt::Display for Sort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, key) in self.keys.iter().enumerate() {
            let comma = if index > 0 { ", " } else { "" };
            write!(f, "{comma}{}:{}", key.field, if key.descending { "desc" } else { "asc" })?;
        }
        Ok(())
    }
}

impl FromStr for Sort {
    type Err = ParseError;

    fn from_str(source: &str) -> Result<Self, ParseError> {
        Self::parse(source)
    }
}

/// What a document is sorted by, in this order of kinds. Texts are sorted by code point.
#[derive(Debug, Clone, PartialEq)]
pub enum SortValue {
    /// Missing or null.
    Nothing,
    /// `false` before `true`.
    Truth(bool),
    /// As doubles.
    Number(f64),
    /// By code point, so capitals come first.
    Text(String),
    /// Arrays and objects, all equal.
    Other,
}

impl SortValue {
    pub(crate) fn of(value: &Value) -> Self {
        match value {
            Value::Null => SortValue::Nothing,
            Value::Bool(value) => SortValue::Truth(*value),
            Value::Number(number) => SortValue::Number(number.as_f64().unwrap_or_default()),
            Value::String(text) => SortValue::Text(text.clone()),
            Value::Array(_) | Value::Object(_) => SortValue::Other,
        }
    }

    pub(crate) fn to_json(&self) -> Value {
        match self {
            SortValue::Nothing => Value::Null,
            SortValue::Truth(value) => Value::Bool(*value),
            SortValue::Number(number) => Value::from(*number),
            SortValue::Text(text) => Value::String(text.clone()),
            SortValue::Other => Value::Object(serde_json::Map::new()),
        }
    }

    /// The place of the kind among the kinds; the SQL of both databases gives the same.
    pub(crate) fn rank(&self) -> i64 {
        match self {
            SortValue::Nothing => 0,
            SortValue::Truth(false) => 1,
            SortValue::Truth(true) => 2,
            SortValue::Number(_) => 3,
            SortValue::Text(_) => 4,
            SortValue::Other => 5,
        }
    }

    fn compare(&self, other: &SortValue) -> Ordering {
        match (self, other) {
            (SortValue::Number(left), SortValue::Number(right)) => left.partial_cmp(right).unwrap_or(Ordering::Equal),
            (SortValue::Text(left), SortValue::Text(right)) => left.cmp(right),
            _ => self.rank().cmp(&other.rank()),
        }
    }
}
