//! Calls that are answered where they arrive are answered as all others are.

use serde_json::{Value, json};
use toolwright_testkit::{Faults, LOOPBACK};

use super::{BEFORE, NEWEST, Session, post, reply};
use crate::harness::{Answer, Server, soon};

crate::on_sqlite!(plain_calls_are_answered_as_all_others_are, a_plain_call_of_a_session_can_be_taken_back);

/// An answer without what is different each time.
fn timeless(answer: Answer) -> (u16, Value) {
    let status = answer.status.as_u16();
    if answer.text.is_empty() || !answer.text.contains('{') {
        return (status, json!(answer.text));
    }
    let mut said = reply(answer);
    if let Some(receipt) = said.pointer_mut("/result/_meta/toolwright~1envelope").and_then(Value::as_object_mut) {
        receipt.retain(|field, _| !["t_start", "t_end"].contains(&field.as_str()));
    }
    (status, said)
}

async fn plain_calls_are_answered_as_all_others_are(server: Server) {
    let schema = json!({ "type": "object", "properties": { "n": { "type": "integer" } } });
    server.define_echo("t_echo", json!({ "inputJsonSchema": schema })).await;
    server.define_echo("t_careful", json!({ "requiresConfirmation": true })).await;
    server.define_echo("t_writes", json!({ "sideEffects": "writes" })).await;
    server.define_echo("t_hidden", json!({ "availableAs": ["tool"] })).await;
    let meta =
        json!({ "io.modelcontextprotocol/protocolVersion": NEWEST, "io.modelcontextprotocol/clientCapabilities": {} });
    let older_meta =
        json!({ "io.modelcontextprotocol/protocolVersion": BEFORE, "io.modelcontextprotocol/clientCapabilities": {} });
    let session = Session::begin(&server, json!({})).await;
    let ada = server.member("ada").await;
    let message =
        |id: Value, params: Value| json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params });
    let call = |name: &str, arguments: Value| json!({ "name": name, "arguments": arguments, "_meta": meta });
    let mut plain = call("t_echo", json!({ "n": 1 }));
    let bodies = [
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
        message(json!(1), json!({ "name": "t_echo", "_meta": { "io.modelcontextprotocol/protocolVersion": NEWEST } })),
        message(json!(1), json!({ "name": "t_echo", "arguments": { "n": 1 }, "more": 1, "_meta": meta })),
        json!({ "jsonrpc": "1.0", "id": 1, "method": "tools/call", "params": plain }),
        json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": { "_meta": meta } }),
        json!({ "jsonrpc": "2.0", "method": "tools/call", "params": plain }),
        {
            plain["_meta"]["progressToken"] = json!("p");
            message(json!(1), plain)
        },
    ];
    let standard = [("mcp-protocol-version", NEWEST), ("mcp-method", "tools/call"), ("mcp-name", "t_echo")];
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
        vec![("mcp-protocol-version", BEFORE), ("mcp-session-id", &session.id)],
        vec![("mcp-protocol-version", "2025-03-26"), ("mcp-session-id", &session.id)],
        vec![("mcp-protocol-version", BEFORE), ("mcp-session-id", "none")],
        vec![standard[0], standard[1], standard[2], ("mcp-session-id", &session.id)],
    ];
    let (mut compared, mut results) = (0, 0);
    for who in [&server, &ada] {
        for (head, body) in heads.iter().flat_map(|head| bodies.iter().map(move |body| (head, body))) {
            // Two that were sent at once in a session could not be told apart.
            let send = async |more: Option<(&str, &str)>| {
                let request = head
                    .iter()
                    .copied()
                    .chain(more)
                    .fold(post(who), |request, (name, value)| request.header(name, value));
                timeless(who.send(request.json(body)).await)
            };
            let as_it_is = send(None).await;
            // A page of this machine may ask too, and nothing that a page asks is plain.
            let through_the_library = send(Some(("origin", "http://localhost:3000"))).await;
            assert_eq!(as_it_is, through_the_library, "{head:?} {body}");
            compared += 1;
            results += u32::from(as_it_is.1.get("result").is_some());
        }
    }
    assert!(results > 20 && compared > 500, "{results} of {compared}");
}

async fn a_plain_call_of_a_session_can_be_taken_back(server: Server) {
    let faults = Faults::builder().start(LOOPBACK).await.unwrap();
    server.define_call("t_slow", &faults.base_url(), "/slow/60000", json!({})).await;
    let session = Session::begin(&server, json!({})).await;
    let take_back =
        |id: &str| json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": id } });
    // By itself, and among others.
    for (before, taken_back) in (0..).zip([take_back("slow"), json!([take_back("other"), take_back("slow")])]) {
        let asked = json!({ "jsonrpc": "2.0", "id": "slow", "method": "tools/call", "params": { "name": "t_slow", "arguments": {} } });
        let call = server.send(session.request(&asked));
        let taken_back = async {
            while faults.hits("/slow/60000") == before {
                tokio::task::yield_now().await;
            }
            session.tell("notifications/cancelled", json!({ "requestId": "other" })).await;
            let request = post(&server).header("mcp-session-id", &session.id).json(&taken_back);
            assert_eq!(server.send(request).await.status, 202);
        };
        let (answer, ()) = soon(async { tokio::join!(call, taken_back) }).await;
        assert_eq!(reply(answer)["result"]["structuredContent"]["error"]["details"]["reason"], "cancelled");
    }
}
