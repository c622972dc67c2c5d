//! From text to a value, within limits. Whether the text is JSON or YAML shows in its first character.

use std::fmt;

use serde::Deserializer;
use serde::de::{DeserializeSeed, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

/// The largest document that is read, in bytes.
pub const LARGEST_TEXT: usize = 64 << 20;

/// How many values a document may have: three times what the largest descriptions of today have.
const MOST_VALUES: usize = 4_000_000;

/// How many bytes its texts may have together. YAML can say a text once and mean it a million times.
const MOST_BYTES: usize = 2 * LARGEST_TEXT;

/// The value that `text` means, or what is wrong with it.
pub(crate) fn read(text: &str) -> Result<Value, String> {
    if text.len() > LARGEST_TEXT {
        return Err(format!("the document has {} bytes; at most {LARGEST_TEXT} are read", text.len()));
    }
    let text = text.trim_start_matches('\u{feff}');
    // The reader of YAML keeps all of a text's parts before the first of them is looked at.
    if text.bytes().filter(|byte| b",\n:[{?-".contains(byte)).count() > 4 * MOST_VALUES {
        return Err(too_many());
    }
    let mut budget = Budget { values: MOST_VALUES, bytes: MOST_BYTES };
    if text.trim_start().starts_with('{') {
        let mut reader = serde_json::Deserializer::from_str(text);
        let value = Node(&mut budget).deserialize(&mut reader).map_err(|error| format!("not JSON: {error}"))?;
        reader.end().map_err(|error| format!("not JSON: {error}"))?;
        return Ok(value);
    }
    let reader = serde_norway::Deserializer::from_str(text);
    Node(&mut budget).deserialize(reader).map_err(|error| format!("not YAML: {error}"))
}

fn too_many() -> String {
    format!("the document has more than {MOST_VALUES} values; import a part of the API from a smaller document")
}

/// What may still be read.
struct Budget {
    values: usize,
    bytes: usize,
}

impl Budget {
    fn pay<E: Error>(&mut self, bytes: usize) -> Result<(), E> {
        let (values, bytes) = (self.values.checked_sub(1), self.bytes.checked_sub(bytes));
        let (Some(values), Some(bytes)) = (values, bytes) else { return Err(E::custom(too_many())) };
        (self.values, self.bytes) = (values, bytes);
        Ok(())
    }
}

/// One value. How deep values nest is limited by both readers.
struct Node<'b>(&'b mut Budget);

impl<'de> DeserializeSeed<'de> for Node<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Node<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value that JSON can hold")
    }

    fn visit_unit<E: Error>(self) -> Result<Value, E> {
        self.0.pay(0)?;
        Ok(Value::Null)
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Value, E> {
        self.0.pay(0)?;
        Ok(Value::Bool(value))
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Value, E> {
        self.0.pay(0)?;
        Ok(Value::from(value))
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Value, E> {
        self.0.pay(0)?;
        Ok(Value::from(value))
    }

    fn visit_i128<E: Error>(self, value: i128) -> Result<Value, E> {
        self.visit_f64(value as f64)
    }

    fn visit_u128<E: Error>(self, value: u128) -> Result<Value, E> {
        self.visit_f64(value as f64)
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Value, E> {
        self.0.pay(0)?;
        // YAML has numbers that JSON has not.
        Ok(Number::from_f64(value).map_or(Value::Null, Value::Number))
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<Value, E> {
        self.0.pay(value.len())?;
        Ok(Value::from(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        self.0.pay(0)?;
        let mut list = Vec::new();
        while let Some(item) = items.next_element_seed(Node(&mut *self.0))? {
            list.push(item);
        }
        Ok(Value::Array(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        self.0.pay(0)?;
        let mut object = Map::new();
        while let Some(key) = entries.next_key_seed(Key)? {
            self.0.pay(key.len())?;
            object.insert(key, entries.next_value_seed(Node(&mut *self.0))?);
        }
        Ok(Value::Object(object))
    }
}

/// A key. In YAML the `200` of a response is a number.
struct Key;

impl<'de> DeserializeSeed<'de> for Key {
    type Value = String;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<String, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Key {
    type Value = String;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key that is a text, a number or a truth value")
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
    fn yaml_and_json_mean_the_same() {
        let yaml = "openapi: 3.0.3\npaths:\n  /a:\n    get:\n      responses:\n        200: {description: ok}\n        default: {}\n";
        let expected = json!({ "openapi": "3.0.3", "paths": { "/a": { "get": { "responses": { "200": { "description": "ok" }, "default": {} } } } } });
        assert_eq!(read(yaml), Ok(expected.clone()));
        assert_eq!(read(&expected.to_string()), Ok(expected));
    }

    #[test]
    fn a_few_lines_that_mean_billions_are_refused() {
        let mut bomb = String::from("a0: &a0 [lol, lol, lol, lol, lol, lol, lol, lol, lol, lol]\n");
        for n in 1..12 {
            let uses = vec![format!("*a{}", n - 1); 10].join(", ");
            bomb.push_str(&format!("a{n}: &a{n} [{uses}]\n"));
        }
        assert!(read(&bomb).is_err());
    }

    #[test]
    fn nesting_beyond_measure_is_refused() {
        for (open, close) in [("[", "]"), ("{\"a\":", "}")] {
            let text = format!("{{\"a\":{}1{}}}", open.repeat(100_000), close.repeat(100_000));
            assert!(read(&text).unwrap_err().starts_with("not JSON"), "{open}");
        }
        assert!(read(&"- ".repeat(100_000)).unwrap_err().starts_with("not YAML"));
    }

    #[test]
    fn what_is_neither_is_refused() {
        for text in ["{", "{} {}", "a: [", "a: b\n---\nc: d\n", "!tag {a: b}", "? [a]\n: b\n"] {
            assert!(read(text).is_err(), "{text}");
        }
    }
}
