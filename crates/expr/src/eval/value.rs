//! Questions about JSON values: type, size, equality, order.

use std::borrow::Cow;
use std::cmp::Ordering;

use serde_json::Value;

use super::number::Number;
use crate::limits::{Exhausted, Meter};

/// The type of a value, in the language of expressions.
pub(crate) fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_f64() => "double",
        Value::Number(_) => "int",
        Value::String(_) => "string",
        Value::Array(_) => "list",
        Value::Object(_) => "map",
    }
}

/// Takes the size of `value` from the meter, and stops as soon as that is exhausted.
pub(super) fn weigh(value: &Value, meter: &mut Meter) -> Result<(), Exhausted> {
    const NODE: usize = size_of::<Value>();
    match value {
        Value::String(text) => meter.produce(NODE + text.len()),
        Value::Array(items) => {
            meter.produce(NODE)?;
            items.iter().try_for_each(|item| weigh(item, meter))
        }
        Value::Object(fields) => {
            meter.produce(NODE)?;
            fields.iter().try_for_each(|(key, field)| {
                meter.produce(NODE + key.len())?;
                weigh(field, meter)
            })
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => meter.produce(NODE),
    }
}

/// A value as the key of a JSON object.
pub(super) fn key_text(value: &Value) -> Option<Cow<'_, str>> {
    match value {
        Value::String(text) => Some(Cow::Borrowed(text)),
        Value::Bool(_) => Some(Cow::Owned(value.to_string())),
        Value::Number(number) => match Number::of(number) {
            Number::Int(int) => Some(Cow::Owned(int.to_string())),
            Number::Double(double) if double.fract() == 0.0 => Some(Cow::Owned(format!("{double}"))),
            Number::Double(_) => None,
        },
        _ => None,
    }
}

/// Whether a value has a size at all.
pub(super) fn has_size(value: &Value) -> bool {
    matches!(value, Value::String(_) | Value::Array(_) | Value::Object(_))
}

/// The number of characters, items or entries; 0 for what has none.
pub(super) fn size(value: &Value, meter: &mut Meter) -> Result<usize, Exhausted> {
    Ok(match value {
        Value::String(text) => {
            meter.scan(text.len())?;
            text.chars().count()
        }
        Value::Array(items) => items.len(),
        Value::Object(fields) => fields.len(),
        _ => 0,
    })
}

/// Equality over all types; numbers by value, so that `1 == 1.0`.
pub(super) fn equal(a: &Value, b: &Value, meter: &mut Meter) -> Result<bool, Exhausted> {
    meter.steps(1)?;
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => Ok(Number::of(a).order(Number::of(b)) == Some(Ordering::Equal)),
        (Value::String(a), Value::String(b)) => {
            meter.scan(a.len().min(b.len()))?;
            Ok(a == b)
        }
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() => {
            all(a.iter().zip(b).map(|(a, b)| (Some(a), Some(b))), meter)
        }
        (Value::Object(a), Value::Object(b)) if a.len() == b.len() => {
            all(a.iter().map(|(key, field)| (Some(field), b.get(key))), meter)
        }
        (Value::Null, Value::Null) => Ok(true),
        (Value::Bool(a), Value::Bool(b)) => Ok(a == b),
        _ => Ok(false),
    }
}

fn all<'a>(
    mut pairs: impl Iterator<Item = (Option<&'a Value>, Option<&'a Value>)>,
    meter: &mut Meter,
) -> Result<bool, Exhausted> {
    loop {
        match pairs.next() {
            None => return Ok(true),
            Some((Some(a), Some(b))) if equal(a, b, meter)? => {}
            Some(_) => return Ok(false),
        }
    }
}

/// Order of two numbers, strings (by code point) or booleans.
pub(super) fn order(a: &Value, b: &Value, meter: &mut Meter) -> Result<Option<Ordering>, Exhausted> {
    Ok(match (a, b) {
        (Value::Number(a), Value::Number(b)) => Number::of(a).order(Number::of(b)),
        (Value::String(a), Value::String(b)) => {
            meter.scan(a.len().min(b.len()))?;
            // The bytes of UTF-8 sort as its code points do.
            Some(a.cmp(b))
        }
        (Value::Bool(a), Value::Bool(b)) => Some(a.cmp(b)),
        _ => None,
    })
}
