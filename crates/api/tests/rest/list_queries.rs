//! Tests the query language in lists of definitions, runs and conversations.

use serde_json::{Value, json};

use crate::harness::{Server, calls_then, scripted_model};

crate::on_both_databases!(
    definition_lists_can_be_filtered_by_a_query,
    run_and_conversation_lists_can_be_filtered_by_a_query
);
crate::on_sqlite!(
    every_list_route_rejects_unknown_query_parameters,
    unknown_query_parameters_are_rejected_with_a_suggestion
);

fn names(page: &Value) -> Vec<&str> {
    page["items"].as_array().unwrap().iter().map(|item| item["refName"].as_str().unwrap()).collect()
}

async fn definition_lists_can_be_filtered_by_a_query(server: Server) {
    for (name, category, timeout) in [("a", "crm.deals", 100), ("b", "crm.notes", 200), ("c", "orders", 300)] {
        server.define_echo(name, json!({ "category": category, "timeoutMs": timeout, "tags": [name, "all"] })).await;
    }
    for (query, expected) in [
        ("category:crm.*", vec!["a", "b"]),
        ("timeoutMs:>#150 && tags:^[b, c]", vec!["b", "c"]),
        ("source:manual && revision:#1 && createdBy:admin", vec!["a", "b", "c"]),
        ("createdAt:>2020-01-01 && createdAt:<2020-01-02", vec![]),
        ("createdAt:>2020-01-01 && invocation.path:echo && refName:A", vec!["a"]),
        ("!!category:orders && text(deals)", vec!["a"]),
        ("name:\"x' OR '1' = '1\"", vec![]),
    ] {
        let body = json!({ "query": query });
        assert_eq!(names(&server.post("tools/query", body).await.expect(200)), expected, "{query}");
        let request = server.request(reqwest::Method::GET, "tools").query(&[("query", query)]);
        assert_eq!(names(&server.send(request).await.expect(200)), expected, "{query}");
        let request = server.request(reqwest::Method::GET, "tools/count").query(&[("query", query)]);
        assert_eq!(server.send(request).await.expect(200)["count"], expected.len(), "{query}");
    }
    // A query can be combined with filters, sorting and paging.
    let body = json!({ "query": "tags:all", "filter": { "category": "orders" }, "sort": "-refName", "limit": 1 });
    assert_eq!(names(&server.post("tools/query", body).await.expect(200)), ["c"]);
    let first = server.post("tools/query", json!({ "query": "tags:all", "limit": 2 })).await.expect(200);
    let rest = json!({ "query": "tags:all", "limit": 2, "cursor": first["nextCursor"] });
    assert_eq!(names(&server.post("tools/query", rest).await.expect(200)), ["c"]);
    for query in ["category:[", "(", "a:${b}", "hasEdge(a, b)"] {
        let problem = server.post("tools/query", json!({ "query": query })).await.problem(422, "invalid-query");
        assert_eq!(problem["errors"][0]["path"], "/query", "{problem}");
        server.get(&format!("agents?query={}", query.replace('{', "%7B"))).await.problem(422, "invalid-query");
    }
}

async fn run_and_conversation_lists_can_be_filtered_by_a_query(server: Server) {
    server.define_echo("say", json!({})).await;
    for name in ["one", "two"] {
        let llm = scripted_model(calls_then(json!([{ "name": "say" }]), "Done."));
        server.post("agents", json!({ "refName": name, "toolRefs": ["say"], "llmConfig": llm })).await.expect(201);
        server.run(name, "hello").await;
    }
    let count = |path: &'static str, query: &'static str| {
        let server = server.clone();
        async move {
            let get =
                |path: String| server.send(server.request(reqwest::Method::GET, &path).query(&[("query", query)]));
            let listed = get(path.to_owned()).await.expect(200)["items"].clone();
            let queried = server.post(&format!("{path}/query"), json!({ "query": query })).await.expect(200);
            assert_eq!(queried["items"], listed, "{path}: {query}");
            let count = get(format!("{path}/count")).await.expect(200)["count"].clone();
            assert_eq!(count, listed.as_array().unwrap().len(), "{path}: {query}");
            listed.as_array().unwrap().len()
        }
    };
    for (query, expected) in [
        ("agentRef:one", 1),
        ("status:COMPLETED && iterationsUsed:>=#2 && durable:false", 2),
        ("startedAt:>2020-01-01 && endedAt:~ && costUsd:#0", 2),
        ("kind:agent && parentRunId:null && reason:nothing*", 0),
    ] {
        assert_eq!(count("runs", query).await, expected, "{query}");
    }
    for (query, expected) in [
        ("agentRef:^[one, two]", 2),
        ("turnCount:>#0 && agentRef:two && sharedContext.nope:null", 1),
        ("status:ARCHIVED", 0),
        ("principalId:admin", 2),
        ("principalId:someone", 0),
    ] {
        assert_eq!(count("conversations", query).await, expected, "{query}");
    }
    let member = server.member("someone").await;
    let request = member.request(reqwest::Method::GET, "runs").query(&[("query", "status:~")]);
    assert_eq!(member.send(request).await.expect(200)["items"], json!([]), "runs of other principals are not found");
    let counted = member.send(member.request(reqwest::Method::GET, "runs/count")).await.expect(200);
    assert_eq!(counted["count"], 0, "runs of other principals are not counted");
    member.get("conversations/count?all=true").await.problem(403, "forbidden");
    let page = server.post("runs/query", json!({ "status": "COMPLETED", "limit": 1 })).await.expect(200);
    assert_eq!((page["items"].as_array().unwrap().len(), page["nextCursor"].is_string()), (1, true));
    assert_eq!(server.get("runs/count?status=COMPLETED&limit=1").await.expect(200)["count"], 2);
    for path in ["runs", "conversations"] {
        server.post(&format!("{path}/query"), json!({ "query": "(" })).await.problem(422, "invalid-query");
        server.post(&format!("{path}/query"), json!({ "nothing": 1 })).await.problem(400, "invalid-request");
        server.get(&format!("{path}/count?query=(")).await.problem(422, "invalid-query");
        // A query with an unknown field is rejected instead of returning an empty list.
        for query in ["nope:1", "status:COMPLETED && !!nope:~", "status.deeper:1"] {
            let problem = server.post(&format!("{path}/query"), json!({ "query": query })).await;
            let problem = problem.problem(422, "invalid-query");
            assert_eq!(problem["errors"][0]["path"], "/query", "{problem}");
            for path in [path.to_owned(), format!("{path}/count")] {
                let request = server.request(reqwest::Method::GET, &path).query(&[("query", query)]);
                server.send(request).await.problem(422, "invalid-query");
            }
        }
    }
    server.get("runs?query=(").await.problem(422, "invalid-query");
    server.get("conversations?query=(").await.problem(422, "invalid-query");
}

/// Tests all routes of the OpenAPI document that list or count something.
async fn every_list_route_rejects_unknown_query_parameters(server: Server) {
    let document: Value = serde_json::from_str(&toolwright_api::openapi_json()).unwrap();
    let mut tested = 0;
    for (path, operations) in document["paths"].as_object().unwrap() {
        let id = operations["get"]["operationId"].as_str().unwrap_or_default();
        if !(id.starts_with("list") || id.starts_with("count")) {
            continue;
        }
        let path = path.replace("{ref}", "echo");
        assert!(!path.contains('{'), "{path}");
        let request = server.request(reqwest::Method::GET, &path).query(&[("unknownParameter", "1")]);
        let problem = server.send(request).await.problem(400, "invalid-request");
        assert_eq!(problem["errors"][0]["path"], "unknownParameter", "{path}: {problem}");
        tested += 1;
    }
    assert!(tested > 30, "{tested}");
}

async fn unknown_query_parameters_are_rejected_with_a_suggestion(server: Server) {
    for (route, mistyped, intended) in [
        ("tools", "categroy", "category"),
        ("tools", "invocatoin.path", "invocation"),
        ("tools/count", "limt", ""),
        ("tools/count", "querry", "query"),
        ("tools/generated", "enabld", "enabled"),
        ("agents", "toolRef", "toolRefs"),
        ("tool-providers", "providertype", "providerType"),
        ("prompt-fragments", "ref_name", "refName"),
        ("types", "srt", "sort"),
        ("runs", "agentref", "agentRef"),
        ("approvals", "stauts", "status"),
        ("effects", "outcom", "outcome"),
        ("conversations", "agent_ref", "agentRef"),
        ("trials", "cursr", "cursor"),
        ("principals", "relm", "realm"),
        ("models", "providr", "provider"),
        ("/api/v1/ai-tools", "knd", "kind"),
        ("/api/v1/agentic-tools", "executionmode", "executionMode"),
        ("/api/v1/composite-tools", "routingmode", "routingMode"),
    ] {
        let request = server.request(reqwest::Method::GET, route).query(&[(mistyped, "x")]);
        let problem = server.send(request).await.problem(400, "invalid-request");
        let detail = problem["detail"].as_str().unwrap();
        assert_eq!(detail.contains("did you mean"), !intended.is_empty(), "{route}: {detail}");
        let expected = format!("is unknown; did you mean `{intended}`? Valid names: ");
        assert!(intended.is_empty() || detail.contains(&expected), "{route}: {detail}");
        assert!(detail.contains("`limit`") != route.ends_with("/count"), "{route}: {detail}");
    }
    let body = json!({ "filter": { "categroy": "x" } });
    let problem = server.post("tools/query", body).await.problem(400, "invalid-request");
    assert_eq!(problem["errors"][0]["path"], "/filter/categroy", "{problem}");
    assert!(problem["detail"].as_str().unwrap().contains("did you mean `category`?"), "{problem}");
    // Fields of the view that are stored under another name, and nested fields, are filters.
    for path in [
        "/api/v1/agentic-tools?slug=a",
        "/api/v1/composite-tools?unifiedSchema.type=object",
        "tools?agentic.maxSteps=1",
    ] {
        assert_eq!(server.get(path).await.expect(200)["items"], json!([]), "{path}");
    }
}
