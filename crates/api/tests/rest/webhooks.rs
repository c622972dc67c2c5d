//! Webhooks that report events: signatures, selection, retries, dead deliveries and failed servers.

use std::sync::{Arc, Mutex};

use axum::Router;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use reqwest::Method;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::harness::{Deployment, Server, Storage, merge};

crate::on_both_databases!(
    webhook_gets_each_selected_event_once_and_signed,
    delivery_that_fails_is_listed_and_can_be_repeated,
    webhook_gets_the_approvals_of_the_workflows_that_it_selects,
    webhook_that_is_not_valid_is_refused_and_private_networks_are_not_reached,
    deliveries_are_hidden_from_members
);

const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

/// A server that receives webhooks.
#[derive(Clone)]
struct Receiver {
    url: String,
    received: Arc<Mutex<Vec<(HeaderMap, String)>>>,
    status: Arc<Mutex<StatusCode>>,
    shutdown: CancellationToken,
    tasks: TaskTracker,
}

impl Receiver {
    async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let receiver = Self {
            url: format!("http://{}/hook", listener.local_addr().unwrap()),
            received: Arc::default(),
            status: Arc::new(Mutex::new(StatusCode::NO_CONTENT)),
            shutdown: CancellationToken::new(),
            tasks: TaskTracker::new(),
        };
        let app = Router::new().route("/hook", axum::routing::post(receive)).with_state(receiver.clone());
        let serving = axum::serve(listener, app).with_graceful_shutdown(receiver.shutdown.clone().cancelled_owned());
        receiver.tasks.spawn(async move { serving.await.unwrap() });
        receiver
    }

    async fn stop(self) {
        self.shutdown.cancel();
        self.tasks.close();
        self.tasks.wait().await;
    }

    fn respond_with(&self, status: StatusCode) {
        *self.status.lock().unwrap() = status;
    }

    /// Returns the bodies of the received webhooks. Panics if a signature is wrong.
    fn bodies(&self) -> Vec<Value> {
        let webhook = standardwebhooks::Webhook::new(SECRET).unwrap();
        let received = self.received.lock().unwrap();
        let verified = received.iter().map(|(headers, body)| {
            webhook.verify(body.as_bytes(), headers).unwrap();
            serde_json::from_str(body).unwrap()
        });
        verified.collect()
    }

    fn ids(&self) -> Vec<String> {
        let received = self.received.lock().unwrap();
        received.iter().map(|(headers, _)| headers["webhook-id"].to_str().unwrap().to_owned()).collect()
    }
}

async fn receive(State(receiver): State<Receiver>, headers: HeaderMap, body: String) -> StatusCode {
    receiver.received.lock().unwrap().push((headers, body));
    *receiver.status.lock().unwrap()
}

async fn create(server: &Server, receiver: &Receiver, name: &str, more: Value) {
    server.post("secrets", json!({ "name": "hook-secret", "scope": "realm", "value": SECRET })).await;
    let webhook = json!({ "refName": name, "url": receiver.url, "events": ["RUN_ENDED"], "secretRef": "hook-secret",
        "egressAllow": ["127.0.0.0/8"] });
    server.post("webhooks", merge(webhook, more)).await.expect(201);
}

async fn create_workflow(server: &Server, name: &str) {
    let steps = json!([{ "name": "say", "handlerRef": "echo", "input": { "secret": "hidden" } }]);
    server.post("workflows", json!({ "refName": name, "steps": steps })).await.expect(201);
}

/// Runs a workflow whose events come after the start of the webhooks of the realm. The first round of the delivery loop
/// after the creation of a webhook stores the position from which events are sent.
async fn execute(server: &Server, name: &str) -> String {
    let run = server.post(&format!("workflows/{name}/execute"), json!({ "input": {} })).await.expect(200);
    assert_eq!(run["status"], "COMPLETED", "{run}");
    run["runId"].as_str().unwrap().to_owned()
}

async fn deliveries(server: &Server, webhook: &str, status: &str, count: usize) -> Vec<Value> {
    let path = format!("webhooks/{webhook}/deliveries?status={status}");
    let page = server.poll_until(&path, |page| page["items"].as_array().unwrap().len() >= count).await;
    page["items"].as_array().unwrap().clone()
}

/// Waits until no delivery to a webhook is pending.
async fn wait_until_all_are_delivered(server: &Server, webhook: &str) {
    let newest = server.get("runs?limit=1").await.expect(200)["items"][0]["id"].clone();
    let path = format!("webhooks/{webhook}/deliveries?status=DELIVERED&limit=100");
    let is_last =
        |page: &Value| page["items"].as_array().unwrap().iter().any(|one| one["body"]["data"]["id"] == newest);
    server.poll_until(&path, is_last).await;
    let path = format!("webhooks/{webhook}/deliveries?status=PENDING");
    server.poll_until(&path, |page| page["items"] == json!([])).await;
}

/// Waits until the webhooks of the realm get events.
async fn wait_until_active(server: &Server, webhook: &str) {
    create_workflow(server, "probe").await;
    for _ in 0..500 {
        execute(server, "probe").await;
        let page = server.get(&format!("webhooks/{webhook}/deliveries")).await.expect(200);
        if !page["items"].as_array().unwrap().is_empty() {
            return;
        }
    }
    panic!("the webhook gets no events");
}

async fn webhook_gets_each_selected_event_once_and_signed(server: Server) {
    let receiver = Receiver::start().await;
    create(&server, &receiver, "all", json!({ "events": ["RUN_STARTED", "RUN_ENDED"] })).await;
    wait_until_active(&server, "all").await;
    create_workflow(&server, "shown").await;
    let ended_only = json!({ "subjects": ["SHOWN"], "statuses": ["COMPLETED"] });
    create(&server, &receiver, "ended", ended_only).await;
    create(&server, &receiver, "failed", json!({ "statuses": ["ERROR"] })).await;
    create(&server, &receiver, "paused", json!({ "enabled": false })).await;
    // The delivery loop reads the new webhooks at its next round. A run that ends before that is not selected.
    let mut runs = Vec::new();
    for _ in 0..500 {
        runs.push(execute(&server, "shown").await);
        if !server.get("webhooks/ended/deliveries").await.expect(200)["items"].as_array().unwrap().is_empty() {
            break;
        }
    }
    let run = execute(&server, "shown").await;
    let shown = |body: &Value| body["data"]["id"] == run.as_str();
    let path = "webhooks/ended/deliveries?status=DELIVERED&limit=100";
    let page =
        server.poll_until(path, |page| page["items"].as_array().unwrap().iter().any(|one| shown(&one["body"]))).await;
    let bodies: Vec<Value> =
        page["items"].as_array().unwrap().iter().map(|one| one["body"].clone()).filter(|body| shown(body)).collect();
    assert_eq!(bodies.len(), 1, "{page}");
    let data = json!({ "realm": "default", "kind": "runs", "id": run, "ref": "shown", "status": "COMPLETED" });
    assert_eq!((&bodies[0]["type"], &bodies[0]["data"]), (&json!("RUN_ENDED"), &data));
    let path = "webhooks/all/deliveries?status=DELIVERED&limit=100";
    let both = |page: &Value| page["items"].as_array().unwrap().iter().filter(|one| shown(&one["body"])).count() == 2;
    server.poll_until(path, both).await;
    // Each webhook has its own delivery, and each delivery was sent once.
    let bodies = receiver.bodies();
    assert_eq!(bodies.iter().filter(|body| shown(body)).count(), 3, "{bodies:?}");
    assert!(!bodies.iter().any(|body| body.to_string().contains("hidden")), "no inputs are sent");
    let mut ids = receiver.ids();
    let count = ids.len();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), count);
    for unselected in ["failed", "paused"] {
        let page = server.get(&format!("webhooks/{unselected}/deliveries")).await.expect(200);
        assert_eq!(page["items"], json!([]), "{unselected}");
    }
    receiver.stop().await;
}

async fn delivery_that_fails_is_listed_and_can_be_repeated(server: Server) {
    let receiver = Receiver::start().await;
    create(&server, &receiver, "flaky", json!({})).await;
    wait_until_active(&server, "flaky").await;
    wait_until_all_are_delivered(&server, "flaky").await;
    receiver.respond_with(StatusCode::INTERNAL_SERVER_ERROR);
    execute(&server, "probe").await;
    let path = "webhooks/flaky/deliveries?status=PENDING";
    let failed = server.poll_until(path, |page| page["items"][0]["attempts"] == 1).await["items"][0].clone();
    assert_eq!((&failed["responseStatus"], &failed["retryAt"].is_string()), (&json!(500), &true), "{failed}");
    assert_eq!(failed["error"], "the receiver responded with 500 Internal Server Error");
    receiver.respond_with(StatusCode::GONE);
    let id = failed["id"].as_str().unwrap();
    let retry = format!("webhooks/flaky/deliveries/{id}/retry");
    let dead = server.post(&retry, json!({})).await.expect(200);
    assert_eq!((&dead["status"], &dead["retryAt"]), (&json!("DEAD"), &Value::Null), "{dead}");
    assert_eq!(deliveries(&server, "flaky", "DEAD", 1).await[0]["id"], *id);
    // A redirect is not followed, because it leads to another receiver.
    receiver.respond_with(StatusCode::FOUND);
    let redirected = server.post(&retry, json!({})).await.expect(200);
    assert_eq!(
        (&redirected["status"], &redirected["responseStatus"]),
        (&json!("PENDING"), &json!(302)),
        "{redirected}"
    );
    receiver.respond_with(StatusCode::OK);
    let delivered = server.post(&retry, json!({})).await.expect(200);
    assert_eq!((&delivered["status"], &delivered["attempts"]), (&json!("DELIVERED"), &json!(4)));
    // The receiver recognizes the repetition by the id.
    let attempts = receiver.ids().iter().filter(|sent| *sent == id).count();
    assert_eq!(attempts, 4);
    receiver.bodies();
    let unknown = "webhooks/flaky/deliveries/msg_00000000000000000000000000/retry";
    server.post(unknown, json!({})).await.problem(404, "not-found");
    let test = server.post("webhooks/flaky/test", json!({})).await.expect(200);
    assert_eq!((&test["status"], &test["body"]["type"]), (&json!("DELIVERED"), &json!("TEST")), "{test}");
    server.delete("secrets/hook-secret?scope=realm").await;
    let unsigned = server.post("webhooks/flaky/test", json!({})).await.expect(200);
    assert_eq!(unsigned["status"], "PENDING");
    assert!(unsigned["error"].as_str().unwrap().contains("no secret `hook-secret`"), "{unsigned}");
    receiver.stop().await;
}

async fn webhook_gets_the_approvals_of_the_workflows_that_it_selects(server: Server) {
    let receiver = Receiver::start().await;
    create(&server, &receiver, "all", json!({})).await;
    wait_until_active(&server, "all").await;
    let steps = json!([{ "name": "ask", "handlerRef": "quantum.flow.approval", "input": { "message": "Go?" } }]);
    server.post("workflows", json!({ "refName": "guarded", "steps": steps })).await.expect(201);
    let events = json!({ "events": ["APPROVAL_REQUESTED"], "subjects": ["guarded"] });
    create(&server, &receiver, "asked", events).await;
    let path = "webhooks/asked/deliveries";
    for _ in 0..500 {
        server.post("workflows/guarded/execute", json!({ "input": {} })).await.expect(200);
        let page = server.get(path).await.expect(200);
        if let Some(delivery) = page["items"].as_array().unwrap().first() {
            assert_eq!(delivery["eventType"], "APPROVAL_REQUESTED", "{delivery}");
            receiver.stop().await;
            return;
        }
    }
    panic!("the webhook gets no approvals");
}

async fn webhook_that_is_not_valid_is_refused_and_private_networks_are_not_reached(server: Server) {
    let receiver = Receiver::start().await;
    let refused = async |fields: Value, path: &str| {
        let webhook =
            json!({ "refName": "bad", "url": "https://example.com", "events": ["RUN_ENDED"], "secretRef": "s" });
        let problem = server.post("webhooks", merge(webhook, fields)).await.problem(422, "invalid-definition");
        assert_eq!(problem["errors"][0]["path"], path, "{problem}");
    };
    refused(json!({ "url": "ftp://example.com" }), "/url").await;
    refused(json!({ "url": "/hook" }), "/url").await;
    refused(json!({ "url": "https://user:password@example.com" }), "/url").await;
    refused(json!({ "events": [] }), "/events").await;
    refused(json!({ "events": ["EVERYTHING"] }), "/events/0").await;
    refused(json!({ "secretRef": "" }), "/secretRef").await;
    create(&server, &receiver, "private", json!({ "egressAllow": [] })).await;
    let test = server.post("webhooks/private/test", json!({})).await.expect(200);
    assert_eq!((&test["status"], &test["responseStatus"]), (&json!("PENDING"), &Value::Null), "{test}");
    assert!(receiver.ids().is_empty());
    receiver.stop().await;
}

async fn deliveries_are_hidden_from_members(server: Server) {
    let receiver = Receiver::start().await;
    create(&server, &receiver, "quiet", json!({})).await;
    let member = server.member("reader").await;
    member.get("webhooks/quiet/deliveries").await.problem(403, "forbidden");
    for action in ["test", "pause", "resume"] {
        member.post(&format!("webhooks/quiet/{action}"), json!({})).await.problem(403, "forbidden");
    }
    let other = server.request(Method::POST, "webhooks/none/test");
    server.send(other.json(&json!({}))).await.problem(404, "not-found");
    receiver.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn event_is_delivered_by_another_server_after_the_first_has_stopped() {
    let deployment = Deployment::new(Storage::Sqlite).await;
    let receiver = Receiver::start().await;
    let (server, first) = deployment.start().await;
    create(&server, &receiver, "kept", json!({})).await;
    wait_until_active(&server, "kept").await;
    receiver.respond_with(StatusCode::SERVICE_UNAVAILABLE);
    let run = execute(&server, "probe").await;
    let of_run = |page: &Value| {
        let items = page["items"].as_array().unwrap();
        items.iter().find(|one| one["body"]["data"]["id"] == run.as_str()).cloned()
    };
    let path = "webhooks/kept/deliveries?limit=100";
    server.poll_until(path, |page| of_run(page).is_some_and(|one| one["attempts"] == 1)).await;
    first.stop().await;
    receiver.respond_with(StatusCode::OK);
    let (server, second) = deployment.start().await;
    // The second attempt is due five seconds after the first.
    let page = server.poll_until(path, |page| of_run(page).is_some_and(|one| one["status"] == "DELIVERED")).await;
    assert_eq!(of_run(&page).unwrap()["attempts"], 2);
    second.stop().await;
    deployment.remove().await;
    receiver.stop().await;
}
