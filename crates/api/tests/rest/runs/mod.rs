//! Steering runs: cancelled, listed, limited, and the agents with which the others are tested.

mod approvals;
mod clients;
mod streams;
mod waiting;

use serde_json::{Value, json};
use tokio::net::TcpListener;
use toolwright_testkit::{Faults, LOOPBACK};

use crate::harness::{Edition, Home, Server, calls_then, promptly, reasons, receipts, soon};

crate::on_both_editions!(runs_are_listed_and_paged);
crate::on_sqlite!(
    cancelling_stops_a_slow_tool,
    cancelling_stops_what_waits,
    calls_that_share_a_resource_keep_their_order
);

/// An agent whose first reply asks for these calls, each of a tool that asks for a confirmation.
async fn define_asking(server: &Server, calls: Value) {
    server.define_echo("pay", json!({ "sideEffects": "writes", "requiresConfirmation": true })).await;
    server.define_agent("a", calls_then(calls, "Told: {{result}}"), json!({ "toolRefs": ["pay"] })).await;
}

fn pay(amount: u32) -> Value {
    json!({ "name": "pay", "arguments": { "amount": amount } })
}

fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value[field].as_str().unwrap_or_else(|| panic!("no {field} in {value}"))
}

/// A tool whose last step is the client's, and an agent that calls it beside others.
async fn define_client(server: &Server, calls: Value) {
    let tool = json!({ "sideEffects": "reads", "isToolFullyExecutedOnServer": false,
        "invocation": { "bodyTemplate": { "open": "${param.path}" } },
        "inputJsonSchema": { "type": "object", "properties": { "path": { "type": "string" } }, "required": ["path"] },
        "outputJsonSchema": { "type": "object", "properties": { "lines": { "type": "integer" } }, "required": ["lines"] } });
    server.define_echo("open", tool).await;
    server.define_echo("look", json!({})).await;
    server.define_echo("pay", json!({ "requiresConfirmation": true })).await;
    server
        .define_agent("a", calls_then(calls, "Told: {{result}}"), json!({ "toolRefs": ["open", "look", "pay"] }))
        .await;
}

fn open(path: &str) -> Value {
    json!({ "name": "open", "arguments": { "path": path } })
}

/// Results for the first calls that wait for the client.
fn results(response: &Value, outputs: &[Value]) -> Value {
    let actions = response["clientActions"].as_array().unwrap().iter();
    let results: Vec<Value> =
        actions.zip(outputs).map(|(action, output)| json!({ "callId": action["callId"], "output": output })).collect();
    json!({ "results": results })
}

async fn give(server: &Server, response: &Value, results: Value) -> crate::harness::Answer {
    server.post(&format!("runs/{}/tool-results", text(response, "runId")), results).await
}

/// Runs a test on servers with these settings, and allows it to restart them.
async fn with_home<F: Future<Output = ()>>(edition: Edition, test: impl FnOnce(Home) -> F) {
    test(Home::new(edition).await).await;
}

async fn cancelling_stops_a_slow_tool(server: Server) {
    let faults = Faults::builder().start(LOOPBACK).await.unwrap();
    server.define_call("wait", &faults.base_url(), "/slow/60000", json!({ "sideEffects": "writes" })).await;
    server.define_echo("look", json!({})).await;
    let agent = json!({ "toolRefs": ["wait", "look"] });
    server.define_agent("a", calls_then(json!([{ "name": "look" }, { "name": "wait" }]), "Done."), agent).await;
    let mut stream = server.start("a", "go").await;
    let mut ended = stream.until("TOOL_CALL_END").await;
    let run = text(&ended.data, "runId").to_owned();
    let response = promptly(server.post(&format!("runs/{run}/cancel"), json!({}))).await.expect(200);
    assert_eq!((&response["status"], &response["reason"]), (&json!("CANCELLED"), &json!("cancelled")), "{response}");
    assert!(text(&response, "message").contains("admin"));
    let receipts = receipts(&response);
    assert_eq!((receipts.len(), &receipts[0]["error"]), (2, &Value::Null), "what was done before stays");
    let error = &receipts[1]["error"];
    assert_eq!((&error["code"], &error["details"]["outcome"]), (&json!("UNKNOWN"), &json!("unknown")));
    ended = stream.until("DONE").await;
    assert_eq!(ended.data["status"], "CANCELLED");
    server.post(&format!("runs/{run}/cancel"), json!({})).await.problem(409, "run-ended");
    // The conversation is whole and can go on.
    server.patch("agents/a", json!({ "toolRefs": [] })).await.expect(200);
    server.go_on("a", &response["conversationId"], "go").await.expect(200);
    faults.shutdown().await;
}

async fn cancelling_stops_what_waits(server: Server) {
    define_client(&server, json!([pay(1), open("a.rs")])).await;
    let waiting = server.run("a", "go").await;
    let response = server.post(&format!("runs/{}/cancel", text(&waiting, "runId")), json!({})).await.expect(200);
    assert_eq!((&response["status"], reasons(&response)), (&json!("CANCELLED"), vec![json!("cancelled"); 2]));
    assert_eq!((&response["approvals"], &response["clientActions"]), (&json!([]), &json!([])));
    assert_eq!(server.get("approvals").await.expect(200)["items"], json!([]));
    server.decide(&waiting, 0, json!({ "decision": "approve" })).await.problem(409, "run-ended");
    server.post("runs/run_01ARZ3NDEKTSV4RRFFQ69G5FAV/cancel", json!({})).await.problem(404, "not-found");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cancelling_stops_a_slow_model() {
    with_home(Edition::Sqlite, |home| async move {
        let (server, running) =
            home.start_with(|options| options.egress_allow = vec!["127.0.0.0/8".parse().unwrap()]).await;
        // Takes connections and never answers.
        let mute = TcpListener::bind("127.0.0.1:0").await.unwrap();
        server.post("secrets", json!({ "name": "model-key", "value": "sk-a-key-of-the-realm" })).await.expect(201);
        let llm = json!({ "provider": "openai", "model": "gpt-4o", "baseUrl": format!("http://{}/v1", mute.local_addr().unwrap()), "apiKeySecretRef": "model-key" });
        server.post("agents", json!({ "refName": "a", "llmConfig": llm })).await.expect(201);
        let mut stream = server.start("a", "go").await;
        let thinking = stream.until("THINKING").await;
        let _asked = soon(mute.accept()).await.unwrap();
        let run = text(&thinking.data, "runId");
        let response = promptly(server.post(&format!("runs/{run}/cancel"), json!({}))).await.expect(200);
        assert_eq!((&response["status"], &response["iterationsUsed"]), (&json!("CANCELLED"), &json!(1)));
        assert_eq!(stream.until("DONE").await.data["status"], "CANCELLED");
        // And a slow model does not outlive its time.
        server.patch("agents/a", json!({ "executionConfig": { "timeoutSeconds": 1 } })).await.expect(200);
        assert_eq!(soon(server.run("a", "go")).await["status"], "TIMEOUT");
        running.stop().await;
        home.remove().await;
    })
    .await;
}

async fn calls_that_share_a_resource_keep_their_order(server: Server) {
    let faults = Faults::builder().start(LOOPBACK).await.unwrap();
    server.define_call("step", &faults.base_url(), "/slow/${param.ms}", json!({ "sequential": true })).await;
    let calls = json!([{ "name": "step", "arguments": { "ms": 300 } }, { "name": "step", "arguments": { "ms": 1 } }]);
    server.define_agent("a", calls_then(calls, "Done."), json!({ "toolRefs": ["step"] })).await;
    let events = server.stream("agents/a/execute/stream", json!({ "userMessage": "go" })).await;
    let ends: Vec<&Value> = events
        .iter()
        .filter(|event| event.kind == "TOOL_CALL_END")
        .map(|event| &event.data["toolInvocation"]["input"]["ms"])
        .collect();
    assert_eq!(ends, [300, 1]);
    faults.shutdown().await;
}

async fn runs_are_listed_and_paged(server: Server) {
    define_asking(&server, json!([pay(5)])).await;
    server.define_agent("b", json!([{ "reply": { "text": "Hi." } }]), json!({})).await;
    let first = server.run("b", "one").await;
    for message in ["two", "three"] {
        server.go_on("b", &first["conversationId"], message).await.expect(200);
    }
    let waiting = server.run("a", "go").await;
    let ids = |page: &Value| page["items"].as_array().unwrap().iter().map(|run| run["id"].clone()).collect::<Vec<_>>();
    let all = ids(&server.get("runs").await.expect(200));
    assert_eq!((all.len(), &all[0], &all[3]), (4, &waiting["runId"], &first["runId"]), "the latest first");
    let conversation = text(&first, "conversationId");
    for (query, count) in [
        ("status=AWAITING_APPROVAL".to_owned(), 1),
        ("status=COMPLETED,AWAITING_APPROVAL".to_owned(), 4),
        ("status=ERROR".to_owned(), 0),
        ("agentRef=b".to_owned(), 3),
        (format!("conversationId={conversation}"), 3),
        (format!("conversationId={conversation}&status=ERROR"), 0),
        (format!("parentRunId={}", text(&first, "runId")), 0),
    ] {
        assert_eq!(ids(&server.get(&format!("runs?{query}")).await.expect(200)).len(), count, "{query}");
    }
    let page = server.get("runs?limit=3").await.expect(200);
    let rest = server.get(&format!("runs?limit=3&cursor={}", text(&page, "nextCursor"))).await.expect(200);
    assert_eq!([ids(&page), ids(&rest)].concat(), all);
    for wrong in ["status=DONE", "limit=0", "limit=101", "cursor=x", "conversationId=x", "parentRunId=x", "agent=b"] {
        server.get(&format!("runs?{wrong}")).await.problem(400, "invalid-request");
    }
    for wrong in ["runId=x", "limit=0", "cursor=x"] {
        server.get(&format!("approvals?{wrong}")).await.problem(400, "invalid-request");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_more_runs_begin_than_the_server_allows() {
    with_home(Edition::Sqlite, |home| async move {
        let faults = Faults::builder().start(LOOPBACK).await.unwrap();
        let (server, running) = home.start_with(|options| options.agents.most_running = 1).await;
        server.define_call("wait", &faults.base_url(), "/slow/60000", json!({})).await;
        server.define_echo("pay", json!({ "requiresConfirmation": true })).await;
        let agent = json!({ "toolRefs": ["wait", "pay"] });
        server.define_agent("slow", calls_then(json!([{ "name": "wait" }]), "Done."), agent.clone()).await;
        server.define_agent("asks", calls_then(json!([pay(1)]), "Done."), agent).await;
        // One that only waits for a person is not under way.
        let waiting = server.run("asks", "go").await;
        let mut stream = server.start("slow", "go").await;
        stream.until("TOOL_CALL_START").await;
        server.say("asks", json!({ "userMessage": "go" })).await.problem(429, "too-many-runs");
        // What has begun can be gone on with.
        server.decide(&waiting, 0, json!({ "decision": "approve" })).await.expect(200);
        faults.shutdown().await;
        stream.until("DONE").await;
        running.stop().await;
        home.remove().await;
    })
    .await;
}
