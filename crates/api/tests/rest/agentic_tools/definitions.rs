//! Tests definitions of agentic tools: the same document as an agentic tool and as a tool, invalid definitions, and
//! permissions.

use serde_json::{Value, json};

use super::{PATH, agentic, deterministic, plan_then};
use crate::harness::{Server, merge};

crate::on_both_databases!(
    agentic_tool_is_created_read_changed_listed_and_deleted,
    agentic_tool_can_be_read_called_and_changed_as_a_tool,
    invalid_agentic_tool_is_rejected_with_the_paths_of_its_own_fields,
);
crate::on_sqlite!(
    example_definition_of_the_specification_is_accepted,
    generated_prompt_stays_generated_if_a_client_sends_it_back,
    version_that_does_not_exist_is_reported_with_the_existing_versions,
    blocked_tool_is_shown_as_blocked_and_cannot_be_enabled,
    author_is_warned_about_unknown_placeholders_versions_and_providers,
    mode_of_an_agentic_tool_can_be_changed,
    tool_of_another_type_is_not_found_as_an_agentic_tool,
    member_may_invoke_but_not_change_an_agentic_tool
);

async fn agentic_tool_is_created_read_changed_listed_and_deleted(server: Server) {
    let body = merge(
        deterministic("deal-manager", &["echo"], plan_then(json!([]), "done")),
        json!({ "name": "Deal Manager", "slug": null, "description": "Manages deals.", "metadata": { "team": "crm" } }),
    );
    let created = server.post(PATH, body.clone()).await.expect(201);
    assert_eq!((&created["slug"], &created["status"]), (&json!("deal-manager"), &json!("active")));
    assert_eq!(created["safetyLimits"]["maxSteps"], 10);
    assert_eq!(created["safetyLimits"]["maxDurationSeconds"], 300);
    assert_eq!(created["safetyLimits"]["maxTokensPerCall"], 4000);
    assert_eq!(created["safetyLimits"]["maxTotalCost"], 1.0);
    assert_eq!(created["embeddedLLMConfig"]["temperature"], 0.2);
    assert_eq!(created["contextConfig"]["includeSchemas"], true);
    assert_eq!(created["inputSchema"]["required"], json!(["task"]));
    assert_eq!((&created["generatedPrompt"], &created["metadata"]), (&json!(true), &json!({ "team": "crm" })));
    assert!(created["systemPrompt"].as_str().unwrap().contains("{{user_task}}"), "{created}");

    let path = format!("{PATH}/deal-manager");
    let read = server.get(&path).await;
    assert_eq!(read.headers["etag"], "\"1\"");
    assert_eq!(read.expect(200)["id"], created["id"]);
    server.post(PATH, body).await.problem(409, "duplicate");

    let changed = server.patch(&path, json!({ "safetyLimits": { "timeoutSeconds": 60 }, "status": "disabled" })).await;
    let changed = changed.expect(200);
    assert_eq!((&changed["safetyLimits"]["maxDurationSeconds"], &changed["status"]), (&json!(60), &json!("disabled")));
    let stale = server.request(reqwest::Method::PATCH, &path).header("if-match", "\"1\"").json(&json!({ "name": "x" }));
    server.send(stale).await.problem(412, "stale-revision");
    let refused = server.invoke("deal-manager", "x").await;
    assert_eq!(refused["error"]["details"]["reason"], "disabled", "{refused}");

    server.define_agentic_tool(agentic("scout", &["echo"], json!([])), json!({ "status": "draft" })).await;
    for (filter, expected) in [
        ("", json!(["deal-manager", "scout"])),
        ("?status=disabled", json!(["deal-manager"])),
        ("?status=draft", json!(["scout"])),
        ("?status=active", json!([])),
        ("?executionMode=agentic", json!(["scout"])),
    ] {
        let list = server.get(&format!("{PATH}{filter}")).await.expect(200);
        let slugs: Value = list["items"].as_array().unwrap().iter().map(|item| item["slug"].clone()).collect();
        assert_eq!(slugs, expected, "{filter}");
    }
    let page = server.get(&format!("{PATH}?limit=1")).await.expect(200);
    let next = page["nextCursor"].as_str().unwrap();
    let rest = server.get(&format!("{PATH}?limit=1&cursor={next}")).await.expect(200);
    assert_eq!((&rest["items"][0]["slug"], &rest["nextCursor"]), (&json!("scout"), &Value::Null));
    server.get(&format!("{PATH}?limit=101")).await.problem(400, "invalid-request");
    server.get(&format!("{PATH}?status=gone")).await.problem(400, "invalid-request");

    server.delete(&path).await.expect(204);
    server.get(&path).await.problem(404, "not-found");
}

async fn agentic_tool_can_be_read_called_and_changed_as_a_tool(server: Server) {
    let body = deterministic(
        "manager",
        &["echo"],
        plan_then(json!([{ "step": 1, "parameters": { "a": 1 } }]), r#"{"summary":"done"}"#),
    );
    let created = server.define_agentic_tool(body, json!({ "outputSchema": { "type": "object" } })).await;
    let tool = server.get("tools/manager").await.expect(200);
    assert_eq!(
        (&tool["id"], &tool["toolType"], &tool["sideEffects"]),
        (&created["id"], &json!("AGENTIC"), &json!("writes"))
    );
    assert_eq!(tool["agentic"]["toolAllocation"], created["toolAllocation"]);
    let envelope = server.call("manager", json!({ "task": "go" })).await;
    assert_eq!(envelope["output"], json!({ "summary": "done" }), "{envelope}");
    assert!(envelope["metadata"]["child_run"]["run_id"].as_str().unwrap().starts_with("run_"), "{envelope}");
    let by_id = server.get(&format!("{PATH}/{}", created["id"].as_str().unwrap())).await.expect(200);
    assert_eq!(by_id["slug"], "manager");
    // A change through the route of tools also changes the agentic tool.
    server.patch("tools/manager", json!({ "agentic": { "systemPrompt": "Follow the task." } })).await.expect(200);
    let changed = server.get(&format!("{PATH}/manager")).await.expect(200);
    assert_eq!((&changed["systemPrompt"], &changed["generatedPrompt"]), (&json!("Follow the task."), &json!(false)));
}

async fn invalid_agentic_tool_is_rejected_with_the_paths_of_its_own_fields(server: Server) {
    let valid = deterministic("m", &["echo"], json!([]));
    for (change, path) in [
        (json!({ "executionMode": "guess" }), "/executionMode"),
        (json!({ "executionMode": null }), "/executionMode"),
        (json!({ "systemPrompt": "short" }), "/systemPrompt"),
        (json!({ "systemPrompt": "Broken {{user_task" }), "/systemPrompt"),
        (
            json!({ "embeddedLLMConfig": { "provider": "scripted", "model": "m", "temperature": 1.5 } }),
            "/embeddedLLMConfig/temperature",
        ),
        (json!({ "embeddedLLMConfig": { "maxTokens": 999 } }), "/embeddedLLMConfig/maxTokens"),
        (json!({ "embeddedLLMConfig": { "topP": -0.1 } }), "/embeddedLLMConfig/topP"),
        (json!({ "embeddedLLMConfig": { "nope": 1 } }), "/embeddedLLMConfig/nope"),
        (json!({ "safetyLimits": { "maxSteps": 0 } }), "/safetyLimits/maxSteps"),
        (json!({ "safetyLimits": { "maxSteps": 101 } }), "/safetyLimits/maxSteps"),
        (json!({ "safetyLimits": { "maxDurationSeconds": 3601 } }), "/safetyLimits/maxDurationSeconds"),
        (json!({ "safetyLimits": { "maxTotalCost": 10.5 } }), "/safetyLimits/maxTotalCost"),
        (json!({ "safetyLimits": { "maxTotalCost": 0 } }), "/safetyLimits/maxTotalCost"),
        (json!({ "toolAllocation": {} }), "/toolAllocation/sequence"),
        (
            json!({ "toolAllocation": { "sequence": [{ "step": 1, "actionSlug": "echo" }, { "step": 2, "actionSlug": "echo@!" }] } }),
            "/toolAllocation/sequence/1/actionSlug",
        ),
        (json!({ "toolAllocation": { "sequence": [{ "step": 1 }] } }), "/toolAllocation/sequence/0/actionSlug"),
        (
            json!({ "toolAllocation": { "mode": "agentic", "sequence": [{ "step": 1, "actionSlug": "echo" }] } }),
            "/toolAllocation/mode",
        ),
        (
            json!({ "toolAllocation": { "sequence": [{ "step": 2, "actionSlug": "echo" }, { "step": 1, "actionSlug": "echo" }] } }),
            "/toolAllocation/sequence/1/step",
        ),
        (json!({ "contextConfig": { "maxTokens": 1 } }), "/contextConfig/maxTokens"),
        (json!({ "inputSchema": { "type": "nope" } }), "/inputSchema/type"),
        (json!({ "unknownField": 1 }), "/unknownField"),
        (json!({ "slug": "has space" }), "/slug"),
    ] {
        let problem = server.post(PATH, merge(valid.clone(), change.clone())).await.problem(422, "invalid-definition");
        let paths: Vec<&str> =
            problem["errors"].as_array().unwrap().iter().map(|error| error["path"].as_str().unwrap()).collect();
        assert!(paths.contains(&path), "{change}: {problem}");
    }
    for (change, path) in [
        (json!({ "status": "gone" }), "/status"),
        (json!({ "toolType": "FUNCTION" }), "/toolType"),
        (json!({ "slug": "invoke" }), "/slug"),
        (json!({ "agentic": {} }), "/agentic"),
        (json!({ "name": null, "slug": null }), "/name"),
        (json!({ "name": "取引", "slug": null }), "/slug"),
    ] {
        let problem = server.post(PATH, merge(valid.clone(), change)).await.problem(400, "invalid-request");
        assert_eq!(problem["errors"][0]["path"], path, "{problem}");
    }
    server.post(PATH, json!([])).await.problem(400, "invalid-request");
    for route in ["agentic-tools/invoke", "agentic-tools/test-prompt", "composite-tools/invoke"] {
        let body = json!({ "params": {} });
        let problem = server.post(&format!("/api/v1/{route}"), body).await.problem(400, "invalid-request");
        assert_eq!(problem["errors"], json!([{ "path": "/tool", "message": "is required" }]), "{problem}");
    }
    let warned = server.define_agentic_tool(deterministic("later", &["not/yet"], json!([])), json!({})).await;
    assert_eq!(warned["warnings"], json!(["no tool `not/yet` exists yet"]));
}

async fn example_definition_of_the_specification_is_accepted(server: Server) {
    let body = json!({
        "name": "HubSpot Deal Manager",
        "slug": "hubspot-deal-manager",
        "description": "Manages HubSpot deals.",
        "executionMode": "deterministic",
        "embeddedLLMConfig": { "provider": "anthropic", "model": "claude-sonnet-4", "temperature": 0.2, "maxTokens": 4000,
            "topP": 0.9, "frequencyPenalty": 0.1, "presencePenalty": 0.1 },
        "systemPrompt": "You are managing HubSpot deals. Use the following schema:\n\n{{integration_schema}}\n\nAvailable stages: {{reference_data.deal_stages}}\n\nUser's request: {{user_task}}\n\nAvailable tools: {{available_tools}}",
        "toolAllocation": { "mode": "deterministic", "sequence": [
            { "step": 1, "actionId": "act_1", "actionSlug": "hubspot/search-deals", "purpose": "Search for deals" },
            { "step": 2, "actionId": "act_2", "actionSlug": "hubspot/batch-update-deals", "purpose": "Update deals" }] },
        "contextConfig": { "includeSchemas": true, "referenceData": [{ "integrationId": "hubspot", "dataTypes": ["deal_stages"] }],
            "documentation": "Docs.", "exampleQueries": ["Find deals over $50k"] },
        "inputSchema": { "type": "object", "properties": { "task": { "type": "string" } }, "required": ["task"] },
        "toolDescription": "Use this tool to manage deals.",
        "safetyLimits": { "maxSteps": 10, "maxDurationSeconds": 300, "maxTokensPerCall": 4000, "maxTotalCost": 1.0, "maxItems": 500 },
        "status": "draft",
        "metadata": {},
    });
    let created = server.define_agentic_tool(body.clone(), json!({})).await;
    for (field, value) in body.as_object().unwrap() {
        assert_eq!(&created[field], value, "{field}");
    }
    // The server accepts an agentic tool exactly as a GET request returned it.
    let path = format!("{PATH}/hubspot-deal-manager");
    let again = server.patch(&path, created.clone()).await.expect(200);
    assert_eq!((&again["systemPrompt"], &again["status"]), (&created["systemPrompt"], &created["status"]));
}

async fn generated_prompt_stays_generated_if_a_client_sends_it_back(server: Server) {
    server.define_echo("one", json!({})).await;
    let created = server.define_agentic_tool(deterministic("m", &["one"], json!([])), json!({})).await;
    let path = format!("{PATH}/m");
    let sent = merge(created, json!({ "description": "Has another purpose." }));
    let changed = server.patch(&path, sent).await.expect(200);
    assert_eq!(changed["generatedPrompt"], true, "{changed}");
    assert!(changed["systemPrompt"].as_str().unwrap().contains("Has another purpose"), "{changed}");
    let sent = merge(changed, json!({ "systemPrompt": "An own prompt." }));
    assert_eq!(server.patch(&path, sent).await.expect(200)["generatedPrompt"], false);
}

async fn version_that_does_not_exist_is_reported_with_the_existing_versions(server: Server) {
    server.define_agentic_tool(agentic("m", &["echo"], json!([])), json!({})).await;
    let body = json!({ "tool": "m@9", "params": { "task": "x" } });
    let problem = server.post(&format!("{PATH}/invoke"), body).await.problem(400, "invalid-request");
    let detail = problem["detail"].as_str().unwrap();
    assert!(detail.contains("no version of agentic tool `m` matches `9`; it has 1.0.0"), "{problem}");
}

async fn blocked_tool_is_shown_as_blocked_and_cannot_be_enabled(server: Server) {
    server.define_agentic_tool(agentic("m", &["echo"], json!([])), json!({})).await;
    server.patch("tools/m", json!({ "status": "blocked" })).await.expect(200);
    let path = format!("{PATH}/m");
    let blocked = server.get(&path).await.expect(200);
    assert_eq!(blocked["status"], "blocked", "{blocked}");
    let listed = server.get(&format!("{PATH}?status=blocked")).await.expect(200);
    assert_eq!(listed["items"].as_array().unwrap().len(), 1, "{listed}");
    for status in ["active", "draft"] {
        let problem = server.patch(&path, json!({ "status": status })).await.problem(400, "invalid-request");
        assert_eq!(problem["errors"][0]["path"], "/status", "{problem}");
        assert!(problem["detail"].as_str().unwrap().contains("PATCH /api/v1/ai/tools/m"), "{problem}");
    }
    let same = server.patch(&path, blocked).await.expect(200);
    assert_eq!(same["status"], "blocked", "{same}");
    server.patch("tools/m", json!({ "status": "active" })).await.expect(200);
    assert_eq!(server.get(&path).await.expect(200)["status"], "active");
}

async fn author_is_warned_about_unknown_placeholders_versions_and_providers(server: Server) {
    server.define_echo("one", json!({})).await;
    let more = json!({ "systemPrompt": "Do {{user_task}} with {{nope}} and {{reference_data.users}}.",
        "contextConfig": { "referenceData": [{ "integrationId": "crm", "dataTypes": ["users"] }] } });
    let created = server.define_agentic_tool(agentic("m", &["one@^9"], json!([])), more).await;
    let warnings = created["warnings"].as_array().unwrap();
    assert_eq!(warnings.len(), 3, "{created}");
    for part in ["tool `one` has no version that matches `one@^9` yet", "`{{nope}}`", "no provider `crm` exists yet"] {
        assert!(warnings.iter().any(|warning| warning.as_str().unwrap().contains(part)), "{part}: {created}");
    }
}

async fn mode_of_an_agentic_tool_can_be_changed(server: Server) {
    server.define_agentic_tool(deterministic("m", &["echo"], json!([])), json!({})).await;
    let patch =
        json!({ "executionMode": "agentic", "toolAllocation": { "availableTools": [{ "actionSlug": "echo" }] } });
    let changed = server.patch(&format!("{PATH}/m"), patch).await.expect(200);
    assert_eq!(changed["toolAllocation"], json!({ "availableTools": [{ "actionSlug": "echo" }] }));
}

async fn tool_of_another_type_is_not_found_as_an_agentic_tool(server: Server) {
    server.define_echo("plain", json!({})).await;
    server.get(&format!("{PATH}/plain")).await.problem(404, "not-found");
    server.patch(&format!("{PATH}/plain"), json!({})).await.problem(404, "not-found");
    server.delete(&format!("{PATH}/plain")).await.problem(404, "not-found");
    server.post(&format!("{PATH}/invoke"), json!({ "tool": "plain" })).await.problem(404, "not-found");
    server.get(&format!("{PATH}/plain/executions")).await.problem(404, "not-found");
    assert_eq!(server.get(PATH).await.expect(200)["items"], json!([]));
}

async fn member_may_invoke_but_not_change_an_agentic_tool(server: Server) {
    let tool = deterministic("m", &["echo"], plan_then(json!([{ "step": 1, "parameters": {} }]), "done"));
    server.define_agentic_tool(tool.clone(), json!({})).await;
    let member = server.member("someone").await;
    let done = member.invoke("m", "go").await;
    assert_eq!(done["success"], true, "{done}");
    member.patch(&format!("{PATH}/m"), json!({ "name": "x" })).await.problem(403, "forbidden");
    member.post(PATH, merge(tool, json!({ "slug": "other" }))).await.problem(403, "forbidden");
    member.post(&format!("{PATH}/m/regenerate-prompt"), json!({})).await.problem(403, "forbidden");
    // The executions of another principal are not listed.
    let own = server.invoke("m", "go").await;
    let list = member.get(&format!("{PATH}/m/executions")).await.expect(200);
    assert_eq!(list["items"].as_array().unwrap().len(), 1, "{list}");
    let id = own["meta"]["executionId"].as_str().unwrap();
    member.get(&format!("{PATH}/m/executions/{id}")).await.problem(404, "not-found");
}
