//! Tests definitions of tools and providers: create, read, version, patch, list and remove.

use reqwest::Method;
use serde_json::{Value, json};

use crate::harness::{Server, merge, scripted_model};

crate::on_both_databases!(
    tool_can_be_created_read_replaced_and_removed,
    tool_keeps_all_its_versions,
    versions_route_lists_revisions_for_definitions_without_versions,
    patch_changes_only_the_given_fields,
    write_with_a_stale_revision_is_rejected,
    tool_list_is_paged_sorted_and_filtered,
    provider_can_be_created_read_patched_and_removed,
    tool_with_an_unknown_function_is_accepted_with_a_warning,
    deletion_names_the_definitions_that_use_the_deleted_one,
    parameter_schema_can_refer_to_an_entity_type_or_to_the_defs_of_the_tool,
    fields_without_effect_cause_warnings
);

async fn tool_can_be_created_read_replaced_and_removed(server: Server) {
    let created = server.post("tools", json!({ "refName": "Crm/Find", "description": "Finds.", "toolType": "FUNCTION", "invocation": { "path": "echo" } })).await;
    assert_eq!(created.headers["etag"], "\"1\"");
    let created = created.expect(201);
    assert!(created["id"].as_str().unwrap().starts_with("tool_"));
    assert_eq!(created["version"], "1.0.0");
    assert_eq!(created["source"], "manual");
    assert_eq!(created["createdBy"], "admin");
    assert_eq!(created["sideEffects"], "reads");
    for reference in ["Crm%2FFind", "crm%2ffind", created["id"].as_str().unwrap()] {
        let shown = server.get(&format!("tools/{reference}")).await.expect(200);
        assert_eq!(shown, created);
    }
    // The server accepts a definition exactly as a GET request returned it.
    let again = server.put("tools/crm%2Ffind", created.clone()).await.expect(200);
    assert_eq!(again["revision"], 2);
    assert_eq!(again["id"], created["id"]);
    assert_eq!(server.delete("tools/crm%2Ffind").await.status.as_u16(), 204);
    server.get("tools/crm%2Ffind").await.problem(404, "not-found");
    server.delete("tools/crm%2Ffind").await.problem(404, "not-found");
    server.post("tools", json!({ "refName": "crm/find", "toolType": "FUNCTION" })).await.expect(201);
}

async fn versions_route_lists_revisions_for_definitions_without_versions(server: Server) {
    for (collection, body, field) in [
        ("tool-providers", json!({ "refName": "p", "baseUrl": "https://example.com" }), "description"),
        ("prompt-fragments", json!({ "refName": "p", "content": "Be kind." }), "content"),
        ("types", json!({ "name": "p", "jsonSchema": { "type": "object" } }), "description"),
        ("step-registrations", json!({ "name": "p", "toolRef": "echo" }), "description"),
        ("condition-bindings", json!({ "name": "p", "condition": "${input.ok}" }), "description"),
    ] {
        let created = server.post(collection, body).await.expect(201);
        let path = format!("{collection}/p");
        for text in ["second", "third"] {
            server.patch(&path, json!({ field: text })).await.expect(200);
        }
        let listed = server.get(&format!("{path}/versions")).await.expect(200);
        let shown: Vec<(&Value, &Value)> =
            listed["items"].as_array().unwrap().iter().map(|one| (&one["revision"], &one[field])).collect();
        let expected = [(json!(3), json!("third")), (json!(2), json!("second")), (json!(1), created[field].clone())];
        assert_eq!(shown, expected.iter().map(|(number, text)| (number, text)).collect::<Vec<_>>(), "{collection}");
        assert_eq!(listed["nextCursor"], Value::Null);

        let page = server.get(&format!("{path}/versions?limit=2")).await.expect(200);
        assert_eq!(page["items"].as_array().unwrap()[..], listed["items"].as_array().unwrap()[..2]);
        let rest = format!("{path}/versions?limit=2&cursor={}", page["nextCursor"].as_str().unwrap());
        let rest = server.get(&rest).await.expect(200);
        assert_eq!((&rest["items"][0], &rest["nextCursor"]), (&listed["items"][2], &Value::Null));

        assert_eq!(server.get(&format!("{path}?version=1")).await.expect(200), listed["items"][2]);
        for missing in
            [format!("{path}?version=4"), format!("{path}?version=1.0.0"), format!("{collection}/q/versions")]
        {
            server.get(&missing).await.problem(404, "not-found");
        }
        for invalid in ["limit=0", "limit=x", "cursor=x"] {
            server.get(&format!("{path}/versions?{invalid}")).await.problem(400, "invalid-request");
        }
    }
    let member = server.member("ada").await;
    member.get("tool-providers/p/versions").await.expect(200);
}

async fn tool_keeps_all_its_versions(server: Server) {
    let tool = |version: &str, status: &str| json!({ "refName": "t", "toolType": "FUNCTION", "version": version, "status": status, "invocation": { "path": "echo" } });
    server.post("tools", tool("1.0.0", "active")).await.expect(201);
    server.put("tools/t", tool("1.1.0", "deprecated")).await.expect(200);
    server.put("tools/t", tool("2.0.0", "blocked")).await.expect(200);
    server.put("tools/t", tool("3.0.0", "draft")).await.expect(200);
    let versions = server.get("tools/t/versions").await.expect(200);
    let listed: Vec<&str> =
        versions["items"].as_array().unwrap().iter().map(|v| v["version"].as_str().unwrap()).collect();
    assert_eq!(listed, ["3.0.0", "2.0.0", "1.1.0", "1.0.0"]);
    assert_eq!(server.get("tools/t").await.expect(200)["version"], "1.0.0");
    assert_eq!(server.get("tools/t?version=2.0.0").await.expect(200)["status"], "blocked");
    server.get("tools/t?version=9.0.0").await.problem(404, "not-found");

    let run = |version: Option<&'static str>| {
        let server = server.clone();
        async move {
            let mut body = json!({ "input": {} });
            if let Some(version) = version {
                body["version"] = json!(version);
            }
            server.post("tools/t/execute", body).await
        }
    };
    assert_eq!(run(None).await.expect(200)["version"], "1.0.0");
    let deprecated = run(Some("1.1.0")).await.expect(200);
    assert_eq!(deprecated["metadata"]["warnings"][0], "`t@1.1.0` is deprecated");
    assert_eq!(run(Some("^1")).await.expect(200)["version"], "1.0.0");
    let blocked = run(Some("2.0.0")).await.expect(200);
    assert_eq!(blocked["error"]["code"], "POLICY_DENIED");
    assert_eq!(blocked["error"]["details"]["reason"], "blocked");
    assert_eq!(run(Some("^2")).await.expect(200)["error"]["details"]["reason"], "blocked");
    assert_eq!(run(Some("3.0.0")).await.expect(200)["error"], json!(null));
    run(Some("^3")).await.problem(404, "not-found");
    run(Some("first")).await.problem(400, "invalid-request");
}

async fn patch_changes_only_the_given_fields(server: Server) {
    server.post("tools", json!({ "refName": "t", "toolType": "FUNCTION", "description": "a", "tags": ["x"], "invocation": { "path": "echo" } })).await.expect(201);
    let patched = server
        .patch("tools/t", json!({ "description": null, "timeoutMs": 500, "invocation": { "responseMapping": "$.a" } }))
        .await
        .expect(200);
    assert_eq!(patched["description"], json!(null));
    assert_eq!(patched["timeoutMs"], 500);
    assert_eq!(patched["tags"], json!(["x"]));
    assert_eq!(patched["invocation"], json!({ "path": "echo", "responseMapping": "$.a" }));
    assert_eq!(patched["revision"], 2);
    server.patch("tools/t", json!({ "refName": "other" })).await.problem(422, "invalid-definition");
    server.patch("tools/t", json!({ "timeoutMs": "soon" })).await.problem(422, "invalid-definition");
    assert_eq!(server.get("tools/t").await.expect(200)["revision"], 2);
}

async fn write_with_a_stale_revision_is_rejected(server: Server) {
    let body = json!({ "refName": "t", "toolType": "FUNCTION" });
    server.post("tools", body.clone()).await.expect(201);
    let write = |method: Method, etag: &'static str| {
        let (server, body) = (server.clone(), body.clone());
        async move { server.send(server.request(method, "tools/t").header("if-match", etag).json(&body)).await }
    };
    write(Method::PUT, "\"1\"").await.expect(200);
    let stale = write(Method::PUT, "\"1\"").await.problem(412, "stale-revision");
    assert!(stale["detail"].as_str().unwrap().contains("revision 2"), "{stale}");
    write(Method::PATCH, "\"7\"").await.problem(412, "stale-revision");
    write(Method::DELETE, "\"1\"").await.problem(412, "stale-revision");
    write(Method::PUT, "soon").await.problem(400, "invalid-request");
    assert_eq!(server.get("tools/t").await.expect(200)["revision"], 2);
    write(Method::PUT, "*").await.expect(200);
    write(Method::DELETE, "W/\"3\"").await.expect(204);
}

async fn tool_list_is_paged_sorted_and_filtered(server: Server) {
    for n in 0..5 {
        let tool = json!({ "refName": format!("t{n}"), "toolType": "FUNCTION", "category": if n % 2 == 0 { "even" } else { "odd" }, "tags": [format!("n{n}"), "all"], "enabled": n != 4 });
        server.post("tools", tool).await.expect(201);
    }
    let names = |page: &serde_json::Value| {
        page["items"].as_array().unwrap().iter().map(|t| t["refName"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let first = server.get("tools?limit=2").await.expect(200);
    assert_eq!(names(&first), ["t0", "t1"]);
    let second =
        server.get(&format!("tools?limit=2&cursor={}", first["nextCursor"].as_str().unwrap())).await.expect(200);
    assert_eq!(names(&second), ["t2", "t3"]);
    let last =
        server.get(&format!("tools?limit=2&cursor={}", second["nextCursor"].as_str().unwrap())).await.expect(200);
    assert_eq!(names(&last), ["t4"]);
    assert_eq!(last["nextCursor"], json!(null));
    assert_eq!(names(&server.get("tools?sort=-refName&limit=2").await.expect(200)), ["t4", "t3"]);
    assert_eq!(names(&server.get("tools?category=odd").await.expect(200)), ["t1", "t3"]);
    assert_eq!(names(&server.get("tools?tag=n2").await.expect(200)), ["t2"]);
    assert_eq!(names(&server.get("tools?enabled=false").await.expect(200)), ["t4"]);
    assert_eq!(
        names(
            &server.post("tools/query", json!({ "filter": { "category": "even", "enabled": true } })).await.expect(200)
        ),
        ["t0", "t2"]
    );
    assert_eq!(server.get("tools/count").await.expect(200), json!({ "count": 5 }));
    assert_eq!(server.get("tools/count?category=odd").await.expect(200), json!({ "count": 2 }));
    let builtin = server.get("tools?source=built-in").await.expect(200);
    let all = [
        "calculator",
        "current_time",
        "echo",
        "http_request",
        "json_query",
        "query_delete",
        "query_deleteMany",
        "query_find",
        "query_plan",
        "query_rootTypes",
        "query_save",
        "sayHello",
        "search_tools",
        "workflow_propose",
        "workflow_save",
    ];
    assert_eq!(names(&builtin), all);
    for bad in ["tools?limit=0", "tools?limit=101", "tools?limit=x", "tools?cursor=x", "tools?sort=age"] {
        server.get(bad).await.problem(400, "invalid-request");
    }
}

async fn provider_can_be_created_read_patched_and_removed(server: Server) {
    let provider = json!({ "refName": "p", "baseUrl": "https://example.com", "auth": { "authType": "bearer", "secretRef": "token" } });
    let created = server.post("tool-providers", provider.clone()).await.expect(201);
    assert_eq!(created["providerType"], "REST");
    assert_eq!(server.get("tool-providers/P").await.expect(200), created);
    server.post("tool-providers", provider).await.problem(409, "duplicate");
    assert_eq!(server.patch("tool-providers/p", json!({ "timeoutMs": 100 })).await.expect(200)["timeoutMs"], 100);
    assert_eq!(server.get("tool-providers/count").await.expect(200)["count"], 1);
    server
        .post("tool-providers", json!({ "refName": "q", "auth": { "authType": "oauth2", "secretRef": "s" } }))
        .await
        .problem(422, "invalid-definition");
    assert_eq!(server.delete("tool-providers/p").await.status.as_u16(), 204);
}

async fn tool_with_an_unknown_function_is_accepted_with_a_warning(server: Server) {
    let created = server
        .post(
            "tools",
            json!({
                "refName": "ship_orders",
                "name": "ship_orders",
                "description": "Ships a set of orders",
                "toolType": "FUNCTION",
                "invocation": { "path": "warehouse.ship", "bodyTemplate": { "orders": "${orderIds}" } },
                "hasSideEffects": true,
                "requiresConfirmation": true
            }),
        )
        .await
        .expect(201);
    // The function is looked up when the tool is called, so a missing function causes only a warning here.
    assert!(created["warnings"][0].as_str().unwrap().contains("warehouse.ship"), "{created}");
    let named = server.post("tools", json!({ "name": "search_customers", "toolType": "FUNCTION" })).await.expect(201);
    assert_eq!(named["refName"], "search_customers");
}

async fn deletion_names_the_definitions_that_use_the_deleted_one(server: Server) {
    let agent = |more: Value| merge(json!({ "llmConfig": scripted_model(json!([])) }), more);
    server.post("tool-providers", json!({ "refName": "crm", "baseUrl": "https://example.com" })).await.expect(201);
    for name in ["crm/find", "crm/list", "crm/alone"] {
        let tool = json!({ "refName": name, "toolType": "EXTERNAL_REST", "providerRef": "crm", "tags": [name], "invocation": { "path": "/x" } });
        server.post("tools", tool).await.expect(201);
    }
    for body in [
        json!({ "refName": "desk", "toolRefs": ["CRM/find@^1", "crm/list"] }),
        json!({ "refName": "tagged", "toolTags": ["crm/find"] }),
        json!({ "refName": "without", "toolTags": ["crm/find"], "excludedToolRefs": ["crm/find"] }),
    ] {
        server.post("agents", agent(body)).await.expect(201);
    }
    let warnings = |text: &str| json!({ "warnings": [text] });
    assert_eq!(server.delete("tools/crm%2Ffind").await.expect(200), warnings("agents `desk`, `tagged` use this tool"));
    assert_eq!(server.delete("tools/crm%2Flist").await.expect(200), warnings("agent `desk` uses this tool"));
    assert_eq!(server.delete("tool-providers/crm").await.expect(200), warnings("tool `crm/alone` uses this provider"));
    server.delete("tools/crm%2Falone").await.expect(204);
    server.get("tools/crm%2Ffind").await.problem(404, "not-found");
}

async fn parameter_schema_can_refer_to_an_entity_type_or_to_the_defs_of_the_tool(server: Server) {
    let order = |total: &str| {
        json!({ "refName": "Order", "jsonSchema": { "type": "object", "required": ["total"],
            "properties": { "total": { "type": total }, "to": { "$ref": "#/$defs/address" } },
            "$defs": { "address": { "type": "object", "required": ["city"] } } } })
    };
    let tool = json!({ "refName": "ship", "toolType": "FUNCTION", "invocation": { "path": "echo" },
        "inputSchema": {
            "order": { "type": "object", "jsonSchemaRef": "Order", "required": true },
            "parcel": { "jsonSchemaRef": "#/$defs/parcel" },
        },
        "inputJsonSchema": { "$defs": { "parcel": { "type": "object", "required": ["weight"] } } } });
    let created = server.post("tools", tool).await.expect(201);
    assert!(created["warnings"].to_string().contains("no entity type `Order` exists yet"), "{created}");
    server.post("types", order("number")).await.expect(201);
    let error = async |input: Value| {
        let envelope = server.call("ship", input).await;
        envelope["error"]["details"]["errors"][0]["path"].as_str().unwrap_or("none").to_owned()
    };
    assert_eq!(
        error(json!({ "order": { "total": 1, "to": { "city": "Oslo" } }, "parcel": { "weight": 2 } })).await,
        "none"
    );
    assert_eq!(error(json!({ "order": { "total": "many" } })).await, "/order/total");
    assert_eq!(error(json!({ "order": { "total": 1, "to": {} } })).await, "/order/to");
    assert_eq!(error(json!({ "order": { "total": 1 }, "parcel": {} })).await, "/parcel");
    // The tool uses the changed schema of the type.
    server.patch("types/Order", order("string")).await.expect(200);
    assert_eq!(error(json!({ "order": { "total": "many" } })).await, "none");
    // Deleting a type that a tool uses returns a warning. After that, the tool rejects all values of the parameter.
    let deleted = server.delete("types/Order").await.expect(200);
    assert_eq!(deleted, json!({ "warnings": ["tool `ship` uses this type"] }));
    assert_eq!(error(json!({ "order": { "total": "many" } })).await, "/order");
    for invalid in ["", "file:///etc/passwd"] {
        let tool =
            json!({ "refName": "bad", "toolType": "FUNCTION", "inputSchema": { "x": { "jsonSchemaRef": invalid } } });
        let problem = server.post("tools", tool).await.problem(422, "invalid-definition");
        assert_eq!(problem["errors"][0]["path"], "/inputSchema/x/jsonSchemaRef", "{problem}");
    }
    let dangling = json!({ "refName": "lost", "toolType": "FUNCTION", "invocation": { "path": "echo" },
        "inputSchema": { "x": { "jsonSchemaRef": "#/$defs/nothing" } } });
    let problem = server.post("tools", dangling).await.problem(422, "invalid-definition");
    assert_eq!(problem["errors"][0]["path"], "/inputSchema", "{problem}");
}

async fn fields_without_effect_cause_warnings(server: Server) {
    let provider = json!({ "refName": "own", "providerType": "QUANTUM_INTERNAL" });
    let saved = server.post("tool-providers", provider).await.expect(201);
    assert!(saved["warnings"][0].as_str().unwrap().contains("QUANTUM_INTERNAL"), "{saved}");
    let agent = json!({ "executionConfig": { "restateServiceRef": "orders" } });
    let saved = server.define_agent("durable", json!([{ "reply": { "text": "Hello." } }]), agent).await;
    assert!(saved["warnings"].to_string().contains("restateServiceRef"), "{saved}");
}
