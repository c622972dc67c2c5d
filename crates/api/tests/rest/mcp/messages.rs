//! Messages, batches, sessions, and news of what has changed.

use serde_json::{Value, json};

use super::{Client, Session, Stream, post, reply};
use crate::harness::Server;

crate::on_sqlite!(
    a_session_is_its_beginners,
    older_clients_hear_of_changes,
    listeners_hear_of_changes_that_concern_them,
    cursors_that_make_no_sense_are_refused,
    what_is_no_message_is_told_as_json_rpc_says,
    batches_are_for_the_revision_that_has_them
);

async fn a_session_is_its_beginners(server: Server) {
    let session = Session::begin(&server, json!({})).await;
    let ping = json!({ "jsonrpc": "2.0", "id": 1, "method": "ping" });
    assert_eq!(server.send(session.request(&ping)).await.status, 200);
    let ada = server.member("ada").await;
    let stolen = Session { server: ada, id: session.id.clone() };
    assert_eq!(server.send(stolen.request(&ping)).await.status, 404);
    let invented = Session { server: server.clone(), id: "nobody-has-this".into() };
    assert_eq!(server.send(invented.request(&ping)).await.status, 404);
}

async fn older_clients_hear_of_changes(server: Server) {
    let session = Session::begin(&server, json!({})).await;
    let mut heard = session.hear().await;
    // What was shown before is known once the server has answered.
    session.stream(1, "tools/list", json!({})).await.until(|message| message["id"] == 1).await;
    server.define_echo("t_new", json!({})).await;
    heard.notification("notifications/tools/list_changed").await;
    server.post("prompt-fragments", json!({ "refName": "new", "content": "Hi" })).await.expect(201);
    heard.notification("notifications/prompts/list_changed").await;
}

async fn listeners_hear_of_changes_that_concern_them(server: Server) {
    let client = Client::of(&server);
    let wanted = json!({ "notifications": { "toolsListChanged": true } });
    let mut heard = Stream::open(client.request("subscriptions/listen", wanted)).await;
    heard.notification("notifications/subscriptions/acknowledged").await;
    // Of what is elsewhere or not offered nothing is heard, so the first news is of the last change.
    server.post("realms", json!({ "name": "other" })).await.expect(201);
    server.in_realm("other").define_echo("t_elsewhere", json!({})).await;
    server.define_echo("t_hidden", json!({ "availableAs": ["tool"] })).await;
    server.define_echo("t_new", json!({})).await;
    heard.notification("notifications/tools/list_changed").await;
    assert_eq!(client.names().await, ["t_new"]);
}

async fn cursors_that_make_no_sense_are_refused(server: Server) {
    let client = Client::of(&server);
    for (method, cursor) in [("tools/list", ""), ("prompts/list", "what?"), ("resources/list", "what?")] {
        let reply = client.reply(method, json!({ "cursor": cursor })).await;
        assert_eq!(reply["error"]["code"], -32602, "{method}: {reply}");
    }
}

async fn what_is_no_message_is_told_as_json_rpc_says(server: Server) {
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
    // Parameters that are wrong are told from methods that are not there, to old clients and new ones.
    let session = Session::begin(&server, json!({})).await;
    let client = Client::of(&server);
    for (method, params, code) in [
        ("tools/call", json!({ "name": "calculator", "arguments": [] }), -32602),
        ("tools/call", json!({ "arguments": {} }), -32602),
        ("resources/read", json!({}), -32602),
        ("tools/cull", json!({}), -32601),
    ] {
        let asked = json!({ "jsonrpc": "2.0", "id": 5, "method": method, "params": params });
        let old = reply(server.send(session.request(&asked)).await);
        assert_eq!((&old["id"], &old["error"]["code"]), (&json!(5), &json!(code)), "{old}");
        let new = client.reply(method, params).await;
        assert_eq!(new["error"]["code"], code, "{new}");
    }
}

async fn batches_are_for_the_revision_that_has_them(server: Server) {
    let session = Session::begin(&server, json!({})).await;
    let add = |id: u64| {
        let params = json!({ "name": "calculator", "arguments": { "expression": format!("{id}+1") } });
        json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params })
    };
    let told = json!({ "jsonrpc": "2.0", "method": "notifications/roots/list_changed" });
    let batch = json!([add(1), told, add(2), { "jsonrpc": "2.0", "id": 3 }]);
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
    assert_eq!(send(&json!([told])).await.status, 202, "nothing to answer");

    let too_many = Value::Array((0..51).map(add).collect());
    let newer = server.send(session.request(&batch)).await;
    let sessionless = server.send(post(&server).json(&batch)).await;
    let twice = send(&json!([add(4), add(4)])).await;
    for refused in [send(&too_many).await, newer, sessionless, twice] {
        assert_eq!(refused.status, 400, "{}", refused.text);
        assert_eq!(refused.json()["error"]["code"], -32600);
    }
}
