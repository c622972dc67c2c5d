//! Error codes for failures of the network and of the upstream.

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use toolwright_tools::http::HttpOptions;

use crate::world::{FakeDns, World, detail, failure};

#[tokio::test]
async fn call_to_a_slow_server_times_out() {
    let world = World::start().await;
    world.get("t", "/slow/600000", json!({ "timeoutMs": 50 }));
    let started = Instant::now();
    let envelope = world.call("t", json!({})).await;
    assert_eq!(failure(&envelope), "TIMEOUT deadline: tool `t` did not answer within 50 ms");
    assert!(started.elapsed() < Duration::from_secs(10));
}

#[tokio::test]
async fn provider_timeout_limits_each_attempt() {
    let world = World::start().await;
    world.provider(json!({ "refName": "hasty", "timeoutMs": 50 }));
    for (name, extra) in [("bare", json!({})), ("with-deadline", json!({ "timeoutMs": 600_000 }))] {
        world.get(name, "/slow/600000", crate::world::merged(json!({ "providerRef": "hasty" }), extra));
        let envelope = world.call(name, json!({})).await;
        assert_eq!(failure(&envelope), format!("TIMEOUT deadline: tool `{name}` did not answer within 50 ms"));
    }
}

#[tokio::test]
async fn upstream_429_is_reported_with_its_retry_delay() {
    let world = World::start().await;
    world.get("t", "/status/429?retry_after=7", json!({}));
    let envelope = world.call("t", json!({})).await;
    assert_eq!(failure(&envelope), "RATE_LIMIT http_status: the upstream answered 429 Too Many Requests");
    assert_eq!(envelope.error.as_ref().unwrap().retry_after_s, Some(7.0));
    assert_eq!(envelope.metadata.http_status, Some(429));
}

#[tokio::test]
async fn http_status_selects_the_error_code() {
    let world = World::start().await;
    for (status, code) in [
        (400, "PROVIDER_ERROR"),
        (401, "AUTH_REQUIRED"),
        (403, "AUTH_REQUIRED"),
        (404, "PROVIDER_ERROR"),
        (408, "PROVIDER_ERROR"),
        (418, "PROVIDER_ERROR"),
        (500, "PROVIDER_ERROR"),
        (503, "PROVIDER_ERROR"),
        (304, "PROVIDER_ERROR"),
    ] {
        let name = format!("t{status}");
        world.get(&name, &format!("/status/{status}"), json!({}));
        let envelope = world.call(&name, json!({})).await;
        assert!(
            failure(&envelope).starts_with(&format!("{code} http_status: the upstream answered {status}")),
            "{}",
            failure(&envelope)
        );
        assert_eq!(detail(&envelope, "http_status"), json!(status));
        assert_eq!(envelope.metadata.http_status, Some(status));
        if status != 304 {
            assert_eq!(detail(&envelope, "body")["status"], json!(status));
        }
    }
}

#[tokio::test]
async fn output_is_null_if_the_response_has_no_body() {
    let world = World::start().await;
    world.get("t", "/status/204", json!({}));
    assert_eq!(world.output("t", json!({})).await, Value::Null);
}

#[tokio::test]
async fn response_with_invalid_json_is_a_provider_error() {
    let world = World::start().await;
    world.get("t", "/invalid-json", json!({}));
    let envelope = world.call("t", json!({})).await;
    assert!(
        failure(&envelope).starts_with("PROVIDER_ERROR unreadable_body: the response body is not valid JSON"),
        "{}",
        failure(&envelope)
    );
    assert_eq!(envelope.metadata.http_status, Some(200));
}

#[tokio::test]
async fn output_that_violates_its_schema_fails_or_warns_as_configured() {
    let world = World::start().await;
    let schema = json!({ "outputJsonSchema": { "type": "object", "required": ["total"] } });
    world.get("strict", "/count/a", crate::world::merged(schema.clone(), json!({ "onOutputMismatch": "fail" })));
    world.get("lenient", "/count/b", schema);
    let envelope = world.call("strict", json!({})).await;
    assert!(
        failure(&envelope).starts_with("PROVIDER_ERROR output_schema: the output does not match its schema"),
        "{}",
        failure(&envelope)
    );
    assert_eq!(envelope.metadata.http_status, Some(200));
    let envelope = world.call("lenient", json!({})).await;
    assert_eq!(envelope.output, json!({ "key": "b", "count": 0 }));
    assert!(
        envelope.metadata.warnings[0].contains("\"total\" is a required property"),
        "{:?}",
        envelope.metadata.warnings
    );
}

#[tokio::test]
async fn warning_about_a_large_invalid_output_is_under_1000_bytes() {
    let world = World::start().await;
    world.get("t", "/huge/3000000", json!({ "outputJsonSchema": { "type": "object" } }));
    let envelope = world.call("t", json!({})).await;
    assert!(envelope.truncated);
    let warnings = envelope.metadata.warnings.concat();
    assert!(warnings.contains("does not match") && warnings.len() < 1_000, "{} bytes", warnings.len());
}

#[tokio::test]
async fn interrupted_response_is_a_network_error() {
    let world = World::start().await;
    for (name, path) in [("dropped", "/drop"), ("reset", "/reset"), ("truncated", "/truncate")] {
        world.get(name, path, json!({}));
        let envelope = world.call(name, json!({})).await;
        assert!(failure(&envelope).starts_with("NETWORK_ERROR connection_lost: "), "{name}: {}", failure(&envelope));
        assert_eq!(world.faults.hits(path), 1, "{name}");
    }
}

#[tokio::test]
async fn closed_port_is_a_network_error() {
    let world = World::start().await;
    let vacant = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    world.provider(json!({ "refName": "vacant", "baseUrl": format!("http://{vacant}") }));
    world.get("t", "/", json!({ "providerRef": "vacant" }));
    let envelope = world.call("t", json!({})).await;
    assert!(failure(&envelope).starts_with("NETWORK_ERROR connect: "), "{}", failure(&envelope));
}

#[tokio::test]
async fn unresolvable_host_is_a_network_error() {
    let world =
        World::with_http(HttpOptions { resolver: Arc::new(FakeDns::default()), ..HttpOptions::default() }).await;
    world.provider(json!({ "refName": "lost", "baseUrl": "http://lost.example" }));
    world.get("t", "/x?q=canary-in-the-url", json!({ "providerRef": "lost" }));
    let envelope = world.call("t", json!({})).await;
    assert_eq!(failure(&envelope), "NETWORK_ERROR connect: no response: no such host");
}

#[tokio::test]
async fn corrupt_compressed_body_is_a_provider_error() {
    let world = World::start().await;
    let corrupt =
        || async { ([("content-encoding", "gzip"), ("content-type", "application/json")], "not gzip at all") };
    let app = axum::Router::new().route("/corrupt", axum::routing::get(corrupt));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    world.provider(json!({ "refName": "corrupt", "baseUrl": format!("http://{}", listener.local_addr().unwrap()) }));
    world.get("t", "/corrupt", json!({ "providerRef": "corrupt" }));
    let envelope = tokio::select! {
        envelope = world.call("t", json!({})) => envelope,
        ended = async { axum::serve(listener, app).await } => panic!("{ended:?}"),
    };
    assert_eq!(failure(&envelope), "PROVIDER_ERROR unreadable_body: the response body cannot be decoded");
}
