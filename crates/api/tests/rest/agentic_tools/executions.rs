//! Executions of agentic tools: lists, costs, and the masking of personal data.

use serde_json::{Value, json};

use super::{PATH, agentic, deterministic, plan_then};
use crate::harness::Server;

crate::on_both_databases!(executions_are_listed_newest_first_and_filtered_by_status);
crate::on_sqlite!(
    execution_cost_is_the_sum_of_the_costs_of_its_calls,
    personal_data_is_masked_in_executions_and_not_in_results,
    execution_of_another_tool_is_not_found,
    input_without_a_task_is_shown_in_place_of_the_task,
    call_that_was_refused_before_its_execution_has_an_execution_with_the_error
);

async fn executions_are_listed_newest_first_and_filtered_by_status(server: Server) {
    server.define_echo("one", json!({})).await;
    let rules = json!([
        { "when": { "user": "fail" }, "reply": { "text": "no plan" } },
        { "when": { "user": "The plan was executed" }, "reply": { "text": "done" } },
        { "when": { "user": "not valid" }, "reply": { "text": "still no plan" } },
        { "reply": { "text": r#"{"steps":[{"step":1,"parameters":{}}]}"# } },
    ]);
    server.define_agentic_tool(deterministic("m", &["one"], rules), json!({})).await;
    server.invoke("m", "first").await;
    server.invoke("m", "fail").await;
    let list = server.get(&format!("{PATH}/m/executions")).await.expect(200);
    let tasks: Vec<&Value> = list["items"].as_array().unwrap().iter().map(|item| &item["task"]).collect();
    assert_eq!(tasks, ["fail", "first"], "{list}");
    assert!(list["items"][0]["completedAt"].is_string() && list["items"][0]["parentRunId"].is_string(), "{list}");
    for (status, count) in [("success", 1), ("error", 1), ("running", 0), ("timeout", 0)] {
        let list = server.get(&format!("{PATH}/m/executions?status={status}")).await.expect(200);
        assert_eq!(list["items"].as_array().unwrap().len(), count, "{status}: {list}");
    }
    let page = server.get(&format!("{PATH}/m/executions?limit=1")).await.expect(200);
    let next = page["nextCursor"].as_str().unwrap();
    let rest = server.get(&format!("{PATH}/m/executions?limit=1&cursor={next}")).await.expect(200);
    assert_eq!((&rest["items"][0]["task"], &rest["nextCursor"]), (&json!("first"), &Value::Null));
    server.get(&format!("{PATH}/m/executions?status=gone")).await.problem(400, "invalid-request");
    server.get(&format!("{PATH}/m/executions/run_x")).await.problem(404, "not-found");
    let runs = server.get("runs?kind=agentic-tool").await.expect(200);
    assert_eq!(runs["items"].as_array().unwrap().len(), 2);
}

async fn execution_cost_is_the_sum_of_the_costs_of_its_calls(server: Server) {
    server.define_echo("priced", json!({ "price": { "perCallUsd": 0.1 } })).await;
    let usage = json!({ "inputTokens": 800, "outputTokens": 434 });
    let rules = json!([
        { "when": { "user": "The plan was executed" }, "reply": { "text": "done", "usage": usage } },
        { "reply": { "text": r#"{"steps":[{"step":1,"forEach":"${[1,2,3]}","parameters":{"n":"${item}"}}]}"#, "usage": usage } },
    ]);
    server.define_agentic_tool(deterministic("m", &["priced"], rules), json!({})).await;
    let done = server.invoke("m", "go").await;
    let costs = server.execution("m", &done).await["costBreakdown"].clone();
    assert_eq!((&costs["totalCost"], &costs["totalTokens"]), (&json!(0.3), &json!(2 * 1234)), "{costs}");
    assert_eq!(
        (&done["meta"]["totalCost"], &done["meta"]["totalTokens"]),
        (&costs["totalCost"], &costs["totalTokens"])
    );
    let sum = |list: &Value, field: &str| -> f64 {
        list.as_array().unwrap().iter().map(|call| call[field].as_f64().unwrap()).sum()
    };
    let cost = sum(&costs["llmCalls"], "cost") + sum(&costs["actionCalls"], "cost");
    assert!((cost - 0.3).abs() < 1e-9, "{costs}");
    assert!((sum(&costs["llmCalls"], "tokensInput") - 1600.0).abs() < 0.5);
}

async fn personal_data_is_masked_in_executions_and_not_in_results(server: Server) {
    server.define_echo("mail", json!({})).await;
    let rules = json!([
        { "when": { "turn": 0 }, "reply": { "toolCalls": [{ "name": "mail", "arguments": { "to": "ada@mail.org" } }] } },
        { "reply": { "text": "Sent to ada@mail.org, call +49 30 1234 5678" } },
    ]);
    server.define_agentic_tool(agentic("m", &["mail"], rules), json!({})).await;
    let done = server.invoke("m", "Write to ada@mail.org about card 4111 1111 1111 1111").await;
    assert_eq!(done["data"]["summary"], "Sent to ada@mail.org, call +49 30 1234 5678");
    let execution = server.execution("m", &done).await;
    assert_eq!(execution["parentRequest"]["task"], "Write to [email] about card [card]");
    assert_eq!(execution["toolCalls"][0]["parameters"], json!({ "to": "[email]" }));
    assert_eq!(execution["llmCalls"][1]["response"], "Sent to [email], call [phone]");
    for part in ["ada@mail.org", "4111", "1234 5678"] {
        assert!(!execution.to_string().contains(part), "{part}: {execution}");
    }
    let list = server.get(&format!("{PATH}/m/executions")).await.expect(200);
    assert!(!list.to_string().contains("ada@mail.org"), "{list}");
}

async fn execution_of_another_tool_is_not_found(server: Server) {
    server.define_echo("one", json!({})).await;
    let rules = plan_then(json!([{ "step": 1, "parameters": {} }]), "done");
    server.define_agentic_tool(deterministic("a", &["one"], rules.clone()), json!({})).await;
    server.define_agentic_tool(deterministic("b", &["one"], rules), json!({})).await;
    let done = server.invoke("a", "go").await;
    let id = done["meta"]["executionId"].as_str().unwrap();
    server.get(&format!("{PATH}/b/executions/{id}")).await.problem(404, "not-found");
    server.post(&format!("{PATH}/b/executions/{id}/rerun"), json!({})).await.problem(404, "not-found");
    let other = server.call("one", json!({})).await;
    assert!(other["error"].is_null());
}

async fn input_without_a_task_is_shown_in_place_of_the_task(server: Server) {
    server.define_echo("one", json!({})).await;
    let schema = json!({ "inputSchema": { "type": "object", "properties": { "deal": { "type": "string" } } } });
    let rules = plan_then(json!([{ "step": 1, "parameters": {} }]), "done");
    server.define_agentic_tool(deterministic("planned", &["one"], rules), schema.clone()).await;
    server.define_agentic_tool(agentic("free", &["one"], json!([{ "reply": { "text": "done" } }])), schema).await;
    for tool in ["planned", "free"] {
        let long = "x".repeat(300);
        let body = json!({ "tool": tool, "params": { "deal": long } });
        let done = server.post(&format!("{PATH}/invoke"), body).await.expect(200);
        let list = server.get(&format!("{PATH}/{tool}/executions")).await.expect(200);
        let task = list["items"][0]["task"].as_str().unwrap();
        assert!(task.starts_with(r#"{"deal":"xxx"#) && task.len() == 200, "{task}");
        let execution = server.execution(tool, &done).await;
        assert_eq!(execution.get("task"), None, "{execution}");
        assert_eq!(execution["parentRequest"]["deal"], long);
        // The input is fenced once.
        let prompt = execution["llmCalls"][0]["prompt"].as_str().unwrap();
        assert!(!prompt.contains("<\\"), "{prompt}");
        let fence = format!("<data name=\"input\">\n{{\"deal\":\"{long}\"}}\n</data>");
        assert!(prompt.contains(&fence), "{prompt}");
    }
}

async fn call_that_was_refused_before_its_execution_has_an_execution_with_the_error(server: Server) {
    server.define_echo("one", json!({})).await;
    let off = json!({ "status": "disabled" });
    server.define_agentic_tool(agentic("off", &["one"], json!([])), off).await;
    server.define_agentic_tool(agentic("none", &["missing"], json!([])), json!({})).await;
    server.define_agentic_tool(agentic("m", &["one"], json!([])), json!({})).await;
    let task = json!({ "task": "go" });
    for (tool, params) in [("off", &task), ("none", &task), ("m", &json!({ "task": 5 }))] {
        let body = json!({ "tool": tool, "params": params });
        let refused = server.post(&format!("{PATH}/invoke"), body).await.expect(200);
        assert_eq!(refused["success"], false, "{refused}");
        let execution = server.execution(tool, &refused).await;
        assert_eq!(execution["id"], refused["meta"]["executionId"]);
        assert_eq!((&execution["status"], &execution["agenticTool"]), (&json!("error"), &json!(tool)), "{execution}");
        assert_eq!(execution["error"]["code"], refused["error"]["code"], "{execution}");
        assert_eq!((&execution["llmCalls"], &execution["toolCalls"]), (&json!([]), &json!([])), "{execution}");
        let rerun = format!("{PATH}/{tool}/executions/{}/rerun", execution["id"].as_str().unwrap());
        let problem = server.post(&rerun, json!({})).await.problem(400, "invalid-request");
        assert!(problem["detail"].as_str().unwrap().contains("refused before it made a plan"), "{problem}");
    }
    let other = server.call("one", json!({})).await;
    assert!(other["error"].is_null());
}
