//! Options of the CRM: additional deals and locked deals.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a panic fails the test")]

mod support;

use serde_json::{Value, json};
use support::{Api, TOKEN, ids};
use toolwright_testkit::crm::Handle;
use toolwright_testkit::{Crm, LOOPBACK};

const COMPANY: &str = "Umbrella Health";

/// Starts a CRM with 23 additional deals of one company. The first of these deals is locked.
async fn start() -> (Handle, Api) {
    let crm = Crm::builder().token(TOKEN).deals(COMPANY, 23).locked(201).start(LOOPBACK).await.unwrap();
    let api = Api::new(crm.base_url(), "authorization", format!("Bearer {TOKEN}"));
    (crm, api)
}

#[tokio::test]
async fn search_returns_added_and_seeded_deals_of_a_company_over_three_pages() {
    let (_crm, api) = start().await;
    let filters = json!([{"propertyName": "company", "operator": "CONTAINS_TOKEN", "value": COMPANY}]);
    let (mut pages, mut seen, mut after) = (0, Vec::new(), Value::Null);
    loop {
        let query = json!({"filters": filters, "limit": 10, "after": after});
        let (status, page) = api.post("/crm/v3/deals/search", query).await;
        assert_eq!((status, &page["total"]), (200, &json!(25)));
        pages += 1;
        seen.extend(ids(&page).into_iter().map(str::to_owned));
        match page.pointer("/paging/next/after") {
            Some(next) => after = next.clone(),
            None => break,
        }
    }
    let expected: Vec<String> =
        ["114", "115"].map(String::from).into_iter().chain((201..=223).map(|id: u32| id.to_string())).collect();
    assert_eq!((pages, seen), (3, expected));
    let (_, created) = api.post("/crm/v3/deals", json!({"properties": {"dealname": "New"}})).await;
    assert_eq!(created["id"], "224");
}

#[tokio::test]
async fn locked_deal_is_readable_but_every_change_of_it_gets_423() {
    let (crm, api) = start().await;
    let change = json!({"properties": {"dealstage": "negotiation"}});
    let batch = |ids: &[&str]| {
        let input = |id: &&str| json!({"id": id, "properties": {"dealstage": "negotiation"}});
        json!({"inputs": ids.iter().map(input).collect::<Vec<_>>()})
    };
    let batch_path = "/crm/v3/deals/batch/update";
    for (status, body) in [
        api.patch("/crm/v3/deals/201", change.clone()).await,
        api.delete("/crm/v3/deals/201").await,
        api.post(batch_path, batch(&["202", "201"])).await,
    ] {
        assert_eq!((status, &body["category"]), (423, &json!("OBJECT_LOCKED")), "{body}");
        assert!(body["message"].as_str().unwrap().contains("deal `201` is locked"), "{body}");
    }
    assert_eq!(crm.writes(), 0);
    assert_eq!(api.get("/crm/v3/deals/201").await.1["properties"]["dealstage"], "appointmentscheduled");
    assert_eq!(api.patch("/crm/v3/deals/202", change).await.0, 200);
    assert_eq!(api.post(batch_path, batch(&["203"])).await.0, 200);
}
