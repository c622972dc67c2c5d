//! The mapping of parameters and request bodies to requests.

use serde_json::{Value, json};

use crate::{document, input, propose};

#[test]
fn body_properties_become_inputs_unless_a_parameter_has_the_same_name() {
    let object = |properties: Value| json!({ "type": "object", "properties": properties });
    for (parameters, body, required, template, properties) in [
        (json!([]), object(json!({ "x": {} })), true, None, vec!["x"]),
        (json!(["id"]), object(json!({ "x": {} })), true, Some("${param.omit(['id'])}"), vec!["id", "x"]),
        (json!(["id"]), object(json!({ "id": {} })), true, Some("${param.body}"), vec!["id", "body"]),
        (
            json!(["body"]),
            json!({ "type": "array" }),
            true,
            Some("${param.request_body}"),
            vec!["body", "request_body"],
        ),
        (
            json!(["id"]),
            json!({ "oneOf": [object(json!({})), { "type": "string" }] }),
            true,
            Some("${param.body}"),
            vec!["id", "body"],
        ),
        (json!(["id"]), object(json!({ "a b": {} })), true, Some("${param.body}"), vec!["id", "body"]),
        (
            json!(["id"]),
            json!({ "type": "object", "required": ["x"], "properties": { "x": {} } }),
            false,
            Some("${param.body}"),
            vec!["id", "body"],
        ),
        (
            json!(["id"]),
            json!({ "allOf": [object(json!({ "x": {} })), object(json!({ "y": {} }))] }),
            true,
            Some("${param.omit(['id'])}"),
            vec!["id", "x", "y"],
        ),
    ] {
        let parameters: Vec<Value> =
            parameters.as_array().unwrap().iter().map(|name| json!({ "name": name, "in": "query" })).collect();
        let content = json!({ "application/json": { "schema": body } });
        let operation =
            json!({ "parameters": parameters, "requestBody": { "required": required, "content": content } });
        let proposal = propose(document("3.0.3", json!({ "/a": { "post": operation } }), json!({}))).unwrap();
        let tool = &proposal.tools[0].definition;
        let found: Vec<&String> = input(tool)["properties"].as_object().unwrap().keys().collect();
        assert_eq!(found, properties, "{body}");
        let written = serde_json::to_value(&tool.invocation.body_template).unwrap();
        assert_eq!(written, json!(template), "{body}");
    }
}

#[test]
fn path_and_query_parameters_with_one_name_get_distinct_input_names() {
    let parameters = json!([
        { "name": "id", "in": "query", "schema": { "type": "string" } },
        { "name": "id", "in": "path", "required": true, "schema": { "type": "string" } },
        { "name": "id", "in": "header" },
        { "name": "$filter", "in": "query" },
        { "name": "session", "in": "cookie" },
        { "name": "Authorization", "in": "header", "required": true },
    ]);
    let proposal =
        propose(document("3.0.3", json!({ "/a/{id}/$value/{b}": { "get": { "parameters": parameters } } }), json!({})))
            .unwrap();
    let tool = &proposal.tools[0].definition;
    assert_eq!(tool.invocation.path.as_deref(), Some("/a/${param.path_id}/$value/${param.b}"));
    assert_eq!(tool.invocation.query["id"], "${param.id}");
    assert_eq!(tool.invocation.query["$filter"], "${param.filter}");
    assert_eq!(tool.invocation.headers["id"], "${param.header_id}");
    assert_eq!(input(tool)["required"], json!(["path_id", "b"]));
    assert_eq!(proposal.warnings.len(), 5, "{:?}", proposal.warnings);
}

#[test]
fn unsupported_operations_are_skipped_with_a_reason() {
    for (operation, reason) in [
        (
            json!({ "requestBody": { "required": true, "content": { "multipart/form-data": {} } } }),
            "multipart/form-data",
        ),
        (
            json!({ "requestBody": { "required": true, "content": { "application/x-www-form-urlencoded": {} } } }),
            "form without declared fields",
        ),
        (json!({ "parameters": [{ "name": "c", "in": "cookie", "required": true }] }), "cookie parameter `c`"),
        (
            json!({ "parameters": [{ "name": "m", "in": "query", "required": true, "style": "matrix", "schema": { "type": "array" } }] }),
            "`matrix`",
        ),
        (json!({ "parameters": [{ "$ref": "https://example.com/p.yaml" }] }), "points outside of the document"),
        (json!({ "requestBody": { "$ref": "#/components/requestBodies/None" } }), "has no target"),
        (json!({ "servers": [{ "url": "https://other.example.com" }] }), "https://other.example.com"),
    ] {
        let proposal = propose(document("3.0.3", json!({ "/a": { "post": operation } }), json!({}))).unwrap();
        assert!(proposal.tools.is_empty() && proposal.skipped[0].reason.contains(reason), "{:?}", proposal.skipped);
    }
}

#[test]
fn empty_optional_body_is_not_sent() {
    let form = |schema: Value| json!({ "requestBody": { "content": { "application/x-www-form-urlencoded": { "schema": schema } } } });
    let empty = form(json!({ "type": "object", "properties": {} }));
    let proposal = propose(document("3.0.3", json!({ "/a": { "get": empty } }), json!({}))).unwrap();
    assert!(
        proposal.skipped.is_empty() && proposal.tools[0].definition.invocation.body_template.is_none(),
        "{:?}",
        proposal.skipped
    );
    let open = form(json!({ "type": "object", "required": ["x"], "additionalProperties": { "type": "string" } }));
    assert_eq!(propose(document("3.0.3", json!({ "/a": { "get": open } }), json!({}))).unwrap().skipped.len(), 1);
}
