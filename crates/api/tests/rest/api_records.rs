//! Tests entity types whose records come from an external API. The server reads these records by calling tools, so the
//! permissions of tool calls apply.

use std::sync::Arc;

use serde_json::{Value, json};
use toolwright_testkit::definitions::ORDERS_KEY;
use toolwright_testkit::orders::Handle;
use toolwright_testkit::{LOOPBACK, Orders};

use crate::harness::{Deployment, Response, Server, Storage, calls_then, envelopes, merge};

/// The principal `clerk` may read the type `Order`, but may not call the tool that lists the orders.
const POLICIES: &str = r#"
    @id("clerks-list-no-orders")
    forbid (principal, action == Action::"execute", resource is Tool)
    when { principal.name == "clerk" && resource.name == "orders/list" };
"#;

async fn with_orders<F: Future<Output = ()>>(test: impl FnOnce(Server, Arc<Handle>) -> F) {
    let api = Arc::new(Orders::builder().start(LOOPBACK).await.unwrap());
    let deployment = Deployment::new(Storage::Sqlite).await;
    let (server, running) = deployment.start_with(|options| options.policies = POLICIES.to_owned()).await;
    server.post("secrets", json!({ "name": "orders-key", "value": ORDERS_KEY })).await.expect(201);
    let auth = json!({ "authType": "api_key", "headerName": "X-Api-Key", "secretRef": "orders-key" });
    let provider =
        json!({ "refName": "orders", "baseUrl": api.base_url(), "egressAllow": ["127.0.0.0/8"], "auth": auth });
    server.post("tool-providers", provider).await.expect(201);
    define_tool(&server, "orders/list", json!({ "path": "/orders", "query": { "limit": "50" } }), json!({})).await;
    define_tool(&server, "orders/get", json!({ "path": "/orders/${param.orderId}" }), json!({})).await;
    define_tool(&server, "orders/create", json!({ "method": "POST", "path": "/orders" }), json!({})).await;
    let created = server.post("types", order_type(json!({}))).await.expect(201);
    assert_eq!(created["warnings"], Value::Null, "{created}");
    test(server, Arc::clone(&api)).await;
    running.stop().await;
    Arc::into_inner(api).expect("the test must drop its handle").shutdown().await;
    deployment.remove().await;
}

async fn define_tool(server: &Server, name: &str, invocation: Value, more: Value) {
    let tool = json!({ "refName": name, "toolType": "EXTERNAL_REST", "providerRef": "orders", "invocation": invocation, "defaultRetryCount": 0 });
    server.post("tools", merge(tool, more)).await.expect(201);
}

fn order_type(records: Value) -> Value {
    let source = merge(
        json!({ "kind": "rest", "list": "orders/list", "get": "orders/get", "idParameter": "orderId", "items": "$.items" }),
        records,
    );
    let schema = json!({ "type": "object", "properties": {
        "customerId": { "type": "string" }, "status": { "type": "string" }, "totalCents": { "type": "integer" },
        "items": { "type": "array" },
    } });
    json!({ "name": "Order", "jsonSchema": schema, "records": source })
}

async fn gateway(server: &Server, route: &str, more: Value) -> Response {
    server.post(&format!("/api/query/{route}"), merge(json!({ "rootType": "Order" }), more)).await
}

fn ids(found: &Value) -> Vec<&str> {
    let rows = found.get("rows").unwrap_or(&found["items"]);
    rows.as_array().unwrap().iter().map(|row| row["id"].as_str().unwrap()).collect()
}

macro_rules! with_orders_api {
    ($($name:ident),* $(,)?) => {
        mod with_orders {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                super::with_orders(super::$name).await;
            })*
        }
    };
}

with_orders_api!(
    records_of_an_api_are_queried_like_stored_records,
    pages_of_api_records_contain_each_record_once,
    single_record_is_read_with_the_get_tool,
    related_records_are_read_from_the_api,
    only_read_tools_are_generated_for_api_records,
    query_of_api_records_reports_the_error_of_the_list_tool,
    query_of_api_records_requires_permission_to_call_the_list_tool,
    list_tool_output_without_records_is_an_upstream_failure,
    tool_that_writes_is_never_called_to_list_records,
    query_fails_if_the_list_tool_of_the_type_queries_the_same_type,
    type_with_an_invalid_list_or_get_tool_is_rejected,
);

async fn records_of_an_api_are_queried_like_stored_records(server: Server, api: Arc<Handle>) {
    let found = gateway(
        &server,
        "find",
        json!({ "query": "status:pending", "sort": [{ "field": "totalCents", "dir": "DESC" }] }),
    )
    .await
    .expect(200);
    assert_eq!(ids(&found), ["ord-1015", "ord-1011", "ord-1001", "ord-1006", "ord-1018"]);
    assert_eq!(api.audit().reads, 1, "one query makes one call");
    // The API returns more fields than the type's schema declares. The undeclared fields are not returned.
    let names: Vec<&String> = found["rows"][0].as_object().unwrap().keys().collect();
    assert_eq!(names, ["id", "customerId", "status", "items", "totalCents"]);
    let count = |query: &str| json!({ "query": query });
    // The first two queries find nothing, because `currency` is not declared in the schema and is not searched.
    for (query, expected) in [
        ("currency:EUR", 0),
        ("text(EUR)", 0),
        ("", 20),
        ("totalCents:>#40000", 7),
        ("items:{sku:CB-005}", 4),
        ("text(cus-5)", 3),
    ] {
        assert_eq!(gateway(&server, "count", count(query)).await.expect(200)["count"], expected, "{query}");
    }
    for (route, more) in [
        ("save", json!({ "entity": { "status": "paid" } })),
        ("delete", json!({ "id": "ord-1001" })),
        ("deleteMany", json!({ "all": true })),
    ] {
        gateway(&server, route, more).await.problem(403, "forbidden");
    }
    assert_eq!(api.audit().writes, 0);
}

async fn pages_of_api_records_contain_each_record_once(server: Server, _api: Arc<Handle>) {
    let whole = gateway(&server, "find", json!({ "sort": [{ "field": "customerId" }] })).await.expect(200);
    let (mut seen, mut cursor) = (Vec::new(), Value::Null);
    loop {
        let page = json!({ "limit": 7, "cursor": cursor });
        let found =
            gateway(&server, "find", json!({ "sort": [{ "field": "customerId" }], "page": page })).await.expect(200);
        seen.extend(ids(&found).into_iter().map(str::to_owned));
        cursor = found["nextCursor"].clone();
        if cursor.is_null() {
            break;
        }
    }
    assert_eq!((seen.len(), seen), (20, ids(&whole).into_iter().map(str::to_owned).collect()));
}

async fn single_record_is_read_with_the_get_tool(server: Server, api: Arc<Handle>) {
    let envelope = server.call("get_order", json!({ "id": "ord-1008" })).await;
    assert_eq!(envelope["output"]["totalCents"], 6 * 23_900, "{envelope}");
    let missing = server.call("get_order", json!({ "id": "ord-7" })).await;
    assert_eq!(missing["error"]["details"]["reason"], "not_found", "{missing}");
    assert_eq!(api.audit().by_operation.into_iter().collect::<Vec<_>>(), [("orders.get", 2)]);
    // Without a `get` tool, the server finds the record in the output of the `list` tool.
    let mut listed = order_type(json!({}));
    listed["records"].as_object_mut().unwrap().remove("get");
    server.put("types/Order", listed).await.expect(200);
    assert_eq!(server.call("get_order", json!({ "id": "ord-1008" })).await["output"]["id"], "ord-1008");
}

async fn related_records_are_read_from_the_api(server: Server, api: Arc<Handle>) {
    let relations = json!([{ "name": "order", "type": "Order", "field": "orderId" }]);
    server.post("types", json!({ "name": "Parcel", "relations": relations })).await.expect(201);
    for (id, order) in [("p1", "ord-1002"), ("p2", "ord-1008"), ("p3", "ord-9")] {
        let entity = json!({ "id": id, "orderId": order });
        server.post("/api/query/save", json!({ "rootType": "Parcel", "entity": entity })).await.expect(200);
    }
    let query = json!({ "rootType": "Parcel", "query": "expand(order)" });
    let found = server.post("/api/query/find", query).await.expect(200);
    assert_eq!(found["rows"][1]["order"]["customerId"], "cus-4", "{found}");
    assert_eq!(found["rows"][2]["order"], Value::Null);
    assert_eq!(api.audit().reads, 1);
    let query = json!({ "rootType": "Parcel", "query": "hasEdge(order, ord-1002)" });
    assert_eq!(ids(&server.post("/api/query/find", query).await.expect(200)), ["p1"]);
}

async fn only_read_tools_are_generated_for_api_records(server: Server, api: Arc<Handle>) {
    let search = server.call("search_orders", json!({ "query": "status:shipped", "limit": 2 })).await;
    assert_eq!((ids(&search["output"]), &search["output"]["total"]), (vec!["ord-1002", "ord-1008"], &json!(5)));
    assert_eq!(api.audit().reads, 1, "the page and the total come from one call");
    assert_eq!(server.call("count_orders", json!({ "query": "status:paid" })).await["output"]["count"], 4);
    assert_eq!(server.call("query_find", json!({ "rootType": "Order" })).await["output"]["rowCount"], 20);
    for tool in ["create_order", "update_order", "delete_order"] {
        server.get(&format!("tools/{tool}")).await.problem(404, "not-found");
    }
    let rules = calls_then(json!([{ "name": "count_orders", "arguments": { "query": "customerId:cus-1" } }]), "Four.");
    server.define_agent("desk", rules, json!({ "toolRefs": ["count_orders"] })).await;
    assert_eq!(envelopes(&server.run("desk", "How many?").await)[0]["output"]["count"], 4);
}

async fn query_of_api_records_reports_the_error_of_the_list_tool(server: Server, _api: Arc<Handle>) {
    server.post("secrets", json!({ "name": "orders-key", "value": "another key" })).await;
    let envelope = server.call("search_orders", json!({})).await;
    let direct = server.call("orders%2Flist", json!({})).await;
    assert_eq!(envelope["error"]["code"], direct["error"]["code"], "{envelope}");
    let message = direct["error"]["message"].as_str().unwrap();
    assert!(envelope["error"]["message"].as_str().unwrap().contains(message), "{envelope}");
    let problem = gateway(&server, "find", json!({})).await.problem(502, "upstream-failed");
    let code = direct["error"]["code"].as_str().unwrap();
    let detail = problem["detail"].as_str().unwrap();
    assert!(detail.contains(code) && detail.contains(message) && detail.contains("orders/list"), "{problem}");
    server.delete("tools/orders%2Flist").await;
    let problem = gateway(&server, "count", json!({})).await.problem(403, "forbidden");
    assert!(problem["detail"].as_str().unwrap().contains("`orders/list`"), "{problem}");
}

async fn query_of_api_records_requires_permission_to_call_the_list_tool(server: Server, api: Arc<Handle>) {
    let (clerk, other) = (server.member("clerk").await, server.member("someone").await);
    assert_eq!(gateway(&other, "count", json!({})).await.expect(200)["count"], 20);
    clerk.get("types/Order").await.expect(200);
    let before = api.audit().reads;
    for route in ["find", "count"] {
        let problem = gateway(&clerk, route, json!({})).await.problem(403, "forbidden");
        assert!(problem["detail"].as_str().unwrap().contains("POLICY_DENIED"), "{problem}");
    }
    for tool in ["search_orders", "count_orders"] {
        let envelope = clerk.call(tool, json!({})).await;
        assert_eq!((&envelope["error"]["code"], &envelope["output"]), (&json!("POLICY_DENIED"), &Value::Null));
    }
    assert_eq!(api.audit().reads, before);
}

async fn list_tool_output_without_records_is_an_upstream_failure(server: Server, _api: Arc<Handle>) {
    for (records, message) in [
        (json!({ "items": null }), "must return a list, got an object; set `records.items`"),
        (json!({ "items": "$.nextCursor" }), "path `$.nextCursor`, got null"),
        (json!({ "items": "$.orders" }), "path `$.orders`, got nothing"),
        (json!({ "items": "$.items[*].status" }), "must return records as objects, got a string"),
        (json!({ "idField": "note" }), "without an id in `note`; set `records.idField`"),
    ] {
        server.put("types/Order", order_type(records)).await.expect(200);
        let problem = gateway(&server, "find", json!({})).await.problem(502, "upstream-failed");
        assert!(problem["detail"].as_str().unwrap().contains(message), "{problem}");
    }
    server.put("types/Order", order_type(json!({ "items": "$.items[*]", "idField": "totalCents" }))).await.expect(200);
    let found = gateway(&server, "find", json!({ "query": "id:12400" })).await.expect(200);
    assert_eq!(ids(&found), ["12400"], "a numeric id becomes a string");
    server.put("types/Order", order_type(json!({}))).await.expect(200);
    server.patch("tools/orders%2Flist", json!({ "maxOutputBytes": 500 })).await.expect(200);
    let problem = gateway(&server, "find", json!({})).await.problem(502, "upstream-failed");
    assert!(problem["detail"].as_str().unwrap().contains("maxOutputBytes"), "{problem}");
}

async fn tool_that_writes_is_never_called_to_list_records(server: Server, api: Arc<Handle>) {
    let problem = server
        .put("types/Order", order_type(json!({ "list": "orders/create" })))
        .await
        .problem(422, "invalid-definition");
    assert_eq!(problem["errors"][0]["path"], "/records/list");
    // The tool becomes a writing tool after the type was saved. The server checks the side effects again at each call.
    server.patch("tools/orders%2Flist", json!({ "sideEffects": "writes" })).await.expect(200);
    let before = api.audit();
    let envelope = server.call("search_orders", json!({})).await;
    assert_eq!(
        (&envelope["error"]["code"], &envelope["error"]["details"]["reason"]),
        (&json!("POLICY_DENIED"), &json!("effects"))
    );
    gateway(&server, "find", json!({})).await.problem(403, "forbidden");
    assert_eq!((api.audit().reads, api.audit().writes), (before.reads, before.writes));
}

async fn query_fails_if_the_list_tool_of_the_type_queries_the_same_type(server: Server, _api: Arc<Handle>) {
    let circle =
        json!({ "name": "Circle", "records": { "kind": "rest", "list": "search_circles", "items": "$.items" } });
    server.post("types", circle).await.expect(201);
    let problem = server.post("/api/query/find", json!({ "rootType": "Circle" })).await.problem(403, "forbidden");
    assert!(problem["detail"].as_str().unwrap().contains("nested too deeply"), "{problem}");
}

async fn type_with_an_invalid_list_or_get_tool_is_rejected(server: Server, _api: Arc<Handle>) {
    for (records, path) in [
        (json!({ "items": "items" }), "/records/items"),
        (json!({ "idField": "" }), "/records/idField"),
        (json!({ "get": "orders/create" }), "/records/get"),
    ] {
        let problem = server.put("types/Order", order_type(records)).await.problem(422, "invalid-definition");
        assert_eq!(problem["errors"][0]["path"], path, "{problem}");
    }
    let saved = server.put("types/Order", order_type(json!({ "list": "orders/all" }))).await.expect(200);
    assert_eq!(saved["warnings"], json!(["no tool `orders/all` exists yet"]));
    for records in [json!({ "list": "a b" }), json!({ "create": "orders/create" })] {
        let answer = server.put("types/Order", order_type(records)).await;
        assert_eq!(answer.status.as_u16() / 100, 4, "{}", answer.text);
    }
}
