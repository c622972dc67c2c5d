//! Tests a server that stores blobs in S3, and a server whose S3 does not answer.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking, also in its helpers"
)]

mod support;

use std::net::TcpListener;

use reqwest::Method;
use serde_json::{Value, json};
use support::runs::{api, define};
use support::{BINARY, Server};
use toolwright_tools::http::{EgressPolicy, HttpClient};

/// Returns the environment variables of a server that stores blobs in the bucket `toolwright` at this endpoint.
fn environment(endpoint: String, prefix: &str) -> Vec<(&'static str, String)> {
    vec![
        ("TOOLWRIGHT_BLOB_URL", format!("s3://toolwright/{prefix}")),
        ("AWS_ENDPOINT_URL", endpoint),
        ("AWS_ACCESS_KEY_ID", "test".to_owned()),
        ("AWS_SECRET_ACCESS_KEY", "hidden-secret-key".to_owned()),
        ("AWS_REGION", "eu-central-1".to_owned()),
    ]
}

/// Calls a tool whose output is larger than its limit.
async fn call_with_large_output(server: &Server) -> Value {
    let tool =
        json!({ "refName": "big", "toolType": "FUNCTION", "maxOutputBytes": 100, "invocation": { "path": "echo" } });
    define(server, "tools", tool).await;
    let input = json!({ "input": { "text": "0123456789".repeat(100) } });
    api(server, Method::POST, "tools/big/execute", Some(input)).await.1
}

async fn readiness(server: &Server) -> u16 {
    let client = HttpClient::new(EgressPolicy::unrestricted()).unrestricted_client().unwrap();
    client.get(format!("{}/readyz", server.url)).send().await.unwrap().status().as_u16()
}

#[tokio::test]
async fn large_output_is_stored_in_s3_and_read_by_another_server() {
    let endpoint = std::env::var("TOOLWRIGHT_TEST_S3_URL").expect("run the tests with scripts/with-services");
    let mut server = Server::start_without_demo(environment(endpoint, "server"));
    assert_eq!(readiness(&server).await, 200);
    let envelope = call_with_large_output(&server).await;
    assert_eq!(envelope["truncated"], true, "{envelope}");
    let path = envelope["attachments"][0]["url"].as_str().unwrap().strip_prefix("/api/v1/ai/").unwrap().to_owned();
    assert!(!server.folder.path().join("data/blobs").exists());
    let visible = std::fs::read(format!("/proc/{}/environ", server.pid())).unwrap_or_default();
    assert!(!String::from_utf8_lossy(&visible).contains("hidden-secret-key"));
    server.kill_and_restart();
    let (status, blob) = api(&server, Method::GET, &path, None).await;
    assert_eq!((status, blob["text"].as_str().unwrap().len()), (200, 1000));
}

#[tokio::test]
async fn server_with_an_unreachable_bucket_starts_and_is_not_ready() {
    // The port is free, because the listener is dropped.
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let server = Server::start_without_demo(environment(format!("http://127.0.0.1:{port}"), "server"));
    assert!(server.log().contains("blob storage did not answer; calls with large outputs fail until it does"));
    assert!(!server.log().contains("hidden-secret-key"));
    assert_eq!(readiness(&server).await, 503);
    let envelope = call_with_large_output(&server).await;
    assert_eq!(envelope["error"]["code"], "UNKNOWN", "{envelope}");
    assert_eq!(envelope["error"]["details"]["reason"], "unavailable", "{envelope}");
    assert_eq!(envelope["attachments"], json!([]), "{envelope}");
    let small = api(&server, Method::POST, "tools/big/execute", Some(json!({ "input": {} }))).await.1;
    assert_eq!(small["error"], Value::Null, "{small}");
}

#[test]
fn server_with_an_invalid_blob_url_does_not_start() {
    let folder = tempfile::tempdir().unwrap();
    let output = std::process::Command::new(BINARY)
        .args(["serve", "--bind", "127.0.0.1:0", "--data"])
        .arg(folder.path())
        .env("TOOLWRIGHT_BLOB_URL", "gs://bucket")
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success());
    assert!(text.contains("blob_url must be `s3://BUCKET/PREFIX` or `file:///PATH`: the scheme is `gs`"), "{text}");
}
