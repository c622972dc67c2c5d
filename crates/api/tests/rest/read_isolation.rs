//! Tests that no GET route returns data of another realm or of another owner. The requests are generated from
//! `openapi.json`: all routes, with the names and ids of one owner as path parameters and as filters. A route with a path
//! parameter that [`Owned::parameter`] does not know fails the test.

use serde_json::{Value, json};

use crate::agentic_tools::{deterministic, plan_then};
use crate::harness::{Response, Server, calls_then};

crate::on_both_databases!(get_routes_return_no_data_of_another_realm_or_owner);

/// This stream has no end. The tests in `realm_events` cover it.
const ENDLESS: &str = "/api/v1/ai/events";

/// The routes below these paths return data that belongs to one owner. All members of a realm may read its definitions,
/// and a blob whose URL they know: the URL contains the hash of the content.
const OWNED: [&str; 5] =
    ["/api/v1/ai/runs", "/api/v1/ai/conversations", "/api/v1/ai/effects", "/api/v1/ai/approvals", "/executions/{id}"];

/// The data of one owner, in the realm `default`. All names and inputs contain `hidden`.
struct Owned {
    run: String,
    other_run: String,
    conversation: String,
    execution: String,
    effect: String,
    blob: String,
    trial: String,
    instance: String,
}

impl Owned {
    async fn create(admin: &Server, owner: &Server) -> Self {
        admin
            .post("tool-providers", json!({ "refName": "hidden-provider", "baseUrl": "https://hidden.example" }))
            .await
            .expect(201);
        admin.post("prompt-fragments", json!({ "refName": "hidden-fragment", "content": "hidden" })).await.expect(201);
        let registration = json!({ "name": "hidden-step", "toolRef": "hidden-tool" });
        admin.post("step-registrations", registration).await.expect(201);
        let condition = json!({ "name": "hidden-condition", "condition": "${input.hidden}" });
        admin.post("condition-bindings", condition).await.expect(201);
        let trigger = json!({ "refName": "hidden-trigger", "kind": "schedule", "cron": "0 2 * * *",
            "target": { "tool": "hidden-tool" }, "principalRef": "admin" });
        admin.post("triggers", trigger).await.expect(201);
        let webhook = json!({ "refName": "hidden-webhook", "url": "https://hidden.example", "events": ["RUN_ENDED"],
            "secretRef": "hidden-secret", "enabled": false });
        admin.post("webhooks", webhook).await.expect(201);
        let entity = json!({ "name": "HiddenType", "singularName": "hidden-item", "pluralName": "hidden-items",
            "jsonSchema": { "type": "object", "properties": { "name": { "type": "string" } } } });
        admin.post("types", entity).await.expect(201);
        let record = json!({ "rootType": "HiddenType", "entity": { "name": "hidden-record" } });
        admin.post("/api/query/save", record).await.expect(200);
        admin
            .post("secrets", json!({ "name": "hidden-secret", "scope": "realm", "value": "hidden-value" }))
            .await
            .expect(201);
        admin.define_echo("hidden-tool", json!({ "sideEffects": "writes", "requiresConfirmation": true })).await;
        admin.define_echo("hidden-big", json!({ "maxOutputBytes": 100 })).await;
        let workflow =
            json!({ "refName": "hidden-workflow", "steps": [{ "name": "hidden", "handlerRef": "hidden-step" }] });
        admin.post("workflows", workflow).await.expect(201);
        let origin = json!({ "document": "hidden.json", "operationId": "hidden", "method": "GET", "path": "/hidden" });
        let operation = json!({ "refName": "hidden-operation", "toolType": "EXTERNAL_REST", "providerRef": "hidden-provider",
            "invocation": { "method": "GET", "path": "/hidden" }, "origin": origin });
        admin.post("tools", operation).await.expect(201);
        let workflow =
            json!({ "refName": "hidden-calls", "steps": [{ "name": "hidden", "handlerRef": "hidden-operation" }] });
        admin.post("workflows", workflow).await.expect(201);
        let routes = json!({ "name": "hidden-router", "slug": "hidden-router", "description": "d", "routingMode": "rule_based",
            "operations": [{ "operationSlug": "big", "actionSlug": "hidden-big" }], "defaultOperationId": "big" });
        admin.post("/api/v1/composite-tools", routes).await.expect(201);
        let plan = plan_then(json!([{ "step": 1, "parameters": { "text": "hidden-plan" } }]), "hidden-result");
        admin.define_agentic_tool(deterministic("hidden-manager", &["hidden-big"], plan), json!({})).await;
        let calls = json!([{ "name": "hidden-tool", "arguments": { "text": "{{user}}" } }]);
        let library = json!({ "libraries": { "old": { "hidden-tool": "hidden-big" } } });
        admin
            .define_agent(
                "hidden-agent",
                calls_then(calls, "hidden-answer"),
                crate::harness::merge(json!({ "toolRefs": ["hidden-tool"] }), library),
            )
            .await;

        let decided = owner.run("hidden-agent", "hidden-message").await;
        owner.decide(&decided, 0, json!({ "decision": "approve" })).await.expect(200);
        let waiting = owner.run("hidden-agent", "hidden-question").await;
        let big = owner.call("hidden-big", json!({ "text": "hidden-output".repeat(100) })).await;
        let invocation = owner.invoke("hidden-manager", "hidden-task").await;
        let effects = owner.get("effects").await.expect(200);
        let trial = json!({ "agentRef": "hidden-agent", "a": "default", "b": "old", "inputs": [{ "userMessage": "hidden-trial" }] });
        let trial = owner.post("trials", trial).await.expect(202)["trialId"].as_str().unwrap().to_owned();
        owner.poll_until(&format!("trials/{trial}"), |view| view["underWay"] == false).await;
        let input = json!({ "input": { "text": "hidden-input" } });
        let instance = owner.post("workflows/hidden-workflow/execute", input).await.expect(200);
        let text = |value: &Value| value.as_str().unwrap_or_else(|| panic!("{value}")).to_owned();
        Self {
            run: text(&decided["runId"]),
            other_run: text(&waiting["runId"]),
            conversation: text(&decided["conversationId"]),
            execution: text(&invocation["meta"]["executionId"]),
            effect: text(&effects["items"][0]["id"]),
            blob: text(&big["attachments"][0]["url"]).rsplit_once('/').unwrap().1.to_owned(),
            trial,
            instance: text(&instance["runId"]),
        }
    }

    /// Returns the value of a path parameter.
    fn parameter(&self, path: &str, name: &str) -> String {
        let collection = path.trim_start_matches("/api/v1/").trim_start_matches("ai/").split('/').next().unwrap();
        let value = match (collection, name) {
            ("tools", "ref") | ("ai-tools", "ref") => "hidden-tool",
            ("agents", "ref") => "hidden-agent",
            ("tool-providers", "ref") => "hidden-provider",
            ("prompt-fragments", "ref") => "hidden-fragment",
            ("types", "ref") => "HiddenType",
            ("workflows", "ref") if path.ends_with("/export") => "hidden-calls",
            ("workflows", "ref") => "hidden-workflow",
            ("workflow-instances", "id") => &self.instance,
            ("step-registrations", "ref") => "hidden-step",
            ("condition-bindings", "ref") => "hidden-condition",
            ("triggers", "ref") => "hidden-trigger",
            ("webhooks", "ref") => "hidden-webhook",
            ("agentic-tools", "ref") => "hidden-manager",
            ("agentic-tools", "id") => &self.execution,
            ("composite-tools", "ref") => "hidden-router",
            ("runs", "id") => &self.run,
            ("runs", "other") => &self.other_run,
            ("conversations", "id") => &self.conversation,
            ("effects", "id") => &self.effect,
            ("blobs", "id") => &self.blob,
            ("trials", "id") => &self.trial,
            (_, "format") => "openai",
            (_, "a" | "b") => "1",
            (_, "code") => "not-found",
            _ => panic!("add a value for the parameter `{name}` of `{path}`"),
        };
        value.to_owned()
    }

    /// Returns all values that a filter may have: each name and id of the owner's data.
    fn filters(&self) -> Vec<String> {
        let ids = [&self.run, &self.other_run, &self.conversation, &self.execution, &self.trial, &self.instance];
        let names = ["hidden-tool", "hidden-agent", "hidden-provider", "HiddenType", "hidden-message", "hidden-owner"];
        ids.into_iter().cloned().chain(names.map(str::to_owned)).collect()
    }

    /// Returns the texts that only the owner, and the administrator of the realm, may see.
    fn private(&self) -> Vec<String> {
        let ids =
            [&self.run, &self.other_run, &self.conversation, &self.execution, &self.effect, &self.blob, &self.instance];
        let texts = ["hidden-message", "hidden-question", "hidden-task", "hidden-input"];
        ids.into_iter().cloned().chain(texts.map(str::to_owned)).collect()
    }
}

/// A GET route with the owner's data as its path parameters.
struct Route {
    template: String,
    path: String,
    query: Vec<String>,
}

fn routes(owned: &Owned) -> Vec<Route> {
    let document: Value = serde_json::from_str(&toolwright_api::openapi_json()).unwrap();
    let paths = document["paths"].as_object().unwrap();
    let operations = paths.iter().filter_map(|(path, item)| Some((path, item.get("get")?)));
    let routes = operations.filter(|(path, _)| *path != ENDLESS).map(|(template, operation)| {
        let (mut path, mut query) = (template.clone(), Vec::new());
        for parameter in operation["parameters"].as_array().into_iter().flatten() {
            let name = parameter["name"].as_str().unwrap();
            match parameter["in"].as_str().unwrap() {
                "path" => path = path.replace(&format!("{{{name}}}"), &owned.parameter(template, name)),
                "query" => query.push(name.to_owned()),
                _ => {}
            }
        }
        match template.as_str() {
            "/api/query/export" => path.push_str("?rootType=HiddenType"),
            "/api/v1/ai/workflows/{ref}/export" => path.push_str("?format=arazzo"),
            _ => {}
        }
        Route { template: template.clone(), path, query }
    });
    routes.collect()
}

/// Returns an error message if a response contains one of the texts and the request does not contain it.
fn leak(caller: &str, path: &str, response: &Response, marks: &[String]) -> Option<String> {
    let mark = marks.iter().find(|mark| !path.contains(mark.as_str()) && response.text.contains(mark.as_str()))?;
    Some(format!("{caller} reads `{mark}` at {path}: {}", response.text))
}

async fn get_routes_return_no_data_of_another_realm_or_owner(server: Server) {
    server.post("realms", json!({ "name": "other" })).await.expect(201);
    let owner = server.member("hidden-owner").await;
    let owned = Owned::create(&server, &owner).await;
    let private = owned.private();
    let all: Vec<String> = private.iter().cloned().chain(["hidden".to_owned(), "Hidden".to_owned()]).collect();
    let foreign = server.issue_key(json!({ "principal": "stranger", "realm": "other" })).await;
    // An administrator may list all principals of its organization, and the owner's name contains `hidden`. So for the
    // administrator, only the private texts are leaks.
    let callers = [
        ("an administrator in another realm", server.in_realm("other"), &private, true),
        ("a member of another realm", server.with_key(&foreign), &all, true),
        ("another member of the realm", server.member("neighbour").await, &private, false),
    ];
    let (mut failures, mut objects, mut filtered) = (Vec::new(), 0, 0);
    for route in routes(&owned) {
        let complete = server.get(&route.path).await;
        assert_eq!(complete.status, 200, "{}: {}", route.path, complete.text);
        let is_object = route.template.contains("{ref}") || route.template.contains("{id}");
        let is_owned = OWNED.iter().any(|path| route.template.contains(path));
        for (caller, client, marks, foreign) in &callers {
            let response = client.get(&route.path).await;
            failures.extend(leak(caller, &route.path, &response, marks));
            if is_object && (*foreign || is_owned) {
                if response.status != 404 {
                    failures.push(format!("{caller} reads {}: {} {}", route.path, response.status, response.text));
                }
                objects += 1;
            }
            if is_object {
                continue;
            }
            for (name, value) in
                route.query.iter().flat_map(|name| owned.filters().into_iter().map(move |value| (name, value)))
            {
                let separator = if route.path.contains('?') { '&' } else { '?' };
                let path = format!("{}{separator}{name}={value}", route.path);
                failures.extend(leak(caller, &path, &client.get(&path).await, marks));
                filtered += 1;
            }
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
    assert!(objects > 100 && filtered > 1000, "{objects} objects and {filtered} filters");
}
