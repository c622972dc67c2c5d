//! Tests tools that are generated from entity types: creation, updates, manual edits and calls.

use serde_json::{Value, json};
use toolwright_tools::http::{EgressPolicy, HttpClient};

use crate::harness::{Deployment, Server, Storage, calls_then, scripted_model};
use crate::types::{customer_type, order_type};

crate::on_both_databases!(
    creating_a_type_generates_six_tools,
    generated_tools_are_updated_when_their_type_changes,
    manually_edited_tools_are_not_overwritten_by_generation,
    generate_route_previews_or_stores_tools_of_a_type,
    generated_tools_create_update_search_and_delete_records,
    search_tool_output_is_paged_by_size,
    invalid_input_of_a_generated_tool_is_an_error_with_a_reason,
    built_in_query_tools_access_the_records_of_every_type,
    agent_uses_generated_tools_to_answer,
);

const ORDER_TOOLS: [&str; 6] =
    ["count_orders", "create_order", "delete_order", "get_order", "search_orders", "update_order"];

async fn generated_tools(server: &Server) -> Vec<String> {
    let page = server.get("tools/generated").await.expect(200);
    page["items"].as_array().unwrap().iter().map(|tool| tool["refName"].as_str().unwrap().to_owned()).collect()
}

async fn creating_a_type_generates_six_tools(server: Server) {
    server.post("types", order_type()).await.expect(201);
    assert_eq!(generated_tools(&server).await, ORDER_TOOLS);
    let types = ["search_orders", "count_orders"].map(|name| (name, "QUANTUM_QUERY", "reads", true));
    let api = [
        ("get_order", "reads", true),
        ("create_order", "writes", false),
        ("update_order", "writes", true),
        ("delete_order", "writes", true),
    ];
    for (name, tool_type, effects, idempotent) in
        types.into_iter().chain(api.map(|(name, effects, idempotent)| (name, "QUANTUM_API", effects, idempotent)))
    {
        let tool = server.get(&format!("tools/{name}")).await.expect(200);
        assert_eq!(
            (&tool["toolType"], &tool["sideEffects"], &tool["idempotent"]),
            (&json!(tool_type), &json!(effects), &json!(idempotent)),
            "{name}"
        );
        assert_eq!((&tool["source"], &tool["category"]), (&json!("auto-generated"), &json!("quantum.crud")));
        assert_eq!(tool["invocation"], json!({ "method": name.split('_').next(), "path": "Order" }));
        for format in ["openai", "anthropic", "gemini", "mcp"] {
            server.get(&format!("tools/{name}/export/{format}")).await.expect(200);
        }
    }
    let search = server.get("tools/search_orders").await.expect(200)["description"].as_str().unwrap().to_owned();
    for expected in [
        "Customer purchase orders.",
        "- status: text, one of open, paid, shipped; fast to search",
        "`status:open && customerId:*part*`",
        "hasEdge(customer, ID)",
    ] {
        assert!(search.contains(expected), "{expected}\n{search}");
    }
    assert_eq!(
        server.get("tools?source=auto-generated&limit=100").await.expect(200)["items"].as_array().unwrap().len(),
        6
    );
}

async fn generated_tools_are_updated_when_their_type_changes(server: Server) {
    server.post("types", order_type()).await.expect(201);
    server
        .patch("types/Order", json!({ "excludeOperations": ["DELETE", "count"], "category": "sales" }))
        .await
        .expect(200);
    assert_eq!(generated_tools(&server).await, ["create_order", "get_order", "search_orders", "update_order"]);
    assert_eq!(server.get("tools/get_order").await.expect(200)["category"], "sales");
    server
        .patch("types/Order", json!({ "jsonSchema": { "properties": { "colour": { "type": "string" } } } }))
        .await
        .expect(200);
    let create = server.get("tools/create_order").await.expect(200);
    assert_eq!(create["inputJsonSchema"]["properties"]["colour"], json!({ "type": "string" }));
    let revision = create["revision"].clone();
    server.patch("types/Order", json!({ "singularName": "purchase" })).await.expect(200);
    assert_eq!(
        generated_tools(&server).await,
        ["create_purchase", "get_purchase", "search_purchases", "update_purchase"]
    );
    server.patch("types/Order", json!({ "singularName": null })).await.expect(200);
    assert_eq!(
        server.get("tools/create_order").await.expect(200)["revision"],
        1,
        "the tool was removed and created again, so the revision is not {revision}"
    );
    server.delete("types/Order").await;
    assert_eq!(generated_tools(&server).await, [""; 0]);
    server.get("tools/search_orders").await.problem(404, "not-found");
}

async fn manually_edited_tools_are_not_overwritten_by_generation(server: Server) {
    server.define_echo("get_order", json!({ "description": "mine" })).await;
    let created = server.post("types", order_type()).await.expect(201);
    assert!(created["warnings"].to_string().contains("tool `get_order` is not generated"), "{created}");
    server.patch("tools/search_orders", json!({ "description": "theirs" })).await.expect(200);
    let count = server.get("tools/count_orders").await.expect(200);
    server.put("tools/count_orders", count).await.expect(200);
    for name in ["search_orders", "count_orders"] {
        assert_eq!(server.get(&format!("tools/{name}")).await.expect(200)["source"], "manual");
    }
    let theirs = server.get("tools/count_orders").await.expect(200);
    server.patch("types/Order", json!({ "description": "new" })).await.expect(200);
    assert_eq!(server.get("tools/search_orders").await.expect(200)["description"], "theirs");
    assert_eq!(server.get("tools/count_orders").await.expect(200), theirs);
    server.patch("types/Order", json!({ "excludeOperations": ["search"] })).await.expect(200);
    assert_eq!(server.get("tools/search_orders").await.expect(200)["description"], "theirs");
    assert_eq!(server.get("tools/get_order").await.expect(200)["description"], "mine");
    // A second type whose tools would have the same names does not replace the tools of the first type.
    let other = server.post("types", json!({ "name": "Other", "singularName": "order" })).await.expect(201);
    assert!(other["warnings"].to_string().contains("another type has a tool with this name"), "{other}");
    assert_eq!(server.get("tools/create_order").await.expect(200)["invocation"]["path"], "Order");
    server.delete("types/Other").await;
    server.delete("types/Order").await;
    assert_eq!(generated_tools(&server).await, [""; 0]);
    assert_eq!(server.get("tools/search_orders").await.expect(200)["description"], "theirs");
}

async fn generate_route_previews_or_stores_tools_of_a_type(server: Server) {
    server.post("types", order_type()).await.expect(201);
    for name in ORDER_TOOLS {
        server.delete(&format!("tools/{name}")).await;
    }
    let shown = server.post("tools/generate", json!({ "rootTypes": ["Order"], "persist": false })).await.expect(200);
    assert_eq!(
        (shown["tools"].as_array().unwrap().len(), &shown["created"], &shown["persisted"]),
        (6, &json!([]), &json!(false))
    );
    assert_eq!(generated_tools(&server).await, [""; 0]);
    let body = json!({ "rootTypes": ["order"], "persist": true, "excludeOperations": ["DELETE"] });
    let persisted = server.post("tools/generate", body.clone()).await.expect(200);
    assert_eq!(persisted["created"].as_array().unwrap().len(), 5, "{persisted}");
    let again = server.post("tools/generate", body).await.expect(200);
    assert_eq!((again["unchanged"].as_array().unwrap().len(), &again["created"]), (5, &json!([])));
    let all = server.post("tools/generate", json!({ "persist": false })).await.expect(200);
    assert_eq!(all["tools"].as_array().unwrap().len(), 6, "without types, the tools of all types: {all}");
    let url = format!("http://{}/api/v1/ai/tools/generate", server.address);
    let client = HttpClient::new(EgressPolicy::unrestricted()).unrestricted_client().unwrap();
    let without_body = client.post(url).bearer_auth(&server.key).send().await.unwrap();
    assert_eq!(without_body.status(), 200, "a body is optional");
    for body in [json!({ "rootTypes": "Order" }), json!({ "rootTypes": ["Order"], "excludeOperations": ["x"] })] {
        server.post("tools/generate", body).await.problem(400, "invalid-request");
    }
    server.post("tools/generate", json!({ "rootTypes": ["Nothing"] })).await.problem(404, "not-found");
    let member = server.member("someone").await;
    member.post("tools/generate", json!({ "rootTypes": ["Order"] })).await.problem(403, "forbidden");
}

async fn generated_tools_create_update_search_and_delete_records(server: Server) {
    server.post("types", order_type()).await.expect(201);
    let call = |tool: &'static str, input: Value| {
        let server = server.clone();
        async move {
            let envelope = server.call(tool, input).await;
            assert_eq!(envelope["error"], Value::Null, "{tool}: {envelope}");
            envelope["output"].clone()
        }
    };
    let created = call("create_order", json!({ "status": "open", "totalAmount": 700, "customerId": "cus-1" })).await;
    let id = created["id"].clone();
    assert_eq!(created["version"], 1);
    let updated = call("update_order", json!({ "id": id, "status": "paid" })).await;
    assert_eq!(
        (&updated["version"], &updated["status"], &updated["totalAmount"]),
        (&json!(2), &json!("paid"), &json!(700))
    );
    assert_eq!(call("get_order", json!({ "id": id, "fields": "+status" })).await, json!({ "status": "paid" }));
    assert_eq!(call("count_orders", json!({ "query": "status:paid" })).await, json!({ "count": 1 }));
    let found = call("search_orders", json!({ "query": "totalAmount:>=#700", "fields": "+id" })).await;
    assert_eq!(
        found,
        json!({ "items": [{ "id": id }], "total": 1, "nextCursor": null, "hint": "1 of 1 on this page, the last one." })
    );
    assert_eq!(call("delete_order", json!({ "id": id })).await["deleted"], true);
    assert_eq!(call("delete_order", json!({ "id": id })).await["deleted"], false);
    // A principal who may call a generated tool needs no separate permission to write records of the type.
    let member = server.member("someone").await;
    assert_eq!(member.call("create_order", json!({ "status": "open" })).await["error"], Value::Null);
}

async fn search_tool_output_is_paged_by_size(server: Server) {
    server.post("types", order_type()).await.expect(201);
    for n in 0..30 {
        let entity = json!({ "id": format!("o{n:02}"), "status": "open", "note": "x".repeat(3000) });
        server.post("/api/query/save", json!({ "rootType": "Order", "entity": entity })).await.expect(200);
    }
    let (mut seen, mut cursor, mut pages) = (Vec::new(), None::<Value>, 0);
    loop {
        let mut input = json!({ "limit": 100 });
        if let Some(cursor) = &cursor {
            input["cursor"] = cursor.clone();
        }
        let output = server.call("search_orders", input).await["output"].clone();
        assert!(output["items"].to_string().len() < 26_000);
        assert_eq!(output["total"], 30);
        seen.extend(output["items"].as_array().unwrap().iter().map(|item| item["id"].as_str().unwrap().to_owned()));
        pages += 1;
        if output["nextCursor"].is_null() {
            break;
        }
        assert!(output["hint"].as_str().unwrap().contains("of 30 on this page. For the next"), "{output}");
        cursor = Some(output["nextCursor"].clone());
    }
    assert_eq!(seen, (0..30).map(|n| format!("o{n:02}")).collect::<Vec<_>>());
    assert!(pages > 3, "{pages}");
    let usual = server.call("search_orders", json!({ "fields": "+id" })).await["output"].clone();
    assert_eq!(usual["items"].as_array().unwrap().len(), 20);
    let too_many = server.call("search_orders", json!({ "limit": 101 })).await;
    assert_eq!(too_many["error"]["code"], "VALIDATION_ERROR");
}

async fn invalid_input_of_a_generated_tool_is_an_error_with_a_reason(server: Server) {
    server.post("types", order_type()).await.expect(201);
    for (tool, input, reason, expected) in [
        ("search_orders", json!({ "query": "status:[open]" }), "invalid_query", "write a list as"),
        ("search_orders", json!({ "query": "stat:open" }), "invalid_query", "has no field `stat`"),
        ("search_orders", json!({ "sort": "nothing" }), "invalid_query", "has no field `nothing`"),
        ("count_orders", json!({ "query": "status:open && x'; DROP TABLE records" }), "invalid_query", "query"),
        ("get_order", json!({ "id": "nobody" }), "not_found", "no record `nobody`"),
        ("update_order", json!({ "id": "nobody" }), "not_found", "no record `nobody`"),
        ("update_order", json!({ "id": "a b" }), "invalid_record", "/id: must have"),
    ] {
        let error = server.call(tool, input.clone()).await["error"].clone();
        assert_eq!(
            (&error["code"], &error["details"]["reason"]),
            (&json!("VALIDATION_ERROR"), &json!(reason)),
            "{tool} {input}: {error}"
        );
        assert!(error["message"].as_str().unwrap().contains(expected), "{error}");
    }
    let invalid = server.call("create_order", json!({ "status": "lost" })).await;
    assert_eq!(invalid["error"]["code"], "VALIDATION_ERROR");
    server
        .post(
            "tools",
            json!({ "refName": "odd", "toolType": "QUANTUM_API", "invocation": { "method": "drop", "path": "Order" } }),
        )
        .await
        .expect(201);
    server
        .post("tools", json!({ "refName": "late", "toolType": "QUANTUM_QUERY", "invocation": { "path": "Later" } }))
        .await
        .expect(201);
    for (tool, reason) in [("odd", "unknown_operation"), ("late", "unknown_type")] {
        let error = server.call(tool, json!({})).await["error"].clone();
        assert_eq!((&error["code"], &error["details"]["reason"]), (&json!("POLICY_DENIED"), &json!(reason)), "{error}");
    }
}

async fn built_in_query_tools_access_the_records_of_every_type(server: Server) {
    server.post("types", order_type()).await.expect(201);
    let output = |envelope: Value| {
        assert_eq!(envelope["error"], Value::Null, "{envelope}");
        envelope["output"].clone()
    };
    let types = output(server.call("query_rootTypes", json!({})).await);
    assert_eq!(types["rootTypes"][0]["rootType"], "Order");
    let saved = output(server.call("query_save", json!({ "rootType": "Order", "entity": { "status": "open" } })).await);
    let found = output(
        server.call("query_find", json!({ "rootType": "Order", "query": "status:open", "page": { "limit": 1 } })).await,
    );
    assert_eq!((&found["rows"][0]["id"], &found["rowCount"]), (&saved["id"], &json!(1)));
    assert_eq!(
        output(server.call("query_plan", json!({ "rootType": "Order", "query": "expand(customer)" })).await)["mode"],
        "AGGREGATION"
    );
    let refused = server.call("query_deleteMany", json!({ "rootType": "Order" })).await;
    assert_eq!(refused["error"]["details"]["reason"], "no_filter");
    assert_eq!(
        output(server.call("query_delete", json!({ "rootType": "Order", "id": saved["id"] })).await)["deletedCount"],
        1
    );
    for (name, effects) in [
        ("query_find", "reads"),
        ("query_plan", "reads"),
        ("query_rootTypes", "reads"),
        ("query_save", "writes"),
        ("query_delete", "writes"),
        ("query_deleteMany", "writes"),
    ] {
        assert_eq!(server.get(&format!("tools/{name}")).await.expect(200)["sideEffects"], effects);
    }
    // The tools `query_*` access all types, so the principal also needs permission to write records of the type.
    let member = server.member("someone").await;
    let denied = member.call("query_save", json!({ "rootType": "Order", "entity": { "status": "open" } })).await;
    assert_eq!(
        (&denied["error"]["code"], &denied["error"]["details"]["reason"]),
        (&json!("POLICY_DENIED"), &json!("permission"))
    );
}

async fn agent_uses_generated_tools_to_answer(server: Server) {
    server.post("types", customer_type()).await.expect(201);
    server.post("types", order_type()).await.expect(201);
    for (status, total) in [("open", 700), ("open", 100), ("paid", 900)] {
        server.call("create_order", json!({ "status": status, "totalAmount": total })).await;
    }
    let calls = json!([{ "name": "count_orders", "arguments": { "query": "status:open && totalAmount:>#500" } }]);
    let llm = scripted_model(calls_then(calls, "There is {{result/count}}."));
    server
        .post("agents", json!({ "refName": "clerk", "toolCategories": ["quantum.crud"], "llmConfig": llm }))
        .await
        .expect(201);
    let answer = server.run("clerk", "how many?").await;
    assert_eq!(answer["responseText"], "There is 1.", "{answer}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn generated_tools_are_updated_at_server_start_if_the_option_is_set() {
    let deployment = Deployment::new(Storage::Sqlite).await;
    let (server, running) = deployment.start_with(|options| options.generation.automatic = false).await;
    server.post("types", order_type()).await.expect(201);
    assert_eq!(generated_tools(&server).await, [""; 0]);
    running.stop().await;
    let (server, running) = deployment.start().await;
    assert_eq!(generated_tools(&server).await, ORDER_TOOLS);
    let before = server.get("tools/search_orders").await.expect(200);
    server.delete("tools/get_order").await;
    running.stop().await;
    let (server, running) = deployment.start_with(|options| options.generation.at_start = false).await;
    assert_eq!(generated_tools(&server).await.len(), 5);
    running.stop().await;
    let (server, running) = deployment.start().await;
    assert_eq!(generated_tools(&server).await, ORDER_TOOLS);
    assert_eq!(server.get("tools/search_orders").await.expect(200), before, "an up-to-date tool is not written again");
    running.stop().await;
    deployment.remove().await;
}
