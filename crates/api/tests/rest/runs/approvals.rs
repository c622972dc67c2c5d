//! Approvals: given, denied, edited, once, by whom.

use futures::future::join_all;
use serde_json::{Value, json};
use toolwright_testkit::{Faults, LOOPBACK};

use super::{define_asking, pay, text};
use crate::harness::{Server, calls_then, reasons, receipts};

crate::on_both_editions!(
    an_approved_call_is_made,
    a_denied_call_is_not_made_and_the_model_is_told_why,
    an_edited_call_is_another_call,
    a_decision_counts_once,
    only_the_owner_and_administrators_see_and_steer_a_run
);
crate::on_sqlite!(
    wrong_decisions_are_refused,
    an_approval_binds_the_definition_it_was_given_for,
    what_an_edit_makes_is_checked_again,
    other_calls_go_on_while_one_waits_for_a_person,
    one_of_many_who_decide_at_once_is_heard,
    approvals_are_paged_in_the_order_they_were_asked_for
);

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
