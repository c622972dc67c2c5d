//! Tests of the orders API over HTTP.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a panic fails the test")]

mod support;

use reqwest::Method;
use serde_json::{Value, json};
use support::{Api, answer};
use toolwright_testkit::orders::Handle;
use toolwright_testkit::{LOOPBACK, Orders};

const KEY: &str = "a-key-for-this-test";

async fn start() -> (Handle, Api) {
    let orders = Orders::builder().api_key(KEY).start(LOOPBACK).await.unwrap();
    let api = Api::new(orders.base_url(), "x-api-key", KEY);
    (orders, api)
}

#[tokio::test]
async fn request_with_wrong_or_missing_api_key_gets_401() {
    let (orders, _) = start().await;
    let unauthenticated = Api::new(orders.base_url(), "x-api-key", "wrong");
    let (status, body) = unauthenticated.get("/orders").await;
    assert_eq!((status, &body["error"]["code"]), (401, &json!("unauthorized")));
    assert_eq!(answer(support::client().get(orders.url("/orders"))).await.0, 401);
    assert_eq!(orders.audit(), Default::default());
}

#[tokio::test]
async fn pages_contain_every_order_once_and_filters_restrict_the_list() {
    let (_orders, api) = start().await;
    let mut seen = Vec::new();
    let mut path = "/orders?limit=8".to_owned();
    loop {
        let (status, page) = api.get(&path).await;
        assert_eq!(status, 200);
        seen.extend(page["items"].as_array().unwrap().iter().map(|order| order["id"].clone()));
        match page["nextCursor"].as_str() {
            Some(cursor) => path = format!("/orders?limit=8&cursor={cursor}"),
            None => break,
        }
    }
    let expected: Vec<Value> = (1001..=1020).map(|n| json!(format!("ord-{n}"))).collect();
    assert_eq!(seen, expected);

    let (_, page) = api.get("/orders?status=pending&customerId=cus-1").await;
    assert_eq!(page["items"].as_array().unwrap().len(), 1);
    assert_eq!(page["items"][0]["id"], "ord-1001");
    assert_eq!(page["nextCursor"], Value::Null);
}

#[tokio::test]
async fn listing_orders_with_invalid_parameters_gets_422_that_names_each_parameter() {
    let (_orders, api) = start().await;
    let (status, body) = api.get("/orders?status=open&limit=0&cursor=x&page=2").await;
    assert_eq!(status, 422);
    let fields = body["error"]["fields"].as_array().unwrap();
    let names: Vec<_> = fields.iter().map(|invalid| invalid["field"].as_str().unwrap()).collect();
    assert_eq!(names, ["status", "limit", "cursor", "page"]);
}

#[tokio::test]
async fn orders_and_customers_can_be_read_by_id() {
    let (_orders, api) = start().await;
    let (status, order) = api.get("/orders/ord-1001").await;
    assert_eq!((status, &order["totalCents"]), (200, &json!(12_400)));
    let (status, customer) = api.get("/customers/cus-1").await;
    assert_eq!((status, &customer["name"]), (200, &json!("Corner Bookshop")));
    for path in ["/orders/ord-9", "/orders/1001", "/customers/cus-9"] {
        let (status, body) = api.get(path).await;
        assert_eq!((status, &body["error"]["code"]), (404, &json!("not_found")), "{path}");
    }
}

#[tokio::test]
async fn repeated_order_with_the_same_key_is_created_once() {
    let (orders, api) = start().await;
    let body = json!({"customerId": "cus-2", "items": [{"sku": "KB-200", "quantity": 2, "unitPriceCents": 8900}]});
    let send = || {
        let request = api.request(Method::POST, "/orders");
        answer(request.header("Idempotency-Key", "k").json(&body))
    };
    let first = send().await;
    assert_eq!(first.0, 201);
    assert_eq!(first.1["id"], "ord-1021");
    assert_eq!(first.1["status"], "pending");
    assert_eq!(first.1["totalCents"], 17_800);
    assert_eq!(send().await, first);
    assert_eq!(orders.writes(), 1);
    assert_eq!(api.get("/orders/ord-1021").await.1, first.1);
}

#[tokio::test]
async fn invalid_order_gets_422_that_names_every_invalid_field() {
    let (orders, api) = start().await;
    let body = json!({"customerId": "cus-9", "items": [{"sku": "", "quantity": 0}], "note": 1});
    let (status, body) = api.post("/orders", body).await;
    assert_eq!((status, &body["error"]["code"]), (422, &json!("validation_failed")));
    let fields = body["error"]["fields"].as_array().unwrap();
    let names: Vec<_> = fields.iter().map(|invalid| invalid["field"].as_str().unwrap()).collect();
    assert_eq!(names, ["customerId", "items[0].sku", "items[0].quantity", "items[0].unitPriceCents", "note"]);
    assert_eq!(api.post("/orders", json!({"customer": "cus-1"})).await.0, 400);
    assert_eq!(api.post("/orders", json!({})).await.0, 422);
    assert_eq!(orders.writes(), 0);
}

#[tokio::test]
async fn second_cancellation_writes_nothing_and_shipped_order_is_not_cancelled() {
    let (orders, api) = start().await;
    let (status, order) = api.post("/orders/ord-1001/cancel", json!({"reason": "mistake"})).await;
    assert_eq!((status, &order["status"]), (200, &json!("cancelled")));
    assert_eq!(order["cancelReason"], "mistake");
    assert_eq!(answer(api.request(Method::POST, "/orders/ord-1001/cancel")).await, (200, order));
    assert_eq!(orders.writes(), 1);

    for shipped in ["ord-1002", "ord-1004"] {
        let (status, body) = api.post(&format!("/orders/{shipped}/cancel"), json!({})).await;
        assert_eq!((status, &body["error"]["code"]), (409, &json!("not_cancellable")));
    }
    assert_eq!(api.post("/orders/ord-9/cancel", json!({})).await.0, 404);
    assert_eq!(orders.audit().by_operation["orders.cancel"], 5);
    let (_, audit) = answer(support::client().get(orders.url("/audit"))).await;
    assert_eq!(audit["log"], json!([{"n": 1, "operation": "orders.cancel", "id": "ord-1001"}]));
}
