//! Extracts records from the output of a tool, then filters, sorts and pages them. Does no IO.

use std::collections::HashSet;

use serde_json::{Map, Value};
use toolwright_expr::JsonPath;
use toolwright_query::SortValue;
use toolwright_store::{RecordPage, Selection};

use toolwright_catalog::CompiledType;
use toolwright_catalog::entity_type::field_schema;

/// The maximum number of records that are filtered in memory.
const MAX_LISTED: usize = 10_000;

/// Returns the records in the output of a tool. The error message continues a sentence that starts with the name of the
/// tool.
pub(super) fn parse_records(entity_type: &CompiledType, id_field: &str, output: Value) -> Result<Vec<Value>, String> {
    let items = extract_items(entity_type.items.as_ref(), output)?;
    if items.len() > MAX_LISTED {
        return Err(format!(
            "must list at most {MAX_LISTED} records, got {}; make it list fewer, or store the records in a table",
            items.len()
        ));
    }
    let declared = declared_fields(entity_type);
    items.into_iter().map(|item| to_record(entity_type, id_field, &declared, item)).collect()
}

/// Converts the output of a tool that returns one record.
pub(super) fn parse_record(entity_type: &CompiledType, id_field: &str, output: Value) -> Result<Value, String> {
    to_record(entity_type, id_field, &declared_fields(entity_type), output)
}

/// Returns whether a selection matches a record.
pub(super) fn matches(selection: &Selection, record: &Value) -> bool {
    if !selection.stored.matches(record) {
        return false;
    }
    let (true, Some(fields)) = (!selection.hidden.is_empty(), record.as_object()) else {
        return selection.visible.matches(record);
    };
    let visible = fields.iter().filter(|(name, _)| !selection.hidden.contains(name));
    selection.visible.matches(&Value::Object(visible.map(|(name, value)| (name.clone(), value.clone())).collect()))
}

/// Sorts the records and returns those of one page.
pub(super) fn sort_and_page(records: Vec<Value>, page: &RecordPage) -> Vec<Value> {
    let mut sorted: Vec<(Vec<SortValue>, Value)> =
        records.into_iter().map(|record| (page.sort.values(&record), record)).collect();
    sorted.sort_by(|(left, one), (right, other)| page.sort.compare((left, id_of(one)), (right, id_of(other))));
    let is_after_cursor = |(values, record): &(Vec<SortValue>, Value)| {
        page.after
            .as_ref()
            .is_none_or(|after| page.sort.compare((values, id_of(record)), (after.values(), after.id())).is_gt())
    };
    let skip = usize::try_from(page.skip).unwrap_or(usize::MAX);
    let limit = usize::try_from(page.limit).unwrap_or(usize::MAX);
    sorted.into_iter().filter(is_after_cursor).skip(skip).take(limit).map(|(_, record)| record).collect()
}

fn id_of(record: &Value) -> &str {
    record.get("id").and_then(Value::as_str).unwrap_or_default()
}

fn extract_items(path: Option<&JsonPath>, output: Value) -> Result<Vec<Value>, String> {
    let Some(path) = path else {
        return match output {
            Value::Array(items) => Ok(items),
            other => Err(format!("must return a list, got {}; set `records.items` to its path", json_kind(&other))),
        };
    };
    let found = path.query(&output).map_err(|error| format!("returned too much for `records.items`: {error}"))?;
    match found.as_slice() {
        many if !path.is_singular() => Ok(many.iter().map(|item| (*item).clone()).collect()),
        [Value::Array(items)] => Ok(items.clone()),
        [other, ..] => {
            Err(format!("must return a list at the `records.items` path `{}`, got {}", path.source(), json_kind(other)))
        }
        [] => Err(format!("must return a list at the `records.items` path `{}`, got nothing", path.source())),
    }
}

/// Returns the names of the fields that the schema declares.
fn declared_fields(entity_type: &CompiledType) -> HashSet<&str> {
    field_schema::properties(entity_type.schema.source()).map(|(name, _)| name.as_str()).collect()
}

/// Converts an item to a record with a string id. The record has the declared fields, or all fields if the schema
/// declares none.
fn to_record(
    entity_type: &CompiledType,
    id_field: &str,
    declared: &HashSet<&str>,
    item: Value,
) -> Result<Value, String> {
    let Value::Object(fields) = item else {
        return Err(format!("must return records as objects, got {}", json_kind(&item)));
    };
    let id = match fields.get(id_field) {
        Some(Value::String(text)) if !text.is_empty() => text.clone(),
        Some(Value::Number(number)) => number.to_string(),
        _ => {
            return Err(format!(
                "returned a record without an id in `{id_field}`; set `records.idField` to the field that has it"
            ));
        }
    };
    let mut record = Map::from_iter([("id".to_owned(), Value::String(id))]);
    let included = |name: &str| name != "id" && (declared.is_empty() || declared.contains(name));
    record.extend(fields.into_iter().filter(|(name, _)| included(name)));
    // Ids of records are strings. So references to other records are converted to strings too.
    for relation in &entity_type.relations {
        if let Some(held) = record.get_mut(relation.field.as_str()) {
            stringify(held);
        }
    }
    Ok(Value::Object(record))
}

fn stringify(value: &mut Value) {
    match value {
        Value::Number(number) => *value = Value::String(number.to_string()),
        Value::Array(items) => items.iter_mut().for_each(stringify),
        _ => {}
    }
}

fn json_kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use toolwright_query::{BindContext, Cursor, Query, Sort};
    use toolwright_types::Document;

    use super::*;

    fn order(more: Value) -> CompiledType {
        let mut definition = json!({ "refName": "Order", "records": { "kind": "rest", "list": "orders" } });
        toolwright_catalog::registry::merge_patch(&mut definition, more);
        let name = "Order".parse().unwrap();
        CompiledType::compile(Document::unsaved(name, serde_json::from_value(definition).unwrap())).unwrap().0
    }

    fn filter(query: &str) -> toolwright_query::Filter {
        Query::parse(query).unwrap().bind(&BindContext::empty()).unwrap()
    }

    #[test]
    fn tool_output_with_more_than_10000_records_is_rejected() {
        let entity_type = order(json!({}));
        let listed = |n: usize| Value::Array((0..n).map(|id| json!({ "id": id })).collect());
        assert_eq!(parse_records(&entity_type, "id", listed(MAX_LISTED)).unwrap().len(), MAX_LISTED);
        let refused = parse_records(&entity_type, "id", listed(MAX_LISTED + 1)).unwrap_err();
        assert!(refused.contains("got 10001") && refused.contains("make it list fewer"), "{refused}");
    }

    #[test]
    fn numeric_ids_and_references_in_tool_output_become_strings() {
        let relations = json!([{ "name": "customer", "type": "Customer", "field": "customer" },
            { "name": "parts", "type": "Part", "field": "parts", "many": true }]);
        let entity_type = order(json!({ "relations": relations }));
        let shown =
            parse_record(&entity_type, "nr", json!({ "id": "x", "nr": 7, "customer": 3, "parts": [1, "b"], "n": 5 }))
                .unwrap();
        assert_eq!(shown, json!({ "id": "7", "nr": 7, "customer": "3", "parts": ["1", "b"], "n": 5 }));
    }

    #[test]
    fn full_text_search_skips_hidden_fields() {
        let record = json!({ "id": "a", "region": "north", "secret": "gold" });
        let mut selection = Selection::of(filter("region:north"), Vec::new());
        selection.visible = filter("text(gold)");
        assert!(matches(&selection, &record));
        selection.hidden = vec!["secret".to_owned()];
        assert!(!matches(&selection, &record));
        selection.visible = filter("region:south");
        assert!(!matches(&selection, &record));
    }

    proptest::proptest! {
        #[test]
        fn concatenated_pages_equal_the_sorted_list(values in proptest::collection::vec(0..4u8, 0..30), limit in 1..8u32, descending: bool) {
            let all: Vec<Value> = values.iter().enumerate().map(|(at, n)| json!({ "id": format!("{at:02}"), "n": n })).collect();
            let sort = Sort::parse(if descending { "-n" } else { "n" }).unwrap();
            let sorted = sort_and_page(all.clone(), &RecordPage { sort: sort.clone(), after: None, skip: 0, limit: 100 });
            let (mut collected, mut after) = (Vec::new(), None);
            loop {
                let part = sort_and_page(all.clone(), &RecordPage { sort: sort.clone(), after, skip: 0, limit });
                let Some(last) = part.last() else { break };
                after = Some(Cursor::after(None, &sort, last, id_of(last)));
                collected.extend(part);
            }
            proptest::prop_assert_eq!(collected, sorted);
        }
    }
}
