//! Tests that invalid definitions and requests are rejected with a 4xx status and write nothing.

use reqwest::Method;
use serde_json::{Value, json};

use crate::harness::Server;

crate::on_both_databases!(invalid_definition_is_rejected_with_its_path, invalid_request_is_rejected);

fn tool(extra: Value) -> Value {
    let mut body =
        json!({ "refName": "t", "toolType": "EXTERNAL_REST", "invocation": { "path": "https://example.com/" } });
    body.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
    body
}

async fn invalid_definition_is_rejected_with_its_path(server: Server) {
    for (body, path, message) in [
        (tool(json!({ "descripton": "typo" })), "/descripton", "unknown field"),
        (tool(json!({ "refName": "a b" })), "/refName", "character 2"),
        (tool(json!({ "refName": "query" })), "/refName", "reserved"),
        (tool(json!({ "toolType": "REST" })), "/toolType", "EXTERNAL_REST"),
        (tool(json!({ "version": "one" })), "/version", "three numbers"),
        (tool(json!({ "timeoutMs": "fast" })), "/timeoutMs", "invalid type"),
        (tool(json!({ "timeoutMs": 0 })), "/timeoutMs", "between 1"),
        (tool(json!({ "inputJsonSchema": { "type": "strin" } })), "/inputJsonSchema/type", "strin"),
        (tool(json!({ "inputJsonSchema": "{" })), "/inputJsonSchema", "not JSON"),
        (
            tool(json!({ "inputJsonSchema": { "$ref": "https://example.com/s.json" } })),
            "/inputJsonSchema",
            "example.com",
        ),
        (tool(json!({ "inputSchema": { "x": { "type": "text" } } })), "/inputSchema/x/type", "unknown variant"),
        (tool(json!({ "invocation": { "path": "https://example.com/${param." } })), "/invocation/path", "${"),
        (tool(json!({ "invocation": { "path": "/relative" } })), "/invocation/path", "absolute"),
        (tool(json!({ "invocation": { "path": "https://u:p@example.com/" } })), "/invocation/path", "secretRef"),
        (
            tool(
                json!({ "invocation": { "path": "https://example.com/", "headers": { "Authorization": "Bearer x" } } }),
            ),
            "/invocation/headers/Authorization",
            "secretRef",
        ),
        (
            tool(json!({ "invocation": { "path": "https://example.com/", "responseMapping": "$.[" } })),
            "/invocation/responseMapping",
            "1:",
        ),
        (
            tool(json!({ "invocation": { "path": "https://example.com/", "method": "G T" } })),
            "/invocation/method",
            "HTTP method",
        ),
        (tool(json!({ "rateLimit": { "perSecond": 0 } })), "/rateLimit", "above 0"),
        (
            tool(json!({ "errorHandling": { "503": { "action": "fallback" } } })),
            "/errorHandling/503/fallbackToolRef",
            "action `fallback`",
        ),
        (json!("text"), "", "JSON object"),
        (tool(json!({ "invocation": ["GET", "https://example.com/"] })), "/invocation", "not an array"),
        (tool(json!({ "rateLimit": [1, 2] })), "/rateLimit", "not an array"),
        (tool(json!({ "securityUri": "ai://tools/*/t/execute" })), "/securityUri", "ai://tools"),
        (tool(json!({ "invocation": { "path": "https://example.com/a/../b" } })), "/invocation/path", ".."),
        (
            tool(json!({ "invocation": { "path": "https://example.com/", "method": "TRACE" } })),
            "/invocation/method",
            "is not allowed",
        ),
        (
            tool(json!({ "invocation": { "path": "https://example.com/", "headers": { "Content-Length": "5" } } })),
            "/invocation/headers/Content-Length",
            "HTTP client",
        ),
        (
            tool(json!({ "invocation": { "path": "https://example.com/", "headers": { "X-GitHub-Token": "abc" } } })),
            "/invocation/headers/X-GitHub-Token",
            "secretRef",
        ),
        (json!({ "toolType": "FUNCTION" }), "", "refName"),
    ] {
        let problem = server.post("tools", body.clone()).await.problem(422, "invalid-definition");
        let error = &problem["errors"][0];
        assert_eq!(error["path"], path, "{body}: {problem}");
        assert!(error["message"].as_str().unwrap().contains(message), "{body}: {problem}");
    }
    assert_eq!(server.get("tools/count").await.expect(200)["count"], 0);
    server.post("tools", tool(json!({}))).await.expect(201);
    let duplicate = server.post("tools", tool(json!({ "refName": "T" }))).await.problem(409, "duplicate");
    assert!(duplicate["detail"].as_str().unwrap().contains("PUT"), "{duplicate}");
    assert_eq!(server.get("tools/count").await.expect(200)["count"], 1);
}

async fn invalid_request_is_rejected(server: Server) {
    let raw = |path: &'static str, body: String| {
        let server = server.clone();
        async move {
            server.send(server.request(Method::POST, path).header("content-type", "application/json").body(body)).await
        }
    };
    let twice = r#"{"refName":"twice","toolType":"FUNCTION","requiresConfirmation":true,"requiresConfirmation":false}"#;
    let problem = raw("tools", twice.to_owned()).await.problem(400, "invalid-request");
    assert!(problem.to_string().contains("duplicate key `requiresConfirmation`"), "{problem}");
    raw("tools", "{".into()).await.problem(400, "invalid-json");
    for (path, list) in [("keys", "[]"), ("tools", "[]"), ("realms", "[\"x\"]"), ("tools/echo/execute", "[{}]")] {
        raw(path, list.into()).await.problem(400, "invalid-request");
    }
    raw("tools", "{} {}".into()).await.problem(400, "invalid-json");
    raw("tools", String::new()).await.problem(400, "invalid-json");
    raw("tools", "\u{feff}{}".into()).await.problem(400, "invalid-json");
    let deep = format!("{{\"input\":{}1{}}}", "[".repeat(100_000), "]".repeat(100_000));
    raw("tools/echo/execute", deep).await.problem(400, "invalid-json");
    let huge = format!("{{\"input\":\"{}\"}}", "x".repeat(9 << 20));
    raw("tools/echo/execute", huge).await.problem(413, "payload-too-large");
    raw("tools/echo/execute", r#"{"inputs":{}}"#.into()).await.problem(400, "invalid-request");
    raw("tools/echo/execute", r#"{"input":{},"version":3}"#.into()).await.problem(400, "invalid-request");
    raw("tools/query", r#"{"filter":{"a":[1]}}"#.into()).await.problem(400, "invalid-request");
    raw("tools/query", r#"{"limit":1000}"#.into()).await.problem(400, "invalid-request");
    server.post("tools/nothing/execute", json!({ "input": {} })).await.problem(404, "not-found");
    server.get("tools/echo/export/yaml").await.problem(400, "invalid-request");
    server.get("/api/v1/nothing").await.problem(404, "route-not-found");
    server.delete("tools").await.problem(405, "method-not-allowed");
    server.post("secrets", json!({ "name": "a b", "value": "x" })).await.problem(400, "invalid-request");
    server
        .post("secrets", json!({ "name": "s", "scope": "world", "value": "x" }))
        .await
        .problem(400, "invalid-request");
    server.post("secrets", json!({ "name": "s", "value": "" })).await.problem(400, "invalid-request");
    server.post("jsonpath", json!({ "selector": "$[", "document": 1 })).await.problem(422, "invalid-expression");
    server
        .post("expressions/evaluate", json!({ "expression": "1 +", "scope": {} }))
        .await
        .problem(422, "invalid-expression");
    server.get("tools/%FF").await.problem(400, "invalid-request");
    assert_eq!(server.get("tools/count").await.expect(200)["count"], 0);
}
