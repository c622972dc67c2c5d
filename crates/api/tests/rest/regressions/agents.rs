//! Regression tests for approvals, pins and agent definitions.

use futures::future::join_all;
use serde_json::{Value, json};
use toolwright_testkit::{Faults, LOOPBACK};

use super::str_field;
use crate::harness::{Deployment, Server, Storage, calls_then, envelopes, error_reasons};

crate::on_sqlite!(
    approved_call_does_not_use_a_definition_that_changed_after_the_approval,
    decided_approval_is_no_longer_listed_as_pending,
    missing_pin_does_not_fail_a_waiting_run,
    run_with_a_missing_pin_has_the_same_status_in_response_and_run_list_and_event_stream,
    sequential_call_starts_after_the_previous_call_ended,
    malformed_arguments_are_reported_to_the_model,
    stale_pin_is_found_after_51_runs_of_another_principal,
    credentials_in_a_model_url_are_rejected,
    cost_guardrail_with_a_limit_of_0_or_less_is_rejected,
    fallback_model_of_an_unknown_provider_is_rejected,
    tool_found_by_search_is_offered_even_if_max_tools_in_context_is_reached,
    run_with_a_prompt_over_the_size_limit_is_rejected,
    approval_of_a_run_whose_agent_is_disabled_is_rejected,
);

async fn approved_call_does_not_use_a_definition_that_changed_after_the_approval(server: Server) {
    let faults = Faults::builder().start(LOOPBACK).await.unwrap();
    server.define_http_tool("wait", &faults.base_url(), "/slow/1500", json!({ "requiresConfirmation": true })).await;
    server.define_http_tool("pay", &faults.base_url(), "/count/little", json!({ "requiresConfirmation": true })).await;
    let agent = json!({ "toolRefs": ["wait", "pay"], "executionConfig": { "parallelToolCalls": false } });
    server.define_agent("a", calls_then(json!([{ "name": "wait" }, { "name": "pay" }]), "Done."), agent).await;
    let waiting = server.run("a", "go").await;
    for approval in waiting["approvals"].as_array().unwrap() {
        let path =
            format!("runs/{}/approvals/{}?wait=false", str_field(approval, "runId"), str_field(approval, "callId"));
        server.post(&path, json!({ "decision": "approve" })).await.expect(202);
    }
    // Both calls are approved, and `pay` waits until `wait` has ended. The definition of `pay` changes in the meantime.
    let mut stream = server.open_stream(server.watch_request(str_field(&waiting, "runId"), None)).await;
    stream.wait_for("TOOL_CALL_START").await;
    server.patch("tools/pay", json!({ "invocation": { "path": "/count/all_there_is" } })).await.expect(200);
    stream.wait_for("DONE").await;
    let response = server.get(&format!("runs/{}", str_field(&waiting, "runId"))).await.expect(200);
    let hits = faults.hits("/count/all_there_is");
    faults.shutdown().await;
    assert_eq!(hits, 0, "the changed definition was not approved: {:?}", error_reasons(&response));
}

async fn decided_approval_is_no_longer_listed_as_pending(server: Server) {
    let faults = Faults::builder().start(LOOPBACK).await.unwrap();
    server.define_http_tool("wait", &faults.base_url(), "/slow/60000", json!({ "requiresConfirmation": true })).await;
    server.define_agent("a", calls_then(json!([{ "name": "wait" }]), "Done."), json!({ "toolRefs": ["wait"] })).await;
    let waiting = server.run("a", "go").await;
    let mut stream = server.open_stream(server.watch_request(str_field(&waiting, "runId"), None)).await;
    let approval = &waiting["approvals"][0];
    let path = format!("runs/{}/approvals/{}?wait=false", str_field(approval, "runId"), str_field(approval, "callId"));
    server.post(&path, json!({ "decision": "approve" })).await.expect(202);
    stream.wait_for("TOOL_CALL_START").await;
    let one = server.get(&format!("runs/{}", str_field(&waiting, "runId"))).await.expect(200)["status"].clone();
    server.poll_until("approvals", |approvals| approvals["items"] == json!([])).await;
    let listed = server.get("runs").await.expect(200)["items"][0]["status"].clone();
    faults.shutdown().await;
    assert_eq!(listed, one, "the list shows the status of the run");
}

async fn missing_pin_does_not_fail_a_waiting_run(server: Server) {
    server.define_echo("pay", json!({ "requiresConfirmation": true })).await;
    let pins = json!([{ "name": "p", "selector": { "tool": "pay" }, "on_missing": "error" }]);
    server
        .define_agent(
            "a",
            calls_then(json!([{ "name": "pay" }]), "Done."),
            json!({ "toolRefs": ["pay"], "pins": pins }),
        )
        .await;
    let waiting = server.run("a", "go").await;
    assert_eq!(waiting["status"], "AWAITING_APPROVAL", "{waiting}");
}

async fn run_with_a_missing_pin_has_the_same_status_in_response_and_run_list_and_event_stream(server: Server) {
    let pins = json!([{ "name": "p", "selector": { "tool": "pay" }, "on_missing": "error" }]);
    server.define_agent("a", json!([{ "reply": { "text": "Done." } }]), json!({ "pins": pins })).await;
    let response = server.run("a", "go").await;
    let listed = &server.get("runs").await.expect(200)["items"][0];
    assert_eq!((&listed["status"], &listed["reason"]), (&response["status"], &response["reason"]));
    let events = server.events(str_field(&response, "runId"), None).await;
    assert_eq!(events.last().unwrap().data["status"], response["status"]);
}

async fn sequential_call_starts_after_the_previous_call_ended(server: Server) {
    let faults = Faults::builder().start(LOOPBACK).await.unwrap();
    server.define_http_tool("wait", &faults.base_url(), "/slow/${param.ms}", json!({})).await;
    let calls = json!([{ "name": "wait", "arguments": { "ms": 800 } }, { "name": "wait", "arguments": { "ms": 1 } }]);
    let agent = json!({ "toolRefs": ["wait"], "executionConfig": { "parallelToolCalls": false } });
    server.define_agent("a", calls_then(calls, "Done."), agent).await;
    let response = server.run("a", "go").await;
    faults.shutdown().await;
    let envelopes = envelopes(&response);
    assert!(
        str_field(&envelopes[1], "t_start") >= str_field(&envelopes[0], "t_end"),
        "the calls are sequential: {envelopes:?}"
    );
}

async fn malformed_arguments_are_reported_to_the_model(server: Server) {
    let schema = json!({ "type": "object", "properties": { "n": { "type": "integer" } } });
    server.define_echo("number", json!({ "inputJsonSchema": schema })).await;
    let call = json!([{ "name": "number", "rawArguments": "{\"n\": 1" }]);
    server.define_agent("a", calls_then(call, "{{result}}"), json!({ "toolRefs": ["number"] })).await;
    let response = server.run("a", "go").await;
    assert_eq!(error_reasons(&response), ["malformed_json"], "{}", response["responseText"]);
}

async fn stale_pin_is_found_after_51_runs_of_another_principal(server: Server) {
    server.define_echo("look", json!({})).await;
    let rules = json!([{ "when": { "user": "look", "turn": 0 }, "reply": { "toolCalls": [{ "name": "look" }] } }, { "reply": { "text": "Done." } }]);
    let pins = json!([{ "name": "p", "selector": { "tool": "look" }, "on_missing": "stale_last_success" }]);
    server.define_agent("a", rules, json!({ "toolRefs": ["look"], "pins": pins })).await;
    let north = server.member("north").await;
    north.run("a", "look").await;
    assert_ne!(north.run("a", "hi").await["pins"]["p"], Value::Null, "before other principals run the agent");
    join_all((0..51).map(|_| server.run("a", "hi"))).await;
    assert_ne!(north.run("a", "hi").await["pins"]["p"], Value::Null, "North's last success is one run ago");
}

async fn credentials_in_a_model_url_are_rejected(server: Server) {
    for base_url in ["https://user:hunter2hunter2@example.com/v1", "https://example.com/v1?api_key=sk-0123456789abcdef"]
    {
        let llm = json!({ "provider": "openai", "model": "gpt-4o", "baseUrl": base_url });
        server.post("agents", json!({ "refName": "a", "llmConfig": llm })).await.problem(422, "invalid-definition");
    }
}

async fn cost_guardrail_with_a_limit_of_0_or_less_is_rejected(server: Server) {
    for limit in [0.0, -1.0] {
        let guardrail = json!([{ "type": "max_cost", "parameters": { "maxCostUsd": limit } }]);
        let agent = json!({ "refName": "a", "llmConfig": { "provider": "openai", "model": "gpt-4o" }, "guardrails": guardrail });
        server.post("agents", agent).await.problem(422, "invalid-definition");
    }
}

async fn fallback_model_of_an_unknown_provider_is_rejected(server: Server) {
    let agent = json!({ "refName": "a", "llmConfig": { "provider": "openai", "model": "gpt-4o" }, "fallbackModel": "antropic/claude-sonnet-4" });
    server.post("agents", agent).await.problem(422, "invalid-definition");
}

async fn tool_found_by_search_is_offered_even_if_max_tools_in_context_is_reached(server: Server) {
    for name in ["one", "two", "invoice"] {
        server.define_echo(name, json!({})).await;
    }
    let rules = json!([
        { "when": { "turn": 0 }, "reply": { "toolCalls": [{ "name": "search_tools", "arguments": { "query": "invoice" } }] } },
        { "when": { "offers": "invoice" }, "reply": { "text": "I see it." } },
        { "reply": { "text": "I see nothing." } }
    ]);
    server.define_agent("a", rules, json!({ "toolRefs": ["one", "two", "invoice"], "maxToolsInContext": 1 })).await;
    assert_eq!(server.run("a", "hi").await["responseText"], "I see it.");
}

async fn run_with_a_prompt_over_the_size_limit_is_rejected(server: Server) {
    let prompt = json!({ "systemPrompt": "{{x}}".repeat(3) });
    server.define_agent("a", json!([{ "reply": { "text": "Read it all." } }]), prompt).await;
    let context = json!({ "x": "x".repeat(500_000) });
    server.execute_agent("a", json!({ "userMessage": "hi", "context": context })).await.problem(400, "invalid-request");
}

async fn approval_of_a_run_whose_agent_is_disabled_is_rejected(server: Server) {
    server.define_echo("pay", json!({ "requiresConfirmation": true })).await;
    server.define_agent("a", calls_then(json!([{ "name": "pay" }]), "Done."), json!({ "toolRefs": ["pay"] })).await;
    let waiting = server.run("a", "go").await;
    server.patch("agents/a", json!({ "enabled": false })).await.expect(200);
    let answer = server.decide(&waiting, 0, json!({ "decision": "approve" })).await;
    assert_eq!(answer.status.as_u16(), 409, "{}", answer.text);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn run_completed_by_another_server_is_reported_as_completed() {
    let deployment = Deployment::new(Storage::PostgresAndRedis).await;
    let ((here, running_here), (there, running_there)) = (deployment.start().await, deployment.start().await);
    here.define_echo("pay", json!({ "requiresConfirmation": true })).await;
    here.define_agent("a", calls_then(json!([{ "name": "pay" }]), "Done."), json!({ "toolRefs": ["pay"] })).await;
    let waiting = here.run("a", "go").await;
    let run = format!("runs/{}", str_field(&waiting, "runId"));
    let watcher = here.open_stream(here.watch_request(str_field(&waiting, "runId"), None)).await;
    there.decide(&waiting, 0, json!({ "decision": "approve" })).await.expect(200);
    let seen = here.get(&run).await.expect(200)["status"].clone();
    drop(watcher);
    running_here.stop().await;
    running_there.stop().await;
    deployment.remove().await;
    assert_eq!(seen, "COMPLETED");
}
