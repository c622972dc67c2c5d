//! Tests agent runs against a third-party mock of OpenAI, Anthropic and Google, including the wire formats of these
//! providers.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::routing::{get, post};
use serde_json::{Value, json};
use tokio_util::task::TaskTracker;
use toolwright_testkit::LOOPBACK;

use crate::harness::{Deployment, Server, Storage, required_env};

const PROVIDERS: [(&str, &str, &str); 3] =
    [("openai", "gpt-4o", "/v1"), ("anthropic", "claude-sonnet-4-20250514", ""), ("google", "gemini-2.5-pro", "")];

/// Runs a test on a server with one tool and one agent for each model provider. The mock serves all models.
async fn with_provider_agents<F: Future<Output = ()>>(test: impl FnOnce(Server) -> F) {
    let deployment = Deployment::new(Storage::Sqlite).await;
    let (server, running) =
        deployment.start_with(|options| options.egress_allow = vec!["127.0.0.0/8".parse().unwrap()]).await;
    let schema = json!({ "type": "object", "properties": { "city": { "type": "string" } }, "required": ["city"], "additionalProperties": false });
    let tool = json!({ "refName": "get_weather", "description": "The weather of a city.", "toolType": "FUNCTION", "invocation": { "path": "echo" }, "inputJsonSchema": schema, "outputJsonSchema": {} });
    server.post("tools", tool).await.expect(201);
    server
        .post("secrets", json!({ "name": "model-key", "scope": "realm", "value": "sk-a-key-of-the-realm" }))
        .await
        .expect(201);
    for (provider, model, suffix) in PROVIDERS {
        let base = format!("{}{suffix}", required_env("TOOLWRIGHT_TEST_AIMOCK_URL"));
        let llm = json!({ "provider": provider, "model": model, "baseUrl": base, "apiKeySecretRef": "model-key" });
        let agent = json!({ "refName": provider, "systemPrompt": "You are terse.", "llmConfig": llm, "toolRefs": ["get_weather"] });
        server.post("agents", agent).await.expect(201);
    }
    test(server).await;
    running.stop().await;
    deployment.remove().await;
}

async fn run(server: &Server, agent: &str, message: &str) -> Value {
    server.post(&format!("agents/{agent}/execute"), json!({ "userMessage": message })).await.expect(200)
}

fn call_statuses(response: &Value) -> Vec<(String, String)> {
    let calls = response["toolCalls"].as_array().unwrap().iter();
    calls.map(|call| (call["toolRef"].as_str().unwrap().into(), call["status"].as_str().unwrap().into())).collect()
}

#[tokio::test]
async fn results_of_parallel_calls_keep_the_order_of_the_calls() {
    with_provider_agents(|server| async move {
        for (agent, _, _) in PROVIDERS {
            let response = run(&server, agent, "compare two cities").await;
            assert_eq!(response["status"], "COMPLETED", "{agent}: {response}");
            assert_eq!(response["responseText"], "Rain in Köln, sun in Rom.", "{agent}");
            assert_eq!(response["iterationsUsed"], 2, "{agent}");
            let outputs = response["toolCalls"].as_array().unwrap().iter().map(|call| call["output"]["city"].clone());
            assert_eq!(outputs.collect::<Vec<_>>(), ["Köln", "Rom"], "{agent}");
        }
    })
    .await;
}

#[tokio::test]
async fn event_stream_contains_text_and_tool_calls_with_every_model_provider() {
    with_provider_agents(|server| async move {
        for (agent, _, _) in PROVIDERS {
            let body = json!({ "userMessage": "compare two cities" });
            let events = server.stream(&format!("agents/{agent}/execute/stream"), body).await;
            let kinds: Vec<&str> = events.iter().map(|event| event.kind.as_str()).collect();
            let text: String = events
                .iter()
                .filter(|event| event.kind == "TEXT_DELTA")
                .map(|event| event.data["content"].as_str().unwrap())
                .collect();
            assert_eq!(text, "Let me look.Rain in Köln, sun in Rom.", "{agent}");
            for (kind, times) in [("TOOL_CALL_START", 2), ("TOOL_CALL_END", 2), ("USAGE", 2), ("DONE", 1)] {
                assert_eq!(kinds.iter().filter(|one| **one == kind).count(), times, "{agent}: {kind} in {kinds:?}");
            }
            assert_eq!(kinds.last(), Some(&"DONE"), "{agent}");
        }
    })
    .await;
}

#[tokio::test]
async fn run_completes_after_invalid_tool_calls_with_every_model_provider() {
    with_provider_agents(|server| async move {
        for (agent, _, _) in PROVIDERS {
            let response = run(&server, agent, "repair yourself").await;
            assert_eq!(response["status"], "COMPLETED", "{agent}: {response}");
            let codes: Vec<&Value> = response["outputs"]["tools_by_id"]
                .as_object()
                .unwrap()
                .values()
                .map(|envelope| &envelope["error"]["code"])
                .collect();
            assert_eq!(codes, ["VALIDATION_ERROR", "VALIDATION_ERROR", "POLICY_DENIED"], "{agent}");
            assert_eq!(call_statuses(&response).len(), 3, "{agent}");
        }
    })
    .await;
}

#[tokio::test]
async fn busy_provider_is_retried_but_a_failed_authentication_ends_the_run() {
    with_provider_agents(|server| async move {
        for (agent, _, _) in PROVIDERS {
            let response = run(&server, agent, &format!("busy at first, {agent}")).await;
            assert_eq!(
                (&response["status"], &response["responseText"]),
                (&json!("COMPLETED"), &json!("Here I am.")),
                "{agent}"
            );
            let refused = run(&server, agent, "never answer").await;
            assert_eq!(
                (&refused["status"], &refused["reason"]),
                (&json!("ERROR"), &json!("model_auth")),
                "{agent}: {refused}"
            );
            assert!(!refused.to_string().contains("sk-a-key-of-the-realm"), "{agent}: the key is not in the response");
        }
    })
    .await;
}

/// Starts an HTTP service that is both a camera and a model. Returns its address, and the requests that the model
/// received.
async fn start_camera_and_model() -> (SocketAddr, Arc<Mutex<Vec<Value>>>) {
    let received: Arc<Mutex<Vec<Value>>> = Arc::default();
    let requests = Arc::clone(&received);
    let reply = move |body: String| async move {
        let body: Value = serde_json::from_str(&body).unwrap();
        let delta = match body["messages"].as_array().unwrap().len() {
            1 => {
                json!({ "tool_calls": [{ "index": 0, "id": "call_1", "type": "function", "function": { "name": "camera", "arguments": "{}" } }] })
            }
            _ => json!({ "content": "A cat." }),
        };
        requests.lock().unwrap().push(body);
        let chunk = |delta: Value, end: Value| json!({ "id": "1", "object": "chat.completion.chunk", "choices": [{ "index": 0, "delta": delta, "finish_reason": end }] });
        let end = if delta.get("content").is_some() { "stop" } else { "tool_calls" };
        let stream = format!(
            "data: {}\n\ndata: {}\n\ndata: [DONE]\n\n",
            chunk(delta, Value::Null),
            chunk(json!({}), json!(end))
        );
        ([("content-type", "text/event-stream")], stream)
    };
    let app = Router::new()
        .route("/camera", get(|| async { ([("content-type", "image/png")], *b"\x89PNG") }))
        .route("/v1/chat/completions", post(reply));
    let listener = tokio::net::TcpListener::bind(LOOPBACK).await.unwrap();
    let address = listener.local_addr().unwrap();
    TaskTracker::new().spawn(async move { axum::serve(listener, app).await });
    (address, received)
}

#[tokio::test]
async fn image_returned_by_a_tool_is_sent_to_the_model() {
    let deployment = Deployment::new(Storage::Sqlite).await;
    let (server, running) =
        deployment.start_with(|options| options.egress_allow = vec!["127.0.0.0/8".parse().unwrap()]).await;
    let (address, received) = start_camera_and_model().await;
    let provider = json!({ "refName": "house", "providerType": "REST", "baseUrl": format!("http://{address}") });
    server.post("tool-providers", provider).await.expect(201);
    let tool = json!({ "refName": "camera", "description": "Looks.", "toolType": "EXTERNAL_REST", "providerRef": "house", "invocation": { "method": "GET", "path": "/camera" }, "inputJsonSchema": { "type": "object" }, "outputJsonSchema": {} });
    server.post("tools", tool).await.expect(201);
    server.post("secrets", json!({ "name": "model-key", "scope": "realm", "value": "sk-key" })).await.expect(201);
    let llm = json!({ "provider": "openai", "model": "gpt-4o", "baseUrl": format!("http://{address}/v1"), "apiKeySecretRef": "model-key" });
    let agent = json!({ "refName": "watcher", "llmConfig": llm, "toolRefs": ["camera"] });
    server.post("agents", agent).await.expect(201);

    let response = run(&server, "watcher", "What is in the room?").await;
    assert_eq!((&response["status"], &response["responseText"]), (&json!("COMPLETED"), &json!("A cat.")), "{response}");
    let last = received.lock().unwrap().last().unwrap()["messages"].as_array().unwrap().last().unwrap().clone();
    assert_eq!(last["content"][1]["image_url"]["url"], "data:image/png;base64,iVBORw==", "{last}");
    let run = server.get(&format!("runs/{}", response["runId"].as_str().unwrap())).await.expect(200);
    assert!(!run.to_string().contains("iVBORw"), "the journal references the image and does not contain it");
    running.stop().await;
    deployment.remove().await;
}
