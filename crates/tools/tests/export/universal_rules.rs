//! Checks the rules of the universal format for real tools and for generated schemas with contradictions and cycles.

use proptest::prelude::*;
use serde_json::{Value, json};
use toolwright_testkit::definitions::{BaseUrls, DefinitionKind, demo};
use toolwright_tools::export::{ExportFormat, export};
use toolwright_tools::{Schema, builtin};

use crate::{compile, definition_with, fixtures, try_compile};

/// Checks an exported tool against the rules of the universal format.
pub(crate) fn universal_rules(exported: &Value) -> Result<(), String> {
    let name = exported["name"].as_str().unwrap();
    let snake = name.starts_with(|c: char| c.is_ascii_lowercase())
        && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
    ensure(snake && name.len() <= 64, || format!("name `{name}`"))?;
    ensure(exported["description"].as_str().unwrap().chars().count() <= 2000, || "description".into())?;
    ensure(exported["parameters"]["type"] == "object", || "root".into())?;
    ensure(exported["parameters"]["properties"].is_object() && exported["parameters"]["required"].is_array(), || {
        "root".into()
    })?;
    universal_schema("", &exported["parameters"])
}

fn universal_schema(path: &str, schema: &Value) -> Result<(), String> {
    const TYPES: [&str; 6] = ["string", "number", "integer", "boolean", "array", "object"];
    const KEYWORDS: [&str; 7] = ["type", "description", "enum", "default", "items", "properties", "required"];
    let fields = schema.as_object().ok_or_else(|| format!("{path}: no object"))?;
    for keyword in fields.keys() {
        ensure(KEYWORDS.contains(&keyword.as_str()), || format!("{path}: keyword {keyword}"))?;
    }
    let kind = fields.get("type").and_then(Value::as_str).unwrap_or_default();
    ensure(TYPES.contains(&kind), || format!("{path}: type {kind}"))?;
    for (name, property) in fields.get("properties").and_then(Value::as_object).into_iter().flatten() {
        let description = property["description"].as_str().unwrap_or_default();
        ensure(!description.trim().is_empty(), || format!("{path}/{name}: no description"))?;
        universal_schema(&format!("{path}/{name}"), property)?;
    }
    for name in fields.get("required").and_then(Value::as_array).into_iter().flatten() {
        ensure(fields["properties"].get(name.as_str().unwrap()).is_some(), || format!("{path}: requires {name}"))?;
    }
    if kind == "array" {
        universal_schema(&format!("{path}[]"), &fields["items"])?;
    }
    Ok(())
}

fn ensure(holds: bool, what: impl FnOnce() -> String) -> Result<(), String> {
    if holds { Ok(()) } else { Err(what()) }
}

#[test]
fn exported_schemas_follow_the_universal_rules_and_accept_the_examples() {
    let library = builtin::library();
    for tool in builtin::tools(&library).values() {
        universal_rules(&export(tool, ExportFormat::Universal)).unwrap();
    }
    let urls = BaseUrls { crm: "http://a", orders: "http://b", web: "http://c" };
    let demo = demo(urls).into_iter();
    let demo = demo
        .filter(|entry| matches!(entry.kind, DefinitionKind::Tool | DefinitionKind::AgenticTool))
        .map(|entry| entry.body);
    for body in demo.chain(fixtures()) {
        let tool = compile(body);
        universal_rules(&export(&tool, ExportFormat::Universal)).unwrap();
        for (format, at) in [
            (ExportFormat::LangChain, "/schema"),
            (ExportFormat::Mcp, "/inputSchema"),
            (ExportFormat::OpenAi, "/function/parameters"),
        ] {
            let schema = Schema::compile(export(&tool, format).pointer(at).unwrap().clone()).unwrap();
            for example in &tool.definition.examples {
                let input = json!(example.input);
                assert_eq!(schema.check(&input), Ok(()), "{format} of {}", tool.definition.ref_name);
            }
        }
    }
}

/// Generates schemas that are hard to export, with every combinator, cyclic references and contradicting types.
fn hostile() -> impl Strategy<Value = Value> {
    let kind = prop::sample::select(vec!["string", "number", "integer", "boolean", "array", "object", "null"]);
    let leaf = prop_oneof![
        Just(json!({})),
        any::<bool>().prop_map(Value::Bool),
        kind.clone().prop_map(|kind| json!({ "type": kind })),
        prop::collection::btree_set(kind, 1..4).prop_map(|kinds| json!({ "type": kinds })),
        prop::sample::select(vec!["#", "#/$defs/a", "#/$defs/b", "#/properties/p"])
            .prop_map(|to| json!({ "$ref": to })),
        prop::sample::select(vec![json!("x"), json!(1), json!(1.5), json!(null), json!([1]), json!({ "a": 1 })])
            .prop_map(|value| json!({ "const": value, "default": value })),
        Just(json!({ "enum": ["a", 1, null, true], "description": " " })),
        Just(json!({ "type": "string", "minLength": 1, "format": "date-time", "title": "T" })),
    ];
    leaf.prop_recursive(5, 40, 4, |inner| {
        let list = prop::collection::vec(inner.clone(), 1..4);
        let fields = prop::collection::btree_map("[pq$]|const|\\$ref|", inner.clone(), 0..4);
        prop_oneof![
            (prop::sample::select(vec!["allOf", "anyOf", "oneOf", "prefixItems"]), list)
                .prop_map(|(keyword, list)| json!({ keyword: list })),
            (prop::sample::select(vec!["items", "not", "additionalProperties", "contains", "then"]), inner.clone())
                .prop_map(|(keyword, schema)| json!({ keyword: schema, "if": true, "type": ["array", "object"] })),
            fields.clone().prop_map(|fields| json!({ "properties": fields, "required": ["p", "q"] })),
            fields.prop_map(
                |fields| json!({ "type": "object", "patternProperties": { "^x": {} }, "properties": fields })
            ),
            (inner.clone(), inner).prop_map(|(a, b)| json!({ "$ref": "#/$defs/a", "anyOf": [a], "allOf": [b] })),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, ..ProptestConfig::default() })]

    #[test]
    fn generated_schemas_with_cycles_and_contradictions_export_to_valid_schemas(root in hostile(), a in hostile(), b in hostile()) {
        let mut schema = if root.is_object() { root } else { json!({ "type": "object" }) };
        schema["$defs"] = json!({ "a": a, "b": b });
        // A schema that does not compile, for example because of a dangling reference, cannot be exported.
        let Ok(tool) = try_compile(definition_with(&schema)) else { return Ok(()) };
        let universal = export(&tool, ExportFormat::Universal);
        prop_assert_eq!(universal_rules(&universal), Ok(()));
        for (format, at) in [(ExportFormat::LangChain, "/schema"), (ExportFormat::OpenAi, "/function/parameters")] {
            let exported = export(&tool, format);
            let parameters = exported.pointer(at).unwrap();
            prop_assert_eq!(&parameters["type"], "object");
            for keyword in ["$ref", "allOf", "anyOf", "oneOf", "enum", "not"] {
                prop_assert!(parameters.get(keyword).is_none(), "{} at the root of {}", keyword, format);
            }
            prop_assert!(Schema::compile(parameters.clone()).is_ok(), "{}", parameters);
        }
        prop_assert_eq!(export(&tool, ExportFormat::Gemini), export(&tool, ExportFormat::Gemini));
    }
}
