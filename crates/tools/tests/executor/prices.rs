//! Prices of tools: what a call costs if it succeeds, fails, is answered from the cache or is answered by a fallback.

use serde_json::{Value, json};

use crate::world::{World, merged};

fn price(usd: f64) -> Value {
    json!({ "price": { "perCallUsd": usd } })
}

#[tokio::test]
async fn answered_call_costs_its_price_and_a_failed_or_cached_call_costs_nothing() {
    let world = World::start().await;
    world.get("paid", "/count/paid", merged(price(0.25), json!({ "cache": "forever" })));
    world.get("failing", "/status/503", price(0.25));
    world.get("free", "/count/free", json!({}));
    for (tool, cached, cost) in
        [("paid", false, Some(0.25)), ("paid", true, None), ("failing", false, None), ("free", false, None)]
    {
        let envelope = world.call(tool, json!({})).await;
        assert_eq!((envelope.cached, envelope.metadata.cost_usd), (cached, cost), "{tool}");
    }
}

#[tokio::test]
async fn units_are_counted_in_the_response_before_it_is_mapped() {
    let world = World::start().await;
    let definition = json!({
        "price": { "perCallUsd": 0.1, "perUnitUsd": 0.01, "units": "size(path)" },
        "invocation": { "path": "/echo/${param.id}", "responseMapping": "$.method" },
    });
    world.get("by_unit", "/echo/${param.id}", definition);
    let envelope = world.call("by_unit", json!({ "id": "12345" })).await;
    assert_eq!((&envelope.output, envelope.metadata.cost_usd), (&json!("GET"), Some(0.21)), "{envelope:?}");
}

#[tokio::test]
async fn call_answered_by_a_fallback_costs_the_price_of_the_fallback() {
    let world = World::start().await;
    let falls_back = json!({ "errorHandling": { "503": { "action": "fallback", "fallbackToolRef": "backup" } } });
    world.get("primary", "/status/503", merged(falls_back, price(0.5)));
    world.get("backup", "/count/backup", price(0.125));
    let envelope = world.call("primary", json!({})).await;
    assert_eq!(envelope.metadata.cost_usd, Some(0.125));
    assert_eq!(envelope.metadata.calls[0].cost_usd, Some(0.125));
}
