//! What all languages agree on about values that go in and come out.

use std::io::{self, Write};

use serde_json::Value;

/// How deep a value may be nested that leaves the worker. Whoever reads it stops at 128 levels, envelopes included.
pub(super) const DEPTH: usize = 100;

/// How much of a message is kept. Code can make its exceptions as long as it likes.
const MESSAGE: usize = 8 << 10;

/// The largest whole number up to which floating point counts by ones.
pub(super) const EXACT: u64 = (1 << 53) - 1;

/// Why a value cannot leave.
pub(super) fn too_deep() -> String {
    format!("a result is nested at most {DEPTH} levels deep, and does not contain itself")
}

/// The fields of inputs that become variables: those whose names are plain identifiers and nobody else's.
pub(super) fn variables(inputs: &Value, reserved: impl Fn(&str) -> bool) -> impl Iterator<Item = (&String, &Value)> {
    inputs.as_object().into_iter().flatten().filter(move |(name, _)| {
        let mut letters = name.chars();
        let begins = letters.next().is_some_and(|first| first.is_ascii_alphabetic() || first == '_');
        let identifier = begins && letters.all(|letter| letter.is_ascii_alphanumeric() || letter == '_');
        identifier && *name != "inputs" && *name != "result" && !reserved(name)
    })
}

/// What a value is, with its article.
pub(super) fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}

/// Whether so many bytes are more than a limit allows.
pub(super) fn exceeds(bytes: usize, limit: u64) -> bool {
    u64::try_from(bytes).unwrap_or(u64::MAX) > limit
}

/// Whether a value is at most so many bytes of JSON.
pub(super) fn fits(value: &Value, limit: u64) -> bool {
    serde_json::to_writer(Room { left: usize::try_from(limit).unwrap_or(usize::MAX) }, value).is_ok()
}

/// Whether a value is nested no deeper than one that leaves may be.
#[cfg(feature = "wasm")]
pub(super) fn shallow(value: &Value, levels: usize) -> bool {
    match value {
        Value::Array(items) => levels > 0 && items.iter().all(|item| shallow(item, levels - 1)),
        Value::Object(fields) => levels > 0 && fields.values().all(|field| shallow(field, levels - 1)),
        _ => true,
    }
}

/// A message that is no longer than anybody would read.
pub(super) fn shortened(message: &str) -> String {
    if message.len() <= MESSAGE {
        return message.to_owned();
    }
    let end = message.floor_char_boundary(MESSAGE);
    format!("{}…", message.get(..end).unwrap_or_default())
}

/// Takes bytes until there is no room for more, and keeps none.
struct Room {
    left: usize,
}

impl Write for Room {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.left = self.left.checked_sub(bytes.len()).ok_or(io::ErrorKind::StorageFull)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
