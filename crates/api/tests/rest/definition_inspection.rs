//! Tests the routes that show how definitions are used and whether they work: readiness, uses, revisions, costs and
//! reach.

use serde_json::{Value, json};
use toolwright_testkit::{Faults, LOOPBACK};

use crate::agentic_tools::deterministic;
use crate::harness::{Deployment, Server, Storage, calls_then, merge, scripted_model};
use crate::mcp_imports::{define_peer, with_peer};

crate::on_both_databases!(
    readiness_names_the_secret_with_its_scope_and_remedy,
    readiness_reports_problems_of_life_cycle_provider_and_sandbox,
    provider_readiness_uses_the_last_connection_test_or_runs_a_new_one_on_request,
    list_of_uses_shows_which_definitions_use_a_tool_and_how,
    every_write_is_a_revision_and_a_diff_names_the_changed_fields,
    cost_estimate_names_the_binding_limit_and_unknown_prices,
    reach_graph_leads_from_agents_to_tools_providers_and_data
);
crate::on_sqlite!(changed_mcp_tool_is_not_ready_until_the_change_is_accepted);

#[track_caller]
fn check<'a>(readiness: &'a Value, name: &str) -> &'a Value {
    let found = readiness["checks"].as_array().unwrap().iter().find(|check| check["check"] == name);
    found.unwrap_or_else(|| panic!("no check `{name}` in {readiness}"))
}

async fn ready(server: &Server, path: &str) -> Value {
    server.get(&format!("{path}/readiness")).await.expect(200)
}

async fn define_with_secret(server: &Server) {
    let auth = json!({ "authType": "bearer", "secretRef": "crm-key" });
    let provider = json!({ "refName": "crm", "baseUrl": "https://crm.example/v1", "auth": auth });
    server.post("tool-providers", provider).await.expect(201);
    let tool = json!({ "refName": "crm/find", "toolType": "EXTERNAL_REST", "providerRef": "crm", "description": "finds",
        "invocation": { "path": "/deals" } });
    server.post("tools", tool).await.expect(201);
}

async fn readiness_names_the_secret_with_its_scope_and_remedy(server: Server) {
    define_with_secret(&server).await;
    let paths = ["tools/crm%2Ffind", "tool-providers/crm"];
    for path in paths {
        let readiness = ready(&server, path).await;
        let secret = check(&readiness, "secret");
        assert_eq!((&readiness["ready"], &secret["status"]), (&json!(false), &json!("failed")), "{readiness}");
        assert_eq!((&secret["secret"], &secret["scope"]), (&json!("crm-key"), &Value::Null));
        assert!(secret["remedy"].as_str().unwrap().contains("secrets set crm-key"), "{secret}");
    }
    for (scope, status) in [("org", "warning"), ("realm", "ok"), ("user", "ok")] {
        let body = json!({ "name": "crm-key", "scope": scope, "value": "hunter2-hunter2" });
        server.post("secrets", body).await.expect(201);
        for path in paths {
            let response = server.get(&format!("{path}/readiness")).await;
            assert!(!response.text.contains("hunter2"), "{}", response.text);
            let readiness = response.expect(200);
            let secret = check(&readiness, "secret");
            assert_eq!((&secret["scope"], &secret["status"]), (&json!(scope), &json!(status)), "{secret}");
            assert_eq!(readiness["ready"], true, "{readiness}");
        }
    }
    // A secret with the scope `user` does not apply to another principal.
    let member = server.member("m").await;
    assert_eq!(check(&ready(&member, "tools/crm%2Ffind").await, "secret")["scope"], "realm");
}

async fn readiness_reports_problems_of_life_cycle_provider_and_sandbox(server: Server) {
    server.define_echo("plain", json!({})).await;
    let readiness = ready(&server, "tools/plain").await;
    assert_eq!(readiness["ready"], true, "{readiness}");
    assert!(readiness["checks"].as_array().unwrap().iter().all(|check| check["status"] == "ok"), "{readiness}");
    assert_eq!(ready(&server, "tools/echo").await["ready"], true, "a built-in tool");
    for (change, status) in [(json!({ "status": "deprecated" }), "warning"), (json!({ "status": "blocked" }), "failed")]
    {
        server.patch("tools/plain", change).await.expect(200);
        let readiness = ready(&server, "tools/plain@1.0.0").await;
        assert_eq!(check(&readiness, "lifecycle")["status"], status, "{readiness}");
        assert_eq!(readiness["ready"], status != "failed");
    }
    let tool = json!({ "refName": "orphan", "toolType": "EXTERNAL_REST", "providerRef": "nothing", "invocation": { "path": "/" } });
    server.post("tools", tool).await.expect(201);
    let readiness = ready(&server, "tools/orphan").await;
    assert_eq!(check(&readiness, "provider")["status"], "failed", "{readiness}");
    let code = json!({ "refName": "code", "toolType": "FUNCTION", "invocation": { "path": "python", "code": "1" } });
    server.post("tools", code).await.expect(201);
    assert_eq!(check(&ready(&server, "tools/code").await, "sandbox")["status"], "failed");
    server.get("tools/nothing/readiness").await.problem(404, "not-found");
    server.get("tool-providers/nothing/readiness").await.problem(404, "not-found");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn readiness_names_the_permission_that_the_caller_lacks() {
    let policy = r#"forbid (principal in Role::"member", action == Action::"execute", resource is Tool);"#;
    let deployment = Deployment::new(Storage::Sqlite).await;
    let (server, running) = deployment.start_with(|options| options.policies = policy.to_owned()).await;
    server.define_echo("t", json!({})).await;
    assert_eq!(ready(&server, "tools/t").await["ready"], true);
    let readiness = ready(&server.member("m").await, "tools/t").await;
    let permission = check(&readiness, "permission");
    assert_eq!((&readiness["ready"], &permission["status"]), (&json!(false), &json!("failed")), "{readiness}");
    assert!(permission["message"].as_str().unwrap().contains("ai://tools/"), "{permission}");
    running.stop().await;
    deployment.remove().await;
}

async fn provider_readiness_uses_the_last_connection_test_or_runs_a_new_one_on_request(server: Server) {
    let faults = Faults::builder().start(LOOPBACK).await.unwrap();
    let provider = |base: String| json!({ "refName": "p", "baseUrl": base, "egressAllow": ["127.0.0.0/8"] });
    server.post("tool-providers", provider(faults.base_url())).await.expect(201);
    let untested = ready(&server, "tool-providers/p").await;
    assert_eq!(check(&untested, "connection")["status"], "warning", "{untested}");
    let probed = server.get("tool-providers/p/readiness?probe=true").await.expect(200);
    assert_eq!(check(&probed, "connection")["status"], "ok", "{probed}");
    // The server stores the run of the connection test after the response, so the test polls.
    let connection = |status: &'static str| move |view: &Value| check(view, "connection")["status"] == status;
    server.poll_until("tool-providers/p/readiness", connection("ok")).await;
    // A call to a tool with the name of the provider is not a connection test.
    server.define_echo("p", json!({ "sideEffects": "writes" })).await;
    server.call("p", json!({})).await;
    server.poll_until("tool-providers/p/readiness", connection("ok")).await;
    server.put("tool-providers/p", provider("http://127.0.0.1:1".into())).await.expect(200);
    let changed = ready(&server, "tool-providers/p").await;
    assert!(check(&changed, "connection")["message"].as_str().unwrap().contains("has changed"), "{changed}");
    let dead = server.post("tool-providers/p/test", json!({})).await.expect(200);
    assert_eq!(dead["ok"], false);
    let failed = server.poll_until("tool-providers/p/readiness", connection("failed")).await;
    assert_eq!(failed["ready"], false, "{failed}");
    server.patch("tool-providers/p", json!({ "enabled": false })).await.expect(200);
    assert_eq!(check(&ready(&server, "tool-providers/p").await, "provider")["status"], "failed");
    faults.shutdown().await;
}

async fn changed_mcp_tool_is_not_ready_until_the_change_is_accepted(server: Server) {
    with_peer(async |peer| {
        define_peer(&server, &peer, json!({})).await;
        server.post("tools/import/mcp", json!({ "providerRef": "peer" })).await.expect(200);
        // A discovery writes the definition of the provider, but the result of the connection test remains valid.
        server.post("tool-providers/peer/discover", json!({})).await.expect(200);
        let is_ok = |view: &Value| check(view, "connection")["status"] == "ok";
        server.poll_until("tool-providers/peer/readiness", is_ok).await;
        let probed = async || server.get("tools/peer_echo/readiness?probe=true").await.expect(200);
        assert_eq!(check(&probed().await, "quarantine")["status"], "ok");
        peer.patch("tools/peer_echo", json!({ "description": "something else" })).await.expect(200);
        let changed = probed().await;
        assert_eq!((&changed["ready"], &check(&changed, "quarantine")["status"]), (&json!(false), &json!("failed")));
        let provider = server.get("tool-providers/peer/readiness?probe=true").await.expect(200);
        assert!(check(&provider, "quarantine")["message"].as_str().unwrap().contains("`peer_echo`"), "{provider}");
        server.post("tool-providers/peer/accept", json!({})).await.expect(200);
        assert_eq!(probed().await["ready"], true);
    })
    .await;
}

async fn list_of_uses_shows_which_definitions_use_a_tool_and_how(server: Server) {
    let tool = json!({ "category": "crm.deals", "tags": ["crm"] });
    server.define_echo("t", tool).await;
    server.define_echo("other", json!({})).await;
    let users = json!({ "verifyToolRef": "t", "compensateToolRef": "T", "sideEffects": "writes",
        "errorHandling": { "500": { "action": "fallback", "fallbackToolRef": "t" } } });
    server.define_echo("user", users).await;
    for (name, selection) in [
        ("by-name", json!({ "toolRefs": ["t@^1"] })),
        ("by-category", json!({ "toolCategories": ["crm"], "toolTags": ["crm"] })),
        ("by-library", json!({ "toolRefs": ["other"], "libraries": { "new": { "other": "t" } } })),
        ("excluding", json!({ "toolTags": ["crm"], "excludedToolRefs": ["t"] })),
    ] {
        server.define_agent(name, calls_then(json!([]), "x"), selection).await;
    }
    let provider = json!({ "refName": "p", "baseUrl": "https://x.example",
        "referenceData": [{ "dataType": "users", "toolRef": "t" }] });
    server.post("tool-providers", provider).await.expect(201);
    let expected = json!({
        "agents": [{ "refName": "by-category", "by": ["category", "tag"] }, { "refName": "by-library", "by": ["library"] },
            { "refName": "by-name", "by": ["name"] }],
        "tools": [{ "refName": "user", "by": ["fallback", "verify", "compensate"] }],
        "providers": [{ "refName": "p", "by": ["referenceData"] }],
        "types": [],
        "workflows": [],
        "stepRegistrations": [],
        "truncated": false,
    });
    assert_eq!(server.get("tools/t/uses").await.expect(200), expected);
    let lists = json!({ "refName": "deals", "toolType": "EXTERNAL_REST", "providerRef": "p", "sideEffects": "reads",
        "invocation": { "method": "GET", "path": "/deals" } });
    server.post("tools", lists).await.expect(201);
    let entity = json!({ "refName": "Deal", "jsonSchema": { "type": "object", "properties": { "id": { "type": "string" } } },
        "records": { "kind": "rest", "list": "deals" } });
    server.post("types", entity).await.expect(201);
    let uses = server.get("tool-providers/p/uses").await.expect(200);
    assert_eq!(uses["types"], json!([{ "refName": "Deal", "by": ["records"] }]), "{uses}");
    assert_eq!(uses["tools"], json!([{ "refName": "deals", "by": ["provider"] }]), "{uses}");
    assert_eq!(uses["referenceData"], json!(["users"]));
    let manager = deterministic("manager", &["deals"], json!([{ "reply": { "text": "x" } }]));
    server.define_agentic_tool(manager, json!({})).await;
    let by_manager = json!({ "refName": "manager", "by": ["allocation"] });
    assert_eq!(server.get("tools/deals/uses").await.expect(200)["tools"], json!([by_manager]));
    let uses = server.get("tool-providers/p/uses").await.expect(200);
    assert_eq!(uses["tools"], json!([{ "refName": "deals", "by": ["provider"] }, by_manager]), "{uses}");
    assert_eq!(server.get("tools/deals/uses").await.expect(200)["types"][0]["refName"], "Deal");
    assert_eq!(server.get("tools/calculator/uses").await.expect(200)["agents"], json!([]), "a built-in tool");
}

async fn every_write_is_a_revision_and_a_diff_names_the_changed_fields(server: Server) {
    server.define_agent("a", calls_then(json!([]), "x"), json!({ "description": "one", "toolTags": ["x"] })).await;
    server.patch("agents/a", json!({ "description": "two", "toolTags": null })).await.expect(200);
    let second = json!({ "refName": "a", "version": "2.0.0", "description": "two", "llmConfig": scripted_model(calls_then(json!([]), "x")) });
    server.put("agents/a", second).await.expect(200);
    let page = server.get("agents/a/revisions?limit=2").await.expect(200);
    let numbers: Vec<_> =
        page["items"].as_array().unwrap().iter().map(|item| (&item["revision"], &item["version"])).collect();
    assert_eq!(numbers, [(&json!(3), &json!("2.0.0")), (&json!(2), &json!("1.0.0"))], "{page}");
    let rest = format!("agents/a/revisions?limit=2&cursor={}", page["nextCursor"].as_str().unwrap());
    let rest = server.get(&rest).await.expect(200);
    let first = &rest["items"][0];
    assert_eq!(
        (&first["revision"], &first["updatedBy"], &rest["nextCursor"]),
        (&json!(1), &json!("admin"), &Value::Null)
    );
    assert_ne!(first["contentHash"], page["items"][1]["contentHash"]);
    let diff = server.get("agents/a/revisions/1/diff/2").await.expect(200);
    let expected = json!([
        { "op": "replace", "path": "/description", "before": "one", "after": "two" },
        { "op": "remove", "path": "/toolTags", "before": ["x"], "after": null },
    ]);
    assert_eq!((&diff["changes"], &diff["truncated"]), (&expected, &json!(false)), "{diff}");
    assert_eq!((&diff["from"]["revision"], &diff["to"]["revision"]), (&json!(1), &json!(2)));
    let back = server.get("agents/a/revisions/2/diff/1").await.expect(200);
    assert_eq!(back["changes"][1]["op"], "add", "{back}");
    assert_eq!(server.get("agents/a/revisions/1/diff/1").await.expect(200)["changes"], json!([]));
    let missing = server.get("agents/a/revisions/1/diff/9").await.problem(404, "not-found");
    assert!(missing["detail"].as_str().unwrap().contains("its revisions are 1 to 3"), "{missing}");
    server.get("agents/a/revisions/1/diff/x").await.problem(400, "invalid-request");
    // The other kinds of definitions have the same routes.
    server.define_echo("t", json!({})).await;
    server.patch("tools/t", json!({ "tags": ["new"] })).await.expect(200);
    let diff = server.get("tools/t/revisions/1/diff/2").await.expect(200);
    assert_eq!(diff["changes"], json!([{ "op": "add", "path": "/tags", "before": null, "after": ["new"] }]));
    server.post("prompt-fragments", json!({ "refName": "f", "content": "x" })).await.expect(201);
    assert_eq!(server.get("prompt-fragments/f/revisions").await.expect(200)["items"][0]["revision"], 1);
}

async fn cost_estimate_names_the_binding_limit_and_unknown_prices(server: Server) {
    let agent = |name: &str, model: &str, more: Value| {
        let llm = json!({ "provider": "anthropic", "model": model, "maxOutputTokens": 1000 });
        merge(json!({ "refName": name, "llmConfig": llm }), more)
    };
    let limited = json!({ "executionConfig": { "maxIterations": 2 }, "policy": { "maxCostUsd": 0.1 } });
    server.post("agents", agent("a", "claude-sonnet-4-20250514", limited)).await.expect(201);
    let estimate = server.get("agents/a/cost-estimate").await.expect(200);
    // One call: 199,000 input tokens at 0.003 and 1,000 output tokens at 0.015 per thousand.
    assert_eq!(estimate["models"][0]["callUsd"], 0.612, "{estimate}");
    assert_eq!(
        (&estimate["worstCaseUsd"], &estimate["bindingLimit"]),
        (&json!(0.712), &json!("maxCostUsd")),
        "{estimate}"
    );
    assert_eq!(
        estimate["bounds"][0],
        json!({ "limit": "maxIterations", "value": 2.0, "usd": 1.224,
        "formula": "maxIterations × cost of the most expensive model call" })
    );
    assert_eq!(estimate["models"][0]["price"]["source"], "built-in");
    assert!(!estimate["assumptions"].as_array().unwrap().is_empty());
    server.post("agents", agent("b", "an-unknown-model", json!({}))).await.expect(201);
    let unknown = server.get("agents/b/cost-estimate").await.expect(200);
    assert_eq!(unknown["worstCaseUsd"], Value::Null);
    assert!(unknown["unknown"][0].as_str().unwrap().contains("price of model `an-unknown-model`"), "{unknown}");
    server.post("agents", agent("chief", "claude-sonnet-4", json!({ "delegateAgentRefs": ["a"] }))).await.expect(201);
    let chief = server.get("agents/chief/cost-estimate").await.expect(200);
    assert_eq!(chief["delegates"], json!([{ "agentRef": "a", "worstCaseUsd": 0.712 }]), "{chief}");
    assert_eq!(chief["bindingLimit"], "maxCostUsd", "{chief}");
    server.get("agents/nothing/cost-estimate").await.problem(404, "not-found");
}

async fn reach_graph_leads_from_agents_to_tools_providers_and_data(server: Server) {
    define_with_secret(&server).await;
    let writes = json!({ "sideEffects": "writes", "requiresConfirmation": true, "tags": ["ops"] });
    server.define_echo("drop", writes).await;
    server.define_echo("off", json!({ "enabled": false, "tags": ["ops"] })).await;
    let entity =
        json!({ "refName": "Deal", "jsonSchema": { "type": "object", "properties": { "id": { "type": "string" } } } });
    server.post("types", entity).await.expect(201);
    let search = json!({ "refName": "search", "toolType": "QUANTUM_QUERY", "invocation": { "path": "Deal" } });
    server.post("tools", search).await.expect(201);
    let rules = || calls_then(json!([]), "x");
    server.define_agent("clerk", rules(), json!({ "toolRefs": ["crm/find", "search"] })).await;
    server.define_agent("chief", rules(), json!({ "toolTags": ["ops"], "delegateAgentRefs": ["clerk"] })).await;
    let graph = server.get("reach").await.expect(200);
    let edges: Vec<String> = graph["edges"].as_array().unwrap().iter().map(edge).collect();
    assert_eq!(
        edges,
        [
            "agent:chief -delegate-> agent:clerk",
            "agent:chief -tag-> tool:drop",
            "agent:clerk -name-> tool:crm/find",
            "agent:clerk -name-> tool:search",
            "provider:crm -host-> host:crm.example",
            "tool:crm/find -provider-> provider:crm",
            "tool:search -records-> type:deal",
        ]
    );
    let node = |id: &str| graph["nodes"].as_array().unwrap().iter().find(|node| node["id"] == id).unwrap().clone();
    assert_eq!(
        (&node("tool:drop")["sideEffects"], &node("tool:drop")["requiresConfirmation"]),
        (&json!("writes"), &json!(true))
    );
    assert_eq!(node("type:deal")["name"], "Deal");
    assert_eq!(graph["truncated"], false);
    let clerk = server.get("reach?agent=clerk").await.expect(200);
    assert!(!clerk.to_string().contains("chief") && !clerk.to_string().contains("drop"), "{clerk}");
    assert_eq!(clerk["nodes"].as_array().unwrap().len(), 6, "{clerk}");
    // The tool has another version, which the agent does not use.
    let new = json!({ "refName": "drop", "version": "2.0.0", "toolType": "FUNCTION", "sideEffects": "reads", "invocation": { "path": "echo" } });
    server.put("tools/drop", new).await.expect(200);
    server.define_agent("old", rules(), json!({ "toolRefs": ["drop@^1"] })).await;
    let old = server.get("reach?agent=old").await.expect(200);
    assert_eq!(
        (&old["nodes"][1]["id"], &old["nodes"][1]["sideEffects"]),
        (&json!("tool:drop@1.0.0"), &json!("writes")),
        "{old}"
    );
    server.get("reach?agent=nothing").await.problem(404, "not-found");
}

fn edge(edge: &Value) -> String {
    let text = |field: &str| edge[field].as_str().unwrap().to_owned();
    format!("{} -{}-> {}", text("from"), text("by"), text("to"))
}
