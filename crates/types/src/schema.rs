//! Converts parameter definitions, a short form for simple schemas, to JSON Schema.

use indexmap::IndexMap;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

/// A parameter in the short form.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ParameterDefinition {
    /// The name. Default: the key in the map.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The type. Default: any type.
    #[serde(default, rename = "type", skip_serializing_if = "Option::is_none")]
    pub kind: Option<ParameterType>,
    /// The meaning of the parameter, shown to the model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Whether the parameter is required.
    #[serde(default, deserialize_with = "crate::nullable::null_as_default")]
    pub required: bool,
    /// The default value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default_value: Option<Value>,
    /// The allowed values.
    #[serde(default, deserialize_with = "crate::nullable::null_as_default", skip_serializing_if = "Vec::is_empty")]
    pub enum_values: Vec<Value>,
    /// A reference to the schema of a complex value: the name of an entity type, or a pointer such as `#/$defs/address`
    /// into the `$defs` of `inputJsonSchema` (or `outputJsonSchema`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub json_schema_ref: Option<String>,
}

/// The type of a parameter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "lowercase")]
pub enum ParameterType {
    /// A string.
    String,
    /// A number.
    Number,
    /// An integer.
    Integer,
    /// A boolean.
    Boolean,
    /// An object.
    Object,
    /// An array.
    Array,
}

/// Expands parameters to a JSON Schema. Each entity type that a parameter refers to is an entry in `$defs`; see
/// [`set_type_schema`].
pub fn schema_of_parameters(parameters: &IndexMap<String, ParameterDefinition>) -> Value {
    let mut properties = Map::new();
    let mut required = Vec::new();
    for (key, parameter) in parameters {
        let name = parameter.name.as_ref().unwrap_or(key);
        if parameter.required {
            required.push(Value::from(name.as_str()));
        }
        properties.insert(name.clone(), parameter_schema(parameter));
    }
    let mut schema =
        Map::from_iter([("type".to_owned(), json!("object")), ("properties".to_owned(), properties.into())]);
    if !required.is_empty() {
        schema.insert("required".into(), Value::Array(required));
    }
    // An entity type accepts no value until its schema is set.
    let types: Map<String, Value> =
        referenced_types(parameters).map(|name| (definition_name(name), json!(false))).collect();
    if !types.is_empty() {
        schema.insert("$defs".into(), types.into());
    }
    Value::Object(schema)
}

fn parameter_schema(parameter: &ParameterDefinition) -> Value {
    let mut schema = Map::new();
    if let Some(kind) = parameter.kind {
        schema.insert("type".into(), json!(kind));
    }
    if let Some(description) = &parameter.description {
        schema.insert("description".into(), json!(description));
    }
    if !parameter.enum_values.is_empty() {
        let values: Vec<Value> =
            parameter.enum_values.iter().map(|value| coerce_enum_value(parameter.kind, value)).collect();
        schema.insert("enum".into(), Value::Array(values));
    }
    if let Some(default) = &parameter.default_value {
        schema.insert("default".into(), default.clone());
    }
    if let Some(reference) = &parameter.json_schema_ref {
        let pointer = if reference.starts_with('#') { reference.clone() } else { definition_pointer(reference) };
        schema.insert("$ref".into(), json!(pointer));
    }
    Value::Object(schema)
}

/// Returns the names of the entity types that the parameters refer to.
pub fn referenced_types(parameters: &IndexMap<String, ParameterDefinition>) -> impl Iterator<Item = &str> {
    parameters
        .values()
        .filter_map(|parameter| parameter.json_schema_ref.as_deref())
        .filter(|name| !name.starts_with('#'))
}

/// Sets the schema of an entity type in a schema that [`schema_of_parameters`] returned.
pub fn set_type_schema(schema: &mut Value, name: &str, mut type_schema: Value) {
    move_references(&mut type_schema, &definition_pointer(name));
    if let Some(definitions) = schema.get_mut("$defs").and_then(Value::as_object_mut) {
        definitions.insert(definition_name(name), type_schema);
    }
}

/// Adapts the references of a schema that is inserted into another document at `pointer`.
fn move_references(schema: &mut Value, pointer: &str) {
    match schema {
        Value::Object(fields) => {
            for (key, value) in fields {
                match value {
                    Value::String(target) if key == "$ref" && target.starts_with('#') => {
                        *target = format!("{pointer}{}", target.trim_start_matches('#'));
                    }
                    _ => move_references(value, pointer),
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| move_references(item, pointer)),
        _ => {}
    }
}

/// The key of an entity type in `$defs`. The prefix separates it from the definitions of the author.
fn definition_name(name: &str) -> String {
    format!("type:{name}")
}

fn definition_pointer(name: &str) -> String {
    format!("#/$defs/{}", definition_name(name).replace('~', "~0").replace('/', "~1"))
}

/// If an enum value is written as text, converts it to the type of the parameter.
fn coerce_enum_value(kind: Option<ParameterType>, value: &Value) -> Value {
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
    fn parameter_definitions_are_converted_to_a_json_schema() {
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

    #[test]
    fn references_inside_an_entity_type_schema_are_moved_with_the_schema_into_defs() {
        let parameters: IndexMap<String, ParameterDefinition> =
            serde_json::from_value(json!({ "order": { "jsonSchemaRef": "Order", "required": true } })).unwrap();
        let mut schema = schema_of_parameters(&parameters);
        let order = json!({ "properties": { "to": { "$ref": "#/$defs/address" }, "parent": { "$ref": "#" } }, "$defs": { "address": {} } });
        set_type_schema(&mut schema, "Order", order);
        assert_eq!(schema["properties"]["order"], json!({ "$ref": "#/$defs/type:Order" }));
        let properties = &schema["$defs"]["type:Order"]["properties"];
        assert_eq!(properties["to"]["$ref"], "#/$defs/type:Order/$defs/address");
        assert_eq!(properties["parent"]["$ref"], "#/$defs/type:Order");
    }
}
