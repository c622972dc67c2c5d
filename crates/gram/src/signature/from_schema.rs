//! From JSON Schema to a signature, where nothing is lost on the way.

use serde_json::{Map, Value as Json};

use super::{Parameter, SchemaError, Signature, Type, defaults, to_schema};
use crate::model::Value;

type Read<T> = Result<T, SchemaError>;

/// Deepest objects and arrays in a schema. A signature nests as deep, and its text must be readable.
const MAX_DEPTH: usize = crate::MAX_NESTING / 2;

pub(super) fn signature(schema: &Json, returns: Type) -> Read<Signature> {
    let Type::Object(fields) = kind(schema, "", MAX_DEPTH)? else {
        return Err(refused("/type", "parameters are the properties of an object"));
    };
    let parameters = fields.unwrap_or_default();
    // Whatever was not looked at above shows here: order of `required`, properties that are required twice.
    if to_schema::object(&parameters) != *schema {
        return Err(refused(
            "",
            "`properties` and `required` must be there and name each parameter once, in one order",
        ));
    }
    Ok(Signature { parameters, returns })
}

fn kind(schema: &Json, pointer: &str, depth: usize) -> Read<Type> {
    let Some(schema) = schema.as_object() else { return Err(refused(pointer, "a schema is an object")) };
    let depth = depth.checked_sub(1).ok_or_else(|| refused(pointer, "it is nested too deep"))?;
    let name = schema.get("type").and_then(Json::as_str);
    let named = name.and_then(of_schema_name);
    let named = named
        .ok_or_else(|| refused(pointer, "its `type` must be one of string, integer, number, boolean, object, array"))?;
    only_known(schema, &named, pointer)?;
    match named {
        Type::Array(_) => {
            let items = schema.get("items").map(|items| kind(items, &format!("{pointer}/items"), depth));
            Ok(Type::Array(items.transpose()?.map(Box::new)))
        }
        Type::Object(_) => Ok(Type::Object(fields(schema, pointer, depth)?)),
        other => Ok(other),
    }
}

fn of_schema_name(name: &str) -> Option<Type> {
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

fn only_known(schema: &Map<String, Json>, kind: &Type, pointer: &str) -> Read<()> {
    let is_known = |key: &str| match key {
        "type" | "description" | "enum" | "default" => true,
        "items" => matches!(kind, Type::Array(_)),
        "properties" | "required" => matches!(kind, Type::Object(_)),
        _ => false,
    };
    match schema.keys().find(|key| !is_known(key)) {
        Some(key) => Err(refused(&format!("{pointer}/{}", escaped(key)), "signatures have no such keyword")),
        None => Ok(()),
    }
}

fn fields(schema: &Map<String, Json>, pointer: &str, depth: usize) -> Read<Option<Vec<Parameter>>> {
    let Some(properties) = schema.get("properties") else { return Ok(None) };
    let Some(properties) = properties.as_object() else {
        return Err(refused(&format!("{pointer}/properties"), "it must be an object"));
    };
    let required: Vec<&str> =
        schema.get("required").and_then(Json::as_array).into_iter().flatten().filter_map(Json::as_str).collect();
    let fields = properties.iter().map(|(name, schema)| {
        let pointer = format!("{pointer}/properties/{}", escaped(name));
        let field = field(name, schema, &pointer, depth)?;
        match (required.contains(&name.as_str()), &field.default) {
            (true, Some(_)) => Err(refused(&pointer, "a parameter with a default is not required")),
            (false, None) => Err(refused(&pointer, "a parameter that may be left out needs a default")),
            _ => Ok(field),
        }
    });
    fields.collect::<Read<Vec<Parameter>>>().map(Some)
}

fn field(name: &str, schema: &Json, pointer: &str, depth: usize) -> Read<Parameter> {
    if name.is_empty() {
        return Err(refused(pointer, "a parameter needs a name"));
    }
    let mut field = Parameter::required(name, kind(schema, pointer, depth)?);
    if let Some(description) = schema.get("description") {
        let text =
            description.as_str().ok_or_else(|| refused(&format!("{pointer}/description"), "it must be a string"))?;
        field.description = Some(text.to_owned());
    }
    if let Some(choices) = schema.get("enum") {
        let choices = choices.as_array().filter(|choices| !choices.is_empty());
        let all_fit = |choices: &&Vec<Json>| {
            choices.iter().all(|choice| !choice.is_array() && !choice.is_object() && writable(choice, &field.kind))
        };
        let choices = choices
            .filter(all_fit)
            .ok_or_else(|| refused(&format!("{pointer}/enum"), "its values must have the type"))?;
        field.choices = choices.clone();
    }
    if let Some(default) = schema.get("default") {
        let is_choice = field.choices.is_empty() || field.choices.contains(default);
        if !is_choice || !writable(default, &field.kind) {
            return Err(refused(
                &format!("{pointer}/default"),
                "it must have the type, be one of `enum`, and be writable in gram",
            ));
        }
        field.default = Some(default.clone());
    }
    Ok(field)
}

/// Whether a value has the type and can be written. Reading it again must give the same.
fn writable(json: &Json, kind: &Type) -> bool {
    defaults::fits(json, kind)
        && Value::from_plain_json(json).and_then(|value| value.to_plain_json()).as_ref() == Some(json)
}

fn refused(pointer: &str, reason: &str) -> SchemaError {
    SchemaError { pointer: pointer.to_owned(), reason: reason.to_owned() }
}

fn escaped(key: &str) -> String {
    key.replace('~', "~0").replace('/', "~1")
}
