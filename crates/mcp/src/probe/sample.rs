//! Creates sample values for a JSON Schema. A probe calls tools with these values.

use rmcp::model::{JsonObject, Tool};
use serde_json::{Map, Value, json};

/// Sample arguments for the required properties of a tool.
pub(super) fn arguments(tool: &Tool) -> Option<JsonObject> {
    let properties = tool.input_schema.get("properties").and_then(Value::as_object)?;
    let required = tool.input_schema.get("required").and_then(Value::as_array)?;
    let names = required.iter().filter_map(Value::as_str);
    let values = names.map(|name| (name.to_owned(), value(properties.get(name).unwrap_or(&Value::Null))));
    Some(values.collect())
}

/// Returns values for a form: the defaults, and sample values for required fields without a default.
pub(super) fn form_values(schema: &Value) -> Map<String, Value> {
    let required: Vec<&str> = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let properties = schema["properties"].as_object().into_iter().flatten();
    let form_values = properties.filter_map(|(name, property)| match property.get("default") {
        Some(default) => Some((name.clone(), default.clone())),
        None => required.contains(&name.as_str()).then(|| (name.clone(), value(property))),
    });
    form_values.collect()
}

fn value(schema: &Value) -> Value {
    if let Some(example) = schema.get("default").or_else(|| schema.get("const")).or_else(|| schema.pointer("/enum/0")) {
        return example.clone();
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
    fn sample_arguments_contain_only_required_properties() {
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
    fn sample_form_contains_defaults_and_required_fields() {
        let schema = json!({
            "properties": { "name": { "type": "string", "default": "Ada" }, "age": { "type": "integer" }, "note": { "type": "string" } },
            "required": ["age"],
        });
        assert_eq!(Value::Object(form_values(&schema)), json!({ "name": "Ada", "age": 1 }));
    }
}
