//! Instances of workflows that wait while the server restarts.

use serde_json::{Value, json};

use crate::harness::{Deployment, RunningServer, Server, Storage};

/// Generates two tests from each function, one on SQLite and one on Postgres with Redis.
macro_rules! with_both_deployments {
    ($($name:ident),* $(,)?) => {
        mod sqlite {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                let deployment = super::Deployment::new(super::Storage::Sqlite).await;
                super::$name(&deployment).await;
                deployment.remove().await;
            })*
        }
        mod postgres {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                let deployment = super::Deployment::new(super::Storage::PostgresAndRedis).await;
                super::$name(&deployment).await;
                deployment.remove().await;
            })*
        }
    };
}

with_both_deployments!(
    step_that_waits_for_a_signal_survives_a_restart,
    signal_that_no_step_awaits_survives_a_restart,
    step_that_waits_for_an_approval_survives_a_restart,
    step_that_sleeps_survives_a_restart,
    paused_workflow_survives_a_restart,
    parent_of_a_waiting_workflow_survives_a_restart,
);

/// An instance of a workflow, and the server that currently runs.
struct Instance {
    server: Server,
    running: RunningServer,
    run: String,
}

impl Instance {
    /// Starts a server and an instance with the steps `before`, `wait` and `after`. `wait` has the handler and the
    /// input in `waiting`.
    async fn start(deployment: &Deployment, waiting: &Value) -> Self {
        let (server, running) = deployment.start().await;
        let wait = json!({ "name": "wait", "handlerRef": waiting["handlerRef"], "input": waiting["input"], "dependsOn": ["before"] });
        let steps = json!([
            { "name": "before", "handlerRef": "echo", "input": { "n": "${input.n}" } },
            wait,
            { "name": "after", "handlerRef": "echo", "input": { "n": "${before.n}", "got": "${wait}" }, "dependsOn": ["wait"] },
        ]);
        server.post("workflows", json!({ "refName": "order", "steps": steps })).await.expect(201);
        let body = json!({ "input": { "n": 7 } });
        let started = server.post("workflows/order/execute/durable", body).await.expect(202);
        Self { server, running, run: started["runId"].as_str().unwrap().to_owned() }
    }

    fn path(&self, action: &str) -> String {
        format!("workflow-instances/{}{action}", self.run)
    }

    /// Waits until the instance has this status.
    async fn reaches(&self, status: &str) -> Value {
        self.server.poll_until(&self.path(""), |instance| instance["status"] == status).await
    }

    async fn restart(self, deployment: &Deployment) -> Self {
        self.running.stop().await;
        let (server, running) = deployment.start().await;
        Self { server, running, run: self.run }
    }

    /// Waits until the instance has completed with this output of `wait`. Each step must have run once.
    async fn completes_with(self, got: Value) {
        let done = self.reaches("COMPLETED").await;
        assert_eq!(done["output"], json!({ "after": { "n": 7, "got": got } }), "{done}");
        for name in ["before", "wait", "after"] {
            assert_eq!(done["steps"][name]["attempts"], 1, "{name}: {done}");
        }
        assert_eq!(self.server.get(&format!("runs/{}/verify", self.run)).await.expect(200)["intact"], true);
        self.running.stop().await;
    }
}

async fn step_that_waits_for_a_signal_survives_a_restart(deployment: &Deployment) {
    let waiting = json!({ "handlerRef": "quantum.flow.waitForSignal", "input": { "signal": "payment" } });
    let instance = Instance::start(deployment, &waiting).await;
    instance.reaches("WAITING").await;
    let instance = instance.restart(deployment).await;
    let restored = instance.reaches("WAITING").await;
    assert_eq!(restored["steps"]["wait"]["signal"], "payment", "{restored}");
    instance.server.post(&instance.path("/signals/payment"), json!({ "usd": 5 })).await.expect(200);
    instance.completes_with(json!({ "usd": 5 })).await;
}

/// The step that receives the signal has not started when the server stops.
async fn signal_that_no_step_awaits_survives_a_restart(deployment: &Deployment) {
    let (server, running) = deployment.start().await;
    let steps = json!([
        { "name": "ask", "handlerRef": "quantum.flow.approval", "input": { "message": "Go?" } },
        { "name": "wait", "handlerRef": "quantum.flow.waitForSignal", "input": { "signal": "payment" }, "dependsOn": ["ask"] },
    ]);
    server.post("workflows", json!({ "refName": "later", "steps": steps })).await.expect(201);
    let started = server.post("workflows/later/execute", json!({})).await.expect(200);
    let instance = Instance { server, running, run: started["runId"].as_str().unwrap().to_owned() };
    instance.server.post(&instance.path("/signals/payment"), json!({ "usd": 5 })).await.expect(200);
    let instance = instance.restart(deployment).await;
    instance.server.decide(&started, 0, json!({ "decision": "approve" })).await.expect(200);
    let done = instance.reaches("COMPLETED").await;
    assert_eq!(done["output"], json!({ "wait": { "usd": 5 } }), "{done}");
    instance.running.stop().await;
}

async fn step_that_waits_for_an_approval_survives_a_restart(deployment: &Deployment) {
    let waiting = json!({ "handlerRef": "quantum.flow.approval", "input": { "message": "Ship ${before.n}?" } });
    let instance = Instance::start(deployment, &waiting).await;
    let asked = instance.reaches("AWAITING_APPROVAL").await;
    let instance = instance.restart(deployment).await;
    let restored = instance.reaches("AWAITING_APPROVAL").await;
    assert_eq!(restored["approvals"], asked["approvals"]);
    instance.server.decide(&restored, 0, json!({ "decision": "approve" })).await.expect(200);
    instance.completes_with(json!({ "message": "Ship 7?" })).await;
}

async fn step_that_sleeps_survives_a_restart(deployment: &Deployment) {
    let waiting = json!({ "handlerRef": "quantum.flow.sleep", "input": { "duration": "2s" } });
    let instance = Instance::start(deployment, &waiting).await;
    let asleep = instance.reaches("WAITING").await;
    let wakes_at = asleep["steps"]["wait"]["wakesAt"].clone();
    assert!(wakes_at.is_string(), "{asleep}");
    let instance = instance.restart(deployment).await;
    instance.completes_with(json!({ "until": wakes_at })).await;
}

async fn paused_workflow_survives_a_restart(deployment: &Deployment) {
    let waiting = json!({ "handlerRef": "quantum.flow.waitForSignal", "input": { "signal": "payment" } });
    let instance = Instance::start(deployment, &waiting).await;
    instance.reaches("WAITING").await;
    instance.server.post(&instance.path("/pause"), json!({})).await.expect(200);
    let instance = instance.restart(deployment).await;
    instance.reaches("PAUSED").await;
    let signalled = instance.server.post(&instance.path("/signals/payment"), json!(5)).await.expect(200);
    assert_eq!(
        (&signalled["status"], &signalled["steps"]["after"]["status"]),
        (&json!("PAUSED"), &json!("PENDING")),
        "{signalled}"
    );
    let instance = instance.restart(deployment).await;
    instance.reaches("PAUSED").await;
    instance.server.post(&instance.path("/resume"), json!({})).await.expect(200);
    instance.completes_with(json!(5)).await;
}

async fn parent_of_a_waiting_workflow_survives_a_restart(deployment: &Deployment) {
    let waiting = json!({ "handlerRef": "quantum.workflows.execute", "input": { "workflowRef": "payment" } });
    let (server, running) = deployment.start().await;
    let steps =
        json!([{ "name": "paid", "handlerRef": "quantum.flow.waitForSignal", "input": { "signal": "payment" } }]);
    let payment = json!({ "refName": "payment", "steps": steps, "output": "${paid}" });
    server.post("workflows", payment).await.expect(201);
    running.stop().await;
    let instance = Instance::start(deployment, &waiting).await;
    let waiting = instance.reaches("WAITING").await;
    let child = waiting["waitingChildRuns"][0]["runId"].as_str().unwrap().to_owned();
    let instance = instance.restart(deployment).await;
    let signal = format!("workflow-instances/{child}/signals/payment");
    instance.server.post(&signal, json!({ "usd": 5 })).await.expect(200);
    instance.completes_with(json!({ "usd": 5 })).await;
}
