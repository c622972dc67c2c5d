//! Oversized and invalid documents: every import ends without a panic.

use proptest::prelude::*;
use serde_json::{Value, json};
use toolwright_openapi::OpenApiDocument;
use toolwright_tools::export::{ExportFormat, export};
use toolwright_tools::{CompiledTool, Schema, builtin};

use crate::{document, propose};

#[test]
fn document_with_more_than_20000_operations_or_import_of_more_than_5000_is_rejected() {
    let paths: serde_json::Map<String, Value> =
        (0..100_000).map(|n| (format!("/p{n}"), json!({ "get": {} }))).collect();
    let error = propose(document("3.0.3", Value::Object(paths), json!({}))).unwrap_err();
    assert_eq!(error.pointer, "/paths");
    assert!(error.message.contains("20000"), "{error}");
    let paths: serde_json::Map<String, Value> = (0..6_000).map(|n| (format!("/p{n}"), json!({ "get": {} }))).collect();
    let error = propose(document("3.0.3", Value::Object(paths), json!({}))).unwrap_err();
    assert!(error.message.contains("by tag or path"), "{error}");
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (-3i64..4).prop_map(Value::from),
        prop_oneof![
            "[a-z$/{}*.]{0,6}",
            Just("#/components/schemas/A".to_owned()),
            Just("object".to_owned()),
            Just("array".to_owned())
        ]
        .prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        let keys = prop::sample::select(vec![
            "type",
            "properties",
            "items",
            "allOf",
            "anyOf",
            "$ref",
            "nullable",
            "required",
            "schema",
            "content",
            "name",
            "in",
            "style",
            "explode",
            "example",
            "examples",
            "default",
            "enum",
            "readOnly",
            "x",
            "{id}",
            "application/json",
            "url",
            "application/x-www-form-urlencoded",
            "additionalProperties",
            "pattern",
            "patternProperties",
            "[",
            "not",
            "tags",
            "operationId",
            "deprecated",
        ]);
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec((keys, inner), 0..5).prop_map(|entries| Value::Object(
                entries.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()
            )),
        ]
    })
}

fn valid_document() -> Value {
    let pet = json!({ "$ref": "#/components/schemas/A" });
    json!({
        "openapi": "3.0.3", "info": { "title": "T", "description": "D" }, "servers": [{ "url": "https://{h}", "variables": { "h": { "default": "x" } } }],
        "security": [{ "k": [] }],
        "components": { "schemas": { "A": { "type": "object", "properties": { "b": pet, "c": { "type": "string", "nullable": true } } } }, "securitySchemes": { "k": { "type": "http", "scheme": "bearer" } } },
        "paths": { "/a/{id}": { "parameters": [{ "name": "id", "in": "path", "schema": { "type": "string" } }],
            "post": { "operationId": "x", "tags": ["t"], "parameters": [{ "name": "q", "in": "query", "style": "form", "explode": false, "schema": { "type": "array" } }],
                "requestBody": { "required": true, "content": { "application/json": { "schema": pet, "example": { "c": "1" } } } },
                "responses": { "200": { "content": { "application/json": { "schema": pet } } } } } } },
    })
}

/// Collects the JSON pointers of all values.
fn collect_pointers(value: &Value, at: String, found: &mut Vec<String>) {
    match value {
        Value::Object(fields) => fields.iter().for_each(|(key, value)| {
            collect_pointers(value, format!("{at}/{}", key.replace('~', "~0").replace('/', "~1")), found)
        }),
        Value::Array(items) => {
            items.iter().enumerate().for_each(|(n, value)| collect_pointers(value, format!("{at}/{n}"), found))
        }
        _ => {}
    }
    found.push(at);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// Replaces random parts of a valid document with random JSON. The import and the compilation of the proposed tools
    /// may fail, but must not panic.
    #[test]
    fn import_of_a_document_with_random_values_does_not_panic(changes in prop::collection::vec((any::<prop::sample::Index>(), any_json()), 1..5)) {
        let mut document = valid_document();
        for (index, value) in changes {
            let mut found = Vec::new();
            collect_pointers(&document, String::new(), &mut found);
            let pointer = index.get(&found).clone();
            *document.pointer_mut(&pointer).unwrap() = value;
        }
        if let Ok(proposal) = propose(document) {
            for proposed in proposal.tools {
                let name = proposed.definition.ref_name.clone();
                let body = toolwright_types::Document::unsaved(name, proposed.definition);
                if let Ok(tool) = CompiledTool::compile(body, None, &builtin::library()) {
                    let _ = tool.input.check(&json!({ "id": "1", "b": { "b": {} }, "q": [1] }));
                    ExportFormat::ALL.iter().for_each(|format| drop(export(&tool, *format)));
                }
            }
        }
    }

    #[test]
    fn random_response_schema_is_converted_to_a_schema_that_compiles(schema in any_json(), other in any_json()) {
        let schemas = json!({ "A": other });
        let operation = json!({ "responses": { "200": { "content": { "application/json": { "schema": schema } } } } });
        let proposal = propose(document("3.1.0", json!({ "/a": { "get": operation } }), schemas)).unwrap();
        for proposed in proposal.tools {
            if let Some(schema) = proposed.definition.output_json_schema {
                let compiled = Schema::compile(schema.0.clone());
                prop_assert!(compiled.is_ok(), "{}: {:?}", schema.0, compiled.err());
            }
        }
    }

    #[test]
    fn parsing_random_text_does_not_panic(text in "[\\PC\\n]{0,200}") {
        let _ = OpenApiDocument::parse(&text);
    }
}
