//! Tests the response of an agent run: calls, model errors and structured answers. Also tests that the run, the run
//! list and the event stream agree.

use serde_json::{Value, json};
use toolwright_testkit::{Faults, LOOPBACK};

use crate::harness::{Deployment, Server, Storage, calls_then, envelopes, error_reasons, merge, scripted_model};

crate::on_both_databases!(response_contains_the_calls_with_their_outputs_and_the_token_usage);
crate::on_sqlite!(
    response_and_run_list_and_event_stream_show_the_same_run,
    calls_of_one_reply_run_in_parallel_up_to_the_limit,
    rejected_calls_are_reported_to_the_model,
    third_identical_call_causes_a_warning_and_the_fourth_is_not_made,
    empty_reply_is_retried_once,
    truncated_or_refused_reply_ends_the_run,
    model_error_ends_the_run,
    invalid_execute_request_is_rejected_before_a_run_starts,
    prompt_variables_are_filled_from_the_context,
    structured_answer_that_violates_its_schema_is_returned_to_the_model,
    answer_that_is_too_expensive_to_validate_ends_the_run_after_one_model_call,
    agent_with_the_largest_possible_limits_completes_its_runs
);

async fn response_contains_the_calls_with_their_outputs_and_the_token_usage(server: Server) {
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
    let envelope = &envelopes(&response)[0];
    let call = &response["toolCalls"][0];
    let shown = json!({ "toolRef": "look", "input": { "at": "Rome" }, "output": { "at": "Rome" }, "status": "SUCCESS",
        "callId": envelope["call_id"], "isServerTool": true, "wasExecuted": true, "requiresClientExecution": false,
        "resultJson": r#"{"at":"Rome"}"#, "durationMs": call["durationMs"] });
    assert_eq!(call, &shown);
    let outputs = &response["outputs"];
    assert_eq!(outputs["response"], response["responseText"]);
    assert_eq!(outputs["tool_order"], json!([envelope["call_id"]]));
    assert_eq!(&outputs["last_tool"], envelope);
    assert_eq!((&envelope["output"], &envelope["error"]), (&json!({ "at": "Rome" }), &Value::Null));
}

async fn response_and_run_list_and_event_stream_show_the_same_run(server: Server) {
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
    for (call, envelope) in response["toolCalls"].as_array().unwrap().iter().zip(envelopes(&response)) {
        assert_eq!(call["callId"], envelope["call_id"]);
        assert_eq!(call["output"], envelope["output"]);
        assert_eq!(call["errorMessage"], envelope["error"]["message"]);
    }
    assert_eq!(response["outputs"]["last_tool"]["input"], json!({ "n": 2 }));
    assert_eq!(response["pins"]["p"], response["outputs"]["last_tool"]);
    let events = server.events(run, None).await;
    let ended: Vec<&Value> = events
        .iter()
        .filter(|event| event.kind == "TOOL_CALL_END")
        .map(|event| &event.data["toolInvocation"])
        .collect();
    let mut expected = response["toolCalls"].as_array().unwrap().clone();
    expected.sort_by_key(|call| ended.iter().position(|other| *other == call));
    assert_eq!(ended, expected.iter().collect::<Vec<_>>(), "the stream contains the same calls");
    let done = events.last().unwrap();
    assert_eq!((&done.data["status"], &done.data["content"]), (&response["status"], &response["responseText"]));
}

async fn calls_of_one_reply_run_in_parallel_up_to_the_limit(server: Server) {
    let faults = Faults::builder().start(LOOPBACK).await.unwrap();
    server.define_http_tool("wait", &faults.base_url(), "/slow/${param.ms}", json!({})).await;
    // The first call takes longest, so the order in which the calls end shows how many of them ran in parallel.
    let calls: Vec<Value> =
        [600, 400, 50].iter().map(|ms| json!({ "name": "wait", "arguments": { "ms": ms } })).collect();
    let rules = calls_then(json!(calls), "Done.");
    for (name, config, ended) in [
        ("parallel", json!({}), [50, 400, 600]),
        ("one", json!({ "parallelToolCalls": false }), [600, 400, 50]),
        // The third call starts when the second call ends. The first call is still running then.
        ("two", json!({ "maxParallelCalls": 2 }), [400, 50, 600]),
    ] {
        server.define_agent(name, rules.clone(), json!({ "toolRefs": ["wait"], "executionConfig": config })).await;
        let events = server.stream(&format!("agents/{name}/execute/stream"), json!({ "userMessage": "go" })).await;
        let ends = events.iter().filter(|event| event.kind == "TOOL_CALL_END");
        let order: Vec<&Value> = ends.map(|event| &event.data["toolInvocation"]["output"]["waitedMs"]).collect();
        assert_eq!(order, ended.iter().map(|ms| json!(ms)).collect::<Vec<_>>().iter().collect::<Vec<_>>(), "{name}");
        let response = server.get(&format!("runs/{}", events[0].data["runId"].as_str().unwrap())).await.expect(200);
        let waited: Vec<Value> =
            envelopes(&response).iter().map(|envelope| envelope["output"]["waitedMs"].clone()).collect();
        assert_eq!(waited, [600, 400, 50], "{name}: outputs keep the order of the calls");
    }
    faults.shutdown().await;
}

async fn rejected_calls_are_reported_to_the_model(server: Server) {
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
            { "when": { "failed": true, "result": code }, "reply": { "text": "I got the error." } }
        ]);
        let agent =
            json!({ "refName": "a", "llmConfig": scripted_model(rules), "toolRefs": ["number", "open", "off"] });
        server.post("agents", agent).await.expect(201);
        let response = server.run("a", "go").await;
        assert_eq!(response["responseText"], "I got the error.", "{call}: {response}");
        let envelope = &envelopes(&response)[0];
        assert_eq!(
            (&envelope["error"]["code"], &envelope["error"]["details"]["reason"]),
            (&json!(code), &reason),
            "{call}"
        );
        assert_eq!(response["toolCalls"][0]["status"], status, "{call}");
        assert_eq!(response["toolCalls"][0]["wasExecuted"], false, "{call}");
        assert_eq!(response["outputs"].get("last_tool").cloned().unwrap_or_default(), Value::Null, "{call}");
        server.delete("agents/a").await.expect(204);
    }
}

async fn third_identical_call_causes_a_warning_and_the_fourth_is_not_made(server: Server) {
    server.define_echo("look", json!({})).await;
    let rules = json!([
        { "when": { "result": "suppressed_repeat" }, "reply": { "text": "I stop." } },
        { "when": { "result": "another repeat will not be run" }, "reply": { "text": "Warned.", "toolCalls": [{ "name": "look" }] } },
        { "reply": { "toolCalls": [{ "name": "look" }] } }
    ]);
    server.define_agent("a", rules, json!({ "toolRefs": ["look"] })).await;
    let response = server.run("a", "go").await;
    assert_eq!(response["responseText"], "I stop.");
    assert_eq!(error_reasons(&response), [json!(null), json!(null), json!(null), json!("suppressed_repeat")]);
    let mut ids = response["outputs"]["tool_order"].as_array().unwrap().clone();
    ids.dedup();
    assert_eq!(ids.len(), 4, "every call has its own id");
    // Identical calls in one reply do not count as repeated, because the model has not seen a result between them.
    let twice = json!([{ "name": "look" }, { "name": "look" }, { "name": "look" }, { "name": "look" }]);
    server.define_agent("b", calls_then(twice, "Done."), json!({ "toolRefs": ["look"] })).await;
    assert_eq!(error_reasons(&server.run("b", "go").await), vec![Value::Null; 4]);
}

async fn empty_reply_is_retried_once(server: Server) {
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

async fn truncated_or_refused_reply_ends_the_run(server: Server) {
    for (stop, reason) in [("max_tokens", "max_tokens"), ("refusal", "refusal")] {
        let rules = json!([{ "when": { "turn": 0 }, "reply": { "text": "This goes", "stop": stop } }]);
        server.define_agent(stop, rules, json!({})).await;
        let response = server.run(stop, "go").await;
        let ended = (&response["status"], &response["reason"], &response["iterationsUsed"], &response["responseText"]);
        assert_eq!(ended, (&json!("COMPLETED"), &json!(reason), &json!(1), &json!("This goes")));
    }
    // Calls in a reply that is a refusal are skipped. Each of them still has an envelope.
    let rules = json!([{ "reply": { "text": "No.", "stop": "refusal", "toolCalls": [{ "name": "echo" }] } }]);
    server.define_agent("both", rules, json!({ "toolRefs": ["echo"] })).await;
    let response = server.run("both", "go").await;
    assert_eq!(error_reasons(&response), ["refusal"]);
    assert_eq!(response["toolCalls"][0]["status"], "SKIPPED");
}

async fn model_error_ends_the_run(server: Server) {
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
        assert_eq!(envelopes(&response).len(), 1, "completed calls are kept");
        assert_eq!(response["responseText"], "First.");
    }
    // The fallback model answers when the first model fails.
    let agent = json!({ "refName": "twice", "llmConfig": scripted_model(json!([{ "error": { "kind": "malformed" } }])), "fallbackModel": scripted_model(json!([{ "reply": { "text": "I am the other." } }])) });
    server.post("agents", agent).await.expect(201);
    let response = server.run("twice", "go").await;
    assert_eq!(response["responseText"], "I am the other.", "{response}");
}

async fn invalid_execute_request_is_rejected_before_a_run_starts(server: Server) {
    server.define_agent("a", json!([{ "reply": { "text": "Hi." } }]), json!({})).await;
    server.define_agent("off", json!([{ "reply": { "text": "Hi." } }]), json!({ "enabled": false })).await;
    let result = json!([{ "callId": "call_aaaaaaaaaaaaaaaaaaaaaaaaaa", "output": 1 }]);
    for (body, status, code, path) in [
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
        let problem = server.execute_agent("a", body.clone()).await.problem(status, code);
        if !path.is_empty() {
            assert_eq!(problem["errors"][0]["path"], path, "{body}: {problem}");
        }
    }
    server.execute_agent("off", json!({ "userMessage": "hi" })).await.problem(409, "agent-disabled");
    server.execute_agent("nobody", json!({ "userMessage": "hi" })).await.problem(404, "not-found");
    server.post("agents/off/execute/stream", json!({ "userMessage": "hi" })).await.problem(409, "agent-disabled");
    server.with_key("").execute_agent("a", json!({ "userMessage": "hi" })).await.problem(401, "unauthenticated");
    assert_eq!(server.get("runs").await.expect(200)["items"], json!([]), "no run was started");
    assert_eq!(server.get("conversations").await.expect(200)["items"], json!([]));
    server
        .execute_agent(
            "a",
            json!({ "userMessage": "hi", "agentRef": "A", "conversationId": null, "toolResults": null }),
        )
        .await
        .expect(200);
}

async fn prompt_variables_are_filled_from_the_context(server: Server) {
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
    let run_with_context = |context: Value| {
        let server = server.clone();
        async move { server.execute_agent("a", json!({ "userMessage": "hi", "context": context })).await.expect(200) }
    };
    let full = run_with_context(json!({ "tone": "brief", "team": { "name": "sales" } })).await;
    assert_eq!(full["responseText"], "all");
    assert_eq!(full.get("warnings"), None, "{full}");
    let empty = run_with_context(json!({})).await;
    assert_eq!(empty["responseText"], "none");
    let warnings = empty["warnings"].to_string();
    assert!(warnings.contains("`tone`") && warnings.contains("`team.name`"), "{warnings}");
    assert_eq!(
        run_with_context(json!({ "tone": "{{x}}" })).await["responseText"],
        "raw",
        "a context is never a template"
    );
    // The next run uses the changed prompt fragment.
    server.put("prompt-fragments/team", json!({ "refName": "team", "content": "" })).await.expect(200);
    assert_eq!(
        run_with_context(json!({ "tone": "brief", "team": { "name": "sales" } })).await["responseText"],
        "other"
    );
}

async fn structured_answer_that_violates_its_schema_is_returned_to_the_model(server: Server) {
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
    assert_eq!(response["iterationsUsed"], 3, "the answer is sent back at most twice");
    assert_eq!(response["responseText"], "{}");
    server.define_agent("any", json!([{ "reply": { "text": "[1, 2]" } }]), json!({ "responseFormat": "json" })).await;
    assert_eq!(server.run("any", "go").await["outputContext"], json!([1, 2]));
    server.define_agent("text", json!([{ "reply": { "text": "[1, 2]" } }]), json!({})).await;
    assert_eq!(server.run("text", "go").await.get("outputContext"), None);
}

/// A schema that needs about 2^40 steps to check an object.
fn expensive_schema() -> Value {
    let mut definitions = json!({ "d0": { "type": "object" } });
    for level in 1..=40 {
        let inner = json!({ "$ref": format!("#/$defs/d{}", level - 1) });
        definitions[format!("d{level}")] = json!({ "allOf": [inner, inner] });
    }
    json!({ "$defs": definitions, "$ref": "#/$defs/d40" })
}

async fn answer_that_is_too_expensive_to_validate_ends_the_run_after_one_model_call(server: Server) {
    let structured = json!({ "responseFormat": "structured", "responseSchema": expensive_schema() });
    server.define_agent("a", json!([{ "reply": { "text": "{}" } }]), structured).await;
    let response = server.run("a", "go").await;
    assert_eq!((&response["status"], &response["reason"]), (&json!("ERROR"), &json!("answer_unchecked")), "{response}");
    assert_eq!(response["iterationsUsed"], 1, "another answer would not help");
    let message = response["message"].as_str().unwrap();
    assert!(
        message.starts_with("the answer cannot be checked against `responseSchema`: the operation must"),
        "{message}"
    );
    assert_eq!(response["responseText"], "{}");
    // If the whole answer has the wrong type, the error contains no path.
    let list = json!({ "responseFormat": "structured", "responseSchema": { "type": "array" } });
    server.define_agent("b", json!([{ "reply": { "text": "{}" } }]), list).await;
    let message = server.run("b", "go").await["message"].as_str().unwrap().to_owned();
    assert!(message.contains("3 times: {} is not of type"), "{message}");
}

async fn agent_with_the_largest_possible_limits_completes_its_runs(server: Server) {
    let llm = merge(
        scripted_model(json!([{ "reply": { "text": "Fine." } }])),
        json!({ "maxInputTokens": u64::MAX, "maxOutputTokens": u32::MAX }),
    );
    let agent = json!({ "refName": "a", "llmConfig": llm, "maxToolsInContext": u32::MAX,
        "executionConfig": { "timeoutSeconds": u64::MAX, "maxIterations": u32::MAX, "maxParallelCalls": u32::MAX },
        "policy": { "maxTokens": u64::MAX, "maxToolCalls": u32::MAX },
        "memoryConfig": { "strategy": "sliding_window", "maxConversationTurns": u32::MAX, "maxContextTokens": u64::MAX } });
    server.post("agents", agent).await.expect(201);
    let first = server.run("a", "go").await;
    assert_eq!(first["status"], "COMPLETED", "{first}");
    assert_eq!(
        server.continue_conversation("a", &first["conversationId"], "go").await.expect(200)["status"],
        "COMPLETED"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn user_message_with_control_characters_or_emoji_is_stored_unchanged() {
    for storage in [Storage::Sqlite, Storage::PostgresAndRedis] {
        let deployment = Deployment::new(storage).await;
        let (server, running) = deployment.start().await;
        server.define_echo("look", json!({})).await;
        let call = json!([{ "name": "look", "arguments": { "at": "{{user}}" } }]);
        server.define_agent("a", calls_then(call, "I saw {{result/at}}"), json!({ "toolRefs": ["look"] })).await;
        for text in ["a\u{0}b", "\u{feff}\u{202e}x", "🙂".repeat(10_000).as_str(), "\r\n\r\ndata: x\n\n", "{{user}}"]
        {
            let response = server.run("a", text).await;
            assert_eq!(response["status"], "COMPLETED", "{response}");
            let run = server.get(&format!("runs/{}", response["runId"].as_str().unwrap())).await.expect(200);
            assert_eq!(run["outputs"], response["outputs"]);
            let events = server.events(response["runId"].as_str().unwrap(), None).await;
            assert_eq!(events.last().unwrap().data["content"], response["responseText"]);
            server.continue_conversation("a", &response["conversationId"], text).await.expect(200);
            server.get(&format!("conversations/{}", response["conversationId"].as_str().unwrap())).await.expect(200);
        }
        running.stop().await;
        deployment.remove().await;
    }
}
