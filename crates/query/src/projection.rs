//! Parts of documents: `+name, -secret`.

use std::fmt;
use std::str::FromStr;

use serde_json::{Map, Value};

use crate::{Field, ParseError, syntax};

/// Which fields of a document are handed out. With any `+`, only those; then without those of `-`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Projection {
    /// In the order they were written; `true` for `-`.
    fields: Vec<(Field, bool)>,
}

impl Projection {
    /// Reads `+a, -b.c`, in brackets or not. A name without a sign counts as `+`.
    pub fn parse(source: &str) -> Result<Self, ParseError> {
        syntax::fields(source).map_err(|error| error.locate(source))
    }

    pub(crate) fn push(&mut self, field: Field, leave_out: bool) {
        self.fields.push((field, leave_out));
    }

    /// Adds the fields of another, which are below `within`.
    pub(crate) fn extend(&mut self, within: &str, other: &Projection) {
        let prefix = within.replace("[*]", "");
        for (field, leave_out) in &other.fields {
            // A path may become too long to be a field; no document is as deep, so there is nothing to hand out or hide.
            if let Ok(field) = Field::parse(&format!("{prefix}{field}")) {
                self.push(field, *leave_out);
            }
        }
    }

    /// The document with only what is asked for. What is not an object stays as it is.
    pub fn apply(&self, document: &Value) -> Value {
        let kept: Vec<&Field> = self.fields.iter().filter(|(_, out)| !out).map(|(field, _)| field).collect();
        let mut result = if kept.is_empty() { document.clone() } else { keep(document, &segments(&kept)) };
        for (field, _) in self.fields.iter().filter(|(_, out)| *out) {
            remove(&mut result, &field.segments().collect::<Vec<_>>());
        }
        result
    }
}

fn segments<'f>(fields: &[&'f Field]) -> Vec<Vec<&'f str>> {
    fields.iter().map(|field| field.segments().collect()).collect()
}

fn keep(value: &Value, paths: &[Vec<&str>]) -> Value {
    match value {
        Value::Array(items) => items.iter().map(|item| keep(item, paths)).collect(),
        Value::Object(fields) => Value::Object(fields.iter().filter_map(|field| keep_field(field, paths)).collect()),
        other => other.clone(),
    }
}

fn keep_field((name, value): (&String, &Value), paths: &[Vec<&str>]) -> Option<(String, Value)> {
    let below: Vec<Vec<&str>> = paths
        .iter()
        .filter_map(|path| path.split_first().filter(|(first, _)| **first == name.as_str()))
        .map(|(_, rest)| rest.to_vec())
        .collect();
    let whole = below.iter().any(Vec::is_empty);
    match value {
        _ if below.is_empty() => None,
        _ if whole => Some((name.clone(), value.clone())),
        Value::Object(_) | Value::Array(_) => Some((name.clone(), keep(value, &below))),
        // The path goes on below a value that has nothing below it.
        _ => None,
    }
}

fn remove(value: &mut Value, path: &[&str]) {
    match (value, path) {
        (Value::Array(items), _) => items.iter_mut().for_each(|item| remove(item, path)),
        (Value::Object(fields), [last]) => remove_name(fields, last),
        (Value::Object(fields), [first, rest @ ..]) => {
            if let Some(inner) = fields.get_mut(*first) {
                remove(inner, rest);
            }
        }
        _ => {}
    }
}

/// Keeps the order of the others.
fn remove_name(fields: &mut Map<String, Value>, name: &str) {
    fields.shift_remove(name);
}

impl fmt::Display for Projection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (field, leave_out)) in self.fields.iter().enumerate() {
            let comma = if index > 0 { ", " } else { "" };
            write!(f, "{comma}{}{field}", if *leave_out { '-' } else { '+' })?;
        }
        Ok(())
    }
}

impl FromStr for Projection {
    type Err = ParseError;

    fn from_str(source: &str) -> Result<Self, ParseError> {
        Self::parse(source)
    }
}
