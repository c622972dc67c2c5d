//! Checks of workflows against the tools, agents and workflows that their steps refer to.

use serde_json::{Value, json};

use crate::harness::{Server, scripted_model};

crate::on_sqlite!(
    steps_are_checked_against_the_definitions_that_they_refer_to,
    step_registration_maps_the_input_and_the_output_of_its_tool,
    saved_workflow_is_warned_of_a_tool_that_is_deprecated_later
);

async fn define(server: &Server) {
    let input = json!({ "type": "object", "required": ["id"], "properties": { "id": { "type": "string" } }, "additionalProperties": false });
    let output = json!({ "type": "object", "properties": { "id": { "type": "string" }, "total": { "type": "number" } }, "additionalProperties": false });
    server.define_echo("load_order", json!({ "inputJsonSchema": input, "outputJsonSchema": output })).await;
    for (name, more) in [
        ("old_tool", json!({ "status": "deprecated" })),
        ("blocked_tool", json!({ "status": "blocked" })),
        ("off_tool", json!({ "enabled": false })),
        ("agents_only", json!({ "availableAs": ["tool"] })),
    ] {
        server.define_echo(name, more).await;
    }
    let pins = json!([{ "name": "deals", "selector": { "tool": "nothing" } }]);
    let agent = json!({ "refName": "clerk", "llmConfig": scripted_model(json!([])), "pins": pins });
    server.post("agents", agent).await.expect(201);
    let steps = json!([{ "name": "a", "handlerRef": "echo" }]);
    let schema = json!({ "type": "object", "properties": { "done": {} }, "additionalProperties": false });
    server.post("workflows", json!({ "refName": "inner", "steps": steps, "outputSchema": schema })).await.expect(201);
}

/// Returns the issues of a workflow with these steps, as `severity code path`.
async fn issues(server: &Server, steps: Value) -> (Vec<String>, Value) {
    let check = server.post("workflows/check", json!({ "refName": "w", "steps": steps })).await.expect(200);
    let text = |issue: &Value, field: &str| issue[field].as_str().unwrap().to_owned();
    let issues = check["issues"].as_array().unwrap().iter();
    let listed = issues.map(|issue| [text(issue, "severity"), text(issue, "code"), text(issue, "path")].join(" "));
    (listed.collect(), check)
}

async fn steps_are_checked_against_the_definitions_that_they_refer_to(server: Server) {
    define(&server).await;
    let call = |handler: &str, input: Value| json!([{ "name": "a", "handlerRef": handler, "input": input }]);
    let agent = |name: &str, field: &str| {
        json!([
            { "name": "a", "handlerRef": "quantum.ai.invokeAgent", "input": { "agentRef": name, "prompt": "Go." } },
            { "name": "b", "handlerRef": "quantum.flow.transform", "input": format!("${{a.{field}}}"), "dependsOn": ["a"] },
        ])
    };
    let sub = |name: &str, field: &str| {
        json!([
            { "name": "a", "handlerRef": "quantum.workflows.execute", "input": { "workflowRef": name } },
            { "name": "b", "handlerRef": "quantum.flow.transform", "input": format!("${{a.{field}}}"), "dependsOn": ["a"] },
        ])
    };
    for (steps, expected, text) in [
        (call("load_order", json!({ "id": "x" })), "", ""),
        (call("lode_order", json!({})), "error unknown_tool /steps/0/handlerRef", "did you mean `load_order`?"),
        (call("load_order@^2", json!({ "id": "x" })), "error no_version /steps/0/handlerRef", "its versions are 1.0.0"),
        (call("load_order@new", json!({ "id": "x" })), "error invalid_version /steps/0/handlerRef", "load_order@^1.2"),
        (call("old_tool", json!({})), "warning deprecated_tool /steps/0/handlerRef", "use another version"),
        (call("blocked_tool", json!({})), "error blocked_tool /steps/0/handlerRef", "is blocked"),
        (call("off_tool", json!({})), "warning disabled_tool /steps/0/handlerRef", "is disabled"),
        (call("agents_only", json!({})), "error not_available /steps/0/handlerRef", "`workflowStep`"),
        (call("load_order", json!({})), "error missing_input /steps/0/input", "required input `id`"),
        (call("load_order", json!({ "id": "x", "n": 1 })), "error unknown_input /steps/0/input/n", "remove the field"),
        (agent("clerk", "response"), "", ""),
        // A pin whose tool does not exist is allowed. Its value is null.
        (agent("clerk", "pins.deals.output.x"), "", ""),
        (agent("clerk", "pins.deal"), "error unknown_field /steps/1/input", "did you mean `deals`?"),
        (agent("clerk", "answer"), "error unknown_field /steps/1/input", "`answer`"),
        (agent("nobody", "response"), "warning unknown_agent /steps/0/input/agentRef", "create it"),
        (sub("inner", "done"), "", ""),
        (sub("inner", "result"), "error unknown_field /steps/1/input", "`result`"),
        (sub("none", "done"), "warning unknown_workflow /steps/0/input/workflowRef", "create it"),
        (
            json!([{ "name": "a", "handlerRef": "load_order@^1", "input": { "id": "x" } }, { "name": "b", "handlerRef": "load_order@^1.0", "input": { "id": "x" } }]),
            "error two_versions /steps",
            "`^1` and `^1.0`",
        ),
    ] {
        let (found, check) = issues(&server, steps.clone()).await;
        let expected: Vec<&str> = Some(expected).filter(|text| !text.is_empty()).into_iter().collect();
        assert_eq!(found, expected, "{steps}: {check}");
        assert!(check.to_string().contains(text), "{check}");
        let saved = server.post("workflows", json!({ "refName": "saved", "steps": steps })).await;
        match check["valid"].as_bool().unwrap() {
            true => drop(saved.expect(201)),
            false => drop(saved.problem(422, "invalid-definition")),
        }
        server.delete("workflows/saved").await;
    }
}

async fn step_registration_maps_the_input_and_the_output_of_its_tool(server: Server) {
    define(&server).await;
    let registration = json!({
        "name": "fetch", "toolRef": "load_order", "inputMapping": { "id": "${input.orderId}" }, "outputMapping": { "sum": "${output.id}" },
    });
    server.post("step-registrations", registration).await.expect(201);
    let steps = json!([
        { "name": "a", "handlerRef": "fetch", "input": { "orderId": "7" } },
        { "name": "b", "handlerRef": "quantum.flow.transform", "input": "${a.sum}", "dependsOn": ["a"] },
    ]);
    assert_eq!(issues(&server, steps.clone()).await.0, Vec::<String>::new());
    server.post("workflows", json!({ "refName": "w", "steps": steps })).await.expect(201);
    let run = server.post("workflows/w/execute", json!({})).await.expect(200);
    assert_eq!(run["output"], json!({ "b": "7" }), "{run}");
    let runs = server.get(&format!("runs/{}", run["runId"].as_str().unwrap())).await.expect(200);
    assert_eq!(runs["toolCalls"][0]["input"], json!({ "id": "7" }), "{runs}");
    server.patch("step-registrations/fetch", json!({ "enabled": false })).await.expect(200);
    assert_eq!(issues(&server, steps).await.0, ["error unknown_tool /steps/0/handlerRef"]);
}

async fn saved_workflow_is_warned_of_a_tool_that_is_deprecated_later(server: Server) {
    server.define_echo("lookup", json!({})).await;
    let steps = json!([{ "name": "a", "handlerRef": "lookup" }]);
    server.post("workflows", json!({ "refName": "w", "steps": steps })).await.expect(201);
    server.patch("tools/lookup", json!({ "status": "deprecated" })).await.expect(200);
    let check = server.post("workflows/w/check", json!({})).await.expect(200);
    assert_eq!((&check["valid"], &check["issues"][0]["code"]), (&json!(true), &json!("deprecated_tool")));
    server.patch("tools/lookup", json!({ "status": "blocked" })).await.expect(200);
    let check = server.post("workflows/w/check", json!({})).await.expect(200);
    assert_eq!((&check["valid"], &check["issues"][0]["code"]), (&json!(false), &json!("blocked_tool")));
}
