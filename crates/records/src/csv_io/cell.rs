//! Converts JSON values to CSV cells and back.

use serde_json::{Map, Value};
use toolwright_query::Field;

use toolwright_catalog::CompiledType;
use toolwright_catalog::entity_type::field_schema::{self, FieldSchema};

/// A CSV column: a field and the type of its cells.
#[derive(Debug, Clone)]
pub(super) struct Column {
    pub field: Field,
    cell_type: CellType,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CellType {
    Text,
    Number,
    Boolean,
    /// Lists, objects and values of several types.
    Json,
    /// The schema declares no type: a cell that parses as JSON is JSON, any other cell is text.
    Any,
}

impl Column {
    pub(super) fn new(entity_type: &CompiledType, field: Field) -> Self {
        let cell_type = match field_schema::lookup(entity_type.schema.source(), &field, entity_type.managed) {
            FieldSchema::Declared { in_array: true, .. } => CellType::Json,
            FieldSchema::Declared { schema, .. } => cell_type_for(schema),
            FieldSchema::Undeclared => CellType::Any,
            FieldSchema::Forbidden => CellType::Text,
        };
        Self { field, cell_type }
    }

    /// Parses a cell. Returns `None` for an empty cell.
    pub(super) fn read(&self, cell: &str) -> Result<Option<Value>, String> {
        let wrong = |expected: &str| format!("`{}` must be {expected}, got `{}`", self.field, truncate(cell));
        if cell.is_empty() {
            return Ok(None);
        }
        let json = || serde_json::from_str::<Value>(cell.trim()).ok();
        let value = match self.cell_type {
            CellType::Text => Value::from(unescape_formula(cell)),
            CellType::Number => json().filter(Value::is_number).ok_or_else(|| wrong("a number"))?,
            CellType::Boolean => match cell.trim().to_ascii_lowercase().as_str() {
                "true" | "yes" | "1" => Value::Bool(true),
                "false" | "no" | "0" => Value::Bool(false),
                _ => return Err(wrong("true or false")),
            },
            CellType::Json => json().ok_or_else(|| wrong("JSON"))?,
            CellType::Any => parse_any(cell),
        };
        Ok(Some(value))
    }

    /// Formats a record's value for this column as a cell.
    pub(super) fn write(&self, record: &Value) -> String {
        let found = self.field.segments().try_fold(record, |value, name| value.as_object()?.get(name));
        match (found, self.cell_type) {
            (None | Some(Value::Null), _) => String::new(),
            (Some(Value::String(text)), CellType::Text | CellType::Number | CellType::Boolean) => escape_formula(text),
            (Some(Value::String(text)), CellType::Any) => write_any(text),
            (Some(other), _) => other.to_string(),
        }
    }
}

fn cell_type_for(schema: &Value) -> CellType {
    let types: Vec<&str> = field_schema::types(schema).into_iter().filter(|name| *name != "null").collect();
    match types.as_slice() {
        ["string"] => CellType::Text,
        ["integer" | "number"] | ["integer", "number"] | ["number", "integer"] => CellType::Number,
        ["boolean"] => CellType::Boolean,
        [] => untyped(schema),
        _ => CellType::Json,
    }
}

/// The cell type of a schema without `type`: `Text` for an enumeration of strings, otherwise `Any`.
fn untyped(schema: &Value) -> CellType {
    let choices = schema.get("enum").and_then(Value::as_array);
    let texts = choices.is_some_and(|values| values.iter().all(|value| value.is_string() || value.is_null()));
    if texts || schema.get("const").is_some_and(Value::is_string) { CellType::Text } else { CellType::Any }
}

/// Parses a cell of unknown type. A cell such as `007`, `1.50` or a number with too many digits remains text, because a
/// JSON number would not preserve its digits.
fn parse_any(cell: &str) -> Value {
    let keeps = |value: &Value| value.as_number().is_none_or(|number| number.to_string() == cell);
    let json = serde_json::from_str(cell).ok().filter(keeps);
    json.unwrap_or_else(|| Value::from(unescape_formula(cell)))
}

/// Formats a text in a column of unknown type. A text that would parse as another value is written as a JSON string.
fn write_any(text: &str) -> String {
    let (cell, value) = (escape_formula(text), Value::from(text));
    if text.is_empty() || parse_any(&cell) != value { value.to_string() } else { cell }
}

/// Inserts a value at a path and creates the missing objects on the path. Returns false if the path already has a
/// value, or a part of the path is not an object.
pub(super) fn insert_new(target: &mut Map<String, Value>, field: &Field, value: Value) -> bool {
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

/// Sets the value at a path. Values on the path that are not objects are replaced by objects. Null removes the value at
/// the path.
pub(super) fn set_path(target: &mut Map<String, Value>, field: &Field, value: Value) {
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

/// If a cell starts with one of these characters, spreadsheets interpret it as a formula.
const FORMULA_PREFIXES: [char; 6] = ['=', '+', '-', '@', '\t', '\r'];

/// Prefixes a text with `'` if a spreadsheet would interpret it as a formula.
fn escape_formula(text: &str) -> String {
    if text.starts_with(FORMULA_PREFIXES) || is_escaped(text) { format!("'{text}") } else { text.to_owned() }
}

/// Removes the prefix that [`escape_formula`] added.
fn unescape_formula(cell: &str) -> &str {
    if is_escaped(cell) { cell.get(1..).unwrap_or_default() } else { cell }
}

/// Whether a text consists of one or more `'` followed by a formula. Such a text is escaped too, so that unescaping
/// returns the original text.
fn is_escaped(text: &str) -> bool {
    text.starts_with('\'') && text.trim_start_matches('\'').starts_with(FORMULA_PREFIXES)
}

fn truncate(cell: &str) -> String {
    cell.chars().take(40).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn column(schema: Value) -> Column {
        let field = Field::parse("x").unwrap();
        Column { field, cell_type: cell_type_for(&schema) }
    }

    #[test]
    fn json_values_in_untyped_csv_columns_round_trip() {
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
        fn random_text_in_untyped_csv_column_round_trips(text in "[\"'=+\\-@\\[\\]{}0-9a-ctrue \t\r\n\\\\]{0,12}") {
            let column = column(json!({}));
            let cell = column.write(&json!({ "x": text }));
            prop_assert_eq!(column.read(&cell).unwrap(), Some(Value::from(text)));
        }
    }

    #[test]
    fn escaped_text_does_not_start_with_a_formula_character_and_round_trips() {
        for text in ["=1+1", "-5", "@x", "'=1", "''=1", "'", "it's", "\tx", "+", "plain", "'quoted'"] {
            let cell = escape_formula(text);
            assert!(!cell.starts_with(FORMULA_PREFIXES), "{cell}");
            assert_eq!(unescape_formula(&cell), text);
        }
    }
}
