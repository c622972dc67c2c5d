//! The CRM over HTTP: authentication, rate limit, reads, search, audit. Tests of writes are in `crm_writes.rs`.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a panic fails the test")]

mod support;

use reqwest::Method;
use serde_json::{Value, json};
use support::{Api, TOKEN, answer, ids, start_crm};
use toolwright_testkit::crm::RateLimit;
use toolwright_testkit::{Crm, LOOPBACK};

async fn search(api: &Api, query: Value) -> Value {
    let (status, body) = api.post("/crm/v3/deals/search", query).await;
    assert_eq!(status, 200, "{body}");
    body
}

#[tokio::test]
async fn request_with_missing_or_wrong_token_gets_401_and_is_not_counted() {
    let (crm, _) = start_crm().await;
    for sent in ["", "Bearer", "Bearer wrong", TOKEN] {
        let api = Api::new(crm.base_url(), "authorization", sent);
        let (status, body) = api.get("/crm/v3/deals/101").await;
        assert_eq!(status, 401);
        assert_eq!(body["category"], "INVALID_AUTHENTICATION");
    }
    assert_eq!(crm.audit(), Default::default());
}

#[tokio::test]
async fn pipeline_lists_its_stages_in_order() {
    let (_crm, api) = start_crm().await;
    let (_, body) = api.get("/crm/v3/pipelines/deals").await;
    let stages = body["stages"].as_array().unwrap();
    assert_eq!(stages.len(), 7);
    assert_eq!(stages[4], json!({"id": "negotiation", "label": "Negotiation", "order": 4}));
}

#[tokio::test]
async fn last_page_of_companies_has_no_cursor() {
    let (_crm, api) = start_crm().await;
    let (_, first) = api.get("/crm/v3/companies?limit=7").await;
    assert_eq!(first["total"], 12);
    assert_eq!(first["results"][0]["properties"]["name"], "Acme Corp");
    let after = first["paging"]["next"]["after"].as_str().unwrap();
    let (_, second) = api.get(&format!("/crm/v3/companies?limit=7&after={after}")).await;
    assert_eq!(ids(&second), ["508", "509", "510", "511", "512"]);
    assert!(second.get("paging").is_none());

    assert_eq!(api.get("/crm/v3/companies/501").await.0, 200);
    assert_eq!(api.get("/crm/v3/companies/999").await.0, 404);
    assert_eq!(api.get("/crm/v3/companies?limit=0").await.0, 400);
}

#[tokio::test]
async fn seed_data_has_five_acme_deals_but_none_in_negotiation() {
    let (_crm, api) = start_crm().await;
    let filter = json!({"propertyName": "company", "operator": "CONTAINS_TOKEN", "value": "Acme Corp"});
    let found = search(&api, json!({"filters": [filter]})).await;
    assert_eq!(ids(&found), ["101", "102", "103", "104", "105"]);
    let deals = found["results"].as_array().unwrap();
    let mut stages: Vec<_> = deals.iter().map(|deal| deal["properties"]["dealstage"].as_str()).collect();
    stages.sort_unstable();
    stages.dedup();
    assert_eq!(stages.len(), 5);
    assert!(!stages.contains(&Some("negotiation")));
}

#[tokio::test]
async fn search_filters_compare_values_by_the_type_of_the_property() {
    let (_crm, api) = start_crm().await;
    for (property, operator, value, total) in [
        ("company", "EQ", json!("acme corp"), 5),
        ("company", "NEQ", json!("Acme Corp"), 25),
        ("company", "EQ", json!("Acme"), 0),
        ("dealname", "CONTAINS_TOKEN", json!("safety"), 2),
        ("dealname", "CONTAINS_TOKEN", json!("auto*"), 1),
        ("dealstage", "EQ", json!("negotiation"), 5),
        ("amount", "GT", json!(210_000), 2),
        ("amount", "GTE", json!("210000"), 3),
        ("amount", "LT", json!(6_900.5), 1),
        ("closedate", "LTE", json!("2026-06-19"), 2),
        ("closedate", "GT", json!("2027-03-31"), 1),
        ("owner", "EQ", json!("sales-west"), 7),
    ] {
        let filter = json!({"propertyName": property, "operator": operator, "value": value});
        let found = search(&api, json!({"filters": [filter]})).await;
        assert_eq!(found["total"], total, "{property} {operator} {value}");
    }
    let either = json!({"propertyName": "dealstage", "operator": "IN", "values": ["closedwon", "closedlost"]});
    let large = json!({"propertyName": "amount", "operator": "GTE", "value": 99_000});
    let found = search(&api, json!({"filters": [either, large]})).await;
    assert_eq!(ids(&found), ["118", "121"]);
}

#[tokio::test]
async fn search_pages_contain_every_deal_once_in_sort_order() {
    let (_crm, api) = start_crm().await;
    let sorts = json!([{"propertyName": "amount", "direction": "DESCENDING"}]);
    let mut seen = Vec::new();
    let mut after = Value::Null;
    loop {
        let page = search(&api, json!({"sorts": sorts, "limit": 13, "after": after})).await;
        let deals = page["results"].as_array().unwrap();
        seen.extend(deals.iter().map(|deal| deal["properties"]["amount"].as_i64().unwrap()));
        match page.pointer("/paging/next/after") {
            Some(next) => after = next.clone(),
            None => break,
        }
    }
    assert_eq!(seen.len(), 30);
    assert!(seen.is_sorted_by(|a, b| a >= b));
    assert_eq!(search(&api, json!({})).await["results"].as_array().unwrap().len(), 10);
}

#[tokio::test]
async fn invalid_search_gets_400_with_the_valid_values() {
    let (_crm, api) = start_crm().await;
    let filter = |property: &str, operator: &str, value: Value| json!({"filters": [{"propertyName": property, "operator": operator, "value": value}]});
    for (query, sub_category, valid) in [
        (filter("company_name", "EQ", json!("x")), "UNKNOWN_PROPERTY", Some("company")),
        (filter("company", "LIKE", json!("x")), "INVALID_OPERATOR", Some("CONTAINS_TOKEN")),
        (filter("company", "GT", json!("x")), "INVALID_OPERATOR", Some("CONTAINS_TOKEN")),
        (filter("dealstage", "EQ", json!("Negotiation")), "INVALID_STAGE", Some("negotiation")),
        (filter("amount", "GT", json!("lots")), "INVALID_VALUE", None),
        (filter("closedate", "GT", json!("soon")), "INVALID_VALUE", None),
        (filter("company", "IN", json!("x")), "INVALID_BODY", None),
        (json!({"filter": []}), "INVALID_BODY", None),
        (json!({"limit": 101}), "INVALID_PAGING", None),
        (json!({"after": "next"}), "INVALID_PAGING", None),
        (json!({"sorts": [{"propertyName": "amount", "direction": "UP"}]}), "INVALID_SORT", Some("DESCENDING")),
    ] {
        let (status, body) = api.post("/crm/v3/deals/search", query.clone()).await;
        assert_eq!(status, 400, "{query}");
        assert_eq!(body["category"], "VALIDATION_ERROR");
        assert_eq!(body["subCategory"], sub_category, "{query}");
        if let Some(valid) = valid {
            assert!(body["validValues"].as_array().unwrap().contains(&json!(valid)), "{body}");
            assert!(body["message"].as_str().unwrap().contains(valid), "{body}");
        }
    }
}

#[tokio::test]
async fn request_above_the_rate_limit_gets_429_with_retry_after() {
    let limit = RateLimit { per_second: 0.0, burst: 2 };
    let crm = Crm::builder().token(TOKEN).rate_limit(limit).start(LOOPBACK).await.unwrap();
    let unauthenticated = Api::new(crm.base_url(), "authorization", "Bearer wrong");
    let api = Api::new(crm.base_url(), "authorization", format!("Bearer {TOKEN}"));
    assert_eq!(unauthenticated.get("/crm/v3/deals/101").await.0, 401);
    assert_eq!(api.get("/crm/v3/deals/101").await.0, 200);
    assert_eq!(api.get("/crm/v3/deals/101").await.0, 200);
    let limited = api.request(Method::GET, "/crm/v3/deals/101").send().await.unwrap();
    assert_eq!(limited.status(), 429);
    assert_eq!(limited.headers()["retry-after"], "1");
    assert_eq!(limited.json::<Value>().await.unwrap()["category"], "RATE_LIMITS");
    assert_eq!(crm.audit().reads, 2);
}

#[tokio::test]
async fn audit_route_needs_no_authentication_and_returns_camel_case_fields() {
    let (crm, api) = start_crm().await;
    api.get("/crm/v3/deals/101").await;
    api.get("/crm/v3/deals/999").await;
    api.patch("/crm/v3/deals/101", json!({"properties": {"amount": 5}})).await;
    let (status, audit) = answer(support::client().get(crm.url("/audit"))).await;
    assert_eq!(status, 200);
    assert_eq!(
        audit,
        json!({
            "writes": 1, "reads": 2, "replays": 0,
            "byOperation": {"deals.get": 2, "deals.update": 1},
            "log": [{"n": 1, "operation": "deals.update", "id": "101"}],
        })
    );
}

#[tokio::test]
async fn unknown_route_gets_404_and_wrong_method_gets_405_with_json_body() {
    let (_crm, api) = start_crm().await;
    let (status, body) = api.get("/crm/v3/contacts").await;
    assert_eq!((status, &body["category"]), (404, &json!("ROUTE_NOT_FOUND")));
    let (status, body) = api.delete("/crm/v3/companies/501").await;
    assert_eq!((status, &body["category"]), (405, &json!("METHOD_NOT_ALLOWED")));
}

#[tokio::test]
async fn port_is_free_after_shutdown() {
    let (crm, api) = start_crm().await;
    assert_eq!(api.get("/crm/v3/deals/101").await.0, 200);
    crm.shutdown().await;
    let again = Crm::builder().start(crm.addr()).await.unwrap();
    assert_eq!(again.addr(), crm.addr());
    again.shutdown().await;
}
