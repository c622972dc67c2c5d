//! Projections of documents: `+name, -secret`.

use std::fmt;

use serde_json::{Map, Value};

use crate::Field;

/// Selects the fields of a document that are returned, in the form `+name, -secret`. If there are fields with `+`, only
/// these are returned. Fields with `-` are removed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Projection {
    /// The fields in the order of the text. The flag is `true` for a field with `-`.
    fields: Vec<(Field, bool)>,
}

impl Projection {
    pub(crate) fn push(&mut self, field: Field, exclude: bool) {
        self.fields.push((field, exclude));
    }

    /// Adds the fields of another projection. Their paths are relative to `within`.
    pub(crate) fn extend(&mut self, within: &str, other: &Projection) {
        let prefix = within.replace("[*]", "");
        for (field, exclude) in &other.fields {
            // If the joined path has more names than a path may have, the field is ignored.
            if let Ok(field) = Field::parse(&format!("{prefix}{field}")) {
                self.push(field, *exclude);
            }
        }
    }

    /// Applies the projection to a document. Values that are not objects remain unchanged.
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
        // The path continues, but the value has no fields.
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

/// Removes a field and preserves the order of the others.
fn remove_name(fields: &mut Map<String, Value>, name: &str) {
    fields.shift_remove(name);
}

impl fmt::Display for Projection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (field, exclude)) in self.fields.iter().enumerate() {
            let comma = if index > 0 { ", " } else { "" };
            write!(f, "{comma}{}{field}", if *exclude { '-' } else { '+' })?;
        }
        Ok(())
    }
}
