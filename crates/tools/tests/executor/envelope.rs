//! The envelope: its fields, the id of a call, and its metadata.

use serde_json::{Value, json};
use toolwright_tools::{CallRequest, CallSequence, Preparation};
use toolwright_types::{CallId, ToolEnvelope};

use crate::batch_runner::execute_many;
use crate::world::{World, context, done, execute, request};

fn without_times(envelope: &ToolEnvelope) -> Value {
    assert!(envelope.t_start <= envelope.t_end);
    let mut value = serde_json::to_value(envelope).unwrap();
    value["t_start"] = json!("[time]");
    value["t_end"] = json!("[time]");
    value
}

#[tokio::test]
async fn envelope_of_a_success_matches_the_snapshot() {
    let world = World::start().await;
    world.provider(json!({ "refName": "faults", "auth": { "authType": "bearer", "secretRef": "token" } }));
    world.secrets.put("token", "a-token-for-this-test", "org", 3);
    world.get(
        "crm/count",
        "/count/${param.key}",
        json!({ "version": "1.2.3", "status": "deprecated", "cache": "ttl" }),
    );
    insta::assert_json_snapshot!(without_times(&world.call("crm/count", json!({ "key": "k" })).await));
    // The second call is answered from the cache. Its envelope has no attempt and no repeated warnings.
    insta::assert_json_snapshot!(without_times(&world.call("CRM/Count", json!({ "key": "k" })).await));
}

#[tokio::test]
async fn envelope_of_a_failure_matches_the_snapshot() {
    let world = World::start().await;
    let handling = json!({ "429": { "action": "clarify", "message": "Too many; ask the user to wait." } });
    world.get("t", "/status/429?retry_after=3", json!({ "errorHandling": handling }));
    insta::assert_json_snapshot!(without_times(&world.call("t", json!({ "q": [1, null] })).await));
}

#[tokio::test]
async fn envelope_of_a_refusal_matches_the_snapshot() {
    let world = World::start().await;
    insta::assert_json_snapshot!(without_times(&world.call("nobody/knows", json!("raw text")).await));
}

#[tokio::test]
async fn envelope_of_a_failure_round_trips_through_json() {
    let world = World::start().await;
    world.get("t", "/status/500", json!({}));
    let envelope = world.call("t", json!({})).await;
    let text = serde_json::to_string(&envelope).unwrap();
    assert_eq!(serde_json::from_str::<ToolEnvelope>(&text).unwrap(), envelope);
}

#[tokio::test]
async fn call_id_is_the_same_for_every_principal_and_number_notation() {
    let world = World::start().await;
    world.function("t", "echo", json!({}));
    let first = world.call("t", json!({ "a": 1, "b": [1.0, "é"] })).await;
    assert_eq!(first.call_id, CallId::derive("t", "1.0.0", &json!({ "b": [1, "é"], "a": 1 }), 0));
    let other = World::start().await;
    other.function("T", "echo", json!({ "description": "something else" }));
    let elsewhere = context("someone@example.com", 7);
    let again = done(execute(&other.executor, &elsewhere, request("t", json!({ "b": [1, "é"], "a": 1.0 }))).await);
    assert_eq!(again.call_id, CallId::derive("T", "1.0.0", &json!({ "b": [1, "é"], "a": 1 }), 0));
    assert_eq!(again.name, "T");
    assert_eq!(again.metadata.principal.as_deref(), Some("someone@example.com"));
}

#[tokio::test]
async fn defaults_do_not_change_the_call_id() {
    let world = World::start().await;
    let schema = json!({ "type": "object", "properties": { "limit": { "type": "integer", "default": 10 } } });
    world.function("t", "echo", json!({ "inputJsonSchema": schema }));
    let envelope = world.call("t", json!({})).await;
    assert_eq!(envelope.output, json!({ "limit": 10 }));
    assert_eq!(envelope.input, json!({}));
    assert_eq!(envelope.call_id, CallId::derive("t", "1.0.0", &json!({}), 0));
}

#[tokio::test]
async fn call_id_of_an_unknown_tool_is_derived_from_an_empty_version() {
    let world = World::start().await;
    let envelope = world.call("nobody", json!({})).await;
    assert_eq!((envelope.version.as_str(), envelope.name.as_str()), ("", "nobody"));
    assert_eq!(envelope.call_id, CallId::derive("nobody", "", &json!({}), 0));
}

#[tokio::test]
async fn repeated_calls_of_one_run_get_distinct_ids() {
    let world = World::start().await;
    world.function("a", "echo", json!({}));
    world.function("b", "echo", json!({}));
    let calls = [("a", 1), ("b", 1), ("a", 1), ("a", 2), ("nobody", 1), ("a", 1), ("nobody", 1)];
    let requests = calls.iter().map(|(tool, n)| request(tool, json!({ "n": n }))).collect();
    let outcomes = execute_many(&world, requests, 3).await;
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
async fn prepared_call_and_envelope_have_the_same_call_id() {
    let world = World::start().await;
    world.function("t", "echo", json!({ "version": "2.0.0" }));
    let mut sequence = CallSequence::default();
    let asked = CallRequest { version: Some("^2".parse().unwrap()), ..request("t", json!({})) };
    let Preparation::Ready(ready) = world.executor.prepare(&world.cx, asked, &mut sequence).await else {
        panic!("the call was refused")
    };
    assert_eq!(ready.permit.policy, "everything");
    let id = ready.call_id().clone();
    let envelope = done(world.executor.call(&world.cx, *ready).await);
    assert_eq!((envelope.call_id, envelope.version.as_str()), (id, "2.0.0"));
    assert_eq!(envelope.metadata.policy_id.as_deref(), Some("everything"));
}

#[tokio::test]
async fn envelope_reports_the_broadest_secret_scope() {
    let world = World::start().await;
    let auth = json!({ "authType": "bearer", "secretRef": "mine", "certRef": "ours" });
    world.provider(json!({ "refName": "faults", "auth": auth }));
    world.secrets.put("mine", "value-of-mine", "user", 1);
    world.get("t", "/echo", json!({}));
    for scope in ["user", "realm", "org"] {
        // The value is not a certificate, so the call fails. Its envelope must still report the scope.
        world.secrets.put("ours", "not a certificate", scope, 1);
        assert_eq!(world.call("t", json!({})).await.metadata.secret_scope.as_deref(), Some(scope));
    }
}
