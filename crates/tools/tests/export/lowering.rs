//! Lowering of schemas to the keywords that a format supports.

use serde_json::{Value, json};
use toolwright_tools::export::{ExportFormat, export};

use crate::universal_rules::universal_rules;
use crate::{property, tool_with};

#[test]
fn universal_export_reduces_each_property_to_one_type() {
    let described = |schema: Value| {
        let mut fields = schema.as_object().unwrap().clone();
        fields.entry("description").or_insert(json!("The p."));
        Value::Object(fields)
    };
    for (schema, expected) in [
        (json!({ "type": "string", "minLength": 1, "pattern": "x", "format": "email" }), json!({ "type": "string" })),
        (json!({ "const": "a" }), json!({ "type": "string", "enum": ["a"] })),
        (json!({ "const": 7 }), json!({ "type": "integer", "enum": [7] })),
        (json!({ "enum": ["a", 1, null] }), json!({ "type": "string", "enum": ["a"] })),
        (json!({ "type": ["integer", "null"] }), json!({ "type": "integer" })),
        (json!({ "type": ["number", "string"] }), json!({ "type": "string" })),
        (json!({ "anyOf": [{ "type": "integer" }, { "type": "number" }] }), json!({ "type": "number" })),
        (json!({ "oneOf": [{ "type": "boolean" }, { "type": "integer" }] }), json!({ "type": "integer" })),
        (
            json!({ "anyOf": [{ "const": "a" }, { "const": "b" }, { "type": "null" }] }),
            json!({ "type": "string", "enum": ["a", "b"] }),
        ),
        (json!({ "anyOf": [{ "const": "a" }, { "type": "string" }] }), json!({ "type": "string" })),
        (
            json!({ "anyOf": [{ "type": "string" }, { "type": "array", "items": { "type": "string" } }] }),
            json!({ "type": "array", "items": { "type": "string" } }),
        ),
        (
            json!({ "allOf": [{ "type": "number" }, { "type": "integer", "default": 3 }] }),
            json!({ "type": "integer", "default": 3 }),
        ),
        (
            json!({ "allOf": [{ "enum": ["a", "b"] }, { "enum": ["b", "c"] }] }),
            json!({ "type": "string", "enum": ["b"] }),
        ),
        (json!({ "type": "string", "default": null }), json!({ "type": "string" })),
        (json!({ "type": "integer", "default": "1" }), json!({ "type": "integer" })),
        (json!({ "minimum": 3 }), json!({ "type": "number" })),
        (json!({ "default": true }), json!({ "type": "boolean", "default": true })),
        (json!({ "title": "A title" }), json!({ "type": "object", "description": "A title" })),
        (json!({}), json!({ "type": "object" })),
        (json!({ "type": "array" }), json!({ "type": "array", "items": { "type": "string" } })),
        (json!({ "type": "array", "items": {} }), json!({ "type": "array", "items": { "type": "object" } })),
        (
            json!({ "type": "array", "prefixItems": [{ "type": "integer" }, { "type": "number" }], "items": false }),
            json!({ "type": "array", "items": { "type": "number" } }),
        ),
        (json!({ "type": "object", "additionalProperties": { "type": "string" } }), json!({ "type": "object" })),
        (json!({ "type": "null" }), Value::Null),
        (json!(false), Value::Null),
    ] {
        let tool = tool_with(&json!({ "type": "object", "properties": { "p": schema } }));
        let expected = if expected.is_null() { None } else { Some(described(expected)) };
        let lowered = export(&tool, ExportFormat::Universal)["parameters"]["properties"].get("p").cloned();
        assert_eq!(lowered, expected, "{schema}");
    }
}

#[test]
fn object_schemas_in_combinators_and_conditions_become_one_object() {
    let object = |schema: Value| export(&tool_with(&schema), ExportFormat::Universal)["parameters"].clone();
    let field = |kind: &str, name: &str| json!({ "type": kind, "description": format!("The {name}.") });
    let a = json!({ "properties": { "a": { "type": "string" }, "kind": { "const": "a" } }, "required": ["a", "kind"] });
    let b =
        json!({ "properties": { "b": { "type": "integer" }, "kind": { "const": "b" } }, "required": ["b", "kind"] });
    let mut kind = field("string", "kind");
    kind["enum"] = json!(["a", "b"]);
    assert_eq!(
        object(json!({ "type": "object", "oneOf": [a, b] })),
        json!({
            "type": "object",
            "properties": { "a": field("string", "a"), "kind": kind, "b": field("integer", "b") },
            "required": ["kind"],
        })
    );
    let parts = json!([{ "properties": { "a": { "type": "number" } }, "required": ["a"] }, { "properties": { "a": { "type": "integer" } } }]);
    assert_eq!(
        object(json!({ "allOf": parts })),
        json!({ "type": "object", "properties": { "a": field("integer", "a") }, "required": ["a"] })
    );
    let conditional = json!({
        "properties": { "a": { "type": "string" } },
        "if": { "required": ["a"] },
        "then": { "properties": { "b": { "type": "string" } }, "required": ["b"] },
        "required": ["a"],
    });
    assert_eq!(
        object(conditional),
        json!({ "type": "object", "properties": { "a": field("string", "a"), "b": field("string", "b") }, "required": ["a"] })
    );
    let nullable =
        json!({ "type": "object", "properties": { "a": { "type": ["string", "null"] } }, "required": ["a", "ghost"] });
    assert_eq!(
        object(nullable),
        json!({ "type": "object", "properties": { "a": field("string", "a") }, "required": [] })
    );
}

#[test]
fn gemini_schema_has_only_supported_keywords() {
    for (schema, expected) in [
        (
            json!({ "type": ["string", "null"], "maxLength": 3 }),
            json!({ "type": "STRING", "nullable": true, "maxLength": 3 }),
        ),
        (json!({ "type": "string", "format": "email" }), json!({ "type": "STRING" })),
        (json!({ "type": "string", "enum": ["", "a"] }), json!({ "type": "STRING", "enum": ["a"] })),
        (
            json!({ "type": "integer", "enum": [1, 2], "description": "How many." }),
            json!({ "type": "INTEGER", "description": "How many. One of: 1, 2." }),
        ),
        (
            json!({ "type": "number", "exclusiveMinimum": 0, "maximum": 9.5 }),
            json!({ "type": "NUMBER", "maximum": 9.5 }),
        ),
        (json!({ "anyOf": [{ "type": "integer" }, { "type": "number", "minimum": 0 }] }), json!({ "type": "NUMBER" })),
    ] {
        assert_eq!(property(&schema, ExportFormat::Gemini), expected, "{schema}");
    }
}

#[test]
fn openai_schema_has_an_object_root_and_keeps_references_in_properties() {
    let parameters =
        |schema: Value| export(&tool_with(&schema), ExportFormat::OpenAi)["function"]["parameters"].clone();
    let defs = json!({ "t": { "type": "object", "properties": { "child": { "$ref": "#/$defs/t" } } } });
    let kept =
        parameters(json!({ "type": "object", "properties": { "tree": { "$ref": "#/$defs/t" } }, "$defs": defs }));
    assert_eq!(kept["properties"]["tree"]["$ref"], "#/$defs/t");
    assert_eq!(kept["$defs"], defs);

    let inlined = parameters(json!({ "$ref": "#/$defs/t", "$defs": defs }));
    let leaf = json!({ "type": "object" });
    assert_eq!(
        inlined,
        json!({ "type": "object", "properties": { "child": { "type": "object", "properties": { "child": leaf } } } })
    );
    assert_eq!(
        parameters(json!({ "type": ["object", "null"], "not": { "required": ["a"] } })),
        json!({ "type": "object", "properties": {} })
    );
    let tuple =
        json!({ "type": "object", "properties": { "t": { "type": "array", "prefixItems": [{}], "items": false } } });
    assert_eq!(
        parameters(tuple)["properties"]["t"],
        json!({ "type": "array", "prefixItems": [{}], "items": {}, "maxItems": 1 })
    );
}

#[test]
fn anchors_and_escaped_pointers_are_resolved() {
    let schema = json!({
        "type": "object",
        "properties": { "a": { "$ref": "#here" }, "b": { "$ref": "#/$defs/x~1y%20z" } },
        "$defs": { "w": { "$anchor": "here", "type": "boolean" }, "x/y z": { "type": "integer" } },
    });
    let properties = export(&tool_with(&schema), ExportFormat::Universal)["parameters"]["properties"].clone();
    assert_eq!(properties["a"]["type"], "boolean");
    assert_eq!(properties["b"]["type"], "integer");
}

#[test]
fn export_with_exponentially_growing_references_stays_under_one_megabyte() {
    let level = |next: usize| {
        let fields = (0..10).map(|n| (format!("f{n}"), json!({ "$ref": format!("#/$defs/d{next}") })));
        json!({ "type": "object", "description": "x".repeat(100), "properties": Value::Object(fields.collect()) })
    };
    let defs: serde_json::Map<_, _> = (0..12).map(|n| (format!("d{n}"), level((n + 1) % 12))).collect();
    let tool = tool_with(&json!({ "$ref": "#/$defs/d0", "$defs": defs }));
    for format in ExportFormat::ALL {
        assert!(export(&tool, format).to_string().len() < 1_000_000, "{format}");
    }
}

#[test]
fn schema_with_100_levels_is_truncated_at_about_50() {
    let mut schema = json!({ "type": "string" });
    for _ in 0..100 {
        schema = json!({ "type": "object", "properties": { "p": schema } });
    }
    let tool = tool_with(&schema);
    for format in ExportFormat::ALL {
        let exported = export(&tool, format).to_string();
        assert!((40..60).contains(&exported.matches("\"p\"").count()), "{exported}");
    }
}

#[test]
fn schema_with_2000_branches_exports_to_every_format() {
    let branch =
        |n: usize| json!({ "properties": { "same": { "maxLength": n }, format!("p{n}"): {} }, "required": ["same"] });
    for keyword in ["allOf", "anyOf"] {
        let branches: Vec<Value> = (0..2000).map(branch).collect();
        let tool = tool_with(&json!({ "type": "object", keyword: branches }));
        for format in ExportFormat::ALL {
            export(&tool, format);
        }
        universal_rules(&export(&tool, ExportFormat::Universal)).unwrap();
    }
}
