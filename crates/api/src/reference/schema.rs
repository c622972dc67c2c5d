//! Renders JSON Schemas of the reference: a short form for tables, and a table of properties.

use std::fmt::Write as _;

use serde_json::Value;

use super::{escape, text};

/// The depth to which a summary shows nested schemas without a name.
const MAX_DEPTH: usize = 3;
/// The number of constants that a summary lists.
const MAX_CONSTANTS: usize = 12;

/// Writes a paragraph of text. Text between backticks becomes code.
pub(super) fn description(page: &mut String, text: &str) {
    if text.is_empty() {
        return;
    }
    page.push_str("<p>");
    for (index, part) in text.split('`').enumerate() {
        let part = escape(part);
        match index % 2 {
            0 => page.push_str(&part),
            _ => {
                let _ = write!(page, "<code>{part}</code>");
            }
        }
    }
    page.push_str("</p>");
}

/// Writes the type of a schema in a few words, with a link if the schema has a name.
pub(super) fn schema_summary(page: &mut String, schema: &Value) {
    summary(page, schema, 0);
}

fn summary(page: &mut String, schema: &Value, depth: usize) {
    if let Some(name) = text(schema, "/$ref").strip_prefix("#/components/schemas/") {
        let name = escape(name);
        let _ = write!(page, "<a href=\"#schema-{name}\">{name}</a>");
        return;
    }
    if depth >= MAX_DEPTH {
        page.push('…');
        return;
    }
    let alternatives = ["oneOf", "anyOf"].iter().find_map(|key| schema.get(key)?.as_array());
    if let Some(alternatives) = alternatives {
        separated(page, alternatives, " or ", |page, part| summary(page, part, depth + 1));
    } else if let Some(parts) = schema.get("allOf").and_then(Value::as_array) {
        separated(page, parts, " and ", |page, part| summary(page, part, depth + 1));
    } else if let Some(constants) = schema.get("enum").and_then(Value::as_array) {
        let shown = constants.get(..MAX_CONSTANTS.min(constants.len())).unwrap_or_default();
        separated(page, shown, " · ", constant);
        if shown.len() < constants.len() {
            page.push_str(" · …");
        }
    } else if let Some(value) = schema.get("const") {
        constant(page, value);
    } else if let Some(items) = schema.get("items") {
        page.push_str("array of ");
        summary(page, items, depth + 1);
    } else {
        page.push_str(&escape(&type_names(schema)));
        if let Some(values) = schema.get("additionalProperties").filter(|values| values.is_object()) {
            page.push_str(" with values ");
            summary(page, values, depth + 1);
        }
    }
}

fn constant(page: &mut String, value: &Value) {
    let _ = write!(page, "<code>{}</code>", escape(value.as_str().unwrap_or(&value.to_string())));
}

fn separated<T>(page: &mut String, items: &[T], separator: &str, mut write: impl FnMut(&mut String, &T)) {
    for (index, item) in items.iter().enumerate() {
        if index > 0 {
            page.push_str(separator);
        }
        write(page, item);
    }
}

fn type_names(schema: &Value) -> String {
    let names = match schema.get("type") {
        Some(Value::String(name)) => name.clone(),
        Some(Value::Array(names)) => names.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(" or "),
        _ => "any value".to_owned(),
    };
    match schema.get("format").and_then(Value::as_str) {
        Some(format) => format!("{names} ({format})"),
        None => names,
    }
}

/// Writes the description and the properties of a named schema.
pub(super) fn schema_table(page: &mut String, schema: &Value) {
    description(page, text(schema, "/description"));
    let Some(properties) = schema.get("properties").and_then(Value::as_object) else {
        page.push_str("<p>");
        schema_summary(page, schema);
        page.push_str("</p>");
        return;
    };
    let required: Vec<&str> =
        schema.get("required").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str).collect();
    page.push_str("<table>");
    for (name, property) in properties {
        let mark = if required.contains(&name.as_str()) { " <i>required</i>" } else { "" };
        let _ = write!(page, "<tr><td><code>{}</code>{mark}<td>", escape(name));
        schema_summary(page, property);
        page.push_str("<td>");
        description(page, text(property, "/description"));
    }
    page.push_str("</table>");
}
