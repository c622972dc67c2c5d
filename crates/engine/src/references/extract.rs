//! Extracts reference items from the output of a tool.

use std::collections::HashSet;

use serde_json::{Map, Value};
use toolwright_expr::JsonPath;
use toolwright_store::NewReferenceItem;
use toolwright_types::ReferenceSource;

use super::MAX_ITEMS;

/// The maximum number of reported errors.
const MAX_ERRORS: usize = 10;
const MAX_ID_BYTES: usize = 256;
const MAX_NAME_BYTES: usize = 512;
const MAX_METADATA_BYTES: usize = 2048;

/// The valid items of an output, and the errors for the invalid items.
#[derive(Debug, Default)]
pub(super) struct Extraction {
    pub items: Vec<NewReferenceItem>,
    pub found: usize,
    pub failed: usize,
    pub errors: Vec<String>,
}

/// Extracts the items of an output. Invalid items are skipped. If all items are invalid, returns an error.
pub(super) fn items(output: &Value, source: &ReferenceSource) -> Result<Extraction, String> {
    let candidates = candidates(output, source)?;
    let mut extraction = Extraction { found: candidates.len(), ..Extraction::default() };
    let mut seen = HashSet::new();
    for (at, candidate) in candidates.into_iter().enumerate() {
        let item = match extraction.items.len() {
            MAX_ITEMS => Err(format!("item {at}: there must be at most {MAX_ITEMS} items")),
            _ => item(candidate, source).map_err(|error| format!("item {at}: {error}")),
        };
        match item {
            Ok(item) if seen.insert(item.id.to_string()) => extraction.items.push(item),
            Ok(item) => extraction.fail(format!("item {at}: id {} must be unique", item.id)),
            Err(error) => extraction.fail(error),
        }
    }
    if extraction.items.is_empty() && extraction.failed > 0 {
        return Err(format!("none of {} items is valid; {}", extraction.found, extraction.errors.join("; ")));
    }
    Ok(extraction)
}

impl Extraction {
    fn fail(&mut self, error: String) {
        self.failed += 1;
        if self.errors.len() < MAX_ERRORS {
            self.errors.push(error);
        }
    }
}

fn candidates<'v>(output: &'v Value, source: &ReferenceSource) -> Result<Vec<&'v Value>, String> {
    let nodes = match source.extraction_path.as_deref() {
        None => vec![output],
        Some(path) => {
            let path = JsonPath::parse(path).map_err(|error| format!("extractionPath: {error}"))?;
            path.query(output).map_err(|error| format!("extractionPath: {error}"))?
        }
    };
    match nodes.as_slice() {
        [Value::Array(items)] => Ok(items.iter().collect()),
        [] => Err("extractionPath does not match the output of the tool".to_owned()),
        [one] if !one.is_object() => {
            Err("the output of the tool must be a list of items; set extractionPath".to_owned())
        }
        _ => Ok(nodes),
    }
}

fn item(candidate: &Value, source: &ReferenceSource) -> Result<NewReferenceItem, String> {
    let id = candidate.get(&source.id_field).filter(|id| id.is_string() || id.is_number());
    let id = id.ok_or_else(|| format!("`{}` must be a string or a number", source.id_field))?;
    let name = candidate.get(&source.name_field).and_then(Value::as_str).filter(|name| !name.trim().is_empty());
    let name = name.ok_or_else(|| format!("`{}` must be a non-empty string", source.name_field))?;
    if id.as_str().is_some_and(|id| id.is_empty() || id.len() > MAX_ID_BYTES) || name.len() > MAX_NAME_BYTES {
        return Err(format!("the id must have 1 to {MAX_ID_BYTES} bytes, and the name at most {MAX_NAME_BYTES} bytes"));
    }
    if id.as_str().is_some_and(|id| id.contains('\0')) || name.contains('\0') {
        return Err("the id and the name must not contain U+0000".to_owned());
    }
    let fields = source.metadata_fields.iter().chain(&source.lookup_fields);
    let metadata: Map<String, Value> =
        fields.filter_map(|field| Some((field.clone(), candidate.get(field)?.clone()))).collect();
    let text = Value::Object(metadata.clone()).to_string();
    if text.len() > MAX_METADATA_BYTES || text.contains("\\u0000") {
        return Err(format!("the metadata must have at most {MAX_METADATA_BYTES} bytes and must not contain U+0000"));
    }
    Ok(NewReferenceItem { id: id.clone(), name: name.to_owned(), metadata })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn source(more: Value) -> ReferenceSource {
        let mut body = json!({ "dataType": "users", "toolRef": "t" });
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        serde_json::from_value(body).unwrap()
    }

    #[test]
    fn extraction_path_selects_the_items_and_a_wrong_path_is_an_error() {
        let two = json!([{ "id": 1, "name": "Ada" }, { "id": "b", "name": "Bo" }]);
        for (output, more) in [
            (two.clone(), json!({})),
            (json!({ "data": { "users": two.clone() } }), json!({ "extractionPath": "$.data.users" })),
            (json!({ "data": two.clone() }), json!({ "extractionPath": "$.data[*]" })),
        ] {
            let extraction = items(&output, &source(more)).unwrap();
            assert_eq!((extraction.items.len(), extraction.found, extraction.failed), (2, 2, 0), "{output}");
            assert_eq!((&extraction.items[0].id, extraction.items[1].name.as_str()), (&json!(1), "Bo"));
        }
        for (output, more, because) in [
            (json!("text"), json!({}), "must be a list"),
            (json!({}), json!({ "extractionPath": "$.none" }), "does not match"),
            (json!([{ "id": 1 }]), json!({}), "`name` must be a non-empty string"),
            (json!([{ "name": "x" }, {}]), json!({}), "none of 2"),
        ] {
            let error = items(&output, &source(more)).unwrap_err();
            assert!(error.contains(because), "{output}: {error}");
        }
    }

    #[test]
    fn duplicate_invalid_and_surplus_items_are_skipped_with_an_error() {
        let output = json!([{ "key": "a", "title": "A", "mail": "a@x", "more": 1 }, { "key": "a", "title": "B" }, { "key": [], "title": "C" }, { "key": "d", "title": "x\u{0}" }]);
        let source = source(json!({ "idField": "key", "nameField": "title", "lookupFields": ["mail"] }));
        let extraction = items(&output, &source).unwrap();
        assert_eq!((extraction.items.len(), extraction.failed, extraction.errors.len()), (1, 3, 3), "{extraction:?}");
        assert_eq!(extraction.items[0].metadata, *json!({ "mail": "a@x" }).as_object().unwrap());
        let many: Vec<Value> = (0..MAX_ITEMS + 5).map(|n| json!({ "key": n, "title": "x" })).collect();
        let extraction = items(&Value::from(many), &source).unwrap();
        assert_eq!((extraction.items.len(), extraction.failed), (MAX_ITEMS, 5));
    }
}
