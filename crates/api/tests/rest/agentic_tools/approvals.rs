//! Approvals inside agentic tools: of calls and of plans.

use serde_json::json;

use super::{PATH, deterministic, plan_then};
use crate::harness::Server;

crate::on_both_databases!(invocation_waits_for_the_approval_of_a_call_and_then_has_a_result);
crate::on_sqlite!(
    plan_waits_for_its_approval_and_can_be_edited,
    denied_plan_ends_the_execution,
    agent_waits_for_an_approval_inside_an_agentic_tool
);

async fn invocation_waits_for_the_approval_of_a_call_and_then_has_a_result(server: Server) {
    server.define_echo("pay", json!({ "sideEffects": "writes", "requiresConfirmation": true })).await;
    let plan = plan_then(json!([{ "step": 1, "parameters": { "amount": 5 } }]), "paid");
    server.define_agentic_tool(deterministic("m", &["pay"], plan), json!({})).await;
    let body = json!({ "tool": "m", "params": { "task": "pay" } });
    let waiting = server.post(&format!("{PATH}/invoke"), body).await.expect(202);
    assert_eq!((&waiting["success"], &waiting["status"]), (&json!(false), &json!("AWAITING_APPROVAL")), "{waiting}");
    let approval = &waiting["approvals"][0];
    assert_eq!((&approval["toolRef"], &approval["input"]), (&json!("pay"), &json!({ "amount": 5 })));
    assert_eq!(approval["runId"], waiting["meta"]["executionId"]);
    let execution = server.execution("m", &waiting).await;
    assert_eq!((&execution["status"], &execution["runStatus"]), (&json!("running"), &json!("AWAITING_APPROVAL")));
    let listed = server.get("approvals").await.expect(200);
    assert_eq!(listed["items"].as_array().unwrap().len(), 1, "{listed}");

    let decided = server.decide(&waiting, 0, json!({ "decision": "approve" })).await.expect(200);
    assert_eq!(decided["status"], "COMPLETED", "{decided}");
    let execution = server.execution("m", &waiting).await;
    assert_eq!((&execution["status"], &execution["result"]), (&json!("success"), &json!({ "summary": "paid" })));
    assert_eq!(execution["toolCalls"].as_array().unwrap().len(), 1);
}

async fn plan_waits_for_its_approval_and_can_be_edited(server: Server) {
    server.define_echo("save", json!({ "sideEffects": "writes" })).await;
    let plan = plan_then(json!([{ "step": 1, "parameters": { "stage": "won" } }]), "saved");
    server.define_agentic_tool(deterministic("m", &["save"], plan), json!({ "requiresPlanApproval": true })).await;
    let body = json!({ "tool": "m", "params": { "task": "save" } });
    let waiting = server.post(&format!("{PATH}/invoke"), body).await.expect(202);
    let approval = &waiting["approvals"][0];
    assert_eq!(approval["input"]["steps"][0]["parameters"], json!({ "stage": "won" }), "{waiting}");
    let execution = server.execution("m", &waiting).await;
    assert_eq!(execution["executionPlan"], approval["input"], "{execution}");
    assert_eq!(execution["approvals"][0]["callId"], approval["callId"], "{execution}");
    let rerun = format!("{PATH}/m/executions/{}/rerun", execution["id"].as_str().unwrap());
    let problem = server.post(&rerun, json!({})).await.problem(400, "invalid-request");
    assert!(problem["detail"].as_str().unwrap().contains("the plan waits for its approval"), "{problem}");
    let edited = json!({ "steps": [{ "step": 1, "parameters": { "stage": "lost" } }] });
    let decided = server.decide(&waiting, 0, json!({ "decision": "edit", "input": edited })).await.expect(200);
    assert_eq!(decided["status"], "COMPLETED", "{decided}");
    let execution = server.execution("m", &waiting).await;
    let saved = execution["toolCalls"].as_array().unwrap().iter().find(|call| call["actionSlug"] == "save").unwrap();
    assert_eq!(saved["parameters"], json!({ "stage": "lost" }));
    assert_eq!(execution["executionPlan"]["steps"], edited["steps"]);
    assert_eq!(execution.get("approvals"), None, "{execution}");
}

async fn denied_plan_ends_the_execution(server: Server) {
    server.define_echo("save", json!({ "sideEffects": "writes" })).await;
    let plan = plan_then(json!([{ "step": 1, "parameters": {} }]), "saved");
    server.define_agentic_tool(deterministic("m", &["save"], plan), json!({ "requiresPlanApproval": true })).await;
    let body = json!({ "tool": "m", "params": { "task": "save" } });
    let waiting = server.post(&format!("{PATH}/invoke"), body).await.expect(202);
    server.decide(&waiting, 0, json!({ "decision": "deny", "reason": "too risky" })).await.expect(200);
    let execution = server.execution("m", &waiting).await;
    assert_eq!((&execution["status"], &execution["error"]["code"]), (&json!("error"), &json!("POLICY_DENIED")));
    assert!(execution["error"]["message"].as_str().unwrap().contains("too risky"), "{execution}");
    assert!(execution["toolCalls"].as_array().unwrap().iter().all(|call| call["actionSlug"] != "save"));
    assert_eq!(execution["executionPlan"]["steps"], json!([{ "step": 1, "parameters": {} }]), "{execution}");
    let rerun = format!("{PATH}/m/executions/{}/rerun", execution["id"].as_str().unwrap());
    let problem = server.post(&rerun, json!({})).await.problem(400, "invalid-request");
    assert!(problem["detail"].as_str().unwrap().contains("the plan was not approved"), "{problem}");
}

async fn agent_waits_for_an_approval_inside_an_agentic_tool(server: Server) {
    server.define_echo("pay", json!({ "sideEffects": "writes", "requiresConfirmation": true })).await;
    let plan = plan_then(json!([{ "step": 1, "parameters": {} }]), "paid");
    server.define_agentic_tool(deterministic("payer", &["pay"], plan), json!({ "durable": true })).await;
    let rules = json!([
        { "when": { "turn": 0 }, "reply": { "toolCalls": [{ "name": "payer", "arguments": { "task": "pay" } }] } },
        { "reply": { "text": "The tool says: {{result/summary}}" } },
    ]);
    server.define_agent("boss", rules, json!({ "toolRefs": ["payer"], "executionConfig": { "durable": true } })).await;
    let waiting = server.run("boss", "go").await;
    assert_eq!(waiting["status"], "AWAITING_APPROVAL", "{waiting}");
    server.decide(&waiting, 0, json!({ "decision": "approve" })).await.expect(200);
    let path = format!("runs/{}", waiting["runId"].as_str().unwrap());
    let done = server.poll_until(&path, |run| run["status"] == "COMPLETED").await;
    assert_eq!(done["responseText"], "The tool says: paid");
}
