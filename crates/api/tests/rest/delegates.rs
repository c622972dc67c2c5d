//! Tests delegates: each call to a delegate starts a child run, which has the remaining limits of its caller.

use serde_json::{Value, json};
use toolwright_testkit::{Faults, LOOPBACK};

use crate::harness::{Server, calls_then, envelopes, error_reasons, merge, with_timeout, within_two_seconds};

crate::on_both_databases!(delegate_call_starts_a_child_run, cancelling_a_run_cancels_its_child_runs);
crate::on_sqlite!(
    delegates_share_the_remaining_call_budget,
    tokens_of_a_delegate_count_toward_the_token_limit_of_its_caller,
    delegate_inherits_the_guardrails_of_its_caller,
    recursive_delegation_stops_at_the_depth_limit,
    failed_delegate_is_reported_to_the_model_of_its_caller,
    call_of_a_delegate_waits_for_the_approval_that_its_caller_requires,
    delegate_acts_for_the_principal_of_its_caller,
    delegate_is_callable_only_by_agents_that_list_it
);

/// Makes the runs of an agent durable. A durable run commits every entry, so its child runs find the run in the store.
fn durable_config() -> Value {
    json!({ "executionConfig": { "durable": true } })
}

fn delegate_call(agent: &str, task: &str) -> Value {
    json!({ "name": agent, "arguments": { "task": task } })
}

/// Defines the agent `boss`, which makes the delegate calls `calls` in one reply and answers with the last result.
async fn define_boss_agent(server: &Server, calls: Value, more: Value) {
    let mut names: Vec<Value> = calls.as_array().unwrap().iter().map(|ask| ask["name"].clone()).collect();
    names.dedup();
    let agent = merge(merge(durable_config(), json!({ "delegateAgentRefs": names })), more);
    server.define_agent("boss", calls_then(calls, "Told: {{result/responseText}}"), agent).await;
}

async fn children(server: &Server, response: &Value) -> Vec<Value> {
    let path = format!("runs?parentRunId={}", response["runId"].as_str().unwrap());
    server.get(&path).await.expect(200)["items"].as_array().unwrap().clone()
}

async fn get_run(server: &Server, run: &Value) -> Value {
    server.get(&format!("runs/{}", run["id"].as_str().unwrap())).await.expect(200)
}

async fn delegate_call_starts_a_child_run(server: Server) {
    server.define_echo("look", json!({})).await;
    let rules = calls_then(json!([{ "name": "look", "arguments": { "at": "{{user}}" } }]), "I saw {{result/at}}.");
    server.define_agent("scout", rules, json!({ "toolRefs": ["look"], "description": "Looks at things." })).await;
    define_boss_agent(&server, json!([delegate_call("scout", "Rome")]), json!({})).await;
    let response = server.run("boss", "go").await;
    assert_eq!(response["responseText"], "Told: I saw Rome.", "{response}");
    let envelope = &envelopes(&response)[0];
    let children = children(&server, &response).await;
    assert_eq!(children.len(), 1);
    let child = &children[0];
    assert_eq!((&child["id"], &child["parentRunId"]), (&envelope["output"]["runId"], &response["runId"]));
    assert_eq!((&child["subject"], &child["status"]), (&json!("scout"), &json!("COMPLETED")));
    assert_eq!(child["conversationId"], Value::Null, "a child run has no conversation");
    let child = get_run(&server, child).await;
    assert_eq!(envelopes(&child)[0]["output"], json!({ "at": "Rome" }));
    assert_eq!(envelopes(&response).len(), 1, "calls of the child do not appear in the caller");
    assert_eq!(server.get("conversations").await.expect(200)["items"].as_array().unwrap().len(), 1);
    // A call without the required argument `task` fails.
    let rules = calls_then(json!([{ "name": "scout", "arguments": { "job": "x" } }]), "Done.");
    server.define_agent("vague", rules, merge(durable_config(), json!({ "delegateAgentRefs": ["scout"] }))).await;
    let vague = server.run("vague", "go").await;
    assert_eq!(envelopes(&vague)[0]["error"]["code"], "VALIDATION_ERROR");
}

async fn delegates_share_the_remaining_call_budget(server: Server) {
    server.define_echo("look", json!({})).await;
    let calls: Vec<Value> = (0..9).map(|n| json!({ "name": "look", "arguments": { "n": n } })).collect();
    server.define_agent("busy", calls_then(json!(calls), "Done."), json!({ "toolRefs": ["look"] })).await;
    // The limit is eight calls. The two delegate calls use two of them, and each delegate gets half of the remaining
    // six.
    define_boss_agent(
        &server,
        json!([delegate_call("busy", "a"), delegate_call("busy", "b")]),
        json!({ "policy": { "maxToolCalls": 8 } }),
    )
    .await;
    let response = server.run("boss", "go").await;
    assert_eq!(response["status"], "COMPLETED", "{response}");
    for child in children(&server, &response).await {
        assert_eq!(
            (&child["status"], &child["reason"]),
            (&json!("BUDGET_EXCEEDED"), &json!("MAX_TOOL_CALLS_EXCEEDED"))
        );
        let succeeded =
            envelopes(&get_run(&server, &child).await).iter().filter(|envelope| envelope["error"].is_null()).count();
        assert_eq!(succeeded, 3);
    }
    assert_eq!(
        envelopes(&response)[0]["output"]["status"],
        "BUDGET_EXCEEDED",
        "the caller sees the status of the delegate"
    );
}

async fn tokens_of_a_delegate_count_toward_the_token_limit_of_its_caller(server: Server) {
    let reply = json!([{ "reply": { "text": "Done.", "usage": { "inputTokens": 900, "outputTokens": 100 } } }]);
    server.define_agent("wordy", reply, json!({})).await;
    let rules = json!([
        { "when": { "turn": 0 }, "reply": { "toolCalls": [delegate_call("wordy", "a")], "usage": { "inputTokens": 5, "outputTokens": 5 } } },
        { "reply": { "text": "Fine.", "usage": { "inputTokens": 5, "outputTokens": 5 } } }
    ]);
    for (name, limit, status) in [("open", 2000, "COMPLETED"), ("tight", 1000, "BUDGET_EXCEEDED")] {
        let agent =
            merge(durable_config(), json!({ "delegateAgentRefs": ["wordy"], "policy": { "maxTokens": limit } }));
        server.define_agent(name, rules.clone(), agent).await;
        let response = server.run(name, "go").await;
        assert_eq!(response["status"], status, "{name}: {response}");
        assert_eq!(response["tokensUsed"], if name == "open" { 1020 } else { 1010 }, "{name}");
    }
}

async fn delegate_inherits_the_guardrails_of_its_caller(server: Server) {
    server.define_echo("look", json!({})).await;
    server.define_echo("pay", json!({ "sideEffects": "writes" })).await;
    server.define_echo("delete_it", json!({})).await;
    let calls =
        json!([{ "name": "pay" }, { "name": "delete_it" }, { "name": "look", "arguments": { "text": "a secret" } }]);
    server.define_agent("free", calls_then(calls, "Done."), json!({ "toolRefs": ["look", "pay", "delete_it"] })).await;
    let guardrails = json!({ "policy": { "sideEffects": "reads" }, "guardrails": [{ "type": "no_delete" }, { "type": "content_filter", "parameters": { "words": ["secret"] } }] });
    define_boss_agent(&server, json!([delegate_call("free", "go")]), guardrails).await;
    let response = server.run("boss", "go").await;
    let child = get_run(&server, &children(&server, &response).await[0]).await;
    assert_eq!(error_reasons(&child), ["side_effects", "no_delete", "content_filter"], "{child}");
    // The agent `free` may make the same calls when it is not a delegate.
    assert_eq!(error_reasons(&server.run("free", "go").await), vec![Value::Null; 3]);
}

async fn recursive_delegation_stops_at_the_depth_limit(server: Server) {
    let rules = calls_then(json!([delegate_call("again", "once more")]), "Enough: {{result}}");
    server.define_agent("again", rules, merge(durable_config(), json!({ "delegateAgentRefs": ["again"] }))).await;
    let response = with_timeout(server.run("again", "go")).await;
    assert_eq!(response["status"], "COMPLETED", "{response}");
    let runs = server.get("runs?agentRef=again&limit=100").await.expect(200)["items"].as_array().unwrap().clone();
    assert_eq!(runs.len(), 6, "the depth limit is five child runs");
    let mut deepest = Vec::new();
    for run in &runs {
        deepest.extend(error_reasons(&get_run(&server, run).await).into_iter().filter(|reason| !reason.is_null()));
    }
    assert_eq!(deepest, ["too_deep"]);
    // Two agents that delegate to each other also stop at the limit.
    let rules = |other: &str| calls_then(json!([delegate_call(other, "your turn")]), "Enough.");
    server.define_agent("ping", rules("pong"), merge(durable_config(), json!({ "delegateAgentRefs": ["pong"] }))).await;
    server.define_agent("pong", rules("ping"), merge(durable_config(), json!({ "delegateAgentRefs": ["ping"] }))).await;
    assert_eq!(with_timeout(server.run("ping", "go")).await["status"], "COMPLETED");
}

async fn failed_delegate_is_reported_to_the_model_of_its_caller(server: Server) {
    server.define_agent("broken", json!([{ "error": { "kind": "auth", "message": "no key" } }]), json!({})).await;
    let rules = calls_then(json!([delegate_call("broken", "x")]), "Told: {{result}}");
    server.define_agent("boss", rules, merge(durable_config(), json!({ "delegateAgentRefs": ["broken"] }))).await;
    let response = server.run("boss", "go").await;
    assert_eq!(response["status"], "COMPLETED");
    let error = &envelopes(&response)[0]["error"];
    assert_eq!((&error["code"], &error["details"]["reason"]), (&json!("UNKNOWN"), &json!("delegate")));
    assert!(response["responseText"].as_str().unwrap().contains("no key"), "{response}");
    // A disabled delegate is not offered to the model as a tool.
    server.patch("agents/broken", json!({ "enabled": false })).await.expect(200);
    assert_eq!(error_reasons(&server.run("boss", "go").await), ["unknown_tool"]);
}

async fn call_of_a_delegate_waits_for_the_approval_that_its_caller_requires(server: Server) {
    server.define_echo("pay", json!({ "sideEffects": "writes" })).await;
    server.define_agent("clerk", calls_then(json!([{ "name": "pay" }]), "Paid."), json!({ "toolRefs": ["pay"] })).await;
    // The caller `boss` requires approvals. The delegate `clerk` does not, but it inherits the requirement.
    define_boss_agent(&server, json!([delegate_call("clerk", "pay")]), json!({ "requiresApproval": true })).await;
    let mut stream = server.start_stream("boss", "go").await;
    stream.wait_for("TOOL_CALL_START").await;
    let pending = server.poll_until("approvals", |page| page["items"] != json!([])).await;
    let approval = &pending["items"][0];
    assert_eq!((&approval["agentRef"], &approval["triggers"]), (&json!("clerk"), &json!(["agent"])), "{approval}");
    let response = json!({ "approvals": pending["items"] });
    let child = server.decide(&response, 0, json!({ "decision": "approve" })).await.expect(200);
    assert_eq!(child["status"], "COMPLETED");
    assert_eq!(stream.wait_for("DONE").await.data["content"], "Told: Paid.");
}

async fn cancelling_a_run_cancels_its_child_runs(server: Server) {
    let faults = Faults::builder().start(LOOPBACK).await.unwrap();
    server.define_http_tool("wait", &faults.base_url(), "/slow/60000", json!({})).await;
    server
        .define_agent("slow", calls_then(json!([{ "name": "wait" }]), "Done."), json!({ "toolRefs": ["wait"] }))
        .await;
    define_boss_agent(&server, json!([delegate_call("slow", "a"), delegate_call("slow", "b")]), json!({})).await;
    let mut stream = server.start_stream("boss", "go").await;
    let started = stream.wait_for("TOOL_CALL_START").await;
    let run = started.data["runId"].as_str().unwrap();
    let path = format!("runs?parentRunId={run}");
    server.poll_until(&path, |page| page["items"].as_array().unwrap().len() == 2).await;
    let response = within_two_seconds(server.post(&format!("runs/{run}/cancel"), json!({}))).await.expect(200);
    assert_eq!(response["status"], "CANCELLED");
    let ended = |page: &Value| page["items"].as_array().unwrap().iter().all(|child| child["status"] == "CANCELLED");
    within_two_seconds(server.poll_until(&path, ended)).await;
    faults.shutdown().await;
}

async fn delegate_acts_for_the_principal_of_its_caller(server: Server) {
    server.define_echo("look", json!({})).await;
    server.member("robot").await;
    let rules = calls_then(json!([{ "name": "look" }]), "Done.");
    server.define_agent("plain", rules.clone(), json!({ "toolRefs": ["look"] })).await;
    server.define_agent("service", rules, json!({ "toolRefs": ["look"], "principalRef": "robot" })).await;
    define_boss_agent(&server, json!([delegate_call("plain", "x"), delegate_call("service", "x")]), json!({})).await;
    let (north, south) = (server.member("north").await, server.member("south").await);
    let response = north.run("boss", "go").await;
    for child in children(&north, &response).await {
        let principal = if child["subject"] == "plain" { "north" } else { "robot" };
        assert_eq!(envelopes(&get_run(&north, &child).await)[0]["metadata"]["principal"], principal, "{child}");
        south.get(&format!("runs/{}", child["id"].as_str().unwrap())).await.problem(404, "not-found");
    }
    assert_eq!(children(&north, &response).await.len(), 2, "child runs belong to the owner of the run");
}

async fn delegate_is_callable_only_by_agents_that_list_it(server: Server) {
    server.define_agent("helper", json!([{ "reply": { "text": "Hi." } }]), json!({})).await;
    let rules = calls_then(json!([delegate_call("helper", "x")]), "Done.");
    server.define_agent("alone", rules, json!({})).await;
    assert_eq!(envelopes(&server.run("alone", "go").await)[0]["error"]["code"], "POLICY_DENIED");
    server.post("tools/helper/execute", json!({ "input": { "task": "x" } })).await.problem(404, "not-found");
}
