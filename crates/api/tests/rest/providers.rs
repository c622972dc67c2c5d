//! Tests the connection test of providers.

use base64::Engine;
use serde_json::{Value, json};
use toolwright_testkit::grpc::Inventory;
use toolwright_testkit::{Faults, LOOPBACK};

use crate::harness::{Server, merge};
use crate::mcp_imports::{define_peer, with_peer};

crate::on_sqlite!(
    provider_test_route_reports_whether_the_provider_is_reachable,
    provider_test_lists_the_tools_of_an_mcp_server,
    provider_test_asks_a_grpc_server_for_its_services,
    connection_test_of_an_internal_provider_succeeds_without_a_base_url,
);

async fn define_and_test(server: &Server, name: &str, body: Value) -> Value {
    server.post("tool-providers", merge(json!({ "refName": name }), body)).await.expect(201);
    test(server, name).await
}

async fn test(server: &Server, name: &str) -> Value {
    server.post(&format!("tool-providers/{name}/test"), json!({})).await.expect(200)
}

async fn provider_test_route_reports_whether_the_provider_is_reachable(server: Server) {
    let faults = Faults::builder().start(LOOPBACK).await.unwrap();
    let at = |base: String| json!({ "baseUrl": base, "egressAllow": ["127.0.0.0/8"] });
    let reached = define_and_test(&server, "there", at(faults.base_url())).await;
    assert_eq!((&reached["ok"], &reached["httpStatus"]), (&json!(true), &json!(404)), "{reached}");
    let private = define_and_test(&server, "private", json!({ "baseUrl": faults.base_url() })).await;
    assert_eq!(private["error"]["details"]["reason"], "egress", "{private}");
    let gone = define_and_test(&server, "gone", at("http://127.0.0.1:1".into())).await;
    assert_eq!((&gone["ok"], &gone["error"]["code"]), (&json!(false), &json!("NETWORK_ERROR")));
    let refused = define_and_test(&server, "refusing", at(format!("{}/status/401?", faults.base_url()))).await;
    assert_eq!(refused["error"]["code"], "AUTH_REQUIRED", "{refused}");
    server.post("tool-providers/nothing/test", json!({})).await.problem(404, "not-found");
    faults.shutdown().await;
}

async fn provider_test_lists_the_tools_of_an_mcp_server(server: Server) {
    with_peer(async |peer| {
        define_peer(&server, &peer, json!({})).await;
        let alive = test(&server, "peer").await;
        assert_eq!(alive["ok"], true, "{alive}");
        assert!(alive["toolCount"].as_u64().unwrap() > 0, "{alive}");
        // An HTTP server that answers but does not speak MCP is not a working MCP server.
        let base = format!("http://{}/healthz", peer.address);
        let body = json!({ "providerType": "MCP", "baseUrl": base, "egressAllow": ["127.0.0.0/8"] });
        let dead = define_and_test(&server, "dead", body).await;
        assert_eq!(dead["ok"], false, "{dead}");
    })
    .await;
}

async fn provider_test_asks_a_grpc_server_for_its_services(server: Server) {
    let system = Inventory::builder().start(LOOPBACK).await.unwrap();
    let silent = Inventory::builder().without_reflection().start(LOOPBACK).await.unwrap();
    let at = |base: String| json!({ "providerType": "GRPC", "baseUrl": base, "egressAllow": ["127.0.0.0/8"] });
    assert_eq!(define_and_test(&server, "stock", at(system.base_url())).await["ok"], true);
    let without = define_and_test(&server, "silent", at(silent.base_url())).await;
    assert_eq!((&without["ok"], &without["error"]["details"]["grpc_status"]), (&json!(false), &json!("UNIMPLEMENTED")));
    // With a descriptor set, the gRPC server needs no reflection.
    let described = base64::engine::general_purpose::STANDARD.encode(Inventory::descriptors().unwrap());
    server.patch("tool-providers/silent", json!({ "descriptorSet": described })).await.expect(200);
    assert_eq!(test(&server, "silent").await["ok"], true);
    assert_eq!(define_and_test(&server, "gone", at("http://127.0.0.1:1".into())).await["ok"], false);
    system.shutdown().await;
    silent.shutdown().await;
}

async fn connection_test_of_an_internal_provider_succeeds_without_a_base_url(server: Server) {
    let view = define_and_test(&server, "own", json!({ "providerType": "QUANTUM_INTERNAL" })).await;
    assert_eq!(view["ok"], true, "{view}");
}
