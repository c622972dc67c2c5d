//! References between steps, compared with schemas.

use std::collections::HashMap;

use serde_json::{Value, json};
use toolwright_machine::workflow::StepSchemas;

use crate::harness::graph;

/// Checks a workflow whose first step `a` has this output schema, and whose second step `b` has this input schema.
fn check(b: &str, output: Value, input: Value) -> Vec<(String, String, String)> {
    let yaml = format!(
        "
inputSchema: {{ type: object, properties: {{ n: {{ type: integer }}, names: {{ type: array }} }}, additionalProperties: false }}
steps:
- {{ name: a, handlerRef: search, outputAs: found }}
- {{ name: b, handlerRef: put, dependsOn: [a], {b} }}
"
    );
    let schemas = HashMap::from([
        (0, StepSchemas { input: None, output: Some(output) }),
        (1, StepSchemas { input: Some(input), output: None }),
    ]);
    let issues = graph(&yaml).check_types(&schemas);
    issues.into_iter().map(|issue| (issue.code.clone(), issue.path.clone(), issue.to_string())).collect()
}

#[test]
fn references_are_compared_with_the_schemas_of_both_steps() {
    let output = json!({
        "type": "object", "additionalProperties": false,
        "properties": { "id": { "type": "string" }, "deal": { "$ref": "#/$defs/deal" }, "open": { "type": "object" }, "tags": { "type": "array" } },
        "$defs": { "deal": { "type": "object", "properties": { "amount": { "type": "number" } }, "additionalProperties": false } },
    });
    let input = json!({
        "type": "object", "additionalProperties": false, "required": ["id"],
        "properties": { "id": { "type": "string" }, "amount": { "type": "integer" }, "tags": { "type": "array", "items": { "type": "string" } }, "unit": { "type": "string", "default": "kg" } },
    });
    for (fields, expected) in [
        ("input: { id: '${a.id}' }", None),
        ("input: { id: '${found.id}', amount: '${a.deal.amount}', tags: ['${a.id}'] }", None),
        ("input: { id: 'deal ${a.deal.amount}' }", None),
        ("input: { id: '${a.open.anything.else}' }", None),
        ("input: { id: '${steps.a.output.id}' }", None),
        ("input: { id: '${a.tags.length > 0 ? \"x\" : a.id}' }", None),
        ("input: '${a.open}'", None),
        ("input: { '${a.id}': 1 }", None),
        ("input: { id: '${a.idd}' }", Some(("unknown_field", "/steps/1/input/id", "did you mean `id`?"))),
        (
            "input: { id: '${steps.a.output.none}' }",
            Some(("unknown_field", "/steps/1/input/id", "the output of step `a`")),
        ),
        ("input: { id: '${a.deal.price}' }", Some(("unknown_field", "/steps/1/input/id", "`price`"))),
        ("input: { id: '${a.id.text}' }", None),
        ("input: { id: '${input.m}' }", Some(("unknown_field", "/steps/1/input/id", "the input of the workflow"))),
        ("input: { id: '${m}' }", Some(("unknown_field", "/steps/1/input/id", "the input of the workflow"))),
        (
            "input: { id: '${a.deal.amount}' }",
            Some(("type_mismatch", "/steps/1/input/id", "number, but the input must be string")),
        ),
        ("input: { id: x, amount: 'n ${a.id}' }", Some(("type_mismatch", "/steps/1/input/amount", "string"))),
        ("input: { id: x, tags: '${a.id}' }", Some(("type_mismatch", "/steps/1/input/tags", "array"))),
        ("input: { id: x, tags: ['${input.n}'] }", Some(("type_mismatch", "/steps/1/input/tags/0", "integer"))),
        ("input: { id: x, size: 1 }", Some(("unknown_input", "/steps/1/input/size", "no input `size`"))),
        ("input: { amount: 1 }", Some(("missing_input", "/steps/1/input", "required input `id`"))),
        ("condition: '${true}'", Some(("missing_input", "/steps/1/input", "`id`"))),
        ("input: { id: x }, condition: '${a.nope == 1}'", Some(("unknown_field", "/steps/1/condition", "`nope`"))),
        ("input: { id: '${item}' }, forEach: '${input.names}'", None),
        (
            "input: { id: '${item}' }, forEach: '${input.n}'",
            Some(("type_mismatch", "/steps/1/forEach", "must be a list")),
        ),
    ] {
        let found = check(fields, output.clone(), input.clone());
        match expected {
            None => assert_eq!(found, [], "{fields}"),
            Some((code, path, text)) => {
                assert_eq!(found.len(), 1, "{fields}: {found:?}");
                assert_eq!((found[0].0.as_str(), found[0].1.as_str()), (code, path), "{fields}: {found:?}");
                assert!(found[0].2.contains(text), "{fields}: {found:?}");
            }
        }
    }
}

#[test]
fn schemas_that_say_nothing_or_refer_to_themselves_accept_everything() {
    for schema in [
        json!(true),
        json!({}),
        json!({ "$ref": "#" }),
        json!({ "$ref": "https://example.com/x" }),
        json!({ "anyOf": [] }),
    ] {
        assert_eq!(check("input: { id: '${a.x.y}' }", schema.clone(), schema), []);
    }
}
