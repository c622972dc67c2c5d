//! Plans of the deterministic mode: their mistakes, their approval, and the names that they may use.

use serde_json::{Value, json};

use super::{PATH, deterministic, plan_then};
use crate::harness::Server;

crate::on_sqlite!(
    tool_with_the_name_of_a_tool_of_runs_is_rejected,
    model_gets_the_exact_mistakes_of_its_plan,
    changed_plan_of_a_rerun_is_refused_with_its_exact_mistakes,
    invalid_edit_of_a_plan_is_refused_and_the_approval_stays_pending,
    invalid_edit_of_a_call_is_refused_and_the_approval_stays_pending,
    unknown_model_provider_or_empty_model_is_rejected,
    limit_of_a_reply_that_has_no_effect_is_reported_as_a_warning
);

/// Defines a tool `search` with the parameter `q`.
async fn define_search(server: &Server) {
    let schema = json!({ "type": "object", "properties": { "q": { "type": "string" } }, "required": ["q"], "additionalProperties": false });
    server.define_echo("search", json!({ "inputJsonSchema": schema, "sideEffects": "writes" })).await;
}

async fn tool_with_the_name_of_a_tool_of_runs_is_rejected(server: Server) {
    for name in ["approve_plan", "Approve_Plan", "search_tools"] {
        let tool =
            json!({ "refName": name, "toolType": "FUNCTION", "description": "x", "invocation": { "path": "echo" } });
        let problem = server.post("tools", tool).await.problem(422, "invalid-definition");
        assert_eq!(problem["errors"][0]["path"], "/refName", "{problem}");
        assert!(problem["errors"][0]["message"].as_str().unwrap().contains("choose another name"), "{problem}");
    }
}

async fn model_gets_the_exact_mistakes_of_its_plan(server: Server) {
    define_search(&server).await;
    let corrected = json!({ "steps": [{ "step": 1, "parameters": { "q": "acme" } }] });
    let rules = json!([
        { "when": { "user": "The plan was executed" }, "reply": { "text": "done" } },
        { "when": { "user": "/steps/0/parameters/q: 7 is not of type \"string\"" },
          "reply": { "text": format!("<think>A string.</think>\n```json\n{corrected}\n```") } },
        { "reply": { "text": json!({ "steps": [{ "step": 1, "parameters": { "q": 7 } }] }).to_string() } },
    ]);
    server.define_agentic_tool(deterministic("m", &["search"], rules), json!({})).await;
    let done = server.invoke("m", "go").await;
    assert_eq!((&done["success"], &done["data"]["summary"]), (&json!(true), &json!("done")), "{done}");
}

async fn changed_plan_of_a_rerun_is_refused_with_its_exact_mistakes(server: Server) {
    define_search(&server).await;
    let plan = plan_then(json!([{ "step": 1, "parameters": { "q": "acme" } }]), "done");
    server.define_agentic_tool(deterministic("m", &["search"], plan), json!({})).await;
    let done = server.invoke("m", "go").await;
    let rerun = format!("{PATH}/m/executions/{}/rerun", done["meta"]["executionId"].as_str().unwrap());
    let changed = json!({ "executionPlan": { "steps": [{ "step": 1, "parameters": { "q": 7, "limit": 1 } }] } });
    let problem = server.post(&rerun, changed).await.expect(400);
    let detail = problem["detail"].as_str().unwrap();
    assert!(detail.contains("/steps/0/parameters/q: 7 is not of type \"string\""), "{problem}");
    assert!(detail.contains("'limit' was unexpected"), "{problem}");
}

async fn invalid_edit_of_a_plan_is_refused_and_the_approval_stays_pending(server: Server) {
    define_search(&server).await;
    let plan = plan_then(json!([{ "step": 1, "parameters": { "q": "acme" } }]), "done");
    server.define_agentic_tool(deterministic("m", &["search"], plan), json!({ "requiresPlanApproval": true })).await;
    let body = json!({ "tool": "m", "params": { "task": "go" } });
    let waiting = server.post(&format!("{PATH}/invoke"), body).await.expect(202);
    for (edited, path) in [
        (json!({ "steps": [] }), "/input/steps"),
        (json!({ "steps": [{ "step": 1, "parameters": { "q": 7 } }] }), "/input/steps/0/parameters/q"),
        (json!({ "steps": [{ "step": 9, "parameters": {} }] }), "/input/steps/0/step"),
        (json!({ "steps": [{ "step": 1, "parameters": { "q": "${steps.1.output}" } }] }), "/input/steps/0/parameters"),
    ] {
        let edit = json!({ "decision": "edit", "input": edited });
        let problem = server.decide(&waiting, 0, edit).await.problem(400, "invalid-request");
        assert_eq!(problem["errors"][0]["path"], path, "{problem}");
        assert_eq!(server.execution("m", &waiting).await["runStatus"], "AWAITING_APPROVAL");
    }
    let edited = json!({ "steps": [{ "step": 1, "parameters": { "q": "other" } }] });
    let decided = server.decide(&waiting, 0, json!({ "decision": "edit", "input": edited })).await.expect(200);
    assert_eq!(decided["status"], "COMPLETED", "{decided}");
}

async fn invalid_edit_of_a_call_is_refused_and_the_approval_stays_pending(server: Server) {
    let schema = json!({ "type": "object", "properties": { "amount": { "type": "integer" } } });
    let pay = json!({ "sideEffects": "writes", "requiresConfirmation": true, "inputJsonSchema": schema });
    server.define_echo("pay", pay).await;
    let plan = plan_then(json!([{ "step": 1, "parameters": { "amount": 5 } }]), "paid");
    server.define_agentic_tool(deterministic("m", &["pay"], plan), json!({})).await;
    let body = json!({ "tool": "m", "params": { "task": "pay" } });
    let waiting = server.post(&format!("{PATH}/invoke"), body).await.expect(202);
    let edit = json!({ "decision": "edit", "input": { "amount": "many" } });
    let problem = server.decide(&waiting, 0, edit).await.problem(400, "invalid-request");
    assert_eq!(problem["errors"][0]["path"], "/input/amount", "{problem}");
    let decided = server.decide(&waiting, 0, json!({ "decision": "approve" })).await.expect(200);
    assert_eq!(decided["status"], "COMPLETED", "{decided}");
}

async fn unknown_model_provider_or_empty_model_is_rejected(server: Server) {
    let save = async |model: Value| {
        let mut tool = deterministic("m", &["search"], json!([]));
        tool["embeddedLLMConfig"] = model;
        server.post(PATH, tool).await.problem(422, "invalid-definition")
    };
    let problem = save(json!({ "provider": "nope", "model": "m" })).await;
    assert!(problem["errors"][0]["path"].as_str().unwrap().contains("embeddedLLMConfig"), "{problem}");
    assert!(problem["errors"][0]["message"].as_str().unwrap().contains("use anthropic, openai"), "{problem}");
    let problem = save(json!({ "model": " " })).await;
    assert!(problem["errors"][0]["path"].as_str().unwrap().ends_with("embeddedLLMConfig/model"), "{problem}");
}

async fn limit_of_a_reply_that_has_no_effect_is_reported_as_a_warning(server: Server) {
    let limits = json!({ "safetyLimits": { "maxTokensPerCall": 6000 } });
    let saved = server.define_agentic_tool(deterministic("m", &["search"], json!([])), limits).await;
    assert!(saved["warnings"].to_string().contains("limits replies to 4000 tokens"), "{saved}");
}
