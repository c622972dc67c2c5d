//! Egress rules: private addresses are denied unless a rule allows them.

use std::sync::Arc;

use serde_json::{Value, json};
use toolwright_tools::http::{EgressPolicy, HttpOptions};

use crate::world::{FakeDns, World, failure};

fn port(world: &World) -> u16 {
    world.faults.addr().port()
}

fn resolving(dns: FakeDns) -> HttpOptions {
    HttpOptions { resolver: Arc::new(dns), ..HttpOptions::default() }
}

/// Adds a tool `t` at `base`, with a provider that allows the networks in `allow`.
fn add_tool_at(world: &World, base: &str, allow: Value) {
    world.provider(json!({ "refName": "aimed", "baseUrl": base, "egressAllow": allow }));
    world.get("t", "/count/egress", json!({ "providerRef": "aimed" }));
}

#[tokio::test]
async fn call_to_loopback_is_denied_and_the_error_states_the_remedy() {
    let world = World::start().await;
    add_tool_at(&world, &world.faults.base_url(), json!([]));
    let envelope = world.call("t", json!({})).await;
    assert_eq!(
        failure(&envelope),
        "POLICY_DENIED egress: `127.0.0.1` is 127.0.0.1, which is not a public address; list its network in the provider's \
         `egressAllow` or in TOOLWRIGHT_EGRESS_ALLOW to permit it"
    );
    assert_eq!(world.faults.hits("/"), 0);
}

#[tokio::test]
async fn address_in_a_network_allowed_by_provider_or_server_is_reached() {
    let world = World::start().await;
    for (allow, permitted) in [
        (json!(["127.0.0.0/8"]), true),
        (json!(["127.0.0.1/32", "10.0.0.0/8"]), true),
        (json!(["127.0.0.2/32"]), false),
    ] {
        add_tool_at(&world, &world.faults.base_url(), allow.clone());
        assert_eq!(world.call("t", json!({})).await.is_success(), permitted, "{allow}");
    }
    let egress = EgressPolicy::allowing(["127.0.0.0/8".parse().unwrap()]);
    let open = World::with_http(HttpOptions { egress, ..HttpOptions::default() }).await;
    add_tool_at(&open, &open.faults.base_url(), json!([]));
    assert!(open.call("t", json!({})).await.is_success());
}

#[tokio::test]
async fn allowed_network_of_one_provider_does_not_apply_to_another() {
    let world = World::start().await;
    world.get("allowed", "/echo", json!({}));
    add_tool_at(&world, &world.faults.base_url(), json!([]));
    world.output("allowed", json!({})).await;
    // The connection of the first provider is pooled; the second provider must not use it.
    assert!(failure(&world.call("t", json!({})).await).starts_with("POLICY_DENIED egress"));
}

#[tokio::test]
async fn host_that_resolves_to_a_private_address_is_denied() {
    for address in [
        "127.0.0.1",
        "10.1.2.3",
        "192.168.0.1",
        "169.254.169.254",
        "0.0.0.0",
        "::1",
        "fd00::1",
        "::ffff:127.0.0.1",
        "64:ff9b::7f00:1",
    ] {
        let world = World::with_http(resolving(FakeDns::default().answering("api.example", &[&[address]]))).await;
        add_tool_at(&world, &format!("http://api.example:{}", port(&world)), json!([]));
        let envelope = world.call("t", json!({})).await;
        let expected = format!("POLICY_DENIED egress: `api.example` is {address}, which is not a public address");
        assert!(failure(&envelope).starts_with(&expected), "{}", failure(&envelope));
        assert_eq!(world.faults.hits("/"), 0);
    }
}

#[tokio::test]
async fn host_in_an_allowed_network_is_reached() {
    let world = World::with_http(resolving(FakeDns::default().answering("crm.internal", &[&["127.0.0.1"]]))).await;
    add_tool_at(&world, &format!("http://crm.internal:{}", port(&world)), json!(["127.0.0.1/32"]));
    assert_eq!(world.output("t", json!({})).await["count"], 0);
}

#[tokio::test]
async fn only_allowed_addresses_of_a_host_are_tried() {
    let world =
        World::with_http(resolving(FakeDns::default().answering("mixed.internal", &[&["127.0.0.2", "127.0.0.1"]])))
            .await;
    add_tool_at(&world, &format!("http://mixed.internal:{}", port(&world)), json!(["127.0.0.1/32"]));
    assert_eq!(world.output("t", json!({})).await["count"], 0);
}

/// 127.0.0.2 is allowed and stands for a public address. No server listens there. If the second DNS answer were used
/// without a check, the faults server on 127.0.0.1 would receive a request.
#[tokio::test]
async fn dns_rebinding_is_denied() {
    let dns = FakeDns::default().answering("rebind.example", &[&["127.0.0.2"], &["127.0.0.1"]]);
    let world = World::with_http(resolving(dns)).await;
    add_tool_at(&world, &format!("http://rebind.example:{}", port(&world)), json!(["127.0.0.2/32"]));
    assert!(failure(&world.call("t", json!({})).await).starts_with("NETWORK_ERROR connect"));
    for _ in 0..3 {
        assert!(failure(&world.call("t", json!({})).await).starts_with("POLICY_DENIED egress"));
    }
    assert_eq!(world.faults.hits("/"), 0);
}

#[tokio::test]
async fn denied_address_is_not_retried() {
    let world = World::start().await;
    world.provider(json!({ "refName": "aimed", "egressAllow": [], "maxRetries": 5 }));
    world.get("t", "/echo", json!({ "providerRef": "aimed", "defaultRetryBackoff": "none" }));
    assert_eq!(world.call("t", json!({})).await.metadata.attempt, 1);
}

#[tokio::test]
async fn http_request_function_and_absolute_urls_obey_the_egress_rules() {
    let world = World::start().await;
    world.function("fetch", "http_request", json!({}));
    let envelope = world.call("fetch", json!({ "url": world.faults.url("/echo") })).await;
    assert!(failure(&envelope).starts_with("POLICY_DENIED egress"), "{}", failure(&envelope));
    let path = format!("{}/echo/${{param.x}}", world.faults.base_url());
    world.tool(json!({ "refName": "absolute", "toolType": "EXTERNAL_REST", "invocation": { "path": path } }));
    let envelope = world.call("absolute", json!({ "x": 1 })).await;
    assert!(failure(&envelope).starts_with("POLICY_DENIED egress"), "{}", failure(&envelope));
    let envelope = world.call("fetch", json!({ "url": "ftp://example.com/" })).await;
    assert_eq!(failure(&envelope), "POLICY_DENIED egress: scheme must be http or https, got `ftp`");
    assert_eq!(world.faults.hits("/"), 0);
}

#[tokio::test]
async fn token_endpoint_on_a_denied_address_is_not_called() {
    let world = World::start().await;
    let auth = json!({ "authType": "oauth2", "clientId": "c", "secretRef": "s", "tokenEndpoint": "http://169.254.169.254/token" });
    world.provider(json!({ "refName": "faults", "auth": auth }));
    world.secret("s", "value-of-the-secret");
    world.get("t", "/echo", json!({}));
    assert!(failure(&world.call("t", json!({})).await).starts_with("POLICY_DENIED egress"));
}
