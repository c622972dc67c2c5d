//! Tests record rules, which limit the records and fields that a principal can read and write.

use std::sync::Arc;

use futures::future::BoxFuture;
use serde_json::{Value, json};
use toolwright_catalog::{Session, Unavailable};

use toolwright_catalog::CompiledType;
use toolwright_query::{BindContext, Field, Query};
use toolwright_records::{RecordAction, RecordRule, RecordRules};

use crate::harness::{Deployment, Response, Server, Storage};

/// Rules for everyone except the administrator: only records with the region `north` are visible, and the fields
/// `secret` and `lines.cost` are hidden.
struct NorthOnlyRules;

impl RecordRules for NorthOnlyRules {
    fn rule<'a>(
        &'a self,
        session: &'a Session,
        _entity_type: &'a CompiledType,
        _action: RecordAction,
    ) -> BoxFuture<'a, Result<RecordRule, Unavailable>> {
        let rule = if session.principal.name.as_str() == "admin" {
            RecordRule::default()
        } else {
            let filter = Query::parse("region:north").unwrap().bind(&BindContext::empty()).unwrap();
            let hidden = ["secret", "lines.cost"].map(|field| Field::parse(field).unwrap());
            RecordRule { filters: vec![filter], hidden: hidden.into() }
        };
        Box::pin(std::future::ready(Ok(rule)))
    }
}

async fn with_rules<F: Future<Output = ()>>(storage: Storage, test: impl FnOnce(Server, Server) -> F) {
    let deployment = Deployment::new(storage).await;
    let (server, running) = deployment.start_with(|options| options.record_rules = Arc::new(NorthOnlyRules)).await;
    let relation = json!([{ "name": "other", "type": "Thing", "field": "otherId" }, { "name": "hiddenOther", "type": "Thing", "field": "secret" }]);
    server.post("types", json!({ "name": "Thing", "relations": relation, "searchableFields": ["region"], "jsonSchema": { "properties": { "region": { "type": "string" } } } })).await.expect(201);
    for (id, region, secret, other) in
        [("n1", "north", "gold", "s1"), ("n2", "north", "silver", "n1"), ("s1", "south", "gold", "n1")]
    {
        let entity = json!({ "id": id, "region": region, "secret": secret, "otherId": other, "label": id, "lines": [{ "n": 1, "cost": 5 }] });
        server.post("/api/query/save", json!({ "rootType": "Thing", "entity": entity })).await.expect(200);
    }
    let key = server.issue_key(json!({ "principal": "northerner", "roles": ["admin"] })).await;
    let northerner = server.with_key(&key);
    test(server, northerner).await;
    running.stop().await;
    deployment.remove().await;
}

async fn gateway(server: &Server, route: &str, more: Value) -> Response {
    let mut body = json!({ "rootType": "Thing" });
    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    server.post(&format!("/api/query/{route}"), body).await
}

fn ids(found: &Value) -> Vec<&str> {
    found["rows"].as_array().unwrap().iter().map(|row| row["id"].as_str().unwrap()).collect()
}

async fn hidden_records_and_fields_cannot_be_queried(_admin: Server, north: Server) {
    let all = gateway(&north, "find", json!({})).await.expect(200);
    assert_eq!(ids(&all), ["n1", "n2"]);
    assert!(!all.to_string().contains("gold") && !all.to_string().contains("cost"), "{all}");
    assert_eq!(gateway(&north, "count", json!({})).await.expect(200)["count"], 2);
    assert_eq!(
        gateway(&north, "count", json!({ "query": "region:south || region:north" })).await.expect(200)["count"],
        2
    );
    assert_eq!(gateway(&north, "count", json!({ "query": "!!region:north" })).await.expect(200)["count"], 0);
    // Text search does not search hidden fields.
    assert_eq!(gateway(&north, "count", json!({ "query": "text(gold)" })).await.expect(200)["count"], 0);
    assert_eq!(ids(&gateway(&north, "find", json!({ "query": "text(n2)" })).await.expect(200)), ["n2"]);
    for more in [
        json!({ "query": "secret:g*" }),
        json!({ "query": "secret:~" }),
        json!({ "query": "!!secret:gold" }),
        json!({ "query": "lines:{cost:#5}" }),
        json!({ "query": "lines.cost:#5" }),
        json!({ "query": "hasEdge(hiddenOther, gold)" }),
        json!({ "query": "expand(other, secret:gold)" }),
        json!({ "sort": [{ "field": "secret" }] }),
        json!({ "sort": [{ "field": "secret.deeper" }] }),
    ] {
        gateway(&north, "find", more).await.problem(422, "invalid-query");
    }
}

async fn record_rules_apply_to_related_records(_admin: Server, north: Server) {
    let found = gateway(&north, "find", json!({ "query": "expand(other)" })).await.expect(200);
    assert_eq!(found["rows"][0]["other"], Value::Null, "the related record `s1` is hidden");
    assert_eq!(found["rows"][1]["other"]["id"], "n1");
    assert_eq!(found["rows"][1]["other"]["secret"], Value::Null);
    assert_eq!(ids(&gateway(&north, "find", json!({ "query": "hasEdge(other, n1)" })).await.expect(200)), ["n2"]);
    // `otherId` is a visible field, so a query can compare it even if the record with the id `s1` is hidden.
    for query in ["hasEdge(other, s1)", "otherId:s1"] {
        assert_eq!(ids(&gateway(&north, "find", json!({ "query": query })).await.expect(200)), ["n1"]);
    }
    assert_eq!(
        ids(&gateway(&north, "find", json!({ "query": "hasIncomingEdge(other, s1)" })).await.expect(200)),
        [""; 0]
    );
}

async fn hidden_records_and_fields_cannot_be_changed(admin: Server, north: Server) {
    let stored = |id: &'static str| {
        let admin = admin.clone();
        async move { gateway(&admin, "find", json!({ "query": format!("id:{id}") })).await.expect(200)["rows"][0].clone() }
    };
    gateway(&north, "delete", json!({ "id": "s1" })).await.problem(404, "not-found");
    gateway(&north, "save", json!({ "entity": { "id": "s1", "region": "north" } })).await.problem(403, "forbidden");
    gateway(&north, "save", json!({ "entity": { "id": "n1", "region": "south" } })).await.problem(403, "forbidden");
    gateway(&north, "save", json!({ "entity": { "region": "south" } })).await.problem(403, "forbidden");
    assert_eq!(stored("s1").await["version"], 1);
    // A save by this principal keeps the stored values of hidden fields.
    let lines = json!([{ "n": 1 }]);
    let saved = gateway(
        &north,
        "save",
        json!({ "entity": { "id": "n1", "region": "north", "label": "new", "secret": "lead", "lines": lines } }),
    )
    .await;
    assert_eq!(saved.expect(200)["entity"]["secret"], Value::Null);
    let n1 = stored("n1").await;
    assert_eq!((&n1["label"], &n1["secret"], &n1["lines"][0]["cost"]), (&json!("new"), &json!("gold"), &json!(5)));
    gateway(&north, "save", json!({ "entity": { "id": "n1", "region": "north", "lines": [] } }))
        .await
        .problem(403, "forbidden");
    assert_eq!(gateway(&north, "deleteMany", json!({ "all": true })).await.expect(200)["deletedCount"], 2);
    assert_eq!(stored("s1").await["id"], "s1");
}

macro_rules! with_record_rules {
    ($($name:ident),* $(,)?) => {
        mod sqlite {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                super::with_rules(super::Storage::Sqlite, super::$name).await;
            })*
        }
        mod postgres {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                super::with_rules(super::Storage::PostgresAndRedis, super::$name).await;
            })*
        }
    };
}

with_record_rules!(
    hidden_records_and_fields_cannot_be_queried,
    record_rules_apply_to_related_records,
    hidden_records_and_fields_cannot_be_changed
);
