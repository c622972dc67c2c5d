//! Formats fields of JSON views as text, and prints them as labeled lines.

use serde::Serialize;
use serde_json::Value;
use toolwright_types::Timestamp;

use super::failure::Failure;
use super::output::{Output, sanitize_line, wrap};
use super::time::format_minute;

/// Prints the non-empty fields with aligned labels.
pub(super) fn print_labeled(output: &Output, fields: &[(&str, String)]) -> Result<(), Failure> {
    let present = || fields.iter().filter(|(_, value)| !value.is_empty());
    let width = present().map(|(label, _)| label.len()).max().unwrap_or_default();
    let line = |(label, value): &(&str, String)| {
        let line = format!("{}  {value}", output.out.dim(format!("{label:<width$}")));
        wrap(&line, output.width, width + 2)
    };
    Ok(output.lines(present().map(line))?)
}

/// Returns a field as text on one line; empty if it is absent.
pub(super) fn text(view: &Value, field: &str) -> String {
    match view.get(field) {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(text)) => sanitize_line(text),
        Some(Value::Array(items)) => {
            sanitize_line(&items.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(", "))
        }
        Some(other) => sanitize_line(&other.to_string()),
    }
}

/// Returns the name that an enum value has in JSON.
pub(super) fn wire_name(value: impl Serialize) -> String {
    match serde_json::to_value(value) {
        Ok(Value::String(name)) => name,
        _ => String::new(),
    }
}

/// Formats the revision of a definition.
pub(super) fn revision(view: &Value) -> String {
    match (text(view, "source").as_str(), timestamp(view, "updatedAt")) {
        ("built-in", _) | (_, None) => "built-in".to_owned(),
        (_, Some(at)) => format!("{}, {} by {}", text(view, "revision"), format_minute(at), text(view, "updatedBy")),
    }
}

/// Parses a field as a timestamp.
pub(super) fn timestamp(view: &Value, field: &str) -> Option<Timestamp> {
    view.get(field).and_then(Value::as_str).and_then(|at| at.parse().ok())
}
