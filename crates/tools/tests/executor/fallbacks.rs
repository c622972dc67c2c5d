//! Another tool instead: through the same path, once, and never in circles.

use serde_json::{Value, json};
use toolwright_types::CallId;

use crate::recorder::Recorder;
use crate::world::{World, detail, done, failure, merged, request};

fn falling_back_to(other: &str) -> Value {
    json!({ "errorHandling": { "503": { "action": "fallback", "fallbackToolRef": other } } })
}

#[tokio::test]
async fn the_other_tool_answers_and_the_receipt_says_so() {
    let world = World::start().await;
    world.get("primary", "/status/503", merged(falling_back_to("backup"), json!({ "defaultRetryCount": 3 })));
    world.get(
        "backup",
        "/echo/${param.id}",
        json!({ "invocation": { "path": "/echo/${param.id}", "responseMapping": "$.path" } }),
    );
    let envelope = world.call("primary", json!({ "id": "7" })).await;
    assert_eq!((envelope.name.as_str(), &envelope.output), ("primary", &json!("/echo/7")));
    assert_eq!((envelope.metadata.attempt, envelope.metadata.http_status), (1, Some(503)));
    let warning = &envelope.metadata.warnings[0];
    assert!(warning.starts_with("answered by fallback `backup@1.0.0` after PROVIDER_ERROR"), "{warning}");
}

#[tokio::test]
async fn when_both_fail_the_first_failure_stays_and_the_second_is_told() {
    let world = World::start().await;
    world.get("primary", "/status/503", falling_back_to("backup"));
    for (backup, because) in [
        (json!({ "enabled": false }), "POLICY_DENIED"),
        (json!({ "isToolFullyExecutedOnServer": false }), "needs the client"),
    ] {
        world.function("backup", "echo", backup);
        let envelope = world.call("primary", json!({})).await;
        assert!(
            failure(&envelope).starts_with("PROVIDER_ERROR http_status: the upstream answered 503"),
            "{}",
            failure(&envelope)
        );
        let told = detail(&envelope, "fallback");
        assert!(told.as_str().unwrap().contains(because), "{told}");
    }
}

#[tokio::test]
async fn circles_of_fallbacks_end() {
    let world = World::start().await;
    world.get("self", "/status/503", falling_back_to("self"));
    world.get("a", "/status/503", falling_back_to("b"));
    world.get("b", "/status/503", falling_back_to("a"));
    for tool in ["self", "a"] {
        let before = world.faults.hits("/status");
        assert!(failure(&world.call(tool, json!({})).await).starts_with("PROVIDER_ERROR"));
        assert_eq!(world.faults.hits("/status") - before, 4, "{tool}");
    }
}

#[tokio::test]
async fn the_answer_of_another_tool_is_not_remembered_as_this_ones() {
    let world = World::start().await;
    world.get(
        "primary",
        "/status/503?times=1&key=once",
        merged(falling_back_to("backup"), json!({ "cache": "forever" })),
    );
    world.function("backup", "echo", json!({}));
    assert_eq!(world.output("primary", json!({ "n": 1 })).await, json!({ "n": 1 }));
    assert_eq!(world.output("primary", json!({ "n": 1 })).await, json!({ "ok": true, "attempts": 2 }));
}

#[tokio::test]
async fn what_the_tool_promises_holds_for_its_fallback_too() {
    let world = World::start().await;
    let promise =
        json!({ "outputJsonSchema": { "type": "object", "required": ["total"] }, "onOutputMismatch": "fail" });
    world.get("primary", "/status/503", merged(falling_back_to("backup"), promise));
    world.function("backup", "echo", json!({}));
    assert_eq!(world.output("primary", json!({ "total": 3 })).await, json!({ "total": 3 }));
    let envelope = world.call("primary", json!({ "other": 3 })).await;
    assert!(failure(&envelope).starts_with("PROVIDER_ERROR output_schema"), "{}", failure(&envelope));
}

#[tokio::test]
async fn a_fallbacks_cut_output_is_still_marked_as_cut() {
    let world = World::start().await;
    world.get("primary", "/status/503", falling_back_to("backup"));
    world.get("backup", "/huge/5000", json!({ "maxOutputBytes": 1000 }));
    let envelope = world.call("primary", json!({})).await;
    assert!(envelope.truncated && envelope.attachments.len() == 1, "{envelope:?}");
}

/// Two equal calls of one run are two writes; if both fall back, the other system must not take them for one.
#[tokio::test]
async fn two_calls_that_fall_back_to_one_write_have_two_idempotency_keys() {
    let world = World::start().await;
    let recorder = Recorder::start(0).await;
    world.provider(json!({ "refName": "recorder", "baseUrl": recorder.url }));
    world.rest("primary", json!({ "method": "POST", "path": "/status/503" }), falling_back_to("backup"));
    world.rest("backup", json!({ "method": "POST", "path": "/x" }), json!({ "providerRef": "recorder" }));
    let call = || request("primary", json!({ "amount": 5 }));
    let outcomes = world
        .executor
        .execute_many(&world.cx, vec![call(), call(), request("backup", json!({ "amount": 5 }))], 1)
        .await;
    let ids: Vec<CallId> = outcomes.into_iter().map(|outcome| done(outcome).call_id).collect();
    assert_ne!(ids[0], ids[1]);
    let mut keys = recorder.header("idempotency-key");
    assert_eq!(keys.len(), 3);
    keys.sort();
    keys.dedup();
    assert_eq!(keys.len(), 3, "{keys:?}");
}

#[tokio::test]
async fn nothing_stands_in_that_does_more_than_was_agreed_to() {
    let world = World::start().await;
    world.get("primary", "/status/503", falling_back_to("backup"));
    for (backup, because) in
        [(json!({ "requiresConfirmation": true }), "approval"), (json!({ "sideEffects": "writes" }), "writes")]
    {
        world.function("backup", "echo", backup);
        let envelope = world.call("primary", json!({})).await;
        let told = detail(&envelope, "fallback");
        assert!(told.as_str().unwrap().contains("POLICY_DENIED") && told.as_str().unwrap().contains(because), "{told}");
    }
    world.get("writes", "/status/503", merged(falling_back_to("backup"), json!({ "sideEffects": "writes" })));
    assert_eq!(world.output("writes", json!({ "n": 1 })).await, json!({ "n": 1 }));
}
