//! Tests versions of tools and agents: references with versions, patches, the life cycle, and the version of a run.

use serde_json::{Value, json};

use crate::harness::Server;

crate::on_both_databases!(
    patch_of_a_version_that_does_not_exist_is_rejected,
    saving_an_agent_warns_of_deprecated_and_blocked_tools,
    reference_may_contain_a_version_or_a_requirement
);
crate::on_sqlite!(
    tools_of_an_agent_show_their_life_cycle_status,
    run_shows_the_version_of_its_agent,
    run_of_a_blocked_version_cannot_be_forked,
    delete_of_one_version_is_rejected,
    versions_are_listed_in_pages,
    definition_read_with_the_check_parameter_has_its_current_warnings
);

/// Defines the agent `ver` in versions 1.0.0 and 2.0.0.
async fn define_versions(server: &Server) {
    server.define_agent("ver", json!([{ "reply": { "text": "one" } }]), json!({ "systemPrompt": "First." })).await;
    let llm = crate::harness::scripted_model(json!([{ "reply": { "text": "two" } }]));
    server
        .put("agents/ver", json!({ "version": "2.0.0", "systemPrompt": "Second.", "llmConfig": llm }))
        .await
        .expect(200);
}

async fn patch_of_a_version_that_does_not_exist_is_rejected(server: Server) {
    define_versions(&server).await;
    server.define_echo("look", json!({})).await;
    server
        .put("tools/look", json!({ "toolType": "FUNCTION", "version": "1.1.0", "invocation": { "path": "echo" } }))
        .await
        .expect(200);
    for (path, name, version, available) in
        [("agents/ver", "agent `ver`", "2.0.1", "2.0.0, 1.0.0"), ("tools/look", "tool `look`", "1.0.1", "1.1.0, 1.0.0")]
    {
        let problem =
            server.patch(path, json!({ "version": version, "status": "blocked" })).await.problem(404, "not-found");
        let detail = format!("{name} has no version that matches `{version}`; it has {available}");
        assert_eq!(problem["detail"], detail, "{path}");
        assert_eq!(server.get(&format!("{path}/versions")).await.expect(200)["items"].as_array().unwrap().len(), 2);
    }
    let blocked = server.patch("agents/ver", json!({ "version": "2.0.0", "status": "blocked" })).await.expect(200);
    assert_eq!((&blocked["version"], &blocked["status"]), (&json!("2.0.0"), &json!("blocked")));
    assert_eq!(server.run("ver", "hi").await["responseText"], "one");
    let invalid = server.patch("agents/ver", json!({ "version": "two" })).await.problem(422, "invalid-definition");
    assert_eq!(invalid["errors"][0]["path"], "/version");
    // A version in the query would be ignored, so it is refused.
    server.patch("tools/look?version=9.9.9", json!({ "description": "x" })).await.problem(400, "invalid-request");
    server.delete("tools/look?version=1.0.0").await.problem(400, "invalid-request");
    server.put("tools/look?version=1.0.0", json!({ "toolType": "FUNCTION" })).await.problem(400, "invalid-request");
    server.get("tools/look").await.expect(200);
}

async fn saving_an_agent_warns_of_deprecated_and_blocked_tools(server: Server) {
    for (name, status) in [("fine", "active"), ("old", "deprecated"), ("off", "blocked")] {
        server.define_echo(name, json!({ "status": status, "category": format!("c.{status}") })).await;
    }
    let refs = json!({ "refName": "a", "toolRefs": ["fine", "old", "off@1.0.0", "fine@^3", "none"] });
    let saved = server.post("agents", refs).await.expect(201);
    let expected = json!([
        "tool `old@1.0.0` is deprecated; use another version or tool",
        "tool `off@1.0.0` is blocked, so the agent cannot call it",
        "no tool `none` exists yet"
    ]);
    assert_eq!(saved["warnings"], expected, "{saved}");
    let by_category = server
        .post("agents", json!({ "refName": "b", "toolCategories": ["c"], "excludedToolRefs": ["off"] }))
        .await
        .expect(201);
    assert_eq!(by_category["warnings"], json!([expected[0]]), "{by_category}");
    server.post("agents", json!({ "refName": "gone", "status": "blocked" })).await.expect(201);
    let delegates =
        server.post("agents", json!({ "refName": "c", "delegateAgentRefs": ["gone", "a"] })).await.expect(201);
    assert_eq!(delegates["warnings"], json!(["agent `gone@1.0.0` is blocked, so the agent cannot call it"]));
    let listed = server.get("tools").await.expect(200);
    let status = |name: &str| {
        let items = listed["items"].as_array().unwrap().iter();
        items.clone().find(|tool| tool["refName"] == name).unwrap()["status"].clone()
    };
    assert_eq!([status("fine"), status("old"), status("off")], ["active", "deprecated", "blocked"].map(Value::from));
}

async fn tools_of_an_agent_show_their_life_cycle_status(server: Server) {
    server.define_echo("fine", json!({})).await;
    server.define_echo("old", json!({ "status": "deprecated" })).await;
    server.post("agents", json!({ "refName": "a", "toolRefs": ["fine", "old"] })).await.expect(201);
    let tools = server.get("agents/a/tools").await.expect(200);
    let statuses: Vec<&Value> = tools["items"].as_array().unwrap().iter().map(|tool| &tool["status"]).collect();
    assert_eq!(statuses, [&json!("active"), &json!("deprecated")]);
}

async fn reference_may_contain_a_version_or_a_requirement(server: Server) {
    define_versions(&server).await;
    for (reference, version) in [("ver", "2.0.0"), ("ver@1.0.0", "1.0.0"), ("ver@^1", "1.0.0"), ("ver@>=1", "2.0.0")] {
        assert_eq!(server.get(&format!("agents/{reference}")).await.expect(200)["version"], version, "{reference}");
        let gram = server.get(&format!("agents/{reference}?format=gram")).await;
        assert_eq!(gram.text.contains("Second."), version == "2.0.0", "{reference}: {}", gram.text);
    }
    let none = "agent `ver` has no version that matches `^3`; it has 2.0.0, 1.0.0";
    assert_eq!(server.get("agents/ver@^3").await.problem(404, "not-found")["detail"], none);
    assert_eq!(server.get("agents/ver?version=^3").await.problem(404, "not-found")["detail"], none);
    let run = server.execute_agent("ver@^3", json!({ "userMessage": "hi" })).await;
    assert_eq!(run.problem(404, "not-found")["detail"], none);
    let matching = server.get("agents/ver@^1/versions").await.expect(200);
    assert_eq!(matching["items"].as_array().unwrap().len(), 1);
    server.define_echo("look", json!({})).await;
    let envelope = server.post("tools/look@^1/execute", json!({ "input": { "a": 1 } })).await.expect(200);
    assert_eq!((&envelope["name"], &envelope["output"]), (&json!("look"), &json!({ "a": 1 })));
    for (path, body) in [("tools/look@^3/execute", json!({})), ("tools/look/execute", json!({ "version": "^3" }))] {
        let detail = server.post(path, body).await.problem(404, "not-found")["detail"].clone();
        assert_eq!(detail, "tool `look` has no version that matches `^3`; it has 1.0.0", "{path}");
    }
}

async fn delete_of_one_version_is_rejected(server: Server) {
    define_versions(&server).await;
    let problem = server.delete("agents/ver@1.0.0").await.problem(400, "invalid-request");
    assert!(problem["detail"].as_str().unwrap().contains("a delete removes all versions"), "{problem}");
    assert_eq!(server.get("agents/ver/versions").await.expect(200)["items"].as_array().unwrap().len(), 2);
    assert_eq!(server.delete("agents/ver").await.status, 204);
}

async fn run_shows_the_version_of_its_agent(server: Server) {
    define_versions(&server).await;
    for (reference, version) in [("ver", "2.0.0"), ("ver@^1", "1.0.0")] {
        let response = server.run(reference, "hi").await;
        assert_eq!(response["agentVersion"], version);
        let run = server.get(&format!("runs/{}", response["runId"].as_str().unwrap())).await.expect(200);
        assert_eq!(run["agentVersion"], version, "{run}");
    }
}

async fn run_of_a_blocked_version_cannot_be_forked(server: Server) {
    define_versions(&server).await;
    let first = server.run("ver@1.0.0", "hi").await;
    let fork = format!("runs/{}/fork", first["runId"].as_str().unwrap());
    server.post(&fork, json!({ "at": 1 })).await.expect(202);
    server.patch("agents/ver", json!({ "version": "1.0.0", "status": "blocked" })).await.expect(200);
    let problem = server.post(&fork, json!({ "at": 1 })).await.problem(409, "agent-disabled");
    assert!(problem["detail"].as_str().unwrap().contains("version 1.0.0 of agent `ver` is blocked"), "{problem}");
}

async fn versions_are_listed_in_pages(server: Server) {
    define_versions(&server).await;
    server.define_echo("look", json!({})).await;
    for version in ["1.9.0", "1.10.0"] {
        let llm = crate::harness::scripted_model(json!([{ "reply": { "text": "x" } }]));
        server.put("agents/ver", json!({ "version": version, "llmConfig": llm })).await.expect(200);
        let tool = json!({ "toolType": "FUNCTION", "version": version, "invocation": { "path": "echo" } });
        server.put("tools/look", tool).await.expect(200);
    }
    for (path, versions) in
        [("agents/ver", &["2.0.0", "1.10.0", "1.9.0", "1.0.0"][..]), ("tools/look", &["1.10.0", "1.9.0", "1.0.0"])]
    {
        let (mut found, mut cursor) = (Vec::new(), String::new());
        while found.len() < versions.len() {
            let page = server.get(&format!("{path}/versions?limit=2{cursor}")).await.expect(200);
            let items = page["items"].as_array().unwrap();
            assert!((1..=2).contains(&items.len()), "{page}");
            found.extend(items.iter().map(|item| item["version"].clone()));
            assert_eq!(page["nextCursor"].is_string(), found.len() < versions.len(), "{page}");
            cursor = format!("&cursor={}", page["nextCursor"].as_str().unwrap_or_default());
        }
        assert_eq!(found, versions, "{path}");
        assert_eq!(
            server.get(&format!("{path}/versions")).await.expect(200)["items"].as_array().unwrap().len(),
            versions.len()
        );
        let problem = server.get(&format!("{path}/versions?limit=0")).await.problem(400, "invalid-request");
        assert_eq!(problem["errors"][0]["path"], "limit");
        server.get(&format!("{path}/versions?cursor=x")).await.problem(400, "invalid-request");
    }
}

async fn definition_read_with_the_check_parameter_has_its_current_warnings(server: Server) {
    server.define_echo("spare", json!({})).await;
    server
        .define_echo(
            "look",
            json!({ "description": "Returns the input.", "verifyToolRef": "spare", "sideEffects": "writes" }),
        )
        .await;
    assert_eq!(server.get("tools/look?check=true").await.expect(200)["warnings"], Value::Null);
    server.delete("tools/spare").await;
    let checked = server.get("tools/look?check=true").await.expect(200);
    assert!(checked["warnings"].to_string().contains("spare"), "{checked}");
    assert_eq!(server.get("tools/look").await.expect(200)["warnings"], Value::Null);
}
