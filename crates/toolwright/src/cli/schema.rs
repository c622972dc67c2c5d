//! Reads the parameters of a tool's input schema, to show them and to interpret `-p` arguments.

use serde_json::Value;

/// One parameter of a tool.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ToolParameter {
    pub name: String,
    /// The JSON type, or `any`.
    pub type_name: String,
    /// Whether the parameter is required.
    pub required: bool,
    pub description: String,
}

/// Returns the parameters of a tool in the order of its definition.
pub(super) fn parameters(tool: &Value) -> Vec<ToolParameter> {
    let (properties, required) = match tool.get("inputJsonSchema") {
        Some(schema) => (schema.get("properties"), schema.get("required").and_then(Value::as_array)),
        None => (tool.get("inputSchema"), None),
    };
    let is_required = |name: &str, schema: &Value| {
        required.is_some_and(|names| names.iter().any(|other| other == name))
            || schema.get("required") == Some(&Value::Bool(true))
    };
    let parameter = |(name, schema): (&String, &Value)| ToolParameter {
        name: name.clone(),
        type_name: type_name(schema),
        required: is_required(name, schema),
        description: schema.get("description").and_then(Value::as_str).unwrap_or_default().to_owned(),
    };
    properties.and_then(Value::as_object).map(|all| all.iter().map(parameter).collect()).unwrap_or_default()
}

/// Returns the names of all parameters; empty if the tool accepts other names too, or declares none.
pub(super) fn declared_names(tool: &Value) -> Vec<String> {
    let is_open = |schema: &Value| {
        schema.get("additionalProperties").is_some_and(|more| *more != Value::Bool(false))
            || ["patternProperties", "$ref", "allOf", "anyOf", "oneOf"].iter().any(|key| schema.get(*key).is_some())
    };
    if tool.get("inputJsonSchema").is_some_and(is_open) {
        return Vec::new();
    }
    parameters(tool).into_iter().map(|parameter| parameter.name).collect()
}

/// Returns whether the schema allows only a string at this path. An argument such as `101` then means the string
/// `"101"`.
pub(super) fn expects_string(tool: &Value, path: &[&str]) -> bool {
    schema_at(tool, path).and_then(|schema| schema.get("type")).is_some_and(is_string_type)
}

fn schema_at<'a>(tool: &'a Value, path: &[&str]) -> Option<&'a Value> {
    let (first, rest) = path.split_first()?;
    let properties = match tool.get("inputJsonSchema") {
        Some(schema) => schema.get("properties")?,
        None => tool.get("inputSchema")?,
    };
    rest.iter().try_fold(properties.get(first)?, |schema, name| schema.get("properties")?.get(name))
}

/// Returns whether the type is `string`, alone or together with `null`. `null` makes no difference, because an argument
/// such as `101` cannot mean null.
fn is_string_type(kind: &Value) -> bool {
    match kind {
        Value::String(kind) => kind == "string",
        Value::Array(kinds) => {
            kinds.iter().all(|kind| kind == "string" || kind == "null") && kinds.iter().any(|kind| kind == "string")
        }
        _ => false,
    }
}

fn type_name(schema: &Value) -> String {
    match schema.get("type") {
        Some(Value::String(name)) => name.clone(),
        Some(Value::Array(names)) => names.iter().filter_map(Value::as_str).collect::<Vec<_>>().join("|"),
        _ => "any".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn parameters_of_json_schema_and_short_form_are_listed() {
        let json_schema = json!({ "inputJsonSchema": { "properties": { "id": { "type": ["string", "null"], "description": "which" }, "x": {} }, "required": ["id"] } });
        let short_form = json!({ "inputSchema": { "id": { "type": "string", "required": true } } });
        let read =
            |tool: &Value| parameters(tool).into_iter().map(|p| (p.name, p.type_name, p.required)).collect::<Vec<_>>();
        assert_eq!(read(&json_schema), [("id".into(), "string|null".into(), true), ("x".into(), "any".into(), false)]);
        assert_eq!(read(&short_form), [("id".into(), "string".into(), true)]);
        assert!(parameters(&json!({})).is_empty());
    }

    #[test]
    fn string_is_expected_only_for_string_and_nullable_string_types() {
        let tool = json!({ "inputJsonSchema": { "properties": {
            "id": { "type": "string" },
            "deal": { "type": "object", "properties": { "owner": { "type": ["string", "null"] }, "amount": { "type": ["number", "string"] } } },
        } } });
        assert!(expects_string(&tool, &["id"]) && expects_string(&tool, &["deal", "owner"]));
        for path in [&["deal"][..], &["deal", "amount"], &["deal", "none"], &["none"], &["id", "deeper"], &[]] {
            assert!(!expects_string(&tool, path), "{path:?}");
        }
    }
}
