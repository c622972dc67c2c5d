//! Durable runs that Restate conducts, on a real Restate: they do what they do without it, whoever is killed.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod support;

use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use axum::Router;
use axum::routing::any;
use reqwest::Method;
use serde_json::{Value, json};
use sqlx::{AssertSqlSafe, Connection as _, Executor as _, PgConnection};
use support::restate::{IDENTITY, Restate, free_ports};
use support::scene::{Scene, api, define, ended, receipt, script, start, until};
use support::{ADMIN_KEY, BINARY, Server};
use tokio::sync::Barrier;
use tokio::task::JoinSet;

/// A server whose durable runs are conducted by a Restate of its own.
async fn conducted(more: &[(&'static str, &str)]) -> (Restate, Server) {
    let restate = Restate::start().await;
    let mut settings = restate.settings(free_ports::<1>()[0]);
    settings.extend(more.iter().map(|(name, value)| (*name, (*value).to_owned())));
    let server = Server::start_with(settings);
    (restate, server)
}

/// The system behind a tool; it ends with the test.
struct System {
    url: String,
    _task: JoinSet<()>,
}

impl System {
    async fn start(router: Router) -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let served = async move { axum::serve(listener, router).await.unwrap() };
        Self { url, _task: JoinSet::from_iter([served]) }
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

/// The run once it stands like this.
async fn stands(server: &Server, path: &str, status: &str) -> Value {
    until(status, async || {
        let (_, run) = api(server, Method::GET, path, None).await;
        (run["status"] == status).then_some(run)
    })
    .await
}

#[tokio::test]
async fn calls_of_one_reply_are_made_side_by_side() {
    const CALLS: usize = 3;
    let (_restate, server) = conducted(&[]).await;
    // Answers nobody before all are there.
    let together = Arc::new(Barrier::new(CALLS));
    let system = System::start(Router::new().fallback(any(async move || {
        together.wait().await;
        axum::Json(json!({ "met": true }))
    })))
    .await;
    define(&server, "tools", system.tool("meet", "POST")).await;
    let calls: Vec<Value> = (0..CALLS).map(|n| json!({ "name": "meet", "arguments": { "n": n } })).collect();
    let agent = json!({ "refName": "a", "toolRefs": ["meet"], "llmConfig": script(&json!(calls)) });
    define(&server, "agents", agent).await;
    let run = ended(&server, &start(&server, "a").await).await;
    assert_eq!((&run["status"], &run["responseText"]), (&json!("COMPLETED"), &json!("Told.")), "{run}");
    let outputs = run["outputs"]["tools_by_id"].as_object().unwrap();
    assert_eq!(outputs.len(), CALLS);
    assert!(outputs.values().all(|receipt| receipt["output"]["met"] == true), "{run}");
}

#[tokio::test]
async fn a_fork_goes_on_from_what_it_shares() {
    let (_restate, server) = conducted(&[]).await;
    let llm = script(&json!([{ "name": "echo", "arguments": { "n": 1 } }]));
    define(&server, "agents", json!({ "refName": "a", "toolRefs": ["echo"], "llmConfig": llm })).await;
    let path = start(&server, "a").await;
    let whole = ended(&server, &path).await;
    // Its second entry is the model's first reply.
    let (status, accepted) = post(&server, &format!("{path}/fork"), json!({ "at": 2, "durable": true })).await;
    assert_eq!(status, 202, "{accepted}");
    let fork = ended(&server, &format!("runs/{}", accepted["runId"].as_str().unwrap())).await;
    assert_eq!(
        (&fork["status"], &fork["outputs"]["tool_order"]),
        (&json!("COMPLETED"), &whole["outputs"]["tool_order"])
    );
}

#[tokio::test]
async fn a_read_that_a_killed_server_was_making_is_repeated() {
    let (_restate, server) = conducted(&[]).await;
    let mut scene = Scene::begin(server, &json!({})).await;
    scene.server.crash();
    let (run, hits) = scene.end().await;
    assert_eq!((&run["status"], &run["responseText"]), (&json!("COMPLETED"), &json!("Told.")), "{run}");
    assert_eq!((hits, &receipt(&run)["error"]), (2, &Value::Null));
}

#[tokio::test]
async fn a_write_that_a_killed_server_was_making_is_never_repeated_blindly() {
    let post = json!({ "method": "POST" });
    let cases = [
        (json!({ "idempotent": true }), 2, Value::Null, Value::Null),
        (json!({}), 1, json!("outcome_unknown"), Value::Null),
        (json!({ "verifyToolRef": "verify/done" }), 1, Value::Null, json!({ "found": true })),
        (json!({ "verifyToolRef": "verify/unknown" }), 1, json!("outcome_unknown"), Value::Null),
    ];
    for (mut tool, times, reason, output) in cases {
        tool["invocation"] = post.clone();
        let (_restate, server) = conducted(&[]).await;
        let mut scene = Scene::begin(server, &tool).await;
        scene.server.crash();
        let (run, hits) = scene.end().await;
        assert_eq!((&run["status"], hits), (&json!("COMPLETED"), times), "{tool}: {run}");
        assert_eq!(receipt(&run)["error"]["details"]["reason"], reason, "{tool}: {run}");
        if times == 1 {
            assert_eq!(receipt(&run)["output"], output, "{tool}");
        }
    }
}

#[tokio::test]
async fn a_write_goes_on_while_restate_is_gone() {
    let (mut restate, server) = conducted(&[]).await;
    let scene = Scene::begin(server, &json!({ "invocation": { "method": "POST" } })).await;
    restate.kill();
    restate.restart().await;
    let (run, hits) = scene.end().await;
    // The server lives, and knows what came of it.
    assert_eq!((&run["status"], hits, &receipt(&run)["error"]), (&json!("COMPLETED"), 1, &Value::Null), "{run}");
}

#[tokio::test]
async fn runs_go_on_with_a_restate_that_knows_nothing_of_them() {
    let (restate, server) = conducted(&[]).await;
    let mut scene = Scene::begin(server, &json!({})).await;
    scene.server.kill();
    drop(restate);
    let other = Restate::start().await;
    scene.server.restart_with(other.settings(free_ports::<1>()[0]));
    let (run, _) = scene.end().await;
    assert_eq!((&run["status"], &receipt(&run)["error"]), (&json!("COMPLETED"), &Value::Null), "{run}");
}

#[tokio::test]
async fn a_cancelled_run_breaks_off_what_it_does() {
    let (_restate, server) = conducted(&[]).await;
    let (begun, broken_off) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let system = {
        let (begun, broken_off) = (Arc::clone(&begun), Arc::clone(&broken_off));
        System::start(Router::new().fallback(any(async move || {
            struct Dropped(Arc<AtomicUsize>);
            impl Drop for Dropped {
                fn drop(&mut self) {
                    self.0.fetch_add(1, Ordering::SeqCst);
                }
            }
            let _dropped = Dropped(broken_off);
            begun.fetch_add(1, Ordering::SeqCst);
            std::future::pending::<&str>().await
        })))
        .await
    };
    define(&server, "tools", system.tool("never", "POST")).await;
    let worker =
        json!({ "refName": "worker", "toolRefs": ["never"], "llmConfig": script(&json!([{ "name": "never" }])) });
    define(&server, "agents", worker).await;
    let calls = json!([{ "name": "worker", "arguments": { "task": "go" } }, { "name": "never" }]);
    let chief = json!({ "refName": "chief", "toolRefs": ["never"], "delegateAgentRefs": ["worker"], "llmConfig": script(&calls) });
    define(&server, "agents", chief).await;
    let path = start(&server, "chief").await;
    until("both calls", async || (begun.load(Ordering::SeqCst) == 2).then_some(())).await;
    let (status, answer) = post(&server, &format!("{path}/cancel"), json!({})).await;
    assert!(status < 300, "{status} {answer}");
    let run = ended(&server, &path).await;
    assert_eq!(run["status"], "CANCELLED", "{run}");
    until("the calls are broken off", async || (broken_off.load(Ordering::SeqCst) == 2).then_some(())).await;
    let (_, page) = api(&server, Method::GET, "runs?status=CANCELLED", None).await;
    assert_eq!(page["items"].as_array().unwrap().len(), 2, "the delegate's too: {page}");
    let (status, answer) = post(&server, &format!("{path}/cancel"), json!({})).await;
    assert_eq!((status, &answer["code"]), (409, &json!("run-ended")), "{answer}");
}

#[tokio::test]
async fn what_nobody_decides_in_time_expires() {
    let (_restate, server) = conducted(&[("TOOLWRIGHT_AGENT__APPROVAL_TIMEOUT_SECONDS", "1")]).await;
    let agent =
        json!({ "refName": "a", "toolRefs": ["hubspot/send-email"], "requiresApproval": true, "llmConfig": email() });
    define(&server, "agents", agent).await;
    let path = start(&server, "a").await;
    let run = stands(&server, &path, "COMPLETED").await;
    assert_eq!(receipt(&run)["error"]["details"]["reason"], "approval_expired", "{run}");
}

fn email() -> Value {
    let arguments = json!({ "dealId": "103", "to": "buyer@acme.example", "subject": "hello" });
    script(&json!([{ "name": "hubspot/send-email", "arguments": arguments }]))
}

#[tokio::test]
async fn delegates_that_wait_are_waited_for() {
    let (_restate, server) = conducted(&[]).await;
    let careful = json!({ "refName": "careful", "toolRefs": ["hubspot/send-email"], "requiresApproval": true, "llmConfig": email() });
    define(&server, "agents", careful).await;
    let calls = json!([{ "name": "careful", "arguments": { "task": "go" } }]);
    let chief = json!({ "refName": "chief", "delegateAgentRefs": ["careful"], "llmConfig": script(&calls) });
    define(&server, "agents", chief).await;
    let path = start(&server, "chief").await;
    let waiting = stands(&server, &path, "AWAITING_APPROVAL").await;
    assert_eq!(waiting["approvals"], json!([]), "its delegate's is not its own");
    let (_, asked) = api(&server, Method::GET, "approvals", None).await;
    let (run, call) = (&asked["items"][0]["runId"], &asked["items"][0]["callId"]);
    let approval = format!("runs/{}/approvals/{}", run.as_str().unwrap(), call.as_str().unwrap());
    let (status, answer) = post(&server, &approval, json!({ "decision": "approve" })).await;
    assert_eq!((status, &answer["status"]), (200, &json!("COMPLETED")), "{answer}");
    let run = stands(&server, &path, "COMPLETED").await;
    assert_eq!(receipt(&run)["error"], Value::Null, "{run}");
}

/// A database of its own, which goes with the test.
struct Database(String);

impl Database {
    async fn create() -> Self {
        let name = format!("restate_{}", std::process::id());
        let database = Self(name);
        database.administer("CREATE DATABASE").await;
        database
    }

    fn server() -> String {
        std::env::var("TOOLWRIGHT_TEST_POSTGRES_URL")
            .unwrap_or_else(|_| panic!("TOOLWRIGHT_TEST_POSTGRES_URL is not set: run the tests by `make test`"))
    }

    fn url(&self) -> String {
        format!("{}/{}", Self::server(), self.0)
    }

    async fn administer(&self, statement: &str) {
        let mut connection = PgConnection::connect(&format!("{}/postgres", Self::server())).await.unwrap();
        connection.execute(AssertSqlSafe(format!("{statement} {}", self.0))).await.unwrap();
        connection.close().await.unwrap();
    }
}

#[tokio::test]
async fn a_run_is_steered_from_any_server_on_the_same_database() {
    let database = Database::create().await;
    let restate = Restate::start().await;
    let key = "TOOLWRIGHT_SEAL_KEY";
    let settings = || {
        let mut settings = restate.settings(free_ports::<1>()[0]);
        settings.push(("TOOLWRIGHT_DATABASE_URL", database.url()));
        settings.push((key, "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=".to_owned()));
        settings
    };
    // Restate calls the second: it was registered last.
    let (first, second) = (Server::start_with(settings()), Server::start_bare_with(settings()));
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
        "refName": "a", "toolRefs": ["desk/sign", "hubspot/send-email"], "requiresApproval": true, "llmConfig": script(&calls)
    });
    define(&first, "agents", agent).await;
    let path = start(&first, "a").await;
    // A person decides at the one, a client returns its result at the other.
    let asked = stands(&first, &path, "AWAITING_APPROVAL").await;
    for (approval, server) in asked["approvals"].as_array().unwrap().iter().zip([&first, &second].into_iter().cycle()) {
        let call = approval["callId"].as_str().unwrap();
        let (status, answer) =
            post(server, &format!("{path}/approvals/{call}?wait=false"), json!({ "decision": "approve" })).await;
        assert_eq!(status, 202, "{answer}");
        let (status, answer) =
            post(server, &format!("{path}/approvals/{call}?wait=false"), json!({ "decision": "approve" })).await;
        assert_eq!(status, 409, "a decision is taken once: {answer}");
    }
    let handed = stands(&second, &path, "AWAITING_CLIENT").await;
    let call = handed["clientActions"][0]["callId"].as_str().unwrap();
    let results = json!({ "results": [{ "callId": call, "output": { "signed": true } }] });
    let (status, answer) = post(&first, &format!("{path}/tool-results"), results).await;
    assert_eq!(
        (status, &answer["status"], &answer["responseText"]),
        (200, &json!("COMPLETED"), &json!("Told.")),
        "{answer}"
    );
    let (_, elsewhere) = api(&second, Method::GET, &path, None).await;
    assert_eq!(elsewhere["status"], "COMPLETED");
    drop((first, second));
    database.administer("DROP DATABASE").await;
}

#[tokio::test]
async fn without_restate_its_runs_are_left_alone_and_told_of() {
    let restate = Restate::start().await;
    let settings = restate.settings(free_ports::<1>()[0]);
    let mut server = Server::start_with(settings.clone());
    let agent =
        json!({ "refName": "a", "toolRefs": ["hubspot/send-email"], "requiresApproval": true, "llmConfig": email() });
    define(&server, "agents", agent).await;
    let path = start(&server, "a").await;
    let asked = stands(&server, &path, "AWAITING_APPROVAL").await;
    server.kill();
    server.restart_with(Vec::new());
    let call = asked["approvals"][0]["callId"].as_str().unwrap();
    let approval = format!("{path}/approvals/{call}?wait=false");
    let (status, answer) = post(&server, &approval, json!({ "decision": "approve" })).await;
    assert_eq!((status, &answer["code"]), (503, &json!("unavailable")), "{answer}");
    assert!(answer["detail"].as_str().unwrap().contains("conductor"), "{answer}");
    assert!(server.log().contains("TOOLWRIGHT_RESTATE_URL"), "{}", server.log());
    server.kill();
    // At the same address: what Restate has begun there it goes on with there.
    server.restart_with(settings);
    let (status, answer) = post(&server, &approval, json!({ "decision": "approve" })).await;
    assert_eq!(status, 202, "{answer}");
    stands(&server, &path, "COMPLETED").await;
}

/// What a server says that does not start.
fn refused(settings: &[(&str, &str)]) -> String {
    let folder = tempfile::tempdir().unwrap();
    let output = Command::new(BINARY)
        .args(["serve", "--bind", "127.0.0.1:0", "--data"])
        .arg(folder.path().join("data"))
        .env("TOOLWRIGHT_ADMIN_KEY", ADMIN_KEY)
        .envs(settings.iter().copied())
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1));
    String::from_utf8(output.stderr).unwrap()
}

#[tokio::test]
async fn a_callback_that_anyone_could_reach_needs_an_identity_key() {
    let restate = Restate::start().await;
    let [port] = free_ports::<1>();
    let wide = format!("0.0.0.0:{port}");
    let (url, admin) = (restate.url(), restate.admin_url());
    let settings = [
        ("TOOLWRIGHT_RESTATE_URL", url.as_str()),
        ("TOOLWRIGHT_RESTATE_ADMIN_URL", admin.as_str()),
        ("TOOLWRIGHT_RESTATE_BIND", wide.as_str()),
    ];
    let said = refused(&settings);
    assert!(said.contains("TOOLWRIGHT_RESTATE_IDENTITY_KEY"), "{said}");
    let said = refused(&[&settings[..], &[("TOOLWRIGHT_RESTATE_IDENTITY_KEY", "nonsense")]].concat());
    assert!(said.contains("is no public key"), "{said}");
    // A Restate that signs nothing, or with another key, is not let in; so it cannot register the server.
    let key = "publickeyv1_w7YHemBctH5Ck2nQRQ47iBBqhNHy4FV7t2Usbye2A6f";
    let loopback = format!("127.0.0.1:{port}");
    let settings = [settings[0], settings[1], ("TOOLWRIGHT_RESTATE_BIND", loopback.as_str())];
    let said = refused(&[&settings[..], &[("TOOLWRIGHT_RESTATE_IDENTITY_KEY", key)]].concat());
    assert!(said.contains("did not register this server"), "{said}");
}

#[tokio::test]
async fn a_restate_with_the_right_key_is_let_in() {
    let restate = Restate::start_signing().await;
    let mut settings = restate.settings(free_ports::<1>()[0]);
    settings.push(("TOOLWRIGHT_RESTATE_IDENTITY_KEY", IDENTITY.to_owned()));
    let server = Server::start_with(settings);
    define(&server, "agents", json!({ "refName": "a", "llmConfig": script(&json!([])) })).await;
    let run = ended(&server, &start(&server, "a").await).await;
    assert_eq!(run["status"], "COMPLETED", "{run}");
}

#[tokio::test]
async fn what_is_configured_wrongly_is_told() {
    let said = refused(&[("TOOLWRIGHT_RESTATE_URL", "restate:8080")]);
    assert!(said.contains("read TOOLWRIGHT_RESTATE_URL") && said.contains("restate:8080"), "{said}");
    let restate = Restate::start().await;
    let (url, admin) = (restate.url(), restate.admin_url());
    let [bind, nobody] = free_ports::<2>();
    let (bind, nobody) = (format!("127.0.0.1:{bind}"), format!("http://127.0.0.1:{nobody}"));
    let settings = [("TOOLWRIGHT_RESTATE_URL", url.as_str()), ("TOOLWRIGHT_RESTATE_BIND", bind.as_str())];
    let said = refused(&[&settings[..], &[("TOOLWRIGHT_RESTATE_ADMIN_URL", nobody.as_str())]].concat());
    assert!(said.contains("TOOLWRIGHT_RESTATE_ADMIN_URL"), "{said}");
    let unreachable =
        [("TOOLWRIGHT_RESTATE_ADMIN_URL", admin.as_str()), ("TOOLWRIGHT_RESTATE_ADVERTISE", nobody.as_str())];
    let said = refused(&[&settings[..], &unreachable].concat());
    assert!(said.contains("did not register this server") && said.contains("TOOLWRIGHT_RESTATE_ADVERTISE"), "{said}");
}
