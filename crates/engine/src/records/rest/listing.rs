//! What a tool answered, as records: taken out of the answer, filtered, sorted, cut into pages. Nothing here does IO.

use std::collections::HashSet;

use serde_json::{Map, Value};
use toolwright_expr::JsonPath;
use toolwright_query::SortValue;
use toolwright_store::{RecordPage, Selection};

use crate::records::{CompiledType, shape};

/// The most records that are searched in memory.
const MOST_LISTED: usize = 10_000;

/// The records of an answer, or what is wrong with it, as the end of a sentence about the tool.
pub(super) fn records(of: &CompiledType, id_field: &str, answer: Value) -> Result<Vec<Value>, String> {
    let items = items(of.items.as_ref(), answer)?;
    if items.len() > MOST_LISTED {
        return Err(format!(
            "lists {} records, and {MOST_LISTED} are searched here at most; let it list fewer, or keep the records in a table",
            items.len()
        ));
    }
    let declared = declared(of);
    items.into_iter().map(|item| shown(of, id_field, &declared, item)).collect()
}

/// The record that an answer is.
pub(super) fn record(of: &CompiledType, id_field: &str, answer: Value) -> Result<Value, String> {
    shown(of, id_field, &declared(of), answer)
}

/// Whether a record is selected.
pub(super) fn passes(selection: &Selection, record: &Value) -> bool {
    if !selection.stored.matches(record) {
        return false;
    }
    let (true, Some(fields)) = (!selection.unseen.is_empty(), record.as_object()) else {
        return selection.seen.matches(record);
    };
    let seen = fields.iter().filter(|(name, _)| !selection.unseen.contains(name));
    selection.seen.matches(&Value::Object(seen.map(|(name, value)| (name.clone(), value.clone())).collect()))
}

/// The records of a page, in order.
pub(super) fn page(records: Vec<Value>, page: &RecordPage) -> Vec<Value> {
    let mut placed: Vec<(Vec<SortValue>, Value)> =
        records.into_iter().map(|record| (page.sort.values(&record), record)).collect();
    placed.sort_by(|(left, one), (right, other)| page.sort.compare((left, id_of(one)), (right, id_of(other))));
    let begins = |(values, record): &(Vec<SortValue>, Value)| {
        page.after
            .as_ref()
            .is_none_or(|after| page.sort.compare((values, id_of(record)), (after.values(), after.id())).is_gt())
    };
    let skip = usize::try_from(page.skip).unwrap_or(usize::MAX);
    let limit = usize::try_from(page.limit).unwrap_or(usize::MAX);
    placed.into_iter().filter(begins).skip(skip).take(limit).map(|(_, record)| record).collect()
}

fn id_of(record: &Value) -> &str {
    record.get("id").and_then(Value::as_str).unwrap_or_default()
}

fn items(path: Option<&JsonPath>, answer: Value) -> Result<Vec<Value>, String> {
    let Some(path) = path else {
        return match answer {
            Value::Array(items) => Ok(items),
            other => Err(format!("answers with {}, not with a list; say in `records.items` where it is", kind(&other))),
        };
    };
    let found = path.query(&answer).map_err(|error| format!("answers with too much for `records.items`: {error}"))?;
    match found.as_slice() {
        many if !path.is_singular() => Ok(many.iter().map(|item| (*item).clone()).collect()),
        [Value::Array(items)] => Ok(items.clone()),
        [other, ..] => Err(format!("has {} at `{}`, where `records.items` expects a list", kind(other), path.source())),
        [] => Err(format!("answers without anything at `{}`, where `records.items` expects a list", path.source())),
    }
}

/// The fields that the schema names; none when it names nothing.
fn declared(of: &CompiledType) -> HashSet<&str> {
    shape::properties(of.schema.source()).map(|(name, _)| name.as_str()).collect()
}

/// The record as it is shown: with a text as its id, and with what the schema names, or all if it names nothing.
fn shown(of: &CompiledType, id_field: &str, declared: &HashSet<&str>, item: Value) -> Result<Value, String> {
    let Value::Object(fields) = item else {
        return Err(format!("answers with {} where a record, an object, is expected", kind(&item)));
    };
    let id = match fields.get(id_field) {
        Some(Value::String(text)) if !text.is_empty() => text.clone(),
        Some(Value::Number(number)) => number.to_string(),
        _ => {
            return Err(format!(
                "answers with a record whose `{id_field}` is no id; say in `records.idField` which field has it"
            ));
        }
    };
    let mut record = Map::from_iter([("id".to_owned(), Value::String(id))]);
    let named = |name: &str| name != "id" && (declared.is_empty() || declared.contains(name));
    record.extend(fields.into_iter().filter(|(name, _)| named(name)));
    // Ids are texts, and so is what refers to one.
    for relation in &of.relations {
        if let Some(held) = record.get_mut(relation.field.as_str()) {
            as_text(held);
        }
    }
    Ok(Value::Object(record))
}

fn as_text(value: &mut Value) {
    match value {
        Value::Number(number) => *value = Value::String(number.to_string()),
        Value::Array(items) => items.iter_mut().for_each(as_text),
        _ => {}
    }
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "nothing",
        Value::Bool(_) => "true or false",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use toolwright_query::{Cursor, Query, Scope, Sort};
    use toolwright_types::Document;

    use super::*;

    fn order(more: Value) -> CompiledType {
        let mut definition = json!({ "refName": "Order", "records": { "kind": "rest", "list": "orders" } });
        crate::registry::merge(&mut definition, more);
        let name = "Order".parse().unwrap();
        CompiledType::compile(Document::unsaved(name, serde_json::from_value(definition).unwrap())).unwrap().0
    }

    fn filter(query: &str) -> toolwright_query::Filter {
        Query::parse(query).unwrap().bind(&Scope::empty()).unwrap()
    }

    #[test]
    fn a_list_is_taken_whole_or_not_at_all() {
        let of = order(json!({}));
        let listed = |n: usize| Value::Array((0..n).map(|id| json!({ "id": id })).collect());
        assert_eq!(records(&of, "id", listed(MOST_LISTED)).unwrap().len(), MOST_LISTED);
        let refused = records(&of, "id", listed(MOST_LISTED + 1)).unwrap_err();
        assert!(refused.contains("lists 10001 records") && refused.contains("let it list fewer"), "{refused}");
    }

    #[test]
    fn ids_and_what_refers_to_them_are_texts() {
        let relations = json!([{ "name": "customer", "type": "Customer", "field": "customer" },
            { "name": "parts", "type": "Part", "field": "parts", "many": true }]);
        let of = order(json!({ "relations": relations }));
        let shown = record(&of, "nr", json!({ "id": "x", "nr": 7, "customer": 3, "parts": [1, "b"], "n": 5 })).unwrap();
        assert_eq!(shown, json!({ "id": "7", "nr": 7, "customer": "3", "parts": ["1", "b"], "n": 5 }));
    }

    #[test]
    fn what_is_hidden_is_not_searched() {
        let record = json!({ "id": "a", "region": "north", "secret": "gold" });
        let mut selection = Selection::of(filter("region:north"), Vec::new());
        selection.seen = filter("text(gold)");
        assert!(passes(&selection, &record));
        selection.unseen = vec!["secret".to_owned()];
        assert!(!passes(&selection, &record));
        selection.seen = filter("region:south");
        assert!(!passes(&selection, &record));
    }

    proptest::proptest! {
        /// Whatever the size of the pages, they come to the same list.
        #[test]
        fn pages_are_the_whole(values in proptest::collection::vec(0..4u8, 0..30), limit in 1..8u32, descending: bool) {
            let all: Vec<Value> = values.iter().enumerate().map(|(at, n)| json!({ "id": format!("{at:02}"), "n": n })).collect();
            let sort = Sort::parse(if descending { "-n" } else { "n" }).unwrap();
            let whole = page(all.clone(), &RecordPage { sort: sort.clone(), after: None, skip: 0, limit: 100 });
            let (mut seen, mut after) = (Vec::new(), None);
            loop {
                let part = page(all.clone(), &RecordPage { sort: sort.clone(), after, skip: 0, limit });
                let Some(last) = part.last() else { break };
                after = Some(Cursor::after(None, &sort, last, id_of(last)));
                seen.extend(part);
            }
            proptest::prop_assert_eq!(seen, whole);
        }
    }
}
