//! Tests runs: cancellation, lists and limits. Also defines agents that the submodules share.

mod approvals;
mod client_tools;
mod streams;
mod suspension;

use serde_json::{Value, json};
use tokio::net::TcpListener;
use toolwright_testkit::{Faults, LOOPBACK};

use crate::harness::{
    Deployment, Server, Storage, calls_then, envelopes, error_reasons, with_timeout, within_two_seconds,
};

crate::on_both_databases!(runs_are_listed_filtered_and_paged);
crate::on_sqlite!(
    cancelling_a_run_stops_its_slow_tool_call,
    cancelling_a_run_ends_its_approvals_and_client_actions,
    calls_of_a_sequential_tool_run_one_after_the_other
);

/// Defines the tool `pay`, which requires confirmation, and the agent `a`, which makes `calls` in its first reply.
async fn define_agent_with_approval(server: &Server, calls: Value) {
    server.define_echo("pay", json!({ "sideEffects": "writes", "requiresConfirmation": true })).await;
    server.define_agent("a", calls_then(calls, "Told: {{result}}"), json!({ "toolRefs": ["pay"] })).await;
}

fn pay_call(amount: u32) -> Value {
    json!({ "name": "pay", "arguments": { "amount": amount } })
}

fn str_field<'a>(value: &'a Value, field: &str) -> &'a str {
    value[field].as_str().unwrap_or_else(|| panic!("no {field} in {value}"))
}

/// Defines the client tool `open`, the server tools `look` and `pay`, and the agent `a`, which makes `calls` in its
/// first reply.
async fn define_client_agent(server: &Server, calls: Value) {
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

fn open_call(path: &str) -> Value {
    json!({ "name": "open", "arguments": { "path": path } })
}

/// Builds the client results for a response. The first output belongs to the first client action, and so on.
fn client_results(response: &Value, outputs: &[Value]) -> Value {
    let actions = response["clientActions"].as_array().unwrap().iter();
    let results: Vec<Value> =
        actions.zip(outputs).map(|(action, output)| json!({ "callId": action["callId"], "output": output })).collect();
    json!({ "results": results })
}

async fn return_results(server: &Server, response: &Value, results: Value) -> crate::harness::Response {
    server.post(&format!("runs/{}/tool-results", str_field(response, "runId")), results).await
}

/// Runs a test with a deployment, on which the test can start and stop servers.
async fn with_deployment<F: Future<Output = ()>>(storage: Storage, test: impl FnOnce(Deployment) -> F) {
    test(Deployment::new(storage).await).await;
}

async fn cancelling_a_run_stops_its_slow_tool_call(server: Server) {
    let faults = Faults::builder().start(LOOPBACK).await.unwrap();
    server.define_http_tool("wait", &faults.base_url(), "/slow/60000", json!({ "sideEffects": "writes" })).await;
    server.define_echo("look", json!({})).await;
    let agent = json!({ "toolRefs": ["wait", "look"] });
    server.define_agent("a", calls_then(json!([{ "name": "look" }, { "name": "wait" }]), "Done."), agent).await;
    let mut stream = server.start_stream("a", "go").await;
    let mut ended = stream.wait_for("TOOL_CALL_END").await;
    let run = str_field(&ended.data, "runId").to_owned();
    let response = within_two_seconds(server.post(&format!("runs/{run}/cancel"), json!({}))).await.expect(200);
    assert_eq!((&response["status"], &response["reason"]), (&json!("CANCELLED"), &json!("cancelled")), "{response}");
    assert!(str_field(&response, "message").contains("admin"));
    let envelopes = envelopes(&response);
    assert_eq!((envelopes.len(), &envelopes[0]["error"]), (2, &Value::Null), "earlier calls are kept");
    let error = &envelopes[1]["error"];
    assert_eq!((&error["code"], &error["details"]["outcome"]), (&json!("UNKNOWN"), &json!("unknown")));
    ended = stream.wait_for("DONE").await;
    assert_eq!(ended.data["status"], "CANCELLED");
    server.post(&format!("runs/{run}/cancel"), json!({})).await.problem(409, "run-ended");
    // After the cancellation, the conversation accepts another message.
    server.patch("agents/a", json!({ "toolRefs": [] })).await.expect(200);
    server.continue_conversation("a", &response["conversationId"], "go").await.expect(200);
    faults.shutdown().await;
}

async fn cancelling_a_run_ends_its_approvals_and_client_actions(server: Server) {
    define_client_agent(&server, json!([pay_call(1), open_call("a.rs")])).await;
    let waiting = server.run("a", "go").await;
    let response = server.post(&format!("runs/{}/cancel", str_field(&waiting, "runId")), json!({})).await.expect(200);
    assert_eq!((&response["status"], error_reasons(&response)), (&json!("CANCELLED"), vec![json!("cancelled"); 2]));
    assert_eq!((&response["approvals"], &response["clientActions"]), (&json!([]), &json!([])));
    assert_eq!(server.get("approvals").await.expect(200)["items"], json!([]));
    server.decide(&waiting, 0, json!({ "decision": "approve" })).await.problem(409, "run-ended");
    server.post("runs/run_01ARZ3NDEKTSV4RRFFQ69G5FAV/cancel", json!({})).await.problem(404, "not-found");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cancelling_a_run_stops_its_slow_model_request() {
    with_deployment(Storage::Sqlite, |deployment| async move {
        let (server, running) =
            deployment.start_with(|options| options.egress_allow = vec!["127.0.0.0/8".parse().unwrap()]).await;
        // The model's HTTP service accepts connections and never answers.
        let silent_listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        server.post("secrets", json!({ "name": "model-key", "value": "sk-a-key-of-the-realm" })).await.expect(201);
        let llm = json!({ "provider": "openai", "model": "gpt-4o", "baseUrl": format!("http://{}/v1", silent_listener.local_addr().unwrap()), "apiKeySecretRef": "model-key" });
        server.post("agents", json!({ "refName": "a", "llmConfig": llm })).await.expect(201);
        let mut stream = server.start_stream("a", "go").await;
        let thinking = stream.wait_for("THINKING").await;
        let _connection = with_timeout(silent_listener.accept()).await.unwrap();
        let run = str_field(&thinking.data, "runId");
        let response = within_two_seconds(server.post(&format!("runs/{run}/cancel"), json!({}))).await.expect(200);
        assert_eq!((&response["status"], &response["iterationsUsed"]), (&json!("CANCELLED"), &json!(1)));
        assert_eq!(stream.wait_for("DONE").await.data["status"], "CANCELLED");
        // The timeout of the run also stops a slow model.
        server.patch("agents/a", json!({ "executionConfig": { "timeoutSeconds": 1 } })).await.expect(200);
        assert_eq!(with_timeout(server.run("a", "go")).await["status"], "TIMEOUT");
        running.stop().await;
        deployment.remove().await;
    })
    .await;
}

async fn calls_of_a_sequential_tool_run_one_after_the_other(server: Server) {
    let faults = Faults::builder().start(LOOPBACK).await.unwrap();
    server.define_http_tool("step", &faults.base_url(), "/slow/${param.ms}", json!({ "sequential": true })).await;
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

async fn runs_are_listed_filtered_and_paged(server: Server) {
    define_agent_with_approval(&server, json!([pay_call(5)])).await;
    server.define_agent("b", json!([{ "reply": { "text": "Hi." } }]), json!({})).await;
    let first = server.run("b", "one").await;
    for message in ["two", "three"] {
        server.continue_conversation("b", &first["conversationId"], message).await.expect(200);
    }
    let waiting = server.run("a", "go").await;
    let ids = |page: &Value| page["items"].as_array().unwrap().iter().map(|run| run["id"].clone()).collect::<Vec<_>>();
    let all = ids(&server.get("runs").await.expect(200));
    assert_eq!((all.len(), &all[0], &all[3]), (4, &waiting["runId"], &first["runId"]), "the latest run comes first");
    let conversation = str_field(&first, "conversationId");
    for (query, count) in [
        ("status=AWAITING_APPROVAL".to_owned(), 1),
        ("status=COMPLETED,AWAITING_APPROVAL".to_owned(), 4),
        ("status=ERROR".to_owned(), 0),
        ("agentRef=b".to_owned(), 3),
        (format!("conversationId={conversation}"), 3),
        (format!("conversationId={conversation}&status=ERROR"), 0),
        (format!("parentRunId={}", str_field(&first, "runId")), 0),
    ] {
        assert_eq!(ids(&server.get(&format!("runs?{query}")).await.expect(200)).len(), count, "{query}");
    }
    let page = server.get("runs?limit=3").await.expect(200);
    let rest = server.get(&format!("runs?limit=3&cursor={}", str_field(&page, "nextCursor"))).await.expect(200);
    assert_eq!([ids(&page), ids(&rest)].concat(), all);
    for invalid in ["status=DONE", "limit=0", "limit=101", "cursor=x", "conversationId=x", "parentRunId=x", "agent=b"] {
        server.get(&format!("runs?{invalid}")).await.problem(400, "invalid-request");
    }
    for invalid in ["runId=x", "limit=0", "cursor=x"] {
        server.get(&format!("approvals?{invalid}")).await.problem(400, "invalid-request");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn run_over_the_limit_of_concurrent_runs_is_rejected() {
    with_deployment(Storage::Sqlite, |deployment| async move {
        let faults = Faults::builder().start(LOOPBACK).await.unwrap();
        let (server, running) = deployment.start_with(|options| options.agents.max_running = 1).await;
        server.define_http_tool("wait", &faults.base_url(), "/slow/60000", json!({})).await;
        server.define_echo("pay", json!({ "requiresConfirmation": true })).await;
        let agent = json!({ "toolRefs": ["wait", "pay"] });
        server.define_agent("slow", calls_then(json!([{ "name": "wait" }]), "Done."), agent.clone()).await;
        server.define_agent("asks", calls_then(json!([pay_call(1)]), "Done."), agent).await;
        // A run that waits for an approval does not count toward the limit.
        let waiting = server.run("asks", "go").await;
        let mut stream = server.start_stream("slow", "go").await;
        stream.wait_for("TOOL_CALL_START").await;
        server.execute_agent("asks", json!({ "userMessage": "go" })).await.problem(429, "too-many-runs");
        // A waiting run can be resumed although the limit is reached.
        server.decide(&waiting, 0, json!({ "decision": "approve" })).await.expect(200);
        faults.shutdown().await;
        stream.wait_for("DONE").await;
        running.stop().await;
        deployment.remove().await;
    })
    .await;
}
