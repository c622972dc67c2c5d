//! Fields of a definition as values of properties, and back.

use serde_json::Value as Json;
use toolwright_gram::{Array, Entry, Scalar, Symbol, Value};

/// The tag of a string that holds JSON.
const JSON: &str = "json";

/// JSON that is longer stands in several lines.
const LONGEST_LINE: usize = 100;

/// JSON as a value: as itself where the notation has it, else in a tagged string.
pub(crate) fn of_json(json: &Json) -> Value {
    let plain = if keeps_order(json) { Value::from_plain_json(json) } else { None };
    plain.unwrap_or_else(|| in_string(json))
}

/// JSON as text: in one line, or in several where one would be too long to read.
pub(crate) fn in_string(json: &Json) -> Value {
    let mut content = json.to_string();
    if content.len() > LONGEST_LINE {
        content = format!("{json:#}\n");
    }
    match Symbol::new(JSON) {
        Some(tag) => Value::Scalar(Scalar::Tagged { tag, content }),
        None => Value::from(content),
    }
}

/// The JSON that a value stands for. A symbol is a text; so is a tagged string, unless its tag is `json`.
pub(crate) fn to_json(value: &Value) -> Result<Json, String> {
    match value {
        Value::Scalar(scalar) => of_scalar(scalar),
        Value::Array(array) => of_array(array),
        Value::Map(map) => {
            let entries = map.iter().map(|(key, entry)| {
                let json = match entry {
                    Entry::Scalar(scalar) => of_scalar(scalar),
                    Entry::Array(array) => of_array(array),
                };
                Ok((key.clone(), json?))
            });
            entries.collect::<Result<serde_json::Map<_, _>, String>>().map(Json::Object)
        }
    }
}

fn of_array(array: &Array) -> Result<Json, String> {
    array.as_slice().iter().map(of_scalar).collect()
}

fn of_scalar(scalar: &Scalar) -> Result<Json, String> {
    match scalar {
        Scalar::Symbol(symbol) => Ok(Json::from(symbol.as_str())),
        Scalar::Tagged { tag, content } if tag.as_str() == JSON => {
            serde_json::from_str(content).map_err(|error| format!("is not JSON: {error}"))
        }
        Scalar::Tagged { content, .. } => Ok(Json::from(content.as_str())),
        Scalar::Range(_) => Err("is a range, which no definition has".to_owned()),
        Scalar::Number(_) | Scalar::Boolean(_) | Scalar::String(_) => Value::Scalar(scalar.clone())
            .to_plain_json()
            .ok_or_else(|| "has a unit, which no definition has".to_owned()),
    }
}

/// Maps have their keys in order; an object that has them in another one is more than a map.
fn keeps_order(json: &Json) -> bool {
    json.as_object().is_none_or(|object| object.keys().is_sorted())
}
