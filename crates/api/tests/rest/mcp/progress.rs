//! How far a call is, and calls that are taken back.

use serde_json::{Value, json};
use toolwright_testkit::{Faults, LOOPBACK};

use super::{Client, Session, Stream, reply};
use crate::grpc::inventory;
use crate::harness::{Server, calls_then, with};
use crate::mcp_imports::{define_peer, import, with_peer};

crate::on_both_editions!(agents_are_called_like_tools_when_they_say_so);
crate::on_sqlite!(
    a_cancelled_request_ends_its_run,
    a_plain_call_that_takes_long_says_so,
    progress_of_another_server_is_passed_on,
    messages_of_a_stream_are_counted
);

async fn agents_are_called_like_tools_when_they_say_so(server: Server) {
    server.define_echo("t_echo", json!({})).await;
    let rules = calls_then(json!([{ "name": "t_echo", "arguments": { "n": 1 } }]), "it says 1");
    let more = json!({ "toolRefs": ["t_echo"], "description": "asks the echo" });
    server.define_agent("t_silent", rules.clone(), more.clone()).await;
    let mut offered = more;
    offered["availableAs"] = json!(["mcpTool"]);
    server.define_agent("t_agent", rules, offered).await;
    let client = Client::of(&server);
    assert_eq!(client.names().await, ["t_agent", "t_echo"]);

    let params = json!({ "name": "t_agent", "arguments": { "task": "ask it" }, "_meta": { "progressToken": "p" } });
    let answer = server.send(client.request("tools/call", params)).await;
    let told: Vec<String> = SseLines::of(&answer.text, "notifications/progress");
    assert!(told.iter().any(|message| message == "calling t_echo"), "{told:?}");
    let result = reply(answer)["result"].take();
    assert_eq!(result["content"][0]["text"], "it says 1", "{result}");
    assert_eq!(result["structuredContent"]["status"], "COMPLETED");
    let run = result["structuredContent"]["runId"].as_str().unwrap();
    assert_eq!(server.get(&format!("runs/{run}")).await.expect(200)["status"], "COMPLETED");

    let refused = client.call("t_agent", json!({ "job": "ask it" })).await;
    assert_eq!(refused["structuredContent"]["error"]["code"], "VALIDATION_ERROR", "{refused}");
}

/// What notifications of a stream say.
struct SseLines;

impl SseLines {
    fn of(text: &str, method: &str) -> Vec<String> {
        let data =
            text.lines().filter_map(|line| line.strip_prefix("data:")).map(str::trim).filter(|data| !data.is_empty());
        let messages = data.map(|data| serde_json::from_str::<Value>(data).unwrap());
        let told = messages.filter(|message| message["method"] == method);
        told.map(|message| message["params"]["message"].as_str().unwrap_or_default().to_owned()).collect()
    }
}

async fn a_cancelled_request_ends_its_run(server: Server) {
    let faults = Faults::builder().start(LOOPBACK).await.unwrap();
    server.define_call("t_slow", &faults.base_url(), "/slow/60000", json!({})).await;
    let rules = calls_then(json!([{ "name": "t_slow", "arguments": {} }]), "never");
    server.define_agent("t_agent", rules, json!({ "toolRefs": ["t_slow"], "availableAs": ["mcpTool"] })).await;
    let session = Session::begin(&server, json!({})).await;
    let call = json!({ "name": "t_agent", "arguments": { "task": "wait" }, "_meta": { "progressToken": 7 } });
    let mut stream = session.stream(7, "tools/call", call).await;
    stream.until(|message| message["params"]["message"] == "calling t_slow").await;
    session.tell("notifications/cancelled", json!({ "requestId": 7, "reason": "no longer needed" })).await;
    server.until("runs", |runs| runs["items"][0]["status"] == "CANCELLED").await;
}

async fn a_plain_call_that_takes_long_says_so(server: Server) {
    let faults = Faults::builder().start(LOOPBACK).await.unwrap();
    server.define_call("t_slow", &faults.base_url(), "/slow/600", json!({})).await;
    let client = Client::of(&server);
    let params = json!({ "name": "t_slow", "arguments": {}, "_meta": { "progressToken": "p" } });
    let answer = server.send(client.request("tools/call", params)).await;
    assert_eq!(answer.headers.get("content-type").unwrap(), "text/event-stream");
    let told: Vec<String> = SseLines::of(&answer.text, "notifications/progress");
    assert_eq!(told, ["t_slow is under way"]);
    assert_eq!(reply(answer)["result"]["isError"], false);

    // Whoever leaves meanwhile ends it.
    server.define_call("t_endless", &faults.base_url(), "/slow/60000", json!({})).await;
    let params = json!({ "name": "t_endless", "arguments": {}, "_meta": { "progressToken": 7 } });
    let mut stream = Stream::open(client.request("tools/call", params)).await;
    stream.notification("notifications/progress").await;
    drop(stream);
    let ended = |runs: &Value| runs["items"].as_array().unwrap().iter().any(|run| run["subject"] == "t_endless");
    let runs = server.until("runs", ended).await;
    assert_eq!(runs["items"][0]["status"], "ERROR", "{runs}");
}

async fn progress_of_another_server_is_passed_on(server: Server) {
    with_peer(|peer| async move {
        let faults = Faults::builder().start(LOOPBACK).await.unwrap();
        peer.define_call("t_slow", &faults.base_url(), "/slow/60000", json!({})).await;
        let rules = calls_then(json!([{ "name": "t_slow", "arguments": {} }]), "never");
        peer.define_agent("t_agent", rules, json!({ "toolRefs": ["t_slow"], "availableAs": ["mcpTool"] })).await;
        define_peer(&server, &peer, json!({})).await;
        import(&server, json!({ "providerRef": "peer", "prefix": "t_p_" })).await;
        let call = json!({ "name": "t_p_t_agent", "arguments": { "task": "wait" }, "_meta": { "progressToken": 7 } });
        let calls = |message: &Value| {
            let news = &message["params"];
            news["message"] == "calling t_slow" && news["progressToken"] == 7 && news["progress"].as_f64() > Some(1.0)
        };
        // What is done is counted by the peer, and whoever is not waited for any more is told so.
        let ended = |count: usize| {
            move |runs: &Value| {
                let runs = runs["items"].as_array().unwrap().iter();
                runs.filter(|run| run["status"] == "CANCELLED").count() == count
            }
        };

        let session = Session::begin(&server, json!({})).await;
        let mut stream = session.stream(7, "tools/call", call.clone()).await;
        stream.until(calls).await;
        session.tell("notifications/cancelled", json!({ "requestId": 7 })).await;
        peer.until("runs", ended(1)).await;

        // A tool that only reads is answered without a conversation.
        let tool = server.get("tools/t_p_t_agent").await.expect(200);
        let reads = with(tool, json!({ "hasSideEffects": false, "sideEffects": "reads" }));
        server.put("tools/t_p_t_agent", reads).await.expect(200);
        let mut stream = Stream::open(Client::of(&server).request("tools/call", call)).await;
        stream.until(calls).await;
        drop(stream);
        peer.until("runs", ended(2)).await;
    })
    .await;
}

async fn messages_of_a_stream_are_counted(server: Server) {
    let system = inventory(&server, &["ListItems"]).await;
    let session = Session::begin(&server, json!({})).await;
    let call = json!({ "name": "ListItems", "arguments": { "id": 3 }, "_meta": { "progressToken": "p" } });
    let mut stream = session.stream(1, "tools/call", call).await;
    let told = stream.until(|message| message["params"]["message"] == "3 messages came").await;
    assert_eq!(told["params"]["progress"].as_f64(), Some(3.0), "{told}");
    system.shutdown().await;
}
