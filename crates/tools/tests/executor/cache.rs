//! The result cache: which results are reused, and which are not.

use std::time::Duration;

use bytes::Bytes;
use serde_json::{Value, json};
use toolwright_tools::executor::{Audience, CacheKey, MemoryCache};
use toolwright_tools::ports::ResultCache;

use toolwright_tools::CallContext;
use toolwright_types::{Owner, PrincipalId};

use crate::test_functions::library;
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

/// Returns the context of a call that the principal with this number makes for the owner with this number.
fn acting(principal: u128, owner: u128) -> CallContext {
    let mut cx = context("someone", 1);
    std::sync::Arc::make_mut(&mut cx.principal).id = PrincipalId::from_bits(principal);
    cx.owner = Owner::new(PrincipalId::from_bits(owner));
    cx
}

async fn is_cached_for(world: &World, tool: &str, cx: &CallContext) -> bool {
    let envelope = done(execute(&world.executor, cx, request(tool, json!({ "q": 1 }))).await);
    assert!(envelope.is_success(), "{:?}", envelope.error);
    envelope.cached
}

/// A world in which the code of `python` tools returns its input.
async fn world_with_code() -> World {
    World::with_functions(library("python", |input| async { Ok(input) })).await
}

fn code(functions: Value) -> Value {
    json!({ "toolType": "FUNCTION", "cache": "forever",
            "invocation": { "path": "python", "code": "inputs", "functions": functions } })
}

#[tokio::test]
async fn result_is_shared_between_owners_only_if_the_tool_reads_no_data_of_the_caller() {
    let world = world_with_code().await;
    world.get("nested", "/count/nested", json!({}));
    world.tool(merged(json!({ "refName": "granted" }), code(json!({ "get": "nested" }))));
    world.tool(merged(json!({ "refName": "alone" }), code(json!({}))));
    world.get("public", "/count/public", json!({ "cache": "forever" }));
    world.provider(json!({ "refName": "faults", "auth": { "authType": "bearer", "secretRef": "token" } }));
    world.get("private", "/count/private", json!({ "cache": "forever" }));
    world.function("library", "python", json!({ "cache": "forever" }));
    world.secrets.put("token", "value-of-the-token", "user", 1);
    for (tool, shared) in
        [("granted", false), ("alone", true), ("public", true), ("private", false), ("library", false)]
    {
        assert!(!is_cached_for(&world, tool, &acting(1, 1)).await, "{tool}");
        assert!(is_cached_for(&world, tool, &acting(1, 1)).await, "{tool}");
        assert_eq!(is_cached_for(&world, tool, &acting(2, 2)).await, shared, "{tool}: another user");
        // An agent with a `principalRef` acts as the same principal for different owners.
        assert_eq!(is_cached_for(&world, tool, &acting(1, 3)).await, shared, "{tool}: same principal, another owner");
    }
    world.secrets.put("token", "value-of-the-token", "realm", 2);
    assert!(!is_cached_for(&world, "private", &acting(1, 1)).await);
    assert!(is_cached_for(&world, "private", &acting(2, 2)).await, "a secret of the realm is the same for all callers");
}

#[tokio::test]
async fn changed_definition_or_secret_of_a_granted_function_is_a_cache_miss() {
    let world = world_with_code().await;
    let bearer = json!({ "refName": "faults", "auth": { "authType": "bearer", "secretRef": "token" } });
    let changes: [(&str, &dyn Fn()); 5] = [
        ("the function is defined", &|| drop(world.get("nested", "/count/nested", json!({})))),
        ("the function changes", &|| drop(world.get("nested", "/count/other", json!({})))),
        ("its provider changes", &|| {
            world.provider(bearer.clone());
            world.get("nested", "/count/other", json!({}));
        }),
        ("its secret is set", &|| world.secrets.put("token", "value-of-the-token", "realm", 1)),
        ("its secret changes", &|| world.secrets.put("token", "value-of-the-token", "realm", 2)),
    ];
    world.tool(merged(json!({ "refName": "inner" }), code(json!({ "get": "nested" }))));
    world.tool(merged(json!({ "refName": "outer" }), code(json!({ "inner": "inner" }))));
    for tool in ["inner", "outer"] {
        assert!(!is_cached_for(&world, tool, &acting(1, 1)).await);
    }
    for (change, apply) in changes {
        apply();
        for tool in ["inner", "outer"] {
            assert!(!is_cached_for(&world, tool, &acting(1, 1)).await, "{tool}: {change}");
            assert!(is_cached_for(&world, tool, &acting(1, 1)).await, "{tool}: {change}");
        }
    }
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
    let key = CacheKey::new(&context("admin", 1).realm, Audience::Realm, "k");
    for (ttl, kept) in [
        (Some(Duration::ZERO), false),
        (Some(Duration::from_secs(60)), true),
        (None, true),
        (Some(Duration::from_secs(u64::MAX)), true),
    ] {
        cache.put(key.clone(), Bytes::from_static(b"v"), ttl).await;
        assert_eq!(cache.get(&key).await.is_some(), kept, "{ttl:?}");
    }
}
