//! Converts patterns to and from JSON: `{"subject": {"identity", "labels", "properties"}, "elements": […]}`.
//!
//! Integers and decimals become JSON numbers. Booleans, strings, arrays and maps become JSON booleans, strings, arrays
//! and objects. Other values are objects with a `type`: `symbol`, `tagged`, `range` or `measurement`. A map with a key
//! `type` is written as `{"type": "map", "value": {…}}` to avoid ambiguity.

use std::collections::BTreeSet;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use serde_json::{Value as Json, json};

use crate::model::{
    Array, Decimal, Map, MapValue, Measurement, Number, Pattern, Properties, Range, Scalar, Subject, Symbol, Value,
};
use crate::print::nesting;
use crate::syntax::MAX_NESTING;

/// The reason why a JSON value is not a valid property value or pattern.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum JsonError {
    /// The notation has no null.
    #[error("null is not allowed; omit the property")]
    Null,
    /// An integer beyond 64 bits, or a number that is not finite.
    #[error("number `{0}` is out of range")]
    Number(String),
    /// The notation has no empty array.
    #[error("array must not be empty")]
    EmptyArray,
    /// An array contains an array or object, or a map contains a map.
    #[error("arrays must contain only scalars, and maps must not contain maps")]
    NestedCollection,
    /// The object has a `type`, but its other fields are not valid for that type.
    #[error("object is not a valid value of type `{0}`")]
    InvalidTypedValue(String),
    /// The pattern is nested deeper than [`crate::MAX_NESTING`].
    #[error("patterns must not nest more than {MAX_NESTING} levels deep")]
    TooDeep,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct PatternJson {
    subject: SubjectJson,
    #[serde(default)]
    elements: Vec<PatternJson>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct SubjectJson {
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
        let pattern = Pattern::from(PatternJson::deserialize(deserializer)?);
        match nesting(&pattern) {
            0..=MAX_NESTING => Ok(pattern),
            _ => Err(de::Error::custom(JsonError::TooDeep)),
        }
    }
}

impl From<PatternJson> for Pattern {
    fn from(json: PatternJson) -> Self {
        let SubjectJson { identity, labels, properties } = json.subject;
        let elements = json.elements.into_iter().map(Pattern::from).collect();
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
            Value::Scalar(scalar) => scalar_to_json(scalar),
            Value::Array(array) => array_to_json(array),
            Value::Map(map) => {
                let entries = map.iter().map(|(key, entry)| (key.clone(), map_value_to_json(entry)));
                let object = Json::Object(entries.collect());
                if map.contains_key("type") { json!({"type": "map", "value": object}) } else { object }
            }
        }
    }
}

fn map_value_to_json(entry: &MapValue) -> Json {
    match entry {
        MapValue::Scalar(scalar) => scalar_to_json(scalar),
        MapValue::Array(array) => array_to_json(array),
    }
}

fn array_to_json(array: &Array) -> Json {
    array.as_slice().iter().map(scalar_to_json).collect()
}

fn scalar_to_json(scalar: &Scalar) -> Json {
    match scalar {
        Scalar::Number(number) => number_to_json(number),
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
            json!({"type": "range", "lower": lower.map(number_to_json), "upper": upper.map(number_to_json)})
        }
    }
}

fn number_to_json(number: &Number) -> Json {
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
            Json::Array(items) => array_from_json(items).map(Self::Array),
            Json::Object(object) => match object.get("type").and_then(Json::as_str) {
                Some("map") => match (object.len(), object.get("value")) {
                    (2, Some(Json::Object(entries))) => map_from_json(entries).map(Self::Map),
                    _ => Err(JsonError::InvalidTypedValue("map".to_owned())),
                },
                Some(_) => scalar_from_json(json).map(Self::Scalar),
                None => map_from_json(object).map(Self::Map),
            },
            _ => scalar_from_json(json).map(Self::Scalar),
        }
    }
}

fn map_from_json(object: &serde_json::Map<String, Json>) -> Result<Map, JsonError> {
    let entries = object.iter().map(|(key, json)| {
        let entry = match json {
            Json::Array(items) => MapValue::Array(array_from_json(items)?),
            _ => MapValue::Scalar(scalar_from_json(json)?),
        };
        Ok((key.clone(), entry))
    });
    entries.collect()
}

fn array_from_json(items: &[Json]) -> Result<Array, JsonError> {
    let items: Result<Vec<Scalar>, JsonError> = items.iter().map(scalar_from_json).collect();
    Array::new(items?).ok_or(JsonError::EmptyArray)
}

fn scalar_from_json(json: &Json) -> Result<Scalar, JsonError> {
    match json {
        Json::Null => Err(JsonError::Null),
        Json::Bool(value) => Ok(Scalar::Boolean(*value)),
        Json::Number(_) => number_from_json(json).map(Scalar::Number),
        Json::String(text) => Ok(Scalar::String(text.clone())),
        Json::Array(_) => Err(JsonError::NestedCollection),
        Json::Object(object) => {
            let kind = object.get("type").and_then(Json::as_str).ok_or(JsonError::NestedCollection)?;
            typed_scalar_from_json(kind, json).ok_or_else(|| JsonError::InvalidTypedValue(kind.to_owned()))
        }
    }
}

fn typed_scalar_from_json(kind: &str, json: &Json) -> Option<Scalar> {
    let text = |key: &str| json.get(key).and_then(Json::as_str);
    match kind {
        "symbol" => Symbol::new(text("value")?).map(Scalar::Symbol),
        "tagged" => Some(Scalar::Tagged { tag: Symbol::new(text("tag")?)?, content: text("content")?.to_owned() }),
        "measurement" => number_from_json(json).ok().map(Scalar::Number),
        "range" => {
            let end = |key: &str| json.get(key).filter(|end| !end.is_null()).map(number_from_json).transpose().ok();
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

fn number_from_json(json: &Json) -> Result<Number, JsonError> {
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
            measurement.map(Number::Measurement).ok_or_else(|| JsonError::InvalidTypedValue("measurement".to_owned()))
        }
    }
}
