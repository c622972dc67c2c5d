//! Tests trials: replays, comparisons of libraries, live splits and shadow runs. The tests count writes at the server
//! that receives them.

mod compare;
mod replay;
mod splits;

use serde_json::{Value, json};

use crate::harness::{Server, calls_then, merge};

fn run_id(run: &Value) -> &str {
    run["runId"].as_str().unwrap()
}

async fn export(server: &Server, run: &Value) -> String {
    let answer = server.get(&format!("runs/{}/export", run_id(run))).await;
    assert_eq!(answer.status.as_u16(), 200, "{}", answer.text);
    answer.text
}

/// Defines version 2.0.0 of a tool. It returns `output` for every input.
async fn define_second_version(server: &Server, name: &str, output: Value) {
    let new = json!({ "version": "2.0.0", "invocation": { "path": "echo", "bodyTemplate": output } });
    let tool = json!({ "refName": name, "toolType": "FUNCTION", "description": name, "outputJsonSchema": {} });
    server.put(&format!("tools/{name}"), merge(tool, new)).await.expect(200);
}

/// Defines the agent `a`, which calls `look` once and answers with the result.
async fn define_look_agent(server: &Server) {
    server.define_echo("look", json!({})).await;
    let calls = json!([{ "name": "look", "arguments": { "at": "the sky" } }]);
    server.define_agent("a", calls_then(calls, "Seen: {{result}}"), json!({ "toolRefs": ["look"] })).await;
}

/// Defines the agent `w`, which calls `look` and then sends the result with `write`.
async fn define_write_agent(server: &Server, url: &str, more: Value) {
    define_write_agent_with(server, url, more, json!({})).await;
}

async fn define_write_agent_with(server: &Server, url: &str, more: Value, agent: Value) {
    server.define_echo("look", json!({})).await;
    server
        .define_http_tool(
            "write",
            url,
            "/echo/write",
            merge(json!({ "sideEffects": "writes", "invocation": { "path": "/echo/write", "method": "POST" } }), more),
        )
        .await;
    let rules = json!([
        { "when": { "turn": 0 }, "reply": { "toolCalls": [{ "name": "look", "arguments": { "at": "the sky" } }] } },
        { "when": { "turn": 1 }, "reply": { "toolCalls": [{ "name": "write", "arguments": { "saw": "{{result/at}}" } }] } },
        { "reply": { "text": "Written." } },
    ]);
    server.define_agent("w", rules, merge(json!({ "toolRefs": ["look", "write"] }), agent)).await;
}

/// Waits until the shadow run of a run has ended, and returns the shadow run.
async fn shadow_of(server: &Server, run: &Value) -> Value {
    let is_shadow = |item: &Value| {
        item["trial"]["kind"] == "shadow" && item["trial"]["of"] == run["runId"] && item["status"] != "RUNNING"
    };
    let all = server
        .poll_until(&format!("runs?trialOf={}", run_id(run)), |page| {
            page["items"].as_array().unwrap().iter().any(is_shadow)
        })
        .await;
    let shadow = all["items"].as_array().unwrap().iter().find(|item| is_shadow(item)).unwrap().clone();
    server.get(&format!("runs/{}", shadow["id"].as_str().unwrap())).await.expect(200)
}
