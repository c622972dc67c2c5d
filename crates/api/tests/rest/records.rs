//! Tests records over the routes under `/api/query`: find, count, save, delete, and invalid requests.

use futures::future::join_all;
use serde_json::{Value, json};

use crate::harness::{Response, Server};
use crate::types::{customer_type, order_type};

crate::on_both_databases!(
    record_can_be_created_updated_and_deleted_with_its_version,
    records_are_queried_sorted_and_paged,
    record_that_violates_its_type_is_rejected,
    only_one_of_eight_concurrent_versioned_saves_succeeds,
    all_of_eight_concurrent_unversioned_saves_succeed,
    related_records_are_queried_and_expanded,
    query_variables_come_from_the_session_and_the_request,
    delete_many_requires_a_filter_or_the_flag_all,
    invalid_query_is_rejected_with_its_path,
    text_with_sql_and_wildcard_characters_is_matched_literally,
    members_may_read_but_not_write_records,
);

impl Server {
    async fn gateway(&self, route: &str, body: Value) -> Response {
        self.post(&format!("/api/query/{route}"), body).await
    }

    async fn save(&self, entity_type: &str, entity: Value) -> Value {
        self.gateway("save", json!({ "rootType": entity_type, "entity": entity })).await.expect(200)["entity"].clone()
    }

    /// Returns the ids of the records that a query finds, in order. Also checks that the count route returns the same
    /// number.
    async fn ids(&self, query: &str) -> Vec<String> {
        let found = self.gateway("find", json!({ "rootType": "Order", "query": query })).await.expect(200);
        let count = self.gateway("count", json!({ "rootType": "Order", "query": query })).await.expect(200);
        assert_eq!(count["count"], found["rowCount"], "{query}");
        ids(&found)
    }
}

fn ids(found: &Value) -> Vec<String> {
    found["rows"].as_array().unwrap().iter().map(|row| row["id"].as_str().unwrap().to_owned()).collect()
}

/// Defines the types `Customer` and `Order`, and saves three customers and five orders.
async fn save_customers_and_orders(server: &Server) {
    server.post("types", customer_type()).await.expect(201);
    server.post("types", order_type()).await.expect(201);
    for (id, name, friends) in [
        ("cus-1", "Acme", json!(["cus-2", "cus-9"])),
        ("cus-2", "Globex", json!(["cus-1"])),
        ("cus-3", "Initech", json!([])),
    ] {
        server
            .save("Customer", json!({ "id": id, "refName": id.to_uppercase(), "name": name, "friends": friends }))
            .await;
    }
    for (id, status, customer, total, created) in [
        ("o1", "open", "cus-1", 700.0, "2024-01-05"),
        ("o2", "open", "cus-1", 120.5, "2024-02-05"),
        ("o3", "paid", "cus-1", 900.0, "2024-03-05"),
        ("o4", "open", "cus-2", 800.0, "2024-04-05"),
        ("o5", "shipped", "cus-3", 10.0, "2024-05-05"),
    ] {
        let lines = json!([{ "sku": format!("A-{id}"), "quantity": 2 }]);
        server.save("Order", json!({ "id": id, "status": status, "customerId": customer, "totalAmount": total, "createdDate": created, "lines": lines })).await;
    }
}

async fn record_can_be_created_updated_and_deleted_with_its_version(server: Server) {
    server.post("types", order_type()).await.expect(201);
    let types = server.get("/api/query/rootTypes").await.expect(200);
    assert_eq!(
        types,
        json!({ "count": 1, "rootTypes": [{ "className": "Order", "simpleName": "Order", "collectionName": "orders" }] })
    );
    let first = server.save("Order", json!({ "status": "open", "totalAmount": 12.5 })).await;
    let id = first["id"].as_str().unwrap();
    assert!(id.len() == 24 && id.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte)), "{id}");
    assert_eq!(first["version"], 1);
    assert_eq!(
        first["dataDomain"],
        json!({ "orgRefName": "default", "tenantId": "default", "ownerId": "admin", "dataSegment": 0 })
    );
    assert_eq!(first["auditInfo"]["createdBy"], "admin");
    // A record can be saved exactly as it was returned. The version in the record then detects conflicting writes.
    let mut again = first.clone();
    again["status"] = json!("paid");
    let second = server.save("com.example.Order", again.clone()).await;
    assert_eq!((&second["version"], &second["status"]), (&json!(2), &json!("paid")));
    assert_eq!(second["auditInfo"]["createdAt"], first["auditInfo"]["createdAt"]);
    let stale =
        server.gateway("save", json!({ "rootType": "Order", "entity": again })).await.problem(409, "version-conflict");
    assert!(stale["detail"].as_str().unwrap().contains("at version 2"), "{stale}");
    // Ids that the server generated are matched case-insensitively.
    let found =
        server.gateway("find", json!({ "rootType": "Order", "query": format!("id:{}", id.to_uppercase()) })).await;
    assert_eq!(found.expect(200)["rowCount"], 1);
    let got = server.call("get_order", json!({ "id": id.to_uppercase() })).await;
    assert_eq!(got["output"]["id"], id, "{got}");
    let delete =
        |version: Value| server.gateway("delete", json!({ "rootType": "Order", "id": id, "version": version }));
    delete(json!(1)).await.problem(409, "version-conflict");
    let deleted = delete(json!(2)).await.expect(200);
    assert_eq!(deleted, json!({ "success": true, "id": id, "rootType": "Order", "deletedCount": 1 }));
    delete(Value::Null).await.problem(404, "not-found");
    let entity = json!({ "id": id, "version": 2, "status": "open" });
    server.gateway("save", json!({ "rootType": "Order", "entity": entity })).await.problem(404, "not-found");
}

async fn records_are_queried_sorted_and_paged(server: Server) {
    save_customers_and_orders(&server).await;
    for (query, expected) in [
        ("", vec!["o1", "o2", "o3", "o4", "o5"]),
        ("status:open && totalAmount:>#500", vec!["o1", "o4"]),
        ("status:OPEN && totalAmount:>##500.5 && customerId:cus-1", vec!["o1"]),
        ("createdDate:>=2024-03-01", vec!["o3", "o4", "o5"]),
        ("lines:{sku:A-o2 && quantity:#2}", vec!["o2"]),
        ("lines.sku:*o3", vec!["o3"]),
        ("text(\"a-o4 nothing\")", vec!["o4"]),
        ("id:^[o1, o5]", vec!["o1", "o5"]),
        ("dataDomain.ownerId:admin && version:#1 && status:!open", vec!["o3", "o5"]),
        ("auditInfo.createdAt:>2020-01-01 && note:null && customerId:cus-3", vec!["o5"]),
    ] {
        assert_eq!(server.ids(query).await, expected, "{query}");
    }
    let find = |more: Value| {
        let mut body =
            json!({ "rootType": "Order", "sort": [{ "field": "status" }, { "field": "totalAmount", "dir": "DESC" }] });
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        server.gateway("find", body)
    };
    let all = find(json!({})).await.expect(200);
    assert_eq!(ids(&all), ["o4", "o1", "o2", "o3", "o5"]);
    assert_eq!(
        (&all["offset"], &all["limit"], &all["rowCount"], &all["nextCursor"]),
        (&json!(0), &json!(50), &json!(5), &Value::Null)
    );
    let (mut seen, mut cursor) = (Vec::new(), Value::Null);
    loop {
        let page = find(json!({ "page": { "limit": 2, "cursor": cursor } })).await.expect(200);
        seen.extend(ids(&page));
        cursor = page["nextCursor"].clone();
        if cursor.is_null() {
            break;
        }
    }
    assert_eq!(seen, ids(&all));
    assert_eq!(ids(&find(json!({ "page": { "skip": 3, "limit": 1 } })).await.expect(200)), ["o3"]);
    assert_eq!(find(json!({ "page": { "limit": 0 } })).await.expect(200)["rowCount"], 0);
    let selected = find(json!({ "fields": "+id, +lines.sku", "page": { "limit": 1 } })).await.expect(200);
    assert_eq!(selected["rows"][0], json!({ "id": "o4", "lines": [{ "sku": "A-o4" }] }));
    let plan = server.gateway("plan", json!({ "rootType": "Order", "query": "status:open && expand(customer)" })).await;
    assert_eq!(plan.expect(200), json!({ "mode": "AGGREGATION", "expandPaths": ["customer"] }));
    let plan = server.gateway("plan", json!({ "rootType": "Order", "query": "status:${later}" })).await.expect(200);
    assert_eq!(plan["mode"], "FILTER");
}

async fn record_that_violates_its_type_is_rejected(server: Server) {
    server.post("types", order_type()).await.expect(201);
    server
        .post("types", json!({ "name": "Open", "jsonSchema": { "properties": { "id": { "pattern": "^x" } } } }))
        .await
        .expect(201);
    for (entity_type, entity, path) in [
        ("Order", json!({}), "/entity"),
        ("Order", json!({ "status": "lost" }), "/entity/status"),
        ("Order", json!({ "status": "open", "totalAmount": "much" }), "/entity/totalAmount"),
        ("Order", json!({ "status": "open", "surprise": 1 }), "/entity"),
        ("Order", json!({ "status": "open", "note": "a\u{0}b" }), "/entity"),
        ("Order", json!({ "status": "open", "note": "x".repeat(1_100_000) }), "/entity"),
        ("Open", json!({ "a\u{0}": 1, "id": "x1" }), "/entity"),
        ("Open", json!({ "id": "y1" }), "/entity/id"),
        ("Open", json!({ "id": "x1", "deep": (0..110).fold(json!(1), |inner, _| json!([inner])) }), "/entity"),
    ] {
        let problem = server
            .gateway("save", json!({ "rootType": entity_type, "entity": entity }))
            .await
            .problem(422, "invalid-record");
        assert_eq!(problem["errors"][0]["path"], path, "{problem}");
    }
    for entity in [json!([]), json!("x"), Value::Null] {
        server.gateway("save", json!({ "rootType": "Order", "entity": entity })).await.problem(400, "invalid-request");
    }
    for id in [json!("a b"), json!("../x"), json!("'; DROP TABLE records; --"), json!(7), json!(""), json!("\u{0}")] {
        let entity = json!({ "id": id, "status": "open" });
        let problem = server.gateway("save", json!({ "rootType": "Order", "entity": entity })).await;
        assert_eq!(problem.problem(422, "invalid-record")["errors"][0]["path"], "/entity/id");
    }
    for version in [json!("1"), json!(1.5), json!([])] {
        let entity = json!({ "id": "o1", "version": version, "status": "open" });
        let problem = server.gateway("save", json!({ "rootType": "Order", "entity": entity })).await;
        assert_eq!(problem.problem(422, "invalid-record")["errors"][0]["path"], "/entity/version");
    }
    assert_eq!(server.ids("").await.len(), 0);
    assert_eq!(
        server.save("Open", json!({ "id": "x1", "any": { "thing": [1, null] } })).await["any"]["thing"],
        json!([1, null])
    );
}

async fn only_one_of_eight_concurrent_versioned_saves_succeeds(server: Server) {
    server.post("types", order_type()).await.expect(201);
    server.save("Order", json!({ "id": "one", "status": "open" })).await;
    let save = |n: usize| {
        server.gateway(
            "save",
            json!({ "rootType": "Order", "entity": { "id": "one", "version": 1, "status": "paid", "totalAmount": n } }),
        )
    };
    let answers = join_all((0..8).map(save)).await;
    let statuses: Vec<u16> = answers.iter().map(|answer| answer.status.as_u16()).collect();
    assert_eq!(statuses.iter().filter(|status| **status == 200).count(), 1, "{statuses:?}");
    assert_eq!(statuses.iter().filter(|status| **status == 409).count(), 7, "{statuses:?}");
}

async fn all_of_eight_concurrent_unversioned_saves_succeed(server: Server) {
    server.post("types", order_type()).await.expect(201);
    let save = |n: usize| {
        server.gateway(
            "save",
            json!({ "rootType": "Order", "entity": { "id": "one", "status": "paid", "totalAmount": n } }),
        )
    };
    let answers = join_all((0..8).map(save)).await;
    let mut versions: Vec<i64> =
        answers.into_iter().map(|answer| answer.expect(200)["entity"]["version"].as_i64().unwrap()).collect();
    versions.sort_unstable();
    assert_eq!(versions, [1, 2, 3, 4, 5, 6, 7, 8]);
}

async fn related_records_are_queried_and_expanded(server: Server) {
    save_customers_and_orders(&server).await;
    assert_eq!(server.ids("hasEdge(customer, cus-1) && status:open").await, ["o1", "o2"]);
    assert_eq!(server.ids("hasOutgoingEdge(customer, CUS-2)").await, ["o4"], "an edge can name the `refName`");
    assert_eq!(server.ids("hasEdge(customer, nobody)").await, [""; 0]);
    assert_eq!(server.ids("!!hasEdge(customer, cus-1)").await, ["o4", "o5"]);
    let incoming = json!({ "rootType": "Customer", "query": "hasIncomingEdge(customer, o4)" });
    assert_eq!(ids(&server.gateway("find", incoming).await.expect(200)), ["cus-2"]);
    let friends =
        json!({ "rootType": "Customer", "query": "hasIncomingEdge(friends, cus-2) || hasEdge(friends, cus-9)" });
    assert_eq!(ids(&server.gateway("find", friends).await.expect(200)), ["cus-1"]);
    let gone = json!({ "rootType": "Customer", "query": "hasEdge(friends, cus-9)" });
    assert_eq!(
        ids(&server.gateway("find", gone).await.expect(200)),
        ["cus-1"],
        "an edge matches the field even if the target does not exist"
    );
    for query in ["customerId:@@cus-1", "customerId:^[@@cus-1, @@\"no such\"]", "hasEdge(customer, @@cus-1)"] {
        assert_eq!(server.ids(query).await, ["o1", "o2", "o3"], "{query}");
    }
    assert_eq!(server.ids("customerId:@@CUS-1").await, [""; 0], "ids given by the caller are case-sensitive");
    let expand =
        |query: &str| server.gateway("find", json!({ "rootType": "Order", "query": query, "page": { "limit": 1 } }));
    let row = expand("id:o1 && expand(customer.friends)").await.expect(200)["rows"][0].clone();
    assert_eq!(row["customer"]["name"], "Acme");
    let names: Vec<&Value> =
        row["customer"]["friends"].as_array().unwrap().iter().map(|friend| &friend["name"]).collect();
    assert_eq!(names, ["Globex"], "one of the two does not exist");
    let row = expand("id:o1 && expand(customer, name:nobody)").await.expect(200)["rows"][0].clone();
    assert_eq!(row["customer"], Value::Null);
    assert_eq!(row["customerId"], "cus-1");
    for query in ["hasEdge(owner, x)", "expand(owner)", "expand(customer.owner)", "expand(customer, nothing:{)"] {
        expand(query).await.problem(422, "invalid-query");
    }
    // The `plan` route validates a query like the `find` route.
    let plan = |query: &str| server.gateway("plan", json!({ "rootType": "Order", "query": query }));
    let planned = plan("status:open && expand(customer.friends, name:Acme)").await.expect(200);
    assert_eq!(planned, json!({ "mode": "AGGREGATION", "expandPaths": ["customer.friends"] }));
    for (query, message) in [
        ("expand(nope)", "type `Order` has no such relation"),
        ("expand(customer.nope)", "type `Customer` has no such relation"),
        ("expand(customer, name.deeper:1)", "no field `name.deeper`"),
        ("expand(customer.friends.friends.friends.friends)", "at most 4 relations"),
    ] {
        let problem = plan(query).await.problem(422, "invalid-query");
        assert!(problem["detail"].as_str().unwrap().contains(message), "{query}: {problem}");
    }
}

async fn query_variables_come_from_the_session_and_the_request(server: Server) {
    save_customers_and_orders(&server).await;
    for query in [
        "dataDomain.ownerId:${principalId}",
        "auditInfo.createdBy:${ownerId}",
        "dataDomain.tenantId:${pTenantId}",
        "dataDomain.tenantId:${defaultRealm}",
        "dataDomain.orgRefName:${orgRefName}",
    ] {
        assert_eq!(server.ids(query).await.len(), 5, "{query}");
    }
    let find = |query: &str, variables: Value| {
        server.gateway("find", json!({ "rootType": "Order", "query": query, "variables": variables }))
    };
    assert_eq!(ids(&find("id:^[${mine}]", json!({ "mine": ["o2", "o3"] })).await.expect(200)), ["o2", "o3"]);
    assert_eq!(ids(&find("status:${s}", json!({ "s": "x' OR '1' = '1" })).await.expect(200)), [""; 0]);
    for (query, variables) in [
        ("status:${nobody}", json!({})),
        ("status:${resourceId}", json!({})),
        ("status:${s}", json!({ "s": null })),
        ("status:${s}", json!({ "s": { "a": 1 } })),
        ("status:${s}", json!({ "s": "\u{0}" })),
        ("status:open", json!({ "principalId": "root" })),
    ] {
        find(query, variables).await.problem(422, "invalid-query");
    }
}

async fn delete_many_requires_a_filter_or_the_flag_all(server: Server) {
    save_customers_and_orders(&server).await;
    for query in [Value::Null, json!(""), json!("  "), json!("fields:[+id]")] {
        let problem = server.gateway("deleteMany", json!({ "rootType": "Order", "query": query })).await;
        let problem = problem.problem(400, "invalid-request");
        assert_eq!(problem["errors"][0]["path"], "/all", "{problem}");
    }
    server
        .gateway("deleteMany", json!({ "rootType": "Order", "query": "expand(customer)" }))
        .await
        .problem(422, "invalid-query");
    let deleted =
        server.gateway("deleteMany", json!({ "rootType": "Order", "query": "status:open" })).await.expect(200);
    assert_eq!(deleted, json!({ "success": true, "query": "status:open", "rootType": "Order", "deletedCount": 3 }));
    let none = server.gateway("deleteMany", json!({ "rootType": "Order", "query": "status:open" })).await.expect(200);
    assert_eq!(none["deletedCount"], 0);
    assert_eq!(server.ids("").await, ["o3", "o5"]);
    let all = server.gateway("deleteMany", json!({ "rootType": "Order", "all": true })).await.expect(200);
    assert_eq!(all["deletedCount"], 2);
}

async fn invalid_query_is_rejected_with_its_path(server: Server) {
    save_customers_and_orders(&server).await;
    for (more, path) in [
        (json!({ "query": "status:[a]" }), "/query"),
        (json!({ "query": "status:open &&" }), "/query"),
        (json!({ "query": "nothing:1" }), "/query"),
        (json!({ "query": "lines:{" }), "/query"),
        (json!({ "query": "(".repeat(100_000) }), "/query"),
        (json!({ "query": format!("status:{}", "x".repeat(1 << 20)) }), "/query"),
        (json!({ "query": format!("{}status:open{}", "(".repeat(40), ")".repeat(40)) }), "/query"),
        (json!({ "query": "status:open || text(a)" }), "/query"),
        (json!({ "sort": [{ "field": "nothing" }] }), "/sort"),
        (json!({ "sort": [{ "field": "a'; --" }] }), "/sort"),
        (json!({ "fields": "a b c (" }), "/fields"),
        (json!({ "page": { "cursor": "x" } }), "/cursor"),
        (json!({ "page": { "cursor": "bnVsbA" } }), "/cursor"),
    ] {
        let mut body = json!({ "rootType": "Order" });
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let problem = server.gateway("find", body).await.problem(422, "invalid-query");
        assert_eq!(problem["errors"][0]["path"], path, "{problem}");
    }
    let problem = server.gateway("count", json!({ "rootType": "Order", "query": "status:open && \n total;" })).await;
    let error = problem.problem(422, "invalid-query")["errors"][0].clone();
    assert_eq!((&error["line"], error["column"].as_u64().unwrap() > 1), (&json!(2), true), "{error}");
    for more in [
        json!({ "page": { "limit": 1001 } }),
        json!({ "page": { "limit": -1 } }),
        json!({ "page": { "skip": 100_001 } }),
        json!({ "sort": [{ "field": "status", "dir": "UP" }] }),
        json!({ "sort": [{ "field": "-status" }] }),
        json!({ "unknown": 1 }),
    ] {
        let mut body = json!({ "rootType": "Order" });
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        server.gateway("find", body).await.problem(400, "invalid-request");
    }
    server.gateway("find", json!({})).await.problem(400, "invalid-request");
    for name in ["Nothing", "", "Order'; --", "\u{0}", "query"] {
        server.gateway("find", json!({ "rootType": name })).await.problem(404, "not-found");
    }
    server.gateway("find", json!({ "rootType": "Order", "realm": "nowhere" })).await.problem(403, "forbidden");
    let huge = json!({ "rootType": "Order", "query": "x".repeat(9 << 20) });
    server.gateway("find", huge).await.problem(413, "payload-too-large");
}

async fn text_with_sql_and_wildcard_characters_is_matched_literally(server: Server) {
    save_customers_and_orders(&server).await;
    let texts = [
        "'; DROP TABLE records; --",
        "\") OR 1 = 1 --",
        "%",
        "_",
        "*",
        "\\",
        "$1",
        "{}",
        "\u{202e}x",
        "🦀",
        "'' OR ''='",
    ];
    for (n, text) in texts.iter().enumerate() {
        let id = format!("h{n:02}");
        server.save("Order", json!({ "id": id, "status": "open", "note": text })).await;
        let quoted = format!("note:\"{}\"", text.replace('"', "\"\""));
        assert_eq!(server.ids(&quoted).await, [id.as_str()], "{text}");
        let body = json!({ "rootType": "Order", "query": "note:${text}", "variables": { "text": text } });
        assert_eq!(ids(&server.gateway("find", body).await.expect(200)), [id.as_str()], "{text}");
        server.gateway("delete", json!({ "rootType": "Order", "id": text })).await.problem(404, "not-found");
        server.gateway("delete", json!({ "rootType": text, "id": id })).await.problem(404, "not-found");
    }
    assert_eq!(server.ids("").await.len(), 5 + texts.len());
}

async fn members_may_read_but_not_write_records(server: Server) {
    save_customers_and_orders(&server).await;
    let member = server.member("someone").await;
    assert_eq!(member.ids("status:paid").await, ["o3"]);
    member
        .gateway("save", json!({ "rootType": "Order", "entity": { "status": "open" } }))
        .await
        .problem(403, "forbidden");
    member.gateway("delete", json!({ "rootType": "Order", "id": "o1" })).await.problem(403, "forbidden");
    member.gateway("deleteMany", json!({ "rootType": "Order", "all": true })).await.problem(403, "forbidden");
    assert_eq!(server.ids("").await.len(), 5);
    let stranger = server.with_key("not-a-key");
    stranger.gateway("find", json!({ "rootType": "Order" })).await.problem(401, "unauthenticated");
}
