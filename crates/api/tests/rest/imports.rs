//! Tests the import of OpenAPI documents as tools, and the requests that these tools send.

use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio_util::task::TaskTracker;
use toolwright_testkit::{Faults, LOOPBACK};

use crate::harness::{Deployment, Server, Storage, merge, required_env};

const IMPORT: &str = "tools/import/openapi";

/// The OpenAPI document of an API whose endpoints return the request.
const ECHO: &str = r#"
openapi: 3.0.3
info: { title: Echo Shop, description: Sells echoes. }
servers: [{ url: https://shop.example.com/v1 }]
security: [{ key: [] }]
components:
  securitySchemes: { key: { type: apiKey, in: header, name: X-Shop-Key } }
  parameters:
    Trace: { name: X-Trace, in: header, schema: { type: string } }
  schemas:
    Pet:
      type: object
      required: [id, name]
      properties:
        id: { type: integer, readOnly: true }
        name: { type: string }
        nick: { type: string, nullable: true, default: none }
        parent: { $ref: '#/components/schemas/Pet' }
paths:
  /echo/pets/{petId}:
    parameters: [{ name: petId, in: path, required: true, schema: { type: integer } }]
    get:
      operationId: getPet
      summary: Get a pet
      tags: [Pets]
      parameters:
        - { name: tag, in: query, schema: { type: array, items: { type: string } } }
        - { name: ids, in: query, explode: false, schema: { type: array, items: { type: integer } } }
        - { name: filter, in: query, style: deepObject, schema: { type: object } }
        - { name: page, in: query, schema: { type: integer, default: 1 } }
        - { $ref: '#/components/parameters/Trace' }
      responses: { 200: { description: ok, content: { application/json: { schema: { type: object } } } } }
    patch:
      operationId: changePet
      tags: [Pets]
      requestBody: { required: true, content: { application/json: { schema: { $ref: '#/components/schemas/Pet' } } } }
      responses: { 200: { description: ok } }
    delete: { operationId: removePet, deprecated: true, responses: { 204: { description: gone } } }
  /echo/orders:
    post:
      operationId: order
      tags: [Orders]
      requestBody:
        required: true
        content:
          application/x-www-form-urlencoded:
            schema: { type: object, properties: { items: { type: array, items: { type: object } }, note: { type: string } } }
            encoding: { items: { style: deepObject, explode: true } }
      responses: { 201: { description: ok } }
  /echo/photos:
    post:
      operationId: upload
      requestBody: { required: true, content: { image/png: { schema: { type: string, format: binary } } } }
      responses: { 201: { description: ok } }
  /echo/ping:
    post: { operationId: ping, parameters: [{ name: q, in: query, schema: { type: string } }], responses: { 200: { description: ok } } }
"#;

crate::on_both_databases!(
    imported_tools_send_the_documented_requests,
    second_import_updates_imported_tools_but_not_manual_ones,
    dry_run_reports_the_import_and_writes_nothing,
    include_filters_limit_the_imported_operations,
    download_of_an_openapi_document_obeys_the_egress_policy,
    invalid_openapi_import_is_rejected_with_its_path_and_writes_nothing,
    openapi_document_with_500_operations_is_imported,
);

fn names(report: &Value, list: &str) -> Vec<String> {
    report[list].as_array().unwrap().iter().map(|tool| tool["refName"].as_str().unwrap().to_owned()).collect()
}

async fn count(server: &Server) -> Value {
    server.get("tools/count").await.expect(200)["count"].clone()
}

async fn imported_tools_send_the_documented_requests(server: Server) {
    let faults = Faults::builder().start(LOOPBACK).await.unwrap();
    let provider = json!({ "refName": "shop", "baseUrl": faults.base_url(), "egressAllow": ["127.0.0.0/8"] });
    server.post("tool-providers", provider).await.expect(201);
    let report = server.post(IMPORT, json!({ "document": ECHO, "providerRef": "shop" })).await.expect(200);
    assert_eq!(
        names(&report, "imported"),
        ["shop/getPet", "shop/changePet", "shop/removePet", "shop/order", "shop/ping"]
    );
    assert_eq!(report["skipped"][0]["operation"], "POST /echo/photos");
    assert!(report["skipped"][0]["reason"].as_str().unwrap().contains("image/png"), "{report}");
    assert_eq!(report["providerCreated"], false);

    let tool = server.get("tools/shop%2FgetPet").await.expect(200);
    assert_eq!(
        (&tool["source"], &tool["category"], &tool["tags"]),
        (&json!("openapi-imported"), &json!("shop.pets"), &json!(["Pets"]))
    );
    assert_eq!((&tool["sideEffects"], &tool["description"]), (&json!("reads"), &json!("Get a pet")));
    assert_eq!(tool["outputJsonSchema"], json!({ "type": "object" }));
    let removal = server.get("tools/shop%2FremovePet").await.expect(200);
    assert_eq!((&removal["status"], &removal["idempotent"]), (&json!("deprecated"), &json!(true)));

    let call = async |tool: &str, input: Value| {
        let path = format!("tools/{}/execute", tool.replace('/', "%2F"));
        let envelope = server.post(&path, json!({ "input": input })).await.expect(200);
        assert_eq!(envelope["error"], Value::Null, "{envelope}");
        assert_eq!(envelope["metadata"]["warnings"].as_array().map_or(0, Vec::len), 0, "{envelope}");
        envelope["output"].clone()
    };
    let sent = call("shop/getPet", json!({ "petId": 7 })).await;
    assert_eq!((&sent["path"], &sent["query"]), (&json!("/echo/pets/7"), &json!([])));
    assert!(sent["headers"].get("x-trace").is_none(), "{sent}");
    let input = json!({ "petId": 7, "tag": ["a", "b"], "ids": [1, 2], "filter": { "age": { "gte": 3 } }, "page": 2, "X-Trace": "t" });
    let sent = call("shop/getPet", input).await;
    assert_eq!(
        sent["query"],
        json!([["tag", "a"], ["tag", "b"], ["ids", "1,2"], ["filter[age][gte]", "3"], ["page", "2"]])
    );
    assert_eq!(sent["headers"]["x-trace"], "t");

    // The request contains `nick` as null, because the input contains it. Fields that the input lacks are not sent.
    let sent = call("shop/changePet", json!({ "petId": 7, "name": "Ada", "nick": null })).await;
    assert_eq!((&sent["method"], &sent["json"]), (&json!("PATCH"), &json!({ "name": "Ada", "nick": null })));
    let sent = call("shop/changePet", json!({ "petId": 7, "name": "Ada", "parent": { "name": "Bo" } })).await;
    assert_eq!(sent["json"], json!({ "name": "Ada", "parent": { "name": "Bo" } }));
    let refused = json!({ "input": { "petId": 7, "name": "Ada", "id": 1 } });
    let validation = server.post("tools/shop%2FchangePet/validate", refused).await.expect(200);
    assert_eq!(validation["valid"], false, "read-only properties are not accepted as input");

    let sent = call("shop/order", json!({ "items": [{ "sku": "x", "n": 2 }] })).await;
    assert_eq!(sent["body"], "items%5B0%5D%5Bsku%5D=x&items%5B0%5D%5Bn%5D=2");
    let sent = call("shop/ping", json!({ "q": "a" })).await;
    assert_eq!((&sent["body"], &sent["query"]), (&json!(""), &json!([["q", "a"]])));
    faults.shutdown().await;
}

async fn second_import_updates_imported_tools_but_not_manual_ones(server: Server) {
    let import = |document: String, more: Value| {
        let server = server.clone();
        async move {
            server.post(IMPORT, merge(json!({ "document": document, "providerRef": "shop" }), more)).await.expect(200)
        }
    };
    let own = json!({ "refName": "shop/ping", "toolType": "FUNCTION", "invocation": { "path": "echo" } });
    server.post("tools", own).await.expect(201);
    let first = import(ECHO.into(), json!({})).await;
    assert_eq!((first["imported"].as_array().unwrap().len(), &first["providerCreated"]), (4, &json!(true)));
    let auth = json!({ "authType": "api_key", "headerName": "X-Shop-Key", "secretRef": "shop" });
    assert_eq!(first["provider"]["auth"], merge(auth, json!({})), "{first}");
    assert_eq!(first["provider"]["baseUrl"], "https://shop.example.com/v1");
    assert!(first["warnings"].to_string().contains("secrets set shop"), "{first}");

    let again = import(ECHO.into(), json!({ "update": true })).await;
    assert_eq!(
        (names(&again, "imported").len(), names(&again, "updated").len(), names(&again, "unchanged").len()),
        (0, 0, 4)
    );
    let changed = ECHO.replace("summary: Get a pet", "summary: Get one pet");
    let skipped = import(changed.clone(), json!({})).await;
    assert!(skipped["skipped"].to_string().contains("use `update`"), "{skipped}");
    let updated = import(changed, json!({ "update": true })).await;
    assert_eq!(names(&updated, "updated"), ["shop/getPet"]);
    assert!(updated["skipped"].to_string().contains("was not imported"), "{updated}");
    let tool = server.get("tools/shop%2FgetPet").await.expect(200);
    assert_eq!((&tool["description"], &tool["revision"]), (&json!("Get one pet"), &json!(2)));
    assert_eq!(server.get("tools/shop%2Fping").await.expect(200)["toolType"], "FUNCTION");
}

async fn dry_run_reports_the_import_and_writes_nothing(server: Server) {
    let report = server.post(IMPORT, json!({ "document": ECHO, "dryRun": true })).await.expect(200);
    assert_eq!((names(&report, "imported").len(), &report["dryRun"]), (5, &json!(true)));
    assert_eq!((count(&server).await, &report["provider"]["refName"]), (json!(0), &json!("echo-shop")));
    server.get("tool-providers/echo-shop").await.problem(404, "not-found");
}

async fn include_filters_limit_the_imported_operations(server: Server) {
    let import_filtered = async |include: Value, more: Value| {
        let body = merge(json!({ "document": ECHO, "dryRun": true, "include": include, "prefix": "" }), more);
        names(&server.post(IMPORT, body).await.expect(200), "imported")
    };
    assert_eq!(import_filtered(json!({ "tags": ["orders"] }), json!({})).await, ["order"]);
    assert_eq!(
        import_filtered(json!({ "paths": ["/echo/pets/*"], "methods": ["GET", "delete"] }), json!({})).await,
        ["getPet", "removePet"]
    );
    assert_eq!(
        import_filtered(json!({ "operationIds": ["*Pet"] }), json!({ "prefix": "p" })).await,
        ["p/getPet", "p/changePet", "p/removePet"]
    );
    assert_eq!(import_filtered(json!({ "tags": ["none"] }), json!({})).await, [] as [&str; 0]);
}

async fn download_of_an_openapi_document_obeys_the_egress_policy(server: Server) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let relative = ECHO.replace("https://shop.example.com/v1", "/v1");
    let app = axum::Router::new().route("/docs/openapi.yaml", axum::routing::get(move || async { relative }));
    let tasks = TaskTracker::new();
    let serving = tasks.spawn(async move { axum::serve(listener, app).await.unwrap() });
    let url = format!("http://{address}/docs/openapi.yaml");

    let refused = server.post(IMPORT, json!({ "url": url, "providerRef": "shop" })).await.problem(422, "cannot-import");
    assert_eq!(refused["errors"][0]["path"], "/url", "{refused}");
    // The egress rules of the provider also apply to the download of its document.
    let provider = json!({ "refName": "shop", "egressAllow": ["127.0.0.0/8"] });
    server.post("tool-providers", provider).await.expect(201);
    let report = server.post(IMPORT, json!({ "url": url, "providerRef": "shop" })).await.expect(200);
    assert_eq!(names(&report, "imported").len(), 5);
    assert!(report["warnings"].to_string().contains(&format!("not http://{address}/v1")), "{report}");
    let missing = server.post(IMPORT, json!({ "url": format!("http://{address}/no"), "providerRef": "shop" })).await;
    assert!(missing.problem(422, "cannot-import")["detail"].as_str().unwrap().contains("404"));
    serving.abort();
}

async fn invalid_openapi_import_is_rejected_with_its_path_and_writes_nothing(server: Server) {
    let document = |change: Value| {
        merge(
            json!({ "openapi": "3.1.0", "info": { "title": "Shop" }, "paths": {}, "servers": [{ "url": "https://s.example.com" }] }),
            change,
        )
    };
    for (body, status, code, path) in [
        (json!({}), 400, "invalid-request", "/document"),
        (json!({ "document": ECHO, "url": "https://x.example.com" }), 400, "invalid-request", "/document"),
        (json!({ "document": ECHO, "includes": {} }), 400, "invalid-request", "/includes"),
        (json!({ "document": ECHO, "providerRef": "a b" }), 400, "invalid-request", "/providerRef"),
        (json!({ "document": ECHO, "include": { "methods": ["fetch"] } }), 400, "invalid-request", "/include/methods"),
        (json!({ "document": ECHO, "baseUrl": "nowhere" }), 400, "invalid-request", "/baseUrl"),
        (json!({ "document": ECHO, "prefix": "a/b" }), 422, "cannot-import", "/document"),
        (json!({ "url": "file:///etc/passwd" }), 400, "invalid-request", "/url"),
        (json!({ "document": "{" }), 422, "cannot-import", "/document"),
        (json!({ "document": [] }), 422, "cannot-import", "/document"),
        (json!({ "document": { "swagger": "2.0", "paths": {} } }), 422, "cannot-import", "/document/swagger"),
        (json!({ "document": document(json!({ "servers": [] })) }), 422, "cannot-import", "/document/servers"),
        (json!({ "document": document(json!({ "info": { "title": "…" } })) }), 400, "invalid-request", "/providerRef"),
        (
            json!({ "document": document(json!({ "servers": [{ "url": "https://u:p@s.example.com" }] })) }),
            422,
            "invalid-definition",
            "/baseUrl",
        ),
    ] {
        let problem = server.post(IMPORT, body.clone()).await.problem(status, code);
        assert_eq!(problem["errors"][0]["path"], path, "{body}: {problem}");
    }
    let member = server.member("someone").await;
    member.post(IMPORT, json!({ "document": ECHO })).await.problem(403, "forbidden");
    assert_eq!(count(&server).await, 0);
    assert_eq!(server.get("tool-providers/count").await.expect(200)["count"], 0);

    // An invalid operation is skipped without affecting the others. An invalid `pattern` is removed from a schema, with
    // a warning.
    let odd = json!({ "name": "q", "in": "query", "schema": { "type": "string", "pattern": "(" } });
    let paths = json!({
        "/a": { "get": { "operationId": "good", "parameters": [odd] } },
        "/b/../a": { "get": { "operationId": "bad" } },
        "/c": { "get": { "operationId": "lost", "parameters": [{ "$ref": "other.yaml#/q" }] } },
    });
    let report = server.post(IMPORT, json!({ "document": document(json!({ "paths": paths })) })).await.expect(200);
    assert_eq!(names(&report, "imported"), ["shop/good"]);
    assert!(
        report["warnings"].to_string().contains("GET /a: a `pattern` of the input schema is not supported"),
        "{report}"
    );
    let reasons: Vec<&str> =
        report["skipped"].as_array().unwrap().iter().map(|one| one["reason"].as_str().unwrap()).collect();
    assert!(reasons.iter().any(|reason| reason.contains("other.yaml")), "{reasons:?}");
    assert!(reasons.iter().any(|reason| reason.contains("/invocation/path")), "{reasons:?}");
}

async fn openapi_document_with_500_operations_is_imported(server: Server) {
    let text = std::fs::read_to_string(required_env("TOOLWRIGHT_TEST_OPENAPI_SAMPLE")).unwrap();
    let report = server.post(IMPORT, json!({ "document": text, "providerRef": "big" })).await.expect(200);
    let imported = names(&report, "imported");
    assert!(imported.len() > 500, "{}", imported.len());
    assert_eq!(count(&server).await, imported.len());
    for name in imported.iter().step_by(97) {
        for format in ["openai", "anthropic", "gemini", "mcp"] {
            server.get(&format!("tools/{}/export/{format}", name.replace('/', "%2F"))).await.expect(200);
        }
    }
}

#[tokio::test]
async fn openapi_document_over_the_size_limit_is_rejected() {
    let deployment = Deployment::new(Storage::Sqlite).await;
    let (server, running) = deployment.start().await;
    let body = vec![b' '; (80 << 20) + 1];
    let answer = server.send(server.request(reqwest::Method::POST, IMPORT).body(body)).await;
    let problem = answer.problem(413, "payload-too-large");
    assert!(problem["detail"].as_str().unwrap().contains("83886080"), "{problem}");
    running.stop().await;
    deployment.remove().await;
}
