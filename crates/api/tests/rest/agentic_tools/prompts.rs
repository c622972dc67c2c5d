//! Prompts of agentic tools: placeholders, tests, generation and versions.

use serde_json::{Value, json};

use super::{PATH, agentic, deterministic};
use crate::harness::{Server, merge};

crate::on_both_databases!(versions_of_a_prompt_are_listed_with_diffs_and_restored);
crate::on_sqlite!(
    prompt_test_replaces_all_placeholders_and_calls_no_model,
    prompt_test_with_a_model_call_shows_the_reply_and_executes_nothing,
    prompt_of_an_unsaved_tool_can_be_tested,
    prompt_test_shows_the_tools_of_the_tested_tool,
    regenerated_prompt_contains_the_current_description_and_tools,
    context_over_its_token_limit_is_cut_off_with_a_warning,
    placeholders_in_prompts_of_agents_are_replaced
);

const PROMPT: &str = "Schema:\n{{integration_schema}}\nTools:\n{{available_tools}}\nTask:\n{{user_task}}\n\
    History:\n{{execution_history}}\nStages:\n{{reference_data.stages}}\nMissing: {{nothing}}";

async fn define_lookup(server: &Server) {
    let schema = json!({ "type": "object", "properties": { "deal_field": { "type": "string" } } });
    server.define_echo("crm/lookup", json!({ "inputJsonSchema": schema, "description": "Looks up a deal." })).await;
}

async fn test_prompt(server: &Server, tool: &str, body: Value) -> Value {
    server.post(&format!("{PATH}/{tool}/test-prompt"), body).await.expect(200)
}

async fn prompt_test_replaces_all_placeholders_and_calls_no_model(server: Server) {
    define_lookup(&server).await;
    let more = json!({ "systemPrompt": PROMPT, "contextConfig": { "documentation": "Doc text.", "exampleQueries": ["Example one"] } });
    let tool =
        agentic("m", &["crm/lookup"], json!([{ "error": { "kind": "overloaded", "message": "must not be called" } }]));
    server.define_agentic_tool(tool, more).await;
    let shown = test_prompt(&server, "m", json!({ "params": { "task": "Find deal 7" } })).await;
    let prompt = shown["systemPrompt"].as_str().unwrap();
    for part in [
        "deal_field",
        "crm/lookup: Looks up a deal.",
        "Find deal 7",
        "No steps have been executed yet",
        "No stages data available",
        "Doc text.",
        "Example one",
    ] {
        assert!(prompt.contains(part), "{part}: {prompt}");
    }
    assert!(!prompt.contains("{{"), "{prompt}");
    assert!(shown["warnings"].to_string().contains("`nothing`"), "{shown}");
    assert!(shown["estimatedTokens"].as_u64().unwrap() > 50 && shown.get("reply").is_none(), "{shown}");
    let other =
        test_prompt(&server, "m", json!({ "params": { "task": "x" }, "systemPrompt": "Only this prompt." })).await;
    assert!(other["systemPrompt"].as_str().unwrap().starts_with("Only this prompt."), "{other}");
    assert_eq!(other["warnings"], json!([]), "{other}");
    let invalid =
        test_prompt(&server, "m", json!({ "params": { "task": 5 }, "systemPrompt": "Only this prompt." })).await;
    assert!(invalid["warnings"].to_string().contains("does not match the input schema: /task"), "{invalid}");
    let runs = server.get("runs").await.expect(200);
    assert_eq!(runs["items"], json!([]), "nothing ran");
}

async fn prompt_test_with_a_model_call_shows_the_reply_and_executes_nothing(server: Server) {
    server.define_echo("pay", json!({ "sideEffects": "writes" })).await;
    let calls =
        json!([{ "reply": { "text": "I pay.", "toolCalls": [{ "name": "pay", "arguments": { "amount": 5 } }] } }]);
    server.define_agentic_tool(agentic("free", &["pay"], calls), json!({})).await;
    let shown = test_prompt(&server, "free", json!({ "params": { "task": "pay" }, "callModel": true })).await;
    let reply = &shown["reply"];
    assert_eq!((&reply["text"], &reply["toolCalls"][0]["actionSlug"]), (&json!("I pay."), &json!("pay")), "{shown}");
    let plan = r#"{"steps":[{"step":1,"parameters":{"amount":5}}]}"#;
    server
        .define_agentic_tool(deterministic("fixed", &["pay"], json!([{ "reply": { "text": plan } }])), json!({}))
        .await;
    let shown = test_prompt(&server, "fixed", json!({ "params": { "task": "pay" }, "callModel": true })).await;
    assert_eq!(shown["reply"]["text"], plan, "{shown}");
    let effects = server.get("effects").await.expect(200);
    assert_eq!(effects["items"], json!([]), "nothing was written");
}

async fn prompt_of_an_unsaved_tool_can_be_tested(server: Server) {
    define_lookup(&server).await;
    let tool = merge(agentic("new", &["crm/lookup"], json!([])), json!({ "systemPrompt": "Do {{user_task}} now." }));
    let body = json!({ "tool": tool, "params": { "task": "this" } });
    let shown = server.post(&format!("{PATH}/test-prompt"), body).await.expect(200);
    assert!(shown["systemPrompt"].as_str().unwrap().contains("this"), "{shown}");
    server.get(&format!("{PATH}/new")).await.problem(404, "not-found");
    let bad = json!({ "tool": merge(tool, json!({ "systemPrompt": "x" })) });
    let problem = server.post(&format!("{PATH}/test-prompt"), bad).await.problem(422, "invalid-definition");
    assert_eq!(problem["errors"][0]["path"], "/systemPrompt", "{problem}");
}

async fn prompt_test_shows_the_tools_of_the_tested_tool(server: Server) {
    for name in ["first/tool", "second/tool"] {
        server.define_echo(name, json!({})).await;
    }
    for (slug, tool) in [("one", "first/tool"), ("two", "second/tool")] {
        server.define_agentic_tool(agentic(slug, &[tool], json!([])), json!({})).await;
    }
    for (slug, own, other) in [("one", "first/tool", "second/tool"), ("two", "second/tool", "first/tool")] {
        let body = json!({ "params": { "task": "x" } });
        let saved = test_prompt(&server, slug, body).await;
        let body = json!({ "tool": agentic("new", &[own], json!([])), "params": { "task": "x" } });
        let unsaved = server.post(&format!("{PATH}/test-prompt"), body).await.expect(200);
        for prompt in [&saved["systemPrompt"], &unsaved["systemPrompt"]] {
            let prompt = prompt.as_str().unwrap();
            assert!(prompt.contains(own) && !prompt.contains(other), "{prompt}");
        }
    }
}

async fn regenerated_prompt_contains_the_current_description_and_tools(server: Server) {
    define_lookup(&server).await;
    server.define_echo("crm/other", json!({})).await;
    let more = json!({ "systemPrompt": "An old prompt.", "description": "Finds deals." });
    let rules = json!([{ "reply": { "text": "A better prompt for {{user_task}}." } }]);
    server.define_agentic_tool(deterministic("m", &["crm/lookup"], rules), more).await;
    let two = json!({ "sequence": [{ "step": 1, "actionSlug": "crm/lookup", "purpose": "Find it" }, { "step": 2, "actionSlug": "crm/other" }] });
    server.patch(&format!("{PATH}/m"), json!({ "toolAllocation": two })).await.expect(200);
    let path = format!("{PATH}/m/regenerate-prompt");
    let shown = server.post(&path, json!({ "save": false })).await.expect(200);
    let prompt = shown["systemPrompt"].as_str().unwrap();
    for part in ["Finds deals", "1. crm/lookup - Find it", "2. crm/other", "{{integration_schema}}", "{{user_task}}"] {
        assert!(prompt.contains(part), "{part}: {prompt}");
    }
    assert_eq!((&shown["saved"], &shown["previousPrompt"]), (&json!(false), &json!("An old prompt.")));
    assert!(shown["diff"].as_str().unwrap().contains("-An old prompt."), "{shown}");
    assert_eq!(server.get(&format!("{PATH}/m")).await.expect(200)["systemPrompt"], "An old prompt.");
    server.post(&path, json!({})).await.expect(200);
    assert_eq!(server.get(&format!("{PATH}/m")).await.expect(200)["systemPrompt"], prompt);
    let written = server.post(&path, json!({ "useModel": true })).await.expect(200);
    assert!(written["systemPrompt"].as_str().unwrap().starts_with("A better prompt"), "{written}");
}

async fn versions_of_a_prompt_are_listed_with_diffs_and_restored(server: Server) {
    server.define_echo("one", json!({})).await;
    server.define_agentic_tool(deterministic("m", &["one"], json!([])), json!({})).await;
    let path = format!("{PATH}/m");
    for patch in [
        json!({ "systemPrompt": "The first own prompt.\n" }),
        json!({ "description": "unrelated" }),
        json!({ "systemPrompt": "The second own prompt.\n" }),
    ] {
        server.patch(&path, patch).await.expect(200);
    }
    let list = server.get(&format!("{path}/prompt-versions")).await.expect(200);
    let items = list["items"].as_array().unwrap();
    let revisions: Vec<i64> = items.iter().map(|item| item["revision"].as_i64().unwrap()).collect();
    assert_eq!(revisions, [4, 2, 1], "{list}");
    assert!(items[0]["diff"].as_str().unwrap().contains("-The first own prompt.\n+The second own prompt."), "{list}");
    assert_eq!((&items[2]["generated"], items[2].get("diff")), (&json!(true), None));
    let page = server.get(&format!("{path}/prompt-versions?limit=1")).await.expect(200);
    let next = page["nextCursor"].as_str().unwrap();
    let rest = server.get(&format!("{path}/prompt-versions?cursor={next}")).await.expect(200);
    assert_eq!(rest["items"][0]["revision"], 2, "{rest}");

    let restored = server.post(&format!("{path}/prompt-versions/2/restore"), json!({})).await.expect(200);
    assert_eq!(restored["systemPrompt"], "The first own prompt.\n");
    let restored = server.post(&format!("{path}/prompt-versions/1/restore"), json!({})).await.expect(200);
    assert_eq!(restored["generatedPrompt"], true);
    server.post(&format!("{path}/prompt-versions/99/restore"), json!({})).await.problem(404, "not-found");
}

async fn context_over_its_token_limit_is_cut_off_with_a_warning(server: Server) {
    define_lookup(&server).await;
    let context = json!({ "maxTokens": 500, "documentation": "A line of documentation.\n".repeat(500) });
    let tool = agentic("m", &["crm/lookup"], json!([{ "reply": { "text": "done" } }]));
    server.define_agentic_tool(tool, json!({ "contextConfig": context })).await;
    let done = server.invoke("m", "go").await;
    assert!(done["warnings"][0].as_str().unwrap().starts_with("context `documentation` was cut from"), "{done}");
    let execution = server.execution("m", &done).await;
    let prompt = execution["llmCalls"][0]["prompt"].as_str().unwrap();
    assert!(prompt.contains("bytes are shown]") && prompt.len() < 6_000, "{}", prompt.len());
}

async fn placeholders_in_prompts_of_agents_are_replaced(server: Server) {
    define_lookup(&server).await;
    let rules = json!([{ "reply": { "text": "ok" } }]);
    server.define_agent("a", rules, json!({ "systemPrompt": PROMPT, "toolRefs": ["crm/lookup"] })).await;
    let run = server.run("a", "Find deal 7").await;
    let bundle = server.get(&format!("runs/{}/export", run["runId"].as_str().unwrap())).await.text;
    for part in ["deal_field", "crm/lookup: Looks up a deal.", "No steps have been executed yet", "No stages data"] {
        assert!(bundle.contains(part), "{part}: {bundle}");
    }
    assert!(!run["warnings"].to_string().contains("user_task"), "{run}");
}
