//! Evaluates function calls. The parser has already checked the name, the call syntax and the number of arguments.

use std::borrow::Cow;
use std::cmp::Ordering;

use regex::Regex;
use serde_json::Value;

use super::number::Number;
use super::operators::not_comparable;
use super::value::{has_size, order, size};
use super::{CowValue, EvalResult, Evaluator, RuntimeError, type_name};
use crate::syntax::{Function, Node};
use crate::{EvalErrorKind, pattern};

/// The cost of compiling a pattern during evaluation.
const PATTERN_COST: u32 = 1_000;

/// The maximum length of a text that is converted to a number or boolean, in bytes.
const MAX_CONVERTED_LENGTH: usize = 400;

/// The maximum number of compiled patterns that an evaluation caches.
const CACHED_PATTERNS: usize = 8;

impl<'v> Evaluator<'v, '_> {
    pub(super) fn call(&mut self, offset: usize, function: Function, args: &'v [Node]) -> EvalResult<CowValue<'v>> {
        let mut values = Vec::with_capacity(args.len());
        for arg in args {
            values.push(self.eval(arg)?);
        }
        self.charge(offset, 1)?;
        match (function, values.as_slice()) {
            (Function::Type, [value]) => Ok(Cow::Owned(Value::from(type_name(value)))),
            (Function::Size, [value]) => self.size(offset, value),
            (Function::String, [value]) => self.string(offset, value),
            (Function::Int, [value]) => self.convert(offset, "int", value, to_int),
            (Function::Uint, [value]) => self.convert(offset, "uint", value, to_uint),
            (Function::Double, [value]) => self.convert(offset, "double", value, to_double),
            (Function::Bool, [value]) => self.convert(offset, "bool", value, to_bool),
            (Function::Contains, [text, part]) => self.test_strings(offset, text, part, |a, b| a.contains(b)),
            (Function::StartsWith, [text, part]) => self.test_strings(offset, text, part, |a, b| a.starts_with(b)),
            (Function::EndsWith, [text, part]) => self.test_strings(offset, text, part, |a, b| a.ends_with(b)),
            (Function::Matches, [text, pattern]) => self.matches_dynamic(offset, text, pattern),
            (Function::LowerAscii, [text]) => self.map_string(offset, text, |text| text.to_ascii_lowercase()),
            (Function::UpperAscii, [text]) => self.map_string(offset, text, |text| text.to_ascii_uppercase()),
            (Function::Trim, [text]) => self.map_string(offset, text, |text| text.trim().to_owned()),
            (Function::Split, [text, separator]) => self.split(offset, text, separator, None),
            (Function::Split, [text, separator, limit]) => self.split(offset, text, separator, Some(limit)),
            (Function::Join, [list]) => self.join(offset, list, ""),
            (Function::Join, [list, separator]) => self.join(offset, list, expect_str(offset, separator)?),
            (Function::Omit, [map, names]) => self.omit(offset, map, names),
            (Function::Min, values) => self.min_or_max(offset, "min", Ordering::Less, values),
            (Function::Max, values) => self.min_or_max(offset, "max", Ordering::Greater, values),
            _ => Err(RuntimeError::wrong_type(offset, "wrong number of arguments")),
        }
    }

    /// Evaluates `matches` with a literal pattern, which the parser has compiled.
    pub(super) fn matches(&mut self, offset: usize, text: &'v Node, pattern: &Regex) -> EvalResult<CowValue<'v>> {
        let value = self.eval(text)?;
        let text = expect_str(offset, &value)?;
        self.charge_scan(offset, text.len())?;
        Ok(Cow::Owned(Value::Bool(pattern.is_match(text))))
    }

    /// Evaluates `matches` with a pattern that is computed during evaluation.
    fn matches_dynamic(&mut self, offset: usize, text: &Value, pattern: &Value) -> EvalResult<CowValue<'v>> {
        let (text, pattern) = (expect_str(offset, text)?, expect_str(offset, pattern)?);
        self.charge_scan(offset, text.len())?;
        let regex = self.pattern(offset, pattern)?;
        Ok(Cow::Owned(Value::Bool(regex.is_match(text))))
    }

    fn pattern(&mut self, offset: usize, text: &str) -> EvalResult<Regex> {
        if let Some((_, known)) = self.patterns.iter().find(|(known, _)| known == text) {
            return Ok(known.clone());
        }
        self.charge(offset, PATTERN_COST)?;
        let regex =
            pattern::compile(text).map_err(|message| RuntimeError::new(EvalErrorKind::Pattern, offset, message))?;
        self.patterns.truncate(CACHED_PATTERNS - 1);
        self.patterns.insert(0, (text.to_owned(), regex.clone()));
        Ok(regex)
    }

    fn size(&mut self, offset: usize, value: &Value) -> EvalResult<CowValue<'v>> {
        if !has_size(value) {
            let found = type_name(value);
            return Err(RuntimeError::wrong_type(offset, format!("`size` takes a string, list or map, got {found}")));
        }
        let size = size(value, &mut self.context.budget).map_err(|error| error.into_error(offset))?;
        Ok(Cow::Owned(Value::from(size)))
    }

    fn string(&mut self, offset: usize, value: &CowValue<'v>) -> EvalResult<CowValue<'v>> {
        let text = match value.as_ref() {
            Value::String(text) => text.clone(),
            Value::Number(number) => match Number::from_json(number) {
                Number::Double(double) => format_double(double),
                Number::Int(int) => int.to_string(),
            },
            other => other.to_string(),
        };
        let length = text.len();
        self.new_value(offset, text, length)
    }

    fn convert(
        &mut self,
        offset: usize,
        name: &str,
        from: &Value,
        to: fn(&Value) -> Option<Value>,
    ) -> EvalResult<CowValue<'v>> {
        // A longer text is not converted, because parsing it would take far more time than `charge_scan` charges for
        // it.
        let short_enough = from.as_str().is_none_or(|text| text.len() <= MAX_CONVERTED_LENGTH);
        self.charge_scan(offset, from.as_str().map_or(0, str::len))?;
        short_enough.then(|| to(from)).flatten().map(Cow::Owned).ok_or_else(|| {
            let shown: String = match from {
                Value::String(text) => text.chars().take(60).collect(),
                other => other.to_string().chars().take(60).collect(),
            };
            RuntimeError::new(EvalErrorKind::Conversion, offset, format!("`{name}(…)` cannot convert `{shown}`"))
        })
    }

    fn test_strings(
        &mut self,
        offset: usize,
        text: &Value,
        part: &Value,
        test: impl Fn(&str, &str) -> bool,
    ) -> EvalResult<CowValue<'v>> {
        let (text, part) = (expect_str(offset, text)?, expect_str(offset, part)?);
        self.charge_scan(offset, text.len())?;
        Ok(Cow::Owned(Value::Bool(test(text, part))))
    }

    fn map_string(&mut self, offset: usize, text: &Value, change: impl Fn(&str) -> String) -> EvalResult<CowValue<'v>> {
        let text = expect_str(offset, text)?;
        self.charge_scan(offset, text.len())?;
        self.charge_output(offset, text.len())?;
        Ok(Cow::Owned(Value::String(change(text))))
    }

    fn split(
        &mut self,
        offset: usize,
        text: &Value,
        separator: &Value,
        limit: Option<&CowValue<'v>>,
    ) -> EvalResult<CowValue<'v>> {
        let (text, separator) = (expect_str(offset, text)?, expect_str(offset, separator)?);
        let max_items = match limit.map(|limit| (limit, limit.as_i64())) {
            None => usize::MAX,
            Some((_, Some(limit))) => usize::try_from(limit).unwrap_or(usize::MAX),
            Some((limit, None)) => {
                let found = type_name(limit);
                return Err(RuntimeError::wrong_type(
                    offset,
                    format!("the limit of `split` must be an integer, got {found}"),
                ));
            }
        };
        self.charge_scan(offset, text.len())?;
        let count = text.matches(separator).count().saturating_add(1).min(max_items);
        self.charge_output(offset, text.len() + count * size_of::<Value>())?;
        Ok(Cow::Owned(split_text(text, separator, max_items).into_iter().collect()))
    }

    fn join(&mut self, offset: usize, list: &Value, separator: &str) -> EvalResult<CowValue<'v>> {
        let Value::Array(items) = list else {
            let found = type_name(list);
            return Err(RuntimeError::wrong_type(offset, format!("`join` takes a list, got {found}")));
        };
        let mut text = String::new();
        for (index, item) in items.iter().enumerate() {
            let separator = if index == 0 { "" } else { separator };
            let item = expect_str(offset, item)?;
            self.charge(offset, 1)?;
            self.charge_output(offset, separator.len() + item.len())?;
            text.extend([separator, item]);
        }
        Ok(Cow::Owned(Value::String(text)))
    }

    /// Returns a map without the named fields.
    fn omit(&mut self, offset: usize, map: &Value, names: &Value) -> EvalResult<CowValue<'v>> {
        let (Value::Object(fields), Value::Array(names)) = (map, names) else {
            let (map, names) = (type_name(map), type_name(names));
            let message = format!("`omit` takes a map and a list of names, got {map} and {names}");
            return Err(RuntimeError::wrong_type(offset, message));
        };
        let mut kept = serde_json::Map::new();
        for (name, value) in fields {
            self.charge(offset, 1 + u32::try_from(names.len() / 16).unwrap_or(u32::MAX))?;
            if names.iter().all(|omitted| omitted != name) {
                self.charge_output(offset, name.len())?;
                super::value::charge_size(value, &mut self.context.budget).map_err(|error| error.into_error(offset))?;
                kept.insert(name.clone(), value.clone());
            }
        }
        Ok(Cow::Owned(Value::Object(kept)))
    }

    /// Evaluates `min` and `max` over the arguments or over one list.
    fn min_or_max(
        &mut self,
        offset: usize,
        name: &str,
        wanted: Ordering,
        values: &[CowValue<'v>],
    ) -> EvalResult<CowValue<'v>> {
        let items: Vec<&Value> = match values {
            [list] => list.as_array().map_or_else(|| vec![list.as_ref()], |items| items.iter().collect()),
            several => several.iter().map(Cow::as_ref).collect(),
        };
        let mut items = items.into_iter();
        let mut best = items.next().ok_or_else(|| {
            RuntimeError::wrong_type(
                offset,
                format!("`{name}` takes at least one value, got an empty list; check `size(…) > 0` first"),
            )
        })?;
        for item in items {
            self.charge(offset, 1)?;
            let order = order(item, best, &mut self.context.budget).map_err(|error| error.into_error(offset))?;
            if order.ok_or_else(|| not_comparable(offset, name, item, best))? == wanted {
                best = item;
            }
        }
        super::value::charge_size(best, &mut self.context.budget).map_err(|error| error.into_error(offset))?;
        Ok(Cow::Owned(best.clone()))
    }
}

/// Formats a double as CEL does: without an exponent, and without a trailing `.0`.
fn format_double(double: f64) -> String {
    double.to_string()
}

fn expect_str(offset: usize, value: &Value) -> EvalResult<&str> {
    value.as_str().ok_or_else(|| {
        let found = type_name(value);
        RuntimeError::wrong_type(offset, format!("expected a string, got {found}; convert with `string(…)`"))
    })
}

/// Splits `text` into at most `max_items` items. An empty separator splits between characters.
fn split_text<'t>(text: &'t str, separator: &str, max_items: usize) -> Vec<&'t str> {
    if max_items == 0 {
        return Vec::new();
    }
    if !separator.is_empty() {
        return text.splitn(max_items, separator).collect();
    }
    let mut rest = text;
    let mut items = Vec::new();
    while let Some(first) = rest.chars().next().filter(|_| items.len() + 1 < max_items) {
        let (item, after) = rest.split_at(first.len_utf8());
        items.push(item);
        rest = after;
    }
    if !rest.is_empty() {
        items.push(rest);
    }
    items
}

fn to_int(value: &Value) -> Option<Value> {
    match value {
        Value::Number(number) => match Number::from_json(number) {
            Number::Int(int) => i64::try_from(int).ok().map(Value::from),
            Number::Double(double) => truncate(double).map(Value::from),
        },
        Value::String(text) => text.parse::<i64>().ok().map(Value::from),
        _ => None,
    }
}

fn to_uint(value: &Value) -> Option<Value> {
    match value {
        Value::Number(number) => match Number::from_json(number) {
            Number::Int(int) => u64::try_from(int).ok().map(Value::from),
            Number::Double(double) => truncate(double).and_then(|int| u64::try_from(int).ok()).map(Value::from),
        },
        Value::String(text) => text.parse::<u64>().ok().map(Value::from),
        _ => None,
    }
}

/// Truncates towards zero. Returns `None` if the result does not fit in 64 bits.
fn truncate(double: f64) -> Option<i64> {
    const TWO_POW_63: f64 = 9_223_372_036_854_775_808.0;
    (double.abs() < TWO_POW_63).then_some(double as i64)
}

fn to_double(value: &Value) -> Option<Value> {
    let double = match value {
        Value::Number(number) => Number::from_json(number).to_double(),
        Value::String(text) => text.parse().ok()?,
        _ => return None,
    };
    serde_json::Number::from_f64(double).map(Value::Number)
}

fn to_bool(value: &Value) -> Option<Value> {
    match value {
        Value::Bool(_) => Some(value.clone()),
        Value::String(text) => match text.as_str() {
            "1" | "t" | "T" | "true" | "TRUE" | "True" => Some(Value::Bool(true)),
            "0" | "f" | "F" | "false" | "FALSE" | "False" => Some(Value::Bool(false)),
            _ => None,
        },
        _ => None,
    }
}
