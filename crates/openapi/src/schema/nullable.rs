//! Converts `nullable: true` of OpenAPI 3.0.

use serde_json::{Map, Value, json};

/// Keywords that can reject null although `type` allows it.
const RESTRICTING: [&str; 5] = ["allOf", "anyOf", "oneOf", "$ref", "const"];

/// Returns a schema that also accepts null. Annotations remain in the outer schema, where a model reads them first.
pub(super) fn make_nullable(mut schema: Map<String, Value>) -> Value {
    if RESTRICTING.iter().any(|keyword| schema.contains_key(*keyword)) {
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
