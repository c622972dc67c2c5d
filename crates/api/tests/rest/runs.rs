//! Steering runs: approvals, client tools, streams, cancelling, and what is left after a restart.

use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::sync::Notify;
use tokio_util::task::TaskTracker;
use toolwright_engine::Options;
use toolwright_testkit::{Faults, LOOPBACK};

use crate::harness::{
    Edition, Home, Server, SseEvent, calls_then, openai, promptly, reasons, receipts, soon, with, with_mock,
};

crate::on_both_editions!(
    an_approved_call_is_made,
    a_denied_call_is_not_made_and_the_model_is_told_why,
    an_edited_call_is_another_call,
    a_decision_counts_once,
    only_the_owner_and_administrators_see_and_steer_a_run,
    results_of_clients_are_taken_whole,
    runs_are_listed_and_paged
);
crate::on_sqlite!(
    wrong_decisions_are_refused,
    an_approval_binds_the_definition_it_was_given_for,
    what_an_edit_makes_is_checked_again,
    other_calls_go_on_while_one_waits_for_a_person,
    one_of_many_who_decide_at_once_is_heard,
    a_hand_off_loses_nothing,
    results_of_clients_are_checked,
    results_are_taken_through_execute_too,
    approvals_and_clients_may_wait_together,
    a_person_may_be_asked_before_the_client,
    a_deep_result_of_a_client_is_kept,
    approvals_are_paged_in_the_order_they_were_asked_for,
    a_waiting_run_keeps_what_it_began_with,
    every_kind_of_event_is_streamed,
    a_stream_goes_on_from_any_event,
    watchers_see_the_same,
    a_stream_goes_on_across_an_approval,
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

async fn an_approved_call_is_made(server: Server) {
    define_asking(&server, json!([pay(5)])).await;
    let waiting = server.run("a", "go").await;
    assert_eq!(waiting["status"], "AWAITING_APPROVAL");
    assert_eq!(receipts(&waiting), Vec::<Value>::new(), "nothing was done yet");
    let asked = &waiting["approvals"][0];
    assert_eq!((&asked["toolRef"], &asked["input"]), (&json!("pay"), &json!({ "amount": 5 })));
    assert_eq!((&asked["sideEffects"], &asked["agentRef"]), (&json!("writes"), &json!("a")));
    assert!(text(asked, "expiresAt") > text(asked, "askedAt"));
    assert_eq!(server.get("approvals").await.expect(200)["items"], waiting["approvals"]);
    assert_eq!(
        server.get(&format!("approvals?runId={}", text(&waiting, "runId"))).await.expect(200)["items"],
        waiting["approvals"]
    );
    let run = format!("runs/{}", text(&waiting, "runId"));
    assert_eq!(server.get(&run).await.expect(200)["approvals"], waiting["approvals"]);
    let response = server.decide(&waiting, 0, json!({ "decision": "approve" })).await.expect(200);
    assert_eq!(response["status"], "COMPLETED", "{response}");
    assert_eq!(response["responseText"], r#"Told: {"amount":5}"#);
    let receipt = &receipts(&response)[0];
    assert_eq!((&receipt["call_id"], &receipt["output"]), (&asked["callId"], &json!({ "amount": 5 })));
    assert_eq!(response["approvals"], json!([]));
    assert_eq!(server.get("approvals").await.expect(200)["items"], json!([]));
}

async fn a_denied_call_is_not_made_and_the_model_is_told_why(server: Server) {
    define_asking(&server, json!([pay(5)])).await;
    for (decision, message) in [
        (json!({ "decision": "deny", "reason": "too much" }), "too much"),
        (json!({ "decision": "deny" }), "a person declined this call"),
    ] {
        let waiting = server.run("a", "go").await;
        let response = server.decide(&waiting, 0, decision).await.expect(200);
        assert_eq!(response["status"], "COMPLETED");
        let error = &receipts(&response)[0]["error"];
        assert_eq!((&error["code"], &error["message"]), (&json!("POLICY_DENIED"), &json!(message)));
        assert_eq!(
            (&error["details"]["reason"], &error["details"]["required_by"]),
            (&json!("approval_denied"), &json!(["tool"]))
        );
        assert!(text(&response, "responseText").contains(message), "{response}");
        assert_eq!(response["toolCalls"][0]["status"], "SKIPPED");
    }
}

async fn an_edited_call_is_another_call(server: Server) {
    define_asking(&server, json!([pay(5)])).await;
    let waiting = server.run("a", "go").await;
    let decision = json!({ "decision": "edit", "input": { "amount": 3 }, "reason": "less" });
    let response = server.decide(&waiting, 0, decision).await.expect(200);
    assert_eq!(response["status"], "COMPLETED", "{response}");
    let receipt = &receipts(&response)[0];
    assert_eq!((&receipt["input"], &receipt["output"]), (&json!({ "amount": 3 }), &json!({ "amount": 3 })));
    assert_ne!(receipt["call_id"], waiting["approvals"][0]["callId"]);
    assert_eq!(receipt["metadata"]["edited_from"], waiting["approvals"][0]["callId"]);
    assert!(
        text(&response, "responseText").contains("a person changed the arguments"),
        "the model is told: {response}"
    );
    // The id is that of a direct call with this input.
    let direct = server.call("pay", json!({ "amount": 3 })).await;
    assert_eq!(receipt["call_id"], direct["call_id"]);
    // An edit that changes nothing is still another call.
    let waiting = server.run("a", "go").await;
    let same = server.decide(&waiting, 0, json!({ "decision": "edit", "input": { "amount": 5 } })).await.expect(200);
    assert_ne!(receipts(&same)[0]["call_id"], waiting["approvals"][0]["callId"]);
}

async fn a_decision_counts_once(server: Server) {
    define_asking(&server, json!([pay(1), pay(2)])).await;
    let waiting = server.run("a", "go").await;
    assert_eq!(waiting["approvals"].as_array().unwrap().len(), 2);
    let half = server.decide(&waiting, 0, json!({ "decision": "approve" })).await.expect(200);
    assert_eq!((&half["status"], receipts(&half).len()), (&json!("AWAITING_APPROVAL"), 1));
    for again in ["approve", "deny"] {
        server.decide(&waiting, 0, json!({ "decision": again })).await.problem(409, "not-waiting");
    }
    let response = server.decide(&waiting, 1, json!({ "decision": "deny" })).await.expect(200);
    assert_eq!(response["status"], "COMPLETED");
    assert_eq!(reasons(&response).iter().filter(|reason| reason.is_null()).count(), 1);
    server.decide(&waiting, 1, json!({ "decision": "approve" })).await.problem(409, "run-ended");
}

async fn wrong_decisions_are_refused(server: Server) {
    define_asking(&server, json!([pay(5)])).await;
    let waiting = server.run("a", "go").await;
    let (run, call) = (text(&waiting, "runId"), text(&waiting["approvals"][0], "callId").to_owned());
    for (body, place) in [
        (json!({}), ""),
        (json!({ "decision": "maybe" }), "/decision"),
        (json!({ "decision": "Approve" }), "/decision"),
        (json!({ "decision": "edit" }), "/input"),
        (json!({ "decision": "approve", "input": {} }), "/input"),
        (json!({ "decision": "deny", "input": {} }), "/input"),
        (json!({ "decision": "approve", "by": "me" }), "/by"),
    ] {
        let problem = server.decide(&waiting, 0, body.clone()).await.problem(400, "invalid-request");
        assert!(place.is_empty() || problem["errors"][0]["path"] == place, "{body}: {problem}");
    }
    let approve = json!({ "decision": "approve" });
    for (path, status, code) in [
        (format!("runs/{run}/approvals/call_aaaaaaaaaaaaaaaaaaaaaaaaaa"), 404, "not-found"),
        (format!("runs/run_01ARZ3NDEKTSV4RRFFQ69G5FAV/approvals/{call}"), 404, "not-found"),
        (format!("runs/nonsense/approvals/{call}"), 404, "not-found"),
    ] {
        server.post(&path, approve.clone()).await.problem(status, code);
    }
    let other = server.run("a", "go").await;
    assert_eq!(other["approvals"][0]["callId"], json!(call), "the same call in another run waits for itself");
    server.decide(&other, 0, approve.clone()).await.expect(200);
    assert_eq!(server.get(&format!("runs/{run}")).await.expect(200)["status"], "AWAITING_APPROVAL");
    assert_eq!(server.decide(&waiting, 0, approve).await.expect(200)["status"], "COMPLETED");
}

async fn an_approval_binds_the_definition_it_was_given_for(server: Server) {
    define_asking(&server, json!([pay(5)])).await;
    let changed = json!({ "description": "Pays twice." });
    let approve = json!({ "decision": "approve" });
    let waiting = server.run("a", "go").await;
    server.patch("tools/pay", changed).await.expect(200);
    let response = server.decide(&waiting, 0, approve.clone()).await.expect(200);
    assert_eq!(
        (&response["status"], reasons(&response)),
        (&json!("COMPLETED"), vec![json!("definition_changed")]),
        "{response}"
    );
    // A new version beside it changes nothing.
    let waiting = server.run("a", "go").await;
    let tool = json!({ "refName": "pay", "toolType": "FUNCTION", "version": "2.0.0", "invocation": { "path": "echo" }, "requiresConfirmation": true });
    server.put("tools/pay", tool).await.expect(200);
    let response = server.decide(&waiting, 0, approve.clone()).await.expect(200);
    assert_eq!(
        (&receipts(&response)[0]["version"], reasons(&response)),
        (&json!("1.0.0"), vec![json!(null)]),
        "{response}"
    );
    // Switched off, or gone.
    let waiting = server.run("a", "go").await;
    server.patch("tools/pay", json!({ "enabled": false })).await.expect(200);
    let response = server.decide(&waiting, 0, approve.clone()).await.expect(200);
    assert_eq!((&response["status"], reasons(&response)), (&json!("COMPLETED"), vec![json!("disabled")]), "{response}");
    server.patch("tools/pay", json!({ "enabled": true })).await.expect(200);
    let waiting = server.run("a", "go").await;
    server.delete("tools/pay").await.expect(204);
    let response = server.decide(&waiting, 0, approve).await.expect(200);
    assert_eq!(
        (&response["status"], reasons(&response)),
        (&json!("COMPLETED"), vec![json!("unknown_tool")]),
        "{response}"
    );
}

async fn what_an_edit_makes_is_checked_again(server: Server) {
    let schema = json!({ "type": "object", "properties": { "amount": { "type": "integer" } }, "required": ["amount"] });
    server.define_echo("pay", json!({ "inputJsonSchema": schema, "requiresConfirmation": true })).await;
    let rail = json!({ "type": "content_filter", "parameters": { "words": ["bribe"] } });
    let agent = json!({ "toolRefs": ["pay"], "guardrails": [rail] });
    server.define_agent("a", calls_then(json!([pay(5)]), "Done."), agent).await;
    for (input, code) in [
        (json!({ "amount": "five" }), "VALIDATION_ERROR"),
        (json!(null), "VALIDATION_ERROR"),
        (json!("text"), "VALIDATION_ERROR"),
        (json!({ "amount": 1, "for": "a bribe" }), "POLICY_DENIED"),
    ] {
        let waiting = server.run("a", "go").await;
        let answer = server.decide(&waiting, 0, json!({ "decision": "edit", "input": input })).await;
        if input.is_null() {
            // Null is absent.
            answer.problem(400, "invalid-request");
            continue;
        }
        let response = answer.expect(200);
        let receipt = &receipts(&response)[0];
        assert_eq!((&receipt["error"]["code"], &receipt["input"]), (&json!(code), &input), "{response}");
        assert_eq!(receipt["metadata"]["edited_from"], waiting["approvals"][0]["callId"]);
    }
}

async fn other_calls_go_on_while_one_waits_for_a_person(server: Server) {
    let faults = Faults::builder().start(LOOPBACK).await.unwrap();
    server.define_call("wait", &faults.base_url(), "/slow/${param.ms}", json!({})).await;
    server.define_echo("pay", json!({ "sideEffects": "writes", "requiresConfirmation": true })).await;
    let calls = json!([{ "name": "wait", "arguments": { "ms": 60_000 } }, pay(1), { "name": "wait", "arguments": { "ms": 1 } }]);
    server.define_agent("a", calls_then(calls, "Done."), json!({ "toolRefs": ["wait", "pay"] })).await;
    let mut stream = server.start("a", "go").await;
    let asked = stream.until("APPROVAL_REQUIRED").await;
    let listed = server.until("approvals", |page| page["items"] != json!([])).await;
    assert_eq!(listed["items"][0]["callId"], asked.data["approval"]["callId"], "it is listed while others run");
    let (run, call) = (text(&asked.data, "runId"), text(&asked.data["approval"], "callId"));
    // Deciding does not wait for the slow one.
    let decided = server
        .post(&format!("runs/{run}/approvals/{call}?wait=false"), json!({ "decision": "approve" }))
        .await
        .expect(202);
    assert_eq!(decided["runId"], run);
    let mut ended = Vec::new();
    while ended.len() < 2 {
        ended.push(stream.until("TOOL_CALL_END").await.data["toolInvocation"]["input"].clone());
    }
    assert!(ended.contains(&json!({ "ms": 1 })) && ended.contains(&json!({ "amount": 1 })), "{ended:?}");
    // The gate opens: the slow call fails, and the run goes on with all three.
    faults.shutdown().await;
    let done = stream.until("DONE").await;
    assert_eq!(done.data["content"], "Done.");
    let response = server.get(&format!("runs/{run}")).await.expect(200);
    assert_eq!(receipts(&response).len(), 3);
}

async fn one_of_many_who_decide_at_once_is_heard(server: Server) {
    define_asking(&server, json!([pay(5)])).await;
    let waiting = server.run("a", "go").await;
    let decisions = (0..12).map(|n| {
        let decision = if n % 2 == 0 { "approve" } else { "deny" };
        server.decide(&waiting, 0, json!({ "decision": decision }))
    });
    let mut statuses: Vec<u16> = join_all(decisions).await.into_iter().map(|answer| answer.status.as_u16()).collect();
    statuses.sort_unstable();
    assert_eq!(statuses[..2], [200, 409], "{statuses:?}");
    let response = server.get(&format!("runs/{}", text(&waiting, "runId"))).await.expect(200);
    assert_eq!((&response["status"], receipts(&response).len()), (&json!("COMPLETED"), 1));
}

async fn only_the_owner_and_administrators_see_and_steer_a_run(server: Server) {
    define_asking(&server, json!([pay(5)])).await;
    let (north, south) = (server.member("north").await, server.member("south").await);
    let waiting = north.run("a", "go").await;
    let run = text(&waiting, "runId");
    assert_eq!(south.get("approvals").await.expect(200)["items"], json!([]));
    assert_eq!(south.get("runs").await.expect(200)["items"], json!([]));
    south.get(&format!("runs/{run}")).await.problem(404, "not-found");
    south.get(&format!("runs/{run}/events")).await.problem(404, "not-found");
    south.post(&format!("runs/{run}/cancel"), json!({})).await.problem(404, "not-found");
    south.decide(&waiting, 0, json!({ "decision": "approve" })).await.problem(404, "not-found");
    let result = json!({ "results": [{ "callId": waiting["approvals"][0]["callId"], "output": 1 }] });
    south.post(&format!("runs/{run}/tool-results"), result).await.problem(404, "not-found");
    assert_eq!(north.get("approvals").await.expect(200)["items"].as_array().unwrap().len(), 1);
    assert_eq!(
        server.get("approvals").await.expect(200)["items"].as_array().unwrap().len(),
        1,
        "administrators see all"
    );
    server.post("realms", json!({ "name": "other" })).await.expect(201);
    server.in_realm("other").get(&format!("runs/{run}")).await.problem(404, "not-found");
    server.in_realm("other").decide(&waiting, 0, json!({ "decision": "approve" })).await.problem(404, "not-found");
    assert_eq!(server.in_realm("other").get("approvals").await.expect(200)["items"], json!([]));
    let response = server.decide(&waiting, 0, json!({ "decision": "approve" })).await.expect(200);
    assert_eq!(receipts(&response)[0]["metadata"]["principal"], "north", "whoever decides, it is North's call");
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

async fn results_of_clients_are_taken_whole(server: Server) {
    define_client(&server, json!([open("a.rs"), open("b.rs")])).await;
    let waiting = server.run("a", "go").await;
    assert_eq!(waiting["status"], "AWAITING_CLIENT");
    let action = &waiting["clientActions"][0];
    assert_eq!((&action["toolRef"], &action["preparedPayload"]), (&json!("open"), &json!({ "open": "a.rs" })));
    assert_eq!(action["schema"]["required"], json!(["lines"]));
    assert!(!text(action, "token").is_empty() && text(action, "expiresAt") > "2");
    let (known, unknown) = (action["callId"].clone(), json!("call_aaaaaaaaaaaaaaaaaaaaaaaaaa"));
    let one = |id: &Value| json!({ "callId": id, "output": { "lines": 1 } });
    // All or none: the good one beside a bad one is not taken.
    for (given, status, code) in [
        (json!({ "results": [one(&known), one(&unknown)] }), 409, "not-waiting"),
        (json!({ "results": [one(&known), one(&known)] }), 409, "not-waiting"),
        (json!({ "results": [] }), 400, "invalid-request"),
        (json!({}), 400, "invalid-request"),
        (json!({ "results": [{ "callId": known }] }), 400, "invalid-request"),
        (json!({ "results": [{ "callId": known, "output": 1, "error": "x" }] }), 400, "invalid-request"),
        (json!({ "results": [{ "output": 1 }] }), 400, "invalid-request"),
    ] {
        give(&server, &waiting, given.clone()).await.problem(status, code);
        let still = server.get(&format!("runs/{}", text(&waiting, "runId"))).await.expect(200);
        assert_eq!(still["clientActions"], waiting["clientActions"], "{given}");
    }
    // Some now, the rest later.
    let half = give(&server, &waiting, results(&waiting, &[json!({ "lines": 1 })])).await.expect(200);
    assert_eq!((&half["status"], half["clientActions"].as_array().unwrap().len()), (&json!("AWAITING_CLIENT"), 1));
    give(&server, &waiting, results(&waiting, &[json!({ "lines": 1 })])).await.problem(409, "not-waiting");
    let response = give(&server, &half, results(&half, &[json!({ "lines": 2 })])).await.expect(200);
    assert_eq!((&response["status"], &response["responseText"]), (&json!("COMPLETED"), &json!(r#"Told: {"lines":2}"#)));
    for (receipt, lines) in receipts(&response).iter().zip([1, 2]) {
        assert_eq!(
            (&receipt["output"], &receipt["metadata"]["execution_site"]),
            (&json!({ "lines": lines }), &json!("client"))
        );
    }
    give(&server, &response, results(&waiting, &[json!({ "lines": 1 })])).await.problem(409, "run-ended");
}

async fn a_hand_off_loses_nothing(server: Server) {
    let calls = json!([{ "name": "look", "arguments": { "n": 1 } }, open("a.rs"), { "name": "nothing" }, { "name": "look", "arguments": { "n": 2 } }, { "name": "open", "arguments": {} }]);
    define_client(&server, calls).await;
    let waiting = server.run("a", "go").await;
    assert_eq!(waiting["status"], "AWAITING_CLIENT");
    assert_eq!(receipts(&waiting).len(), 4, "the server's calls are done: {waiting}");
    let calls = waiting["toolCalls"].as_array().unwrap();
    let handed: Vec<&Value> = calls.iter().filter(|call| call["requiresClientExecution"] == true).collect();
    assert_eq!((calls.len(), handed.len()), (5, 1));
    assert_eq!(
        (&handed[0]["callId"], &handed[0]["preparedPayload"]),
        (&waiting["clientActions"][0]["callId"], &json!({ "open": "a.rs" }))
    );
    assert_eq!(handed[0]["wasExecuted"], true, "the server's part");
    let response = give(&server, &waiting, results(&waiting, &[json!({ "lines": 3 })])).await.expect(200);
    assert_eq!(response["status"], "COMPLETED", "{response}");
    for receipt in receipts(&waiting) {
        assert_eq!(response["outputs"]["tools_by_id"][text(&receipt, "call_id")], receipt, "what was done stays");
    }
    assert_eq!(receipts(&response).len(), 5);
    // The model is told in the order it asked: the last result is the last call's.
    assert!(text(&response, "responseText").contains("VALIDATION_ERROR"), "{response}");
}

async fn results_of_clients_are_checked(server: Server) {
    define_client(&server, json!([open("a.rs")])).await;
    for (result, reason, message) in [
        (json!({ "output": { "lines": "many" } }), "output_schema", "/lines"),
        (json!({ "output": null }), "output_schema", ""),
        (json!({ "output": 7 }), "output_schema", ""),
        (json!({ "error": "no such file" }), "client_error", "no such file"),
        (json!({ "error": { "message": "no such file" } }), "client_error", "no such file"),
    ] {
        let waiting = server.run("a", "go").await;
        let given = with(json!({ "callId": waiting["clientActions"][0]["callId"] }), result.clone());
        let response = give(&server, &waiting, json!({ "results": [given] })).await.expect(200);
        assert_eq!(response["status"], "COMPLETED", "{result}: {response}");
        let receipt = &receipts(&response)[0];
        assert_eq!(
            (&receipt["error"]["code"], &receipt["error"]["details"]["reason"]),
            (&json!("PROVIDER_ERROR"), &json!(reason)),
            "{result}"
        );
        assert!(text(&receipt["error"], "message").contains(message), "{receipt}");
        assert_eq!(receipt["output"], Value::Null, "{result}");
        assert!(text(&response, "responseText").contains(reason), "the model is told: {response}");
    }
}

async fn results_are_taken_through_execute_too(server: Server) {
    define_client(&server, json!([open("a.rs")])).await;
    let (north, south) = (server.member("north").await, server.member("south").await);
    let waiting = north.run("a", "go").await;
    let conversation = &waiting["conversationId"];
    north.go_on("a", conversation, "are you there?").await.problem(409, "conversation-busy");
    let body = |id: &str| json!({ "conversationId": conversation, "toolResults": [{ id: waiting["clientActions"][0]["callId"], "output": { "lines": 4 } }] });
    south.say("a", body("callId")).await.problem(404, "not-found");
    north.post("agents/a/execute/stream", body("callId")).await.problem(400, "invalid-request");
    let response = north.say("a", body("toolCallId")).await.expect(200);
    assert_eq!((&response["runId"], &response["status"]), (&waiting["runId"], &json!("COMPLETED")));
    assert_eq!(response["conversationId"], *conversation);
    north.say("a", body("callId")).await.problem(409, "not-waiting");
}

async fn approvals_and_clients_may_wait_together(server: Server) {
    define_client(&server, json!([pay(1), open("a.rs")])).await;
    let waiting = server.run("a", "go").await;
    assert_eq!(waiting["status"], "AWAITING_APPROVAL");
    assert_eq!(
        (waiting["approvals"].as_array().unwrap().len(), waiting["clientActions"].as_array().unwrap().len()),
        (1, 1)
    );
    // Each must be answered in its own way.
    let wrong = json!({ "results": [{ "callId": waiting["approvals"][0]["callId"], "output": {} }] });
    give(&server, &waiting, wrong).await.problem(409, "not-waiting");
    let call = text(&waiting["clientActions"][0], "callId");
    let path = format!("runs/{}/approvals/{call}", text(&waiting, "runId"));
    server.post(&path, json!({ "decision": "approve" })).await.problem(409, "not-waiting");
    let approved = server.decide(&waiting, 0, json!({ "decision": "approve" })).await.expect(200);
    assert_eq!((&approved["status"], &approved["approvals"]), (&json!("AWAITING_CLIENT"), &json!([])));
    let response = give(&server, &approved, results(&approved, &[json!({ "lines": 1 })])).await.expect(200);
    assert_eq!((&response["status"], reasons(&response)), (&json!("COMPLETED"), vec![Value::Null; 2]));
}

async fn a_person_may_be_asked_before_the_client(server: Server) {
    define_client(&server, json!([open("a.rs")])).await;
    server.patch("tools/open", json!({ "requiresConfirmation": true })).await.expect(200);
    let waiting = server.run("a", "go").await;
    assert_eq!((&waiting["status"], &waiting["clientActions"]), (&json!("AWAITING_APPROVAL"), &json!([])));
    let decision = json!({ "decision": "edit", "input": { "path": "b.rs" } });
    let handed = server.decide(&waiting, 0, decision).await.expect(200);
    assert_eq!(handed["status"], "AWAITING_CLIENT", "{handed}");
    assert_eq!(handed["clientActions"][0]["preparedPayload"], json!({ "open": "b.rs" }));
    let response = give(&server, &handed, results(&handed, &[json!({ "lines": 1 })])).await.expect(200);
    let receipt = &receipts(&response)[0];
    assert_eq!(
        (&receipt["output"], &receipt["metadata"]["edited_from"]),
        (&json!({ "lines": 1 }), &waiting["approvals"][0]["callId"])
    );
}

async fn a_deep_result_of_a_client_is_kept(server: Server) {
    server.define_echo("open", json!({ "isToolFullyExecutedOnServer": false })).await;
    server.define_agent("a", calls_then(json!([{ "name": "open" }]), "Done."), json!({ "toolRefs": ["open"] })).await;
    for levels in [1, 64, 65, 120] {
        let waiting = server.run("a", "go").await;
        let deep = (0..levels).fold(json!(1), |inner, _| json!([inner]));
        let response = give(&server, &waiting, results(&waiting, std::slice::from_ref(&deep))).await.expect(200);
        let output = &receipts(&response)[0]["output"];
        assert!(*output == deep || *output == json!(deep.to_string()), "{levels}: as it is, or as text: {output}");
        server.get(&format!("runs/{}", text(&waiting, "runId"))).await.expect(200);
    }
}

async fn approvals_are_paged_in_the_order_they_were_asked_for(server: Server) {
    define_asking(&server, json!([pay(5)])).await;
    let mut runs = Vec::new();
    for _ in 0..3 {
        runs.push(server.run("a", "go").await["runId"].clone());
    }
    let of =
        |page: &Value| page["items"].as_array().unwrap().iter().map(|one| one["runId"].clone()).collect::<Vec<_>>();
    let first = server.get("approvals?limit=2").await.expect(200);
    let rest = server.get(&format!("approvals?limit=2&cursor={}", text(&first, "nextCursor"))).await.expect(200);
    assert_eq!([of(&first), of(&rest)].concat(), runs);
    assert_eq!(rest["nextCursor"], Value::Null);
}

async fn a_waiting_run_keeps_what_it_began_with(server: Server) {
    define_asking(&server, json!([pay(5)])).await;
    let waiting = server.run("a", "go").await;
    let changed = json!({ "llmConfig": crate::harness::scripted(json!([{ "reply": { "text": "I am another." } }])), "policy": { "sideEffects": "none" } });
    server.patch("agents/a", changed).await.expect(200);
    let response = server.decide(&waiting, 0, json!({ "decision": "approve" })).await.expect(200);
    assert_eq!(response["responseText"], r#"Told: {"amount":5}"#);
    assert_eq!(server.run("a", "go").await["responseText"], "I am another.");
}

/// Runs a test on servers with these settings, and allows it to restart them.
async fn with_home<F: Future<Output = ()>>(edition: Edition, test: impl FnOnce(Home) -> F) {
    test(Home::new(edition).await).await;
}

fn impatient(options: &mut Options) {
    options.agents.approval_wait = Duration::from_millis(300);
    options.agents.client_wait = Duration::from_millis(300);
}

async fn what_nobody_answers_expires(edition: Edition) {
    with_home(edition, |home| async move {
        let (server, running) = home.start_with(impatient).await;
        define_client(&server, json!([pay(1), open("a.rs")])).await;
        let waiting = server.run("a", "go").await;
        let run = format!("runs/{}", text(&waiting, "runId"));
        let response = server.until(&run, |run| run["status"] == "COMPLETED").await;
        // In the order they were started or refused.
        assert_eq!(reasons(&response), ["client_expired", "approval_expired"], "{response}");
        let codes: Vec<Value> = receipts(&response).iter().map(|receipt| receipt["error"]["code"].clone()).collect();
        assert_eq!(codes, ["TIMEOUT", "POLICY_DENIED"]);
        server.decide(&waiting, 0, json!({ "decision": "approve" })).await.problem(409, "run-ended");
        assert_eq!(server.get("approvals").await.expect(200)["items"], json!([]));
        running.stop().await;
        home.remove().await;
    })
    .await;
}

#[tokio::test]
async fn what_nobody_answers_expires_on_sqlite() {
    what_nobody_answers_expires(Edition::Sqlite).await;
}

#[tokio::test]
async fn what_nobody_answers_expires_on_postgres() {
    what_nobody_answers_expires(Edition::PostgresAndRedis).await;
}

#[tokio::test]
async fn what_expires_while_no_server_runs_is_expired_by_the_next() {
    with_home(Edition::Sqlite, |home| async move {
        let (server, running) = home.start_with(impatient).await;
        define_asking(&server, json!([pay(1)])).await;
        let waiting = server.run("a", "go").await;
        running.stop().await;
        let (server, running) = home.start().await;
        let run = format!("runs/{}", text(&waiting, "runId"));
        let response = server.until(&run, |run| run["status"] == "COMPLETED").await;
        assert_eq!(reasons(&response), ["approval_expired"]);
        running.stop().await;
        home.remove().await;
    })
    .await;
}

async fn what_waits_survives_a_restart(edition: Edition) {
    let restarted = with_home(edition, |home| async move {
        let (server, running) = home.start().await;
        define_client(&server, json!([pay(1), open("a.rs"), { "name": "look", "arguments": { "n": 1 } }])).await;
        let waiting = server.run("a", "go").await;
        let cancelled = server.run("a", "again").await;
        let before = server.get(&format!("runs/{}", text(&waiting, "runId"))).await.expect(200);
        running.stop().await;
        let (server, running) = home.start().await;
        let after = server.get(&format!("runs/{}", text(&waiting, "runId"))).await.expect(200);
        assert_eq!(after, before, "a run is the same after a restart");
        assert_eq!(server.get("approvals").await.expect(200)["items"].as_array().unwrap().len(), 2);
        let approved = server.decide(&waiting, 0, json!({ "decision": "approve" })).await.expect(200);
        assert_eq!(approved["status"], "AWAITING_CLIENT", "{approved}");
        running.stop().await;
        let (server, running) = home.start().await;
        let response = give(&server, &waiting, results(&waiting, &[json!({ "lines": 1 })])).await.expect(200);
        assert_eq!(
            (&response["status"], reasons(&response)),
            (&json!("COMPLETED"), vec![Value::Null; 3]),
            "{response}"
        );
        server.decide(&waiting, 0, json!({ "decision": "deny" })).await.problem(409, "run-ended");
        let path = format!("runs/{}/cancel", text(&cancelled, "runId"));
        assert_eq!(server.post(&path, json!({})).await.expect(200)["status"], "CANCELLED");
        // The story of all three servers is one story.
        let events = server.events(text(&waiting, "runId"), None).await;
        assert_eq!(events.last().unwrap().kind, "DONE");
        let ids: Vec<u64> = events.iter().filter_map(|event| event.id).collect();
        assert!(ids.is_sorted_by(|a, b| a < b), "{ids:?}");
        running.stop().await;
        home.remove().await;
    });
    Box::pin(restarted).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_waits_survives_a_restart_on_sqlite() {
    what_waits_survives_a_restart(Edition::Sqlite).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_waits_survives_a_restart_on_postgres() {
    what_waits_survives_a_restart(Edition::PostgresAndRedis).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_under_way_when_the_server_stops_ends_interrupted() {
    with_home(Edition::Sqlite, |home| async move {
        let faults = Faults::builder().start(LOOPBACK).await.unwrap();
        let (server, running) = home.start().await;
        server.define_call("wait", &faults.base_url(), "/slow/60000", json!({ "sideEffects": "writes" })).await;
        server
            .define_agent("a", calls_then(json!([{ "name": "wait" }]), "Done."), json!({ "toolRefs": ["wait"] }))
            .await;
        let mut stream = server.start("a", "go").await;
        let started = stream.until("TOOL_CALL_START").await;
        drop(stream);
        soon(running.stop()).await;
        let (server, running) = home.start().await;
        let run = server.get(&format!("runs/{}", text(&started.data, "runId"))).await.expect(200);
        assert_eq!((&run["status"], &run["reason"]), (&json!("ERROR"), &json!("interrupted")), "{run}");
        let error = &receipts(&run)[0]["error"];
        assert_eq!(
            (&error["code"], &error["details"]["outcome"]),
            (&json!("UNKNOWN"), &json!("unknown")),
            "nobody knows whether it was done"
        );
        // Its conversation can go on.
        server.patch("agents/a", json!({ "toolRefs": [] })).await.expect(200);
        server.go_on("a", &run["conversationId"], "and now?").await.expect(200);
        running.stop().await;
        home.remove().await;
        faults.shutdown().await;
    })
    .await;
}

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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_expires_is_gone_on_with_by_one_server() {
    let home = Home::new(Edition::PostgresAndRedis).await;
    let faults = Faults::builder().start(LOOPBACK).await.unwrap();
    let hasty = |options: &mut Options| options.agents.approval_wait = Duration::from_millis(300);
    let ((here, running_here), (there, running_there)) = (home.start_with(hasty).await, home.start_with(hasty).await);
    here.define_echo("pay", json!({ "requiresConfirmation": true })).await;
    here.define_call("tell", &faults.base_url(), "/count/told", json!({ "sideEffects": "writes" })).await;
    let rules = json!([
        { "when": { "turn": 0 }, "reply": { "toolCalls": [{ "name": "pay" }] } },
        { "when": { "turn": 1 }, "reply": { "toolCalls": [{ "name": "tell" }] } },
        { "reply": { "text": "Done." } }
    ]);
    here.define_agent("a", rules, json!({ "toolRefs": ["pay", "tell"] })).await;
    let runs: Vec<Value> = join_all((0..10).map(|_| here.run("a", "go"))).await;
    let ended = |page: &Value| page["items"].as_array().unwrap().iter().all(|run| run["endedAt"].is_string());
    there.until("runs?limit=100", ended).await;
    let mut statuses = Vec::new();
    for run in &runs {
        statuses.push(there.get(&format!("runs/{}", text(run, "runId"))).await.expect(200)["status"].clone());
    }
    let hits = faults.hits("/count/told");
    running_here.stop().await;
    running_there.stop().await;
    home.remove().await;
    faults.shutdown().await;
    assert_eq!((statuses, hits), (vec![json!("COMPLETED"); 10], 10), "each once");
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
