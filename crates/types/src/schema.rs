//! Parameters by name: the short way to write a JSON Schema.

use indexmap::IndexMap;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

/// One parameter, in the short form.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ParameterDefinition {
    /// Its name; the key in the map when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Its type; anything when absent.
    #[serde(default, rename = "type", skip_serializing_if = "Option::is_none")]
    pub kind: Option<ParameterType>,
    /// What it means, for a model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Whether it must be given.
    #[serde(default, deserialize_with = "crate::tool::or_default")]
    pub required: bool,
    /// The value when it is not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default_value: Option<Value>,
    /// The values it may have.
    #[serde(default, deserialize_with = "crate::tool::or_default", skip_serializing_if = "Vec::is_empty")]
    pub enum_values: Vec<Value>,
    /// A `$ref` to a fuller schema.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub json_schema_ref: Option<String>,
}

/// The type of a parameter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum ParameterType {
    /// Text.
    String,
    /// Any number.
    Number,
    /// A whole number.
    Integer,
    /// True or false.
    Boolean,
    /// Fields by name.
    Object,
    /// A list.
    Array,
}

/// The JSON Schema that `parameters` abbreviate.
pub fn schema_of_parameters(parameters: &IndexMap<String, ParameterDefinition>) -> Value {
    let mut properties = Map::new();
    let mut required = Vec::new();
    for (key, parameter) in parameters {
        let name = parameter.name.as_ref().unwrap_or(key);
        if parameter.required {
            required.push(Value::from(name.as_str()));
        }
        properties.insert(name.clone(), schema_of(parameter));
    }
    let mut schema = json!({ "type": "object", "properties": properties });
    if let (false, Some(fields)) = (required.is_empty(), schema.as_object_mut()) {
        fields.insert("required".into(), Value::Array(required));
    }
    schema
}

fn schema_of(parameter: &ParameterDefinition) -> Value {
    let mut schema = Map::new();
    if let Some(kind) = parameter.kind {
        schema.insert("type".into(), json!(kind));
    }
    if let Some(description) = &parameter.description {
        schema.insert("description".into(), json!(description));
    }
    if !parameter.enum_values.is_empty() {
        let values: Vec<Value> = parameter.enum_values.iter().map(|value| typed(parameter.kind, value)).collect();
        schema.insert("enum".into(), Value::Array(values));
    }
    if let Some(default) = &parameter.default_value {
        schema.insert("default".into(), default.clone());
    }
    if let Some(reference) = &parameter.json_schema_ref {
        schema.insert("$ref".into(), json!(reference));
    }
    Value::Object(schema)
}

/// Enumerated values are often written as text; a number or boolean is meant as what it spells.
fn typed(kind: Option<ParameterType>, value: &Value) -> Value {
    let spelled = || value.as_str().and_then(|text| serde_json::from_str::<Value>(text).ok());
    let fits = |candidate: &Value| match kind {
        Some(ParameterType::Number) => candidate.is_number(),
        Some(ParameterType::Integer) => candidate.is_i64() || candidate.is_u64(),
        Some(ParameterType::Boolean) => candidate.is_boolean(),
        _ => false,
    };
    spelled().filter(fits).unwrap_or_else(|| value.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_become_a_schema() {
        let parameters: IndexMap<String, ParameterDefinition> = serde_json::from_value(json!({
            "state": { "type": "string", "description": "two letters", "required": true },
            "limit": { "type": "integer", "defaultValue": 10, "enumValues": ["10", "20"] },
            "x": { "name": "address", "type": "object", "jsonSchemaRef": "#/$defs/address" },
        }))
        .unwrap();
        assert_eq!(
            schema_of_parameters(&parameters),
            json!({
                "type": "object",
                "properties": {
                    "state": { "type": "string", "description": "two letters" },
                    "limit": { "type": "integer", "enum": [10, 20], "default": 10 },
                    "address": { "type": "object", "$ref": "#/$defs/address" },
                },
                "required": ["state"],
            })
        );
    }
}
