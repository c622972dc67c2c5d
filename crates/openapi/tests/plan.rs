//! What documents come to: schemas, names, requests, providers. Hostile ones end, and never with a panic.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

use proptest::prelude::*;
use serde_json::{Value, json};
use toolwright_openapi::{Document, Filter, Options, Plan, Refused, plan};
use toolwright_tools::export::{Format, export};
use toolwright_tools::{CompiledTool, Schema, builtin};
use toolwright_types::{AuthType, ToolDefinition};

fn options() -> Options {
    Options {
        provider: "shop".parse().unwrap(),
        prefix: None,
        base_url: Some("https://shop.example.com".into()),
        came_from: None,
        only: Filter::default(),
    }
}

fn planned(document: Value) -> Result<Plan, Refused> {
    plan(&Document::from_value(document)?, &options())
}

/// A document with these paths and schemas.
fn document(version: &str, paths: Value, schemas: Value) -> Value {
    json!({ "openapi": version, "info": { "title": "Shop" }, "paths": paths, "components": { "schemas": schemas } })
}

/// The tool of `POST /a` with this body.
fn with_body(version: &str, body: Value, schemas: Value) -> ToolDefinition {
    let operation = json!({ "operationId": "a", "requestBody": { "required": true, "content": { "application/json": { "schema": body } } } });
    let mut plan = planned(document(version, json!({ "/a": { "post": operation } }), schemas)).unwrap();
    assert!(plan.skipped.is_empty(), "{:?}", plan.skipped);
    plan.tools.remove(0).definition
}

/// The tool of `GET /a` with this answer.
fn with_answer(schema: Value, schemas: Value) -> ToolDefinition {
    let operation = json!({ "operationId": "a", "responses": { "200": { "content": { "application/json": { "schema": schema } } } } });
    planned(document("3.0.3", json!({ "/a": { "get": operation } }), schemas)).unwrap().tools.remove(0).definition
}

fn input(tool: &ToolDefinition) -> &Value {
    &tool.input_json_schema.as_ref().unwrap().0
}

fn output(tool: &ToolDefinition) -> &Value {
    &tool.output_json_schema.as_ref().unwrap().0
}

/// How a property looks that 3.0 describes so.
fn lowered(property: Value) -> Value {
    let tool = with_body("3.0.3", json!({ "type": "object", "properties": { "p": property } }), json!({}));
    input(&tool)["properties"]["p"].clone()
}

fn compiled(tool: ToolDefinition) -> CompiledTool {
    let document = toolwright_types::Document::unsaved(tool.ref_name.clone(), tool);
    CompiledTool::compile(document, None, &builtin::library()).unwrap_or_else(|issues| panic!("{issues}"))
}

// --- schemas ----------------------------------------------------------------------------------

#[test]
fn the_dialect_of_3_0_becomes_json_schema() {
    for (given, expected) in [
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
        assert_eq!(lowered(given.clone()), expected, "{given}");
    }
}

#[test]
fn what_only_one_side_sets_is_not_shown_to_the_other() {
    let schemas = json!({
        "Id": { "type": "string", "readOnly": true },
        "Base": { "type": "object", "required": ["id", "name"], "properties": { "id": { "$ref": "#/components/schemas/Id" }, "name": { "type": "string" } } },
        "User": { "allOf": [{ "$ref": "#/components/schemas/Base" }, { "required": ["id"], "properties": { "password": { "type": "string", "writeOnly": true } } }] },
    });
    let user = json!({ "$ref": "#/components/schemas/User" });
    let sent = with_body("3.0.3", user.clone(), schemas.clone());
    assert_eq!(input(&sent)["properties"], json!({ "name": { "type": "string" }, "password": { "type": "string" } }));
    assert_eq!(input(&sent)["required"], json!(["name"]));
    let nested =
        with_body("3.0.3", json!({ "type": "object", "properties": { "user": user.clone() } }), schemas.clone());
    assert!(!input(&nested).to_string().contains("\"id\""), "{}", input(&nested));
    let answered = with_answer(user, schemas);
    assert!(output(&answered).to_string().contains("\"id\""));
    assert!(!output(&answered).to_string().contains("password"));
}

#[test]
fn a_schema_that_holds_itself_is_defined_once() {
    let schemas = json!({ "Node": { "type": "object", "properties": { "value": { "type": "string" }, "next": { "$ref": "#/components/schemas/Node" } } } });
    let tool = with_body(
        "3.1.0",
        json!({ "type": "object", "properties": { "first": { "$ref": "#/components/schemas/Node" } } }),
        schemas,
    );
    assert_eq!(input(&tool)["properties"]["first"], json!({ "$ref": "#/$defs/Node" }));
    assert_eq!(input(&tool)["$defs"]["Node"]["properties"]["next"], json!({ "$ref": "#/$defs/Node" }));
    let tool = compiled(tool);
    assert!(tool.admit(json!({ "first": { "next": { "next": { "value": "x" } } } })).is_ok());
    assert!(tool.admit(json!({ "first": { "next": { "next": { "value": 1 } } } })).is_err());
}

#[test]
fn schemas_that_mean_nothing_but_themselves_end() {
    let reference = |name: &str| json!({ "$ref": format!("#/components/schemas/{name}") });
    let schemas = json!({
        "Self": reference("Self"),
        "Ping": reference("Pong"),
        "Pong": { "allOf": [reference("Ping"), { "type": "object" }] },
        "Any": { "anyOf": [reference("Any"), { "not": reference("Ping") }] },
        "Root": { "$ref": "#" },
    });
    for name in ["Self", "Ping", "Pong", "Any", "Root"] {
        let tool = compiled(with_body(
            "3.1.0",
            json!({ "type": "object", "properties": { "p": reference(name) } }),
            schemas.clone(),
        ));
        let _ = tool.admit(json!({ "p": { "a": [1, { "b": null }] } }));
        Format::ALL.iter().for_each(|format| drop(export(&tool, *format)));
    }
}

#[test]
fn references_that_double_with_every_step_stay_small() {
    let mut schemas = serde_json::Map::new();
    for n in 0..60 {
        let next = json!({ "$ref": format!("#/components/schemas/S{}", n + 1) });
        schemas.insert(format!("S{n}"), json!({ "type": "object", "properties": { "a": next, "b": next, "c": next } }));
    }
    schemas.insert("S60".into(), json!({ "type": "string" }));
    let body = json!({ "type": "object", "properties": { "p": { "$ref": "#/components/schemas/S0" } } });
    let tool = with_body("3.0.3", body, Value::Object(schemas));
    let size = input(&tool).to_string().len();
    assert!(size < 100_000, "{size}");
    compiled(tool);
}

#[test]
fn what_is_too_large_or_too_deep_is_left_open_and_said() {
    let wide: serde_json::Map<String, Value> = (0..20_000)
        .map(|n| (format!("property_{n}"), json!({ "type": "string", "description": "x".repeat(100) })))
        .collect();
    let mut deep = json!({ "type": "string" });
    for _ in 0..55 {
        deep = json!({ "type": "object", "properties": { "d": deep } });
    }
    for schema in [json!({ "type": "array", "items": { "type": "object", "properties": wide } }), deep] {
        let operation = json!({ "requestBody": { "required": true, "content": { "application/json": { "schema": { "type": "object", "properties": { "p": schema } } } } } });
        let plan = planned(document("3.0.3", json!({ "/a": { "post": operation } }), json!({}))).unwrap();
        assert!(plan.warnings[0].contains("too large"), "{:?}", plan.warnings);
        assert!(input(&plan.tools[0].definition).to_string().len() < 1_200_000);
    }
}

// --- requests ---------------------------------------------------------------------------------

#[test]
fn a_body_lies_beside_the_parameters_unless_it_cannot() {
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
        let plan = planned(document("3.0.3", json!({ "/a": { "post": operation } }), json!({}))).unwrap();
        let tool = &plan.tools[0].definition;
        let found: Vec<&String> = input(tool)["properties"].as_object().unwrap().keys().collect();
        assert_eq!(found, properties, "{body}");
        let written = serde_json::to_value(&tool.invocation.body_template).unwrap();
        assert_eq!(written, json!(template), "{body}");
    }
}

#[test]
fn parameters_that_share_a_name_are_told_apart() {
    let parameters = json!([
        { "name": "id", "in": "query", "schema": { "type": "string" } },
        { "name": "id", "in": "path", "required": true, "schema": { "type": "string" } },
        { "name": "id", "in": "header" },
        { "name": "$filter", "in": "query" },
        { "name": "session", "in": "cookie" },
        { "name": "Authorization", "in": "header", "required": true },
    ]);
    let plan =
        planned(document("3.0.3", json!({ "/a/{id}/$value/{b}": { "get": { "parameters": parameters } } }), json!({})))
            .unwrap();
    let tool = &plan.tools[0].definition;
    assert_eq!(tool.invocation.path.as_deref(), Some("/a/${param.path_id}/$value/${param.b}"));
    assert_eq!(tool.invocation.query["id"], "${param.id}");
    assert_eq!(tool.invocation.query["$filter"], "${param.filter}");
    assert_eq!(tool.invocation.headers["id"], "${param.header_id}");
    assert_eq!(input(tool)["required"], json!(["path_id", "b"]));
    assert_eq!(plan.warnings.len(), 5, "{:?}", plan.warnings);
}

#[test]
fn operations_that_cannot_be_sent_are_skipped_with_their_reason() {
    for (operation, reason) in [
        (
            json!({ "requestBody": { "required": true, "content": { "multipart/form-data": {} } } }),
            "multipart/form-data",
        ),
        (
            json!({ "requestBody": { "required": true, "content": { "application/x-www-form-urlencoded": {} } } }),
            "form without fields",
        ),
        (json!({ "parameters": [{ "name": "c", "in": "cookie", "required": true }] }), "cookie parameter `c`"),
        (
            json!({ "parameters": [{ "name": "m", "in": "query", "required": true, "style": "matrix", "schema": { "type": "array" } }] }),
            "`matrix`",
        ),
        (json!({ "parameters": [{ "$ref": "https://example.com/p.yaml" }] }), "leads out of the document"),
        (json!({ "requestBody": { "$ref": "#/components/requestBodies/None" } }), "points at nothing"),
        (json!({ "servers": [{ "url": "https://other.example.com" }] }), "https://other.example.com"),
    ] {
        let plan = planned(document("3.0.3", json!({ "/a": { "post": operation } }), json!({}))).unwrap();
        assert!(plan.tools.is_empty() && plan.skipped[0].reason.contains(reason), "{:?}", plan.skipped);
    }
}

#[test]
fn a_body_that_can_hold_nothing_is_none() {
    let form = |schema: Value| json!({ "requestBody": { "content": { "application/x-www-form-urlencoded": { "schema": schema } } } });
    let empty = form(json!({ "type": "object", "properties": {} }));
    let plan = planned(document("3.0.3", json!({ "/a": { "get": empty } }), json!({}))).unwrap();
    assert!(
        plan.skipped.is_empty() && plan.tools[0].definition.invocation.body_template.is_none(),
        "{:?}",
        plan.skipped
    );
    let open = form(json!({ "type": "object", "required": ["x"], "additionalProperties": { "type": "string" } }));
    assert_eq!(planned(document("3.0.3", json!({ "/a": { "get": open } }), json!({}))).unwrap().skipped.len(), 1);
}

// --- the provider -----------------------------------------------------------------------------

#[test]
fn schemes_become_authentication_or_a_thing_to_do() {
    for (scheme, kind, header, todo) in [
        (json!({ "type": "http", "scheme": "bearer" }), AuthType::Bearer, None, "secrets set shop"),
        (json!({ "type": "http", "scheme": "Basic" }), AuthType::ApiKey, Some("Authorization"), "base64"),
        (
            json!({ "type": "apiKey", "in": "header", "name": "X-Key" }),
            AuthType::ApiKey,
            Some("X-Key"),
            "store the key",
        ),
        (
            json!({ "type": "apiKey", "in": "header", "name": "authorization", "description": "Bearer token" }),
            AuthType::Bearer,
            None,
            "without `Bearer`",
        ),
        (json!({ "type": "apiKey", "in": "query", "name": "key" }), AuthType::None, None, "cannot be sent as a header"),
        (
            json!({ "type": "oauth2", "flows": { "clientCredentials": { "tokenUrl": "https://t.example.com" } } }),
            AuthType::OAuth2,
            None,
            "clientId",
        ),
        (json!({ "type": "oauth2", "flows": { "implicit": {} } }), AuthType::Bearer, None, "log in"),
        (json!({ "type": "openIdConnect" }), AuthType::Bearer, None, "not renewed"),
        (json!({ "type": "mutualTLS" }), AuthType::Mtls, None, "PEM"),
        (json!({ "type": 7 }), AuthType::None, None, "cannot be sent"),
    ] {
        let document = json!({ "openapi": "3.0.0", "paths": {}, "security": [{ "main": [] }], "components": { "securitySchemes": { "main": scheme } } });
        let plan = planned(document).unwrap();
        assert_eq!(plan.provider.auth.auth_type, kind, "{scheme}");
        assert_eq!(plan.provider.auth.header_name.as_deref(), header, "{scheme}");
        assert!(plan.todo.as_ref().unwrap().contains(todo), "{scheme}: {:?}", plan.todo);
    }
    let schemes = json!({ "a": { "type": "http", "scheme": "basic" }, "b": { "type": "http", "scheme": "bearer" } });
    let either = json!({ "openapi": "3.0.0", "paths": {}, "security": [{ "a": [] }, { "b": [] }], "components": { "securitySchemes": schemes } });
    assert_eq!(planned(either).unwrap().provider.auth.auth_type, AuthType::Bearer);
    let open = planned(json!({ "openapi": "3.0.0", "paths": {} })).unwrap();
    assert!(open.todo.unwrap().contains("asks for no authentication"));
}

// --- hostile documents ------------------------------------------------------------------------

#[test]
fn more_operations_than_anyone_has_are_refused() {
    let paths: serde_json::Map<String, Value> =
        (0..100_000).map(|n| (format!("/p{n}"), json!({ "get": {} }))).collect();
    let refused = planned(document("3.0.3", Value::Object(paths), json!({}))).unwrap_err();
    assert_eq!(refused.place, "/paths");
    assert!(refused.message.contains("20000"), "{refused}");
    let paths: serde_json::Map<String, Value> = (0..6_000).map(|n| (format!("/p{n}"), json!({ "get": {} }))).collect();
    let refused = planned(document("3.0.3", Value::Object(paths), json!({}))).unwrap_err();
    assert!(refused.message.contains("by tag or path"), "{refused}");
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

/// A document that is right.
fn whole() -> Value {
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

fn places(value: &Value, at: String, found: &mut Vec<String>) {
    match value {
        Value::Object(fields) => fields.iter().for_each(|(key, value)| {
            places(value, format!("{at}/{}", key.replace('~', "~0").replace('/', "~1")), found)
        }),
        Value::Array(items) => {
            items.iter().enumerate().for_each(|(n, value)| places(value, format!("{at}/{n}"), found))
        }
        _ => {}
    }
    found.push(at);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// Whatever stands anywhere in a document: it is refused, or planned without a panic, and every schema that comes of it
    /// can be compiled or says why not.
    #[test]
    fn wrong_things_in_any_place_do_no_harm(changes in prop::collection::vec((any::<prop::sample::Index>(), any_json()), 1..5)) {
        let mut document = whole();
        for (index, value) in changes {
            let mut found = Vec::new();
            places(&document, String::new(), &mut found);
            let place = index.get(&found).clone();
            *document.pointer_mut(&place).unwrap() = value;
        }
        if let Ok(plan) = planned(document) {
            for planned in plan.tools {
                let name = planned.definition.ref_name.clone();
                let body = toolwright_types::Document::unsaved(name, planned.definition);
                if let Ok(tool) = CompiledTool::compile(body, None, &builtin::library()) {
                    let _ = tool.admit(json!({ "id": "1", "b": { "b": {} }, "q": [1] }));
                    Format::ALL.iter().for_each(|format| drop(export(&tool, *format)));
                }
            }
        }
    }

    /// Schemas of any shape become schemas.
    #[test]
    fn any_schema_becomes_one_that_compiles(schema in any_json(), other in any_json()) {
        let schemas = json!({ "A": other });
        let operation = json!({ "responses": { "200": { "content": { "application/json": { "schema": schema } } } } });
        let plan = planned(document("3.1.0", json!({ "/a": { "get": operation } }), schemas)).unwrap();
        for planned in plan.tools {
            if let Some(schema) = planned.definition.output_json_schema {
                let compiled = Schema::compile(schema.0.clone());
                prop_assert!(compiled.is_ok(), "{}: {:?}", schema.0, compiled.err());
            }
        }
    }

    /// Any text is read or refused.
    #[test]
    fn any_text_is_read_or_refused(text in "[\\PC\\n]{0,200}") {
        let _ = Document::parse(&text);
    }
}
