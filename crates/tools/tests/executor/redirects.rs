//! Redirects: every target is checked against the egress rules, and credentials are sent to the original origin only.

use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Value, json};
use toolwright_testkit::{Faults, LOOPBACK, faults};

use crate::world::{World, failure};

fn redirect(to: &str, status: u16) -> String {
    format!("/redirect?status={status}&to={}", utf8_percent_encode(to, NON_ALPHANUMERIC))
}

/// Returns a world whose provider sends a token and a header, and a second server.
async fn two_servers() -> (World, faults::Handle) {
    let world = World::start().await;
    let other = Faults::builder().start(LOOPBACK).await.unwrap();
    world.provider(json!({
        "refName": "faults",
        "auth": { "authType": "bearer", "secretRef": "token" },
        "defaultHeaders": { "X-Tenant": "tenant-7" },
    }));
    world.secret("token", "value-of-the-token");
    (world, other)
}

async fn follow(world: &World, invocation: Value) -> Value {
    world.rest("t", invocation, json!({ "sideEffects": "reads" }));
    world.output("t", json!({ "n": 1 })).await
}

#[tokio::test]
async fn redirect_within_one_origin_keeps_all_headers() {
    let (world, _) = two_servers().await;
    for to in ["/echo/there".to_owned(), world.faults.url("/echo/there")] {
        let echo = follow(&world, json!({ "path": redirect(&to, 302), "headers": { "X-Own": "1" } })).await;
        assert_eq!(echo["path"], "/echo/there");
        for (name, value) in [("authorization", "Bearer [redacted]"), ("x-tenant", "tenant-7"), ("x-own", "1")] {
            assert_eq!(echo["headers"][name], value);
        }
    }
}

#[tokio::test]
async fn redirect_to_another_origin_drops_credentials_and_headers() {
    let (world, other) = two_servers().await;
    for status in [301, 302, 303, 307, 308] {
        let echo =
            follow(&world, json!({ "path": redirect(&other.url("/echo"), status), "headers": { "X-Own": "1" } })).await;
        for name in ["authorization", "x-tenant", "x-own", "cookie", "idempotency-key"] {
            assert!(echo["headers"].get(name).is_none(), "{status} {name}: {echo}");
        }
    }
}

#[tokio::test]
async fn redirect_back_to_the_first_origin_does_not_restore_credentials() {
    let (world, other) = two_servers().await;
    let back = other.url(&redirect(&world.faults.url("/echo"), 302));
    let echo = follow(&world, json!({ "path": redirect(&back, 302) })).await;
    assert!(echo["headers"].get("authorization").is_none(), "{echo}");
}

#[tokio::test]
async fn post_becomes_get_on_redirects_301_to_303_but_stays_post_on_307_and_308() {
    let (world, _) = two_servers().await;
    for (status, method, body) in
        [(301, "GET", ""), (302, "GET", ""), (303, "GET", ""), (307, "POST", "{\"n\":1}"), (308, "POST", "{\"n\":1}")]
    {
        let echo = follow(&world, json!({ "method": "POST", "path": redirect("/echo", status) })).await;
        assert_eq!((&echo["method"], &echo["body"]), (&json!(method), &json!(body)), "{status}");
        assert_eq!(echo["headers"].get("content-type").is_some(), !body.is_empty(), "{status}");
    }
}

#[tokio::test]
async fn redirect_with_a_body_to_another_origin_is_refused() {
    let (world, other) = two_servers().await;
    world.rest("t", json!({ "method": "POST", "path": redirect(&other.url("/echo"), 307) }), json!({}));
    let envelope = world.call("t", json!({ "n": 1 })).await;
    assert_eq!(failure(&envelope), "PROVIDER_ERROR redirects: a redirect would send the body to another host");
    assert_eq!(other.hits("/"), 0);
}

#[tokio::test]
async fn redirect_to_a_private_address_is_refused() {
    let (world, _) = two_servers().await;
    for to in [
        "http://169.254.169.254/latest/meta-data",
        "http://127.0.0.2:1/",
        "http://[::1]:1/",
        "http://10.0.0.1/",
        "http://0x7f.0.0.2/",
    ] {
        world.get("t", &redirect(to, 302), json!({}));
        let envelope = world.call("t", json!({})).await;
        assert!(failure(&envelope).starts_with("POLICY_DENIED egress: "), "{to}: {}", failure(&envelope));
    }
    world.get("t", &redirect("file:///etc/passwd", 302), json!({}));
    assert_eq!(
        failure(&world.call("t", json!({})).await),
        "POLICY_DENIED egress: scheme must be http or https, got `file`"
    );
}

#[tokio::test]
async fn redirect_loop_is_refused() {
    let (world, _) = two_servers().await;
    world.get("t", "/redirect-loop", json!({}));
    assert_eq!(failure(&world.call("t", json!({})).await), "PROVIDER_ERROR redirects: more than 5 redirects");
    assert_eq!(world.faults.hits("/redirect-loop"), 6);
}

#[tokio::test]
async fn http_request_function_drops_headers_on_redirect_to_another_origin() {
    let (world, other) = two_servers().await;
    let allow = toolwright_tools::http::EgressPolicy::allowing(["127.0.0.1/32".parse().unwrap()]);
    let open = World::with_http(toolwright_tools::http::HttpOptions { egress: allow, ..Default::default() }).await;
    open.function("fetch", "http_request", json!({}));
    let url = world.faults.url(&redirect(&other.url("/echo"), 302));
    let answer =
        open.output("fetch", json!({ "url": url, "headers": { "X-Api-Key": "k", "Authorization": "Bearer x" } })).await;
    for name in ["x-api-key", "authorization"] {
        assert!(answer["body"]["headers"].get(name).is_none(), "{answer}");
    }
}
