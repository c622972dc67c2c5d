//! Client tools: the server validates and prepares the call, and the client performs it.

use serde_json::{Value, json};
use toolwright_tools::{CallOutcome, ClientAction, ToolFailure};
use toolwright_types::ExecutionSite;

use crate::batch_runner::execute_many;
use crate::world::{World, done, execute, failure, request};

fn open_file() -> Value {
    json!({
        "isToolFullyExecutedOnServer": false,
        "inputJsonSchema": { "type": "object", "properties": { "path": { "type": "string" }, "line": { "default": 1 } }, "required": ["path"] },
        "outputJsonSchema": { "type": "object", "required": ["opened"] },
    })
}

async fn prepared(world: &World, tool: &str, input: Value) -> ClientAction {
    match execute(&world.executor, &world.cx, request(tool, input)).await {
        CallOutcome::Client(action) => *action,
        CallOutcome::Done(envelope) => panic!("{envelope:?}"),
    }
}

#[tokio::test]
async fn client_action_has_the_rendered_payload_and_the_output_schema() {
    let world = World::start().await;
    let mut body = open_file();
    body["invocation"] =
        json!({ "path": "ide.open", "bodyTemplate": { "file": "/srv/${param.path}", "line": "${param.line}" } });
    world.function("open", "ide.open", body);
    let action = prepared(&world, "open", json!({ "path": "a.rs" })).await;
    assert_eq!(action.prepared_payload, json!({ "file": "/srv/a.rs", "line": 1 }));
    assert_eq!(action.schema, json!({ "type": "object", "required": ["opened"] }));
    assert_eq!(action.call_id, action.pending.call_id);
    assert_eq!(action.pending.input, json!({ "path": "a.rs" }));
    assert_eq!(action.pending.metadata.execution_site, Some(ExecutionSite::Client));
    assert_eq!(failure(&action.pending), "UNKNOWN awaiting_client: the client has not returned a result");
}

#[tokio::test]
async fn client_payload_is_the_input_if_the_tool_has_no_template() {
    let world = World::start().await;
    world.function("open", "ide.open", open_file());
    assert_eq!(
        prepared(&world, "open", json!({ "path": "a.rs" })).await.prepared_payload,
        json!({ "path": "a.rs", "line": 1 })
    );
}

#[tokio::test]
async fn function_of_a_client_tool_prepares_the_payload() {
    let shape =
        |input: Value| async move { Ok(json!({ "uri": format!("file:///srv/{}", input["path"].as_str().unwrap()) })) };
    let world = World::with_functions(crate::test_functions::library("shape", shape)).await;
    world.function("open", "shape", open_file());
    let action = prepared(&world, "open", json!({ "path": "a.rs" })).await;
    assert_eq!(action.prepared_payload, json!({ "uri": "file:///srv/a.rs" }));
    assert_eq!(action.pending.metadata.execution_site, Some(ExecutionSite::Client));
}

#[tokio::test]
async fn envelope_of_a_prepared_client_call_contains_no_secret() {
    let world = World::with_functions(crate::test_functions::library("shape", |input| async { Ok(input) })).await;
    let auth = json!({ "authType": "bearer", "secretRef": "token" });
    world.provider(json!({ "refName": "ide", "baseUrl": "https://example.com", "auth": auth }));
    world.secret("token", "a-secret-of-the-ide");
    let mut body = open_file();
    body["providerRef"] = json!("ide");
    world.function("open", "shape", body);
    let action = prepared(&world, "open", json!({ "path": "a-secret-of-the-ide" })).await;
    assert_eq!(action.pending.input["path"], "[redacted]");
    assert_eq!(action.prepared_payload["path"], "[redacted]");
}

#[tokio::test]
async fn failed_function_of_a_client_tool_fails_the_call() {
    let refuse = |_| async { Err(ToolFailure::invalid("no such file")) };
    let world = World::with_functions(crate::test_functions::library("refuse", refuse)).await;
    world.function("open", "refuse", open_file());
    let envelope = done(execute(&world.executor, &world.cx, request("open", json!({ "path": "a" }))).await);
    assert!(failure(&envelope).contains("no such file"), "{}", failure(&envelope));
}

#[tokio::test]
async fn client_tool_is_not_executed_on_the_server() {
    let world = World::start().await;
    world.get("remote", "/count/client", json!({ "isToolFullyExecutedOnServer": false, "cache": "forever" }));
    let action = prepared(&world, "remote", json!({ "a": 1 })).await;
    assert_eq!(action.prepared_payload, json!({ "a": 1 }));
    assert_eq!((world.faults.hits("/"), world.secrets.reveals()), (0, 0));
}

#[tokio::test]
async fn client_tool_call_that_is_invalid_or_denied_or_over_the_rate_limit_fails() {
    let world = World::start().await;
    world.function("open", "ide.open", open_file());
    assert!(failure(&world.call("open", json!({})).await).starts_with("VALIDATION_ERROR input_schema"));
    world.authorizer.denied.lock().unwrap().insert("open".into());
    assert!(failure(&world.call("open", json!({ "path": "a" })).await).starts_with("POLICY_DENIED permission"));
    let mut body = open_file();
    body["rateLimit"] = json!({ "perSecond": 0.01 });
    world.function("limited", "ide.open", body);
    prepared(&world, "limited", json!({ "path": "a" })).await;
    let envelope = done(execute(&world.executor, &world.cx, request("limited", json!({ "path": "a" }))).await);
    assert!(failure(&envelope).starts_with("RATE_LIMIT"), "{}", failure(&envelope));
}

#[tokio::test]
async fn batch_with_server_and_client_tools_returns_both_kinds_of_outcome() {
    let world = World::start().await;
    world.function("open", "ide.open", open_file());
    world.function("echo", "echo", json!({}));
    let requests = vec![
        request("open", json!({ "path": "a" })),
        request("echo", json!(1)),
        request("open", json!({ "path": "a" })),
    ];
    let outcomes = execute_many(&world, requests, 4).await;
    let [CallOutcome::Client(first), CallOutcome::Done(middle), CallOutcome::Client(last)] = outcomes.as_slice() else {
        panic!("{outcomes:?}")
    };
    assert_eq!(middle.output, json!(1));
    assert_ne!(first.call_id, last.call_id);
}
