//! Property tests: calls with generated inputs and generated schemas return an envelope and do not panic.

use proptest::prelude::*;
use serde_json::{Map, Value, json};
use toolwright_types::{CallId, ToolEnvelope};

use crate::world::{World, failure};

/// Generates JSON of moderate depth, with strings that are special in templates, paths and escapes.
pub(crate) fn any_json() -> impl Strategy<Value = Value> {
    let text = prop_oneof![
        any::<String>(),
        "[a-z]{0,8}",
        Just("${param.a}".to_owned()),
        Just("../..".to_owned()),
        Just("\u{0}\r\n\"\\".to_owned()),
    ];
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        text.clone().prop_map(Value::from),
    ];
    let key = prop_oneof![text, Just("a".to_owned()), Just("expression".to_owned()), Just("personName".to_owned())];
    leaf.prop_recursive(4, 32, 6, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            prop::collection::vec((key.clone(), inner), 0..6)
                .prop_map(|fields| Value::Object(fields.into_iter().collect::<Map<_, _>>())),
        ]
    })
}

/// Generates valid and invalid schemas from the keywords that tools use, with self-references.
fn any_schema() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(json!({})),
        Just(json!(true)),
        Just(json!(false)),
        prop::sample::select(vec!["string", "number", "integer", "boolean", "object", "array", "null", "nonsense"])
            .prop_map(|kind| json!({ "type": kind })),
        any_json().prop_map(|value| json!({ "const": value })),
        any_json().prop_map(|value| json!({ "default": value })),
        Just(json!({ "$ref": "#" })),
        Just(json!({ "$ref": "#/$defs/missing" })),
        Just(json!({ "pattern": "^(a+)+$", "maxLength": 3 })),
        Just(json!({ "format": "date-time", "minimum": 3 })),
    ];
    leaf.prop_recursive(3, 12, 3, |inner| {
        prop_oneof![
            prop::collection::vec(("[ab]", inner.clone()), 0..3).prop_map(|fields| {
                let names: Vec<&String> = fields.iter().map(|(name, _)| name).collect();
                json!({ "type": "object", "required": names, "properties": fields.iter().cloned().collect::<Map<_, _>>() })
            }),
            inner.clone().prop_map(|items| json!({ "items": items })),
            inner.clone().prop_map(|not| json!({ "not": not })),
            prop::collection::vec(inner.clone(), 1..3).prop_map(|all| json!({ "allOf": all })),
            prop::collection::vec(inner.clone(), 1..3).prop_map(|any| json!({ "anyOf": any })),
            inner.prop_map(|more| json!({ "additionalProperties": more })),
        ]
    })
}

/// Checks that the envelope is a success, or a failure with a code and without output. Also checks its input, its call
/// id and its JSON form.
pub(crate) fn check(envelope: &ToolEnvelope, input: &Value) {
    if !envelope.is_success() {
        failure(envelope);
    }
    assert_eq!(&envelope.input, input);
    assert_eq!(envelope.call_id, CallId::derive(&envelope.name, &envelope.version, input, 0));
    let text = serde_json::to_string(envelope).unwrap();
    assert_eq!(serde_json::from_str::<ToolEnvelope>(&text).unwrap(), *envelope);
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
}

/// A `$ref` that refers to itself without descending into the value could make the validation recurse forever.
#[tokio::test]
async fn validation_with_a_self_referencing_schema_ends() {
    let world = World::start().await;
    for schema in [
        json!({ "$ref": "#" }),
        json!({ "allOf": [{ "$ref": "#" }] }),
        json!({ "anyOf": [{ "type": "string" }, { "$ref": "#" }] }),
        json!({ "not": { "$ref": "#" } }),
        json!({ "if": { "$ref": "#" }, "then": false }),
        json!({ "$dynamicRef": "#" }),
        json!({ "$ref": "#/$defs/a", "$defs": { "a": { "$ref": "#/$defs/b" }, "b": { "allOf": [{ "$ref": "#/$defs/a" }] } } }),
        json!({ "properties": { "a": { "$ref": "#" } }, "type": "object" }),
        json!({ "$schema": "http://json-schema.org/draft-07/schema#", "$ref": "#" }),
    ] {
        let body = json!({ "refName": "t", "toolType": "FUNCTION", "invocation": { "path": "echo" }, "inputJsonSchema": schema });
        if world.try_tool(body).is_ok() {
            for input in [json!({ "a": { "a": {} } }), json!(1)] {
                check(&world.call("t", input.clone()).await, &input);
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn call_with_generated_schemas_and_input_returns_a_valid_envelope(input_schema in any_schema(), output_schema in any_schema(), inputs in prop::collection::vec(any_json(), 4)) {
        block_on(async {
            let world = World::start().await;
            let body = json!({ "refName": "t", "toolType": "FUNCTION", "invocation": { "path": "echo" }, "inputJsonSchema": input_schema, "outputJsonSchema": output_schema });
            // An invalid schema is rejected when it is compiled, so there is no tool to call.
            if world.try_tool(body).is_ok() {
                for input in inputs {
                    check(&world.call("t", input.clone()).await, &input);
                }
            }
        });
    }

    #[test]
    fn request_template_with_any_json_input_gives_a_valid_envelope(inputs in prop::collection::vec(any_json(), 6)) {
        block_on(async {
            let world = World::start().await;
            let invocation = json!({
                "method": "POST",
                "path": "/echo/${param.a}?q=${param.a}",
                "query": { "r": "${input.b}" },
                "headers": { "X-A": "${param.a}" },
                "bodyTemplate": "{\"in\": \"${param.a}\", \"out\": ${param}}",
                "responseMapping": "$.json.out",
            });
            world.rest("t", invocation, json!({ "resourceKey": "${param.a}" }));
            for input in inputs {
                let envelope = world.call("t", input.clone()).await;
                check(&envelope, &input);
                if envelope.is_success() {
                    assert_eq!(toolwright_types::json::canonical(&envelope.output), toolwright_types::json::canonical(&input));
                }
            }
        });
    }
}
