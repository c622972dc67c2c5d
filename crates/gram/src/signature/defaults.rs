//! Default values and choices: which values have which type.

use serde_json::Value as Json;

use super::Type;

/// Whether a value has a type.
pub(super) fn fits(json: &Json, kind: &Type) -> bool {
    match kind {
        Type::String => json.is_string(),
        Type::Integer => json.is_i64(),
        Type::Number => json.is_number(),
        Type::Boolean => json.is_boolean(),
        Type::Array(item) => {
            let fits_item = |value: &Json| item.as_deref().is_none_or(|item| fits(value, item));
            json.as_array().is_some_and(|items| items.iter().all(fits_item))
        }
        Type::Object(fields) => json.as_object().is_some_and(|object| {
            fields.iter().flatten().all(|field| match object.get(&field.name) {
                Some(value) => fits(value, &field.kind),
                None => field.default.is_some(),
            })
        }),
    }
}

/// What a value of that type looks like, for messages.
pub(super) fn expected(kind: &Type) -> String {
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
