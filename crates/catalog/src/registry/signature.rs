//! The field `signature` of a tool in a request: a type signature in gram, from which the server derives the schemas of
//! the tool. The signature is not stored.

use serde_json::{Map, Value};
use toolwright_gram::Signature;
use toolwright_notation::signature_schemas;
use toolwright_tools::{DefinitionIssue, Issues};

const FIELD: &str = "signature";

/// The fields that a signature replaces.
const SCHEMAS: [&str; 4] = ["inputSchema", "inputJsonSchema", "outputSchema", "outputJsonSchema"];

/// Replaces the signature in a complete tool definition by the schemas. By default, a tool with a signature has the
/// type FUNCTION and calls the library function with the name of the tool.
pub(super) fn expand(fields: &mut Map<String, Value>) -> Result<(), Issues> {
    if fields.get("toolType").is_some_and(Value::is_null) {
        fields.shift_remove("toolType");
    }
    let Some(signature) = take(fields)? else { return Ok(()) };
    let is_set = |name: &&str| fields.get(*name).is_some_and(|value| !value.is_null());
    if let Some(name) = SCHEMAS.iter().find(|name| is_set(name)) {
        return Err(issue(format!("defines the same schemas as `{name}`; send one of the two fields")));
    }
    let described = fields.get("description").and_then(Value::as_str).is_some_and(|text| !text.trim().is_empty());
    if !described {
        let message = "a tool with a signature must have a description".to_owned();
        return Err(Issues(vec![DefinitionIssue { path: "/description".to_owned(), message }]));
    }
    insert_schemas(fields, &signature);
    let tool_type = fields.entry("toolType").or_insert_with(|| Value::from("FUNCTION"));
    if *tool_type == "FUNCTION"
        && let Some(name) = fields.get("refName").cloned()
        && let Value::Object(invocation) = object_at(fields, "invocation")
        && invocation.get("path").is_none_or(Value::is_null)
    {
        invocation.insert("path".to_owned(), name);
    }
    Ok(())
}

/// Replaces the signature in a merge patch by the schemas. The patch also sets the other schema fields to null, so that
/// no stored schema remains.
pub(super) fn expand_patch(patch: &mut Map<String, Value>) -> Result<(), Issues> {
    let Some(signature) = take(patch)? else { return Ok(()) };
    if let Some(name) = SCHEMAS.iter().find(|name| patch.contains_key(**name)) {
        return Err(issue(format!("defines the same schemas as `{name}`; send one of the two fields")));
    }
    patch.extend(SCHEMAS.map(|name| (name.to_owned(), Value::Null)));
    insert_schemas(patch, &signature);
    for name in SCHEMAS {
        // The schema is sent as text. A merge patch would merge an object with the stored schema instead of replacing
        // it.
        if let Some(schema @ Value::Object(_)) = patch.get_mut(name) {
            *schema = Value::String(schema.to_string());
        }
    }
    Ok(())
}

fn take(fields: &mut Map<String, Value>) -> Result<Option<Signature>, Issues> {
    match fields.shift_remove(FIELD) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Signature::parse(&text).map(Some).map_err(|error| issue(error.to_string())),
        Some(_) => Err(issue("must be a text such as `(personName::Text)==>(::String)`".to_owned())),
    }
}

fn insert_schemas(fields: &mut Map<String, Value>, signature: &Signature) {
    let (input, output) = signature_schemas(signature);
    fields.insert("inputJsonSchema".to_owned(), input);
    fields.extend(output.map(|schema| ("outputJsonSchema".to_owned(), schema)));
}

/// Returns the object in a field, and creates it if the field is absent or null.
fn object_at<'a>(fields: &'a mut Map<String, Value>, name: &str) -> &'a mut Value {
    let value = fields.entry(name).or_insert(Value::Null);
    if value.is_null() {
        *value = Value::Object(Map::new());
    }
    value
}

fn issue(message: String) -> Issues {
    Issues(vec![DefinitionIssue { path: format!("/{FIELD}"), message }])
}
