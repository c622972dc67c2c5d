//! One value in one cell, both ways.

use serde_json::{Map, Value};
use toolwright_query::Field;

use super::super::CompiledType;
use super::super::shape::{self, Shape};

/// A column: the field, and how its cells are read.
#[derive(Debug, Clone)]
pub(super) struct Column {
    pub field: Field,
    reading: Reading,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reading {
    Text,
    Number,
    Truth,
    /// Lists, objects, and what may be of several kinds.
    Json,
}

impl Column {
    pub fn new(of: &CompiledType, field: Field) -> Self {
        let reading = match shape::at(of.schema.source(), &field, of.managed) {
            Shape::Known { in_list: true, .. } => Reading::Json,
            Shape::Known { schema, .. } => reading(schema),
            Shape::Open | Shape::Impossible => Reading::Text,
        };
        Self { field, reading }
    }

    /// The value that a cell stands for; an empty one stands for none.
    pub fn read(&self, cell: &str) -> Result<Option<Value>, String> {
        let wrong = |wanted: &str| format!("`{}`: `{}` is {wanted}", self.field, brief(cell));
        if cell.is_empty() {
            return Ok(None);
        }
        let json = || serde_json::from_str::<Value>(cell.trim()).ok();
        let value = match self.reading {
            Reading::Text => Value::from(unguarded(cell)),
            Reading::Number => json().filter(Value::is_number).ok_or_else(|| wrong("no number"))?,
            Reading::Truth => match cell.trim().to_ascii_lowercase().as_str() {
                "true" | "yes" | "1" => Value::Bool(true),
                "false" | "no" | "0" => Value::Bool(false),
                _ => return Err(wrong("neither true nor false")),
            },
            Reading::Json => json().ok_or_else(|| wrong("not JSON"))?,
        };
        Ok(Some(value))
    }

    /// The cell for a record.
    pub fn write(&self, record: &Value) -> String {
        let found = self.field.segments().try_fold(record, |value, name| value.as_object()?.get(name));
        match (found, self.reading) {
            (None | Some(Value::Null), _) => String::new(),
            (Some(Value::String(text)), Reading::Text | Reading::Number | Reading::Truth) => guarded(text),
            (Some(other), _) => other.to_string(),
        }
    }
}

fn reading(schema: &Value) -> Reading {
    let types: Vec<&str> = shape::types(schema).into_iter().filter(|name| *name != "null").collect();
    match types.as_slice() {
        ["string"] => Reading::Text,
        ["integer" | "number"] | ["integer", "number"] | ["number", "integer"] => Reading::Number,
        ["boolean"] => Reading::Truth,
        [] => Reading::Text,
        _ => Reading::Json,
    }
}

/// Puts a value at a path, making the objects on the way. False if something else is there.
pub(super) fn put(target: &mut Map<String, Value>, field: &Field, value: Value) -> bool {
    let mut names: Vec<&str> = field.segments().collect();
    let Some(last) = names.pop() else { return false };
    let mut here = target;
    for name in names {
        let next = here.entry(name).or_insert_with(|| Value::Object(Map::new()));
        match next.as_object_mut() {
            Some(fields) => here = fields,
            None => return false,
        }
    }
    here.insert(last.to_owned(), value).is_none()
}

/// Puts a value at a path of what is there, in the place of whatever stands in its way; null takes it away.
pub(super) fn place(target: &mut Map<String, Value>, field: &Field, value: Value) {
    let mut names: Vec<&str> = field.segments().collect();
    let Some(last) = names.pop() else { return };
    let mut here = target;
    for name in names {
        let next = here.entry(name).or_insert(Value::Null);
        if !next.is_object() {
            *next = Value::Object(Map::new());
        }
        let Some(fields) = next.as_object_mut() else { return };
        here = fields;
    }
    match value {
        Value::Null => drop(here.shift_remove(last)),
        value => drop(here.insert(last.to_owned(), value)),
    }
}

/// What spreadsheets would take for a formula.
const FORMULA: [char; 6] = ['=', '+', '-', '@', '\t', '\r'];

/// A text that no spreadsheet computes.
fn guarded(text: &str) -> String {
    if text.starts_with(FORMULA) || is_guarded(text) { format!("'{text}") } else { text.to_owned() }
}

/// The text without the guard.
fn unguarded(cell: &str) -> &str {
    if is_guarded(cell) { cell.get(1..).unwrap_or_default() } else { cell }
}

/// Quotes before something that is guarded, so that what had one keeps it.
fn is_guarded(text: &str) -> bool {
    text.starts_with('\'') && text.trim_start_matches('\'').starts_with(FORMULA)
}

fn brief(cell: &str) -> String {
    cell.chars().take(40).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_text_is_a_formula_and_every_text_comes_back() {
        for text in ["=1+1", "-5", "@x", "'=1", "''=1", "'", "it's", "\tx", "+", "plain", "'quoted'"] {
            let cell = guarded(text);
            assert!(!cell.starts_with(FORMULA), "{cell}");
            assert_eq!(unguarded(&cell), text);
        }
    }
}
