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
    /// What the schema leaves open: JSON where it is some, else text.
    Any,
}

impl Column {
    pub fn new(of: &CompiledType, field: Field) -> Self {
        let reading = match shape::at(of.schema.source(), &field, of.managed) {
            Shape::Known { in_list: true, .. } => Reading::Json,
            Shape::Known { schema, .. } => reading(schema),
            Shape::Open => Reading::Any,
            Shape::Impossible => Reading::Text,
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
            Reading::Any => any(cell),
        };
        Ok(Some(value))
    }

    /// The cell for a record.
    pub fn write(&self, record: &Value) -> String {
        let found = self.field.segments().try_fold(record, |value, name| value.as_object()?.get(name));
        match (found, self.reading) {
            (None | Some(Value::Null), _) => String::new(),
            (Some(Value::String(text)), Reading::Text | Reading::Number | Reading::Truth) => guarded(text),
            (Some(Value::String(text)), Reading::Any) => told(text),
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
        [] => untyped(schema),
        _ => Reading::Json,
    }
}

/// Without a type a choice of texts is text; everything else may be of any kind.
fn untyped(schema: &Value) -> Reading {
    let choices = schema.get("enum").and_then(Value::as_array);
    let texts = choices.is_some_and(|values| values.iter().all(|value| value.is_string() || value.is_null()));
    if texts || schema.get("const").is_some_and(Value::is_string) { Reading::Text } else { Reading::Any }
}

/// What a cell of any kind holds. Digits that a number would not keep are text: `007`, `1.50`, and what is too long.
fn any(cell: &str) -> Value {
    let keeps = |value: &Value| value.as_number().is_none_or(|number| number.to_string() == cell);
    let json = serde_json::from_str(cell).ok().filter(keeps);
    json.unwrap_or_else(|| Value::from(unguarded(cell)))
}

/// A text in a cell of any kind. One that would be read as something else is written as JSON, in its quotes.
fn told(text: &str) -> String {
    let (cell, value) = (guarded(text), Value::from(text));
    if text.is_empty() || any(&cell) != value { value.to_string() } else { cell }
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
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn column(schema: Value) -> Column {
        let field = Field::parse("x").unwrap();
        Column { field, reading: reading(&schema) }
    }

    #[test]
    fn what_the_schema_leaves_open_comes_back_as_it_was() {
        let object = json!({ "anyOf": [{ "type": "object" }, { "type": "string" }] });
        for schema in [json!({}), json!(true), object, json!({ "description": "Anything." })] {
            let column = column(schema);
            for value in [
                json!({ "a": [1, null, { "b": "c" }] }),
                json!([]),
                json!(-5),
                json!(1.5),
                json!(true),
                json!("plain, with a comma"),
                json!("true"),
                json!("12"),
                json!("-5"),
                json!("'-5"),
                json!("=1+1"),
                json!("null"),
                json!(" 7 "),
                json!("007"),
                json!("1.50"),
                json!("12345678901234567890123"),
                json!("[1]"),
                json!("\"quoted\""),
                json!("\"half"),
                json!(""),
            ] {
                let cell = column.write(&json!({ "x": value }));
                assert_eq!(column.read(&cell).unwrap(), Some(value), "{cell}");
            }
        }
        let choice = column(json!({ "enum": ["1", "a", null] }));
        assert_eq!(choice.read("1").unwrap(), Some(json!("1")));
    }

    proptest! {
        #[test]
        fn every_text_of_an_open_field_comes_back(text in "[\"'=+\\-@\\[\\]{}0-9a-ctrue \t\r\n\\\\]{0,12}") {
            let column = column(json!({}));
            let cell = column.write(&json!({ "x": text }));
            prop_assert_eq!(column.read(&cell).unwrap(), Some(Value::from(text)));
        }
    }

    #[test]
    fn no_text_is_a_formula_and_every_text_comes_back() {
        for text in ["=1+1", "-5", "@x", "'=1", "''=1", "'", "it's", "\tx", "+", "plain", "'quoted'"] {
            let cell = guarded(text);
            assert!(!cell.starts_with(FORMULA), "{cell}");
            assert_eq!(unguarded(&cell), text);
        }
    }
}
