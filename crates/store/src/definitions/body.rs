//! What a body must be like to be stored and found again.

use serde_json::Value;

/// Deeper than any definition; the JSON reader gives up at 128.
const MAX_DEPTH: usize = 100;

/// Why a body cannot be stored.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidBody {
    /// Postgres cannot search a text with this character, in any document of the realm.
    #[error("a text contains the character U+0000")]
    Nul,
    /// It could be written but not read.
    #[error("it is nested deeper than {MAX_DEPTH} levels")]
    TooDeep,
}

/// Whether a body can be stored, in a definition or in a record.
pub fn check(body: &Value) -> Result<(), InvalidBody> {
    check_at(body, 0)
}

fn check_at(value: &Value, depth: usize) -> Result<(), InvalidBody> {
    if depth > MAX_DEPTH {
        return Err(InvalidBody::TooDeep);
    }
    match value {
        Value::String(text) => check_text(text),
        Value::Array(items) => items.iter().try_for_each(|item| check_at(item, depth + 1)),
        Value::Object(fields) => fields.iter().try_for_each(|(name, value)| {
            check_text(name)?;
            check_at(value, depth + 1)
        }),
        Value::Null | Value::Bool(_) | Value::Number(_) => Ok(()),
    }
}

fn check_text(text: &str) -> Result<(), InvalidBody> {
    if text.contains('\0') { Err(InvalidBody::Nul) } else { Ok(()) }
}
