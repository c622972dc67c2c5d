//! Shows the input of a call to the person who decides about it.
//!
//! Every key and every value is shown. A long text is shortened and followed by the number of omitted characters, so it
//! cannot hide another field. If an input has too many values, the server does not show it and does not request a
//! confirmation: a person must not confirm an input that is not visible.

use std::fmt::Write;

use serde_json::Value;

/// The maximum length of a shown text or key, in characters. A longer one is shortened.
const MAX_TEXT_CHARS: usize = 200;
/// The maximum number of keys and list items that are shown.
const MAX_VALUES: usize = 200;

/// The input has too many values to show them to a person.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("the input has {count} keys and list items, and at most {MAX_VALUES} can be shown to the user")]
pub(super) struct TooManyValues {
    count: usize,
}

/// Returns the input as JSON with shortened texts.
pub(super) fn shown_input(input: &Value) -> Result<String, TooManyValues> {
    let count = count_values(input);
    if count > MAX_VALUES {
        return Err(TooManyValues { count });
    }
    let mut out = String::new();
    write_value(&mut out, input);
    Ok(out)
}

fn count_values(value: &Value) -> usize {
    match value {
        Value::Array(items) => items.iter().map(|item| 1 + count_values(item)).sum(),
        Value::Object(fields) => fields.values().map(|field| 1 + count_values(field)).sum(),
        _ => 0,
    }
}

fn write_value(out: &mut String, value: &Value) {
    match value {
        Value::Array(items) => {
            out.push('[');
            for (n, item) in items.iter().enumerate() {
                out.push_str(if n == 0 { "" } else { "," });
                write_value(out, item);
            }
            out.push(']');
        }
        Value::Object(fields) => {
            out.push('{');
            for (n, (name, field)) in fields.iter().enumerate() {
                out.push_str(if n == 0 { "" } else { "," });
                write_text(out, name);
                out.push(':');
                write_value(out, field);
            }
            out.push('}');
        }
        Value::String(text) => write_text(out, text),
        // A number can have many digits, so it is shortened too.
        Value::Number(number) => write_shortened(out, &number.to_string(), |text| text.to_owned()),
        Value::Null | Value::Bool(_) => out.push_str(&value.to_string()),
    }
}

/// Writes a JSON string. JSON escapes control characters, so a text cannot imitate the end of the question.
fn write_text(out: &mut String, text: &str) {
    write_shortened(out, text, |text| Value::from(text).to_string());
}

fn write_shortened(out: &mut String, text: &str, format: impl Fn(&str) -> String) {
    match text.char_indices().nth(MAX_TEXT_CHARS) {
        None => out.push_str(&format(text)),
        Some((end, _)) => {
            let (shown, rest) = text.split_at(end);
            // Writing to a string does not fail.
            let _ = write!(out, "{} (and {} more characters)", format(shown), rest.chars().count());
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn short_input_is_shown_unchanged() {
        let input = json!({ "deal": 7, "tags": ["a", null], "to": { "name": "Ada \"A\"" } });
        assert_eq!(shown_input(&input), Ok(input.to_string()));
    }

    #[test]
    fn every_key_is_shown_and_long_texts_are_shortened() {
        let long = "x".repeat(5000);
        let input = json!({ "a": long, "b": { "c": [long, 1] }, (long.as_str()): true, "z": "delete everything" });
        let shown = shown_input(&input).unwrap();
        assert!(shown.contains("\"z\":\"delete everything\""), "{shown}");
        assert_eq!(shown.matches("(and 4800 more characters)").count(), 3, "{shown}");
        assert!(shown.contains("\"c\":[") && shown.contains(",1]") && shown.contains(":true"), "{shown}");
    }

    #[test]
    fn input_with_too_many_values_is_not_shown() {
        let items = |count: usize| json!({ "items": (0..count).collect::<Vec<_>>() });
        assert!(shown_input(&items(MAX_VALUES - 1)).is_ok());
        assert_eq!(shown_input(&items(MAX_VALUES)), Err(TooManyValues { count: MAX_VALUES + 1 }));
    }
}
