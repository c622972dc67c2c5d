//! Tests drift findings: how they are recorded, counted and accepted.

use serde_json::{Value, json};

use crate::harness::Server;

crate::on_both_databases!(
    repeated_output_mismatch_is_one_drift_finding_with_a_count,
    second_import_of_a_changed_api_creates_a_drift_finding,
    drift_findings_are_paged_and_accepted_only_with_write_permission,
);

const OUTPUT_SCHEMA: &str = r#"{ "type": "object", "required": ["id"], "properties": { "id": { "type": "integer" }, "tags": { "type": "array", "items": { "type": "string" } } } }"#;

async fn define_tool(server: &Server, name: &str) {
    let schema: Value = serde_json::from_str(OUTPUT_SCHEMA).unwrap();
    let tool = json!({ "refName": name, "toolType": "FUNCTION", "description": "d", "invocation": { "path": "echo" }, "outputJsonSchema": schema, "onOutputMismatch": "warn" });
    server.post("tools", tool).await.expect(201);
}

async fn call(server: &Server, name: &str, input: Value) -> Value {
    server.post(&format!("tools/{name}/execute"), json!({ "input": input })).await.expect(200)
}

/// Polls the drift findings until `fits` returns true. The server writes findings asynchronously after the calls.
async fn findings(server: &Server, query: &str, fits: impl Fn(&[Value]) -> bool) -> Vec<Value> {
    let page = server.poll_until(&format!("drift{query}"), |page| fits(page["items"].as_array().unwrap())).await;
    page["items"].as_array().unwrap().clone()
}

async fn repeated_output_mismatch_is_one_drift_finding_with_a_count(server: Server) {
    define_tool(&server, "Drifty").await;
    assert_eq!(call(&server, "drifty", json!({ "id": 1, "tags": ["a"] })).await["metadata"].get("warnings"), None);
    for _ in 0..3 {
        let envelope = call(&server, "drifty", json!({ "id": "secret-1", "tags": [1, "b"], "more": true })).await;
        assert!(envelope["error"].is_null() && envelope["metadata"]["warnings"].is_array(), "{envelope}");
    }
    call(&server, "drifty", json!({})).await;
    let found = findings(&server, "", |items| items.len() == 2 && items.iter().any(|one| one["count"] == 3)).await;
    let often = found.iter().find(|one| one["count"] == 3).unwrap();
    assert_eq!(
        (&often["toolRef"], &often["source"], &often["status"]),
        (&json!("drifty"), &json!("output"), &json!("open"))
    );
    assert_eq!(
        often["differences"],
        json!([
            { "path": "/output/id", "change": "type", "expected": "integer", "found": "string" },
            { "path": "/output/more", "change": "added", "found": "boolean" },
            { "path": "/output/tags/*", "change": "type", "expected": "string", "found": "number" },
        ])
    );
    assert!(!often.to_string().contains("secret-1"), "a finding contains types, not values");
    let once = found.iter().find(|one| one["count"] == 1).unwrap();
    assert_eq!(once["differences"], json!([{ "path": "/output/id", "change": "missing" }]));
}

async fn second_import_of_a_changed_api_creates_a_drift_finding(server: Server) {
    let document = |properties: Value| {
        let answer = json!({ "200": { "content": { "application/json": { "schema": { "type": "object", "properties": properties } } } } });
        json!({ "openapi": "3.0.3", "info": { "title": "Shop" }, "servers": [{ "url": "https://s.example.com" }], "paths": { "/pets": { "get": { "operationId": "list", "responses": answer } } } })
    };
    let import = async |document: Value| {
        server.post("tools/import/openapi", json!({ "document": document, "update": true })).await.expect(200)
    };
    import(document(json!({ "id": { "type": "integer" }, "name": { "type": "string" } }))).await;
    import(document(json!({ "id": { "type": "string" }, "title": { "type": "string" } }))).await;
    let found = findings(&server, "?toolRef=shop/list", |items| items.len() == 1).await;
    assert_eq!(found[0]["source"], "import");
    let changes: Vec<String> = found[0]["differences"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| format!("{} {}", one["path"], one["change"]))
        .collect();
    assert_eq!(changes, ["\"/output/id\" \"type\"", "\"/output/name\" \"missing\"", "\"/output/title\" \"added\""]);
}

async fn drift_findings_are_paged_and_accepted_only_with_write_permission(server: Server) {
    define_tool(&server, "one").await;
    for input in [json!({}), json!({ "id": "x" }), json!({ "id": [] })] {
        call(&server, "one", input).await;
    }
    findings(&server, "", |items| items.len() == 3).await;
    let first = server.get("drift?limit=2").await.expect(200);
    let next = first["nextCursor"].as_str().unwrap();
    let rest = server.get(&format!("drift?limit=2&cursor={next}")).await.expect(200);
    assert_eq!((rest["items"].as_array().unwrap().len(), &rest["nextCursor"]), (1, &Value::Null));

    let id = rest["items"][0]["id"].as_str().unwrap();
    let member = server.member("someone").await;
    member.post(&format!("drift/{id}/accept"), json!({})).await.problem(403, "forbidden");
    let accepted = server.post(&format!("drift/{id}/accept"), json!({})).await.expect(200);
    assert_eq!((&accepted["status"], &accepted["acceptedBy"]), (&json!("accepted"), &json!("admin")));
    assert_eq!(server.get("drift?status=open").await.expect(200)["items"].as_array().unwrap().len(), 2);
    assert_eq!(server.get("drift?status=accepted").await.expect(200)["items"][0]["id"], id);
    assert_eq!(server.get("drift?toolRef=other").await.expect(200)["items"], json!([]));

    server.post("realms", json!({ "name": "elsewhere" })).await.expect(201);
    assert_eq!(server.in_realm("elsewhere").get("drift").await.expect(200)["items"], json!([]));
    for path in ["drift?status=x", "drift?limit=0", "drift?cursor=x", "drift?other=1"] {
        server.get(path).await.problem(400, "invalid-request");
    }
    server.post("drift/drift_01KA3P6V0W5JYB9Q2F7T8XCD4E/accept", json!({})).await.problem(404, "not-found");
    server.post("drift/nonsense/accept", json!({})).await.problem(404, "not-found");
}
