//! Imports and exports of workflows as Arazzo documents.

use serde_json::{Value, json};
use toolwright_testkit::definitions::ORDERS_KEY;
use toolwright_testkit::{LOOPBACK, Orders};

use crate::harness::Server;

crate::on_both_databases!(
    imported_workflow_calls_the_api_and_its_export_is_imported_without_a_change,
    dry_run_writes_nothing_and_a_different_workflow_is_only_replaced_with_update,
    document_that_cannot_be_converted_is_refused_with_its_paths_and_writes_nothing,
    workflow_that_arazzo_cannot_express_is_refused_with_its_paths,
    operations_are_found_by_document_or_by_provider,
    import_requires_the_permission_to_write_each_workflow,
);

/// The OpenAPI document of the orders API.
const ORDERS: &str = r"
openapi: 3.1.0
info: { title: Orders, version: 1.0.0 }
servers: [{ url: https://orders.example }]
paths:
  /orders:
    post:
      operationId: createOrder
      requestBody:
        required: true
        content:
          application/json:
            schema:
              type: object
              required: [customerId, items]
              properties: { customerId: { type: string }, items: { type: array, items: { type: object } }, note: { type: string } }
      responses: { 201: { description: ok } }
  /orders/{order-id}:
    get:
      operationId: getOrder
      parameters: [{ name: order-id, in: path, required: true, schema: { type: string } }]
      responses: { 200: { description: ok } }
  /orders/{order-id}/cancel:
    post:
      operationId: cancelOrder
      parameters: [{ name: order-id, in: path, required: true, schema: { type: string } }]
      responses: { 200: { description: ok } }
";

const DOCUMENT_URL: &str = "https://orders.example/openapi.yaml";

/// Imports the tools of the orders API at `url` for a provider.
async fn import_tools(server: &Server, provider: &str, url: &str, source: &str) {
    let auth = json!({ "authType": "api_key", "headerName": "X-Api-Key", "secretRef": "orders-key" });
    let body = json!({ "refName": provider, "baseUrl": url, "auth": auth, "egressAllow": ["127.0.0.0/8"] });
    server.post("tool-providers", body).await.expect(201);
    let body = json!({ "document": ORDERS, "providerRef": provider, "source": source });
    let report = server.post("tools/import/openapi", body).await.expect(200);
    assert_eq!(report["imported"].as_array().unwrap().len(), 3, "{report}");
}

/// A document with two workflows: `replace` executes `order`.
fn document(note: &str) -> Value {
    json!({
        "arazzo": "1.0.1",
        "info": { "title": "Orders", "version": "1.0.0" },
        "sourceDescriptions": [{ "name": "orders", "url": DOCUMENT_URL, "type": "openapi" }],
        "workflows": [
            {
                "workflowId": "replace",
                "inputs": { "type": "object", "required": ["order", "customer"], "properties": { "order": { "type": "string" }, "customer": { "type": "string" } } },
                "steps": [
                    { "stepId": "cancel", "operationPath": "{$sourceDescriptions.orders.url}#/paths/~1orders~1{order-id}~1cancel/post",
                      "parameters": [{ "name": "order-id", "in": "path", "value": "$inputs.order" }],
                      "outputs": { "status": "$response.body#/status" } },
                    { "stepId": "again", "workflowId": "order", "parameters": [{ "name": "customer", "value": "$inputs.customer" }],
                      "outputs": { "order": "$outputs.order" } }
                ],
                "outputs": { "cancelled": "$steps.cancel.outputs.status", "order": "$steps.again.outputs.order" }
            },
            {
                "workflowId": "order",
                "steps": [
                    { "stepId": "create", "operationId": "createOrder",
                      "requestBody": { "payload": {
                          "customerId": "$inputs.customer", "note": note,
                          "items": [{ "sku": "KB-200", "quantity": 2, "unitPriceCents": 8900 }] } },
                      "outputs": { "id": "$response.body#/id" } },
                    { "stepId": "read", "operationId": "getOrder",
                      "parameters": [{ "name": "order-id", "in": "path", "value": "$steps.create.outputs.id" }],
                      "outputs": { "order": "$response.body#/id", "total": "$response.body#/totalCents" } }
                ],
                "outputs": { "order": "$steps.read.outputs.order", "total": "$steps.read.outputs.total" }
            }
        ]
    })
}

async fn import(server: &Server, body: Value) -> Value {
    server.post("workflows/import", body).await.expect(200)
}

fn names(report: &Value, list: &str) -> Vec<String> {
    report[list].as_array().unwrap().iter().map(|item| item["refName"].as_str().unwrap().to_owned()).collect()
}

fn paths(problem: &Value) -> Vec<&str> {
    problem["errors"].as_array().unwrap().iter().map(|error| error["path"].as_str().unwrap()).collect()
}

async fn imported_workflow_calls_the_api_and_its_export_is_imported_without_a_change(server: Server) {
    let orders = Orders::builder().start(LOOPBACK).await.unwrap();
    let key = json!({ "name": "orders-key", "value": ORDERS_KEY, "scope": "realm" });
    server.post("secrets", key).await.expect(201);
    let source = "https://me:pass@orders.example/openapi.yaml?token=hidden";
    import_tools(&server, "orders", &orders.base_url(), source).await;
    let tool = server.get("tools/orders%2FcancelOrder").await.expect(200);
    let origin = json!({ "document": DOCUMENT_URL, "operationId": "cancelOrder", "method": "POST", "path": "/orders/{order-id}/cancel" });
    assert_eq!(tool["origin"], origin, "the origin has no credentials");

    let report = import(&server, json!({ "document": document("first").to_string() })).await;
    assert_eq!(names(&report, "imported"), ["replace", "order"], "{report}");
    assert_eq!(report["warnings"], json!([]));
    let input = json!({ "input": { "customer": "cus-1" } });
    let first = server.post("workflows/order/execute", input).await.expect(200);
    assert_eq!((&first["status"], &first["output"]["total"]), (&json!("COMPLETED"), &json!(17800)), "{first}");
    let input = json!({ "input": { "customer": "cus-1", "order": first["output"]["order"] } });
    let run = server.post("workflows/replace/execute", input).await.expect(200);
    assert_eq!((&run["status"], &run["output"]["cancelled"]), (&json!("COMPLETED"), &json!("cancelled")), "{run}");
    assert_ne!(run["output"]["order"], first["output"]["order"]);

    let stored = server.get("workflows/replace").await.expect(200);
    for version in ["1.0", "1.1"] {
        let exported = server.get(&format!("workflows/replace/export?format=arazzo&arazzoVersion={version}")).await;
        let exported = exported.expect(200);
        assert!(exported["arazzo"].as_str().unwrap().starts_with(version), "{exported}");
        assert_eq!(exported["sourceDescriptions"][0]["url"], DOCUMENT_URL);
        assert_eq!(exported["workflows"].as_array().unwrap().len(), 2, "the executed workflow is included");
        let again = import(&server, json!({ "document": exported })).await;
        assert_eq!(names(&again, "unchanged"), ["replace", "order"], "{again}");
    }
    assert_eq!(server.get("workflows/replace").await.expect(200)["revision"], stored["revision"]);
    orders.shutdown().await;
}

async fn dry_run_writes_nothing_and_a_different_workflow_is_only_replaced_with_update(server: Server) {
    import_tools(&server, "orders", "https://orders.example", DOCUMENT_URL).await;
    let report = import(&server, json!({ "document": document("a"), "dryRun": true, "workflowId": "order" })).await;
    assert_eq!((names(&report, "imported"), &report["dryRun"]), (vec!["order".to_owned()], &json!(true)));
    assert_eq!(report["workflows"][0]["steps"][0]["handlerRef"], "orders/createOrder", "{report}");
    server.get("workflows/order").await.problem(404, "not-found");

    import(
        &server,
        json!({ "document": document("a"), "workflowId": null, "providers": null, "update": null, "dryRun": null }),
    )
    .await;
    let problem = server.post("workflows/import", json!({ "document": document("b") })).await.problem(409, "duplicate");
    assert!(problem["detail"].as_str().unwrap().contains("`order`"), "{problem}");
    let note = async || server.get("workflows/order").await.expect(200)["steps"][0]["input"]["note"].clone();
    assert_eq!(note().await, "a");
    let report = import(&server, json!({ "document": document("b"), "update": true })).await;
    assert_eq!(
        (names(&report, "updated"), names(&report, "unchanged")),
        (vec!["order".to_owned()], vec!["replace".to_owned()])
    );
    assert_eq!(note().await, "b");
}

async fn document_that_cannot_be_converted_is_refused_with_its_paths_and_writes_nothing(server: Server) {
    let refused = async |document: Value| {
        let problem = server.post("workflows/import", json!({ "document": document })).await;
        problem.problem(422, "cannot-import")
    };
    let problem = refused(document("a")).await;
    assert_eq!(
        paths(&problem),
        [
            "/document/workflows/0/steps/0/operationPath",
            "/document/workflows/1/steps/0/operationId",
            "/document/workflows/1/steps/1/operationId"
        ]
    );
    import_tools(&server, "orders", "https://orders.example", DOCUMENT_URL).await;
    let mut wrong = document("a");
    wrong["workflows"][1]["steps"][0]["successCriteria"] = json!([{ "condition": "$response.body#/id != null" }]);
    wrong["workflows"][1]["steps"][1]["operationId"] = json!("findOrder");
    let problem = refused(wrong).await;
    let expected = ["/document/workflows/1/steps/0/successCriteria", "/document/workflows/1/steps/1/operationId"];
    let mut found = paths(&problem);
    found.sort_unstable();
    assert_eq!(found, expected, "{problem}");
    let problem = refused(json!("arazzo: [1")).await;
    assert_eq!((paths(&problem), problem["errors"][0]["line"].is_u64()), (vec!["/document"], true), "{problem}");
    refused(json!(7)).await;
    server.post("workflows/import", json!({})).await.problem(400, "invalid-request");
    let body = json!({ "document": document("a"), "providers": { "shop": "orders" } });
    server.post("workflows/import", body).await.problem(400, "invalid-request");
    assert_eq!(server.get("workflows/count").await.expect(200)["count"], 0);
    // Workflows with these names would hide routes.
    for (name, code, path) in [
        ("import", "cannot-import", "/document/workflows/0/workflowId"),
        ("check", "invalid-definition", "/workflows/0/refName"),
    ] {
        let mut reserved = document("a");
        reserved["workflows"][0]["workflowId"] = json!(name);
        let problem = server.post("workflows/import", json!({ "document": reserved })).await;
        assert_eq!(paths(&problem.problem(422, code)), [path]);
    }
}

async fn workflow_that_arazzo_cannot_express_is_refused_with_its_paths(server: Server) {
    import_tools(&server, "orders", "https://orders.example", DOCUMENT_URL).await;
    let ask = json!({ "name": "ask", "handlerRef": "quantum.flow.approval" });
    let call = |handler: &str| json!({ "name": "read", "handlerRef": handler, "input": { "order-id": "7" } });
    let registration = json!({ "name": "read_order", "toolRef": "orders/getOrder" });
    server.post("step-registrations", registration).await.expect(201);
    server.define_echo("plain", json!({})).await;
    let cases = [
        ("asks", json!([ask, call("orders/getOrder")]), "/steps/0/handlerRef"),
        ("registered", json!([call("read_order")]), "/steps/0/handlerRef"),
        ("pinned", json!([call("orders/getOrder@^1")]), "/steps/0/handlerRef"),
        ("plain", json!([call("plain")]), "/steps/0/handlerRef"),
    ];
    for (name, steps, path) in cases {
        server.post("workflows", json!({ "refName": name, "steps": steps })).await.expect(201);
        let problem = server.get(&format!("workflows/{name}/export?format=arazzo")).await.problem(422, "cannot-export");
        assert!(paths(&problem).contains(&path), "{name}: {problem}");
    }
    server.get("workflows/plain/export").await.problem(400, "invalid-request");
    server.get("workflows/plain/export?format=bpmn").await.problem(400, "invalid-request");
    server.get("workflows/plain/export?format=arazzo&arazzoVersion=2").await.problem(400, "invalid-request");
    server.get("workflows/none/export?format=arazzo").await.problem(404, "not-found");
}

async fn operations_are_found_by_document_or_by_provider(server: Server) {
    import_tools(&server, "east", "https://east.example", "./apis/east.yaml").await;
    import_tools(&server, "west", "https://west.example", "west.yaml").await;
    let handler = async |source: Value, providers: Value| {
        let mut document = document("a");
        document["sourceDescriptions"] = json!([source]);
        let text = document.to_string().replace(
            "$sourceDescriptions.orders",
            &format!("$sourceDescriptions.{}", source["name"].as_str().unwrap()),
        );
        let body = json!({ "document": text, "providers": providers, "dryRun": true });
        server.post("workflows/import", body).await
    };
    let cases = [
        (json!({ "name": "a", "url": "files/east.yaml" }), json!({}), "east/createOrder"),
        (json!({ "name": "a", "url": "https://other.example/west.json" }), json!({ "a": "west" }), "west/createOrder"),
        (json!({ "name": "west", "url": "https://other.example/x.json" }), json!({}), "west/createOrder"),
    ];
    for (source, providers, expected) in cases {
        let report = handler(source.clone(), providers).await.expect(200);
        assert_eq!(report["workflows"][1]["steps"][0]["handlerRef"], expected, "{source}");
    }
    handler(json!({ "name": "a", "url": "https://other.example/x.json" }), json!({}))
        .await
        .problem(422, "cannot-import");
}

async fn import_requires_the_permission_to_write_each_workflow(server: Server) {
    import_tools(&server, "orders", "https://orders.example", DOCUMENT_URL).await;
    let member = server.member("member").await;
    member.post("workflows/import", json!({ "document": document("a") })).await.problem(403, "forbidden");
    assert_eq!(server.get("workflows/count").await.expect(200)["count"], 0);
}
