//! Tests live splits and shadow runs of an agent with two libraries.

use serde_json::{Value, json};
use toolwright_testkit::{Faults, LOOPBACK};

use super::{define_look_agent, define_second_version, define_write_agent, define_write_agent_with, run_id, shadow_of};
use crate::harness::{Deployment, Server, Storage, calls_then, envelopes, merge};

crate::on_sqlite!(
    live_split_uses_the_new_library_for_the_configured_share_of_runs,
    run_with_an_unusable_library_uses_the_default_library_with_a_warning,
    delegate_of_a_shadow_run_captures_its_writes,
    failed_read_does_not_fall_back_to_a_tool_that_writes,
    shadow_run_captures_client_calls_and_does_not_request_approval,
    invalid_split_is_rejected_with_its_path,
);
crate::on_both_databases!(shadow_run_executes_reads_and_captures_writes,);

/// Returns the agent fields for a split: the fraction `share` of the runs uses version 2.0.0 of `look`.
fn split(share: f64, mode: &str) -> Value {
    json!({ "libraries": { "new": { "look": "look@2.0.0" } }, "split": { "library": "new", "share": share, "mode": mode } })
}

async fn live_split_uses_the_new_library_for_the_configured_share_of_runs(server: Server) {
    define_look_agent(&server).await;
    define_second_version(&server, "look", json!({ "at": "the sea" })).await;
    server.patch("agents/a", merge(split(1.0, "live"), json!({ "toolRefs": ["look@1.0.0"] }))).await.expect(200);
    let tried = server.run("a", "go").await;
    assert_eq!(tried["responseText"], r#"Seen: {"at":"the sea"}"#, "{tried}");
    let view = server.get(&format!("runs/{}", run_id(&tried))).await.expect(200);
    assert_eq!(view["trial"], json!({ "kind": "split", "arm": "new" }), "{view}");

    server.patch("agents/a", json!({ "split": { "library": "new", "share": 0.0 } })).await.expect(200);
    let own = server.run("a", "go").await;
    assert_eq!(own["responseText"], r#"Seen: {"at":"the sky"}"#, "{own}");
    let view = server.get(&format!("runs/{}", run_id(&own))).await.expect(200);
    assert_eq!(view["trial"], json!({ "kind": "split", "arm": "default" }), "{view}");
    server.patch("agents/a", json!({ "split": null, "libraries": null })).await.expect(200);
    let fork = server.post(&format!("runs/{}/fork", run_id(&tried)), json!({ "at": 1 })).await.expect(202);
    let forked = server.poll_until(&format!("runs/{}", run_id(&fork)), |run| run["status"] != "RUNNING").await;
    assert_eq!(
        (&forked["trial"]["arm"], &envelopes(&forked)[0]["version"]),
        (&json!("new"), &json!("2.0.0")),
        "{forked}"
    );
}

async fn run_with_an_unusable_library_uses_the_default_library_with_a_warning(server: Server) {
    define_look_agent(&server).await;
    for mode in ["live", "shadow"] {
        let saved = server.patch("agents/a", split(1.0, mode)).await.expect(200);
        assert!(
            saved["warnings"].as_array().is_none_or(|all| all.is_empty()),
            "a missing version is not a warning: {saved}"
        );
        let run = server.run("a", "go").await;
        assert_eq!((&run["status"], &envelopes(&run)[0]["version"]), (&json!("COMPLETED"), &json!("1.0.0")));
        assert!(run["warnings"][0].as_str().unwrap().contains("library `new` was not used"), "{run}");
    }
}

async fn shadow_run_executes_reads_and_captures_writes(server: Server) {
    let faults = Faults::builder().start(LOOPBACK).await.unwrap();
    define_write_agent_with(&server, &faults.url(""), json!({}), split(1.0, "shadow")).await;
    define_second_version(&server, "look", json!({ "at": "the sea" })).await;
    server.patch("agents/w", json!({ "toolRefs": ["look@1.0.0", "write"] })).await.expect(200);
    let run = server.run("w", "go").await;
    assert_eq!((&run["status"], &envelopes(&run)[1]["input"]), (&json!("COMPLETED"), &json!({ "saw": "the sky" })));
    let shadow = shadow_of(&server, &run).await;
    assert_eq!((&shadow["status"], &shadow["conversationId"]), (&json!("COMPLETED"), &Value::Null), "{shadow}");
    assert_eq!((&shadow["parentRunId"], &shadow["trial"]["arm"]), (&Value::Null, &json!("new")));
    let [look, write] = [&envelopes(&shadow)[0], &envelopes(&shadow)[1]];
    assert_eq!(
        (&look["version"], &look["metadata"]["source"]),
        (&json!("2.0.0"), &Value::Null),
        "reads of a shadow run are executed"
    );
    assert_eq!(
        (&write["input"], &write["output"], &write["error"]),
        (&json!({ "saw": "the sea" }), &Value::Null, &Value::Null)
    );
    assert_eq!(write["metadata"]["source"], "captured", "{write}");
    assert_eq!(faults.hits("/echo/write"), 1, "only the user's run writes");
    let conversation =
        server.get(&format!("conversations/{}", run["conversationId"].as_str().unwrap())).await.expect(200);
    assert!(!conversation.to_string().contains(run_id(&shadow)), "a shadow run is not part of the conversation");
    faults.shutdown().await;
}

async fn delegate_of_a_shadow_run_captures_its_writes(server: Server) {
    let faults = Faults::builder().start(LOOPBACK).await.unwrap();
    define_write_agent(&server, &faults.url(""), json!({})).await;
    define_second_version(&server, "look", json!({ "at": "the sea" })).await;
    let rules = calls_then(
        json!([{ "name": "w", "arguments": { "task": "write" } }, { "name": "look", "arguments": {} }]),
        "Told.",
    );
    let boss = merge(split(1.0, "shadow"), json!({ "delegateAgentRefs": ["w"], "toolRefs": ["look@1.0.0"] }));
    server.define_agent("boss", rules, boss).await;
    let run = server.run("boss", "go").await;
    let shadow = shadow_of(&server, &run).await;
    assert_eq!((&run["status"], &shadow["status"]), (&json!("COMPLETED"), &json!("COMPLETED")), "{shadow}");
    let child = envelopes(&shadow)[0]["output"]["runId"].clone();
    let child = server.get(&format!("runs/{}", child.as_str().unwrap())).await.expect(200);
    assert_eq!(child["parentRunId"], shadow["runId"]);
    assert_eq!(envelopes(&child)[1]["metadata"]["source"], "captured", "{child}");
    assert_eq!(faults.hits("/echo/write"), 1, "the delegate of the shadow wrote nothing");
    faults.shutdown().await;
}

async fn failed_read_does_not_fall_back_to_a_tool_that_writes(server: Server) {
    let faults = Faults::builder().start(LOOPBACK).await.unwrap();
    server.define_echo("look", json!({})).await;
    define_second_version(&server, "look", json!({ "at": "the sea" })).await;
    let write = json!({ "sideEffects": "writes", "invocation": { "path": "/echo/write", "method": "POST" } });
    server.define_http_tool("write", &faults.url(""), "/echo/write", write).await;
    let read = json!({
        "invocation": { "path": "/status/503", "method": "GET" },
        "errorHandling": { "503": { "action": "fallback", "fallbackToolRef": "write" } },
    });
    server.define_http_tool("read", &faults.url(""), "/status/503", read).await;
    let agent = merge(split(1.0, "shadow"), json!({ "toolRefs": ["read", "look"] }));
    server.define_agent("a", calls_then(json!([{ "name": "read", "arguments": {} }]), "Done."), agent).await;
    let run = server.run("a", "go").await;
    let shadow = shadow_of(&server, &run).await;
    for envelope in [&envelopes(&run)[0], &envelopes(&shadow)[0]] {
        assert_eq!(envelope["error"]["code"], "PROVIDER_ERROR", "{envelope}");
    }
    assert_eq!((faults.hits("/status/503"), faults.hits("/echo/write")), (2, 0));
    faults.shutdown().await;
}

async fn shadow_run_captures_client_calls_and_does_not_request_approval(server: Server) {
    server.define_echo("look", json!({ "requiresConfirmation": true })).await;
    define_second_version(&server, "look", json!({ "at": "the sea" })).await;
    server.define_echo("open", json!({ "isToolFullyExecutedOnServer": false })).await;
    server.define_echo("ask", json!({ "requiresConfirmation": true })).await;
    let calls = json!([{ "name": "open", "arguments": {} }, { "name": "ask", "arguments": {} }]);
    let agent = merge(split(1.0, "shadow"), json!({ "toolRefs": ["look", "open", "ask"] }));
    server.define_agent("a", calls_then(calls, "Done."), agent).await;
    let run = server.run("a", "go").await;
    assert_eq!(run["status"], "AWAITING_APPROVAL", "{run}");
    let shadow = shadow_of(&server, &run).await;
    assert_eq!(shadow["status"], "COMPLETED", "{shadow}");
    let sources: Vec<Value> =
        envelopes(&shadow).iter().map(|envelope| envelope["metadata"]["source"].clone()).collect();
    assert_eq!(sources, [json!("captured"), json!("captured")]);
    assert_eq!(
        server.get("approvals").await.expect(200)["items"].as_array().unwrap().len(),
        1,
        "the run requests one approval, its shadow none"
    );
}

async fn invalid_split_is_rejected_with_its_path(server: Server) {
    define_look_agent(&server).await;
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
async fn shadow_run_interrupted_by_a_restart_completes_without_writing() {
    let faults = Faults::builder().start(LOOPBACK).await.unwrap();
    let deployment = Deployment::new(Storage::Sqlite).await;
    let (server, running) = deployment.start().await;
    let write = json!({ "sideEffects": "writes", "invocation": { "path": "/echo/write", "method": "POST" } });
    server.define_http_tool("write", &faults.url(""), "/echo/write", write).await;
    server
        .define_http_tool(
            "read",
            &faults.url(""),
            "/slow/500",
            json!({ "invocation": { "path": "/slow/500", "method": "GET" } }),
        )
        .await;
    server.define_echo("look", json!({})).await;
    define_second_version(&server, "look", json!({ "at": "the sea" })).await;
    let rules = json!([
        { "when": { "turn": 0 }, "reply": { "toolCalls": [{ "name": "read", "arguments": {} }] } },
        { "when": { "turn": 1 }, "reply": { "toolCalls": [{ "name": "write", "arguments": {} }] } },
        { "reply": { "text": "Written." } },
    ]);
    let more = json!({ "toolRefs": ["read", "write", "look"], "executionConfig": { "durable": true } });
    server.define_agent("a", rules, merge(split(1.0, "shadow"), more)).await;
    let run = server.post("agents/a/execute/durable", json!({ "userMessage": "go" })).await.expect(202);
    while faults.hits("/slow/500") < 2 {
        tokio::task::yield_now().await;
    }
    running.stop().await;
    assert_eq!(faults.hits("/echo/write"), 0, "both were stopped before they wrote");
    let (server, running) = deployment.start().await;
    let shadow = shadow_of(&server, &run).await;
    let run = server.poll_until(&format!("runs/{}", run_id(&run)), |run| run["status"] != "RUNNING").await;
    assert_eq!((&run["status"], &shadow["status"]), (&json!("COMPLETED"), &json!("COMPLETED")), "{shadow}");
    assert_eq!(envelopes(&shadow)[1]["metadata"]["source"], "captured", "{shadow}");
    assert_eq!(faults.hits("/echo/write"), 1, "only the user's run writes");
    running.stop().await;
    deployment.remove().await;
    faults.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn shadow_run_captures_the_write_of_a_built_in_tool() {
    let faults = Faults::builder().start(LOOPBACK).await.unwrap();
    let deployment = Deployment::new(Storage::Sqlite).await;
    let (server, running) =
        deployment.start_with(|options| options.egress_allow = vec!["127.0.0.0/8".parse().unwrap()]).await;
    server.define_echo("look", json!({})).await;
    define_second_version(&server, "look", json!({ "at": "the sea" })).await;
    let send = json!([{ "name": "http_request", "arguments": { "url": faults.url("/echo/raw"), "method": "POST" } }]);
    let agent = merge(split(1.0, "shadow"), json!({ "toolRefs": ["http_request", "look"] }));
    server.define_agent("a", calls_then(send, "Sent."), agent).await;
    let run = server.run("a", "go").await;
    assert_eq!(envelopes(&run)[0]["error"], Value::Null, "{run}");
    let shadow = shadow_of(&server, &run).await;
    assert_eq!(envelopes(&shadow)[0]["metadata"]["source"], "captured", "{shadow}");
    assert_eq!(faults.hits("/echo/raw"), 1);
    running.stop().await;
    deployment.remove().await;
    faults.shutdown().await;
}
