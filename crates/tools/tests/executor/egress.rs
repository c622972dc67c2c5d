//! Where tools may connect to: nowhere private unless someone said so.

use std::sync::Arc;

use serde_json::{Value, json};
use toolwright_tools::http::{Egress, HttpOptions};

use crate::world::{FakeDns, World, failure};

fn port(world: &World) -> u16 {
    world.faults.addr().port()
}

fn resolving(dns: FakeDns) -> HttpOptions {
    HttpOptions { lookup: Arc::new(dns), ..HttpOptions::default() }
}

/// Points `t` at `base` through a provider that allows nothing, or these networks.
fn aim(world: &World, base: &str, allow: Value) {
    world.provider(json!({ "refName": "aimed", "baseUrl": base, "egressAllow": allow }));
    world.get("t", "/count/egress", json!({ "providerRef": "aimed" }));
}

#[tokio::test]
async fn loopback_is_refused_with_the_way_out() {
    let world = World::start().await;
    aim(&world, &world.faults.base_url(), json!([]));
    let envelope = world.call("t", json!({})).await;
    assert_eq!(
        failure(&envelope),
        "POLICY_DENIED egress: `127.0.0.1` is 127.0.0.1, which is not a public address; list its network in the provider's \
         `egressAllow` or in TOOLWRIGHT_EGRESS_ALLOW to permit it"
    );
    assert_eq!(world.faults.hits("/"), 0);
}

#[tokio::test]
async fn the_provider_or_the_server_may_allow_a_network() {
    let world = World::start().await;
    for (allow, permitted) in [
        (json!(["127.0.0.0/8"]), true),
        (json!(["127.0.0.1/32", "10.0.0.0/8"]), true),
        (json!(["127.0.0.2/32"]), false),
    ] {
        aim(&world, &world.faults.base_url(), allow.clone());
        assert_eq!(world.call("t", json!({})).await.is_success(), permitted, "{allow}");
    }
    let egress = Egress::allowing(["127.0.0.0/8".parse().unwrap()]);
    let open = World::with_http(HttpOptions { egress, ..HttpOptions::default() }).await;
    aim(&open, &open.faults.base_url(), json!([]));
    assert!(open.call("t", json!({})).await.is_success());
}

#[tokio::test]
async fn what_one_provider_may_another_may_not() {
    let world = World::start().await;
    world.get("allowed", "/echo", json!({}));
    aim(&world, &world.faults.base_url(), json!([]));
    world.output("allowed", json!({})).await;
    // The connection of the first is open and pooled; the second must not get to use it.
    assert!(failure(&world.call("t", json!({})).await).starts_with("POLICY_DENIED egress"));
}

#[tokio::test]
async fn a_name_is_as_private_as_its_address() {
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
        aim(&world, &format!("http://api.example:{}", port(&world)), json!([]));
        let envelope = world.call("t", json!({})).await;
        let expected = format!("POLICY_DENIED egress: `api.example` is {address}, which is not a public address");
        assert!(failure(&envelope).starts_with(&expected), "{}", failure(&envelope));
        assert_eq!(world.faults.hits("/"), 0);
    }
}

#[tokio::test]
async fn a_name_in_an_allowed_network_is_reached() {
    let world = World::with_http(resolving(FakeDns::default().answering("crm.internal", &[&["127.0.0.1"]]))).await;
    aim(&world, &format!("http://crm.internal:{}", port(&world)), json!(["127.0.0.1/32"]));
    assert_eq!(world.output("t", json!({})).await["count"], 0);
}

#[tokio::test]
async fn of_several_addresses_only_the_allowed_are_tried() {
    let world =
        World::with_http(resolving(FakeDns::default().answering("mixed.internal", &[&["127.0.0.2", "127.0.0.1"]])))
            .await;
    aim(&world, &format!("http://mixed.internal:{}", port(&world)), json!(["127.0.0.1/32"]));
    assert_eq!(world.output("t", json!({})).await["count"], 0);
}

/// 127.0.0.2 stands for "public" here, by an allowance; nobody listens there. If the second answer were used without
/// a check, the faults server on 127.0.0.1 would be asked.
#[tokio::test]
async fn a_name_that_changes_its_mind_gains_nothing() {
    let dns = FakeDns::default().answering("rebind.example", &[&["127.0.0.2"], &["127.0.0.1"]]);
    let world = World::with_http(resolving(dns)).await;
    aim(&world, &format!("http://rebind.example:{}", port(&world)), json!(["127.0.0.2/32"]));
    assert!(failure(&world.call("t", json!({})).await).starts_with("NETWORK_ERROR connect"));
    for _ in 0..3 {
        assert!(failure(&world.call("t", json!({})).await).starts_with("POLICY_DENIED egress"));
    }
    assert_eq!(world.faults.hits("/"), 0);
}

#[tokio::test]
async fn a_refused_address_is_not_tried_again() {
    let world = World::start().await;
    world.provider(json!({ "refName": "aimed", "egressAllow": [], "maxRetries": 5 }));
    world.get("t", "/echo", json!({ "providerRef": "aimed", "defaultRetryBackoff": "none" }));
    assert_eq!(world.call("t", json!({})).await.metadata.attempt, 1);
}

#[tokio::test]
async fn functions_and_absolute_urls_obey_the_same_rules() {
    let world = World::start().await;
    world.function("fetch", "http_request", json!({}));
    let envelope = world.call("fetch", json!({ "url": world.faults.url("/echo") })).await;
    assert!(failure(&envelope).starts_with("POLICY_DENIED egress"), "{}", failure(&envelope));
    let path = format!("{}/echo/${{param.x}}", world.faults.base_url());
    world.tool(json!({ "refName": "absolute", "toolType": "EXTERNAL_REST", "invocation": { "path": path } }));
    let envelope = world.call("absolute", json!({ "x": 1 })).await;
    assert!(failure(&envelope).starts_with("POLICY_DENIED egress"), "{}", failure(&envelope));
    let envelope = world.call("fetch", json!({ "url": "ftp://example.com/" })).await;
    assert_eq!(failure(&envelope), "POLICY_DENIED egress: `ftp` is not http or https");
    assert_eq!(world.faults.hits("/"), 0);
}

#[tokio::test]
async fn the_token_endpoint_obeys_the_same_rules() {
    let world = World::start().await;
    let auth = json!({ "authType": "oauth2", "clientId": "c", "secretRef": "s", "tokenEndpoint": "http://169.254.169.254/token" });
    world.provider(json!({ "refName": "faults", "auth": auth }));
    world.secret("s", "value-of-the-secret");
    world.get("t", "/echo", json!({}));
    assert!(failure(&world.call("t", json!({})).await).starts_with("POLICY_DENIED egress"));
}
