//! Parses OpenAPI documents, proposes their tools and serializes the definitions.
#![no_main]

use libfuzzer_sys::fuzz_target;
use serde_json::Value;
use toolwright_openapi::{OpenApiDocument, OpenApiImportOptions, OperationFilter, propose_tools};

fuzz_target!(|text: &str| {
    let Ok(document) = OpenApiDocument::parse(text).or_else(|_| OpenApiDocument::from_value(wrap(text))) else { return };
    let options = OpenApiImportOptions {
        provider: "p".parse().expect("a name"),
        prefix: None,
        base_url: Some("https://example.com".into()),
        source_url: None,
        filter: OperationFilter::default(),
    };
    let Ok(proposal) = propose_tools(&document, &options) else { return };
    let mut names = std::collections::HashSet::new();
    for tool in proposal.tools {
        assert!(names.insert(tool.definition.ref_name.key()), "tool names must be unique");
        let written = serde_json::to_string(&tool.definition).expect("a definition must serialize");
        let _: Value = serde_json::from_str(&written).expect("a serialized definition must parse");
    }
});

/// Wraps the text as an operation and a schema of a valid document, so that the fuzzer need not find the structure of a
/// valid document itself.
fn wrap(text: &str) -> Value {
    let inner: Value = serde_json::from_str(text).unwrap_or_default();
    serde_json::json!({
        "openapi": "3.0.0",
        "paths": { "/a/{b}": { "post": inner.get("operation").unwrap_or(&inner) } },
        "components": { "schemas": { "A": inner } },
    })
}
