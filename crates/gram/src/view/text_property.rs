//! Reads, sets and checks text properties.

use super::ValidationErrorKind;
use crate::model::{Pattern, Scalar, Value};

/// Returns the text of a property, or an empty string if it is absent or not text.
pub(super) fn get<'p>(pattern: &'p Pattern, key: &str) -> &'p str {
    pattern.get(key).and_then(Value::as_text).unwrap_or_default()
}

/// Sets the text of a property. A tagged string keeps its tag.
pub(super) fn set(pattern: &mut Pattern, key: &str, text: &str) {
    match pattern.subject.properties.get_mut(key) {
        Some(Value::Scalar(Scalar::Tagged { content, .. })) => *content = text.to_owned(),
        _ => drop(pattern.subject.properties.insert(key.to_owned(), Value::from(text))),
    }
}

/// Checks a required text property.
pub(super) fn required(
    pattern: &Pattern,
    key: &'static str,
    missing: impl FnOnce() -> ValidationErrorKind,
) -> Result<(), ValidationErrorKind> {
    match pattern.get(key) {
        None => Err(missing()),
        Some(_) => optional(pattern, key).and_then(|()| require_non_empty(pattern.identity(), key, get(pattern, key))),
    }
}

/// Checks an optional text property.
pub(super) fn optional(pattern: &Pattern, key: &'static str) -> Result<(), ValidationErrorKind> {
    match pattern.get(key) {
        Some(value) if value.as_text().is_none() => {
            Err(ValidationErrorKind::NotAString { subject: pattern.identity().to_owned(), key })
        }
        _ => Ok(()),
    }
}

pub(super) fn require_non_empty(subject: &str, key: &'static str, text: &str) -> Result<(), ValidationErrorKind> {
    if text.is_empty() { Err(ValidationErrorKind::EmptyProperty { subject: subject.to_owned(), key }) } else { Ok(()) }
}
