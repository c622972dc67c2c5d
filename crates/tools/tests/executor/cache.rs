//! The result cache: which results are reused, and which are not.

use std::time::Duration;

use bytes::Bytes;
use serde_json::{Value, json};
use toolwright_tools::executor::MemoryCache;
use toolwright_tools::ports::ResultCache;

use crate::world::{World, context, done, execute, merged, request};

async fn count(world: &World, tool: &str) -> (Value, bool) {
    let envelope = world.call(tool, json!({ "q": 1 })).await;
    assert!(envelope.is_success(), "{:?}", envelope.error);
    (envelope.output["count"].clone(), envelope.cached)
}

#[tokio::test]
async fn cache_hit_is_marked_and_does_not_call_the_upstream() {
    let world = World::start().await;
    for policy in ["ttl", "forever"] {
        world.get(policy, &format!("/count/{policy}"), json!({ "cache": policy }));
        assert_eq!(count(&world, policy).await, (json!(0), false));
        assert_eq!(count(&world, policy).await, (json!(0), true));
        assert_eq!(world.faults.hits(&format!("/count/{policy}")), 1);
    }
    world.get("none", "/count/none", json!({}));
    assert_eq!(count(&world, "none").await, (json!(0), false));
    assert_eq!(count(&world, "none").await, (json!(1), false));
}

#[tokio::test]
async fn cache_hit_has_the_same_attachments_and_warnings_as_the_first_call() {
    let world = World::start().await;
    world.get("t", "/binary/png", json!({ "cache": "forever", "status": "deprecated" }));
    let first = world.call("t", json!({})).await;
    let second = world.call("t", json!({})).await;
    assert!(second.cached && !first.cached);
    assert_eq!((&second.output, &second.attachments), (&first.output, &first.attachments));
    assert_eq!(second.metadata.warnings, first.metadata.warnings);
    assert_eq!(second.metadata.http_status, Some(200));
    assert_eq!(second.metadata.attempt, 0);
    assert_eq!(second.call_id, first.call_id);
}

#[tokio::test]
async fn equal_inputs_with_different_key_order_or_number_notation_share_a_cache_entry() {
    let world = World::start().await;
    world.get("t", "/count/spelling", json!({ "cache": "forever" }));
    world.output("t", json!({ "a": 1, "b": 2.0 })).await;
    assert!(world.call("t", json!({ "b": 2, "a": 1.0 })).await.cached);
    assert!(!world.call("t", json!({ "b": 2, "a": "1" })).await.cached);
}

#[tokio::test]
async fn realms_do_not_share_cache_entries() {
    let world = World::start().await;
    world.get("t", "/count/realms", json!({ "cache": "forever" }));
    count(&world, "t").await;
    let elsewhere = done(execute(&world.executor, &context("admin", 2), request("t", json!({ "q": 1 }))).await);
    assert_eq!((elsewhere.cached, &elsewhere.output["count"]), (false, &json!(1)));
}

#[tokio::test]
async fn new_secret_revision_is_a_cache_miss() {
    let world = World::start().await;
    world.provider(json!({ "refName": "faults", "auth": { "authType": "bearer", "secretRef": "token" } }));
    world.get("t", "/count/secrets", json!({ "cache": "forever" }));
    for revision in [1, 2] {
        world.secrets.put("token", "value-of-the-token", "realm", revision);
        assert!(!count(&world, "t").await.1, "revision {revision}");
        assert!(count(&world, "t").await.1, "revision {revision}");
    }
}

#[tokio::test]
async fn cache_hit_opens_no_secret() {
    let world = World::start().await;
    world.provider(json!({ "refName": "faults", "auth": { "authType": "bearer", "secretRef": "token" } }));
    world.secret("token", "value-of-the-token");
    world.get("t", "/count/reveals", json!({ "cache": "forever" }));
    count(&world, "t").await;
    assert_eq!(world.secrets.reveals(), 1);
    assert!(count(&world, "t").await.1);
    assert_eq!(world.secrets.reveals(), 1);
    assert_eq!(world.call("t", json!({ "q": 1 })).await.metadata.secret_scope.as_deref(), Some("realm"));
}

#[tokio::test]
async fn call_after_a_change_of_the_tool_or_its_provider_is_a_cache_miss() {
    let world = World::start().await;
    let define = |extra: Value| world.get("t", "/count/changes", merged(json!({ "cache": "forever" }), extra));
    for extra in [json!({}), json!({ "description": "new words" }), json!({ "version": "1.0.1" })] {
        define(extra.clone());
        assert!(!count(&world, "t").await.1, "{extra}");
        assert!(count(&world, "t").await.1, "{extra}");
    }
    world.provider(json!({ "refName": "faults", "defaultHeaders": { "x-tenant": "2" } }));
    define(json!({ "version": "1.0.1" }));
    assert!(!count(&world, "t").await.1, "another provider configuration");
}

#[tokio::test]
async fn writes_and_failures_are_not_cached() {
    let world = World::start().await;
    world.get("write", "/count/write", json!({ "cache": "forever", "sideEffects": "writes" }));
    world.get("fails", "/status/503?times=1&key=kept", json!({ "cache": "forever" }));
    for n in 0..2 {
        assert_eq!(count(&world, "write").await, (json!(n), false));
    }
    assert!(!world.call("fails", json!({})).await.is_success());
    let second = world.call("fails", json!({})).await;
    assert!(second.is_success() && !second.cached);
    assert_eq!(world.cache.stored.lock().unwrap().len(), 1);
}

#[tokio::test]
async fn cache_entry_that_cannot_be_decoded_is_a_miss() {
    let world = World::start().await;
    world.get("t", "/count/old", json!({ "cache": "forever" }));
    count(&world, "t").await;
    let key = world.cache.stored.lock().unwrap()[0].0.clone();
    world.cache.put(key, Bytes::from_static(b"{\"v\": \"another release\"}"), None).await;
    assert_eq!(count(&world, "t").await, (json!(1), false));
}

#[tokio::test]
async fn memory_cache_accepts_a_ttl_of_zero_and_a_huge_or_absent_ttl() {
    let cache = MemoryCache::new(1000);
    for (ttl, kept) in [
        (Some(Duration::ZERO), false),
        (Some(Duration::from_secs(60)), true),
        (None, true),
        (Some(Duration::from_secs(u64::MAX)), true),
    ] {
        cache.put("k".into(), Bytes::from_static(b"v"), ttl).await;
        assert_eq!(cache.get("k").await.is_some(), kept, "{ttl:?}");
    }
}
