//! Regression tests for deeply nested JSON values in outputs, arguments and edits.

use axum::Router;
use axum::response::IntoResponse;
use axum::routing::any;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio_util::task::TaskTracker;

use super::str_field;
use crate::harness::{Server, calls_then, envelopes, merge};

crate::on_sqlite!(
    run_with_a_deeply_nested_output_can_be_read,
    run_with_a_deeply_nested_output_can_be_cancelled,
    run_with_a_deeply_nested_edit_can_be_read,
    run_completes_after_an_earlier_run_with_deeply_nested_output,
);

/// Starts an HTTP server that answers `/deep` with `levels` nested arrays. Returns its URL.
async fn start_nested_json_server(levels: usize) -> String {
    let body = format!("{}{}", "[".repeat(levels), "]".repeat(levels));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let answer = move || async move { ([("content-type", "application/json")], body).into_response() };
    let app = Router::new().route("/deep", any(answer));
    TaskTracker::new().spawn(async move { axum::serve(listener, app).await });
    url
}

async fn run_with_a_deeply_nested_output_can_be_read(server: Server) {
    for levels in [60, 100, 120, 124, 125, 126, 127] {
        let name = format!("deep{levels}");
        server
            .define_http_tool(
                &name,
                &start_nested_json_server(levels).await,
                "/deep",
                json!({ "outputJsonSchema": {} }),
            )
            .await;
        server
            .define_agent(
                &format!("a{levels}"),
                calls_then(json!([{ "name": name }]), "Done."),
                json!({ "toolRefs": [name] }),
            )
            .await;
        let response = server.run(&format!("a{levels}"), "go").await;
        assert_eq!(response["status"], "COMPLETED", "{levels}: {response}");
        let read = server.get(&format!("runs/{}", str_field(&response, "runId"))).await;
        assert_eq!(read.status.as_u16(), 200, "{levels}: {}", read.text);
    }
}

/// Defines an agent that receives a deeply nested output and then waits for an approval.
async fn define_nested_output_agent(server: &Server, more: Value) {
    server
        .define_http_tool("deep", &start_nested_json_server(126).await, "/deep", json!({ "outputJsonSchema": {} }))
        .await;
    server.define_echo("pay", json!({ "requiresConfirmation": true })).await;
    let rules = json!([
        { "when": { "user": "deep", "turn": 0 }, "reply": { "toolCalls": [{ "name": "deep" }, { "name": "pay" }] } },
        { "reply": { "text": "Done." } }
    ]);
    server.define_agent("a", rules, merge(json!({ "toolRefs": ["deep", "pay"] }), more)).await;
}

async fn run_with_a_deeply_nested_output_can_be_cancelled(server: Server) {
    define_nested_output_agent(&server, json!({})).await;
    let waiting = server.run("a", "deep").await;
    assert_eq!(waiting["status"], "AWAITING_APPROVAL", "{waiting}");
    server.post(&format!("runs/{}/cancel", str_field(&waiting, "runId")), json!({})).await.expect(200);
}

fn nested_array(levels: usize) -> Value {
    (0..levels).fold(json!(1), |inner, _| json!([inner]))
}

async fn assert_readable(server: &Server, run: &Value) {
    let read = server.get(&format!("runs/{}", str_field(run, "runId"))).await;
    assert_eq!(read.status.as_u16(), 200, "{}", read.text);
}

async fn run_with_a_deeply_nested_edit_can_be_read(server: Server) {
    server.define_echo("pay", json!({ "requiresConfirmation": true })).await;
    server.define_agent("a", calls_then(json!([{ "name": "pay" }]), "Done."), json!({ "toolRefs": ["pay"] })).await;
    for levels in [100, 125, 126] {
        let waiting = server.run("a", "go").await;
        let answer =
            server.decide(&waiting, 0, json!({ "decision": "edit", "input": { "x": nested_array(levels - 1) } })).await;
        assert!([200, 400].contains(&answer.status.as_u16()), "{levels}: {}", answer.text);
        assert_readable(&server, &waiting).await;
    }
}

async fn run_completes_after_an_earlier_run_with_deeply_nested_output(server: Server) {
    let pins = json!([{ "name": "p", "selector": { "tool": "never" }, "on_missing": "stale_last_success" }]);
    server
        .define_http_tool("deep", &start_nested_json_server(126).await, "/deep", json!({ "outputJsonSchema": {} }))
        .await;
    let rules = json!([{ "when": { "user": "deep", "turn": 0 }, "reply": { "toolCalls": [{ "name": "deep" }] } }, { "reply": { "text": "Done." } }]);
    server.define_agent("a", rules, json!({ "toolRefs": ["deep"], "pins": pins })).await;
    server.run("a", "deep").await;
    assert_eq!(server.run("a", "hi").await["status"], "COMPLETED");
}

/// Starts the HTTP service of a model that makes one call with `arguments` and then replies `Done.`. Returns its URL.
async fn start_model_that_calls(arguments: String) -> String {
    let chunk = |delta: Value, finish: Value| {
        let choice = json!({ "index": 0, "delta": delta, "finish_reason": finish });
        format!(
            "data: {}\n\n",
            json!({ "id": "c", "object": "chat.completion.chunk", "created": 1, "model": "gpt-4o", "choices": [choice] })
        )
    };
    let call = json!({ "role": "assistant", "tool_calls": [{ "index": 0, "id": "t", "type": "function", "function": { "name": "echo", "arguments": arguments } }] });
    let call_reply = format!("{}{}data: [DONE]\n\n", chunk(call, Value::Null), chunk(json!({}), json!("tool_calls")));
    let final_reply = format!(
        "{}{}data: [DONE]\n\n",
        chunk(json!({ "role": "assistant", "content": "Done." }), Value::Null),
        chunk(json!({}), json!("stop"))
    );
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/v1", listener.local_addr().unwrap());
    let answer = move |body: String| async move {
        let text = if body.contains("tool_call_id") { final_reply } else { call_reply };
        ([("content-type", "text/event-stream")], text).into_response()
    };
    TaskTracker::new().spawn(async move { axum::serve(listener, Router::new().fallback(any(answer))).await });
    url
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn run_with_deeply_nested_arguments_can_be_read() {
    crate::harness::with_model_mock(|server| async move {
        for levels in [60, 120, 122, 124, 126, 127, 128, 200] {
            let arguments = format!("{}1{}", "[".repeat(levels), "]".repeat(levels));
            let llm = merge(
                crate::harness::openai_model("gpt-4o"),
                json!({ "baseUrl": start_model_that_calls(arguments).await }),
            );
            let name = format!("a{levels}");
            server.post("agents", json!({ "refName": name, "llmConfig": llm, "toolRefs": ["echo"] })).await.expect(201);
            let response = server.run(&name, "go").await;
            assert_eq!(
                (&response["status"], envelopes(&response).len()),
                (&json!("COMPLETED"), 1),
                "{levels}: {response}"
            );
            let read = server.get(&format!("runs/{}", str_field(&response, "runId"))).await;
            assert_eq!(read.status.as_u16(), 200, "{levels}: {}", read.text);
        }
    })
    .await;
}
