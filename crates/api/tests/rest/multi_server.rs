//! Tests two servers that share one Postgres database and one Redis.

use serde_json::json;
use toolwright_testkit::{Faults, LOOPBACK};

use crate::harness::{Deployment, Storage};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_servers_share_definitions_and_cached_results_and_rate_limits() {
    let deployment = Deployment::new(Storage::PostgresAndRedis).await;
    let ((one, first), (two, second)) = (deployment.start().await, deployment.start().await);
    let faults = Faults::builder().start(LOOPBACK).await.unwrap();
    one.post(
        "tool-providers",
        json!({ "refName": "open", "baseUrl": faults.base_url(), "egressAllow": ["127.0.0.0/8"] }),
    )
    .await
    .expect(201);
    let tool = |version: &str| json!({ "refName": "counter", "version": version, "toolType": "EXTERNAL_REST", "providerRef": "open", "cache": "forever", "invocation": { "path": "/count/x" } });
    one.post("tools", tool("1.0.0")).await.expect(201);
    assert_eq!(one.call("counter", json!({})).await["cached"], false);
    assert_eq!(
        two.call("counter", json!({})).await["cached"],
        true,
        "the second server uses the cached result of the first"
    );

    one.post("tools", json!({ "refName": "rare", "toolType": "FUNCTION", "rateLimit": { "perSecond": 0.001, "burst": 2 }, "invocation": { "path": "echo" } })).await.expect(201);
    assert_eq!(one.call("rare", json!({})).await["error"], json!(null));
    assert_eq!(two.call("rare", json!({})).await["error"], json!(null));
    let limited = one.call("rare", json!({})).await;
    assert_eq!(limited["error"]["code"], "RATE_LIMIT");
    assert!(limited["error"]["retry_after_s"].as_f64().unwrap() > 900.0, "{limited}");

    // The second server must notice the change that was made on the first server.
    one.put("tools/counter", tool("1.1.0")).await.expect(200);
    let mut seen = String::new();
    let mut again = tokio::time::interval(std::time::Duration::from_millis(25));
    for _ in 0..400 {
        seen = two.call("counter", json!({})).await["version"].as_str().unwrap().to_owned();
        if seen == "1.1.0" {
            break;
        }
        again.tick().await;
    }
    assert_eq!(seen, "1.1.0");
    faults.shutdown().await;
    first.stop().await;
    second.stop().await;
    deployment.remove().await;
}
