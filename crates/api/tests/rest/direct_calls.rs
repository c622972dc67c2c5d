//! Tests direct calls: their runs, journals, suspension and undo.

use serde_json::{Value, json};
use toolwright_testkit::{Faults, LOOPBACK};

use crate::harness::{Deployment, Response, Server, Storage, envelopes, with_timeout};

crate::on_both_databases!(
    direct_call_is_a_run_with_a_journal,
    direct_write_is_committed_before_the_response,
    client_result_completes_the_direct_call
);
crate::on_sqlite!(
    failed_or_rejected_direct_call_is_a_failed_run,
    direct_call_to_a_tool_that_requires_confirmation_is_executed_at_once,
    secret_in_the_input_is_redacted_in_the_journal,
    deeply_nested_input_is_stored_as_text_for_reads_and_rejected_for_writes,
    refused_call_is_journaled_without_its_input,
    direct_write_can_be_undone,
    run_list_filters_by_kind_tool_and_agent,
    direct_call_cannot_be_forked,
    client_disconnect_cancels_a_read_but_not_a_write,
    call_with_the_view_parameter_set_to_result_returns_a_short_envelope
);

async fn execute(server: &Server, tool: &str, input: Value) -> Response {
    server.post(&format!("tools/{tool}/execute"), json!({ "input": input })).await
}

fn run_id(answer: &Response) -> String {
    answer.headers["x-run-id"].to_str().unwrap().to_owned()
}

/// Reads the run of a call. The run is readable as soon as the client has the response, even if the run is not stored
/// yet.
async fn get_run(server: &Server, run: &str) -> Value {
    server.get(&format!("runs/{run}")).await.expect(200)
}

fn nested_object(levels: usize) -> Value {
    (0..levels).fold(json!(1), |inner, _| json!({ "in": inner }))
}

async fn direct_call_is_a_run_with_a_journal(server: Server) {
    server.define_echo("look", json!({})).await;
    let answer = execute(&server, "look", json!({ "n": 1 })).await;
    let (id, envelope) = (run_id(&answer), answer.expect(200));
    let run = get_run(&server, &id).await;
    assert_eq!((&run["kind"], &run["subject"], &run["status"]), (&json!("tool"), &json!("look"), &json!("COMPLETED")));
    assert_eq!((&run["iterationsUsed"], &run["durable"]), (&json!(0), &json!(false)), "a direct call uses no model");
    assert_eq!(envelopes(&run), [envelope]);
    assert_eq!(server.get(&format!("runs/{id}/verify")).await.expect(200)["intact"], true);
    let kinds: Vec<String> = server.events(&id, None).await.into_iter().map(|event| event.kind).collect();
    assert_eq!(kinds, ["TOOL_CALL_START", "TOOL_CALL_END", "DONE"]);
    let bundle = server.get(&format!("runs/{id}/export")).await;
    let replay = server.request(reqwest::Method::POST, "runs/replay").body(bundle.text);
    let replayed = server.send(replay.header("content-type", "application/jsonl")).await.expect(200);
    assert_eq!(replayed["identical"], true, "{replayed}");
}

async fn direct_write_is_committed_before_the_response(server: Server) {
    server.define_echo("put", json!({ "sideEffects": "writes" })).await;
    let answer = execute(&server, "put", json!({ "n": 1 })).await;
    let (id, envelope) = (run_id(&answer), answer.expect(200));
    assert_eq!(envelope["output"], json!({ "n": 1 }));
    let run = server.get(&format!("runs/{id}")).await.expect(200);
    assert_eq!((&run["kind"], &run["status"]), (&json!("tool"), &json!("COMPLETED")));
    assert_eq!(envelopes(&run), [envelope]);
    let bundle = server.get(&format!("runs/{id}/export")).await.text;
    assert!(bundle.contains(r#"\"type\":\"intended\""#), "{bundle}");
}

async fn client_result_completes_the_direct_call(server: Server) {
    let client = json!({ "isToolFullyExecutedOnServer": false, "outputJsonSchema": { "type": "object" } });
    server.define_echo("open", client).await;
    let waiting = execute(&server, "open", json!({ "path": "a" })).await.expect(202);
    let (run, call) = (waiting["runId"].as_str().unwrap(), &waiting["clientActions"][0]["callId"]);
    assert_eq!(waiting["clientActions"][0]["toolRef"], "open");
    let shown = server.get(&format!("runs/{run}")).await.expect(200);
    assert_eq!((&shown["status"], &shown["clientActions"]), (&json!("AWAITING_CLIENT"), &waiting["clientActions"]));
    let results = json!({ "results": [{ "callId": call, "output": { "opened": true } }] });
    let ended = server.post(&format!("runs/{run}/tool-results"), results).await.expect(200);
    assert_eq!((&ended["status"], &envelopes(&ended)[0]["output"]), (&json!("COMPLETED"), &json!({ "opened": true })));
}

async fn failed_or_rejected_direct_call_is_a_failed_run(server: Server) {
    let faults = Faults::builder().start(LOOPBACK).await.unwrap();
    server.define_http_tool("broken", &faults.base_url(), "/status/500", json!({})).await;
    server.define_echo("strict", json!({ "inputSchema": { "n": { "type": "number", "required": true } } })).await;
    for (tool, code) in [("broken", "PROVIDER_ERROR"), ("strict", "VALIDATION_ERROR")] {
        let answer = execute(&server, tool, json!({})).await;
        let (id, envelope) = (run_id(&answer), answer.expect(200));
        assert_eq!(envelope["error"]["code"], code);
        let run = get_run(&server, &id).await;
        assert_eq!((&run["status"], &run["reason"]), (&json!("ERROR"), &json!(code)), "{run}");
        assert_eq!(envelopes(&run)[0]["error"], envelope["error"]);
    }
    faults.shutdown().await;
}

async fn direct_call_to_a_tool_that_requires_confirmation_is_executed_at_once(server: Server) {
    server.define_echo("pay", json!({ "sideEffects": "writes", "requiresConfirmation": true })).await;
    assert_eq!(execute(&server, "pay", json!({ "usd": 5 })).await.expect(200)["output"], json!({ "usd": 5 }));
}

async fn secret_in_the_input_is_redacted_in_the_journal(server: Server) {
    let faults = Faults::builder().start(LOOPBACK).await.unwrap();
    server.post("secrets", json!({ "name": "token", "value": "realm-secret-value" })).await.expect(201);
    server.define_http_tool("look", &faults.base_url(), "/echo", json!({})).await;
    let auth = json!({ "auth": { "authType": "bearer", "secretRef": "token" } });
    server.patch("tool-providers/at_look", auth).await.expect(200);
    let answer = execute(&server, "look", json!({ "pasted": "realm-secret-value" })).await;
    let id = run_id(&answer);
    answer.expect(200);
    assert_eq!(envelopes(&get_run(&server, &id).await)[0]["input"], json!({ "pasted": "[redacted]" }));
    let bundle = server.get(&format!("runs/{id}/export")).await.text;
    assert!(!bundle.contains("realm-secret-value"), "{bundle}");
    faults.shutdown().await;
}

async fn deeply_nested_input_is_stored_as_text_for_reads_and_rejected_for_writes(server: Server) {
    server.define_echo("look", json!({})).await;
    server.define_echo("put", json!({ "sideEffects": "writes" })).await;
    let answer = execute(&server, "look", nested_object(100)).await;
    let id = run_id(&answer);
    assert_eq!(answer.expect(200)["output"], nested_object(100));
    assert!(envelopes(&get_run(&server, &id).await)[0]["input"].is_string());
    let refused = execute(&server, "put", nested_object(100)).await.expect(200);
    assert_eq!(
        (&refused["error"]["code"], &refused["error"]["details"]["reason"]),
        (&json!("VALIDATION_ERROR"), &json!("too_deep"))
    );
}

async fn direct_write_can_be_undone(server: Server) {
    server.define_echo("unput", json!({ "sideEffects": "writes" })).await;
    server.define_echo("put", json!({ "sideEffects": "writes", "compensateToolRef": "unput" })).await;
    let answer = execute(&server, "put", json!({ "n": 7 })).await;
    let id = run_id(&answer);
    answer.expect(200);
    let undo = server.post(&format!("runs/{id}/undo"), json!({})).await.expect(202);
    let path = format!("runs/{}", undo["runId"].as_str().unwrap());
    let undone = server.poll_until(&path, |run| run["status"] != "RUNNING").await;
    assert_eq!((&undone["status"], &undone["compensatesRunId"]), (&json!("COMPLETED"), &json!(id)), "{undone}");
    assert_eq!(envelopes(&undone)[0]["input"]["input"], json!({ "n": 7 }));
}

async fn run_list_filters_by_kind_tool_and_agent(server: Server) {
    server.define_echo("look", json!({})).await;
    server.define_agent("look", json!([{ "reply": { "text": "Hello." } }]), json!({})).await;
    let call = run_id(&execute(&server, "look", json!({})).await);
    let run = server.run("look", "go").await;
    get_run(&server, &call).await;
    for (query, found) in [
        ("kind=tool", json!([call])),
        ("toolRef=look", json!([call])),
        ("kind=agent", json!([run["runId"]])),
        ("agentRef=look", json!([run["runId"]])),
        ("toolRef=look&kind=agent", json!([run["runId"]])),
    ] {
        let page = server.get(&format!("runs?{query}")).await.expect(200);
        let ids: Vec<&Value> = page["items"].as_array().unwrap().iter().map(|item| &item["id"]).collect();
        assert_eq!(json!(ids), found, "{query}");
    }
    for invalid in ["kind=robot", "agentRef=look&toolRef=look"] {
        server.get(&format!("runs?{invalid}")).await.problem(400, "invalid-request");
    }
}

async fn direct_call_cannot_be_forked(server: Server) {
    server.define_echo("put", json!({ "sideEffects": "writes" })).await;
    let call = run_id(&execute(&server, "put", json!({})).await);
    server.post(&format!("runs/{call}/fork"), json!({ "at": 1 })).await.problem(422, "cannot-fork");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn write_interrupted_by_a_server_stop_has_an_unknown_outcome() {
    let deployment = Deployment::new(Storage::Sqlite).await;
    let faults = Faults::builder().start(LOOPBACK).await.unwrap();
    let (server, running) = deployment.start().await;
    server.define_http_tool("wait", &faults.base_url(), "/slow/60000", json!({ "sideEffects": "writes" })).await;
    let is_running = |page: &Value| !page["items"].as_array().unwrap().is_empty();
    // `select!` drops the request when the second branch ends, so the client disconnects.
    let page = tokio::select! {
        ended = execute(&server, "wait", json!({})) => panic!("the call ended early: {}", ended.text),
        page = server.poll_until("runs?kind=tool&status=RUNNING", is_running) => page,
    };
    let id = page["items"][0]["id"].clone();
    with_timeout(running.stop()).await;
    let (server, running) = deployment.start().await;
    let run = server.get(&format!("runs/{}", id.as_str().unwrap())).await.expect(200);
    assert_eq!((&run["status"], &run["reason"]), (&json!("ERROR"), &json!("interrupted")), "{run}");
    assert_eq!(envelopes(&run)[0]["error"]["details"]["outcome"], "unknown");
    running.stop().await;
    deployment.remove().await;
    faults.shutdown().await;
}

async fn client_disconnect_cancels_a_read_but_not_a_write(server: Server) {
    let faults = Faults::builder().start(LOOPBACK).await.unwrap();
    let disconnect_during = async |tool: &str, path: &str| {
        let call = server.request(reqwest::Method::POST, &format!("tools/{tool}/execute")).json(&json!({}));
        let request_received = with_timeout(async {
            while faults.hits(path) == 0 {
                tokio::task::yield_now().await;
            }
        });
        tokio::select! {
            _ = call.send() => panic!("`{tool}` answered"),
            () = request_received => {}
        }
        let runs = format!("runs?toolRef={tool}");
        let ended = |page: &Value| page["items"].as_array().unwrap().iter().any(|run| run["status"] != "RUNNING");
        let page = server.poll_until(&runs, ended).await;
        let run = page["items"][0]["id"].as_str().unwrap();
        envelopes(&server.get(&format!("runs/{run}")).await.expect(200)).remove(0)
    };
    server.define_http_tool("look", &faults.base_url(), "/slow/60000", json!({ "sideEffects": "reads" })).await;
    assert_eq!(disconnect_during("look", "/slow/60000").await["error"]["details"]["reason"], "cancelled");
    server.define_http_tool("put", &faults.base_url(), "/slow/400", json!({ "sideEffects": "writes" })).await;
    assert_eq!(disconnect_during("put", "/slow/400").await["error"], Value::Null);
    faults.shutdown().await;
}

async fn refused_call_is_journaled_without_its_input(server: Server) {
    server.define_echo("look", json!({})).await;
    let schema = json!({ "type": "object", "properties": { "filler": { "enum": ["a"] } } });
    server.define_echo("strict", json!({ "inputJsonSchema": schema })).await;
    let guest = server.with_key(&server.issue_key(json!({ "principal": "guest", "roles": [] })).await);
    let input = json!({ "filler": "x".repeat(100_000) });
    for (caller, tool, code, reason) in
        [(&guest, "look", "POLICY_DENIED", "permission"), (&server, "strict", "VALIDATION_ERROR", "input_schema")]
    {
        let answer = execute(caller, tool, input.clone()).await;
        let (id, envelope) = (run_id(&answer), answer.expect(200));
        assert_eq!(envelope["error"]["code"], code, "{}", envelope["error"]);
        assert_eq!(envelope["input"], input, "the caller gets its own input back");
        let bundle = server.get(&format!("runs/{id}/export")).await.text;
        assert!(bundle.len() < 20_000, "{} bytes: {}", bundle.len(), bundle.get(..2_000).unwrap());
        let seen = &envelopes(&get_run(&server, &id).await)[0];
        let omitted = json!({ "bytes": 100_013, "sha256": toolwright_types::json::hex_digest(&input) });
        assert_eq!(seen["input"], json!({ "omitted": omitted }));
        assert_eq!((&seen["error"]["code"], &seen["error"]["details"]["reason"]), (&json!(code), &json!(reason)));
        assert_eq!(server.get(&format!("runs/{id}/verify")).await.expect(200)["intact"], true);
        let replay = server.request(reqwest::Method::POST, "runs/replay").body(bundle);
        let replayed = server.send(replay.header("content-type", "application/jsonl")).await.expect(200);
        assert_eq!(replayed["identical"], true, "{replayed}");
    }
}

async fn call_with_the_view_parameter_set_to_result_returns_a_short_envelope(server: Server) {
    let faults = Faults::builder().start(LOOPBACK).await.unwrap();
    let schema = json!({ "type": "object", "properties": { "n": { "type": "integer" } } });
    let more = json!({ "inputJsonSchema": schema, "outputJsonSchema": {} });
    server.define_http_tool("look", &faults.base_url(), "/echo", more.clone()).await;
    server.define_http_tool("fail", &faults.base_url(), "/status/404", more).await;
    let result = async |tool: &str, input: Value| {
        server.post(&format!("tools/{tool}/execute?view=result"), json!({ "input": input })).await
    };
    let answer = result("look", json!({ "n": 1 })).await;
    let (run, done) = (run_id(&answer), answer.expect(200));
    let envelope = envelopes(&get_run(&server, &run).await).remove(0);
    assert_eq!(
        done,
        json!({ "toolRef": "look", "status": "SUCCESS", "data": envelope["output"], "errorMessage": null, "httpStatus": 200,
            "durationMs": done["durationMs"], "metadata": { "content-type": "application/json", "callId": envelope["call_id"],
            "version": "1.0.0" } })
    );
    let failed = result("fail", json!({})).await.expect(200);
    assert_eq!((&failed["status"], &failed["httpStatus"]), (&json!("ERROR"), &json!(404)), "{failed}");
    assert_eq!((&failed["data"], &failed["metadata"]["errorCode"]), (&Value::Null, &json!("PROVIDER_ERROR")));
    let invalid = result("look", json!({ "n": "one" })).await.expect(200);
    assert_eq!(invalid["status"], "VALIDATION_ERROR", "{invalid}");
    assert!(!invalid["errorMessage"].as_str().unwrap().is_empty());
    server.post("tools/look/execute?view=short", json!({})).await.problem(400, "invalid-request");
    server.define_echo("open", json!({ "sideEffects": "reads", "isToolFullyExecutedOnServer": false })).await;
    assert_eq!(result("open", json!({})).await.expect(202)["status"], "AWAITING_CLIENT");
    faults.shutdown().await;
}
