//! A rule that filters records and hides fields holds for everything that can be asked and done.

use std::sync::Arc;

use futures::future::BoxFuture;
use serde_json::{Value, json};
use toolwright_engine::{Session, Unavailable};

use toolwright_engine::records::{CompiledType, RecordAction, RecordRule, RecordRules};
use toolwright_query::{Field, Query, Scope};

use crate::harness::{Answer, Edition, Home, Server};

/// Whoever is not the administrator has the records of region `north`, without their `secret` and without what lines cost.
struct OnlyTheNorth;

impl RecordRules for OnlyTheNorth {
    fn rule<'a>(
        &'a self,
        session: &'a Session,
        _of: &'a CompiledType,
        _action: RecordAction,
    ) -> BoxFuture<'a, Result<RecordRule, Unavailable>> {
        let rule = if session.principal.name.as_str() == "admin" {
            RecordRule::default()
        } else {
            let filter = Query::parse("region:north").unwrap().bind(&Scope::empty()).unwrap();
            let hidden = ["secret", "lines.cost"].map(|field| Field::parse(field).unwrap());
            RecordRule { filters: vec![filter], hidden: hidden.into() }
        };
        Box::pin(std::future::ready(Ok(rule)))
    }
}

async fn with_rules<F: Future<Output = ()>>(edition: Edition, test: impl FnOnce(Server, Server) -> F) {
    let home = Home::new(edition).await;
    let (server, running) = home.start_with(|options| options.record_rules = Arc::new(OnlyTheNorth)).await;
    let relation = json!([{ "name": "other", "type": "Thing", "field": "otherId" }, { "name": "hiddenOther", "type": "Thing", "field": "secret" }]);
    server.post("types", json!({ "name": "Thing", "relations": relation, "searchableFields": ["region"], "jsonSchema": { "properties": { "region": { "type": "string" } } } })).await.expect(201);
    for (id, region, secret, other) in
        [("n1", "north", "gold", "s1"), ("n2", "north", "silver", "n1"), ("s1", "south", "gold", "n1")]
    {
        let entity = json!({ "id": id, "region": region, "secret": secret, "otherId": other, "label": id, "lines": [{ "n": 1, "cost": 5 }] });
        server.post("/api/query/save", json!({ "rootType": "Thing", "entity": entity })).await.expect(200);
    }
    let key = server.issue(json!({ "principal": "northerner", "roles": ["admin"] })).await;
    let northerner = server.with_key(&key);
    test(server, northerner).await;
    running.stop().await;
    home.remove().await;
}

async fn ask(server: &Server, route: &str, more: Value) -> Answer {
    let mut body = json!({ "rootType": "Thing" });
    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    server.post(&format!("/api/query/{route}"), body).await
}

fn ids(found: &Value) -> Vec<&str> {
    found["rows"].as_array().unwrap().iter().map(|row| row["id"].as_str().unwrap()).collect()
}

async fn what_is_not_seen_cannot_be_found(_admin: Server, north: Server) {
    let all = ask(&north, "find", json!({})).await.expect(200);
    assert_eq!(ids(&all), ["n1", "n2"]);
    assert!(!all.to_string().contains("gold") && !all.to_string().contains("cost"), "{all}");
    assert_eq!(ask(&north, "count", json!({})).await.expect(200)["count"], 2);
    assert_eq!(ask(&north, "count", json!({ "query": "region:south || region:north" })).await.expect(200)["count"], 2);
    assert_eq!(ask(&north, "count", json!({ "query": "!!region:north" })).await.expect(200)["count"], 0);
    // Nor can its words be searched for, while others can.
    assert_eq!(ask(&north, "count", json!({ "query": "text(gold)" })).await.expect(200)["count"], 0);
    assert_eq!(ids(&ask(&north, "find", json!({ "query": "text(n2)" })).await.expect(200)), ["n2"]);
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
        ask(&north, "find", more).await.problem(422, "invalid-query");
    }
}

async fn what_is_related_is_under_the_same_rule(_admin: Server, north: Server) {
    let found = ask(&north, "find", json!({ "query": "expand(other)" })).await.expect(200);
    assert_eq!(found["rows"][0]["other"], Value::Null, "s1 is not there for them");
    assert_eq!(found["rows"][1]["other"]["id"], "n1");
    assert_eq!(found["rows"][1]["other"]["secret"], Value::Null);
    assert_eq!(ids(&ask(&north, "find", json!({ "query": "hasEdge(other, n1)" })).await.expect(200)), ["n2"]);
    // What a field holds that they may read is theirs, also where it leads to nothing they may see.
    for query in ["hasEdge(other, s1)", "otherId:s1"] {
        assert_eq!(ids(&ask(&north, "find", json!({ "query": query })).await.expect(200)), ["n1"]);
    }
    assert_eq!(ids(&ask(&north, "find", json!({ "query": "hasIncomingEdge(other, s1)" })).await.expect(200)), [""; 0]);
}

async fn what_is_not_seen_cannot_be_changed(admin: Server, north: Server) {
    let stored = |id: &'static str| {
        let admin = admin.clone();
        async move { ask(&admin, "find", json!({ "query": format!("id:{id}") })).await.expect(200)["rows"][0].clone() }
    };
    ask(&north, "delete", json!({ "id": "s1" })).await.problem(404, "not-found");
    ask(&north, "save", json!({ "entity": { "id": "s1", "region": "north" } })).await.problem(403, "forbidden");
    ask(&north, "save", json!({ "entity": { "id": "n1", "region": "south" } })).await.problem(403, "forbidden");
    ask(&north, "save", json!({ "entity": { "region": "south" } })).await.problem(403, "forbidden");
    assert_eq!(stored("s1").await["version"], 1);
    // Hidden fields are neither written nor lost.
    let lines = json!([{ "n": 1 }]);
    let saved = ask(
        &north,
        "save",
        json!({ "entity": { "id": "n1", "region": "north", "label": "new", "secret": "lead", "lines": lines } }),
    )
    .await;
    assert_eq!(saved.expect(200)["entity"]["secret"], Value::Null);
    let n1 = stored("n1").await;
    assert_eq!((&n1["label"], &n1["secret"], &n1["lines"][0]["cost"]), (&json!("new"), &json!("gold"), &json!(5)));
    ask(&north, "save", json!({ "entity": { "id": "n1", "region": "north", "lines": [] } }))
        .await
        .problem(403, "forbidden");
    assert_eq!(ask(&north, "deleteMany", json!({ "all": true })).await.expect(200)["deletedCount"], 2);
    assert_eq!(stored("s1").await["id"], "s1");
}

macro_rules! under_rules {
    ($($name:ident),* $(,)?) => {
        mod sqlite {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                super::with_rules(super::Edition::Sqlite, super::$name).await;
            })*
        }
        mod postgres {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                super::with_rules(super::Edition::PostgresAndRedis, super::$name).await;
            })*
        }
    };
}

under_rules!(
    what_is_not_seen_cannot_be_found,
    what_is_related_is_under_the_same_rule,
    what_is_not_seen_cannot_be_changed
);
