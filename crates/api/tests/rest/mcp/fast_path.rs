//! Tests the fast path, which answers simple MCP calls without the MCP library. Its responses must equal those of the
//! library.

use serde_json::{Value, json};
use toolwright_testkit::{Faults, LOOPBACK};

use super::{LATEST_VERSION, OLDER_VERSION, Session, post, reply};
use crate::harness::{Response, Server, with_timeout};

crate::on_sqlite!(mcp_fast_path_and_mcp_library_return_the_same_responses, call_on_the_fast_path_can_be_cancelled);

/// Returns the status and the message of a response, without the timestamps of the envelope.
fn without_timestamps(answer: Response) -> (u16, Value) {
    let status = answer.status.as_u16();
    if answer.text.is_empty() || !answer.text.contains('{') {
        return (status, json!(answer.text));
    }
    let mut message = reply(answer);
    if let Some(envelope) = message.pointer_mut("/result/_meta/toolwright~1envelope").and_then(Value::as_object_mut) {
        envelope.retain(|field, _| !["t_start", "t_end"].contains(&field.as_str()));
    }
    (status, message)
}

/// Returns request bodies. Some of them can take the fast path. The other bodies are similar but must not take it.
fn request_bodies() -> Vec<Value> {
    let meta = json!({ "io.modelcontextprotocol/protocolVersion": LATEST_VERSION, "io.modelcontextprotocol/clientCapabilities": {} });
    let older_meta = json!({ "io.modelcontextprotocol/protocolVersion": OLDER_VERSION, "io.modelcontextprotocol/clientCapabilities": {} });
    let message =
        |id: Value, params: Value| json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params });
    let call = |name: &str, arguments: Value| json!({ "name": name, "arguments": arguments, "_meta": meta });
    let mut plain = call("t_echo", json!({ "n": 1 }));
    vec![
        message(json!(1), plain.clone()),
        message(json!("a"), plain.clone()),
        message(json!(1.5), plain.clone()),
        message(Value::Null, plain.clone()),
        message(json!(1), call("t_echo", json!({ "n": "one" }))),
        message(json!(1), call("t_echo", Value::Null)),
        message(json!(1), call("t_echo", json!([]))),
        message(json!(1), call("t_careful", json!({}))),
        message(json!(1), call("t_writes", json!({ "n": 1 }))),
        message(json!(1), call("t_hidden", json!({}))),
        message(json!(1), call("t_none", json!({}))),
        message(json!(1), json!({ "name": "t_echo" })),
        message(json!(1), json!({ "name": "t_echo", "_meta": meta })),
        message(json!(1), json!({ "name": "t_echo", "_meta": {} })),
        message(json!(1), json!({ "name": "t_echo", "_meta": null })),
        message(json!(1), json!({ "name": "t_echo", "_meta": older_meta })),
        message(
            json!(1),
            json!({ "name": "t_echo", "_meta": { "io.modelcontextprotocol/protocolVersion": LATEST_VERSION } }),
        ),
        message(json!(1), json!({ "name": "t_echo", "arguments": { "n": 1 }, "more": 1, "_meta": meta })),
        json!({ "jsonrpc": "1.0", "id": 1, "method": "tools/call", "params": plain }),
        json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": { "_meta": meta } }),
        json!({ "jsonrpc": "2.0", "method": "tools/call", "params": plain }),
        {
            plain["_meta"]["progressToken"] = json!("p");
            message(json!(1), plain)
        },
    ]
}

async fn mcp_fast_path_and_mcp_library_return_the_same_responses(server: Server) {
    let schema = json!({ "type": "object", "properties": { "n": { "type": "integer" } } });
    server.define_echo("t_echo", json!({ "inputJsonSchema": schema })).await;
    server.define_echo("t_careful", json!({ "requiresConfirmation": true })).await;
    server.define_echo("t_writes", json!({ "sideEffects": "writes" })).await;
    server.define_echo("t_hidden", json!({ "availableAs": ["tool"] })).await;
    let session = Session::initialize(&server, json!({})).await;
    let ada = server.member("ada").await;
    let bodies = request_bodies();
    let standard = [("mcp-protocol-version", LATEST_VERSION), ("mcp-method", "tools/call"), ("mcp-name", "t_echo")];
    let heads: Vec<Vec<(&str, &str)>> = vec![
        standard.to_vec(),
        standard[..2].to_vec(),
        standard[..1].to_vec(),
        vec![],
        vec![standard[0], standard[1], ("mcp-name", "t_careful")],
        vec![standard[0], standard[1], ("mcp-name", "t_writes")],
        vec![standard[0], ("mcp-method", "tools/list"), standard[2]],
        vec![standard[0], standard[1], standard[2], standard[2]],
        vec![("mcp-protocol-version", "2099-01-01"), standard[1], standard[2]],
        vec![("mcp-protocol-version", OLDER_VERSION), ("mcp-session-id", &session.id)],
        vec![("mcp-protocol-version", "2025-03-26"), ("mcp-session-id", &session.id)],
        vec![("mcp-protocol-version", OLDER_VERSION), ("mcp-session-id", "none")],
        vec![standard[0], standard[1], standard[2], ("mcp-session-id", &session.id)],
    ];
    let (mut compared, mut results) = (0, 0);
    for client in [&server, &ada] {
        for (head, body) in heads.iter().flat_map(|head| bodies.iter().map(move |body| (head, body))) {
            // The requests are sent one after the other, because requests with the same id may not overlap in a
            // session.
            let send = async |more: Option<(&str, &str)>| {
                let request = head
                    .iter()
                    .copied()
                    .chain(more)
                    .fold(post(client), |request, (name, value)| request.header(name, value));
                without_timestamps(client.send(request.json(body)).await)
            };
            let fast = send(None).await;
            // A request with an `origin` header does not take the fast path. Local origins are allowed.
            let library = send(Some(("origin", "http://localhost:3000"))).await;
            assert_eq!(fast, library, "{head:?} {body}");
            compared += 1;
            results += u32::from(fast.1.get("result").is_some());
        }
    }
    assert!(results > 20 && compared > 500, "{results} of {compared}");
}

async fn call_on_the_fast_path_can_be_cancelled(server: Server) {
    let faults = Faults::builder().start(LOOPBACK).await.unwrap();
    server.define_http_tool("t_slow", &faults.base_url(), "/slow/60000", json!({})).await;
    let session = Session::initialize(&server, json!({})).await;
    let cancel =
        |id: &str| json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": id } });
    // The client cancels the call with a single notification and then with a batch of notifications.
    for (before, cancellation) in (0..).zip([cancel("slow"), json!([cancel("other"), cancel("slow")])]) {
        let message = json!({ "jsonrpc": "2.0", "id": "slow", "method": "tools/call", "params": { "name": "t_slow", "arguments": {} } });
        let call = server.send(session.request(&message));
        let cancellation = async {
            while faults.hits("/slow/60000") == before {
                tokio::task::yield_now().await;
            }
            session.notify("notifications/cancelled", json!({ "requestId": "other" })).await;
            let request = post(&server).header("mcp-session-id", &session.id).json(&cancellation);
            assert_eq!(server.send(request).await.status, 202);
        };
        let (answer, ()) = Box::pin(with_timeout(async { tokio::join!(call, cancellation) })).await;
        assert_eq!(reply(answer)["result"]["structuredContent"]["error"]["details"]["reason"], "cancelled");
    }
}
