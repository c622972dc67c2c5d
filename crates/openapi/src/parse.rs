//! Parses JSON or YAML text into a value, within limits. The first character decides between JSON and YAML.

use std::fmt;

use serde::Deserializer;
use serde::de::{DeserializeSeed, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

/// The maximum size of a document, in bytes.
const MAX_DOCUMENT_BYTES: usize = 64 << 20;

/// The maximum number of values in a document: three times as many as the largest public API descriptions have.
const MAX_VALUES: usize = 4_000_000;

/// The maximum total length of all strings and keys, in bytes. YAML aliases can repeat one string a million times.
const MAX_STRING_BYTES: usize = 2 * MAX_DOCUMENT_BYTES;

/// Parses `text`. The error is a message for the user.
pub(crate) fn parse_value(text: &str) -> Result<Value, String> {
    if text.len() > MAX_DOCUMENT_BYTES {
        return Err(format!("the document must not exceed {MAX_DOCUMENT_BYTES} bytes, got {}", text.len()));
    }
    let text = text.trim_start_matches('\u{feff}');
    // The YAML parser buffers all events of a document before it returns the first one, so the budget alone would not
    // limit the memory. Therefore the number of values is estimated before the document is parsed.
    if text.bytes().filter(|byte| b",\n:[{?-".contains(byte)).count() > 4 * MAX_VALUES {
        return Err(limit_message());
    }
    let mut budget = Budget { values: MAX_VALUES, bytes: MAX_STRING_BYTES };
    if text.trim_start().starts_with('{') {
        let mut deserializer = serde_json::Deserializer::from_str(text);
        let value = BoundedValue(&mut budget)
            .deserialize(&mut deserializer)
            .map_err(|error| format!("invalid JSON: {error}"))?;
        deserializer.end().map_err(|error| format!("invalid JSON: {error}"))?;
        return Ok(value);
    }
    let deserializer = serde_norway::Deserializer::from_str(text);
    BoundedValue(&mut budget).deserialize(deserializer).map_err(|error| format!("invalid YAML: {error}"))
}

fn limit_message() -> String {
    format!(
        "the document must not exceed {MAX_VALUES} values and {MAX_STRING_BYTES} bytes of text; \
         import part of the API from a smaller document"
    )
}

/// The number of values and string bytes that may still be read.
struct Budget {
    values: usize,
    bytes: usize,
}

impl Budget {
    fn charge<E: Error>(&mut self, bytes: usize) -> Result<(), E> {
        let (values, bytes) = (self.values.checked_sub(1), self.bytes.checked_sub(bytes));
        let (Some(values), Some(bytes)) = (values, bytes) else { return Err(E::custom(limit_message())) };
        (self.values, self.bytes) = (values, bytes);
        Ok(())
    }
}

/// Deserializes one value and subtracts its size from the budget. Both parsers limit the nesting depth.
struct BoundedValue<'b>(&'b mut Budget);

impl<'de> DeserializeSeed<'de> for BoundedValue<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for BoundedValue<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E: Error>(self) -> Result<Value, E> {
        self.0.charge(0)?;
        Ok(Value::Null)
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Value, E> {
        self.0.charge(0)?;
        Ok(Value::Bool(value))
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Value, E> {
        self.0.charge(0)?;
        Ok(Value::from(value))
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Value, E> {
        self.0.charge(0)?;
        Ok(Value::from(value))
    }

    fn visit_i128<E: Error>(self, value: i128) -> Result<Value, E> {
        self.visit_f64(value as f64)
    }

    fn visit_u128<E: Error>(self, value: u128) -> Result<Value, E> {
        self.visit_f64(value as f64)
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Value, E> {
        self.0.charge(0)?;
        // YAML has infinities and NaN, JSON does not. They become null.
        Ok(Number::from_f64(value).map_or(Value::Null, Value::Number))
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<Value, E> {
        self.0.charge(value.len())?;
        Ok(Value::from(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        self.0.charge(0)?;
        let mut list = Vec::new();
        while let Some(item) = items.next_element_seed(BoundedValue(&mut *self.0))? {
            list.push(item);
        }
        Ok(Value::Array(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        self.0.charge(0)?;
        let mut object = Map::new();
        while let Some(key) = entries.next_key_seed(MapKey)? {
            self.0.charge(key.len())?;
            object.insert(key, entries.next_value_seed(BoundedValue(&mut *self.0))?);
        }
        Ok(Value::Object(object))
    }
}

/// Deserializes a map key as a string. In YAML the key `200` of a response is a number.
struct MapKey;

impl<'de> DeserializeSeed<'de> for MapKey {
    type Value = String;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<String, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for MapKey {
    type Value = String;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string, number or boolean key")
    }

    fn visit_str<E: Error>(self, key: &str) -> Result<String, E> {
        Ok(key.to_owned())
    }

    fn visit_bool<E: Error>(self, key: bool) -> Result<String, E> {
        Ok(key.to_string())
    }

    fn visit_i64<E: Error>(self, key: i64) -> Result<String, E> {
        Ok(key.to_string())
    }

    fn visit_u64<E: Error>(self, key: u64) -> Result<String, E> {
        Ok(key.to_string())
    }

    fn visit_f64<E: Error>(self, key: f64) -> Result<String, E> {
        Ok(key.to_string())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn yaml_and_json_parse_to_the_same_value() {
        let yaml = "openapi: 3.0.3\npaths:\n  /a:\n    get:\n      responses:\n        200: {description: ok}\n        default: {}\n";
        let expected = json!({ "openapi": "3.0.3", "paths": { "/a": { "get": { "responses": { "200": { "description": "ok" }, "default": {} } } } } });
        assert_eq!(parse_value(yaml), Ok(expected.clone()));
        assert_eq!(parse_value(&expected.to_string()), Ok(expected));
    }

    #[test]
    fn yaml_with_exponentially_growing_aliases_is_rejected() {
        let mut bomb = String::from("a0: &a0 [lol, lol, lol, lol, lol, lol, lol, lol, lol, lol]\n");
        for n in 1..12 {
            let uses = vec![format!("*a{}", n - 1); 10].join(", ");
            bomb.push_str(&format!("a{n}: &a{n} [{uses}]\n"));
        }
        assert!(parse_value(&bomb).is_err());
    }

    #[test]
    fn deeply_nested_document_is_rejected() {
        for (open, close) in [("[", "]"), ("{\"a\":", "}")] {
            let text = format!("{{\"a\":{}1{}}}", open.repeat(100_000), close.repeat(100_000));
            assert!(parse_value(&text).unwrap_err().starts_with("invalid JSON"), "{open}");
        }
        assert!(parse_value(&"- ".repeat(100_000)).unwrap_err().starts_with("invalid YAML"));
    }

    #[test]
    fn text_that_is_neither_json_nor_yaml_is_rejected() {
        for text in ["{", "{} {}", "a: [", "a: b\n---\nc: d\n", "!tag {a: b}", "? [a]\n: b\n"] {
            assert!(parse_value(text).is_err(), "{text}");
        }
    }
}
