//! Canonical JSON (RFC 8785) and hashes over it.
//!
//! There is one intended deviation from the RFC: integers beyond ±2^53 keep all digits and are not rounded to a double.
//! Otherwise calls with two different large numbers could get the same call id.

use serde_json::{Number, Value};
use sha2::{Digest, Sha256};

/// Returns the canonical text of `value`.
pub fn canonical(value: &Value) -> String {
    let mut out = String::new();
    write_value(&mut out, value);
    out
}

/// Returns the SHA-256 of the canonical text of `value`.
pub fn digest(value: &Value) -> [u8; 32] {
    Sha256::digest(canonical(value).as_bytes()).into()
}

/// Returns [`digest`] in hexadecimal.
pub fn hex_digest(value: &Value) -> String {
    data_encoding::HEXLOWER.encode(&digest(value))
}

/// Hashes arrays as canonical JSON, without building a [`Value`] for each array.
#[derive(Debug, Default)]
pub struct Hasher(String);

impl Hasher {
    /// Writes one array. `fill` adds the items.
    pub fn sequence(&mut self, fill: impl FnOnce(&mut Items<'_>)) {
        self.0.push('[');
        fill(&mut Items { out: &mut self.0, first: true });
        self.0.push(']');
    }

    /// Returns the SHA-256 of all arrays written so far.
    pub fn finish(self) -> [u8; 32] {
        Sha256::digest(self.0.as_bytes()).into()
    }

    /// Returns the SHA-256 of all arrays written so far, in hexadecimal.
    pub fn finish_hex(self) -> String {
        data_encoding::HEXLOWER.encode(&self.finish())
    }
}

/// Adds items to an array that is being hashed.
#[derive(Debug)]
pub struct Items<'a> {
    out: &'a mut String,
    first: bool,
}

impl Items<'_> {
    /// Adds a string.
    pub fn string(&mut self, text: &str) {
        self.separate();
        write_string(self.out, text);
    }

    /// Adds an integer.
    pub fn integer(&mut self, number: u64) {
        self.separate();
        self.out.push_str(&number.to_string());
    }

    /// Adds any value.
    pub fn value(&mut self, value: &Value) {
        self.separate();
        write_value(self.out, value);
    }

    fn separate(&mut self) {
        if !self.first {
            self.out.push(',');
        }
        self.first = false;
    }
}

fn write_value(out: &mut String, value: &Value) {
    match value {
        Value::Null => out.push_str("null"),
        Value::Bool(true) => out.push_str("true"),
        Value::Bool(false) => out.push_str("false"),
        Value::Number(number) => write_number(out, number),
        Value::String(text) => write_string(out, text),
        Value::Array(items) => {
            out.push('[');
            for (at, item) in items.iter().enumerate() {
                if at > 0 {
                    out.push(',');
                }
                write_value(out, item);
            }
            out.push(']');
        }
        Value::Object(fields) => {
            let mut sorted: Vec<(&String, &Value)> = fields.iter().collect();
            sorted.sort_by(|(a, _), (b, _)| compare_utf16(a, b));
            out.push('{');
            for (at, (key, value)) in sorted.into_iter().enumerate() {
                if at > 0 {
                    out.push(',');
                }
                write_string(out, key);
                out.push(':');
                write_value(out, value);
            }
            out.push('}');
        }
    }
}

/// Compares keys by UTF-16 code units, as RFC 8785 requires. For ASCII keys, this is the same as byte order.
fn compare_utf16(a: &str, b: &str) -> std::cmp::Ordering {
    if a.is_ascii() && b.is_ascii() { a.cmp(b) } else { a.encode_utf16().cmp(b.encode_utf16()) }
}

fn write_number(out: &mut String, number: &Number) {
    if let Some(float) = number.as_f64().filter(|_| number.is_f64()) {
        // A JSON number is never NaN or infinite, so no error is possible here.
        out.push_str(ryu_js::Buffer::new().format_finite(float));
    } else {
        out.push_str(&number.to_string());
    }
}

fn write_string(out: &mut String, text: &str) {
    out.push('"');
    let mut plain_from = 0;
    for (at, byte) in text.bytes().enumerate() {
        let escape = match byte {
            b'"' => "\\\"",
            b'\\' => "\\\\",
            0x08 => "\\b",
            0x09 => "\\t",
            0x0a => "\\n",
            0x0c => "\\f",
            0x0d => "\\r",
            0x00..0x20 => "",
            _ => continue,
        };
        out.push_str(text.get(plain_from..at).unwrap_or_default());
        if escape.is_empty() {
            out.push_str(&format!("\\u{byte:04x}"));
        } else {
            out.push_str(escape);
        }
        plain_from = at + 1;
    }
    out.push_str(text.get(plain_from..).unwrap_or_default());
    out.push('"');
}
