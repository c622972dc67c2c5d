//! Tests progress notifications and cancelled calls of the MCP server.

use serde_json::{Value, json};
use toolwright_testkit::{Faults, LOOPBACK};

use super::{Client, Session, Stream, reply};
use crate::grpc::start_inventory;
use crate::harness::{Server, calls_then, merge};
use crate::mcp_imports::{define_peer, import, with_peer};

crate::on_both_databases!(agent_offered_as_an_mcp_tool_can_be_called);
crate::on_sqlite!(
    cancelled_mcp_request_cancels_its_run,
    slow_call_on_the_fast_path_reports_progress,
    external_mcp_server_receives_cancellations_and_its_progress_is_forwarded,
    progress_counts_the_messages_of_a_grpc_stream
);

async fn agent_offered_as_an_mcp_tool_can_be_called(server: Server) {
    server.define_echo("t_echo", json!({})).await;
    let rules = calls_then(json!([{ "name": "t_echo", "arguments": { "n": 1 } }]), "it says 1");
    let more = json!({ "toolRefs": ["t_echo"], "description": "asks the echo" });
    server.define_agent("t_silent", rules.clone(), more.clone()).await;
    let mut offered = more;
    offered["availableAs"] = json!(["mcpTool"]);
    server.define_agent("t_agent", rules, offered).await;
    let client = Client::new(&server);
    assert_eq!(client.tool_names().await, ["t_agent", "t_echo"]);

    let params = json!({ "name": "t_agent", "arguments": { "task": "ask it" }, "_meta": { "progressToken": "p" } });
    let answer = server.send(client.request("tools/call", params)).await;
    let messages: Vec<String> = notification_messages(&answer.text, "notifications/progress");
    assert!(messages.iter().any(|message| message == "calling t_echo"), "{messages:?}");
    let result = reply(answer)["result"].take();
    assert_eq!(result["content"][0]["text"], "it says 1", "{result}");
    assert_eq!(result["structuredContent"]["status"], "COMPLETED");
    let run = result["structuredContent"]["runId"].as_str().unwrap();
    assert_eq!(server.get(&format!("runs/{run}")).await.expect(200)["status"], "COMPLETED");

    let refused = client.call("t_agent", json!({ "job": "ask it" })).await;
    assert_eq!(refused["structuredContent"]["error"]["code"], "VALIDATION_ERROR", "{refused}");
}

/// Returns the parameter `message` of every notification with the method `method` in an event stream.
fn notification_messages(text: &str, method: &str) -> Vec<String> {
    let data =
        text.lines().filter_map(|line| line.strip_prefix("data:")).map(str::trim).filter(|data| !data.is_empty());
    let messages = data.map(|data| serde_json::from_str::<Value>(data).unwrap());
    let notifications = messages.filter(|message| message["method"] == method);
    notifications.map(|message| message["params"]["message"].as_str().unwrap_or_default().to_owned()).collect()
}

async fn cancelled_mcp_request_cancels_its_run(server: Server) {
    let faults = Faults::builder().start(LOOPBACK).await.unwrap();
    server.define_http_tool("t_slow", &faults.base_url(), "/slow/60000", json!({})).await;
    let rules = calls_then(json!([{ "name": "t_slow", "arguments": {} }]), "never");
    server.define_agent("t_agent", rules, json!({ "toolRefs": ["t_slow"], "availableAs": ["mcpTool"] })).await;
    let session = Session::initialize(&server, json!({})).await;
    let call = json!({ "name": "t_agent", "arguments": { "task": "wait" }, "_meta": { "progressToken": 7 } });
    let mut stream = session.stream(7, "tools/call", call).await;
    stream.wait_for(|message| message["params"]["message"] == "calling t_slow").await;
    session.notify("notifications/cancelled", json!({ "requestId": 7, "reason": "no longer needed" })).await;
    server.poll_until("runs", |runs| runs["items"][0]["status"] == "CANCELLED").await;
}

async fn slow_call_on_the_fast_path_reports_progress(server: Server) {
    let faults = Faults::builder().start(LOOPBACK).await.unwrap();
    server.define_http_tool("t_slow", &faults.base_url(), "/slow/600", json!({})).await;
    let client = Client::new(&server);
    let params = json!({ "name": "t_slow", "arguments": {}, "_meta": { "progressToken": "p" } });
    let answer = server.send(client.request("tools/call", params)).await;
    assert_eq!(answer.headers.get("content-type").unwrap(), "text/event-stream");
    let messages: Vec<String> = notification_messages(&answer.text, "notifications/progress");
    assert_eq!(messages, ["t_slow is running"]);
    assert_eq!(reply(answer)["result"]["isError"], false);

    // If the client disconnects, the call is cancelled.
    server.define_http_tool("t_endless", &faults.base_url(), "/slow/60000", json!({})).await;
    let params = json!({ "name": "t_endless", "arguments": {}, "_meta": { "progressToken": 7 } });
    let mut stream = Stream::open(client.request("tools/call", params)).await;
    stream.notification("notifications/progress").await;
    drop(stream);
    let ended = |runs: &Value| runs["items"].as_array().unwrap().iter().any(|run| run["subject"] == "t_endless");
    let runs = server.poll_until("runs", ended).await;
    assert_eq!(runs["items"][0]["status"], "ERROR", "{runs}");
}

async fn external_mcp_server_receives_cancellations_and_its_progress_is_forwarded(server: Server) {
    with_peer(|peer| async move {
        let faults = Faults::builder().start(LOOPBACK).await.unwrap();
        peer.define_http_tool("t_slow", &faults.base_url(), "/slow/60000", json!({})).await;
        let rules = calls_then(json!([{ "name": "t_slow", "arguments": {} }]), "never");
        peer.define_agent("t_agent", rules, json!({ "toolRefs": ["t_slow"], "availableAs": ["mcpTool"] })).await;
        define_peer(&server, &peer, json!({})).await;
        import(&server, json!({ "providerRef": "peer", "prefix": "t_p_" })).await;
        let call = json!({ "name": "t_p_t_agent", "arguments": { "task": "wait" }, "_meta": { "progressToken": 7 } });
        let calls = |message: &Value| {
            let news = &message["params"];
            news["message"] == "calling t_slow" && news["progressToken"] == 7 && news["progress"].as_f64() > Some(1.0)
        };
        // The external server must cancel its run when a request is cancelled or the client disconnects.
        let ended = |count: usize| {
            move |runs: &Value| {
                let runs = runs["items"].as_array().unwrap().iter();
                runs.filter(|run| run["status"] == "CANCELLED").count() == count
            }
        };

        let session = Session::initialize(&server, json!({})).await;
        let mut stream = session.stream(7, "tools/call", call.clone()).await;
        stream.wait_for(calls).await;
        session.notify("notifications/cancelled", json!({ "requestId": 7 })).await;
        peer.poll_until("runs", ended(1)).await;

        // After this change the tool only reads, so the call takes the fast path.
        let tool = server.get("tools/t_p_t_agent").await.expect(200);
        let reads = merge(tool, json!({ "hasSideEffects": false, "sideEffects": "reads" }));
        server.put("tools/t_p_t_agent", reads).await.expect(200);
        let mut stream = Stream::open(Client::new(&server).request("tools/call", call)).await;
        stream.wait_for(calls).await;
        drop(stream);
        peer.poll_until("runs", ended(2)).await;
    })
    .await;
}

async fn progress_counts_the_messages_of_a_grpc_stream(server: Server) {
    let system = start_inventory(&server, &["ListItems"]).await;
    let session = Session::initialize(&server, json!({})).await;
    let call = json!({ "name": "ListItems", "arguments": { "id": 3 }, "_meta": { "progressToken": "p" } });
    let mut stream = session.stream(1, "tools/call", call).await;
    let progress = stream.wait_for(|message| message["params"]["message"] == "3 messages received").await;
    assert_eq!(progress["params"]["progress"].as_f64(), Some(3.0), "{progress}");
    system.shutdown().await;
}
