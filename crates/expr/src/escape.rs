//! Ready escapers for [`Template::render`](crate::Template::render): one for each position that a
//! value can stand in. Each takes the value and gives text that means the value and nothing else.
//!
//! Not here: JSON text, where the position within the text decides
//! ([`JsonTextTemplate`](crate::JsonTextTemplate)).

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::Value;

/// A value that its position cannot carry.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct Refused {
    reason: String,
}

impl Refused {
    /// Refuses for a reason: a lower-case fragment that says what would be right.
    pub fn new(reason: impl Into<String>) -> Self {
        Self { reason: reason.into() }
    }
}

/// All but the unreserved characters of RFC 3986.
const RESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// All but what `application/x-www-form-urlencoded` leaves as it is; a space becomes `+`.
const FORM: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'*').remove(b' ');

/// Plain text: strings as they are, null as nothing, all else as compact JSON.
pub fn text(value: &Value) -> Result<String, Refused> {
    Ok(plain(value))
}

/// One segment of a URL path, or a part of one; a `/` in the value is encoded.
///
/// Null and the empty string are refused: without its id, `/users/${id}` means all users. Whether
/// the finished segment is `.` or `..` only the finished path shows: see [`check_path`].
pub fn path_segment(value: &Value) -> Result<String, Refused> {
    let text = plain(value);
    if text.is_empty() {
        return Err(Refused::new(
            "a value in a URL path is null or empty; give it one, or make the parameter required",
        ));
    }
    Ok(utf8_percent_encode(&text, RESERVED).to_string())
}

/// A name or value in the query of a URL.
pub fn query(value: &Value) -> Result<String, Refused> {
    Ok(utf8_percent_encode(&plain(value), RESERVED).to_string())
}

/// A name or value in a form (`application/x-www-form-urlencoded`).
pub fn form(value: &Value) -> Result<String, Refused> {
    let encoded = utf8_percent_encode(&plain(value), FORM).to_string();
    Ok(encoded.replace(' ', "+"))
}

/// A header value, or a part of one; control characters, which could end it, are refused.
pub fn header(value: &Value) -> Result<String, Refused> {
    let text = plain(value);
    match text.chars().find(|character| character.is_control()) {
        Some(character) => Err(Refused::new(format!(
            "a value in a header holds the control character `{}`; remove it first",
            character.escape_default()
        ))),
        None => Ok(text),
    }
}

/// Refuses a finished path in which a segment is `.` or `..`, encoded or not.
///
/// Such a segment leads elsewhere than the template says, and no single value shows it:
/// `/a/${x}${y}` has one when both are a dot.
pub fn check_path(path: &str) -> Result<(), Refused> {
    let path = path.split(['?', '#']).next().unwrap_or_default();
    let dots = |segment: &&str| {
        let plain = segment.replace("%2e", ".").replace("%2E", ".");
        plain == "." || plain == ".."
    };
    match path.split(['/', '\\']).find(dots) {
        Some(segment) => {
            Err(Refused::new(format!("the path `{path}` holds the segment `{segment}`, which leads elsewhere")))
        }
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
    fn each_position_has_its_own_escape() {
        let value = json!("a b/ü&*~");
        assert_eq!(text(&value).unwrap(), "a b/ü&*~");
        assert_eq!(path_segment(&value).unwrap(), "a%20b%2F%C3%BC%26%2A~");
        assert_eq!(query(&value).unwrap(), "a%20b%2F%C3%BC%26%2A~");
        assert_eq!(form(&value).unwrap(), "a+b%2F%C3%BC%26*%7E");
        assert_eq!(header(&value).unwrap(), "a b/ü&*~");
    }

    #[test]
    fn values_that_are_not_strings_become_compact_json() {
        assert_eq!(text(&json!(null)).unwrap(), "");
        assert_eq!(text(&json!({"a": [1, true]})).unwrap(), r#"{"a":[1,true]}"#);
        assert_eq!(query(&json!([1])).unwrap(), "%5B1%5D");
    }

    #[test]
    fn a_form_encodes_a_plus_sign() {
        assert_eq!(form(&json!("1+1 = 2")).unwrap(), "1%2B1+%3D+2");
    }

    #[test]
    fn a_header_refuses_what_would_end_it() {
        for hostile in ["a\r\nSet-Cookie: x", "a\n", "\0", "\u{7f}", "\u{85}"] {
            assert!(header(&json!(hostile)).is_err(), "{hostile:?}");
        }
    }

    #[test]
    fn an_empty_path_value_is_refused() {
        assert!(path_segment(&json!("")).is_err());
        assert!(path_segment(&json!(null)).is_err());
        assert_eq!(path_segment(&json!(0)).unwrap(), "0");
    }

    #[test]
    fn dot_segments_of_a_finished_path_are_refused() {
        for hostile in ["/a/..", "/a/../b", "..", "/./a", "/a/%2e%2E/b", "/a/.%2e?x=1", "/a\\..\\b"] {
            assert!(check_path(hostile).is_err(), "{hostile}");
        }
        for harmless in ["/a/...", "/a/.b", "/a?next=/../", "/v1.0/a"] {
            assert!(check_path(harmless).is_ok(), "{harmless}");
        }
    }
}
