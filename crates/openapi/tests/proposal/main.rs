//! Tests of the proposals for documents. The proposed tools are compiled as the executor compiles them.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test stops at the first unexpected value"
)]

mod provider;
mod requests;
mod robustness;
mod schemas;

use serde_json::{Value, json};
use toolwright_openapi::{
    DocumentError, OpenApiDocument, OpenApiImportOptions, OpenApiProposal, OperationFilter, propose_tools,
};
use toolwright_tools::{CompiledTool, builtin};
use toolwright_types::ToolDefinition;

fn options() -> OpenApiImportOptions {
    OpenApiImportOptions {
        provider: "shop".parse().unwrap(),
        prefix: None,
        base_url: Some("https://shop.example.com".into()),
        source_url: None,
        document_name: "openapi.json".to_owned(),
        filter: OperationFilter::default(),
    }
}

fn propose(document: Value) -> Result<OpenApiProposal, DocumentError> {
    propose_tools(&OpenApiDocument::from_value(document)?, &options())
}

/// Returns a document with these paths and schemas.
fn document(version: &str, paths: Value, schemas: Value) -> Value {
    json!({ "openapi": version, "info": { "title": "Shop" }, "paths": paths, "components": { "schemas": schemas } })
}

/// Returns the tool for `POST /a` with this request body.
fn tool_with_body(version: &str, body: Value, schemas: Value) -> ToolDefinition {
    let operation = json!({ "operationId": "a", "requestBody": { "required": true, "content": { "application/json": { "schema": body } } } });
    let mut proposal = propose(document(version, json!({ "/a": { "post": operation } }), schemas)).unwrap();
    assert!(proposal.skipped.is_empty(), "{:?}", proposal.skipped);
    proposal.tools.remove(0).definition
}

/// Returns the tool for `GET /a` with this response.
fn tool_with_response(schema: Value, schemas: Value) -> ToolDefinition {
    let operation = json!({ "operationId": "a", "responses": { "200": { "content": { "application/json": { "schema": schema } } } } });
    propose(document("3.0.3", json!({ "/a": { "get": operation } }), schemas)).unwrap().tools.remove(0).definition
}

fn input(tool: &ToolDefinition) -> &Value {
    &tool.input_json_schema.as_ref().unwrap().0
}

fn output(tool: &ToolDefinition) -> &Value {
    &tool.output_json_schema.as_ref().unwrap().0
}

/// Converts the schema of a property of an OpenAPI 3.0 document.
fn property_schema(property: Value) -> Value {
    let tool = tool_with_body("3.0.3", json!({ "type": "object", "properties": { "p": property } }), json!({}));
    input(&tool)["properties"]["p"].clone()
}

fn compile(tool: ToolDefinition) -> CompiledTool {
    let document = toolwright_types::Document::unsaved(tool.ref_name.clone(), tool);
    CompiledTool::compile(document, None, &builtin::library()).unwrap_or_else(|issues| panic!("{issues}"))
}
