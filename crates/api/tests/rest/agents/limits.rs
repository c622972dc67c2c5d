//! Tests the limits, guardrails, approval rules and cost of a run.

use serde_json::{Value, json};
use toolwright_testkit::{Faults, LOOPBACK};

use crate::harness::{Server, calls_then, envelopes, error_reasons, merge, openai_model, with_model_mock};

crate::on_sqlite!(
    run_over_a_limit_ends_and_returns_its_partial_answer,
    agent_call_limit_is_capped_at_50_calls,
    run_over_its_timeout_is_stopped,
    call_that_violates_a_guardrail_is_denied,
    calls_with_more_side_effects_than_allowed_are_denied,
    approval_lists_the_rules_that_require_it
);

/// Returns the rules of a model that makes one call in every reply, each time with other arguments.
fn endless_calls() -> Value {
    json!([{ "reply": { "text": "On it.", "toolCalls": [{ "name": "look", "arguments": { "n": "{{result/n}}x" } }], "usage": { "inputTokens": 60, "outputTokens": 40 } } }])
}

async fn run_over_a_limit_ends_and_returns_its_partial_answer(server: Server) {
    server.define_echo("look", json!({ "price": { "perCallUsd": 0.01 } })).await;
    for (name, limits, status, reason, iterations, calls) in [
        ("turns", json!({ "executionConfig": { "maxIterations": 3 } }), "MAX_ITERATIONS", "MAX_STEPS_EXCEEDED", 3, 3),
        (
            "one_turn",
            json!({ "executionConfig": { "maxIterations": 1 } }),
            "MAX_ITERATIONS",
            "MAX_STEPS_EXCEEDED",
            1,
            1,
        ),
        ("default", json!({}), "MAX_ITERATIONS", "MAX_STEPS_EXCEEDED", 10, 10),
        ("calls", json!({ "policy": { "maxToolCalls": 2 } }), "BUDGET_EXCEEDED", "MAX_TOOL_CALLS_EXCEEDED", 3, 2),
        ("no_calls", json!({ "policy": { "maxToolCalls": 0 } }), "BUDGET_EXCEEDED", "MAX_TOOL_CALLS_EXCEEDED", 1, 0),
        ("tokens", json!({ "policy": { "maxTokens": 250 } }), "BUDGET_EXCEEDED", "MAX_TOKENS_EXCEEDED", 3, 2),
        ("tool_prices", json!({ "policy": { "maxCostUsd": 0.025 } }), "BUDGET_EXCEEDED", "MAX_COST_EXCEEDED", 3, 2),
    ] {
        server.define_agent(name, endless_calls(), merge(json!({ "toolRefs": ["look"] }), limits)).await;
        let response = server.run(name, "go").await;
        assert_eq!((&response["status"], &response["reason"]), (&json!(status), &json!(reason)), "{name}: {response}");
        assert!(response["message"].as_str().is_some_and(|text| !text.is_empty()), "{name}");
        assert_eq!(response["iterationsUsed"], iterations, "{name}");
        assert_eq!(response["responseText"], "On it.", "{name}: the partial answer is returned");
        let envelopes = envelopes(&response);
        assert_eq!(
            envelopes.iter().filter(|envelope| envelope["error"].is_null()).count(),
            calls,
            "{name}: {response}"
        );
        for refused in envelopes.iter().filter(|envelope| !envelope["error"].is_null()) {
            assert_eq!(refused["error"]["details"]["reason"], reason, "{name}");
        }
    }
}

async fn agent_call_limit_is_capped_at_50_calls(server: Server) {
    server.define_echo("look", json!({})).await;
    let calls: Vec<Value> = (0..55).map(|n| json!({ "name": "look", "arguments": { "n": n } })).collect();
    let generous = json!({ "toolRefs": ["look"], "policy": { "maxToolCalls": 100 } });
    server.define_agent("generous", calls_then(json!(calls), "Done."), generous).await;
    server.define_agent("usual", calls_then(json!(calls), "Done."), json!({ "toolRefs": ["look"] })).await;
    for (agent, most) in [("generous", 50), ("usual", 25)] {
        let response = server.run(agent, "go").await;
        assert_eq!(response["status"], "BUDGET_EXCEEDED");
        let succeeded = envelopes(&response).iter().filter(|envelope| envelope["error"].is_null()).count();
        assert_eq!((succeeded, envelopes(&response).len()), (most, 55), "{agent}");
    }
}

async fn run_over_its_timeout_is_stopped(server: Server) {
    let faults = Faults::builder().start(LOOPBACK).await.unwrap();
    server.define_http_tool("wait", &faults.base_url(), "/slow/60000", json!({})).await;
    server.define_echo("look", json!({})).await;
    let calls = json!([{ "name": "look" }, { "name": "wait" }]);
    let limits = json!({ "toolRefs": ["wait", "look"], "executionConfig": { "timeoutSeconds": 1 } });
    server.define_agent("a", calls_then(calls, "Done."), limits).await;
    let response = server.run("a", "go").await;
    assert_eq!((&response["status"], &response["reason"]), (&json!("TIMEOUT"), &json!("TIMEOUT")), "{response}");
    let codes: Vec<Value> = envelopes(&response).iter().map(|envelope| envelope["error"]["code"].clone()).collect();
    assert_eq!(codes, [json!(null), json!("TIMEOUT")], "earlier calls are kept");
    faults.shutdown().await;
}

async fn call_that_violates_a_guardrail_is_denied(server: Server) {
    let faults = Faults::builder().start(LOOPBACK).await.unwrap();
    server.define_echo("look", json!({})).await;
    server.define_echo("crm/delete-deal", json!({})).await;
    let remove = json!({ "invocation": { "path": "/count/x", "method": "DELETE" } });
    server.define_http_tool("remove", &faults.base_url(), "/count/x", remove).await;
    let filter = |side: &str| json!({ "type": "content_filter", "parameters": { "words": ["secret"], "patterns": ["[0-9]{16}"], "appliesTo": side } });
    let call = |name: &str, text: &str| json!({ "name": name, "arguments": { "text": text } });
    for (name, guardrail, call, reason) in [
        ("delete_by_name", json!({ "type": "no_delete" }), call("crm/delete-deal", ""), json!("no_delete")),
        ("delete_by_method", json!({ "type": "no_delete" }), call("remove", ""), json!("no_delete")),
        ("no_deletion", json!({ "type": "no_delete" }), call("look", "delete"), json!(null)),
        ("word_in", filter("input"), call("look", "a SECRET plan"), json!("content_filter")),
        ("other_word", filter("input"), call("look", "my secretary"), json!(null)),
        ("pattern_in", filter("both"), call("look", "4111111111111111"), json!("content_filter")),
        ("word_out", filter("output"), call("look", "secret"), json!("content_filter")),
        ("boundary", json!({ "type": "realm_boundary" }), call("look", ""), json!(null)),
    ] {
        let limits = json!({ "toolRefs": ["look", "crm/delete-deal", "remove"], "guardrails": [guardrail] });
        server.define_agent(name, calls_then(json!([call]), "Told: {{result}}"), limits).await;
        let response = server.run(name, "go").await;
        assert_eq!(response["status"], "COMPLETED", "{name}: {response}");
        assert_eq!(error_reasons(&response), std::slice::from_ref(&reason), "{name}: {response}");
        if !reason.is_null() {
            assert_eq!(envelopes(&response)[0]["output"], Value::Null, "{name}");
            let text = response["responseText"].as_str().unwrap();
            assert!(text.contains(reason.as_str().unwrap()) && !text.contains("SECRET"), "{name}: {text}");
        }
    }
    assert_eq!(faults.hits("/count/x"), 0, "a rejected call is not sent");
    faults.shutdown().await;
}

async fn calls_with_more_side_effects_than_allowed_are_denied(server: Server) {
    for effects in ["none", "reads", "writes"] {
        server.define_echo(effects, json!({ "sideEffects": effects })).await;
    }
    let calls = json!([{ "name": "none" }, { "name": "reads" }, { "name": "writes" }]);
    for (policy, refused) in [("none", 2), ("reads", 1), ("writes", 0)] {
        let limits = json!({ "toolRefs": ["none", "reads", "writes"], "policy": { "sideEffects": policy } });
        server.define_agent(&format!("a_{policy}"), calls_then(calls.clone(), "Done."), limits).await;
        let response = server.run(&format!("a_{policy}"), "go").await;
        let denied = error_reasons(&response).into_iter().filter(|reason| *reason == "side_effects").count();
        assert_eq!(denied, refused, "{policy}: {response}");
        assert_eq!(response["status"], "COMPLETED");
    }
}

async fn approval_lists_the_rules_that_require_it(server: Server) {
    server.define_echo("reads", json!({ "sideEffects": "reads" })).await;
    server.define_echo("writes", json!({ "sideEffects": "writes" })).await;
    server.define_echo("asks", json!({ "sideEffects": "reads", "requiresConfirmation": true })).await;
    server.define_echo("delete_it", json!({ "sideEffects": "reads" })).await;
    let agent = json!({ "requiresApproval": true });
    let guardrail =
        |parameters: Value| json!({ "guardrails": [{ "type": "require_confirmation", "parameters": parameters }] });
    let table = [
        (json!({}), "reads", json!([])),
        (json!({}), "writes", json!([])),
        (json!({}), "asks", json!(["tool"])),
        (agent.clone(), "reads", json!([])),
        (agent.clone(), "writes", json!(["agent"])),
        (agent.clone(), "delete_it", json!(["agent"])),
        (guardrail(json!({})), "reads", json!(["guardrail"])),
        (guardrail(json!({ "tools": ["READS"] })), "reads", json!(["guardrail"])),
        (guardrail(json!({ "tools": ["other"] })), "reads", json!([])),
        (guardrail(json!({ "sideEffects": "writes" })), "reads", json!([])),
        (guardrail(json!({ "sideEffects": "writes" })), "writes", json!(["guardrail"])),
        (merge(agent, guardrail(json!({}))), "writes", json!(["agent", "guardrail"])),
        (guardrail(json!({ "tools": ["asks"] })), "asks", json!(["tool", "guardrail"])),
    ];
    for (at, (rules, tool, required_by)) in table.into_iter().enumerate() {
        let agent = merge(json!({ "toolRefs": ["reads", "writes", "asks", "delete_it"] }), rules.clone());
        let name = format!("a{at}");
        server.define_agent(&name, calls_then(json!([{ "name": tool }]), "Done."), agent).await;
        let response = server.run(&name, "go").await;
        let actual = response["approvals"]
            .as_array()
            .unwrap()
            .first()
            .map_or(json!([]), |approval| approval["triggers"].clone());
        assert_eq!(actual, required_by, "{rules} {tool}");
        let status = if required_by == json!([]) { "COMPLETED" } else { "AWAITING_APPROVAL" };
        assert_eq!(response["status"], status, "{rules} {tool}");
    }
}

#[tokio::test]
async fn run_over_its_cost_limit_ends() {
    with_model_mock(|server| async move {
        server.define_echo("get_weather", json!({})).await;
        let agent = |name: &str, more: Value| {
            merge(json!({ "refName": name, "llmConfig": openai_model("gpt-4o"), "toolRefs": ["get_weather"] }), more)
        };
        server.post("agents", agent("open", json!({}))).await.expect(201);
        let open = server.run("open", "compare two cities").await;
        assert_eq!(open["status"], "COMPLETED", "{open}");
        let cost = open["costUsd"].as_f64().unwrap();
        let usage = &open["usage"];
        let tokens = |field: &str| usage[field].as_f64().unwrap_or_else(|| panic!("{usage}"));
        let expected = tokens("inputTokens") / 1000.0 * 0.005 + tokens("outputTokens") / 1000.0 * 0.015;
        assert!((cost - expected).abs() < 1e-9 && cost > 0.0, "{cost} is not {expected}");
        let guardrail = json!({ "guardrails": [{ "type": "max_cost", "parameters": { "maxCostUsd": 0.000_001 } }] });
        for (name, limit) in [("policy", json!({ "policy": { "maxCostUsd": 0.000_001 } })), ("rail", guardrail)] {
            server.post("agents", agent(name, limit)).await.expect(201);
            let response = server.run(name, "compare two cities").await;
            let ended = (&response["status"], &response["reason"], &response["iterationsUsed"]);
            assert_eq!(
                ended,
                (&json!("BUDGET_EXCEEDED"), &json!("MAX_COST_EXCEEDED"), &json!(1)),
                "{name}: {response}"
            );
            assert_eq!(error_reasons(&response), ["MAX_COST_EXCEEDED", "MAX_COST_EXCEEDED"], "{name}");
            assert_eq!(response["responseText"], "Let me look.", "{name}");
        }
    })
    .await;
}

#[tokio::test]
async fn run_with_a_model_without_a_price_has_one_warning() {
    with_model_mock(|server| async move {
        server.define_echo("get_weather", json!({})).await;
        let agent =
            json!({ "refName": "a", "llmConfig": openai_model("nobody-knows-its-price"), "toolRefs": ["get_weather"] });
        server.post("agents", agent).await.expect(201);
        let response = server.run("a", "compare two cities").await;
        assert_eq!((&response["status"], &response["costUsd"]), (&json!("COMPLETED"), &json!(0.0)), "{response}");
        let warnings = response["warnings"].as_array().unwrap();
        assert_eq!(warnings.len(), 1, "the warning is not repeated for every reply: {warnings:?}");
        assert!(warnings[0].as_str().unwrap().contains("`nobody-knows-its-price`"), "{warnings:?}");
    })
    .await;
}
