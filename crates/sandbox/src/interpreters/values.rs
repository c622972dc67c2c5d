//! The rules for inputs and results that all languages share.

use std::io::{self, Write};

use serde_json::Value;

/// The maximum nesting of a value that leaves the worker. The server's JSON parser stops at 128 levels, including the
/// frame.
pub(super) const MAX_DEPTH: usize = 100;

/// The maximum length of an error message in bytes. Code can throw exceptions of any length.
const MAX_MESSAGE_BYTES: usize = 8 << 10;

/// The largest integer up to which a 64-bit float represents every integer exactly.
pub(super) const MAX_SAFE_INTEGER: u64 = (1 << 53) - 1;

/// Returns the error message for a value that is nested too deeply or contains itself.
pub(super) fn nesting_error() -> String {
    format!("a value must be nested at most {MAX_DEPTH} levels deep and must not contain itself")
}

/// Returns the fields of the inputs that become variables. Their names must be ASCII identifiers that are not reserved.
pub(super) fn input_variables(
    inputs: &Value,
    reserved: impl Fn(&str) -> bool,
) -> impl Iterator<Item = (&String, &Value)> {
    inputs.as_object().into_iter().flatten().filter(move |(name, _)| {
        let mut letters = name.chars();
        let valid_start = letters.next().is_some_and(|first| first.is_ascii_alphabetic() || first == '_');
        let identifier = valid_start && letters.all(|letter| letter.is_ascii_alphanumeric() || letter == '_');
        identifier && *name != "inputs" && *name != "result" && !reserved(name)
    })
}

/// Returns the JSON type of a value with its article, such as `a number`.
pub(super) fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}

/// Returns whether a number of bytes exceeds a limit.
pub(super) fn exceeds(bytes: usize, limit: u64) -> bool {
    u64::try_from(bytes).unwrap_or(u64::MAX) > limit
}

/// Returns whether a value takes at most `limit` bytes as JSON.
pub(super) fn fits(value: &Value, limit: u64) -> bool {
    serde_json::to_writer(SizeLimit { remaining: usize::try_from(limit).unwrap_or(usize::MAX) }, value).is_ok()
}

/// Returns whether a value is nested at most `levels` deep.
#[cfg(feature = "wasm")]
pub(super) fn is_within_depth(value: &Value, levels: usize) -> bool {
    match value {
        Value::Array(items) => levels > 0 && items.iter().all(|item| is_within_depth(item, levels - 1)),
        Value::Object(fields) => levels > 0 && fields.values().all(|field| is_within_depth(field, levels - 1)),
        _ => true,
    }
}

/// Truncates a message to the maximum length.
pub(super) fn truncate_message(message: &str) -> String {
    if message.len() <= MAX_MESSAGE_BYTES {
        return message.to_owned();
    }
    let end = message.floor_char_boundary(MAX_MESSAGE_BYTES);
    format!("{}…", message.get(..end).unwrap_or_default())
}

/// A writer that discards its bytes and fails when they exceed a limit.
struct SizeLimit {
    remaining: usize,
}

impl Write for SizeLimit {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.remaining = self.remaining.checked_sub(bytes.len()).ok_or(io::ErrorKind::StorageFull)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
