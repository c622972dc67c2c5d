//! Agents that write workflows.

use serde_json::{Value, json};

use crate::harness::{Server, calls_then, envelopes};

crate::on_both_databases!(
    agent_proposes_a_workflow_and_saves_it_after_a_person_has_confirmed_it,
    proposal_with_mistakes_is_not_saved,
    agent_without_the_right_to_create_workflows_has_no_such_tools,
    run_of_a_principal_without_the_permission_saves_no_workflow
);

fn definition(text: &str) -> Value {
    json!({ "refName": "written", "steps": [{ "name": "say", "handlerRef": "echo", "input": { "text": text } }] })
}

fn call(tool: &str, definition: &Value) -> Value {
    json!({ "name": tool, "arguments": { "definition": definition } })
}

async fn define_author(server: &Server, name: &str, calls: Value, more: Value) {
    let fields = crate::harness::merge(json!({ "canCreateWorkflows": true }), more);
    server.define_agent(name, calls_then(calls, "done"), fields).await;
}

async fn agent_proposes_a_workflow_and_saves_it_after_a_person_has_confirmed_it(server: Server) {
    let calls = json!([call("workflow_propose", &definition("first")), call("workflow_save", &definition("first"))]);
    define_author(&server, "author", calls, json!({})).await;
    let waiting = server.run("author", "write").await;
    assert_eq!(waiting["status"], "AWAITING_APPROVAL", "{waiting}");
    let proposed = &envelopes(&waiting)[0]["output"];
    assert_eq!((&proposed["valid"], &proposed["storedVersion"]), (&json!(true), &Value::Null), "{proposed}");
    assert_eq!(waiting["approvals"][0]["input"]["definition"], definition("first"), "{waiting}");
    server.get("workflows/written").await.problem(404, "not-found");
    let done = server.decide(&waiting, 0, json!({ "decision": "approve" })).await.expect(200);
    assert_eq!(done["status"], "COMPLETED", "{done}");
    let run = server.post("workflows/written/execute", json!({ "input": {} })).await.expect(200);
    assert_eq!(run["output"]["say"]["text"], "first");
    // A proposal for a stored workflow shows what would change.
    define_author(&server, "editor", json!([call("workflow_propose", &definition("second"))]), json!({})).await;
    let output = envelopes(&server.run("editor", "change").await)[0]["output"].clone();
    assert_eq!(output["storedVersion"], "1.0.0");
    assert_eq!(output["changes"]["steps"][0]["name"], "say", "{output}");
    assert_eq!(output["changes"]["steps"][0]["fields"][0]["after"], "second", "{output}");
}

async fn proposal_with_mistakes_is_not_saved(server: Server) {
    let broken =
        json!({ "refName": "written", "steps": [{ "name": "a", "handlerRef": "echo", "dependsOn": ["none"] }] });
    let calls = json!([call("workflow_propose", &broken), call("workflow_save", &broken)]);
    define_author(&server, "author", calls, json!({})).await;
    let waiting = server.run("author", "write").await;
    let proposed = &envelopes(&waiting)[0]["output"];
    assert_eq!((&proposed["valid"], &proposed["issues"][0]["code"]), (&json!(false), &json!("unknown_step")));
    let done = server.decide(&waiting, 0, json!({ "decision": "approve" })).await.expect(200);
    let saved = &envelopes(&done)[1];
    assert_eq!(saved["error"]["details"]["reason"], "invalid_workflow", "{saved}");
    server.get("workflows/written").await.problem(404, "not-found");
}

async fn agent_without_the_right_to_create_workflows_has_no_such_tools(server: Server) {
    let calls = json!([call("workflow_save", &definition("x"))]);
    let more = json!({ "toolRefs": ["workflow_save", "echo"] });
    server.define_agent("plain", calls_then(calls, "done"), more).await;
    let done = server.run("plain", "write").await;
    assert_ne!(envelopes(&done)[0]["error"], Value::Null, "{done}");
    server.get("workflows/written").await.problem(404, "not-found");
}

async fn run_of_a_principal_without_the_permission_saves_no_workflow(server: Server) {
    define_author(&server, "author", json!([call("workflow_save", &definition("x"))]), json!({})).await;
    let member = server.member("writer").await;
    let waiting = member.run("author", "write").await;
    let done = server.decide(&waiting, 0, json!({ "decision": "approve" })).await.expect(200);
    assert_eq!(envelopes(&done)[0]["error"]["code"], "POLICY_DENIED", "{done}");
    server.get("workflows/written").await.problem(404, "not-found");
}
