//! Tests comparisons of two libraries, and the report on live splits and shadow runs.

use serde_json::{Value, json};
use toolwright_testkit::{Faults, LOOPBACK};

use super::{define_second_version, define_write_agent_with, export, run_id, shadow_of};
use crate::harness::{Server, calls_then, envelopes, merge};

crate::on_both_databases!(agent_is_run_with_both_libraries_on_the_same_inputs,);
crate::on_sqlite!(
    comparison_replays_recorded_runs_with_two_libraries,
    comparison_captures_writes_unless_sending_is_requested,
    invalid_comparison_is_rejected_with_its_path,
    trial_is_visible_only_to_its_owner_and_administrators,
    trial_report_compares_both_libraries_of_a_live_split,
    trial_report_compares_shadow_runs_with_the_original_runs,
);

/// Starts a comparison of two libraries and waits for its result.
async fn compare(server: &Server, body: Value) -> Value {
    let started = server.post("trials", body).await;
    let location = started.headers.get("location").unwrap().to_str().unwrap().to_owned();
    let started = started.expect(202);
    assert_eq!(location, format!("/api/v1/ai/trials/{}", started["trialId"].as_str().unwrap()));
    server.poll_until(&location, |trial| trial["underWay"] == false).await
}

/// Defines the agent `a`, which calls `look` with the user's message. Its library `glass` replaces `look` by the tool
/// `glass`, which fails for the message `clouds`.
async fn define_comparison_agent(server: &Server, more: Value) {
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
            merge(json!({ "toolRefs": ["look"], "libraries": { "glass": { "look": "glass" } } }), more),
        )
        .await;
}

async fn agent_is_run_with_both_libraries_on_the_same_inputs(server: Server) {
    define_comparison_agent(&server, json!({})).await;
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
        assert!(
            found["completion"]["low"].as_f64().unwrap() < 0.7,
            "the confidence interval is wide for six runs: {found}"
        );
        assert!(found["latencyMs"]["p50"].as_f64().unwrap() <= found["latencyMs"]["p95"].as_f64().unwrap());
        assert!(found["tokens"]["mean"]["low"].as_f64().unwrap() <= found["tokens"]["mean"]["high"].as_f64().unwrap());
    }
    assert_eq!((&trial["a"]["toolErrors"], &trial["b"]["toolErrors"]), (&json!({}), &json!({ "PROVIDER_ERROR": 2 })));
    assert_eq!(trial["difference"]["pairs"], 6);
    assert_eq!(trial["agreement"]["status"]["value"], 1.0, "{trial}");
    let same = trial["agreement"]["answer"]["value"].as_f64().unwrap();
    assert!((same - 4.0 / 6.0).abs() < 1e-9, "the answers differ only for `clouds`: {trial}");
    assert!(
        trial["difference"]["tokens"]["value"].as_f64().unwrap() < 0.0,
        "an error takes more tokens than a result: {trial}"
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

async fn comparison_replays_recorded_runs_with_two_libraries(server: Server) {
    let faults = Faults::builder().start(LOOPBACK).await.unwrap();
    define_comparison_agent(&server, json!({})).await;
    server
        .define_http_tool(
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
        .patch("agents/a", json!({ "toolRefs": ["look", "read"], "llmConfig": crate::harness::scripted_model(rules) }))
        .await
        .expect(200);
    let (one, two) = (server.run("a", "sky").await, server.run("a", "clouds").await);
    assert_eq!(faults.hits("/echo/read"), 2);
    let body = json!({ "agentRef": "a", "a": "default", "b": "glass" });
    let trial = compare(&server, merge(body.clone(), json!({ "runs": [one["runId"], two["runId"]] }))).await;
    assert_eq!(
        (&trial["a"]["arm"], &trial["a"]["runs"], &trial["b"]["runs"]),
        (&json!("default"), &json!(2), &json!(2)),
        "{trial}"
    );
    assert_eq!(trial["b"]["toolErrors"], json!({ "PROVIDER_ERROR": 1 }));
    assert_eq!(faults.hits("/echo/read"), 2, "calls outside the libraries are answered from the recordings");
    let path = format!("runs?limit=100&trialOf={}", trial["trialId"].as_str().unwrap());
    for run in server.get(&path).await.expect(200)["items"].as_array().unwrap() {
        let run = server.get(&format!("runs/{}", run["id"].as_str().unwrap())).await.expect(200);
        let sources: Vec<Value> =
            envelopes(&run).iter().map(|envelope| envelope["metadata"]["source"].clone()).collect();
        assert_eq!(sources, [json!("recorded"), Value::Null], "both arms execute the compared tool: {run}");
    }
    let bundles = json!([export(&server, &one).await]);
    let trial = compare(&server, merge(body, json!({ "bundles": bundles }))).await;
    assert_eq!((&trial["runs"], &trial["agreement"]["answer"]["value"]), (&json!(1), &json!(1.0)), "{trial}");
    faults.shutdown().await;
}

async fn comparison_captures_writes_unless_sending_is_requested(server: Server) {
    let faults = Faults::builder().start(LOOPBACK).await.unwrap();
    define_write_agent_with(
        &server,
        &faults.url(""),
        json!({}),
        json!({ "libraries": { "new": { "look": "look@2.0.0" } } }),
    )
    .await;
    define_second_version(&server, "look", json!({ "at": "the sea" })).await;
    let body = json!({ "agentRef": "w", "a": { "tools": { "look": "look@1.0.0" } }, "b": "new", "inputs": [{ "userMessage": "go" }] });
    let trial = compare(&server, body.clone()).await;
    assert_eq!(
        (&trial["a"]["completed"], &trial["b"]["completed"], faults.hits("/echo/write")),
        (&json!(1), &json!(1), 0)
    );
    compare(&server, merge(body, json!({ "writes": "send" }))).await;
    assert_eq!(faults.hits("/echo/write"), 2);
    faults.shutdown().await;
}

async fn invalid_comparison_is_rejected_with_its_path(server: Server) {
    define_comparison_agent(&server, json!({})).await;
    server.define_agent("other", json!([{ "reply": { "text": "Yes." } }]), json!({})).await;
    let foreign = server.run("other", "go").await;
    let inputs = json!([{ "userMessage": "sky" }]);
    let whole = json!({ "agentRef": "a", "a": "default", "b": "glass", "inputs": inputs });
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
        let problem = server.post("trials", merge(whole.clone(), change)).await.problem(422, "invalid-trial");
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
        server.post("trials", merge(whole.clone(), change)).await.problem(400, "invalid-request");
    }
    server.post("trials", merge(whole.clone(), json!({ "agentRef": "nobody" }))).await.problem(404, "not-found");
    let nowhere = json!({ "inputs": null, "runs": ["run_00000000000000000000000000"] });
    server.post("trials", merge(whole.clone(), nowhere)).await.problem(404, "not-found");
    server
        .post("trials", merge(whole, json!({ "inputs": null, "bundles": ["no"] })))
        .await
        .problem(422, "invalid-bundle");
    for id in ["trial_00000000000000000000000000", "trial"] {
        server.get(&format!("trials/{id}")).await.problem(404, "not-found");
    }
    server.get("agents/a/trial-report?since=yesterday").await.problem(400, "invalid-request");
    server.get("agents/nobody/trial-report").await.problem(404, "not-found");
    assert_eq!(server.get("runs").await.expect(200)["items"].as_array().unwrap().len(), 1, "no run was started");
}

async fn trial_is_visible_only_to_its_owner_and_administrators(server: Server) {
    define_comparison_agent(&server, json!({})).await;
    let (member, other) = (server.member("member").await, server.member("other").await);
    let body = json!({ "agentRef": "a", "a": "default", "b": "glass", "inputs": [{ "userMessage": "sky" }] });
    let trial = compare(&member, body.clone()).await;
    let path = format!("trials/{}", trial["trialId"].as_str().unwrap());
    other.get(&path).await.problem(404, "not-found");
    server.get(&path).await.expect(200);
    let inline = merge(body.clone(), json!({ "b": { "tools": { "look": "glass" } } }));
    member.post("trials", inline).await.problem(403, "forbidden");
    server.patch("agents/a", json!({ "enabled": false })).await.expect(200);
    member.post("trials", body).await.problem(409, "agent-disabled");
}

async fn trial_report_compares_both_libraries_of_a_live_split(server: Server) {
    define_comparison_agent(&server, json!({ "split": { "library": "glass", "share": 0.0 } })).await;
    server.run("a", "sky").await;
    let tried = json!({ "split": { "library": "glass", "share": 1.0 } });
    server.patch("agents/a", tried).await.expect(200);
    let (run, _) = (server.run("a", "sky").await, server.run("a", "clouds").await);
    let fork = server.post(&format!("runs/{}/fork", run_id(&run)), json!({ "at": 1 })).await.expect(202);
    server.poll_until(&format!("runs/{}", run_id(&fork)), |run| run["status"] != "RUNNING").await;
    let report = server.get("agents/a/trial-report").await.expect(200);
    let found = &report["split"][0];
    assert_eq!((&found["a"]["arm"], &found["a"]["runs"]), (&json!("default"), &json!(1)), "{report}");
    assert_eq!(
        (&found["b"]["arm"], &found["b"]["runs"]),
        (&json!("glass"), &json!(2)),
        "forks are not counted: {report}"
    );
    assert_eq!(
        (&found["b"]["toolErrors"], &found["difference"]["pairs"]),
        (&json!({ "PROVIDER_ERROR": 1 }), &Value::Null)
    );
    assert_eq!((&found["difference"]["completion"]["value"], &report["shadow"]), (&json!(0.0), &json!([])));
    let later = server.get("agents/a/trial-report?since=2999-01-01T00:00:00Z").await.expect(200);
    assert_eq!(later, json!({ "split": [], "shadow": [] }));
}

async fn trial_report_compares_shadow_runs_with_the_original_runs(server: Server) {
    define_comparison_agent(&server, json!({ "split": { "library": "glass", "share": 1.0, "mode": "shadow" } })).await;
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
