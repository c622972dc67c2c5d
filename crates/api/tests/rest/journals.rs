//! Tests journals of runs: verify, export, replay, diff, fork and delete.

use std::time::Duration;

use serde_json::{Value, json};
use sqlx::postgres::PgConnection;
use sqlx::{Connection, Executor};

use crate::harness::{Deployment, Response, Server, Storage, calls_then, envelopes, scripted_model};

crate::on_both_databases!(
    exported_run_replays_with_an_identical_result,
    fork_reuses_recorded_calls_and_names_its_original_run,
    bundle_contains_the_prompt_although_the_store_keeps_it_once_for_all_runs,
    deleted_run_is_reported_as_gone
);
crate::on_sqlite!(
    fork_can_replace_the_user_message,
    fork_can_use_another_model,
    fork_can_use_another_tool_version,
    fork_with_an_invalid_entry_or_change_is_rejected,
    fork_grants_no_additional_permissions,
    fork_between_the_approval_and_the_end_of_a_call_is_rejected,
    fork_can_replace_a_result_with_null,
    fork_that_could_repeat_writes_is_rejected_and_lists_them_unless_send_writes_is_set,
    malformed_bundle_is_rejected_with_its_line,
    reading_or_forking_a_journal_requires_permission_to_read_the_run
);

fn run_id(response: &Value) -> &str {
    response["runId"].as_str().unwrap_or_else(|| panic!("no run in {response}"))
}

async fn export(server: &Server, run: &str) -> String {
    let answer = server.send(server.request(reqwest::Method::GET, &format!("runs/{run}/export"))).await;
    assert_eq!(answer.status, 200, "{}", answer.text);
    answer.text
}

async fn replay(server: &Server, bundle: &str) -> Response {
    let request = server.request(reqwest::Method::POST, "runs/replay").body(bundle.to_owned());
    server.send(request.header("content-type", "application/jsonl")).await
}

async fn fork(server: &Server, run: &str, body: Value) -> Value {
    let new = server.post(&format!("runs/{run}/fork"), body).await.expect(202);
    server.poll_until(&format!("runs/{}", run_id(&new)), |run| run["status"] != "RUNNING").await
}

/// Returns the number of the first `call_ended` entry of a run.
async fn call_ended_entry(server: &Server, run: &str) -> u64 {
    let bundle = export(server, run).await;
    let lines = bundle.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let ended = |line: &Value| line["text"].as_str().is_some_and(|text| text.contains("\"type\":\"call_ended\""));
    lines.into_iter().find(ended).unwrap()["entry"].as_u64().unwrap()
}

/// Defines an agent that calls `look` once and answers with the result.
async fn define_look_agent(server: &Server) {
    server.define_echo("look", json!({})).await;
    let calls = json!([{ "name": "look", "arguments": { "at": "the sky" } }]);
    server.define_agent("a", calls_then(calls, "Seen: {{result}}"), json!({ "toolRefs": ["look"] })).await;
}

async fn exported_run_replays_with_an_identical_result(server: Server) {
    define_look_agent(&server).await;
    let response = server.run("a", "go").await;
    let verified = server.get(&format!("runs/{}/verify", run_id(&response))).await.expect(200);
    assert_eq!(verified["intact"], true, "{verified}");
    let bundle = export(&server, run_id(&response)).await;
    let replayed = replay(&server, &bundle).await.expect(200);
    assert_eq!((&replayed["identical"], &replayed["entries"]), (&json!(true), &verified["entries"]), "{replayed}");
    assert!(bundle.contains(verified["headHash"].as_str().unwrap()));

    let forged = bundle.replacen("Seen: ", "Unseen: ", 1);
    replay(&server, &forged).await.problem(422, "invalid-bundle");
}

async fn fork_reuses_recorded_calls_and_names_its_original_run(server: Server) {
    define_look_agent(&server).await;
    let first = server.run("a", "go").await;
    let at = call_ended_entry(&server, run_id(&first)).await;
    let forked = fork(&server, run_id(&first), json!({ "at": at, "result": { "at": "the sea" } })).await;
    assert_eq!(
        (&forked["status"], &forked["responseText"]),
        (&json!("COMPLETED"), &json!(r#"Seen: {"at":"the sea"}"#))
    );
    assert_eq!(forked["forkedFrom"], json!({ "runId": run_id(&first), "at": at }));
    let (then, now) = (&envelopes(&first)[0], &envelopes(&forked)[0]);
    assert_eq!(
        (&then["call_id"], &then["t_start"]),
        (&now["call_id"], &now["t_start"]),
        "the fork reuses the recorded call"
    );
    assert_eq!(server.get(&format!("runs/{}/verify", run_id(&forked))).await.expect(200)["intact"], true);
    let bundle = export(&server, run_id(&forked)).await;
    assert_eq!(replay(&server, &bundle).await.expect(200)["identical"], true);

    let diff = server.get(&format!("runs/{}/diff/{}", run_id(&first), run_id(&forked))).await.expect(200);
    let fields: Vec<&str> =
        diff["differences"].as_array().unwrap().iter().map(|one| one["field"].as_str().unwrap()).collect();
    assert!(
        fields.contains(&"/outputs/response_text") || fields.iter().any(|field| field.contains("response")),
        "{diff}"
    );
    let second = server.run("a", "go").await;
    let same = server.get(&format!("runs/{}/diff/{}", run_id(&first), run_id(&second))).await.expect(200);
    assert_eq!(same["differences"], json!([]), "timestamps are not compared");
}

async fn bundle_contains_the_prompt_although_the_store_keeps_it_once_for_all_runs(server: Server) {
    let prompt = "Be kind to everyone. ".repeat(50);
    server.define_agent("a", json!([{ "reply": { "text": "Yes." } }]), json!({ "systemPrompt": prompt })).await;
    let (one, two) = (server.run("a", "one").await, server.run("a", "two").await);
    for run in [&one, &two] {
        let bundle = export(&server, run_id(run)).await;
        assert_eq!(bundle.matches("Be kind").count(), 50 + 50, "once in the shared part and once in the model request");
        assert_eq!(replay(&server, &bundle).await.expect(200)["identical"], true);
    }
}

async fn deleted_run_is_reported_as_gone(server: Server) {
    define_look_agent(&server).await;
    let (run, other) = (server.run("a", "go").await, server.run("a", "go").await);
    let path = format!("runs/{}", run_id(&run));
    let member = server.member("member").await;
    member.delete(&path).await.problem(404, "not-found");
    let own = member.run("a", "go").await;
    member.delete(&format!("runs/{}", run_id(&own))).await.problem(403, "forbidden");
    server.delete(&path).await.expect(204);
    let gone = server.get(&path).await.problem(410, "run-deleted");
    assert!(gone["detail"].as_str().unwrap().contains("COMPLETED"), "{gone}");
    for rest in ["verify", "export", "events"] {
        server.get(&format!("{path}/{rest}")).await.problem(410, "run-deleted");
    }
    member.get(&path).await.problem(404, "not-found");
    server.get(&format!("runs/{}", run_id(&other))).await.expect(200);

    server.define_echo("pay", json!({ "sideEffects": "writes", "requiresConfirmation": true })).await;
    let asks = calls_then(json!([{ "name": "pay", "arguments": {} }]), "Done.");
    server.define_agent("asks", asks, json!({ "toolRefs": ["pay"] })).await;
    let waiting = server.run("asks", "go").await;
    server.delete(&format!("runs/{}", run_id(&waiting))).await.problem(409, "run-under-way");
}

#[tokio::test]
async fn expired_runs_are_deleted_at_server_start() {
    let deployment = Deployment::new(Storage::Sqlite).await;
    let (server, running) = deployment.start().await;
    define_look_agent(&server).await;
    let run = server.run("a", "go").await;
    running.stop().await;
    let keep = |age| move |options: &mut toolwright_engine::Options| options.retention.completed = Some(age);
    let (server, running) = deployment.start_with(keep(Duration::from_secs(3600))).await;
    server.get(&format!("runs/{}", run_id(&run))).await.expect(200);
    running.stop().await;
    let (server, running) = deployment.start_with(keep(Duration::ZERO)).await;
    server.poll_until("runs", |runs| runs["items"] == json!([])).await;
    server.get(&format!("runs/{}", run_id(&run))).await.problem(410, "run-deleted");
    running.stop().await;
    deployment.remove().await;
}

async fn fork_can_replace_the_user_message(server: Server) {
    server.define_agent("a", json!([{ "reply": { "text": "You said {{user}}" } }]), json!({})).await;
    let first = server.run("a", "hello").await;
    let forked = fork(&server, run_id(&first), json!({ "at": 1, "message": "goodbye" })).await;
    assert_eq!(
        (&first["responseText"], &forked["responseText"]),
        (&json!("You said hello"), &json!("You said goodbye"))
    );
}

async fn fork_can_use_another_model(server: Server) {
    server.define_agent("a", json!([{ "reply": { "text": "One." } }]), json!({})).await;
    let first = server.run("a", "hello").await;
    let forked = fork(&server, run_id(&first), json!({ "at": 1, "model": "scripted/echo", "prompt": "Repeat." })).await;
    assert_eq!(forked["status"], "COMPLETED", "{forked}");
    let invalid =
        server.post(&format!("runs/{}/fork", run_id(&first)), json!({ "at": 1, "model": "nobody/knows" })).await;
    invalid.problem(422, "cannot-fork");
}

async fn fork_can_use_another_tool_version(server: Server) {
    define_look_agent(&server).await;
    let first = server.run("a", "go").await;
    let new = json!({ "version": "2.0.0", "invocation": { "path": "echo", "bodyTemplate": { "at": "elsewhere" } } });
    let tool = json!({ "refName": "look", "toolType": "FUNCTION", "description": "Looks.", "outputJsonSchema": {} });
    server.put("tools/look", crate::harness::merge(tool, new)).await.expect(200);
    let forked = fork(&server, run_id(&first), json!({ "at": 2, "tools": { "look": "=2.0.0" } })).await;
    assert_eq!(envelopes(&forked)[0]["version"], "2.0.0", "{forked}");
}

/// Returns the numbers of all journal entries with the type `kind`.
async fn entries_of_kind(server: &Server, run: &str, kind: &str) -> Vec<u64> {
    let bundle = export(server, run).await;
    let lines = bundle.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let matches_kind =
        |line: &Value| line["text"].as_str().is_some_and(|text| text.contains(&format!("\"type\":\"{kind}\"")));
    lines.filter(matches_kind).map(|line| line["entry"].as_u64().unwrap()).collect()
}

async fn fork_grants_no_additional_permissions(server: Server) {
    server.define_echo("write", json!({ "sideEffects": "writes" })).await;
    let rules = calls_then(json!([{ "name": "write", "arguments": {} }]), "Done.");
    server.define_agent("a", rules, json!({ "toolRefs": ["write"] })).await;
    let member = server.member("member").await;
    let run = member.run("a", "go").await;
    assert_eq!(envelopes(&run)[0]["error"], Value::Null, "{run}");
    let path = format!("runs/{}/fork", run_id(&run));
    let ended = call_ended_entry(&member, run_id(&run)).await;
    for change in [
        json!({ "at": 1, "prompt": "Obey." }),
        json!({ "at": 1, "model": "scripted/echo" }),
        json!({ "at": ended, "result": { "approved": true } }),
    ] {
        member.post(&path, change).await.problem(403, "forbidden");
    }
    server.patch("agents/a", json!({ "policy": { "sideEffects": "reads" } })).await.expect(200);
    let forked = fork(&member, run_id(&run), json!({ "at": 1, "sendWrites": true })).await;
    assert_eq!(envelopes(&forked)[0]["error"]["code"], "POLICY_DENIED", "{forked}");
    server.delete("agents/a").await.expect(204);
    member.post(&path, json!({ "at": 1 })).await.problem(404, "not-found");
}

async fn fork_between_the_approval_and_the_end_of_a_call_is_rejected(server: Server) {
    server.define_echo("pay", json!({ "sideEffects": "writes", "requiresConfirmation": true })).await;
    let rules = calls_then(json!([{ "name": "pay", "arguments": {} }]), "Done.");
    server.define_agent("a", rules, json!({ "toolRefs": ["pay"] })).await;
    let waiting = server.run("a", "go").await;
    let run = server.decide(&waiting, 0, json!({ "decision": "approve" })).await.expect(200);
    let path = format!("runs/{}/fork", run_id(&run));
    for kind in ["approval_decided", "prepared_again", "intended"] {
        let entries = entries_of_kind(&server, run_id(&run), kind).await;
        assert!(!entries.is_empty(), "the run has no entry of kind `{kind}`");
        for at in entries {
            server.post(&path, json!({ "at": at, "sendWrites": true })).await.problem(422, "cannot-fork");
        }
    }
    let prepared = entries_of_kind(&server, run_id(&run), "prepared").await[0];
    let new = server.post(&path, json!({ "at": prepared, "sendWrites": true })).await.expect(202);
    let again = server.get(&format!("runs/{}", run_id(&new))).await.expect(200);
    assert!(["RUNNING", "AWAITING_APPROVAL"].contains(&again["status"].as_str().unwrap()), "{again}");
    server.poll_until(&format!("runs/{}", run_id(&new)), |run| run["status"] == "AWAITING_APPROVAL").await;
    let ended = entries_of_kind(&server, run_id(&run), "call_ended").await[0];
    let forked = fork(&server, run_id(&run), json!({ "at": ended })).await;
    assert_eq!(envelopes(&forked), envelopes(&run), "completed calls are unchanged");
}

async fn fork_that_could_repeat_writes_is_rejected_and_lists_them_unless_send_writes_is_set(server: Server) {
    server.define_echo("look", json!({})).await;
    server.define_echo("pay", json!({ "sideEffects": "writes" })).await;
    let calls =
        json!([{ "name": "look", "arguments": { "at": "bill" } }, { "name": "pay", "arguments": { "euros": 7 } }]);
    server.define_agent("clerk", calls_then(calls, "Paid."), json!({ "toolRefs": ["look", "pay"] })).await;
    let delegation = calls_then(json!([{ "name": "clerk", "arguments": { "task": "pay" } }]), "Done.");
    server.define_agent("boss", delegation, json!({ "delegateAgentRefs": ["clerk"] })).await;
    for agent in ["clerk", "boss"] {
        let run = server.run(agent, "go").await;
        assert_eq!(run["status"], "COMPLETED", "{run}");
        let path = format!("runs/{}/fork", run_id(&run));
        let rejected = server.post(&path, json!({ "at": 1 })).await.problem(422, "cannot-fork");
        let errors = rejected["errors"].as_array().unwrap();
        assert_eq!((errors.len(), &errors[0]["path"]), (1, &json!("/sendWrites")), "{rejected}");
        let last = entries_of_kind(&server, run_id(&run), "call_ended").await.pop().unwrap();
        let detail = rejected["detail"].as_str().unwrap();
        assert!(detail.ends_with(&format!("or fork at entry {last}")), "{detail}");
        let message = errors[0]["message"].as_str().unwrap();
        assert!(message.contains("`pay@1.0.0`") && message.contains(r#"{"euros":7}"#), "{message}");
        let forked = fork(&server, run_id(&run), json!({ "at": 1, "sendWrites": true })).await;
        assert_eq!(forked["status"], "COMPLETED", "{forked}");
        let ended = *entries_of_kind(&server, run_id(&run), "call_ended").await.last().unwrap();
        let forked = fork(&server, run_id(&run), json!({ "at": ended })).await;
        assert_eq!(forked["status"], "COMPLETED", "the writes are in the shared entries: {forked}");
    }
}

async fn fork_can_replace_a_result_with_null(server: Server) {
    define_look_agent(&server).await;
    let first = server.run("a", "go").await;
    let at = call_ended_entry(&server, run_id(&first)).await;
    let forked = fork(&server, run_id(&first), json!({ "at": at, "result": null })).await;
    assert_eq!((&envelopes(&forked)[0]["output"], &forked["responseText"]), (&Value::Null, &json!("Seen: null")));
    let path = format!("runs/{}/fork", run_id(&first));
    server.post(&path, json!({ "at": 1, "tools": { "look": "=9.0.0" } })).await.problem(422, "cannot-fork");
    server.post(&path, json!({ "at": 1, "message": " " })).await.problem(422, "cannot-fork");
}

async fn fork_with_an_invalid_entry_or_change_is_rejected(server: Server) {
    define_look_agent(&server).await;
    let first = server.run("a", "go").await;
    let path = format!("runs/{}/fork", run_id(&first));
    let entries = server.get(&format!("runs/{}/verify", run_id(&first))).await.expect(200)["entries"].as_u64().unwrap();
    for (body, status, code) in [
        (json!({ "at": 0 }), 400, "invalid-request"),
        (json!({ "at": entries + 1 }), 400, "invalid-request"),
        (json!({ "at": entries }), 422, "cannot-fork"),
        (json!({ "at": 1, "result": {} }), 422, "cannot-fork"),
        (json!({ "at": 1, "tools": { "nothing": "1.0.0" } }), 422, "cannot-fork"),
        (json!({ "at": 1, "tools": { "look": "newest" } }), 400, "invalid-request"),
        (json!({ "at": 1, "temperature": 1 }), 400, "invalid-request"),
        (json!({}), 400, "invalid-request"),
    ] {
        server.post(&path, body.clone()).await.problem(status, code);
    }
    server.post("runs/run_00000000000000000000000000/fork", json!({ "at": 1 })).await.problem(404, "not-found");
    assert_eq!(server.get("runs").await.expect(200)["items"].as_array().unwrap().len(), 1, "no run was stored");
}

async fn malformed_bundle_is_rejected_with_its_line(server: Server) {
    define_look_agent(&server).await;
    let bundle = export(&server, run_id(&server.run("a", "go").await)).await;
    let partial = bundle.get(..bundle.len() / 2).unwrap();
    for (text, message) in
        [("", "empty"), ("{}", "line 1"), (partial, "line "), (&bundle.replacen(":1,", ":9,", 1), "format version 9")]
    {
        let problem = replay(&server, text).await.problem(422, "invalid-bundle");
        assert!(problem["detail"].as_str().unwrap().contains(message), "{problem}");
    }
    let request = server.request(reqwest::Method::POST, "runs/replay").body(vec![0xff, 0xfe]);
    server.send(request).await.problem(422, "invalid-bundle");
}

async fn reading_or_forking_a_journal_requires_permission_to_read_the_run(server: Server) {
    define_look_agent(&server).await;
    let run = server.run("a", "go").await;
    let other = server.member("other").await;
    for path in ["verify", "export"] {
        other.get(&format!("runs/{}/{path}", run_id(&run))).await.problem(404, "not-found");
    }
    other.post(&format!("runs/{}/fork", run_id(&run)), json!({ "at": 1 })).await.problem(404, "not-found");
}

#[tokio::test]
async fn verify_reports_the_first_changed_entry_of_a_journal() {
    let deployment = Deployment::new(Storage::PostgresAndRedis).await;
    let (server, running) = deployment.start().await;
    server
        .post(
            "agents",
            json!({ "refName": "a", "llmConfig": scripted_model(json!([{ "reply": { "text": "Yes." } }])) }),
        )
        .await
        .expect(201);
    let mut database = PgConnection::connect(&deployment.database_url()).await.unwrap();
    let tampered = [
        ("UPDATE journal SET body = replace(body, 'Yes.', 'No.') WHERE n = 2", 2),
        ("UPDATE journal SET written_at = written_at + 1 WHERE n = 1", 1),
        ("DELETE FROM journal WHERE n = 2", 2),
    ];
    for (sql, broken_at) in tampered {
        let run = server.run("a", "go").await;
        let path = format!("runs/{}/verify", run_id(&run));
        assert_eq!(server.get(&path).await.expect(200)["intact"], true);
        database.execute(sqlx::AssertSqlSafe(format!("{sql} AND run_id = '{}'", run_id(&run)))).await.unwrap();
        let found = server.get(&path).await.expect(200);
        assert_eq!((&found["intact"], &found["brokenAt"]), (&json!(false), &json!(broken_at)), "{sql}: {found}");
    }
    running.stop().await;
    deployment.remove().await;
}

/// A future release may be unable to replay a journal of an older release. The test simulates this by changing an entry
/// so that it cannot be replayed.
#[tokio::test]
async fn waiting_run_resumes_from_its_checkpoint_if_its_journal_cannot_be_replayed() {
    let deployment = Deployment::new(Storage::PostgresAndRedis).await;
    let (server, running) = deployment.start().await;
    server.define_echo("pay", json!({ "sideEffects": "writes", "requiresConfirmation": true })).await;
    let call = json!([{ "name": "pay", "arguments": { "usd": 5 } }]);
    server.define_agent("a", calls_then(call, "Paid."), json!({ "toolRefs": ["pay"] })).await;
    let (with_checkpoint, without_checkpoint) = (server.run("a", "go").await, server.run("a", "go").await);
    let mut database = PgConnection::connect(&deployment.database_url()).await.unwrap();
    let corrupt =
        "UPDATE journal SET body = replace(body, '\"iteration\":1', '\"iteration\":7') WHERE kind = 'model_replied'";
    database.execute(corrupt).await.unwrap();
    let delete_checkpoint = format!("DELETE FROM checkpoints WHERE run_id = '{}'", run_id(&without_checkpoint));
    database.execute(sqlx::AssertSqlSafe(delete_checkpoint)).await.unwrap();

    let paid = server.decide(&with_checkpoint, 0, json!({ "decision": "approve" })).await.expect(200);
    assert_eq!((&paid["status"], &paid["responseText"]), (&json!("COMPLETED"), &json!("Paid.")), "{paid}");
    let left: (i64,) = sqlx::query_as("SELECT count(*) FROM checkpoints").fetch_one(&mut database).await.unwrap();
    assert_eq!(left.0, 0, "an ended run has no checkpoint");
    // The second run has no checkpoint, so it cannot be recovered.
    server.decide(&without_checkpoint, 0, json!({ "decision": "approve" })).await.problem(503, "unavailable");
    running.stop().await;
    deployment.remove().await;
}
