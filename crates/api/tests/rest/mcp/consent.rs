//! Who is asked before a call is made, and what an answer is good for.

use serde_json::{Value, json};

use super::{Client, Session};
use crate::harness::{Server, calls_then};

crate::on_sqlite!(
    a_tool_that_asks_first_is_refused_where_nobody_can_be_asked,
    a_consent_is_for_one_call_and_good_once,
    an_older_client_is_asked_while_it_waits,
    what_an_agent_asks_goes_to_the_client
);

async fn a_tool_that_asks_first_is_refused_where_nobody_can_be_asked(server: Server) {
    server.define_echo("t_careful", json!({ "requiresConfirmation": true })).await;
    let result = Client::of(&server).call("t_careful", json!({})).await;
    let error = &result["structuredContent"]["error"];
    assert_eq!(error["details"]["reason"], "confirmation_required", "{result}");
    assert!(error["message"].as_str().unwrap().contains("elicitation"), "{result}");
    // Calling over REST is agreeing.
    assert_eq!(server.call("t_careful", json!({ "a": 1 })).await["output"], json!({ "a": 1 }));
}

fn decision(decision: &str) -> Value {
    json!({ "action": "accept", "content": { "decision": decision } })
}

async fn a_consent_is_for_one_call_and_good_once(server: Server) {
    server.define_echo("t_careful", json!({ "requiresConfirmation": true })).await;
    let client = Client::that_asks(&server);
    let asked = client.call("t_careful", json!({ "deal": 7 })).await;
    assert_eq!(asked["resultType"], "input_required", "{asked}");
    let question = asked["inputRequests"]["confirm"]["params"]["message"].as_str().unwrap();
    assert!(question.contains("t_careful") && question.contains("{\"deal\":7}"), "{question}");

    // Another input, another principal, another state: asked again each time.
    let approve = json!({ "confirm": decision("approve") });
    let other = client.answer("t_careful", json!({ "deal": 8 }), &asked, approve.clone()).await;
    assert_eq!(other["resultType"], "input_required");
    let ada = Client::that_asks(&server.member("ada").await);
    assert_eq!(
        ada.answer("t_careful", json!({ "deal": 7 }), &asked, approve.clone()).await["resultType"],
        "input_required"
    );
    let forged = json!({ "requestState": "rs1.AAAA.AAAA" });
    assert_eq!(
        client.answer("t_careful", json!({ "deal": 7 }), &forged, approve.clone()).await["resultType"],
        "input_required"
    );

    let done = client.answer("t_careful", json!({ "deal": 7 }), &asked, approve.clone()).await;
    assert_eq!(done["structuredContent"], json!({ "deal": 7 }), "{done}");
    let again = client.answer("t_careful", json!({ "deal": 7 }), &asked, approve).await;
    assert_eq!(again["resultType"], "input_required", "a consent was used twice");

    let deny = json!({ "confirm": { "action": "accept", "content": { "decision": "deny", "reason": "too early" } } });
    let denied = client.answer("t_careful", json!({ "deal": 7 }), &again, deny).await;
    let error = &denied["structuredContent"]["error"];
    assert_eq!((&error["code"], &error["details"]["reason"]), (&json!("POLICY_DENIED"), &json!("approval_denied")));
    assert!(error["message"].as_str().unwrap().contains("too early"), "{denied}");
}

async fn an_older_client_is_asked_while_it_waits(server: Server) {
    server.define_echo("t_careful", json!({ "requiresConfirmation": true })).await;
    let session = Session::begin(&server, json!({ "elicitation": {} })).await;
    for (said, approved) in [("approve", true), ("deny", false)] {
        let mut stream =
            session.stream(1, "tools/call", json!({ "name": "t_careful", "arguments": { "a": said } })).await;
        let question = stream.until(|message| message["method"] == "elicitation/create").await;
        let answer = json!({ "jsonrpc": "2.0", "id": question["id"], "result": decision(said) });
        assert_eq!(server.send(session.request(&answer)).await.status, 202);
        let reply = stream.until(|message| message["id"] == 1 && message.get("result").is_some()).await;
        assert_eq!(reply["result"]["isError"], !approved, "{reply}");
    }
}

async fn what_an_agent_asks_goes_to_the_client(server: Server) {
    server.define_echo("t_careful", json!({ "requiresConfirmation": true })).await;
    let rules = calls_then(json!([{ "name": "t_careful", "arguments": { "n": 1 } }]), "done");
    let more = json!({ "toolRefs": ["t_careful"], "availableAs": ["mcpTool"] });
    server.define_agent("t_agent", rules, more).await;
    let task = json!({ "task": "go" });

    let client = Client::that_asks(&server);
    let asked = client.call("t_agent", task.clone()).await;
    assert_eq!(asked["resultType"], "input_required", "{asked}");
    let call = asked["inputRequests"].as_object().unwrap().keys().next().unwrap().clone();
    let answers = json!({ call: decision("approve") });
    let done = client.answer("t_agent", task.clone(), &asked, answers).await;
    assert_eq!(done["content"][0]["text"], "done", "{done}");
    let run = done["structuredContent"]["runId"].as_str().unwrap().to_owned();
    let seen = server.get(&format!("runs/{run}")).await.expect(200);
    assert_eq!(seen["status"], "COMPLETED", "{seen}");

    // Nobody to ask: the run waits, and says where it can be answered.
    let waits = Client::of(&server).call("t_agent", task).await;
    assert_eq!(waits["structuredContent"]["status"], "AWAITING_APPROVAL", "{waits}");
    let run = waits["structuredContent"]["runId"].as_str().unwrap();
    let call = waits["structuredContent"]["approvals"][0].as_str().unwrap();
    server.post(&format!("runs/{run}/approvals/{call}"), json!({ "decision": "approve" })).await.expect(200);
    let read = client.result("resources/read", json!({ "uri": format!("toolwright://runs/{run}") })).await;
    let text: Value = serde_json::from_str(read["contents"][0]["text"].as_str().unwrap()).unwrap();
    assert_eq!(text["response"]["responseText"], "done");
}
