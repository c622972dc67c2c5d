//! Tests client tools: client actions and the results that clients return.

use serde_json::{Value, json};

use super::{client_results, define_client_agent, open_call, pay_call, return_results, str_field};
use crate::harness::{Server, calls_then, envelopes, error_reasons, merge};

crate::on_both_databases!(client_results_are_accepted_all_or_none);
crate::on_sqlite!(
    server_calls_complete_while_a_client_call_waits,
    invalid_or_failed_client_result_is_reported_to_the_model,
    client_results_can_be_sent_to_the_execute_route,
    run_can_wait_for_an_approval_and_a_client_at_once,
    client_tool_that_requires_confirmation_waits_for_approval_first,
    deeply_nested_client_result_is_kept_unchanged_or_as_json_text
);

async fn client_results_are_accepted_all_or_none(server: Server) {
    define_client_agent(&server, json!([open_call("a.rs"), open_call("b.rs")])).await;
    let waiting = server.run("a", "go").await;
    assert_eq!(waiting["status"], "AWAITING_CLIENT");
    let action = &waiting["clientActions"][0];
    assert_eq!((&action["toolRef"], &action["preparedPayload"]), (&json!("open"), &json!({ "open": "a.rs" })));
    assert_eq!(action["schema"]["required"], json!(["lines"]));
    assert!(!str_field(action, "token").is_empty() && str_field(action, "expiresAt") > "2");
    let (known, unknown) = (action["callId"].clone(), json!("call_aaaaaaaaaaaaaaaaaaaaaaaaaa"));
    let one = |id: &Value| json!({ "callId": id, "output": { "lines": 1 } });
    // If one result in a request is invalid, the server accepts none of the results.
    for (returned, status, code) in [
        (json!({ "results": [one(&known), one(&unknown)] }), 409, "not-waiting"),
        (json!({ "results": [one(&known), one(&known)] }), 409, "not-waiting"),
        (json!({ "results": [] }), 400, "invalid-request"),
        (json!({}), 400, "invalid-request"),
        (json!({ "results": [{ "callId": known }] }), 400, "invalid-request"),
        (json!({ "results": [{ "callId": known, "output": 1, "error": "x" }] }), 400, "invalid-request"),
        (json!({ "results": [{ "output": 1 }] }), 400, "invalid-request"),
    ] {
        return_results(&server, &waiting, returned.clone()).await.problem(status, code);
        let still = server.get(&format!("runs/{}", str_field(&waiting, "runId"))).await.expect(200);
        assert_eq!(still["clientActions"], waiting["clientActions"], "{returned}");
    }
    // The client can return its results in several requests.
    let partial =
        return_results(&server, &waiting, client_results(&waiting, &[json!({ "lines": 1 })])).await.expect(200);
    assert_eq!(
        (&partial["status"], partial["clientActions"].as_array().unwrap().len()),
        (&json!("AWAITING_CLIENT"), 1)
    );
    return_results(&server, &waiting, client_results(&waiting, &[json!({ "lines": 1 })]))
        .await
        .problem(409, "not-waiting");
    let response =
        return_results(&server, &partial, client_results(&partial, &[json!({ "lines": 2 })])).await.expect(200);
    assert_eq!((&response["status"], &response["responseText"]), (&json!("COMPLETED"), &json!(r#"Told: {"lines":2}"#)));
    for (envelope, lines) in envelopes(&response).iter().zip([1, 2]) {
        assert_eq!(
            (&envelope["output"], &envelope["metadata"]["execution_site"]),
            (&json!({ "lines": lines }), &json!("client"))
        );
    }
    return_results(&server, &response, client_results(&waiting, &[json!({ "lines": 1 })]))
        .await
        .problem(409, "run-ended");
}

async fn server_calls_complete_while_a_client_call_waits(server: Server) {
    let calls = json!([{ "name": "look", "arguments": { "n": 1 } }, open_call("a.rs"), { "name": "nothing" }, { "name": "look", "arguments": { "n": 2 } }, { "name": "open", "arguments": {} }]);
    define_client_agent(&server, calls).await;
    let waiting = server.run("a", "go").await;
    assert_eq!(waiting["status"], "AWAITING_CLIENT");
    assert_eq!(envelopes(&waiting).len(), 4, "the calls of the server are complete: {waiting}");
    let calls = waiting["toolCalls"].as_array().unwrap();
    let handed_off: Vec<&Value> = calls.iter().filter(|call| call["requiresClientExecution"] == true).collect();
    assert_eq!((calls.len(), handed_off.len()), (5, 1));
    assert_eq!(
        (&handed_off[0]["callId"], &handed_off[0]["preparedPayload"]),
        (&waiting["clientActions"][0]["callId"], &json!({ "open": "a.rs" }))
    );
    assert_eq!(handed_off[0]["wasExecuted"], true, "the server has executed its part");
    let response =
        return_results(&server, &waiting, client_results(&waiting, &[json!({ "lines": 3 })])).await.expect(200);
    assert_eq!(response["status"], "COMPLETED", "{response}");
    for envelope in envelopes(&waiting) {
        assert_eq!(
            response["outputs"]["tools_by_id"][str_field(&envelope, "call_id")],
            envelope,
            "earlier envelopes are unchanged"
        );
    }
    assert_eq!(envelopes(&response).len(), 5);
    // The reply contains the last result that the model received. It is the error of the last call, because results
    // keep the order of the calls.
    assert!(str_field(&response, "responseText").contains("VALIDATION_ERROR"), "{response}");
}

async fn invalid_or_failed_client_result_is_reported_to_the_model(server: Server) {
    define_client_agent(&server, json!([open_call("a.rs")])).await;
    for (result, reason, message) in [
        (json!({ "output": { "lines": "many" } }), "output_schema", "/lines"),
        (json!({ "output": null }), "output_schema", ""),
        (json!({ "output": 7 }), "output_schema", ""),
        (json!({ "error": "no such file" }), "client_error", "no such file"),
        (json!({ "error": { "message": "no such file" } }), "client_error", "no such file"),
    ] {
        let waiting = server.run("a", "go").await;
        let returned = merge(json!({ "callId": waiting["clientActions"][0]["callId"] }), result.clone());
        let response = return_results(&server, &waiting, json!({ "results": [returned] })).await.expect(200);
        assert_eq!(response["status"], "COMPLETED", "{result}: {response}");
        let envelope = &envelopes(&response)[0];
        assert_eq!(
            (&envelope["error"]["code"], &envelope["error"]["details"]["reason"]),
            (&json!("PROVIDER_ERROR"), &json!(reason)),
            "{result}"
        );
        assert!(str_field(&envelope["error"], "message").contains(message), "{envelope}");
        assert_eq!(envelope["output"], Value::Null, "{result}");
        assert!(
            str_field(&response, "responseText").contains(reason),
            "the error is reported to the model: {response}"
        );
    }
}

async fn client_results_can_be_sent_to_the_execute_route(server: Server) {
    define_client_agent(&server, json!([open_call("a.rs")])).await;
    let (north, south) = (server.member("north").await, server.member("south").await);
    let waiting = north.run("a", "go").await;
    let conversation = &waiting["conversationId"];
    north.continue_conversation("a", conversation, "are you there?").await.problem(409, "conversation-busy");
    let body = |id: &str| json!({ "conversationId": conversation, "toolResults": [{ id: waiting["clientActions"][0]["callId"], "output": { "lines": 4 } }] });
    south.execute_agent("a", body("callId")).await.problem(404, "not-found");
    north.post("agents/a/execute/stream", body("callId")).await.problem(400, "invalid-request");
    let response = north.execute_agent("a", body("toolCallId")).await.expect(200);
    assert_eq!((&response["runId"], &response["status"]), (&waiting["runId"], &json!("COMPLETED")));
    assert_eq!(response["conversationId"], *conversation);
    north.execute_agent("a", body("callId")).await.problem(409, "not-waiting");
}

async fn run_can_wait_for_an_approval_and_a_client_at_once(server: Server) {
    define_client_agent(&server, json!([pay_call(1), open_call("a.rs")])).await;
    let waiting = server.run("a", "go").await;
    assert_eq!(waiting["status"], "AWAITING_APPROVAL");
    assert_eq!(
        (waiting["approvals"].as_array().unwrap().len(), waiting["clientActions"].as_array().unwrap().len()),
        (1, 1)
    );
    // A client result for a call that waits for an approval is rejected. So is a decision on a call that waits for the
    // client.
    let invalid = json!({ "results": [{ "callId": waiting["approvals"][0]["callId"], "output": {} }] });
    return_results(&server, &waiting, invalid).await.problem(409, "not-waiting");
    let call = str_field(&waiting["clientActions"][0], "callId");
    let path = format!("runs/{}/approvals/{call}", str_field(&waiting, "runId"));
    server.post(&path, json!({ "decision": "approve" })).await.problem(409, "not-waiting");
    let approved = server.decide(&waiting, 0, json!({ "decision": "approve" })).await.expect(200);
    assert_eq!((&approved["status"], &approved["approvals"]), (&json!("AWAITING_CLIENT"), &json!([])));
    let response =
        return_results(&server, &approved, client_results(&approved, &[json!({ "lines": 1 })])).await.expect(200);
    assert_eq!((&response["status"], error_reasons(&response)), (&json!("COMPLETED"), vec![Value::Null; 2]));
}

async fn client_tool_that_requires_confirmation_waits_for_approval_first(server: Server) {
    define_client_agent(&server, json!([open_call("a.rs")])).await;
    server.patch("tools/open", json!({ "requiresConfirmation": true })).await.expect(200);
    let waiting = server.run("a", "go").await;
    assert_eq!((&waiting["status"], &waiting["clientActions"]), (&json!("AWAITING_APPROVAL"), &json!([])));
    let decision = json!({ "decision": "edit", "input": { "path": "b.rs" } });
    let handed_off = server.decide(&waiting, 0, decision).await.expect(200);
    assert_eq!(handed_off["status"], "AWAITING_CLIENT", "{handed_off}");
    assert_eq!(handed_off["clientActions"][0]["preparedPayload"], json!({ "open": "b.rs" }));
    let response =
        return_results(&server, &handed_off, client_results(&handed_off, &[json!({ "lines": 1 })])).await.expect(200);
    let envelope = &envelopes(&response)[0];
    assert_eq!(
        (&envelope["output"], &envelope["metadata"]["edited_from"]),
        (&json!({ "lines": 1 }), &waiting["approvals"][0]["callId"])
    );
}

async fn deeply_nested_client_result_is_kept_unchanged_or_as_json_text(server: Server) {
    server.define_echo("open", json!({ "isToolFullyExecutedOnServer": false })).await;
    server.define_agent("a", calls_then(json!([{ "name": "open" }]), "Done."), json!({ "toolRefs": ["open"] })).await;
    for levels in [1, 64, 65, 120] {
        let waiting = server.run("a", "go").await;
        let deep = (0..levels).fold(json!(1), |inner, _| json!([inner]));
        let response =
            return_results(&server, &waiting, client_results(&waiting, std::slice::from_ref(&deep))).await.expect(200);
        let output = &envelopes(&response)[0]["output"];
        assert!(
            *output == deep || *output == json!(deep.to_string()),
            "{levels}: expected the value or its text: {output}"
        );
        server.get(&format!("runs/{}", str_field(&waiting, "runId"))).await.expect(200);
    }
}
