//! Tests the principal and the realm of an agent's calls, and the redaction of secrets.

use serde_json::{Value, json};
use toolwright_testkit::{Faults, LOOPBACK};

use crate::harness::{Server, calls_then, envelopes};

crate::on_sqlite!(
    agent_run_has_only_the_permissions_and_secrets_of_its_caller,
    agent_with_a_configured_principal_acts_as_that_principal,
    run_in_another_realm_is_rejected_unless_agent_and_caller_may_act_there,
    secret_is_redacted_in_all_responses_about_a_run
);

async fn agent_run_has_only_the_permissions_and_secrets_of_its_caller(server: Server) {
    let faults = Faults::builder().start(LOOPBACK).await.unwrap();
    let provider = json!({ "refName": "p", "baseUrl": faults.base_url(), "egressAllow": ["127.0.0.0/8"], "auth": { "authType": "bearer", "secretRef": "token" } });
    server.post("tool-providers", provider).await.expect(201);
    let tool = json!({ "refName": "upstream", "toolType": "EXTERNAL_REST", "providerRef": "p", "invocation": { "path": "/echo" } });
    server.post("tools", tool).await.expect(201);
    // The administrator defines the agent and stores this secret. Because of the scope `user`, only calls of the
    // administrator use the secret.
    server
        .post("secrets", json!({ "name": "token", "scope": "user", "value": "the-administrators-own" }))
        .await
        .expect(201);
    server
        .define_agent("a", calls_then(json!([{ "name": "upstream" }]), "Done."), json!({ "toolRefs": ["upstream"] }))
        .await;
    assert_eq!(envelopes(&server.run("a", "go").await)[0]["error"], Value::Null);
    let member = server.member("someone").await;
    let response = member.run("a", "go").await;
    let envelope = &envelopes(&response)[0];
    assert_eq!(envelope["error"]["code"], "AUTH_REQUIRED", "{envelope}");
    assert_eq!(envelope["metadata"]["principal"], "someone");
    // A member cannot act as another principal.
    for principal in ["admin", "nobody"] {
        member
            .execute_agent("a", json!({ "userMessage": "go", "principalId": principal }))
            .await
            .problem(403, "forbidden");
    }
    let own = member.execute_agent("a", json!({ "userMessage": "go", "principalId": "someone" })).await.expect(200);
    assert_eq!(envelopes(&own)[0]["metadata"]["principal"], "someone");
    // A principal of another realm cannot run the agent.
    server.post("realms", json!({ "name": "other" })).await.expect(201);
    let key = server.issue_key(json!({ "principal": "stranger", "realm": "other" })).await;
    let stranger = server.with_key(&key);
    stranger.execute_agent("a", json!({ "userMessage": "go" })).await.problem(404, "not-found");
    stranger.in_realm("default").execute_agent("a", json!({ "userMessage": "go" })).await.problem(403, "forbidden");
    // The default policies allow a member to run an agent that has a `securityUri`.
    server
        .define_agent("b", json!([{ "reply": { "text": "Hi." } }]), json!({ "securityUri": "ai://agents/b/execute" }))
        .await;
    assert_eq!(member.run("b", "go").await["responseText"], "Hi.");
    faults.shutdown().await;
}

async fn agent_with_a_configured_principal_acts_as_that_principal(server: Server) {
    server.define_echo("look", json!({})).await;
    server.member("robot").await;
    let rules = calls_then(json!([{ "name": "look" }]), "Done.");
    server.define_agent("a", rules.clone(), json!({ "toolRefs": ["look"], "principalRef": "robot" })).await;
    server.define_agent("b", rules.clone(), json!({ "toolRefs": ["look"] })).await;
    let member = server.member("someone").await;
    let response = member.run("a", "go").await;
    assert_eq!(envelopes(&response)[0]["metadata"]["principal"], "robot");
    // The member who started the run owns it, although the agent acts as `robot`.
    member.get(&format!("runs/{}", response["runId"].as_str().unwrap())).await.expect(200);
    // An administrator may choose the principal of a run in the request. A principal in the agent definition takes
    // precedence.
    for (agent, principal) in [("a", "robot"), ("b", "someone")] {
        let response =
            server.execute_agent(agent, json!({ "userMessage": "go", "principalId": "someone" })).await.expect(200);
        assert_eq!(envelopes(&response)[0]["metadata"]["principal"], principal, "{agent}");
    }
    server.define_agent("c", rules, json!({ "principalRef": "nobody" })).await;
    let problem = server.execute_agent("c", json!({ "userMessage": "go" })).await;
    assert_eq!(problem.status.as_u16() / 100, 4, "{}", problem.text);
}

async fn run_in_another_realm_is_rejected_unless_agent_and_caller_may_act_there(server: Server) {
    for realm in ["other", "third"] {
        server.post("realms", json!({ "name": realm })).await.expect(201);
    }
    server.define_echo("look", json!({})).await;
    server.in_realm("other").define_echo("look", json!({ "description": "there", "version": "2.0.0" })).await;
    let access =
        json!({ "toolRefs": ["look"], "allowedRealms": ["other"], "guardrails": [{ "type": "realm_boundary" }] });
    server.define_agent("a", calls_then(json!([{ "name": "look" }]), "Done."), access).await;
    let run = |server: Server, realm: &'static str| async move {
        server.execute_agent("a", json!({ "userMessage": "go", "realmId": realm })).await
    };
    assert_eq!(envelopes(&run(server.clone(), "default").await.expect(200))[0]["version"], "1.0.0");
    let response = run(server.clone(), "other").await.expect(200);
    assert_eq!(envelopes(&response)[0]["version"], "2.0.0", "the run uses the tools of the other realm: {response}");
    run(server.clone(), "third").await.problem(403, "forbidden");
    run(server.clone(), "nowhere").await.problem(403, "forbidden");
    let member = server.member("someone").await;
    run(member, "other").await.problem(403, "forbidden");
    // The run is stored in the realm of the request, not in the realm whose tools it used.
    let path = format!("runs/{}", response["runId"].as_str().unwrap());
    server.get(&path).await.expect(200);
    server.in_realm("other").get(&path).await.problem(404, "not-found");
}

async fn secret_is_redacted_in_all_responses_about_a_run(server: Server) {
    const CANARY: &str = "CANARY-5f3a9c/1d+7e";
    let faults = Faults::builder().start(LOOPBACK).await.unwrap();
    let provider = json!({ "refName": "p", "baseUrl": faults.base_url(), "egressAllow": ["127.0.0.0/8"], "auth": { "authType": "bearer", "secretRef": "token" } });
    server.post("tool-providers", provider).await.expect(201);
    server.post("secrets", json!({ "name": "token", "value": CANARY })).await.expect(201);
    for (name, path) in [("mirror", "/echo"), ("fails", "/status/500")] {
        let tool = json!({ "refName": name, "toolType": "EXTERNAL_REST", "providerRef": "p", "requiresConfirmation": name == "mirror", "invocation": { "path": path }, "defaultRetryCount": 0 });
        server.post("tools", tool).await.expect(201);
    }
    let calls = json!([{ "name": "mirror" }, { "name": "fails" }]);
    let agent = json!({ "toolRefs": ["mirror", "fails"], "pins": [{ "name": "p", "selector": { "tool": "mirror" } }] });
    server.define_agent("a", calls_then(calls, "I got {{result}}"), agent).await;
    let waiting = server.run("a", "go").await;
    let response = server.decide(&waiting, 0, json!({ "decision": "approve" })).await;
    let body = response.text.clone();
    let response = response.expect(200);
    assert_eq!(response["status"], "COMPLETED", "{response}");
    let mirrored = &envelopes(&response)[0]["output"]["headers"]["authorization"];
    assert!(
        envelopes(&response)
            .iter()
            .any(|envelope| envelope["output"]["headers"]["authorization"] == "Bearer [redacted]"),
        "the secret was used: {mirrored}"
    );
    let run = response["runId"].as_str().unwrap();
    let conversation = response["conversationId"].as_str().unwrap();
    let mut seen = vec![("response", body)];
    for (what, path) in [
        ("run", format!("runs/{run}")),
        ("stream", format!("runs/{run}/events")),
        ("conversation", format!("conversations/{conversation}")),
        ("runs", "runs".into()),
        ("agent", "agents/a".into()),
    ] {
        seen.push((what, server.get(&path).await.text));
    }
    for (what, text) in seen {
        assert!(!text.contains("CANARY") && !text.contains("5f3a9c"), "{what}: {text}");
    }
    faults.shutdown().await;
}
