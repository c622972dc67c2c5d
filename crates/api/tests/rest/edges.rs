//! Where several things meet: delegates and people, many speakers, deep values, two servers. Each of these once went wrong.

use axum::Router;
use axum::response::IntoResponse;
use axum::routing::any;
use futures::future::join_all;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio_util::task::TaskTracker;
use toolwright_testkit::{Faults, LOOPBACK};

use crate::harness::{Edition, Home, Server, calls_then, reasons, receipts, with};

crate::on_both_editions!(
    a_run_that_has_just_begun_can_delegate,
    what_was_said_is_written_once,
    a_conversation_is_busy_from_the_first_moment,
    one_of_many_who_speak_at_once_is_heard
);
crate::on_sqlite!(
    what_a_cancelled_run_started_no_longer_waits,
    a_cancelled_run_takes_back_what_its_delegate_was_allowed,
    time_in_which_a_delegate_waits_for_a_person_is_not_counted,
    a_queued_call_runs_with_the_definition_that_was_approved,
    what_was_decided_is_no_longer_pending,
    a_run_that_waits_is_not_shown_as_failed_for_a_pin,
    a_missing_pin_is_told_by_every_view,
    calls_of_delegates_count,
    a_receipt_begins_when_its_call_begins,
    a_model_that_writes_no_json_is_told_so,
    a_stale_pin_is_not_pushed_out_by_others,
    credentials_in_the_url_of_a_model_are_refused,
    a_guardrail_on_cost_is_more_than_nothing,
    a_fallback_of_an_unknown_provider_is_refused,
    a_tool_that_was_found_is_shown_however_little_room_there_is,
    results_go_to_the_agent_they_are_sent_to,
    turns_show_calls_as_a_list,
    what_is_nested_deep_can_be_read_back,
    what_is_nested_deep_can_be_cancelled,
    an_edit_that_is_nested_deep_can_be_read_back,
    a_run_nobody_can_read_does_not_hurt_others,
    what_a_delegate_hands_to_the_client_reaches_it,
    a_prompt_has_a_largest_size,
    a_disabled_agent_does_nothing_more,
    an_archived_conversation_takes_nothing_more
);

fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value[field].as_str().unwrap_or_else(|| panic!("no {field} in {value}"))
}

fn ask(agent: &str) -> Value {
    json!({ "name": agent, "arguments": { "task": "x" } })
}

/// The caller's row is written behind; its first call may come before it.
async fn a_run_that_has_just_begun_can_delegate(server: Server) {
    server.define_agent("helper", json!([{ "reply": { "text": "Helped." } }]), json!({})).await;
    let rules = calls_then(json!([ask("helper")]), "Told: {{result/responseText}}");
    server.define_agent("boss", rules, json!({ "delegateAgentRefs": ["helper"] })).await;
    let response = server.run("boss", "go").await;
    assert_eq!(response["responseText"], "Told: Helped.", "{}", receipts(&response)[0]["error"]);
}

async fn what_was_said_is_written_once(server: Server) {
    server.define_agent("helper", json!([{ "reply": { "text": "Helped." } }]), json!({})).await;
    let rules = calls_then(json!([ask("helper")]), "Done.");
    server.define_agent("boss", rules, json!({ "delegateAgentRefs": ["helper"] })).await;
    for _ in 0..20 {
        let response = server.run("boss", "go").await;
        let (run, talk) = (text(&response, "runId"), text(&response, "conversationId"));
        let ended = server.get(&format!("runs/{run}")).await.expect(200)["endedAt"].clone();
        // Whoever was late to hear of the end has heard of it by now.
        server.post(&format!("runs/{run}/cancel"), json!({})).await.problem(409, "run-ended");
        let talk = server.get(&format!("conversations/{talk}")).await.expect(200);
        assert_eq!(talk["turnCount"], 4, "{talk}");
        assert_eq!(server.get(&format!("runs/{run}")).await.expect(200)["endedAt"], ended);
    }
}

async fn define_slow(server: &Server, faults: &str) -> Value {
    server.define_call("wait", faults, "/slow/60000", json!({})).await;
    let rules = json!([
        { "when": { "user": "wait", "turn": 0 }, "reply": { "toolCalls": [{ "name": "wait" }] } },
        { "reply": { "text": "Fine." } }
    ]);
    server.define_agent("a", rules, json!({ "toolRefs": ["wait"] })).await;
    server.run("a", "hi").await["conversationId"].clone()
}

async fn a_conversation_is_busy_from_the_first_moment(server: Server) {
    let faults = Faults::builder().start(LOOPBACK).await.unwrap();
    let conversation = define_slow(&server, &faults.base_url()).await;
    let body = json!({ "userMessage": "wait", "conversationId": conversation });
    let mut stream = server.live(server.request(reqwest::Method::POST, "agents/a/execute/stream").json(&body)).await;
    stream.next().await.unwrap();
    let answer = server.go_on("a", &conversation, "hi").await;
    faults.shutdown().await;
    answer.problem(409, "conversation-busy");
}

async fn one_of_many_who_speak_at_once_is_heard(server: Server) {
    server.define_echo("look", json!({ "isToolFullyExecutedOnServer": false })).await;
    let rules = json!([{ "when": { "user": "look" }, "reply": { "toolCalls": [{ "name": "look" }] } }, { "reply": { "text": "Fine." } }]);
    server.define_agent("b", rules, json!({ "toolRefs": ["look"] })).await;
    let conversation = server.run("b", "hi").await["conversationId"].clone();
    let answers = join_all((0..8).map(|_| server.go_on("b", &conversation, "look"))).await;
    let waiting = answers.iter().filter(|answer| answer.status.as_u16() == 200).count();
    assert_eq!(waiting, 1, "a conversation waits for its client in one run at a time");
}

async fn define_clerk(server: &Server, boss: Value) {
    server.define_echo("pay", json!({ "sideEffects": "writes", "requiresConfirmation": true })).await;
    server.define_agent("clerk", calls_then(json!([{ "name": "pay" }]), "Paid."), json!({ "toolRefs": ["pay"] })).await;
    let agent = with(json!({ "delegateAgentRefs": ["clerk"], "executionConfig": { "durable": true } }), boss);
    server.define_agent("boss", calls_then(json!([ask("clerk")]), "Done."), agent).await;
}

/// Starts the boss, and waits until its clerk waits for a person: the boss's run and what is pending.
async fn until_asked(server: &Server) -> (String, Value) {
    let mut stream = server.start("boss", "go").await;
    let run = text(&stream.until("TOOL_CALL_START").await.data, "runId").to_owned();
    let pending = server.until("approvals", |page| page["items"] != json!([])).await;
    (run, json!({ "approvals": pending["items"] }))
}

async fn what_a_cancelled_run_started_no_longer_waits(server: Server) {
    define_clerk(&server, json!({})).await;
    let (run, pending) = until_asked(&server).await;
    server.post(&format!("runs/{run}/cancel"), json!({})).await.expect(200);
    let child = format!("runs/{}", text(&pending["approvals"][0], "runId"));
    server.until(&child, |child| child["status"] == "CANCELLED").await;
}

async fn a_cancelled_run_takes_back_what_its_delegate_was_allowed(server: Server) {
    define_clerk(&server, json!({})).await;
    let (run, pending) = until_asked(&server).await;
    server.post(&format!("runs/{run}/cancel"), json!({})).await.expect(200);
    let answer = server.decide(&pending, 0, json!({ "decision": "approve" })).await;
    assert_eq!(answer.status.as_u16(), 409, "nobody wants this payment any more: {}", answer.text);
}

async fn time_in_which_a_delegate_waits_for_a_person_is_not_counted(server: Server) {
    define_clerk(&server, json!({ "executionConfig": { "durable": true, "timeoutSeconds": 1 } })).await;
    let mut stream = server.start("boss", "go").await;
    stream.until("TOOL_CALL_START").await;
    let pending = server.until("approvals", |page| page["items"] != json!([])).await;
    let ended = tokio::time::timeout(std::time::Duration::from_secs(3), stream.until("DONE")).await;
    assert!(ended.is_err(), "the run ended while a person was thinking: {}", ended.unwrap().data);
    server.decide(&json!({ "approvals": pending["items"] }), 0, json!({ "decision": "approve" })).await.expect(200);
    assert_eq!(stream.until("DONE").await.data["status"], "COMPLETED");
}

async fn a_queued_call_runs_with_the_definition_that_was_approved(server: Server) {
    let faults = Faults::builder().start(LOOPBACK).await.unwrap();
    server.define_call("wait", &faults.base_url(), "/slow/1500", json!({ "requiresConfirmation": true })).await;
    server.define_call("pay", &faults.base_url(), "/count/little", json!({ "requiresConfirmation": true })).await;
    let agent = json!({ "toolRefs": ["wait", "pay"], "executionConfig": { "parallelToolCalls": false } });
    server.define_agent("a", calls_then(json!([{ "name": "wait" }, { "name": "pay" }]), "Done."), agent).await;
    let waiting = server.run("a", "go").await;
    for approval in waiting["approvals"].as_array().unwrap() {
        let path = format!("runs/{}/approvals/{}?wait=false", text(approval, "runId"), text(approval, "callId"));
        server.post(&path, json!({ "decision": "approve" })).await.expect(202);
    }
    // Both are approved; the second has its turn when the first is done. Meanwhile it becomes something else.
    let mut stream = server.live(server.watching(text(&waiting, "runId"), None)).await;
    stream.until("TOOL_CALL_START").await;
    server.patch("tools/pay", json!({ "invocation": { "path": "/count/all_there_is" } })).await.expect(200);
    stream.until("DONE").await;
    let response = server.get(&format!("runs/{}", text(&waiting, "runId"))).await.expect(200);
    let hits = faults.hits("/count/all_there_is");
    faults.shutdown().await;
    assert_eq!(hits, 0, "nobody approved this: {:?}", reasons(&response));
}

async fn what_was_decided_is_no_longer_pending(server: Server) {
    let faults = Faults::builder().start(LOOPBACK).await.unwrap();
    server.define_call("wait", &faults.base_url(), "/slow/60000", json!({ "requiresConfirmation": true })).await;
    server.define_agent("a", calls_then(json!([{ "name": "wait" }]), "Done."), json!({ "toolRefs": ["wait"] })).await;
    let waiting = server.run("a", "go").await;
    let mut stream = server.live(server.watching(text(&waiting, "runId"), None)).await;
    let approval = &waiting["approvals"][0];
    let path = format!("runs/{}/approvals/{}?wait=false", text(approval, "runId"), text(approval, "callId"));
    server.post(&path, json!({ "decision": "approve" })).await.expect(202);
    stream.until("TOOL_CALL_START").await;
    let one = server.get(&format!("runs/{}", text(&waiting, "runId"))).await.expect(200)["status"].clone();
    server.until("approvals", |approvals| approvals["items"] == json!([])).await;
    let listed = server.get("runs").await.expect(200)["items"][0]["status"].clone();
    faults.shutdown().await;
    assert_eq!(listed, one, "the list says the same as the run");
}

async fn a_run_that_waits_is_not_shown_as_failed_for_a_pin(server: Server) {
    server.define_echo("pay", json!({ "requiresConfirmation": true })).await;
    let pins = json!([{ "name": "p", "selector": { "tool": "pay" }, "on_missing": "error" }]);
    server
        .define_agent(
            "a",
            calls_then(json!([{ "name": "pay" }]), "Done."),
            json!({ "toolRefs": ["pay"], "pins": pins }),
        )
        .await;
    let waiting = server.run("a", "go").await;
    assert_eq!(waiting["status"], "AWAITING_APPROVAL", "{waiting}");
}

async fn a_missing_pin_is_told_by_every_view(server: Server) {
    let pins = json!([{ "name": "p", "selector": { "tool": "pay" }, "on_missing": "error" }]);
    server.define_agent("a", json!([{ "reply": { "text": "Done." } }]), json!({ "pins": pins })).await;
    let response = server.run("a", "go").await;
    let listed = &server.get("runs").await.expect(200)["items"][0];
    assert_eq!((&listed["status"], &listed["reason"]), (&response["status"], &response["reason"]));
    let events = server.events(text(&response, "runId"), None).await;
    assert_eq!(events.last().unwrap().data["status"], response["status"]);
}

async fn calls_of_delegates_count(server: Server) {
    server.define_echo("look", json!({})).await;
    let calls: Vec<Value> = (0..9).map(|n| json!({ "name": "look", "arguments": { "n": n } })).collect();
    server.define_agent("busy", calls_then(json!(calls), "Done."), json!({ "toolRefs": ["look"] })).await;
    let rules = json!([
        { "when": { "turn": 0 }, "reply": { "toolCalls": [{ "name": "busy", "arguments": { "task": "a" } }] } },
        { "when": { "turn": 1 }, "reply": { "toolCalls": [{ "name": "busy", "arguments": { "task": "b" } }] } },
        { "when": { "turn": 2 }, "reply": { "toolCalls": [{ "name": "busy", "arguments": { "task": "c" } }] } },
        { "reply": { "text": "Done." } }
    ]);
    let agent = json!({ "delegateAgentRefs": ["busy"], "policy": { "maxToolCalls": 4 }, "executionConfig": { "durable": true } });
    server.define_agent("boss", rules, agent).await;
    let response = server.run("boss", "go").await;
    let mut made = receipts(&response).iter().filter(|receipt| receipt["error"].is_null()).count();
    let children = server.get(&format!("runs?parentRunId={}", text(&response, "runId"))).await.expect(200);
    for child in children["items"].as_array().unwrap() {
        let child = server.get(&format!("runs/{}", text(child, "id"))).await.expect(200);
        made += receipts(&child).iter().filter(|receipt| receipt["error"].is_null()).count();
    }
    assert!(made <= 4, "four calls were allowed, {made} were made");
}

async fn a_receipt_begins_when_its_call_begins(server: Server) {
    let faults = Faults::builder().start(LOOPBACK).await.unwrap();
    server.define_call("wait", &faults.base_url(), "/slow/${param.ms}", json!({})).await;
    let calls = json!([{ "name": "wait", "arguments": { "ms": 800 } }, { "name": "wait", "arguments": { "ms": 1 } }]);
    let agent = json!({ "toolRefs": ["wait"], "executionConfig": { "parallelToolCalls": false } });
    server.define_agent("a", calls_then(calls, "Done."), agent).await;
    let response = server.run("a", "go").await;
    faults.shutdown().await;
    let receipts = receipts(&response);
    assert!(text(&receipts[1], "t_start") >= text(&receipts[0], "t_end"), "one after the other: {receipts:?}");
}

async fn a_model_that_writes_no_json_is_told_so(server: Server) {
    let schema = json!({ "type": "object", "properties": { "n": { "type": "integer" } } });
    server.define_echo("number", json!({ "inputJsonSchema": schema })).await;
    let call = json!([{ "name": "number", "rawArguments": "{\"n\": 1" }]);
    server.define_agent("a", calls_then(call, "{{result}}"), json!({ "toolRefs": ["number"] })).await;
    let response = server.run("a", "go").await;
    assert_eq!(reasons(&response), ["malformed_json"], "{}", response["responseText"]);
}

async fn a_stale_pin_is_not_pushed_out_by_others(server: Server) {
    server.define_echo("look", json!({})).await;
    let rules = json!([{ "when": { "user": "look", "turn": 0 }, "reply": { "toolCalls": [{ "name": "look" }] } }, { "reply": { "text": "Done." } }]);
    let pins = json!([{ "name": "p", "selector": { "tool": "look" }, "on_missing": "stale_last_success" }]);
    server.define_agent("a", rules, json!({ "toolRefs": ["look"], "pins": pins })).await;
    let north = server.member("north").await;
    north.run("a", "look").await;
    assert_ne!(north.run("a", "hi").await["pins"]["p"], Value::Null, "while nobody else speaks to it");
    join_all((0..51).map(|_| server.run("a", "hi"))).await;
    assert_ne!(north.run("a", "hi").await["pins"]["p"], Value::Null, "North's last success is one run ago");
}

async fn credentials_in_the_url_of_a_model_are_refused(server: Server) {
    for base_url in ["https://user:hunter2hunter2@example.com/v1", "https://example.com/v1?api_key=sk-0123456789abcdef"]
    {
        let llm = json!({ "provider": "openai", "model": "gpt-4o", "baseUrl": base_url });
        server.post("agents", json!({ "refName": "a", "llmConfig": llm })).await.problem(422, "invalid-definition");
    }
}

async fn a_guardrail_on_cost_is_more_than_nothing(server: Server) {
    for limit in [0.0, -1.0] {
        let rail = json!([{ "type": "max_cost", "parameters": { "maxCostUsd": limit } }]);
        let agent =
            json!({ "refName": "a", "llmConfig": { "provider": "openai", "model": "gpt-4o" }, "guardrails": rail });
        server.post("agents", agent).await.problem(422, "invalid-definition");
    }
}

async fn a_fallback_of_an_unknown_provider_is_refused(server: Server) {
    let agent = json!({ "refName": "a", "llmConfig": { "provider": "openai", "model": "gpt-4o" }, "fallbackModel": "antropic/claude-sonnet-4" });
    server.post("agents", agent).await.problem(422, "invalid-definition");
}

async fn a_tool_that_was_found_is_shown_however_little_room_there_is(server: Server) {
    for name in ["one", "two", "invoice"] {
        server.define_echo(name, json!({})).await;
    }
    let rules = json!([
        { "when": { "turn": 0 }, "reply": { "toolCalls": [{ "name": "search_tools", "arguments": { "query": "invoice" } }] } },
        { "when": { "offers": "invoice" }, "reply": { "text": "I see it." } },
        { "reply": { "text": "I see nothing." } }
    ]);
    server.define_agent("a", rules, json!({ "toolRefs": ["one", "two", "invoice"], "maxToolsInContext": 1 })).await;
    assert_eq!(server.run("a", "hi").await["responseText"], "I see it.");
}

async fn results_go_to_the_agent_they_are_sent_to(server: Server) {
    server.define_echo("open", json!({ "isToolFullyExecutedOnServer": false })).await;
    server.define_agent("a", calls_then(json!([{ "name": "open" }]), "Done."), json!({ "toolRefs": ["open"] })).await;
    let waiting = server.run("a", "go").await;
    let body = json!({ "conversationId": waiting["conversationId"], "toolResults": [{ "callId": waiting["clientActions"][0]["callId"], "output": {} }] });
    server.say("nobody", body).await.problem(404, "not-found");
}

async fn turns_show_calls_as_a_list(server: Server) {
    server.define_agent("a", calls_then(json!([{ "name": "echo" }]), "Done."), json!({ "toolRefs": ["echo"] })).await;
    let response = server.run("a", "go").await;
    let kept = server.get(&format!("conversations/{}", text(&response, "conversationId"))).await.expect(200);
    assert!(kept["turns"][1]["toolCalls"].is_array(), "{}", kept["turns"][1]);
}

/// A server that answers everything with lists in lists.
async fn deep_server(levels: usize) -> String {
    let body = format!("{}{}", "[".repeat(levels), "]".repeat(levels));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let answer = move || async move { ([("content-type", "application/json")], body).into_response() };
    let app = Router::new().route("/deep", any(answer));
    TaskTracker::new().spawn(async move { axum::serve(listener, app).await });
    url
}

async fn what_is_nested_deep_can_be_read_back(server: Server) {
    for levels in [60, 100, 120, 124, 125, 126, 127] {
        let name = format!("deep{levels}");
        server.define_call(&name, &deep_server(levels).await, "/deep", json!({ "outputJsonSchema": {} })).await;
        server
            .define_agent(
                &format!("a{levels}"),
                calls_then(json!([{ "name": name }]), "Done."),
                json!({ "toolRefs": [name] }),
            )
            .await;
        let response = server.run(&format!("a{levels}"), "go").await;
        assert_eq!(response["status"], "COMPLETED", "{levels}: {response}");
        let read = server.get(&format!("runs/{}", text(&response, "runId"))).await;
        assert_eq!(read.status.as_u16(), 200, "{levels}: {}", read.text);
    }
}

/// An agent that gets something deep and then waits for a person.
async fn define_deep(server: &Server, more: Value) {
    server.define_call("deep", &deep_server(126).await, "/deep", json!({ "outputJsonSchema": {} })).await;
    server.define_echo("pay", json!({ "requiresConfirmation": true })).await;
    let rules = json!([
        { "when": { "user": "deep", "turn": 0 }, "reply": { "toolCalls": [{ "name": "deep" }, { "name": "pay" }] } },
        { "reply": { "text": "Done." } }
    ]);
    server.define_agent("a", rules, with(json!({ "toolRefs": ["deep", "pay"] }), more)).await;
}

async fn what_is_nested_deep_can_be_cancelled(server: Server) {
    define_deep(&server, json!({})).await;
    let waiting = server.run("a", "deep").await;
    assert_eq!(waiting["status"], "AWAITING_APPROVAL", "{waiting}");
    server.post(&format!("runs/{}/cancel", text(&waiting, "runId")), json!({})).await.expect(200);
}

fn nested(levels: usize) -> Value {
    (0..levels).fold(json!(1), |inner, _| json!([inner]))
}

async fn readable(server: &Server, run: &Value) {
    let read = server.get(&format!("runs/{}", text(run, "runId"))).await;
    assert_eq!(read.status.as_u16(), 200, "{}", read.text);
}

async fn an_edit_that_is_nested_deep_can_be_read_back(server: Server) {
    server.define_echo("pay", json!({ "requiresConfirmation": true })).await;
    server.define_agent("a", calls_then(json!([{ "name": "pay" }]), "Done."), json!({ "toolRefs": ["pay"] })).await;
    for levels in [100, 125, 126] {
        let waiting = server.run("a", "go").await;
        let answer =
            server.decide(&waiting, 0, json!({ "decision": "edit", "input": { "x": nested(levels - 1) } })).await;
        assert!([200, 400].contains(&answer.status.as_u16()), "{levels}: {}", answer.text);
        readable(&server, &waiting).await;
    }
}

async fn a_run_nobody_can_read_does_not_hurt_others(server: Server) {
    let pins = json!([{ "name": "p", "selector": { "tool": "never" }, "on_missing": "stale_last_success" }]);
    server.define_call("deep", &deep_server(126).await, "/deep", json!({ "outputJsonSchema": {} })).await;
    let rules = json!([{ "when": { "user": "deep", "turn": 0 }, "reply": { "toolCalls": [{ "name": "deep" }] } }, { "reply": { "text": "Done." } }]);
    server.define_agent("a", rules, json!({ "toolRefs": ["deep"], "pins": pins })).await;
    server.run("a", "deep").await;
    assert_eq!(server.run("a", "hi").await["status"], "COMPLETED");
}

async fn what_a_delegate_hands_to_the_client_reaches_it(server: Server) {
    server.define_echo("open", json!({ "isToolFullyExecutedOnServer": false })).await;
    server
        .define_agent("reader", calls_then(json!([{ "name": "open" }]), "Read."), json!({ "toolRefs": ["open"] }))
        .await;
    let agent = json!({ "delegateAgentRefs": ["reader"], "executionConfig": { "durable": true, "timeoutSeconds": 2 } });
    server.define_agent("boss", calls_then(json!([ask("reader")]), "Done."), agent).await;
    let response = server.run("boss", "go").await;
    assert_eq!(response["status"], "AWAITING_CLIENT", "{response}");
}

async fn a_prompt_has_a_largest_size(server: Server) {
    let prompt = json!({ "systemPrompt": "{{x}}".repeat(3) });
    server.define_agent("a", json!([{ "reply": { "text": "Read it all." } }]), prompt).await;
    let context = json!({ "x": "x".repeat(500_000) });
    server.say("a", json!({ "userMessage": "hi", "context": context })).await.problem(400, "invalid-request");
}

async fn a_disabled_agent_does_nothing_more(server: Server) {
    server.define_echo("pay", json!({ "requiresConfirmation": true })).await;
    server.define_agent("a", calls_then(json!([{ "name": "pay" }]), "Done."), json!({ "toolRefs": ["pay"] })).await;
    let waiting = server.run("a", "go").await;
    server.patch("agents/a", json!({ "enabled": false })).await.expect(200);
    let answer = server.decide(&waiting, 0, json!({ "decision": "approve" })).await;
    assert_eq!(answer.status.as_u16(), 409, "{}", answer.text);
}

async fn an_archived_conversation_takes_nothing_more(server: Server) {
    server.define_agent("a", json!([{ "reply": { "text": "Fine." } }]), json!({})).await;
    let first = server.run("a", "hi").await;
    let path = format!("conversations/{}", text(&first, "conversationId"));
    server.patch(&path, json!({ "status": "ARCHIVED" })).await.expect(200);
    let answer = server.go_on("a", &first["conversationId"], "hi").await;
    let status = server.get(&path).await.expect(200)["status"].clone();
    assert!(answer.status.as_u16() == 409 || status == "ACTIVE", "it goes on, and is still {status}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_caller_and_its_delegate_wait_through_a_restart_together() {
    let home = Home::new(Edition::Sqlite).await;
    let (server, running) = home.start().await;
    define_clerk(&server, json!({})).await;
    let (run, pending) = until_asked(&server).await;
    server.until(&format!("runs/{run}"), |boss| boss["status"] == "AWAITING_APPROVAL").await;
    running.stop().await;
    let (server, running) = home.start().await;
    server.decide(&pending, 0, json!({ "decision": "approve" })).await.expect(200);
    let boss = server.until(&format!("runs/{run}"), |boss| boss["status"] == "COMPLETED").await;
    running.stop().await;
    home.remove().await;
    assert_eq!(boss["responseText"], "Done.", "{boss}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_looks_the_same_from_every_server() {
    let home = Home::new(Edition::PostgresAndRedis).await;
    let ((here, running_here), (there, running_there)) = (home.start().await, home.start().await);
    here.define_echo("pay", json!({ "requiresConfirmation": true })).await;
    here.define_agent("a", calls_then(json!([{ "name": "pay" }]), "Done."), json!({ "toolRefs": ["pay"] })).await;
    let waiting = here.run("a", "go").await;
    let run = format!("runs/{}", text(&waiting, "runId"));
    let watcher = here.live(here.watching(text(&waiting, "runId"), None)).await;
    there.decide(&waiting, 0, json!({ "decision": "approve" })).await.expect(200);
    let seen = here.get(&run).await.expect(200)["status"].clone();
    drop(watcher);
    running_here.stop().await;
    running_there.stop().await;
    home.remove().await;
    assert_eq!(seen, "COMPLETED");
}

/// A model that asks for a call with these arguments, and then says that it is done.
async fn model_calling(arguments: String) -> String {
    let chunk = |delta: Value, finish: Value| {
        let choice = json!({ "index": 0, "delta": delta, "finish_reason": finish });
        format!(
            "data: {}\n\n",
            json!({ "id": "c", "object": "chat.completion.chunk", "created": 1, "model": "gpt-4o", "choices": [choice] })
        )
    };
    let call = json!({ "role": "assistant", "tool_calls": [{ "index": 0, "id": "t", "type": "function", "function": { "name": "echo", "arguments": arguments } }] });
    let asks = format!("{}{}data: [DONE]\n\n", chunk(call, Value::Null), chunk(json!({}), json!("tool_calls")));
    let says = format!(
        "{}{}data: [DONE]\n\n",
        chunk(json!({ "role": "assistant", "content": "Done." }), Value::Null),
        chunk(json!({}), json!("stop"))
    );
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/v1", listener.local_addr().unwrap());
    let answer = move |body: String| async move {
        let text = if body.contains("tool_call_id") { says } else { asks };
        ([("content-type", "text/event-stream")], text).into_response()
    };
    TaskTracker::new().spawn(async move { axum::serve(listener, Router::new().fallback(any(answer))).await });
    url
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn arguments_that_are_nested_deep_can_be_read_back() {
    crate::harness::with_mock(|server| async move {
        for levels in [60, 120, 122, 124, 126, 127, 128, 200] {
            let arguments = format!("{}1{}", "[".repeat(levels), "]".repeat(levels));
            let llm = with(crate::harness::openai("gpt-4o"), json!({ "baseUrl": model_calling(arguments).await }));
            let name = format!("a{levels}");
            server.post("agents", json!({ "refName": name, "llmConfig": llm, "toolRefs": ["echo"] })).await.expect(201);
            let response = server.run(&name, "go").await;
            assert_eq!(
                (&response["status"], receipts(&response).len()),
                (&json!("COMPLETED"), 1),
                "{levels}: {response}"
            );
            let read = server.get(&format!("runs/{}", text(&response, "runId"))).await;
            assert_eq!(read.status.as_u16(), 200, "{levels}: {}", read.text);
        }
    })
    .await;
}
