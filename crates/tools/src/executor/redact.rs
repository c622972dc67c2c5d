//! Redacts the values of secrets in envelopes, cached results and logged errors.

use aho_corasick::{AhoCorasick, MatchKind};
use base64::Engine;
use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};
use bytes::Bytes;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use secrecy::{ExposeSecret, SecretString};
use serde_json::Value;
use toolwright_types::ToolError;

use crate::ToolFailure;

/// Shorter values are not redacted, because they would match unrelated text.
const MIN_SECRET_LEN: usize = 8;
const PLACEHOLDER: &str = "[redacted]";
/// The characters that RFC 3986 allows in a component and that most encoders therefore keep.
const COMPONENT: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');
/// The characters that are allowed in a path, including slashes.
const PATH: &AsciiSet = &COMPONENT.remove(b'/');

/// Searches for all secrets of a call at once, in the encodings in which an upstream is likely to return them.
#[derive(Debug)]
pub struct Redactor(Option<AhoCorasick>);

impl Redactor {
    /// Creates a redactor of these values.
    pub fn new<'a>(secrets: impl IntoIterator<Item = &'a SecretString>) -> Self {
        let patterns: Vec<String> = secrets
            .into_iter()
            // Secrets are sent without leading and trailing whitespace, so responses contain them without it.
            .map(|secret| secret.expose_secret().trim())
            .filter(|value| value.len() >= MIN_SECRET_LEN)
            .flat_map(encodings)
            .collect();
        if patterns.is_empty() {
            return Self(None);
        }
        Self(AhoCorasick::builder().match_kind(MatchKind::LeftmostLongest).build(patterns).ok())
    }

    /// Redacts a text in place.
    pub fn text(&self, text: &mut String) {
        if let Some(secrets) = &self.0
            && secrets.is_match(text.as_str())
        {
            *text = secrets.replace_all(text, &vec![PLACEHOLDER; secrets.patterns_len()]);
        }
    }

    /// Redacts every string of a value in place, keys included.
    pub fn value(&self, value: &mut Value) {
        if self.0.is_none() {
            return;
        }
        match value {
            Value::String(text) => self.text(text),
            Value::Array(items) => items.iter_mut().for_each(|item| self.value(item)),
            Value::Object(fields) => {
                if fields.keys().any(|key| self.matches(key.as_bytes())) {
                    let cleaned = std::mem::take(fields).into_iter().map(|(mut key, value)| {
                        self.text(&mut key);
                        (key, value)
                    });
                    *fields = cleaned.collect();
                }
                fields.values_mut().for_each(|value| self.value(value));
            }
            Value::Number(number) if self.matches(number.to_string().as_bytes()) => *value = Value::from(PLACEHOLDER),
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    /// Redacts bytes. Returns them unchanged if they contain no secret.
    pub fn bytes(&self, bytes: Bytes) -> Bytes {
        match &self.0 {
            Some(secrets) if secrets.is_match(&*bytes) => {
                Bytes::from(secrets.replace_all_bytes(&bytes, &vec![PLACEHOLDER; secrets.patterns_len()]))
            }
            _ => bytes,
        }
    }

    /// Redacts an error in place.
    pub fn error(&self, error: &mut ToolError) {
        self.text(&mut error.message);
        if let Some(details) = &mut error.details {
            self.value(details);
        }
    }

    /// Whether a value contains a secret.
    pub fn is_in(&self, value: &Value) -> bool {
        self.0.is_some() && self.matches(value.to_string().as_bytes())
    }

    fn matches(&self, bytes: &[u8]) -> bool {
        self.0.as_ref().is_some_and(|secrets| secrets.is_match(bytes))
    }
}

/// Returns the value itself and its encodings: JSON-escaped, HTML-escaped, percent-encoded in the common ways, and as
/// part of a base64 text.
fn encodings(value: &str) -> Vec<String> {
    let quoted = serde_json::to_string(value).unwrap_or_default();
    let escaped = quoted.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')).unwrap_or_default();
    let mut all = vec![value.to_owned(), escaped.to_owned()];
    all.push(escaped.replace('/', "\\/"));
    all.push(serde_json::to_string(escaped).unwrap_or_default().trim_matches('"').to_owned());
    all.push(html_escaped(value));
    for set in [NON_ALPHANUMERIC, COMPONENT, PATH] {
        let encoded = utf8_percent_encode(value, set).to_string();
        all.push(lowercase_percent_digits(&encoded));
        all.push(encoded.replace("%20", "+"));
        all.push(encoded);
    }
    for shift in 0..3 {
        all.push(base64_fragment(&STANDARD_NO_PAD, value, shift));
        all.push(base64_fragment(&URL_SAFE_NO_PAD, value, shift));
    }
    all.retain(|encoding| encoding.len() >= MIN_SECRET_LEN);
    all.sort();
    all.dedup();
    all
}

/// Escapes the value as in HTML text.
fn html_escaped(value: &str) -> String {
    let entities = [("&", "&amp;"), ("<", "&lt;"), (">", "&gt;"), ("\"", "&quot;"), ("'", "&#39;")];
    entities.iter().fold(value.to_owned(), |text, (character, entity)| text.replace(character, entity))
}

/// Writes `%2F` as `%2f`.
fn lowercase_percent_digits(encoded: &str) -> String {
    let mut segments = encoded.split('%');
    let mut text = segments.next().unwrap_or_default().to_owned();
    for segment in segments {
        let (digits, rest) = segment.split_at_checked(2).unwrap_or((segment, ""));
        text.push('%');
        text.push_str(&digits.to_ascii_lowercase());
        text.push_str(rest);
    }
    text
}

/// Returns the base64 characters that depend on `value` alone if `shift` bytes (modulo 3) precede it. In
/// `Authorization: Basic`, for example, the user name precedes the password.
fn base64_fragment(engine: &impl Engine, value: &str, shift: usize) -> String {
    let mut bytes = vec![0; shift];
    bytes.extend_from_slice(value.as_bytes());
    let encoded = engine.encode(&bytes);
    let (start, end) = ((shift * 8).div_ceil(6), bytes.len() * 8 / 6);
    encoded.get(start..end).unwrap_or_default().to_owned()
}

impl ToolFailure {
    pub(crate) fn redacted(mut self, redactor: &Redactor) -> Self {
        redactor.error(&mut self.error);
        self
    }
}

#[cfg(test)]
mod tests {
    use base64::engine::general_purpose::STANDARD;
    use serde_json::json;

    use super::*;

    #[test]
    fn encoded_secret_is_redacted_in_keys_and_values() {
        let secret = SecretString::from("p@ss/w\"ord&1234");
        let redactor = Redactor::new([&secret]);
        let mut value = json!({
            "plain": "x p@ss/w\"ord&1234 y",
            "p@ss/w\"ord&1234": [STANDARD.encode("p@ss/w\"ord&1234"), "p%40ss%2Fw%22ord%261234"],
            "escaped": "{\"k\":\"p@ss/w\\\"ord&1234\"}",
        });
        redactor.value(&mut value);
        let text = value.to_string();
        assert!(!text.contains("ord&1234") && !text.contains("ord%261234") && !text.contains("cEBzcy93"), "{text}");
        assert_eq!(text.matches(PLACEHOLDER).count(), 5, "{text}");
    }

    #[test]
    fn secret_is_redacted_at_any_offset_in_base64() {
        let redactor = Redactor::new([&SecretString::from("s3cret/with+signs~")]);
        for before in ["", "a", "ab", "client-7:"] {
            for after in ["", "x", "xy", "xyz"] {
                let plain = format!("{before}s3cret/with+signs~{after}");
                for mut text in [STANDARD.encode(&plain), URL_SAFE_NO_PAD.encode(&plain)] {
                    redactor.text(&mut text);
                    assert!(text.contains(PLACEHOLDER), "{plain}: {text}");
                }
            }
        }
    }

    #[test]
    fn percent_encodings_of_common_libraries_are_redacted() {
        let redactor = Redactor::new([&SecretString::from("ab/cd-ef gh=ij ")]);
        for encoding in [
            "ab%2Fcd-ef%20gh%3Dij",
            "ab%2fcd-ef%20gh%3dij",
            "ab%2Fcd-ef+gh%3Dij",
            "ab%2Fcd%2Def%20gh%3Dij",
            "ab/cd-ef gh=ij",
        ] {
            let mut text = format!("x={encoding}&y=1");
            redactor.text(&mut text);
            assert_eq!(text, "x=[redacted]&y=1", "{encoding}");
        }
    }

    #[test]
    fn secret_that_occurs_as_a_json_number_is_redacted() {
        let mut value = json!({ "pin": 1234567890, "n": 12 });
        Redactor::new([&SecretString::from("1234567890")]).value(&mut value);
        assert_eq!(value, json!({ "pin": PLACEHOLDER, "n": 12 }));
    }

    #[test]
    fn secret_shorter_than_eight_bytes_is_not_redacted() {
        let mut value = json!("1234567");
        Redactor::new([&SecretString::from("1234567")]).value(&mut value);
        assert_eq!(value, json!("1234567"));
    }
}
