//! Values that JSON has too, as they are: without the tags of the JSON form of a pattern.

use serde_json::Value as Json;

use super::value::{Array, Decimal, Entry, Map, Number, Scalar, Value};

impl Value {
    /// The same value in JSON; none for what JSON does not have: symbols, tagged strings, ranges and measurements.
    pub fn to_plain_json(&self) -> Option<Json> {
        match self {
            Value::Scalar(scalar) => plain_scalar(scalar),
            Value::Array(array) => plain_array(array),
            Value::Map(map) => {
                let entries = map.iter().map(|(key, entry)| Some((key.clone(), plain_entry(entry)?)));
                entries.collect::<Option<serde_json::Map<_, _>>>().map(Json::Object)
            }
        }
    }

    /// The same value as JSON has; none for what the notation does not have: null, deep values, empty arrays and integers
    /// beyond 64 bits. Keys of a map are put in order.
    pub fn from_plain_json(json: &Json) -> Option<Self> {
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
