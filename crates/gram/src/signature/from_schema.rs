//! Converts JSON Schema to a signature. Schemas that a signature cannot express exactly are rejected.

use serde_json::{Map, Value as Json};

use super::{Parameter, SchemaError, Signature, Type, to_schema, type_check};
use crate::model::Value;

type SchemaResult<T> = Result<T, SchemaError>;

/// The maximum nesting of objects and arrays in a schema. The limit keeps the nesting of the signature's text below
/// [`crate::MAX_NESTING`].
const MAX_DEPTH: usize = crate::MAX_NESTING / 2;

pub(super) fn signature(schema: &Json, returns: Type) -> SchemaResult<Signature> {
    let Type::Object(fields) = parse_type(schema, "", MAX_DEPTH)? else {
        return Err(unsupported("/type", "must be `object`: its properties are the parameters"));
    };
    let parameters = fields.unwrap_or_default();
    // Converting the signature back to a schema detects each difference that the checks above miss, such as another
    // order of `required` or duplicates in `required`.
    if to_schema::object(&parameters) != *schema {
        return Err(unsupported("", "`properties` and `required` must name each parameter once, in the same order"));
    }
    Ok(Signature { parameters, returns })
}

fn parse_type(schema: &Json, pointer: &str, depth: usize) -> SchemaResult<Type> {
    let Some(schema) = schema.as_object() else { return Err(unsupported(pointer, "must be an object")) };
    let depth = depth
        .checked_sub(1)
        .ok_or_else(|| unsupported(pointer, &format!("must not nest more than {MAX_DEPTH} levels deep")))?;
    let name = schema.get("type").and_then(Json::as_str);
    let named = name.and_then(type_from_schema_name);
    let named = named
        .ok_or_else(|| unsupported(pointer, "`type` must be one of string, integer, number, boolean, object, array"))?;
    reject_unknown_keywords(schema, &named, pointer)?;
    match named {
        Type::Array(_) => {
            let items = schema.get("items").map(|items| parse_type(items, &format!("{pointer}/items"), depth));
            Ok(Type::Array(items.transpose()?.map(Box::new)))
        }
        Type::Object(_) => Ok(Type::Object(fields(schema, pointer, depth)?)),
        other => Ok(other),
    }
}

fn type_from_schema_name(name: &str) -> Option<Type> {
    match name {
        "string" => Some(Type::String),
        "integer" => Some(Type::Integer),
        "number" => Some(Type::Number),
        "boolean" => Some(Type::Boolean),
        "object" => Some(Type::Object(None)),
        "array" => Some(Type::Array(None)),
        _ => None,
    }
}

fn reject_unknown_keywords(schema: &Map<String, Json>, kind: &Type, pointer: &str) -> SchemaResult<()> {
    let is_known = |key: &str| match key {
        "type" | "description" | "enum" | "default" => true,
        "items" => matches!(kind, Type::Array(_)),
        "properties" | "required" => matches!(kind, Type::Object(_)),
        _ => false,
    };
    match schema.keys().find(|key| !is_known(key)) {
        Some(key) => Err(unsupported(&format!("{pointer}/{}", escape_pointer(key)), "keyword is not supported")),
        None => Ok(()),
    }
}

fn fields(schema: &Map<String, Json>, pointer: &str, depth: usize) -> SchemaResult<Option<Vec<Parameter>>> {
    let Some(properties) = schema.get("properties") else { return Ok(None) };
    let Some(properties) = properties.as_object() else {
        return Err(unsupported(&format!("{pointer}/properties"), "must be an object"));
    };
    let required: Vec<&str> =
        schema.get("required").and_then(Json::as_array).into_iter().flatten().filter_map(Json::as_str).collect();
    let fields = properties.iter().map(|(name, schema)| {
        let pointer = format!("{pointer}/properties/{}", escape_pointer(name));
        let field = field(name, schema, &pointer, depth)?;
        match (required.contains(&name.as_str()), &field.default) {
            (true, Some(_)) => Err(unsupported(&pointer, "must not be required because it has a default")),
            (false, None) => Err(unsupported(&pointer, "must be required or have a default")),
            _ => Ok(field),
        }
    });
    fields.collect::<SchemaResult<Vec<Parameter>>>().map(Some)
}

fn field(name: &str, schema: &Json, pointer: &str, depth: usize) -> SchemaResult<Parameter> {
    if name.is_empty() {
        return Err(unsupported(pointer, "must have a name"));
    }
    let mut field = Parameter::required(name, parse_type(schema, pointer, depth)?);
    if let Some(description) = schema.get("description") {
        let text =
            description.as_str().ok_or_else(|| unsupported(&format!("{pointer}/description"), "must be a string"))?;
        field.description = Some(text.to_owned());
    }
    if let Some(choices) = schema.get("enum") {
        let choices = choices.as_array().filter(|choices| !choices.is_empty());
        let all_fit = |choices: &&Vec<Json>| {
            choices.iter().all(|choice| !choice.is_array() && !choice.is_object() && is_writable(choice, &field.kind))
        };
        let choices = choices.filter(all_fit).ok_or_else(|| {
            unsupported(
                &format!("{pointer}/enum"),
                "must be a non-empty array of scalars that have the type and can be written in gram",
            )
        })?;
        field.choices = choices.clone();
    }
    if let Some(default) = schema.get("default") {
        let is_choice = field.choices.is_empty() || field.choices.contains(default);
        if !is_choice || !is_writable(default, &field.kind) {
            return Err(unsupported(
                &format!("{pointer}/default"),
                "must have the type, be one of `enum`, and be writable in gram",
            ));
        }
        field.default = Some(default.clone());
    }
    Ok(field)
}

/// Returns whether a value has the type and is unchanged after conversion to gram and back.
fn is_writable(json: &Json, kind: &Type) -> bool {
    type_check::has_type(json, kind)
        && Value::from_plain_json(json).and_then(|value| value.to_plain_json()).as_ref() == Some(json)
}

fn unsupported(pointer: &str, reason: &str) -> SchemaError {
    SchemaError { pointer: pointer.to_owned(), reason: reason.to_owned() }
}

fn escape_pointer(key: &str) -> String {
    key.replace('~', "~0").replace('/', "~1")
}
