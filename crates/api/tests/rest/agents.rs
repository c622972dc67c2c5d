//! Running agents: what they answer, what they may not do, and what becomes of their mistakes.

use serde_json::{Value, json};
use toolwright_testkit::{Faults, LOOPBACK};

use crate::harness::{Edition, Home, Server, calls_then, openai, reasons, receipts, scripted, with, with_mock};

crate::on_both_editions!(
    a_run_answers_with_all_it_did,
    pins_show_what_they_select,
    a_stale_pin_shows_the_last_success_of_whoever_runs_it
);
crate::on_sqlite!(
    every_view_of_a_run_tells_the_same,
    calls_of_one_reply_run_side_by_side,
    calls_that_cannot_be_made_are_told_to_the_model,
    a_repeated_call_is_warned_of_and_then_not_made,
    an_empty_reply_gets_one_nudge,
    cut_and_refused_answers_end_the_run,
    a_limit_ends_the_run_with_what_there_is,
    the_platforms_limit_holds_for_every_agent,
    a_run_that_takes_too_long_is_stopped,
    guardrails_hold_before_every_call,
    an_agent_changes_no_more_than_it_may,
    the_knobs_that_fired_are_named,
    a_model_that_fails_ends_the_run,
    wrong_requests_are_refused_before_anything_begins,
    prompts_are_filled_with_the_context,
    structured_answers_fit_or_are_sent_back,
    tools_are_resolved_in_order,
    hidden_tools_are_found_and_called,
    a_version_is_kept_as_the_agent_wants_it,
    an_agent_may_do_no_more_than_whoever_runs_it,
    an_agent_acts_as_its_principal,
    another_realm_must_be_allowed_and_entered,
    a_secret_shows_up_nowhere,
    the_largest_numbers_are_numbers
);

async fn a_run_answers_with_all_it_did(server: Server) {
    server.define_echo("look", json!({})).await;
    let call = json!([{ "name": "look", "arguments": { "at": "{{user}}" } }]);
    server.define_agent("a", calls_then(call, "I saw {{result/at}}."), json!({ "toolRefs": ["look"] })).await;
    let response = server.run("a", "Rome").await;
    assert_eq!(response["status"], "COMPLETED");
    assert_eq!(response["responseText"], "I saw Rome.");
    assert_eq!(response["iterationsUsed"], 2);
    assert!(response["tokensUsed"].as_u64().unwrap() > 0);
    assert!(response["runId"].as_str().unwrap().starts_with("run_"));
    assert!(response["conversationId"].as_str().unwrap().starts_with("conv_"), "{response}");
    for empty in ["clientActions", "approvals"] {
        assert_eq!(response[empty], json!([]), "{empty}");
    }
    assert_eq!(response["pins"], json!({}));
    let receipt = &receipts(&response)[0];
    let call = &response["toolCalls"][0];
    let shown = json!({ "toolRef": "look", "input": { "at": "Rome" }, "output": { "at": "Rome" }, "status": "SUCCESS",
        "callId": receipt["call_id"], "isServerTool": true, "wasExecuted": true, "requiresClientExecution": false,
        "resultJson": r#"{"at":"Rome"}"#, "durationMs": call["durationMs"] });
    assert_eq!(call, &shown);
    let outputs = &response["outputs"];
    assert_eq!(outputs["response"], response["responseText"]);
    assert_eq!(outputs["tool_order"], json!([receipt["call_id"]]));
    assert_eq!(&outputs["last_tool"], receipt);
    assert_eq!((&receipt["output"], &receipt["error"]), (&json!({ "at": "Rome" }), &Value::Null));
}

async fn every_view_of_a_run_tells_the_same(server: Server) {
    server.define_echo("look", json!({})).await;
    let calls = json!([{ "name": "look", "arguments": { "n": 1 } }, { "name": "nothing" }, { "name": "look", "arguments": { "n": 2 } }]);
    let pins = json!([{ "name": "p", "selector": { "tool": "look" } }]);
    server.define_agent("a", calls_then(calls, "Done."), json!({ "toolRefs": ["look"], "pins": pins })).await;
    let response = server.run("a", "go").await;
    let run = response["runId"].as_str().unwrap();
    let read = server.get(&format!("runs/{run}")).await.expect(200);
    for (field, value) in response.as_object().unwrap() {
        assert_eq!(&read[field], value, "{field}");
    }
    let listed = &server.get("runs").await.expect(200)["items"][0];
    for field in
        ["id", "kind", "subject", "status", "iterationsUsed", "tokensUsed", "costUsd", "conversationId", "startedAt"]
    {
        assert_eq!(listed[field], read[field], "{field}");
    }
    for (call, receipt) in response["toolCalls"].as_array().unwrap().iter().zip(receipts(&response)) {
        assert_eq!(call["callId"], receipt["call_id"]);
        assert_eq!(call["output"], receipt["output"]);
        assert_eq!(call["errorMessage"], receipt["error"]["message"]);
    }
    assert_eq!(response["outputs"]["last_tool"]["input"], json!({ "n": 2 }));
    assert_eq!(response["pins"]["p"], response["outputs"]["last_tool"]);
    let events = server.events(run, None).await;
    let ended: Vec<&Value> = events
        .iter()
        .filter(|event| event.kind == "TOOL_CALL_END")
        .map(|event| &event.data["toolInvocation"])
        .collect();
    let mut told = response["toolCalls"].as_array().unwrap().clone();
    told.sort_by_key(|call| ended.iter().position(|other| *other == call));
    assert_eq!(ended, told.iter().collect::<Vec<_>>(), "the stream shows the same calls");
    let done = events.last().unwrap();
    assert_eq!((&done.data["status"], &done.data["content"]), (&response["status"], &response["responseText"]));
}

async fn calls_of_one_reply_run_side_by_side(server: Server) {
    let faults = Faults::builder().start(LOOPBACK).await.unwrap();
    server.define_call("wait", &faults.base_url(), "/slow/${param.ms}", json!({})).await;
    // The first is the slowest, so that the order of completion tells how many ran at once.
    let calls: Vec<Value> =
        [600, 400, 50].iter().map(|ms| json!({ "name": "wait", "arguments": { "ms": ms } })).collect();
    let rules = calls_then(json!(calls), "Done.");
    for (name, config, ended) in [
        ("parallel", json!({}), [50, 400, 600]),
        ("one", json!({ "parallelToolCalls": false }), [600, 400, 50]),
        // The third takes the place of the second, while the first goes on.
        ("two", json!({ "maxParallelCalls": 2 }), [400, 50, 600]),
    ] {
        server.define_agent(name, rules.clone(), json!({ "toolRefs": ["wait"], "executionConfig": config })).await;
        let events = server.stream(&format!("agents/{name}/execute/stream"), json!({ "userMessage": "go" })).await;
        let ends = events.iter().filter(|event| event.kind == "TOOL_CALL_END");
        let order: Vec<&Value> = ends.map(|event| &event.data["toolInvocation"]["output"]["waitedMs"]).collect();
        assert_eq!(order, ended.iter().map(|ms| json!(ms)).collect::<Vec<_>>().iter().collect::<Vec<_>>(), "{name}");
        let response = server.get(&format!("runs/{}", events[0].data["runId"].as_str().unwrap())).await.expect(200);
        let waited: Vec<Value> =
            receipts(&response).iter().map(|receipt| receipt["output"]["waitedMs"].clone()).collect();
        assert_eq!(waited, [600, 400, 50], "{name}: outputs keep the order of the calls");
    }
    faults.shutdown().await;
}

async fn calls_that_cannot_be_made_are_told_to_the_model(server: Server) {
    let schema = json!({ "type": "object", "properties": { "n": { "type": "integer" } }, "required": ["n"] });
    server.define_echo("number", json!({ "inputJsonSchema": schema })).await;
    server.define_echo("private", json!({})).await;
    server.define_echo("open", json!({})).await;
    server.define_echo("off", json!({ "enabled": false })).await;
    for (call, code, reason, status) in [
        (json!({ "name": "nothing" }), "POLICY_DENIED", json!("unknown_tool"), "SKIPPED"),
        (json!({ "name": "private" }), "POLICY_DENIED", json!("not_allowed"), "SKIPPED"),
        (json!({ "name": "off" }), "POLICY_DENIED", json!("not_allowed"), "SKIPPED"),
        (
            json!({ "name": "open", "rawArguments": "{\"n\": oops" }),
            "VALIDATION_ERROR",
            json!("malformed_json"),
            "ERROR",
        ),
        (json!({ "name": "number", "arguments": { "n": "one" } }), "VALIDATION_ERROR", json!("input_schema"), "ERROR"),
        (json!({ "name": "number", "arguments": {} }), "VALIDATION_ERROR", json!("input_schema"), "ERROR"),
        (json!({ "name": "number", "rawArguments": "" }), "VALIDATION_ERROR", json!("malformed_json"), "ERROR"),
    ] {
        let rules = json!([
            { "when": { "turn": 0 }, "reply": { "toolCalls": [call] } },
            { "when": { "failed": true, "result": code }, "reply": { "text": "It was told." } }
        ]);
        let agent = json!({ "refName": "a", "llmConfig": scripted(rules), "toolRefs": ["number", "open", "off"] });
        server.post("agents", agent).await.expect(201);
        let response = server.run("a", "go").await;
        assert_eq!(response["responseText"], "It was told.", "{call}: {response}");
        let receipt = &receipts(&response)[0];
        assert_eq!(
            (&receipt["error"]["code"], &receipt["error"]["details"]["reason"]),
            (&json!(code), &reason),
            "{call}"
        );
        assert_eq!(response["toolCalls"][0]["status"], status, "{call}");
        assert_eq!(response["toolCalls"][0]["wasExecuted"], false, "{call}");
        assert_eq!(response["outputs"].get("last_tool").cloned().unwrap_or_default(), Value::Null, "{call}");
        server.delete("agents/a").await.expect(204);
    }
}

async fn a_repeated_call_is_warned_of_and_then_not_made(server: Server) {
    server.define_echo("look", json!({})).await;
    let rules = json!([
        { "when": { "result": "suppressed_repeat" }, "reply": { "text": "I stop." } },
        { "when": { "result": "another repeat will not be run" }, "reply": { "text": "Warned.", "toolCalls": [{ "name": "look" }] } },
        { "reply": { "toolCalls": [{ "name": "look" }] } }
    ]);
    server.define_agent("a", rules, json!({ "toolRefs": ["look"] })).await;
    let response = server.run("a", "go").await;
    assert_eq!(response["responseText"], "I stop.");
    assert_eq!(reasons(&response), [json!(null), json!(null), json!(null), json!("suppressed_repeat")]);
    let mut ids = response["outputs"]["tool_order"].as_array().unwrap().clone();
    ids.dedup();
    assert_eq!(ids.len(), 4, "each call has an id of its own");
    // The same call twice in one reply is no repeat: there is no result to look at.
    let twice = json!([{ "name": "look" }, { "name": "look" }, { "name": "look" }, { "name": "look" }]);
    server.define_agent("b", calls_then(twice, "Done."), json!({ "toolRefs": ["look"] })).await;
    assert_eq!(reasons(&server.run("b", "go").await), vec![Value::Null; 4]);
}

async fn an_empty_reply_gets_one_nudge(server: Server) {
    let nudged = json!([
        { "when": { "user": "your last reply was empty" }, "reply": { "text": "Here I am." } },
        { "reply": { "text": " \n" } }
    ]);
    server.define_agent("late", nudged, json!({})).await;
    let response = server.run("late", "hello").await;
    assert_eq!((&response["responseText"], &response["iterationsUsed"]), (&json!("Here I am."), &json!(2)));
    assert_eq!(response.get("reason"), None);
    server.define_agent("silent", json!([{ "reply": { "text": "" } }]), json!({})).await;
    let response = server.run("silent", "hello").await;
    assert_eq!((&response["status"], &response["reason"]), (&json!("COMPLETED"), &json!("empty_reply")));
    assert_eq!((&response["responseText"], &response["iterationsUsed"]), (&json!(""), &json!(2)));
}

async fn cut_and_refused_answers_end_the_run(server: Server) {
    for (stop, reason) in [("max_tokens", "max_tokens"), ("refusal", "refusal")] {
        let rules = json!([{ "when": { "turn": 0 }, "reply": { "text": "This goes", "stop": stop } }]);
        server.define_agent(stop, rules, json!({})).await;
        let response = server.run(stop, "go").await;
        let ended = (&response["status"], &response["reason"], &response["iterationsUsed"], &response["responseText"]);
        assert_eq!(ended, (&json!("COMPLETED"), &json!(reason), &json!(1), &json!("This goes")));
    }
    // What a model asks for while it declines is not done, and has a receipt.
    let rules = json!([{ "reply": { "text": "No.", "stop": "refusal", "toolCalls": [{ "name": "echo" }] } }]);
    server.define_agent("both", rules, json!({ "toolRefs": ["echo"] })).await;
    let response = server.run("both", "go").await;
    assert_eq!(reasons(&response), ["refusal"]);
    assert_eq!(response["toolCalls"][0]["status"], "SKIPPED");
}

/// Rules for a model that never stops asking for calls, each another one.
fn endless() -> Value {
    json!([{ "reply": { "text": "On it.", "toolCalls": [{ "name": "look", "arguments": { "n": "{{result/n}}x" } }], "usage": { "inputTokens": 60, "outputTokens": 40 } } }])
}

async fn a_limit_ends_the_run_with_what_there_is(server: Server) {
    server.define_echo("look", json!({})).await;
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
    ] {
        server.define_agent(name, endless(), with(json!({ "toolRefs": ["look"] }), limits)).await;
        let response = server.run(name, "go").await;
        assert_eq!((&response["status"], &response["reason"]), (&json!(status), &json!(reason)), "{name}: {response}");
        assert!(response["message"].as_str().is_some_and(|text| !text.is_empty()), "{name}");
        assert_eq!(response["iterationsUsed"], iterations, "{name}");
        assert_eq!(response["responseText"], "On it.", "{name}: what there is of an answer");
        let receipts = receipts(&response);
        assert_eq!(receipts.iter().filter(|receipt| receipt["error"].is_null()).count(), calls, "{name}: {response}");
        for refused in receipts.iter().filter(|receipt| !receipt["error"].is_null()) {
            assert_eq!(refused["error"]["details"]["reason"], reason, "{name}");
        }
    }
}

async fn the_platforms_limit_holds_for_every_agent(server: Server) {
    server.define_echo("look", json!({})).await;
    let calls: Vec<Value> = (0..55).map(|n| json!({ "name": "look", "arguments": { "n": n } })).collect();
    let generous = json!({ "toolRefs": ["look"], "policy": { "maxToolCalls": 100 } });
    server.define_agent("generous", calls_then(json!(calls), "Done."), generous).await;
    server.define_agent("usual", calls_then(json!(calls), "Done."), json!({ "toolRefs": ["look"] })).await;
    for (agent, most) in [("generous", 50), ("usual", 25)] {
        let response = server.run(agent, "go").await;
        assert_eq!(response["status"], "BUDGET_EXCEEDED");
        let made = receipts(&response).iter().filter(|receipt| receipt["error"].is_null()).count();
        assert_eq!((made, receipts(&response).len()), (most, 55), "{agent}");
    }
}

async fn a_run_that_takes_too_long_is_stopped(server: Server) {
    let faults = Faults::builder().start(LOOPBACK).await.unwrap();
    server.define_call("wait", &faults.base_url(), "/slow/60000", json!({})).await;
    server.define_echo("look", json!({})).await;
    let calls = json!([{ "name": "look" }, { "name": "wait" }]);
    let limits = json!({ "toolRefs": ["wait", "look"], "executionConfig": { "timeoutSeconds": 1 } });
    server.define_agent("a", calls_then(calls, "Done."), limits).await;
    let response = server.run("a", "go").await;
    assert_eq!((&response["status"], &response["reason"]), (&json!("TIMEOUT"), &json!("TIMEOUT")), "{response}");
    let codes: Vec<Value> = receipts(&response).iter().map(|receipt| receipt["error"]["code"].clone()).collect();
    assert_eq!(codes, [json!(null), json!("TIMEOUT")], "what was done before stays");
    faults.shutdown().await;
}

async fn guardrails_hold_before_every_call(server: Server) {
    let faults = Faults::builder().start(LOOPBACK).await.unwrap();
    server.define_echo("look", json!({})).await;
    server.define_echo("crm/delete-deal", json!({})).await;
    let remove = json!({ "invocation": { "path": "/count/x", "method": "DELETE" } });
    server.define_call("remove", &faults.base_url(), "/count/x", remove).await;
    let filter = |side: &str| json!({ "type": "content_filter", "parameters": { "words": ["secret"], "patterns": ["[0-9]{16}"], "appliesTo": side } });
    let call = |name: &str, text: &str| json!({ "name": name, "arguments": { "text": text } });
    for (name, rail, call, reason) in [
        ("delete_by_name", json!({ "type": "no_delete" }), call("crm/delete-deal", ""), json!("no_delete")),
        ("delete_by_method", json!({ "type": "no_delete" }), call("remove", ""), json!("no_delete")),
        ("no_deletion", json!({ "type": "no_delete" }), call("look", "delete"), json!(null)),
        ("word_in", filter("input"), call("look", "a SECRET plan"), json!("content_filter")),
        ("other_word", filter("input"), call("look", "my secretary"), json!(null)),
        ("pattern_in", filter("both"), call("look", "4111111111111111"), json!("content_filter")),
        ("word_out", filter("output"), call("look", "secret"), json!("content_filter")),
        ("boundary", json!({ "type": "realm_boundary" }), call("look", ""), json!(null)),
    ] {
        let limits = json!({ "toolRefs": ["look", "crm/delete-deal", "remove"], "guardrails": [rail] });
        server.define_agent(name, calls_then(json!([call]), "Told: {{result}}"), limits).await;
        let response = server.run(name, "go").await;
        assert_eq!(response["status"], "COMPLETED", "{name}: {response}");
        assert_eq!(reasons(&response), std::slice::from_ref(&reason), "{name}: {response}");
        if !reason.is_null() {
            assert_eq!(receipts(&response)[0]["output"], Value::Null, "{name}");
            let told = response["responseText"].as_str().unwrap();
            assert!(told.contains(reason.as_str().unwrap()) && !told.contains("SECRET"), "{name}: {told}");
        }
    }
    assert_eq!(faults.hits("/count/x"), 0, "what is refused is not called");
    faults.shutdown().await;
}

async fn an_agent_changes_no_more_than_it_may(server: Server) {
    for effects in ["none", "reads", "writes"] {
        server.define_echo(effects, json!({ "sideEffects": effects })).await;
    }
    let calls = json!([{ "name": "none" }, { "name": "reads" }, { "name": "writes" }]);
    for (policy, refused) in [("none", 2), ("reads", 1), ("writes", 0)] {
        let limits = json!({ "toolRefs": ["none", "reads", "writes"], "policy": { "sideEffects": policy } });
        server.define_agent(&format!("a_{policy}"), calls_then(calls.clone(), "Done."), limits).await;
        let response = server.run(&format!("a_{policy}"), "go").await;
        let denied = reasons(&response).into_iter().filter(|reason| *reason == "side_effects").count();
        assert_eq!(denied, refused, "{policy}: {response}");
        assert_eq!(response["status"], "COMPLETED");
    }
}

async fn the_knobs_that_fired_are_named(server: Server) {
    server.define_echo("reads", json!({ "sideEffects": "reads" })).await;
    server.define_echo("writes", json!({ "sideEffects": "writes" })).await;
    server.define_echo("asks", json!({ "sideEffects": "reads", "requiresConfirmation": true })).await;
    server.define_echo("delete_it", json!({ "sideEffects": "reads" })).await;
    let agent = json!({ "requiresApproval": true });
    let rail =
        |parameters: Value| json!({ "guardrails": [{ "type": "require_confirmation", "parameters": parameters }] });
    let table = [
        (json!({}), "reads", json!([])),
        (json!({}), "writes", json!([])),
        (json!({}), "asks", json!(["tool"])),
        (agent.clone(), "reads", json!([])),
        (agent.clone(), "writes", json!(["agent"])),
        (agent.clone(), "delete_it", json!(["agent"])),
        (rail(json!({})), "reads", json!(["guardrail"])),
        (rail(json!({ "tools": ["READS"] })), "reads", json!(["guardrail"])),
        (rail(json!({ "tools": ["other"] })), "reads", json!([])),
        (rail(json!({ "sideEffects": "writes" })), "reads", json!([])),
        (rail(json!({ "sideEffects": "writes" })), "writes", json!(["guardrail"])),
        (with(agent, rail(json!({}))), "writes", json!(["agent", "guardrail"])),
        (rail(json!({ "tools": ["asks"] })), "asks", json!(["tool", "guardrail"])),
    ];
    for (at, (knobs, tool, because)) in table.into_iter().enumerate() {
        let agent = with(json!({ "toolRefs": ["reads", "writes", "asks", "delete_it"] }), knobs.clone());
        let name = format!("a{at}");
        server.define_agent(&name, calls_then(json!([{ "name": tool }]), "Done."), agent).await;
        let response = server.run(&name, "go").await;
        let fired =
            response["approvals"].as_array().unwrap().first().map_or(json!([]), |asked| asked["because"].clone());
        assert_eq!(fired, because, "{knobs} {tool}");
        let status = if because == json!([]) { "COMPLETED" } else { "AWAITING_APPROVAL" };
        assert_eq!(response["status"], status, "{knobs} {tool}");
    }
}

async fn a_model_that_fails_ends_the_run(server: Server) {
    for (kind, reason) in
        [("auth", "model_auth"), ("invalid_request", "model_invalid_request"), ("unsupported", "model_unsupported")]
    {
        let rules = json!([
            { "when": { "turn": 0 }, "reply": { "text": "First.", "toolCalls": [{ "name": "echo" }] } },
            { "error": { "kind": kind, "message": "no more" } }
        ]);
        server.define_agent(kind, rules, json!({ "toolRefs": ["echo"] })).await;
        let response = server.run(kind, "go").await;
        assert_eq!((&response["status"], &response["reason"]), (&json!("ERROR"), &json!(reason)), "{response}");
        assert!(response["message"].as_str().unwrap().contains("no more"));
        assert_eq!(receipts(&response).len(), 1, "what was done stays");
        assert_eq!(response["responseText"], "First.");
    }
    // The second model answers when the first cannot be had.
    let agent = json!({ "refName": "twice", "llmConfig": scripted(json!([{ "error": { "kind": "malformed" } }])), "fallbackModel": scripted(json!([{ "reply": { "text": "I am the other." } }])) });
    server.post("agents", agent).await.expect(201);
    let response = server.run("twice", "go").await;
    assert_eq!(response["responseText"], "I am the other.", "{response}");
}

async fn wrong_requests_are_refused_before_anything_begins(server: Server) {
    server.define_agent("a", json!([{ "reply": { "text": "Hi." } }]), json!({})).await;
    server.define_agent("off", json!([{ "reply": { "text": "Hi." } }]), json!({ "enabled": false })).await;
    let result = json!([{ "callId": "call_aaaaaaaaaaaaaaaaaaaaaaaaaa", "output": 1 }]);
    for (body, status, code, place) in [
        (json!({}), 400, "invalid-request", "/userMessage"),
        (json!({ "userMessage": " \n" }), 400, "invalid-request", "/userMessage"),
        (json!({ "userMessage": 7 }), 400, "invalid-request", "/userMessage"),
        (json!({ "userMessage": "hi", "agentRef": "b" }), 400, "invalid-request", "/agentRef"),
        (json!({ "userMessage": "hi", "message": "hi" }), 400, "invalid-request", "/message"),
        (json!({ "userMessage": "hi", "context": [] }), 400, "invalid-request", "/context"),
        (json!({ "userMessage": "hi", "conversationId": "conv_1" }), 400, "invalid-request", "/conversationId"),
        (json!({ "userMessage": "hi", "conversationId": "conv_01ARZ3NDEKTSV4RRFFQ69G5FAV" }), 404, "not-found", ""),
        (json!({ "userMessage": "hi", "principalId": "nobody" }), 400, "invalid-request", "/principalId"),
        (json!({ "userMessage": "hi", "realmId": "elsewhere" }), 403, "forbidden", ""),
        (json!({ "toolResults": result }), 400, "invalid-request", "/conversationId"),
        (
            json!({ "toolResults": result, "userMessage": "hi", "conversationId": "conv_01ARZ3NDEKTSV4RRFFQ69G5FAV" }),
            400,
            "invalid-request",
            "/userMessage",
        ),
        (json!({ "toolResults": result, "conversationId": "conv_01ARZ3NDEKTSV4RRFFQ69G5FAV" }), 404, "not-found", ""),
    ] {
        let problem = server.say("a", body.clone()).await.problem(status, code);
        if !place.is_empty() {
            assert_eq!(problem["errors"][0]["path"], place, "{body}: {problem}");
        }
    }
    server.say("off", json!({ "userMessage": "hi" })).await.problem(409, "agent-disabled");
    server.say("nobody", json!({ "userMessage": "hi" })).await.problem(404, "not-found");
    server.post("agents/off/execute/stream", json!({ "userMessage": "hi" })).await.problem(409, "agent-disabled");
    server.with_key("").say("a", json!({ "userMessage": "hi" })).await.problem(401, "unauthenticated");
    assert_eq!(server.get("runs").await.expect(200)["items"], json!([]), "nothing began");
    assert_eq!(server.get("conversations").await.expect(200)["items"], json!([]));
    server
        .say("a", json!({ "userMessage": "hi", "agentRef": "A", "conversationId": null, "toolResults": null }))
        .await
        .expect(200);
}

async fn prompts_are_filled_with_the_context(server: Server) {
    server
        .post("prompt-fragments", json!({ "refName": "team", "content": "You work for {{team.name}}." }))
        .await
        .expect(201);
    let rules = json!([
        { "when": { "system": "Be brief.\n\nYou work for sales." }, "reply": { "text": "all" } },
        { "when": { "system": "Be .\n\nYou work for ." }, "reply": { "text": "none" } },
        { "when": { "system": "Be {{x}}." }, "reply": { "text": "raw" } },
        { "reply": { "text": "other" } }
    ]);
    let prompt = json!({ "systemPrompt": "Be {{tone}}.", "systemPromptRefs": ["team", "gone"] });
    server.define_agent("a", rules, prompt).await;
    let said = |context: Value| {
        let server = server.clone();
        async move { server.say("a", json!({ "userMessage": "hi", "context": context })).await.expect(200) }
    };
    let full = said(json!({ "tone": "brief", "team": { "name": "sales" } })).await;
    assert_eq!(full["responseText"], "all");
    assert_eq!(full.get("warnings"), None, "{full}");
    let empty = said(json!({})).await;
    assert_eq!(empty["responseText"], "none");
    let warnings = empty["warnings"].to_string();
    assert!(warnings.contains("`tone`") && warnings.contains("`team.name`"), "{warnings}");
    assert_eq!(said(json!({ "tone": "{{x}}" })).await["responseText"], "raw", "a context is never a template");
    // A changed fragment is seen by the next run.
    server.put("prompt-fragments/team", json!({ "refName": "team", "content": "" })).await.expect(200);
    assert_eq!(said(json!({ "tone": "brief", "team": { "name": "sales" } })).await["responseText"], "other");
}

async fn structured_answers_fit_or_are_sent_back(server: Server) {
    let schema = json!({ "type": "object", "properties": { "n": { "type": "integer" } }, "required": ["n"], "additionalProperties": false });
    let structured = json!({ "responseFormat": "structured", "responseSchema": schema });
    let good = json!([{ "reply": { "text": "{\"n\": 7}" } }]);
    server.define_agent("good", good, structured.clone()).await;
    let response = server.run("good", "go").await;
    assert_eq!((&response["status"], &response["outputContext"]), (&json!("COMPLETED"), &json!({ "n": 7 })));
    assert_eq!(response["iterationsUsed"], 1);
    let repaired = json!([
        { "when": { "user": "/n:" }, "reply": { "text": "{\"n\": 8}" } },
        { "when": { "user": "it is not JSON" }, "reply": { "text": "{\"n\": \"eight\"}" } },
        { "reply": { "text": "Eight." } }
    ]);
    server.define_agent("repaired", repaired, structured.clone()).await;
    let response = server.run("repaired", "go").await;
    assert_eq!(
        (&response["status"], &response["outputContext"]),
        (&json!("COMPLETED"), &json!({ "n": 8 })),
        "{response}"
    );
    assert_eq!(response["iterationsUsed"], 3);
    server.define_agent("never", json!([{ "reply": { "text": "{}" } }]), structured.clone()).await;
    let response = server.run("never", "go").await;
    assert_eq!((&response["status"], &response["reason"]), (&json!("ERROR"), &json!("answer_schema")), "{response}");
    assert_eq!(response["iterationsUsed"], 3, "sent back twice, and no more");
    assert_eq!(response["responseText"], "{}");
    server.define_agent("any", json!([{ "reply": { "text": "[1, 2]" } }]), json!({ "responseFormat": "json" })).await;
    assert_eq!(server.run("any", "go").await["outputContext"], json!([1, 2]));
    server.define_agent("text", json!([{ "reply": { "text": "[1, 2]" } }]), json!({})).await;
    assert_eq!(server.run("text", "go").await.get("outputContext"), None);
}

async fn pins_show_what_they_select(server: Server) {
    let schema = json!({ "type": "object", "properties": { "n": { "type": "integer" } } });
    server.define_echo("look", json!({ "inputJsonSchema": schema })).await;
    server.define_echo("off", json!({ "enabled": false })).await;
    let calls = json!([
        { "name": "look", "arguments": { "n": "bad" } }, { "name": "look", "arguments": { "n": 1 } },
        { "name": "look", "arguments": { "n": 2 } }, { "name": "off" }
    ]);
    let rules = json!([
        { "when": { "turn": 0 }, "reply": { "toolCalls": calls } },
        { "when": { "turn": 1 }, "reply": { "toolCalls": [{ "name": "look", "arguments": { "n": "worse" } }] } },
        { "reply": { "text": "Done." } }
    ]);
    server.define_agent("first", rules.clone(), json!({ "toolRefs": ["look", "off"] })).await;
    let first = server.run("first", "go").await;
    let two = receipts(&first).into_iter().find(|receipt| receipt["input"] == json!({ "n": 2 })).unwrap();
    let ids: Vec<Value> = receipts(&first).iter().map(|receipt| receipt["call_id"].clone()).collect();
    let pin = |name: &str, selector: Value, on_missing: &str| json!({ "name": name, "selector": selector, "on_missing": on_missing });
    let pins = json!([
        pin("latest", json!({ "tool": "LOOK" }), "null"),
        pin("first", json!({ "tool": "look", "strategy": "first_success" }), "error"),
        pin("exact", json!({ "tool": "look", "strategy": "by_call_id", "call_id": two["call_id"] }), "error"),
        pin("off", json!({ "tool": "off" }), "null"),
        pin("never", json!({ "tool": "never_called" }), "null"),
        pin("never_stale", json!({ "tool": "never_called", "strategy": "first_success" }), "stale_last_success"),
    ]);
    server.define_agent("a", rules.clone(), json!({ "toolRefs": ["look", "off"], "pins": pins })).await;
    let response = server.run("a", "go").await;
    let shown = &response["pins"];
    assert_eq!(shown.as_object().unwrap().len(), 6, "{shown}");
    assert_eq!(shown["latest"]["input"], json!({ "n": "worse" }), "also when it failed");
    assert_eq!(shown["first"]["input"], json!({ "n": 1 }));
    assert_eq!(shown["exact"]["input"], json!({ "n": 2 }));
    for null in ["off", "never", "never_stale"] {
        assert_eq!(shown[null], Value::Null, "{null}");
    }
    assert_eq!(response["outputs"]["tool_order"], json!(ids), "the same calls have the same ids in every run");
    assert_eq!(response["status"], "COMPLETED");
    // A pin that must be there and is not.
    let pins = json!([
        pin("gone", json!({ "tool": "never_called" }), "error"),
        pin("there", json!({ "tool": "look" }), "null")
    ]);
    server.define_agent("b", rules, json!({ "toolRefs": ["look"], "pins": pins })).await;
    let response = server.run("b", "go").await;
    assert_eq!((&response["status"], &response["reason"]), (&json!("ERROR"), &json!("pin_missing")), "{response}");
    assert!(response["message"].as_str().unwrap().contains("`gone`"));
    assert_eq!(response["outputs"]["response"], "Done.", "core outputs are always there");
    assert_eq!(receipts(&response).len(), 5);
}

async fn a_stale_pin_shows_the_last_success_of_whoever_runs_it(server: Server) {
    server.define_echo("look", json!({})).await;
    let rules = json!([
        { "when": { "user": "look", "turn": 0 }, "reply": { "toolCalls": [{ "name": "look", "arguments": { "at": "{{user}}" } }] } },
        { "reply": { "text": "Done." } }
    ]);
    let pins = json!([{ "name": "p", "selector": { "tool": "look" }, "on_missing": "stale_last_success" }]);
    server.define_agent("a", rules.clone(), json!({ "toolRefs": ["look"], "pins": pins })).await;
    server.define_agent("b", rules, json!({ "toolRefs": ["look"], "pins": pins })).await;
    assert_eq!(server.run("a", "nothing yet").await["pins"]["p"], Value::Null);
    server.run("a", "look here").await;
    let latest = server.run("a", "look there").await;
    let stale = server.run("a", "say something").await;
    assert_eq!(stale["pins"]["p"], latest["pins"]["p"]);
    assert_eq!(stale["pins"]["p"]["input"], json!({ "at": "look there" }));
    // Another agent, another principal, another realm: nothing to see.
    assert_eq!(server.run("b", "say something").await["pins"]["p"], Value::Null);
    let member = server.member("someone").await;
    assert_eq!(member.run("a", "say something").await["pins"]["p"], Value::Null);
    // What is read later is what was shown then.
    let again = server.get(&format!("runs/{}", stale["runId"].as_str().unwrap())).await.expect(200);
    assert_eq!(again["pins"], stale["pins"]);
    // A disabled tool keeps its pin.
    server.patch("tools/look", json!({ "enabled": false })).await.expect(200);
    let off = server.run("a", "look once more").await;
    assert_eq!(off["pins"].as_object().unwrap().len(), 1);
    assert_eq!(off["status"], "COMPLETED");
}

fn names(page: &Value) -> Vec<String> {
    page["items"].as_array().unwrap().iter().map(|item| item["refName"].as_str().unwrap().to_owned()).collect()
}

async fn tools_are_resolved_in_order(server: Server) {
    for (name, more) in [
        ("zeta", json!({ "category": "crm", "tags": ["t"] })),
        ("alpha", json!({ "category": "crm.deals" })),
        ("crmx", json!({ "category": "crmx" })),
        ("tagged", json!({ "tags": ["t"] })),
        ("named", json!({})),
        ("named_too", json!({ "category": "crm" })),
        ("excluded", json!({ "category": "crm", "tags": ["t"] })),
        ("disabled", json!({ "category": "crm", "enabled": false })),
        ("blocked", json!({ "category": "crm", "status": "blocked" })),
        ("not_for_agents", json!({ "category": "crm", "availableAs": ["workflowStep"] })),
    ] {
        server.define_echo(name, more).await;
    }
    server.define_agent("helper", json!([]), json!({ "description": "Helps." })).await;
    server.define_agent("sleeper", json!([]), json!({ "enabled": false })).await;
    let access = json!({ "toolRefs": ["named", "named_too", "NAMED", "excluded", "gone"], "toolCategories": ["crm"], "toolTags": ["t"],
        "excludedToolRefs": ["EXCLUDED"], "delegateAgentRefs": ["helper", "sleeper", "missing"] });
    server.define_agent("a", json!([]), access.clone()).await;
    let page = server.get("agents/a/tools").await.expect(200);
    let found = names(&page);
    assert_eq!(found[..2], ["named", "named_too"], "by name first, in the order they were written");
    let mut by_category = found[2..4].to_vec();
    by_category.sort();
    assert_eq!(by_category, ["alpha", "zeta"], "then by category, those below it too: {found:?}");
    assert_eq!(found[4..], ["tagged", "helper"], "then by tag, and delegates last: {found:?}");
    let delegate = &page["items"].as_array().unwrap()[5];
    assert_eq!((&delegate["delegate"], &delegate["shown"]), (&json!(true), &json!(true)), "{delegate}");
    // Trimmed: search_tools counts, and what the message is about comes first.
    server.patch("agents/a", json!({ "maxToolsInContext": 2 })).await.expect(200);
    let page = server.get("agents/a/tools?message=the%20tagged%20one").await.expect(200);
    let shown: Vec<&str> = page["items"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|tool| tool["shown"] == true)
        .map(|tool| tool["refName"].as_str().unwrap())
        .collect();
    assert_eq!(shown, ["tagged"], "{page}");
    assert_eq!(names(&page), found, "nothing is lost");
    // What may not be called is not there, whatever names it.
    server.post("realms", json!({ "name": "other" })).await.expect(201);
    server.issue(json!({ "principal": "stranger", "realm": "other" })).await;
    server.patch("agents/a", json!({ "principalRef": "stranger" })).await.expect(200);
    assert_eq!(
        names(&server.get("agents/a/tools").await.expect(200)),
        ["helper"],
        "permission is checked before delegates are added"
    );
}

async fn hidden_tools_are_found_and_called(server: Server) {
    for n in 0..20 {
        server.define_echo(&format!("filler_{n}"), json!({ "description": "Does nothing of use." })).await;
    }
    server
        .define_echo("send_invoice", json!({ "description": "Bills a customer for an order.", "category": "money" }))
        .await;
    server.define_echo("secret_invoice", json!({ "description": "Bills a customer for an order." })).await;
    let rules = json!([
        { "when": { "turn": 0, "offers": "send_invoice" }, "reply": { "text": "It was not hidden." } },
        { "when": { "turn": 0, "offers": "search_tools" }, "reply": { "toolCalls": [{ "name": "search_tools", "arguments": { "query": "bill a customer" } }] } },
        { "when": { "turn": 1, "offers": "secret_invoice" }, "reply": { "text": "It found too much." } },
        { "when": { "turn": 1, "offers": "send_invoice" }, "reply": { "toolCalls": [{ "name": "send_invoice", "arguments": { "to": "North" } }] } },
        { "when": { "afterTool": "send_invoice", "failed": false }, "reply": { "text": "Sent to {{result/to}}." } }
    ]);
    let fillers: Vec<String> = (0..20).map(|n| format!("filler_{n}")).collect();
    let access = json!({ "toolRefs": fillers, "toolCategories": ["money"], "maxToolsInContext": 3 });
    server.define_agent("a", rules.clone(), access.clone()).await;
    let response = server.run("a", "filler please").await;
    assert_eq!(response["responseText"], "Sent to North.", "{response}");
    let found = &receipts(&response)[0]["output"]["tools"];
    assert_eq!(found[0]["name"], "send_invoice", "{found}");
    assert!(!found.to_string().contains("secret_invoice"), "only what the agent has is searched: {found}");
    // A tool that is hidden can be called also by a model that knows its name.
    let rules = calls_then(json!([{ "name": "send_invoice" }]), "Done.");
    server.define_agent("b", rules, access).await;
    assert_eq!(reasons(&server.run("b", "filler please").await), [Value::Null]);
}

async fn a_version_is_kept_as_the_agent_wants_it(server: Server) {
    let tool = |version: &str| json!({ "refName": "t", "toolType": "FUNCTION", "version": version, "invocation": { "path": "echo" } });
    server.post("tools", tool("1.0.0")).await.expect(201);
    for version in ["1.5.0", "2.0.0"] {
        server.put("tools/t", tool(version)).await.expect(200);
    }
    for (at, (wanted, version)) in
        [("t", "2.0.0"), ("t@^1", "1.5.0"), ("t@1.0.0", "1.0.0"), ("T@<2", "1.5.0")].into_iter().enumerate()
    {
        let name = format!("a{at}");
        server
            .define_agent(&name, calls_then(json!([{ "name": "t" }]), "Done."), json!({ "toolRefs": [wanted] }))
            .await;
        assert_eq!(receipts(&server.run(&name, "go").await)[0]["version"], version, "{wanted}");
    }
    server.define_agent("none", calls_then(json!([{ "name": "t" }]), "Done."), json!({ "toolRefs": ["t@^9"] })).await;
    assert_eq!(names(&server.get("agents/none/tools").await.expect(200)), Vec::<String>::new());
    assert_eq!(reasons(&server.run("none", "go").await), ["not_allowed"]);
}

async fn an_agent_may_do_no_more_than_whoever_runs_it(server: Server) {
    let faults = Faults::builder().start(LOOPBACK).await.unwrap();
    let provider = json!({ "refName": "p", "baseUrl": faults.base_url(), "egressAllow": ["127.0.0.0/8"], "auth": { "authType": "bearer", "secretRef": "token" } });
    server.post("tool-providers", provider).await.expect(201);
    let tool = json!({ "refName": "upstream", "toolType": "EXTERNAL_REST", "providerRef": "p", "invocation": { "path": "/echo" } });
    server.post("tools", tool).await.expect(201);
    // A secret of the administrator alone, who also wrote the agent.
    server
        .post("secrets", json!({ "name": "token", "scope": "user", "value": "the-administrators-own" }))
        .await
        .expect(201);
    server
        .define_agent("a", calls_then(json!([{ "name": "upstream" }]), "Done."), json!({ "toolRefs": ["upstream"] }))
        .await;
    assert_eq!(receipts(&server.run("a", "go").await)[0]["error"], Value::Null);
    let member = server.member("someone").await;
    let response = member.run("a", "go").await;
    let receipt = &receipts(&response)[0];
    assert_eq!(receipt["error"]["code"], "AUTH_REQUIRED", "{receipt}");
    assert_eq!(receipt["metadata"]["principal"], "someone");
    // Nor by saying to be someone else.
    for principal in ["admin", "nobody"] {
        member.say("a", json!({ "userMessage": "go", "principalId": principal })).await.problem(403, "forbidden");
    }
    let own = member.say("a", json!({ "userMessage": "go", "principalId": "someone" })).await.expect(200);
    assert_eq!(receipts(&own)[0]["metadata"]["principal"], "someone");
    // Someone of another realm may not run it at all.
    server.post("realms", json!({ "name": "other" })).await.expect(201);
    let key = server.issue(json!({ "principal": "stranger", "realm": "other" })).await;
    let stranger = server.with_key(&key);
    stranger.say("a", json!({ "userMessage": "go" })).await.problem(404, "not-found");
    stranger.in_realm("default").say("a", json!({ "userMessage": "go" })).await.problem(403, "forbidden");
    // An agent's own URI is a second permission.
    server
        .define_agent("b", json!([{ "reply": { "text": "Hi." } }]), json!({ "securityUri": "ai://agents/b/execute" }))
        .await;
    assert_eq!(member.run("b", "go").await["responseText"], "Hi.");
    faults.shutdown().await;
}

async fn an_agent_acts_as_its_principal(server: Server) {
    server.define_echo("look", json!({})).await;
    server.member("robot").await;
    let rules = calls_then(json!([{ "name": "look" }]), "Done.");
    server.define_agent("a", rules.clone(), json!({ "toolRefs": ["look"], "principalRef": "robot" })).await;
    server.define_agent("b", rules.clone(), json!({ "toolRefs": ["look"] })).await;
    let member = server.member("someone").await;
    let response = member.run("a", "go").await;
    assert_eq!(receipts(&response)[0]["metadata"]["principal"], "robot");
    // It is the member's run all the same.
    member.get(&format!("runs/{}", response["runId"].as_str().unwrap())).await.expect(200);
    // An administrator may act as anyone; the agent's own principal comes first.
    for (agent, principal) in [("a", "robot"), ("b", "someone")] {
        let response = server.say(agent, json!({ "userMessage": "go", "principalId": "someone" })).await.expect(200);
        assert_eq!(receipts(&response)[0]["metadata"]["principal"], principal, "{agent}");
    }
    server.define_agent("c", rules, json!({ "principalRef": "nobody" })).await;
    let problem = server.say("c", json!({ "userMessage": "go" })).await;
    assert_eq!(problem.status.as_u16() / 100, 4, "{}", problem.text);
}

async fn another_realm_must_be_allowed_and_entered(server: Server) {
    for realm in ["other", "third"] {
        server.post("realms", json!({ "name": realm })).await.expect(201);
    }
    server.define_echo("look", json!({})).await;
    server.in_realm("other").define_echo("look", json!({ "description": "there", "version": "2.0.0" })).await;
    let access =
        json!({ "toolRefs": ["look"], "allowedRealms": ["other"], "guardrails": [{ "type": "realm_boundary" }] });
    server.define_agent("a", calls_then(json!([{ "name": "look" }]), "Done."), access).await;
    let run = |server: Server, realm: &'static str| async move {
        server.say("a", json!({ "userMessage": "go", "realmId": realm })).await
    };
    assert_eq!(receipts(&run(server.clone(), "default").await.expect(200))[0]["version"], "1.0.0");
    let response = run(server.clone(), "other").await.expect(200);
    assert_eq!(receipts(&response)[0]["version"], "2.0.0", "it acts with the tools of that realm: {response}");
    run(server.clone(), "third").await.problem(403, "forbidden");
    run(server.clone(), "nowhere").await.problem(403, "forbidden");
    let member = server.member("someone").await;
    run(member, "other").await.problem(403, "forbidden");
    // The run belongs to the realm it was asked for in.
    let path = format!("runs/{}", response["runId"].as_str().unwrap());
    server.get(&path).await.expect(200);
    server.in_realm("other").get(&path).await.problem(404, "not-found");
}

async fn a_secret_shows_up_nowhere(server: Server) {
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
    let mirrored = &receipts(&response)[0]["output"]["headers"]["authorization"];
    assert!(
        receipts(&response).iter().any(|receipt| receipt["output"]["headers"]["authorization"] == "Bearer [redacted]"),
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

async fn the_largest_numbers_are_numbers(server: Server) {
    let llm = with(
        scripted(json!([{ "reply": { "text": "Fine." } }])),
        json!({ "maxInputTokens": u64::MAX, "maxOutputTokens": u32::MAX }),
    );
    let agent = json!({ "refName": "a", "llmConfig": llm, "maxToolsInContext": u32::MAX,
        "executionConfig": { "timeoutSeconds": u64::MAX, "maxIterations": u32::MAX, "maxParallelCalls": u32::MAX },
        "policy": { "maxTokens": u64::MAX, "maxToolCalls": u32::MAX },
        "memoryConfig": { "strategy": "sliding_window", "maxConversationTurns": u32::MAX, "maxContextTokens": u64::MAX } });
    server.post("agents", agent).await.expect(201);
    let first = server.run("a", "go").await;
    assert_eq!(first["status"], "COMPLETED", "{first}");
    assert_eq!(server.go_on("a", &first["conversationId"], "go").await.expect(200)["status"], "COMPLETED");
}

#[tokio::test]
async fn what_a_run_costs_is_counted_and_limited() {
    with_mock(|server| async move {
        server.define_echo("get_weather", json!({})).await;
        let agent = |name: &str, more: Value| {
            with(json!({ "refName": name, "llmConfig": openai("gpt-4o"), "toolRefs": ["get_weather"] }), more)
        };
        server.post("agents", agent("open", json!({}))).await.expect(201);
        let open = server.run("open", "compare two cities").await;
        assert_eq!(open["status"], "COMPLETED", "{open}");
        let cost = open["costUsd"].as_f64().unwrap();
        let usage = &open["usage"];
        let tokens = |field: &str| usage[field].as_f64().unwrap_or_else(|| panic!("{usage}"));
        let expected = tokens("inputTokens") / 1000.0 * 0.005 + tokens("outputTokens") / 1000.0 * 0.015;
        assert!((cost - expected).abs() < 1e-9 && cost > 0.0, "{cost} is not {expected}");
        let rail = json!({ "guardrails": [{ "type": "max_cost", "parameters": { "maxCostUsd": 0.000_001 } }] });
        for (name, limit) in [("policy", json!({ "policy": { "maxCostUsd": 0.000_001 } })), ("rail", rail)] {
            server.post("agents", agent(name, limit)).await.expect(201);
            let response = server.run(name, "compare two cities").await;
            let ended = (&response["status"], &response["reason"], &response["iterationsUsed"]);
            assert_eq!(
                ended,
                (&json!("BUDGET_EXCEEDED"), &json!("MAX_COST_EXCEEDED"), &json!(1)),
                "{name}: {response}"
            );
            assert_eq!(reasons(&response), ["MAX_COST_EXCEEDED", "MAX_COST_EXCEEDED"], "{name}");
            assert_eq!(response["responseText"], "Let me look.", "{name}");
        }
    })
    .await;
}

#[tokio::test]
async fn a_model_without_a_price_is_warned_of() {
    with_mock(|server| async move {
        server.define_echo("get_weather", json!({})).await;
        let agent =
            json!({ "refName": "a", "llmConfig": openai("nobody-knows-its-price"), "toolRefs": ["get_weather"] });
        server.post("agents", agent).await.expect(201);
        let response = server.run("a", "compare two cities").await;
        assert_eq!((&response["status"], &response["costUsd"]), (&json!("COMPLETED"), &json!(0.0)), "{response}");
        let warnings = response["warnings"].as_array().unwrap();
        assert_eq!(warnings.len(), 1, "once, not for every reply: {warnings:?}");
        assert!(warnings[0].as_str().unwrap().contains("`nobody-knows-its-price`"), "{warnings:?}");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_too_strange_to_be_said() {
    for edition in [Edition::Sqlite, Edition::PostgresAndRedis] {
        let home = Home::new(edition).await;
        let (server, running) = home.start().await;
        server.define_echo("look", json!({})).await;
        let call = json!([{ "name": "look", "arguments": { "at": "{{user}}" } }]);
        server.define_agent("a", calls_then(call, "I saw {{result/at}}"), json!({ "toolRefs": ["look"] })).await;
        for strange in ["a\u{0}b", "\u{feff}\u{202e}x", "🙂".repeat(10_000).as_str(), "\r\n\r\ndata: x\n\n", "{{user}}"]
        {
            let response = server.run("a", strange).await;
            assert_eq!(response["status"], "COMPLETED", "{response}");
            let run = server.get(&format!("runs/{}", response["runId"].as_str().unwrap())).await.expect(200);
            assert_eq!(run["outputs"], response["outputs"]);
            let events = server.events(response["runId"].as_str().unwrap(), None).await;
            assert_eq!(events.last().unwrap().data["content"], response["responseText"]);
            server.go_on("a", &response["conversationId"], strange).await.expect(200);
            server.get(&format!("conversations/{}", response["conversationId"].as_str().unwrap())).await.expect(200);
        }
        running.stop().await;
        home.remove().await;
    }
}
