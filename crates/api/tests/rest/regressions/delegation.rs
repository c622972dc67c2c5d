//! Regression tests for delegates that wait, are cancelled or use up the limits of their caller.

use serde_json::{Value, json};

use super::{delegate_call, str_field};
use crate::harness::{Deployment, Server, Storage, calls_then, envelopes, merge};

crate::on_both_databases!(first_call_of_a_run_can_start_a_delegate,);
crate::on_sqlite!(
    cancelling_a_run_cancels_its_waiting_delegate,
    approval_of_a_delegate_is_rejected_after_its_caller_was_cancelled,
    time_that_a_delegate_waits_for_approval_does_not_count_toward_the_timeout_of_its_caller,
    calls_of_delegates_count_toward_the_call_limit_of_their_caller,
    run_has_status_awaiting_client_while_its_delegate_waits_for_the_client,
);

/// The row of the calling run is stored asynchronously, so its first call may start a delegate before the row exists.
async fn first_call_of_a_run_can_start_a_delegate(server: Server) {
    server.define_agent("helper", json!([{ "reply": { "text": "Helped." } }]), json!({})).await;
    let rules = calls_then(json!([delegate_call("helper")]), "Told: {{result/responseText}}");
    server.define_agent("boss", rules, json!({ "delegateAgentRefs": ["helper"] })).await;
    let response = server.run("boss", "go").await;
    assert_eq!(response["responseText"], "Told: Helped.", "{}", envelopes(&response)[0]["error"]);
}

async fn define_clerk_and_boss(server: &Server, boss: Value) {
    server.define_echo("pay", json!({ "sideEffects": "writes", "requiresConfirmation": true })).await;
    server.define_agent("clerk", calls_then(json!([{ "name": "pay" }]), "Paid."), json!({ "toolRefs": ["pay"] })).await;
    let agent = merge(json!({ "delegateAgentRefs": ["clerk"], "executionConfig": { "durable": true } }), boss);
    server.define_agent("boss", calls_then(json!([delegate_call("clerk")]), "Done."), agent).await;
}

/// Starts a run of `boss` and waits until its delegate `clerk` needs an approval. Returns the run id of `boss` and the
/// pending approvals.
async fn start_until_approval(server: &Server) -> (String, Value) {
    let mut stream = server.start_stream("boss", "go").await;
    let run = str_field(&stream.wait_for("TOOL_CALL_START").await.data, "runId").to_owned();
    let pending = server.poll_until("approvals", |page| page["items"] != json!([])).await;
    (run, json!({ "approvals": pending["items"] }))
}

async fn cancelling_a_run_cancels_its_waiting_delegate(server: Server) {
    define_clerk_and_boss(&server, json!({})).await;
    let (run, pending) = start_until_approval(&server).await;
    server.post(&format!("runs/{run}/cancel"), json!({})).await.expect(200);
    let child = format!("runs/{}", str_field(&pending["approvals"][0], "runId"));
    server.poll_until(&child, |child| child["status"] == "CANCELLED").await;
}

async fn approval_of_a_delegate_is_rejected_after_its_caller_was_cancelled(server: Server) {
    define_clerk_and_boss(&server, json!({})).await;
    let (run, pending) = start_until_approval(&server).await;
    server.post(&format!("runs/{run}/cancel"), json!({})).await.expect(200);
    let answer = server.decide(&pending, 0, json!({ "decision": "approve" })).await;
    assert_eq!(answer.status.as_u16(), 409, "the caller was cancelled: {}", answer.text);
}

async fn time_that_a_delegate_waits_for_approval_does_not_count_toward_the_timeout_of_its_caller(server: Server) {
    define_clerk_and_boss(&server, json!({ "executionConfig": { "durable": true, "timeoutSeconds": 1 } })).await;
    let mut stream = server.start_stream("boss", "go").await;
    stream.wait_for("TOOL_CALL_START").await;
    let pending = server.poll_until("approvals", |page| page["items"] != json!([])).await;
    let ended = tokio::time::timeout(std::time::Duration::from_secs(3), stream.wait_for("DONE")).await;
    assert!(ended.is_err(), "the run ended while the approval was pending: {}", ended.unwrap().data);
    server.decide(&json!({ "approvals": pending["items"] }), 0, json!({ "decision": "approve" })).await.expect(200);
    assert_eq!(stream.wait_for("DONE").await.data["status"], "COMPLETED");
}

async fn calls_of_delegates_count_toward_the_call_limit_of_their_caller(server: Server) {
    server.define_echo("look", json!({})).await;
    let calls: Vec<Value> = (0..9).map(|n| json!({ "name": "look", "arguments": { "n": n } })).collect();
    server.define_agent("busy", calls_then(json!(calls), "Done."), json!({ "toolRefs": ["look"] })).await;
    let rules = json!([
        { "when": { "turn": 0 }, "reply": { "toolCalls": [{ "name": "busy", "arguments": { "task": "a" } }] } },
        { "when": { "turn": 1 }, "reply": { "toolCalls": [{ "name": "busy", "arguments": { "task": "b" } }] } },
        { "when": { "turn": 2 }, "reply": { "toolCalls": [{ "name": "busy", "arguments": { "task": "c" } }] } },
        { "reply": { "text": "Done." } }
    ]);
    let agent = json!({ "delegateAgentRefs": ["busy"], "policy": { "maxToolCalls": 4 }, "executionConfig": { "durable": true } });
    server.define_agent("boss", rules, agent).await;
    let response = server.run("boss", "go").await;
    let mut succeeded = envelopes(&response).iter().filter(|envelope| envelope["error"].is_null()).count();
    let children = server.get(&format!("runs?parentRunId={}", str_field(&response, "runId"))).await.expect(200);
    for child in children["items"].as_array().unwrap() {
        let child = server.get(&format!("runs/{}", str_field(child, "id"))).await.expect(200);
        succeeded += envelopes(&child).iter().filter(|envelope| envelope["error"].is_null()).count();
    }
    assert!(succeeded <= 4, "the limit is 4 calls, got {succeeded}");
}

async fn run_has_status_awaiting_client_while_its_delegate_waits_for_the_client(server: Server) {
    server.define_echo("open", json!({ "isToolFullyExecutedOnServer": false })).await;
    server
        .define_agent("reader", calls_then(json!([{ "name": "open" }]), "Read."), json!({ "toolRefs": ["open"] }))
        .await;
    let agent = json!({ "delegateAgentRefs": ["reader"], "executionConfig": { "durable": true, "timeoutSeconds": 2 } });
    server.define_agent("boss", calls_then(json!([delegate_call("reader")]), "Done."), agent).await;
    let response = server.run("boss", "go").await;
    assert_eq!(response["status"], "AWAITING_CLIENT", "{response}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn waiting_caller_and_delegate_complete_after_a_server_restart() {
    let deployment = Deployment::new(Storage::Sqlite).await;
    let (server, running) = deployment.start().await;
    define_clerk_and_boss(&server, json!({})).await;
    let (run, pending) = start_until_approval(&server).await;
    server.poll_until(&format!("runs/{run}"), |boss| boss["status"] == "AWAITING_APPROVAL").await;
    running.stop().await;
    let (server, running) = deployment.start().await;
    server.decide(&pending, 0, json!({ "decision": "approve" })).await.expect(200);
    let boss = server.poll_until(&format!("runs/{run}"), |boss| boss["status"] == "COMPLETED").await;
    running.stop().await;
    deployment.remove().await;
    assert_eq!(boss["responseText"], "Done.", "{boss}");
}
