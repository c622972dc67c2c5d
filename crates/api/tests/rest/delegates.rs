//! Agents that call agents: each call a run of its own, under what the calling run has left.

use serde_json::{Value, json};
use toolwright_testkit::{Faults, LOOPBACK};

use crate::harness::{Server, calls_then, promptly, reasons, receipts, soon, with};

crate::on_both_editions!(a_delegate_runs_in_a_run_of_its_own, cancelling_stops_the_runs_it_started);
crate::on_sqlite!(
    a_delegate_has_the_share_of_what_is_left,
    tokens_of_a_delegate_count,
    nobody_gets_rid_of_a_guardrail_by_delegating,
    delegation_ends_somewhere,
    a_delegate_that_fails_is_told_to_the_caller,
    an_approval_within_a_delegate_can_be_given,
    a_delegate_acts_for_whoever_runs_its_caller,
    only_agents_call_delegates
);

/// What makes a run commit each step, so that the runs it starts find it in the store.
fn durable() -> Value {
    json!({ "executionConfig": { "durable": true } })
}

fn ask(agent: &str, task: &str) -> Value {
    json!({ "name": agent, "arguments": { "task": task } })
}

/// An agent that asks these agents in one reply, and tells the last result.
async fn define_boss(server: &Server, asks: Value, more: Value) {
    let mut names: Vec<Value> = asks.as_array().unwrap().iter().map(|ask| ask["name"].clone()).collect();
    names.dedup();
    let agent = with(with(durable(), json!({ "delegateAgentRefs": names })), more);
    server.define_agent("boss", calls_then(asks, "Told: {{result/responseText}}"), agent).await;
}

async fn children(server: &Server, response: &Value) -> Vec<Value> {
    let path = format!("runs?parentRunId={}", response["runId"].as_str().unwrap());
    server.get(&path).await.expect(200)["items"].as_array().unwrap().clone()
}

async fn whole(server: &Server, run: &Value) -> Value {
    server.get(&format!("runs/{}", run["id"].as_str().unwrap())).await.expect(200)
}

async fn a_delegate_runs_in_a_run_of_its_own(server: Server) {
    server.define_echo("look", json!({})).await;
    let rules = calls_then(json!([{ "name": "look", "arguments": { "at": "{{user}}" } }]), "I saw {{result/at}}.");
    server.define_agent("scout", rules, json!({ "toolRefs": ["look"], "description": "Looks at things." })).await;
    define_boss(&server, json!([ask("scout", "Rome")]), json!({})).await;
    let response = server.run("boss", "go").await;
    assert_eq!(response["responseText"], "Told: I saw Rome.", "{response}");
    let receipt = &receipts(&response)[0];
    let children = children(&server, &response).await;
    assert_eq!(children.len(), 1);
    let child = &children[0];
    assert_eq!((&child["id"], &child["parentRunId"]), (&receipt["output"]["runId"], &response["runId"]));
    assert_eq!((&child["subject"], &child["status"]), (&json!("scout"), &json!("COMPLETED")));
    assert_eq!(child["conversationId"], Value::Null, "a part of a run is no conversation");
    let child = whole(&server, child).await;
    assert_eq!(receipts(&child)[0]["output"], json!({ "at": "Rome" }));
    assert_eq!(receipts(&response).len(), 1, "its calls are its own");
    assert_eq!(server.get("conversations").await.expect(200)["items"].as_array().unwrap().len(), 1);
    // What it is told must be there.
    let rules = calls_then(json!([{ "name": "scout", "arguments": { "job": "x" } }]), "Done.");
    server.define_agent("vague", rules, with(durable(), json!({ "delegateAgentRefs": ["scout"] }))).await;
    let vague = server.run("vague", "go").await;
    assert_eq!(receipts(&vague)[0]["error"]["code"], "VALIDATION_ERROR");
}

async fn a_delegate_has_the_share_of_what_is_left(server: Server) {
    server.define_echo("look", json!({})).await;
    let calls: Vec<Value> = (0..9).map(|n| json!({ "name": "look", "arguments": { "n": n } })).collect();
    server.define_agent("busy", calls_then(json!(calls), "Done."), json!({ "toolRefs": ["look"] })).await;
    // Two calls of eight are the delegates; each gets half of the six that are left.
    define_boss(&server, json!([ask("busy", "a"), ask("busy", "b")]), json!({ "policy": { "maxToolCalls": 8 } })).await;
    let response = server.run("boss", "go").await;
    assert_eq!(response["status"], "COMPLETED", "{response}");
    for child in children(&server, &response).await {
        assert_eq!(
            (&child["status"], &child["reason"]),
            (&json!("BUDGET_EXCEEDED"), &json!("MAX_TOOL_CALLS_EXCEEDED"))
        );
        let made = receipts(&whole(&server, &child).await).iter().filter(|receipt| receipt["error"].is_null()).count();
        assert_eq!(made, 3);
    }
    assert_eq!(receipts(&response)[0]["output"]["status"], "BUDGET_EXCEEDED", "the caller is told");
}

async fn tokens_of_a_delegate_count(server: Server) {
    let reply = json!([{ "reply": { "text": "Done.", "usage": { "inputTokens": 900, "outputTokens": 100 } } }]);
    server.define_agent("wordy", reply, json!({})).await;
    let rules = json!([
        { "when": { "turn": 0 }, "reply": { "toolCalls": [ask("wordy", "a")], "usage": { "inputTokens": 5, "outputTokens": 5 } } },
        { "reply": { "text": "Fine.", "usage": { "inputTokens": 5, "outputTokens": 5 } } }
    ]);
    for (name, limit, status) in [("open", 2000, "COMPLETED"), ("tight", 1000, "BUDGET_EXCEEDED")] {
        let agent = with(durable(), json!({ "delegateAgentRefs": ["wordy"], "policy": { "maxTokens": limit } }));
        server.define_agent(name, rules.clone(), agent).await;
        let response = server.run(name, "go").await;
        assert_eq!(response["status"], status, "{name}: {response}");
        assert_eq!(response["tokensUsed"], if name == "open" { 1020 } else { 1010 }, "{name}");
    }
}

async fn nobody_gets_rid_of_a_guardrail_by_delegating(server: Server) {
    server.define_echo("look", json!({})).await;
    server.define_echo("pay", json!({ "sideEffects": "writes" })).await;
    server.define_echo("delete_it", json!({})).await;
    let calls =
        json!([{ "name": "pay" }, { "name": "delete_it" }, { "name": "look", "arguments": { "text": "a secret" } }]);
    server.define_agent("free", calls_then(calls, "Done."), json!({ "toolRefs": ["look", "pay", "delete_it"] })).await;
    let rails = json!({ "policy": { "sideEffects": "reads" }, "guardrails": [{ "type": "no_delete" }, { "type": "content_filter", "parameters": { "words": ["secret"] } }] });
    define_boss(&server, json!([ask("free", "go")]), rails).await;
    let response = server.run("boss", "go").await;
    let child = whole(&server, &children(&server, &response).await[0]).await;
    assert_eq!(reasons(&child), ["side_effects", "no_delete", "content_filter"], "{child}");
    // By itself it may.
    assert_eq!(reasons(&server.run("free", "go").await), vec![Value::Null; 3]);
}

async fn delegation_ends_somewhere(server: Server) {
    let rules = calls_then(json!([ask("again", "once more")]), "Enough: {{result}}");
    server.define_agent("again", rules, with(durable(), json!({ "delegateAgentRefs": ["again"] }))).await;
    let response = soon(server.run("again", "go")).await;
    assert_eq!(response["status"], "COMPLETED", "{response}");
    let runs = server.get("runs?agentRef=again&limit=100").await.expect(200)["items"].as_array().unwrap().clone();
    assert_eq!(runs.len(), 6, "five times in a row, and no more");
    let mut deepest = Vec::new();
    for run in &runs {
        deepest.extend(reasons(&whole(&server, run).await).into_iter().filter(|reason| !reason.is_null()));
    }
    assert_eq!(deepest, ["too_deep"]);
    // Nor do two agents ask each other for ever.
    let rules = |other: &str| calls_then(json!([ask(other, "your turn")]), "Enough.");
    server.define_agent("ping", rules("pong"), with(durable(), json!({ "delegateAgentRefs": ["pong"] }))).await;
    server.define_agent("pong", rules("ping"), with(durable(), json!({ "delegateAgentRefs": ["ping"] }))).await;
    assert_eq!(soon(server.run("ping", "go")).await["status"], "COMPLETED");
}

async fn a_delegate_that_fails_is_told_to_the_caller(server: Server) {
    server.define_agent("broken", json!([{ "error": { "kind": "auth", "message": "no key" } }]), json!({})).await;
    let rules = calls_then(json!([ask("broken", "x")]), "Told: {{result}}");
    server.define_agent("boss", rules, with(durable(), json!({ "delegateAgentRefs": ["broken"] }))).await;
    let response = server.run("boss", "go").await;
    assert_eq!(response["status"], "COMPLETED");
    let error = &receipts(&response)[0]["error"];
    assert_eq!((&error["code"], &error["details"]["reason"]), (&json!("UNKNOWN"), &json!("delegate")));
    assert!(response["responseText"].as_str().unwrap().contains("no key"), "{response}");
    // Switched off, it is no tool.
    server.patch("agents/broken", json!({ "enabled": false })).await.expect(200);
    assert_eq!(reasons(&server.run("boss", "go").await), ["unknown_tool"]);
}

async fn an_approval_within_a_delegate_can_be_given(server: Server) {
    server.define_echo("pay", json!({ "sideEffects": "writes" })).await;
    server.define_agent("clerk", calls_then(json!([{ "name": "pay" }]), "Paid."), json!({ "toolRefs": ["pay"] })).await;
    // It is the caller that wants to be asked.
    define_boss(&server, json!([ask("clerk", "pay")]), json!({ "requiresApproval": true })).await;
    let mut stream = server.start("boss", "go").await;
    stream.until("TOOL_CALL_START").await;
    let pending = server.until("approvals", |page| page["items"] != json!([])).await;
    let asked = &pending["items"][0];
    assert_eq!((&asked["agentRef"], &asked["because"]), (&json!("clerk"), &json!(["agent"])), "{asked}");
    let response = json!({ "approvals": pending["items"] });
    let child = server.decide(&response, 0, json!({ "decision": "approve" })).await.expect(200);
    assert_eq!(child["status"], "COMPLETED");
    assert_eq!(stream.until("DONE").await.data["content"], "Told: Paid.");
}

async fn cancelling_stops_the_runs_it_started(server: Server) {
    let faults = Faults::builder().start(LOOPBACK).await.unwrap();
    server.define_call("wait", &faults.base_url(), "/slow/60000", json!({})).await;
    server
        .define_agent("slow", calls_then(json!([{ "name": "wait" }]), "Done."), json!({ "toolRefs": ["wait"] }))
        .await;
    define_boss(&server, json!([ask("slow", "a"), ask("slow", "b")]), json!({})).await;
    let mut stream = server.start("boss", "go").await;
    let started = stream.until("TOOL_CALL_START").await;
    let run = started.data["runId"].as_str().unwrap();
    let path = format!("runs?parentRunId={run}");
    server.until(&path, |page| page["items"].as_array().unwrap().len() == 2).await;
    let response = promptly(server.post(&format!("runs/{run}/cancel"), json!({}))).await.expect(200);
    assert_eq!(response["status"], "CANCELLED");
    let ended = |page: &Value| page["items"].as_array().unwrap().iter().all(|child| child["status"] == "CANCELLED");
    promptly(server.until(&path, ended)).await;
    faults.shutdown().await;
}

async fn a_delegate_acts_for_whoever_runs_its_caller(server: Server) {
    server.define_echo("look", json!({})).await;
    server.member("robot").await;
    let rules = calls_then(json!([{ "name": "look" }]), "Done.");
    server.define_agent("plain", rules.clone(), json!({ "toolRefs": ["look"] })).await;
    server.define_agent("service", rules, json!({ "toolRefs": ["look"], "principalRef": "robot" })).await;
    define_boss(&server, json!([ask("plain", "x"), ask("service", "x")]), json!({})).await;
    let (north, south) = (server.member("north").await, server.member("south").await);
    let response = north.run("boss", "go").await;
    for child in children(&north, &response).await {
        let principal = if child["subject"] == "plain" { "north" } else { "robot" };
        assert_eq!(receipts(&whole(&north, &child).await)[0]["metadata"]["principal"], principal, "{child}");
        south.get(&format!("runs/{}", child["id"].as_str().unwrap())).await.problem(404, "not-found");
    }
    assert_eq!(children(&north, &response).await.len(), 2, "parts of a run are whose the run is");
}

async fn only_agents_call_delegates(server: Server) {
    server.define_agent("helper", json!([{ "reply": { "text": "Hi." } }]), json!({})).await;
    let rules = calls_then(json!([ask("helper", "x")]), "Done.");
    server.define_agent("alone", rules, json!({})).await;
    assert_eq!(receipts(&server.run("alone", "go").await)[0]["error"]["code"], "POLICY_DENIED");
    server.post("tools/helper/execute", json!({ "input": { "task": "x" } })).await.problem(404, "not-found");
}
