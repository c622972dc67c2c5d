//! The conversion of schemas to JSON Schema 2020-12, and its limits.

use serde_json::{Value, json};
use toolwright_tools::export::{ExportFormat, export};

use crate::{compile, document, input, output, property_schema, propose, tool_with_body, tool_with_response};

#[test]
fn openapi_3_0_schema_is_converted_to_json_schema_2020_12() {
    for (source, expected) in [
        (json!({ "type": "string", "nullable": true }), json!({ "type": ["string", "null"] })),
        (
            json!({ "type": "string", "enum": ["a"], "nullable": true }),
            json!({ "type": ["string", "null"], "enum": ["a", null] }),
        ),
        (
            json!({ "allOf": [{ "type": "string" }], "nullable": true }),
            json!({ "anyOf": [{ "allOf": [{ "type": "string" }] }, { "type": "null" }] }),
        ),
        (
            json!({ "type": "number", "minimum": 1, "exclusiveMinimum": true }),
            json!({ "type": "number", "exclusiveMinimum": 1 }),
        ),
        (
            json!({ "type": "number", "maximum": 9, "exclusiveMaximum": false }),
            json!({ "type": "number", "maximum": 9 }),
        ),
        (
            json!({ "type": "string", "example": "x", "x-own": 1, "xml": {}, "title": "P" }),
            json!({ "type": "string", "examples": ["x"] }),
        ),
        (
            json!({ "oneOf": [{ "type": "string" }], "discriminator": { "propertyName": "k" } }),
            json!({ "oneOf": [{ "type": "string" }] }),
        ),
        (
            json!({ "type": "array", "items": [{ "type": "string" }] }),
            json!({ "type": "array", "prefixItems": [{ "type": "string" }] }),
        ),
        (json!({ "type": "file", "format": 7, "minLength": "x", "required": "all", "enum": [] }), json!({})),
        (json!({ "type": "string", "pattern": "^(?!x)" }), json!({ "type": "string" })),
        (json!({ "type": "string", "pattern": "(a)\\1" }), json!({ "type": "string" })),
        (json!({ "type": "string", "pattern": "{" }), json!({ "type": "string" })),
        (json!({ "type": "string", "pattern": "(\\w{1000}){1000}" }), json!({ "type": "string" })),
        (
            json!({ "type": "string", "pattern": "^[\\w-]{1,63}\\d$" }),
            json!({ "type": "string", "pattern": "^[\\w-]{1,63}\\d$" }),
        ),
        (json!({ "patternProperties": { "[": {}, "^x": {} } }), json!({ "patternProperties": { "^x": {} } })),
        (json!({ "type": "boolean", "default": true }), json!({ "type": "boolean", "description": "Default: true." })),
        (json!("nonsense"), json!({})),
        (json!(false), json!({ "not": {} })),
    ] {
        assert_eq!(property_schema(source.clone()), expected, "{source}");
    }
}

#[test]
fn inputs_have_no_read_only_properties_and_outputs_no_write_only_properties() {
    let schemas = json!({
        "Id": { "type": "string", "readOnly": true },
        "Base": { "type": "object", "required": ["id", "name"], "properties": { "id": { "$ref": "#/components/schemas/Id" }, "name": { "type": "string" } } },
        "User": { "allOf": [{ "$ref": "#/components/schemas/Base" }, { "required": ["id"], "properties": { "password": { "type": "string", "writeOnly": true } } }] },
    });
    let user = json!({ "$ref": "#/components/schemas/User" });
    let request = tool_with_body("3.0.3", user.clone(), schemas.clone());
    assert_eq!(
        input(&request)["properties"],
        json!({ "name": { "type": "string" }, "password": { "type": "string" } })
    );
    assert_eq!(input(&request)["required"], json!(["name"]));
    let nested =
        tool_with_body("3.0.3", json!({ "type": "object", "properties": { "user": user.clone() } }), schemas.clone());
    assert!(!input(&nested).to_string().contains("\"id\""), "{}", input(&nested));
    let response = tool_with_response(user, schemas);
    assert!(output(&response).to_string().contains("\"id\""));
    assert!(!output(&response).to_string().contains("password"));
}

#[test]
fn recursive_schema_is_written_once_under_defs() {
    let schemas = json!({ "Node": { "type": "object", "properties": { "value": { "type": "string" }, "next": { "$ref": "#/components/schemas/Node" } } } });
    let tool = tool_with_body(
        "3.1.0",
        json!({ "type": "object", "properties": { "first": { "$ref": "#/components/schemas/Node" } } }),
        schemas,
    );
    assert_eq!(input(&tool)["properties"]["first"], json!({ "$ref": "#/$defs/Node" }));
    assert_eq!(input(&tool)["$defs"]["Node"]["properties"]["next"], json!({ "$ref": "#/$defs/Node" }));
    let tool = compile(tool);
    assert!(tool.input.check(&json!({ "first": { "next": { "next": { "value": "x" } } } })).is_ok());
    assert!(tool.input.check(&json!({ "first": { "next": { "next": { "value": 1 } } } })).is_err());
}

#[test]
fn validation_with_cyclic_definitions_ends() {
    let reference = |name: &str| json!({ "$ref": format!("#/components/schemas/{name}") });
    let schemas = json!({
        "Self": reference("Self"),
        "Ping": reference("Pong"),
        "Pong": { "allOf": [reference("Ping"), { "type": "object" }] },
        "Any": { "anyOf": [reference("Any"), { "not": reference("Ping") }] },
        "Root": { "$ref": "#" },
    });
    for name in ["Self", "Ping", "Pong", "Any", "Root"] {
        let tool = compile(tool_with_body(
            "3.1.0",
            json!({ "type": "object", "properties": { "p": reference(name) } }),
            schemas.clone(),
        ));
        let _ = tool.input.check(&json!({ "p": { "a": [1, { "b": null }] } }));
        ExportFormat::ALL.iter().for_each(|format| drop(export(&tool, *format)));
    }
}

#[test]
fn input_schema_stays_under_100_kilobytes_if_references_expand_exponentially() {
    let mut schemas = serde_json::Map::new();
    for n in 0..60 {
        let next = json!({ "$ref": format!("#/components/schemas/S{}", n + 1) });
        schemas.insert(format!("S{n}"), json!({ "type": "object", "properties": { "a": next, "b": next, "c": next } }));
    }
    schemas.insert("S60".into(), json!({ "type": "string" }));
    let body = json!({ "type": "object", "properties": { "p": { "$ref": "#/components/schemas/S0" } } });
    let tool = tool_with_body("3.0.3", body, Value::Object(schemas));
    let size = input(&tool).to_string().len();
    assert!(size < 100_000, "{size}");
    compile(tool);
}

#[test]
fn oversized_schema_is_truncated_with_a_warning() {
    let wide: serde_json::Map<String, Value> = (0..20_000)
        .map(|n| (format!("property_{n}"), json!({ "type": "string", "description": "x".repeat(100) })))
        .collect();
    let mut deep = json!({ "type": "string" });
    for _ in 0..55 {
        deep = json!({ "type": "object", "properties": { "d": deep } });
    }
    for schema in [json!({ "type": "array", "items": { "type": "object", "properties": wide } }), deep] {
        let operation = json!({ "requestBody": { "required": true, "content": { "application/json": { "schema": { "type": "object", "properties": { "p": schema } } } } } });
        let proposal = propose(document("3.0.3", json!({ "/a": { "post": operation } }), json!({}))).unwrap();
        assert!(proposal.warnings[0].contains("too large"), "{:?}", proposal.warnings);
        assert!(input(&proposal.tools[0].definition).to_string().len() < 1_200_000);
    }
}
