//! Tests the limits and the end of MCP sessions.

use reqwest::Method;
use serde_json::{Value, json};

use super::{OLDER_VERSION, Session, post};
use crate::harness::{MAX_MCP_SESSIONS, Response, Server, with_timeout};

crate::on_sqlite!(
    sessions_of_one_principal_are_limited_and_others_can_still_open_sessions,
    revoked_key_ends_its_notification_stream
);

async fn initialize(server: &Server) -> Response {
    let params =
        json!({ "protocolVersion": OLDER_VERSION, "capabilities": {}, "clientInfo": { "name": "t", "version": "1" } });
    let message = json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params });
    server.send(post(server).json(&message)).await
}

async fn sessions_of_one_principal_are_limited_and_others_can_still_open_sessions(server: Server) {
    let (ada, bob) = (server.member("ada").await, server.member("bob").await);
    let mut sessions = Vec::new();
    for _ in 0..MAX_MCP_SESSIONS {
        sessions.push(Session::initialize(&ada, json!({})).await);
    }
    let refused = initialize(&ada).await;
    assert_eq!(refused.status, 429, "{}", refused.text);
    let expected = ["8 open MCP sessions", "mcp.max_sessions_per_principal", "DELETE"];
    assert!(expected.iter().all(|part| refused.text.contains(part)), "{}", refused.text);
    Session::initialize(&bob, json!({})).await;

    // A session that ends makes room for another one.
    let ended = sessions.pop().unwrap();
    let delete = ada.request(Method::DELETE, "/mcp").header("mcp-session-id", &ended.id);
    assert_eq!(ada.send(delete.header("mcp-protocol-version", OLDER_VERSION)).await.status, 204);
    Session::initialize(&ada, json!({})).await;
    assert_eq!(initialize(&ada).await.status, 429);
}

async fn revoked_key_ends_its_notification_stream(server: Server) {
    let issued: Value = server.post("keys", json!({ "principal": "ada" })).await.expect(201);
    let ada = server.with_key(issued["key"].as_str().unwrap());
    let session = Session::initialize(&ada, json!({})).await;
    let mut stream = session.listen().await;
    server.delete(&format!("keys/{}", issued["id"].as_str().unwrap())).await.expect(204);
    with_timeout(async { while stream.response.chunk().await.unwrap().is_some() {} }).await;
}
