//! Whoever may not read a type gets at its records in no way, also not through those that refer to them.

use serde_json::{Value, json};

use crate::harness::{Answer, Edition, Home, Server};

const POLICIES: &str = r#"
    @id("clerks-see-no-customers")
    forbid (principal, action == Action::"read", resource is EntityType)
    when { principal.name == "clerk" && resource.name == "Customer" };
"#;

async fn with_clerk<F: Future<Output = ()>>(edition: Edition, test: impl FnOnce(Server) -> F) {
    let home = Home::new(edition).await;
    let (server, running) = home.start_with(|options| options.policies = POLICIES.to_owned()).await;
    let relation = |name: &str, of: &str, field: &str| json!([{ "name": name, "type": of, "field": field }]);
    let types = [
        json!({ "name": "Customer" }),
        json!({ "name": "Order", "relations": relation("customer", "Customer", "customerId") }),
        json!({ "name": "Parcel", "relations": relation("order", "Order", "orderId") }),
    ];
    for of in types {
        server.post("types", of).await.expect(201);
    }
    for (of, entity) in [
        ("Customer", json!({ "id": "cus-1", "refName": "acme", "city": "Lisbon", "favourite": "ord-1" })),
        ("Order", json!({ "id": "ord-1", "customerId": "cus-1" })),
        ("Parcel", json!({ "id": "par-1", "orderId": "ord-1" })),
    ] {
        server.post("/api/query/save", json!({ "rootType": of, "entity": entity })).await.expect(200);
    }
    test(server).await;
    running.stop().await;
    home.remove().await;
}

mod sqlite {
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn what_may_not_be_read_is_not_expanded() {
        super::with_clerk(crate::harness::Edition::Sqlite, super::what_may_not_be_read_is_not_expanded).await;
    }
}

mod postgres {
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn what_may_not_be_read_is_not_expanded() {
        super::with_clerk(crate::harness::Edition::PostgresAndRedis, super::what_may_not_be_read_is_not_expanded).await;
    }
}

async fn ask(server: &Server, route: &str, of: &str, query: &str) -> Answer {
    server.post(&format!("/api/query/{route}"), json!({ "rootType": of, "query": query })).await
}

async fn what_may_not_be_read_is_not_expanded(server: Server) {
    let (clerk, other) = (server.member("clerk").await, server.member("someone").await);
    ask(&clerk, "find", "Customer", "").await.problem(403, "forbidden");
    assert_eq!(ask(&clerk, "count", "Order", "").await.expect(200)["count"], 1);
    for (of, query) in [
        ("Order", "expand(customer)"),
        ("Order", "expand(customer, city:Lisbon)"),
        ("Parcel", "expand(order.customer)"),
    ] {
        let seen = ask(&other, "find", of, query).await.expect(200);
        assert!(seen.to_string().contains("Lisbon"), "{seen}");
        let refused = ask(&clerk, "find", of, query).await.problem(403, "forbidden");
        assert!(!refused.to_string().contains("Lisbon"), "{refused}");
        // The tool made for orders stands for orders alone.
        let tool = if of == "Order" { "search_orders" } else { "search_parcels" };
        let envelope = clerk.call(tool, json!({ "query": query })).await;
        assert_eq!((&envelope["error"]["code"], &envelope["output"]), (&json!("POLICY_DENIED"), &Value::Null));
    }
    // Nor does a question tell what the other is called.
    for (who, found) in [(&other, 1), (&clerk, 0)] {
        assert_eq!(ask(who, "count", "Order", "hasEdge(customer, acme)").await.expect(200)["count"], found);
    }
}
