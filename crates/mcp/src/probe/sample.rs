//! Values that fit a schema well enough to try a tool with them.

use rmcp::model::{JsonObject, Tool};
use serde_json::{Map, Value, json};

/// Arguments for a tool: what it needs, and nothing else.
pub(super) fn arguments(tool: &Tool) -> Option<JsonObject> {
    let properties = tool.input_schema.get("properties").and_then(Value::as_object)?;
    let required = tool.input_schema.get("required").and_then(Value::as_array)?;
    let needed = required.iter().filter_map(Value::as_str);
    let values = needed.map(|name| (name.to_owned(), value(properties.get(name).unwrap_or(&Value::Null))));
    Some(values.collect())
}

/// What a form suggests: its defaults, and values for what has none and is needed.
pub(super) fn suggested(schema: &Value) -> Map<String, Value> {
    let required: Vec<&str> = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let properties = schema["properties"].as_object().into_iter().flatten();
    let suggested = properties.filter_map(|(name, property)| match property.get("default") {
        Some(default) => Some((name.clone(), default.clone())),
        None => required.contains(&name.as_str()).then(|| (name.clone(), value(property))),
    });
    suggested.collect()
}

fn value(schema: &Value) -> Value {
    if let Some(known) = schema.get("default").or_else(|| schema.get("const")).or_else(|| schema.pointer("/enum/0")) {
        return known.clone();
    }
    let kind = match &schema["type"] {
        Value::Array(kinds) => kinds.first().and_then(Value::as_str),
        kind => kind.as_str(),
    };
    match kind {
        Some("number" | "integer") => json!(1),
        Some("string") => json!("test"),
        Some("boolean") => json!(true),
        Some("array") => json!([]),
        Some("object") => json!({}),
        _ => Value::Null,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_what_is_needed() {
        let schema = json!({
            "type": "object",
            "properties": { "a": { "type": "number" }, "b": { "enum": ["x", "y"] }, "c": { "type": "string" } },
            "required": ["a", "b"],
        });
        let schema: JsonObject = serde_json::from_value(schema).unwrap();
        let arguments = arguments(&Tool::new("t", "", schema)).unwrap();
        assert_eq!(Value::Object(arguments), json!({ "a": 1, "b": "x" }));
    }

    #[test]
    fn a_form_is_filled_with_its_defaults() {
        let schema = json!({
            "properties": { "name": { "type": "string", "default": "Ada" }, "age": { "type": "integer" }, "note": { "type": "string" } },
            "required": ["age"],
        });
        assert_eq!(Value::Object(suggested(&schema)), json!({ "name": "Ada", "age": 1 }));
    }
}
