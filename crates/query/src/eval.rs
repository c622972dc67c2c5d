//! Matches documents in memory. The SQL of the module `sql` has the same semantics, and tests compare both.

use serde_json::Value;

use crate::datetime::micros;
use crate::filter::{Bound, Filter, Predicate, ValueSet, ValueTest};
use crate::{Case, CompareOp, Field};

impl Filter {
    /// Whether the document matches. The memory that matching allocates does not grow with the size of the document.
    pub fn matches(&self, document: &Value) -> bool {
        self.root.holds(document)
    }
}

impl Predicate {
    fn holds(&self, document: &Value) -> bool {
        match self {
            Predicate::And(parts) => parts.iter().all(|part| part.holds(document)),
            Predicate::Or(parts) => parts.iter().any(|part| part.holds(document)),
            Predicate::Not(inner) => !inner.holds(document),
            Predicate::Shared(inner) => inner.holds(document),
            Predicate::Present(field) => any_at_path(document, field, &mut |value| !value.is_null()),
            Predicate::Value { field, value_test } => {
                any_at_path(document, field, &mut |value| any_element(value, |value| value_test.accepts(value)))
            }
            Predicate::Element { field, inner } => any_at_path(document, field, &mut |value| {
                value.as_array().is_some_and(|items| items.iter().any(|item| inner.holds(item)))
            }),
            Predicate::Ids(ids) => {
                let id = document.get("id").and_then(Value::as_str);
                id.is_some_and(|id| ids.binary_search_by(|known| known.as_str().cmp(id)).is_ok())
            }
            Predicate::Words(words) => any_string(document, &|text| words.finder.is_match(text)),
        }
    }
}

impl ValueTest {
    fn accepts(&self, value: &Value) -> bool {
        match self {
            ValueTest::Bool(wanted) => boolean(value) == Some(*wanted),
            ValueTest::In(values) => values.contains(value),
            ValueTest::Compare(op, bound) => bound.accepts(*op, value),
            ValueTest::Like(like) => value.as_str().is_some_and(|text| like.regex.is_match(text)),
        }
    }
}

/// Whether a value at the end of the path passes the test. If an array occurs before the end of the path, each of its
/// elements is searched. An array at the end of the path, or directly inside another array, is tested as one value.
fn any_at_path(document: &Value, field: &Field, predicate: &mut dyn FnMut(&Value) -> bool) -> bool {
    let names = field.as_str();
    match names.split_once('.') {
        None => document.as_object().and_then(|fields| fields.get(names)).is_some_and(predicate),
        Some((first, rest)) => document
            .as_object()
            .and_then(|fields| fields.get(first))
            .is_some_and(|value| any_below(value, rest, predicate)),
    }
}

fn any_below(value: &Value, names: &str, predicate: &mut dyn FnMut(&Value) -> bool) -> bool {
    let (name, rest) = names.split_once('.').map_or((names, None), |(name, rest)| (name, Some(rest)));
    any_element(value, |value| {
        let found = value.as_object().and_then(|fields| fields.get(name));
        found.is_some_and(|found| match rest {
            Some(rest) => any_below(found, rest, predicate),
            None => predicate(found),
        })
    })
}

/// Whether the value passes the test. For an array, whether one of its elements passes the test.
fn any_element(value: &Value, mut predicate: impl FnMut(&Value) -> bool) -> bool {
    match value {
        Value::Array(items) => items.iter().any(predicate),
        other => predicate(other),
    }
}

fn any_string(value: &Value, predicate: &dyn Fn(&str) -> bool) -> bool {
    match value {
        Value::String(text) => predicate(text),
        Value::Array(items) => items.iter().any(|item| any_string(item, predicate)),
        Value::Object(fields) => fields.values().any(|item| any_string(item, predicate)),
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

fn boolean(value: &Value) -> Option<bool> {
    match value {
        Value::Bool(value) => Some(*value),
        Value::Number(number) => number.as_f64().map(|number| number != 0.0),
        Value::String(text) if text.eq_ignore_ascii_case("true") => Some(true),
        Value::String(text) if text.eq_ignore_ascii_case("false") => Some(false),
        _ => None,
    }
}

impl ValueSet {
    fn contains(&self, value: &Value) -> bool {
        match value {
            Value::String(text) => {
                contains_exact(&self.exact, text)
                    || contains_folded(&self.folded, text)
                    || (!self.timestamps.is_empty()
                        && micros(text).is_some_and(|at| self.timestamps.binary_search(&at).is_ok()))
            }
            Value::Number(number) => number.as_f64().is_some_and(|number| {
                let number = if number == 0.0 { 0.0 } else { number };
                self.numbers.binary_search_by(|known| known.total_cmp(&number)).is_ok()
            }),
            Value::Bool(value) => self.bools.contains(value),
            Value::Object(fields) => {
                let id = fields.get("id").and_then(Value::as_str);
                id.is_some_and(|id| contains_exact(&self.ids, id) || contains_folded(&self.folded_ids, id))
            }
            Value::Null | Value::Array(_) => false,
        }
    }
}

fn contains_exact(exact: &[String], text: &str) -> bool {
    exact.binary_search_by(|known| known.as_str().cmp(text)).is_ok()
}

/// Compares case-insensitively. The most frequent case, a set with one text, is compared without allocating memory.
fn contains_folded(lower_case_bytes: &[String], text: &str) -> bool {
    match lower_case_bytes {
        [] => false,
        [only] => only.eq_ignore_ascii_case(text),
        many => many.binary_search(&text.to_ascii_lowercase()).is_ok(),
    }
}

impl Bound {
    fn accepts(&self, op: CompareOp, value: &Value) -> bool {
        match value {
            Value::Number(number) => {
                let found = number.as_f64().zip(self.number).and_then(|(value, bound)| value.partial_cmp(&bound));
                found.is_some_and(|found| op.holds(found))
            }
            Value::String(text) => {
                let timestamp = self.timestamp.and_then(|bound| Some(op.holds(micros(text)?.cmp(&bound))));
                let text = self.text.as_ref().map(|(bound, case)| {
                    op.holds(match case {
                        Case::Sensitive => text.as_str().cmp(bound),
                        Case::Insensitive => lower_case_bytes(text).cmp(bound.bytes()),
                    })
                });
                timestamp == Some(true) || text == Some(true)
            }
            Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => false,
        }
    }
}

fn lower_case_bytes(text: &str) -> impl Iterator<Item = u8> + '_ {
    text.bytes().map(|byte| byte.to_ascii_lowercase())
}
