//! What a tool's definition says about its parameters, for people and for `-p`.

use serde_json::Value;

/// One parameter of a tool.
#[derive(Debug, PartialEq, Eq)]
pub struct Parameter {
    /// Its name.
    pub name: String,
    /// Its type, or `any`.
    pub kind: String,
    /// Whether it must be given.
    pub required: bool,
    /// What it means.
    pub description: String,
}

/// The parameters of a tool, in the order of its definition.
pub fn parameters(tool: &Value) -> Vec<Parameter> {
    let (properties, required) = match tool.get("inputJsonSchema") {
        Some(schema) => (schema.get("properties"), schema.get("required").and_then(Value::as_array)),
        None => (tool.get("inputSchema"), None),
    };
    let is_required = |name: &str, schema: &Value| {
        required.is_some_and(|names| names.iter().any(|other| other == name))
            || schema.get("required") == Some(&Value::Bool(true))
    };
    let parameter = |(name, schema): (&String, &Value)| Parameter {
        name: name.clone(),
        kind: kind(schema),
        required: is_required(name, schema),
        description: schema.get("description").and_then(Value::as_str).unwrap_or_default().to_owned(),
    };
    properties.and_then(Value::as_object).map(|all| all.iter().map(parameter).collect()).unwrap_or_default()
}

/// Whether the definition says that the value at this path is text and nothing else, so that `101` means `"101"`.
pub fn wants_text(tool: &Value, path: &[&str]) -> bool {
    parameter_at(tool, path).and_then(|schema| schema.get("type")).is_some_and(only_text)
}

fn parameter_at<'a>(tool: &'a Value, path: &[&str]) -> Option<&'a Value> {
    let (first, rest) = path.split_first()?;
    let properties = match tool.get("inputJsonSchema") {
        Some(schema) => schema.get("properties")?,
        None => tool.get("inputSchema")?,
    };
    rest.iter().try_fold(properties.get(first)?, |schema, name| schema.get("properties")?.get(name))
}

/// Null is not text, but whoever writes `101` does not mean it.
fn only_text(kind: &Value) -> bool {
    match kind {
        Value::String(kind) => kind == "string",
        Value::Array(kinds) => {
            kinds.iter().all(|kind| kind == "string" || kind == "null") && kinds.iter().any(|kind| kind == "string")
        }
        _ => false,
    }
}

fn kind(schema: &Value) -> String {
    match schema.get("type") {
        Some(Value::String(kind)) => kind.clone(),
        Some(Value::Array(kinds)) => kinds.iter().filter_map(Value::as_str).collect::<Vec<_>>().join("|"),
        _ => "any".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn both_ways_to_write_parameters_are_read() {
        let full = json!({ "inputJsonSchema": { "properties": { "id": { "type": ["string", "null"], "description": "which" }, "x": {} }, "required": ["id"] } });
        let short = json!({ "inputSchema": { "id": { "type": "string", "required": true } } });
        let read =
            |tool: &Value| parameters(tool).into_iter().map(|p| (p.name, p.kind, p.required)).collect::<Vec<_>>();
        assert_eq!(read(&full), [("id".into(), "string|null".into(), true), ("x".into(), "any".into(), false)]);
        assert_eq!(read(&short), [("id".into(), "string".into(), true)]);
        assert!(parameters(&json!({})).is_empty());
    }

    #[test]
    fn text_is_wanted_only_where_nothing_else_fits() {
        let tool = json!({ "inputJsonSchema": { "properties": {
            "id": { "type": "string" },
            "deal": { "type": "object", "properties": { "owner": { "type": ["string", "null"] }, "amount": { "type": ["number", "string"] } } },
        } } });
        assert!(wants_text(&tool, &["id"]) && wants_text(&tool, &["deal", "owner"]));
        for path in [&["deal"][..], &["deal", "amount"], &["deal", "none"], &["none"], &["id", "deeper"], &[]] {
            assert!(!wants_text(&tool, path), "{path:?}");
        }
    }
}
