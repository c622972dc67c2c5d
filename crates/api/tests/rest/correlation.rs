//! Tests correlation ids: their source, and where a run passes them on.

use reqwest::Method;
use serde_json::{Value, json};
use toolwright_testkit::{Faults, LOOPBACK};

use crate::harness::{Deployment, Response, Server, Storage, calls_then, envelopes, merge};
use crate::mcp_imports::{define_peer, import, with_peer};

crate::on_sqlite!(
    correlation_id_of_a_request_is_in_the_response_and_the_run_and_the_upstream_request,
    request_id_replaces_an_absent_or_invalid_correlation_id,
    tool_definition_can_override_the_id_headers,
    child_run_and_nested_call_inherit_the_correlation_id,
    fork_has_the_correlation_id_of_its_own_request,
    correlation_id_is_sent_as_grpc_metadata,
    correlation_id_is_sent_to_mcp_servers
);

const CORRELATION: &str = "x-correlation-id";

async fn post_with(server: &Server, headers: &[(&str, &str)], path: &str, body: Value) -> Response {
    let mut request = server.request(Method::POST, path).json(&body);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    server.send(request).await
}

/// Defines the tool `show`, which returns the headers that the upstream received. It is declared as a write, because
/// the run of a write is stored when the call ends, and the run of a read is stored later.
async fn define_show(server: &Server, more: Value) -> toolwright_testkit::faults::Handle {
    let faults = Faults::builder().start(LOOPBACK).await.unwrap();
    let tool = merge(json!({ "sideEffects": "writes", "outputJsonSchema": {} }), more);
    server.define_http_tool("show", &faults.base_url(), "/echo", tool).await;
    faults
}

async fn last_run(server: &Server) -> Value {
    let runs = server.get("runs").await.expect(200);
    let id = runs["items"][0]["id"].as_str().unwrap_or_else(|| panic!("{runs}"));
    server.get(&format!("runs/{id}")).await.expect(200)
}

async fn correlation_id_of_a_request_is_in_the_response_and_the_run_and_the_upstream_request(server: Server) {
    let faults = define_show(&server, json!({})).await;
    let ids = [(CORRELATION, "order-7"), ("x-request-id", "req-1")];
    let response = post_with(&server, &ids, "tools/show/execute", json!({ "input": {} })).await;
    assert_eq!(
        (&response.headers[CORRELATION], &response.headers["x-request-id"]),
        (&"order-7".parse().unwrap(), &"req-1".parse().unwrap())
    );
    let envelope = response.expect(200);
    let run = last_run(&server).await;
    assert_eq!(run["correlationId"], "order-7", "{run}");
    let sent = &envelope["output"]["headers"];
    assert_eq!(sent[CORRELATION], "order-7", "{sent}");
    let request_id = format!("{}-{}", run["runId"].as_str().unwrap(), envelope["call_id"].as_str().unwrap());
    assert_eq!(sent["x-request-id"], request_id.as_str(), "the id names the run and the call");
    faults.shutdown().await;
}

async fn request_id_replaces_an_absent_or_invalid_correlation_id(server: Server) {
    let faults = define_show(&server, json!({})).await;
    let long = "a".repeat(129);
    for invalid in [None, Some(""), Some("two words"), Some(long.as_str())] {
        let mut ids = vec![("x-request-id", "req-2")];
        ids.extend(invalid.map(|id| (CORRELATION, id)));
        let response = post_with(&server, &ids, "tools/show/execute", json!({ "input": {} })).await;
        assert_eq!(response.headers[CORRELATION], "req-2", "{invalid:?}");
        assert_eq!(response.expect(200)["output"]["headers"][CORRELATION], "req-2");
    }
    let response = post_with(&server, &[("x-request-id", &long)], "tools/show/execute", json!({ "input": {} })).await;
    let new_id = response.headers["x-request-id"].clone();
    assert_ne!(new_id, long.as_str(), "an invalid request id is replaced");
    assert_eq!(response.headers[CORRELATION], new_id);
    assert_eq!(last_run(&server).await["correlationId"], new_id.to_str().unwrap());
    faults.shutdown().await;
}

async fn tool_definition_can_override_the_id_headers(server: Server) {
    let headers = json!({ "X-Correlation-Id": "fixed", "X-Request-Id": "${param.id}" });
    let faults = define_show(&server, json!({ "invocation": { "path": "/echo", "headers": headers } })).await;
    let body = json!({ "input": { "id": "mine" } });
    let envelope = post_with(&server, &[(CORRELATION, "order-7")], "tools/show/execute", body).await.expect(200);
    let sent = &envelope["output"]["headers"];
    assert_eq!((&sent[CORRELATION], &sent["x-request-id"]), (&json!("fixed"), &json!("mine")), "{sent}");
    faults.shutdown().await;
}

async fn child_run_and_nested_call_inherit_the_correlation_id(server: Server) {
    let faults = define_show(&server, json!({ "sideEffects": "reads" })).await;
    server
        .define_http_tool(
            "broken",
            &faults.base_url(),
            "/status/500",
            json!({ "errorHandling": { "500": { "action": "fallback", "fallbackToolRef": "show" } } }),
        )
        .await;
    let child = calls_then(json!([{ "name": "broken" }]), "Told: {{result}}");
    server.define_agent("child", child, json!({ "toolRefs": ["broken", "show"] })).await;
    let parent = calls_then(json!([{ "name": "child", "arguments": { "task": "go" } }]), "Done.");
    server.define_agent("parent", parent, json!({ "delegateAgentRefs": ["child"] })).await;
    let body = json!({ "userMessage": "go" });
    let response = post_with(&server, &[(CORRELATION, "order-8")], "agents/parent/execute", body).await.expect(200);
    assert_eq!(response["correlationId"], "order-8", "{response}");
    let child = envelopes(&response)[0]["output"]["runId"].as_str().unwrap().to_owned();
    let child = server.get(&format!("runs/{child}")).await.expect(200);
    assert_eq!(child["correlationId"], "order-8", "{child}");
    assert_eq!(envelopes(&child)[0]["output"]["headers"][CORRELATION], "order-8", "{child}");
    faults.shutdown().await;
}

async fn fork_has_the_correlation_id_of_its_own_request(server: Server) {
    server.define_agent("a", json!([{ "reply": { "text": "Hi." } }]), json!({})).await;
    let body = json!({ "userMessage": "go" });
    let run = post_with(&server, &[(CORRELATION, "first")], "agents/a/execute", body).await.expect(200);
    let path = format!("runs/{}/fork", run["runId"].as_str().unwrap());
    let fork = post_with(&server, &[(CORRELATION, "second")], &path, json!({ "at": 1 })).await;
    let fork = serde_json::from_str::<Value>(&fork.text).unwrap();
    let fork =
        server.get(&format!("runs/{}", fork["runId"].as_str().unwrap_or_else(|| panic!("{fork}")))).await.expect(200);
    assert_eq!(fork["correlationId"], "second", "{fork}");
}

async fn correlation_id_is_sent_as_grpc_metadata(server: Server) {
    let system = crate::grpc::start_inventory(&server, &["Metadata"]).await;
    let body = json!({ "input": {} });
    let envelope = post_with(&server, &[(CORRELATION, "order-9")], "tools/Metadata/execute", body).await.expect(200);
    assert_eq!(envelope["output"][CORRELATION], "order-9", "{envelope}");
    assert!(envelope["output"]["x-request-id"].is_string(), "{envelope}");
    system.shutdown().await;
}

async fn correlation_id_is_sent_to_mcp_servers(server: Server) {
    with_peer(|peer| async move {
        peer.patch("tools/peer_echo", json!({ "sideEffects": "writes" })).await.expect(200);
        define_peer(&server, &peer, json!({})).await;
        import(&server, json!({ "providerRef": "peer" })).await;
        let body = json!({ "input": {} });
        let called =
            post_with(&server, &[(CORRELATION, "order-10")], "tools/peer_echo/execute", body).await.expect(200);
        assert_eq!(called["error"], Value::Null, "{called}");
        assert_eq!(last_run(&peer).await["correlationId"], "order-10");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn run_keeps_its_correlation_id_after_a_restart() {
    let deployment = Deployment::new(Storage::Sqlite).await;
    let (server, running) = deployment.start().await;
    let faults = define_show(&server, json!({ "requiresConfirmation": true })).await;
    let rules = calls_then(json!([{ "name": "show" }]), "Done.");
    server.define_agent("a", rules, json!({ "toolRefs": ["show"] })).await;
    let body = json!({ "userMessage": "go" });
    let waiting = post_with(&server, &[(CORRELATION, "order-11")], "agents/a/execute", body).await.expect(200);
    running.stop().await;
    let (server, running) = deployment.start().await;
    let approval = &waiting["approvals"][0];
    let (run, call) = (approval["runId"].as_str().unwrap(), approval["callId"].as_str().unwrap());
    let path = format!("runs/{run}/approvals/{call}");
    // The decision is another request. The run keeps the id of the request that started it.
    let decided =
        post_with(&server, &[(CORRELATION, "other")], &path, json!({ "decision": "approve" })).await.expect(200);
    assert_eq!(decided["correlationId"], "order-11", "{decided}");
    assert_eq!(envelopes(&decided)[0]["output"]["headers"][CORRELATION], "order-11", "{decided}");
    faults.shutdown().await;
    running.stop().await;
    deployment.remove().await;
}
