//! The agentic mode: the model selects tools from the allocation and reviews each result.

use serde_json::{Value, json};

use super::{agentic, purposes, trace};
use crate::harness::Server;

crate::on_both_databases!(model_selects_tools_then_reviews_results_and_completes);
crate::on_sqlite!(
    tool_outside_of_the_allocation_is_refused_and_the_model_recovers,
    failed_call_is_followed_by_error_recovery,
    prompt_lists_tools_in_the_order_of_their_priorities,
    call_fails_with_a_reason_if_no_allocated_tool_can_be_used,
    cost_and_tokens_of_an_agentic_tool_are_included_in_the_run_of_its_caller,
    agentic_tool_can_be_allocated_to_another_agentic_tool
);

async fn model_selects_tools_then_reviews_results_and_completes(server: Server) {
    server.define_echo("google/search", json!({})).await;
    server.define_echo("firecrawl/scrape", json!({})).await;
    let rules = json!([
        { "when": { "turn": 0 }, "reply": { "text": "I search first.", "toolCalls": [{ "name": "google/search", "arguments": { "q": "pricing" } }] } },
        { "when": { "turn": 1 }, "reply": { "toolCalls": [{ "name": "firecrawl/scrape", "arguments": { "url": "u" } }] } },
        { "reply": { "text": "Prices: 10. Source: u" } },
    ]);
    server.define_agentic_tool(agentic("research", &["google/search", "firecrawl/scrape"], rules), json!({})).await;
    let done = server.invoke("research", "Find competitor pricing").await;
    assert_eq!(done["data"], json!({ "summary": "Prices: 10. Source: u" }), "{done}");
    let expected = ["planning", "google/search", "tool_selection", "firecrawl/scrape", "result_review"];
    assert_eq!(trace(&done), expected);
    let execution = server.execution("research", &done).await;
    let decisions: Vec<&Value> =
        execution["llmCalls"].as_array().unwrap().iter().map(|call| &call["decision"]).collect();
    assert_eq!(decisions, ["CONTINUE", "CONTINUE", "COMPLETE"]);
    assert_eq!(execution["llmCalls"][0]["reasoning"], "I search first.");
    assert_eq!((&execution["mode"], execution.get("executionPlan")), (&json!("agentic"), None));
    let rerun = format!("{}/research/executions/{}/rerun", super::PATH, execution["id"].as_str().unwrap());
    server.post(&rerun, json!({})).await.problem(400, "invalid-request");
}

async fn tool_outside_of_the_allocation_is_refused_and_the_model_recovers(server: Server) {
    server.define_echo("allowed", json!({})).await;
    server.define_echo("secret", json!({})).await;
    let rules = json!([
        { "when": { "turn": 0 }, "reply": { "toolCalls": [{ "name": "secret", "arguments": {} }] } },
        { "when": { "turn": 1 }, "reply": { "toolCalls": [{ "name": "allowed", "arguments": {} }] } },
        { "reply": { "text": "done" } },
    ]);
    server.define_agentic_tool(agentic("m", &["allowed"], rules), json!({})).await;
    let done = server.invoke("m", "go").await;
    let execution = server.execution("m", &done).await;
    assert_eq!(execution["toolCalls"][0]["error"]["details"]["reason"], "not_allowed", "{execution}");
    let calls = ["planning", "secret", "error_recovery", "allowed", "result_review"];
    assert_eq!(trace(&done), calls, "the refused call comes before the correction");
    assert_eq!(purposes(&execution), ["planning", "error_recovery", "result_review"]);
    assert_eq!(execution["llmCalls"][1]["decision"], "ERROR_RECOVERY");
    let prompt = execution["llmCalls"][1]["prompt"].as_str().unwrap();
    assert!(prompt.contains("POLICY_DENIED"), "the model reads why the call was refused: {prompt}");
}

async fn failed_call_is_followed_by_error_recovery(server: Server) {
    let schema = json!({ "type": "object", "properties": { "id": { "type": "integer" } }, "required": ["id"] });
    server.define_echo("get", json!({ "inputJsonSchema": schema })).await;
    let call = |id: Value| json!({ "toolCalls": [{ "name": "get", "arguments": { "id": id } }] });
    let rules = json!([
        { "when": { "turn": 0 }, "reply": call(json!("x")) },
        { "when": { "turn": 1, "failed": true }, "reply": call(json!(1)) },
        { "reply": { "text": "got it" } },
    ]);
    server.define_agentic_tool(agentic("m", &["get"], rules), json!({})).await;
    let done = server.invoke("m", "go").await;
    assert_eq!(trace(&done), ["planning", "get", "error_recovery", "get", "result_review"], "{done}");
    let statuses: Vec<&str> =
        done["meta"]["trace"]["steps"].as_array().unwrap().iter().filter_map(|step| step["status"].as_str()).collect();
    assert_eq!(statuses, ["error", "success"]);
}

async fn prompt_lists_tools_in_the_order_of_their_priorities(server: Server) {
    server.define_echo("one", json!({})).await;
    server.define_echo("two", json!({})).await;
    let tools =
        json!({ "availableTools": [{ "actionSlug": "one", "priority": 1 }, { "actionSlug": "two", "priority": 9 }] });
    let tool = agentic("m", &[], json!([{ "reply": { "text": "done" } }]));
    server.define_agentic_tool(tool, json!({ "toolAllocation": tools })).await;
    let done = server.invoke("m", "go").await;
    let execution = server.execution("m", &done).await;
    let prompt = execution["llmCalls"][0]["prompt"].as_str().unwrap();
    assert!(prompt.contains("prefer them in this order: two, one"), "{prompt}");
}

async fn call_fails_with_a_reason_if_no_allocated_tool_can_be_used(server: Server) {
    server.define_agentic_tool(agentic("m", &["missing"], json!([{ "reply": { "text": "?" } }])), json!({})).await;
    let failed = server.invoke("m", "go").await;
    assert_eq!((&failed["success"], &failed["error"]["code"]), (&json!(false), &json!("POLICY_DENIED")), "{failed}");
    assert_eq!(failed["error"]["details"]["reason"], "NO_AVAILABLE_TOOLS");
    assert!(failed["error"]["message"].as_str().unwrap().contains("`missing` cannot be used"), "{failed}");
}

async fn cost_and_tokens_of_an_agentic_tool_are_included_in_the_run_of_its_caller(server: Server) {
    server.define_echo("priced", json!({ "price": { "perCallUsd": 0.25 } })).await;
    let usage = json!({ "inputTokens": 90, "outputTokens": 10 });
    let rules = json!([
        { "when": { "turn": 0 }, "reply": { "toolCalls": [{ "name": "priced", "arguments": {} }], "usage": usage } },
        { "reply": { "text": "inner", "usage": usage } },
    ]);
    server.define_agentic_tool(agentic("helper", &["priced"], rules), json!({ "description": "Helps." })).await;
    let outer = json!([
        { "when": { "turn": 0 }, "reply": { "toolCalls": [{ "name": "helper", "arguments": { "task": "go" } }], "usage": usage } },
        { "reply": { "text": "outer: {{result/summary}}", "usage": usage } },
    ]);
    server.define_agent("boss", outer, json!({ "toolRefs": ["helper"] })).await;
    let response = server.run("boss", "go").await;
    assert_eq!(response["responseText"], "outer: inner", "{response}");
    assert_eq!((&response["costUsd"], &response["tokensUsed"]), (&json!(0.25), &json!(400)), "{response}");
    let tree = server.get(&format!("runs/{}/tree", response["runId"].as_str().unwrap())).await.expect(200);
    assert_eq!(tree["root"]["children"][0]["kind"], "agentic-tool", "{tree}");
}

async fn agentic_tool_can_be_allocated_to_another_agentic_tool(server: Server) {
    server.define_echo("look", json!({})).await;
    let inner = json!([{ "when": { "turn": 0 }, "reply": { "toolCalls": [{ "name": "look", "arguments": {} }] } }, { "reply": { "text": "seen" } }]);
    server.define_agentic_tool(agentic("inner", &["look"], inner), json!({})).await;
    let plan = json!([{ "step": 1, "parameters": { "task": "look" } }]);
    let outer = super::deterministic("outer", &["inner"], super::plan_then(plan, "all done"));
    server.define_agentic_tool(outer, json!({})).await;
    let done = server.invoke("outer", "go").await;
    assert_eq!(trace(&done), ["planning", "inner", "result_review"], "{done}");
    let execution = server.execution("outer", &done).await;
    assert_eq!(execution["toolCalls"][0]["response"], json!({ "summary": "seen" }));
    let costs = &execution["costBreakdown"];
    let sum = |list: &Value, field: &str| {
        list.as_array().unwrap().iter().map(|call| call[field].as_u64().unwrap()).sum::<u64>()
    };
    let llm = sum(&costs["llmCalls"], "tokensInput") + sum(&costs["llmCalls"], "tokensOutput");
    assert_eq!(costs["totalTokens"].as_u64().unwrap(), llm + sum(&costs["actionCalls"], "tokens"), "{costs}");
}
