//! Converts property values to and from plain JSON. Unlike the JSON form of patterns, plain JSON has no `type` tags.

use serde_json::Value as Json;

use super::value::{Array, Decimal, Map, MapValue, Number, Scalar, Value};

impl Value {
    /// Converts the value to plain JSON. Returns `None` for symbols, tagged strings, ranges and measurements.
    pub fn to_plain_json(&self) -> Option<Json> {
        match self {
            Value::Scalar(scalar) => scalar_to_json(scalar),
            Value::Array(array) => array_to_json(array),
            Value::Map(map) => {
                let entries = map.iter().map(|(key, entry)| Some((key.clone(), map_value_to_json(entry)?)));
                entries.collect::<Option<serde_json::Map<_, _>>>().map(Json::Object)
            }
        }
    }

    /// Converts plain JSON to a value. Returns `None` for null, nested collections, empty arrays and integers beyond 64
    /// bits. The keys of a map are sorted.
    pub fn from_plain_json(json: &Json) -> Option<Self> {
        match json {
            Json::Array(items) => array_from_json(items).map(Value::Array),
            Json::Object(object) => {
                let entries = object.iter().map(|(key, json)| {
                    let entry = match json {
                        Json::Array(items) => MapValue::Array(array_from_json(items)?),
                        _ => MapValue::Scalar(scalar_from_json(json)?),
                    };
                    Some((key.clone(), entry))
                });
                entries.collect::<Option<Map>>().map(Value::Map)
            }
            _ => scalar_from_json(json).map(Value::Scalar),
        }
    }
}

fn map_value_to_json(entry: &MapValue) -> Option<Json> {
    match entry {
        MapValue::Scalar(scalar) => scalar_to_json(scalar),
        MapValue::Array(array) => array_to_json(array),
    }
}

fn array_to_json(array: &Array) -> Option<Json> {
    array.as_slice().iter().map(scalar_to_json).collect::<Option<Vec<Json>>>().map(Json::Array)
}

fn scalar_to_json(scalar: &Scalar) -> Option<Json> {
    match scalar {
        Scalar::Number(Number::Integer(value)) => Some(Json::from(*value)),
        Scalar::Number(Number::Decimal(value)) => Some(Json::from(value.get())),
        Scalar::Boolean(value) => Some(Json::from(*value)),
        Scalar::String(text) => Some(Json::from(text.as_str())),
        _ => None,
    }
}

fn array_from_json(items: &[Json]) -> Option<Array> {
    items.iter().map(scalar_from_json).collect::<Option<Vec<Scalar>>>().and_then(Array::new)
}

fn scalar_from_json(json: &Json) -> Option<Scalar> {
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
