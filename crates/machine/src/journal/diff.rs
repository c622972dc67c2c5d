//! Where two values differ, field by field.

use serde::Serialize;
use serde_json::Value;

/// One field in which two values differ.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Difference {
    /// Where, as a JSON pointer.
    pub field: String,
    /// What is there in the first; null when nothing is.
    pub expected: Value,
    /// What is there in the second; null when nothing is.
    pub got: Value,
}

/// Every place where two values differ, in the order of the first one.
pub fn differences(expected: &Value, got: &Value) -> Vec<Difference> {
    let mut found = Vec::new();
    compare("", expected, got, &mut found);
    found
}

fn compare(place: &str, expected: &Value, got: &Value, found: &mut Vec<Difference>) {
    match (expected, got) {
        (Value::Object(a), Value::Object(b)) => {
            let added = b.keys().filter(|key| !a.contains_key(*key));
            for key in a.keys().chain(added) {
                let place = format!("{place}/{}", key.replace('~', "~0").replace('/', "~1"));
                compare_parts(&place, a.get(key), b.get(key), found);
            }
        }
        (Value::Array(a), Value::Array(b)) => {
            for at in 0..a.len().max(b.len()) {
                compare_parts(&format!("{place}/{at}"), a.get(at), b.get(at), found);
            }
        }
        _ if expected == got => {}
        _ => found.push(Difference { field: place.to_owned(), expected: expected.clone(), got: got.clone() }),
    }
}

fn compare_parts(place: &str, expected: Option<&Value>, got: Option<&Value>, found: &mut Vec<Difference>) {
    match (expected, got) {
        (Some(expected), Some(got)) => compare(place, expected, got, found),
        (expected, got) => found.push(Difference {
            field: place.to_owned(),
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
    fn fields_that_differ_are_named_in_order() {
        let a = json!({ "same": 1, "x/y": { "z": [1, 2, 3] }, "gone": true });
        let b = json!({ "same": 1, "x/y": { "z": [1, 5] }, "new": {} });
        let fields = differences(&a, &b).into_iter().map(|one| (one.field, one.expected, one.got));
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
