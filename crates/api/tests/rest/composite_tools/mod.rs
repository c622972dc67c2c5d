//! Tests composite tools: routing, the mapping of parameters, approvals inside a call, and the routes of their
//! definitions.

mod approvals;
mod callers;
mod definitions;

use serde_json::{Value, json};
use toolwright_testkit::{Faults, LOOPBACK};

use crate::harness::{Response, Server, envelopes, merge, with_timeout};

crate::on_both_databases!(
    call_is_routed_by_the_first_rule_that_matches,
    caller_selects_the_operation_in_the_mode_agent_driven,
    refused_call_has_a_reason_and_the_error_of_the_operation_is_kept
);
crate::on_sqlite!(
    parameters_are_mapped_like_in_the_dry_run,
    result_of_the_operation_is_the_result_of_the_call,
    missing_or_nested_composite_operation_fails_the_call,
    cancelled_or_timed_out_call_has_an_error
);

const ROOT: &str = "/api/v1/composite-tools";

/// Defines the tools `crm/search`, which reads, and `crm/create`, which writes.
async fn define_operations(server: &Server) {
    let search = json!({
        "type": "object",
        "properties": { "text": { "type": "string" }, "limit": { "type": "integer" } },
        "required": ["text"],
        "additionalProperties": false,
    });
    server.define_echo("crm/search", json!({ "inputJsonSchema": search })).await;
    server.define_echo("crm/create", json!({ "sideEffects": "writes" })).await;
}

/// The definition of the composite tool `deals`.
fn deals(more: Value) -> Value {
    let rule = |kind: &str, field: &str, value: &str, operation: &str, priority: i32| json!({ "condition": { "type": kind, "field": field, "value": value }, "operationId": operation, "priority": priority });
    let definition = json!({
        "name": "Deals",
        "description": "Finds and creates deals.",
        "routingMode": "rule_based",
        "operations": [
            { "operationSlug": "search", "actionSlug": "crm/search", "displayName": "Search deals" },
            { "operationSlug": "create", "actionSlug": "crm/create@^1", "parameterMapping": { "title": "q", "source": "${'composite'}" } },
        ],
        "routingRules": [
            rule("starts_with", "q", "create", "search", 20),
            rule("starts_with", "q", "create", "create", 10),
            rule("matches", "q", r"\bfind\b", "search", 30),
            rule("equals", "options.urgent", "true", "create", 30),
        ],
        "unifiedSchema": {
            "q": { "type": "string", "description": "What to do.", "required": true, "operationMappings": { "search": { "targetParam": "text" } } },
            "limit": { "type": "integer" },
            "options": { "type": "object" },
        },
    });
    merge(definition, more)
}

async fn define_deals(server: &Server, more: Value) -> Value {
    define_operations(server).await;
    server.post(ROOT, deals(more)).await.expect(201)
}

/// Defines `deals` with an operation that requires confirmation.
async fn define_confirmed(server: &Server, name: &str) {
    server.define_echo(name, json!({ "sideEffects": "writes", "requiresConfirmation": true })).await;
    let operations = json!([{ "operationSlug": "pay", "actionSlug": name }]);
    let definition = json!({ "slug": "money", "name": "Money", "description": "Pays.", "routingMode": "rule_based", "operations": operations, "defaultOperationId": "pay" });
    server.post(ROOT, definition).await.expect(201);
}

async fn invoke(server: &Server, tool: &str, params: Value) -> Response {
    server.post(&format!("{ROOT}/invoke"), json!({ "tool": tool, "params": params })).await
}

async fn route(server: &Server, tool: &str, params: Value) -> Value {
    server.post(&format!("{ROOT}/{tool}/route"), json!({ "params": params })).await.expect(200)
}

fn reason(result: &Value) -> &Value {
    &result["error"]["details"]["reason"]
}

/// Returns the run with this id after the run has ended.
async fn ended(server: &Server, run: &Value) -> Value {
    let path = format!("runs/{}", run.as_str().unwrap());
    server.poll_until(&path, |run| !run["endedAt"].is_null()).await
}

async fn call_is_routed_by_the_first_rule_that_matches(server: Server) {
    define_deals(&server, json!({})).await;
    for (params, operation, data) in [
        (json!({ "q": "Create a deal" }), "create", json!({ "title": "Create a deal", "source": "composite" })),
        (json!({ "q": "Please FIND Acme", "limit": 3 }), "search", json!({ "text": "Please FIND Acme", "limit": 3 })),
        (
            json!({ "q": "now", "options": { "urgent": true } }),
            "create",
            json!({ "options": { "urgent": true }, "title": "now", "source": "composite" }),
        ),
    ] {
        let response = invoke(&server, "deals", params.clone()).await;
        let run = response.headers["x-run-id"].to_str().unwrap().to_owned();
        let result = response.expect(200);
        assert_eq!((&result["success"], &result["data"]), (&json!(true), &data), "{params}: {result}");
        let meta = &result["meta"];
        assert_eq!((&meta["compositeTool"], &meta["operation"]), (&json!("deals"), &json!(operation)));
        assert_eq!((meta["durationMs"].is_u64(), &meta["totalCost"]), (true, &json!(0.0)), "{meta}");
        // The call is a run, and its child run calls the operation.
        let call = ended(&server, &json!(run)).await;
        assert_eq!((&call["kind"], &call["subject"]), (&json!("tool"), &json!("deals")));
        let child = &envelopes(&call)[0]["metadata"]["child_run"];
        assert_eq!((&child["run_id"], &child["operation"]), (&meta["executionId"], &json!(operation)));
        assert_eq!(child["tool_calls"], 0);
        let execution = ended(&server, &meta["executionId"]).await;
        assert_eq!((&execution["kind"], &execution["subject"]), (&json!("composite-tool"), &json!("deals")));
        assert_eq!((&execution["parentRunId"], &envelopes(&execution)[0]["output"]), (&json!(run), &data));
    }
    let listed = server.get("runs?kind=composite-tool").await.expect(200);
    assert_eq!(listed["items"].as_array().unwrap().len(), 3, "{listed}");
    // The composite tool can also be called with the route for all tools.
    let envelope = server.call("deals", json!({ "q": "find" })).await;
    assert_eq!((&envelope["output"], &envelope["name"]), (&json!({ "text": "find" }), &json!("deals")));
    assert_eq!(envelope["metadata"]["child_run"]["operation"], "search");
    // If no rule matches, the default operation is selected.
    server.patch(&format!("{ROOT}/deals"), json!({ "defaultOperationId": "search" })).await.expect(200);
    let result = invoke(&server, "deals@^1", json!({ "q": "hello" })).await.expect(200);
    assert_eq!((&result["meta"]["operation"], &result["data"]), (&json!("search"), &json!({ "text": "hello" })));
}

async fn caller_selects_the_operation_in_the_mode_agent_driven(server: Server) {
    let agent_driven = json!({ "routingMode": "agent_driven", "routingRules": [] });
    let created = define_deals(&server, agent_driven).await;
    let parameter = json!({
        "type": "string", "enum": ["search", "create"],
        "description": "The operation to perform.\n- `search`: Search deals",
    });
    assert_eq!(created["inputSchema"]["properties"]["operation"], parameter, "{created}");
    assert_eq!(created["inputSchema"]["required"], json!(["operation", "q"]));
    for (operation, data) in [
        ("search", json!({ "text": "create a deal" })),
        ("create", json!({ "title": "create a deal", "source": "composite" })),
    ] {
        let params = json!({ "operation": operation, "q": "create a deal" });
        let result = invoke(&server, "deals", params).await.expect(200);
        assert_eq!((&result["meta"]["operation"], &result["data"]), (&json!(operation), &data), "{result}");
    }
    for (params, expected) in [
        (json!({ "q": "a" }), "MISSING_OPERATION_PARAMETER"),
        (json!({}), "MISSING_OPERATION_PARAMETER"),
        (json!({ "q": "a", "operation": "delete" }), "OPERATION_NOT_FOUND"),
        (json!({ "operation": "search" }), "input_schema"),
    ] {
        let result = invoke(&server, "deals", params.clone()).await.expect(200);
        assert_eq!((&result["success"], &result["data"]), (&json!(false), &Value::Null), "{params}");
        assert_eq!((&result["error"]["code"], reason(&result)), (&json!("VALIDATION_ERROR"), &json!(expected)));
        assert_eq!(result["meta"]["operation"], Value::Null, "{result}");
    }
    let exported = server.get("tools/deals/export/openai").await.expect(200);
    let parameters = &exported["function"]["parameters"];
    assert_eq!(parameters["properties"]["operation"]["enum"], json!(["search", "create"]), "{exported}");
    let universal = server.get("tools/deals/export/universal").await.expect(200);
    assert_eq!(universal["parameters"]["required"], json!(["operation", "q"]), "{universal}");
}

async fn refused_call_has_a_reason_and_the_error_of_the_operation_is_kept(server: Server) {
    let faults = Faults::builder().start(LOOPBACK).await.unwrap();
    define_operations(&server).await;
    server.define_http_tool("missing", &faults.base_url(), "/status/404", json!({})).await;
    server.define_echo("off", json!({ "enabled": false })).await;
    server.define_echo("hidden", json!({ "availableAs": ["mcpTool"] })).await;
    let operation = |slug: &str, tool: &str| json!({ "operationSlug": slug, "actionSlug": tool });
    let rule =
        |slug: &str| json!({ "condition": { "type": "equals", "field": "to", "value": slug }, "operationId": slug });
    let divide = json!({ "operationSlug": "divide", "actionSlug": "crm/create", "parameterMapping": { "n": "${1 / input.by}" } });
    let slugs = ["search", "missing", "off", "hidden", "gone", "newer", "divide"];
    let definition = json!({
        "slug": "all",
        "description": "All.",
        "routingMode": "rule_based",
        "operations": [
            operation("search", "crm/search"), operation("missing", "missing"), operation("off", "off"),
            operation("hidden", "hidden"), operation("gone", "gone"), operation("newer", "crm/search@^2"), divide,
        ],
        "routingRules": slugs.map(rule),
        "inputSchema": { "type": "object", "properties": { "to": { "type": "string" } } },
    });
    let created = server.post(ROOT, definition).await.expect(201);
    let warnings = ["no tool `gone` exists yet", "tool `crm/search` has no version that matches `crm/search@^2` yet"];
    assert_eq!(created["warnings"], json!(warnings), "{created}");
    for (params, code, expected, operation) in [
        (json!({ "to": "nobody" }), "VALIDATION_ERROR", "NO_RULE_MATCHED", None),
        (json!({}), "VALIDATION_ERROR", "NO_RULE_MATCHED", None),
        (json!({ "to": 5 }), "VALIDATION_ERROR", "input_schema", None),
        (json!([]), "VALIDATION_ERROR", "input_schema", None),
        (json!({ "to": "search" }), "VALIDATION_ERROR", "input_schema", Some("search")),
        (json!({ "to": "off" }), "POLICY_DENIED", "disabled", Some("off")),
        (json!({ "to": "hidden" }), "POLICY_DENIED", "not_available", Some("hidden")),
        (json!({ "to": "gone" }), "POLICY_DENIED", "unknown_tool", Some("gone")),
        (json!({ "to": "newer" }), "POLICY_DENIED", "unknown_tool", Some("newer")),
        (json!({ "to": "divide", "by": 0 }), "VALIDATION_ERROR", "parameter_mapping", Some("divide")),
    ] {
        let result = invoke(&server, "all", params.clone()).await.expect(200);
        assert_eq!((&result["success"], &result["error"]["code"]), (&json!(false), &json!(code)), "{params}: {result}");
        assert_eq!((reason(&result), &result["meta"]["operation"]), (&json!(expected), &json!(operation)), "{result}");
        if operation.is_some() {
            assert_eq!(result["error"]["details"]["operation"], json!(operation), "{result}");
        }
    }
    let result = invoke(&server, "all", json!({ "to": "missing" })).await.expect(200);
    let error = &result["error"];
    assert_eq!((&error["code"], &error["details"]["http_status"]), (&json!("PROVIDER_ERROR"), &json!(404)), "{error}");
    assert_eq!(error["details"]["operation"], "missing");
    let envelope = server.call("all", json!({ "to": "missing" })).await;
    assert_eq!((&envelope["error"]["code"], &envelope["metadata"]["http_status"]), (&error["code"], &json!(404)));
    assert_eq!(envelope["metadata"]["attempt"], 1);
    for tool in ["gone", "crm/search", "all@^2", "all@x y"] {
        let status = if tool.contains(' ') { (400, "invalid-request") } else { (404, "not-found") };
        invoke(&server, tool, json!({})).await.problem(status.0, status.1);
    }
    server.post(&format!("{ROOT}/invoke"), json!({ "params": {} })).await.problem(400, "invalid-request");
    faults.shutdown().await;
}

async fn parameters_are_mapped_like_in_the_dry_run(server: Server) {
    define_deals(&server, json!({ "defaultOperationId": "search" })).await;
    for (params, tool, mapped) in [
        (json!({ "q": "find", "limit": 2 }), "crm/search", json!({ "limit": 2, "text": "find" })),
        // `crm/search` does not know `options`, and `crm/create` accepts everything.
        (json!({ "q": "find", "options": {} }), "crm/search", json!({ "text": "find" })),
        (
            json!({ "q": "create", "limit": 2, "options": { "a": [1] } }),
            "crm/create",
            json!({ "limit": 2, "options": { "a": [1] }, "title": "create", "source": "composite" }),
        ),
        // The text of a caller is never a template.
        (json!({ "q": "find ${1 + 1}" }), "crm/search", json!({ "text": "find ${1 + 1}" })),
    ] {
        let dry = route(&server, "deals", params.clone()).await;
        assert_eq!((&dry["routed"], &dry["tool"], &dry["version"]), (&json!(true), &json!(tool), &json!("1.0.0")));
        assert_eq!(dry["params"], mapped, "{params}: {dry}");
        assert_eq!(invoke(&server, "deals", params).await.expect(200)["data"], mapped);
    }
    assert_eq!(
        server.get("effects").await.expect(200)["items"].as_array().unwrap().len(),
        1,
        "a dry run calls nothing"
    );
    for (params, expected) in
        [(json!({ "limit": 2 }), "input_schema"), (json!({ "q": "a", "typo": 2 }), "input_schema")]
    {
        let dry = route(&server, "deals", params).await;
        assert_eq!((&dry["routed"], reason(&dry)), (&json!(false), &json!(expected)), "{dry}");
    }
    server.post(&format!("{ROOT}/crm%2Fsearch/route"), json!({})).await.problem(404, "not-found");
    server.post(&format!("{ROOT}/deals/route"), json!({ "input": {} })).await.problem(400, "invalid-request");
}

async fn result_of_the_operation_is_the_result_of_the_call(server: Server) {
    let faults = Faults::builder().start(LOOPBACK).await.unwrap();
    let priced = json!({ "price": { "perCallUsd": 0.25 }, "invocation": { "path": "/echo", "responseMapping": "$.method", "messageMapping": "$.method" } });
    server.define_http_tool("look", &faults.base_url(), "/echo", priced).await;
    server.define_echo("long", json!({ "maxOutputBytes": 64 })).await;
    let operations =
        json!([{ "operationSlug": "look", "actionSlug": "look" }, { "operationSlug": "long", "actionSlug": "long" }]);
    let rules = json!([{ "condition": { "type": "contains", "field": "text", "value": "x" }, "operationId": "long" }]);
    let definition = json!({
        "slug": "both", "name": "Both", "description": "Both.", "routingMode": "rule_based", "operations": operations,
        "routingRules": rules, "defaultOperationId": "look",
        "price": { "perCallUsd": 0.5 },
    });
    server.post(ROOT, definition).await.expect(201);
    let envelope = server.call("both", json!({})).await;
    assert_eq!((&envelope["output"], &envelope["error"]), (&json!("GET"), &Value::Null), "{envelope}");
    let metadata = &envelope["metadata"];
    assert_eq!((&metadata["cost_usd"], &metadata["http_status"]), (&json!(0.75), &json!(200)), "{metadata}");
    assert_eq!(metadata["messages"], json!(["GET"]));
    let result = invoke(&server, "both", json!({})).await.expect(200);
    assert_eq!(result["meta"]["totalCost"], 0.75);
    let long = server.call("both", json!({ "text": "x".repeat(500) })).await;
    assert_eq!((&long["truncated"], long["attachments"].as_array().unwrap().len()), (&json!(true), 1), "{long}");
    // The output schema and the fallback of the composite tool apply to the result of the operation.
    let changed = json!({ "outputSchema": { "type": "object" } });
    server.patch(&format!("{ROOT}/both"), changed).await.expect(200);
    let mismatch = server.call("both", json!({})).await;
    assert_eq!(reason(&mismatch), "output_schema", "{mismatch}");
    faults.shutdown().await;
}

async fn missing_or_nested_composite_operation_fails_the_call(server: Server) {
    let operations = json!([{ "operationSlug": "late", "actionSlug": "late" }]);
    let definition = json!({ "slug": "early", "description": "Early.", "routingMode": "rule_based", "operations": operations, "defaultOperationId": "late" });
    let created = server.post(ROOT, definition.clone()).await.expect(201);
    assert_eq!(created["warnings"], json!(["no tool `late` exists yet"]));
    let missing = invoke(&server, "early", json!({ "a": 1 })).await.expect(200);
    assert_eq!(reason(&missing), "unknown_tool", "{missing}");
    server.define_echo("late", json!({})).await;
    assert_eq!(invoke(&server, "early", json!({ "a": 1 })).await.expect(200)["data"], json!({ "a": 1 }));
    // If a composite tool takes the name of an operation's tool, calls to the operation are refused.
    server.delete("tools/late").await;
    server.define_echo("other", json!({})).await;
    let nested = merge(
        definition,
        json!({ "slug": "late", "operations": [{ "operationSlug": "late", "actionSlug": "other" }] }),
    );
    server.post(ROOT, nested).await.expect(201);
    let refused = invoke(&server, "early", json!({})).await.expect(200);
    assert_eq!(
        (reason(&refused), &refused["meta"]["operation"]),
        (&json!("nested_composite"), &json!("late")),
        "{refused}"
    );
}

async fn cancelled_or_timed_out_call_has_an_error(server: Server) {
    let faults = Faults::builder().start(LOOPBACK).await.unwrap();
    server.define_http_tool("slow", &faults.base_url(), "/slow/60000", json!({})).await;
    let operations = json!([{ "operationSlug": "slow", "actionSlug": "slow" }]);
    let definition = json!({ "slug": "lazy", "description": "Slow.", "routingMode": "rule_based", "operations": operations, "defaultOperationId": "slow", "timeoutMs": 300 });
    server.post(ROOT, definition).await.expect(201);
    let late = invoke(&server, "lazy", json!({})).await.expect(200);
    assert_eq!((&late["error"]["code"], &late["meta"]["operation"]), (&json!("TIMEOUT"), &json!("slow")), "{late}");
    server.patch(&format!("{ROOT}/lazy"), json!({ "timeoutMs": null })).await.expect(200);
    let calling = invoke(&server, "lazy", json!({}));
    let cancelling = async {
        let running =
            server.poll_until("runs?kind=composite-tool&status=RUNNING", |page| !page["items"][0].is_null()).await;
        let call = running["items"][0]["parentRunId"].as_str().unwrap().to_owned();
        server.post(&format!("runs/{call}/cancel"), json!({})).await.expect(200);
        running
    };
    let (cancelled, running) = Box::pin(with_timeout(async { tokio::join!(calling, cancelling) })).await;
    let cancelled = cancelled.expect(200);
    assert_eq!((&cancelled["success"], &cancelled["error"]["code"]), (&json!(false), &json!("UNKNOWN")), "{cancelled}");
    let execution = ended(&server, &running["items"][0]["id"]).await;
    assert_eq!(execution["status"], "CANCELLED", "{execution}");
    faults.shutdown().await;
}
