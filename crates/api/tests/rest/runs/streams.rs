//! Tests event streams of runs: live, replayed and resumed.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::sync::Notify;
use tokio_util::task::TaskTracker;
use toolwright_types::{Clock, SystemClock};

use super::{client_results, define_agent_with_approval, pay_call, return_results, str_field};
use crate::event_stream::SseEvent;
use crate::harness::{Server, merge, openai_model, with_model_mock};

crate::on_sqlite!(
    every_event_kind_is_streamed,
    event_stream_resumes_after_any_event_id,
    all_watchers_of_a_run_receive_the_same_events,
    event_stream_resumes_while_the_run_waits_for_approval,
    revoked_key_ends_its_event_streams,
    expired_key_ends_its_event_streams
);

/// Returns the kind and the content of the events. Adjacent text deltas are joined, because their number is not
/// deterministic.
fn merge_text(events: &[SseEvent]) -> Vec<(String, String)> {
    let mut merged: Vec<(String, String)> = Vec::new();
    for event in events {
        let content = event.data["content"].as_str().unwrap_or_default();
        match merged.last_mut() {
            Some((kind, text)) if kind == "TEXT_DELTA" && event.kind == "TEXT_DELTA" => text.push_str(content),
            _ => merged
                .push((event.kind.clone(), if event.kind == "THINKING" { String::new() } else { content.to_owned() })),
        }
    }
    merged.dedup();
    merged
}

async fn define_all_events_agent(server: &Server) {
    server.define_echo("look", json!({})).await;
    server.define_echo("pay", json!({ "requiresConfirmation": true })).await;
    server.define_echo("open", json!({ "isToolFullyExecutedOnServer": false })).await;
    let rules = json!([
        { "when": { "turn": 0 }, "reply": { "text": "Let me see what there is.", "thinking": "Hm.", "toolCalls": [{ "name": "look" }, pay_call(1), { "name": "open" }] } },
        { "reply": { "text": "That is all there is." } }
    ]);
    server.define_agent("a", rules, json!({ "toolRefs": ["look", "pay", "open"] })).await;
}

async fn every_event_kind_is_streamed(server: Server) {
    define_all_events_agent(&server).await;
    let mut stream = server.start_stream("a", "go").await;
    let mut events = Vec::new();
    let mut waits = 2;
    while waits > 0 {
        let event = stream.next().await.unwrap();
        waits -= usize::from(matches!(event.kind.as_str(), "APPROVAL_REQUIRED" | "CLIENT_ACTION"));
        events.push(event);
    }
    let run = str_field(&events[0].data, "runId").to_owned();
    let waiting = server.poll_until(&format!("runs/{run}"), |run| run["status"] == "AWAITING_APPROVAL").await;
    server.decide(&waiting, 0, json!({ "decision": "approve" })).await.expect(200);
    return_results(&server, &waiting, client_results(&waiting, &[json!({})])).await.expect(200);
    events.extend(stream.rest().await);
    for event in &events {
        assert_eq!(
            (str_field(&event.data, "type"), str_field(&event.data, "runId")),
            (event.kind.as_str(), run.as_str())
        );
        assert!(event.data["iteration"].is_u64(), "{event:?}");
        for field in ["content", "toolInvocation"] {
            assert!(event.data.get(field).is_some(), "{field} is missing: {event:?}");
        }
    }
    let times = |kind: &str| events.iter().filter(|event| event.kind == kind).count();
    for (kind, expected) in [
        ("TOOL_CALL_START", 3),
        ("TOOL_CALL_END", 3),
        ("APPROVAL_REQUIRED", 1),
        ("CLIENT_ACTION", 1),
        ("USAGE", 2),
        ("DONE", 1),
        ("ERROR", 0),
    ] {
        assert_eq!(times(kind), expected, "{kind} in {:?}", merge_text(&events));
    }
    assert!(times("THINKING") >= 2 && times("TEXT_DELTA") >= 2, "{:?}", merge_text(&events));
    let approval_event = events.iter().find(|event| event.kind == "APPROVAL_REQUIRED").unwrap();
    assert_eq!(approval_event.data["approval"], waiting["approvals"][0]);
    let client_event = events.iter().find(|event| event.kind == "CLIENT_ACTION").unwrap();
    assert_eq!(client_event.data["clientAction"], waiting["clientActions"][0]);
    let usage: u64 = events
        .iter()
        .filter(|event| event.kind == "USAGE")
        .map(|event| event.data["usage"]["inputTokens"].as_u64().unwrap())
        .sum();
    let response = server.get(&format!("runs/{run}")).await.expect(200);
    assert_eq!(response["usage"]["inputTokens"], usage);
    let done = events.last().unwrap();
    assert_eq!((&done.data["status"], &done.data["content"]), (&json!("COMPLETED"), &json!("That is all there is.")));
    // A failed run ends with an `ERROR` event.
    server.define_agent("b", json!([{ "error": { "kind": "auth", "message": "no" } }]), json!({})).await;
    let failed = server.stream("agents/b/execute/stream", json!({ "userMessage": "go" })).await;
    let last = failed.last().unwrap();
    assert_eq!((last.kind.as_str(), &last.data["reason"]), ("ERROR", &json!("model_auth")), "{failed:?}");
}

/// Runs the agent of [`define_all_events_agent`] to completion. Returns the run id and the events that were received
/// live.
async fn run_to_completion(server: &Server) -> (String, Vec<SseEvent>) {
    define_all_events_agent(server).await;
    let mut stream = server.start_stream("a", "go").await;
    let first = stream.next().await.unwrap();
    let run = str_field(&first.data, "runId").to_owned();
    let waiting = server.poll_until(&format!("runs/{run}"), |run| run["status"] == "AWAITING_APPROVAL").await;
    server.decide(&waiting, 0, json!({ "decision": "approve" })).await.expect(200);
    return_results(server, &waiting, client_results(&waiting, &[json!({})])).await.expect(200);
    let mut events = vec![first];
    events.extend(stream.rest().await);
    (run, events)
}

async fn event_stream_resumes_after_any_event_id(server: Server) {
    let (run, live) = run_to_completion(&server).await;
    let replayed = server.events(&run, None).await;
    let ids = |events: &[SseEvent]| events.iter().filter_map(|event| event.id).collect::<Vec<u64>>();
    assert_eq!(ids(&replayed), ids(&live), "live and replayed streams have the same ids");
    assert!(ids(&replayed).is_sorted_by(|a, b| a < b) && ids(&replayed).len() > 5, "{replayed:?}");
    assert!(replayed.last().unwrap().id.is_some(), "the last event has an id");
    for (at, event) in replayed.iter().enumerate() {
        let Some(id) = event.id else { continue };
        let rest = server.events(&run, Some(id)).await;
        assert_eq!(rest, replayed[at + 1..], "after {id}");
    }
    let last = ids(&replayed).pop().unwrap();
    assert_eq!(server.events(&run, Some(last)).await, []);
    assert_eq!(server.events(&run, Some(last + 100)).await, []);
    assert_eq!(server.events(&run, Some(0)).await, replayed);
    for invalid in ["x", "-1", "1.5", ""] {
        let request =
            server.request(reqwest::Method::GET, &format!("runs/{run}/events")).header("last-event-id", invalid);
        server.send(request).await.problem(400, "invalid-request");
    }
    // Only the last event of a journal entry has an id. The client must receive events without an id exactly once, too.
    let merged = |events: &[SseEvent]| merge_text(events);
    assert_eq!(merged(&live), merged(&replayed));
}

async fn all_watchers_of_a_run_receive_the_same_events(server: Server) {
    define_all_events_agent(&server).await;
    let waiting = server.run("a", "go").await;
    let run = str_field(&waiting, "runId");
    let mut watchers = Vec::new();
    for _ in 0..4 {
        watchers.push(server.open_stream(server.watch_request(run, None)).await);
    }
    server.decide(&waiting, 0, json!({ "decision": "approve" })).await.expect(200);
    // The last watcher connects later than the others.
    watchers.push(server.open_stream(server.watch_request(run, Some(1))).await);
    return_results(&server, &waiting, client_results(&waiting, &[json!({})])).await.expect(200);
    let late = watchers.pop().unwrap().rest().await;
    let mut streams = Vec::new();
    for watcher in watchers {
        streams.push(watcher.rest().await);
    }
    assert_eq!(streams[0].last().unwrap().kind, "DONE");
    let ids = |events: &[SseEvent]| events.iter().filter_map(|event| event.id).collect::<Vec<u64>>();
    for other in &streams[1..] {
        assert_eq!(merge_text(other), merge_text(&streams[0]));
        assert_eq!(ids(other), ids(&streams[0]));
    }
    assert_eq!(ids(&late), ids(&streams[0])[1..]);
}

async fn event_stream_resumes_while_the_run_waits_for_approval(server: Server) {
    define_agent_with_approval(&server, json!([pay_call(5)])).await;
    let mut stream = server.start_stream("a", "go").await;
    let approval_event = stream.wait_for("APPROVAL_REQUIRED").await;
    let run = str_field(&approval_event.data, "runId");
    // The client loses its connection while the run waits, and connects again.
    let seen = approval_event.id.unwrap();
    drop(stream);
    let mut stream = server.open_stream(server.watch_request(run, Some(seen))).await;
    let waiting = server.poll_until(&format!("runs/{run}"), |run| run["status"] == "AWAITING_APPROVAL").await;
    let decided = server.decide(&waiting, 0, json!({ "decision": "approve" }));
    let (answer, first) = tokio::join!(decided, stream.next());
    assert_eq!(answer.expect(200)["status"], "COMPLETED");
    assert_eq!(first.unwrap().kind, "TOOL_CALL_START", "events before the last event id are not repeated");
    assert_eq!(stream.wait_for("DONE").await.data["status"], "COMPLETED");
    assert!(stream.next().await.is_none(), "the stream ends with the run");
}

/// Starts the HTTP service of a model. It closes the connection during its first reply when `broken` is notified, and
/// completes its second reply.
async fn start_interrupted_model(broken: Arc<Notify>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/v1", listener.local_addr().unwrap());
    TaskTracker::new().spawn(async move {
        for (content, replayed) in [("Once upon", false), ("The end.", true)] {
            let (mut socket, _) = listener.accept().await.unwrap();
            let mut request = Vec::new();
            while !request.ends_with(b"}") {
                socket.read_buf(&mut request).await.unwrap();
            }
            let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";
            socket.write_all(head.as_bytes()).await.unwrap();
            let piece = |delta: Value, finish: Value| {
                let choice = json!({ "index": 0, "delta": delta, "finish_reason": finish });
                let line =
                    json!({ "id": "c", "object": "chat.completion.chunk", "model": "gpt-4o", "choices": [choice] });
                let line = format!("data: {line}\n\n");
                format!("{:x}\r\n{line}\r\n", line.len())
            };
            let text = piece(json!({ "role": "assistant", "content": content }), Value::Null);
            socket.write_all(text.as_bytes()).await.unwrap();
            if replayed {
                let end = format!("{}e\r\ndata: [DONE]\n\n\r\n0\r\n\r\n", piece(json!({}), json!("stop")));
                socket.write_all(end.as_bytes()).await.unwrap();
            }
            broken.notified().await;
        }
    });
    url
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn interrupted_model_reply_is_followed_by_a_text_reset_event() {
    with_model_mock(|server| async move {
        let broken = Arc::new(Notify::new());
        let llm =
            merge(openai_model("gpt-4o"), json!({ "baseUrl": start_interrupted_model(Arc::clone(&broken)).await }));
        server.post("agents", json!({ "refName": "a", "llmConfig": llm })).await.expect(201);
        let mut stream = server.start_stream("a", "go").await;
        assert_eq!(stream.wait_for("TEXT_DELTA").await.data["content"], "Once upon");
        broken.notify_one();
        let reset = stream.wait_for("TEXT_RESET").await;
        assert_eq!(reset.id, None, "a reset has no journal entry and no id");
        assert_eq!(stream.wait_for("TEXT_DELTA").await.data["content"], "The end.");
        let done = stream.wait_for("DONE").await;
        assert_eq!(done.data["content"], "The end.");
        // A later stream of the run does not contain the discarded text.
        let later = server.events(str_field(&done.data, "runId"), None).await;
        let texts: Vec<&Value> =
            later.iter().filter(|event| event.kind == "TEXT_DELTA").map(|event| &event.data["content"]).collect();
        assert_eq!(texts, ["The end."]);
        assert!(later.iter().all(|event| event.kind != "TEXT_RESET"));
        broken.notify_one();
    })
    .await;
}

async fn revoked_key_ends_its_event_streams(server: Server) {
    define_agent_with_approval(&server, json!([pay_call(1)])).await;
    let issued = server.post("keys", json!({ "principal": "ada" })).await.expect(201);
    let ada = server.with_key(str_field(&issued, "key"));
    let other = server.with_key(&server.issue_key(json!({ "principal": "ada" })).await);
    let mut started = ada.start_stream("a", "go").await;
    let run = str_field(&started.wait_for("APPROVAL_REQUIRED").await.data, "runId").to_owned();
    let events = |server: &Server| server.request(reqwest::Method::GET, &format!("runs/{run}/events"));
    let mut watched = ada.open_stream(events(&ada)).await;
    let mut kept = other.open_stream(events(&other)).await;
    watched.wait_for("APPROVAL_REQUIRED").await;
    kept.wait_for("APPROVAL_REQUIRED").await;

    server.delete(&format!("keys/{}", str_field(&issued, "id"))).await.expect(204);
    assert_eq!(started.rest().await, [], "the stream ends without an event");
    assert_eq!(watched.rest().await, []);
    ada.send(events(&ada)).await.problem(401, "unauthenticated");

    // The stream of another key of the same principal continues.
    let waiting = server.get(&format!("runs/{run}")).await.expect(200);
    server.decide(&waiting, 0, json!({ "decision": "approve" })).await.expect(200);
    kept.wait_for("DONE").await;
}

async fn expired_key_ends_its_event_streams(server: Server) {
    define_agent_with_approval(&server, json!([pay_call(1)])).await;
    // The key is valid long enough to start the run.
    let expires_at = SystemClock.now().saturating_add(Duration::from_secs(8));
    let ada = server.with_key(&server.issue_key(json!({ "principal": "ada", "expiresAt": expires_at })).await);
    let mut started = ada.start_stream("a", "go").await;
    started.wait_for("APPROVAL_REQUIRED").await;
    assert_eq!(started.rest().await, []);
    ada.get("runs").await.problem(401, "unauthenticated");
}
