//! Sends REST requests to a server under test, and starts a durable run with one slow call that a test can interrupt.
#![allow(dead_code, reason = "each test binary uses some of these helpers")]

use std::time::Duration;

use serde_json::{Value, json};
use toolwright_testkit::{Faults, LOOPBACK};
use toolwright_tools::http::{EgressPolicy, HttpClient};

use super::{ADMIN_KEY, Server};

/// How long [`wait_until`] waits for its condition.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Sends a request as the administrator. Returns the status and the body of the response.
pub(crate) async fn api(server: &Server, method: reqwest::Method, path: &str, body: Option<Value>) -> (u16, Value) {
    let client = HttpClient::new(EgressPolicy::unrestricted()).unrestricted_client().unwrap();
    let mut request = client.request(method, format!("{}/api/v1/ai/{path}", server.url)).bearer_auth(ADMIN_KEY);
    if let Some(body) = body {
        request = request.json(&body);
    }
    let response = request.send().await.unwrap();
    (response.status().as_u16(), response.json().await.unwrap())
}

/// Creates a definition.
pub(crate) async fn define(server: &Server, kind: &str, definition: Value) {
    let (status, response) = api(server, reqwest::Method::POST, kind, Some(definition)).await;
    assert_eq!(status, 201, "{response}");
}

/// Polls `condition` until it returns a value. The panic message on timeout contains `description`.
pub(crate) async fn wait_until<T>(description: &str, mut condition: impl AsyncFnMut() -> Option<T>) -> T {
    let polling = tokio::time::timeout(TIMEOUT, async {
        loop {
            match condition().await {
                Some(value) => return value,
                None => tokio::time::sleep(Duration::from_millis(20)).await,
            }
        }
    });
    polling.await.unwrap_or_else(|_| panic!("timed out waiting for {description}"))
}

/// A durable run with one slow call, which is in progress.
pub(crate) struct SlowRun {
    pub faults: toolwright_testkit::faults::Handle,
    pub server: Server,
    /// The path of the run in the REST API.
    pub path: String,
}

/// Returns the definition of the tool `slow`. `overrides` replaces some of its fields.
pub(crate) fn slow_tool(faults: &toolwright_testkit::faults::Handle, overrides: &Value) -> Value {
    let mut definition = json!({
        "refName": "slow", "toolType": "EXTERNAL_REST", "timeoutMs": 3000, "outputJsonSchema": {},
        "invocation": { "method": "GET", "path": format!("{}/slow/1500", faults.base_url()) }
    });
    definition["invocation"]
        .as_object_mut()
        .unwrap()
        .extend(overrides["invocation"].as_object().cloned().unwrap_or_default());
    for (field, value) in overrides.as_object().unwrap().iter().filter(|(field, _)| *field != "invocation") {
        definition[field] = value.clone();
    }
    definition
}

/// Returns the configuration of a scripted model that makes the calls `calls` and then answers `Done.`
pub(crate) fn scripted_model(calls: &Value) -> Value {
    let script = json!({ "rules": [{ "when": { "turn": 0 }, "reply": { "toolCalls": calls } }], "otherwise": { "text": "Done." } });
    json!({ "provider": "scripted", "model": "x", "extraParams": { "script": script } })
}

impl SlowRun {
    /// Starts a run of agent `a`, which calls `slow`, and waits until the call is in progress.
    pub(crate) async fn start(server: Server, tool: &Value) -> Self {
        let faults = Faults::builder().start(LOOPBACK).await.unwrap();
        for outcome in ["done", "not_done", "unknown"] {
            let template = json!({ "outcome": outcome, "output": { "found": true } });
            define(&server, "tools", json!({ "refName": format!("verify/{outcome}"), "toolType": "FUNCTION", "invocation": { "path": "echo", "bodyTemplate": template }, "outputJsonSchema": {} })).await;
        }
        define(&server, "tools", slow_tool(&faults, tool)).await;
        let llm = scripted_model(&json!([{ "name": "slow" }]));
        define(&server, "agents", json!({ "refName": "a", "toolRefs": ["slow"], "llmConfig": llm })).await;
        let slow_run = Self { path: start_run(&server, "a").await, faults, server };
        slow_run.wait_for_calls(1).await;
        slow_run
    }

    /// Waits until the tool's service has received `count` requests.
    pub(crate) async fn wait_for_calls(&self, count: u64) {
        wait_until("the call to `slow`", async || (self.faults.hits("/slow") >= count).then_some(())).await;
    }

    /// Waits until the run has ended. Returns the run and the number of requests that the tool's service received.
    pub(crate) async fn finish(self) -> (Value, u64) {
        let run = wait_for_end(&self.server, &self.path).await;
        let hits = self.faults.hits("/slow");
        self.faults.shutdown().await;
        (run, hits)
    }
}

/// Starts a durable run of `agent` and returns its path in the REST API.
pub(crate) async fn start_run(server: &Server, agent: &str) -> String {
    let path = format!("agents/{agent}/execute/durable");
    let (status, accepted) = api(server, reqwest::Method::POST, &path, Some(json!({ "userMessage": "go" }))).await;
    assert_eq!((status, &accepted["status"]), (202, &json!("RUNNING")), "{accepted}");
    format!("runs/{}", accepted["runId"].as_str().unwrap())
}

/// Waits until the run is no longer `RUNNING` and returns it.
pub(crate) async fn wait_for_end(server: &Server, path: &str) -> Value {
    wait_until("the end of the run", async || {
        let (_, run) = api(server, reqwest::Method::GET, path, None).await;
        (run["status"] != "RUNNING").then_some(run)
    })
    .await
}

/// Returns the envelope of the only call of a run.
pub(crate) fn only_envelope(run: &Value) -> &Value {
    let order = run["outputs"]["tool_order"].as_array().unwrap();
    assert_eq!(order.len(), 1, "{run}");
    &run["outputs"]["tools_by_id"][order[0].as_str().unwrap()]
}
