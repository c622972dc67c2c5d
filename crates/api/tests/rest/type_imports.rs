//! Types of the objects that an OpenAPI document describes.

use serde_json::{Value, json};

use crate::harness::Server;

crate::on_both_editions!(
    objects_of_a_document_become_types,
    objects_that_lead_back_to_themselves_have_records,
    what_a_person_changed_is_not_imported_again,
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

async fn objects_of_a_document_become_types(server: Server) {
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

    // Its records are kept here, and are what the document says.
    let save = |entity: Value| server.post("/api/query/save", json!({ "rootType": "Order", "entity": entity }));
    save(json!({ "status": "open", "note": null, "lines": [{ "sku": "A", "parts": [{ "sku": "B" }] }] }))
        .await
        .expect(200);
    save(json!({ "status": "lost" })).await.problem(422, "invalid-record");
    save(json!({ "status": "open", "lines": [{ "parts": [{ "sku": 1 }] }] })).await.problem(422, "invalid-record");
    let found = server.post("/api/query/count", json!({ "rootType": "Order", "query": "lines.parts.sku:B" })).await;
    assert_eq!(found.expect(200)["count"], 1);
    assert_eq!(server.get("tools/create_order").await.expect(200)["source"], "auto-generated");

    for (body, code, place) in [
        (json!({}), "invalid-request", "/document"),
        (json!({ "document": { "openapi": "3.1.0", "paths": {} } }), "cannot-import", "/document/components/schemas"),
        (json!({ "document": "{" }), "cannot-import", "/document"),
        (json!({ "url": "http://127.0.0.1:1/x" }), "cannot-import", "/url"),
    ] {
        let status = if code == "invalid-request" { 400 } else { 422 };
        let problem = server.post("types/import/openapi", body.clone()).await.problem(status, code);
        assert_eq!(problem["errors"][0]["path"], place, "{problem}");
    }
    let member = server.member("someone").await;
    member
        .post("types/import/openapi", json!({ "document": document(), "apply": true }))
        .await
        .problem(403, "forbidden");
}

async fn objects_that_lead_back_to_themselves_have_records(server: Server) {
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
    for (of, entity) in [
        ("Folder", json!({ "name": "new", "parent": { "id": "top", "version": 1, "name": "root" } })),
        ("File", json!({ "name": "new", "in": { "id": "f", "name": "old" } })),
        ("Node", json!({ "name": "new", "next": { "id": "n", "name": "last" } })),
    ] {
        let save = |entity: Value| server.post("/api/query/save", json!({ "rootType": of, "entity": entity }));
        let saved = save(entity.clone()).await.expect(200);
        let found = server.post("/api/query/find", json!({ "rootType": of, "query": "name:new" })).await.expect(200);
        assert_eq!(found["rows"], json!([saved["entity"]]), "{of}");
        save(json!({ "name": 7 })).await.problem(422, "invalid-record");
    }
    // What is inside of a record is not kept here, and has the id that the document wants.
    let inner = json!({ "rootType": "Node", "entity": { "name": "new", "next": { "name": "nameless" } } });
    server.post("/api/query/save", inner).await.problem(422, "invalid-record");
}

async fn what_a_person_changed_is_not_imported_again(server: Server) {
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
