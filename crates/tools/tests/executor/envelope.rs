//! The receipt: its shape, the identity of a call, and what it says beside the result.

use serde_json::{Value, json};
use toolwright_tools::{CallRequest, CallSequence, Prepared};
use toolwright_types::{CallId, ToolEnvelope};

use crate::world::{World, context, done, request};

fn without_times(envelope: &ToolEnvelope) -> Value {
    assert!(envelope.t_start <= envelope.t_end);
    let mut value = serde_json::to_value(envelope).unwrap();
    value["t_start"] = json!("[time]");
    value["t_end"] = json!("[time]");
    value
}

#[tokio::test]
async fn a_success_has_this_shape() {
    let world = World::start().await;
    world.provider(json!({ "refName": "faults", "auth": { "authType": "bearer", "secretRef": "token" } }));
    world.vault.put("token", "a-token-for-this-test", "org", 3);
    world.get(
        "crm/count",
        "/count/${param.key}",
        json!({ "version": "1.2.3", "status": "deprecated", "cache": "ttl" }),
    );
    insta::assert_json_snapshot!(without_times(&world.call("crm/count", json!({ "key": "k" })).await));
    // The same again, from the cache: not run, so no attempt, and each warning once.
    insta::assert_json_snapshot!(without_times(&world.call("CRM/Count", json!({ "key": "k" })).await));
}

#[tokio::test]
async fn a_failure_has_this_shape() {
    let world = World::start().await;
    let handling = json!({ "429": { "action": "clarify", "message": "Too many; ask the user to wait." } });
    world.get("t", "/status/429?retry_after=3", json!({ "errorHandling": handling }));
    insta::assert_json_snapshot!(without_times(&world.call("t", json!({ "q": [1, null] })).await));
}

#[tokio::test]
async fn a_refusal_has_this_shape() {
    let world = World::start().await;
    insta::assert_json_snapshot!(without_times(&world.call("nobody/knows", json!("raw text")).await));
}

#[tokio::test]
async fn an_envelope_reads_back() {
    let world = World::start().await;
    world.get("t", "/status/500", json!({}));
    let envelope = world.call("t", json!({})).await;
    let text = serde_json::to_string(&envelope).unwrap();
    assert_eq!(serde_json::from_str::<ToolEnvelope>(&text).unwrap(), envelope);
}

#[tokio::test]
async fn a_call_id_depends_on_the_call_and_nothing_else() {
    let world = World::start().await;
    world.function("t", "echo", json!({}));
    let first = world.call("t", json!({ "a": 1, "b": [1.0, "é"] })).await;
    assert_eq!(first.call_id, CallId::derive("t", "1.0.0", &json!({ "b": [1, "é"], "a": 1 }), 0));
    let other = World::start().await;
    other.function("T", "echo", json!({ "description": "something else" }));
    let elsewhere = context("someone@example.com", 7);
    let again = done(other.executor.execute(&elsewhere, request("t", json!({ "b": [1, "é"], "a": 1.0 }))).await);
    assert_eq!(again.call_id, CallId::derive("T", "1.0.0", &json!({ "b": [1, "é"], "a": 1 }), 0));
    assert_eq!(again.name, "T");
    assert_eq!(again.metadata.principal.as_deref(), Some("someone@example.com"));
}

#[tokio::test]
async fn defaults_reach_the_tool_but_not_the_identity() {
    let world = World::start().await;
    let schema = json!({ "type": "object", "properties": { "limit": { "type": "integer", "default": 10 } } });
    world.function("t", "echo", json!({ "inputJsonSchema": schema }));
    let envelope = world.call("t", json!({})).await;
    assert_eq!(envelope.output, json!({ "limit": 10 }));
    assert_eq!(envelope.input, json!({}));
    assert_eq!(envelope.call_id, CallId::derive("t", "1.0.0", &json!({}), 0));
}

#[tokio::test]
async fn an_unknown_tool_has_an_identity_without_a_version() {
    let world = World::start().await;
    let envelope = world.call("nobody", json!({})).await;
    assert_eq!((envelope.version.as_str(), envelope.name.as_str()), ("", "nobody"));
    assert_eq!(envelope.call_id, CallId::derive("nobody", "", &json!({}), 0));
}

#[tokio::test]
async fn repeated_calls_of_one_run_count_up_and_others_do_not_disturb_them() {
    let world = World::start().await;
    world.function("a", "echo", json!({}));
    world.function("b", "echo", json!({}));
    let calls = [("a", 1), ("b", 1), ("a", 1), ("a", 2), ("nobody", 1), ("a", 1), ("nobody", 1)];
    let requests = calls.iter().map(|(tool, n)| request(tool, json!({ "n": n }))).collect();
    let outcomes = world.executor.execute_many(&world.cx, requests, 3).await;
    let ids: Vec<CallId> = outcomes.into_iter().map(|outcome| done(outcome).call_id).collect();
    let id = |tool, version, n, seq| CallId::derive(tool, version, &json!({ "n": n }), seq);
    let expected = [
        id("a", "1.0.0", 1, 0),
        id("b", "1.0.0", 1, 0),
        id("a", "1.0.0", 1, 1),
        id("a", "1.0.0", 2, 0),
        id("nobody", "", 1, 0),
        id("a", "1.0.0", 1, 2),
        id("nobody", "", 1, 1),
    ];
    assert_eq!(ids, expected);
}

#[tokio::test]
async fn the_two_halves_share_one_identity() {
    let world = World::start().await;
    world.function("t", "echo", json!({ "version": "2.0.0" }));
    let mut sequence = CallSequence::default();
    let asked = CallRequest { version: Some("^2".parse().unwrap()), ..request("t", json!({})) };
    let Prepared::Ready(ready) = world.executor.prepare(&world.cx, asked, &mut sequence).await else {
        panic!("refused")
    };
    assert_eq!(ready.permit.policy, "everything");
    let id = ready.call_id().clone();
    let envelope = done(world.executor.call(&world.cx, *ready).await);
    assert_eq!((envelope.call_id, envelope.version.as_str()), (id, "2.0.0"));
    assert_eq!(envelope.metadata.policy_id.as_deref(), Some("everything"));
}

#[tokio::test]
async fn the_broadest_scope_of_the_secrets_is_told() {
    let world = World::start().await;
    let auth = json!({ "authType": "bearer", "secretRef": "mine", "certRef": "ours" });
    world.provider(json!({ "refName": "faults", "auth": auth }));
    world.vault.put("mine", "value-of-mine", "user", 1);
    world.get("t", "/echo", json!({}));
    for scope in ["user", "realm", "org"] {
        // Not a certificate: the call fails, and the scope is told all the same.
        world.vault.put("ours", "not a certificate", scope, 1);
        assert_eq!(world.call("t", json!({})).await.metadata.secret_scope.as_deref(), Some(scope));
    }
}
