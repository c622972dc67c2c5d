//! What a definition says, as labelled lines.

use serde_json::Value;
use toolwright_types::Timestamp;

use super::failure::Failure;
use super::output::{Output, plain};
use super::time::minute;

/// Prints those facts that there are, their labels aligned.
pub fn show(output: &Output, facts: &[(&str, String)]) -> Result<(), Failure> {
    let told = || facts.iter().filter(|(_, value)| !value.is_empty());
    let wide = told().map(|(label, _)| label.len()).max().unwrap_or_default();
    let line = |(label, value): &(&str, String)| format!("{}  {value}", output.out.dim(format!("{label:<wide$}")));
    Ok(output.lines(told().map(line))?)
}

/// A field as text on one line; empty when absent.
pub fn text(view: &Value, field: &str) -> String {
    match view.get(field) {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(text)) => plain(text),
        Some(Value::Array(items)) => plain(&items.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(", ")),
        Some(other) => plain(&other.to_string()),
    }
}

/// Which writing of the definition this is.
pub fn revision(view: &Value) -> String {
    match (text(view, "source").as_str(), moment(view, "updatedAt")) {
        ("built-in", _) | (_, None) => "part of the server".to_owned(),
        (_, Some(at)) => format!("{}, {} by {}", text(view, "revision"), minute(at), text(view, "updatedBy")),
    }
}

/// A field that is a moment.
pub fn moment(view: &Value, field: &str) -> Option<Timestamp> {
    view.get(field).and_then(Value::as_str).and_then(|at| at.parse().ok())
}
