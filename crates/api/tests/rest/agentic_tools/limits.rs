//! The limits of an invocation: steps, items, time and cost. An invocation may reach a limit, but not exceed it.

use serde_json::{Value, json};
use toolwright_testkit::{Faults, LOOPBACK};

use super::{agentic, deterministic, plan_then, trace};
use crate::harness::Server;

crate::on_sqlite!(
    step_limit_gives_a_partial_result_with_a_warning_in_both_modes,
    steps_up_to_the_limit_are_executed,
    call_that_exceeds_the_cost_limit_fails_with_a_partial_result,
    cost_limit_counts_the_prices_of_tools,
    call_that_exceeds_the_time_limit_fails,
    list_with_more_items_than_the_limit_is_refused_before_its_first_call,
    call_fails_with_the_error_message_of_the_model_provider,
    drift_of_a_tool_is_reported_as_a_warning_in_the_result
);

async fn step_limit_gives_a_partial_result_with_a_warning_in_both_modes(server: Server) {
    server.define_echo("one", json!({})).await;
    let limits = json!({ "safetyLimits": { "maxSteps": 1 } });
    let plan = plan_then(json!([{ "step": 1, "parameters": { "a": 1 } }, { "step": 2, "parameters": {} }]), "done");
    server.define_agentic_tool(deterministic("fixed", &["one", "one"], plan), limits.clone()).await;
    let again = json!([{ "reply": { "toolCalls": [{ "name": "one", "arguments": { "a": 1 } }] } }]);
    server.define_agentic_tool(agentic("free", &["one"], again), limits).await;
    for tool in ["fixed", "free"] {
        let partial = server.invoke(tool, "go").await;
        assert_eq!((&partial["success"], &partial["status"]), (&json!(true), &json!("MAX_ITERATIONS")), "{partial}");
        assert!(partial["warnings"][0].as_str().unwrap().starts_with("MAX_STEPS_EXCEEDED"), "{partial}");
        assert_eq!(partial["data"]["operations_executed"], json!(["one"]), "{partial}");
        assert_eq!(server.execution(tool, &partial).await["runStatus"], "MAX_ITERATIONS");
    }
}

async fn steps_up_to_the_limit_are_executed(server: Server) {
    server.define_echo("one", json!({})).await;
    let steps: Vec<Value> = (1..=10).map(|step| json!({ "step": step, "parameters": {} })).collect();
    let tools = ["one"; 11];
    server.define_agentic_tool(deterministic("ten", &tools, plan_then(json!(steps), "done")), json!({})).await;
    let done = server.invoke("ten", "go").await;
    assert_eq!((&done["data"]["summary"], trace(&done).len()), (&json!("done"), 12), "{done}");
    let steps: Vec<Value> = (1..=11).map(|step| json!({ "step": step, "parameters": {} })).collect();
    server.define_agentic_tool(deterministic("eleven", &tools, plan_then(json!(steps), "done")), json!({})).await;
    assert_eq!(server.invoke("eleven", "go").await["status"], "MAX_ITERATIONS");
}

async fn call_that_exceeds_the_cost_limit_fails_with_a_partial_result(server: Server) {
    server.define_echo("priced", json!({ "price": { "perCallUsd": 0.3 } })).await;
    let plan = json!([{ "step": 1, "forEach": "${[1, 2, 3, 4, 5]}", "parameters": { "n": "${item}" } }]);
    server.define_agentic_tool(deterministic("m", &["priced"], plan_then(plan, "done")), json!({})).await;
    let failed = server.invoke("m", "go").await;
    assert_eq!((&failed["success"], &failed["error"]["code"]), (&json!(false), &json!("POLICY_DENIED")), "{failed}");
    assert_eq!(failed["error"]["details"]["reason"], "MAX_COST_EXCEEDED", "{failed}");
    assert!(failed["error"]["details"]["partialResult"].is_object(), "{failed}");
    assert_eq!(server.execution("m", &failed).await["status"], "error");
}

async fn cost_limit_counts_the_prices_of_tools(server: Server) {
    server.define_echo("priced", json!({ "price": { "perCallUsd": 0.5 } })).await;
    let steps = json!([{ "step": 1, "parameters": {} }, { "step": 2, "parameters": {} }]);
    let tool = deterministic("m", &["priced", "priced"], plan_then(steps, "done"));
    server.define_agentic_tool(tool, json!({ "safetyLimits": { "maxTotalCost": 1.0 } })).await;
    let done = server.invoke("m", "go").await;
    assert_eq!((&done["success"], &done["meta"]["totalCost"]), (&json!(true), &json!(1.0)), "{done}");
    let costs: Vec<&Value> =
        done["meta"]["trace"]["steps"].as_array().unwrap().iter().map(|step| &step["cost"]).collect();
    assert_eq!(costs, [&json!(0.0), &json!(0.5), &json!(0.5), &json!(0.0)]);
}

async fn call_that_exceeds_the_time_limit_fails(server: Server) {
    let faults = Faults::builder().start(LOOPBACK).await.unwrap();
    server.define_http_tool("slow", &faults.base_url(), "/slow/30000", json!({})).await;
    let tool = deterministic("m", &["slow"], plan_then(json!([{ "step": 1, "parameters": {} }]), "done"));
    server.define_agentic_tool(tool, json!({ "safetyLimits": { "maxDurationSeconds": 1 } })).await;
    let failed = server.invoke("m", "go").await;
    assert_eq!((&failed["error"]["code"], &failed["status"]), (&json!("TIMEOUT"), &json!("TIMEOUT")), "{failed}");
    assert_eq!(server.execution("m", &failed).await["status"], "timeout");
    faults.shutdown().await;
}

async fn list_with_more_items_than_the_limit_is_refused_before_its_first_call(server: Server) {
    server.define_echo("one", json!({})).await;
    let plan = json!([{ "step": 1, "forEach": "${[1, 2, 3]}", "parameters": {} }]);
    let tool = deterministic("m", &["one"], plan_then(plan, "done"));
    server.define_agentic_tool(tool, json!({ "safetyLimits": { "maxItems": 2 } })).await;
    let failed = server.invoke("m", "go").await;
    assert_eq!((failed["success"].as_bool(), trace(&failed)), (Some(false), vec!["planning"]), "{failed}");
    assert!(failed["error"]["message"].as_str().unwrap().contains("safetyLimits.maxItems"), "{failed}");
}

async fn call_fails_with_the_error_message_of_the_model_provider(server: Server) {
    server.define_echo("one", json!({})).await;
    let rules = json!([{ "error": { "kind": "invalid_request", "message": "the model is gone" } }]);
    server.define_agentic_tool(deterministic("m", &["one"], rules), json!({})).await;
    let failed = server.invoke("m", "go").await;
    assert_eq!(failed["error"]["details"]["reason"], "LLM_PROVIDER_ERROR", "{failed}");
    assert!(failed["error"]["message"].as_str().unwrap().contains("the model is gone"), "{failed}");
}

async fn drift_of_a_tool_is_reported_as_a_warning_in_the_result(server: Server) {
    let output = json!({ "outputJsonSchema": { "type": "object", "required": ["gone"] }, "onOutputMismatch": "warn" });
    server.define_echo("one", output).await;
    let tool = deterministic("m", &["one"], plan_then(json!([{ "step": 1, "parameters": {} }]), "done"));
    server.define_agentic_tool(tool, json!({})).await;
    let done = server.invoke("m", "go").await;
    assert_eq!(done["success"], true, "{done}");
    let warnings = done["warnings"].to_string();
    assert!(warnings.contains("`one`") && warnings.contains("output"), "{done}");
}
