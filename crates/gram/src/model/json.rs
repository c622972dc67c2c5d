//! The JSON form: `{"subject": {"identity", "labels", "properties"}, "elements": […]}`.
//!
//! Integers, decimals, booleans, strings, arrays and maps are what they are in JSON. Other values are objects with a
//! `type`: `symbol`, `tagged`, `range` and `measurement`. A map that has a key `type` itself is written as
//! `{"type": "map", "value": {…}}`, so that it cannot be taken for one of these.

use std::collections::BTreeSet;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use serde_json::{Value as Json, json};

use super::value::{Array, Decimal, Entry, Map, Measurement, Number, Range, Scalar, Symbol, Value};
use super::{Pattern, Properties, Subject};
use crate::syntax::MAX_NESTING;

/// A JSON value that is no pattern or property.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum JsonError {
    /// The notation has no null.
    #[error("null is not a value; leave the property out")]
    Null,
    /// An integer beyond 64 bits, or a number that is not finite.
    #[error("number `{0}` is too large")]
    Number(String),
    /// The notation has no array without items.
    #[error("an array without items cannot be written")]
    EmptyArray,
    /// Something other than a scalar in an array, or a map in a map.
    #[error("arrays hold plain values, and maps do not nest")]
    Nested,
    /// An object with a `type` that does not fit it.
    #[error("not a value of type `{0}`")]
    Typed(String),
    /// More levels than a text may have.
    #[error("patterns nested more than {MAX_NESTING} deep")]
    TooDeep,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Wire {
    subject: WireSubject,
    #[serde(default)]
    elements: Vec<Wire>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct WireSubject {
    #[serde(default)]
    identity: String,
    #[serde(default)]
    labels: BTreeSet<String>,
    #[serde(default)]
    properties: Properties,
}

impl Serialize for Pattern {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct View<'p> {
            subject: SubjectView<'p>,
            elements: &'p [Pattern],
        }
        #[derive(Serialize)]
        struct SubjectView<'p> {
            identity: &'p str,
            labels: &'p BTreeSet<String>,
            properties: &'p Properties,
        }
        let Subject { identity, labels, properties } = &self.subject;
        let subject = SubjectView { identity, labels, properties };
        View { subject, elements: &self.elements }.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Pattern {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let pattern = Pattern::from(Wire::deserialize(deserializer)?);
        match crate::print::nesting(&pattern) {
            0..=MAX_NESTING => Ok(pattern),
            _ => Err(de::Error::custom(JsonError::TooDeep)),
        }
    }
}

impl From<Wire> for Pattern {
    fn from(wire: Wire) -> Self {
        let WireSubject { identity, labels, properties } = wire.subject;
        let elements = wire.elements.into_iter().map(Pattern::from).collect();
        Self { subject: Subject { identity, labels, properties }, elements }
    }
}

impl Serialize for Value {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Json::from(self).serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Value {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Value::try_from(&Json::deserialize(deserializer)?).map_err(de::Error::custom)
    }
}

impl From<&Value> for Json {
    fn from(value: &Value) -> Self {
        match value {
            Value::Scalar(scalar) => from_scalar(scalar),
            Value::Array(array) => from_array(array),
            Value::Map(map) => {
                let entries = map.iter().map(|(key, entry)| (key.clone(), from_entry(entry)));
                let object = Json::Object(entries.collect());
                if map.contains_key("type") { json!({"type": "map", "value": object}) } else { object }
            }
        }
    }
}

fn from_entry(entry: &Entry) -> Json {
    match entry {
        Entry::Scalar(scalar) => from_scalar(scalar),
        Entry::Array(array) => from_array(array),
    }
}

fn from_array(array: &Array) -> Json {
    array.as_slice().iter().map(from_scalar).collect()
}

fn from_scalar(scalar: &Scalar) -> Json {
    match scalar {
        Scalar::Number(number) => from_number(number),
        Scalar::Boolean(value) => json!(value),
        Scalar::String(text) => json!(text),
        Scalar::Symbol(symbol) => json!({"type": "symbol", "value": symbol.as_str()}),
        Scalar::Tagged { tag, content } => json!({"type": "tagged", "tag": tag.as_str(), "content": content}),
        Scalar::Range(range) => {
            let (lower, upper) = match range {
                Range::Between(lower, upper) => (Some(lower), Some(upper)),
                Range::From(lower) => (Some(lower), None),
                Range::To(upper) => (None, Some(upper)),
            };
            json!({"type": "range", "lower": lower.map(from_number), "upper": upper.map(from_number)})
        }
    }
}

fn from_number(number: &Number) -> Json {
    match number {
        Number::Integer(value) => json!(value),
        Number::Decimal(value) => json!(value.get()),
        Number::Measurement(measurement) => {
            json!({"type": "measurement", "unit": measurement.unit(), "value": measurement.amount()})
        }
    }
}

impl TryFrom<&Json> for Value {
    type Error = JsonError;

    fn try_from(json: &Json) -> Result<Self, JsonError> {
        match json {
            Json::Array(items) => to_array(items).map(Self::Array),
            Json::Object(object) => match object.get("type").and_then(Json::as_str) {
                Some("map") => match (object.len(), object.get("value")) {
                    (2, Some(Json::Object(entries))) => to_map(entries).map(Self::Map),
                    _ => Err(JsonError::Typed("map".to_owned())),
                },
                Some(_) => to_scalar(json).map(Self::Scalar),
                None => to_map(object).map(Self::Map),
            },
            _ => to_scalar(json).map(Self::Scalar),
        }
    }
}

fn to_map(object: &serde_json::Map<String, Json>) -> Result<Map, JsonError> {
    let entries = object.iter().map(|(key, json)| {
        let entry = match json {
            Json::Array(items) => Entry::Array(to_array(items)?),
            _ => Entry::Scalar(to_scalar(json)?),
        };
        Ok((key.clone(), entry))
    });
    entries.collect()
}

fn to_array(items: &[Json]) -> Result<Array, JsonError> {
    let items: Result<Vec<Scalar>, JsonError> = items.iter().map(to_scalar).collect();
    Array::new(items?).ok_or(JsonError::EmptyArray)
}

fn to_scalar(json: &Json) -> Result<Scalar, JsonError> {
    match json {
        Json::Null => Err(JsonError::Null),
        Json::Bool(value) => Ok(Scalar::Boolean(*value)),
        Json::Number(_) => to_number(json).map(Scalar::Number),
        Json::String(text) => Ok(Scalar::String(text.clone())),
        Json::Array(_) => Err(JsonError::Nested),
        Json::Object(object) => {
            let kind = object.get("type").and_then(Json::as_str).ok_or(JsonError::Nested)?;
            to_typed(kind, json).ok_or_else(|| JsonError::Typed(kind.to_owned()))
        }
    }
}

fn to_typed(kind: &str, json: &Json) -> Option<Scalar> {
    let text = |key: &str| json.get(key).and_then(Json::as_str);
    match kind {
        "symbol" => Symbol::new(text("value")?).map(Scalar::Symbol),
        "tagged" => Some(Scalar::Tagged { tag: Symbol::new(text("tag")?)?, content: text("content")?.to_owned() }),
        "measurement" => to_number(json).ok().map(Scalar::Number),
        "range" => {
            let end = |key: &str| json.get(key).filter(|end| !end.is_null()).map(to_number).transpose().ok();
            match (end("lower")?, end("upper")?) {
                (Some(lower), Some(upper)) => Some(Scalar::Range(Range::Between(lower, upper))),
                (Some(lower), None) => Some(Scalar::Range(Range::From(lower))),
                (None, Some(upper)) => Some(Scalar::Range(Range::To(upper))),
                (None, None) => None,
            }
        }
        _ => None,
    }
}

fn to_number(json: &Json) -> Result<Number, JsonError> {
    let too_large = || JsonError::Number(json.to_string());
    match json {
        Json::Number(number) if number.is_f64() => {
            number.as_f64().and_then(Decimal::new).map(Number::Decimal).ok_or_else(too_large)
        }
        Json::Number(number) => number.as_i64().map(Number::Integer).ok_or_else(too_large),
        _ => {
            let amount = json.get("value").and_then(Json::as_i64);
            let unit =
                json.get("unit").and_then(Json::as_str).filter(|_| json.get("type") == Some(&json!("measurement")));
            let measurement = amount.zip(unit).and_then(|(amount, unit)| Measurement::new(amount, unit));
            measurement.map(Number::Measurement).ok_or_else(|| JsonError::Typed("measurement".to_owned()))
        }
    }
}
