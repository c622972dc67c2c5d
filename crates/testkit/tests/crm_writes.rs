//! Writes to the CRM over HTTP, and their idempotency.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a panic fails the test")]

mod support;

use reqwest::Method;
use serde_json::{Value, json};
use support::{answer, ids, start_crm};

#[tokio::test]
async fn deal_can_be_created_updated_read_and_deleted() {
    let (crm, api) = start_crm().await;
    let new = json!({"properties": {"dealname": "TechCo - New", "company": "TechCo", "amount": "100000"}});
    let (status, created) = api.post("/crm/v3/deals", new).await;
    assert_eq!(status, 201);
    assert_eq!(created["id"], "201");
    assert_eq!(created["properties"]["dealstage"], "appointmentscheduled");
    assert_eq!(created["properties"]["amount"], 100_000);
    assert_eq!(created["properties"]["owner"], Value::Null);

    let change = json!({"properties": {"dealstage": "closedwon", "company": null}});
    let (status, changed) = api.patch("/crm/v3/deals/201", change).await;
    assert_eq!(status, 200);
    assert_eq!(changed["properties"]["dealstage"], "closedwon");
    assert_eq!(changed["properties"]["company"], Value::Null);
    assert!(changed["updatedAt"].as_str() > created["updatedAt"].as_str());
    assert_eq!(api.get("/crm/v3/deals/201").await, (200, changed));

    assert_eq!(api.delete("/crm/v3/deals/201").await, (204, Value::Null));
    let (status, gone) = api.get("/crm/v3/deals/201").await;
    assert_eq!((status, &gone["category"]), (404, &json!("OBJECT_NOT_FOUND")));
    assert_eq!(api.delete("/crm/v3/deals/201").await.0, 404);

    let operations: Vec<_> = crm.audit().log.into_iter().map(|entry| (entry.n, entry.operation, entry.id)).collect();
    let id = || "201".to_owned();
    assert_eq!(operations, [(1, "deals.create", id()), (2, "deals.update", id()), (3, "deals.delete", id())]);
}

#[tokio::test]
async fn write_with_invalid_deal_properties_gets_400_and_changes_nothing() {
    let (crm, api) = start_crm().await;
    for (properties, sub_category) in [
        (json!({"dealstage": "won"}), "INVALID_STAGE"),
        (json!({"amount": "lots"}), "INVALID_VALUE"),
        (json!({"amount": true}), "INVALID_VALUE"),
        (json!({"closedate": "2026-02-30"}), "INVALID_VALUE"),
        (json!({"dealname": ""}), "INVALID_VALUE"),
        (json!({"dealname": null}), "MISSING_PROPERTY"),
        (json!({"stage": "closedwon"}), "UNKNOWN_PROPERTY"),
    ] {
        let (status, body) = api.patch("/crm/v3/deals/101", json!({"properties": properties})).await;
        assert_eq!((status, &body["subCategory"]), (400, &json!(sub_category)), "{properties}");
    }
    let (status, body) = api.patch("/crm/v3/deals/101", json!({"properties": {"dealstage": "won"}})).await;
    assert_eq!(status, 400);
    assert_eq!(body["validValues"].as_array().unwrap().len(), 7);
    assert_eq!(api.post("/crm/v3/deals", json!({"properties": {"amount": 1}})).await.0, 400);
    assert_eq!(api.patch("/crm/v3/deals/999", json!({"properties": {}})).await.0, 404);
    let broken = api.request(Method::POST, "/crm/v3/deals").body("{\"properties\":");
    assert_eq!(answer(broken).await.1["subCategory"], "INVALID_BODY");
    assert_eq!(crm.writes(), 0);
}

#[tokio::test]
async fn batch_update_changes_all_deals_or_none() {
    let (crm, api) = start_crm().await;
    let input = |id: Value, stage: &str| json!({"id": id, "properties": {"dealstage": stage}});
    let path = "/crm/v3/deals/batch/update";
    let good = input(json!("101"), "negotiation");
    for (inputs, status) in [
        (json!([good, input(json!("102"), "nowhere")]), 400),
        (json!([good, input(json!("999"), "negotiation")]), 404),
        (json!([good, good]), 400),
        (json!([]), 400),
        (Value::Array(vec![good.clone(); 101]), 400),
    ] {
        assert_eq!(api.post(path, json!({"inputs": inputs})).await.0, status);
    }
    assert_eq!(crm.writes(), 0);

    let inputs = json!([good, input(json!(102), "negotiation")]);
    let (status, body) = api.post(path, json!({"inputs": inputs})).await;
    assert_eq!((status, &body["status"]), (200, &json!("COMPLETE")));
    assert_eq!(ids(&body), ["101", "102"]);
    assert_eq!(api.get("/crm/v3/deals/102").await.1["properties"]["dealstage"], "negotiation");
    assert_eq!(crm.writes(), 2);
    assert_eq!(crm.audit().by_operation["deals.batchUpdate"], 6);
}

#[tokio::test]
async fn repeated_request_with_the_same_key_gets_the_first_reply_and_writes_nothing() {
    let (crm, api) = start_crm().await;
    let send = |key: &str, name: &str| {
        let body = json!({"properties": {"dealname": name}});
        api.request(Method::POST, "/crm/v3/deals").header("Idempotency-Key", key).json(&body)
    };
    let first = answer(send("key-1", "One")).await;
    let repeat = send("key-1", "One").send().await.unwrap();
    assert_eq!(repeat.headers()["idempotent-replayed"], "true");
    assert_eq!((repeat.status().as_u16(), repeat.json::<Value>().await.unwrap()), first);
    assert_eq!(crm.writes(), 1);

    let (status, body) = answer(send("key-1", "Another")).await;
    assert_eq!((status, &body["category"]), (422, &json!("IDEMPOTENCY_KEY_REUSED")));
    assert_eq!(answer(send("key-2", "One")).await.1["id"], "202");

    let change = || {
        let body = json!({"properties": {"amount": 1}});
        api.request(Method::PATCH, "/crm/v3/deals/101").header("Idempotency-Key", "key-3").json(&body)
    };
    assert_eq!(answer(change()).await, answer(change()).await);

    let audit = crm.audit();
    assert_eq!((audit.writes, audit.replays), (3, 2));
    assert_eq!(audit.log[0].idempotency_key.as_deref(), Some("key-1"));
}

#[tokio::test]
async fn corrected_request_may_reuse_the_key_of_the_rejected_request() {
    let (crm, api) = start_crm().await;
    let send = |stage: &str| {
        let body = json!({"properties": {"dealstage": stage}});
        api.request(Method::PATCH, "/crm/v3/deals/101").header("Idempotency-Key", "k").json(&body)
    };
    assert_eq!(answer(send("won")).await.0, 400);
    assert_eq!(answer(send("closedwon")).await.0, 200);
    assert_eq!(crm.writes(), 1);
}

#[tokio::test]
async fn concurrent_requests_with_the_same_key_write_once() {
    let (crm, api) = start_crm().await;
    let send = || {
        let body = json!({"properties": {"dealname": "Only one"}});
        answer(api.request(Method::POST, "/crm/v3/deals").header("Idempotency-Key", "k").json(&body))
    };
    let replies = futures::future::join_all((0..20).map(|_| send())).await;
    assert!(replies.iter().all(|reply| reply == &replies[0]));
    assert_eq!(crm.writes(), 1);
}

#[tokio::test]
async fn note_sent_twice_with_one_key_is_stored_twice_and_found_by_the_key() {
    let (crm, api) = start_crm().await;
    let send = || {
        let body = json!({"text": "They called."});
        answer(api.request(Method::POST, "/crm/v3/deals/101/notes").header("Idempotency-Key", "k").json(&body))
    };
    assert_eq!(api.get("/crm/v3/notes?reference=k").await, (200, json!({"results": []})));
    let (first, second) = (send().await, send().await);
    assert_eq!((first.0, &first.1["id"], &second.1["id"]), (201, &json!("1"), &json!("2")));
    let (_, found) = api.get("/crm/v3/notes?reference=k").await;
    assert_eq!(found["results"], json!([first.1, second.1]));
    assert_eq!(api.get("/crm/v3/notes").await.1["subCategory"], "MISSING_REFERENCE");
    assert_eq!(api.post("/crm/v3/deals/999/notes", json!({"text": "x"})).await.0, 404);

    let audit = crm.audit();
    assert_eq!((audit.writes, audit.replays, audit.by_operation["notes.find"]), (2, 0, 3));
    assert!(audit.log.iter().all(|entry| entry.idempotency_key.as_deref() == Some("k")));
}

#[tokio::test]
async fn repeated_email_request_with_the_same_key_sends_a_second_email() {
    let (crm, api) = start_crm().await;
    let send = || {
        let body = json!({"to": "buyer@acme.example", "subject": "Your offer"});
        answer(api.request(Method::POST, "/crm/v3/deals/101/emails").header("Idempotency-Key", "k").json(&body))
    };
    assert_eq!((send().await.1["id"].clone(), send().await.1["id"].clone()), (json!("1"), json!("2")));
    assert_eq!(api.post("/crm/v3/deals/101/emails", json!({"subject": "No recipient"})).await.0, 400);
    assert_eq!((crm.writes(), crm.audit().replays), (2, 0));
}
