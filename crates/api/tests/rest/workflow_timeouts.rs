//! Child runs of steps that exceed their time limit. The instance waits for a signal afterwards, because the end of an
//! instance cancels its child runs anyway.

use serde_json::{Value, json};
use toolwright_testkit::{Faults, LOOPBACK};

use crate::harness::{Server, calls_then};

crate::on_both_databases!(
    workflow_that_waits_is_cancelled_when_the_step_that_runs_it_times_out,
    agent_in_progress_is_cancelled_when_the_step_that_runs_it_times_out,
    child_run_of_each_attempt_is_cancelled_when_the_attempt_times_out,
    child_run_that_is_being_started_is_cancelled_when_its_step_times_out,
);

/// Starts an instance whose step `sub` has these fields. Returns the instance after the step has ended.
async fn start(server: &Server, sub: Value) -> Value {
    let mut step = json!({ "name": "sub", "onError": "continue" });
    step.as_object_mut().unwrap().extend(sub.as_object().unwrap().clone());
    let steps = json!([
        step,
        { "name": "hold", "handlerRef": "quantum.flow.waitForSignal", "input": { "signal": "go" }, "dependsOn": ["sub"] },
    ]);
    server.post("workflows", json!({ "refName": "parent", "steps": steps })).await.expect(201);
    let started = server.post("workflows/parent/execute/durable", json!({})).await.expect(202);
    let path = format!("workflow-instances/{}", started["runId"].as_str().unwrap());
    server.poll_until(&path, |instance| instance["steps"]["hold"]["status"] == "WAITING").await
}

/// Returns the child runs of an instance after all of them have ended.
async fn ended_children(server: &Server, instance: &Value) -> Vec<Value> {
    let path = format!("runs/{}/tree", instance["runId"].as_str().unwrap());
    let has_ended = |tree: &Value| children(tree).iter().all(|child| !child["endedAt"].is_null());
    children(&server.poll_until(&path, has_ended).await)
}

fn children(tree: &Value) -> Vec<Value> {
    tree["root"]["children"].as_array().cloned().unwrap_or_else(|| panic!("no children: {tree}"))
}

/// Continues an instance to its end.
async fn complete(server: &Server, instance: &Value) {
    let path = format!("workflow-instances/{}/signals/go", instance["runId"].as_str().unwrap());
    let done = server.post(&path, json!({})).await.expect(200);
    assert_eq!(done["status"], "COMPLETED", "{done}");
}

/// Creates the workflow `waits`, which waits for a signal that nobody sends.
async fn define_waiting_workflow(server: &Server) {
    let steps = json!([{ "name": "wait", "handlerRef": "quantum.flow.waitForSignal", "input": { "signal": "never" } }]);
    server.post("workflows", json!({ "refName": "waits", "steps": steps })).await.expect(201);
}

async fn workflow_that_waits_is_cancelled_when_the_step_that_runs_it_times_out(server: Server) {
    define_waiting_workflow(&server).await;
    let sub =
        json!({ "handlerRef": "quantum.workflows.execute", "input": { "workflowRef": "waits" }, "timeout": "300ms" });
    let instance = start(&server, sub).await;
    assert_eq!(instance["steps"]["sub"]["error"]["code"], "TIMEOUT", "{instance}");
    let children = ended_children(&server, &instance).await;
    assert_eq!((children.len(), &children[0]["status"]), (1, &json!("CANCELLED")), "{children:?}");
    let child = server.get(&format!("runs/{}", children[0]["id"].as_str().unwrap())).await.expect(200);
    assert_eq!(child["message"], "the call that started the run has timed out", "{child}");
    complete(&server, &instance).await;
}

async fn agent_in_progress_is_cancelled_when_the_step_that_runs_it_times_out(server: Server) {
    let faults = Faults::builder().start(LOOPBACK).await.unwrap();
    server.define_http_tool("slow", &faults.base_url(), "/slow/20000", json!({})).await;
    let calls = calls_then(json!([{ "name": "slow", "arguments": {} }]), "Done.");
    server.define_agent("worker", calls, json!({ "toolRefs": ["slow"] })).await;
    let sub = json!({
        "handlerRef": "quantum.ai.invokeAgent", "input": { "agentRef": "worker", "prompt": "Work." }, "timeout": "500ms",
    });
    let instance = start(&server, sub).await;
    let children = ended_children(&server, &instance).await;
    assert_eq!((children.len(), &children[0]["status"]), (1, &json!("CANCELLED")), "{children:?}");
    complete(&server, &instance).await;
    faults.shutdown().await;
}

async fn child_run_of_each_attempt_is_cancelled_when_the_attempt_times_out(server: Server) {
    define_waiting_workflow(&server).await;
    let sub = json!({
        "handlerRef": "quantum.workflows.execute", "input": { "workflowRef": "waits" }, "timeout": "200ms",
        "retry": { "maxAttempts": 3, "delay": "10ms", "backoff": "none" },
    });
    let instance = start(&server, sub).await;
    assert_eq!(instance["steps"]["sub"]["attempts"], 3, "{instance}");
    let children = ended_children(&server, &instance).await;
    let statuses: Vec<&Value> = children.iter().map(|child| &child["status"]).collect();
    assert_eq!(statuses, ["CANCELLED"; 3], "{children:?}");
    complete(&server, &instance).await;
}

/// Some of the child runs are not started at all.
async fn child_run_that_is_being_started_is_cancelled_when_its_step_times_out(server: Server) {
    define_waiting_workflow(&server).await;
    let sub = json!({
        "handlerRef": "quantum.workflows.execute", "input": { "workflowRef": "waits" }, "timeout": "3ms",
        "forEach": { "items": (0..24).collect::<Vec<_>>(), "concurrency": 3 },
    });
    let instance = start(&server, sub).await;
    let children = ended_children(&server, &instance).await;
    assert!(children.iter().all(|child| child["status"] == "CANCELLED"), "{children:?}");
    complete(&server, &instance).await;
}
