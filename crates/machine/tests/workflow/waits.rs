//! Steps that wait: for a time, a signal, a person or a time limit.

use serde_json::json;
use toolwright_machine::RunStatus;
use toolwright_machine::agent::{Decision, EventError, EventKind, MAX_BUFFERED_SIGNALS};
use toolwright_machine::workflow::StepStatus;
use toolwright_types::ErrorCode;

use crate::harness::{Harness, at};

fn signal(name: &str, payload: serde_json::Value) -> EventKind {
    EventKind::SignalReceived { name: name.into(), payload, sent_by: None }
}

#[test]
fn sleeping_step_suspends_the_run_until_its_timer() {
    let mut run = Harness::start(
        "
steps:
- { name: nap, handlerRef: quantum.flow.sleep, input: { duration: 5m } }
- { name: after, handlerRef: search, dependsOn: [nap] }
",
        json!({}),
    );
    assert_eq!((run.run.status(), run.run.suspended()), (RunStatus::Waiting, true));
    assert_eq!(run.status("nap"), StepStatus::Waiting);
    assert_eq!(run.report("nap").wakes_at, Some(at(300_000)));
    assert_eq!(run.wake(), 300_000);
    run.echo();
    assert_eq!(run.ending().status, RunStatus::Completed);
    assert_eq!(run.run.resource_usage().active_us, 0, "waiting is not active time");
}

#[test]
fn sleep_until_a_past_time_ends_at_once() {
    let yaml = "steps: [{ name: nap, handlerRef: quantum.flow.sleep, input: { until: '${input.until}' } }]";
    let run = Harness::start(yaml, json!({ "until": "2001-01-01T00:00:00Z" }));
    assert_eq!(run.ending().status, RunStatus::Completed);
    let run = Harness::start(yaml, json!({ "until": "soon" }));
    assert!(run.report("nap").error.unwrap().message.contains("`duration`"));
}

#[test]
fn signal_continues_the_step_that_waits_for_it() {
    let mut run = Harness::start(
        "
steps:
- { name: wait, handlerRef: quantum.flow.waitForSignal, input: { signal: paid } }
- { name: after, handlerRef: search, input: { amount: '${wait.amount}' }, dependsOn: [wait] }
",
        json!({}),
    );
    assert_eq!(run.run.status(), RunStatus::Waiting);
    assert_eq!(run.report("wait").signal.as_deref(), Some("paid"));
    run.apply(signal("other", json!(1)));
    assert_eq!(run.run.status(), RunStatus::Waiting);
    run.apply(signal("paid", json!({ "amount": 7 })));
    run.echo();
    assert_eq!(run.output(), &json!({ "after": { "amount": 7 } }));
}

#[test]
fn signals_that_arrive_early_are_kept_in_order_for_the_steps_that_wait_later() {
    let mut run = Harness::start(
        "
steps:
- { name: first, handlerRef: search }
- { name: one, handlerRef: quantum.flow.waitForSignal, input: { signal: go }, dependsOn: [first] }
- { name: two, handlerRef: quantum.flow.waitForSignal, input: { signal: go }, dependsOn: [one] }
",
        json!({}),
    );
    run.apply(signal("go", json!("a")));
    run.apply(signal("go", json!("b")));
    run.echo();
    assert_eq!(run.report("one").output, json!("a"));
    assert_eq!(run.output(), &json!({ "two": "b" }));
}

#[test]
fn number_of_signals_that_no_step_has_received_is_limited() {
    let mut run = Harness::start(
        "steps: [{ name: wait, handlerRef: quantum.flow.waitForSignal, input: { signal: go } }]",
        json!({}),
    );
    for _ in 0..MAX_BUFFERED_SIGNALS {
        run.apply(signal("noise", json!(null)));
    }
    assert_eq!(run.send(signal("noise", json!(null))), Err(EventError::TooManySignals));
    run.apply(signal("go", json!(1)));
    assert_eq!(run.output(), &json!({ "wait": 1 }));
}

#[test]
fn time_limit_of_a_step_fails_it_and_a_late_result_is_refused() {
    let mut run = Harness::start(
        "
steps:
- { name: slow, handlerRef: save, timeout: 2s, onError: continue }
- { name: wait, handlerRef: quantum.flow.waitForSignal, input: { signal: go }, timeout: 5s, onError: continue }
- { name: ask, handlerRef: pay, timeout: 10s, onError: continue }
",
        json!({}),
    );
    run.prepare();
    let call = run.running().remove(0);
    run.apply(EventKind::Intended { call_id: call.call_id.clone() });
    assert_eq!(run.wake(), 2000);
    let error = run.report("slow").error.unwrap();
    assert_eq!((error.code, error.details.unwrap()["outcome"].clone()), (ErrorCode::Timeout, json!("unknown")));
    assert_eq!(run.run.status(), RunStatus::AwaitingApproval);
    assert_eq!(run.wake(), 3000);
    assert_eq!(run.report("wait").error.unwrap().code, ErrorCode::Timeout);
    assert!(matches!(run.send(EventKind::Recovered { call_id: Some(call.call_id) }), Err(EventError::NotRunning(_))));
    assert_eq!(run.wake(), 5000);
    assert_eq!(run.ending().status, RunStatus::Completed);
    assert_eq!(run.statuses(), "slow=FAILED wait=FAILED ask=FAILED");
}

#[test]
fn approval_of_a_call_continues_its_step_and_a_denial_fails_it() {
    let yaml = "
steps:
- { name: pay, handlerRef: pay, input: { amount: 5 }, onError: { branch: { POLICY_DENIED: refused } } }
- { name: refused, handlerRef: search }
";
    let mut run = Harness::start(yaml, json!({}));
    run.echo();
    assert_eq!((run.run.status(), run.status("pay")), (RunStatus::AwaitingApproval, StepStatus::Waiting));
    run.decide(Decision::Edit { input: json!({ "amount": 4 }) });
    run.echo();
    assert_eq!(run.output(), &json!({ "pay": { "amount": 4 } }));

    let mut run = Harness::start(yaml, json!({}));
    run.echo();
    run.decide(Decision::Deny { reason: Some("too much".into()) });
    run.echo();
    assert_eq!(run.statuses(), "pay=FAILED refused=COMPLETED");
    assert_eq!(run.report("pay").error.unwrap().message, "too much");
}

#[test]
fn run_with_other_steps_in_progress_does_not_wait() {
    let mut run = Harness::start(
        "
steps:
- { name: nap, handlerRef: quantum.flow.sleep, input: { duration: 1h } }
- { name: work, handlerRef: search }
",
        json!({}),
    );
    run.prepare();
    assert_eq!(run.run.status(), RunStatus::Running);
    run.echo();
    assert_eq!(run.run.status(), RunStatus::Waiting);
}
