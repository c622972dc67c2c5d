//! Durable runs survive a server that is killed in the middle of a call, and no write is blindly repeated.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod support;

use std::time::Duration;

use serde_json::{Value, json};
use support::{ADMIN_KEY, Server};
use toolwright_testkit::{Faults, LOOPBACK};
use toolwright_tools::http::{Egress, HttpClient};

/// How long anything may take here.
const PATIENCE: Duration = Duration::from_secs(30);

async fn api(server: &Server, method: reqwest::Method, path: &str, body: Option<Value>) -> (u16, Value) {
    let client = HttpClient::new(Egress::everything()).unguarded().unwrap();
    let mut request = client.request(method, format!("{}/api/v1/ai/{path}", server.url)).bearer_auth(ADMIN_KEY);
    if let Some(body) = body {
        request = request.json(&body);
    }
    let response = request.send().await.unwrap();
    (response.status().as_u16(), response.json().await.unwrap())
}

async fn define(server: &Server, kind: &str, definition: Value) {
    let (status, answer) = api(server, reqwest::Method::POST, kind, Some(definition)).await;
    assert_eq!(status, 201, "{answer}");
}

/// Looks again and again, a little later each time.
async fn until<T>(what: &str, mut look: impl AsyncFnMut() -> Option<T>) -> T {
    let patience = tokio::time::timeout(PATIENCE, async {
        loop {
            match look().await {
                Some(found) => return found,
                None => tokio::time::sleep(Duration::from_millis(20)).await,
            }
        }
    });
    patience.await.unwrap_or_else(|_| panic!("{what} did not happen"))
}

/// Starts a durable run whose one call takes a while, kills the server during it, and gives the run as the next server
/// ends it, with how often the call was made.
async fn killed_during(tool: Value) -> (Value, u64) {
    let faults = Faults::builder().start(LOOPBACK).await.unwrap();
    let mut server = Server::start();
    for outcome in ["done", "not_done", "unknown"] {
        let template = json!({ "outcome": outcome, "output": { "found": true } });
        define(&server, "tools", json!({ "refName": format!("verify/{outcome}"), "toolType": "FUNCTION", "invocation": { "path": "echo", "bodyTemplate": template }, "outputJsonSchema": {} })).await;
    }
    let mut definition = json!({
        "refName": "slow", "toolType": "EXTERNAL_REST", "timeoutMs": 3000, "outputJsonSchema": {},
        "invocation": { "method": "GET", "path": format!("{}/slow/1500", faults.base_url()) }
    });
    definition["invocation"]
        .as_object_mut()
        .unwrap()
        .extend(tool["invocation"].as_object().cloned().unwrap_or_default());
    for (field, value) in tool.as_object().unwrap().iter().filter(|(field, _)| *field != "invocation") {
        definition[field] = value.clone();
    }
    define(&server, "tools", definition).await;
    let script = json!({ "rules": [{ "when": { "turn": 0 }, "reply": { "toolCalls": [{ "name": "slow" }] } }], "otherwise": { "text": "Told." } });
    let llm = json!({ "provider": "scripted", "model": "x", "extraParams": { "script": script } });
    define(&server, "agents", json!({ "refName": "a", "toolRefs": ["slow"], "llmConfig": llm })).await;

    let body = json!({ "userMessage": "go" });
    let (status, accepted) = api(&server, reqwest::Method::POST, "agents/a/execute/durable", Some(body)).await;
    assert_eq!((status, &accepted["status"]), (202, &json!("RUNNING")), "{accepted}");
    until("the call", async || (faults.hits("/slow") > 0).then_some(())).await;
    server.crash();
    let path = format!("runs/{}", accepted["runId"].as_str().unwrap());
    let ended = until("the end", async || {
        let (_, run) = api(&server, reqwest::Method::GET, &path, None).await;
        (run["status"] != "RUNNING").then_some(run)
    })
    .await;
    let hits = faults.hits("/slow");
    faults.shutdown().await;
    (ended, hits)
}

fn receipt(run: &Value) -> &Value {
    let order = run["outputs"]["tool_order"].as_array().unwrap();
    assert_eq!(order.len(), 1, "{run}");
    &run["outputs"]["tools_by_id"][order[0].as_str().unwrap()]
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
