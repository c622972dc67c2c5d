//! Tests that durable runs continue after the server is killed during a call. An interrupted write is repeated if it is
//! idempotent, or if its verify operation reports that the write did not happen. Otherwise its outcome is unknown.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking, also in its helpers"
)]

mod support;

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use sqlx::Connection as _;
use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection};
use support::Server;
use support::runs::{
    SlowRun, api, define, only_envelope, scripted_model, slow_tool, start_run, wait_for_end, wait_until,
};
use toolwright_testkit::{Faults, LOOPBACK};

/// Kills the server during the call and restarts it. Returns the finished run and the number of requests to the tool's
/// service.
async fn kill_during_call(tool: Value) -> (Value, u64) {
    let mut slow_run = SlowRun::start(Server::start(), &tool).await;
    slow_run.server.kill_and_restart();
    slow_run.finish().await
}

#[tokio::test]
async fn read_is_repeated_after_server_kill() {
    let (run, hits) = kill_during_call(json!({})).await;
    assert_eq!((&run["status"], &run["responseText"]), (&json!("COMPLETED"), &json!("Done.")), "{run}");
    assert_eq!((hits, &only_envelope(&run)["error"]), (2, &Value::Null));
}

#[tokio::test]
async fn idempotent_write_is_repeated_after_server_kill() {
    let (run, hits) = kill_during_call(json!({ "idempotent": true, "invocation": { "method": "POST" } })).await;
    assert_eq!((&run["status"], hits, &only_envelope(&run)["error"]), (&json!("COMPLETED"), 2, &Value::Null), "{run}");
}

#[tokio::test]
async fn non_idempotent_write_has_unknown_outcome_after_server_kill() {
    let (run, hits) = kill_during_call(json!({ "invocation": { "method": "POST" } })).await;
    assert_eq!((&run["status"], hits), (&json!("COMPLETED"), 1), "{run}");
    let error = &only_envelope(&run)["error"];
    assert_eq!(
        (&error["code"], &error["details"]["reason"]),
        (&json!("UNKNOWN"), &json!("outcome_unknown")),
        "{error}"
    );
}

#[tokio::test]
async fn interrupted_write_is_repeated_only_if_verification_finds_no_effect() {
    for (verify, times, output) in [("verify/done", 1, json!({ "found": true })), ("verify/unknown", 1, Value::Null)] {
        let (run, hits) =
            kill_during_call(json!({ "verifyToolRef": verify, "invocation": { "method": "POST" } })).await;
        assert_eq!((&run["status"], hits), (&json!("COMPLETED"), times), "{verify}: {run}");
        assert_eq!(only_envelope(&run)["output"], output, "{verify}");
    }
    let (run, hits) =
        kill_during_call(json!({ "verifyToolRef": "verify/not_done", "invocation": { "method": "POST" } })).await;
    assert_eq!((&run["status"], hits, &only_envelope(&run)["error"]), (&json!("COMPLETED"), 2, &Value::Null), "{run}");
}

#[tokio::test]
async fn verification_waits_for_the_timeout_of_the_interrupted_attempt() {
    let tool = json!({ "verifyToolRef": "verify/not_done", "invocation": { "method": "POST" } });
    let mut slow_run = SlowRun::start(Server::start(), &tool).await;
    slow_run.server.kill_and_restart();
    slow_run.wait_for_calls(2).await;
    let second_attempt = Instant::now();
    slow_run.server.kill_and_restart();
    slow_run.wait_for_calls(3).await;
    // The verify operation must wait for the timeout of the second attempt. Until then, the attempt's request may still
    // arrive at the service.
    assert!(second_attempt.elapsed() > Duration::from_millis(2500), "verified after {:?}", second_attempt.elapsed());
    let (run, hits) = slow_run.finish().await;
    assert_eq!((&run["status"], hits, &only_envelope(&run)["error"]), (&json!("COMPLETED"), 3, &Value::Null), "{run}");
}

#[tokio::test]
async fn interrupted_write_has_unknown_outcome_if_its_tool_definition_changed() {
    let tool = json!({ "idempotent": true, "invocation": { "method": "POST" } });
    let mut slow_run = SlowRun::start(Server::start(), &tool).await;
    let mut changed = slow_tool(&slow_run.faults, &tool);
    changed["description"] = json!("A changed description.");
    let (status, answer) = api(&slow_run.server, reqwest::Method::PUT, "tools/slow", Some(changed)).await;
    assert_eq!(status, 200, "{answer}");
    slow_run.server.kill_and_restart();
    let (run, hits) = slow_run.finish().await;
    assert_eq!((hits, &only_envelope(&run)["error"]["details"]["reason"]), (1, &json!("outcome_unknown")), "{run}");
}

#[tokio::test]
async fn twelve_runs_with_delegates_complete_after_server_kill() {
    const RUNS: usize = 12;
    let mut slow_run = SlowRun::start(Server::start(), &json!({})).await;
    let llm = scripted_model(
        &json!([{ "name": "a", "arguments": { "task": "go" } }, { "name": "slow" }, { "name": "slow" }]),
    );
    let chief = json!({ "refName": "chief", "toolRefs": ["slow"], "delegateAgentRefs": ["a"], "llmConfig": llm });
    define(&slow_run.server, "agents", chief).await;
    let mut runs = Vec::new();
    for _ in 0..RUNS {
        runs.push(start_run(&slow_run.server, "chief").await);
    }
    slow_run.wait_for_calls(1 + 3 * RUNS as u64).await;
    slow_run.server.kill_and_restart();
    for path in runs {
        let run = wait_for_end(&slow_run.server, &path).await;
        assert_eq!((&run["status"], run["toolCalls"].as_array().unwrap().len()), (&json!("COMPLETED"), 3), "{run}");
        for call in run["toolCalls"].as_array().unwrap() {
            assert_eq!(call["status"], "SUCCESS", "{call}");
        }
    }
    slow_run.finish().await;
}

/// Sets the database row of an ended run back to `RUNNING`. A server leaves the row in this state when it dies after it
/// wrote the run's last journal entry and before it updated the row.
async fn reset_row_to_running(server: &Server, run: &str) {
    let file = server.folder.path().join("data/toolwright.db");
    let mut database = SqliteConnection::connect_with(&SqliteConnectOptions::new().filename(file)).await.unwrap();
    let update = "UPDATE runs SET status = 'RUNNING', ended_at = NULL, driver_id = 'gone' WHERE id = $1";
    let result = sqlx::query(update).bind(run.to_owned()).execute(&mut database).await.unwrap();
    assert_eq!(result.rows_affected(), 1);
    database.close().await.unwrap();
}

#[tokio::test]
async fn recovery_updates_the_database_row_of_a_run_whose_journal_has_ended() {
    let mut server = Server::start();
    let llm = scripted_model(&json!([]));
    let memory = json!({ "persistConversation": false });
    define(&server, "agents", json!({ "refName": "a", "memoryConfig": memory, "llmConfig": llm })).await;
    let path = start_run(&server, "a").await;
    let before = wait_for_end(&server, &path).await;
    server.kill();
    reset_row_to_running(&server, before["runId"].as_str().unwrap()).await;
    server.restart();
    wait_until("the completed row", async || {
        let (_, page) = api(&server, reqwest::Method::GET, "runs?status=COMPLETED&agentRef=a", None).await;
        (page["items"].as_array().unwrap().len() == 1).then_some(())
    })
    .await;
    let (_, after) = api(&server, reqwest::Method::GET, &path, None).await;
    assert_eq!((&after["status"], &after["outputs"]), (&json!("COMPLETED"), &before["outputs"]), "{after}");
}

#[tokio::test]
async fn recovered_shadow_run_does_not_perform_its_writes() {
    let faults = Faults::builder().start(LOOPBACK).await.unwrap();
    let mut server = Server::start();
    define(&server, "tools", slow_tool(&faults, &json!({}))).await;
    let write = json!({ "method": "POST", "path": format!("{}/echo/write", faults.base_url()) });
    for (name, effects, invocation) in [
        ("write", "writes", write),
        ("look", "reads", json!({ "path": "echo" })),
        ("glass", "reads", json!({ "path": "echo" })),
    ] {
        let kind = if name == "write" { "EXTERNAL_REST" } else { "FUNCTION" };
        let tool = json!({
            "refName": name, "toolType": kind, "sideEffects": effects, "outputJsonSchema": {}, "invocation": invocation
        });
        define(&server, "tools", tool).await;
    }
    let rules = json!([
        { "when": { "turn": 0 }, "reply": { "toolCalls": [{ "name": "slow", "arguments": {} }] } },
        { "when": { "turn": 1 }, "reply": { "toolCalls": [{ "name": "write", "arguments": {} }] } },
        { "reply": { "text": "Written." } },
    ]);
    let agent = json!({
        "refName": "writer", "toolRefs": ["slow", "write", "look"],
        "libraries": { "glass": { "look": "glass" } }, "split": { "library": "glass", "share": 1, "mode": "shadow" },
        "llmConfig": { "provider": "scripted", "model": "rules", "extraParams": { "script": { "rules": rules } } },
    });
    define(&server, "agents", agent).await;
    let body = json!({ "userMessage": "go" });
    let (_, accepted) = api(&server, reqwest::Method::POST, "agents/writer/execute/durable", Some(body)).await;
    let run = accepted["runId"].as_str().unwrap().to_owned();
    wait_until("the reads of both runs", async || (faults.hits("/slow") >= 2).then_some(())).await;
    server.kill_and_restart();
    assert_eq!(faults.hits("/echo/write"), 0, "no run has reached its write");
    let get = async |path: String| api(&server, reqwest::Method::GET, &path, None).await.1;
    let shadow = wait_until("the end of the shadow run", async || {
        let found = get(format!("runs?trialOf={run}")).await["items"][0].clone();
        (found["status"] == "COMPLETED").then_some(found)
    });
    let shadow = shadow.await;
    wait_until("the end of the run", async || {
        (get(format!("runs/{run}")).await["status"] == "COMPLETED").then_some(())
    })
    .await;
    let shadow = get(format!("runs/{}", shadow["id"].as_str().unwrap())).await;
    let write = &shadow["toolCalls"][1];
    assert_eq!((&write["toolRef"], &write["source"]), (&json!("write"), &json!("captured")), "{shadow}");
    assert_eq!(faults.hits("/echo/write"), 1, "only the user's run writes");
    faults.shutdown().await;
}
