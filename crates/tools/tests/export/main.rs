//! Tests of tool exports, mostly with snapshots. The submodules test the lowering of schemas, the rules of the
//! universal format, names, agentic tools and generated code.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests stop at the first surprise")]

mod agentic;
mod code;
mod lowering;
mod names;
mod universal_rules;

use std::sync::Arc;

use serde_json::{Value, json};
use toolwright_tools::export::{ExportFormat, export, unwrap_arguments};
use toolwright_tools::http::CompiledProvider;
use toolwright_tools::{CompiledTool, builtin};
use toolwright_types::{DefinitionSource, Document, DocumentMeta, Timestamp, ToolDefinition, ToolProviderConfig};

fn compile(body: Value) -> CompiledTool {
    try_compile(body).unwrap()
}

fn try_compile(body: Value) -> Result<CompiledTool, String> {
    let definition: ToolDefinition = serde_json::from_value(body).map_err(|error| error.to_string())?;
    CompiledTool::compile(document(definition), None, &builtin::library()).map_err(|error| error.to_string())
}

fn compile_with_provider(body: Value, provider: Value) -> CompiledTool {
    let config: ToolProviderConfig = serde_json::from_value(provider).unwrap();
    let provider = CompiledProvider::compile(Document::unsaved(config.ref_name.clone(), config)).unwrap();
    let definition = serde_json::from_value(body).unwrap();
    CompiledTool::compile(document(definition), Some(Arc::new(provider)), &builtin::library()).unwrap()
}

/// Returns `base` with the fields of `more` added or replaced.
fn with(mut base: Value, more: Value) -> Value {
    base.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    base
}

fn document(definition: ToolDefinition) -> Document<ToolDefinition> {
    let meta = DocumentMeta {
        id: "tool_test".into(),
        ref_name: definition.ref_name.clone(),
        source: DefinitionSource::Manual,
        apply_set: None,
        revision: 1,
        content_hash: String::new(),
        created_by: String::new(),
        created_at: Timestamp::from_micros(0),
        updated_by: String::new(),
        updated_at: Timestamp::from_micros(0),
    };
    Document { meta, body: definition }
}

fn fixtures() -> Vec<Value> {
    serde_json::from_str(include_str!("definitions.json")).unwrap()
}

fn tool_with(schema: &Value) -> CompiledTool {
    compile(definition_with(schema))
}

fn definition_with(schema: &Value) -> Value {
    json!({ "refName": "t", "description": "d", "toolType": "QUANTUM_QUERY", "inputJsonSchema": schema })
}

/// Exports one property named `p` in `format`.
fn property(schema: &Value, format: ExportFormat) -> Value {
    let tool = tool_with(&json!({ "type": "object", "properties": { "p": schema }, "required": ["p"] }));
    export(&tool, format)["parameters"]["properties"]["p"].clone()
}

#[test]
fn definition_with_many_keywords_matches_the_snapshot_of_each_format() {
    let tool = compile(fixtures().remove(0));
    for format in ExportFormat::ALL {
        insta::assert_json_snapshot!(format!("rich_{format}"), export(&tool, format));
    }
}

#[test]
fn format_names_round_trip_and_unknown_format_is_rejected() {
    for format in ExportFormat::ALL {
        assert_eq!(format.to_string().parse::<ExportFormat>(), Ok(format));
    }
    let error = "OpenAI".parse::<ExportFormat>().unwrap_err().to_string();
    assert_eq!(error, "unknown export format `OpenAI`; use universal, langchain, mcp, openai, anthropic or gemini");
}

#[test]
fn empty_schema_becomes_an_object_without_properties() {
    for schema in [json!({}), json!(true), json!(false), json!({ "type": "object" })] {
        let tool = tool_with(&schema);
        let empty = json!({ "type": "object", "properties": {} });
        assert_eq!(
            export(&tool, ExportFormat::Universal)["parameters"],
            json!({ "type": "object", "properties": {}, "required": [] })
        );
        assert_eq!(
            export(&tool, ExportFormat::LangChain)["schema"],
            json!({ "type": "object", "properties": {}, "required": [] })
        );
        assert_eq!(export(&tool, ExportFormat::Mcp)["inputSchema"], empty);
        assert_eq!(export(&tool, ExportFormat::OpenAi)["function"]["parameters"], empty);
        assert_eq!(export(&tool, ExportFormat::Anthropic)["input_schema"], empty);
        assert_eq!(export(&tool, ExportFormat::Gemini)["parameters"], json!({ "type": "OBJECT", "properties": {} }));
    }
}

#[test]
fn input_that_is_not_an_object_is_wrapped_and_unwrapped() {
    let list = tool_with(&json!({ "type": "array", "items": { "type": "number" } }));
    assert_eq!(
        export(&list, ExportFormat::Anthropic)["input_schema"],
        json!({ "type": "object", "properties": { "value": { "type": "array", "items": { "type": "number" } } }, "required": ["value"] })
    );
    assert_eq!(export(&list, ExportFormat::Universal)["parameters"]["required"], json!(["value"]));
    assert_eq!(unwrap_arguments(&list, json!({ "value": [1, 2] })), json!([1, 2]));

    let object = tool_with(&json!({ "anyOf": [{ "type": "string" }, { "type": "object" }] }));
    assert_eq!(unwrap_arguments(&object, json!({ "value": [1, 2] })), json!({ "value": [1, 2] }));
}

#[test]
fn side_effects_become_mcp_hints() {
    let hints = |body: Value| {
        let mut definition = json!({ "refName": "t", "invocation": { "path": "echo" } });
        definition.as_object_mut().unwrap().extend(body.as_object().unwrap().clone());
        let hints = export(&compile(definition), ExportFormat::Mcp)["annotations"].clone();
        ["readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint"]
            .map(|hint| hints[hint].as_bool().unwrap())
    };
    for (body, expected) in [
        (json!({ "toolType": "FUNCTION", "sideEffects": "none" }), [true, false, false, false]),
        (json!({ "toolType": "FUNCTION", "sideEffects": "reads" }), [true, false, false, true]),
        (json!({ "toolType": "FUNCTION", "sideEffects": "writes", "idempotent": true }), [false, true, true, true]),
        (json!({ "toolType": "QUANTUM_QUERY" }), [true, false, false, false]),
        (json!({ "toolType": "QUANTUM_API", "hasSideEffects": true }), [false, true, false, false]),
    ] {
        assert_eq!(hints(body.clone()), expected, "{body}");
    }
}

#[test]
fn only_object_schemas_become_mcp_output_schemas() {
    let output = |schema: Value| {
        let body = json!({ "refName": "t", "toolType": "QUANTUM_QUERY", "outputJsonSchema": schema });
        export(&compile(body), ExportFormat::Mcp).get("outputSchema").cloned()
    };
    assert_eq!(
        output(json!({ "type": "object", "required": ["a"] })),
        Some(json!({ "type": "object", "required": ["a"] }))
    );
    assert_eq!(output(json!({})), None);
    assert_eq!(output(json!({ "type": "array" })), None);
    assert_eq!(output(json!({ "type": ["object", "null"] })), None);
    let referenced = json!({ "$ref": "#/$defs/a", "$defs": { "a": { "type": "object" } } });
    assert_eq!(output(referenced).unwrap()["type"], "object");
}

#[test]
fn long_description_is_truncated_in_the_universal_format_only() {
    let text = "ä".repeat(2001);
    let tool = compile(json!({ "refName": "t", "toolType": "QUANTUM_QUERY", "description": text }));
    let universal = export(&tool, ExportFormat::Universal)["description"].as_str().unwrap().to_owned();
    assert_eq!(universal.chars().count(), 2000);
    assert!(universal.ends_with("ä..."));
    assert_eq!(export(&tool, ExportFormat::Gemini)["description"], text);
}
