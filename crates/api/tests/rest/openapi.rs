//! Tests that the committed `openapi.json` matches the routes. A change of the API is therefore visible in code
//! reviews.

#[test]
fn committed_openapi_json_matches_the_routes() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../openapi.json");
    let current = toolwright_api::openapi_json();
    if std::env::var_os("UPDATE_OPENAPI").is_some() {
        std::fs::write(path, &current).unwrap();
    }
    let committed = std::fs::read_to_string(path).unwrap_or_default();
    assert!(committed == current, "openapi.json is out of date; run `make openapi`");
}

#[test]
fn openapi_document_has_version_3_1_and_unique_operation_ids() {
    let document: serde_json::Value = serde_json::from_str(&toolwright_api::openapi_json()).unwrap();
    assert!(document["openapi"].as_str().unwrap().starts_with("3.1"));
    let mut names = std::collections::BTreeSet::new();
    for (path, operations) in document["paths"].as_object().unwrap() {
        for (method, operation) in operations.as_object().unwrap() {
            let name =
                operation["operationId"].as_str().unwrap_or_else(|| panic!("{method} {path} has no operation id"));
            assert!(names.insert(name.to_owned()), "duplicate operation id {name}");
        }
    }
    assert!(names.len() > 25, "{names:?}");
}

#[test]
fn every_schema_reference_in_the_openapi_document_resolves() {
    fn references(value: &serde_json::Value, found: &mut Vec<String>) {
        match value {
            serde_json::Value::Object(fields) => {
                found.extend(fields.get("$ref").and_then(|text| text.as_str()).map(str::to_owned));
                fields.values().for_each(|field| references(field, found));
            }
            serde_json::Value::Array(items) => items.iter().for_each(|item| references(item, found)),
            _ => {}
        }
    }
    let document: serde_json::Value = serde_json::from_str(&toolwright_api::openapi_json()).unwrap();
    let mut found = Vec::new();
    references(&document, &mut found);
    assert!(found.len() > 50);
    for reference in found {
        assert!(document.pointer(reference.trim_start_matches('#')).is_some(), "{reference}");
    }
}

#[test]
fn api_reference_has_every_operation_and_no_broken_link() {
    let document: serde_json::Value = serde_json::from_str(&toolwright_api::openapi_json()).unwrap();
    let page = toolwright_api::reference_page();
    for operations in document["paths"].as_object().unwrap().values() {
        for operation in operations.as_object().unwrap().values() {
            let id = operation["operationId"].as_str().unwrap();
            assert!(page.contains(&format!("<section id=\"{id}\">")), "{id}");
        }
    }
    for link in page.split("href=\"#").skip(1) {
        let target = link.split('"').next().unwrap();
        assert!(page.contains(&format!("id=\"{target}\"")), "{target}");
    }
    assert!(!page.contains("<script"), "the page needs no script");
}
