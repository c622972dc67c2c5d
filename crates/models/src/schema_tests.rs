use super::*;

fn full(schema: Value) -> Value {
    lower(&schema, Dialect::Full)
}

fn gemini(schema: Value) -> Value {
    lower(&schema, Dialect::Gemini)
}

#[test]
fn the_root_is_always_a_plain_object() {
    let empty = json!({"type": "object", "properties": {}});
    for schema in [json!({}), json!(true), json!(null), json!({"type": ["object", "null"]}), json!({"not": {}})] {
        assert_eq!(full(schema.clone()), empty, "{schema}");
        assert_eq!(gemini(schema.clone()), empty, "{schema}");
    }
}

#[test]
fn a_plain_schema_stays_as_it_is() {
    let schema = json!({
        "type": "object",
        "properties": {"n": {"$ref": "#/$defs/n"}, "s": {"anyOf": [{"type": "string"}, {"type": "null"}]}},
        "required": ["n"],
        "additionalProperties": false,
        "$defs": {"n": {"type": "integer", "multipleOf": 5}},
    });
    assert_eq!(full(schema.clone()), schema);
}

#[test]
fn a_reference_at_the_root_is_followed() {
    let schema = json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$ref": "#/$defs/Query",
        "$defs": {"Query": {"type": "object", "properties": {"q": {"$ref": "#/$defs/Text"}}, "required": ["q"]}, "Text": {"type": "string"}},
    });
    assert_eq!(
        full(schema.clone()),
        json!({
            "$defs": {"Query": {"type": "object", "properties": {"q": {"$ref": "#/$defs/Text"}}, "required": ["q"]}, "Text": {"type": "string"}},
            "type": "object", "properties": {"q": {"$ref": "#/$defs/Text"}}, "required": ["q"],
        })
    );
    assert_eq!(gemini(schema), json!({"type": "object", "properties": {"q": {"type": "string"}}, "required": ["q"]}));
}

#[test]
fn combinators_at_the_root_become_one_object() {
    let schema = json!({
        "allOf": [{"properties": {"a": {"type": "string"}}, "required": ["a"]}],
        "oneOf": [
            {"type": "object", "properties": {"b": {"type": "string"}}, "required": ["b", "k"]},
            {"type": "object", "properties": {"c": {"type": "string"}}, "required": ["k", "c"]},
            {"type": "string"},
        ],
    });
    assert_eq!(
        full(schema),
        json!({
            "type": "object",
            "properties": {"a": {"type": "string"}, "b": {"type": "string"}, "c": {"type": "string"}},
            "required": ["a", "k"],
        })
    );
}

#[test]
fn google_gets_only_what_it_documents() {
    let schema = json!({
        "$schema": "x", "title": "T", "type": "object", "patternProperties": {},
        "properties": {
            "fixed": {"const": "yes"},
            "flag": {"type": "boolean", "enum": [true]},
            "list": {"type": "array", "uniqueItems": true},
            "mail": {"type": "string", "format": "email", "pattern": "@", "minLength": 3},
            "when": {"type": "string", "format": "date-time"},
            "count": {"type": "integer", "exclusiveMinimum": 0, "multipleOf": 2},
            "either": {"oneOf": [{"type": "string"}, {"$ref": "#/$defs/n"}]},
            "both": {"allOf": [{"type": "object", "properties": {"x": {"type": "string"}}}, {"required": ["x", "ghost"]}]},
            "any": true,
            "described": {"$ref": "#/$defs/n", "description": "here"},
        },
        "required": ["fixed", "ghost"],
        "$defs": {"n": {"type": "number", "description": "there"}},
    });
    assert_eq!(
        gemini(schema),
        json!({
            "title": "T", "type": "object",
            "properties": {
                "fixed": {"enum": ["yes"], "type": "string"},
                "flag": {"type": "boolean"},
                "list": {"type": "array", "items": {"type": "string"}},
                "mail": {"type": "string"},
                "when": {"type": "string", "format": "date-time"},
                "count": {"type": "integer", "minimum": 0},
                "either": {"anyOf": [{"type": "string"}, {"type": "number", "description": "there"}]},
                "both": {"type": "object", "properties": {"x": {"type": "string"}}, "required": ["x"]},
                "any": {},
                "described": {"description": "here", "type": "number"},
            },
            "required": ["fixed"],
        })
    );
}

#[test]
fn what_refers_to_itself_ends() {
    let node =
        json!({"type": "object", "properties": {"next": {"$ref": "#/$defs/node"}, "other": {"$ref": "#/$defs/node"}}});
    let schema = json!({"$ref": "#/$defs/node", "$defs": {"node": node}});
    let lowered = gemini(schema.clone()).to_string();
    assert!(!lowered.contains("$ref") && lowered.len() < 1_000_000, "{}", lowered.len());
    assert_eq!(full(json!({"$ref": "#"})), json!({"type": "object", "properties": {}}));
    assert_eq!(full(json!({"allOf": [{"$ref": "#"}]}))["type"], "object");
}

#[test]
fn only_closed_and_complete_schemas_are_strict() {
    let closed = json!({"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"], "additionalProperties": false});
    assert!(is_strict(&closed));
    assert!(is_strict(&json!({"type": "string"})));
    for change in [
        json!({"required": []}),
        json!({"additionalProperties": true}),
        json!({"properties": {"a": {"type": "object"}}}),
    ] {
        let mut schema = closed.as_object().unwrap().clone();
        schema.extend(change.as_object().unwrap().clone());
        assert!(!is_strict(&Value::Object(schema.clone())), "{schema:?}");
    }
}

#[test]
fn every_tool_of_a_large_api_can_be_sent_to_every_provider() {
    use toolwright_openapi::{Document, Filter, Options, plan};
    let path = std::env::var("TOOLWRIGHT_TEST_OPENAPI_SAMPLE")
        .expect("TOOLWRIGHT_TEST_OPENAPI_SAMPLE is not set; run through `make test` or `scripts/openapi-samples`");
    let document = Document::parse(&std::fs::read_to_string(path).unwrap()).unwrap();
    let (provider, base_url) = ("big".parse().unwrap(), Some("https://api.example.com".into()));
    let options = Options { provider, prefix: None, base_url, came_from: None, only: Filter::default() };
    let tools = plan(&document, &options).unwrap().tools;
    assert!(tools.len() > 500);
    for tool in tools {
        let name = tool.definition.ref_name;
        let schema = tool.definition.input_json_schema.unwrap().0;
        let wanted: Vec<&String> = schema["properties"].as_object().unwrap().keys().collect();
        for lowered in [full(schema.clone()), gemini(schema.clone())] {
            let kept: Vec<&String> = lowered["properties"].as_object().unwrap().keys().collect();
            assert_eq!(kept, wanted, "{name}");
            assert_eq!(lowered["type"], "object", "{name}");
            assert!(["$ref", "anyOf", "oneOf", "allOf"].iter().all(|word| lowered.get(word).is_none()), "{name}");
        }
        assert!(!gemini(schema).to_string().contains("$ref"), "{name}");
    }
}
