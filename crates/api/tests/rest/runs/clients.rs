//! Tools of clients: what is handed to them, and what they give back.

use serde_json::{Value, json};

use super::{define_client, give, open, pay, results, text};
use crate::harness::{Server, calls_then, reasons, receipts, with};

crate::on_both_editions!(results_of_clients_are_taken_whole);
crate::on_sqlite!(
    a_hand_off_loses_nothing,
    results_of_clients_are_checked,
    results_are_taken_through_execute_too,
    approvals_and_clients_may_wait_together,
    a_person_may_be_asked_before_the_client,
    a_deep_result_of_a_client_is_kept
);

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
