//! Runs of workflows through the REST API.

use serde_json::{Value, json};

use crate::harness::Server;

crate::on_both_databases!(
    workflow_runs_its_steps_and_returns_the_output_and_every_step,
    workflow_input_is_checked_and_gets_the_defaults_of_the_schema,
    step_that_waits_for_a_signal_continues_with_its_payload,
    workflow_can_be_paused_and_resumed,
    failed_workflow_is_retried_with_the_results_of_its_completed_steps,
    single_step_of_a_workflow_runs_alone,
    instance_keeps_its_definition_when_the_workflow_changes,
    approval_step_waits_for_a_person,
    form_step_waits_for_a_client_and_checks_the_filled_form,
    step_can_call_another_workflow,
    workflow_can_be_a_tool,
    step_with_a_disabled_tool_fails_and_the_graph_still_runs,
    workflow_run_of_another_principal_cannot_be_seen_or_retried,
    workflow_runs_are_listed
);

async fn create(server: &Server, name: &str, fields: Value) {
    let mut body = json!({ "refName": name });
    body.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    server.post("workflows", body).await.expect(201);
}

async fn execute(server: &Server, name: &str, input: Value) -> Value {
    server.post(&format!("workflows/{name}/execute"), json!({ "input": input })).await.expect(200)
}

/// Waits until a run has ended.
async fn ended(server: &Server, run: &str) -> Value {
    server.poll_until(&format!("workflow-instances/{run}"), |run| !run["endedAt"].is_null()).await
}

fn statuses(run: &Value) -> String {
    let steps = run["steps"].as_object().unwrap().iter();
    let statuses = steps.map(|(name, step)| format!("{name}={}", step["status"].as_str().unwrap()));
    statuses.collect::<Vec<_>>().join(" ")
}

fn echo(name: &str, input: Value) -> Value {
    json!({ "name": name, "handlerRef": "echo", "input": input })
}

/// A tool that returns its input, and fails unless the input has `ok`.
async fn create_picky_tool(server: &Server) {
    let schema = json!({ "type": "object", "required": ["ok"] });
    server.define_echo("picky", json!({ "inputJsonSchema": schema, "sideEffects": "none" })).await;
}

async fn workflow_runs_its_steps_and_returns_the_output_and_every_step(server: Server) {
    let steps = json!([
        echo("load", json!({ "orders": "${input.orders}" })),
        { "name": "each", "handlerRef": "echo", "forEach": "${load.orders}", "input": { "id": "${item}" }, "dependsOn": ["load"] },
        { "name": "skipped", "handlerRef": "echo", "condition": "${size(input.orders) > 5}", "dependsOn": ["load"] },
        { "name": "total", "handlerRef": "quantum.flow.transform", "input": { "count": "${size(each)}" }, "dependsOn": ["each", "skipped"] },
    ]);
    create(&server, "orders", json!({ "steps": steps, "output": "${total}" })).await;
    let run = execute(&server, "orders", json!({ "orders": ["x", "y"] })).await;
    assert_eq!((&run["status"], &run["output"]), (&json!("COMPLETED"), &json!({ "count": 2 })), "{run}");
    assert_eq!(statuses(&run), "load=COMPLETED each=COMPLETED skipped=SKIPPED total=COMPLETED");
    assert_eq!(run["steps"]["each"]["output"], json!([{ "id": "x" }, { "id": "y" }]));
    assert_eq!(run["steps"]["each"]["items"][1]["status"], "COMPLETED");
    let id = run["runId"].as_str().unwrap();
    let instance = server.get(&format!("workflow-instances/{id}")).await.expect(200);
    assert_eq!((&instance["kind"], &instance["subject"]), (&json!("workflow"), &json!("orders")));
    assert_eq!((&instance["steps"], &instance["durable"]), (&run["steps"], &json!(true)));
    // The run has the same journal and the same routes as any other run.
    let journal = server.get(&format!("runs/{id}/journal")).await.expect(200);
    assert_eq!(journal["items"][0]["kind"], "started", "{journal}");
    assert_eq!(server.get(&format!("runs/{id}")).await.expect(200)["responseText"], "{\"count\":2}");
    assert_eq!(server.get(&format!("runs/{id}/state")).await.expect(200)["status"], "COMPLETED");
    server.get("workflow-instances/run_00000000000000000000000007").await.problem(404, "not-found");
}

async fn workflow_input_is_checked_and_gets_the_defaults_of_the_schema(server: Server) {
    let schema = json!({
        "type": "object", "required": ["n"], "additionalProperties": false,
        "properties": { "n": { "type": "integer" }, "unit": { "type": "string", "default": "kg" } },
    });
    let steps = json!([echo("a", json!({ "text": "${string(input.n) + ' ' + input.unit}" }))]);
    create(&server, "weigh", json!({ "inputSchema": schema, "steps": steps })).await;
    let run = execute(&server, "weigh", json!({ "n": 3 })).await;
    assert_eq!(run["output"], json!({ "a": { "text": "3 kg" } }), "{run}");
    let body = json!({ "input": { "n": "three", "m": 1 } });
    let problem = server.post("workflows/weigh/execute", body).await.problem(400, "invalid-request");
    assert!(problem["errors"].as_array().unwrap().iter().any(|error| error["path"] == "/input/n"), "{problem}");
    server.post("workflows/none/execute", json!({})).await.problem(404, "not-found");
    server.patch("workflows/weigh", json!({ "enabled": false })).await.expect(200);
    server.post("workflows/weigh/execute", json!({ "input": { "n": 1 } })).await.problem(409, "workflow-disabled");
}

async fn step_that_waits_for_a_signal_continues_with_its_payload(server: Server) {
    let steps = json!([
        { "name": "paid", "handlerRef": "quantum.flow.waitForSignal", "input": { "signal": "payment" } },
        { "name": "ship", "handlerRef": "echo", "input": { "amount": "${paid.amount}" }, "dependsOn": ["paid"] },
    ]);
    create(&server, "ship", json!({ "steps": steps })).await;
    let run = execute(&server, "ship", json!({})).await;
    assert_eq!((&run["status"], &run["steps"]["paid"]["signal"]), (&json!("WAITING"), &json!("payment")), "{run}");
    let id = run["runId"].as_str().unwrap();
    let done =
        server.post(&format!("workflow-instances/{id}/signals/payment"), json!({ "amount": 7 })).await.expect(200);
    assert_eq!((&done["status"], &done["output"]), (&json!("COMPLETED"), &json!({ "ship": { "amount": 7 } })));
    let late = server.post(&format!("workflow-instances/{id}/signals/payment"), json!({})).await;
    late.problem(409, "run-ended");
}

async fn workflow_can_be_paused_and_resumed(server: Server) {
    let steps = json!([
        { "name": "wait", "handlerRef": "quantum.flow.waitForSignal", "input": { "signal": "go" } },
        { "name": "after", "handlerRef": "echo", "dependsOn": ["wait"] },
    ]);
    create(&server, "pausable", json!({ "steps": steps })).await;
    let run = execute(&server, "pausable", json!({})).await;
    let path = format!("workflow-instances/{}", run["runId"].as_str().unwrap());
    let paused = server.post(&format!("{path}/pause"), json!({})).await.expect(200);
    assert_eq!((&paused["status"], &paused["paused"]), (&json!("PAUSED"), &json!(true)));
    let signalled = server.post(&format!("{path}/signals/go"), json!({})).await.expect(200);
    assert_eq!((&signalled["status"], &signalled["steps"]["after"]["status"]), (&json!("PAUSED"), &json!("PENDING")));
    let done = server.post(&format!("{path}/resume"), json!({})).await.expect(200);
    assert_eq!(done["status"], "COMPLETED");
    // A run without a workflow cannot be paused.
    let direct = server.post("tools/echo/execute", json!({ "input": {} })).await.expect(200);
    assert!(direct["error"].is_null(), "{direct}");
    let runs = server.get("runs?kind=tool").await.expect(200);
    let run = runs["items"][0]["id"].as_str().unwrap();
    server.post(&format!("workflow-instances/{run}/pause"), json!({})).await.problem(409, "run-ended");
}

async fn failed_workflow_is_retried_with_the_results_of_its_completed_steps(server: Server) {
    create_picky_tool(&server).await;
    let steps = json!([
        echo("first", json!({ "n": 1 })),
        { "name": "each", "handlerRef": "picky", "forEach": "${input.items}", "input": "${item}", "dependsOn": ["first"] },
        { "name": "last", "handlerRef": "echo", "input": { "results": "${each}" }, "dependsOn": ["each"] },
    ]);
    create(&server, "flaky", json!({ "steps": steps })).await;
    let failed = execute(&server, "flaky", json!({ "items": [{ "ok": 1 }, { "no": 2 }] })).await;
    assert_eq!((&failed["status"], &failed["reason"]), (&json!("ERROR"), &json!("step_failed")), "{failed}");
    assert_eq!(statuses(&failed), "first=COMPLETED each=FAILED last=PENDING");
    let id = failed["runId"].as_str().unwrap();
    server.patch("tools/picky", json!({ "inputJsonSchema": { "required": [] } })).await.expect(200);
    let retried = server.post(&format!("workflow-instances/{id}/retry"), json!({})).await.expect(200);
    assert_eq!(retried["output"], json!({ "last": { "results": [{ "ok": 1 }, { "no": 2 }] } }), "{retried}");
    assert_eq!(
        (&retried["steps"]["first"]["reused"], &retried["steps"]["each"]["items"][0]["attempts"]),
        (&json!(true), &json!(0))
    );
    let retried_id = retried["runId"].as_str().unwrap();
    let instance = server.get(&format!("workflow-instances/{retried_id}")).await.expect(200);
    assert_eq!(instance["forkedFrom"]["runId"], id);

    let again = format!("workflow-instances/{retried_id}/retry");
    server.post(&again, json!({})).await.problem(400, "invalid-request");
    server.post(&again, json!({ "fromStep": "none" })).await.problem(400, "invalid-request");
    let from = server.post(&again, json!({ "fromStep": "each" })).await.expect(200);
    assert_eq!((&from["output"], &from["steps"]["each"]["attempts"]), (&retried["output"], &json!(2)), "{from}");
}

async fn single_step_of_a_workflow_runs_alone(server: Server) {
    let steps = json!([
        echo("a", json!({ "n": "${input.n}" })),
        { "name": "b", "handlerRef": "echo", "input": { "n": "${a.n}" }, "dependsOn": ["a"] },
    ]);
    create(&server, "pair", json!({ "steps": steps })).await;
    let body = json!({ "input": { "n": 1 }, "onlyStep": "b" });
    let alone = server.post("workflows/pair/execute", body).await.expect(200);
    assert_eq!(
        (statuses(&alone).as_str(), &alone["output"]),
        ("a=SKIPPED b=COMPLETED", &json!({ "b": { "n": null } }))
    );
    let whole = execute(&server, "pair", json!({ "n": 4 })).await;
    let path = format!("workflow-instances/{}/retry", whole["runId"].as_str().unwrap());
    let again = server.post(&path, json!({ "onlyStep": "b" })).await.expect(200);
    assert_eq!((&again["steps"]["a"]["reused"], &again["output"]), (&json!(true), &json!({ "b": { "n": 4 } })));
    let body = json!({ "onlyStep": "c" });
    server.post("workflows/pair/execute", body).await.problem(400, "invalid-request");
}

async fn instance_keeps_its_definition_when_the_workflow_changes(server: Server) {
    let steps = |output: &str| {
        json!([
            { "name": "wait", "handlerRef": "quantum.flow.waitForSignal", "input": { "signal": "go" } },
            { "name": "after", "handlerRef": "quantum.flow.transform", "input": output, "dependsOn": ["wait"] },
        ])
    };
    create(&server, "stable", json!({ "version": "1.0.0", "steps": steps("old") })).await;
    let run = execute(&server, "stable", json!({})).await;
    let changed = json!({ "refName": "stable", "version": "1.0.0", "steps": steps("new") });
    server.put("workflows/stable", changed).await.expect(200);
    let path = format!("workflow-instances/{}", run["runId"].as_str().unwrap());
    let done = server.post(&format!("{path}/signals/go"), json!({})).await.expect(200);
    assert_eq!(done["output"], json!({ "after": "old" }));
    assert_eq!(done["definitionHash"], run["definitionHash"]);
    let latest =
        server.post(&format!("{path}/retry"), json!({ "fromStep": "after", "latest": true })).await.expect(200);
    assert_eq!(latest["output"], json!({ "after": "new" }));
}

async fn approval_step_waits_for_a_person(server: Server) {
    let steps = json!([
        { "name": "ask", "handlerRef": "quantum.flow.approval", "input": { "message": "Ship it?", "orders": "${input.orders}" },
          "onError": { "branch": { "POLICY_DENIED": "refused" } } },
        { "name": "ship", "handlerRef": "echo", "input": { "orders": "${ask.orders}" }, "dependsOn": ["ask"] },
        echo("refused", json!({ "why": "${steps.ask.error.message}" })),
    ]);
    create(&server, "ask", json!({ "steps": steps })).await;
    let run = execute(&server, "ask", json!({ "orders": [1] })).await;
    assert_eq!(
        (&run["status"], &run["steps"]["ask"]["status"]),
        (&json!("AWAITING_APPROVAL"), &json!("WAITING")),
        "{run}"
    );
    let (id, approval) = (run["runId"].as_str().unwrap(), &run["approvals"][0]);
    assert_eq!(
        (&approval["toolRef"], &approval["input"]["message"]),
        (&json!("quantum.flow.approval"), &json!("Ship it?"))
    );
    let decide = format!("runs/{id}/approvals/{}", approval["callId"].as_str().unwrap());
    server.post(&decide, json!({ "decision": "approve" })).await.expect(200);
    let done = server.get(&format!("workflow-instances/{id}")).await.expect(200);
    assert_eq!((&done["status"], &done["steps"]["ship"]["output"]), (&json!("COMPLETED"), &json!({ "orders": [1] })));

    let run = execute(&server, "ask", json!({ "orders": [2] })).await;
    let (id, call) = (run["runId"].as_str().unwrap(), run["approvals"][0]["callId"].as_str().unwrap());
    let body = json!({ "decision": "deny", "reason": "not today" });
    server.post(&format!("runs/{id}/approvals/{call}"), body).await.expect(200);
    let done = server.get(&format!("workflow-instances/{id}")).await.expect(200);
    assert_eq!(done["output"]["refused"], json!({ "why": "not today" }), "{done}");
}

async fn form_step_waits_for_a_client_and_checks_the_filled_form(server: Server) {
    let schema = json!({ "type": "object", "required": ["size"], "properties": { "size": { "type": "integer" } } });
    let steps = json!([
        { "name": "form", "handlerRef": "quantum.flow.form", "input": { "title": "Size?", "schema": schema }, "onError": "continue" },
        { "name": "after", "handlerRef": "quantum.flow.transform", "input": "${steps.form.error == null ? form.size : -1}", "dependsOn": ["form"] },
    ]);
    create(&server, "form", json!({ "steps": steps })).await;
    for (output, expected) in [(json!({ "size": 4 }), 4), (json!({ "size": "big" }), -1)] {
        let run = execute(&server, "form", json!({})).await;
        assert_eq!(run["status"], "AWAITING_CLIENT", "{run}");
        let (id, action) = (run["runId"].as_str().unwrap(), &run["clientActions"][0]);
        assert_eq!(action["schema"], schema, "{action}");
        let body = json!({ "results": [{ "callId": action["callId"], "output": output }] });
        server.post(&format!("runs/{id}/tool-results"), body).await.expect(200);
        let done = server.get(&format!("workflow-instances/{id}")).await.expect(200);
        assert_eq!(done["output"], json!({ "after": expected }), "{done}");
    }
}

async fn step_can_call_another_workflow(server: Server) {
    create(&server, "inner", json!({ "steps": [echo("a", json!({ "n": "${input.n + 1}" }))], "output": "${a}" })).await;
    let steps = json!([
        { "name": "sub", "handlerRef": "quantum.workflows.execute", "input": { "workflowRef": "inner", "input": { "n": 1 } } },
        { "name": "after", "handlerRef": "echo", "input": { "n": "${sub.n + 10}" }, "dependsOn": ["sub"] },
    ]);
    create(&server, "outer", json!({ "steps": steps })).await;
    let run = execute(&server, "outer", json!({})).await;
    assert_eq!((&run["status"], &run["output"]), (&json!("COMPLETED"), &json!({ "after": { "n": 12 } })), "{run}");
    let tree = server.get(&format!("runs/{}/tree", run["runId"].as_str().unwrap())).await.expect(200);
    assert!(tree.to_string().contains("inner"), "{tree}");

    // A child workflow that waits suspends its parent, and continues it.
    let steps = json!([{ "name": "wait", "handlerRef": "quantum.flow.waitForSignal", "input": { "signal": "go" } }]);
    create(&server, "slow", json!({ "steps": steps })).await;
    let steps =
        json!([{ "name": "sub", "handlerRef": "quantum.workflows.execute", "input": { "workflowRef": "slow" } }]);
    create(&server, "parent", json!({ "steps": steps })).await;
    let run = execute(&server, "parent", json!({})).await;
    assert_eq!(run["status"], "WAITING", "{run}");
    let child = run["waitingChildRuns"][0]["runId"].as_str().unwrap();
    server.post(&format!("workflow-instances/{child}/signals/go"), json!({ "done": true })).await.expect(200);
    let id = run["runId"].as_str().unwrap();
    let done = ended(&server, id).await;
    assert_eq!(done["output"], json!({ "sub": { "wait": { "done": true } } }));
}

async fn workflow_can_be_a_tool(server: Server) {
    let steps = json!([echo("a", json!({ "ids": "${input.orderIds}" }))]);
    create(&server, "order-fulfillment-standard", json!({ "steps": steps, "output": "${a}" })).await;
    // The example of the specification.
    let tool = json!({
        "refName": "execute_fulfillment_workflow", "name": "execute_fulfillment_workflow",
        "description": "Triggers the standard order fulfillment workflow for a set of order IDs",
        "toolType": "FUNCTION",
        "invocation": {
            "path": "quantum.workflows.execute",
            "bodyTemplate": { "workflowRef": "order-fulfillment-standard", "input": { "orderIds": "${orderIds}" } },
        },
        "hasSideEffects": true, "requiresConfirmation": true,
    });
    server.post("tools", tool).await.expect(201);
    let steps = json!([{ "name": "run", "handlerRef": "execute_fulfillment_workflow", "input": { "orderIds": [7] } }]);
    create(&server, "caller", json!({ "steps": steps })).await;
    let run = execute(&server, "caller", json!({})).await;
    assert_eq!(run["status"], "AWAITING_APPROVAL", "{run}");
    let (id, call) = (run["runId"].as_str().unwrap(), run["approvals"][0]["callId"].as_str().unwrap());
    server.post(&format!("runs/{id}/approvals/{call}"), json!({ "decision": "approve" })).await.expect(200);
    let done = server.get(&format!("workflow-instances/{id}")).await.expect(200);
    assert_eq!(done["output"], json!({ "run": { "ids": [7] } }), "{done}");

    let tool = json!({
        "refName": "fulfil", "toolType": "WORKFLOW", "description": "Fulfils orders.",
        "invocation": { "path": "order-fulfillment-standard" },
        "inputJsonSchema": { "type": "object", "properties": { "orderIds": { "type": "array" } } },
    });
    server.post("tools", tool).await.expect(201);
    let direct = server.post("tools/fulfil/execute", json!({ "input": { "orderIds": [8] } })).await.expect(200);
    assert_eq!(direct["output"], json!({ "ids": [8] }), "{direct}");
}

async fn step_with_a_disabled_tool_fails_and_the_graph_still_runs(server: Server) {
    create_picky_tool(&server).await;
    let steps = json!([
        { "name": "a", "handlerRef": "picky", "input": { "ok": 1 }, "onError": { "branch": { "POLICY_DENIED": "without" } } },
        echo("without", json!({ "code": "${steps.a.error.code}" })),
    ]);
    create(&server, "robust", json!({ "steps": steps })).await;
    assert_eq!(statuses(&execute(&server, "robust", json!({})).await), "a=COMPLETED without=SKIPPED");
    server.patch("tools/picky", json!({ "enabled": false })).await.expect(200);
    let run = execute(&server, "robust", json!({})).await;
    assert_eq!(run["output"], json!({ "without": { "code": "POLICY_DENIED" } }), "{run}");
    server.delete("tools/picky?force=true").await;
    let run = execute(&server, "robust", json!({})).await;
    assert_eq!(statuses(&run), "a=FAILED without=COMPLETED");
}

async fn workflow_run_of_another_principal_cannot_be_seen_or_retried(server: Server) {
    create(&server, "mine", json!({ "steps": [echo("a", json!({}))] })).await;
    let run = execute(&server, "mine", json!({})).await;
    let member = server.member("member").await;
    assert_eq!(execute(&member, "mine", json!({})).await["status"], "COMPLETED");
    let path = format!("workflow-instances/{}", run["runId"].as_str().unwrap());
    member.get(&path).await.problem(404, "not-found");
    member.post(&format!("{path}/retry"), json!({ "fromStep": "a" })).await.problem(404, "not-found");
    member.post(&format!("{path}/signals/go"), json!({})).await.problem(404, "not-found");
}

async fn workflow_runs_are_listed(server: Server) {
    create(&server, "one", json!({ "steps": [echo("a", json!({}))] })).await;
    create(&server, "two", json!({ "steps": [echo("a", json!({}))] })).await;
    for name in ["one", "two", "one"] {
        execute(&server, name, json!({})).await;
    }
    let count = |page: &Value| page["items"].as_array().unwrap().len();
    assert_eq!(count(&server.get("workflow-instances").await.expect(200)), 3);
    assert_eq!(count(&server.get("workflow-instances?workflowRef=one").await.expect(200)), 2);
    assert_eq!(count(&server.get("runs?kind=workflow").await.expect(200)), 3);
    assert_eq!(count(&server.get("runs?kind=agent").await.expect(200)), 0);
    server.get("workflow-instances?kind=agent").await.problem(400, "invalid-request");
    let started = server.post("workflows/two/execute/durable", json!({})).await;
    let location = started.headers["location"].to_str().unwrap().to_owned();
    let id = started.expect(202)["runId"].as_str().unwrap().to_owned();
    assert_eq!(location, format!("/api/v1/ai/workflow-instances/{id}"));
    assert_eq!(ended(&server, &id).await["status"], "COMPLETED");
}
