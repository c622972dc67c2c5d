//! Servers asked over their API, and a durable run with one slow call to do something to.
#![allow(dead_code, reason = "each test binary uses its part")]

use std::time::Duration;

use serde_json::{Value, json};
use toolwright_testkit::{Faults, LOOPBACK};
use toolwright_tools::http::{Egress, HttpClient};

use super::{ADMIN_KEY, Server};

/// How long anything may take here.
const PATIENCE: Duration = Duration::from_secs(60);

pub async fn api(server: &Server, method: reqwest::Method, path: &str, body: Option<Value>) -> (u16, Value) {
    let client = HttpClient::new(Egress::everything()).unguarded().unwrap();
    let mut request = client.request(method, format!("{}/api/v1/ai/{path}", server.url)).bearer_auth(ADMIN_KEY);
    if let Some(body) = body {
        request = request.json(&body);
    }
    let response = request.send().await.unwrap();
    (response.status().as_u16(), response.json().await.unwrap())
}

pub async fn define(server: &Server, kind: &str, definition: Value) {
    let (status, answer) = api(server, reqwest::Method::POST, kind, Some(definition)).await;
    assert_eq!(status, 201, "{answer}");
}

/// Looks again and again, a little later each time.
pub async fn until<T>(what: &str, mut look: impl AsyncFnMut() -> Option<T>) -> T {
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

/// A durable run whose one call takes a while, and is under way.
pub struct Scene {
    pub faults: toolwright_testkit::faults::Handle,
    pub server: Server,
    /// The run, in the API.
    pub path: String,
}

/// The tool whose call takes a while, and what is special about it.
pub fn slow(faults: &toolwright_testkit::faults::Handle, special: &Value) -> Value {
    let mut definition = json!({
        "refName": "slow", "toolType": "EXTERNAL_REST", "timeoutMs": 3000, "outputJsonSchema": {},
        "invocation": { "method": "GET", "path": format!("{}/slow/1500", faults.base_url()) }
    });
    definition["invocation"]
        .as_object_mut()
        .unwrap()
        .extend(special["invocation"].as_object().cloned().unwrap_or_default());
    for (field, value) in special.as_object().unwrap().iter().filter(|(field, _)| *field != "invocation") {
        definition[field] = value.clone();
    }
    definition
}

/// A model that makes these calls and then has told it all.
pub fn script(calls: &Value) -> Value {
    let script = json!({ "rules": [{ "when": { "turn": 0 }, "reply": { "toolCalls": calls } }], "otherwise": { "text": "Told." } });
    json!({ "provider": "scripted", "model": "x", "extraParams": { "script": script } })
}

impl Scene {
    /// Starts a run of agent `a`, which calls `slow`.
    pub async fn begin(server: Server, tool: &Value) -> Self {
        let faults = Faults::builder().start(LOOPBACK).await.unwrap();
        for outcome in ["done", "not_done", "unknown"] {
            let template = json!({ "outcome": outcome, "output": { "found": true } });
            define(&server, "tools", json!({ "refName": format!("verify/{outcome}"), "toolType": "FUNCTION", "invocation": { "path": "echo", "bodyTemplate": template }, "outputJsonSchema": {} })).await;
        }
        define(&server, "tools", slow(&faults, tool)).await;
        let llm = script(&json!([{ "name": "slow" }]));
        define(&server, "agents", json!({ "refName": "a", "toolRefs": ["slow"], "llmConfig": llm })).await;
        let scene = Self { path: start(&server, "a").await, faults, server };
        scene.called(1).await;
        scene
    }

    /// Waits until the call was made so often.
    pub async fn called(&self, times: u64) {
        until("the call", async || (self.faults.hits("/slow") >= times).then_some(())).await;
    }

    /// The run as it ended, with how often the call was made.
    pub async fn end(self) -> (Value, u64) {
        let ended = ended(&self.server, &self.path).await;
        let hits = self.faults.hits("/slow");
        self.faults.shutdown().await;
        (ended, hits)
    }
}

/// Starts a durable run, and gives its place in the API.
pub async fn start(server: &Server, agent: &str) -> String {
    let path = format!("agents/{agent}/execute/durable");
    let (status, accepted) = api(server, reqwest::Method::POST, &path, Some(json!({ "userMessage": "go" }))).await;
    assert_eq!((status, &accepted["status"]), (202, &json!("RUNNING")), "{accepted}");
    format!("runs/{}", accepted["runId"].as_str().unwrap())
}

/// The run once it no longer is under way.
pub async fn ended(server: &Server, path: &str) -> Value {
    until("the end", async || {
        let (_, run) = api(server, reqwest::Method::GET, path, None).await;
        (run["status"] != "RUNNING").then_some(run)
    })
    .await
}

/// The receipt of its only call.
pub fn receipt(run: &Value) -> &Value {
    let order = run["outputs"]["tool_order"].as_array().unwrap();
    assert_eq!(order.len(), 1, "{run}");
    &run["outputs"]["tools_by_id"][order[0].as_str().unwrap()]
}
