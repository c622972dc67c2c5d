//! Regression tests for messages that reach a conversation concurrently or after its run has ended.

use futures::future::join_all;
use serde_json::{Value, json};
use toolwright_testkit::{Faults, LOOPBACK};

use super::{delegate_call, str_field};
use crate::harness::{Server, calls_then};

crate::on_both_databases!(
    ended_run_writes_its_conversation_turns_once,
    conversation_is_busy_from_the_first_event_of_a_run,
    only_one_of_eight_concurrent_messages_to_a_conversation_starts_a_run,
);
crate::on_sqlite!(
    client_results_sent_to_an_unknown_agent_are_rejected,
    conversation_turn_has_its_tool_calls_as_an_array,
    archived_conversation_accepts_messages_only_after_it_becomes_active,
);

async fn ended_run_writes_its_conversation_turns_once(server: Server) {
    server.define_agent("helper", json!([{ "reply": { "text": "Helped." } }]), json!({})).await;
    let rules = calls_then(json!([delegate_call("helper")]), "Done.");
    server.define_agent("boss", rules, json!({ "delegateAgentRefs": ["helper"] })).await;
    for _ in 0..20 {
        let response = server.run("boss", "go").await;
        let (run, conversation) = (str_field(&response, "runId"), str_field(&response, "conversationId"));
        let ended = server.get(&format!("runs/{run}")).await.expect(200)["endedAt"].clone();
        // The server rejects this request only after all work at the end of the run is done. A second write of the
        // turns would therefore be visible below.
        server.post(&format!("runs/{run}/cancel"), json!({})).await.problem(409, "run-ended");
        let conversation = server.get(&format!("conversations/{conversation}")).await.expect(200);
        assert_eq!(conversation["turnCount"], 4, "{conversation}");
        assert_eq!(server.get(&format!("runs/{run}")).await.expect(200)["endedAt"], ended);
    }
}

async fn define_slow_agent(server: &Server, faults: &str) -> Value {
    server.define_http_tool("wait", faults, "/slow/60000", json!({})).await;
    let rules = json!([
        { "when": { "user": "wait", "turn": 0 }, "reply": { "toolCalls": [{ "name": "wait" }] } },
        { "reply": { "text": "Fine." } }
    ]);
    server.define_agent("a", rules, json!({ "toolRefs": ["wait"] })).await;
    server.run("a", "hi").await["conversationId"].clone()
}

async fn conversation_is_busy_from_the_first_event_of_a_run(server: Server) {
    let faults = Faults::builder().start(LOOPBACK).await.unwrap();
    let conversation = define_slow_agent(&server, &faults.base_url()).await;
    let body = json!({ "userMessage": "wait", "conversationId": conversation });
    let mut stream =
        server.open_stream(server.request(reqwest::Method::POST, "agents/a/execute/stream").json(&body)).await;
    stream.next().await.unwrap();
    let answer = server.continue_conversation("a", &conversation, "hi").await;
    faults.shutdown().await;
    answer.problem(409, "conversation-busy");
}

async fn only_one_of_eight_concurrent_messages_to_a_conversation_starts_a_run(server: Server) {
    server.define_echo("look", json!({ "isToolFullyExecutedOnServer": false })).await;
    let rules = json!([{ "when": { "user": "look" }, "reply": { "toolCalls": [{ "name": "look" }] } }, { "reply": { "text": "Fine." } }]);
    server.define_agent("b", rules, json!({ "toolRefs": ["look"] })).await;
    let conversation = server.run("b", "hi").await["conversationId"].clone();
    let answers = join_all((0..8).map(|_| server.continue_conversation("b", &conversation, "look"))).await;
    let waiting = answers.iter().filter(|answer| answer.status.as_u16() == 200).count();
    assert_eq!(waiting, 1, "only one run of a conversation waits for the client");
}

async fn client_results_sent_to_an_unknown_agent_are_rejected(server: Server) {
    server.define_echo("open", json!({ "isToolFullyExecutedOnServer": false })).await;
    server.define_agent("a", calls_then(json!([{ "name": "open" }]), "Done."), json!({ "toolRefs": ["open"] })).await;
    let waiting = server.run("a", "go").await;
    let body = json!({ "conversationId": waiting["conversationId"], "toolResults": [{ "callId": waiting["clientActions"][0]["callId"], "output": {} }] });
    server.execute_agent("nobody", body).await.problem(404, "not-found");
}

async fn conversation_turn_has_its_tool_calls_as_an_array(server: Server) {
    server.define_agent("a", calls_then(json!([{ "name": "echo" }]), "Done."), json!({ "toolRefs": ["echo"] })).await;
    let response = server.run("a", "go").await;
    let conversation =
        server.get(&format!("conversations/{}", str_field(&response, "conversationId"))).await.expect(200);
    assert!(conversation["turns"][1]["toolCalls"].is_array(), "{}", conversation["turns"][1]);
}

async fn archived_conversation_accepts_messages_only_after_it_becomes_active(server: Server) {
    server.define_agent("a", json!([{ "reply": { "text": "Fine." } }]), json!({})).await;
    let first = server.run("a", "hi").await;
    let path = format!("conversations/{}", str_field(&first, "conversationId"));
    server.patch(&path, json!({ "status": "ARCHIVED" })).await.expect(200);
    let answer = server.continue_conversation("a", &first["conversationId"], "hi").await;
    let status = server.get(&path).await.expect(200)["status"].clone();
    assert!(
        answer.status.as_u16() == 409 || status == "ACTIVE",
        "the conversation continued while its status is {status}"
    );
}
