//! Converts a signature to JSON Schema.

use serde_json::{Map, Value as Json, json};

use super::{Parameter, Type};

/// Returns the schema of an object with these fields. Fields without a default are required.
pub(super) fn object(fields: &[Parameter]) -> Json {
    let properties: Map<String, Json> = fields.iter().map(|field| (field.name.clone(), property(field))).collect();
    let required: Vec<&str> =
        fields.iter().filter(|field| field.default.is_none()).map(|field| field.name.as_str()).collect();
    json!({"type": "object", "properties": properties, "required": required})
}

fn property(field: &Parameter) -> Json {
    let mut schema = type_schema(&field.kind);
    let mut add = |key: &str, value: Option<Json>| {
        if let (Json::Object(schema), Some(value)) = (&mut schema, value) {
            schema.insert(key.to_owned(), value);
        }
    };
    add("description", field.description.as_deref().map(Json::from));
    add("enum", (!field.choices.is_empty()).then(|| Json::from(field.choices.clone())));
    add("default", field.default.clone());
    schema
}

fn type_schema(kind: &Type) -> Json {
    match kind {
        Type::Object(Some(fields)) => object(fields),
        Type::Array(Some(item)) => json!({"type": "array", "items": type_schema(item)}),
        _ => json!({"type": kind.schema_name()}),
    }
}
