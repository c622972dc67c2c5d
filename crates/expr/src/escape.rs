//! Escape functions for [`Template::render`](crate::Template::render): one for each part of a request in which a value
//! can occur. The escaped value cannot change the structure of the surrounding text.
//!
//! Not here: escaping in JSON text. [`JsonTextTemplate`](crate::JsonTextTemplate) does it, because the escaping depends
//! on whether the value is inside a JSON string.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::Value;

/// The reason why a value is not allowed in a part of a request.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct EscapeError {
    reason: String,
}

impl EscapeError {
    /// Creates an error from a lower-case fragment that states the rule and the remedy.
    pub fn new(reason: impl Into<String>) -> Self {
        Self { reason: reason.into() }
    }
}

/// The characters that are percent-encoded in a URL: all except the unreserved characters of RFC 3986.
const RESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// The characters that are percent-encoded in a form (`application/x-www-form-urlencoded`). A space becomes `+`.
const FORM: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'*').remove(b' ');

/// Escapes a value for plain text: strings unchanged, null as an empty string, other values as compact JSON.
pub fn text(value: &Value) -> Result<String, EscapeError> {
    Ok(plain(value))
}

/// Escapes a value for one segment of a URL path, or a part of a segment. Encodes `/`.
///
/// Rejects null and the empty string, because `/users/${id}` without an id is the path of all users. Accepts `.` and
/// `..`, because the value may be only a part of the segment. [`check_path`] rejects such segments in the rendered
/// path.
pub fn path_segment(value: &Value) -> Result<String, EscapeError> {
    let text = plain(value);
    if text.is_empty() {
        return Err(EscapeError::new(
            "a value in a URL path must not be null or empty; provide a value, or make the parameter required",
        ));
    }
    Ok(utf8_percent_encode(&text, RESERVED).to_string())
}

/// Escapes a name or value in the query of a URL.
pub fn query(value: &Value) -> Result<String, EscapeError> {
    Ok(utf8_percent_encode(&plain(value), RESERVED).to_string())
}

/// Escapes a name or value in a form (`application/x-www-form-urlencoded`).
pub fn form(value: &Value) -> Result<String, EscapeError> {
    let encoded = utf8_percent_encode(&plain(value), FORM).to_string();
    Ok(encoded.replace(' ', "+"))
}

/// Escapes a header value, or a part of one. Rejects control characters, which could end the header.
pub fn header(value: &Value) -> Result<String, EscapeError> {
    let text = plain(value);
    match text.chars().find(|character| character.is_control()) {
        Some(character) => Err(EscapeError::new(format!(
            "a value in a header must not contain the control character `{}`; remove it first",
            character.escape_default()
        ))),
        None => Ok(text),
    }
}

/// Rejects a rendered path with a `.` or `..` segment, encoded or not.
///
/// With such a segment, the path would lead to another resource than the template intends. Checking each value alone is
/// not enough: in `/a/${x}${y}`, both values may be a dot.
pub fn check_path(path: &str) -> Result<(), EscapeError> {
    let path = path.split(['?', '#']).next().unwrap_or_default();
    let dots = |segment: &&str| {
        let plain = segment.replace("%2e", ".").replace("%2E", ".");
        plain == "." || plain == ".."
    };
    match path.split(['/', '\\']).find(dots) {
        Some(segment) => Err(EscapeError::new(format!("path `{path}` must not contain the segment `{segment}`"))),
        None => Ok(()),
    }
}

pub(crate) fn plain(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn reserved_characters_are_percent_encoded_in_urls_and_forms_but_not_in_headers() {
        let value = json!("a b/ü&*~");
        assert_eq!(text(&value).unwrap(), "a b/ü&*~");
        assert_eq!(path_segment(&value).unwrap(), "a%20b%2F%C3%BC%26%2A~");
        assert_eq!(query(&value).unwrap(), "a%20b%2F%C3%BC%26%2A~");
        assert_eq!(form(&value).unwrap(), "a+b%2F%C3%BC%26*%7E");
        assert_eq!(header(&value).unwrap(), "a b/ü&*~");
    }

    #[test]
    fn null_is_written_as_empty_text_but_a_list_or_object_as_compact_json() {
        assert_eq!(text(&json!(null)).unwrap(), "");
        assert_eq!(text(&json!({"a": [1, true]})).unwrap(), r#"{"a":[1,true]}"#);
        assert_eq!(query(&json!([1])).unwrap(), "%5B1%5D");
    }

    #[test]
    fn form_value_encodes_plus_sign_as_2b_and_space_as_plus() {
        assert_eq!(form(&json!("1+1 = 2")).unwrap(), "1%2B1+%3D+2");
    }

    #[test]
    fn header_value_with_control_characters_is_rejected() {
        for hostile in ["a\r\nSet-Cookie: x", "a\n", "\0", "\u{7f}", "\u{85}"] {
            assert!(header(&json!(hostile)).is_err(), "{hostile:?}");
        }
    }

    #[test]
    fn null_and_empty_path_values_are_rejected() {
        assert!(path_segment(&json!("")).is_err());
        assert!(path_segment(&json!(null)).is_err());
        assert_eq!(path_segment(&json!(0)).unwrap(), "0");
    }

    #[test]
    fn rendered_path_with_dot_segments_is_rejected() {
        for hostile in ["/a/..", "/a/../b", "..", "/./a", "/a/%2e%2E/b", "/a/.%2e?x=1", "/a\\..\\b"] {
            assert!(check_path(hostile).is_err(), "{hostile}");
        }
        for harmless in ["/a/...", "/a/.b", "/a?next=/../", "/v1.0/a"] {
            assert!(check_path(harmless).is_ok(), "{harmless}");
        }
    }
}
