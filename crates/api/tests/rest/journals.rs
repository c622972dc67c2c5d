//! Journals of runs: verified, exported, replayed, compared, forked.

use std::time::Duration;

use serde_json::{Value, json};
use sqlx::postgres::PgConnection;
use sqlx::{Connection, Executor};

use crate::harness::{Answer, Edition, Home, Server, calls_then, receipts, scripted};

crate::on_both_editions!(
    an_exported_run_replays_as_it_was,
    a_fork_reuses_what_is_shared_and_names_where_it_left,
    what_runs_have_in_common_is_put_back,
    a_deleted_run_leaves_a_tombstone
);
crate::on_sqlite!(
    a_fork_may_begin_with_other_words,
    a_fork_may_ask_another_model,
    a_fork_may_use_another_version_of_a_tool,
    a_fork_that_cannot_be_is_refused,
    a_fork_lends_no_authority,
    what_was_decided_or_begun_once_does_not_count_twice,
    a_result_may_be_replaced_by_null_and_keeps_nothing_of_the_old_one,
    bundles_that_are_none_are_refused_with_their_places,
    journals_are_for_those_who_may_read_the_run
);

fn id(response: &Value) -> &str {
    response["runId"].as_str().unwrap_or_else(|| panic!("no run in {response}"))
}

async fn export(server: &Server, run: &str) -> String {
    let answer = server.send(server.request(reqwest::Method::GET, &format!("runs/{run}/export"))).await;
    assert_eq!(answer.status, 200, "{}", answer.text);
    answer.text
}

async fn replay(server: &Server, bundle: &str) -> Answer {
    let request = server.request(reqwest::Method::POST, "runs/replay").body(bundle.to_owned());
    server.send(request.header("content-type", "application/jsonl")).await
}

async fn fork(server: &Server, run: &str, body: Value) -> Value {
    let new = server.post(&format!("runs/{run}/fork"), body).await.expect(202);
    server.until(&format!("runs/{}", id(&new)), |run| run["status"] != "RUNNING").await
}

/// The entry of a run's bundle that ends a call.
async fn end_of_call(server: &Server, run: &str) -> u64 {
    let bundle = export(server, run).await;
    let lines = bundle.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let ended = |line: &Value| line["text"].as_str().is_some_and(|text| text.contains("\"type\":\"call_ended\""));
    lines.into_iter().find(ended).unwrap()["entry"].as_u64().unwrap()
}

/// An agent that calls `look` once and tells the result.
async fn define_looker(server: &Server) {
    server.define_echo("look", json!({})).await;
    let calls = json!([{ "name": "look", "arguments": { "at": "the sky" } }]);
    server.define_agent("a", calls_then(calls, "Seen: {{result}}"), json!({ "toolRefs": ["look"] })).await;
}

async fn an_exported_run_replays_as_it_was(server: Server) {
    define_looker(&server).await;
    let response = server.run("a", "go").await;
    let verified = server.get(&format!("runs/{}/verify", id(&response))).await.expect(200);
    assert_eq!(verified["intact"], true, "{verified}");
    let bundle = export(&server, id(&response)).await;
    let replayed = replay(&server, &bundle).await.expect(200);
    assert_eq!((&replayed["identical"], &replayed["entries"]), (&json!(true), &verified["entries"]), "{replayed}");
    assert!(bundle.contains(verified["head"].as_str().unwrap()));

    let forged = bundle.replacen("Seen: ", "Unseen: ", 1);
    replay(&server, &forged).await.problem(422, "invalid-bundle");
}

async fn a_fork_reuses_what_is_shared_and_names_where_it_left(server: Server) {
    define_looker(&server).await;
    let first = server.run("a", "go").await;
    let at = end_of_call(&server, id(&first)).await;
    let forked = fork(&server, id(&first), json!({ "at": at, "result": { "at": "the sea" } })).await;
    assert_eq!(
        (&forked["status"], &forked["responseText"]),
        (&json!("COMPLETED"), &json!(r#"Seen: {"at":"the sea"}"#))
    );
    assert_eq!(forked["forkedFrom"], json!({ "runId": id(&first), "at": at }));
    let (then, now) = (&receipts(&first)[0], &receipts(&forked)[0]);
    assert_eq!((&then["call_id"], &then["t_start"]), (&now["call_id"], &now["t_start"]), "the call was not made again");
    assert_eq!(server.get(&format!("runs/{}/verify", id(&forked))).await.expect(200)["intact"], true);
    let bundle = export(&server, id(&forked)).await;
    assert_eq!(replay(&server, &bundle).await.expect(200)["identical"], true);

    let diff = server.get(&format!("runs/{}/diff/{}", id(&first), id(&forked))).await.expect(200);
    let fields: Vec<&str> =
        diff["differences"].as_array().unwrap().iter().map(|one| one["field"].as_str().unwrap()).collect();
    assert!(
        fields.contains(&"/outputs/response_text") || fields.iter().any(|field| field.contains("response")),
        "{diff}"
    );
    let second = server.run("a", "go").await;
    let same = server.get(&format!("runs/{}/diff/{}", id(&first), id(&second))).await.expect(200);
    assert_eq!(same["differences"], json!([]), "when things happened does not count");
}

async fn what_runs_have_in_common_is_put_back(server: Server) {
    let prompt = "Be kind to everyone. ".repeat(50);
    server.define_agent("a", json!([{ "reply": { "text": "Yes." } }]), json!({ "systemPrompt": prompt })).await;
    let (one, two) = (server.run("a", "one").await, server.run("a", "two").await);
    for run in [&one, &two] {
        let bundle = export(&server, id(run)).await;
        assert_eq!(bundle.matches("Be kind").count(), 50 + 50, "once as a part, once in what the model was asked");
        assert_eq!(replay(&server, &bundle).await.expect(200)["identical"], true);
    }
}

async fn a_deleted_run_leaves_a_tombstone(server: Server) {
    define_looker(&server).await;
    let (run, other) = (server.run("a", "go").await, server.run("a", "go").await);
    let path = format!("runs/{}", id(&run));
    let member = server.member("member").await;
    member.delete(&path).await.problem(404, "not-found");
    let own = member.run("a", "go").await;
    member.delete(&format!("runs/{}", id(&own))).await.problem(403, "forbidden");
    server.delete(&path).await.expect(204);
    let gone = server.get(&path).await.problem(410, "run-deleted");
    assert!(gone["detail"].as_str().unwrap().contains("COMPLETED"), "{gone}");
    for rest in ["verify", "export", "events"] {
        server.get(&format!("{path}/{rest}")).await.problem(410, "run-deleted");
    }
    member.get(&path).await.problem(404, "not-found");
    server.get(&format!("runs/{}", id(&other))).await.expect(200);

    server.define_echo("pay", json!({ "sideEffects": "writes", "requiresConfirmation": true })).await;
    let asks = calls_then(json!([{ "name": "pay", "arguments": {} }]), "Done.");
    server.define_agent("asks", asks, json!({ "toolRefs": ["pay"] })).await;
    let waiting = server.run("asks", "go").await;
    server.delete(&format!("runs/{}", id(&waiting))).await.problem(409, "run-under-way");
}

#[tokio::test]
async fn what_is_too_old_is_deleted_when_a_server_starts() {
    let home = Home::new(Edition::Sqlite).await;
    let (server, running) = home.start().await;
    define_looker(&server).await;
    let run = server.run("a", "go").await;
    running.stop().await;
    let keep = |age| move |options: &mut toolwright_engine::Options| options.retention.completed = Some(age);
    let (server, running) = home.start_with(keep(Duration::from_secs(3600))).await;
    server.get(&format!("runs/{}", id(&run))).await.expect(200);
    running.stop().await;
    let (server, running) = home.start_with(keep(Duration::ZERO)).await;
    server.until("runs", |runs| runs["items"] == json!([])).await;
    server.get(&format!("runs/{}", id(&run))).await.problem(410, "run-deleted");
    running.stop().await;
    home.remove().await;
}

async fn a_fork_may_begin_with_other_words(server: Server) {
    server.define_agent("a", json!([{ "reply": { "text": "You said {{user}}" } }]), json!({})).await;
    let first = server.run("a", "hello").await;
    let forked = fork(&server, id(&first), json!({ "at": 1, "message": "goodbye" })).await;
    assert_eq!(
        (&first["responseText"], &forked["responseText"]),
        (&json!("You said hello"), &json!("You said goodbye"))
    );
}

async fn a_fork_may_ask_another_model(server: Server) {
    server.define_agent("a", json!([{ "reply": { "text": "One." } }]), json!({})).await;
    let first = server.run("a", "hello").await;
    let forked = fork(&server, id(&first), json!({ "at": 1, "model": "scripted/echo", "prompt": "Repeat." })).await;
    assert_eq!(forked["status"], "COMPLETED", "{forked}");
    let wrong = server.post(&format!("runs/{}/fork", id(&first)), json!({ "at": 1, "model": "nobody/knows" })).await;
    wrong.problem(422, "cannot-fork");
}

async fn a_fork_may_use_another_version_of_a_tool(server: Server) {
    define_looker(&server).await;
    let first = server.run("a", "go").await;
    let new = json!({ "version": "2.0.0", "invocation": { "path": "echo", "bodyTemplate": { "at": "elsewhere" } } });
    let tool = json!({ "refName": "look", "toolType": "FUNCTION", "description": "Looks.", "outputJsonSchema": {} });
    server.put("tools/look", crate::harness::with(tool, new)).await.expect(200);
    let forked = fork(&server, id(&first), json!({ "at": 2, "tools": { "look": "=2.0.0" } })).await;
    assert_eq!(receipts(&forked)[0]["version"], "2.0.0", "{forked}");
}

/// The entries of a run, by what they say.
async fn entries(server: &Server, run: &str, kind: &str) -> Vec<u64> {
    let bundle = export(server, run).await;
    let lines = bundle.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let says = |line: &Value| line["text"].as_str().is_some_and(|text| text.contains(&format!("\"type\":\"{kind}\"")));
    lines.filter(says).map(|line| line["entry"].as_u64().unwrap()).collect()
}

async fn a_fork_lends_no_authority(server: Server) {
    server.define_echo("write", json!({ "sideEffects": "writes" })).await;
    let rules = calls_then(json!([{ "name": "write", "arguments": {} }]), "Done.");
    server.define_agent("a", rules, json!({ "toolRefs": ["write"] })).await;
    let member = server.member("member").await;
    let run = member.run("a", "go").await;
    assert_eq!(receipts(&run)[0]["error"], Value::Null, "{run}");
    let path = format!("runs/{}/fork", id(&run));
    for change in [json!({ "at": 1, "prompt": "Obey." }), json!({ "at": 1, "model": "scripted/echo" })] {
        member.post(&path, change).await.problem(403, "forbidden");
    }
    server.patch("agents/a", json!({ "policy": { "sideEffects": "reads" } })).await.expect(200);
    let forked = fork(&member, id(&run), json!({ "at": 1 })).await;
    assert_eq!(receipts(&forked)[0]["error"]["code"], "POLICY_DENIED", "{forked}");
    server.delete("agents/a").await.expect(204);
    member.post(&path, json!({ "at": 1 })).await.problem(404, "not-found");
}

async fn what_was_decided_or_begun_once_does_not_count_twice(server: Server) {
    server.define_echo("pay", json!({ "sideEffects": "writes", "requiresConfirmation": true })).await;
    let rules = calls_then(json!([{ "name": "pay", "arguments": {} }]), "Done.");
    server.define_agent("a", rules, json!({ "toolRefs": ["pay"] })).await;
    let waiting = server.run("a", "go").await;
    let run = server.decide(&waiting, 0, json!({ "decision": "approve" })).await.expect(200);
    let path = format!("runs/{}/fork", id(&run));
    for kind in ["approval", "prepared_again", "intended"] {
        for at in entries(&server, id(&run), kind).await {
            server.post(&path, json!({ "at": at })).await.problem(422, "cannot-fork");
        }
    }
    let asked = entries(&server, id(&run), "prepared").await[0];
    let new = server.post(&path, json!({ "at": asked })).await.expect(202);
    let again = server.get(&format!("runs/{}", id(&new))).await.expect(200);
    assert!(["RUNNING", "AWAITING_APPROVAL"].contains(&again["status"].as_str().unwrap()), "{again}");
    server.until(&format!("runs/{}", id(&new)), |run| run["status"] == "AWAITING_APPROVAL").await;
    let ended = entries(&server, id(&run), "call_ended").await[0];
    let forked = fork(&server, id(&run), json!({ "at": ended })).await;
    assert_eq!(receipts(&forked), receipts(&run), "what was done is told as it was");
}

async fn a_result_may_be_replaced_by_null_and_keeps_nothing_of_the_old_one(server: Server) {
    define_looker(&server).await;
    let first = server.run("a", "go").await;
    let at = end_of_call(&server, id(&first)).await;
    let forked = fork(&server, id(&first), json!({ "at": at, "result": null })).await;
    assert_eq!((&receipts(&forked)[0]["output"], &forked["responseText"]), (&Value::Null, &json!("Seen: null")));
    let path = format!("runs/{}/fork", id(&first));
    server.post(&path, json!({ "at": 1, "tools": { "look": "=9.0.0" } })).await.problem(422, "cannot-fork");
    server.post(&path, json!({ "at": 1, "message": " " })).await.problem(422, "cannot-fork");
}

async fn a_fork_that_cannot_be_is_refused(server: Server) {
    define_looker(&server).await;
    let first = server.run("a", "go").await;
    let path = format!("runs/{}/fork", id(&first));
    let entries = server.get(&format!("runs/{}/verify", id(&first))).await.expect(200)["entries"].as_u64().unwrap();
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
    assert_eq!(server.get("runs").await.expect(200)["items"].as_array().unwrap().len(), 1, "nothing was written");
}

async fn bundles_that_are_none_are_refused_with_their_places(server: Server) {
    define_looker(&server).await;
    let bundle = export(&server, id(&server.run("a", "go").await)).await;
    let half = bundle.get(..bundle.len() / 2).unwrap();
    for (text, place) in
        [("", "empty"), ("{}", "line 1"), (half, "line "), (&bundle.replacen(":1,", ":9,", 1), "form 9")]
    {
        let problem = replay(&server, text).await.problem(422, "invalid-bundle");
        assert!(problem["detail"].as_str().unwrap().contains(place), "{problem}");
    }
    let request = server.request(reqwest::Method::POST, "runs/replay").body(vec![0xff, 0xfe]);
    server.send(request).await.problem(422, "invalid-bundle");
}

async fn journals_are_for_those_who_may_read_the_run(server: Server) {
    define_looker(&server).await;
    let run = server.run("a", "go").await;
    let other = server.member("other").await;
    for path in ["verify", "export"] {
        other.get(&format!("runs/{}/{path}", id(&run))).await.problem(404, "not-found");
    }
    other.post(&format!("runs/{}/fork", id(&run)), json!({ "at": 1 })).await.problem(404, "not-found");
}

#[tokio::test]
async fn what_was_changed_in_the_database_is_found() {
    let home = Home::new(Edition::PostgresAndRedis).await;
    let (server, running) = home.start().await;
    server
        .post("agents", json!({ "refName": "a", "llmConfig": scripted(json!([{ "reply": { "text": "Yes." } }])) }))
        .await
        .expect(201);
    let mut database = PgConnection::connect(&home.database_url()).await.unwrap();
    let tampered = [
        ("UPDATE journal SET body = replace(body, 'Yes.', 'No.') WHERE n = 2", 2),
        ("UPDATE journal SET written_at = written_at + 1 WHERE n = 1", 1),
        ("DELETE FROM journal WHERE n = 2", 2),
    ];
    for (sql, broken_at) in tampered {
        let run = server.run("a", "go").await;
        let path = format!("runs/{}/verify", id(&run));
        assert_eq!(server.get(&path).await.expect(200)["intact"], true);
        database.execute(sqlx::AssertSqlSafe(format!("{sql} AND run_id = '{}'", id(&run)))).await.unwrap();
        let found = server.get(&path).await.expect(200);
        assert_eq!((&found["intact"], &found["brokenAt"]), (&json!(false), &json!(broken_at)), "{sql}: {found}");
    }
    running.stop().await;
    home.remove().await;
}

/// A release may decide otherwise than the one that began a run. Here an entry says what no release would understand.
#[tokio::test]
async fn a_run_that_waits_goes_on_whatever_is_thought_of_its_past() {
    let home = Home::new(Edition::PostgresAndRedis).await;
    let (server, running) = home.start().await;
    server.define_echo("pay", json!({ "sideEffects": "writes", "requiresConfirmation": true })).await;
    let call = json!([{ "name": "pay", "arguments": { "usd": 5 } }]);
    server.define_agent("a", calls_then(call, "Paid."), json!({ "toolRefs": ["pay"] })).await;
    let (kept, lost) = (server.run("a", "go").await, server.run("a", "go").await);
    let mut database = PgConnection::connect(&home.database_url()).await.unwrap();
    let strange = "UPDATE journal SET body = replace(body, '\"step\":1', '\"step\":7') WHERE kind = 'model_replied'";
    database.execute(strange).await.unwrap();
    let forget = format!("DELETE FROM checkpoints WHERE run_id = '{}'", id(&lost));
    database.execute(sqlx::AssertSqlSafe(forget)).await.unwrap();

    let paid = server.decide(&kept, 0, json!({ "decision": "approve" })).await.expect(200);
    assert_eq!((&paid["status"], &paid["responseText"]), (&json!("COMPLETED"), &json!("Paid.")), "{paid}");
    let left: (i64,) = sqlx::query_as("SELECT count(*) FROM checkpoints").fetch_one(&mut database).await.unwrap();
    assert_eq!(left.0, 0, "a run that has ended needs none");
    // Without its checkpoint it cannot be told what happened.
    server.decide(&lost, 0, json!({ "decision": "approve" })).await.problem(503, "unavailable");
    running.stop().await;
    home.remove().await;
}
