//! Tests that a durable execution of an agentic tool continues after the server is killed: with the plan that the model
//! wrote before, and without repeating finished calls.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking, also in its helpers"
)]

mod support;

use reqwest::Method;
use serde_json::{Value, json};
use support::Server;
use support::runs::{api, define, wait_until};
use toolwright_testkit::{Faults, LOOPBACK};

/// Defines the agentic tool `saver`, which saves four items one after the other. The third item takes long.
async fn define_saver(server: &Server, faults_url: &str, idempotent: bool) {
    let save = json!({ "refName": "save", "toolType": "EXTERNAL_REST", "timeoutMs": 3000, "outputJsonSchema": {},
        "sequential": true, "idempotent": idempotent,
        "inputJsonSchema": { "type": "object", "properties": { "ms": { "type": "integer" } }, "required": ["ms"] },
        "invocation": { "method": "POST", "path": format!("{faults_url}/slow/${{param.ms}}") } });
    define(server, "tools", save).await;
    let plan = json!({ "steps": [{ "step": 1, "forEach": "${[0, 1, 1500, 2]}", "parameters": { "ms": "${item}" } }] });
    let rules = json!([
        { "when": { "user": "The plan was executed" }, "reply": { "text": "saved" } },
        { "reply": { "text": plan.to_string() } },
    ]);
    let saver = json!({ "name": "saver", "executionMode": "deterministic", "durable": true,
        "embeddedLLMConfig": { "provider": "scripted", "model": "x", "extraParams": { "script": { "rules": rules } } },
        "toolAllocation": { "sequence": [{ "step": 1, "actionSlug": "save" }] } });
    define(server, "../agentic-tools", saver).await;
}

/// Kills the server while the third item is saved, restarts it, and waits for the end of the execution. Returns the
/// execution and the number of requests for the third item and for the others.
async fn kill_in_the_middle(idempotent: bool) -> (Server, Value, u64, u64) {
    let faults = Faults::builder().start(LOOPBACK).await.unwrap();
    let mut server = Server::start_without_demo(Vec::new());
    define_saver(&server, &faults.base_url(), idempotent).await;
    let invocation = json!({ "tool": "saver", "params": { "task": "save" } });
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    let url = format!("{}/api/v1/agentic-tools/invoke", server.url);
    let request = client.post(url).bearer_auth(support::ADMIN_KEY).json(&invocation);
    let kill = async {
        wait_until("the third item", async || (faults.hits("/slow/1500") == 1).then_some(())).await;
        server.kill_and_restart();
    };
    let (response, ()) = tokio::join!(request.send(), kill);
    assert!(response.is_err(), "the response must not arrive, because the server was killed");
    let execution = wait_until("the end of the execution", async || {
        let (_, list) = api(&server, Method::GET, "../agentic-tools/saver/executions", None).await;
        let id = list["items"][0]["id"].as_str()?.to_owned();
        let (_, execution) = api(&server, Method::GET, &format!("../agentic-tools/saver/executions/{id}"), None).await;
        (execution["status"] != "running").then_some(execution)
    })
    .await;
    let (third, all) = (faults.hits("/slow/1500"), faults.hits("/slow"));
    faults.shutdown().await;
    (server, execution, third, all - third)
}

/// Asserts that a replay of the execution's journal gives the same result.
async fn assert_replay_is_identical(server: &Server, execution: &Value) {
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    let run = execution["id"].as_str().unwrap();
    let export = client.get(format!("{}/api/v1/ai/runs/{run}/export", server.url)).bearer_auth(support::ADMIN_KEY);
    let bundle = export.send().await.unwrap().text().await.unwrap();
    let replay = client.post(format!("{}/api/v1/ai/runs/replay", server.url)).bearer_auth(support::ADMIN_KEY);
    let replayed: Value = replay.body(bundle).send().await.unwrap().json().await.unwrap();
    assert_eq!(replayed["identical"], true, "{replayed}");
}

#[tokio::test]
async fn execution_continues_with_its_plan_and_repeats_no_finished_write_after_server_kill() {
    let (server, execution, third, others) = kill_in_the_middle(false).await;
    assert_eq!((&execution["status"], third, others), (&json!("success"), 1, 3), "{execution}");
    let purposes: Vec<&Value> = execution["llmCalls"].as_array().unwrap().iter().map(|call| &call["purpose"]).collect();
    assert_eq!(purposes, ["planning", "result_review"], "the model planned once");
    let errors = execution["result"]["errors"].as_array().unwrap();
    assert_eq!((errors.len(), &errors[0]["item"]), (1, &json!(1500)), "{execution}");
    assert_eq!(errors[0]["error"]["details"]["reason"], "outcome_unknown");
    assert_replay_is_identical(&server, &execution).await;
}

#[tokio::test]
async fn only_the_interrupted_idempotent_write_is_repeated_after_server_kill() {
    let (server, execution, third, others) = kill_in_the_middle(true).await;
    assert_eq!((&execution["status"], third, others), (&json!("success"), 2, 3), "{execution}");
    assert_eq!((&execution["steps"][0]["calls"], execution["steps"][0].get("failed")), (&json!(4), None));
    assert_eq!(execution["llmCalls"].as_array().unwrap().len(), 2);
    assert_replay_is_identical(&server, &execution).await;
}
