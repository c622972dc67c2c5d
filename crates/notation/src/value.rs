//! Converts fields of a definition to property values and back.

use serde_json::Value as Json;
use toolwright_gram::{Array, MapValue, Scalar, Symbol, Value};

/// The tag of a string that contains JSON.
const JSON: &str = "json";

/// The maximum length of JSON on one line. Longer JSON is written on several lines.
const MAX_LINE_BYTES: usize = 100;

/// Converts JSON to a plain value if gram can express it, otherwise to a tagged string.
pub(crate) fn from_json(json: &Json) -> Value {
    let plain = if keeps_order(json) { Value::from_plain_json(json) } else { None };
    plain.unwrap_or_else(|| tagged_json(json))
}

/// Converts JSON to a tagged string.
pub(crate) fn tagged_json(json: &Json) -> Value {
    let mut content = json.to_string();
    if content.len() > MAX_LINE_BYTES {
        content = format!("{json:#}\n");
    }
    match Symbol::new(JSON) {
        Some(tag) => Value::Scalar(Scalar::Tagged { tag, content }),
        None => Value::from(content),
    }
}

/// Converts a value to JSON. A symbol becomes a string. A tagged string with the tag `json` is parsed; other tagged
/// strings become strings.
pub(crate) fn to_json(value: &Value) -> Result<Json, String> {
    match value {
        Value::Scalar(scalar) => scalar_to_json(scalar),
        Value::Array(array) => array_to_json(array),
        Value::Map(map) => {
            let entries = map.iter().map(|(key, entry)| {
                let json = match entry {
                    MapValue::Scalar(scalar) => scalar_to_json(scalar),
                    MapValue::Array(array) => array_to_json(array),
                };
                Ok((key.clone(), json?))
            });
            entries.collect::<Result<serde_json::Map<_, _>, String>>().map(Json::Object)
        }
    }
}

fn array_to_json(array: &Array) -> Result<Json, String> {
    array.as_slice().iter().map(scalar_to_json).collect()
}

fn scalar_to_json(scalar: &Scalar) -> Result<Json, String> {
    match scalar {
        Scalar::Symbol(symbol) => Ok(Json::from(symbol.as_str())),
        Scalar::Tagged { tag, content } if tag.as_str() == JSON => {
            serde_json::from_str(content).map_err(|error| format!("must be valid JSON: {error}"))
        }
        Scalar::Tagged { content, .. } => Ok(Json::from(content.as_str())),
        Scalar::Range(_) => Err("must not be a range".to_owned()),
        Scalar::Number(_) | Scalar::Boolean(_) | Scalar::String(_) => {
            Value::Scalar(scalar.clone()).to_plain_json().ok_or_else(|| "must not have a unit".to_owned())
        }
    }
}

/// Returns whether a gram map would preserve the order of the object's keys. A gram map sorts its keys, so only a
/// sorted object keeps its order.
fn keeps_order(json: &Json) -> bool {
    json.as_object().is_none_or(|object| object.keys().is_sorted())
}
