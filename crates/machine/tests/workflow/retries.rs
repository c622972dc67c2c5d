//! Retries of failed steps.

use serde_json::json;
use toolwright_machine::RunStatus;
use toolwright_types::ErrorCode;

use crate::harness::{Harness, failure};

fn with_retry(tool: &str) -> String {
    format!("steps: [{{ name: a, handlerRef: {tool}, retry: {{ maxAttempts: 3, delay: 1s }} }}]")
}

#[test]
fn failed_read_is_repeated_with_growing_delays_until_it_succeeds() {
    let mut run = Harness::start(&with_retry("search"), json!({}));
    run.work(|_| Err(failure(ErrorCode::RateLimit)));
    assert_eq!((run.run.status(), run.statuses().as_str()), (RunStatus::Waiting, "a=WAITING"));
    assert_eq!(run.wake(), 1000);
    run.work(|_| Err(failure(ErrorCode::RateLimit)));
    assert_eq!(run.wake(), 2000);
    run.echo();
    assert_eq!(run.ending().status, RunStatus::Completed);
    assert_eq!(run.report("a").attempts, 3);
    assert_eq!(run.run.outputs().tools_by_id.len(), 3, "each attempt has an envelope");
}

#[test]
fn step_fails_after_its_last_attempt_and_after_an_error_that_is_not_repeated() {
    let mut run = Harness::start(&with_retry("search"), json!({}));
    for _ in 0..2 {
        run.work(|_| Err(failure(ErrorCode::Timeout)));
        run.wake();
    }
    run.work(|_| Err(failure(ErrorCode::Timeout)));
    assert_eq!((run.ending().status, run.executed.len()), (RunStatus::Error, 3));

    let mut run = Harness::start(&with_retry("search"), json!({}));
    run.work(|_| Err(failure(ErrorCode::AuthRequired)));
    assert_eq!((run.ending().status, run.executed.len()), (RunStatus::Error, 1));
}

#[test]
fn write_is_repeated_only_if_it_is_idempotent_and_then_keeps_its_idempotency_key() {
    let mut run = Harness::start(&with_retry("save"), json!({}));
    run.work(|_| Err(failure(ErrorCode::NetworkError)));
    assert_eq!((run.ending().status, run.executed.len()), (RunStatus::Error, 1));

    let mut run = Harness::start(&with_retry("put"), json!({}));
    run.prepare();
    let first = run.running().remove(0);
    assert_eq!(first.first_call, None);
    run.end_call(&first, Err(failure(ErrorCode::NetworkError)));
    run.wake();
    run.prepare();
    let second = run.running().remove(0);
    assert_ne!(second.call_id, first.call_id);
    assert_eq!(second.first_call, Some(first.call_id));
}

#[test]
fn items_of_a_list_are_repeated_on_their_own() {
    let mut run = Harness::start(
        "steps: [{ name: each, handlerRef: search, forEach: [1, 2], input: { n: '${item}' }, retry: { maxAttempts: 2, delay: 0s } }]",
        json!({}),
    );
    let mut failed = false;
    run.work(|call| {
        if call.input["n"] == json!(2) && !std::mem::replace(&mut failed, true) {
            return Err(failure(ErrorCode::ProviderError));
        }
        Ok(call.input["n"].clone())
    });
    run.wake();
    run.echo();
    assert_eq!(run.output(), &json!({ "each": [1, { "n": 2 }] }));
    let attempts: Vec<_> = run.report("each").items.unwrap().iter().map(|item| item.attempts).collect();
    assert_eq!(attempts, [1, 2]);
}
