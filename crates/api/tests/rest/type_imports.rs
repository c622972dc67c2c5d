//! Tests the import of entity types from the object schemas of an OpenAPI document.

use serde_json::{Value, json};

use crate::harness::Server;

crate::on_both_databases!(
    object_schemas_of_an_openapi_document_are_imported_as_types,
    recursive_openapi_schemas_are_imported_as_types,
    manually_edited_type_is_not_overwritten_by_a_second_import,
);

fn document() -> Value {
    json!({
        "openapi": "3.0.3",
        "components": { "schemas": {
            "Entity": { "type": "object", "required": ["id"], "properties": { "id": { "type": "integer" }, "version": { "type": "integer" } } },
            "Order": { "title": "An order.", "allOf": [
                { "$ref": "#/components/schemas/Entity" },
                { "type": "object", "required": ["status"], "properties": {
                    "status": { "$ref": "#/components/schemas/Status" },
                    "note": { "type": "string", "nullable": true },
                    "lines": { "type": "array", "items": { "$ref": "#/components/schemas/Line" } },
                } },
            ] },
            "Line": { "type": "object", "properties": { "sku": { "type": "string" }, "parts": { "type": "array", "items": { "$ref": "#/components/schemas/Line" } } } },
            "Status": { "type": "string", "enum": ["open", "paid"] },
            "query": { "type": "object", "properties": { "a": { "type": "string" } } },
            "Far": { "$ref": "other.json#/Far" },
        } },
    })
}

async fn object_schemas_of_an_openapi_document_are_imported_as_types(server: Server) {
    let shown = server.post("types/import/openapi", json!({ "document": document() })).await.expect(200);
    assert_eq!((&shown["applied"], shown["imported"].as_array().unwrap().len()), (&json!(false), 4));
    server.get("types/Order").await.problem(404, "not-found");
    let text = document().to_string();
    let done = server
        .post(
            "types/import/openapi",
            json!({ "document": text, "schemas": ["Order", "Line", "Status", "q*", "Far"], "apply": true }),
        )
        .await
        .expect(200);
    assert_eq!(done["imported"], json!([{ "refName": "Order" }, { "refName": "Line" }, { "refName": "QueryRecord" }]));
    let skipped: Vec<&str> =
        done["skipped"].as_array().unwrap().iter().map(|one| one["name"].as_str().unwrap()).collect();
    assert_eq!(skipped, ["Status", "Far"]);
    let order = server.get("types/Order").await.expect(200);
    assert_eq!((&order["source"], &order["description"]), (&json!("openapi-imported"), &json!("An order.")));
    assert_eq!(order["jsonSchema"]["required"], json!(["status"]));

    // The server stores the records of an imported type itself and validates them against the type's schema.
    let save = |entity: Value| server.post("/api/query/save", json!({ "rootType": "Order", "entity": entity }));
    save(json!({ "status": "open", "note": null, "lines": [{ "sku": "A", "parts": [{ "sku": "B" }] }] }))
        .await
        .expect(200);
    save(json!({ "status": "lost" })).await.problem(422, "invalid-record");
    save(json!({ "status": "open", "lines": [{ "parts": [{ "sku": 1 }] }] })).await.problem(422, "invalid-record");
    let found = server.post("/api/query/count", json!({ "rootType": "Order", "query": "lines.parts.sku:B" })).await;
    assert_eq!(found.expect(200)["count"], 1);
    assert_eq!(server.get("tools/create_order").await.expect(200)["source"], "auto-generated");

    for (body, code, path) in [
        (json!({}), "invalid-request", "/document"),
        (json!({ "document": { "openapi": "3.1.0", "paths": {} } }), "cannot-import", "/document/components/schemas"),
        (json!({ "document": "{" }), "cannot-import", "/document"),
        (json!({ "url": "http://127.0.0.1:1/x" }), "cannot-import", "/url"),
    ] {
        let status = if code == "invalid-request" { 400 } else { 422 };
        let problem = server.post("types/import/openapi", body.clone()).await.problem(status, code);
        assert_eq!(problem["errors"][0]["path"], path, "{problem}");
    }
    let member = server.member("someone").await;
    member
        .post("types/import/openapi", json!({ "document": document(), "apply": true }))
        .await
        .problem(403, "forbidden");
}

async fn recursive_openapi_schemas_are_imported_as_types(server: Server) {
    let reference = |name: &str| json!({ "$ref": format!("#/components/schemas/{name}") });
    let document = json!({ "openapi": "3.0.3", "components": { "schemas": {
        "Entity": { "type": "object", "required": ["id", "version"], "properties": {
            "id": { "type": "string" }, "version": { "type": "integer" }, "parent": reference("Folder"),
        } },
        "Kept": { "type": "object", "required": ["id"], "minProperties": 1, "properties": { "id": {}, "in": reference("File") } },
        "Folder": { "allOf": [reference("Entity"), { "required": ["name"], "properties": { "name": { "type": "string" } } }] },
        "File": { "allOf": [reference("Kept"), { "properties": { "name": { "type": "string" } } }] },
        "Node": { "type": "object", "required": ["id", "name"], "properties": {
            "id": { "type": "string" }, "name": { "type": "string" }, "next": reference("Node"),
        } },
    } } });
    server.post("types/import/openapi", json!({ "document": document, "apply": true })).await.expect(200);
    for (entity_type, entity) in [
        ("Folder", json!({ "name": "new", "parent": { "id": "top", "version": 1, "name": "root" } })),
        ("File", json!({ "name": "new", "in": { "id": "f", "name": "old" } })),
        ("Node", json!({ "name": "new", "next": { "id": "n", "name": "last" } })),
    ] {
        let save = |entity: Value| server.post("/api/query/save", json!({ "rootType": entity_type, "entity": entity }));
        let saved = save(entity.clone()).await.expect(200);
        let found =
            server.post("/api/query/find", json!({ "rootType": entity_type, "query": "name:new" })).await.expect(200);
        assert_eq!(found["rows"], json!([saved["entity"]]), "{entity_type}");
        save(json!({ "name": 7 })).await.problem(422, "invalid-record");
    }
    // The server generates ids only for records. A nested object is not a record, so its required `id` must be present.
    let inner = json!({ "rootType": "Node", "entity": { "name": "new", "next": { "name": "nameless" } } });
    server.post("/api/query/save", inner).await.problem(422, "invalid-record");
}

async fn manually_edited_type_is_not_overwritten_by_a_second_import(server: Server) {
    let import = |update: bool| {
        let body = json!({ "document": document(), "schemas": ["Order"], "update": update, "apply": true });
        server.post("types/import/openapi", body)
    };
    import(false).await.expect(200);
    assert_eq!(import(true).await.expect(200)["unchanged"], json!([{ "refName": "Order" }]));
    server.patch("types/Order", json!({ "description": "Mine." })).await.expect(200);
    let again = import(true).await.expect(200);
    assert!(again["skipped"][0]["reason"].as_str().unwrap().contains("changed since"), "{again}");
    assert_eq!(server.get("types/Order").await.expect(200)["description"], "Mine.");
}
