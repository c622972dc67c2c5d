//! Limits the nesting depth of JSON values. The JSON parser rejects more than 128 levels. `MAX_DEPTH` is lower, because
//! a saved run adds levels around each value.

use serde_json::Value;
use toolwright_types::Arguments;

/// The maximum nesting depth of a JSON value in a run.
pub const MAX_DEPTH: usize = 64;

/// Replaces a value nested deeper than [`MAX_DEPTH`] by a string with its JSON text. Any other value is unchanged.
pub(super) fn limit_depth(value: Value) -> Value {
    if within_depth(&value, MAX_DEPTH) { value } else { Value::String(value.to_string()) }
}

/// Replaces arguments nested deeper than [`MAX_DEPTH`] by [`Arguments::Malformed`] with their JSON text. Any other
/// arguments are unchanged.
pub(super) fn limit_arguments_depth(arguments: Arguments) -> Arguments {
    match arguments {
        Arguments::Json(value) if !within_depth(&value, MAX_DEPTH) => Arguments::Malformed(value.to_string()),
        other => other,
    }
}

/// Whether the value is nested at most [`MAX_DEPTH`] levels deep, so that a journal stores it unchanged.
pub fn within_max_depth(value: &Value) -> bool {
    within_depth(value, MAX_DEPTH)
}

fn within_depth(value: &Value, levels: usize) -> bool {
    match value {
        Value::Array(items) => levels > 0 && items.iter().all(|item| within_depth(item, levels - 1)),
        Value::Object(fields) => levels > 0 && fields.values().all(|item| within_depth(item, levels - 1)),
        _ => true,
    }
}
