//! Tests JSON-RPC messages, batches, sessions and change notifications of the MCP server.

use serde_json::{Value, json};

use super::{Client, Session, Stream, post, reply};
use crate::harness::Server;

crate::on_sqlite!(
    mcp_session_is_usable_only_by_its_creator,
    client_of_an_older_protocol_revision_is_notified_of_changed_lists,
    subscriber_is_notified_only_of_visible_changes,
    mcp_list_with_an_invalid_cursor_is_rejected,
    malformed_mcp_messages_are_answered_with_json_rpc_errors,
    json_rpc_batches_are_accepted_only_in_revision_2025_03_26
);

async fn mcp_session_is_usable_only_by_its_creator(server: Server) {
    let session = Session::initialize(&server, json!({})).await;
    let ping = json!({ "jsonrpc": "2.0", "id": 1, "method": "ping" });
    assert_eq!(server.send(session.request(&ping)).await.status, 200);
    let ada = server.member("ada").await;
    let stolen = Session { server: ada, id: session.id.clone() };
    assert_eq!(server.send(stolen.request(&ping)).await.status, 404);
    let invented = Session { server: server.clone(), id: "nobody-has-this".into() };
    assert_eq!(server.send(invented.request(&ping)).await.status, 404);
}

async fn client_of_an_older_protocol_revision_is_notified_of_changed_lists(server: Server) {
    let session = Session::initialize(&server, json!({})).await;
    let mut notifications = session.listen().await;
    // The server compares its lists with those that it read when the session began.
    session.stream(1, "tools/list", json!({})).await.wait_for(|message| message["id"] == 1).await;
    server.define_echo("t_new", json!({})).await;
    notifications.notification("notifications/tools/list_changed").await;
    server.post("prompt-fragments", json!({ "refName": "new", "content": "Hi" })).await.expect(201);
    notifications.notification("notifications/prompts/list_changed").await;
}

async fn subscriber_is_notified_only_of_visible_changes(server: Server) {
    let client = Client::new(&server);
    let wanted = json!({ "notifications": { "toolsListChanged": true } });
    let mut notifications = Stream::open(client.request("subscriptions/listen", wanted)).await;
    notifications.notification("notifications/subscriptions/acknowledged").await;
    // Changes in other realms and changes of hidden tools cause no notification. The first notification is
    // therefore about `t_new`.
    server.post("realms", json!({ "name": "other" })).await.expect(201);
    server.in_realm("other").define_echo("t_elsewhere", json!({})).await;
    server.define_echo("t_hidden", json!({ "availableAs": ["tool"] })).await;
    server.define_echo("t_new", json!({})).await;
    notifications.notification("notifications/tools/list_changed").await;
    assert_eq!(client.tool_names().await, ["t_new"]);
}

async fn mcp_list_with_an_invalid_cursor_is_rejected(server: Server) {
    let client = Client::new(&server);
    for (method, cursor) in [("tools/list", ""), ("prompts/list", "what?"), ("resources/list", "what?")] {
        let reply = client.reply(method, json!({ "cursor": cursor })).await;
        assert_eq!(reply["error"]["code"], -32602, "{method}: {reply}");
    }
}

async fn malformed_mcp_messages_are_answered_with_json_rpc_errors(server: Server) {
    let send = async |body: &str| {
        let request = post(&server).header("content-type", "application/json").body(body.to_owned());
        let answer = server.send(request).await;
        assert_eq!(answer.headers.get("content-type").unwrap(), "application/json", "{}", answer.text);
        (answer.status, answer.json())
    };
    for (body, code) in [
        ("{\"jsonrpc\":", -32700),
        ("[1", -32700),
        ("{\"id\":3,\"method\":\"ping\"}", -32600),
        ("[]", -32600),
        ("{\"jsonrpc\":\"2.0\",\"id\":3,\"method\":\"initialize\",\"params\":{}}", -32602),
    ] {
        let (status, answer) = send(body).await;
        assert_eq!((status.as_u16(), &answer["error"]["code"]), (400, &json!(code)), "{body}: {answer}");
    }
    // Invalid parameters and unknown methods have different error codes. The codes are the same for older and current
    // clients.
    let session = Session::initialize(&server, json!({})).await;
    let client = Client::new(&server);
    for (method, params, code) in [
        ("tools/call", json!({ "name": "calculator", "arguments": [] }), -32602),
        ("tools/call", json!({ "arguments": {} }), -32602),
        ("resources/read", json!({}), -32602),
        ("tools/cull", json!({}), -32601),
    ] {
        let message = json!({ "jsonrpc": "2.0", "id": 5, "method": method, "params": params });
        let old = reply(server.send(session.request(&message)).await);
        assert_eq!((&old["id"], &old["error"]["code"]), (&json!(5), &json!(code)), "{old}");
        let new = client.reply(method, params).await;
        assert_eq!(new["error"]["code"], code, "{new}");
    }
}

async fn json_rpc_batches_are_accepted_only_in_revision_2025_03_26(server: Server) {
    let session = Session::initialize(&server, json!({})).await;
    let add = |id: u64| {
        let params = json!({ "name": "calculator", "arguments": { "expression": format!("{id}+1") } });
        json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params })
    };
    let notification = json!({ "jsonrpc": "2.0", "method": "notifications/roots/list_changed" });
    let batch = json!([add(1), notification, add(2), { "jsonrpc": "2.0", "id": 3 }]);
    let send = async |batch: &Value| {
        let request = post(&server).header("mcp-session-id", &session.id).json(batch);
        server.send(request).await
    };
    let answer = send(&batch).await;
    assert_eq!(answer.status, 200, "{}", answer.text);
    let messages = answer.text.lines().filter_map(|line| line.strip_prefix("data:")).map(str::trim);
    let mut messages: Vec<Value> =
        messages.filter(|data| !data.is_empty()).map(|data| serde_json::from_str(data).unwrap()).collect();
    messages.sort_by_key(|message| message["id"].as_u64());
    let ids: Vec<&Value> = messages.iter().map(|message| &message["id"]).collect();
    assert_eq!(ids, [1, 2, 3], "{}", answer.text);
    assert!(messages[0]["result"]["content"][0]["text"].as_str().unwrap().contains('2'), "{}", messages[0]);
    assert_eq!(messages[2]["error"]["code"], -32600);
    assert_eq!(send(&json!([notification])).await.status, 202, "a batch of notifications has no response body");

    let too_many = Value::Array((0..51).map(add).collect());
    let newer = server.send(session.request(&batch)).await;
    let sessionless = server.send(post(&server).json(&batch)).await;
    let twice = send(&json!([add(4), add(4)])).await;
    for refused in [send(&too_many).await, newer, sessionless, twice] {
        assert_eq!(refused.status, 400, "{}", refused.text);
        assert_eq!(refused.json()["error"]["code"], -32600);
    }
}
