//! Tests replays of a recorded run with another tool, model or prompt.

use serde_json::{Value, json};
use toolwright_testkit::{Faults, LOOPBACK};

use super::{define_look_agent, define_second_version, define_write_agent, export, run_id};
use crate::harness::{Response, Server, calls_then, envelopes, merge};

crate::on_both_databases!(replay_calls_the_replacement_of_a_tool_and_reports_differences,);
crate::on_sqlite!(
    replay_answers_unchanged_calls_and_model_requests_from_the_recording,
    replay_captures_writes_and_does_not_send_them,
    replay_with_captured_or_recorded_writes_cannot_be_undone,
    replay_reuses_recorded_approval_decisions,
    replay_reuses_recorded_client_results,
    replay_can_substitute_a_compatible_tool,
    replay_with_another_model_or_prompt_calls_the_model_again,
    invalid_replay_is_rejected_with_its_path,
    replaying_a_bundle_of_another_owner_requires_write_permission_on_the_agent,
);

async fn replay(server: &Server, run: &Value, with: Value) -> Response {
    server.post("runs/replay", json!({ "runId": run["runId"], "with": with })).await
}

/// Returns the field, the recorded value and the new value of every difference.
fn differences(replayed: &Value) -> Vec<(&str, &Value, &Value)> {
    let all = replayed["differences"].as_array().unwrap().iter();
    all.map(|one| (one["field"].as_str().unwrap(), &one["expected"], &one["got"])).collect()
}

fn call_sources(replayed: &Value) -> Vec<(&str, &str)> {
    let calls = replayed["calls"].as_array().unwrap().iter();
    calls.map(|call| (call["tool"].as_str().unwrap(), call["source"].as_str().unwrap())).collect()
}

async fn replay_calls_the_replacement_of_a_tool_and_reports_differences(server: Server) {
    define_look_agent(&server).await;
    let first = server.run("a", "go").await;
    define_second_version(&server, "look", json!({ "at": "the sea" })).await;
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
    assert_eq!(call_sources(&replayed), [("look", "made")]);
    assert_eq!(replayed["replies"], json!({ "recorded": 1, "made": 1 }), "a changed request is sent to the model");

    let run = server.get(&format!("runs/{}", run_id(&replayed))).await.expect(200);
    assert_eq!(run["trial"], json!({ "kind": "replay", "arm": "replay", "of": first["runId"] }), "{run}");
    assert_eq!(run["conversationId"], Value::Null);
    let own = export(&server, &replayed).await;
    let again = server.send(server.request(reqwest::Method::POST, "runs/replay").body(own)).await.expect(200);
    assert_eq!(again["identical"], true, "a replay has its own journal: {again}");
}

async fn replay_answers_unchanged_calls_and_model_requests_from_the_recording(server: Server) {
    let faults = Faults::builder().start(LOOPBACK).await.unwrap();
    server
        .define_http_tool(
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
    assert_eq!(call_sources(&replayed), [("read", "recorded"), ("look", "made")]);
    assert_eq!(replayed["replies"], json!({ "recorded": 2, "made": 0 }));
    assert_eq!(faults.hits("/echo/read"), 1, "the call is answered from the recording");
    let run = server.get(&format!("runs/{}", run_id(&replayed))).await.expect(200);
    assert_eq!(envelopes(&run)[0]["metadata"]["source"], "recorded");
    faults.shutdown().await;
}

async fn replay_captures_writes_and_does_not_send_them(server: Server) {
    let faults = Faults::builder().start(LOOPBACK).await.unwrap();
    define_write_agent(&server, &faults.url(""), json!({})).await;
    let first = server.run("w", "go").await;
    assert_eq!((&first["status"], faults.hits("/echo/write")), (&json!("COMPLETED"), 1), "{first}");

    let same = replay(&server, &first, json!({ "tools": { "look": "look@1.0.0" } })).await.expect(200);
    assert_eq!(call_sources(&same), [("look", "made"), ("write", "recorded")], "{same}");
    define_second_version(&server, "look", json!({ "at": "the sea" })).await;
    let other = replay(&server, &first, json!({ "tools": { "look": "look@2.0.0" } })).await.expect(200);
    assert_eq!(call_sources(&other), [("look", "made"), ("write", "captured")], "{other}");
    let new = replay(&server, &first, json!({ "tools": { "write": "write@1.0.0" } })).await.expect(200);
    assert_eq!(
        call_sources(&new),
        [("look", "recorded"), ("write", "captured")],
        "a write of the replaced tool is captured"
    );
    assert_eq!(faults.hits("/echo/write"), 1, "no write is sent");

    let run = server.get(&format!("runs/{}", run_id(&other))).await.expect(200);
    let captured = &envelopes(&run)[1];
    assert_eq!((&captured["input"], &captured["output"]), (&json!({ "saw": "the sea" }), &Value::Null));
    assert_eq!((&captured["error"], &captured["metadata"]["source"]), (&Value::Null, &json!("captured")));
    let entries = export(&server, &other).await;
    assert!(entries.contains("captured"), "the capture is in the journal");

    let at = 1;
    let fork = server
        .post(&format!("runs/{}/fork", run_id(&other)), json!({ "at": at, "message": "again" }))
        .await
        .expect(202);
    let forked = server.poll_until(&format!("runs/{}", run_id(&fork)), |run| run["status"] != "RUNNING").await;
    assert_eq!(forked["status"], "COMPLETED", "{forked}");
    assert_eq!(faults.hits("/echo/write"), 1, "a fork of a trial captures writes as well: {forked}");
    faults.shutdown().await;
}

async fn replay_with_captured_or_recorded_writes_cannot_be_undone(server: Server) {
    let faults = Faults::builder().start(LOOPBACK).await.unwrap();
    define_write_agent(&server, &faults.url(""), json!({ "compensateToolRef": "unwrite" })).await;
    let unwrite = json!({ "sideEffects": "writes", "invocation": { "path": "/echo/back", "method": "POST" } });
    server.define_http_tool("unwrite", &faults.url(""), "/echo/back", unwrite).await;
    let first = server.run("w", "go").await;
    for with in [json!({ "look": "look@1.0.0" }), json!({ "write": "write@1.0.0" })] {
        let replayed = replay(&server, &first, json!({ "tools": with })).await.expect(200);
        server.post(&format!("runs/{}/undo", run_id(&replayed)), json!({})).await.problem(422, "cannot-undo");
    }
    assert_eq!((faults.hits("/echo/write"), faults.hits("/echo/back")), (1, 0));
    faults.shutdown().await;
}

async fn replay_reuses_recorded_approval_decisions(server: Server) {
    let faults = Faults::builder().start(LOOPBACK).await.unwrap();
    define_write_agent(&server, &faults.url(""), json!({ "requiresConfirmation": true })).await;
    for (decision, hits) in [("approve", 1), ("deny", 1)] {
        let waiting = server.run("w", "go").await;
        let first = server.decide(&waiting, 0, json!({ "decision": decision })).await.expect(200);
        assert_eq!(first["status"], "COMPLETED", "{first}");
        let replayed = replay(&server, &first, json!({ "tools": { "look": "look@1.0.0" } })).await.expect(200);
        assert_eq!(replayed["identical"], true, "{decision}: {replayed}");
        assert_eq!(call_sources(&replayed), [("look", "made"), ("write", "recorded")]);
        assert_eq!(faults.hits("/echo/write"), hits);
    }
    faults.shutdown().await;
}

async fn replay_reuses_recorded_client_results(server: Server) {
    server.define_echo("open", json!({ "isToolFullyExecutedOnServer": false })).await;
    server.define_echo("look", json!({})).await;
    let calls = json!([{ "name": "open", "arguments": { "page": 1 } }, { "name": "look", "arguments": { "at": 1 } }]);
    server.define_agent("a", calls_then(calls, "Done."), json!({ "toolRefs": ["open", "look"] })).await;
    let waiting = server.run("a", "go").await;
    let call = &waiting["clientActions"][0]["callId"];
    let results = json!({ "results": [{ "callId": call, "output": "a page" }] });
    let first = server.post(&format!("runs/{}/tool-results", run_id(&waiting)), results).await.expect(200);
    assert_eq!(first["status"], "COMPLETED", "{first}");
    let replayed = replay(&server, &first, json!({ "tools": { "look": "look@1.0.0" } })).await.expect(200);
    assert_eq!((&replayed["identical"], &replayed["status"]), (&json!(true), &json!("COMPLETED")), "{replayed}");
    let mut found = call_sources(&replayed);
    found.sort_unstable();
    assert_eq!(found, [("look", "made"), ("open", "recorded")]);
    let new = replay(&server, &first, json!({ "tools": { "open": "open@1.0.0" } })).await.expect(200);
    assert!(call_sources(&new).contains(&("open", "captured")), "{new}");
}

async fn replay_can_substitute_a_compatible_tool(server: Server) {
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
    assert!(problem["detail"].as_str().unwrap().contains("does not accept every input"), "{problem}");

    let member = server.member("member").await;
    let own = member.run("a", "go").await;
    replay(&member, &own, json!({ "tools": { "look": "look@1.0.0" } })).await.expect(200);
    replay(&member, &own, json!({ "tools": { "look": "glass" } })).await.problem(403, "forbidden");
}

async fn replay_with_another_model_or_prompt_calls_the_model_again(server: Server) {
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

async fn invalid_replay_is_rejected_with_its_path(server: Server) {
    define_look_agent(&server).await;
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
    assert_eq!(server.get("runs").await.expect(200)["items"].as_array().unwrap().len(), 1, "no run was stored");
    let bundle = export(&server, &first).await;
    server.delete("agents/a").await.expect(204);
    server.post("runs/replay", json!({ "bundle": bundle, "with": look })).await.problem(404, "not-found");
}

async fn replaying_a_bundle_of_another_owner_requires_write_permission_on_the_agent(server: Server) {
    define_look_agent(&server).await;
    let member = server.member("member").await;
    let bundle = export(&server, &server.run("a", "go").await).await;
    let body = json!({ "bundle": bundle, "with": { "tools": { "look": "look@1.0.0" } } });
    member.post("runs/replay", body.clone()).await.problem(403, "forbidden");
    let own = export(&member, &member.run("a", "go").await).await;
    member.post("runs/replay", merge(body.clone(), json!({ "bundle": own }))).await.expect(200);
    server.post("runs/replay", body).await.expect(200);
}
