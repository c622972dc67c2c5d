//! Tests approvals inside delegates: the caller's response, stream and list show what its child runs wait for.

use serde_json::{Value, json};

use crate::harness::{Server, calls_then, merge};

crate::on_both_databases!(approval_of_a_delegate_is_shown_by_its_callers_and_the_decision_resumes_them);
crate::on_sqlite!(
    each_wait_of_a_delegate_is_an_event_in_the_stream_of_its_caller,
    each_wait_of_a_delegate_for_a_client_is_an_event_in_the_stream_of_its_caller,
);

fn pay(amount: u32) -> Value {
    json!({ "name": "pay", "arguments": { "amount": amount } })
}

/// Defines the agent `name`, which delegates to `to` and replies with the answer.
async fn define_caller(server: &Server, name: &str, to: &str, more: Value) {
    let rules = calls_then(json!([{ "name": to, "arguments": { "task": "pay" } }]), "Told: {{result/responseText}}");
    server.define_agent(name, rules, merge(json!({ "delegateAgentRefs": [to] }), more)).await;
}

/// Defines the tool `pay`, which requires confirmation, and the agent `clerk`, which calls `pay` twice, one call after
/// the other.
async fn define_clerk(server: &Server) {
    server.define_echo("pay", json!({ "sideEffects": "writes", "requiresConfirmation": true })).await;
    let rules = json!([
        { "when": { "turn": 0 }, "reply": { "toolCalls": [pay(1)] } },
        { "when": { "turn": 1 }, "reply": { "toolCalls": [pay(2)] } },
        { "reply": { "text": "Paid twice." } }
    ]);
    server.define_agent("clerk", rules, json!({ "toolRefs": ["pay"] })).await;
}

async fn approval_of_a_delegate_is_shown_by_its_callers_and_the_decision_resumes_them(server: Server) {
    define_clerk(&server).await;
    for durable in [false, true] {
        let (boss, chief) = (format!("boss_{durable}"), format!("chief_{durable}"));
        let config = json!({ "executionConfig": { "durable": durable } });
        define_caller(&server, &boss, "clerk", config.clone()).await;
        define_caller(&server, &chief, &boss, config).await;
        let waiting = server.run(&chief, "go").await;
        assert_eq!(waiting["status"], "AWAITING_APPROVAL", "{waiting}");
        let child = &waiting["waitingChildRuns"][0];
        assert_eq!((&child["agentRef"], &child["status"]), (&json!(boss), &json!("AWAITING_APPROVAL")), "{waiting}");
        let approval = &waiting["approvals"][0];
        assert_eq!((&approval["agentRef"], &approval["input"]), (&json!("clerk"), &json!({ "amount": 1 })));
        assert_eq!(
            (&approval["parentRunId"], &approval["rootRunId"]),
            (&child["runId"], &waiting["runId"]),
            "{approval}"
        );
        assert_ne!(approval["runId"], waiting["runId"]);
        let listed = server.get("approvals").await.expect(200);
        assert_eq!(listed["items"], json!([approval]), "the list shows the same approval");
        // The run between the caller and the clerk shows the approval of its child run. The child run shows the same
        // approval.
        for run in [&child["runId"], &approval["runId"]] {
            let shown = server.get(&format!("runs/{}", run.as_str().unwrap())).await.expect(200);
            assert_eq!(shown["approvals"][0]["callId"], approval["callId"], "{shown}");
        }
        let clerk = server.decide(&waiting, 0, json!({ "decision": "approve" })).await.expect(200);
        assert_eq!(clerk["approvals"][0]["input"], json!({ "amount": 2 }), "{clerk}");
        let run = format!("runs/{}", waiting["runId"].as_str().unwrap());
        let again = server.get(&run).await.expect(200);
        assert_eq!(again["approvals"][0]["input"], json!({ "amount": 2 }), "{again}");
        server.decide(&again, 0, json!({ "decision": "deny" })).await.expect(200);
        let done = server.poll_until(&run, |run| run["status"] == "COMPLETED").await;
        assert_eq!(done["responseText"], "Told: Told: Paid twice.");
        assert_eq!((&done["approvals"], &done["waitingChildRuns"]), (&json!([]), &Value::Null), "{done}");
    }
}

async fn each_wait_of_a_delegate_is_an_event_in_the_stream_of_its_caller(server: Server) {
    define_clerk(&server).await;
    define_caller(&server, "boss", "clerk", json!({})).await;
    define_caller(&server, "chief", "boss", json!({})).await;
    let mut stream = server.start_stream("chief", "go").await;
    let mut run = Value::Null;
    for amount in [1, 2] {
        let event = stream.wait_for("CHILD_WAITING").await.data;
        let child = &event["childRun"];
        assert_eq!((&child["agentRef"], &child["status"]), (&json!("boss"), &json!("AWAITING_APPROVAL")), "{event}");
        run = event["runId"].clone();
        let caller = server.get(&format!("runs/{}", run.as_str().unwrap())).await.expect(200);
        assert_eq!(caller["approvals"][0]["input"], json!({ "amount": amount }), "{caller}");
        assert_eq!(caller["approvals"][0]["parentRunId"], child["runId"]);
        server.decide(&caller, 0, json!({ "decision": "approve" })).await.expect(200);
    }
    assert_eq!(stream.wait_for("DONE").await.data["content"], "Told: Told: Paid twice.");
    // A watcher that connects later reads the same events.
    let events = server.events(run.as_str().unwrap(), None).await;
    assert_eq!(events.iter().filter(|event| event.kind == "CHILD_WAITING").count(), 2, "{events:?}");
}

async fn each_wait_of_a_delegate_for_a_client_is_an_event_in_the_stream_of_its_caller(server: Server) {
    server.define_echo("open", json!({ "isToolFullyExecutedOnServer": false })).await;
    let open = |name: &str| json!([{ "name": "open", "arguments": { "file": name } }]);
    let rules = json!([
        { "when": { "turn": 0 }, "reply": { "toolCalls": open("a") } },
        { "when": { "turn": 1 }, "reply": { "toolCalls": open("b") } },
        { "reply": { "text": "Opened both." } }
    ]);
    server.define_agent("reader", rules, json!({ "toolRefs": ["open"] })).await;
    define_caller(&server, "boss", "reader", json!({})).await;
    let mut stream = server.start_stream("boss", "go").await;
    for file in ["a", "b"] {
        let child = stream.wait_for("CHILD_WAITING").await.data["childRun"].clone();
        assert_eq!(child["status"], "AWAITING_CLIENT", "{child}");
        let path = format!("runs/{}", child["runId"].as_str().unwrap());
        let action = server.get(&path).await.expect(200)["clientActions"][0].clone();
        assert_eq!(action["preparedPayload"], json!({ "file": file }), "{action}");
        let results = json!({ "results": [{ "callId": action["callId"], "output": "text" }] });
        server.post(&format!("{path}/tool-results"), results).await.expect(200);
    }
    assert_eq!(stream.wait_for("DONE").await.data["content"], "Told: Opened both.");
}
