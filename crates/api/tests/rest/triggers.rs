//! Triggers: schedules, signed webhooks, tests, pauses, and firings that survive the failure of a server.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use reqwest::Method;
use serde_json::{Value, json};
use toolwright_types::{Clock, Timestamp};

use crate::harness::{Deployment, Response, Server, Storage, calls_then, merge};

crate::on_both_databases!(
    webhook_with_a_valid_signature_starts_one_run,
    webhook_that_is_forged_or_old_or_unknown_starts_no_run,
    trigger_that_is_not_valid_is_refused_with_every_issue,
    trigger_acts_as_its_principal_with_the_permissions_of_that_principal,
    trigger_can_be_tested_and_paused_and_resumed,
    trigger_starts_an_agent_or_a_tool,
    failure_of_a_trigger_is_listed_with_its_reason
);

const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

/// Defines a workflow that returns its input, and a trigger that starts it.
async fn create(server: &Server, name: &str, more: Value) -> Value {
    server.define_echo(&format!("write-{name}"), json!({ "sideEffects": "writes" })).await;
    let workflow = json!({ "refName": format!("run-{name}"), "output": "${input}",
        "steps": [{ "name": "say", "handlerRef": format!("write-{name}"), "input": "${input}" }] });
    server.post("workflows", workflow).await.expect(201);
    let trigger = json!({ "refName": name, "target": { "workflow": format!("run-{name}") }, "principalRef": "admin" });
    server.post("triggers", merge(trigger, more)).await.expect(201)
}

async fn create_webhook(server: &Server, name: &str, more: Value) -> String {
    let secret = json!({ "name": format!("{name}-secret"), "scope": "realm", "value": SECRET });
    server.post("secrets", secret).await.expect(201);
    let fields = json!({ "kind": "webhook", "secretRef": format!("{name}-secret"),
        "input": { "order": "${webhook.body.order}", "message": "${webhook.id}" } });
    create(server, name, merge(fields, more)).await;
    server.get(&format!("triggers/{name}/state")).await.expect(200)["hookPath"].as_str().unwrap().to_owned()
}

fn now_seconds() -> i64 {
    toolwright_types::SystemClock.now().as_micros() / 1_000_000
}

/// Sends a webhook that was signed at a time with a secret.
async fn send(server: &Server, path: &str, id: &str, at: i64, secret: &str, body: &Value) -> Response {
    let text = body.to_string();
    let signature = standardwebhooks::Webhook::new(secret).unwrap().sign(id, at, text.as_bytes()).unwrap();
    let anonymous = server.with_key("");
    let request = anonymous.request(Method::POST, path).header("content-type", "application/json");
    let request = request.header("webhook-id", id).header("webhook-timestamp", at.to_string());
    anonymous.send(request.header("webhook-signature", signature).body(text)).await
}

async fn ended_run(server: &Server, run: &Value) -> Value {
    let path = format!("workflow-instances/{}", run.as_str().unwrap_or_else(|| panic!("{run}")));
    server.poll_until(&path, |run| !run["endedAt"].is_null()).await
}

async fn webhook_with_a_valid_signature_starts_one_run(server: Server) {
    let path = create_webhook(&server, "orders", json!({})).await;
    let body = json!({ "order": { "id": "o-1" } });
    let answer = send(&server, &path, "msg_1", now_seconds(), SECRET, &body).await.expect(202);
    assert_eq!(answer["status"], "STARTED", "{answer}");
    let run = ended_run(&server, &answer["runId"]).await;
    assert_eq!(run["output"], json!({ "order": { "id": "o-1" }, "message": "msg_1" }), "{run}");
    // The sender repeats the webhook, because it has not received the answer.
    let again = send(&server, &path, "msg_1", now_seconds(), SECRET, &body).await.expect(202);
    assert_eq!((&again["runId"], &again["firingId"]), (&answer["runId"], &answer["firingId"]));
    let other = send(&server, &path, "msg_2", now_seconds(), SECRET, &body).await.expect(202);
    assert_ne!(other["runId"], answer["runId"]);
    let runs = server.get("workflow-instances").await.expect(200);
    assert_eq!(runs["items"].as_array().unwrap().len(), 2);
    let firings = server.get("triggers/orders/firings?limit=1").await.expect(200);
    assert_eq!((&firings["items"][0]["cause"], &firings["items"][0]["status"]), (&json!("msg_2"), &json!("STARTED")));
    let cursor = firings["nextCursor"].as_str().unwrap();
    let rest = server.get(&format!("triggers/orders/firings?cursor={cursor}")).await.expect(200);
    assert_eq!((&rest["items"][0]["cause"], &rest["nextCursor"]), (&json!("msg_1"), &Value::Null));
    // Many requests with the same id at the same time start one run.
    let sends = (0..8).map(|_| send(&server, &path, "msg_3", now_seconds(), SECRET, &body));
    let answers = futures::future::join_all(sends).await;
    let runs: std::collections::BTreeSet<String> =
        answers.into_iter().map(|answer| answer.expect(202)["runId"].to_string()).collect();
    assert_eq!(runs.len(), 1, "{runs:?}");
    let run: Value = serde_json::from_str(runs.first().unwrap()).unwrap();
    assert_eq!(ended_run(&server, &run).await["status"], "COMPLETED");
    let listed = server.get("workflow-instances").await.expect(200);
    assert_eq!(listed["items"].as_array().unwrap().len(), 3);
}

async fn webhook_that_is_forged_or_old_or_unknown_starts_no_run(server: Server) {
    let path = create_webhook(&server, "strict", json!({})).await;
    let (body, now) = (json!({ "order": 1 }), now_seconds());
    let forged = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD";
    send(&server, &path, "msg_1", now, forged, &body).await.problem(401, "webhook-not-authentic");
    send(&server, &path, "msg_1", now - 600, SECRET, &body).await.problem(401, "webhook-not-authentic");
    send(&server, &path, "msg_1", now + 600, SECRET, &body).await.problem(401, "webhook-not-authentic");
    let unsigned = server.request(Method::POST, &path).json(&body);
    server.send(unsigned).await.problem(401, "webhook-not-authentic");
    // The body was changed after it was signed.
    let text = body.to_string();
    let signature = standardwebhooks::Webhook::new(SECRET).unwrap().sign("msg_1", now, text.as_bytes()).unwrap();
    let request = server.request(Method::POST, &path).header("webhook-id", "msg_1");
    let request = request.header("webhook-timestamp", now.to_string()).header("webhook-signature", signature);
    server.send(request.json(&json!({ "order": 2 }))).await.problem(401, "webhook-not-authentic");
    for unknown in ["/hooks/trig_00000000000000000000000000", "/hooks/orders"] {
        send(&server, unknown, "msg_1", now, SECRET, &body).await.problem(404, "not-found");
    }
    create(&server, "timed", json!({ "kind": "schedule", "cron": "0 2 * * *" })).await;
    let id = server.get("triggers/timed").await.expect(200)["id"].as_str().unwrap().to_owned();
    send(&server, &format!("/hooks/{id}"), "msg_1", now, SECRET, &body).await.problem(404, "not-found");
    send(&server, &path, "msg_1", i64::MIN, SECRET, &body).await.problem(401, "webhook-not-authentic");
    let large = json!({ "order": "x".repeat(1 << 20) });
    send(&server, &path, "msg_1", now, SECRET, &large).await.problem(413, "payload-too-large");
    let binary = server.request(Method::POST, &path).header("webhook-timestamp", now.to_string());
    server.send(binary.body(vec![0xff, 0xfe])).await.problem(400, "invalid-request");
    // A secret that can be guessed is not used.
    let weak = json!({ "name": "strict-secret", "scope": "realm", "value": "whsec_c2hvcnQ=" });
    server.post("secrets", weak).await;
    send(&server, &path, "msg_1", now, "whsec_c2hvcnQ=", &body).await.problem(503, "unavailable");
    let firings = server.get("triggers/strict/firings").await.expect(200);
    assert_eq!(firings["items"], json!([]));
    assert_eq!(server.get("workflow-instances").await.expect(200)["items"], json!([]));
}

async fn trigger_that_is_not_valid_is_refused_with_every_issue(server: Server) {
    let refused = async |fields: Value, paths: &[&str]| {
        let trigger = json!({ "refName": "bad", "target": { "tool": "echo" }, "principalRef": "admin" });
        let problem = server.post("triggers", merge(trigger, fields)).await.problem(422, "invalid-definition");
        let found: Vec<&str> =
            problem["errors"].as_array().unwrap().iter().map(|error| error["path"].as_str().unwrap()).collect();
        assert_eq!(found, paths, "{problem}");
    };
    let zone = json!({ "kind": "schedule", "cron": "99 * * * *", "timeZone": "Mars/Olympus" });
    refused(zone, &["/timeZone"]).await;
    refused(json!({ "kind": "schedule", "cron": "99 * * * *" }), &["/cron"]).await;
    refused(json!({ "kind": "schedule", "cron": "0 0 30 2 *" }), &["/cron"]).await;
    refused(json!({ "kind": "schedule", "cron": "* * * * * *" }), &["/cron"]).await;
    refused(json!({ "kind": "schedule", "secretRef": "s" }), &["/secretRef", "/cron"]).await;
    refused(json!({ "kind": "webhook", "cron": "0 2 * * *" }), &["/cron", "/secretRef"]).await;
    refused(json!({ "kind": "webhook", "secretRef": "s", "missedRuns": "all" }), &["/missedRuns"]).await;
    refused(json!({ "kind": "schedule", "cron": "@daily", "input": "${webhook.body}" }), &["/input"]).await;
    let schedule = json!({ "kind": "schedule", "cron": "0 2 * * *" });
    refused(merge(schedule.clone(), json!({ "input": "${trigger.name +}" })), &["/input"]).await;
    refused(merge(schedule.clone(), json!({ "target": { "agent": "helper" } })), &["/input"]).await;
    refused(merge(schedule, json!({ "target": { "tool": "a@b@c" } })), &["/target/tool"]).await;
    let missing = server.post("triggers", json!({ "refName": "bad", "kind": "cron" })).await;
    missing.problem(422, "invalid-definition");
}

async fn trigger_acts_as_its_principal_with_the_permissions_of_that_principal(server: Server) {
    let member = server.member("worker").await;
    let trigger = json!({ "refName": "own", "kind": "schedule", "cron": "0 2 * * *", "target": { "tool": "echo" },
        "principalRef": "admin" });
    // A member could otherwise act as the administrator.
    member.post("triggers", trigger).await.problem(403, "forbidden");
    create(&server, "as-worker", json!({ "kind": "schedule", "cron": "0 2 * * *", "principalRef": "worker" })).await;
    let firing = server.post("triggers/as-worker/fire", json!({})).await.expect(202);
    let path = format!("runs/{}", firing["runId"].as_str().unwrap());
    let run = server.poll_until(&path, |run| !run["endedAt"].is_null()).await;
    assert_eq!((&run["owner"], &run["principal"]), (&json!("worker"), &json!("worker")), "{run}");
    // The member owns the run, and cannot fire the trigger.
    ended_run(&member, &firing["runId"]).await;
    member.post("triggers/as-worker/fire", json!({})).await.problem(403, "forbidden");
    member.post("triggers/as-worker/pause", json!({})).await.problem(403, "forbidden");
}

async fn trigger_can_be_tested_and_paused_and_resumed(server: Server) {
    let path = create_webhook(&server, "shop", json!({})).await;
    let firing = server.post("triggers/shop/fire", json!({ "order": 9 })).await.expect(202);
    assert_eq!(ended_run(&server, &firing["runId"]).await["output"]["order"], 9);
    let paused = server.post("triggers/shop/pause", json!({})).await.expect(200);
    assert_eq!(paused["enabled"], false);
    let body = json!({ "order": 1 });
    send(&server, &path, "msg_1", now_seconds(), SECRET, &body).await.problem(409, "trigger-paused");
    server.post("triggers/shop/fire", json!({ "order": 9 })).await.expect(202);
    server.post("triggers/shop/resume", json!({})).await.expect(200);
    send(&server, &path, "msg_1", now_seconds(), SECRET, &body).await.expect(202);
    let revisions = server.get("triggers/shop/revisions").await.expect(200);
    assert_eq!(revisions["items"].as_array().unwrap().len(), 3, "a pause is a change of the definition");
    create(&server, "daily", json!({ "kind": "schedule", "cron": "0 2 * * *", "timeZone": "Europe/Berlin" })).await;
    let path = "triggers/daily/state";
    let state = server.poll_until(path, |state| state["nextRuns"][0].is_string()).await;
    assert_eq!((state["nextRuns"].as_array().unwrap().len(), &state["hookPath"]), (5, &Value::Null), "{state}");
    server.post("triggers/daily/pause", json!({})).await.expect(200);
    assert_eq!(server.get("triggers/daily/state").await.expect(200)["nextRuns"], json!([]));
}

async fn trigger_starts_an_agent_or_a_tool(server: Server) {
    let calls = json!([{ "name": "echo", "arguments": { "text": "{{user}}" } }]);
    server.define_agent("helper", calls_then(calls, "done"), json!({ "toolRefs": ["echo"] })).await;
    let agent = json!({ "refName": "ask", "kind": "schedule", "cron": "0 2 * * *", "target": { "agent": "helper" },
        "principalRef": "admin", "input": { "message": "report of ${trigger.name}" } });
    server.post("triggers", agent).await.expect(201);
    let firing = server.post("triggers/ask/fire", json!({})).await.expect(202);
    let path = format!("runs/{}", firing["runId"].as_str().unwrap());
    let run = server.poll_until(&path, |run| !run["endedAt"].is_null()).await;
    assert_eq!((&run["status"], &run["durable"]), (&json!("COMPLETED"), &json!(true)), "{run}");
    assert_eq!(run["toolCalls"][0]["input"]["text"], "report of ask", "{run}");
    let tool = json!({ "refName": "call", "kind": "schedule", "cron": "0 2 * * *", "target": { "tool": "echo" },
        "principalRef": "admin", "input": { "text": "${trigger.firedAt}" } });
    server.post("triggers", tool).await.expect(201);
    let firing = server.post("triggers/call/fire", json!({})).await.expect(202);
    let id = firing["runId"].as_str().unwrap().to_owned();
    let runs = server.poll_until("runs?kind=tool", |runs| runs["items"][0]["id"] == id.as_str()).await;
    assert_eq!(runs["items"][0]["status"], "COMPLETED", "{runs}");
}

async fn failure_of_a_trigger_is_listed_with_its_reason(server: Server) {
    let missing = json!({ "refName": "lost", "kind": "schedule", "cron": "0 2 * * *", "principalRef": "admin",
        "target": { "workflow": "none" } });
    let saved = server.post("triggers", missing).await.expect(201);
    assert_eq!(saved["warnings"], json!(["no workflow `none` exists yet"]));
    server.post("triggers/lost/fire", json!({})).await.problem(404, "not-found");
    // A webhook whose run could not be started is sent again after the workflow was created.
    let secret = json!({ "name": "late-secret", "scope": "realm", "value": SECRET });
    server.post("secrets", secret).await.expect(201);
    let late = json!({ "refName": "late", "kind": "webhook", "secretRef": "late-secret", "principalRef": "admin",
        "target": { "workflow": "made-later" } });
    server.post("triggers", late).await.expect(201);
    let path = server.get("triggers/late/state").await.expect(200)["hookPath"].as_str().unwrap().to_owned();
    send(&server, &path, "msg_1", now_seconds(), SECRET, &json!({})).await.problem(404, "not-found");
    let steps = json!([{ "name": "say", "handlerRef": "echo" }]);
    server.post("workflows", json!({ "refName": "made-later", "steps": steps })).await.expect(201);
    send(&server, &path, "msg_1", now_seconds(), SECRET, &json!({})).await.expect(202);
    assert_eq!(server.get("triggers/late/firings").await.expect(200)["items"][0]["attempts"], 2);
    let firings = server.get("triggers/lost/firings?status=FAILED").await.expect(200);
    let firing = &firings["items"][0];
    assert!(firing["error"].as_str().unwrap().contains("there is no workflow `none`"), "{firings}");
    assert_eq!(firing["runId"], Value::Null);
    server.get("triggers/lost/firings?status=GONE").await.problem(400, "invalid-request");
    let ghost = json!({ "refName": "ghost", "kind": "schedule", "cron": "0 2 * * *", "principalRef": "nobody",
        "target": { "tool": "echo" } });
    let saved = server.post("triggers", ghost).await.expect(201);
    assert_eq!(saved["warnings"], json!(["no principal `nobody` exists yet"]));
    server.post("triggers/ghost/fire", json!({})).await.problem(422, "invalid-definition");
    let path = create_webhook(&server, "typed", json!({ "input": "${webhook.body.missing.field}" })).await;
    let answer = send(&server, &path, "msg_1", now_seconds(), SECRET, &json!({})).await;
    assert_eq!(answer.status, 202, "an absent value is null: {}", answer.text);
}

/// A clock that runs at the normal speed and is ahead of the system clock by some time.
struct ShiftedClock(AtomicI64);

impl ShiftedClock {
    fn advance(&self, time: Duration) {
        self.0.fetch_add(i64::try_from(time.as_micros()).unwrap(), Ordering::SeqCst);
    }
}

impl Clock for ShiftedClock {
    fn now(&self) -> Timestamp {
        let now = toolwright_types::SystemClock.now().as_micros();
        Timestamp::from_micros(now + self.0.load(Ordering::SeqCst))
    }
}

const HOUR: Duration = Duration::from_secs(3600);

/// Waits until a trigger has at least `count` firings and the run of each has started.
async fn firings(server: &Server, trigger: &str, count: usize) -> Vec<Value> {
    let path = format!("triggers/{trigger}/firings");
    let complete = |items: &[Value]| items.len() >= count && items.iter().all(|firing| firing["status"] != "PENDING");
    let page = server.poll_until(&path, |page| complete(page["items"].as_array().unwrap())).await;
    page["items"].as_array().unwrap().clone()
}

async fn times_fire_once_on_two_servers_and_missed_times_follow_their_rule(storage: Storage) {
    let deployment = Deployment::new(storage).await;
    let clock = Arc::new(ShiftedClock(AtomicI64::new(0)));
    let (server, first) = deployment.start_with(|options| options.clock = clock.clone()).await;
    // Only Postgres can be shared by two servers.
    let second = match storage {
        Storage::Sqlite => None,
        Storage::PostgresAndRedis => Some(deployment.start_with(|options| options.clock = clock.clone()).await.1),
    };
    let hourly = |missed: &str| json!({ "kind": "schedule", "cron": "0 * * * *", "missedRuns": missed });
    for missed in ["once", "all", "skip"] {
        create(&server, missed, hourly(missed)).await;
        // The schedule must be computed before the clock advances.
        server.poll_until(&format!("triggers/{missed}/state"), |state| state["nextRuns"][0].is_string()).await;
    }
    create(&server, "paused", merge(hourly("all"), json!({ "enabled": false }))).await;
    let next = server.get("triggers/all/state").await.expect(200)["nextRuns"][0].clone();
    clock.advance(HOUR);
    let fired = firings(&server, "all", 1).await;
    assert_eq!(fired.len(), 1, "{fired:?}");
    assert_eq!(fired[0]["status"], "STARTED");
    let scheduled: Timestamp = fired[0]["cause"].as_str().unwrap().parse().unwrap();
    assert_eq!(scheduled, next.as_str().unwrap().parse().unwrap());
    ended_run(&server, &fired[0]["runId"]).await;
    first.stop().await;
    if let Some(second) = second {
        second.stop().await;
    }
    clock.advance(3 * HOUR);
    let (server, running) = deployment.start_with(|options| options.clock = clock.clone()).await;
    let started = |firings: &[Value]| firings.iter().filter(|firing| firing["status"] == "STARTED").count();
    let all = firings(&server, "all", 4).await;
    assert_eq!((all.len(), started(&all)), (4, 4), "{all:?}");
    let once = firings(&server, "once", 3).await;
    let skipped: Vec<&Value> = once.iter().filter(|firing| firing["status"] == "SKIPPED").collect();
    assert_eq!((started(&once), skipped.len()), (2, 1), "{once:?}");
    assert!(skipped[0]["error"].as_str().unwrap().contains("at 2 scheduled times"), "{skipped:?}");
    assert_eq!(server.get("triggers/paused/firings").await.expect(200)["items"], json!([]));
    // Every firing has started its own run.
    let runs = server.get("workflow-instances?limit=100").await.expect(200);
    let skip = firings(&server, "skip", 2).await;
    let expected = 1 + 3 + 2 + started(&skip);
    assert_eq!(runs["items"].as_array().unwrap().len(), expected, "{runs}");
    running.stop().await;
    deployment.remove().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn schedule_fires_once_per_time_sqlite() {
    times_fire_once_on_two_servers_and_missed_times_follow_their_rule(Storage::Sqlite).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn schedule_fires_once_per_time_on_two_servers_postgres() {
    times_fire_once_on_two_servers_and_missed_times_follow_their_rule(Storage::PostgresAndRedis).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn run_does_not_start_while_the_last_one_has_not_ended_if_the_trigger_says_so() {
    let deployment = Deployment::new(Storage::Sqlite).await;
    let (server, running) = deployment.start().await;
    let workflow = json!({ "refName": "slow", "steps": [
        { "name": "wait", "handlerRef": "quantum.flow.waitForSignal", "input": { "signal": "go" } }] });
    server.post("workflows", workflow).await.expect(201);
    let trigger = json!({ "refName": "alone", "kind": "schedule", "cron": "0 2 * * *", "overlap": "skip",
        "target": { "workflow": "slow" }, "principalRef": "admin" });
    server.post("triggers", trigger).await.expect(201);
    let first = server.post("triggers/alone/fire", json!({})).await.expect(202);
    let second = server.post("triggers/alone/fire", json!({})).await.expect(202);
    assert_eq!((&second["status"], &second["runId"]), (&json!("SKIPPED"), &Value::Null), "{second}");
    let run = first["runId"].as_str().unwrap();
    server.post(&format!("workflow-instances/{run}/signals/go"), json!({})).await.expect(200);
    let third = server.post("triggers/alone/fire", json!({})).await.expect(202);
    assert_eq!(third["status"], "STARTED");
    running.stop().await;
    deployment.remove().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn firing_whose_server_failed_is_repeated_and_starts_one_run() {
    let deployment = Deployment::new(Storage::Sqlite).await;
    let clock = Arc::new(ShiftedClock(AtomicI64::new(0)));
    let (server, first) = deployment.start_with(|options| options.clock = clock.clone()).await;
    for name in ["started", "stored"] {
        create(&server, name, json!({ "kind": "schedule", "cron": "0 * * * *" })).await;
        server.poll_until(&format!("triggers/{name}/state"), |state| state["nextRuns"][0].is_string()).await;
    }
    clock.advance(HOUR);
    let run = firings(&server, "started", 1).await[0]["runId"].clone();
    ended_run(&server, &run).await;
    let lost = firings(&server, "stored", 1).await[0]["runId"].as_str().unwrap().to_owned();
    ended_run(&server, &json!(lost)).await;
    first.stop().await;
    // The first server failed before it stored that one run had started, and before it started the other run.
    let missing = "run_00000000000000000000000007";
    deployment.change_sqlite("UPDATE trigger_firings SET status = 'PENDING', retry_at = 1").await;
    let other = format!("UPDATE trigger_firings SET run_id = '{missing}' WHERE run_id = '{lost}'");
    deployment.change_sqlite(&other).await;
    let (server, second) = deployment.start_with(|options| options.clock = clock.clone()).await;
    let repeated = firings(&server, "started", 1).await;
    assert_eq!((&repeated[0]["status"], &repeated[0]["runId"]), (&json!("STARTED"), &run));
    assert_eq!(repeated[0]["attempts"], 2);
    assert_eq!(firings(&server, "stored", 1).await[0]["runId"], missing);
    ended_run(&server, &json!(missing)).await;
    let runs = server.get("workflow-instances").await.expect(200);
    assert_eq!(runs["items"].as_array().unwrap().len(), 3, "{runs}");
    second.stop().await;
    deployment.remove().await;
}
