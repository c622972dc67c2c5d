//! Type checks of default and enum values.

use serde_json::Value as Json;

use super::Type;

/// Returns whether a value has the type.
pub(super) fn has_type(json: &Json, kind: &Type) -> bool {
    match kind {
        Type::String => json.is_string(),
        Type::Integer => json.is_i64(),
        Type::Number => json.is_number(),
        Type::Boolean => json.is_boolean(),
        Type::Array(item) => {
            let item_has_type = |value: &Json| item.as_deref().is_none_or(|item| has_type(value, item));
            json.as_array().is_some_and(|items| items.iter().all(item_has_type))
        }
        Type::Object(fields) => json.as_object().is_some_and(|object| {
            fields.iter().flatten().all(|field| match object.get(&field.name) {
                Some(value) => has_type(value, &field.kind),
                None => field.default.is_some(),
            })
        }),
    }
}

/// Describes the values of a type, for error messages.
pub(super) fn describe_type(kind: &Type) -> String {
    match kind {
        Type::String => "a string in quotes".to_owned(),
        Type::Integer => "an integer".to_owned(),
        Type::Number => "a number".to_owned(),
        Type::Boolean => "`true` or `false`".to_owned(),
        Type::Array(Some(item)) => format!("an array of {}", item.name()),
        Type::Array(None) => "an array".to_owned(),
        Type::Object(_) => "a map with the fields of the object".to_owned(),
    }
}
