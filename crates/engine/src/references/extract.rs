//! From what a tool returned to items. Rules only.

use std::collections::HashSet;

use serde_json::{Map, Value};
use toolwright_expr::JsonPath;
use toolwright_store::NewItem;
use toolwright_types::ReferenceSource;

use super::MOST_ITEMS;

/// How many mistakes are told.
const MOST_ERRORS: usize = 10;
const LONGEST_ID: usize = 256;
const LONGEST_NAME: usize = 512;
const LARGEST_METADATA: usize = 2048;

/// Items, and what could not be one.
#[derive(Debug, Default)]
pub(super) struct Extracted {
    pub items: Vec<NewItem>,
    pub found: usize,
    pub failed: usize,
    pub errors: Vec<String>,
}

/// The items of an output, or why it has none.
pub(super) fn items(output: &Value, source: &ReferenceSource) -> Result<Extracted, String> {
    let candidates = candidates(output, source)?;
    let mut extracted = Extracted { found: candidates.len(), ..Extracted::default() };
    let mut seen = HashSet::new();
    for (at, candidate) in candidates.into_iter().enumerate() {
        let item = match extracted.items.len() {
            MOST_ITEMS => Err(format!("item {at}: more than {MOST_ITEMS} items are not kept")),
            _ => item(candidate, source).map_err(|error| format!("item {at}: {error}")),
        };
        match item {
            Ok(item) if seen.insert(item.id.to_string()) => extracted.items.push(item),
            Ok(item) => extracted.fail(format!("item {at}: the id {} is there twice", item.id)),
            Err(error) => extracted.fail(error),
        }
    }
    if extracted.items.is_empty() && extracted.failed > 0 {
        return Err(format!("none of {} items can be read; {}", extracted.found, extracted.errors.join("; ")));
    }
    Ok(extracted)
}

impl Extracted {
    fn fail(&mut self, error: String) {
        self.failed += 1;
        if self.errors.len() < MOST_ERRORS {
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
        [] => Err("extractionPath leads to nothing in what the tool returned".to_owned()),
        [one] if !one.is_object() => Err("what the tool returned is no list of items; set extractionPath".to_owned()),
        _ => Ok(nodes),
    }
}

fn item(candidate: &Value, source: &ReferenceSource) -> Result<NewItem, String> {
    let id = candidate.get(&source.id_field).filter(|id| id.is_string() || id.is_number());
    let id = id.ok_or_else(|| format!("`{}` is no id", source.id_field))?;
    let name = candidate.get(&source.name_field).and_then(Value::as_str).filter(|name| !name.trim().is_empty());
    let name = name.ok_or_else(|| format!("`{}` is no name", source.name_field))?;
    if id.as_str().is_some_and(|id| id.is_empty() || id.len() > LONGEST_ID) || name.len() > LONGEST_NAME {
        return Err("its id or its name is too long".to_owned());
    }
    if id.as_str().is_some_and(|id| id.contains('\0')) || name.contains('\0') {
        return Err("its id or its name holds the character U+0000".to_owned());
    }
    let fields = source.metadata_fields.iter().chain(&source.lookup_fields);
    let metadata: Map<String, Value> =
        fields.filter_map(|field| Some((field.clone(), candidate.get(field)?.clone()))).collect();
    let text = Value::Object(metadata.clone()).to_string();
    if text.len() > LARGEST_METADATA || text.contains("\\u0000") {
        return Err(format!("its metadata is larger than {LARGEST_METADATA} bytes or holds the character U+0000"));
    }
    Ok(NewItem { id: id.clone(), name: name.to_owned(), metadata })
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
    fn items_are_found_where_the_path_leads() {
        let two = json!([{ "id": 1, "name": "Ada" }, { "id": "b", "name": "Bo" }]);
        for (output, more) in [
            (two.clone(), json!({})),
            (json!({ "data": { "users": two.clone() } }), json!({ "extractionPath": "$.data.users" })),
            (json!({ "data": two.clone() }), json!({ "extractionPath": "$.data[*]" })),
        ] {
            let extracted = items(&output, &source(more)).unwrap();
            assert_eq!((extracted.items.len(), extracted.found, extracted.failed), (2, 2, 0), "{output}");
            assert_eq!((&extracted.items[0].id, extracted.items[1].name.as_str()), (&json!(1), "Bo"));
        }
        for (output, more, because) in [
            (json!("text"), json!({}), "no list"),
            (json!({}), json!({ "extractionPath": "$.none" }), "leads to nothing"),
            (json!([{ "id": 1 }]), json!({}), "`name` is no name"),
            (json!([{ "name": "x" }, {}]), json!({}), "none of 2"),
        ] {
            let error = items(&output, &source(more)).unwrap_err();
            assert!(error.contains(because), "{output}: {error}");
        }
    }

    #[test]
    fn what_is_no_item_is_counted_and_told() {
        let output = json!([{ "key": "a", "title": "A", "mail": "a@x", "more": 1 }, { "key": "a", "title": "B" }, { "key": [], "title": "C" }, { "key": "d", "title": "x\u{0}" }]);
        let source = source(json!({ "idField": "key", "nameField": "title", "lookupFields": ["mail"] }));
        let extracted = items(&output, &source).unwrap();
        assert_eq!((extracted.items.len(), extracted.failed, extracted.errors.len()), (1, 3, 3), "{extracted:?}");
        assert_eq!(extracted.items[0].metadata, *json!({ "mail": "a@x" }).as_object().unwrap());
        let many: Vec<Value> = (0..MOST_ITEMS + 5).map(|n| json!({ "key": n, "title": "x" })).collect();
        let extracted = items(&Value::from(many), &source).unwrap();
        assert_eq!((extracted.items.len(), extracted.failed), (MOST_ITEMS, 5));
    }
}
