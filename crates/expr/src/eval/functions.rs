//! The functions. Names, call styles and argument counts were checked by the parser.

use std::borrow::Cow;
use std::cmp::Ordering;

use regex::Regex;
use serde_json::Value;

use super::number::Number;
use super::operators::unordered;
use super::value::{has_size, order, size};
use super::{Fault, Machine, Outcome, Val, type_name};
use crate::syntax::{Function, Node};
use crate::{EvalErrorKind, pattern};

/// Steps that compiling a pattern at run time costs.
const PATTERN_STEPS: u32 = 1_000;

/// The longest text that is read as a number.
const LONGEST_NUMBER: usize = 400;

/// Patterns made at run time that are kept.
const PATTERNS: usize = 8;

impl<'v> Machine<'v, '_> {
    pub(super) fn call(&mut self, at: usize, function: Function, args: &'v [Node]) -> Outcome<Val<'v>> {
        let mut values = Vec::with_capacity(args.len());
        for arg in args {
            values.push(self.eval(arg)?);
        }
        self.spend(at, 1)?;
        match (function, values.as_slice()) {
            (Function::Type, [value]) => Ok(Cow::Owned(Value::from(type_name(value)))),
            (Function::Size, [value]) => self.size(at, value),
            (Function::String, [value]) => self.string(at, value),
            (Function::Int, [value]) => self.converted(at, "int", value, to_int),
            (Function::Uint, [value]) => self.converted(at, "uint", value, to_uint),
            (Function::Double, [value]) => self.converted(at, "double", value, to_double),
            (Function::Bool, [value]) => self.converted(at, "bool", value, to_bool),
            (Function::Contains, [text, part]) => self.tested(at, text, part, |a, b| a.contains(b)),
            (Function::StartsWith, [text, part]) => self.tested(at, text, part, |a, b| a.starts_with(b)),
            (Function::EndsWith, [text, part]) => self.tested(at, text, part, |a, b| a.ends_with(b)),
            (Function::Matches, [text, pattern]) => self.matches_made(at, text, pattern),
            (Function::LowerAscii, [text]) => self.changed(at, text, |text| text.to_ascii_lowercase()),
            (Function::UpperAscii, [text]) => self.changed(at, text, |text| text.to_ascii_uppercase()),
            (Function::Trim, [text]) => self.changed(at, text, |text| text.trim().to_owned()),
            (Function::Split, [text, separator]) => self.split(at, text, separator, None),
            (Function::Split, [text, separator, limit]) => self.split(at, text, separator, Some(limit)),
            (Function::Join, [list]) => self.join(at, list, ""),
            (Function::Join, [list, separator]) => self.join(at, list, text_of(at, separator)?),
            (Function::Omit, [map, names]) => self.omit(at, map, names),
            (Function::Min, values) => self.extreme(at, "min", Ordering::Less, values),
            (Function::Max, values) => self.extreme(at, "max", Ordering::Greater, values),
            _ => Err(Fault::wrong_type(at, "the number of arguments is wrong")),
        }
    }

    /// `matches` with a pattern that was compiled by the parser.
    pub(super) fn matches(&mut self, at: usize, text: &'v Node, pattern: &Regex) -> Outcome<Val<'v>> {
        let value = self.eval(text)?;
        let text = text_of(at, &value)?;
        self.scan(at, text.len())?;
        Ok(Cow::Owned(Value::Bool(pattern.is_match(text))))
    }

    fn matches_made(&mut self, at: usize, text: &Value, pattern: &Value) -> Outcome<Val<'v>> {
        let (text, pattern) = (text_of(at, text)?, text_of(at, pattern)?);
        self.scan(at, text.len())?;
        let regex = self.pattern(at, pattern)?;
        Ok(Cow::Owned(Value::Bool(regex.is_match(text))))
    }

    fn pattern(&mut self, at: usize, text: &str) -> Outcome<Regex> {
        if let Some((_, known)) = self.patterns.iter().find(|(known, _)| known == text) {
            return Ok(known.clone());
        }
        self.spend(at, PATTERN_STEPS)?;
        let regex = pattern::compile(text).map_err(|message| Fault::new(EvalErrorKind::Pattern, at, message))?;
        self.patterns.truncate(PATTERNS - 1);
        self.patterns.insert(0, (text.to_owned(), regex.clone()));
        Ok(regex)
    }

    fn size(&mut self, at: usize, value: &Value) -> Outcome<Val<'v>> {
        if !has_size(value) {
            let found = type_name(value);
            return Err(Fault::wrong_type(at, format!("`size` takes a string, list or map, not {found}")));
        }
        let size = size(value, &mut self.session.meter).map_err(|error| error.at(at))?;
        Ok(Cow::Owned(Value::from(size)))
    }

    fn string(&mut self, at: usize, value: &Val<'v>) -> Outcome<Val<'v>> {
        let text = match value.as_ref() {
            Value::String(text) => text.clone(),
            Value::Number(number) => match Number::of(number) {
                Number::Double(double) => double_text(double),
                Number::Int(int) => int.to_string(),
            },
            other => other.to_string(),
        };
        let length = text.len();
        self.made(at, text, length)
    }

    fn converted(&mut self, at: usize, name: &str, from: &Value, to: fn(&Value) -> Option<Value>) -> Outcome<Val<'v>> {
        // No number or truth value is longer, and reading digits costs far more than a step for each 64 of them.
        let readable = from.as_str().is_none_or(|text| text.len() <= LONGEST_NUMBER);
        self.scan(at, from.as_str().map_or(0, str::len))?;
        readable.then(|| to(from)).flatten().map(Cow::Owned).ok_or_else(|| {
            let shown: String = match from {
                Value::String(text) => text.chars().take(60).collect(),
                other => other.to_string().chars().take(60).collect(),
            };
            Fault::new(EvalErrorKind::Conversion, at, format!("`{name}(…)` cannot convert `{shown}`"))
        })
    }

    fn tested(&mut self, at: usize, text: &Value, part: &Value, test: impl Fn(&str, &str) -> bool) -> Outcome<Val<'v>> {
        let (text, part) = (text_of(at, text)?, text_of(at, part)?);
        self.scan(at, text.len())?;
        Ok(Cow::Owned(Value::Bool(test(text, part))))
    }

    fn changed(&mut self, at: usize, text: &Value, change: impl Fn(&str) -> String) -> Outcome<Val<'v>> {
        let text = text_of(at, text)?;
        self.scan(at, text.len())?;
        self.produce(at, text.len())?;
        Ok(Cow::Owned(Value::String(change(text))))
    }

    fn split(&mut self, at: usize, text: &Value, separator: &Value, limit: Option<&Val<'v>>) -> Outcome<Val<'v>> {
        let (text, separator) = (text_of(at, text)?, text_of(at, separator)?);
        let most = match limit.map(|limit| limit.as_i64()) {
            None => usize::MAX,
            Some(Some(limit)) => usize::try_from(limit).unwrap_or(usize::MAX),
            Some(None) => return Err(Fault::wrong_type(at, "the limit of `split` is an integer")),
        };
        self.scan(at, text.len())?;
        let count = text.matches(separator).count().saturating_add(1).min(most);
        self.produce(at, text.len() + count * size_of::<Value>())?;
        Ok(Cow::Owned(pieces(text, separator, most).into_iter().collect()))
    }

    fn join(&mut self, at: usize, list: &Value, separator: &str) -> Outcome<Val<'v>> {
        let Value::Array(items) = list else {
            let found = type_name(list);
            return Err(Fault::wrong_type(at, format!("`join` takes a list, not {found}")));
        };
        let mut text = String::new();
        for (index, item) in items.iter().enumerate() {
            let separator = if index == 0 { "" } else { separator };
            let item = text_of(at, item)?;
            self.spend(at, 1)?;
            self.produce(at, separator.len() + item.len())?;
            text.extend([separator, item]);
        }
        Ok(Cow::Owned(Value::String(text)))
    }

    /// A map without some of its fields.
    fn omit(&mut self, at: usize, map: &Value, names: &Value) -> Outcome<Val<'v>> {
        let (Value::Object(fields), Value::Array(names)) = (map, names) else {
            let (map, names) = (type_name(map), type_name(names));
            let message = format!("`omit` takes a map and a list of names, not {map} and {names}");
            return Err(Fault::wrong_type(at, message));
        };
        let mut kept = serde_json::Map::new();
        for (name, value) in fields {
            self.spend(at, 1 + u32::try_from(names.len() / 16).unwrap_or(u32::MAX))?;
            if names.iter().all(|omitted| omitted != name) {
                self.produce(at, name.len())?;
                super::value::weigh(value, &mut self.session.meter).map_err(|error| error.at(at))?;
                kept.insert(name.clone(), value.clone());
            }
        }
        Ok(Cow::Owned(Value::Object(kept)))
    }

    /// `min` and `max`, of the arguments or of one list.
    fn extreme(&mut self, at: usize, name: &str, wanted: Ordering, values: &[Val<'v>]) -> Outcome<Val<'v>> {
        let items: Vec<&Value> = match values {
            [list] => list.as_array().map_or_else(|| vec![list.as_ref()], |items| items.iter().collect()),
            several => several.iter().map(Cow::as_ref).collect(),
        };
        let mut items = items.into_iter();
        let mut best = items
            .next()
            .ok_or_else(|| Fault::wrong_type(at, format!("`{name}` of an empty list; check `size(…) > 0` first")))?;
        for item in items {
            self.spend(at, 1)?;
            let order = order(item, best, &mut self.session.meter).map_err(|error| error.at(at))?;
            if order.ok_or_else(|| unordered(at, name, item, best))? == wanted {
                best = item;
            }
        }
        super::value::weigh(best, &mut self.session.meter).map_err(|error| error.at(at))?;
        Ok(Cow::Owned(best.clone()))
    }
}

/// A double as CEL writes it: without exponent, and without `.0`.
fn double_text(double: f64) -> String {
    double.to_string()
}

fn text_of(at: usize, value: &Value) -> Outcome<&str> {
    value.as_str().ok_or_else(|| {
        let found = type_name(value);
        Fault::wrong_type(at, format!("expected a string here, not {found}; convert with `string(…)`"))
    })
}

fn pieces<'t>(text: &'t str, separator: &str, most: usize) -> Vec<&'t str> {
    if most == 0 {
        return Vec::new();
    }
    if !separator.is_empty() {
        return text.splitn(most, separator).collect();
    }
    let mut rest = text;
    let mut pieces = Vec::new();
    while let Some(first) = rest.chars().next().filter(|_| pieces.len() + 1 < most) {
        let (piece, after) = rest.split_at(first.len_utf8());
        pieces.push(piece);
        rest = after;
    }
    if !rest.is_empty() {
        pieces.push(rest);
    }
    pieces
}

fn to_int(value: &Value) -> Option<Value> {
    match value {
        Value::Number(number) => match Number::of(number) {
            Number::Int(int) => i64::try_from(int).ok().map(Value::from),
            Number::Double(double) => truncated(double).map(Value::from),
        },
        Value::String(text) => text.parse::<i64>().ok().map(Value::from),
        _ => None,
    }
}

fn to_uint(value: &Value) -> Option<Value> {
    match value {
        Value::Number(number) => match Number::of(number) {
            Number::Int(int) => u64::try_from(int).ok().map(Value::from),
            Number::Double(double) => truncated(double).and_then(|int| u64::try_from(int).ok()).map(Value::from),
        },
        Value::String(text) => text.parse::<u64>().ok().map(Value::from),
        _ => None,
    }
}

/// Towards zero, where an integer of 64 bits can hold it.
fn truncated(double: f64) -> Option<i64> {
    const EDGE: f64 = 9_223_372_036_854_775_808.0;
    (double.abs() < EDGE).then_some(double as i64)
}

fn to_double(value: &Value) -> Option<Value> {
    let double = match value {
        Value::Number(number) => Number::of(number).to_double(),
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
