//! Runs against something new: replays, comparisons of implementations, live splits and shadows. What a trial would change
//! is counted where it would arrive.

use serde_json::{Value, json};
use toolwright_testkit::{Faults, LOOPBACK};

use crate::harness::{Answer, Edition, Home, Server, calls_then, receipts, with};

crate::on_both_editions!(
    a_replay_calls_what_is_new_and_tells_what_differs,
    a_shadow_runs_beside_and_changes_nothing,
    two_libraries_are_compared_over_the_same_inputs
);
crate::on_sqlite!(
    what_is_asked_as_before_is_answered_as_before,
    what_a_replay_would_change_is_captured,
    what_was_captured_or_recorded_is_not_taken_back,
    what_people_decided_is_not_asked_again,
    what_a_client_returned_is_not_asked_for_again,
    another_tool_can_stand_in_for_one,
    a_replay_may_ask_another_model_or_say_other_words,
    a_replay_that_cannot_be_is_refused,
    a_foreign_bundle_is_for_those_who_may_change_the_agent,
    a_share_of_the_runs_has_other_implementations,
    a_library_that_cannot_be_used_keeps_nobody_from_working,
    a_shadow_of_a_delegation_changes_nothing_either,
    a_read_falls_back_to_no_write_live_or_in_a_shadow,
    a_shadow_hands_nothing_to_clients_and_asks_nobody,
    splits_that_make_no_sense_are_refused,
    two_libraries_are_compared_over_recorded_runs,
    writes_of_a_comparison_are_made_only_if_that_is_said,
    a_trial_that_cannot_be_is_refused,
    a_trial_is_for_whoever_made_it,
    live_arms_are_told_side_by_side,
    shadows_are_held_against_their_runs,
);

fn id(run: &Value) -> &str {
    run["runId"].as_str().unwrap()
}

async fn export(server: &Server, run: &Value) -> String {
    let answer = server.get(&format!("runs/{}/export", id(run))).await;
    assert_eq!(answer.status.as_u16(), 200, "{}", answer.text);
    answer.text
}

async fn replay(server: &Server, run: &Value, with: Value) -> Answer {
    server.post("runs/replay", json!({ "runId": run["runId"], "with": with })).await
}

/// The fields of a diff, with what they were and are.
fn differences(replayed: &Value) -> Vec<(&str, &Value, &Value)> {
    let all = replayed["differences"].as_array().unwrap().iter();
    all.map(|one| (one["field"].as_str().unwrap(), &one["expected"], &one["got"])).collect()
}

fn sources(replayed: &Value) -> Vec<(&str, &str)> {
    let calls = replayed["calls"].as_array().unwrap().iter();
    calls.map(|call| (call["tool"].as_str().unwrap(), call["source"].as_str().unwrap())).collect()
}

/// A second version of a tool that says something else than it is told.
async fn define_second(server: &Server, name: &str, output: Value) {
    let new = json!({ "version": "2.0.0", "invocation": { "path": "echo", "bodyTemplate": output } });
    let tool = json!({ "refName": name, "toolType": "FUNCTION", "description": name, "outputJsonSchema": {} });
    server.put(&format!("tools/{name}"), with(tool, new)).await.expect(200);
}

/// An agent that calls `look` once and tells the result.
async fn define_looker(server: &Server) {
    server.define_echo("look", json!({})).await;
    let calls = json!([{ "name": "look", "arguments": { "at": "the sky" } }]);
    server.define_agent("a", calls_then(calls, "Seen: {{result}}"), json!({ "toolRefs": ["look"] })).await;
}

async fn a_replay_calls_what_is_new_and_tells_what_differs(server: Server) {
    define_looker(&server).await;
    let first = server.run("a", "go").await;
    define_second(&server, "look", json!({ "at": "the sea" })).await;
    let bundle = export(&server, &first).await;
    let body = json!({ "bundle": bundle, "with": { "tools": { "look": "look@2.0.0" } } });
    let replayed = server.post("runs/replay", body).await.expect(200);
    assert_eq!((&replayed["status"], &replayed["identical"]), (&json!("COMPLETED"), &json!(false)), "{replayed}");
    let found = differences(&replayed);
    for expected in [
        ("/calls/0/version", &json!("1.0.0"), &json!("2.0.0")),
        ("/calls/0/output/at", &json!("the sky"), &json!("the sea")),
        ("/answer", &json!(r#"Seen: {"at":"the sky"}"#), &json!(r#"Seen: {"at":"the sea"}"#)),
    ] {
        assert!(found.contains(&expected), "{expected:?}: {replayed}");
    }
    assert_eq!(sources(&replayed), [("look", "made")]);
    assert_eq!(replayed["replies"], json!({ "recorded": 1, "made": 1 }), "what was asked anew was asked of the model");

    let run = server.get(&format!("runs/{}", id(&replayed))).await.expect(200);
    assert_eq!(run["trial"], json!({ "kind": "replay", "arm": "replay", "of": first["runId"] }), "{run}");
    assert_eq!(run["conversationId"], Value::Null);
    let own = export(&server, &replayed).await;
    let again = server.send(server.request(reqwest::Method::POST, "runs/replay").body(own)).await.expect(200);
    assert_eq!(again["identical"], true, "a replay has a journal like any run: {again}");
}

async fn what_is_asked_as_before_is_answered_as_before(server: Server) {
    let faults = Faults::builder().start(LOOPBACK).await.unwrap();
    server
        .define_call(
            "read",
            &faults.url(""),
            "/echo/read",
            json!({ "invocation": { "path": "/echo/read", "method": "GET" } }),
        )
        .await;
    server.define_echo("look", json!({})).await;
    let calls = json!([{ "name": "read", "arguments": {} }, { "name": "look", "arguments": { "at": 1 } }]);
    server.define_agent("a", calls_then(calls, "Done."), json!({ "toolRefs": ["read", "look"] })).await;
    let first = server.run("a", "go").await;
    assert_eq!(faults.hits("/echo/read"), 1);
    let replayed = replay(&server, &first, json!({ "tools": { "look": "look@1.0.0" } })).await.expect(200);
    assert_eq!((&replayed["identical"], &replayed["differences"]), (&json!(true), &json!([])), "{replayed}");
    assert_eq!(sources(&replayed), [("read", "recorded"), ("look", "made")]);
    assert_eq!(replayed["replies"], json!({ "recorded": 2, "made": 0 }));
    assert_eq!(faults.hits("/echo/read"), 1, "it was answered from the recording");
    let run = server.get(&format!("runs/{}", id(&replayed))).await.expect(200);
    assert_eq!(receipts(&run)[0]["metadata"]["source"], "recorded");
    faults.shutdown().await;
}

/// An agent that looks, and writes what it saw to a real server.
async fn define_writer(server: &Server, url: &str, more: Value) {
    define_writing_agent(server, url, more, json!({})).await;
}

async fn define_writing_agent(server: &Server, url: &str, more: Value, agent: Value) {
    server.define_echo("look", json!({})).await;
    server
        .define_call(
            "write",
            url,
            "/echo/write",
            with(json!({ "sideEffects": "writes", "invocation": { "path": "/echo/write", "method": "POST" } }), more),
        )
        .await;
    let rules = json!([
        { "when": { "turn": 0 }, "reply": { "toolCalls": [{ "name": "look", "arguments": { "at": "the sky" } }] } },
        { "when": { "turn": 1 }, "reply": { "toolCalls": [{ "name": "write", "arguments": { "saw": "{{result/at}}" } }] } },
        { "reply": { "text": "Written." } },
    ]);
    server.define_agent("w", rules, with(json!({ "toolRefs": ["look", "write"] }), agent)).await;
}

async fn what_a_replay_would_change_is_captured(server: Server) {
    let faults = Faults::builder().start(LOOPBACK).await.unwrap();
    define_writer(&server, &faults.url(""), json!({})).await;
    let first = server.run("w", "go").await;
    assert_eq!((&first["status"], faults.hits("/echo/write")), (&json!("COMPLETED"), 1), "{first}");

    let same = replay(&server, &first, json!({ "tools": { "look": "look@1.0.0" } })).await.expect(200);
    assert_eq!(sources(&same), [("look", "made"), ("write", "recorded")], "{same}");
    define_second(&server, "look", json!({ "at": "the sea" })).await;
    let other = replay(&server, &first, json!({ "tools": { "look": "look@2.0.0" } })).await.expect(200);
    assert_eq!(sources(&other), [("look", "made"), ("write", "captured")], "{other}");
    let new = replay(&server, &first, json!({ "tools": { "write": "write@1.0.0" } })).await.expect(200);
    assert_eq!(sources(&new), [("look", "recorded"), ("write", "captured")], "what is new and writes is captured too");
    assert_eq!(faults.hits("/echo/write"), 1, "nothing was sent");

    let run = server.get(&format!("runs/{}", id(&other))).await.expect(200);
    let captured = &receipts(&run)[1];
    assert_eq!((&captured["input"], &captured["output"]), (&json!({ "saw": "the sea" }), &Value::Null));
    assert_eq!((&captured["error"], &captured["metadata"]["source"]), (&Value::Null, &json!("captured")));
    let entries = export(&server, &other).await;
    assert!(entries.contains("captured"), "the capture is in the journal");

    let at = 1;
    let fork =
        server.post(&format!("runs/{}/fork", id(&other)), json!({ "at": at, "message": "again" })).await.expect(202);
    let forked = server.until(&format!("runs/{}", id(&fork)), |run| run["status"] != "RUNNING").await;
    assert_eq!(forked["status"], "COMPLETED", "{forked}");
    assert_eq!(faults.hits("/echo/write"), 1, "a fork of a trial is one: {forked}");
    faults.shutdown().await;
}

async fn what_was_captured_or_recorded_is_not_taken_back(server: Server) {
    let faults = Faults::builder().start(LOOPBACK).await.unwrap();
    define_writer(&server, &faults.url(""), json!({ "compensateToolRef": "unwrite" })).await;
    let unwrite = json!({ "sideEffects": "writes", "invocation": { "path": "/echo/back", "method": "POST" } });
    server.define_call("unwrite", &faults.url(""), "/echo/back", unwrite).await;
    let first = server.run("w", "go").await;
    for with in [json!({ "look": "look@1.0.0" }), json!({ "write": "write@1.0.0" })] {
        let replayed = replay(&server, &first, json!({ "tools": with })).await.expect(200);
        server.post(&format!("runs/{}/undo", id(&replayed)), json!({})).await.problem(422, "cannot-undo");
    }
    assert_eq!((faults.hits("/echo/write"), faults.hits("/echo/back")), (1, 0));
    faults.shutdown().await;
}

async fn what_people_decided_is_not_asked_again(server: Server) {
    let faults = Faults::builder().start(LOOPBACK).await.unwrap();
    define_writer(&server, &faults.url(""), json!({ "requiresConfirmation": true })).await;
    for (decision, hits) in [("approve", 1), ("deny", 1)] {
        let waiting = server.run("w", "go").await;
        let first = server.decide(&waiting, 0, json!({ "decision": decision })).await.expect(200);
        assert_eq!(first["status"], "COMPLETED", "{first}");
        let replayed = replay(&server, &first, json!({ "tools": { "look": "look@1.0.0" } })).await.expect(200);
        assert_eq!(replayed["identical"], true, "{decision}: {replayed}");
        assert_eq!(sources(&replayed), [("look", "made"), ("write", "recorded")]);
        assert_eq!(faults.hits("/echo/write"), hits);
    }
    faults.shutdown().await;
}

async fn what_a_client_returned_is_not_asked_for_again(server: Server) {
    server.define_echo("open", json!({ "isToolFullyExecutedOnServer": false })).await;
    server.define_echo("look", json!({})).await;
    let calls = json!([{ "name": "open", "arguments": { "page": 1 } }, { "name": "look", "arguments": { "at": 1 } }]);
    server.define_agent("a", calls_then(calls, "Done."), json!({ "toolRefs": ["open", "look"] })).await;
    let waiting = server.run("a", "go").await;
    let call = &waiting["clientActions"][0]["callId"];
    let results = json!({ "results": [{ "callId": call, "output": "a page" }] });
    let first = server.post(&format!("runs/{}/tool-results", id(&waiting)), results).await.expect(200);
    assert_eq!(first["status"], "COMPLETED", "{first}");
    let replayed = replay(&server, &first, json!({ "tools": { "look": "look@1.0.0" } })).await.expect(200);
    assert_eq!((&replayed["identical"], &replayed["status"]), (&json!(true), &json!("COMPLETED")), "{replayed}");
    let mut found = sources(&replayed);
    found.sort_unstable();
    assert_eq!(found, [("look", "made"), ("open", "recorded")]);
    let new = replay(&server, &first, json!({ "tools": { "open": "open@1.0.0" } })).await.expect(200);
    assert!(sources(&new).contains(&("open", "captured")), "{new}");
}

async fn another_tool_can_stand_in_for_one(server: Server) {
    let schema = json!({ "type": "object", "properties": { "at": { "type": "string" } }, "required": ["at"] });
    server.define_echo("look", json!({ "inputJsonSchema": schema })).await;
    let calls = json!([{ "name": "look", "arguments": { "at": "the sky" } }]);
    server.define_agent("a", calls_then(calls, "Seen: {{result}}"), json!({ "toolRefs": ["look"] })).await;
    let more = json!({ "invocation": { "path": "echo", "bodyTemplate": { "at": "${at}", "by": "glass" } } });
    server.define_echo("glass", more).await;
    let strict = json!({ "type": "object", "properties": { "lens": { "type": "string" } }, "required": ["lens"] });
    server.define_echo("strict", json!({ "inputJsonSchema": strict })).await;
    let first = server.run("a", "go").await;
    let replayed = replay(&server, &first, json!({ "tools": { "look": "glass" } })).await.expect(200);
    let call = &replayed["calls"][0];
    assert_eq!((&call["tool"], &call["implementation"]), (&json!("look"), &json!("glass@1.0.0")), "{replayed}");
    assert!(differences(&replayed).contains(&("/calls/0/output/by", &Value::Null, &json!("glass"))), "{replayed}");
    let problem = replay(&server, &first, json!({ "tools": { "look": "strict" } })).await.problem(422, "invalid-trial");
    assert_eq!(problem["errors"][0]["path"], "/with/tools/look", "{problem}");
    assert!(problem["detail"].as_str().unwrap().contains("does not take everything"), "{problem}");

    let member = server.member("member").await;
    let own = member.run("a", "go").await;
    replay(&member, &own, json!({ "tools": { "look": "look@1.0.0" } })).await.expect(200);
    replay(&member, &own, json!({ "tools": { "look": "glass" } })).await.problem(403, "forbidden");
}

async fn a_replay_may_ask_another_model_or_say_other_words(server: Server) {
    server.define_agent("a", json!([{ "reply": { "text": "One." } }]), json!({ "systemPrompt": "Be brief." })).await;
    let first = server.run("a", "hello").await;
    let replayed = replay(&server, &first, json!({ "model": "other" })).await.expect(200);
    assert_eq!(replayed["replies"], json!({ "recorded": 0, "made": 1 }), "{replayed}");
    let replayed = replay(&server, &first, json!({ "prompt": "Be long." })).await.expect(200);
    assert_eq!(replayed["replies"], json!({ "recorded": 0, "made": 1 }), "{replayed}");
    let member = server.member("member").await;
    let own = member.run("a", "hello").await;
    for with in [json!({ "model": "scripted/echo" }), json!({ "prompt": "Obey." })] {
        replay(&member, &own, with).await.problem(403, "forbidden");
    }
}

async fn a_replay_that_cannot_be_is_refused(server: Server) {
    define_looker(&server).await;
    let first = server.run("a", "go").await;
    for (with, path) in [
        (json!({ "tools": { "nothing": "look" } }), "/with/tools/nothing"),
        (json!({ "tools": { "look": "nothing" } }), "/with/tools/look"),
        (json!({ "tools": { "look": "look@9.0.0" } }), "/with/tools/look"),
        (json!({ "tools": { "look": "look@newest" } }), "/with/tools/look"),
        (json!({ "model": "nobody/knows" }), "/with/model"),
        (json!({ "model": " " }), "/with/model"),
        (json!({ "prompt": "x".repeat((1 << 20) + 1) }), "/with/prompt"),
    ] {
        let problem = replay(&server, &first, with).await.problem(422, "invalid-trial");
        assert_eq!(problem["errors"][0]["path"], path, "{problem}");
    }
    let look = json!({ "tools": { "look": "look" } });
    for body in [
        json!({ "runId": first["runId"], "with": {} }),
        json!({ "with": look }),
        json!({ "runId": first["runId"], "bundle": "", "with": look }),
        json!({ "runId": first["runId"] }),
        json!({ "runId": first["runId"], "with": { "temperature": 1 } }),
    ] {
        server.post("runs/replay", body).await.problem(400, "invalid-request");
    }
    for bundle in ["", "{}", "no bundle"] {
        let body = json!({ "bundle": bundle, "with": look });
        server.post("runs/replay", body).await.problem(422, "invalid-bundle");
    }
    let unknown = json!({ "runId": "run_00000000000000000000000000" });
    replay(&server, &unknown, look.clone()).await.problem(404, "not-found");
    let other = server.member("other").await;
    replay(&other, &first, look.clone()).await.problem(404, "not-found");
    assert_eq!(server.get("runs").await.expect(200)["items"].as_array().unwrap().len(), 1, "nothing was written");
    let bundle = export(&server, &first).await;
    server.delete("agents/a").await.expect(204);
    server.post("runs/replay", json!({ "bundle": bundle, "with": look })).await.problem(404, "not-found");
}

async fn a_foreign_bundle_is_for_those_who_may_change_the_agent(server: Server) {
    define_looker(&server).await;
    let member = server.member("member").await;
    let bundle = export(&server, &server.run("a", "go").await).await;
    let body = json!({ "bundle": bundle, "with": { "tools": { "look": "look@1.0.0" } } });
    member.post("runs/replay", body.clone()).await.problem(403, "forbidden");
    let own = export(&member, &member.run("a", "go").await).await;
    member.post("runs/replay", with(body.clone(), json!({ "bundle": own }))).await.expect(200);
    server.post("runs/replay", body).await.expect(200);
}

/// An agent's second implementation of `look`, for this share of its runs.
fn split(share: f64, mode: &str) -> Value {
    json!({ "libraries": { "new": { "look": "look@2.0.0" } }, "split": { "library": "new", "share": share, "mode": mode } })
}

/// The shadow of a run, once it has ended.
async fn shadow_of(server: &Server, run: &Value) -> Value {
    let is_it = |item: &Value| {
        item["trial"]["kind"] == "shadow" && item["trial"]["of"] == run["runId"] && item["status"] != "RUNNING"
    };
    let all = server
        .until(&format!("runs?trialOf={}", id(run)), |page| page["items"].as_array().unwrap().iter().any(is_it))
        .await;
    let shadow = all["items"].as_array().unwrap().iter().find(|item| is_it(item)).unwrap().clone();
    server.get(&format!("runs/{}", shadow["id"].as_str().unwrap())).await.expect(200)
}

async fn a_share_of_the_runs_has_other_implementations(server: Server) {
    define_looker(&server).await;
    define_second(&server, "look", json!({ "at": "the sea" })).await;
    server.patch("agents/a", with(split(1.0, "live"), json!({ "toolRefs": ["look@1.0.0"] }))).await.expect(200);
    let tried = server.run("a", "go").await;
    assert_eq!(tried["responseText"], r#"Seen: {"at":"the sea"}"#, "{tried}");
    let view = server.get(&format!("runs/{}", id(&tried))).await.expect(200);
    assert_eq!(view["trial"], json!({ "kind": "split", "arm": "new" }), "{view}");

    server.patch("agents/a", json!({ "split": { "library": "new", "share": 0.0 } })).await.expect(200);
    let own = server.run("a", "go").await;
    assert_eq!(own["responseText"], r#"Seen: {"at":"the sky"}"#, "{own}");
    let view = server.get(&format!("runs/{}", id(&own))).await.expect(200);
    assert_eq!(view["trial"], json!({ "kind": "split", "arm": "default" }), "{view}");
    server.patch("agents/a", json!({ "split": null, "libraries": null })).await.expect(200);
    let fork = server.post(&format!("runs/{}/fork", id(&tried)), json!({ "at": 1 })).await.expect(202);
    let forked = server.until(&format!("runs/{}", id(&fork)), |run| run["status"] != "RUNNING").await;
    assert_eq!(
        (&forked["trial"]["arm"], &receipts(&forked)[0]["version"]),
        (&json!("new"), &json!("2.0.0")),
        "{forked}"
    );
}

async fn a_library_that_cannot_be_used_keeps_nobody_from_working(server: Server) {
    define_looker(&server).await;
    for mode in ["live", "shadow"] {
        let saved = server.patch("agents/a", split(1.0, mode)).await.expect(200);
        assert!(saved["warnings"].as_array().is_none_or(|all| all.is_empty()), "a version may come later: {saved}");
        let run = server.run("a", "go").await;
        assert_eq!((&run["status"], &receipts(&run)[0]["version"]), (&json!("COMPLETED"), &json!("1.0.0")));
        assert!(run["warnings"][0].as_str().unwrap().contains("library `new` was not tried"), "{run}");
    }
}

async fn a_shadow_runs_beside_and_changes_nothing(server: Server) {
    let faults = Faults::builder().start(LOOPBACK).await.unwrap();
    define_writing_agent(&server, &faults.url(""), json!({}), split(1.0, "shadow")).await;
    define_second(&server, "look", json!({ "at": "the sea" })).await;
    server.patch("agents/w", json!({ "toolRefs": ["look@1.0.0", "write"] })).await.expect(200);
    let run = server.run("w", "go").await;
    assert_eq!((&run["status"], &receipts(&run)[1]["input"]), (&json!("COMPLETED"), &json!({ "saw": "the sky" })));
    let shadow = shadow_of(&server, &run).await;
    assert_eq!((&shadow["status"], &shadow["conversationId"]), (&json!("COMPLETED"), &Value::Null), "{shadow}");
    assert_eq!((&shadow["parentRunId"], &shadow["trial"]["arm"]), (&Value::Null, &json!("new")));
    let [look, write] = [&receipts(&shadow)[0], &receipts(&shadow)[1]];
    assert_eq!((&look["version"], &look["metadata"]["source"]), (&json!("2.0.0"), &Value::Null), "reads are made");
    assert_eq!(
        (&write["input"], &write["output"], &write["error"]),
        (&json!({ "saw": "the sea" }), &Value::Null, &Value::Null)
    );
    assert_eq!(write["metadata"]["source"], "captured", "{write}");
    assert_eq!(faults.hits("/echo/write"), 1, "only the user's run has written");
    let conversation =
        server.get(&format!("conversations/{}", run["conversationId"].as_str().unwrap())).await.expect(200);
    assert!(!conversation.to_string().contains(id(&shadow)), "nobody hears a shadow");
    faults.shutdown().await;
}

async fn a_shadow_of_a_delegation_changes_nothing_either(server: Server) {
    let faults = Faults::builder().start(LOOPBACK).await.unwrap();
    define_writer(&server, &faults.url(""), json!({})).await;
    define_second(&server, "look", json!({ "at": "the sea" })).await;
    let rules = calls_then(
        json!([{ "name": "w", "arguments": { "task": "write" } }, { "name": "look", "arguments": {} }]),
        "Told.",
    );
    let boss = with(split(1.0, "shadow"), json!({ "delegateAgentRefs": ["w"], "toolRefs": ["look@1.0.0"] }));
    server.define_agent("boss", rules, boss).await;
    let run = server.run("boss", "go").await;
    let shadow = shadow_of(&server, &run).await;
    assert_eq!((&run["status"], &shadow["status"]), (&json!("COMPLETED"), &json!("COMPLETED")), "{shadow}");
    let child = receipts(&shadow)[0]["output"]["runId"].clone();
    let child = server.get(&format!("runs/{}", child.as_str().unwrap())).await.expect(200);
    assert_eq!(child["parentRunId"], shadow["runId"]);
    assert_eq!(receipts(&child)[1]["metadata"]["source"], "captured", "{child}");
    assert_eq!(faults.hits("/echo/write"), 1, "the delegate of the shadow wrote nothing");
    faults.shutdown().await;
}

async fn a_read_falls_back_to_no_write_live_or_in_a_shadow(server: Server) {
    let faults = Faults::builder().start(LOOPBACK).await.unwrap();
    server.define_echo("look", json!({})).await;
    define_second(&server, "look", json!({ "at": "the sea" })).await;
    let write = json!({ "sideEffects": "writes", "invocation": { "path": "/echo/write", "method": "POST" } });
    server.define_call("write", &faults.url(""), "/echo/write", write).await;
    let read = json!({
        "invocation": { "path": "/status/503", "method": "GET" },
        "errorHandling": { "503": { "action": "fallback", "fallbackToolRef": "write" } },
    });
    server.define_call("read", &faults.url(""), "/status/503", read).await;
    let agent = with(split(1.0, "shadow"), json!({ "toolRefs": ["read", "look"] }));
    server.define_agent("a", calls_then(json!([{ "name": "read", "arguments": {} }]), "Done."), agent).await;
    let run = server.run("a", "go").await;
    let shadow = shadow_of(&server, &run).await;
    for receipt in [&receipts(&run)[0], &receipts(&shadow)[0]] {
        assert_eq!(receipt["error"]["code"], "PROVIDER_ERROR", "{receipt}");
    }
    assert_eq!((faults.hits("/status/503"), faults.hits("/echo/write")), (2, 0));
    faults.shutdown().await;
}

async fn a_shadow_hands_nothing_to_clients_and_asks_nobody(server: Server) {
    server.define_echo("look", json!({ "requiresConfirmation": true })).await;
    define_second(&server, "look", json!({ "at": "the sea" })).await;
    server.define_echo("open", json!({ "isToolFullyExecutedOnServer": false })).await;
    server.define_echo("ask", json!({ "requiresConfirmation": true })).await;
    let calls = json!([{ "name": "open", "arguments": {} }, { "name": "ask", "arguments": {} }]);
    let agent = with(split(1.0, "shadow"), json!({ "toolRefs": ["look", "open", "ask"] }));
    server.define_agent("a", calls_then(calls, "Done."), agent).await;
    let run = server.run("a", "go").await;
    assert_eq!(run["status"], "AWAITING_APPROVAL", "{run}");
    let shadow = shadow_of(&server, &run).await;
    assert_eq!(shadow["status"], "COMPLETED", "{shadow}");
    let sources: Vec<Value> = receipts(&shadow).iter().map(|receipt| receipt["metadata"]["source"].clone()).collect();
    assert_eq!(sources, [json!("captured"), json!("captured")]);
    assert_eq!(
        server.get("approvals").await.expect(200)["items"].as_array().unwrap().len(),
        1,
        "one of the run, none of its shadow"
    );
}

async fn splits_that_make_no_sense_are_refused(server: Server) {
    define_looker(&server).await;
    let libraries = json!({ "new": { "look": "look@2.0.0" } });
    for (patch, path) in [
        (json!({ "libraries": libraries, "split": { "library": "new", "share": 1.5 } }), "/split/share"),
        (json!({ "libraries": libraries, "split": { "library": "new", "share": -0.1 } }), "/split/share"),
        (json!({ "libraries": libraries, "split": { "library": "old", "share": 0.5 } }), "/split/library"),
        (json!({ "libraries": libraries, "split": { "library": "new", "share": 0.5, "mode": "dark" } }), "/split/mode"),
        (json!({ "libraries": libraries, "split": { "library": "new" } }), "/split"),
        (json!({ "libraries": { "default": { "look": "look" } } }), "/libraries/default"),
        (json!({ "libraries": { "new": {} } }), "/libraries/new"),
        (json!({ "libraries": { "new": { "look": "look@latest" } } }), "/libraries/new/look"),
    ] {
        let problem = server.patch("agents/a", patch).await.problem(422, "invalid-definition");
        assert!(problem["errors"][0]["path"].as_str().unwrap().starts_with(path), "{path}: {problem}");
    }
    let saved = server.patch("agents/a", json!({ "libraries": { "new": { "look": "telescope" } } })).await.expect(200);
    assert!(saved.to_string().contains("no tool `telescope` exists yet"), "{saved}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_shadow_that_a_restart_interrupts_goes_on_without_changing_anything() {
    let faults = Faults::builder().start(LOOPBACK).await.unwrap();
    let home = Home::new(Edition::Sqlite).await;
    let (server, running) = home.start().await;
    let write = json!({ "sideEffects": "writes", "invocation": { "path": "/echo/write", "method": "POST" } });
    server.define_call("write", &faults.url(""), "/echo/write", write).await;
    server
        .define_call(
            "read",
            &faults.url(""),
            "/slow/500",
            json!({ "invocation": { "path": "/slow/500", "method": "GET" } }),
        )
        .await;
    server.define_echo("look", json!({})).await;
    define_second(&server, "look", json!({ "at": "the sea" })).await;
    let rules = json!([
        { "when": { "turn": 0 }, "reply": { "toolCalls": [{ "name": "read", "arguments": {} }] } },
        { "when": { "turn": 1 }, "reply": { "toolCalls": [{ "name": "write", "arguments": {} }] } },
        { "reply": { "text": "Written." } },
    ]);
    let more = json!({ "toolRefs": ["read", "write", "look"], "executionConfig": { "durable": true } });
    server.define_agent("a", rules, with(split(1.0, "shadow"), more)).await;
    let run = server.post("agents/a/execute/durable", json!({ "userMessage": "go" })).await.expect(202);
    while faults.hits("/slow/500") < 2 {
        tokio::task::yield_now().await;
    }
    running.stop().await;
    assert_eq!(faults.hits("/echo/write"), 0, "both were stopped before they wrote");
    let (server, running) = home.start().await;
    let shadow = shadow_of(&server, &run).await;
    let run = server.until(&format!("runs/{}", id(&run)), |run| run["status"] != "RUNNING").await;
    assert_eq!((&run["status"], &shadow["status"]), (&json!("COMPLETED"), &json!("COMPLETED")), "{shadow}");
    assert_eq!(receipts(&shadow)[1]["metadata"]["source"], "captured", "{shadow}");
    assert_eq!(faults.hits("/echo/write"), 1, "only the user's run has written");
    running.stop().await;
    home.remove().await;
    faults.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_built_in_tool_that_writes_is_captured_too() {
    let faults = Faults::builder().start(LOOPBACK).await.unwrap();
    let home = Home::new(Edition::Sqlite).await;
    let (server, running) =
        home.start_with(|options| options.egress_allow = vec!["127.0.0.0/8".parse().unwrap()]).await;
    server.define_echo("look", json!({})).await;
    define_second(&server, "look", json!({ "at": "the sea" })).await;
    let send = json!([{ "name": "http_request", "arguments": { "url": faults.url("/echo/raw"), "method": "POST" } }]);
    let agent = with(split(1.0, "shadow"), json!({ "toolRefs": ["http_request", "look"] }));
    server.define_agent("a", calls_then(send, "Sent."), agent).await;
    let run = server.run("a", "go").await;
    assert_eq!(receipts(&run)[0]["error"], Value::Null, "{run}");
    let shadow = shadow_of(&server, &run).await;
    assert_eq!(receipts(&shadow)[0]["metadata"]["source"], "captured", "{shadow}");
    assert_eq!(faults.hits("/echo/raw"), 1);
    running.stop().await;
    home.remove().await;
    faults.shutdown().await;
}

/// Compares two libraries, and waits for what comes of it.
async fn compare(server: &Server, body: Value) -> Value {
    let begun = server.post("trials", body).await;
    let location = begun.headers.get("location").unwrap().to_str().unwrap().to_owned();
    let begun = begun.expect(202);
    assert_eq!(location, format!("/api/v1/ai/trials/{}", begun["trialId"].as_str().unwrap()));
    server.until(&location, |trial| trial["underWay"] == false).await
}

/// An agent that tells what `look` says of what the user says; `glass` can look too, and fails at clouds.
async fn define_compared(server: &Server, more: Value) {
    let schema = json!({ "type": "object", "properties": { "at": { "type": "string" } }, "required": ["at"] });
    server.define_echo("look", json!({ "inputJsonSchema": schema })).await;
    let clear = json!({ "type": "object", "properties": { "at": { "not": { "const": "clouds" } } } });
    server
        .define_echo(
            "glass",
            json!({ "inputJsonSchema": schema, "outputJsonSchema": clear, "onOutputMismatch": "fail" }),
        )
        .await;
    let rules = calls_then(json!([{ "name": "look", "arguments": { "at": "{{user}}" } }]), "Seen: {{result}}");
    server
        .define_agent(
            "a",
            rules,
            with(json!({ "toolRefs": ["look"], "libraries": { "glass": { "look": "glass" } } }), more),
        )
        .await;
}

async fn two_libraries_are_compared_over_the_same_inputs(server: Server) {
    define_compared(&server, json!({})).await;
    let inputs = json!([{ "userMessage": "sky" }, { "userMessage": "clouds", "context": { "wind": 3 } }, { "userMessage": "sea" }]);
    let body = json!({ "agentRef": "a", "a": "default", "b": "glass", "inputs": inputs, "repeat": 2 });
    let trial = compare(&server, body).await;
    assert_eq!((&trial["agentRef"], &trial["runs"]), (&json!("a"), &json!(6)), "{trial}");
    for (side, arm) in [("a", "default"), ("b", "glass")] {
        let found = &trial[side];
        assert_eq!(
            (&found["arm"], &found["runs"], &found["completed"]),
            (&json!(arm), &json!(6), &json!(6)),
            "{trial}"
        );
        assert_eq!(found["completion"]["value"], 1.0);
        assert!(found["completion"]["low"].as_f64().unwrap() < 0.7, "six of six prove little: {found}");
        assert!(found["latencyMs"]["p50"].as_f64().unwrap() <= found["latencyMs"]["p95"].as_f64().unwrap());
        assert!(found["tokens"]["mean"]["low"].as_f64().unwrap() <= found["tokens"]["mean"]["high"].as_f64().unwrap());
    }
    assert_eq!((&trial["a"]["toolErrors"], &trial["b"]["toolErrors"]), (&json!({}), &json!({ "PROVIDER_ERROR": 2 })));
    assert_eq!(trial["difference"]["pairs"], 6);
    assert_eq!(trial["agreement"]["status"]["value"], 1.0, "{trial}");
    let same = trial["agreement"]["answer"]["value"].as_f64().unwrap();
    assert!((same - 4.0 / 6.0).abs() < 1e-9, "clouds are told differently: {trial}");
    assert!(
        trial["difference"]["tokens"]["value"].as_f64().unwrap() < 0.0,
        "an error is longer than a result: {trial}"
    );

    let path = format!("runs?limit=100&trialOf={}", trial["trialId"].as_str().unwrap());
    let runs = server.get(&path).await.expect(200)["items"].as_array().unwrap().clone();
    assert_eq!(runs.len(), 12);
    assert!(
        runs.iter().all(|run| run["trial"]["kind"] == "compare" && run["trial"]["of"] == trial["trialId"]),
        "{runs:?}"
    );
    assert!(runs.iter().all(|run| run["conversationId"].is_null()));
}

async fn two_libraries_are_compared_over_recorded_runs(server: Server) {
    let faults = Faults::builder().start(LOOPBACK).await.unwrap();
    define_compared(&server, json!({})).await;
    server
        .define_call(
            "read",
            &faults.url(""),
            "/echo/read",
            json!({ "invocation": { "path": "/echo/read", "method": "GET" } }),
        )
        .await;
    let rules = calls_then(
        json!([{ "name": "read", "arguments": {} }, { "name": "look", "arguments": { "at": "{{user}}" } }]),
        "Done.",
    );
    server
        .patch("agents/a", json!({ "toolRefs": ["look", "read"], "llmConfig": crate::harness::scripted(rules) }))
        .await
        .expect(200);
    let (one, two) = (server.run("a", "sky").await, server.run("a", "clouds").await);
    assert_eq!(faults.hits("/echo/read"), 2);
    let body = json!({ "agentRef": "a", "a": "default", "b": "glass" });
    let trial = compare(&server, with(body.clone(), json!({ "runs": [one["runId"], two["runId"]] }))).await;
    assert_eq!(
        (&trial["a"]["arm"], &trial["a"]["runs"], &trial["b"]["runs"]),
        (&json!("default"), &json!(2), &json!(2)),
        "{trial}"
    );
    assert_eq!(trial["b"]["toolErrors"], json!({ "PROVIDER_ERROR": 1 }));
    assert_eq!(faults.hits("/echo/read"), 2, "what is not compared is answered from the recordings");
    let path = format!("runs?limit=100&trialOf={}", trial["trialId"].as_str().unwrap());
    for run in server.get(&path).await.expect(200)["items"].as_array().unwrap() {
        let run = server.get(&format!("runs/{}", run["id"].as_str().unwrap())).await.expect(200);
        let sources: Vec<Value> = receipts(&run).iter().map(|receipt| receipt["metadata"]["source"].clone()).collect();
        assert_eq!(sources, [json!("recorded"), Value::Null], "what is compared is called by both: {run}");
    }
    let bundles = json!([export(&server, &one).await]);
    let trial = compare(&server, with(body, json!({ "bundles": bundles }))).await;
    assert_eq!((&trial["runs"], &trial["agreement"]["answer"]["value"]), (&json!(1), &json!(1.0)), "{trial}");
    faults.shutdown().await;
}

async fn writes_of_a_comparison_are_made_only_if_that_is_said(server: Server) {
    let faults = Faults::builder().start(LOOPBACK).await.unwrap();
    define_writing_agent(
        &server,
        &faults.url(""),
        json!({}),
        json!({ "libraries": { "new": { "look": "look@2.0.0" } } }),
    )
    .await;
    define_second(&server, "look", json!({ "at": "the sea" })).await;
    let body = json!({ "agentRef": "w", "a": { "tools": { "look": "look@1.0.0" } }, "b": "new", "inputs": [{ "userMessage": "go" }] });
    let trial = compare(&server, body.clone()).await;
    assert_eq!(
        (&trial["a"]["completed"], &trial["b"]["completed"], faults.hits("/echo/write")),
        (&json!(1), &json!(1), 0)
    );
    compare(&server, with(body, json!({ "writes": "send" }))).await;
    assert_eq!(faults.hits("/echo/write"), 2);
    faults.shutdown().await;
}

async fn a_trial_that_cannot_be_is_refused(server: Server) {
    define_compared(&server, json!({})).await;
    server.define_agent("other", json!([{ "reply": { "text": "Yes." } }]), json!({})).await;
    let foreign = server.run("other", "go").await;
    let said = json!([{ "userMessage": "sky" }]);
    let whole = json!({ "agentRef": "a", "a": "default", "b": "glass", "inputs": said });
    for (change, path) in [
        (json!({ "inputs": [] }), "/inputs"),
        (json!({ "inputs": [{ "userMessage": " " }] }), "/inputs/0"),
        (json!({ "repeat": 2001 }), "/inputs"),
        (json!({ "b": "default" }), "/b"),
        (json!({ "b": { "tools": {} } }), "/b"),
        (json!({ "a": { "name": "glass", "tools": { "look": "look@1.0.0" } } }), "/b"),
        (json!({ "b": "lens" }), "/b"),
        (json!({ "a": { "tools": { "look": "lens" } } }), "/a/tools/look"),
        (json!({ "b": { "tools": { "eye": "look" } } }), "/b/tools/eye"),
        (json!({ "inputs": null, "runs": [foreign["runId"]] }), "/runs/0"),
        (json!({ "inputs": null, "runs": [] }), "/runs"),
        (json!({ "inputs": null, "runs": [], "writes": "send" }), "/writes"),
    ] {
        let problem = server.post("trials", with(whole.clone(), change)).await.problem(422, "invalid-trial");
        assert_eq!(problem["errors"][0]["path"], path, "{problem}");
    }
    for change in [
        json!({ "runs": [foreign["runId"]] }),
        json!({ "inputs": null }),
        json!({ "repeat": 0 }),
        json!({ "repeat": -1 }),
        json!({ "writes": "sometimes" }),
        json!({ "a": 7 }),
        json!({ "seed": 7 }),
    ] {
        server.post("trials", with(whole.clone(), change)).await.problem(400, "invalid-request");
    }
    server.post("trials", with(whole.clone(), json!({ "agentRef": "nobody" }))).await.problem(404, "not-found");
    let nowhere = json!({ "inputs": null, "runs": ["run_00000000000000000000000000"] });
    server.post("trials", with(whole.clone(), nowhere)).await.problem(404, "not-found");
    server
        .post("trials", with(whole, json!({ "inputs": null, "bundles": ["no"] })))
        .await
        .problem(422, "invalid-bundle");
    for id in ["trial_00000000000000000000000000", "trial"] {
        server.get(&format!("trials/{id}")).await.problem(404, "not-found");
    }
    server.get("agents/a/trial-report?since=yesterday").await.problem(400, "invalid-request");
    server.get("agents/nobody/trial-report").await.problem(404, "not-found");
    assert_eq!(server.get("runs").await.expect(200)["items"].as_array().unwrap().len(), 1, "nothing was started");
}

async fn a_trial_is_for_whoever_made_it(server: Server) {
    define_compared(&server, json!({})).await;
    let (member, other) = (server.member("member").await, server.member("other").await);
    let body = json!({ "agentRef": "a", "a": "default", "b": "glass", "inputs": [{ "userMessage": "sky" }] });
    let trial = compare(&member, body.clone()).await;
    let path = format!("trials/{}", trial["trialId"].as_str().unwrap());
    other.get(&path).await.problem(404, "not-found");
    server.get(&path).await.expect(200);
    let given = with(body.clone(), json!({ "b": { "tools": { "look": "glass" } } }));
    member.post("trials", given).await.problem(403, "forbidden");
    server.patch("agents/a", json!({ "enabled": false })).await.expect(200);
    member.post("trials", body).await.problem(409, "agent-disabled");
}

async fn live_arms_are_told_side_by_side(server: Server) {
    define_compared(&server, json!({ "split": { "library": "glass", "share": 0.0 } })).await;
    server.run("a", "sky").await;
    let tried = json!({ "split": { "library": "glass", "share": 1.0 } });
    server.patch("agents/a", tried).await.expect(200);
    let (run, _) = (server.run("a", "sky").await, server.run("a", "clouds").await);
    let fork = server.post(&format!("runs/{}/fork", id(&run)), json!({ "at": 1 })).await.expect(202);
    server.until(&format!("runs/{}", id(&fork)), |run| run["status"] != "RUNNING").await;
    let report = server.get("agents/a/trial-report").await.expect(200);
    let found = &report["split"][0];
    assert_eq!((&found["a"]["arm"], &found["a"]["runs"]), (&json!("default"), &json!(1)), "{report}");
    assert_eq!(
        (&found["b"]["arm"], &found["b"]["runs"]),
        (&json!("glass"), &json!(2)),
        "a fork does not count: {report}"
    );
    assert_eq!(
        (&found["b"]["toolErrors"], &found["difference"]["pairs"]),
        (&json!({ "PROVIDER_ERROR": 1 }), &Value::Null)
    );
    assert_eq!((&found["difference"]["completion"]["value"], &report["shadow"]), (&json!(0.0), &json!([])));
    let later = server.get("agents/a/trial-report?since=2999-01-01T00:00:00Z").await.expect(200);
    assert_eq!(later, json!({ "split": [], "shadow": [] }));
}

async fn shadows_are_held_against_their_runs(server: Server) {
    define_compared(&server, json!({ "split": { "library": "glass", "share": 1.0, "mode": "shadow" } })).await;
    for message in ["sky", "clouds"] {
        let run = server.run("a", message).await;
        shadow_of(&server, &run).await;
    }
    let report = server.get("agents/a/trial-report").await.expect(200);
    let found = &report["shadow"][0];
    assert_eq!(
        (&found["a"]["arm"], &found["b"]["arm"], &found["difference"]["pairs"]),
        (&json!("default"), &json!("glass"), &json!(2)),
        "{report}"
    );
    assert_eq!((&found["agreement"]["answer"]["value"], &report["split"]), (&json!(0.5), &json!([])), "{report}");
}
