//! Tests that a principal who may not read an entity type cannot read its records through related records.

use serde_json::{Value, json};

use crate::harness::{Deployment, Response, Server, Storage};

const POLICIES: &str = r#"
    @id("clerks-see-no-customers")
    forbid (principal, action == Action::"read", resource is EntityType)
    when { principal.name == "clerk" && resource.name == "Customer" };
"#;

async fn with_clerk<F: Future<Output = ()>>(storage: Storage, test: impl FnOnce(Server) -> F) {
    let deployment = Deployment::new(storage).await;
    let (server, running) = deployment.start_with(|options| options.policies = POLICIES.to_owned()).await;
    let relation =
        |name: &str, entity_type: &str, field: &str| json!([{ "name": name, "type": entity_type, "field": field }]);
    let types = [
        json!({ "name": "Customer" }),
        json!({ "name": "Order", "relations": relation("customer", "Customer", "customerId") }),
        json!({ "name": "Parcel", "relations": relation("order", "Order", "orderId") }),
    ];
    for entity_type in types {
        server.post("types", entity_type).await.expect(201);
    }
    for (entity_type, entity) in [
        ("Customer", json!({ "id": "cus-1", "refName": "acme", "city": "Lisbon", "favourite": "ord-1" })),
        ("Order", json!({ "id": "ord-1", "customerId": "cus-1" })),
        ("Parcel", json!({ "id": "par-1", "orderId": "ord-1" })),
    ] {
        server.post("/api/query/save", json!({ "rootType": entity_type, "entity": entity })).await.expect(200);
    }
    test(server).await;
    running.stop().await;
    deployment.remove().await;
}

mod sqlite {
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn unreadable_related_records_are_not_expanded() {
        super::with_clerk(crate::harness::Storage::Sqlite, super::unreadable_related_records_are_not_expanded).await;
    }
}

mod postgres {
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn unreadable_related_records_are_not_expanded() {
        super::with_clerk(
            crate::harness::Storage::PostgresAndRedis,
            super::unreadable_related_records_are_not_expanded,
        )
        .await;
    }
}

async fn gateway(server: &Server, route: &str, entity_type: &str, query: &str) -> Response {
    server.post(&format!("/api/query/{route}"), json!({ "rootType": entity_type, "query": query })).await
}

async fn unreadable_related_records_are_not_expanded(server: Server) {
    let (clerk, other) = (server.member("clerk").await, server.member("someone").await);
    gateway(&clerk, "find", "Customer", "").await.problem(403, "forbidden");
    assert_eq!(gateway(&clerk, "count", "Order", "").await.expect(200)["count"], 1);
    for (entity_type, query) in [
        ("Order", "expand(customer)"),
        ("Order", "expand(customer, city:Lisbon)"),
        ("Parcel", "expand(order.customer)"),
    ] {
        let seen = gateway(&other, "find", entity_type, query).await.expect(200);
        assert!(seen.to_string().contains("Lisbon"), "{seen}");
        let refused = gateway(&clerk, "find", entity_type, query).await.problem(403, "forbidden");
        assert!(!refused.to_string().contains("Lisbon"), "{refused}");
        // Permission to call the tool generated for a type does not include access to related types.
        let tool = if entity_type == "Order" { "search_orders" } else { "search_parcels" };
        let envelope = clerk.call(tool, json!({ "query": query })).await;
        assert_eq!((&envelope["error"]["code"], &envelope["output"]), (&json!("POLICY_DENIED"), &Value::Null));
    }
    // A query by relation must not reveal the `refName` of an unreadable record.
    for (client, found) in [(&other, 1), (&clerk, 0)] {
        assert_eq!(gateway(client, "count", "Order", "hasEdge(customer, acme)").await.expect(200)["count"], found);
    }
}
