//! Tools in the formats of others: shapes as snapshots, lowering as tables, names and hostile schemas as properties.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests stop at the first surprise")]

use std::collections::{BTreeSet, HashMap};

use proptest::prelude::*;
use serde_json::{Value, json};
use toolwright_tools::export::{Format, NameTable, export, mangle, snake_case, unmangle, unwrap_arguments};
use toolwright_tools::{CompiledTool, Schema, builtin};
use toolwright_types::{Document, Meta, RefName, Source, Timestamp, ToolDefinition};

fn compile(body: Value) -> CompiledTool {
    try_compile(body).unwrap()
}

fn try_compile(body: Value) -> Result<CompiledTool, String> {
    let definition: ToolDefinition = serde_json::from_value(body).map_err(|error| error.to_string())?;
    let meta = Meta {
        id: "tool_test".into(),
        ref_name: definition.ref_name.clone(),
        source: Source::Manual,
        revision: 1,
        content_hash: String::new(),
        created_by: String::new(),
        created_at: Timestamp::from_micros(0),
        updated_by: String::new(),
        updated_at: Timestamp::from_micros(0),
    };
    CompiledTool::compile(Document { meta, body: definition }, None, &builtin::library())
        .map_err(|error| error.to_string())
}

fn fixtures() -> Vec<Value> {
    serde_json::from_str(include_str!("export/definitions.json")).unwrap()
}

fn tool_with(schema: &Value) -> CompiledTool {
    compile(definition_with(schema))
}

fn definition_with(schema: &Value) -> Value {
    json!({ "refName": "t", "description": "d", "toolType": "QUANTUM_QUERY", "inputJsonSchema": schema })
}

/// How one property named `p` looks in `format`.
fn property(schema: &Value, format: Format) -> Value {
    let tool = tool_with(&json!({ "type": "object", "properties": { "p": schema }, "required": ["p"] }));
    export(&tool, format)["parameters"]["properties"]["p"].clone()
}

fn name(text: &str) -> RefName {
    text.parse().unwrap()
}

// --- shapes -----------------------------------------------------------------------------------

#[test]
fn a_rich_definition_in_every_format() {
    let tool = compile(fixtures().remove(0));
    for format in Format::ALL {
        insta::assert_json_snapshot!(format!("rich_{format}"), export(&tool, format));
    }
}

#[test]
fn formats_are_read_as_they_are_written() {
    for format in Format::ALL {
        assert_eq!(format.to_string().parse::<Format>(), Ok(format));
    }
    let error = "OpenAI".parse::<Format>().unwrap_err().to_string();
    assert_eq!(error, "there is no export format `OpenAI`; use universal, langchain, mcp, openai, anthropic or gemini");
}

#[test]
fn no_schema_is_an_object_without_properties_everywhere() {
    for schema in [json!({}), json!(true), json!(false), json!({ "type": "object" })] {
        let tool = tool_with(&schema);
        let empty = json!({ "type": "object", "properties": {} });
        assert_eq!(
            export(&tool, Format::Universal)["parameters"],
            json!({ "type": "object", "properties": {}, "required": [] })
        );
        assert_eq!(
            export(&tool, Format::LangChain)["schema"],
            json!({ "type": "object", "properties": {}, "required": [] })
        );
        assert_eq!(export(&tool, Format::Mcp)["inputSchema"], empty);
        assert_eq!(export(&tool, Format::OpenAi)["function"]["parameters"], empty);
        assert_eq!(export(&tool, Format::Anthropic)["input_schema"], empty);
        assert_eq!(export(&tool, Format::Gemini)["parameters"], json!({ "type": "OBJECT", "properties": {} }));
    }
}

#[test]
fn an_input_that_is_no_object_is_wrapped_and_can_be_unwrapped() {
    let list = tool_with(&json!({ "type": "array", "items": { "type": "number" } }));
    assert_eq!(
        export(&list, Format::Anthropic)["input_schema"],
        json!({ "type": "object", "properties": { "value": { "type": "array", "items": { "type": "number" } } }, "required": ["value"] })
    );
    assert_eq!(export(&list, Format::Universal)["parameters"]["required"], json!(["value"]));
    assert_eq!(unwrap_arguments(&list, json!({ "value": [1, 2] })), json!([1, 2]));

    let object = tool_with(&json!({ "anyOf": [{ "type": "string" }, { "type": "object" }] }));
    assert_eq!(unwrap_arguments(&object, json!({ "value": [1, 2] })), json!({ "value": [1, 2] }));
}

#[test]
fn side_effects_become_mcp_hints() {
    let hints = |body: Value| {
        let mut definition = json!({ "refName": "t", "invocation": { "path": "echo" } });
        definition.as_object_mut().unwrap().extend(body.as_object().unwrap().clone());
        let hints = export(&compile(definition), Format::Mcp)["annotations"].clone();
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
fn only_the_schema_of_an_object_is_an_mcp_output_schema() {
    let output = |schema: Value| {
        let body = json!({ "refName": "t", "toolType": "QUANTUM_QUERY", "outputJsonSchema": schema });
        export(&compile(body), Format::Mcp).get("outputSchema").cloned()
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
fn a_long_description_is_cut_in_the_universal_format_only() {
    let text = "ä".repeat(2001);
    let tool = compile(json!({ "refName": "t", "toolType": "QUANTUM_QUERY", "description": text }));
    let universal = export(&tool, Format::Universal)["description"].as_str().unwrap().to_owned();
    assert_eq!(universal.chars().count(), 2000);
    assert!(universal.ends_with("ä..."));
    assert_eq!(export(&tool, Format::Gemini)["description"], text);
}

// --- lowering ---------------------------------------------------------------------------------

#[test]
fn properties_are_lowered_to_one_type() {
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
        let lowered = export(&tool, Format::Universal)["parameters"]["properties"].get("p").cloned();
        assert_eq!(lowered, expected, "{schema}");
    }
}

#[test]
fn objects_are_merged_and_united() {
    let object = |schema: Value| export(&tool_with(&schema), Format::Universal)["parameters"].clone();
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
fn gemini_gets_what_it_reads() {
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
        assert_eq!(property(&schema, Format::Gemini), expected, "{schema}");
    }
}

#[test]
fn providers_get_a_plain_root_and_keep_references_below_it() {
    let parameters = |schema: Value| export(&tool_with(&schema), Format::OpenAi)["function"]["parameters"].clone();
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
fn anchors_and_escaped_pointers_are_followed() {
    let schema = json!({
        "type": "object",
        "properties": { "a": { "$ref": "#here" }, "b": { "$ref": "#/$defs/x~1y%20z" } },
        "$defs": { "w": { "$anchor": "here", "type": "boolean" }, "x/y z": { "type": "integer" } },
    });
    let properties = export(&tool_with(&schema), Format::Universal)["parameters"]["properties"].clone();
    assert_eq!(properties["a"]["type"], "boolean");
    assert_eq!(properties["b"]["type"], "integer");
}

#[test]
fn references_that_multiply_end() {
    let level = |next: usize| {
        let fields = (0..10).map(|n| (format!("f{n}"), json!({ "$ref": format!("#/$defs/d{next}") })));
        json!({ "type": "object", "description": "x".repeat(100), "properties": Value::Object(fields.collect()) })
    };
    let defs: serde_json::Map<_, _> = (0..12).map(|n| (format!("d{n}"), level((n + 1) % 12))).collect();
    let tool = tool_with(&json!({ "$ref": "#/$defs/d0", "$defs": defs }));
    for format in Format::ALL {
        assert!(export(&tool, format).to_string().len() < 1_000_000, "{format}");
    }
}

#[test]
fn a_deep_schema_is_cut_where_nobody_looks() {
    let mut schema = json!({ "type": "string" });
    for _ in 0..100 {
        schema = json!({ "type": "object", "properties": { "p": schema } });
    }
    let tool = tool_with(&schema);
    for format in Format::ALL {
        let exported = export(&tool, format).to_string();
        assert!((40..60).contains(&exported.matches("\"p\"").count()), "{exported}");
    }
}

#[test]
fn many_branches_end() {
    let branch =
        |n: usize| json!({ "properties": { "same": { "maxLength": n }, format!("p{n}"): {} }, "required": ["same"] });
    for keyword in ["allOf", "anyOf"] {
        let branches: Vec<Value> = (0..2000).map(branch).collect();
        let tool = tool_with(&json!({ "type": "object", keyword: branches }));
        for format in Format::ALL {
            export(&tool, format);
        }
        universal_rules(&export(&tool, Format::Universal)).unwrap();
    }
}

// --- the rules of the universal format --------------------------------------------------------

fn universal_rules(exported: &Value) -> Result<(), String> {
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
fn every_tool_there_is_follows_the_universal_rules_and_keeps_its_examples() {
    let library = builtin::library();
    for tool in builtin::tools(&library).values() {
        universal_rules(&export(tool, Format::Universal)).unwrap();
    }
    let demo = toolwright_testkit::definitions::demo("http://a", "http://b").into_iter();
    let demo = demo.filter(|entry| entry.kind == toolwright_testkit::definitions::Kind::Tool).map(|entry| entry.body);
    for body in demo.chain(fixtures()) {
        let tool = compile(body);
        universal_rules(&export(&tool, Format::Universal)).unwrap();
        for (format, at) in
            [(Format::LangChain, "/schema"), (Format::Mcp, "/inputSchema"), (Format::OpenAi, "/function/parameters")]
        {
            let schema = Schema::compile(export(&tool, format).pointer(at).unwrap().clone()).unwrap();
            for example in &tool.definition.examples {
                let input = json!(example.input);
                assert_eq!(schema.check(&input), Ok(()), "{format} of {}", tool.definition.ref_name);
            }
        }
    }
}

/// Schemas as an enemy writes them: every combinator, references in circles, types that contradict each other.
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
    fn hostile_schemas_are_exported_by_the_rules(root in hostile(), a in hostile(), b in hostile()) {
        let mut schema = if root.is_object() { root } else { json!({ "type": "object" }) };
        schema["$defs"] = json!({ "a": a, "b": b });
        // What does not compile, such as a reference to a property that is not there, cannot be exported either.
        let Ok(tool) = try_compile(definition_with(&schema)) else {  return Ok(()) };
        let universal = export(&tool, Format::Universal);
        prop_assert_eq!(universal_rules(&universal), Ok(()));
        for (format, at) in [(Format::LangChain, "/schema"), (Format::OpenAi, "/function/parameters")] {
            let exported = export(&tool, format);
            let parameters = exported.pointer(at).unwrap();
            prop_assert_eq!(&parameters["type"], "object");
            for keyword in ["$ref", "allOf", "anyOf", "oneOf", "enum", "not"] {
                prop_assert!(parameters.get(keyword).is_none(), "{} at the root of {}", keyword, format);
            }
            prop_assert!(Schema::compile(parameters.clone()).is_ok(), "{}", parameters);
        }
        prop_assert_eq!(export(&tool, Format::Gemini), export(&tool, Format::Gemini));
    }
}

// --- names ------------------------------------------------------------------------------------

#[test]
fn names_are_mangled_readably() {
    for (canonical, wire, snake) in [
        ("echo", "echo", "echo"),
        ("search_Orders", "search_Orders", "search_orders"),
        ("sayHello", "sayHello", "say_hello"),
        ("HTTPRequest2", "HTTPRequest2", "http_request2"),
        ("hubspot-deal-manager", "hubspot-deal-manager", "hubspot_deal_manager"),
        ("hubspot/search-deals", "hubspot__search-deals", "hubspot_search_deals"),
        ("web.search", "web_-search", "web_search"),
        ("a_/b", "a___b", "a_b"),
        ("a_.b", "a__-b", "a_b"),
        ("mcp__git__log", "_mcp__git__log", "mcp_git_log"),
        ("mcp__git/log-all.v2", "_mcp__git-slog--all-dv2", "mcp_git_log_all_v2"),
        ("9lives", "_9lives", "tool_9lives"),
    ] {
        assert_eq!(mangle(&name(canonical)), wire);
        assert_eq!(unmangle(wire), Some(name(canonical)));
        assert_eq!(snake_case(&name(canonical)), snake);
    }
    for foreign in ["", "_", "__", "a__", "a.b", "a/b", "-a", "_a", "_-z", "a__b__c", "a_-_-", "ä"] {
        let read = unmangle(foreign);
        assert!(read.as_ref().is_none_or(|name| mangle(name) == foreign), "{foreign} is read as {read:?}");
    }
}

#[test]
fn no_two_short_names_meet() {
    let mut wires = HashMap::new();
    let mut level = vec![String::new()];
    for _ in 0..6 {
        level = level.iter().flat_map(|start| "a9_.-/sd".chars().map(move |c| format!("{start}{c}"))).collect();
        for name in level.iter().filter_map(|text| text.parse::<RefName>().ok()) {
            let wire = mangle(&name);
            assert_eq!(unmangle(&wire).as_ref(), Some(&name));
            assert_eq!(wires.insert(wire, name), None);
        }
        level.retain(|text| text.starts_with(|c: char| c.is_ascii_alphanumeric()));
    }
    assert!(wires.len() > 50_000);
}

#[test]
fn a_long_name_is_read_back_through_a_table_only() {
    let long = name(&format!("{}/{}", "n".repeat(60), "t".repeat(60)));
    let wire = mangle(&long);
    assert_eq!(wire.len(), 64);
    assert_eq!(unmangle(&wire), None);
    let table = NameTable::new([long.clone(), name("a/b"), long.clone()]).unwrap();
    assert_eq!(table.to_wire(&long), Some(wire.as_str()));
    assert_eq!(table.from_wire(&wire), Some(&long));
    assert_eq!(table.from_wire("a__b"), Some(&name("a/b")));
    assert_eq!(table.from_wire("a/b"), None);
    assert_eq!(table.to_wire(&name("b")), None);
}

fn ref_names() -> impl Strategy<Value = RefName> {
    let part = "[A-Za-z0-9][A-Za-z0-9_.-]{0,70}";
    let tricky = "[a9][a_.-]{0,8}(/[a9][a_.-]{0,8})?";
    prop_oneof![
        tricky.prop_map(|text| text),
        part.prop_map(|text| text),
        (part, part).prop_map(|(a, b)| format!("{a}/{b}"))
    ]
    .prop_filter_map("a refName", |text| text.parse().ok())
}

proptest! {
    #[test]
    fn wire_names_are_taken_by_every_provider_and_read_back(names in prop::collection::btree_set(ref_names(), 1..60)) {
        let table = NameTable::new(names.clone()).unwrap();
        let mut wires = BTreeSet::new();
        for name in &names {
            let wire = table.to_wire(name).unwrap();
            prop_assert!((1..=64).contains(&wire.len()));
            prop_assert!(wire.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_'));
            prop_assert!(wire.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-'));
            prop_assert_eq!(table.from_wire(wire), Some(name));
            prop_assert!(unmangle(wire).is_none_or(|read| read == *name));
            wires.insert(wire.to_owned());
            let snake = snake_case(name);
            prop_assert!(snake.len() <= 64 && snake.starts_with(|c: char| c.is_ascii_lowercase()));
            prop_assert!(snake.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_'));
        }
        prop_assert_eq!(wires.len(), names.len());
    }

    #[test]
    fn any_text_is_read_or_refused(text in "\\PC{0,70}|[A-Za-z0-9_-]{0,70}") {
        if let Some(name) = unmangle(&text) {
            prop_assert_eq!(mangle(&name), text);
        }
    }
}
