//! Default values and choices: which values have which type, and how they are written.

use serde_json::Value as Json;

use super::Type;
use crate::model::{Array, Decimal, Entry, Map, Number, Scalar, Value};

/// The JSON of a value, if it is one that JSON has too.
pub(super) fn plain(value: &Value) -> Option<Json> {
    match value {
        Value::Scalar(scalar) => plain_scalar(scalar),
        Value::Array(array) => plain_array(array),
        Value::Map(map) => {
            let entries = map.iter().map(|(key, entry)| Some((key.clone(), plain_entry(entry)?)));
            entries.collect::<Option<serde_json::Map<_, _>>>().map(Json::Object)
        }
    }
}

fn plain_entry(entry: &Entry) -> Option<Json> {
    match entry {
        Entry::Scalar(scalar) => plain_scalar(scalar),
        Entry::Array(array) => plain_array(array),
    }
}

fn plain_array(array: &Array) -> Option<Json> {
    array.as_slice().iter().map(plain_scalar).collect::<Option<Vec<Json>>>().map(Json::Array)
}

fn plain_scalar(scalar: &Scalar) -> Option<Json> {
    match scalar {
        Scalar::Number(Number::Integer(value)) => Some(Json::from(*value)),
        Scalar::Number(Number::Decimal(value)) => Some(Json::from(value.get())),
        Scalar::Boolean(value) => Some(Json::from(*value)),
        Scalar::String(text) => Some(Json::from(text.as_str())),
        _ => None,
    }
}

/// The value of JSON, if the notation has it: the inverse of [`plain`].
pub(super) fn written(json: &Json) -> Option<Value> {
    match json {
        Json::Array(items) => written_array(items).map(Value::Array),
        Json::Object(object) => {
            let entries = object.iter().map(|(key, json)| {
                let entry = match json {
                    Json::Array(items) => Entry::Array(written_array(items)?),
                    _ => Entry::Scalar(written_scalar(json)?),
                };
                Some((key.clone(), entry))
            });
            entries.collect::<Option<Map>>().map(Value::Map)
        }
        _ => written_scalar(json).map(Value::Scalar),
    }
}

fn written_array(items: &[Json]) -> Option<Array> {
    items.iter().map(written_scalar).collect::<Option<Vec<Scalar>>>().and_then(Array::new)
}

fn written_scalar(json: &Json) -> Option<Scalar> {
    match json {
        Json::Bool(value) => Some(Scalar::Boolean(*value)),
        Json::String(text) => Some(Scalar::String(text.clone())),
        Json::Number(number) if number.is_f64() => {
            number.as_f64().and_then(Decimal::new).map(|value| Scalar::Number(Number::Decimal(value)))
        }
        Json::Number(number) => number.as_i64().map(|value| Scalar::Number(Number::Integer(value))),
        _ => None,
    }
}

/// Whether a value has a type.
pub(super) fn fits(json: &Json, kind: &Type) -> bool {
    match kind {
        Type::String => json.is_string(),
        Type::Integer => json.is_i64(),
        Type::Number => json.is_number(),
        Type::Boolean => json.is_boolean(),
        Type::Array(item) => {
            let fits_item = |value: &Json| item.as_deref().is_none_or(|item| fits(value, item));
            json.as_array().is_some_and(|items| items.iter().all(fits_item))
        }
        Type::Object(fields) => json.as_object().is_some_and(|object| {
            fields.iter().flatten().all(|field| match object.get(&field.name) {
                Some(value) => fits(value, &field.kind),
                None => field.default.is_some(),
            })
        }),
    }
}

/// What a value of that type looks like, for messages.
pub(super) fn expected(kind: &Type) -> String {
    match kind {
        Type::String => "a string in quotes".to_owned(),
        Type::Integer => "an integer".to_owned(),
        Type::Number => "a number".to_owned(),
        Type::Boolean => "`true` or `false`".to_owned(),
        Type::Array(Some(item)) => format!("an array of {}", item.name()),
        Type::Array(None) => "an array".to_owned(),
        Type::Object(_) => "a map with the fields of the object".to_owned(),
    }
}
