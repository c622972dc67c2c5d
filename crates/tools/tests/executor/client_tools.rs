//! Tools whose last step is the client's: the server checks and prepares, and does nothing more.

use serde_json::{Value, json};
use toolwright_tools::{ClientAction, Outcome};
use toolwright_types::ExecutionSite;

use crate::world::{World, done, failure, request};

fn open_file() -> Value {
    json!({
        "isToolFullyExecutedOnServer": false,
        "inputJsonSchema": { "type": "object", "properties": { "path": { "type": "string" }, "line": { "default": 1 } }, "required": ["path"] },
        "outputJsonSchema": { "type": "object", "required": ["opened"] },
    })
}

async fn prepared(world: &World, tool: &str, input: Value) -> ClientAction {
    match world.executor.execute(&world.cx, request(tool, input)).await {
        Outcome::Client(action) => *action,
        Outcome::Done(envelope) => panic!("{envelope:?}"),
    }
}

#[tokio::test]
async fn the_client_gets_the_shaped_payload_and_the_promise_to_keep() {
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
async fn without_a_template_the_input_is_the_payload() {
    let world = World::start().await;
    world.function("open", "ide.open", open_file());
    assert_eq!(
        prepared(&world, "open", json!({ "path": "a.rs" })).await.prepared_payload,
        json!({ "path": "a.rs", "line": 1 })
    );
}

#[tokio::test]
async fn nothing_is_executed_even_where_it_could_be() {
    let world = World::start().await;
    world.get("remote", "/count/client", json!({ "isToolFullyExecutedOnServer": false, "cache": "forever" }));
    let action = prepared(&world, "remote", json!({ "a": 1 })).await;
    assert_eq!(action.prepared_payload, json!({ "a": 1 }));
    assert_eq!((world.faults.hits("/"), world.vault.reveals()), (0, 0));
}

#[tokio::test]
async fn the_servers_part_still_refuses() {
    let world = World::start().await;
    world.function("open", "ide.open", open_file());
    assert!(failure(&world.call("open", json!({})).await).starts_with("VALIDATION_ERROR input_schema"));
    world.gate.closed.lock().unwrap().insert("open".into());
    assert!(failure(&world.call("open", json!({ "path": "a" })).await).starts_with("POLICY_DENIED permission"));
    let mut body = open_file();
    body["rateLimit"] = json!({ "perSecond": 0.01 });
    world.function("limited", "ide.open", body);
    prepared(&world, "limited", json!({ "path": "a" })).await;
    let envelope = done(world.executor.execute(&world.cx, request("limited", json!({ "path": "a" }))).await);
    assert!(failure(&envelope).starts_with("RATE_LIMIT"), "{}", failure(&envelope));
}

#[tokio::test]
async fn a_batch_may_mix_both_kinds() {
    let world = World::start().await;
    world.function("open", "ide.open", open_file());
    world.function("echo", "echo", json!({}));
    let requests = vec![
        request("open", json!({ "path": "a" })),
        request("echo", json!(1)),
        request("open", json!({ "path": "a" })),
    ];
    let outcomes = world.executor.execute_many(&world.cx, requests, 4).await;
    let [Outcome::Client(first), Outcome::Done(middle), Outcome::Client(last)] = outcomes.as_slice() else {
        panic!("{outcomes:?}")
    };
    assert_eq!(middle.output, json!(1));
    assert_ne!(first.call_id, last.call_id);
}
