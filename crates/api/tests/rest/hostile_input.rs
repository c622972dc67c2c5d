//! Tests requests that try to exhaust or mislead the server, and concurrent writes.

use futures::future::join_all;
use serde_json::{Value, json};
use toolwright_testkit::{Faults, LOOPBACK};

use crate::harness::Server;

crate::on_both_databases!(
    expensive_expressions_and_selectors_are_rejected,
    headers_that_break_http_framing_are_rejected,
    secret_assembled_by_a_response_mapping_is_redacted,
    concurrent_patches_of_one_tool_are_all_applied,
    only_one_of_many_concurrent_realm_creations_succeeds,
);

async fn expensive_expressions_and_selectors_are_rejected(server: Server) {
    let digits = "1".repeat(1 << 20);
    let scope = json!({ "a": (0..50_000).collect::<Vec<_>>(), "s": digits });
    let long_number = json!({ "expression": "a.all(x, double(s) > 0.0)", "scope": scope });
    server.post("expressions/evaluate", long_number).await.problem(422, "invalid-expression");
    let repeated = format!("$[{}]", vec!["0"; 1300].join(","));
    let flood = json!({ "selector": repeated, "document": ["x".repeat(1 << 20)] });
    server.post("jsonpath", flood).await.problem(422, "invalid-expression");
    let patterns: Vec<Value> = (0..3000).map(|n| json!(format!("(a{{0,200}}){{0,50}}b{n}"))).collect();
    let compiled = json!({ "selector": "$[?search('aaaa', @)]", "document": patterns });
    server.post("jsonpath", compiled).await.problem(422, "invalid-expression");
    let few = json!({ "selector": "$[?search('aaaa', @)]", "document": ["a+", "b"] });
    assert_eq!(server.post("jsonpath", few).await.expect(200), json!({ "nodes": ["a+"] }));
}

async fn headers_that_break_http_framing_are_rejected(server: Server) {
    for header in ["Content-Length", "transfer-encoding", "Host", "Connection", "Upgrade"] {
        let input = json!({ "url": "https://example.com/", "headers": { header: "7" } });
        let envelope = server.call("http_request", input).await;
        assert_eq!(envelope["error"]["code"], "VALIDATION_ERROR", "{envelope}");
    }
    let envelope = server.call("http_request", json!({ "url": "https://example.com/", "method": "CONNECT" })).await;
    assert_eq!(envelope["error"]["code"], "VALIDATION_ERROR", "{envelope}");
}

async fn secret_assembled_by_a_response_mapping_is_redacted(server: Server) {
    let faults = Faults::builder().start(LOOPBACK).await.unwrap();
    let auth = json!({ "authType": "bearer", "secretRef": "token" });
    let provider =
        json!({ "refName": "p", "baseUrl": faults.base_url(), "egressAllow": ["127.0.0.0/8"], "auth": auth });
    server.post("tool-providers", provider).await.expect(201);
    server.post("secrets", json!({ "name": "token", "value": "CANARY-0123/456+789" })).await.expect(201);
    let invocation = json!({ "method": "POST", "path": "/echo", "bodyTemplate": { "a": "CANARY-01", "b": "23/456+789" }, "responseMapping": "X${body.json.a}${body.json.b}Y" });
    let tool = json!({ "refName": "t", "toolType": "EXTERNAL_REST", "providerRef": "p", "invocation": invocation });
    server.post("tools", tool).await.expect(201);
    let envelope = server.call("t", json!({})).await;
    assert_eq!(envelope["output"], "X[redacted]Y", "{envelope}");
    faults.shutdown().await;
}

async fn concurrent_patches_of_one_tool_are_all_applied(server: Server) {
    server.post("tools", json!({ "refName": "t", "toolType": "FUNCTION" })).await.expect(201);
    let patches = (0..16).map(|n| {
        let server = server.clone();
        async move {
            server.patch("tools/t", json!({ "invocation": { "headers": { format!("X-{n}"): "1" } } })).await.expect(200)
        }
    });
    join_all(patches).await;
    let headers = server.get("tools/t").await.expect(200)["invocation"]["headers"].clone();
    assert_eq!(headers.as_object().unwrap().len(), 16, "{headers}");
}

async fn only_one_of_many_concurrent_realm_creations_succeeds(server: Server) {
    let requests = (0..12).map(|_| server.post("realms", json!({ "name": "new" })));
    let mut statuses: Vec<u16> = join_all(requests).await.into_iter().map(|answer| answer.status.as_u16()).collect();
    statuses.sort_unstable();
    assert_eq!(statuses[..2], [201, 409], "{statuses:?}");
}
