//! Record rules restrict a permitted operation of a principal: by filters on records and by hidden fields.

use futures::future::BoxFuture;
use serde_json::{Map, Value};
use toolwright_query::{Field, Filter};

use super::CompiledType;
use toolwright_catalog::Session;
use toolwright_catalog::Unavailable;

/// An operation on records.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RecordAction {
    /// Finding, counting and getting records, and following relations.
    Read,
    /// Creating and updating records.
    Write,
    /// Deleting records.
    Delete,
}

/// Restrictions on a permitted operation.
#[derive(Debug, Clone, Default)]
pub struct RecordRule {
    /// Filters that a record must match to be visible.
    pub filters: Vec<Filter>,
    /// Fields that are removed on read and preserved on write.
    pub hidden: Vec<Field>,
}

/// Provides the record rules of principals.
pub trait RecordRules: Send + Sync {
    /// Returns the rule for an operation of the session on records of a type.
    fn rule<'a>(
        &'a self,
        session: &'a Session,
        entity_type: &'a CompiledType,
        action: RecordAction,
    ) -> BoxFuture<'a, Result<RecordRule, Unavailable>>;
}

/// Provides no restrictions: the permission to read a type includes all its records and fields.
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
    /// Combines all filters into one.
    pub(super) fn filter(&self) -> Filter {
        Filter::all(&self.filters)
    }

    /// Returns whether a query on `field` could reveal a hidden field: `field` is hidden, is inside a hidden field, or
    /// contains a hidden field.
    pub(super) fn hides(&self, field: &str) -> bool {
        let within = |outer: &str, inner: &str| {
            inner.strip_prefix(outer).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        };
        self.hidden.iter().any(|hidden| within(hidden.as_str(), field) || within(field, hidden.as_str()))
    }

    /// Returns the top-level names of the hidden fields. A full-text search skips these fields entirely.
    pub(super) fn hidden_top_level(&self) -> Vec<String> {
        let mut names: Vec<String> =
            self.hidden.iter().filter_map(|field| field.segments().next()).map(str::to_owned).collect();
        names.sort_unstable();
        names.dedup();
        names
    }

    /// Removes the hidden fields from a record.
    pub(super) fn remove_hidden(&self, record: &mut Value) {
        for field in &self.hidden {
            remove(record, &field.segments().collect::<Vec<_>>());
        }
    }

    /// Copies the hidden fields of the stored record into the new record. The error is the name of a hidden field that
    /// cannot be copied, because the caller changed the list that contains the field, or replaced the object that
    /// contains it.
    pub(super) fn restore_hidden(
        &self,
        stored: &Map<String, Value>,
        new: &mut Map<String, Value>,
    ) -> Result<(), Field> {
        for field in &self.hidden {
            let path: Vec<&str> = field.segments().collect();
            restore(stored, new, &path).map_err(|()| field.clone())?;
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

fn restore(stored: &Map<String, Value>, new: &mut Map<String, Value>, path: &[&str]) -> Result<(), ()> {
    let Some((first, rest)) = path.split_first() else { return Ok(()) };
    let Some(old) = stored.get(*first) else { return Ok(()) };
    if rest.is_empty() {
        new.insert((*first).to_owned(), old.clone());
        return Ok(());
    }
    let mut visible = old.clone();
    remove(&mut visible, rest);
    if visible == *old {
        // The stored value contains no hidden field.
        return Ok(());
    }
    match (old, new.get_mut(*first)) {
        (Value::Object(old), Some(Value::Object(new))) => restore(old, new, rest),
        // The caller did not change the visible part of the value.
        (_, Some(given)) if *given == visible => {
            *given = old.clone();
            Ok(())
        }
        (Value::Object(old), None) => {
            // The caller removed the value. Its visible part is removed, and its hidden part is kept.
            let mut hidden = Map::new();
            restore(old, &mut hidden, rest)?;
            new.insert((*first).to_owned(), Value::Object(hidden));
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
    fn rule_that_hides_a_field_also_hides_its_parents_and_children() {
        let rule = hiding(&["price.cost"]);
        for (field, hidden) in
            [("price", true), ("price.cost", true), ("price.cost.net", true), ("price.net", false), ("pri", false)]
        {
            assert_eq!(rule.hides(field), hidden, "{field}");
        }
        assert_eq!(hiding(&["a.b", "a.c", "b"]).hidden_top_level(), ["a", "b"]);
    }

    #[test]
    fn write_keeps_hidden_fields_and_fails_if_a_list_with_a_hidden_field_changed() {
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
            let restored =
                rule.restore_hidden(stored.as_object().unwrap(), &mut written).map(|()| Value::Object(written));
            assert_eq!(restored.ok(), expected, "{stored} <- {new}");
        }
    }
}
