//! The meaning of a filter, on documents in memory. The SQL of `sql` says the same; tests compare them.

use serde_json::Value;

use crate::filter::{Among, Filter, Limit, Probe, Test};
use crate::moment::micros;
use crate::{Case, Field, Order};

impl Filter {
    /// Whether the document passes. Allocates nothing that grows with the document.
    pub fn matches(&self, document: &Value) -> bool {
        self.root.holds(document)
    }
}

impl Test {
    fn holds(&self, document: &Value) -> bool {
        match self {
            Test::All(parts) => parts.iter().all(|part| part.holds(document)),
            Test::Any(parts) => parts.iter().any(|part| part.holds(document)),
            Test::Not(inner) => !inner.holds(document),
            Test::Shared(inner) => inner.holds(document),
            Test::Present(field) => any_at(document, field, &mut |value| !value.is_null()),
            Test::Value { field, probe } => {
                any_at(document, field, &mut |value| any_in(value, |value| probe.accepts(value)))
            }
            Test::Element { field, inner } => any_at(document, field, &mut |value| {
                value.as_array().is_some_and(|items| items.iter().any(|item| inner.holds(item)))
            }),
            Test::Ids(ids) => {
                let id = document.get("id").and_then(Value::as_str);
                id.is_some_and(|id| ids.binary_search_by(|known| known.as_str().cmp(id)).is_ok())
            }
            Test::Words(words) => any_string(document, &|text| words.finder.is_match(text)),
        }
    }
}

impl Probe {
    fn accepts(&self, value: &Value) -> bool {
        match self {
            Probe::Truth(wanted) => truth(value) == Some(*wanted),
            Probe::Among(among) => among.contains(value),
            Probe::Order(order, limit) => limit.orders(*order, value),
            Probe::Like(like) => value.as_str().is_some_and(|text| like.regex.is_match(text)),
        }
    }
}

/// Whether some value at the end of the path passes. An array on the way stands for its elements; one at the end, or in an
/// array, is a value like any other.
fn any_at(document: &Value, field: &Field, test: &mut dyn FnMut(&Value) -> bool) -> bool {
    let names = field.as_str();
    match names.split_once('.') {
        None => document.as_object().and_then(|fields| fields.get(names)).is_some_and(test),
        Some((first, rest)) => {
            document.as_object().and_then(|fields| fields.get(first)).is_some_and(|value| below(value, rest, test))
        }
    }
}

fn below(value: &Value, names: &str, test: &mut dyn FnMut(&Value) -> bool) -> bool {
    let (name, rest) = names.split_once('.').map_or((names, None), |(name, rest)| (name, Some(rest)));
    any_in(value, |value| {
        let found = value.as_object().and_then(|fields| fields.get(name));
        found.is_some_and(|found| match rest {
            Some(rest) => below(found, rest, test),
            None => test(found),
        })
    })
}

/// The value itself, or the elements of an array.
fn any_in(value: &Value, mut test: impl FnMut(&Value) -> bool) -> bool {
    match value {
        Value::Array(items) => items.iter().any(test),
        other => test(other),
    }
}

fn any_string(value: &Value, test: &dyn Fn(&str) -> bool) -> bool {
    match value {
        Value::String(text) => test(text),
        Value::Array(items) => items.iter().any(|item| any_string(item, test)),
        Value::Object(fields) => fields.values().any(|item| any_string(item, test)),
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

fn truth(value: &Value) -> Option<bool> {
    match value {
        Value::Bool(value) => Some(*value),
        Value::Number(number) => number.as_f64().map(|number| number != 0.0),
        Value::String(text) if text.eq_ignore_ascii_case("true") => Some(true),
        Value::String(text) if text.eq_ignore_ascii_case("false") => Some(false),
        _ => None,
    }
}

impl Among {
    fn contains(&self, value: &Value) -> bool {
        match value {
            Value::String(text) => {
                holds(&self.exact, text)
                    || holds_folded(&self.folded, text)
                    || (!self.moments.is_empty()
                        && micros(text).is_some_and(|at| self.moments.binary_search(&at).is_ok()))
            }
            Value::Number(number) => number.as_f64().is_some_and(|number| {
                let number = if number == 0.0 { 0.0 } else { number };
                self.numbers.binary_search_by(|known| known.total_cmp(&number)).is_ok()
            }),
            Value::Bool(value) => self.truths.contains(value),
            Value::Object(fields) => {
                let id = fields.get("id").and_then(Value::as_str);
                id.is_some_and(|id| holds(&self.ids, id) || holds_folded(&self.folded_ids, id))
            }
            Value::Null | Value::Array(_) => false,
        }
    }
}

fn holds(exact: &[String], text: &str) -> bool {
    exact.binary_search_by(|known| known.as_str().cmp(text)).is_ok()
}

/// Most sets have one text, which is compared where it stands.
fn holds_folded(folded: &[String], text: &str) -> bool {
    match folded {
        [] => false,
        [only] => only.eq_ignore_ascii_case(text),
        many => many.binary_search(&text.to_ascii_lowercase()).is_ok(),
    }
}

impl Limit {
    fn orders(&self, order: Order, value: &Value) -> bool {
        match value {
            Value::Number(number) => {
                let found = number.as_f64().zip(self.number).and_then(|(value, limit)| value.partial_cmp(&limit));
                found.is_some_and(|found| order.holds(found))
            }
            Value::String(text) => {
                let moment = self.moment.and_then(|limit| Some(order.holds(micros(text)?.cmp(&limit))));
                let text = self.text.as_ref().map(|(limit, case)| {
                    order.holds(match case {
                        Case::Sensitive => text.as_str().cmp(limit),
                        Case::Insensitive => folded(text).cmp(limit.bytes()),
                    })
                });
                moment == Some(true) || text == Some(true)
            }
            Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => false,
        }
    }
}

fn folded(text: &str) -> impl Iterator<Item = u8> + '_ {
    text.bytes().map(|byte| byte.to_ascii_lowercase())
}
