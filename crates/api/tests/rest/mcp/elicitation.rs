//! Tests how MCP clients confirm calls through elicitation, in which the server requests input from the user.

use serde_json::{Value, json};

use super::{Client, Session};
use crate::harness::{Server, calls_then};

crate::on_sqlite!(
    call_that_requires_confirmation_fails_for_a_client_without_elicitation,
    confirmation_is_valid_for_one_call_and_one_use,
    confirmation_is_void_if_a_definition_behind_the_call_changes,
    client_of_an_older_protocol_revision_confirms_during_the_call,
    approvals_of_an_agent_run_are_requested_from_the_mcp_client,
    confirmation_is_requested_only_if_every_input_field_can_be_shown
);

async fn call_that_requires_confirmation_fails_for_a_client_without_elicitation(server: Server) {
    server.define_echo("t_careful", json!({ "requiresConfirmation": true })).await;
    let result = Client::new(&server).call("t_careful", json!({})).await;
    let error = &result["structuredContent"]["error"];
    assert_eq!(error["details"]["reason"], "confirmation_required", "{result}");
    assert!(error["message"].as_str().unwrap().contains("elicitation"), "{result}");
    // A direct call over REST is executed without confirmation.
    assert_eq!(server.call("t_careful", json!({ "a": 1 })).await["output"], json!({ "a": 1 }));
}

fn decision(decision: &str) -> Value {
    json!({ "action": "accept", "content": { "decision": decision } })
}

async fn confirmation_is_valid_for_one_call_and_one_use(server: Server) {
    server.define_echo("t_careful", json!({ "requiresConfirmation": true })).await;
    let client = Client::with_elicitation(&server);
    let requested = client.call("t_careful", json!({ "deal": 7 })).await;
    assert_eq!(requested["resultType"], "input_required", "{requested}");
    let question = requested["inputRequests"]["confirm"]["params"]["message"].as_str().unwrap();
    assert!(question.contains("t_careful") && question.contains("{\"deal\":7}"), "{question}");

    // The confirmation is valid neither for another input or another principal, nor with a forged state.
    let approve = json!({ "confirm": decision("approve") });
    let other = client.answer_elicitation("t_careful", json!({ "deal": 8 }), &requested, approve.clone()).await;
    assert_eq!(other["resultType"], "input_required");
    let ada = Client::with_elicitation(&server.member("ada").await);
    assert_eq!(
        ada.answer_elicitation("t_careful", json!({ "deal": 7 }), &requested, approve.clone()).await["resultType"],
        "input_required"
    );
    let forged = json!({ "requestState": "rs1.AAAA.AAAA" });
    assert_eq!(
        client.answer_elicitation("t_careful", json!({ "deal": 7 }), &forged, approve.clone()).await["resultType"],
        "input_required"
    );

    let done = client.answer_elicitation("t_careful", json!({ "deal": 7 }), &requested, approve.clone()).await;
    assert_eq!(done["structuredContent"], json!({ "deal": 7 }), "{done}");
    let again = client.answer_elicitation("t_careful", json!({ "deal": 7 }), &requested, approve).await;
    assert_eq!(again["resultType"], "input_required", "a consent was used twice");

    let deny = json!({ "confirm": { "action": "accept", "content": { "decision": "deny", "reason": "too early" } } });
    let denied = client.answer_elicitation("t_careful", json!({ "deal": 7 }), &again, deny).await;
    let error = &denied["structuredContent"]["error"];
    assert_eq!((&error["code"], &error["details"]["reason"]), (&json!("POLICY_DENIED"), &json!("approval_denied")));
    assert!(error["message"].as_str().unwrap().contains("too early"), "{denied}");
}

async fn confirmation_is_void_if_a_definition_behind_the_call_changes(server: Server) {
    server.define_echo("fallback", json!({})).await;
    let behind = json!({ "requiresConfirmation": true,
        "errorHandling": { "503": { "action": "fallback", "fallbackToolRef": "fallback" } } });
    server.define_echo("t_careful", behind).await;
    let approve = json!({ "confirm": decision("approve") });
    let client = Client::with_elicitation(&server);
    let requested = client.call("t_careful", json!({})).await;
    server.patch("tools/fallback", json!({ "description": "changed" })).await.expect(200);
    let asked_again = client.answer_elicitation("t_careful", json!({}), &requested, approve.clone()).await;
    assert_eq!(asked_again["resultType"], "input_required", "{asked_again}");
    let done = client.answer_elicitation("t_careful", json!({}), &asked_again, approve).await;
    assert_eq!(done["structuredContent"], json!({}), "{done}");

    let session = Session::initialize(&server, json!({ "elicitation": {} })).await;
    let mut stream = session.stream(1, "tools/call", json!({ "name": "t_careful", "arguments": {} })).await;
    let question = stream.wait_for(|message| message["method"] == "elicitation/create").await;
    server.patch("tools/fallback", json!({ "description": "changed again" })).await.expect(200);
    let answer = json!({ "jsonrpc": "2.0", "id": question["id"], "result": decision("approve") });
    assert_eq!(server.send(session.request(&answer)).await.status, 202);
    let reply = stream.wait_for(|message| message["id"] == 1 && message.get("result").is_some()).await;
    let error = &reply["result"]["structuredContent"]["error"];
    assert_eq!(error["details"]["reason"], "definition_changed", "{reply}");
}

async fn client_of_an_older_protocol_revision_confirms_during_the_call(server: Server) {
    server.define_echo("t_careful", json!({ "requiresConfirmation": true })).await;
    let session = Session::initialize(&server, json!({ "elicitation": {} })).await;
    for (choice, approved) in [("approve", true), ("deny", false)] {
        let mut stream =
            session.stream(1, "tools/call", json!({ "name": "t_careful", "arguments": { "a": choice } })).await;
        let question = stream.wait_for(|message| message["method"] == "elicitation/create").await;
        let answer = json!({ "jsonrpc": "2.0", "id": question["id"], "result": decision(choice) });
        assert_eq!(server.send(session.request(&answer)).await.status, 202);
        let reply = stream.wait_for(|message| message["id"] == 1 && message.get("result").is_some()).await;
        assert_eq!(reply["result"]["isError"], !approved, "{reply}");
    }
}

async fn approvals_of_an_agent_run_are_requested_from_the_mcp_client(server: Server) {
    server.define_echo("t_careful", json!({ "requiresConfirmation": true })).await;
    let rules = calls_then(json!([{ "name": "t_careful", "arguments": { "n": 1 } }]), "done");
    let more = json!({ "toolRefs": ["t_careful"], "availableAs": ["mcpTool"] });
    server.define_agent("t_agent", rules, more).await;
    let task = json!({ "task": "go" });

    let client = Client::with_elicitation(&server);
    let requested = client.call("t_agent", task.clone()).await;
    assert_eq!(requested["resultType"], "input_required", "{requested}");
    let call = requested["inputRequests"].as_object().unwrap().keys().next().unwrap().clone();
    let answers = json!({ call: decision("approve") });
    let done = client.answer_elicitation("t_agent", task.clone(), &requested, answers).await;
    assert_eq!(done["content"][0]["text"], "done", "{done}");
    let run = done["structuredContent"]["runId"].as_str().unwrap().to_owned();
    let seen = server.get(&format!("runs/{run}")).await.expect(200);
    assert_eq!(seen["status"], "COMPLETED", "{seen}");

    // If the client does not support elicitation, the run waits. The result of the call contains the run id and the
    // pending approvals.
    let waits = Client::new(&server).call("t_agent", task).await;
    assert_eq!(waits["structuredContent"]["status"], "AWAITING_APPROVAL", "{waits}");
    let run = waits["structuredContent"]["runId"].as_str().unwrap();
    let call = waits["structuredContent"]["approvals"][0].as_str().unwrap();
    server.post(&format!("runs/{run}/approvals/{call}"), json!({ "decision": "approve" })).await.expect(200);
    let read = client.result("resources/read", json!({ "uri": format!("toolwright://runs/{run}") })).await;
    let text: Value = serde_json::from_str(read["contents"][0]["text"].as_str().unwrap()).unwrap();
    assert_eq!(text["response"]["responseText"], "done");
}

async fn confirmation_is_requested_only_if_every_input_field_can_be_shown(server: Server) {
    server.define_echo("t_careful", json!({ "requiresConfirmation": true })).await;
    let client = Client::with_elicitation(&server);
    let long = "x".repeat(5_000);
    let requested =
        client.call("t_careful", json!({ "a": long, "in": { "b": long, "c": 1 }, "z": "delete all" })).await;
    let question = requested["inputRequests"]["confirm"]["params"]["message"].as_str().unwrap();
    assert!(question.contains("\"c\":1") && question.contains("\"z\":\"delete all\""), "{question}");
    assert_eq!(question.matches("(and 4800 more characters)").count(), 2, "{question}");

    // The server does not request a confirmation for an input that it cannot show.
    let many = json!({ "items": (0..1_000).collect::<Vec<_>>() });
    let error = client.call("t_careful", many.clone()).await["structuredContent"]["error"].clone();
    assert_eq!(error["details"]["reason"], "confirmation_required", "{error}");
    assert!(error["message"].as_str().unwrap().contains("1001 keys and list items"), "{error}");
    let rules = calls_then(json!([{ "name": "t_careful", "arguments": many }]), "done");
    server.define_agent("t_agent", rules, json!({ "toolRefs": ["t_careful"], "availableAs": ["mcpTool"] })).await;
    let waits = client.call("t_agent", json!({ "task": "go" })).await;
    assert_eq!(waits["structuredContent"]["status"], "AWAITING_APPROVAL", "{waits}");
}
