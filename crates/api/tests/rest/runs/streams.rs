//! Runs as streams of events, from the beginning or from anywhere.

use std::sync::Arc;

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::sync::Notify;
use tokio_util::task::TaskTracker;

use super::{define_asking, give, pay, results, text};
use crate::harness::{Server, SseEvent, openai, with, with_mock};

crate::on_sqlite!(
    every_kind_of_event_is_streamed,
    a_stream_goes_on_from_any_event,
    watchers_see_the_same,
    a_stream_goes_on_across_an_approval
);

/// What a stream says, with pieces of text put together: how text is cut is a matter of chance.
fn story(events: &[SseEvent]) -> Vec<(String, String)> {
    let mut told: Vec<(String, String)> = Vec::new();
    for event in events {
        let content = event.data["content"].as_str().unwrap_or_default();
        match told.last_mut() {
            Some((kind, text)) if kind == "TEXT_DELTA" && event.kind == "TEXT_DELTA" => text.push_str(content),
            _ => told
                .push((event.kind.clone(), if event.kind == "THINKING" { String::new() } else { content.to_owned() })),
        }
    }
    told.dedup();
    told
}

async fn define_storyteller(server: &Server) {
    server.define_echo("look", json!({})).await;
    server.define_echo("pay", json!({ "requiresConfirmation": true })).await;
    server.define_echo("open", json!({ "isToolFullyExecutedOnServer": false })).await;
    let rules = json!([
        { "when": { "turn": 0 }, "reply": { "text": "Let me see what there is.", "thinking": "Hm.", "toolCalls": [{ "name": "look" }, pay(1), { "name": "open" }] } },
        { "reply": { "text": "That is all there is." } }
    ]);
    server.define_agent("a", rules, json!({ "toolRefs": ["look", "pay", "open"] })).await;
}

async fn every_kind_of_event_is_streamed(server: Server) {
    define_storyteller(&server).await;
    let mut stream = server.start("a", "go").await;
    let mut events = Vec::new();
    let mut waits = 2;
    while waits > 0 {
        let event = stream.next().await.unwrap();
        waits -= usize::from(matches!(event.kind.as_str(), "APPROVAL_REQUIRED" | "CLIENT_ACTION"));
        events.push(event);
    }
    let run = text(&events[0].data, "runId").to_owned();
    let waiting = server.until(&format!("runs/{run}"), |run| run["status"] == "AWAITING_APPROVAL").await;
    server.decide(&waiting, 0, json!({ "decision": "approve" })).await.expect(200);
    give(&server, &waiting, results(&waiting, &[json!({})])).await.expect(200);
    events.extend(stream.rest().await);
    for event in &events {
        assert_eq!((text(&event.data, "type"), text(&event.data, "runId")), (event.kind.as_str(), run.as_str()));
        assert!(event.data["iteration"].is_u64(), "{event:?}");
        for field in ["content", "toolInvocation"] {
            assert!(event.data.get(field).is_some(), "{field} is always there: {event:?}");
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
        assert_eq!(times(kind), expected, "{kind} in {:?}", story(&events));
    }
    assert!(times("THINKING") >= 2 && times("TEXT_DELTA") >= 2, "{:?}", story(&events));
    let asked = events.iter().find(|event| event.kind == "APPROVAL_REQUIRED").unwrap();
    assert_eq!(asked.data["approval"], waiting["approvals"][0]);
    let handed = events.iter().find(|event| event.kind == "CLIENT_ACTION").unwrap();
    assert_eq!(handed.data["clientAction"], waiting["clientActions"][0]);
    let usage: u64 = events
        .iter()
        .filter(|event| event.kind == "USAGE")
        .map(|event| event.data["usage"]["inputTokens"].as_u64().unwrap())
        .sum();
    let response = server.get(&format!("runs/{run}")).await.expect(200);
    assert_eq!(response["usage"]["inputTokens"], usage);
    let done = events.last().unwrap();
    assert_eq!((&done.data["status"], &done.data["content"]), (&json!("COMPLETED"), &json!("That is all there is.")));
    // A run that fails says so instead.
    server.define_agent("b", json!([{ "error": { "kind": "auth", "message": "no" } }]), json!({})).await;
    let failed = server.stream("agents/b/execute/stream", json!({ "userMessage": "go" })).await;
    let last = failed.last().unwrap();
    assert_eq!((last.kind.as_str(), &last.data["reason"]), ("ERROR", &json!("model_auth")), "{failed:?}");
}

/// A run with all that a run can have, to its end.
async fn told(server: &Server) -> (String, Vec<SseEvent>) {
    define_storyteller(server).await;
    let mut stream = server.start("a", "go").await;
    let first = stream.next().await.unwrap();
    let run = text(&first.data, "runId").to_owned();
    let waiting = server.until(&format!("runs/{run}"), |run| run["status"] == "AWAITING_APPROVAL").await;
    server.decide(&waiting, 0, json!({ "decision": "approve" })).await.expect(200);
    give(server, &waiting, results(&waiting, &[json!({})])).await.expect(200);
    let mut events = vec![first];
    events.extend(stream.rest().await);
    (run, events)
}

async fn a_stream_goes_on_from_any_event(server: Server) {
    let (run, live) = told(&server).await;
    let whole = server.events(&run, None).await;
    let ids = |events: &[SseEvent]| events.iter().filter_map(|event| event.id).collect::<Vec<u64>>();
    assert_eq!(ids(&whole), ids(&live), "the story has the same places, told live or later");
    assert!(ids(&whole).is_sorted_by(|a, b| a < b) && ids(&whole).len() > 5, "{whole:?}");
    assert!(whole.last().unwrap().id.is_some(), "the end can be come back to");
    for (at, event) in whole.iter().enumerate() {
        let Some(id) = event.id else { continue };
        let rest = server.events(&run, Some(id)).await;
        assert_eq!(rest, whole[at + 1..], "after {id}");
    }
    let last = ids(&whole).pop().unwrap();
    assert_eq!(server.events(&run, Some(last)).await, []);
    assert_eq!(server.events(&run, Some(last + 100)).await, []);
    assert_eq!(server.events(&run, Some(0)).await, whole);
    for wrong in ["x", "-1", "1.5", ""] {
        let request =
            server.request(reqwest::Method::GET, &format!("runs/{run}/events")).header("last-event-id", wrong);
        server.send(request).await.problem(400, "invalid-request");
    }
    // The id stands on the last event of what one entry led to: nothing between two ids may stand twice or be lost.
    let story_of = |events: &[SseEvent]| story(events);
    assert_eq!(story_of(&live), story_of(&whole));
}

async fn watchers_see_the_same(server: Server) {
    define_storyteller(&server).await;
    let waiting = server.run("a", "go").await;
    let run = text(&waiting, "runId");
    let mut watchers = Vec::new();
    for _ in 0..4 {
        watchers.push(server.live(server.watching(run, None)).await);
    }
    server.decide(&waiting, 0, json!({ "decision": "approve" })).await.expect(200);
    // One who comes late, in the middle.
    watchers.push(server.live(server.watching(run, Some(1))).await);
    give(&server, &waiting, results(&waiting, &[json!({})])).await.expect(200);
    let late = watchers.pop().unwrap().rest().await;
    let mut stories = Vec::new();
    for watcher in watchers {
        stories.push(watcher.rest().await);
    }
    assert_eq!(stories[0].last().unwrap().kind, "DONE");
    let ids = |events: &[SseEvent]| events.iter().filter_map(|event| event.id).collect::<Vec<u64>>();
    for other in &stories[1..] {
        assert_eq!(story(other), story(&stories[0]));
        assert_eq!(ids(other), ids(&stories[0]));
    }
    assert_eq!(ids(&late), ids(&stories[0])[1..]);
}

async fn a_stream_goes_on_across_an_approval(server: Server) {
    define_asking(&server, json!([pay(5)])).await;
    let mut stream = server.start("a", "go").await;
    let asked = stream.until("APPROVAL_REQUIRED").await;
    let run = text(&asked.data, "runId");
    // Come back after having lost the connection while it waited.
    let seen = asked.id.unwrap();
    drop(stream);
    let mut stream = server.live(server.watching(run, Some(seen))).await;
    let waiting = server.until(&format!("runs/{run}"), |run| run["status"] == "AWAITING_APPROVAL").await;
    let decided = server.decide(&waiting, 0, json!({ "decision": "approve" }));
    let (answer, first) = tokio::join!(decided, stream.next());
    assert_eq!(answer.expect(200)["status"], "COMPLETED");
    assert_eq!(first.unwrap().kind, "TOOL_CALL_START", "what was seen is not told again");
    assert_eq!(stream.until("DONE").await.data["status"], "COMPLETED");
    assert!(stream.next().await.is_none(), "the stream ends with the run");
}

/// A model that breaks off in the middle of its first answer when it is told to, and gives the second whole.
async fn breaking_model(broken: Arc<Notify>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/v1", listener.local_addr().unwrap());
    TaskTracker::new().spawn(async move {
        for (said, whole) in [("Once upon", false), ("The end.", true)] {
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
            let text = piece(json!({ "role": "assistant", "content": said }), Value::Null);
            socket.write_all(text.as_bytes()).await.unwrap();
            if whole {
                let end = format!("{}e\r\ndata: [DONE]\n\n\r\n0\r\n\r\n", piece(json!({}), json!("stop")));
                socket.write_all(end.as_bytes()).await.unwrap();
            }
            broken.notified().await;
        }
    });
    url
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn text_of_a_model_that_breaks_off_is_taken_back() {
    with_mock(|server| async move {
        let broken = Arc::new(Notify::new());
        let llm = with(openai("gpt-4o"), json!({ "baseUrl": breaking_model(Arc::clone(&broken)).await }));
        server.post("agents", json!({ "refName": "a", "llmConfig": llm })).await.expect(201);
        let mut stream = server.start("a", "go").await;
        assert_eq!(stream.until("TEXT_DELTA").await.data["content"], "Once upon");
        broken.notify_one();
        let reset = stream.until("TEXT_RESET").await;
        assert_eq!(reset.id, None, "no entry, no place to come back to");
        assert_eq!(stream.until("TEXT_DELTA").await.data["content"], "The end.");
        let done = stream.until("DONE").await;
        assert_eq!(done.data["content"], "The end.");
        // What was taken back is in no story that is told later.
        let later = server.events(text(&done.data, "runId"), None).await;
        let texts: Vec<&Value> =
            later.iter().filter(|event| event.kind == "TEXT_DELTA").map(|event| &event.data["content"]).collect();
        assert_eq!(texts, ["The end."]);
        assert!(later.iter().all(|event| event.kind != "TEXT_RESET"));
        broken.notify_one();
    })
    .await;
}
