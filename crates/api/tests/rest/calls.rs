//! Tests tool calls over REST: envelopes, secret scopes, the cache, blobs and client tools.

use serde_json::{Value, json};
use toolwright_testkit::{Faults, LOOPBACK};

use crate::harness::{Deployment, Server, Storage, calls_then};

crate::on_both_databases!(
    call_returns_an_envelope_with_output_or_validation_error,
    call_uses_the_secret_of_the_narrowest_scope_and_redacts_it,
    cached_result_is_returned_until_the_definition_changes,
    cached_envelope_redacts_secrets,
    side_effects_are_derived_from_the_function_or_http_method,
    large_output_is_stored_as_a_blob_that_only_its_realm_can_read,
    write_is_completed_whatever_content_type_its_response_has,
    client_tool_call_waits_for_the_client,
    concurrent_calls_each_get_their_own_envelope,
    built_in_tools_are_callable_without_a_definition
);

async fn call_returns_an_envelope_with_output_or_validation_error(server: Server) {
    server
        .post("tools", json!({ "refName": "greet", "toolType": "FUNCTION", "description": "Greets.", "invocation": { "path": "sayHello" } }))
        .await
        .expect(201);
    let envelope = server.call("greet", json!({ "personName": "World" })).await;
    assert_eq!(envelope["output"], "Hello, World! Nice to meet you.");
    assert_eq!(envelope["error"], json!(null));
    assert_eq!(envelope["name"], "greet");
    assert_eq!(envelope["version"], "1.0.0");
    assert_eq!(envelope["cached"], false);
    assert_eq!(envelope["metadata"]["attempt"], 1);
    let again = server.call("greet", json!({ "personName": "World" })).await;
    assert_eq!(again["call_id"], envelope["call_id"], "the same call has the same call id in every run");
    let invalid = server.call("greet", json!({ "personName": 7 })).await;
    assert_eq!(invalid["error"]["code"], "VALIDATION_ERROR");
    assert_eq!(invalid["error"]["details"]["errors"][0]["path"], "/personName");
    let checked = server.post("tools/greet/validate", json!({ "input": {} })).await.expect(200);
    assert_eq!(checked["valid"], false);
    assert!(checked["errors"][0]["message"].as_str().unwrap().contains("personName"));
    assert_eq!(
        server.post("tools/greet/validate", json!({ "input": { "personName": "x" } })).await.expect(200),
        json!({ "valid": true, "errors": [] })
    );
}

async fn call_uses_the_secret_of_the_narrowest_scope_and_redacts_it(server: Server) {
    let faults = Faults::builder().start(LOOPBACK).await.unwrap();
    define_echo(&server, &faults.base_url()).await;
    let missing = server.call("upstream", json!({})).await;
    assert_eq!(missing["error"]["code"], "AUTH_REQUIRED");
    for (scope, value) in [("org", "org-secret-value"), ("realm", "realm-secret-value"), ("user", "user-secret-value")]
    {
        server.post("secrets", json!({ "name": "token", "scope": scope, "value": value })).await.expect(201);
        let envelope = server.call("upstream", json!({ "hint": value })).await;
        assert_eq!(envelope["metadata"]["secret_scope"], scope, "{envelope}");
        assert!(!envelope.to_string().contains(value), "{envelope}");
        assert_eq!(envelope["output"]["headers"]["authorization"], "Bearer [redacted]", "{envelope}");
    }
    faults.shutdown().await;
}

async fn define_echo(server: &Server, base_url: &str) {
    let provider = json!({ "refName": "faults", "baseUrl": base_url, "egressAllow": ["127.0.0.0/8"], "auth": { "authType": "bearer", "secretRef": "token" } });
    server.post("tool-providers", provider).await.expect(201);
    let tool = json!({ "refName": "upstream", "toolType": "EXTERNAL_REST", "providerRef": "faults", "invocation": { "path": "/echo" } });
    server.post("tools", tool).await.expect(201);
}

async fn cached_result_is_returned_until_the_definition_changes(server: Server) {
    let faults = Faults::builder().start(LOOPBACK).await.unwrap();
    let tool = |ttl: u64| json!({ "refName": "counter", "toolType": "EXTERNAL_REST", "providerRef": "open", "cache": "ttl", "cacheTtlSeconds": ttl, "invocation": { "path": "/count/${param.key}" } });
    server
        .post(
            "tool-providers",
            json!({ "refName": "open", "baseUrl": faults.base_url(), "egressAllow": ["127.0.0.0/8"] }),
        )
        .await
        .expect(201);
    server.post("tools", tool(60)).await.expect(201);
    let first = server.call("counter", json!({ "key": "a" })).await;
    let second = server.call("counter", json!({ "key": "a" })).await;
    assert_eq!((&first["cached"], &second["cached"]), (&json!(false), &json!(true)));
    assert_eq!(first["output"], second["output"]);
    assert_eq!(faults.hits("/count/a"), 1);
    assert_eq!(server.call("counter", json!({ "key": "b" })).await["cached"], false);
    // The changed definition does not use the results that were cached for the previous one.
    server.put("tools/counter", tool(61)).await.expect(200);
    assert_eq!(server.call("counter", json!({ "key": "a" })).await["cached"], false);
    faults.shutdown().await;
}

async fn cached_envelope_redacts_secrets(server: Server) {
    let faults = Faults::builder().start(LOOPBACK).await.unwrap();
    define_echo(&server, &faults.base_url()).await;
    server.patch("tools/upstream", json!({ "cache": "forever" })).await.expect(200);
    server.post("secrets", json!({ "name": "token", "value": "realm-secret-value" })).await.expect(201);
    for _ in 0..2 {
        let envelope = server.call("upstream", json!({ "pasted": "realm-secret-value" })).await;
        assert_eq!(envelope["input"], json!({ "pasted": "[redacted]" }), "{envelope}");
        assert!(!envelope.to_string().contains("realm-secret-value"));
    }
    let plain = json!({ "pasted": "nothing" });
    assert_eq!(server.call("upstream", plain.clone()).await["cached"], false);
    assert_eq!(server.call("upstream", plain).await["cached"], true);
    faults.shutdown().await;
}

async fn side_effects_are_derived_from_the_function_or_http_method(server: Server) {
    let tool = json!({ "refName": "fetch", "toolType": "FUNCTION", "invocation": { "path": "http_request" } });
    assert_eq!(server.post("tools", tool).await.expect(201)["sideEffects"], "writes");
    let explicit = json!({ "refName": "read", "toolType": "FUNCTION", "sideEffects": "reads", "invocation": { "path": "http_request" } });
    assert_eq!(server.post("tools", explicit).await.expect(201)["sideEffects"], "reads");
    // The definition does not state its side effects, so the server derives them from the HTTP method. If the method
    // changes, the side effects change too.
    let get =
        json!({ "refName": "rest", "toolType": "EXTERNAL_REST", "invocation": { "path": "https://example.com/" } });
    let mut shown = server.post("tools", get).await.expect(201);
    assert_eq!(shown["sideEffects"], "reads");
    shown["invocation"]["method"] = json!("POST");
    assert_eq!(server.put("tools/rest", shown).await.expect(200)["sideEffects"], "writes");
}

async fn large_output_is_stored_as_a_blob_that_only_its_realm_can_read(server: Server) {
    server.post("tools", json!({ "refName": "big", "toolType": "FUNCTION", "maxOutputBytes": 100, "invocation": { "path": "echo" } })).await.expect(201);
    let input = json!({ "text": "0123456789".repeat(100) });
    let envelope = server.call("big", input.clone()).await;
    assert_eq!(envelope["truncated"], true);
    assert!(envelope["output"]["text"].as_str().unwrap().len() < 100);
    let url = envelope["attachments"][0]["url"].as_str().unwrap();
    let blob = server.get(url).await;
    assert_eq!(blob.headers["content-type"], "application/json");
    assert_eq!(blob.headers["x-content-type-options"], "nosniff");
    assert_eq!(blob.json(), input);
    server.post("realms", json!({ "name": "other" })).await.expect(201);
    server.in_realm("other").get(url).await.problem(404, "not-found");
    server.get("blobs/..%2F..%2Fseal.key").await.problem(404, "not-found");
}

async fn write_is_completed_whatever_content_type_its_response_has(server: Server) {
    let faults = Faults::builder().start(LOOPBACK).await.unwrap();
    let invocation = json!({ "method": "POST", "path": "/binary/long-type" });
    server.define_http_tool("save", &faults.base_url(), "", json!({ "invocation": invocation })).await;
    let envelope = server.call("save", json!({})).await;
    assert_eq!(envelope["error"], Value::Null, "{envelope}");
    let attachment = &envelope["attachments"][0];
    assert_eq!(attachment["content_type"], "application/x-report", "{envelope}");
    let blob = server.get(attachment["url"].as_str().unwrap()).await;
    assert_eq!((blob.status.as_u16(), blob.headers["content-type"].to_str().unwrap()), (200, "application/x-report"));
    faults.shutdown().await;
}

async fn client_tool_call_waits_for_the_client(server: Server) {
    let tool = json!({ "refName": "open_file", "toolType": "FUNCTION", "isToolFullyExecutedOnServer": false,
        "inputSchema": { "path": { "type": "string", "required": true } },
        "invocation": { "bodyTemplate": { "open": "${param.path}" } }, "outputJsonSchema": { "type": "object" } });
    server.post("tools", tool).await.expect(201);
    let waiting = server.post("tools/open_file/execute", json!({ "input": { "path": "a.rs" } })).await.expect(202);
    assert!(waiting["runId"].as_str().unwrap().starts_with("run_"));
    assert_eq!(waiting["status"], "AWAITING_CLIENT");
    assert_eq!(waiting["clientActions"][0]["preparedPayload"], json!({ "open": "a.rs" }));
    let refused = server.call("open_file", json!({})).await;
    assert_eq!(refused["error"]["code"], "VALIDATION_ERROR", "the server validates the input of client tools");
}

async fn concurrent_calls_each_get_their_own_envelope(server: Server) {
    server
        .post("tools", json!({ "refName": "t", "toolType": "FUNCTION", "invocation": { "path": "echo" } }))
        .await
        .expect(201);
    let calls = (0..64).map(|n| {
        let server = server.clone();
        async move { (n, server.call("t", json!({ "n": n })).await) }
    });
    for (n, envelope) in futures::future::join_all(calls).await {
        assert_eq!(envelope["output"], json!({ "n": n }));
    }
}

async fn built_in_tools_are_callable_without_a_definition(server: Server) {
    assert_eq!(server.call("calculator", json!({ "expression": "6*7" })).await["output"], 42.0);
    assert_eq!(server.get("tools/echo").await.expect(200)["source"], "built-in");
    // A definition with the name of a built-in tool replaces that tool. Here it disables the tool.
    server.post("tools", json!({ "refName": "calculator", "toolType": "FUNCTION", "enabled": false, "invocation": { "path": "calculator" } })).await.expect(201);
    assert_eq!(
        server.call("calculator", json!({ "expression": "6*7" })).await["error"]["details"]["reason"],
        "disabled"
    );
    let private = server.call("http_request", json!({ "url": "http://127.0.0.1:1/" })).await;
    assert_eq!(private["error"]["details"]["reason"], "egress");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn http_request_tool_attaches_images_and_treats_get_as_a_read() {
    let faults = Faults::builder().start(LOOPBACK).await.unwrap();
    let deployment = Deployment::new(Storage::Sqlite).await;
    let (server, running) =
        deployment.start_with(|options| options.egress_allow = vec!["127.0.0.0/8".parse().unwrap()]).await;
    let image = server.call("http_request", json!({ "url": faults.url("/binary/png") })).await;
    assert_eq!(image["output"]["body"]["contentType"], "image/png", "{image}");
    let attachment = &image["attachments"][0];
    assert_eq!((&attachment["kind"], &attachment["content_type"]), (&json!("image"), &json!("image/png")), "{image}");
    let blob = server.get(attachment["url"].as_str().unwrap()).await;
    assert_eq!(blob.headers["content-type"], "image/png");
    assert!(blob.text.contains("PNG"), "the blob contains the image");
    let document = server.call("http_request", json!({ "url": faults.url("/binary/pdf") })).await;
    assert_eq!(document["attachments"][0]["kind"], "blob", "{document}");

    // A read needs no approval, a write does.
    let agent = json!({ "toolRefs": ["http_request"], "requiresApproval": true });
    let request = |method: &str| json!([{ "name": "http_request", "arguments": { "url": faults.url("/echo"), "method": method } }]);
    server.define_agent("reader", calls_then(request("GET"), "Done."), agent.clone()).await;
    assert_eq!(server.run("reader", "go").await["status"], "COMPLETED");
    server.define_agent("writer", calls_then(request("POST"), "Done."), agent).await;
    assert_eq!(server.run("writer", "go").await["status"], "AWAITING_APPROVAL");
    running.stop().await;
    deployment.remove().await;
    faults.shutdown().await;
}
