//! Tests approvals: approve, deny, edit, concurrent decisions and access.

use futures::future::join_all;
use serde_json::{Value, json};
use toolwright_testkit::{Faults, LOOPBACK};

use super::{define_agent_with_approval, pay_call, str_field};
use crate::harness::{Server, calls_then, envelopes, error_reasons};

crate::on_both_databases!(
    approved_call_is_executed,
    denied_call_is_skipped_and_its_reason_is_reported_to_the_model,
    edited_call_has_a_new_call_id,
    second_decision_on_a_call_is_rejected,
    run_is_visible_only_to_its_owner_and_administrators
);
crate::on_sqlite!(
    invalid_decision_is_rejected,
    approved_call_fails_if_its_tool_was_changed_or_disabled_or_deleted_after_the_request,
    approved_call_fails_if_its_provider_or_fallback_or_verify_tool_changed_after_the_request,
    edited_input_is_validated_again,
    other_calls_continue_while_one_waits_for_approval,
    only_one_of_twelve_concurrent_decisions_is_applied,
    approvals_are_listed_in_the_order_of_their_requests
);

async fn approved_call_is_executed(server: Server) {
    define_agent_with_approval(&server, json!([pay_call(5)])).await;
    let waiting = server.run("a", "go").await;
    assert_eq!(waiting["status"], "AWAITING_APPROVAL");
    assert_eq!(envelopes(&waiting), Vec::<Value>::new(), "no call has been executed yet");
    let approval = &waiting["approvals"][0];
    assert_eq!((&approval["toolRef"], &approval["input"]), (&json!("pay"), &json!({ "amount": 5 })));
    assert_eq!((&approval["sideEffects"], &approval["agentRef"]), (&json!("writes"), &json!("a")));
    assert!(str_field(approval, "expiresAt") > str_field(approval, "requestedAt"));
    assert_eq!(server.get("approvals").await.expect(200)["items"], waiting["approvals"]);
    assert_eq!(
        server.get(&format!("approvals?runId={}", str_field(&waiting, "runId"))).await.expect(200)["items"],
        waiting["approvals"]
    );
    let run = format!("runs/{}", str_field(&waiting, "runId"));
    assert_eq!(server.get(&run).await.expect(200)["approvals"], waiting["approvals"]);
    let response = server.decide(&waiting, 0, json!({ "decision": "approve" })).await.expect(200);
    assert_eq!(response["status"], "COMPLETED", "{response}");
    assert_eq!(response["responseText"], r#"Told: {"amount":5}"#);
    let envelope = &envelopes(&response)[0];
    assert_eq!((&envelope["call_id"], &envelope["output"]), (&approval["callId"], &json!({ "amount": 5 })));
    assert_eq!(response["approvals"], json!([]));
    assert_eq!(server.get("approvals").await.expect(200)["items"], json!([]));
}

async fn denied_call_is_skipped_and_its_reason_is_reported_to_the_model(server: Server) {
    define_agent_with_approval(&server, json!([pay_call(5)])).await;
    for (decision, message) in [
        (json!({ "decision": "deny", "reason": "too much" }), "too much"),
        (json!({ "decision": "deny" }), "a person denied this call"),
    ] {
        let waiting = server.run("a", "go").await;
        let response = server.decide(&waiting, 0, decision).await.expect(200);
        assert_eq!(response["status"], "COMPLETED");
        let error = &envelopes(&response)[0]["error"];
        assert_eq!((&error["code"], &error["message"]), (&json!("POLICY_DENIED"), &json!(message)));
        assert_eq!(
            (&error["details"]["reason"], &error["details"]["required_by"]),
            (&json!("approval_denied"), &json!(["tool"]))
        );
        assert!(str_field(&response, "responseText").contains(message), "{response}");
        assert_eq!(response["toolCalls"][0]["status"], "SKIPPED");
    }
}

async fn edited_call_has_a_new_call_id(server: Server) {
    define_agent_with_approval(&server, json!([pay_call(5)])).await;
    let waiting = server.run("a", "go").await;
    let decision = json!({ "decision": "edit", "input": { "amount": 3 }, "reason": "less" });
    let response = server.decide(&waiting, 0, decision).await.expect(200);
    assert_eq!(response["status"], "COMPLETED", "{response}");
    let envelope = &envelopes(&response)[0];
    assert_eq!((&envelope["input"], &envelope["output"]), (&json!({ "amount": 3 }), &json!({ "amount": 3 })));
    assert_ne!(envelope["call_id"], waiting["approvals"][0]["callId"]);
    assert_eq!(envelope["metadata"]["edited_from"], waiting["approvals"][0]["callId"]);
    assert!(
        str_field(&response, "responseText").contains("a person changed the arguments"),
        "the edit is reported to the model: {response}"
    );
    // A call id is derived from the tool, the version, the input and the number of identical earlier calls in the run.
    // A direct call with the edited input therefore has the same id.
    let direct = server.call("pay", json!({ "amount": 3 })).await;
    assert_eq!(envelope["call_id"], direct["call_id"]);
    // An edited call has a new call id even if the edit does not change the input.
    let waiting = server.run("a", "go").await;
    let same = server.decide(&waiting, 0, json!({ "decision": "edit", "input": { "amount": 5 } })).await.expect(200);
    assert_ne!(envelopes(&same)[0]["call_id"], waiting["approvals"][0]["callId"]);
}

async fn second_decision_on_a_call_is_rejected(server: Server) {
    define_agent_with_approval(&server, json!([pay_call(1), pay_call(2)])).await;
    let waiting = server.run("a", "go").await;
    assert_eq!(waiting["approvals"].as_array().unwrap().len(), 2);
    let partial = server.decide(&waiting, 0, json!({ "decision": "approve" })).await.expect(200);
    assert_eq!((&partial["status"], envelopes(&partial).len()), (&json!("AWAITING_APPROVAL"), 1));
    for again in ["approve", "deny"] {
        server.decide(&waiting, 0, json!({ "decision": again })).await.problem(409, "not-waiting");
    }
    let response = server.decide(&waiting, 1, json!({ "decision": "deny" })).await.expect(200);
    assert_eq!(response["status"], "COMPLETED");
    assert_eq!(error_reasons(&response).iter().filter(|reason| reason.is_null()).count(), 1);
    server.decide(&waiting, 1, json!({ "decision": "approve" })).await.problem(409, "run-ended");
}

async fn invalid_decision_is_rejected(server: Server) {
    define_agent_with_approval(&server, json!([pay_call(5)])).await;
    let waiting = server.run("a", "go").await;
    let (run, call) = (str_field(&waiting, "runId"), str_field(&waiting["approvals"][0], "callId").to_owned());
    for (body, path) in [
        (json!({}), ""),
        (json!({ "decision": "maybe" }), "/decision"),
        (json!({ "decision": "Approve" }), "/decision"),
        (json!({ "decision": "edit" }), "/input"),
        (json!({ "decision": "approve", "input": {} }), "/input"),
        (json!({ "decision": "deny", "input": {} }), "/input"),
        (json!({ "decision": "approve", "by": "me" }), "/by"),
    ] {
        let problem = server.decide(&waiting, 0, body.clone()).await.problem(400, "invalid-request");
        assert!(path.is_empty() || problem["errors"][0]["path"] == path, "{body}: {problem}");
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
    assert_eq!(other["approvals"][0]["callId"], json!(call), "the same call in another run needs its own approval");
    server.decide(&other, 0, approve.clone()).await.expect(200);
    assert_eq!(server.get(&format!("runs/{run}")).await.expect(200)["status"], "AWAITING_APPROVAL");
    assert_eq!(server.decide(&waiting, 0, approve).await.expect(200)["status"], "COMPLETED");
}

async fn approved_call_fails_if_its_provider_or_fallback_or_verify_tool_changed_after_the_request(server: Server) {
    let faults = Faults::builder().start(LOOPBACK).await.unwrap();
    for name in ["granted", "fallback", "verify"] {
        server.define_echo(name, json!({})).await;
    }
    let behind = json!({ "sideEffects": "writes", "requiresConfirmation": true, "verifyToolRef": "verify",
        "errorHandling": { "503": { "action": "fallback", "fallbackToolRef": "fallback" } } });
    server.define_http_tool("pay", &faults.base_url(), "/count/pay", behind).await;
    let rules = calls_then(json!([{ "name": "pay", "arguments": {} }]), "Done.");
    server.define_agent("a", rules, json!({ "toolRefs": ["pay"] })).await;
    let approve = json!({ "decision": "approve" });
    for (changed, change) in [
        ("tool-providers/at_pay", json!({ "defaultHeaders": { "x-account": "mallory" } })),
        ("tools/fallback", json!({ "description": "changed" })),
        ("tools/verify", json!({ "description": "changed" })),
    ] {
        let waiting = server.run("a", "go").await;
        assert_eq!(waiting["status"], "AWAITING_APPROVAL", "{waiting}");
        server.patch(changed, change).await.expect(200);
        let response = server.decide(&waiting, 0, approve.clone()).await.expect(200);
        assert_eq!(error_reasons(&response), vec![json!("definition_changed")], "{changed}: {response}");
    }
    assert_eq!(faults.hits("/count/pay"), 0);
    let waiting = server.run("a", "go").await;
    server.patch("tools/granted", json!({ "description": "not behind this tool" })).await.expect(200);
    let response = server.decide(&waiting, 0, approve).await.expect(200);
    assert_eq!((error_reasons(&response), faults.hits("/count/pay")), (vec![json!(null)], 1), "{response}");
    faults.shutdown().await;
}

async fn approved_call_fails_if_its_tool_was_changed_or_disabled_or_deleted_after_the_request(server: Server) {
    define_agent_with_approval(&server, json!([pay_call(5)])).await;
    let changed = json!({ "description": "Pays twice." });
    let approve = json!({ "decision": "approve" });
    let waiting = server.run("a", "go").await;
    server.patch("tools/pay", changed).await.expect(200);
    let response = server.decide(&waiting, 0, approve.clone()).await.expect(200);
    assert_eq!(
        (&response["status"], error_reasons(&response)),
        (&json!("COMPLETED"), vec![json!("definition_changed")]),
        "{response}"
    );
    // A new version of the tool does not affect the call, which uses the approved version.
    let waiting = server.run("a", "go").await;
    let tool = json!({ "refName": "pay", "toolType": "FUNCTION", "version": "2.0.0", "invocation": { "path": "echo" }, "requiresConfirmation": true });
    server.put("tools/pay", tool).await.expect(200);
    let response = server.decide(&waiting, 0, approve.clone()).await.expect(200);
    assert_eq!(
        (&envelopes(&response)[0]["version"], error_reasons(&response)),
        (&json!("1.0.0"), vec![json!(null)]),
        "{response}"
    );
    // If the tool is disabled or deleted before the approval, the approved call fails.
    let waiting = server.run("a", "go").await;
    server.patch("tools/pay", json!({ "enabled": false })).await.expect(200);
    let response = server.decide(&waiting, 0, approve.clone()).await.expect(200);
    assert_eq!(
        (&response["status"], error_reasons(&response)),
        (&json!("COMPLETED"), vec![json!("disabled")]),
        "{response}"
    );
    server.patch("tools/pay", json!({ "enabled": true })).await.expect(200);
    let waiting = server.run("a", "go").await;
    server.delete("tools/pay").await.expect(200);
    let response = server.decide(&waiting, 0, approve).await.expect(200);
    assert_eq!(
        (&response["status"], error_reasons(&response)),
        (&json!("COMPLETED"), vec![json!("unknown_tool")]),
        "{response}"
    );
}

async fn edited_input_is_validated_again(server: Server) {
    let schema = json!({ "type": "object", "properties": { "amount": { "type": "integer" } }, "required": ["amount"] });
    server.define_echo("pay", json!({ "inputJsonSchema": schema, "requiresConfirmation": true })).await;
    let guardrail = json!({ "type": "content_filter", "parameters": { "words": ["bribe"] } });
    let agent = json!({ "toolRefs": ["pay"], "guardrails": [guardrail] });
    server.define_agent("a", calls_then(json!([pay_call(5)]), "Done."), agent).await;
    let waiting = server.run("a", "go").await;
    // An input that does not match the schema is refused, and the approval stays pending.
    for (input, path) in [
        (json!({ "amount": "five" }), "/input/amount"),
        (json!("text"), "/input"),
        // The input null is treated like a missing input.
        (json!(null), "/input"),
    ] {
        let edit = json!({ "decision": "edit", "input": input });
        let problem = server.decide(&waiting, 0, edit).await.problem(400, "invalid-request");
        assert_eq!(problem["errors"][0]["path"], path, "{problem}");
    }
    let input = json!({ "amount": 1, "for": "a bribe" });
    let response = server.decide(&waiting, 0, json!({ "decision": "edit", "input": input })).await.expect(200);
    let envelope = &envelopes(&response)[0];
    assert_eq!((&envelope["error"]["code"], &envelope["input"]), (&json!("POLICY_DENIED"), &input), "{response}");
    assert_eq!(envelope["metadata"]["edited_from"], waiting["approvals"][0]["callId"]);
}

async fn other_calls_continue_while_one_waits_for_approval(server: Server) {
    let faults = Faults::builder().start(LOOPBACK).await.unwrap();
    server.define_http_tool("wait", &faults.base_url(), "/slow/${param.ms}", json!({})).await;
    server.define_echo("pay", json!({ "sideEffects": "writes", "requiresConfirmation": true })).await;
    let calls = json!([{ "name": "wait", "arguments": { "ms": 60_000 } }, pay_call(1), { "name": "wait", "arguments": { "ms": 1 } }]);
    server.define_agent("a", calls_then(calls, "Done."), json!({ "toolRefs": ["wait", "pay"] })).await;
    let mut stream = server.start_stream("a", "go").await;
    let event = stream.wait_for("APPROVAL_REQUIRED").await;
    let listed = server.poll_until("approvals", |page| page["items"] != json!([])).await;
    assert_eq!(
        listed["items"][0]["callId"], event.data["approval"]["callId"],
        "the approval is listed while other calls run"
    );
    let (run, call) = (str_field(&event.data, "runId"), str_field(&event.data["approval"], "callId"));
    // With `wait=false`, the response does not wait for the slow call.
    let decided = server
        .post(&format!("runs/{run}/approvals/{call}?wait=false"), json!({ "decision": "approve" }))
        .await
        .expect(202);
    assert_eq!(decided["runId"], run);
    let mut ended = Vec::new();
    while ended.len() < 2 {
        ended.push(stream.wait_for("TOOL_CALL_END").await.data["toolInvocation"]["input"].clone());
    }
    assert!(ended.contains(&json!({ "ms": 1 })) && ended.contains(&json!({ "amount": 1 })), "{ended:?}");
    // The shutdown of the tool's HTTP server makes the slow call fail. The run then continues with all three results.
    faults.shutdown().await;
    let done = stream.wait_for("DONE").await;
    assert_eq!(done.data["content"], "Done.");
    let response = server.get(&format!("runs/{run}")).await.expect(200);
    assert_eq!(envelopes(&response).len(), 3);
}

async fn only_one_of_twelve_concurrent_decisions_is_applied(server: Server) {
    define_agent_with_approval(&server, json!([pay_call(5)])).await;
    let waiting = server.run("a", "go").await;
    let decisions = (0..12).map(|n| {
        let decision = if n % 2 == 0 { "approve" } else { "deny" };
        server.decide(&waiting, 0, json!({ "decision": decision }))
    });
    let mut statuses: Vec<u16> = join_all(decisions).await.into_iter().map(|answer| answer.status.as_u16()).collect();
    statuses.sort_unstable();
    assert_eq!(statuses[..2], [200, 409], "{statuses:?}");
    let response = server.get(&format!("runs/{}", str_field(&waiting, "runId"))).await.expect(200);
    assert_eq!((&response["status"], envelopes(&response).len()), (&json!("COMPLETED"), 1));
}

async fn run_is_visible_only_to_its_owner_and_administrators(server: Server) {
    define_agent_with_approval(&server, json!([pay_call(5)])).await;
    let (north, south) = (server.member("north").await, server.member("south").await);
    let waiting = north.run("a", "go").await;
    let run = str_field(&waiting, "runId");
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
        "administrators see all approvals"
    );
    server.post("realms", json!({ "name": "other" })).await.expect(201);
    server.in_realm("other").get(&format!("runs/{run}")).await.problem(404, "not-found");
    server.in_realm("other").decide(&waiting, 0, json!({ "decision": "approve" })).await.problem(404, "not-found");
    assert_eq!(server.in_realm("other").get("approvals").await.expect(200)["items"], json!([]));
    let response = server.decide(&waiting, 0, json!({ "decision": "approve" })).await.expect(200);
    assert_eq!(envelopes(&response)[0]["metadata"]["principal"], "north", "the call keeps the principal of the run");
}

async fn approvals_are_listed_in_the_order_of_their_requests(server: Server) {
    define_agent_with_approval(&server, json!([pay_call(5)])).await;
    let mut runs = Vec::new();
    for _ in 0..3 {
        runs.push(server.run("a", "go").await["runId"].clone());
    }
    let of =
        |page: &Value| page["items"].as_array().unwrap().iter().map(|one| one["runId"].clone()).collect::<Vec<_>>();
    let first = server.get("approvals?limit=2").await.expect(200);
    let rest = server.get(&format!("approvals?limit=2&cursor={}", str_field(&first, "nextCursor"))).await.expect(200);
    assert_eq!([of(&first), of(&rest)].concat(), runs);
    assert_eq!(rest["nextCursor"], Value::Null);
}
