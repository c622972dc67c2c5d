//! What waits: for how long, across restarts, by which server.

use std::time::Duration;

use futures::future::join_all;
use serde_json::{Value, json};
use toolwright_engine::Options;
use toolwright_testkit::{Faults, LOOPBACK};

use super::{define_asking, define_client, give, open, pay, results, text, with_home};
use crate::harness::{Edition, Home, Server, calls_then, reasons, receipts, soon};

crate::on_sqlite!(a_waiting_run_keeps_what_it_began_with);

async fn a_waiting_run_keeps_what_it_began_with(server: Server) {
    define_asking(&server, json!([pay(5)])).await;
    let waiting = server.run("a", "go").await;
    let changed = json!({ "llmConfig": crate::harness::scripted(json!([{ "reply": { "text": "I am another." } }])), "policy": { "sideEffects": "none" } });
    server.patch("agents/a", changed).await.expect(200);
    let response = server.decide(&waiting, 0, json!({ "decision": "approve" })).await.expect(200);
    assert_eq!(response["responseText"], r#"Told: {"amount":5}"#);
    assert_eq!(server.run("a", "go").await["responseText"], "I am another.");
}

fn impatient(options: &mut Options) {
    options.agents.approval_wait = Duration::from_millis(300);
    options.agents.client_wait = Duration::from_millis(300);
}

async fn what_nobody_answers_expires(edition: Edition) {
    with_home(edition, |home| async move {
        let (server, running) = home.start_with(impatient).await;
        define_client(&server, json!([pay(1), open("a.rs")])).await;
        let waiting = server.run("a", "go").await;
        let run = format!("runs/{}", text(&waiting, "runId"));
        let response = server.until(&run, |run| run["status"] == "COMPLETED").await;
        // In the order they were started or refused.
        assert_eq!(reasons(&response), ["client_expired", "approval_expired"], "{response}");
        let codes: Vec<Value> = receipts(&response).iter().map(|receipt| receipt["error"]["code"].clone()).collect();
        assert_eq!(codes, ["TIMEOUT", "POLICY_DENIED"]);
        server.decide(&waiting, 0, json!({ "decision": "approve" })).await.problem(409, "run-ended");
        assert_eq!(server.get("approvals").await.expect(200)["items"], json!([]));
        running.stop().await;
        home.remove().await;
    })
    .await;
}

#[tokio::test]
async fn what_nobody_answers_expires_on_sqlite() {
    what_nobody_answers_expires(Edition::Sqlite).await;
}

#[tokio::test]
async fn what_nobody_answers_expires_on_postgres() {
    what_nobody_answers_expires(Edition::PostgresAndRedis).await;
}

#[tokio::test]
async fn what_expires_while_no_server_runs_is_expired_by_the_next() {
    with_home(Edition::Sqlite, |home| async move {
        let (server, running) = home.start_with(impatient).await;
        define_asking(&server, json!([pay(1)])).await;
        let waiting = server.run("a", "go").await;
        running.stop().await;
        let (server, running) = home.start().await;
        let run = format!("runs/{}", text(&waiting, "runId"));
        let response = server.until(&run, |run| run["status"] == "COMPLETED").await;
        assert_eq!(reasons(&response), ["approval_expired"]);
        running.stop().await;
        home.remove().await;
    })
    .await;
}

async fn what_waits_survives_a_restart(edition: Edition) {
    let restarted = with_home(edition, |home| async move {
        let (server, running) = home.start().await;
        define_client(&server, json!([pay(1), open("a.rs"), { "name": "look", "arguments": { "n": 1 } }])).await;
        let waiting = server.run("a", "go").await;
        let cancelled = server.run("a", "again").await;
        let before = server.get(&format!("runs/{}", text(&waiting, "runId"))).await.expect(200);
        running.stop().await;
        let (server, running) = home.start().await;
        let after = server.get(&format!("runs/{}", text(&waiting, "runId"))).await.expect(200);
        assert_eq!(after, before, "a run is the same after a restart");
        assert_eq!(server.get("approvals").await.expect(200)["items"].as_array().unwrap().len(), 2);
        let approved = server.decide(&waiting, 0, json!({ "decision": "approve" })).await.expect(200);
        assert_eq!(approved["status"], "AWAITING_CLIENT", "{approved}");
        running.stop().await;
        let (server, running) = home.start().await;
        let response = give(&server, &waiting, results(&waiting, &[json!({ "lines": 1 })])).await.expect(200);
        assert_eq!(
            (&response["status"], reasons(&response)),
            (&json!("COMPLETED"), vec![Value::Null; 3]),
            "{response}"
        );
        server.decide(&waiting, 0, json!({ "decision": "deny" })).await.problem(409, "run-ended");
        let path = format!("runs/{}/cancel", text(&cancelled, "runId"));
        assert_eq!(server.post(&path, json!({})).await.expect(200)["status"], "CANCELLED");
        // The story of all three servers is one story.
        let events = server.events(text(&waiting, "runId"), None).await;
        assert_eq!(events.last().unwrap().kind, "DONE");
        let ids: Vec<u64> = events.iter().filter_map(|event| event.id).collect();
        assert!(ids.is_sorted_by(|a, b| a < b), "{ids:?}");
        running.stop().await;
        home.remove().await;
    });
    Box::pin(restarted).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_waits_survives_a_restart_on_sqlite() {
    what_waits_survives_a_restart(Edition::Sqlite).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_waits_survives_a_restart_on_postgres() {
    what_waits_survives_a_restart(Edition::PostgresAndRedis).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_under_way_when_the_server_stops_ends_interrupted() {
    with_home(Edition::Sqlite, |home| async move {
        let faults = Faults::builder().start(LOOPBACK).await.unwrap();
        let (server, running) = home.start().await;
        server.define_call("wait", &faults.base_url(), "/slow/60000", json!({ "sideEffects": "writes" })).await;
        server
            .define_agent("a", calls_then(json!([{ "name": "wait" }]), "Done."), json!({ "toolRefs": ["wait"] }))
            .await;
        let mut stream = server.start("a", "go").await;
        let started = stream.until("TOOL_CALL_START").await;
        drop(stream);
        soon(running.stop()).await;
        let (server, running) = home.start().await;
        let run = server.get(&format!("runs/{}", text(&started.data, "runId"))).await.expect(200);
        assert_eq!((&run["status"], &run["reason"]), (&json!("ERROR"), &json!("interrupted")), "{run}");
        let error = &receipts(&run)[0]["error"];
        assert_eq!(
            (&error["code"], &error["details"]["outcome"]),
            (&json!("UNKNOWN"), &json!("unknown")),
            "nobody knows whether it was done"
        );
        // Its conversation can go on.
        server.patch("agents/a", json!({ "toolRefs": [] })).await.expect(200);
        server.go_on("a", &run["conversationId"], "and now?").await.expect(200);
        running.stop().await;
        home.remove().await;
        faults.shutdown().await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_expires_is_gone_on_with_by_one_server() {
    let home = Home::new(Edition::PostgresAndRedis).await;
    let faults = Faults::builder().start(LOOPBACK).await.unwrap();
    let hasty = |options: &mut Options| options.agents.approval_wait = Duration::from_millis(300);
    let ((here, running_here), (there, running_there)) = (home.start_with(hasty).await, home.start_with(hasty).await);
    here.define_echo("pay", json!({ "requiresConfirmation": true })).await;
    here.define_call("tell", &faults.base_url(), "/count/told", json!({ "sideEffects": "writes" })).await;
    let rules = json!([
        { "when": { "turn": 0 }, "reply": { "toolCalls": [{ "name": "pay" }] } },
        { "when": { "turn": 1 }, "reply": { "toolCalls": [{ "name": "tell" }] } },
        { "reply": { "text": "Done." } }
    ]);
    here.define_agent("a", rules, json!({ "toolRefs": ["pay", "tell"] })).await;
    let runs: Vec<Value> = join_all((0..10).map(|_| here.run("a", "go"))).await;
    let ended = |page: &Value| page["items"].as_array().unwrap().iter().all(|run| run["endedAt"].is_string());
    there.until("runs?limit=100", ended).await;
    let mut statuses = Vec::new();
    for run in &runs {
        statuses.push(there.get(&format!("runs/{}", text(run, "runId"))).await.expect(200)["status"].clone());
    }
    let hits = faults.hits("/count/told");
    running_here.stop().await;
    running_there.stop().await;
    home.remove().await;
    faults.shutdown().await;
    assert_eq!((statuses, hits), (vec![json!("COMPLETED"); 10], 10), "each once");
}
