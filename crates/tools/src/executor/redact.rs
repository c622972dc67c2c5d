//! Removes the values of secrets from whatever leaves the executor.

use aho_corasick::{AhoCorasick, MatchKind};
use base64::Engine;
use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};
use bytes::Bytes;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use secrecy::{ExposeSecret, SecretString};
use serde_json::Value;
use toolwright_types::ToolError;

/// Shorter values would match by accident, and are no secrets worth the name.
const SHORTEST: usize = 8;
const REMOVED: &str = "[redacted]";
/// What RFC 3986 lets stand in a component, and what most encoders therefore leave alone.
const COMPONENT: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');
/// What may stand in a path as it is, slashes included.
const PATH: &AsciiSet = &COMPONENT.remove(b'/');

/// One automaton over all secret values of a call, in the spellings they are likely to come back in.
#[derive(Debug)]
pub struct Redactor(Option<AhoCorasick>);

impl Redactor {
    /// A redactor of these values.
    pub fn new<'a>(secrets: impl IntoIterator<Item = &'a SecretString>) -> Self {
        let patterns: Vec<String> = secrets
            .into_iter()
            // Space around a value is not sent, so it does not come back either.
            .map(|secret| secret.expose_secret().trim())
            .filter(|value| value.len() >= SHORTEST)
            .flat_map(spellings)
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
            *text = secrets.replace_all(text, &vec![REMOVED; secrets.patterns_len()]);
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
            Value::Number(number) if self.matches(number.to_string().as_bytes()) => *value = Value::from(REMOVED),
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    /// Redacts bytes, which are left as they are when they hold no secret.
    pub fn bytes(&self, bytes: Bytes) -> Bytes {
        match &self.0 {
            Some(secrets) if secrets.is_match(&*bytes) => {
                Bytes::from(secrets.replace_all_bytes(&bytes, &vec![REMOVED; secrets.patterns_len()]))
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

    /// Whether a value holds a secret anywhere.
    pub fn is_in(&self, value: &Value) -> bool {
        self.0.is_some() && self.matches(value.to_string().as_bytes())
    }

    fn matches(&self, bytes: &[u8]) -> bool {
        self.0.as_ref().is_some_and(|secrets| secrets.is_match(bytes))
    }
}

/// The value itself, JSON-escaped, percent-encoded the ways servers do it, and as a part of any base64.
fn spellings(value: &str) -> Vec<String> {
    let quoted = serde_json::to_string(value).unwrap_or_default();
    let escaped = quoted.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')).unwrap_or_default();
    let mut all = vec![value.to_owned(), escaped.to_owned()];
    all.push(escaped.replace('/', "\\/"));
    all.push(serde_json::to_string(escaped).unwrap_or_default().trim_matches('"').to_owned());
    all.push(html_escaped(value));
    for set in [NON_ALPHANUMERIC, COMPONENT, PATH] {
        let encoded = utf8_percent_encode(value, set).to_string();
        all.push(lower_digits(&encoded));
        all.push(encoded.replace("%20", "+"));
        all.push(encoded);
    }
    for shift in 0..3 {
        all.push(inside_base64(&STANDARD_NO_PAD, value, shift));
        all.push(inside_base64(&URL_SAFE_NO_PAD, value, shift));
    }
    all.retain(|spelling| spelling.len() >= SHORTEST);
    all.sort();
    all.dedup();
    all
}

/// As in the text of a page.
fn html_escaped(value: &str) -> String {
    let entities = [("&", "&amp;"), ("<", "&lt;"), (">", "&gt;"), ("\"", "&quot;"), ("'", "&#39;")];
    entities.iter().fold(value.to_owned(), |text, (character, entity)| text.replace(character, entity))
}

/// `%2F` as `%2f`.
fn lower_digits(encoded: &str) -> String {
    let mut parts = encoded.split('%');
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (digits, rest) = part.split_at_checked(2).unwrap_or((part, ""));
        text.push('%');
        text.push_str(&digits.to_ascii_lowercase());
        text.push_str(rest);
    }
    text
}

/// The characters of base64 that depend on `value` alone when so many bytes (modulo 3) come before it, as the name of
/// the user does in `Authorization: Basic`.
fn inside_base64(engine: &impl Engine, value: &str, shift: usize) -> String {
    let mut bytes = vec![0; shift];
    bytes.extend_from_slice(value.as_bytes());
    let encoded = engine.encode(&bytes);
    let (start, end) = ((shift * 8).div_ceil(6), bytes.len() * 8 / 6);
    encoded.get(start..end).unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use base64::engine::general_purpose::STANDARD;
    use serde_json::json;

    use super::*;

    #[test]
    fn every_spelling_disappears_from_every_place() {
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
        assert_eq!(text.matches(REMOVED).count(), 5, "{text}");
    }

    #[test]
    fn a_secret_is_found_wherever_it_stands_in_base64() {
        let redactor = Redactor::new([&SecretString::from("s3cret/with+signs~")]);
        for before in ["", "a", "ab", "client-7:"] {
            for after in ["", "x", "xy", "xyz"] {
                let plain = format!("{before}s3cret/with+signs~{after}");
                for mut text in [STANDARD.encode(&plain), URL_SAFE_NO_PAD.encode(&plain)] {
                    redactor.text(&mut text);
                    assert!(text.contains(REMOVED), "{plain}: {text}");
                }
            }
        }
    }

    #[test]
    fn the_encodings_of_common_libraries_are_known() {
        let redactor = Redactor::new([&SecretString::from("ab/cd-ef gh=ij ")]);
        for spelling in [
            "ab%2Fcd-ef%20gh%3Dij",
            "ab%2fcd-ef%20gh%3dij",
            "ab%2Fcd-ef+gh%3Dij",
            "ab%2Fcd%2Def%20gh%3Dij",
            "ab/cd-ef gh=ij",
        ] {
            let mut text = format!("x={spelling}&y=1");
            redactor.text(&mut text);
            assert_eq!(text, "x=[redacted]&y=1", "{spelling}");
        }
    }

    #[test]
    fn a_number_can_be_a_secret() {
        let mut value = json!({ "pin": 1234567890, "n": 12 });
        Redactor::new([&SecretString::from("1234567890")]).value(&mut value);
        assert_eq!(value, json!({ "pin": REMOVED, "n": 12 }));
    }

    #[test]
    fn short_values_are_left_alone() {
        let mut value = json!("1234567");
        Redactor::new([&SecretString::from("1234567")]).value(&mut value);
        assert_eq!(value, json!("1234567"));
    }
}
