//! Redirects: each hop under the rules anew, and credentials only to those they are for.

use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Value, json};
use toolwright_testkit::{Faults, LOOPBACK, faults};

use crate::world::{World, failure};

fn redirect(to: &str, status: u16) -> String {
    format!("/redirect?status={status}&to={}", utf8_percent_encode(to, NON_ALPHANUMERIC))
}

/// A world whose provider sends a token and a header of its own, and another server beside it.
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
async fn within_one_origin_everything_is_kept() {
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
async fn another_origin_gets_neither_credentials_nor_headers() {
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
async fn credentials_do_not_come_back_by_a_detour() {
    let (world, other) = two_servers().await;
    let back = other.url(&redirect(&world.faults.url("/echo"), 302));
    let echo = follow(&world, json!({ "path": redirect(&back, 302) })).await;
    assert!(echo["headers"].get("authorization").is_none(), "{echo}");
}

#[tokio::test]
async fn methods_and_bodies_follow_the_status() {
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
async fn a_body_is_not_sent_to_another_origin() {
    let (world, other) = two_servers().await;
    world.rest("t", json!({ "method": "POST", "path": redirect(&other.url("/echo"), 307) }), json!({}));
    let envelope = world.call("t", json!({ "n": 1 })).await;
    assert_eq!(failure(&envelope), "PROVIDER_ERROR redirects: a redirect would send the body to another host");
    assert_eq!(other.hits("/"), 0);
}

#[tokio::test]
async fn a_redirect_to_a_private_address_is_refused() {
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
    assert_eq!(failure(&world.call("t", json!({})).await), "POLICY_DENIED egress: `file` is not http or https");
}

#[tokio::test]
async fn circles_end() {
    let (world, _) = two_servers().await;
    world.get("t", "/redirect-loop", json!({}));
    assert_eq!(failure(&world.call("t", json!({})).await), "PROVIDER_ERROR redirects: more than 5 redirects");
    assert_eq!(world.faults.hits("/redirect-loop"), 6);
}

#[tokio::test]
async fn the_builtin_request_keeps_its_headers_at_home_too() {
    let (world, other) = two_servers().await;
    let allow = toolwright_tools::http::Egress::allowing(["127.0.0.1/32".parse().unwrap()]);
    let open = World::with_http(toolwright_tools::http::HttpOptions { egress: allow, ..Default::default() }).await;
    open.function("fetch", "http_request", json!({}));
    let url = world.faults.url(&redirect(&other.url("/echo"), 302));
    let answer =
        open.output("fetch", json!({ "url": url, "headers": { "X-Api-Key": "k", "Authorization": "Bearer x" } })).await;
    for name in ["x-api-key", "authorization"] {
        assert!(answer["body"]["headers"].get(name).is_none(), "{answer}");
    }
}
