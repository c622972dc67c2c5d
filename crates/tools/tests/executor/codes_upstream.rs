//! Error codes whose cause is on the wire or beyond: each provoked by a server that really does it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use toolwright_tools::http::HttpOptions;

use crate::world::{FakeDns, World, detail, failure};

#[tokio::test]
async fn a_slow_server_meets_the_deadline() {
    let world = World::start().await;
    world.get("t", "/slow/600000", json!({ "timeoutMs": 50 }));
    let started = Instant::now();
    let envelope = world.call("t", json!({})).await;
    assert_eq!(failure(&envelope), "TIMEOUT deadline: tool `t` did not answer within 50 ms");
    assert!(started.elapsed() < Duration::from_secs(10));
}

#[tokio::test]
async fn the_providers_timeout_bounds_each_attempt_also_when_the_tool_has_a_deadline() {
    let world = World::start().await;
    world.provider(json!({ "refName": "hasty", "timeoutMs": 50 }));
    for (name, extra) in [("bare", json!({})), ("with-deadline", json!({ "timeoutMs": 600_000 }))] {
        world.get(name, "/slow/600000", crate::world::merged(json!({ "providerRef": "hasty" }), extra));
        let envelope = world.call(name, json!({})).await;
        assert_eq!(failure(&envelope), format!("TIMEOUT deadline: tool `{name}` did not answer within 50 ms"));
    }
}

#[tokio::test]
async fn the_upstreams_rate_limit_is_passed_on_with_its_wait() {
    let world = World::start().await;
    world.get("t", "/status/429?retry_after=7", json!({}));
    let envelope = world.call("t", json!({})).await;
    assert_eq!(failure(&envelope), "RATE_LIMIT http_status: the upstream answered 429 Too Many Requests");
    assert_eq!(envelope.error.as_ref().unwrap().retry_after_s, Some(7.0));
    assert_eq!(envelope.metadata.http_status, Some(429));
}

#[tokio::test]
async fn statuses_map_to_codes_and_are_told() {
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
async fn an_answer_without_a_body_is_null() {
    let world = World::start().await;
    world.get("t", "/status/204", json!({}));
    assert_eq!(world.output("t", json!({})).await, Value::Null);
}

#[tokio::test]
async fn json_that_is_none_is_the_providers_error() {
    let world = World::start().await;
    world.get("t", "/invalid-json", json!({}));
    let envelope = world.call("t", json!({})).await;
    assert!(
        failure(&envelope).starts_with("PROVIDER_ERROR unreadable_body: the answer is not the JSON it claims to be"),
        "{}",
        failure(&envelope)
    );
    assert_eq!(envelope.metadata.http_status, Some(200));
}

#[tokio::test]
async fn output_that_breaks_its_promise_fails_or_warns_as_the_definition_says() {
    let world = World::start().await;
    let promise = json!({ "outputJsonSchema": { "type": "object", "required": ["total"] } });
    world.get("strict", "/count/a", crate::world::merged(promise.clone(), json!({ "onOutputMismatch": "fail" })));
    world.get("lenient", "/count/b", promise);
    let envelope = world.call("strict", json!({})).await;
    assert!(
        failure(&envelope).starts_with("PROVIDER_ERROR output_schema: the output does not fit its schema"),
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
async fn a_mismatch_is_described_briefly_however_large_the_output() {
    let world = World::start().await;
    world.get("t", "/huge/3000000", json!({ "outputJsonSchema": { "type": "object" } }));
    let envelope = world.call("t", json!({})).await;
    assert!(envelope.truncated);
    let warnings = envelope.metadata.warnings.concat();
    assert!(warnings.contains("does not fit") && warnings.len() < 1_000, "{} bytes", warnings.len());
}

#[tokio::test]
async fn connections_that_break_are_network_errors() {
    let world = World::start().await;
    for (name, path) in [("dropped", "/drop"), ("reset", "/reset"), ("truncated", "/truncate")] {
        world.get(name, path, json!({}));
        let envelope = world.call(name, json!({})).await;
        assert!(failure(&envelope).starts_with("NETWORK_ERROR connection_lost: "), "{name}: {}", failure(&envelope));
        assert_eq!(world.faults.hits(path), 1, "{name}");
    }
}

#[tokio::test]
async fn a_port_where_nobody_listens_is_a_network_error() {
    let world = World::start().await;
    let vacant = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    world.provider(json!({ "refName": "vacant", "baseUrl": format!("http://{vacant}") }));
    world.get("t", "/", json!({ "providerRef": "vacant" }));
    let envelope = world.call("t", json!({})).await;
    assert!(failure(&envelope).starts_with("NETWORK_ERROR connect: "), "{}", failure(&envelope));
}

#[tokio::test]
async fn a_name_that_does_not_resolve_is_a_network_error() {
    let world = World::with_http(HttpOptions { lookup: Arc::new(FakeDns::default()), ..HttpOptions::default() }).await;
    world.provider(json!({ "refName": "lost", "baseUrl": "http://lost.example" }));
    world.get("t", "/x?q=canary-in-the-url", json!({ "providerRef": "lost" }));
    let envelope = world.call("t", json!({})).await;
    assert_eq!(failure(&envelope), "NETWORK_ERROR connect: no answer: no such host");
}

#[tokio::test]
async fn a_body_that_cannot_be_decompressed_is_the_providers_error() {
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
    assert_eq!(failure(&envelope), "PROVIDER_ERROR unreadable_body: the answer's body cannot be decoded");
}
