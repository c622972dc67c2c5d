//! Retries: which failures are retried, which are not, and when retries end.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use toolwright_testkit::{Crm, LOOPBACK, crm};

use crate::recorder::Recorder;
use crate::world::{World, detail, execute, failure, merged};

const AT_ONCE: &str = "none";

fn retrying(times: u32) -> Value {
    json!({ "defaultRetryCount": times, "defaultRetryBackoff": AT_ONCE })
}

#[tokio::test]
async fn retry_succeeds_after_failures() {
    let world = World::start().await;
    world.get("t", "/status/503?times=2&key=k", retrying(3));
    let envelope = world.call("t", json!({})).await;
    assert_eq!(envelope.output, json!({ "ok": true, "attempts": 3 }));
    assert_eq!((envelope.metadata.attempt, envelope.metadata.http_status), (3, Some(200)));
}

#[tokio::test]
async fn last_failure_is_reported_when_retries_are_exhausted() {
    let world = World::start().await;
    world.get("t", "/status/502", retrying(2));
    let envelope = world.call("t", json!({})).await;
    assert!(
        failure(&envelope).starts_with("PROVIDER_ERROR http_status: the upstream answered 502"),
        "{}",
        failure(&envelope)
    );
    assert_eq!((envelope.metadata.attempt, world.faults.hits("/status")), (3, 3));
}

#[tokio::test]
async fn only_transient_failures_are_retried() {
    let world = World::start().await;
    for (path, attempts) in [
        ("/status/400", 1),
        ("/status/401", 1),
        ("/status/404", 1),
        ("/status/408", 3),
        ("/status/429?retry_after=0", 3),
        ("/status/500", 3),
        ("/drop", 3),
        ("/reset", 3),
        ("/truncate", 3),
        ("/invalid-json", 1),
    ] {
        world.get("t", path, retrying(2));
        assert_eq!(world.call("t", json!({})).await.metadata.attempt, attempts, "{path}");
    }
}

#[tokio::test]
async fn retry_count_of_the_tool_overrides_the_provider() {
    let world = World::start().await;
    world.provider(json!({ "refName": "faults", "maxRetries": 2 }));
    for (extra, attempts) in [(json!({ "defaultRetryBackoff": AT_ONCE }), 3), (retrying(0), 1), (retrying(4), 5)] {
        world.get("t", "/status/503", extra.clone());
        assert_eq!(world.call("t", json!({})).await.metadata.attempt, attempts, "{extra}");
    }
}

#[tokio::test]
async fn non_idempotent_write_is_attempted_once() {
    let world = World::start().await;
    world.provider(json!({ "refName": "faults", "maxRetries": 5 }));
    let handling = json!({ "errorHandling": { "503": { "action": "retry" } } });
    for path in ["/status/503", "/drop", "/slow/600000"] {
        let invocation = json!({ "method": "POST", "path": path });
        world.rest("t", invocation, merged(merged(retrying(3), handling.clone()), json!({ "timeoutMs": 200 })));
        assert_eq!(world.call("t", json!({})).await.metadata.attempt, 1, "{path}");
        assert_eq!(world.faults.hits(path), 1, "{path}");
    }
}

#[tokio::test]
async fn idempotency_key_is_shared_by_attempts_and_unique_per_run() {
    let world = World::start().await;
    let recorder = Recorder::start(2).await;
    world.provider(json!({ "refName": "recorder", "baseUrl": recorder.url }));
    let extra = merged(retrying(3), json!({ "providerRef": "recorder", "idempotent": true }));
    world.rest("t", json!({ "method": "PUT", "path": "/x" }), extra);
    assert_eq!(world.call("t", json!({ "n": 1 })).await.metadata.attempt, 3);
    let another_run = crate::world::context("admin", 1);
    let request = crate::world::request("t", json!({ "n": 1 }));
    assert!(crate::world::done(execute(&world.executor, &another_run, request).await).is_success());
    let keys = recorder.header("idempotency-key");
    assert!(keys[0].is_some());
    assert_eq!((&keys[0], &keys[0]), (&keys[1], &keys[2]));
    assert_ne!(keys[0], keys[3]);
}

#[tokio::test]
async fn reads_send_no_idempotency_key() {
    let world = World::start().await;
    world.get("t", "/echo", json!({}));
    assert!(world.output("t", json!({})).await["headers"].get("idempotency-key").is_none());
}

/// The CRM's audit log shows one record and one key, although the write was sent twice.
#[tokio::test]
async fn write_repeated_with_the_same_idempotency_key_is_applied_once() {
    let world = World::start().await;
    let crm: crm::Handle = Crm::builder().token("a-token-for-the-crm").start(LOOPBACK).await.unwrap();
    world.provider(
        json!({ "refName": "crm", "baseUrl": crm.base_url(), "auth": { "authType": "bearer", "secretRef": "crm" } }),
    );
    world.secret("crm", "a-token-for-the-crm");
    let invocation = json!({ "method": "POST", "path": "/crm/v3/deals", "bodyTemplate": { "properties": { "dealname": "${name}" } } });
    world.rest("create", invocation, json!({ "providerRef": "crm", "idempotent": true }));
    for _ in 0..2 {
        world.output("create", json!({ "name": "Once" })).await;
    }
    assert_eq!((crm.writes(), crm.audit().replays), (1, 1));
    assert!(crm.audit().log[0].idempotency_key.is_some());
}

#[tokio::test]
async fn error_handling_of_the_tool_decides_whether_a_status_is_retried() {
    let world = World::start().await;
    let handling = json!({
        "409": { "action": "retry" },
        "404": { "action": "clarify", "message": "No such deal; search first." },
        "503": { "action": "fail" },
    });
    for (status, attempts, message) in [
        (409, 3, "the upstream answered 409 Conflict"),
        (404, 1, "No such deal; search first."),
        (503, 1, "the upstream answered 503 Service Unavailable"),
    ] {
        world.get("t", &format!("/status/{status}"), merged(retrying(2), json!({ "errorHandling": handling })));
        let envelope = world.call("t", json!({})).await;
        assert_eq!(failure(&envelope), format!("PROVIDER_ERROR http_status: {message}"));
        assert_eq!(envelope.metadata.attempt, attempts, "{status}");
    }
    world.get("t", "/status/404", json!({ "errorHandling": handling }));
    assert_eq!(detail(&world.call("t", json!({})).await, "cause"), json!("the upstream answered 404 Not Found"));
}

#[tokio::test]
async fn call_fails_immediately_if_the_retry_delay_exceeds_the_deadline() {
    let world = World::start().await;
    for wait in ["600", "1000000000000000000", "18446744073709551615"] {
        world.get(
            "t",
            &format!("/status/429?retry_after={wait}"),
            merged(retrying(20), json!({ "timeoutMs": 60_000 })),
        );
        let started = Instant::now();
        let envelope = world.call("t", json!({})).await;
        assert!(started.elapsed() < Duration::from_secs(10));
        assert!(failure(&envelope).starts_with("RATE_LIMIT"), "{}", failure(&envelope));
        assert_eq!(envelope.metadata.attempt, 1, "{wait}");
        assert_eq!(envelope.error.unwrap().retry_after_s, Some(wait.parse().unwrap()));
    }
}

#[tokio::test]
async fn deadline_limits_the_total_time_of_all_attempts() {
    let world = World::start().await;
    world.provider(json!({ "refName": "faults", "timeoutMs": 100 }));
    world.get("t", "/slow/600000", merged(retrying(20), json!({ "timeoutMs": 350 })));
    let started = Instant::now();
    let envelope = world.call("t", json!({})).await;
    assert!(started.elapsed() < Duration::from_secs(10), "{:?}", started.elapsed());
    assert!(failure(&envelope).starts_with("TIMEOUT deadline"), "{}", failure(&envelope));
    assert!((2..=4).contains(&envelope.metadata.attempt), "{}", envelope.metadata.attempt);
}

#[tokio::test]
async fn cancelled_call_does_not_wait_for_the_next_attempt() {
    let world = World::start().await;
    world.get("t", "/status/429?retry_after=25", json!({ "defaultRetryCount": 1 }));
    let (envelope, ()) = futures::join!(world.call("t", json!({})), async {
        while world.faults.hits("/status") == 0 {
            tokio::task::yield_now().await;
        }
        world.cx.cancel.cancel();
    });
    assert!(failure(&envelope).starts_with("UNKNOWN cancelled"), "{}", failure(&envelope));
}
