//! Tests suspended runs: expiry, server restarts and several servers.

use std::time::Duration;

use futures::future::join_all;
use serde_json::{Value, json};
use toolwright_engine::Options;
use toolwright_testkit::{Faults, LOOPBACK};

use super::{
    client_results, define_agent_with_approval, define_client_agent, open_call, pay_call, return_results, str_field,
    with_deployment,
};
use crate::harness::{Deployment, Server, Storage, calls_then, envelopes, error_reasons, with_timeout};

crate::on_sqlite!(waiting_run_keeps_the_agent_definition_it_started_with);

async fn waiting_run_keeps_the_agent_definition_it_started_with(server: Server) {
    define_agent_with_approval(&server, json!([pay_call(5)])).await;
    let waiting = server.run("a", "go").await;
    let changed = json!({ "llmConfig": crate::harness::scripted_model(json!([{ "reply": { "text": "I am another." } }])), "policy": { "sideEffects": "none" } });
    server.patch("agents/a", changed).await.expect(200);
    let response = server.decide(&waiting, 0, json!({ "decision": "approve" })).await.expect(200);
    assert_eq!(response["responseText"], r#"Told: {"amount":5}"#);
    assert_eq!(server.run("a", "go").await["responseText"], "I am another.");
}

fn short_waits(options: &mut Options) {
    options.agents.approval_wait = Duration::from_millis(300);
    options.agents.client_wait = Duration::from_millis(300);
}

async fn unanswered_approvals_and_client_actions_expire(storage: Storage) {
    with_deployment(storage, |deployment| async move {
        let (server, running) = deployment.start_with(short_waits).await;
        define_client_agent(&server, json!([pay_call(1), open_call("a.rs")])).await;
        let waiting = server.run("a", "go").await;
        let run = format!("runs/{}", str_field(&waiting, "runId"));
        let response = server.poll_until(&run, |run| run["status"] == "COMPLETED").await;
        // The envelopes are in the order in which the calls started or were rejected.
        assert_eq!(error_reasons(&response), ["client_expired", "approval_expired"], "{response}");
        let codes: Vec<Value> = envelopes(&response).iter().map(|envelope| envelope["error"]["code"].clone()).collect();
        assert_eq!(codes, ["TIMEOUT", "POLICY_DENIED"]);
        server.decide(&waiting, 0, json!({ "decision": "approve" })).await.problem(409, "run-ended");
        assert_eq!(server.get("approvals").await.expect(200)["items"], json!([]));
        let decided = server.get("approvals?status=decided").await.expect(200);
        assert_eq!(decided["items"][0]["decision"]["outcome"], "expired", "{decided}");
        running.stop().await;
        deployment.remove().await;
    })
    .await;
}

#[tokio::test]
async fn unanswered_approvals_and_client_actions_expire_on_sqlite() {
    unanswered_approvals_and_client_actions_expire(Storage::Sqlite).await;
}

#[tokio::test]
async fn unanswered_approvals_and_client_actions_expire_on_postgres() {
    unanswered_approvals_and_client_actions_expire(Storage::PostgresAndRedis).await;
}

#[tokio::test]
async fn run_whose_approval_expired_while_no_server_ran_completes_at_the_next_start() {
    with_deployment(Storage::Sqlite, |deployment| async move {
        let (server, running) = deployment.start_with(short_waits).await;
        define_agent_with_approval(&server, json!([pay_call(1)])).await;
        let waiting = server.run("a", "go").await;
        running.stop().await;
        let (server, running) = deployment.start().await;
        let run = format!("runs/{}", str_field(&waiting, "runId"));
        let response = server.poll_until(&run, |run| run["status"] == "COMPLETED").await;
        assert_eq!(error_reasons(&response), ["approval_expired"]);
        running.stop().await;
        deployment.remove().await;
    })
    .await;
}

async fn waiting_run_completes_after_server_restarts(storage: Storage) {
    let restarted = with_deployment(storage, |deployment| async move {
        let (server, running) = deployment.start().await;
        define_client_agent(
            &server,
            json!([pay_call(1), open_call("a.rs"), { "name": "look", "arguments": { "n": 1 } }]),
        )
        .await;
        let waiting = server.run("a", "go").await;
        let cancelled = server.run("a", "again").await;
        let before = server.get(&format!("runs/{}", str_field(&waiting, "runId"))).await.expect(200);
        running.stop().await;
        let (server, running) = deployment.start().await;
        let after = server.get(&format!("runs/{}", str_field(&waiting, "runId"))).await.expect(200);
        assert_eq!(after, before, "a restart does not change the run");
        assert_eq!(server.get("approvals").await.expect(200)["items"].as_array().unwrap().len(), 2);
        let approved = server.decide(&waiting, 0, json!({ "decision": "approve" })).await.expect(200);
        assert_eq!(approved["status"], "AWAITING_CLIENT", "{approved}");
        running.stop().await;
        let (server, running) = deployment.start().await;
        let response =
            return_results(&server, &waiting, client_results(&waiting, &[json!({ "lines": 1 })])).await.expect(200);
        assert_eq!(
            (&response["status"], error_reasons(&response)),
            (&json!("COMPLETED"), vec![Value::Null; 3]),
            "{response}"
        );
        server.decide(&waiting, 0, json!({ "decision": "deny" })).await.problem(409, "run-ended");
        let path = format!("runs/{}/cancel", str_field(&cancelled, "runId"));
        assert_eq!(server.post(&path, json!({})).await.expect(200)["status"], "CANCELLED");
        // The run was driven by three servers in turn. Their events form one stream.
        let events = server.events(str_field(&waiting, "runId"), None).await;
        assert_eq!(events.last().unwrap().kind, "DONE");
        let ids: Vec<u64> = events.iter().filter_map(|event| event.id).collect();
        assert!(ids.is_sorted_by(|a, b| a < b), "{ids:?}");
        running.stop().await;
        deployment.remove().await;
    });
    Box::pin(restarted).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn waiting_run_completes_after_server_restarts_on_sqlite() {
    waiting_run_completes_after_server_restarts(Storage::Sqlite).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn waiting_run_completes_after_server_restarts_on_postgres() {
    waiting_run_completes_after_server_restarts(Storage::PostgresAndRedis).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn run_in_progress_ends_as_interrupted_when_the_server_stops() {
    with_deployment(Storage::Sqlite, |deployment| async move {
        let faults = Faults::builder().start(LOOPBACK).await.unwrap();
        let (server, running) = deployment.start().await;
        server.define_http_tool("wait", &faults.base_url(), "/slow/60000", json!({ "sideEffects": "writes" })).await;
        server
            .define_agent("a", calls_then(json!([{ "name": "wait" }]), "Done."), json!({ "toolRefs": ["wait"] }))
            .await;
        let mut stream = server.start_stream("a", "go").await;
        let started = stream.wait_for("TOOL_CALL_START").await;
        drop(stream);
        with_timeout(running.stop()).await;
        let (server, running) = deployment.start().await;
        let run = server.get(&format!("runs/{}", str_field(&started.data, "runId"))).await.expect(200);
        assert_eq!((&run["status"], &run["reason"]), (&json!("ERROR"), &json!("interrupted")), "{run}");
        let error = &envelopes(&run)[0]["error"];
        assert_eq!(
            (&error["code"], &error["details"]["outcome"]),
            (&json!("UNKNOWN"), &json!("unknown")),
            "the outcome of the interrupted write is unknown"
        );
        // After the interruption, the conversation accepts another message.
        server.patch("agents/a", json!({ "toolRefs": [] })).await.expect(200);
        server.continue_conversation("a", &run["conversationId"], "and now?").await.expect(200);
        running.stop().await;
        deployment.remove().await;
        faults.shutdown().await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn run_with_an_expired_approval_is_resumed_by_only_one_server() {
    let deployment = Deployment::new(Storage::PostgresAndRedis).await;
    let faults = Faults::builder().start(LOOPBACK).await.unwrap();
    let short_approval_wait = |options: &mut Options| options.agents.approval_wait = Duration::from_millis(300);
    let ((here, running_here), (there, running_there)) =
        (deployment.start_with(short_approval_wait).await, deployment.start_with(short_approval_wait).await);
    here.define_echo("pay", json!({ "requiresConfirmation": true })).await;
    here.define_http_tool("tell", &faults.base_url(), "/count/told", json!({ "sideEffects": "writes" })).await;
    let rules = json!([
        { "when": { "turn": 0 }, "reply": { "toolCalls": [{ "name": "pay" }] } },
        { "when": { "turn": 1 }, "reply": { "toolCalls": [{ "name": "tell" }] } },
        { "reply": { "text": "Done." } }
    ]);
    here.define_agent("a", rules, json!({ "toolRefs": ["pay", "tell"] })).await;
    let runs: Vec<Value> = join_all((0..10).map(|_| here.run("a", "go"))).await;
    let ended = |page: &Value| page["items"].as_array().unwrap().iter().all(|run| run["endedAt"].is_string());
    there.poll_until("runs?limit=100", ended).await;
    let mut statuses = Vec::new();
    for run in &runs {
        statuses.push(there.get(&format!("runs/{}", str_field(run, "runId"))).await.expect(200)["status"].clone());
    }
    let hits = faults.hits("/count/told");
    running_here.stop().await;
    running_there.stop().await;
    deployment.remove().await;
    faults.shutdown().await;
    assert_eq!((statuses, hits), (vec![json!("COMPLETED"); 10], 10), "every run completes once");
}
