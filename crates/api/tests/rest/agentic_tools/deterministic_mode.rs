//! The deterministic mode: the model writes one plan for a fixed sequence of tools, and formats one result.

use serde_json::{Value, json};

use super::{deterministic, plan_then, purposes, start_crm, trace};
use crate::harness::Server;

crate::on_both_databases!(
    deals_on_three_pages_are_found_and_updated,
    rerun_executes_the_recorded_or_a_changed_plan_without_a_model,
);
crate::on_sqlite!(
    failed_item_is_reported_in_the_result_and_the_other_items_are_updated,
    plan_with_wrong_parameters_is_corrected_by_the_model,
    plan_that_stays_invalid_fails_the_call,
    plan_cannot_contain_a_tool_outside_of_the_sequence,
    plan_parameters_can_refer_to_outputs_of_earlier_steps_and_to_the_input,
    steps_that_the_plan_omits_are_not_executed,
    tool_that_the_caller_may_not_use_makes_the_call_fail,
);

const SEARCH: &str = "hubspot/search-deals";
const UPDATE: &str = "hubspot/update-deal";

/// A plan that finds the deals of Acme Corp page by page, and updates each deal.
fn acme_plan() -> Value {
    let filters = json!([{ "propertyName": "company", "operator": "CONTAINS_TOKEN", "value": "Acme Corp" }]);
    json!([
        { "step": 1, "parameters": { "filters": filters, "limit": 2 },
          "paging": { "items": "${page.results}", "next": { "after": "${page.paging.next.after}" } } },
        { "step": 2, "forEach": "${steps.1.items}",
          "parameters": { "dealId": "${item.id}", "properties": { "dealstage": "negotiation" } } },
    ])
}

const SUMMARY: &str = r#"{"summary":"Updated 5 deals for Acme Corp to Negotiation stage","deals_affected":5,"operations_executed":["search-deals","update-deal"]}"#;

/// The stage of each deal by id.
async fn stages(server: &Server) -> Value {
    let found = server.call("hubspot%2Fsearch-deals", json!({ "filters": [], "limit": 100 })).await;
    let deals = found["output"]["results"].as_array().unwrap().iter();
    deals.map(|deal| (deal["id"].as_str().unwrap().to_owned(), deal["properties"]["dealstage"].clone())).collect()
}

async fn deals_on_three_pages_are_found_and_updated(server: Server) {
    let crm = start_crm().await;
    server.define_crm(&crm).await;
    let tool = deterministic("hubspot-deal-manager", &[SEARCH, UPDATE], plan_then(acme_plan(), SUMMARY));
    server.define_agentic_tool(tool, json!({})).await;
    let before = stages(&server).await;
    let task = "Update all Acme Corp deals to Negotiation";
    let done = server.invoke("hubspot-deal-manager", task).await;
    assert_eq!(done["success"], true, "{done}");
    assert_eq!(done["data"]["deals_affected"], 5);
    assert_eq!(done["data"]["operations_executed"], json!(["search-deals", "update-deal"]));
    let mut expected = before.clone();
    for deal in ["101", "102", "103", "104", "105"] {
        expected[deal] = json!("negotiation");
    }
    assert_ne!(before, expected);
    assert_eq!(stages(&server).await, expected, "only the deals of Acme Corp changed");

    let meta = &done["meta"];
    assert_eq!((&meta["agenticTool"], &meta["mode"]), (&json!("hubspot-deal-manager"), &json!("deterministic")));
    assert!(meta["totalTokens"].as_u64().unwrap() > 0 && meta["durationMs"].is_u64(), "{meta}");
    let calls = [vec!["planning"], vec![SEARCH; 3], vec![UPDATE; 5], vec!["result_review"]].concat();
    assert_eq!(trace(&done), calls);
    let execution = server.execution("hubspot-deal-manager", &done).await;
    assert_eq!((&execution["status"], &execution["parentRequest"]), (&json!("success"), &json!({ "task": task })));
    assert_eq!(purposes(&execution), ["planning", "result_review"]);
    assert_eq!(execution["executionPlan"]["steps"], acme_plan());
    assert_eq!(execution["llmCalls"][0]["reasoning"], "the reason");
    assert!(execution["llmCalls"][0]["prompt"].as_str().unwrap().contains(task));
    assert_eq!(execution["toolCalls"].as_array().unwrap().len(), 8);
    assert_eq!(execution["result"], done["data"]);
    crm.shutdown().await;
}

async fn rerun_executes_the_recorded_or_a_changed_plan_without_a_model(server: Server) {
    let crm = start_crm().await;
    server.define_crm(&crm).await;
    let tool = deterministic("manager", &[SEARCH, UPDATE], plan_then(acme_plan(), SUMMARY));
    server.define_agentic_tool(tool, json!({})).await;
    let first = server.invoke("manager", "go").await;
    let id = first["meta"]["executionId"].as_str().unwrap();
    let rerun = format!("/api/v1/agentic-tools/manager/executions/{id}/rerun");
    let again = server.post(&rerun, json!({})).await.expect(200);
    assert_eq!(trace(&again), [vec![SEARCH; 3], vec![UPDATE; 5]].concat(), "{again}");
    assert_eq!((&again["success"], &again["meta"]["totalTokens"]), (&json!(true), &json!(0)));
    assert_eq!(again["data"]["operations_executed"], json!([SEARCH, UPDATE]));
    // A changed plan moves the deals to another stage.
    let mut plan = json!({ "steps": acme_plan() });
    plan["steps"][1]["parameters"]["properties"]["dealstage"] = json!("closedwon");
    server.post(&rerun, json!({ "executionPlan": plan })).await.expect(200);
    assert_eq!(stages(&server).await["101"], "closedwon");
    plan["steps"][1]["parameters"]["properties"]["dealstage"] = json!("nope");
    let problem = server.post(&rerun, json!({ "executionPlan": plan })).await.problem(400, "invalid-request");
    assert!(problem["detail"].as_str().unwrap().contains("executionPlan"), "{problem}");
    for (wrong, path, message) in [
        (json!("x"), "/executionPlan", "must be an object with `steps`"),
        (json!({ "steps": [1] }), "/executionPlan/steps/0", "expected an object"),
    ] {
        let problem = server.post(&rerun, json!({ "executionPlan": wrong })).await.problem(400, "invalid-request");
        assert_eq!(problem["errors"][0]["path"], path, "{problem}");
        assert!(problem["errors"][0]["message"].as_str().unwrap().contains(message), "{problem}");
    }
    plan["steps"][1]["step"] = json!(3);
    server.post(&rerun, json!({ "executionPlan": plan })).await.problem(400, "invalid-request");
    crm.shutdown().await;
}

/// Defines `find`, which returns three ids, and `save`, which rejects the id 2.
async fn define_find_and_save(server: &Server) {
    let query = json!({ "type": "object", "properties": { "q": { "type": "string" } }, "required": ["q"] });
    server.define_echo("find", json!({ "inputJsonSchema": query })).await;
    let id = json!({ "type": "object", "properties": { "id": { "type": "integer", "not": { "const": 2 } } }, "required": ["id"] });
    server.define_echo("save", json!({ "inputJsonSchema": id, "sideEffects": "writes" })).await;
}

async fn failed_item_is_reported_in_the_result_and_the_other_items_are_updated(server: Server) {
    define_find_and_save(&server).await;
    let plan = json!([{ "step": 2, "forEach": "${[1, 2, 3]}", "parameters": { "id": "${item}" } }]);
    let rules = plan_then(plan, r#"{"summary":"Saved 2 of 3","saved":2}"#);
    server.define_agentic_tool(deterministic("m", &["find", "save"], rules), json!({})).await;
    let done = server.invoke("m", "go").await;
    assert_eq!((&done["success"], &done["data"]["saved"]), (&json!(true), &json!(2)), "{done}");
    // The server adds the failed items to the result, because the model did not list them.
    let errors = done["data"]["errors"].as_array().unwrap();
    assert_eq!((errors.len(), &errors[0]["item"], &errors[0]["tool"]), (1, &json!(2), &json!("save")), "{done}");
    assert_eq!(errors[0]["error"]["code"], "VALIDATION_ERROR");
    let execution = server.execution("m", &done).await;
    assert_eq!((&execution["steps"][0]["calls"], &execution["steps"][0]["failed"]), (&json!(3), &json!(1)));
    let review = execution["llmCalls"][1]["prompt"].as_str().unwrap();
    assert!(review.contains(r#""itemsFailed":1"#), "{review}");
}

async fn plan_with_wrong_parameters_is_corrected_by_the_model(server: Server) {
    define_find_and_save(&server).await;
    let plan = |q: Value| json!({ "steps": [{ "step": 1, "parameters": { "q": q } }] }).to_string();
    let rules = json!([
        { "when": { "user": "The plan was executed" }, "reply": { "text": "done" } },
        { "when": { "user": "not valid" }, "reply": { "text": plan(json!("right")) } },
        { "reply": { "text": plan(json!(7)) } },
    ]);
    server.define_agentic_tool(deterministic("m", &["find"], rules), json!({})).await;
    let done = server.invoke("m", "go").await;
    assert_eq!(done["success"], true, "{done}");
    assert_eq!(trace(&done), ["planning", "error_recovery", "find", "result_review"]);
    let execution = server.execution("m", &done).await;
    assert!(execution["llmCalls"][1]["prompt"].as_str().unwrap().contains("/steps/0"), "{execution}");
}

async fn plan_that_stays_invalid_fails_the_call(server: Server) {
    define_find_and_save(&server).await;
    let rules = json!([{ "reply": { "text": r#"{"steps":[{"step":1,"parameters":{"q":7}}]}"# } }]);
    server.define_agentic_tool(deterministic("m", &["find"], rules), json!({})).await;
    let failed = server.invoke("m", "go").await;
    assert_eq!((&failed["success"], &failed["data"]), (&json!(false), &Value::Null), "{failed}");
    assert_eq!(failed["error"]["details"]["reason"], "INVALID_LLM_OUTPUT");
    assert!(!trace(&failed).contains(&"find"), "{failed}");
    assert_eq!(server.execution("m", &failed).await["status"], "error");
}

async fn plan_cannot_contain_a_tool_outside_of_the_sequence(server: Server) {
    define_find_and_save(&server).await;
    let rules = json!([
        { "when": { "turn": 0 }, "reply": { "toolCalls": [{ "name": "save", "arguments": { "id": 1 } }] } },
        { "reply": { "text": r#"{"steps":[{"step":2,"parameters":{"id":1}}]}"# } },
    ]);
    server.define_agentic_tool(deterministic("m", &["find"], rules), json!({})).await;
    let failed = server.invoke("m", "go").await;
    assert_eq!(failed["error"]["details"]["reason"], "INVALID_LLM_OUTPUT", "{failed}");
    assert!(trace(&failed).iter().all(|step| *step != "save" && *step != "find"), "{failed}");
}

async fn plan_parameters_can_refer_to_outputs_of_earlier_steps_and_to_the_input(server: Server) {
    server.define_echo("one", json!({})).await;
    server.define_echo("two", json!({})).await;
    let plan = json!([
        { "step": 1, "parameters": { "deal": { "id": 7 }, "who": "${input.task}" } },
        { "step": 2, "when": "${steps.1.output.deal.id == 7}",
          "parameters": { "id": "${steps.1.output.deal.id}", "text": "for ${steps.1.output.who}" } },
        { "step": 3, "when": "${false}", "parameters": {} },
    ]);
    let tool = deterministic("m", &["one", "two", "one"], plan_then(plan, "done"));
    server.define_agentic_tool(tool, json!({})).await;
    let done = server.invoke("m", "Ada").await;
    let execution = server.execution("m", &done).await;
    assert_eq!(execution["toolCalls"][1]["parameters"], json!({ "id": 7, "text": "for Ada" }), "{execution}");
    let statuses: Vec<&Value> = execution["steps"].as_array().unwrap().iter().map(|step| &step["status"]).collect();
    assert_eq!(statuses, ["completed", "completed", "skipped"]);
}

async fn steps_that_the_plan_omits_are_not_executed(server: Server) {
    server.define_echo("one", json!({})).await;
    server.define_echo("two", json!({})).await;
    let rules = plan_then(json!([{ "step": 2, "parameters": {} }]), "done");
    server.define_agentic_tool(deterministic("m", &["one", "two"], rules), json!({})).await;
    assert_eq!(trace(&server.invoke("m", "go").await), ["planning", "two", "result_review"]);
}

async fn tool_that_the_caller_may_not_use_makes_the_call_fail(server: Server) {
    server.define_echo("one", json!({ "enabled": false })).await;
    let rules = plan_then(json!([{ "step": 1, "parameters": {} }]), "done");
    server.define_agentic_tool(deterministic("m", &["one", "missing"], rules), json!({})).await;
    let failed = server.invoke("m", "go").await;
    assert_eq!(failed["error"]["details"]["reason"], "NO_AVAILABLE_TOOLS", "{failed}");
    let message = failed["error"]["message"].as_str().unwrap();
    assert!(message.contains("`one`, `missing` cannot be used"), "{message}");
}
