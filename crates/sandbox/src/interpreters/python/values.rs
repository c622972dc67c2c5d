//! Conversion between JSON and Python values, without loss.

use monty_types::MontyObject;
use num_bigint::BigInt;
use serde_json::{Map, Number, Value};

use crate::interpreters::values::{MAX_DEPTH, nesting_error};

const KEYWORDS: [&str; 35] = [
    "False", "None", "True", "and", "as", "assert", "async", "await", "break", "class", "continue", "def", "del",
    "elif", "else", "except", "finally", "for", "from", "global", "if", "import", "in", "is", "lambda", "nonlocal",
    "not", "or", "pass", "raise", "return", "try", "while", "with", "yield",
];

/// Returns whether a name is a keyword of Python.
pub(super) fn is_keyword(name: &str) -> bool {
    KEYWORDS.contains(&name)
}

pub(super) fn from_json(value: &Value) -> MontyObject {
    match value {
        Value::Null => MontyObject::None,
        Value::Bool(bool) => MontyObject::Bool(*bool),
        Value::Number(number) => from_number(number),
        Value::String(text) => MontyObject::String(text.clone()),
        Value::Array(items) => MontyObject::List(items.iter().map(from_json).collect()),
        Value::Object(fields) => {
            let pairs = fields.iter().map(|(key, field)| (MontyObject::String(key.clone()), from_json(field)));
            MontyObject::Dict(pairs.collect())
        }
    }
}

fn from_number(number: &Number) -> MontyObject {
    match (number.as_i64(), number.as_u64(), number.as_f64()) {
        (Some(integer), ..) => MontyObject::Int(integer),
        (None, Some(integer), _) => MontyObject::BigInt(BigInt::from(integer)),
        (None, None, float) => MontyObject::Float(float.unwrap_or(f64::NAN)),
    }
}

/// Converts a value to JSON. The error states which part JSON cannot represent.
pub(super) fn to_json(object: MontyObject) -> Result<Value, String> {
    convert(object, MAX_DEPTH)
}

fn convert(object: MontyObject, levels: usize) -> Result<Value, String> {
    match object {
        MontyObject::None => Ok(Value::Null),
        MontyObject::Bool(bool) => Ok(Value::Bool(bool)),
        MontyObject::Int(integer) => Ok(integer.into()),
        MontyObject::BigInt(integer) => to_number(&integer),
        MontyObject::Float(float) => Number::from_f64(float).map(Value::Number).ok_or_else(|| {
            format!("`{}` cannot be converted to JSON; check with `math.isfinite`", MontyObject::Float(float))
        }),
        MontyObject::String(text) => Ok(Value::String(text)),
        MontyObject::List(items) | MontyObject::Tuple(items) | MontyObject::NamedTuple { values: items, .. } => {
            let levels = levels.checked_sub(1).ok_or_else(nesting_error)?;
            items.into_iter().map(|item| convert(item, levels)).collect()
        }
        MontyObject::Dict(pairs) => {
            let levels = levels.checked_sub(1).ok_or_else(nesting_error)?;
            let field = |(key, value)| Ok::<_, String>((to_key(key)?, convert(value, levels)?));
            Ok(Value::Object(pairs.into_iter().map(field).collect::<Result<Map<_, _>, _>>()?))
        }
        MontyObject::Cycle(..) => Err(nesting_error()),
        MontyObject::Repr(text) if text == "<deeply nested>" => Err(nesting_error()),
        MontyObject::Repr(text) => {
            Err(format!("`{text}` cannot be converted to JSON; use dicts, lists, strings and numbers"))
        }
        other => {
            Err(format!("a value of type `{}` cannot be converted to JSON; {}", other.type_name(), remedy(&other)))
        }
    }
}

fn to_number(integer: &BigInt) -> Result<Value, String> {
    if let Ok(integer) = i64::try_from(integer) {
        return Ok(integer.into());
    }
    let too_large = |_| "an integer of more than 64 bits cannot be converted to JSON; use `str`".to_owned();
    u64::try_from(integer).map(Value::from).map_err(too_large)
}

fn to_key(key: MontyObject) -> Result<String, String> {
    match key {
        MontyObject::String(key) => Ok(key),
        other => Err(format!(
            "a dict with a key of type `{}` cannot be converted to JSON; use `str` keys",
            other.type_name()
        )),
    }
}

fn remedy(object: &MontyObject) -> &'static str {
    match object {
        MontyObject::Set(_) | MontyObject::FrozenSet(_) => "use `sorted` or `list`",
        MontyObject::Bytes(_) => "use `.decode()` or `base64`",
        MontyObject::Date(_) | MontyObject::DateTime(_) | MontyObject::Time(_) => "use `.isoformat()`",
        MontyObject::TimeDelta(_) => "use `.total_seconds()`",
        _ => "use dicts, lists, strings and numbers",
    }
}

/// Returns the arguments of a host call, which are keyword arguments or one dict.
pub(super) fn arguments(
    function: &str,
    positional: &[MontyObject],
    named: &[(MontyObject, MontyObject)],
) -> Result<Value, String> {
    match (positional, named) {
        ([], named) => to_json(MontyObject::Dict(named.iter().cloned().collect())),
        ([object @ MontyObject::Dict(_)], []) => to_json(object.clone()),
        _ => Err(format!("`{function}` takes keyword arguments or one dict")),
    }
}
