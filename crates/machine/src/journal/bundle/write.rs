//! Writes a bundle as text.

use data_encoding::HEXLOWER;
use serde_json::{Value, json};

use super::super::shared_parts::SharedPart;
use super::read::Header;
use super::{Bundle, FORMAT_VERSION, StoredEntry};

impl Bundle {
    /// Writes the bundle as text.
    #[expect(clippy::expect_used, reason = "lines consist of strings, numbers and JSON values")]
    pub fn to_text(&self) -> String {
        let mut text = String::new();
        let mut line = |line: Value| {
            text.push_str(&line.to_string());
            text.push('\n');
        };
        let value = |line: Result<Value, serde_json::Error>| line.expect("a line serializes to JSON");
        let head_hash = self.entries.last().map(|last| HEXLOWER.encode(&last.hash)).unwrap_or_default();
        let entries = u64::try_from(self.entries.len()).unwrap_or(u64::MAX);
        let header =
            Header { bundle: FORMAT_VERSION, run: self.run, subject: self.subject.clone(), entries, head_hash };
        line(value(serde_json::to_value(header)));
        for SharedPart { hash, body } in &self.parts {
            line(json!({ "shared_part": hash, "text": body }));
        }
        for blob in &self.blobs {
            line(value(serde_json::to_value(blob)));
        }
        for StoredEntry { n, at, body, hash } in &self.entries {
            line(json!({ "entry": n, "at": at, "hash": HEXLOWER.encode(hash), "text": body }));
            if let Some(reactions) = self.reactions.get(n) {
                line(json!({ "after": n, "reactions": reactions }));
            }
        }
        line(json!({ "outcome": value(serde_json::to_value(&self.outcome)) }));
        text
    }
}
