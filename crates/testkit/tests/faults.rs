//! Tests of the faults server: what an HTTP client sees for each route.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, reason = "a panic fails the test")]

mod support;

use std::io;
use std::time::Duration;

use reqwest::Method;
use serde_json::{Value, json};
use support::{answer, client};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use toolwright_testkit::faults::Handle;
use toolwright_testkit::{Faults, LOOPBACK};

async fn start() -> Handle {
    Faults::builder().start(LOOPBACK).await.unwrap()
}

async fn get(faults: &Handle, path: &str) -> (u16, Value) {
    answer(client().get(faults.url(path))).await
}

async fn fetch(faults: &Handle, path: &str) -> reqwest::Response {
    client().get(faults.url(path)).send().await.unwrap()
}

#[tokio::test]
async fn status_route_returns_the_requested_status() {
    let faults = start().await;
    for code in [200, 204, 301, 304, 400, 401, 403, 404, 409, 418, 422, 429, 500, 502, 503, 504, 599] {
        assert_eq!(get(&faults, &format!("/status/{code}")).await.0, code);
    }
    let posted = answer(client().post(faults.url("/status/503")).body("x")).await;
    assert_eq!(posted.0, 503);
    let (status, body) = get(&faults, "/status/100").await;
    assert_eq!((status, &body["refused"]), (400, &json!(true)));
    let limited = fetch(&faults, "/status/429?retry_after=7").await;
    assert_eq!(limited.headers()["retry-after"], "7");
    assert_eq!(faults.hits("/status/"), 20);
    assert_eq!(faults.hits("/status/503"), 2);
}

#[tokio::test]
async fn status_route_returns_200_after_the_requested_number_of_failures() {
    let faults = start().await;
    let path = "/status/503?times=2&key=a";
    assert_eq!(get(&faults, path).await.0, 503);
    assert_eq!(get(&faults, path).await.0, 503);
    assert_eq!(get(&faults, path).await, (200, json!({"ok": true, "attempts": 3})));
    assert_eq!(get(&faults, "/status/503?times=2&key=b").await.0, 503);
}

#[tokio::test]
async fn request_to_slow_route_exceeds_the_client_timeout() {
    let faults = start().await;
    let request = client().get(faults.url("/slow/600000"));
    let error = request.timeout(Duration::from_millis(50)).send().await.unwrap_err();
    assert!(error.is_timeout());
    assert_eq!(get(&faults, "/slow/1").await, (200, json!({"ok": true, "waitedMs": 1})));
}

#[tokio::test]
async fn shutdown_does_not_wait_for_slow_responses() {
    let faults = start().await;
    let pending = client().get(faults.url("/slow/600000")).send();
    let stop = async {
        while faults.hits("/slow") == 0 {
            tokio::task::yield_now().await;
        }
        faults.shutdown().await;
    };
    let (response, ()) = tokio::join!(pending, stop);
    assert_eq!(response.unwrap().status(), 503);
}

/// Sends one request over a TCP connection without an HTTP client. Returns the bytes until the connection ends, and how
/// it ended.
async fn raw(faults: &Handle, path: &str) -> (Vec<u8>, io::Result<usize>) {
    let mut stream = TcpStream::connect(faults.addr()).await.unwrap();
    let request = format!("POST {path} HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{{}}");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut received = Vec::new();
    let end = stream.read_to_end(&mut received).await;
    (received, end)
}

#[tokio::test]
async fn drop_route_closes_the_connection_without_a_response() {
    let faults = start().await;
    let (received, end) = raw(&faults, "/drop").await;
    assert_eq!(received, b"");
    assert_eq!(end.unwrap(), 0);
    assert!(client().get(faults.url("/drop")).send().await.is_err());
    assert_eq!(faults.hits("/drop"), 2);
    assert_eq!(get(&faults, "/text").await.0, 200);
}

#[tokio::test]
async fn reset_route_resets_the_connection_without_a_response() {
    let faults = start().await;
    let (received, end) = raw(&faults, "/reset").await;
    assert_eq!(received, b"");
    assert_eq!(end.unwrap_err().kind(), io::ErrorKind::ConnectionReset);
    assert!(client().get(faults.url("/reset")).send().await.is_err());
    assert_eq!(faults.hits("/reset"), 2);
}

#[tokio::test]
async fn reading_the_body_of_the_truncate_route_fails() {
    let faults = start().await;
    let response = fetch(&faults, "/truncate").await;
    assert_eq!(response.status(), 200);
    assert!(response.bytes().await.is_err());
}

#[tokio::test]
async fn body_of_the_huge_route_has_the_requested_size() {
    let faults = start().await;
    for size in [2, 3, 65_536, 3_000_000] {
        let response = fetch(&faults, &format!("/huge/{size}")).await;
        assert_eq!(response.content_length(), None);
        let body = response.bytes().await.unwrap();
        assert_eq!(body.len(), size);
        let text: String = serde_json::from_slice(&body).unwrap();
        assert_eq!(text.len(), size - 2);
    }
    assert_eq!(get(&faults, "/huge/1").await.0, 400);
    assert_eq!(get(&faults, "/huge/99999999999").await.0, 400);
}

#[tokio::test]
async fn routes_that_return_files_or_text_declare_their_content_type() {
    let faults = start().await;
    for (path, content_type, start) in [
        ("/binary/png", "image/png", &b"\x89PNG\r\n"[..]),
        ("/binary/pdf", "application/pdf", b"%PDF-"),
        ("/binary/csv", "text/csv; charset=utf-8", b"sku,quantity"),
        ("/binary/html", "text/html; charset=utf-8", b"<!doctype html>"),
        ("/html", "text/html; charset=utf-8", b"<!doctype html>"),
        ("/text", "text/plain; charset=utf-8", b"plain text"),
        ("/invalid-json", "application/json", b"{\"ok\""),
    ] {
        let response = fetch(&faults, path).await;
        assert_eq!(response.headers()["content-type"], content_type);
        assert!(response.bytes().await.unwrap().starts_with(start), "{path}");
    }
    assert!(fetch(&faults, "/invalid-json").await.json::<Value>().await.is_err());
    assert_eq!(get(&faults, "/binary/exe").await.0, 400);
}

#[tokio::test]
async fn gzip_and_brotli_bodies_decode_to_json() {
    let faults = start().await;
    assert_eq!(get(&faults, "/gzip").await, (200, json!({"ok": true, "encoding": "gzip"})));
    assert_eq!(get(&faults, "/brotli").await, (200, json!({"ok": true, "encoding": "br"})));
}

#[tokio::test]
async fn echo_route_returns_every_part_of_the_request() {
    let faults = start().await;
    let request = client()
        .request(Method::PATCH, faults.url("/echo/a%20b?x=1&x=2&y=%26"))
        .header("X-Thing", "one")
        .header("X-Thing", "two")
        .json(&json!({"n": 1}));
    let (status, echoed) = answer(request).await;
    assert_eq!(status, 200);
    assert_eq!(echoed["method"], "PATCH");
    assert_eq!(echoed["path"], "/echo/a%20b");
    assert_eq!(echoed["query"], json!([["x", "1"], ["x", "2"], ["y", "&"]]));
    assert_eq!(echoed["headers"]["x-thing"], "one, two");
    assert_eq!(echoed["body"], "{\"n\":1}");
    assert_eq!(echoed["json"], json!({"n": 1}));
    assert_eq!(get(&faults, "/echo").await.1["json"], Value::Null);
}

#[tokio::test]
async fn count_route_counts_earlier_requests_per_key() {
    let faults = start().await;
    assert_eq!(get(&faults, "/count/a").await.1["count"], 0);
    assert_eq!(get(&faults, "/count/a").await.1["count"], 1);
    assert_eq!(get(&faults, "/count/b").await.1["count"], 0);
    assert_eq!(faults.hits("/count/a"), 2);
}

#[tokio::test]
async fn redirect_route_returns_the_requested_status_and_location() {
    let faults = start().await;
    let target = "http%3A%2F%2F169.254.169.254%2Flatest";
    let response = fetch(&faults, &format!("/redirect?to={target}&status=307")).await;
    assert_eq!(response.status(), 307);
    assert_eq!(response.headers()["location"], "http://169.254.169.254/latest");
    assert_eq!(get(&faults, "/redirect?to=/text").await.0, 302);
    assert_eq!(get(&faults, "/redirect?to=/text&status=200").await.0, 400);
    let response = fetch(&faults, "/redirect-loop").await;
    assert_eq!(response.headers()["location"], "/redirect-loop");
}

#[tokio::test]
async fn token_is_issued_to_the_configured_client_only() {
    let builder = Faults::builder().client("me", "my-secret").expires_in(60);
    let faults = builder.start(LOOPBACK).await.unwrap();
    let url = faults.url("/token");
    let grant = ("grant_type", "client_credentials");
    let form = |secret| {
        let fields = [grant, ("client_id", "me"), ("client_secret", secret)];
        client().post(&url).form(&fields)
    };
    let basic = |secret| client().post(&url).basic_auth("me", Some(secret)).form(&[grant]);

    let (status, body) = answer(form("wrong")).await;
    assert_eq!((status, &body["error"]), (401, &json!("invalid_client")));
    assert_eq!(answer(basic("wrong")).await.0, 401);
    assert_eq!(answer(client().post(&url).form(&[grant])).await.0, 401);
    let password = client().post(&url).basic_auth("me", Some("my-secret"));
    let (status, body) = answer(password.form(&[("grant_type", "password")])).await;
    assert_eq!((status, &body["error"]), (400, &json!("unsupported_grant_type")));
    assert_eq!(faults.tokens_issued(), 0);

    let (_, first) = answer(form("my-secret")).await;
    let (_, second) = answer(basic("my-secret")).await;
    assert_eq!((&first["token_type"], &first["expires_in"]), (&json!("Bearer"), &json!(60)));
    assert_ne!(first["access_token"], second["access_token"]);
    assert_eq!(faults.tokens_issued(), 2);
}

#[tokio::test]
async fn protected_resource_requires_an_issued_token() {
    let faults = start().await;
    let fields = [
        ("grant_type", "client_credentials"),
        ("client_id", "demo-client"),
        ("client_secret", "demo-client-secret-not-real"),
    ];
    let (_, issued) = answer(client().post(faults.url("/token")).form(&fields)).await;
    let token = issued["access_token"].as_str().unwrap();
    let read = |token: &str| answer(client().get(faults.url("/oauth-protected")).bearer_auth(token));

    assert_eq!(get(&faults, "/oauth-protected").await.0, 401);
    assert_eq!(read("made-up").await.0, 401);
    assert_eq!(read(token).await, (200, json!({"ok": true})));
    faults.revoke_tokens();
    assert_eq!(read(token).await.0, 401);
}
