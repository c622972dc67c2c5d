//! Helpers for JSON values: type name, size, equality and order.

use std::borrow::Cow;
use std::cmp::Ordering;

use serde_json::Value;

use super::number::Number;
use crate::limits::{Budget, BudgetExceeded};

/// The name of a value's type in the expression language.
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

/// Charges the size of `value` to the budget. Stops as soon as the budget is exceeded.
pub(super) fn charge_size(value: &Value, budget: &mut Budget) -> Result<(), BudgetExceeded> {
    const NODE: usize = size_of::<Value>();
    match value {
        Value::String(text) => budget.charge_output(NODE + text.len()),
        Value::Array(items) => {
            budget.charge_output(NODE)?;
            items.iter().try_for_each(|item| charge_size(item, budget))
        }
        Value::Object(fields) => {
            budget.charge_output(NODE)?;
            fields.iter().try_for_each(|(key, field)| {
                budget.charge_output(NODE + key.len())?;
                charge_size(field, budget)
            })
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => budget.charge_output(NODE),
    }
}

/// Converts a value to the key of a JSON object.
pub(super) fn object_key(value: &Value) -> Option<Cow<'_, str>> {
    match value {
        Value::String(text) => Some(Cow::Borrowed(text)),
        Value::Bool(_) => Some(Cow::Owned(value.to_string())),
        Value::Number(number) => match Number::from_json(number) {
            Number::Int(int) => Some(Cow::Owned(int.to_string())),
            Number::Double(double) if double.fract() == 0.0 => Some(Cow::Owned(format!("{double}"))),
            Number::Double(_) => None,
        },
        _ => None,
    }
}

/// Whether the function `size` accepts a value.
pub(super) fn has_size(value: &Value) -> bool {
    matches!(value, Value::String(_) | Value::Array(_) | Value::Object(_))
}

/// The number of characters, items or entries; 0 for other values.
pub(super) fn size(value: &Value, budget: &mut Budget) -> Result<usize, BudgetExceeded> {
    Ok(match value {
        Value::String(text) => {
            budget.charge_scan(text.len())?;
            text.chars().count()
        }
        Value::Array(items) => items.len(),
        Value::Object(fields) => fields.len(),
        _ => 0,
    })
}

/// Whether two values of any types are equal. Numbers are compared by value, so that `1 == 1.0`.
pub(super) fn equal(a: &Value, b: &Value, budget: &mut Budget) -> Result<bool, BudgetExceeded> {
    budget.charge(1)?;
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => {
            Ok(Number::from_json(a).order(Number::from_json(b)) == Some(Ordering::Equal))
        }
        (Value::String(a), Value::String(b)) => {
            budget.charge_scan(a.len().min(b.len()))?;
            Ok(a == b)
        }
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() => {
            all(a.iter().zip(b).map(|(a, b)| (Some(a), Some(b))), budget)
        }
        (Value::Object(a), Value::Object(b)) if a.len() == b.len() => {
            all(a.iter().map(|(key, field)| (Some(field), b.get(key))), budget)
        }
        (Value::Null, Value::Null) => Ok(true),
        (Value::Bool(a), Value::Bool(b)) => Ok(a == b),
        _ => Ok(false),
    }
}

fn all<'a>(
    mut pairs: impl Iterator<Item = (Option<&'a Value>, Option<&'a Value>)>,
    budget: &mut Budget,
) -> Result<bool, BudgetExceeded> {
    loop {
        match pairs.next() {
            None => return Ok(true),
            Some((Some(a), Some(b))) if equal(a, b, budget)? => {}
            Some(_) => return Ok(false),
        }
    }
}

/// Compares two numbers, strings (by code point) or booleans.
pub(super) fn order(a: &Value, b: &Value, budget: &mut Budget) -> Result<Option<Ordering>, BudgetExceeded> {
    Ok(match (a, b) {
        (Value::Number(a), Value::Number(b)) => Number::from_json(a).order(Number::from_json(b)),
        (Value::String(a), Value::String(b)) => {
            budget.charge_scan(a.len().min(b.len()))?;
            // Comparing UTF-8 bytes gives the same order as comparing code points.
            Some(a.cmp(b))
        }
        (Value::Bool(a), Value::Bool(b)) => Some(a.cmp(b)),
        _ => None,
    })
}
