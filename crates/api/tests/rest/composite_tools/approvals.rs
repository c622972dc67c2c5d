//! Tests what a call to a composite tool may do: approvals, permissions, and the rules of the calling agent.

use serde_json::{Value, json};
use toolwright_testkit::{Faults, LOOPBACK};

use super::{ROOT, deals, define_confirmed, define_deals, ended, invoke, reason};
use crate::harness::{Deployment, Server, Storage, calls_then, envelopes, error_reasons};

crate::on_both_databases!(
    operation_that_requires_confirmation_waits_for_an_approval,
    write_is_sent_once_after_its_approval
);
crate::on_sqlite!(
    rules_of_the_calling_agent_apply_to_the_operation,
    tool_that_only_reads_cannot_write_through_a_composite_tool,
    operation_can_be_a_client_tool_or_an_agent
);

async fn operation_that_requires_confirmation_waits_for_an_approval(server: Server) {
    define_confirmed(&server, "pay").await;
    for (decision, outcome) in [
        (json!({ "decision": "approve" }), Ok(json!({ "amount": 5 }))),
        (json!({ "decision": "edit", "input": { "amount": 4 } }), Ok(json!({ "amount": 4 }))),
        (json!({ "decision": "deny", "reason": "too much" }), Err("approval_denied")),
    ] {
        let response = invoke(&server, "money", json!({ "amount": 5 })).await;
        let run = response.headers["x-run-id"].to_str().unwrap().to_owned();
        let waiting = response.expect(202);
        assert_eq!((&waiting["status"], &waiting["meta"]["operation"]), (&json!("AWAITING_APPROVAL"), &json!("pay")));
        let approval = &waiting["approvals"][0];
        assert_eq!((&waiting["meta"]["executionId"], &waiting["success"]), (&approval["runId"], &json!(false)));
        assert_eq!((&approval["toolRef"], &approval["input"]), (&json!("pay"), &json!({ "amount": 5 })), "{waiting}");
        assert_eq!((&approval["agentRef"], &approval["rootRunId"]), (&json!("money"), &json!(run)));
        assert_eq!(server.get("approvals").await.expect(200)["items"], json!([approval]));
        let execution = server.decide(&waiting, 0, decision.clone()).await.expect(200);
        assert_eq!(execution["runId"], waiting["meta"]["executionId"]);
        let done = ended(&server, &json!(run)).await;
        let envelope = &envelopes(&done)[0];
        match outcome {
            Ok(output) => assert_eq!((&envelope["output"], &envelope["error"]), (&output, &Value::Null), "{decision}"),
            Err(expected) => {
                assert_eq!((&envelope["error"]["code"], reason(envelope)), (&json!("POLICY_DENIED"), &json!(expected)));
                assert_eq!(envelope["error"]["details"]["operation"], "pay", "{envelope}");
            }
        }
    }
    // The route that calls tools of any type behaves in the same way.
    let waiting = server.post("tools/money/execute", json!({ "input": { "amount": 1 } })).await.expect(202);
    assert_eq!((&waiting["status"], &waiting["clientActions"]), (&json!("AWAITING_APPROVAL"), &json!([])), "{waiting}");
    assert_eq!(waiting["waitingChildRuns"][0]["runId"], waiting["approvals"][0]["runId"]);
    server.decide(&waiting, 0, json!({ "decision": "approve" })).await.expect(200);
    assert_eq!(envelopes(&ended(&server, &waiting["runId"]).await)[0]["output"], json!({ "amount": 1 }));
}

async fn write_is_sent_once_after_its_approval(server: Server) {
    let faults = Faults::builder().start(LOOPBACK).await.unwrap();
    let write = json!({ "sideEffects": "writes", "requiresConfirmation": true, "defaultRetryCount": 3, "invocation": { "method": "POST", "path": "/echo" } });
    server.define_http_tool("send", &faults.base_url(), "/echo", write).await;
    let operations = json!([{ "operationSlug": "send", "actionSlug": "send" }]);
    let definition = json!({ "slug": "mail", "name": "Mail", "routingMode": "rule_based", "operations": operations, "defaultOperationId": "send" });
    server.post(ROOT, definition).await.expect(201);
    let waiting = invoke(&server, "mail", json!({ "n": 1 })).await.expect(202);
    assert_eq!(faults.hits("/echo"), 0, "nothing is sent before the approval");
    server.decide(&waiting, 0, json!({ "decision": "approve" })).await.expect(200);
    let done = ended(&server, &waiting["approvals"][0]["rootRunId"]).await;
    assert_eq!(error_reasons(&done), [Value::Null], "{done}");
    assert_eq!(faults.hits("/echo"), 1);
    let effects = server.get("effects").await.expect(200);
    let effects = effects["items"].as_array().unwrap();
    assert_eq!(effects.len(), 1, "the write is an effect of the operation only: {effects:?}");
    assert_eq!((&effects[0]["toolRef"], &effects[0]["outcome"]), (&json!("send"), &json!("done")));
    assert_eq!(effects[0]["runId"], waiting["approvals"][0]["runId"]);
    let bundle = server.get(&format!("runs/{}/export", effects[0]["runId"].as_str().unwrap())).await.text;
    assert!(bundle.contains(r#"\"type\":\"intended\""#), "{bundle}");
    faults.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn waiting_call_survives_a_restart_of_the_server() {
    let deployment = Deployment::new(Storage::Sqlite).await;
    let (server, running) = deployment.start().await;
    define_confirmed(&server, "pay").await;
    let waiting = invoke(&server, "money", json!({ "amount": 5 })).await.expect(202);
    running.stop().await;
    let (server, running) = deployment.start().await;
    server.decide(&waiting, 0, json!({ "decision": "approve" })).await.expect(200);
    let done = ended(&server, &waiting["approvals"][0]["rootRunId"]).await;
    assert_eq!(envelopes(&done)[0]["output"], json!({ "amount": 5 }), "{done}");
    assert_eq!(server.get("effects").await.expect(200)["items"].as_array().unwrap().len(), 1);
    running.stop().await;
    deployment.remove().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn caller_needs_the_permission_to_call_the_operation() {
    let policy = r#"forbid (principal in Role::"member", action == Action::"execute", resource is Tool) when { resource.name == "crm/create" };"#;
    let deployment = Deployment::new(Storage::Sqlite).await;
    let (server, running) = deployment.start_with(|options| options.policies = policy.to_owned()).await;
    define_deals(&server, json!({})).await;
    let member = server.member("someone").await;
    let found = invoke(&member, "deals", json!({ "q": "find" })).await.expect(200);
    assert_eq!(found["success"], true, "{found}");
    let denied = invoke(&member, "deals", json!({ "q": "create" })).await.expect(200);
    assert_eq!(
        (&denied["error"]["code"], reason(&denied)),
        (&json!("POLICY_DENIED"), &json!("permission")),
        "{denied}"
    );
    assert_eq!(denied["error"]["details"]["operation"], "create");
    assert_eq!(server.get("effects").await.expect(200)["items"], json!([]));
    // A principal without any permission cannot call the composite tool itself.
    let guest = server.with_key(&server.issue_key(json!({ "principal": "guest", "roles": [] })).await);
    let denied = invoke(&guest, "deals", json!({ "q": "find" })).await.expect(200);
    assert_eq!((reason(&denied), &denied["meta"]["operation"]), (&json!("permission"), &Value::Null), "{denied}");
    guest.post(&format!("{ROOT}/deals/route"), json!({ "params": {} })).await.problem(403, "forbidden");
    guest.post(ROOT, deals(json!({ "slug": "own" }))).await.problem(403, "forbidden");
    running.stop().await;
    deployment.remove().await;
}

async fn rules_of_the_calling_agent_apply_to_the_operation(server: Server) {
    define_deals(&server, json!({})).await;
    let create = calls_then(json!([{ "name": "deals", "arguments": { "q": "create" } }]), "Done.");
    // A read-only agent is not offered a tool that may write. If it calls the tool anyway, its operation may only read.
    let read_only = json!({ "toolRefs": ["deals"], "policy": { "sideEffects": "reads" } });
    server.define_agent("reader", create.clone(), read_only).await;
    let envelope = envelopes(&server.run("reader", "go").await).remove(0);
    assert_eq!(
        (reason(&envelope), &envelope["error"]["details"]["operation"]),
        (&json!("side_effects"), &json!("create"))
    );
    let find = calls_then(json!([{ "name": "deals", "arguments": { "q": "find" } }]), "Done.");
    server.define_agent("finder", find, json!({ "toolRefs": ["deals"], "policy": { "sideEffects": "reads" } })).await;
    assert_eq!(error_reasons(&server.run("finder", "go").await), [Value::Null]);
    let filter = json!({ "type": "content_filter", "parameters": { "words": ["composite"] } });
    server.define_agent("filtered", create.clone(), json!({ "toolRefs": ["deals"], "guardrails": [filter] })).await;
    let envelope = envelopes(&server.run("filtered", "go").await).remove(0);
    assert_eq!(reason(&envelope), "content_filter", "{envelope}");
    // An agent whose writes need approval asks once: for the operation.
    server.define_agent("careful", create, json!({ "toolRefs": ["deals"], "requiresApproval": true })).await;
    let waiting = server.run("careful", "go").await;
    let approvals = waiting["approvals"].as_array().unwrap();
    assert_eq!(approvals.len(), 1, "{waiting}");
    assert_eq!((&approvals[0]["toolRef"], &approvals[0]["triggers"]), (&json!("crm/create"), &json!(["agent"])));
    server.decide(&waiting, 0, json!({ "decision": "approve" })).await.expect(200);
    let done = ended(&server, &waiting["runId"]).await;
    assert_eq!((&done["responseText"], error_reasons(&done)), (&json!("Done."), vec![Value::Null]), "{done}");
    // A composite tool with `sideEffects: reads` cannot write.
    server.patch("tools/deals", json!({ "sideEffects": "reads" })).await.expect(200);
    let refused = invoke(&server, "deals", json!({ "q": "create" })).await.expect(200);
    assert_eq!(reason(&refused), "side_effects", "{refused}");
}

async fn tool_that_only_reads_cannot_write_through_a_composite_tool(server: Server) {
    let faults = Faults::builder().start(LOOPBACK).await.unwrap();
    define_deals(&server, json!({})).await;
    let fallback = json!({ "404": { "action": "fallback", "fallbackToolRef": "deals" } });
    for effects in ["reads", "writes"] {
        let more = json!({ "sideEffects": effects, "errorHandling": fallback });
        server.define_http_tool(effects, &faults.base_url(), "/status/404", more).await;
    }
    let refused = server.call("reads", json!({ "q": "create" })).await;
    let why = refused["error"]["details"]["fallback"].as_str().unwrap();
    assert!(why.contains("its caller `reads` does not declare `sideEffects: writes`"), "{refused}");
    assert_eq!(server.get("effects?toolRef=crm%2Fcreate").await.expect(200)["items"], json!([]));
    let sent = server.call("writes", json!({ "q": "create" })).await;
    assert_eq!(sent["output"], json!({ "title": "create", "source": "composite" }), "{sent}");
    faults.shutdown().await;
}

async fn operation_can_be_a_client_tool_or_an_agent(server: Server) {
    let client = json!({ "isToolFullyExecutedOnServer": false, "outputJsonSchema": { "type": "object" } });
    server.define_echo("open", client).await;
    server.define_agent("helper", json!([{ "reply": { "text": "Hello." } }]), json!({})).await;
    let agent =
        json!({ "refName": "ask", "toolType": "AGENT", "description": "Asks.", "invocation": { "path": "helper" } });
    server.post("tools", agent).await.expect(201);
    let operations =
        json!([{ "operationSlug": "open", "actionSlug": "open" }, { "operationSlug": "ask", "actionSlug": "ask" }]);
    let definition = json!({ "slug": "desk", "description": "Opens and asks.", "routingMode": "agent_driven", "operations": operations });
    server.post(ROOT, definition).await.expect(201);
    let waiting = invoke(&server, "desk", json!({ "operation": "open", "path": "a.rs" })).await.expect(202);
    assert_eq!((&waiting["status"], &waiting["data"]), (&json!("AWAITING_CLIENT"), &Value::Null), "{waiting}");
    let action = &waiting["clientActions"][0];
    assert_eq!((&action["toolRef"], &action["preparedPayload"]), (&json!("open"), &json!({ "path": "a.rs" })));
    let execution = waiting["meta"]["executionId"].as_str().unwrap();
    let results = json!({ "results": [{ "callId": action["callId"], "output": { "opened": true } }] });
    server.post(&format!("runs/{execution}/tool-results"), results).await.expect(200);
    let done = ended(&server, &waiting["meta"]["executionId"]).await;
    assert_eq!(envelopes(&done)[0]["output"], json!({ "opened": true }), "{done}");
    let asked = invoke(&server, "desk", json!({ "operation": "ask", "task": "Hi" })).await.expect(200);
    assert_eq!(asked["data"]["responseText"], "Hello.", "{asked}");
}
