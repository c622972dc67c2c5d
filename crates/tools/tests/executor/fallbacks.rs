//! Fallbacks: they are checked like other calls, and cycles of fallbacks end.

use serde_json::{Value, json};
use toolwright_types::CallId;

use crate::batch_runner::execute_many;
use crate::recorder::Recorder;
use crate::world::{World, detail, done, failure, merged, request};

fn falling_back_to(other: &str) -> Value {
    json!({ "errorHandling": { "503": { "action": "fallback", "fallbackToolRef": other } } })
}

#[tokio::test]
async fn fallback_output_is_returned_with_a_warning() {
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
async fn failure_of_the_primary_tool_is_reported_if_its_fallback_fails_too() {
    let world = World::start().await;
    world.get("primary", "/status/503", falling_back_to("backup"));
    for (backup, because) in [
        (json!({ "enabled": false }), "POLICY_DENIED"),
        (json!({ "isToolFullyExecutedOnServer": false }), "requires the client"),
    ] {
        world.function("backup", "echo", backup);
        let envelope = world.call("primary", json!({})).await;
        assert!(
            failure(&envelope).starts_with("PROVIDER_ERROR http_status: the upstream answered 503"),
            "{}",
            failure(&envelope)
        );
        let reason = detail(&envelope, "fallback");
        assert!(reason.as_str().unwrap().contains(because), "{reason}");
    }
}

#[tokio::test]
async fn cycle_of_fallbacks_ends_after_four_calls() {
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
async fn fallback_result_is_not_cached() {
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
async fn fallback_result_is_checked_against_the_output_schema_of_the_primary_tool() {
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
async fn truncated_fallback_output_is_marked_as_truncated() {
    let world = World::start().await;
    world.get("primary", "/status/503", falling_back_to("backup"));
    world.get("backup", "/huge/5000", json!({ "maxOutputBytes": 1000 }));
    let envelope = world.call("primary", json!({})).await;
    assert!(envelope.truncated && envelope.attachments.len() == 1, "{envelope:?}");
}

/// Two equal calls of one run are two writes. If both use the fallback, the system behind the fallback must not treat
/// them as one write.
#[tokio::test]
async fn equal_calls_that_use_the_fallback_have_distinct_idempotency_keys() {
    let world = World::start().await;
    let recorder = Recorder::start(0).await;
    world.provider(json!({ "refName": "recorder", "baseUrl": recorder.url }));
    world.rest("primary", json!({ "method": "POST", "path": "/status/503" }), falling_back_to("backup"));
    world.rest("backup", json!({ "method": "POST", "path": "/x" }), json!({ "providerRef": "recorder" }));
    let call = || request("primary", json!({ "amount": 5 }));
    let outcomes = execute_many(&world, vec![call(), call(), request("backup", json!({ "amount": 5 }))], 1).await;
    let ids: Vec<CallId> = outcomes.into_iter().map(|outcome| done(outcome).call_id).collect();
    assert_ne!(ids[0], ids[1]);
    let mut keys = recorder.header("idempotency-key");
    assert_eq!(keys.len(), 3);
    keys.sort();
    keys.dedup();
    assert_eq!(keys.len(), 3, "{keys:?}");
}

#[tokio::test]
async fn fallback_that_adds_a_write_or_an_approval_is_refused() {
    let world = World::start().await;
    world.get("primary", "/status/503", falling_back_to("backup"));
    for (backup, because) in
        [(json!({ "requiresConfirmation": true }), "approval"), (json!({ "sideEffects": "writes" }), "writes")]
    {
        world.function("backup", "echo", backup);
        let envelope = world.call("primary", json!({})).await;
        let reason = detail(&envelope, "fallback");
        assert!(
            reason.as_str().unwrap().contains("POLICY_DENIED") && reason.as_str().unwrap().contains(because),
            "{reason}"
        );
    }
    world.get("writes", "/status/503", merged(falling_back_to("backup"), json!({ "sideEffects": "writes" })));
    assert_eq!(world.output("writes", json!({ "n": 1 })).await, json!({ "n": 1 }));
}
