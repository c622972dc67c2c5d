//! Redacts the values of secrets in envelopes, cached results and logged errors.

use std::sync::Arc;

use aho_corasick::{AhoCorasick, MatchKind};
use base64::Engine;
use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};
use bytes::Bytes;
use data_encoding::{HEXLOWER, HEXUPPER};
use secrecy::{ExposeSecret, SecretString};
use serde_json::Value;
use toolwright_types::ToolError;

use super::escaped_secrets::EscapedSecrets;
use crate::ToolFailure;

/// The minimum length of a redacted value, in bytes. Shorter values are not redacted, because they would match
/// unrelated text.
const MIN_SECRET_LEN: usize = 8;
const PLACEHOLDER: &str = "[redacted]";
/// Searches for all secrets of a call in one pass, in the encodings in which an upstream is likely to return them.
#[derive(Debug, Clone, Default)]
pub struct Redactor {
    /// Finds the values themselves and their hexadecimal and base64 encodings.
    encoded: Option<AhoCorasick>,
    /// Finds the values with escaped characters.
    escaped: Option<Arc<EscapedSecrets>>,
}

impl Redactor {
    /// Creates a redactor of these values.
    pub fn new<'a>(secrets: impl IntoIterator<Item = &'a SecretString>) -> Self {
        let values: Vec<&str> = secrets
            .into_iter()
            // Secrets are sent without leading and trailing whitespace, so responses contain the trimmed values.
            .map(|secret| secret.expose_secret().trim())
            .filter(|value| value.len() >= MIN_SECRET_LEN)
            .collect();
        if values.is_empty() {
            return Self::default();
        }
        let patterns: Vec<String> = values.iter().flat_map(|value| encodings(value)).collect();
        Self {
            encoded: AhoCorasick::builder().match_kind(MatchKind::LeftmostLongest).build(patterns).ok(),
            escaped: EscapedSecrets::new(&values).map(Arc::new),
        }
    }

    /// Redacts a text in place.
    pub fn text(&self, text: &mut String) {
        if let Some(redacted) = self.replaced(text.as_bytes()) {
            *text = String::from_utf8(redacted).unwrap_or_else(|_| PLACEHOLDER.to_owned());
        }
    }

    /// Returns the bytes with placeholders; `None` if they contain no secret.
    fn replaced(&self, bytes: &[u8]) -> Option<Vec<u8>> {
        let encoded = self.encoded.as_ref().filter(|encoded| encoded.is_match(bytes));
        let once = encoded.map(|encoded| encoded.replace_all_bytes(bytes, &vec![PLACEHOLDER; encoded.patterns_len()]));
        let escaped = self.escaped.as_ref();
        let twice = escaped.and_then(|escaped| escaped.replace(once.as_deref().unwrap_or(bytes), PLACEHOLDER));
        twice.or(once)
    }

    /// Redacts every string of a value in place, keys included.
    pub fn value(&self, value: &mut Value) {
        if self.encoded.is_none() {
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
        self.replaced(&bytes).map(Bytes::from).unwrap_or(bytes)
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
        self.encoded.is_some() && self.matches(value.to_string().as_bytes())
    }

    fn matches(&self, bytes: &[u8]) -> bool {
        self.encoded.as_ref().is_some_and(|encoded| encoded.is_match(bytes))
            || self.escaped.as_ref().is_some_and(|escaped| escaped.is_match(bytes))
    }
}

/// Returns the value itself, and its encodings in hexadecimal and as part of a base64 text.
fn encodings(value: &str) -> Vec<String> {
    let mut all = vec![value.to_owned(), HEXLOWER.encode(value.as_bytes()), HEXUPPER.encode(value.as_bytes())];
    for shift in 0..3 {
        all.push(base64_fragment(&STANDARD_NO_PAD, value, shift));
        all.push(base64_fragment(&URL_SAFE_NO_PAD, value, shift));
    }
    all.retain(|encoding| encoding.len() >= MIN_SECRET_LEN);
    all.sort();
    all.dedup();
    all
}

/// Returns the part of a base64 text that depends only on `value`, if other bytes precede the value. `shift` is the
/// number of these bytes, modulo 3. In `Authorization: Basic`, for example, the user name precedes the password.
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
    fn hexadecimal_and_escaped_secrets_are_redacted() {
        let secret = "it's/a&secret";
        let redactor = Redactor::new([&SecretString::from(secret)]);
        for encoding in [
            HEXLOWER.encode(secret.as_bytes()),
            HEXUPPER.encode(secret.as_bytes()),
            r"it\u0027s\/a\u0026secret".to_owned(),
            "it&#x27;s&#x2F;a&amp;secret".to_owned(),
            "it&apos;s/a&#38;secret".to_owned(),
            "it&#39;s/a&amp;secret".to_owned(),
            "it%2527s%252Fa%2526secret".to_owned(),
        ] {
            let mut text = format!("x={encoding}&y=1");
            redactor.text(&mut text);
            assert_eq!(text, "x=[redacted]&y=1", "{encoding}");
            assert!(redactor.is_in(&json!({ "key": encoding })), "{encoding}");
        }
        let bytes = redactor.bytes(Bytes::from_static(b"\xff it&#x27;s/a&amp;secret \xfe"));
        assert_eq!(bytes, &b"\xff [redacted] \xfe"[..]);
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
