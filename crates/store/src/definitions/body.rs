//! Checks that a JSON body can be stored and read back.

use serde_json::Value;

/// The maximum nesting depth of a body. The JSON parser reads at most 128 levels. The lower limit leaves room for JSON
/// that contains the body.
const MAX_DEPTH: usize = 100;

/// The reason why a body cannot be stored.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidBody {
    /// A string contains U+0000. One such document would make Postgres reject every search over the documents of the
    /// realm.
    #[error("strings must not contain the character U+0000")]
    Nul,
    /// The body is nested so deeply that the JSON parser could not read it back.
    #[error("must not be nested deeper than {MAX_DEPTH} levels")]
    TooDeep,
}

/// Checks whether the body of a definition or record can be stored.
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
