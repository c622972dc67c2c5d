//! Properties that hold text.

use super::Flaw;
use crate::model::{Pattern, Scalar, Value};

/// The text of a property; empty when it is not there or not text.
pub(super) fn get<'p>(pattern: &'p Pattern, key: &str) -> &'p str {
    pattern.get(key).and_then(Value::as_text).unwrap_or_default()
}

/// Sets the text of a property. A tag stays: only the text inside of it changes.
pub(super) fn set(pattern: &mut Pattern, key: &str, text: &str) {
    match pattern.subject.properties.get_mut(key) {
        Some(Value::Scalar(Scalar::Tagged { content, .. })) => *content = text.to_owned(),
        _ => drop(pattern.subject.properties.insert(key.to_owned(), Value::from(text))),
    }
}

/// Text that must be there.
pub(super) fn required(pattern: &Pattern, key: &'static str, missing: impl FnOnce() -> Flaw) -> Result<(), Flaw> {
    match pattern.get(key) {
        None => Err(missing()),
        Some(_) => optional(pattern, key).and_then(|()| not_empty(pattern.identity(), key, get(pattern, key))),
    }
}

/// Text that may be missing.
pub(super) fn optional(pattern: &Pattern, key: &'static str) -> Result<(), Flaw> {
    match pattern.get(key) {
        Some(value) if value.as_text().is_none() => Err(Flaw::NotText { of: pattern.identity().to_owned(), key }),
        _ => Ok(()),
    }
}

pub(super) fn not_empty(of: &str, key: &'static str, text: &str) -> Result<(), Flaw> {
    if text.is_empty() { Err(Flaw::Empty { of: of.to_owned(), key }) } else { Ok(()) }
}
