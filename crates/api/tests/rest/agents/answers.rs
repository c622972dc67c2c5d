//! What a run answers, from whatever the model says, and what every view of it tells.

use serde_json::{Value, json};
use toolwright_testkit::{Faults, LOOPBACK};

use crate::harness::{Edition, Home, Server, calls_then, reasons, receipts, scripted, with};

crate::on_both_editions!(a_run_answers_with_all_it_did);
crate::on_sqlite!(
    every_view_of_a_run_tells_the_same,
    calls_of_one_reply_run_side_by_side,
    calls_that_cannot_be_made_are_told_to_the_model,
    a_repeated_call_is_warned_of_and_then_not_made,
    an_empty_reply_gets_one_nudge,
    cut_and_refused_answers_end_the_run,
    a_model_that_fails_ends_the_run,
    wrong_requests_are_refused_before_anything_begins,
    prompts_are_filled_with_the_context,
    structured_answers_fit_or_are_sent_back,
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
