//! Tests durable runs that a real Restate server schedules. They must behave like runs without Restate, even if the
//! Toolwright server or Restate is killed.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking, also in its helpers"
)]

mod support;

use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use axum::Router;
use axum::routing::any;
use reqwest::Method;
use serde_json::{Value, json};
use sqlx::{AssertSqlSafe, Connection as _, Executor as _, PgConnection};
use support::restate::{IDENTITY_KEY, Restate, free_ports};
use support::runs::{
    SlowRun, api, define, only_envelope, scripted_model, slow_tool, start_run, wait_for_end, wait_until,
};
use support::{ADMIN_KEY, BINARY, Server};
use tokio::sync::Barrier;
use tokio::task::JoinSet;
use toolwright_testkit::{Faults, LOOPBACK};

/// Starts Restate, and a Toolwright server that uses it to schedule durable runs.
async fn server_with_restate(extra_env: &[(&'static str, &str)]) -> (Restate, Server) {
    let restate = Restate::start().await;
    let mut env = restate.server_env(free_ports::<1>()[0]);
    env.extend(extra_env.iter().map(|(name, value)| (*name, (*value).to_owned())));
    let server = Server::start_with_env(env);
    (restate, server)
}

/// An HTTP service for tools to call. It stops when the value is dropped.
struct HttpService {
    url: String,
    _task: JoinSet<()>,
}

impl HttpService {
    async fn start(router: Router) -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let serve = async move { axum::serve(listener, router).await.unwrap() };
        Self { url, _task: JoinSet::from_iter([serve]) }
    }

    fn tool(&self, name: &str, method: &str) -> Value {
        json!({
            "refName": name, "toolType": "EXTERNAL_REST", "timeoutMs": 20000, "outputJsonSchema": {},
            "invocation": { "method": method, "path": self.url }
        })
    }
}

async fn post(server: &Server, path: &str, body: Value) -> (u16, Value) {
    api(server, Method::POST, path, Some(body)).await
}

/// Polls the run at `path` until its status is `status`. Returns the run.
async fn wait_for_status(server: &Server, path: &str, status: &str) -> Value {
    wait_until(status, async || {
        let (_, run) = api(server, Method::GET, path, None).await;
        (run["status"] == status).then_some(run)
    })
    .await
}

#[tokio::test]
async fn calls_of_one_model_reply_run_concurrently() {
    const CALLS: usize = 3;
    let (_restate, server) = server_with_restate(&[]).await;
    // The service answers no request until all `CALLS` requests have arrived.
    let barrier = Arc::new(Barrier::new(CALLS));
    let service = HttpService::start(Router::new().fallback(any(async move || {
        barrier.wait().await;
        axum::Json(json!({ "met": true }))
    })))
    .await;
    define(&server, "tools", service.tool("meet", "POST")).await;
    let calls: Vec<Value> = (0..CALLS).map(|n| json!({ "name": "meet", "arguments": { "n": n } })).collect();
    let agent = json!({ "refName": "a", "toolRefs": ["meet"], "llmConfig": scripted_model(&json!(calls)) });
    define(&server, "agents", agent).await;
    let run = wait_for_end(&server, &start_run(&server, "a").await).await;
    assert_eq!((&run["status"], &run["responseText"]), (&json!("COMPLETED"), &json!("Done.")), "{run}");
    let outputs = run["outputs"]["tools_by_id"].as_object().unwrap();
    assert_eq!(outputs.len(), CALLS);
    assert!(outputs.values().all(|envelope| envelope["output"]["met"] == true), "{run}");
}

#[tokio::test]
async fn one_restate_invocation_executes_all_tasks_of_a_run_that_does_not_wait() {
    let (restate, server) = server_with_restate(&[]).await;
    let calls: Vec<Value> = (0..3).map(|n| json!({ "name": "echo", "arguments": { "n": n } })).collect();
    let agent = json!({ "refName": "a", "toolRefs": ["echo"], "llmConfig": scripted_model(&json!(calls)) });
    define(&server, "agents", agent).await;
    let run = wait_for_end(&server, &start_run(&server, "a").await).await;
    assert_eq!(run["status"], "COMPLETED", "{run}");
    let sql = "SELECT count(*) AS n FROM sys_invocation WHERE target_service_name = 'ToolwrightTask'";
    assert_eq!(restate.query(sql).await, json!({ "rows": [{ "n": 1 }] }));
    let sql = "SELECT name FROM sys_journal WHERE name <> '' ORDER BY index";
    let names = restate.query(sql).await;
    let names: Vec<&str> = names["rows"].as_array().unwrap().iter().map(|row| row["name"].as_str().unwrap()).collect();
    assert_eq!((names.len(), names[0], names[2]), (3, "model 1", "model 2"), "{names:?}");
    assert!(names[1].starts_with("call echo ") && names[1].ends_with(" and 2 more"), "{names:?}");
}

#[tokio::test]
async fn fork_scheduled_by_restate_completes_with_the_same_calls() {
    let (_restate, server) = server_with_restate(&[]).await;
    let llm = scripted_model(&json!([{ "name": "echo", "arguments": { "n": 1 } }]));
    define(&server, "agents", json!({ "refName": "a", "toolRefs": ["echo"], "llmConfig": llm })).await;
    let path = start_run(&server, "a").await;
    let whole = wait_for_end(&server, &path).await;
    // The fork copies the journal up to entry 2, which is the first model reply.
    let (status, accepted) = post(&server, &format!("{path}/fork"), json!({ "at": 2, "durable": true })).await;
    assert_eq!(status, 202, "{accepted}");
    let fork = wait_for_end(&server, &format!("runs/{}", accepted["runId"].as_str().unwrap())).await;
    assert_eq!(
        (&fork["status"], &fork["outputs"]["tool_order"]),
        (&json!("COMPLETED"), &whole["outputs"]["tool_order"])
    );
}

#[tokio::test]
async fn read_is_repeated_after_server_kill() {
    let (_restate, server) = server_with_restate(&[]).await;
    let mut slow_run = SlowRun::start(server, &json!({})).await;
    slow_run.server.kill_and_restart();
    let (run, hits) = slow_run.finish().await;
    assert_eq!((&run["status"], &run["responseText"]), (&json!("COMPLETED"), &json!("Done.")), "{run}");
    assert_eq!((hits, &only_envelope(&run)["error"]), (2, &Value::Null));
}

#[tokio::test]
async fn interrupted_write_is_repeated_only_if_idempotent() {
    let post = json!({ "method": "POST" });
    let cases = [
        (json!({ "idempotent": true }), 2, Value::Null, Value::Null),
        (json!({}), 1, json!("outcome_unknown"), Value::Null),
        (json!({ "verifyToolRef": "verify/done" }), 1, Value::Null, json!({ "found": true })),
        (json!({ "verifyToolRef": "verify/unknown" }), 1, json!("outcome_unknown"), Value::Null),
    ];
    for (mut tool, times, reason, output) in cases {
        tool["invocation"] = post.clone();
        let (_restate, server) = server_with_restate(&[]).await;
        let mut slow_run = SlowRun::start(server, &tool).await;
        slow_run.server.kill_and_restart();
        let (run, hits) = slow_run.finish().await;
        assert_eq!((&run["status"], hits), (&json!("COMPLETED"), times), "{tool}: {run}");
        assert_eq!(only_envelope(&run)["error"]["details"]["reason"], reason, "{tool}: {run}");
        if times == 1 {
            assert_eq!(only_envelope(&run)["output"], output, "{tool}");
        }
    }
}

#[tokio::test]
async fn write_completes_once_when_restate_is_killed() {
    let (mut restate, server) = server_with_restate(&[]).await;
    let slow_run = SlowRun::start(server, &json!({ "invocation": { "method": "POST" } })).await;
    restate.kill();
    restate.restart().await;
    let (run, hits) = slow_run.finish().await;
    // The Toolwright server was not killed, so it recorded the outcome of the write.
    assert_eq!((&run["status"], hits, &only_envelope(&run)["error"]), (&json!("COMPLETED"), 1, &Value::Null), "{run}");
}

/// A workflow with steps that call slow tools, a sleep, an approval and a signal, one after the other.
async fn define_delivery(server: &Server) {
    let steps = json!([
        { "name": "load", "handlerRef": "slow" },
        { "name": "nap", "handlerRef": "quantum.flow.sleep", "input": { "duration": "1s" }, "dependsOn": ["load"] },
        { "name": "ask", "handlerRef": "quantum.flow.approval", "input": { "message": "Pack?" }, "dependsOn": ["nap"] },
        { "name": "pack", "handlerRef": "slow", "dependsOn": ["ask"] },
        { "name": "paid", "handlerRef": "quantum.flow.waitForSignal", "input": { "signal": "payment" }, "dependsOn": ["pack"] },
        { "name": "each", "handlerRef": "echo", "forEach": [1, 2, 3], "input": { "n": "${item}", "usd": "${paid.usd}" }, "dependsOn": ["paid"] },
    ]);
    define(
        server,
        "workflows",
        json!({ "refName": "deliver", "steps": steps, "output": { "paid": "${paid}", "each": "${each}" } }),
    )
    .await;
}

#[tokio::test]
async fn workflow_completes_although_the_server_is_killed_between_its_steps() {
    let (restate, mut server) = server_with_restate(&[]).await;
    let faults = Faults::builder().start(LOOPBACK).await.unwrap();
    define(&server, "tools", slow_tool(&faults, &json!({}))).await;
    define_delivery(&server).await;
    let (status, started) = post(&server, "workflows/deliver/execute/durable", json!({})).await;
    assert_eq!(status, 202, "{started}");
    let run = started["runId"].as_str().unwrap();
    let path = format!("workflow-instances/{run}");

    wait_until("the first call", async || (faults.hits("/slow") == 1).then_some(())).await;
    server.kill_and_restart();
    let step = async |server: &Server, name: &str, status: &str| {
        wait_until(&format!("{name} {status}"), async || {
            let (_, instance) = api(server, Method::GET, &path, None).await;
            (instance["steps"][name]["status"] == status).then_some(instance)
        })
        .await
    };
    step(&server, "nap", "WAITING").await;
    server.kill_and_restart();
    let waiting = wait_for_status(&server, &path, "AWAITING_APPROVAL").await;
    server.kill_and_restart();
    let call = waiting["approvals"][0]["callId"].as_str().unwrap();
    let approval = format!("runs/{run}/approvals/{call}?wait=false");
    let (status, response) = post(&server, &approval, json!({ "decision": "approve" })).await;
    assert_eq!(status, 202, "{response}");
    step(&server, "pack", "RUNNING").await;
    server.kill_and_restart();
    step(&server, "paid", "WAITING").await;
    server.kill_and_restart();
    let (status, response) = post(&server, &format!("{path}/signals/payment?wait=false"), json!({ "usd": 5 })).await;
    assert_eq!(status, 202, "{response}");
    let done = wait_for_status(&server, &path, "COMPLETED").await;
    let each: Vec<Value> = (1..=3).map(|n| json!({ "n": n, "usd": 5 })).collect();
    assert_eq!(done["output"], json!({ "paid": { "usd": 5 }, "each": each }), "{done}");
    let sql = "SELECT count(*) AS n FROM sys_invocation WHERE target_service_name = 'ToolwrightTask'";
    assert_ne!(restate.query(sql).await, json!({ "rows": [{ "n": 0 }] }), "Restate schedules the calls");
    faults.shutdown().await;
}

#[tokio::test]
async fn child_workflow_of_a_step_that_times_out_is_cancelled() {
    let (_restate, server) = server_with_restate(&[]).await;
    let wait = |signal: &str| json!({ "name": "wait", "handlerRef": "quantum.flow.waitForSignal", "input": { "signal": signal } });
    define(&server, "workflows", json!({ "refName": "waits", "steps": [wait("never")] })).await;
    let mut hold = wait("go");
    hold["dependsOn"] = json!(["sub"]);
    let sub = json!({
        "name": "sub", "handlerRef": "quantum.workflows.execute", "input": { "workflowRef": "waits" }, "timeout": "500ms", "onError": "continue",
    });
    define(&server, "workflows", json!({ "refName": "parent", "steps": [sub, hold] })).await;
    let (_, started) = post(&server, "workflows/parent/execute/durable", json!({})).await;
    let tree = format!("runs/{}/tree", started["runId"].as_str().unwrap());
    // The parent waits for its signal, so that the child is not cancelled by the end of the parent.
    wait_until("the cancelled child", async || {
        let (_, tree) = api(&server, Method::GET, &tree, None).await;
        (tree["root"]["children"][0]["status"] == "CANCELLED").then_some(())
    })
    .await;
    let (_, parent) = api(&server, Method::GET, &format!("runs/{}", started["runId"].as_str().unwrap()), None).await;
    assert_eq!(parent["status"], "WAITING", "{parent}");
}

#[tokio::test]
async fn run_continues_on_a_new_restate_instance() {
    let (restate, server) = server_with_restate(&[]).await;
    let mut slow_run = SlowRun::start(server, &json!({})).await;
    slow_run.server.kill();
    drop(restate);
    let other = Restate::start().await;
    slow_run.server.restart_with_env(other.server_env(free_ports::<1>()[0]));
    let (run, _) = slow_run.finish().await;
    assert_eq!((&run["status"], &only_envelope(&run)["error"]), (&json!("COMPLETED"), &Value::Null), "{run}");
}

#[tokio::test]
async fn cancelling_a_run_aborts_its_calls_and_delegates() {
    let (_restate, server) = server_with_restate(&[]).await;
    let (started, aborted) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let service = {
        let (started, aborted) = (Arc::clone(&started), Arc::clone(&aborted));
        HttpService::start(Router::new().fallback(any(async move || {
            struct CountOnDrop(Arc<AtomicUsize>);
            impl Drop for CountOnDrop {
                fn drop(&mut self) {
                    self.0.fetch_add(1, Ordering::SeqCst);
                }
            }
            let _guard = CountOnDrop(aborted);
            started.fetch_add(1, Ordering::SeqCst);
            std::future::pending::<&str>().await
        })))
        .await
    };
    define(&server, "tools", service.tool("never", "POST")).await;
    let worker = json!({ "refName": "worker", "toolRefs": ["never"], "llmConfig": scripted_model(&json!([{ "name": "never" }])) });
    define(&server, "agents", worker).await;
    let calls = json!([{ "name": "worker", "arguments": { "task": "go" } }, { "name": "never" }]);
    let chief = json!({ "refName": "chief", "toolRefs": ["never"], "delegateAgentRefs": ["worker"], "llmConfig": scripted_model(&calls) });
    define(&server, "agents", chief).await;
    let path = start_run(&server, "chief").await;
    wait_until("both calls", async || (started.load(Ordering::SeqCst) == 2).then_some(())).await;
    let (status, response) = post(&server, &format!("{path}/cancel"), json!({})).await;
    assert!(status < 300, "{status} {response}");
    let run = wait_for_end(&server, &path).await;
    assert_eq!(run["status"], "CANCELLED", "{run}");
    wait_until("the abort of both calls", async || (aborted.load(Ordering::SeqCst) == 2).then_some(())).await;
    let (_, page) = api(&server, Method::GET, "runs?status=CANCELLED", None).await;
    assert_eq!(page["items"].as_array().unwrap().len(), 2, "the run of the delegate is cancelled too: {page}");
    let (status, response) = post(&server, &format!("{path}/cancel"), json!({})).await;
    assert_eq!((status, &response["code"]), (409, &json!("run-ended")), "{response}");
}

#[tokio::test]
async fn undecided_approval_expires_after_its_timeout() {
    let (_restate, server) = server_with_restate(&[("TOOLWRIGHT_AGENT__APPROVAL_TIMEOUT_SECONDS", "1")]).await;
    let agent = json!({ "refName": "a", "toolRefs": ["hubspot/send-email"], "requiresApproval": true, "llmConfig": email_model() });
    define(&server, "agents", agent).await;
    let path = start_run(&server, "a").await;
    let run = wait_for_status(&server, &path, "COMPLETED").await;
    assert_eq!(only_envelope(&run)["error"]["details"]["reason"], "approval_expired", "{run}");
}

fn email_model() -> Value {
    let arguments = json!({ "dealId": "103", "to": "buyer@acme.example", "subject": "hello" });
    scripted_model(&json!([{ "name": "hubspot/send-email", "arguments": arguments }]))
}

#[tokio::test]
async fn run_waits_while_its_delegate_waits_for_approval() {
    let (_restate, server) = server_with_restate(&[]).await;
    let careful = json!({ "refName": "careful", "toolRefs": ["hubspot/send-email"], "requiresApproval": true, "llmConfig": email_model() });
    define(&server, "agents", careful).await;
    let calls = json!([{ "name": "careful", "arguments": { "task": "go" } }]);
    let chief = json!({ "refName": "chief", "delegateAgentRefs": ["careful"], "llmConfig": scripted_model(&calls) });
    define(&server, "agents", chief).await;
    let path = start_run(&server, "chief").await;
    let waiting = wait_for_status(&server, &path, "AWAITING_APPROVAL").await;
    assert_ne!(waiting["approvals"][0]["runId"], waiting["runId"], "the approval belongs to the delegate's run");
    let (_, approvals) = api(&server, Method::GET, "approvals", None).await;
    let (run, call) = (&approvals["items"][0]["runId"], &approvals["items"][0]["callId"]);
    let approval = format!("runs/{}/approvals/{}", run.as_str().unwrap(), call.as_str().unwrap());
    let (status, response) = post(&server, &approval, json!({ "decision": "approve" })).await;
    assert_eq!((status, &response["status"]), (200, &json!("COMPLETED")), "{response}");
    let run = wait_for_status(&server, &path, "COMPLETED").await;
    assert_eq!(only_envelope(&run)["error"], Value::Null, "{run}");
}

/// A Postgres database for one test.
struct Database(String);

impl Database {
    async fn create() -> Self {
        let name = format!("restate_{}", std::process::id());
        let database = Self(name);
        database.execute("CREATE DATABASE").await;
        database
    }

    fn server() -> String {
        std::env::var("TOOLWRIGHT_TEST_POSTGRES_URL")
            .unwrap_or_else(|_| panic!("TOOLWRIGHT_TEST_POSTGRES_URL is not set: run the tests with `make test`"))
    }

    fn url(&self) -> String {
        format!("{}/{}", Self::server(), self.0)
    }

    async fn execute(&self, statement: &str) {
        let mut connection = PgConnection::connect(&format!("{}/postgres", Self::server())).await.unwrap();
        connection.execute(AssertSqlSafe(format!("{statement} {}", self.0))).await.unwrap();
        connection.close().await.unwrap();
    }
}

#[tokio::test]
async fn run_accepts_decisions_and_results_on_every_server_that_shares_its_database() {
    let database = Database::create().await;
    let restate = Restate::start().await;
    let key = "TOOLWRIGHT_SEAL_KEY";
    let env = || {
        let mut env = restate.server_env(free_ports::<1>()[0]);
        env.push(("TOOLWRIGHT_DATABASE_URL", database.url()));
        env.push((key, "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=".to_owned()));
        env
    };
    // Restate sends tasks to the second server, because the second server registered last.
    let (first, second) = (Server::start_with_env(env()), Server::start_without_demo(env()));
    let sign = json!({
        "refName": "desk/sign", "toolType": "FUNCTION", "isToolFullyExecutedOnServer": false,
        "inputJsonSchema": { "type": "object" }, "outputJsonSchema": { "type": "object", "required": ["signed"] },
    });
    define(&first, "tools", sign).await;
    let calls = json!([
        { "name": "desk/sign", "arguments": { "what": "x" } },
        { "name": "hubspot/send-email", "arguments": { "dealId": "103", "to": "buyer@acme.example", "subject": "hello" } },
    ]);
    let agent = json!({
        "refName": "a", "toolRefs": ["desk/sign", "hubspot/send-email"], "requiresApproval": true, "llmConfig": scripted_model(&calls)
    });
    define(&first, "agents", agent).await;
    let path = start_run(&first, "a").await;
    // The test sends decisions to both servers in turn, and the client's result to the first server.
    let waiting = wait_for_status(&first, &path, "AWAITING_APPROVAL").await;
    for (approval, server) in waiting["approvals"].as_array().unwrap().iter().zip([&first, &second].into_iter().cycle())
    {
        let call = approval["callId"].as_str().unwrap();
        let (status, response) =
            post(server, &format!("{path}/approvals/{call}?wait=false"), json!({ "decision": "approve" })).await;
        assert_eq!(status, 202, "{response}");
        let (status, response) =
            post(server, &format!("{path}/approvals/{call}?wait=false"), json!({ "decision": "approve" })).await;
        assert_eq!(status, 409, "a call is decided only once: {response}");
    }
    let waiting = wait_for_status(&second, &path, "AWAITING_CLIENT").await;
    let call = waiting["clientActions"][0]["callId"].as_str().unwrap();
    let results = json!({ "results": [{ "callId": call, "output": { "signed": true } }] });
    let (status, response) = post(&first, &format!("{path}/tool-results"), results).await;
    assert_eq!(
        (status, &response["status"], &response["responseText"]),
        (200, &json!("COMPLETED"), &json!("Done.")),
        "{response}"
    );
    let (_, on_second) = api(&second, Method::GET, &path, None).await;
    assert_eq!(on_second["status"], "COMPLETED");
    drop((first, second));
    database.execute("DROP DATABASE").await;
}

#[tokio::test]
async fn run_scheduled_by_restate_waits_while_restate_is_not_configured() {
    let restate = Restate::start().await;
    let env = restate.server_env(free_ports::<1>()[0]);
    let mut server = Server::start_with_env(env.clone());
    let agent = json!({ "refName": "a", "toolRefs": ["hubspot/send-email"], "requiresApproval": true, "llmConfig": email_model() });
    define(&server, "agents", agent).await;
    let path = start_run(&server, "a").await;
    let waiting = wait_for_status(&server, &path, "AWAITING_APPROVAL").await;
    server.kill();
    server.restart_with_env(Vec::new());
    let call = waiting["approvals"][0]["callId"].as_str().unwrap();
    let approval = format!("{path}/approvals/{call}?wait=false");
    let (status, response) = post(&server, &approval, json!({ "decision": "approve" })).await;
    assert_eq!((status, &response["code"]), (503, &json!("unavailable")), "{response}");
    assert!(response["detail"].as_str().unwrap().contains("scheduled by Restate"), "{response}");
    assert!(server.log().contains("TOOLWRIGHT_RESTATE_URL"), "{}", server.log());
    server.kill();
    // Restate sends the remaining tasks to the registered callback address, so the restarted server must use the same
    // address.
    server.restart_with_env(env);
    let (status, response) = post(&server, &approval, json!({ "decision": "approve" })).await;
    assert_eq!(status, 202, "{response}");
    wait_for_status(&server, &path, "COMPLETED").await;
}

/// Runs a server that must fail to start and returns its standard error.
fn failed_start_stderr(env: &[(&str, &str)]) -> String {
    let folder = tempfile::tempdir().unwrap();
    let output = Command::new(BINARY)
        .args(["serve", "--bind", "127.0.0.1:0", "--data"])
        .arg(folder.path().join("data"))
        .env("TOOLWRIGHT_ADMIN_KEY", ADMIN_KEY)
        .envs(env.iter().copied())
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1));
    String::from_utf8(output.stderr).unwrap()
}

#[tokio::test]
async fn public_callback_address_requires_an_identity_key() {
    let restate = Restate::start().await;
    let [port] = free_ports::<1>();
    let all_interfaces = format!("0.0.0.0:{port}");
    let (url, admin) = (restate.url(), restate.admin_url());
    let env = [
        ("TOOLWRIGHT_RESTATE_URL", url.as_str()),
        ("TOOLWRIGHT_RESTATE_ADMIN_URL", admin.as_str()),
        ("TOOLWRIGHT_RESTATE_BIND", all_interfaces.as_str()),
    ];
    let stderr = failed_start_stderr(&env);
    assert!(stderr.contains("TOOLWRIGHT_RESTATE_IDENTITY_KEY"), "{stderr}");
    let stderr = failed_start_stderr(&[&env[..], &[("TOOLWRIGHT_RESTATE_IDENTITY_KEY", "nonsense")]].concat());
    assert!(stderr.contains("must be a public key of Restate"), "{stderr}");
    // The server rejects requests that are not signed with the configured key. This Restate does not sign its requests,
    // so it cannot register the server.
    let key = "publickeyv1_w7YHemBctH5Ck2nQRQ47iBBqhNHy4FV7t2Usbye2A6f";
    let loopback = format!("127.0.0.1:{port}");
    let env = [env[0], env[1], ("TOOLWRIGHT_RESTATE_BIND", loopback.as_str())];
    let stderr = failed_start_stderr(&[&env[..], &[("TOOLWRIGHT_RESTATE_IDENTITY_KEY", key)]].concat());
    assert!(stderr.contains("did not register this server"), "{stderr}");
}

#[tokio::test]
async fn restate_with_the_configured_identity_key_is_accepted() {
    let restate = Restate::start_signing().await;
    let mut env = restate.server_env(free_ports::<1>()[0]);
    env.push(("TOOLWRIGHT_RESTATE_IDENTITY_KEY", IDENTITY_KEY.to_owned()));
    let server = Server::start_with_env(env);
    define(&server, "agents", json!({ "refName": "a", "llmConfig": scripted_model(&json!([])) })).await;
    let run = wait_for_end(&server, &start_run(&server, "a").await).await;
    assert_eq!(run["status"], "COMPLETED", "{run}");
}

#[tokio::test]
async fn invalid_restate_settings_are_reported_at_startup() {
    let stderr = failed_start_stderr(&[("TOOLWRIGHT_RESTATE_URL", "restate:8080")]);
    assert!(stderr.contains("read TOOLWRIGHT_RESTATE_URL") && stderr.contains("restate:8080"), "{stderr}");
    let restate = Restate::start().await;
    let (url, admin) = (restate.url(), restate.admin_url());
    let [bind, unused] = free_ports::<2>();
    let (bind, unused) = (format!("127.0.0.1:{bind}"), format!("http://127.0.0.1:{unused}"));
    let env = [("TOOLWRIGHT_RESTATE_URL", url.as_str()), ("TOOLWRIGHT_RESTATE_BIND", bind.as_str())];
    let stderr = failed_start_stderr(&[&env[..], &[("TOOLWRIGHT_RESTATE_ADMIN_URL", unused.as_str())]].concat());
    assert!(stderr.contains("TOOLWRIGHT_RESTATE_ADMIN_URL"), "{stderr}");
    let unreachable =
        [("TOOLWRIGHT_RESTATE_ADMIN_URL", admin.as_str()), ("TOOLWRIGHT_RESTATE_ADVERTISE", unused.as_str())];
    let stderr = failed_start_stderr(&[&env[..], &unreachable].concat());
    assert!(
        stderr.contains("did not register this server") && stderr.contains("TOOLWRIGHT_RESTATE_ADVERTISE"),
        "{stderr}"
    );
}
