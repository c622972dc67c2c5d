//! Tests definitions of entity types: validation, warnings and removal.

use serde_json::{Value, json};

use crate::harness::Server;

crate::on_both_databases!(
    entity_type_can_be_created_read_patched_and_removed,
    invalid_entity_type_is_rejected_with_its_path,
    type_with_an_unindexed_searchable_field_or_unknown_relation_is_saved_with_warnings,
    type_with_records_cannot_be_removed,
    entity_type_with_recursive_schema_and_relations_is_accepted,
    types_and_records_are_invisible_to_other_realms,
);

pub(crate) fn order_type() -> Value {
    json!({
        "name": "Order",
        "description": "Customer purchase orders.",
        "jsonSchema": {
            "type": "object", "additionalProperties": false, "required": ["status"],
            "properties": {
                "status": { "type": "string", "enum": ["open", "paid", "shipped"] },
                "customerId": { "type": "string" },
                "totalAmount": { "type": "number", "minimum": 0 },
                "createdDate": { "type": "string", "format": "date" },
                "lines": { "type": "array", "items": { "type": "object", "properties": { "sku": { "type": "string" }, "quantity": { "type": "integer" } } } },
                "note": { "type": "string" },
            },
        },
        "searchableFields": ["status", "customerId", "totalAmount", "createdDate"],
        "relations": [{ "name": "customer", "type": "Customer", "field": "customerId" }],
    })
}

pub(crate) fn customer_type() -> Value {
    json!({
        "name": "Customer", "searchableFields": ["name"],
        "jsonSchema": { "type": "object", "properties": { "name": { "type": "string" }, "friends": { "type": "array" } } },
        "relations": [{ "name": "friends", "type": "Customer", "field": "friends", "many": true }],
    })
}

async fn entity_type_can_be_created_read_patched_and_removed(server: Server) {
    let created = server.post("types", order_type()).await.expect(201);
    assert!(created["id"].as_str().unwrap().starts_with("type_"));
    assert_eq!((&created["refName"], &created["name"]), (&json!("Order"), &json!("Order")));
    assert_eq!(created["warnings"][0], "no type `Customer` exists yet");
    assert_eq!(server.get("types/order").await.expect(200)["id"], created["id"]);
    server.post("types", json!({ "refName": "ORDER" })).await.problem(409, "duplicate");
    let patched = server.patch("types/Order", json!({ "excludeOperations": ["DELETE"], "tags": ["oms"] })).await;
    assert_eq!(patched.expect(200)["excludeOperations"], json!(["delete"]));
    assert_eq!(server.get("types?tag=oms").await.expect(200)["items"][0]["refName"], "Order");
    assert_eq!(server.get("types/count").await.expect(200)["count"], 1);
    let member = server.member("someone").await;
    assert_eq!(member.get("types/Order").await.expect(200)["refName"], "Order");
    member.post("types", json!({ "name": "Mine" })).await.problem(403, "forbidden");
    assert_eq!(server.delete("types/Order").await.status.as_u16(), 204);
    server.get("types/Order").await.problem(404, "not-found");
}

async fn invalid_entity_type_is_rejected_with_its_path(server: Server) {
    let closed =
        json!({ "type": "object", "additionalProperties": false, "properties": { "a": { "type": "string" } } });
    for (body, path) in [
        (json!({ "name": "T", "jsonSchema": { "type": "string" } }), "/jsonSchema/type"),
        (json!({ "name": "T", "jsonSchema": false }), "/jsonSchema/type"),
        (
            json!({ "name": "T", "jsonSchema": { "properties": { "a": { "type": "strin" } } } }),
            "/jsonSchema/properties/a/type",
        ),
        (json!({ "name": "T", "jsonSchema": { "required": ["auditInfo"] } }), "/jsonSchema/required"),
        (json!({ "name": "T", "jsonSchema": { "description": "x".repeat(300_000) } }), "/jsonSchema"),
        (json!({ "name": "T", "jsonSchema": closed, "searchableFields": ["b"] }), "/searchableFields/0"),
        (json!({ "name": "T", "jsonSchema": closed, "searchableFields": ["a.b"] }), "/searchableFields/0"),
        (json!({ "name": "T", "searchableFields": ["a", "a"] }), "/searchableFields/1"),
        (json!({ "name": "T", "searchableFields": ["a'; DROP TABLE records; --"] }), "/searchableFields/0"),
        (json!({ "name": "T", "searchableFields": [""] }), "/searchableFields/0"),
        (
            json!({ "name": "T", "jsonSchema": { "properties": { "a'b": { "type": "string" } } }, "searchableFields": ["a'b"] }),
            "/searchableFields/0",
        ),
        (json!({ "name": "T", "excludeOperations": ["drop"] }), "/excludeOperations/0"),
        (json!({ "name": "T", "singularName": "Straße" }), "/singularName"),
        (json!({ "name": "7", "pluralName": "sevens" }), "/singularName"),
        (json!({ "name": "T", "relations": [{ "name": "a b", "type": "T", "field": "x" }] }), "/relations/0/name"),
        (json!({ "name": "T", "relations": [{ "name": "a", "type": "T", "field": "" }] }), "/relations/0/field"),
        (
            json!({ "name": "T", "jsonSchema": closed, "relations": [{ "name": "a", "type": "T", "field": "x" }] }),
            "/relations/0/field",
        ),
        (json!({ "name": "T", "relations": [{ "name": "id", "type": "T", "field": "x" }] }), "/relations/0/name"),
        (json!({ "name": "T", "unknown": 1 }), "/unknown"),
    ] {
        let problem = server.post("types", body.clone()).await.problem(422, "invalid-definition");
        let shown: String = body.to_string().chars().take(200).collect();
        assert_eq!(problem["errors"][0]["path"], path, "{shown}: {problem}");
    }
    assert_eq!(server.get("types/count").await.expect(200)["count"], 0);
}

async fn type_with_an_unindexed_searchable_field_or_unknown_relation_is_saved_with_warnings(server: Server) {
    let created = server
        .post(
            "types",
            json!({
                "name": "T", "searchableFields": ["anything", "lines.sku"],
                "jsonSchema": { "properties": { "version": { "type": "string" }, "lines": { "type": "array" } } },
                "relations": [{ "name": "other", "type": "Missing", "field": "otherId" }],
            }),
        )
        .await
        .expect(201);
    let warnings = created["warnings"].to_string();
    for expected in
        ["`anything` is searched without an index", "`lines.sku`", "fills in `version`", "no type `Missing`"]
    {
        assert!(warnings.contains(expected), "{expected}: {warnings}");
    }
}

async fn type_with_records_cannot_be_removed(server: Server) {
    server.post("types", order_type()).await.expect(201);
    let saved = server.post("/api/query/save", json!({ "rootType": "Order", "entity": { "status": "open" } })).await;
    let id = saved.expect(200)["id"].clone();
    server.delete("types/Order").await.problem(409, "type-in-use");
    server.post("/api/query/delete", json!({ "rootType": "Order", "id": id })).await.expect(200);
    assert_eq!(server.delete("types/Order").await.status.as_u16(), 204);
    let gone = server.post("/api/query/save", json!({ "rootType": "Order", "entity": { "status": "open" } })).await;
    gone.problem(404, "not-found");
}

async fn entity_type_with_recursive_schema_and_relations_is_accepted(server: Server) {
    let node = json!({
        "name": "Node", "searchableFields": ["parent.parent.parent.name"],
        "jsonSchema": {
            "type": "object", "additionalProperties": false,
            "properties": { "name": { "type": "string" }, "parent": { "$ref": "#" }, "loop": { "$ref": "#/properties/loop" }, "a": { "$ref": "#/$defs/a" } },
            "$defs": { "a": { "$ref": "#/$defs/b" }, "b": { "$ref": "#/$defs/a" } },
        },
        "relations": [{ "name": "next", "type": "Node", "field": "name" }],
    });
    server.post("types", node).await.expect(201);
    server.post("types", json!({ "name": "Self", "jsonSchema": { "$ref": "#" } })).await.expect(201);
    let save = |entity_type: &'static str, entity: Value| {
        server.post("/api/query/save", json!({ "rootType": entity_type, "entity": entity }))
    };
    let deep = (0..40).fold(json!({ "name": "root" }), |parent, n| json!({ "name": n.to_string(), "parent": parent }));
    save("Node", deep).await.expect(200);
    save("Node", json!({ "parent": { "parent": { "name": 7 } } })).await.problem(422, "invalid-record");
    save("Self", json!({ "anything": [1] })).await.expect(200);
    let two = save("Node", json!({ "id": "a", "name": "b" })).await.expect(200)["id"].clone();
    save("Node", json!({ "id": "b", "name": "a" })).await.expect(200);
    let body = json!({ "rootType": "Node", "query": "id:a && expand(next.next.next.next)" });
    let found = server.post("/api/query/find", body).await.expect(200);
    assert_eq!(found["rows"][0]["next"]["next"]["next"]["next"]["id"], two, "{found}");
    let body = json!({ "rootType": "Node", "query": "expand(next.next.next.next.next)" });
    server.post("/api/query/find", body).await.problem(422, "invalid-query");
}

async fn types_and_records_are_invisible_to_other_realms(server: Server) {
    server.post("realms", json!({ "name": "other" })).await.expect(201);
    let other = server.in_realm("other");
    server.post("types", order_type()).await.expect(201);
    other.get("types/Order").await.problem(404, "not-found");
    let body = json!({ "rootType": "Order" });
    other.post("/api/query/find", body.clone()).await.problem(404, "not-found");
    other.post("types", order_type()).await.expect(201);
    let save = json!({ "rootType": "Order", "entity": { "id": "one", "status": "open" } });
    other.post("/api/query/save", save.clone()).await.expect(200);
    assert_eq!(server.post("/api/query/count", body.clone()).await.expect(200)["count"], 0);
    // A record with the same id can exist in both realms.
    assert_eq!(server.post("/api/query/save", save).await.expect(200)["entity"]["version"], 1);
    let elsewhere = json!({ "rootType": "Order", "realm": "other" });
    assert_eq!(server.post("/api/query/count", elsewhere.clone()).await.expect(200)["count"], 1);
    let delete = json!({ "rootType": "Order", "all": true });
    assert_eq!(server.post("/api/query/deleteMany", delete).await.expect(200)["deletedCount"], 1);
    assert_eq!(server.post("/api/query/count", elsewhere.clone()).await.expect(200)["count"], 1);
    let member = server.member("someone").await;
    member.post("/api/query/count", elsewhere).await.problem(403, "forbidden");
}
