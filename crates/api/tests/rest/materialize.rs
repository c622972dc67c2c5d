//! Workflows that are made from recorded runs.

use serde_json::{Value, json};

use crate::harness::{Server, calls_then, envelopes};

crate::on_both_databases!(
    run_of_an_agent_becomes_a_workflow_with_the_same_calls_and_output,
    one_call_becomes_a_workflow_with_its_exact_input,
    pinned_call_becomes_a_workflow,
    redacted_values_and_truncated_outputs_are_reported_and_never_copied,
    invalid_requests_are_refused_and_nothing_is_saved,
    only_the_owner_of_a_run_materializes_it
);

const MESSAGE: &str = "Ship order ord-2024-17, please.";
const BODY: &str = "Dear Ada, thank you for your order. It has left our house today and arrives soon.";

/// Defines a tool that returns the value of a template over its input.
async fn define_tool(server: &Server, name: &str, required: &str, output: Value, more: Value) {
    let mut tool = json!({
        "invocation": { "path": "echo", "bodyTemplate": output },
        "inputJsonSchema": { "type": "object", "required": [required] },
    });
    tool.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    server.define_echo(name, tool).await;
}

/// Defines an agent that loads an order, after one invalid attempt, prints a label and sends a mail.
async fn define_shipping(server: &Server) {
    let customer = json!({ "name": "Ada", "mail": "ada@example.com", "street": "Long Road 12" });
    let order = json!({ "number": "${input.id}", "customer": customer, "weight": 2750 });
    define_tool(server, "load", "id", order, json!({ "sideEffects": "reads" })).await;
    let label = json!({ "label": "label-${input.weight}", "to": "${input.address}" });
    define_tool(server, "label", "address", label, json!({ "sideEffects": "writes" })).await;
    let sent = json!({ "state": "sent", "receipt": "receipt-${input.label}" });
    define_tool(server, "mail", "to", sent, json!({ "sideEffects": "writes" })).await;
    let call = |name: &str, arguments: Value| json!({ "toolCalls": [{ "name": name, "arguments": arguments }] });
    let rules = json!([
        { "when": { "user": "the text of the field `body`" }, "reply": { "text": BODY } },
        { "when": { "turn": 0 }, "reply": call("load", json!({ "order": "ord-2024-17" })) },
        { "when": { "afterTool": "load", "failed": true }, "reply": call("load", json!({ "id": "ord-2024-17" })) },
        { "when": { "afterTool": "load" }, "reply": call("label", json!({
            "address": "{{result/customer/street}}", "weight": "{{result/weight}}", "express": true })) },
        { "when": { "afterTool": "label" }, "reply": call("mail", json!({
            "to": "ada@example.com", "label": "{{result/label}}", "subject": "Order ord-2024-17", "body": BODY })) },
        { "when": { "afterTool": "mail" }, "reply": { "text": "Done, see {{result/receipt}}." } },
    ]);
    let pins = json!([
        { "name": "label", "selector": { "tool": "label" } },
        { "name": "none", "selector": { "tool": "nothing" } },
    ]);
    server.define_agent("shipper", rules, json!({ "toolRefs": ["load", "label", "mail"], "pins": pins })).await;
}

/// The successful calls of a run to tools that are not built in: name, input and output.
fn successful_calls(run: &Value) -> Vec<Value> {
    let calls = envelopes(run).into_iter().filter(|call| call["error"].is_null());
    let calls = calls.filter(|call| !call["name"].as_str().unwrap().starts_with("quantum."));
    calls.map(|call| json!([call["name"], call["version"], call["input"], call["output"]])).collect()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_else(|| panic!("{value}"))
}

async fn run_of_an_agent_becomes_a_workflow_with_the_same_calls_and_output(server: Server) {
    define_shipping(&server).await;
    let run = server.run("shipper", MESSAGE).await;
    assert_eq!(run["status"], "COMPLETED", "{run}");
    let path = format!("runs/{}/materialize", text(&run["runId"]));
    let made = server.post(&path, json!({ "name": "orders/ship", "calls": null, "save": null })).await.expect(200);

    assert_eq!((&made["check"], &made["saved"]), (&json!({ "valid": true, "issues": [] }), &json!(false)), "{made}");
    let steps = &made["definition"]["steps"];
    let inputs: Vec<Value> =
        steps.as_array().unwrap().iter().map(|step| json!([step["name"], step["handlerRef"]])).collect();
    let expected = json!([
        ["load", "load@=1.0.0"],
        ["label", "label@=1.0.0"],
        ["write_body", "quantum.ai.invokeAgent"],
        ["mail", "mail@=1.0.0"]
    ]);
    assert_eq!(json!(inputs), expected);
    assert_eq!(
        steps[1]["input"],
        json!({ "address": "${load.customer.street}", "weight": "${load.weight}", "express": "${input.express}" })
    );
    let mail = json!({ "to": "${load.customer.mail}", "label": "${label.label}", "subject": "Order ${load.number}", "body": "${write_body.response}" });
    assert_eq!(steps[3]["input"], mail);
    assert_eq!(made["definition"]["output"], json!({ "response": "Done, see ${mail.receipt}." }));
    let verified = json!({ "calls": 3, "reproduced": 3, "outputReproduced": true, "notReproduced": [] });
    assert_eq!(made["verification"], verified, "{made}");
    let report = &made["report"];
    assert_eq!((&report["leftOut"][0]["tool"], &report["leftOut"][0]["reason"]), (&json!("load"), &json!("retried")));
    assert_eq!(report["agentSteps"], json!([{ "step": "write_body", "usedBy": "mail", "path": "/body" }]));
    server.get("workflows/orders%2Fship").await.expect(404);

    let saved = server.post(&path, json!({ "name": "orders/ship", "save": true })).await;
    let location = saved.headers["location"].to_str().unwrap().to_owned();
    assert_eq!(saved.expect(201)["saved"], true);
    assert_eq!(server.get(&location).await.expect(200)["refName"], "orders/ship");
    // The YAML is the definition as it was saved.
    let yaml = server.get("workflows/orders%2Fship?format=yaml").await;
    assert_eq!(yaml.text, text(&made["yaml"]));

    let instance = server.post("workflows/orders%2Fship/execute", json!({})).await.expect(200);
    assert_eq!(instance["status"], "COMPLETED", "{instance}");
    assert_eq!(instance["output"], json!({ "response": run["responseText"] }));
    let executed = server.get(&format!("runs/{}", text(&instance["runId"]))).await.expect(200);
    assert_eq!(successful_calls(&executed), successful_calls(&run));
    // With another input, the values follow from the outputs of the new calls.
    let input = json!({ "input": { "id": "ord-2025-99" } });
    let other = server.post("workflows/orders%2Fship/execute", input).await.expect(200);
    let executed = server.get(&format!("runs/{}", text(&other["runId"]))).await.expect(200);
    assert_eq!(envelopes(&executed).last().unwrap()["input"]["subject"], "Order ord-2025-99", "{executed}");
    // A workflow is a run too, so it can be materialized.
    let again = server.post(&format!("runs/{}/materialize", text(&instance["runId"])), json!({})).await.expect(200);
    assert_eq!(
        (&again["verification"]["calls"], &again["verification"]["reproduced"]),
        (&json!(4), &json!(4)),
        "{again}"
    );
}

async fn one_call_becomes_a_workflow_with_its_exact_input(server: Server) {
    define_shipping(&server).await;
    let run = server.run("shipper", MESSAGE).await;
    let mail = envelopes(&run).pop().unwrap();
    let path = format!("runs/{}/materialize", text(&run["runId"]));
    let body = json!({ "calls": [mail["call_id"]], "name": "mail-again", "save": true });
    let made = server.post(&path, body).await.expect(201);
    assert_eq!(made["definition"]["output"], "${mail}");
    assert_eq!(made["verification"], json!({ "calls": 1, "reproduced": 1, "notReproduced": [] }), "{made}");
    let step = &made["report"]["steps"][0];
    assert_eq!(
        (&step["callId"], &step["tool"], &step["sideEffects"]),
        (&mail["call_id"], &json!("mail"), &json!("writes"))
    );
    // The text that the model wrote is the default of an input.
    let properties = &made["definition"]["inputSchema"]["properties"];
    assert_eq!((&properties["body"]["default"], &made["report"]["agentSteps"]), (&json!(BODY), &json!([])), "{made}");
    let instance = server.post("workflows/mail-again/execute", json!({})).await.expect(200);
    assert_eq!(instance["output"], mail["output"], "{instance}");
    let executed = server.get(&format!("runs/{}", text(&instance["runId"]))).await.expect(200);
    assert_eq!(successful_calls(&executed), [json!(["mail", "1.0.0", mail["input"], mail["output"]])]);

    // A direct call is a run with one call. Its tool has a provider.
    server.post("tool-providers", json!({ "refName": "crm", "baseUrl": "https://crm.example" })).await.expect(201);
    define_tool(&server, "lookup", "id", json!({ "found": "${input.id}" }), json!({ "providerRef": "crm" })).await;
    let call = server.call("lookup", json!({ "id": 7 })).await;
    let runs = server.poll_until("runs?toolRef=lookup", |runs| runs["items"] != json!([])).await;
    let path = format!("runs/{}/materialize", text(&runs["items"][0]["id"]));
    let made = server.post(&path, json!({})).await.expect(200);
    assert_eq!(made["report"]["steps"][0]["providerRef"], "crm", "{made}");
    assert_eq!(made["definition"]["inputSchema"]["properties"]["id"]["default"], 7);
    assert_eq!(
        (&made["definition"]["output"], &made["verification"]["outputReproduced"]),
        (&json!("${lookup}"), &json!(true)),
        "{call}"
    );
}

async fn pinned_call_becomes_a_workflow(server: Server) {
    define_shipping(&server).await;
    let run = server.run("shipper", MESSAGE).await;
    let path = format!("runs/{}/materialize", text(&run["runId"]));
    let made = server.post(&path, json!({ "pin": "label", "name": "label-again", "save": true })).await.expect(201);
    assert_eq!(made["report"]["steps"][0]["callId"], run["pins"]["label"]["call_id"]);
    let instance = server.post("workflows/label-again/execute", json!({})).await.expect(200);
    assert_eq!(instance["output"], run["pins"]["label"]["output"], "{instance}");
}

async fn redacted_values_and_truncated_outputs_are_reported_and_never_copied(server: Server) {
    server.define_echo("big", json!({ "maxOutputBytes": 200 })).await;
    server.define_echo("use", json!({})).await;
    let rows: Vec<Value> = (0..50).map(|row| json!({ "id": format!("row-{row:04}") })).collect();
    let call = |name: &str, arguments: Value| json!({ "toolCalls": [{ "name": name, "arguments": arguments }] });
    let used = json!({ "first": "row-0000", "last": "row-0049", "token": "[redacted]" });
    let rules = json!([
        { "when": { "turn": 0 }, "reply": call("big", json!({ "rows": rows })) },
        { "when": { "turn": 1 }, "reply": call("use", used) },
        { "reply": { "text": "Done." } },
    ]);
    server.define_agent("reader", rules, json!({ "toolRefs": ["big", "use"] })).await;
    let run = server.run("reader", "Read.").await;
    let path = format!("runs/{}/materialize", text(&run["runId"]));
    let made = server.post(&path, json!({ "name": "read", "save": true })).await.expect(201);
    let definition = &made["definition"];
    let input = json!({ "first": "${big.rows[0].id}", "last": "${input.last}", "token": "${input.token}" });
    assert_eq!(definition["steps"][1]["input"], input, "{made}");
    assert_eq!(definition["inputSchema"]["required"], json!(["token"]));
    assert!(!definition.to_string().contains("redacted]"), "{definition}");
    assert_eq!(made["report"]["truncated"], json!(["big"]));
    let listed = &made["verification"]["notReproduced"][0];
    let expected =
        json!({ "step": "use", "path": "/token", "recorded": "[redacted]", "computed": null, "reason": "redacted" });
    assert_eq!(listed, &expected);
    // The caller must set the value that was redacted.
    let problem = server.post("workflows/read/execute", json!({})).await.expect(400);
    assert_eq!(problem["code"], "invalid-request");
    let instance = server.post("workflows/read/execute", json!({ "input": { "token": "secret" } })).await.expect(200);
    let output = json!({ "first": "row-0000", "last": "row-0049", "token": "secret" });
    assert_eq!(instance["output"], json!({ "use": output }), "{instance}");
}

async fn invalid_requests_are_refused_and_nothing_is_saved(server: Server) {
    define_shipping(&server).await;
    server.define_echo("pay", json!({ "sideEffects": "writes", "requiresConfirmation": true })).await;
    let pay = json!([{ "name": "pay", "arguments": { "amount": 5 } }]);
    server.define_agent("payer", calls_then(pay, "Paid."), json!({ "toolRefs": ["pay"] })).await;
    server.define_agent("talker", json!([{ "reply": { "text": "Hello." } }]), json!({})).await;
    let wrong = json!([{ "name": "load", "arguments": {} }]);
    server.define_agent("loser", calls_then(wrong, "Failed."), json!({ "toolRefs": ["load"] })).await;
    let mut runs = Vec::new();
    for agent in ["shipper", "payer", "talker", "loser"] {
        runs.push(text(&server.run(agent, MESSAGE).await["runId"]).to_owned());
    }
    let [shipped, waiting, silent, failed] = <[String; 4]>::try_from(runs).unwrap();
    let other_call = server.call("load", json!({ "id": "other" })).await["call_id"].clone();
    for (run, body, status, code, message) in [
        ("run_01ARZ3NDEKTSV4RRFFQ69G5FAV", json!({}), 404, "not-found", "run_01ARZ3NDEKTSV4RRFFQ69G5FAV"),
        ("no-run", json!({}), 404, "not-found", "no-run"),
        (&waiting, json!({}), 409, "run-under-way", "has not ended"),
        (&silent, json!({}), 422, "cannot-materialize", "made no calls"),
        (&failed, json!({}), 422, "cannot-materialize", "all calls of run"),
        (&shipped, json!({ "calls": [other_call] }), 400, "invalid-request", "the run has no call `call_"),
        (&shipped, json!({ "calls": ["x"] }), 400, "invalid-request", "the run has no call `x`"),
        (&shipped, json!({ "calls": [] }), 400, "invalid-request", "must have at least one call"),
        (
            &shipped,
            json!({ "calls": ["x"], "pin": "label" }),
            400,
            "invalid-request",
            "must be absent if `calls` is present",
        ),
        (&shipped, json!({ "pin": "order" }), 400, "invalid-request", "its pins are `label`, `none`"),
        (&shipped, json!({ "pin": "none" }), 422, "cannot-materialize", "has no value"),
        (&shipped, json!({ "name": "a b" }), 400, "invalid-request", "refName `a b`"),
        (&shipped, json!({ "name": "quantum.x", "save": true }), 422, "invalid-definition", "quantum."),
        (&shipped, json!({ "unknown": 1 }), 400, "invalid-request", "unknown"),
    ] {
        let answer = server.post(&format!("runs/{run}/materialize"), body.clone()).await;
        let problem = answer.expect(status);
        assert_eq!(problem["code"], code, "{body}: {problem}");
        assert!(problem.to_string().contains(message), "{body}: {problem}");
    }
    assert_eq!(server.get("workflows").await.expect(200)["items"], json!([]));
    // The second workflow with the same name is refused, and the first one remains.
    let path = format!("runs/{shipped}/materialize");
    server.post(&path, json!({ "name": "ship", "save": true })).await.expect(201);
    let problem = server.post(&path, json!({ "name": "SHIP", "pin": "label", "save": true })).await.expect(409);
    assert_eq!(problem["code"], "duplicate");
    assert_eq!(server.get("workflows/ship").await.expect(200)["revision"], 1);
    // A tool that does not exist any more is an error of the check, so the workflow cannot be saved.
    server.delete("tools/mail").await;
    let made = server.post(&path, json!({ "name": "later" })).await.expect(200);
    assert_eq!((&made["check"]["valid"], &made["check"]["issues"][0]["code"]), (&json!(false), &json!("unknown_tool")));
    let problem = server.post(&path, json!({ "name": "later", "save": true })).await.expect(422);
    assert_eq!(problem["code"], "invalid-definition");
    server.get("workflows/later").await.expect(404);
}

async fn only_the_owner_of_a_run_materializes_it(server: Server) {
    define_shipping(&server).await;
    let (ann, bob) = (server.member("ann").await, server.member("bob").await);
    let run = ann.run("shipper", MESSAGE).await;
    let path = format!("runs/{}/materialize", text(&run["runId"]));
    bob.post(&path, json!({})).await.expect(404);
    // A member may not write workflows, and the check tells which definitions exist.
    let problem = ann.post(&path, json!({})).await.expect(403);
    assert_eq!(problem["code"], "forbidden");
    server.post(&path, json!({})).await.expect(200);
}
