//! The sort order of lists. Values of different types can be compared, so every list has a definite order.

use std::cmp::Ordering;
use std::fmt;
use std::str::FromStr;

use serde_json::Value;

use crate::{Field, ParseError, Position};

/// The sort order of a list. Documents with equal sort values are ordered by id.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Sort {
    keys: Vec<SortKey>,
}

/// A field that a list is sorted by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SortKey {
    /// The path of the field. If the path leads through an array, the document counts as having no value.
    pub field: Field,
    /// Whether the order is descending.
    pub descending: bool,
}

/// The maximum number of sort keys. Each key adds several expressions to the SQL statement.
const MAX_KEYS: usize = 8;

impl Sort {
    /// Parses a sort order such as `name, -created` or `name:asc, created:desc`.
    pub fn parse(source: &str) -> Result<Self, ParseError> {
        let mut keys = Vec::new();
        let mut offset = 0;
        for part in source.split(',') {
            let error = |message: String| ParseError::new(message, Position::from_offset(source, offset));
            keys.push(key(part.trim()).map_err(error)?);
            if keys.len() > MAX_KEYS {
                return Err(error(format!("a sort order must have at most {MAX_KEYS} fields")));
            }
            offset += part.len() + 1;
        }
        Ok(Self { keys })
    }

    /// The sort keys, most significant first.
    pub fn keys(&self) -> &[SortKey] {
        &self.keys
    }

    /// Returns the sort values of a document.
    pub fn values(&self, document: &Value) -> Vec<SortValue> {
        self.keys.iter().map(|key| SortValue::from_json(offset(document, &key.field))).collect()
    }

    /// Compares two documents by their sort values and then by their ids.
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

fn offset<'d>(document: &'d Value, field: &Field) -> &'d Value {
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

/// A value that a document is sorted by. Values of different types are sorted in the order of these variants.
#[derive(Debug, Clone, PartialEq)]
pub enum SortValue {
    /// Missing or null.
    Missing,
    /// `false` before `true`.
    Bool(bool),
    /// Numbers, compared as doubles.
    Number(f64),
    /// Texts, compared by code point, so upper-case letters come first.
    Text(String),
    /// Arrays and objects. They are all equal to each other.
    Composite,
}

impl SortValue {
    pub(crate) fn from_json(value: &Value) -> Self {
        match value {
            Value::Null => SortValue::Missing,
            Value::Bool(value) => SortValue::Bool(*value),
            Value::Number(number) => SortValue::Number(number.as_f64().unwrap_or_default()),
            Value::String(text) => SortValue::Text(text.clone()),
            Value::Array(_) | Value::Object(_) => SortValue::Composite,
        }
    }

    pub(crate) fn to_json(&self) -> Value {
        match self {
            SortValue::Missing => Value::Null,
            SortValue::Bool(value) => Value::Bool(*value),
            SortValue::Number(number) => Value::from(*number),
            SortValue::Text(text) => Value::String(text.clone()),
            SortValue::Composite => Value::Object(serde_json::Map::new()),
        }
    }

    /// The rank of the type. The SQL of both databases computes the same rank.
    pub(crate) fn rank(&self) -> i64 {
        match self {
            SortValue::Missing => 0,
            SortValue::Bool(false) => 1,
            SortValue::Bool(true) => 2,
            SortValue::Number(_) => 3,
            SortValue::Text(_) => 4,
            SortValue::Composite => 5,
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
