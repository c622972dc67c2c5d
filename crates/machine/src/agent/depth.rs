//! Keeps values flat enough to be read back: a parser gives up at 128 levels, and a value in a saved run lies some
//! levels deep already.

use serde_json::Value;
use toolwright_types::Arguments;

/// How deep a value in a run may be nested.
pub const MAX_DEPTH: usize = 64;

/// The value itself, or its JSON text when it is nested too deep.
pub(super) fn shallow(value: Value) -> Value {
    if fits(&value, MAX_DEPTH) { value } else { Value::String(value.to_string()) }
}

/// The arguments themselves, or their JSON text when they are nested too deep.
pub(super) fn shallow_arguments(arguments: Arguments) -> Arguments {
    match arguments {
        Arguments::Json(value) if !fits(&value, MAX_DEPTH) => Arguments::Malformed(value.to_string()),
        fine => fine,
    }
}

/// Whether a journal can hold the value as it is.
pub fn is_shallow(value: &Value) -> bool {
    fits(value, MAX_DEPTH)
}

fn fits(value: &Value, levels: usize) -> bool {
    match value {
        Value::Array(items) => levels > 0 && items.iter().all(|item| fits(item, levels - 1)),
        Value::Object(fields) => levels > 0 && fields.values().all(|item| fits(item, levels - 1)),
        _ => true,
    }
}
