//! Tests the routes for operators: models, trials, principals and the status of the server. Also tests that GET
//! requests return no data of another realm, and no data to a principal without permission.

use serde_json::{Value, json};

use crate::harness::{Deployment, Server, Storage, calls_then};

crate::on_both_databases!(
    models_have_prices_with_source_and_date,
    trials_are_listed_with_filters_and_a_cursor,
    server_status_shows_details_to_administrators_only,
    principals_are_listed_with_roles_realms_and_keys,
    get_routes_return_no_data_of_another_realm,
    get_routes_return_no_data_without_permission
);

async fn models_have_prices_with_source_and_date(server: Server) {
    let page = server.get("models?limit=100").await.expect(200);
    let models = page["items"].as_array().unwrap();
    let find = |name: &str| models.iter().find(|model| model["name"] == name).unwrap();
    let gpt = find("gpt-4o");
    assert_eq!((&gpt["provider"], &gpt["contextTokens"]), (&json!("openai"), &json!(128_000)), "{gpt}");
    assert_eq!(
        gpt["price"],
        json!({ "input": 0.005, "output": 0.015, "cachedInput": 0.0025, "source": "built-in", "asOf": "2025-11-30" })
    );
    assert_eq!(gpt["credentialVariable"], "OPENAI_API_KEY");
    assert!(gpt["credentialConfigured"].is_boolean());
    let default = models.iter().find(|model| model["isDefault"] == true).unwrap();
    assert_eq!((&default["name"], &default["price"]["input"]), (&json!("claude-sonnet-4-20250514"), &json!(0.003)));
    let google = server.get("models?provider=google&limit=2").await.expect(200);
    let names =
        |page: &Value| page["items"].as_array().unwrap().iter().map(|model| model["name"].clone()).collect::<Vec<_>>();
    assert_eq!(names(&google), ["gemini-1.5-flash", "gemini-1.5-pro"]);
    let next = format!("models?provider=google&limit=2&cursor={}", google["nextCursor"].as_str().unwrap());
    assert_eq!(names(&server.get(&next).await.expect(200)), ["gemini-2.5-flash", "gemini-2.5-flash-lite"]);
    server.get("models?limit=0").await.problem(400, "invalid-request");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn operator_prices_and_realm_prices_show_their_source() {
    let deployment = Deployment::new(Storage::Sqlite).await;
    let list = r#"{"version": 1, "asOf": "2026-02-03", "models": {"own": {"input": 1, "output": 2}},
        "realms": {"sales": {"gpt-4o": {"input": 3, "output": 4}}}}"#;
    let change = |options: &mut toolwright_engine::Options| {
        options.prices = toolwright_models::PriceList::from_json(list).unwrap()
    };
    let (server, running) = deployment.start_with(change).await;
    server.post("realms", json!({ "name": "sales" })).await.expect(201);
    let price = async |server: &Server, name: &str| {
        let page = server.get("models?limit=100").await.expect(200);
        let model = page["items"].as_array().unwrap().iter().find(|model| model["name"] == name).cloned();
        model.map(|model| (model["price"]["source"].clone(), model["price"]["asOf"].clone()))
    };
    assert_eq!(price(&server, "own").await, Some((json!("operator"), json!("2026-02-03"))));
    assert_eq!(price(&server, "gpt-4o").await.unwrap().0, "built-in");
    assert_eq!(price(&server.in_realm("sales"), "gpt-4o").await, Some((json!("realm"), json!("2026-02-03"))));
    running.stop().await;
    deployment.remove().await;
}

/// Defines the agent `name` with two versions of its tool, and runs a trial of both.
async fn run_trial(server: &Server, name: &str) -> String {
    let tool = format!("look-{name}");
    server.define_echo(&tool, json!({})).await;
    let second = json!({ "refName": tool, "version": "2.0.0", "toolType": "FUNCTION", "description": "d", "invocation": { "path": "echo" } });
    server.put(&format!("tools/{tool}"), second).await.expect(200);
    let rules = calls_then(json!([{ "name": tool, "arguments": {} }]), "done");
    let bindings = json!({ "old": { tool.clone(): format!("{tool}@1.0.0") } });
    server.define_agent(name, rules, json!({ "toolRefs": [tool], "libraries": bindings })).await;
    start_trial(server, name).await
}

async fn start_trial(server: &Server, agent: &str) -> String {
    let body = json!({ "agentRef": agent, "a": "default", "b": "old", "inputs": [{ "userMessage": "go" }] });
    let trial = server.post("trials", body).await.expect(202)["trialId"].as_str().unwrap().to_owned();
    server.poll_until(&format!("trials/{trial}"), |view| view["underWay"] == false).await;
    trial
}

async fn trials_are_listed_with_filters_and_a_cursor(server: Server) {
    assert_eq!(server.get("trials").await.expect(200)["items"], json!([]));
    let first = run_trial(&server, "a").await;
    let second = run_trial(&server, "b").await;
    let third = start_trial(&server, "a").await;
    let ids =
        |page: &Value| page["items"].as_array().unwrap().iter().map(|item| item["trialId"].clone()).collect::<Vec<_>>();
    let ended = |page: &Value| page["items"].as_array().unwrap().len() == 3;
    let page = server.poll_until("trials?status=ended", ended).await;
    assert_eq!(ids(&page), [third.as_str(), second.as_str(), first.as_str()], "{page}");
    let item = &page["items"][2];
    assert_eq!(
        (&item["agentRef"], &item["runs"], &item["status"]),
        (&json!("a"), &json!(2), &json!("ended")),
        "{item}"
    );
    assert_eq!(item["libraries"], json!(["default", "old"]));
    assert_eq!(server.get("trials?status=running").await.expect(200)["items"], json!([]));
    assert_eq!(ids(&server.get("trials?agentRef=b").await.expect(200)), [second.as_str()]);
    let page = server.get("trials?limit=2").await.expect(200);
    let next = page["nextCursor"].as_str().unwrap();
    let rest = server.get(&format!("trials?limit=2&cursor={next}")).await.expect(200);
    assert_eq!((ids(&rest), &rest["nextCursor"]), (vec![json!(first)], &Value::Null));
    assert_eq!(server.member("m").await.get("trials").await.expect(200)["items"], json!([]), "trials of others");
    server.get("trials?status=late").await.problem(400, "invalid-request");
    server.get("trials?cursor=x").await.problem(400, "invalid-request");
}

async fn server_status_shows_details_to_administrators_only(server: Server) {
    let status = server.get("server").await.expect(200);
    assert_eq!(status["healthy"], true, "{status}");
    let parts: Vec<&Value> = status["parts"].as_array().unwrap().iter().map(|part| &part["part"]).collect();
    let expected: &[&str] = match status["database"].as_str().unwrap() {
        "sqlite" => &["database", "blobs", "disk"],
        _ => &["database", "blobs", "redis", "disk"],
    };
    assert_eq!(parts, expected, "{status}");
    assert_eq!(status["features"], json!(["postgres", "redis"]));
    assert_eq!(status["limits"]["maxPageSize"], 100);
    assert_eq!(status["limits"]["runMaximum"]["maxCostUsd"], 1.0);
    let python = &status["languages"][0];
    assert_eq!((&python["language"], &python["available"]), (&json!("python"), &json!(false)), "{python}");
    assert!(python["reason"].as_str().unwrap().contains("sandbox.enabled"), "{python}");
    let folder = status["administration"]["dataFolder"].as_str().unwrap();
    assert!(status["administration"]["diskTotalBytes"].as_u64().unwrap() > 0);
    let response = server.member("m").await.get("server").await;
    assert!(!response.text.contains(folder), "{}", response.text);
    let seen = response.expect(200);
    assert_eq!((seen.get("administration"), &seen["version"]), (None, &status["version"]), "{seen}");
    assert!(!seen["languages"][0]["reason"].as_str().unwrap().contains("sandbox.enabled"), "{seen}");
}

async fn principals_are_listed_with_roles_realms_and_keys(server: Server) {
    server.post("realms", json!({ "name": "sales" })).await.expect(201);
    server.post("keys", json!({ "principal": "Zoe", "realm": "sales" })).await.expect(201);
    let key = server.post("keys", json!({ "principal": "bot", "roles": ["admin"] })).await.expect(201);
    server.post("keys", json!({ "principal": "bot" })).await.expect(201);
    server.delete(&format!("keys/{}", key["id"].as_str().unwrap())).await.expect(204);
    let page = server.get("principals?limit=2").await.expect(200);
    let names =
        |page: &Value| page["items"].as_array().unwrap().iter().map(|item| item["name"].clone()).collect::<Vec<_>>();
    assert_eq!(names(&page), ["admin", "bot"]);
    let bot = &page["items"][1];
    assert_eq!(
        (&bot["roles"], &bot["homeRealm"], &bot["keys"]),
        (&json!(["admin"]), &json!("default"), &json!(1)),
        "{bot}"
    );
    assert!(bot["lastKeyAt"].is_string());
    assert_eq!(page["items"][0]["lastKeyAt"], Value::Null);
    let rest =
        server.get(&format!("principals?limit=2&cursor={}", page["nextCursor"].as_str().unwrap())).await.expect(200);
    assert_eq!((names(&rest), &rest["nextCursor"]), (vec![json!("Zoe")], &Value::Null));
    assert_eq!(names(&server.get("principals?realm=sales").await.expect(200)), ["Zoe"]);
    assert_eq!(names(&server.get("principals?role=member").await.expect(200)), ["Zoe"]);
    server.get("principals?role=king").await.problem(400, "invalid-request");
    server.member("m").await.get("principals").await.problem(403, "forbidden");
}

/// The GET routes for the details of one definition.
const DEFINITION_ROUTES: [&str; 8] = [
    "tools/hidden-tool/readiness",
    "tools/hidden-tool/uses",
    "tools/hidden-tool/revisions",
    "tool-providers/hidden-provider/readiness",
    "tool-providers/hidden-provider/uses",
    "agents/hidden-agent/revisions",
    "agents/hidden-agent/revisions/1/diff/1",
    "agents/hidden-agent/cost-estimate",
];

async fn define_hidden(server: &Server) {
    let provider = json!({ "refName": "hidden-provider", "baseUrl": "https://hidden.example" });
    server.post("tool-providers", provider).await.expect(201);
    let tool = json!({ "refName": "hidden-tool", "toolType": "EXTERNAL_REST", "providerRef": "hidden-provider", "invocation": { "path": "/" } });
    server.post("tools", tool).await.expect(201);
    server.define_agent("hidden-agent", calls_then(json!([]), "x"), json!({ "toolRefs": ["hidden-tool"] })).await;
    run_trial(server, "hidden-trial").await;
}

async fn get_routes_return_no_data_of_another_realm(server: Server) {
    server.post("realms", json!({ "name": "other" })).await.expect(201);
    define_hidden(&server).await;
    let member = server.with_key(&server.issue_key(json!({ "principal": "m", "realm": "other" })).await);
    for caller in [server.in_realm("other"), member] {
        for path in DEFINITION_ROUTES {
            caller.get(path).await.problem(404, "not-found");
        }
        for path in ["reach", "trials", "models", "server"] {
            let response = caller.get(path).await;
            assert!(!response.text.contains("hidden"), "{path}: {}", response.text);
            response.expect(200);
        }
        caller.get("reach?agent=hidden-agent").await.problem(404, "not-found");
    }
}

async fn get_routes_return_no_data_without_permission(server: Server) {
    define_hidden(&server).await;
    let guest = server.with_key(&server.issue_key(json!({ "principal": "guest", "roles": [] })).await);
    for path in DEFINITION_ROUTES.into_iter().chain(["models", "server", "principals", "reach?agent=hidden-agent"]) {
        let problem = guest.get(path).await.problem(403, "forbidden");
        assert!(!problem.to_string().contains("hidden.example"), "{path}: {problem}");
    }
    assert_eq!(guest.get("trials").await.expect(200)["items"], json!([]));
    let reach = guest.get("reach").await.expect(200);
    assert_eq!((&reach["nodes"], &reach["edges"]), (&json!([]), &json!([])));
}
