//! `nullable: true` of OpenAPI 3.0.

use serde_json::{Map, Value, json};

/// Keywords that refuse null whatever `type` says.
const STRICT: [&str; 5] = ["allOf", "anyOf", "oneOf", "$ref", "const"];

/// The schema, or null. A description stays outside, where a model sees it first.
pub(super) fn or_null(mut schema: Map<String, Value>) -> Value {
    if STRICT.iter().any(|keyword| schema.contains_key(*keyword)) {
        let mut outer = Map::new();
        for keyword in ["description", "deprecated", "default", "examples"] {
            if let Some(value) = schema.shift_remove(keyword) {
                outer.insert(keyword.into(), value);
            }
        }
        outer.insert("anyOf".into(), json!([schema, { "type": "null" }]));
        return Value::Object(outer);
    }
    if let Some(Value::Array(choices)) = schema.get_mut("enum")
        && !choices.contains(&Value::Null)
    {
        choices.push(Value::Null);
    }
    match schema.get_mut("type") {
        Some(Value::Array(names)) if !names.iter().any(|name| name == "null") => names.push(json!("null")),
        Some(one @ Value::String(_)) if *one != "null" => *one = json!([one.take(), "null"]),
        _ => {}
    }
    Value::Object(schema)
}
