//! A direct call is a run: it has a journal, it can wait, and it can be taken back.

use serde_json::{Value, json};
use toolwright_testkit::{Faults, LOOPBACK};

use crate::harness::{Answer, Edition, Home, Server, receipts, soon};

crate::on_both_editions!(
    a_call_is_a_run_with_a_journal,
    a_write_is_committed_before_it_is_answered,
    what_a_client_returns_ends_the_call
);
crate::on_sqlite!(
    a_call_that_fails_or_is_refused_is_a_run_that_failed,
    to_call_is_to_agree,
    a_secret_that_was_sent_along_is_in_no_journal,
    deep_inputs_are_kept_as_text_and_never_written_with,
    a_direct_write_is_taken_back,
    calls_and_agents_are_told_apart_in_lists,
    a_direct_call_has_no_beginning_to_share,
    when_the_caller_goes_away_a_read_ends_and_a_write_goes_on
);

async fn execute(server: &Server, tool: &str, input: Value) -> Answer {
    server.post(&format!("tools/{tool}/execute"), json!({ "input": input })).await
}

fn run_of(answer: &Answer) -> String {
    answer.headers["x-run-id"].to_str().unwrap().to_owned()
}

/// A run is there as soon as its call is answered, written or not.
async fn written(server: &Server, run: &str) -> Value {
    server.get(&format!("runs/{run}")).await.expect(200)
}

fn deep(levels: usize) -> Value {
    (0..levels).fold(json!(1), |inner, _| json!({ "in": inner }))
}

async fn a_call_is_a_run_with_a_journal(server: Server) {
    server.define_echo("look", json!({})).await;
    let answer = execute(&server, "look", json!({ "n": 1 })).await;
    let (id, envelope) = (run_of(&answer), answer.expect(200));
    let run = written(&server, &id).await;
    assert_eq!((&run["kind"], &run["subject"], &run["status"]), (&json!("tool"), &json!("look"), &json!("COMPLETED")));
    assert_eq!((&run["iterationsUsed"], &run["durable"]), (&json!(0), &json!(false)), "no model was asked");
    assert_eq!(receipts(&run), [envelope]);
    assert_eq!(server.get(&format!("runs/{id}/verify")).await.expect(200)["intact"], true);
    let told: Vec<String> = server.events(&id, None).await.into_iter().map(|event| event.kind).collect();
    assert_eq!(told, ["TOOL_CALL_START", "TOOL_CALL_END", "DONE"]);
    let bundle = server.get(&format!("runs/{id}/export")).await;
    let replay = server.request(reqwest::Method::POST, "runs/replay").body(bundle.text);
    let replayed = server.send(replay.header("content-type", "application/jsonl")).await.expect(200);
    assert_eq!(replayed["identical"], true, "{replayed}");
}

async fn a_write_is_committed_before_it_is_answered(server: Server) {
    server.define_echo("put", json!({ "sideEffects": "writes" })).await;
    let answer = execute(&server, "put", json!({ "n": 1 })).await;
    let (id, envelope) = (run_of(&answer), answer.expect(200));
    assert_eq!(envelope["output"], json!({ "n": 1 }));
    let run = server.get(&format!("runs/{id}")).await.expect(200);
    assert_eq!((&run["kind"], &run["status"]), (&json!("tool"), &json!("COMPLETED")));
    assert_eq!(receipts(&run), [envelope]);
    let bundle = server.get(&format!("runs/{id}/export")).await.text;
    assert!(bundle.contains(r#"\"type\":\"intended\""#), "{bundle}");
}

async fn what_a_client_returns_ends_the_call(server: Server) {
    let client = json!({ "isToolFullyExecutedOnServer": false, "outputJsonSchema": { "type": "object" } });
    server.define_echo("open", client).await;
    let handed = execute(&server, "open", json!({ "path": "a" })).await.expect(202);
    let (run, call) = (handed["runId"].as_str().unwrap(), &handed["clientActions"][0]["callId"]);
    assert_eq!(server.get(&format!("runs/{run}")).await.expect(200)["status"], "AWAITING_CLIENT");
    let results = json!({ "results": [{ "callId": call, "output": { "opened": true } }] });
    let ended = server.post(&format!("runs/{run}/tool-results"), results).await.expect(200);
    assert_eq!((&ended["status"], &receipts(&ended)[0]["output"]), (&json!("COMPLETED"), &json!({ "opened": true })));
}

async fn a_call_that_fails_or_is_refused_is_a_run_that_failed(server: Server) {
    let faults = Faults::builder().start(LOOPBACK).await.unwrap();
    server.define_call("broken", &faults.base_url(), "/status/500", json!({})).await;
    server.define_echo("strict", json!({ "inputSchema": { "n": { "type": "number", "required": true } } })).await;
    for (tool, code) in [("broken", "PROVIDER_ERROR"), ("strict", "VALIDATION_ERROR")] {
        let answer = execute(&server, tool, json!({})).await;
        let (id, envelope) = (run_of(&answer), answer.expect(200));
        assert_eq!(envelope["error"]["code"], code);
        let run = written(&server, &id).await;
        assert_eq!((&run["status"], &run["reason"]), (&json!("ERROR"), &json!(code)), "{run}");
        assert_eq!(receipts(&run)[0]["error"], envelope["error"]);
    }
    faults.shutdown().await;
}

async fn to_call_is_to_agree(server: Server) {
    server.define_echo("pay", json!({ "sideEffects": "writes", "requiresConfirmation": true })).await;
    assert_eq!(execute(&server, "pay", json!({ "usd": 5 })).await.expect(200)["output"], json!({ "usd": 5 }));
}

async fn a_secret_that_was_sent_along_is_in_no_journal(server: Server) {
    let faults = Faults::builder().start(LOOPBACK).await.unwrap();
    server.post("secrets", json!({ "name": "token", "value": "realm-secret-value" })).await.expect(201);
    server.define_call("look", &faults.base_url(), "/echo", json!({})).await;
    let auth = json!({ "auth": { "authType": "bearer", "secretRef": "token" } });
    server.patch("tool-providers/at_look", auth).await.expect(200);
    let answer = execute(&server, "look", json!({ "pasted": "realm-secret-value" })).await;
    let id = run_of(&answer);
    answer.expect(200);
    assert_eq!(receipts(&written(&server, &id).await)[0]["input"], json!({ "pasted": "[redacted]" }));
    let bundle = server.get(&format!("runs/{id}/export")).await.text;
    assert!(!bundle.contains("realm-secret-value"), "{bundle}");
    faults.shutdown().await;
}

async fn deep_inputs_are_kept_as_text_and_never_written_with(server: Server) {
    server.define_echo("look", json!({})).await;
    server.define_echo("put", json!({ "sideEffects": "writes" })).await;
    let answer = execute(&server, "look", deep(100)).await;
    let id = run_of(&answer);
    assert_eq!(answer.expect(200)["output"], deep(100));
    assert!(receipts(&written(&server, &id).await)[0]["input"].is_string());
    let refused = execute(&server, "put", deep(100)).await.expect(200);
    assert_eq!(
        (&refused["error"]["code"], &refused["error"]["details"]["reason"]),
        (&json!("VALIDATION_ERROR"), &json!("too_deep"))
    );
}

async fn a_direct_write_is_taken_back(server: Server) {
    server.define_echo("unput", json!({ "sideEffects": "writes" })).await;
    server.define_echo("put", json!({ "sideEffects": "writes", "compensateToolRef": "unput" })).await;
    let answer = execute(&server, "put", json!({ "n": 7 })).await;
    let id = run_of(&answer);
    answer.expect(200);
    let undo = server.post(&format!("runs/{id}/undo"), json!({})).await.expect(202);
    let path = format!("runs/{}", undo["runId"].as_str().unwrap());
    let undone = server.until(&path, |run| run["status"] != "RUNNING").await;
    assert_eq!((&undone["status"], &undone["undoesRunId"]), (&json!("COMPLETED"), &json!(id)), "{undone}");
    assert_eq!(receipts(&undone)[0]["input"]["input"], json!({ "n": 7 }));
}

async fn calls_and_agents_are_told_apart_in_lists(server: Server) {
    server.define_echo("look", json!({})).await;
    server.define_agent("look", json!([{ "reply": { "text": "Hello." } }]), json!({})).await;
    let call = run_of(&execute(&server, "look", json!({})).await);
    let run = server.run("look", "go").await;
    written(&server, &call).await;
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
    for wrong in ["kind=robot", "agentRef=look&toolRef=look"] {
        server.get(&format!("runs?{wrong}")).await.problem(400, "invalid-request");
    }
}

async fn a_direct_call_has_no_beginning_to_share(server: Server) {
    server.define_echo("put", json!({ "sideEffects": "writes" })).await;
    let call = run_of(&execute(&server, "put", json!({})).await);
    server.post(&format!("runs/{call}/fork"), json!({ "at": 1 })).await.problem(422, "cannot-fork");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_write_that_a_stopped_server_left_is_told_as_unknown() {
    let home = Home::new(Edition::Sqlite).await;
    let faults = Faults::builder().start(LOOPBACK).await.unwrap();
    let (server, running) = home.start().await;
    server.define_call("wait", &faults.base_url(), "/slow/60000", json!({ "sideEffects": "writes" })).await;
    let under_way = |page: &Value| !page["items"].as_array().unwrap().is_empty();
    // Whoever has called goes away.
    let page = tokio::select! {
        ended = execute(&server, "wait", json!({})) => panic!("it did not wait: {}", ended.text),
        page = server.until("runs?kind=tool&status=RUNNING", under_way) => page,
    };
    let id = page["items"][0]["id"].clone();
    soon(running.stop()).await;
    let (server, running) = home.start().await;
    let run = server.get(&format!("runs/{}", id.as_str().unwrap())).await.expect(200);
    assert_eq!((&run["status"], &run["reason"]), (&json!("ERROR"), &json!("interrupted")), "{run}");
    assert_eq!(receipts(&run)[0]["error"]["details"]["outcome"], "unknown");
    running.stop().await;
    home.remove().await;
    faults.shutdown().await;
}

async fn when_the_caller_goes_away_a_read_ends_and_a_write_goes_on(server: Server) {
    let faults = Faults::builder().start(LOOPBACK).await.unwrap();
    let leave = async |tool: &str, path: &str| {
        let call = server.request(reqwest::Method::POST, &format!("tools/{tool}/execute")).json(&json!({}));
        let under_way = soon(async {
            while faults.hits(path) == 0 {
                tokio::task::yield_now().await;
            }
        });
        tokio::select! {
            _ = call.send() => panic!("`{tool}` answered"),
            () = under_way => {}
        }
        let runs = format!("runs?toolRef={tool}");
        let ended = |page: &Value| page["items"].as_array().unwrap().iter().any(|run| run["status"] != "RUNNING");
        let page = server.until(&runs, ended).await;
        let run = page["items"][0]["id"].as_str().unwrap();
        receipts(&server.get(&format!("runs/{run}")).await.expect(200)).remove(0)
    };
    server.define_call("look", &faults.base_url(), "/slow/60000", json!({ "sideEffects": "reads" })).await;
    assert_eq!(leave("look", "/slow/60000").await["error"]["details"]["reason"], "cancelled");
    server.define_call("put", &faults.base_url(), "/slow/400", json!({ "sideEffects": "writes" })).await;
    assert_eq!(leave("put", "/slow/400").await["error"], Value::Null);
    faults.shutdown().await;
}
