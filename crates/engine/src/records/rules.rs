//! What permission adds to every question and every change: which records there are for someone, and which fields.

use futures::future::BoxFuture;
use serde_json::{Map, Value};
use toolwright_query::{Field, Filter};

use super::CompiledType;
use crate::Unavailable;
use crate::access::Session;

/// What is done to records.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RecordAction {
    /// Find, count, read, relate.
    Read,
    /// Make and change.
    Write,
    /// Remove.
    Delete,
}

/// What holds for someone beside the permission to do it at all.
#[derive(Debug, Clone, Default)]
pub struct RecordRule {
    /// Records that do not pass all of these do not exist for them.
    pub filters: Vec<Filter>,
    /// Fields that do not exist for them: hidden on read, left as they are on write.
    pub hidden: Vec<Field>,
}

/// Where such rules come from.
pub trait RecordRules: Send + Sync {
    /// The rule for one who wants to do this to records of a type.
    fn rule<'a>(
        &'a self,
        session: &'a Session,
        of: &'a CompiledType,
        action: RecordAction,
    ) -> BoxFuture<'a, Result<RecordRule, Unavailable>>;
}

/// No rules: whoever may read a type reads all of its records.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoRules;

impl RecordRules for NoRules {
    fn rule<'a>(
        &'a self,
        _session: &'a Session,
        _of: &'a CompiledType,
        _action: RecordAction,
    ) -> BoxFuture<'a, Result<RecordRule, Unavailable>> {
        Box::pin(std::future::ready(Ok(RecordRule::default())))
    }
}

impl RecordRule {
    /// The one filter that all of them are.
    pub(super) fn filter(&self) -> Filter {
        Filter::all(&self.filters)
    }

    /// Whether asking about the field would tell something about a hidden one.
    pub(super) fn hides(&self, field: &str) -> bool {
        let within = |outer: &str, inner: &str| {
            inner.strip_prefix(outer).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        };
        self.hidden.iter().any(|hidden| within(hidden.as_str(), field) || within(field, hidden.as_str()))
    }

    /// The outermost names of what is hidden: a search through all texts leaves these out as a whole.
    pub(super) fn unseen(&self) -> Vec<String> {
        let mut names: Vec<String> =
            self.hidden.iter().filter_map(|field| field.segments().next()).map(str::to_owned).collect();
        names.sort_unstable();
        names.dedup();
        names
    }

    /// Takes the hidden fields out.
    pub(super) fn strip(&self, record: &mut Value) {
        for field in &self.hidden {
            remove(record, &field.segments().collect::<Vec<_>>());
        }
    }

    /// Puts the hidden fields of what is stored into what is about to replace it. Fails with the field that cannot be
    /// kept: a list of which elements were changed, some of whose fields are hidden.
    pub(super) fn keep_hidden(&self, stored: &Map<String, Value>, new: &mut Map<String, Value>) -> Result<(), Field> {
        for field in &self.hidden {
            let path: Vec<&str> = field.segments().collect();
            keep(stored, new, &path).map_err(|()| field.clone())?;
        }
        Ok(())
    }
}

fn remove(value: &mut Value, path: &[&str]) {
    match (value, path) {
        (Value::Array(items), _) => items.iter_mut().for_each(|item| remove(item, path)),
        (Value::Object(fields), [last]) => {
            fields.shift_remove(*last);
        }
        (Value::Object(fields), [first, rest @ ..]) => {
            if let Some(inner) = fields.get_mut(*first) {
                remove(inner, rest);
            }
        }
        _ => {}
    }
}

fn keep(stored: &Map<String, Value>, new: &mut Map<String, Value>, path: &[&str]) -> Result<(), ()> {
    let Some((first, rest)) = path.split_first() else { return Ok(()) };
    let Some(old) = stored.get(*first) else { return Ok(()) };
    if rest.is_empty() {
        new.insert((*first).to_owned(), old.clone());
        return Ok(());
    }
    let mut visible = old.clone();
    remove(&mut visible, rest);
    if visible == *old {
        // Nothing is hidden in there.
        return Ok(());
    }
    match (old, new.get_mut(*first)) {
        (Value::Object(old), Some(Value::Object(new))) => keep(old, new, rest),
        // The writer saw it without the hidden part and left it as it was.
        (_, Some(given)) if *given == visible => {
            *given = old.clone();
            Ok(())
        }
        (Value::Object(old), None) => {
            // What the writer saw of it is gone; what it did not see stays.
            let mut kept = Map::new();
            keep(old, &mut kept, rest)?;
            new.insert((*first).to_owned(), Value::Object(kept));
            Ok(())
        }
        _ => Err(()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn hiding(fields: &[&str]) -> RecordRule {
        RecordRule { filters: Vec::new(), hidden: fields.iter().map(|field| Field::parse(field).unwrap()).collect() }
    }

    #[test]
    fn a_field_is_hidden_with_what_is_above_and_below_it() {
        let rule = hiding(&["price.cost"]);
        for (field, hidden) in
            [("price", true), ("price.cost", true), ("price.cost.net", true), ("price.net", false), ("pri", false)]
        {
            assert_eq!(rule.hides(field), hidden, "{field}");
        }
        assert_eq!(hiding(&["a.b", "a.c", "b"]).unseen(), ["a", "b"]);
    }

    #[test]
    fn what_is_hidden_survives_the_writing_of_someone_who_cannot_see_it() {
        let rule = hiding(&["secret", "price.cost", "lines.cost"]);
        for (stored, new, expected) in [
            (json!({ "a": 1, "secret": 2 }), json!({ "a": 3 }), Some(json!({ "a": 3, "secret": 2 }))),
            (
                json!({ "price": { "cost": 1, "net": 2 } }),
                json!({ "price": { "net": 3 } }),
                Some(json!({ "price": { "net": 3, "cost": 1 } })),
            ),
            (json!({ "price": { "cost": 1, "net": 2 } }), json!({}), Some(json!({ "price": { "cost": 1 } }))),
            (json!({ "price": { "net": 2 } }), json!({}), Some(json!({}))),
            (
                json!({ "lines": [{ "n": 1, "cost": 5 }] }),
                json!({ "lines": [{ "n": 1 }] }),
                Some(json!({ "lines": [{ "n": 1, "cost": 5 }] })),
            ),
            (json!({ "lines": [{ "n": 1, "cost": 5 }] }), json!({ "lines": [{ "n": 2 }] }), None),
            (json!({ "lines": [{ "n": 1, "cost": 5 }] }), json!({}), None),
            (json!({ "lines": [{ "n": 1 }] }), json!({ "lines": [] }), Some(json!({ "lines": [] }))),
        ] {
            let mut written = new.as_object().unwrap().clone();
            let kept = rule.keep_hidden(stored.as_object().unwrap(), &mut written).map(|()| Value::Object(written));
            assert_eq!(kept.ok(), expected, "{stored} <- {new}");
        }
    }
}
