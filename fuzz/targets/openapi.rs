//! Descriptions of APIs: read, planned, and what comes of it written as definitions.
#![no_main]

use libfuzzer_sys::fuzz_target;
use serde_json::Value;
use toolwright_openapi::{Document, Filter, Options, plan};

fuzz_target!(|text: &str| {
    let Ok(document) = Document::parse(text).or_else(|_| Document::from_value(around(text))) else { return };
    let options = Options {
        provider: "p".parse().expect("a name"),
        prefix: None,
        base_url: Some("https://example.com".into()),
        came_from: None,
        only: Filter::default(),
    };
    let Ok(plan) = plan(&document, &options) else { return };
    let mut names = std::collections::HashSet::new();
    for tool in plan.tools {
        assert!(names.insert(tool.definition.ref_name.key()), "two tools share a name");
        let written = serde_json::to_string(&tool.definition).expect("a definition is JSON");
        let _: Value = serde_json::from_str(&written).expect("it reads back");
    }
});

/// The text as the paths and schemas of a document, so that not every find has to invent the frame.
fn around(text: &str) -> Value {
    let inner: Value = serde_json::from_str(text).unwrap_or_default();
    serde_json::json!({
        "openapi": "3.0.0",
        "paths": { "/a/{b}": { "post": inner.get("operation").unwrap_or(&inner) } },
        "components": { "schemas": { "A": inner } },
    })
}
