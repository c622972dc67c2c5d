//! Cost limits with known prices, and limits of the agentic mode for calls and steps.

use serde_json::{Value, json};

use super::{PATH, agentic, deterministic, plan_then};
use crate::harness::Server;

crate::on_sqlite!(
    list_of_calls_with_a_known_price_never_exceeds_the_cost_limit,
    call_whose_price_exceeds_the_cost_limit_is_not_executed,
    result_whose_last_call_exceeded_the_cost_limit_has_a_warning,
    limit_of_tool_calls_follows_the_limit_of_steps,
    steps_without_a_successful_call_end_with_an_error
);

async fn list_of_calls_with_a_known_price_never_exceeds_the_cost_limit(server: Server) {
    server.define_echo("priced", json!({ "price": { "perCallUsd": 0.1 }, "sideEffects": "writes" })).await;
    let items: Vec<u32> = (0..13).collect();
    let plan = json!([{ "step": 1, "forEach": format!("${{{}}}", json!(items)), "parameters": { "n": "${item}" } }]);
    let limits = json!({ "safetyLimits": { "maxTotalCost": 0.5 } });
    server.define_agentic_tool(deterministic("m", &["priced"], plan_then(plan, "done")), limits).await;
    let failed = server.invoke("m", "go").await;
    assert_eq!(failed["error"]["details"]["reason"], "MAX_COST_EXCEEDED", "{failed}");
    assert_eq!(failed["meta"]["totalCost"], 0.5, "{failed}");
    let partial = &failed["error"]["details"]["partialResult"];
    assert_eq!(partial["operations_executed"], json!(["priced"]), "{failed}");
    let step = &partial["step_in_progress"];
    assert_eq!((&step["succeeded"], &step["not_started"]), (&json!(5), &json!(8)), "{failed}");
}

async fn call_whose_price_exceeds_the_cost_limit_is_not_executed(server: Server) {
    server.define_echo("priced", json!({ "price": { "perCallUsd": 0.5 } })).await;
    let limits = json!({ "safetyLimits": { "maxTotalCost": 0.49 } });
    let plan = plan_then(json!([{ "step": 1, "parameters": {} }]), "done");
    server.define_agentic_tool(deterministic("m", &["priced"], plan), limits).await;
    let failed = server.invoke("m", "go").await;
    assert_eq!(failed["error"]["details"]["reason"], "MAX_COST_EXCEEDED", "{failed}");
    assert_eq!(failed["meta"]["totalCost"], 0.0, "{failed}");
    assert_eq!(failed["error"]["details"]["partialResult"]["operations_executed"], json!([]), "{failed}");
}

async fn result_whose_last_call_exceeded_the_cost_limit_has_a_warning(server: Server) {
    let price = json!({ "perUnitUsd": 0.2, "units": "$.list" });
    server.define_echo("metered", json!({ "price": price, "sideEffects": "writes" })).await;
    let plan = plan_then(json!([{ "step": 1, "parameters": { "list": [1, 2, 3] } }]), "done");
    let limits = json!({ "safetyLimits": { "maxTotalCost": 0.5 } });
    server.define_agentic_tool(deterministic("m", &["metered"], plan), limits).await;
    let failed = server.invoke("m", "go").await;
    assert_eq!(failed["error"]["details"]["reason"], "MAX_COST_EXCEEDED", "the model cannot be called: {failed}");
    // A rerun calls no model, so the metered call is its last call.
    let rerun = format!("{PATH}/m/executions/{}/rerun", failed["meta"]["executionId"].as_str().unwrap());
    let done = server.post(&rerun, json!({})).await.expect(200);
    assert_eq!(done["success"], true, "{done}");
    let warning = "MAX_COST_EXCEEDED: the cost is 0.6 USD, and the limit is 0.5 USD";
    assert!(done["warnings"].as_array().unwrap().contains(&json!(warning)), "{done}");
}

async fn limit_of_tool_calls_follows_the_limit_of_steps(server: Server) {
    server.define_echo("one", json!({})).await;
    let calls: Vec<Value> = (0..60).map(|n| json!({ "name": "one", "arguments": { "n": n } })).collect();
    let rules = json!([{ "when": { "turn": 0 }, "reply": { "toolCalls": calls } }, { "reply": { "text": "done" } }]);
    server.define_agentic_tool(agentic("m", &["one"], rules), json!({ "safetyLimits": { "maxSteps": 100 } })).await;
    let done = server.invoke("m", "go").await;
    assert_eq!((&done["success"], &done["data"]["summary"]), (&json!(true), &json!("done")), "{done}");
}

async fn steps_without_a_successful_call_end_with_an_error(server: Server) {
    server.define_echo("one", json!({ "inputJsonSchema": { "type": "object", "required": ["a"] } })).await;
    let rules = json!([{ "reply": { "toolCalls": [{ "name": "one", "arguments": {} }] } }]);
    server.define_agentic_tool(agentic("m", &["one"], rules), json!({ "safetyLimits": { "maxSteps": 2 } })).await;
    let failed = server.invoke("m", "go").await;
    assert_eq!((&failed["success"], &failed["status"]), (&json!(false), &json!("MAX_ITERATIONS")), "{failed}");
    assert_eq!(failed["error"]["details"]["reason"], "MAX_STEPS_EXCEEDED", "{failed}");
}
