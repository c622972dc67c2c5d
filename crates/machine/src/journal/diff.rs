//! Compares two JSON values field by field.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A field in which two values differ.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ValueDifference {
    /// The location as a JSON pointer.
    pub field: String,
    /// The first value; null if the field is absent.
    pub expected: Value,
    /// The second value; null if the field is absent.
    pub got: Value,
}

/// Returns every difference between two values, in the field order of the first value.
pub fn differences(expected: &Value, got: &Value) -> Vec<ValueDifference> {
    let mut found = Vec::new();
    compare("", expected, got, &mut found);
    found
}

/// Removes timestamps, which always differ between two runs. The inputs and outputs of calls are not changed, because
/// their fields can have any name.
pub fn remove_timestamps(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.retain(|name, _| !["t_start", "t_end", "active_us", "at"].contains(&name.as_str()));
            let own = fields.iter_mut().filter(|(name, _)| !["input", "output", "arguments"].contains(&name.as_str()));
            own.for_each(|(_, value)| remove_timestamps(value));
        }
        Value::Array(items) => items.iter_mut().for_each(remove_timestamps),
        _ => {}
    }
}

fn compare(pointer: &str, expected: &Value, got: &Value, found: &mut Vec<ValueDifference>) {
    match (expected, got) {
        (Value::Object(a), Value::Object(b)) => {
            let added = b.keys().filter(|key| !a.contains_key(*key));
            for key in a.keys().chain(added) {
                let pointer = format!("{pointer}/{}", key.replace('~', "~0").replace('/', "~1"));
                compare_members(&pointer, a.get(key), b.get(key), found);
            }
        }
        (Value::Array(a), Value::Array(b)) => {
            for at in 0..a.len().max(b.len()) {
                compare_members(&format!("{pointer}/{at}"), a.get(at), b.get(at), found);
            }
        }
        _ if expected == got => {}
        _ => found.push(ValueDifference { field: pointer.to_owned(), expected: expected.clone(), got: got.clone() }),
    }
}

fn compare_members(pointer: &str, expected: Option<&Value>, got: Option<&Value>, found: &mut Vec<ValueDifference>) {
    match (expected, got) {
        (Some(expected), Some(got)) => compare(pointer, expected, got, found),
        (expected, got) => found.push(ValueDifference {
            field: pointer.to_owned(),
            expected: expected.cloned().unwrap_or_default(),
            got: got.cloned().unwrap_or_default(),
        }),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn differing_fields_are_listed_in_the_order_of_the_first_value() {
        let a = json!({ "same": 1, "x/y": { "z": [1, 2, 3] }, "gone": true });
        let b = json!({ "same": 1, "x/y": { "z": [1, 5] }, "new": {} });
        let fields =
            differences(&a, &b).into_iter().map(|difference| (difference.field, difference.expected, difference.got));
        let expected = [
            ("/x~1y/z/1", json!(2), json!(5)),
            ("/x~1y/z/2", json!(3), json!(null)),
            ("/gone", json!(true), json!(null)),
            ("/new", json!(null), json!({})),
        ];
        assert_eq!(fields.collect::<Vec<_>>(), expected.map(|(field, a, b)| (field.to_owned(), a, b)));
        assert_eq!(differences(&a, &a), []);
    }
}
