//! Workflows with agents inside: the outputs and pins of an agent are data of its step, whatever the agent does.

use serde_json::{Value, json};

use crate::harness::{Server, calls_then};

crate::on_sqlite!(
    agent_step_has_the_outputs_and_the_pins_of_the_agent,
    step_after_a_failed_agent_reads_its_outputs_from_the_error,
    pin_of_a_disabled_tool_is_null_and_the_workflow_still_runs,
    agent_step_that_waits_for_an_approval_suspends_the_workflow,
    workflow_survives_two_hundred_changes_of_its_agents_and_tools
);

const AGENT_STEP: &str = "quantum.ai.invokeAgent";

/// Creates the agent `finder`, which calls the tool `search` and has a pin for its result.
async fn define_finder(server: &Server) {
    server.define_echo("search", json!({ "sideEffects": "reads" })).await;
    let calls = json!([{ "name": "search", "arguments": { "q": "acme" } }]);
    let pins = json!([{ "name": "deals", "selector": { "tool": "search" } }]);
    server.define_agent("finder", calls_then(calls, "Found."), json!({ "toolRefs": ["search"], "pins": pins })).await;
}

async fn define_workflow(server: &Server, name: &str, steps: Value) {
    server.post("workflows", json!({ "refName": name, "steps": steps })).await.expect(201);
}

async fn execute(server: &Server, name: &str, input: Value) -> Value {
    server.post(&format!("workflows/{name}/execute"), json!({ "input": input })).await.expect(200)
}

fn find_step() -> Value {
    let input =
        json!({ "agentRef": "finder", "prompt": "Find ${input.name}.", "context": { "name": "${input.name}" } });
    json!({ "name": "find", "handlerRef": AGENT_STEP, "input": input })
}

async fn agent_step_has_the_outputs_and_the_pins_of_the_agent(server: Server) {
    define_finder(&server).await;
    let steps = json!([
        find_step(),
        { "name": "use", "handlerRef": "quantum.flow.transform", "dependsOn": ["find"],
          "input": { "answer": "${find.response}", "q": "${find.pins.deals.output.q}", "calls": "${size(find.tool_order)}" } },
    ]);
    define_workflow(&server, "with_agent", steps).await;
    let run = execute(&server, "with_agent", json!({ "name": "Acme" })).await;
    assert_eq!(run["output"], json!({ "use": { "answer": "Found.", "q": "acme", "calls": 1 } }), "{run}");
    let find = &run["steps"]["find"]["output"];
    for field in ["response", "tools_by_id", "tool_order", "last_tool", "traces_url", "pins", "status", "runId"] {
        assert!(find.get(field).is_some(), "{field}: {find}");
    }
    let child = server.get(&format!("runs/{}", find["runId"].as_str().unwrap())).await.expect(200);
    assert_eq!((&child["subject"], &child["parentRunId"]), (&json!("finder"), &run["runId"]));
}

async fn step_after_a_failed_agent_reads_its_outputs_from_the_error(server: Server) {
    server.define_agent("broken", json!([]), json!({})).await;
    let steps = json!([
        { "name": "ask", "handlerRef": AGENT_STEP, "input": { "agentRef": "broken", "prompt": "Answer." }, "onError": "continue" },
        { "name": "after", "handlerRef": "quantum.flow.transform", "dependsOn": ["ask"],
          "input": { "code": "${steps.ask.error.code}", "status": "${steps.ask.error.details.outputs.status}" } },
    ]);
    define_workflow(&server, "w", steps).await;
    let run = execute(&server, "w", json!({})).await;
    assert_eq!(run["output"], json!({ "after": { "code": "PROVIDER_ERROR", "status": "ERROR" } }), "{run}");
    server.patch("agents/broken", json!({ "enabled": false })).await.expect(200);
    let run = execute(&server, "w", json!({})).await;
    assert_eq!(run["output"]["after"]["code"], "POLICY_DENIED", "{run}");
}

async fn pin_of_a_disabled_tool_is_null_and_the_workflow_still_runs(server: Server) {
    define_finder(&server).await;
    let steps = json!([
        find_step(),
        { "name": "use", "handlerRef": "quantum.flow.transform", "dependsOn": ["find"],
          "input": { "pin": "${find.pins.deals}", "missing": "${find.pins.deals.output.q}" } },
    ]);
    define_workflow(&server, "w", steps).await;
    server.patch("tools/search", json!({ "enabled": false })).await.expect(200);
    let run = execute(&server, "w", json!({ "name": "Acme" })).await;
    assert_eq!(run["output"], json!({ "use": { "pin": null, "missing": null } }), "{run}");
}

async fn agent_step_that_waits_for_an_approval_suspends_the_workflow(server: Server) {
    server.define_echo("pay", json!({ "sideEffects": "writes", "requiresConfirmation": true })).await;
    let calls = json!([{ "name": "pay", "arguments": { "amount": 5 } }]);
    server.define_agent("payer", calls_then(calls, "Paid."), json!({ "toolRefs": ["pay"] })).await;
    let steps = json!([
        { "name": "pay", "handlerRef": AGENT_STEP, "input": { "agentRef": "payer", "prompt": "Pay." } },
        { "name": "after", "handlerRef": "echo", "input": { "answer": "${pay.response}" }, "dependsOn": ["pay"] },
    ]);
    define_workflow(&server, "w", steps).await;
    let run = execute(&server, "w", json!({})).await;
    assert_eq!(
        (&run["status"], &run["steps"]["pay"]["status"]),
        (&json!("AWAITING_APPROVAL"), &json!("WAITING")),
        "{run}"
    );
    server.decide(&run, 0, json!({ "decision": "approve" })).await.expect(200);
    let path = format!("workflow-instances/{}", run["runId"].as_str().unwrap());
    let done = server.poll_until(&path, |run| !run["endedAt"].is_null()).await;
    assert_eq!(done["output"], json!({ "after": { "answer": "Paid." } }), "{done}");
}

/// A generator of pseudo-random numbers with a fixed seed.
struct Random(u64);

impl Random {
    fn below(&mut self, most: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % most
    }
}

async fn workflow_survives_two_hundred_changes_of_its_agents_and_tools(server: Server) {
    define_finder(&server).await;
    server.define_echo("save", json!({ "sideEffects": "writes" })).await;
    server
        .post(
            "step-registrations",
            json!({ "name": "keep", "toolRef": "save", "inputMapping": { "value": "${input.what}" } }),
        )
        .await
        .expect(201);
    server
        .post("condition-bindings", json!({ "name": "wanted", "condition": "${input.name != 'none'}" }))
        .await
        .expect(201);
    let steps = json!([
        { "name": "find", "handlerRef": AGENT_STEP, "input": find_step()["input"], "conditionRef": "wanted", "onError": "continue" },
        { "name": "store", "handlerRef": "keep", "input": { "what": "${find.pins.deals.output}" }, "dependsOn": ["find"],
          "onError": { "branch": { "default": "report" } } },
        { "name": "report", "handlerRef": "quantum.flow.transform", "input": { "code": "${steps.store.error.code}" } },
        { "name": "last", "handlerRef": "quantum.flow.join", "dependsOn": ["find", "store", "report"] },
    ]);
    define_workflow(&server, "robust", steps).await;
    let saved = server.get("workflows/robust").await.expect(200);
    let mut random = Random(7);
    let mut seen = std::collections::BTreeSet::new();
    for change in 0..200 {
        let on = random.below(2) == 0;
        let (path, patch) = match random.below(9) {
            0 => ("tools/search", json!({ "enabled": on })),
            1 => ("tools/save", json!({ "enabled": on })),
            2 => ("tools/search", json!({ "status": if on { "active" } else { "deprecated" } })),
            3 => ("tools/save", json!({ "status": if on { "active" } else { "blocked" } })),
            4 => ("agents/finder", json!({ "enabled": on })),
            5 => ("agents/finder", json!({ "toolRefs": if on { json!(["search"]) } else { json!([]) } })),
            6 => ("agents/finder", json!({ "policy": { "sideEffects": if on { "writes" } else { "none" } } })),
            7 => (
                "tools/save",
                json!({ "inputJsonSchema": if on { json!({ "type": "object", "required": [] }) } else { json!({ "type": "object", "required": ["other"] }) } }),
            ),
            _ => (
                "condition-bindings/wanted",
                json!({ "condition": if on { "${true}" } else { "${input.name != 'none'}" } }),
            ),
        };
        server.patch(path, patch.clone()).await.expect(200);
        assert_eq!(server.get("workflows/robust").await.expect(200), saved, "change {change}: {path} {patch}");
        let check = server.post("workflows/robust/check", json!({})).await.expect(200);
        assert!(check["issues"].is_array(), "{check}");
        let run = execute(&server, "robust", json!({ "name": "Acme" })).await;
        assert_eq!(run["status"], "COMPLETED", "change {change}: {path} {patch}: {run}");
        let (steps, output) = (run["steps"].as_object().unwrap(), &run["output"]["last"]);
        assert_eq!(steps.keys().collect::<Vec<_>>(), ["find", "store", "report", "last"]);
        assert_eq!(output.as_object().unwrap().len(), 3, "every handle is present: {output}");
        if steps["find"]["status"] == "COMPLETED" {
            assert!(steps["find"]["output"]["pins"].get("deals").is_some(), "{run}");
        }
        seen.insert(format!("{} {}", steps["find"]["status"], steps["store"]["status"]));
    }
    let expected = ["COMPLETED", "FAILED"]
        .iter()
        .flat_map(|find| ["COMPLETED", "FAILED"].map(|store| format!("\"{find}\" \"{store}\"")));
    assert_eq!(seen, expected.collect(), "the changes must lead to every combination");
}
