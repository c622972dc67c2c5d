//! Tests definitions of agents and prompt fragments: validation, warnings and permissions.

use serde_json::{Value, json};

use crate::harness::{Server, calls_then, merge, scripted_model};

crate::on_both_databases!(
    agent_definition_can_be_created_read_replaced_and_removed,
    agent_keeps_all_its_versions,
    prompt_fragment_can_be_created_read_patched_and_removed
);
crate::on_sqlite!(
    version_status_decides_which_version_of_an_agent_runs,
    delegate_runs_in_the_required_version,
    invalid_agent_field_is_rejected_with_its_path,
    all_invalid_agent_fields_are_reported_in_one_response,
    agent_that_refers_to_missing_definitions_is_saved_with_warnings,
    cost_limit_requires_a_model_with_a_price,
    agents_can_be_written_only_by_administrators,
    agent_with_only_a_name_and_agent_with_null_fields_are_accepted
);

fn agent(more: Value) -> Value {
    merge(json!({ "refName": "a", "llmConfig": scripted_model(json!([])) }), more)
}

async fn agent_definition_can_be_created_read_replaced_and_removed(server: Server) {
    let body = json!({ "refName": "Sales/Helper", "displayName": "Helper", "description": "Helps.", "systemPrompt": "Be kind.",
        "llmConfig": scripted_model(json!([])), "toolRefs": ["echo"], "executionConfig": { "maxIterations": 3 } });
    let created = server.post("agents", body).await;
    assert_eq!(created.headers["etag"], "\"1\"");
    let created = created.expect(201);
    for reference in ["Sales%2FHelper", "sales%2fhelper", created["id"].as_str().unwrap()] {
        assert_eq!(server.get(&format!("agents/{reference}")).await.expect(200), created);
    }
    server.post("agents", json!({ "refName": "sales/HELPER" })).await.problem(409, "duplicate");
    // The server accepts a definition exactly as a GET request returned it.
    let replaced = server.put("agents/sales%2Fhelper", created.clone()).await.expect(200);
    assert_eq!((&replaced["id"], &replaced["revision"]), (&created["id"], &json!(2)));
    let patched = server
        .patch("agents/sales%2Fhelper", json!({ "displayName": null, "executionConfig": { "timeoutSeconds": 9 } }))
        .await
        .expect(200);
    assert_eq!(patched["displayName"], Value::Null);
    assert_eq!(patched["executionConfig"], json!({ "maxIterations": 3, "timeoutSeconds": 9 }));
    let stale = server.request(reqwest::Method::PUT, "agents/sales%2Fhelper").header("if-match", "\"1\"");
    server.send(stale.json(&created)).await.problem(412, "stale-revision");
    let listed = server.get("agents").await.expect(200);
    assert_eq!(listed["items"][0]["refName"], "Sales/Helper");
    assert_eq!(server.get("agents/count").await.expect(200)["count"], 1);
    assert_eq!(server.post("agents/query", json!({})).await.expect(200)["items"].as_array().unwrap().len(), 1);
    server.delete("agents/sales%2Fhelper").await.expect(204);
    server.get("agents/sales%2Fhelper").await.problem(404, "not-found");
    server.execute_agent("sales%2Fhelper", json!({ "userMessage": "hi" })).await.problem(404, "not-found");
}

/// Writes a version of the agent `a` that replies with `text`.
async fn put_version(server: &Server, version: &str, text: &str) {
    let llm = scripted_model(json!([{ "reply": { "text": text } }]));
    server.put("agents/a", json!({ "refName": "a", "version": version, "llmConfig": llm })).await.expect(200);
}

async fn define_versions(server: &Server) {
    let created = server.define_agent("a", json!([{ "reply": { "text": "one" } }]), json!({})).await;
    assert_eq!((&created["version"], &created["status"]), (&json!("1.0.0"), &json!("active")));
    put_version(server, "1.10.0", "one point ten").await;
    put_version(server, "2.0.0", "two").await;
}

async fn agent_keeps_all_its_versions(server: Server) {
    define_versions(&server).await;
    let versions = server.get("agents/a/versions").await.expect(200);
    let versions: Vec<&Value> = versions["items"].as_array().unwrap().iter().map(|one| &one["version"]).collect();
    assert_eq!(versions, ["2.0.0", "1.10.0", "1.0.0"]);
    assert_eq!(server.get("agents/a").await.expect(200)["version"], "2.0.0");
    assert_eq!(server.get("agents/a?version=1.0.0").await.expect(200)["version"], "1.0.0");
    server.get("agents/a?version=3.0.0").await.problem(404, "not-found");
    server.get("agents/nobody/versions").await.problem(404, "not-found");

    for (version, text) in [(json!(null), "two"), (json!("^1"), "one point ten"), (json!("1.0.0"), "one")] {
        let run = server.execute_agent("a", json!({ "userMessage": "hi", "version": version })).await.expect(200);
        assert_eq!(run["responseText"], text, "{version}");
    }
    for (reference, text) in [("a@1.0.0", "one"), ("A@%5E1", "one point ten")] {
        assert_eq!(server.run(reference, "hi").await["responseText"], text, "{reference}");
    }
    server.execute_agent("a", json!({ "userMessage": "hi", "version": "^3" })).await.problem(404, "not-found");
    let invalid = server.execute_agent("a", json!({ "userMessage": "hi", "version": "new" })).await;
    assert_eq!(invalid.problem(400, "invalid-request")["errors"][0]["path"], "/version");

    // A conversation can continue with another version of its agent.
    let first = server.run("a@1.0.0", "hi").await;
    let next = server.continue_conversation("a", &first["conversationId"], "hi again").await.expect(200);
    assert_eq!(next["responseText"], "two");
}

async fn version_status_decides_which_version_of_an_agent_runs(server: Server) {
    define_versions(&server).await;
    let set = |version: &'static str, status: &'static str| {
        server.patch("agents/a", json!({ "version": version, "status": status }))
    };
    set("2.0.0", "draft").await.expect(200);
    assert_eq!(server.run("a", "hi").await["responseText"], "one point ten");
    assert_eq!(server.run("a@2.0.0", "hi").await["responseText"], "two");
    for version in ["1.0.0", "1.10.0"] {
        set(version, "deprecated").await.expect(200);
    }
    let deprecated = server.run("a", "hi").await;
    assert_eq!(deprecated["responseText"], "one point ten");
    assert!(deprecated["warnings"].to_string().contains("version 1.10.0 of agent `a` is deprecated"), "{deprecated}");
    for version in ["1.0.0", "1.10.0"] {
        set(version, "blocked").await.expect(200);
    }
    for reference in ["a", "a@1.0.0"] {
        let problem = server.execute_agent(reference, json!({ "userMessage": "hi" })).await;
        let problem = problem.problem(409, "agent-disabled");
        assert!(problem["detail"].as_str().unwrap().contains("is blocked"), "{problem}");
    }
}

async fn delegate_runs_in_the_required_version(server: Server) {
    define_versions(&server).await;
    let calls = json!([{ "name": "a", "arguments": { "task": "go" } }]);
    for (reference, text, version) in [("a", "two", "2.0.0"), ("a@^1", "one point ten", "1.10.0")] {
        let more = json!({ "delegateAgentRefs": [reference] });
        let rules = calls_then(calls.clone(), "Told: {{result/responseText}}");
        let boss = server.define_agent("boss", rules, more).await;
        assert_eq!(boss["warnings"], Value::Null);
        let run = server.run("boss", "go").await;
        assert_eq!(run["responseText"], format!("Told: {text}"), "{run}");
        assert_eq!(run["outputs"]["last_tool"]["version"], version, "{run}");
        server.delete("agents/boss").await.expect(204);
    }
    let invalid = json!({ "delegateAgentRefs": ["a@new"], "memoryConfig": { "summaryAgentRef": "a@new" } });
    let problem = server.post("agents", merge(json!({ "refName": "boss" }), invalid)).await;
    let problem = problem.problem(422, "invalid-definition");
    let paths: Vec<&Value> = problem["errors"].as_array().unwrap().iter().map(|error| &error["path"]).collect();
    assert_eq!(paths, ["/delegateAgentRefs/0", "/memoryConfig/summaryAgentRef"]);
}

async fn prompt_fragment_can_be_created_read_patched_and_removed(server: Server) {
    let fragment = json!({ "refName": "tone", "content": "Be {{tone}}." });
    let created = server.post("prompt-fragments", fragment.clone()).await.expect(201);
    server.post("prompt-fragments", fragment).await.problem(409, "duplicate");
    assert_eq!(server.get("prompt-fragments/TONE").await.expect(200), created);
    let changed = server.patch("prompt-fragments/tone", json!({ "content": "Be brief." })).await.expect(200);
    assert_eq!((&changed["content"], &changed["revision"]), (&json!("Be brief."), &json!(2)));
    for (invalid, path) in [
        (json!({ "refName": "x", "content": "one\ntwo {{ " }), "/content"),
        (json!({ "refName": "x" }), "/content"),
        (json!({ "refName": "x", "content": "", "more": 1 }), "/more"),
    ] {
        let problem = server.post("prompt-fragments", invalid.clone()).await.problem(422, "invalid-definition");
        let message = format!("{} {}", problem["detail"], problem["errors"]);
        assert!(message.contains(path.trim_start_matches('/')), "{invalid}: {problem}");
    }
    server.delete("prompt-fragments/tone").await.expect(204);
    server.get("prompt-fragments/tone").await.problem(404, "not-found");
}

/// Returns invalid agent fields. Each has the JSON path of the expected error and a part of the expected message.
fn invalid_fields() -> Vec<(Value, &'static str, &'static str)> {
    let model = |more: Value| json!({ "llmConfig": merge(scripted_model(json!([])), more) });
    let pin = |selector: Value| json!({ "pins": [{ "name": "p", "selector": selector }] });
    vec![
        (model(json!({ "temperature": 1.01 })), "/llmConfig/temperature", "between 0 and 1"),
        (model(json!({ "temperature": -0.1 })), "/llmConfig/temperature", "between 0 and 1"),
        (model(json!({ "maxOutputTokens": 0 })), "/llmConfig/maxOutputTokens", "at least 1"),
        (model(json!({ "maxInputTokens": 0 })), "/llmConfig/maxInputTokens", "at least 1"),
        (model(json!({ "provider": "nobody" })), "/llmConfig", "nobody"),
        (json!({ "llmConfig": { "provider": "scripted" } }), "/llmConfig", "scripted"),
        (model(json!({ "apiKey": "sk-1" })), "/llmConfig/apiKey", "unknown field"),
        (model(json!({ "extraParams": { "script": { "rules": [{}] } } })), "/llmConfig/extraParams/script", "rule 0"),
        (model(json!({ "extraParams": { "script": { "rule": [] } } })), "/llmConfig/extraParams/script", "rule"),
        (json!({ "fallbackModel": { "provider": "nobody", "model": "x" } }), "/fallbackModel", "nobody"),
        (json!({ "executionConfig": { "maxIterations": 0 } }), "/executionConfig/maxIterations", "at least 1"),
        (json!({ "executionConfig": { "timeoutSeconds": 0 } }), "/executionConfig/timeoutSeconds", "at least 1"),
        (json!({ "executionConfig": { "maxParallelCalls": 0 } }), "/executionConfig/maxParallelCalls", "at least 1"),
        (json!({ "executionConfig": { "maxIterations": -1 } }), "/executionConfig/maxIterations", "-1"),
        (json!({ "memoryConfig": { "maxConversationTurns": 0 } }), "/memoryConfig/maxConversationTurns", "at least 1"),
        (json!({ "memoryConfig": { "maxContextTokens": 0 } }), "/memoryConfig/maxContextTokens", "at least 1"),
        (json!({ "memoryConfig": { "strategy": "all" } }), "/memoryConfig/strategy", "all"),
        (json!({ "memoryConfig": { "summaryAgentRef": "a" } }), "/memoryConfig/summaryAgentRef", "its own"),
        (json!({ "policy": { "maxTokens": 0 } }), "/policy/maxTokens", "at least 1"),
        (json!({ "policy": { "maxCostUsd": 0 } }), "/policy/maxCostUsd", "greater than 0"),
        (json!({ "policy": { "maxCostUsd": -1 } }), "/policy/maxCostUsd", "greater than 0"),
        (json!({ "policy": { "sideEffects": "all" } }), "/policy/sideEffects", "all"),
        (json!({ "name": "n".repeat(129) }), "/name", "128"),
        (json!({ "toolRefs": ["fine", "t@soon"] }), "/toolRefs/1", "t@soon"),
        (json!({ "systemPrompt": "one\n{{ two" }), "/systemPrompt", "line 2"),
        (json!({ "responseFormat": "structured" }), "/responseSchema", "is required"),
        (json!({ "responseSchema": {} }), "/responseSchema", "structured"),
        (json!({ "responseFormat": "structured", "responseSchema": { "type": 7 } }), "/responseSchema", "7"),
        (json!({ "responseFormat": "xml" }), "/responseFormat", "xml"),
        (json!({ "guardrails": [{ "type": "be_nice" }] }), "/guardrails/0", "be_nice"),
        (json!({ "guardrails": [{ "type": "no_delete" }, { "type": "max_cost" }] }), "/guardrails/1", "maxCostUsd"),
        (
            json!({ "guardrails": [{ "type": "no_delete", "parameters": { "x": 1 } }] }),
            "/guardrails/0",
            "unknown field",
        ),
        (
            json!({ "guardrails": [{ "type": "content_filter", "parameters": { "patterns": ["("] } }] }),
            "/guardrails/0",
            "compile",
        ),
        (
            json!({ "guardrails": [{ "type": "content_filter", "parameters": { "words": [" "] } }] }),
            "/guardrails/0",
            "blank",
        ),
        (
            json!({ "guardrails": [{ "type": "require_confirmation", "parameters": { "sideEffects": "big" } }] }),
            "/guardrails/0",
            "big",
        ),
        (pin(json!({ "tool": "t", "strategy": "by_call_id" })), "/pins/0/selector", "call_id"),
        (pin(json!({ "tool": "t", "call_id": "call_aaaaaaaaaaaaaaaaaaaaaaaaaa" })), "/pins/0/selector", "by_call_id"),
        (pin(json!({ "tool": "t", "strategy": "last" })), "/pins/0/selector", "last"),
        (pin(json!({ "strategy": "latest" })), "/pins/0/selector", "tool"),
        (
            json!({ "pins": [{ "name": "p", "selector": { "tool": "t" } }, { "name": "p", "selector": { "tool": "u" } }] }),
            "/pins/1/name",
            "another pin",
        ),
        (
            json!({ "pins": [{ "name": "p", "selector": { "tool": "t" }, "on_missing": "zero" }] }),
            "/pins/0/on_missing",
            "zero",
        ),
        (json!({ "securityUri": "http://example.com" }), "/securityUri", "ai://agents"),
        (json!({ "securityUri": "ai://agents/*/execute" }), "/securityUri", "grants"),
        (json!({ "enabled": "yes" }), "/enabled", "boolean"),
        (json!({ "toolRef": ["t"] }), "/toolRef", "unknown field"),
        (json!({ "refName": "a b" }), "/refName", "a b"),
        (json!({ "refName": "query" }), "/refName", "query"),
    ]
}

async fn invalid_agent_field_is_rejected_with_its_path(server: Server) {
    for (invalid, path, word) in invalid_fields() {
        let problem = server.post("agents", agent(invalid.clone())).await.problem(422, "invalid-definition");
        let errors = problem["errors"].as_array().unwrap_or_else(|| panic!("{invalid}: {problem}"));
        let reported = errors.iter().any(|error| {
            error["path"].as_str().unwrap().starts_with(path) && error["message"].as_str().unwrap().contains(word)
        });
        assert!(reported, "{invalid}: expected an error at {path} with `{word}`: {problem}");
    }
    assert_eq!(server.get("agents/count").await.expect(200)["count"], 0, "rejected definitions are not stored");
    server.post("agents", agent(json!({}))).await.expect(201);
    server
        .patch("agents/a", json!({ "executionConfig": { "maxIterations": 0 } }))
        .await
        .problem(422, "invalid-definition");
    assert_eq!(server.get("agents/a").await.expect(200)["revision"], 1);
}

async fn all_invalid_agent_fields_are_reported_in_one_response(server: Server) {
    let invalid = json!({ "executionConfig": { "maxIterations": 0 }, "toolRefs": ["t@soon"], "guardrails": [{ "type": "x" }],
        "systemPrompt": "{{", "responseFormat": "structured" });
    let problem = server.post("agents", agent(invalid)).await.problem(422, "invalid-definition");
    let paths: Vec<&str> = problem["errors"].as_array().unwrap().iter().map(|e| e["path"].as_str().unwrap()).collect();
    for path in ["/executionConfig/maxIterations", "/toolRefs/0", "/guardrails/0", "/systemPrompt", "/responseSchema"] {
        assert!(paths.contains(&path), "{path} in {paths:?}");
    }
}

async fn agent_that_refers_to_missing_definitions_is_saved_with_warnings(server: Server) {
    let later = json!({ "toolRefs": ["later_tool@^1", "echo"], "systemPromptRefs": ["later_fragment"],
        "delegateAgentRefs": ["later_agent"], "memoryConfig": { "strategy": "summary", "summaryAgentRef": "later_summary" } });
    let saved = server.post("agents", agent(later)).await.expect(201);
    let warnings = saved["warnings"].as_array().unwrap_or_else(|| panic!("{saved}"));
    assert_eq!(warnings.len(), 4, "{warnings:?}");
    for name in ["later_tool", "later_fragment", "later_agent", "later_summary"] {
        assert!(warnings.iter().any(|warning| warning.as_str().unwrap().contains(name)), "{name} in {warnings:?}");
    }
}

async fn cost_limit_requires_a_model_with_a_price(server: Server) {
    let limit = json!({ "policy": { "maxCostUsd": 0.5 } });
    let guardrail = json!({ "guardrails": [{ "type": "max_cost", "parameters": { "maxCostUsd": 0.5 } }] });
    let unknown = json!({ "provider": "openai", "model": "nobody-knows-its-price" });
    let known = json!({ "provider": "openai", "model": "gpt-4o" });
    for limited in [&limit, &guardrail] {
        let name = json!({ "refName": "unpriced", "llmConfig": unknown });
        let problem = server.post("agents", merge(name, limited.clone())).await.problem(422, "invalid-definition");
        assert_eq!(problem["errors"][0]["path"], "/llmConfig", "{problem}");
        assert!(problem["errors"][0]["message"].as_str().unwrap().contains("nobody-knows-its-price"), "{problem}");
        let fallback = json!({ "refName": "unpriced", "llmConfig": known, "fallbackModel": "nobody-knows-its-price" });
        let problem = server.post("agents", merge(fallback, limited.clone())).await.problem(422, "invalid-definition");
        assert_eq!(problem["errors"][0]["path"], "/fallbackModel", "{problem}");
    }
    server.post("agents", merge(json!({ "refName": "priced", "llmConfig": known }), limit)).await.expect(201);
    server.post("agents", json!({ "refName": "free", "llmConfig": unknown })).await.expect(201);
}

async fn agents_can_be_written_only_by_administrators(server: Server) {
    server.post("agents", agent(json!({}))).await.expect(201);
    let member = server.member("someone").await;
    member.get("agents/a").await.expect(200);
    for refused in [
        member.post("agents", json!({ "refName": "mine", "principalRef": "admin" })).await,
        member.put("agents/a", agent(json!({}))).await,
        member.patch("agents/a", json!({ "principalRef": "admin" })).await,
        member.delete("agents/a").await,
        member.post("prompt-fragments", json!({ "refName": "f", "content": "" })).await,
    ] {
        refused.problem(403, "forbidden");
    }
    server.post("realms", json!({ "name": "other" })).await.expect(201);
    server.in_realm("other").get("agents/a").await.problem(404, "not-found");
    server.in_realm("other").execute_agent("a", json!({ "userMessage": "hi" })).await.problem(404, "not-found");
}

async fn agent_with_only_a_name_and_agent_with_null_fields_are_accepted(server: Server) {
    let saved = server.post("agents", json!({ "refName": "short" })).await.expect(201);
    assert_eq!((&saved["enabled"], &saved["responseFormat"]), (&json!(true), &json!("text")), "{saved}");
    // A field with the value null is treated like an absent field.
    let nulls = json!({ "refName": "nulls", "llmConfig": null, "toolRefs": null, "policy": null, "memoryConfig": null,
        "executionConfig": null, "guardrails": null, "pins": null, "enabled": null, "allowedRealms": null, "maxToolsInContext": null });
    server.post("agents", nulls).await.expect(201);
}
