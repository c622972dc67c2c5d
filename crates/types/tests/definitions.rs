//! Parsing of tool definitions: the example of the specification is accepted, and definitions with typos are rejected.

use serde_json::{Value, json};
use toolwright_types::{SideEffects, Surface, ToolDefinition, ToolProviderConfig, ToolStatus};

fn tool(body: Value) -> Result<ToolDefinition, String> {
    serde_json::from_value(body).map_err(|error| error.to_string())
}

#[test]
fn tool_definition_with_only_required_fields_has_defaults() {
    let tool = tool(json!({ "refName": "t", "toolType": "FUNCTION", "invocation": { "path": "echo" } })).unwrap();
    assert_eq!(tool.version.to_string(), "1.0.0");
    assert!(tool.enabled && tool.is_tool_fully_executed_on_server);
    assert_eq!(tool.status, ToolStatus::Active);
    assert_eq!(tool.available_as.len(), 3);
    assert_eq!(tool.effective_input_schema(), json!({}));
    assert_eq!(tool.effects(), SideEffects::Reads);
    assert_eq!(tool.display_name(), "t");
    assert_eq!(tool.usage(), "t");
}

#[test]
fn workflow_tool_example_from_the_specification_is_accepted() {
    let tool = tool(json!({
        "refName": "execute_fulfillment_workflow",
        "name": "execute_fulfillment_workflow",
        "description": "Triggers the standard order fulfillment workflow for a set of order IDs",
        "toolType": "FUNCTION",
        "invocation": {
            "path": "quantum.workflows.execute",
            "bodyTemplate": {
                "workflowRef": "order-fulfillment-standard",
                "input": { "orderIds": "${orderIds}" }
            }
        },
        "hasSideEffects": true,
        "requiresConfirmation": true
    }))
    .unwrap();
    assert_eq!(tool.effects(), SideEffects::Writes);
}

#[test]
fn declared_side_effects_override_the_side_effects_of_the_http_method() {
    let effects = |extra: Value| {
        let mut body = json!({ "refName": "t", "toolType": "EXTERNAL_REST" });
        body.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
        tool(body).unwrap().effects()
    };
    for (extra, expected) in [
        (json!({}), SideEffects::Reads),
        (json!({ "invocation": { "method": "get" } }), SideEffects::Reads),
        (json!({ "invocation": { "method": "POST" } }), SideEffects::Writes),
        (json!({ "invocation": { "method": "POST" }, "hasSideEffects": false }), SideEffects::Reads),
        (json!({ "hasSideEffects": true, "sideEffects": "none" }), SideEffects::None),
    ] {
        assert_eq!(effects(extra.clone()), expected, "{extra}");
    }
}

#[test]
fn null_in_a_tool_definition_means_absent() {
    let tool = tool(json!({
        "refName": "t", "toolType": "FUNCTION", "version": null, "enabled": null, "tags": null, "status": null,
        "availableAs": null, "invocation": null, "errorHandling": null, "inputJsonSchema": null, "cache": null
    }))
    .unwrap();
    assert!(tool.enabled);
    assert!(tool.available_as.contains(&Surface::McpTool));
}

#[test]
fn input_schema_written_as_json_text_is_accepted() {
    let tool =
        tool(json!({ "refName": "t", "toolType": "FUNCTION", "inputJsonSchema": "{\"type\":\"object\"}" })).unwrap();
    assert_eq!(tool.effective_input_schema(), json!({ "type": "object" }));
}

#[test]
fn invalid_tool_definition_is_rejected_with_an_explanation() {
    for (body, because) in [
        (json!({ "refName": "t", "toolType": "FUNCTION", "descripton": "x" }), "descripton"),
        (json!({ "refName": "t", "toolType": "FUNKTION" }), "EXTERNAL_REST"),
        (json!({ "refName": "t" }), "toolType"),
        (json!({ "refName": "a b", "toolType": "FUNCTION" }), "character 2"),
        (json!({ "refName": "t", "toolType": "FUNCTION", "version": "1" }), "three numbers"),
        (json!({ "refName": "t", "toolType": "FUNCTION", "timeoutMs": -1 }), "invalid value"),
        (json!({ "refName": "t", "toolType": "FUNCTION", "inputJsonSchema": "{" }), "not JSON"),
        (json!({ "refName": "t", "toolType": "FUNCTION", "errorHandling": { "x": { "action": "fail" } } }), "x"),
    ] {
        let error = tool(body.clone()).unwrap_err();
        assert!(error.contains(because), "{body}: {error}");
    }
    let provider =
        serde_json::from_value::<ToolProviderConfig>(json!({ "refName": "p", "egressAllow": ["10.0.0.0/99"] }));
    assert!(provider.is_err());
}
