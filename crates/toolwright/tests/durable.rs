//! Durable runs survive a server that is killed in the middle of a call, and no write is blindly repeated.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod support;

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use sqlx::Connection as _;
use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection};
use support::Server;
use support::scene::{Scene, api, define, ended, receipt, script, slow, start, until};
use toolwright_testkit::{Faults, LOOPBACK};

/// Kills the server during the call, and gives the run as the next server ends it, with how often the call was made.
async fn killed_during(tool: Value) -> (Value, u64) {
    let mut scene = Scene::begin(Server::start(), &tool).await;
    scene.server.crash();
    scene.end().await
}

#[tokio::test]
async fn a_read_is_repeated() {
    let (run, hits) = killed_during(json!({})).await;
    assert_eq!((&run["status"], &run["responseText"]), (&json!("COMPLETED"), &json!("Told.")), "{run}");
    assert_eq!((hits, &receipt(&run)["error"]), (2, &Value::Null));
}

#[tokio::test]
async fn a_write_that_may_be_repeated_is() {
    let (run, hits) = killed_during(json!({ "idempotent": true, "invocation": { "method": "POST" } })).await;
    assert_eq!((&run["status"], hits, &receipt(&run)["error"]), (&json!("COMPLETED"), 2, &Value::Null), "{run}");
}

#[tokio::test]
async fn a_write_that_may_not_be_repeated_is_told_as_unknown() {
    let (run, hits) = killed_during(json!({ "invocation": { "method": "POST" } })).await;
    assert_eq!((&run["status"], hits), (&json!("COMPLETED"), 1), "{run}");
    let error = &receipt(&run)["error"];
    assert_eq!(
        (&error["code"], &error["details"]["reason"]),
        (&json!("UNKNOWN"), &json!("outcome_unknown")),
        "{error}"
    );
}

#[tokio::test]
async fn a_write_that_can_be_asked_about_is_asked_about() {
    for (verify, times, output) in [("verify/done", 1, json!({ "found": true })), ("verify/unknown", 1, Value::Null)] {
        let (run, hits) = killed_during(json!({ "verifyToolRef": verify, "invocation": { "method": "POST" } })).await;
        assert_eq!((&run["status"], hits), (&json!("COMPLETED"), times), "{verify}: {run}");
        assert_eq!(receipt(&run)["output"], output, "{verify}");
    }
    let (run, hits) =
        killed_during(json!({ "verifyToolRef": "verify/not_done", "invocation": { "method": "POST" } })).await;
    assert_eq!((&run["status"], hits, &receipt(&run)["error"]), (&json!("COMPLETED"), 2, &Value::Null), "{run}");
}

#[tokio::test]
async fn the_second_attempt_of_a_write_is_given_its_time_too() {
    let tool = json!({ "verifyToolRef": "verify/not_done", "invocation": { "method": "POST" } });
    let mut scene = Scene::begin(Server::start(), &tool).await;
    scene.server.crash();
    scene.called(2).await;
    let second = Instant::now();
    scene.server.crash();
    scene.called(3).await;
    // The system may be slow with the second, and nobody knows before its time is over.
    assert!(second.elapsed() > Duration::from_millis(2500), "asked after {:?}", second.elapsed());
    let (run, hits) = scene.end().await;
    assert_eq!((&run["status"], hits, &receipt(&run)["error"]), (&json!("COMPLETED"), 3, &Value::Null), "{run}");
}

#[tokio::test]
async fn a_write_whose_tool_has_changed_meanwhile_is_told_as_unknown() {
    let tool = json!({ "idempotent": true, "invocation": { "method": "POST" } });
    let mut scene = Scene::begin(Server::start(), &tool).await;
    let mut changed = slow(&scene.faults, &tool);
    changed["description"] = json!("Is another one now.");
    let (status, answer) = api(&scene.server, reqwest::Method::PUT, "tools/slow", Some(changed)).await;
    assert_eq!(status, 200, "{answer}");
    scene.server.crash();
    let (run, hits) = scene.end().await;
    assert_eq!((hits, &receipt(&run)["error"]["details"]["reason"]), (1, &json!("outcome_unknown")), "{run}");
}

#[tokio::test]
async fn delegates_of_many_runs_go_on_side_by_side() {
    const RUNS: usize = 12;
    let mut scene = Scene::begin(Server::start(), &json!({})).await;
    let llm = script(&json!([{ "name": "a", "arguments": { "task": "go" } }, { "name": "slow" }, { "name": "slow" }]));
    let chief = json!({ "refName": "chief", "toolRefs": ["slow"], "delegateAgentRefs": ["a"], "llmConfig": llm });
    define(&scene.server, "agents", chief).await;
    let mut runs = Vec::new();
    for _ in 0..RUNS {
        runs.push(start(&scene.server, "chief").await);
    }
    scene.called(1 + 3 * RUNS as u64).await;
    scene.server.crash();
    for path in runs {
        let run = ended(&scene.server, &path).await;
        assert_eq!((&run["status"], run["toolCalls"].as_array().unwrap().len()), (&json!("COMPLETED"), 3), "{run}");
        for call in run["toolCalls"].as_array().unwrap() {
            assert_eq!(call["status"], "SUCCESS", "{call}");
        }
    }
    scene.end().await;
}

/// Makes the row of a run that has ended say again that it is under way: what a server leaves that dies between the
/// last entry of a run and its end.
async fn take_back_the_end(server: &Server, run: &str) {
    let file = server.folder.path().join("data/toolwright.db");
    let mut database = SqliteConnection::connect_with(&SqliteConnectOptions::new().filename(file)).await.unwrap();
    let taken_back = "UPDATE runs SET status = 'RUNNING', ended_at = NULL, driver_id = 'gone' WHERE id = $1";
    let done = sqlx::query(taken_back).bind(run.to_owned()).execute(&mut database).await.unwrap();
    assert_eq!(done.rows_affected(), 1);
    database.close().await.unwrap();
}

#[tokio::test]
async fn a_run_whose_end_was_not_written_is_brought_to_its_end() {
    let mut server = Server::start();
    let llm = script(&json!([]));
    let memory = json!({ "persistConversation": false });
    define(&server, "agents", json!({ "refName": "a", "memoryConfig": memory, "llmConfig": llm })).await;
    let path = start(&server, "a").await;
    let before = ended(&server, &path).await;
    server.kill();
    take_back_the_end(&server, before["runId"].as_str().unwrap()).await;
    server.restart();
    until("the end of its row", async || {
        let (_, page) = api(&server, reqwest::Method::GET, "runs?status=COMPLETED", None).await;
        (page["items"].as_array().unwrap().len() == 1).then_some(())
    })
    .await;
    let (_, after) = api(&server, reqwest::Method::GET, &path, None).await;
    assert_eq!((&after["status"], &after["outputs"]), (&json!("COMPLETED"), &before["outputs"]), "{after}");
}

#[tokio::test]
async fn a_shadow_of_a_server_that_was_killed_still_changes_nothing() {
    let faults = Faults::builder().start(LOOPBACK).await.unwrap();
    let mut server = Server::start();
    define(&server, "tools", slow(&faults, &json!({}))).await;
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
    let (_, begun) = api(&server, reqwest::Method::POST, "agents/writer/execute/durable", Some(body)).await;
    let run = begun["runId"].as_str().unwrap().to_owned();
    until("both runs read", async || (faults.hits("/slow") >= 2).then_some(())).await;
    server.crash();
    assert_eq!(faults.hits("/echo/write"), 0, "neither had come to its write");
    let get = async |path: String| api(&server, reqwest::Method::GET, &path, None).await.1;
    let shadow = until("the shadow ends", async || {
        let found = get(format!("runs?trialOf={run}")).await["items"][0].clone();
        (found["status"] == "COMPLETED").then_some(found)
    });
    let shadow = shadow.await;
    until("the run ends", async || (get(format!("runs/{run}")).await["status"] == "COMPLETED").then_some(())).await;
    let shadow = get(format!("runs/{}", shadow["id"].as_str().unwrap())).await;
    let write = &shadow["toolCalls"][1];
    assert_eq!((&write["toolRef"], &write["source"]), (&json!("write"), &json!("captured")), "{shadow}");
    assert_eq!(faults.hits("/echo/write"), 1, "only the user's run has written");
    faults.shutdown().await;
}
