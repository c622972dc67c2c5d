//! Tests the definitions of composite tools.

use serde_json::{Value, json};

use super::{ROOT, deals, define_deals, define_operations, invoke, reason};
use crate::harness::{Server, merge};

crate::on_both_databases!(definition_is_created_read_changed_listed_and_deleted);
crate::on_sqlite!(
    generated_input_schema_follows_the_unified_schema,
    invalid_definition_is_refused_with_the_paths_of_the_view
);

async fn definition_is_created_read_changed_listed_and_deleted(server: Server) {
    let created =
        define_deals(&server, json!({ "metadata": { "team": "sales" }, "toolDescription": "For deals." })).await;
    for (field, value) in [
        ("slug", json!("deals")),
        ("name", json!("Deals")),
        ("status", json!("active")),
        ("metadata", json!({ "team": "sales" })),
        ("toolDescription", json!("For deals.")),
        ("routingMode", json!("rule_based")),
        ("version", json!("1.0.0")),
        ("revision", json!(1)),
        ("createdBy", json!("admin")),
    ] {
        assert_eq!(created[field], value, "{field}: {created}");
    }
    let definition = deals(json!({}));
    for field in ["operations", "routingRules", "description"] {
        assert_eq!(created[field], definition[field], "{field}");
    }
    assert_eq!(created["unifiedSchema"]["q"]["operationMappings"], json!({ "search": { "targetParam": "text" } }));
    let path = format!("{ROOT}/deals");
    let read = server.get(&path).await;
    assert_eq!(read.headers["etag"], "\"1\"");
    assert_eq!(read.expect(200), created);
    assert_eq!(server.get(&format!("{ROOT}/{}", created["id"].as_str().unwrap())).await.expect(200), created);
    let tool = server.get("tools/deals").await.expect(200);
    assert_eq!((&tool["toolType"], &tool["sideEffects"]), (&json!("COMPOSITE"), &json!("writes")), "{tool}");
    assert_eq!(tool["composite"]["operations"], created["operations"]);
    server.post(ROOT, definition).await.problem(409, "duplicate");
    let gram = server.get("tools/deals?format=gram").await.text;
    let applied = server.post("gram/apply", json!({ "gram": gram, "dryRun": true })).await.expect(200);
    assert_eq!(applied["definitions"][0]["outcome"], "unchanged", "{gram}: {applied}");
    // A merge patch keeps the fields that it does not contain. It is rejected if `If-Match` is not the current
    // revision.
    let stale = server.request(reqwest::Method::PATCH, &path).header("if-match", "\"7\"").json(&json!({ "name": "X" }));
    server.send(stale).await.problem(412, "stale-revision");
    let fresh = server.request(reqwest::Method::PATCH, &path).header("if-match", "\"1\"");
    let patch = json!({ "defaultOperationId": "search", "toolDescription": null, "unifiedSchema": { "limit": null } });
    let changed = server.send(fresh.json(&patch)).await.expect(200);
    assert_eq!((&changed["revision"], &changed["defaultOperationId"]), (&json!(2), &json!("search")), "{changed}");
    assert_eq!((&changed["toolDescription"], &changed["metadata"]), (&Value::Null, &created["metadata"]));
    assert_eq!(changed["routingRules"], created["routingRules"]);
    assert_eq!(changed["unifiedSchema"].as_object().unwrap().keys().collect::<Vec<_>>(), ["q", "options"]);
    // A client may send the whole returned document back.
    assert_eq!(server.patch(&path, changed.clone()).await.expect(200)["revision"], 3);
    for (status, tool, expected) in [
        ("disabled", "deals", json!("disabled")),
        ("draft", "deals@1.0.0", Value::Null),
        ("active", "deals", Value::Null),
    ] {
        let changed = server.patch(&path, json!({ "status": status })).await.expect(200);
        assert_eq!(changed["status"], status);
        let result = invoke(&server, tool, json!({ "q": "find" })).await.expect(200);
        assert_eq!(*reason(&result), expected, "{status}: {result}");
    }
    server
        .post(ROOT, deals(json!({ "name": "Second Tool", "status": "draft", "routingMode": "agent_driven" })))
        .await
        .expect(201);
    for (query, slugs) in [
        ("", vec!["deals", "second-tool"]),
        ("?status=active", vec!["deals"]),
        ("?status=draft", vec!["second-tool"]),
        ("?status=disabled", vec![]),
        ("?routingMode=agent_driven", vec!["second-tool"]),
        ("?slug=deals", vec!["deals"]),
        ("?sort=-refName", vec!["second-tool", "deals"]),
    ] {
        let page = server.get(&format!("{ROOT}{query}")).await.expect(200);
        let found: Vec<&Value> = page["items"].as_array().unwrap().iter().map(|item| &item["slug"]).collect();
        assert_eq!((json!(found), &page["nextCursor"]), (json!(slugs), &Value::Null), "{query}");
    }
    let first = server.get(&format!("{ROOT}?limit=1")).await.expect(200);
    let next =
        server.get(&format!("{ROOT}?limit=1&cursor={}", first["nextCursor"].as_str().unwrap())).await.expect(200);
    assert_eq!((&first["items"][0]["slug"], &next["items"][0]["slug"]), (&json!("deals"), &json!("second-tool")));
    for query in ["limit=0", "limit=101", "status=gone", "cursor=x", "sort=name"] {
        server.get(&format!("{ROOT}?{query}")).await.problem(400, "invalid-request");
    }
    server.define_agent("clerk", json!([]), json!({ "toolRefs": ["deals"] })).await;
    let deleted = server.delete(&path).await.expect(200);
    assert_eq!(deleted["warnings"], json!(["agent `clerk` uses this tool"]));
    server.delete(&format!("{ROOT}/second-tool")).await.expect(204);
    for path in [path.as_str(), "/api/v1/composite-tools/crm%2Fsearch"] {
        server.get(path).await.problem(404, "not-found");
        server.patch(path, json!({})).await.problem(404, "not-found");
        server.delete(path).await.problem(404, "not-found");
    }
    server.get("tools/crm%2Fsearch").await.expect(200);
}

async fn generated_input_schema_follows_the_unified_schema(server: Server) {
    let created = define_deals(&server, json!({})).await;
    assert_eq!(created["inputSchema"]["properties"]["q"], json!({ "type": "string", "description": "What to do." }));
    assert_eq!(created["inputSchema"]["additionalProperties"], false);
    // The client changes the unified schema and sends the old generated schema back. The server generates a new schema.
    let mut sent = created.clone();
    sent["unifiedSchema"]["page"] = json!({ "type": "integer" });
    let changed = server.patch(&format!("{ROOT}/deals"), sent).await.expect(200);
    assert_eq!(changed["inputSchema"]["properties"]["page"], json!({ "type": "integer" }), "{changed}");
    // A copy with another name also sends the generated schema back. The schema of the copy follows its unified schema,
    // too.
    let mut copy = created.clone();
    copy["slug"] = json!("copy");
    server.post(ROOT, copy).await.expect(201);
    let changed = server.patch(&format!("{ROOT}/copy"), json!({ "unifiedSchema": { "page": {} } })).await.expect(200);
    assert!(changed["inputSchema"]["properties"]["page"].is_object(), "{changed}");
    // An input schema from the author replaces the generated schema until it is removed.
    let own = json!({ "type": "object", "properties": { "q": {} } });
    let changed = server.patch(&format!("{ROOT}/copy"), json!({ "inputSchema": own })).await.expect(200);
    assert_eq!(changed["inputSchema"], own);
    let changed = server.patch(&format!("{ROOT}/copy"), json!({ "inputSchema": null })).await.expect(200);
    assert_eq!(changed["inputSchema"]["additionalProperties"], false, "{changed}");
    // Parameters by name are also accepted under the name `inputSchema`.
    let mut short = deals(json!({ "slug": "short" }));
    let unified = short.as_object_mut().unwrap().shift_remove("unifiedSchema").unwrap();
    short["inputSchema"] = unified;
    let created = server.post(ROOT, short).await.expect(201);
    assert_eq!(created["unifiedSchema"]["q"]["operationMappings"]["search"], json!({ "targetParam": "text" }));
    // A parameter may have the schema of an entity type.
    let order = json!({ "refName": "Order", "jsonSchema": { "type": "object", "properties": { "id": { "type": "integer" } }, "required": ["id"] } });
    server.post("types", order).await.expect(201);
    let typed = deals(json!({ "slug": "typed", "routingMode": "agent_driven", "routingRules": [],
        "unifiedSchema": { "q": { "type": "string" }, "order": { "jsonSchemaRef": "Order" } } }));
    server.post(ROOT, typed).await.expect(201);
    let call = |order: Value| json!({ "operation": "create", "q": "a", "order": order });
    assert_eq!(invoke(&server, "typed", call(json!({ "id": 1 }))).await.expect(200)["success"], true);
    let refused = invoke(&server, "typed", call(json!({}))).await.expect(200);
    assert_eq!(reason(&refused), "input_schema", "{refused}");
}

async fn invalid_definition_is_refused_with_the_paths_of_the_view(server: Server) {
    define_operations(&server).await;
    server.post(ROOT, deals(json!({ "slug": "inner" }))).await.expect(201);
    let operation = |tool: &str| json!({ "operations": [{ "operationSlug": "search", "actionSlug": tool }], "routingRules": [], "unifiedSchema": {}, "defaultOperationId": "search" });
    let rule = |condition: Value| json!({ "routingRules": [{ "condition": condition, "operationId": "search" }] });
    for (more, path, part) in [
        (json!({ "operations": [] }), "/operations", "NO_OPERATIONS_CONFIGURED"),
        (json!({ "operations": null }), "/operations", "NO_OPERATIONS_CONFIGURED"),
        (operation("inner"), "/operations/0/actionSlug", "must not be a composite tool"),
        (operation("outer"), "/operations/0/actionSlug", "must name another tool"),
        (operation(""), "/operations/0/actionSlug", "is required"),
        (json!({ "routingMode": "random" }), "/routingMode", "INVALID_ROUTING_MODE"),
        (json!({ "routingMode": 5 }), "/routingMode", "expected a string"),
        (json!({ "routingRules": [] }), "/routingRules", "NO_RULE_MATCHED"),
        (json!({ "defaultOperationId": "gone" }), "/defaultOperationId", "OPERATION_NOT_FOUND"),
        (
            rule(json!({ "type": "matches", "field": "q", "value": "[" })),
            "/routingRules/0/condition/value",
            "regular expression",
        ),
        (
            rule(json!({ "type": "like", "field": "q", "value": "a" })),
            "/routingRules/0/condition/type",
            "unknown variant",
        ),
        (
            rule(json!({ "type": "equals", "field": "typo", "value": "a" })),
            "/routingRules/0/condition/field",
            "can never match",
        ),
        (rule(json!(["equals", "q", "a"])), "/routingRules/0/condition", "expected an object"),
        (
            json!({ "unifiedSchema": { "q": { "operationMappings": { "gone": { "targetParam": "x" } } } } }),
            "/unifiedSchema/q/operationMappings/gone",
            "OPERATION_NOT_FOUND",
        ),
        (json!({ "unifiedSchema": { "q": { "typ": "string" } } }), "/unifiedSchema/q/typ", "unknown field `typ`"),
        (json!({ "inputSchema": { "type": "objekt" } }), "/inputSchema/type", "objekt"),
        (json!({ "colour": "red" }), "/colour", "unknown field"),
        (json!({ "slug": "a b" }), "/slug", ""),
        (json!({ "timeoutMs": 0 }), "/timeoutMs", "must be between"),
    ] {
        let body = deals(merge(json!({ "slug": "outer" }), more.clone()));
        let problem = server.post(ROOT, body).await.problem(422, "invalid-definition");
        let errors = problem["errors"].as_array().unwrap();
        let found =
            errors.iter().any(|error| error["path"] == path && error["message"].as_str().unwrap().contains(part));
        assert!(found, "{more}: {problem}");
        if path != "/operations/0/actionSlug" && path != "/slug" {
            let problem = server.patch(&format!("{ROOT}/inner"), more.clone()).await;
            let problem = problem.problem(422, "invalid-definition");
            assert!(
                problem["errors"].as_array().unwrap().iter().any(|error| error["path"] == path),
                "{more}: {problem}"
            );
        }
    }
    for (body, path) in [
        (json!({ "routingMode": "rule_based" }), "/name"),
        (deals(json!({ "slug": "invoke" })), "/slug"),
        (deals(json!({ "status": "gone" })), "/status"),
        (deals(json!({ "composite": {} })), "/composite"),
        (deals(json!({ "toolType": "FUNCTION" })), "/toolType"),
    ] {
        let problem = server.post(ROOT, body).await.problem(400, "invalid-request");
        assert_eq!(problem["errors"][0]["path"], path, "{problem}");
    }
    // The same rules apply to the routes of all tools, with their paths.
    let tool = json!({ "refName": "t", "toolType": "COMPOSITE", "composite": { "routingMode": "rule_based", "operations": [] } });
    let problem = server.post("tools", tool).await.problem(422, "invalid-definition");
    assert_eq!(problem["errors"][0]["path"], "/composite/operations", "{problem}");
    let problem = server.post("tools", json!({ "refName": "t", "toolType": "COMPOSITE", "composite": [] })).await;
    assert_eq!(problem.problem(422, "invalid-definition")["errors"][0]["path"], "/composite");
}
