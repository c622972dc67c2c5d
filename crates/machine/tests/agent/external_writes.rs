//! The writes to the outside world whose outcome an event determines.

use serde_json::json;
use toolwright_machine::agent::{
    CallFacts, CallToRun, Decision, Event, EventKind, PreparedCall, RunSpec, WriteOutcome,
};
use toolwright_machine::{Limits, Policy, RunStatus};
use toolwright_types::{CallSource, ErrorCode, ToolError, UnknownOutcome};

use crate::harness::*;

/// The outcomes that the event determines, by tool, and who approved each write.
fn determined(harness: &Harness, kind: EventKind) -> Vec<(String, WriteOutcome, Option<String>)> {
    let event = Event { at: at(harness.millis), kind };
    let writes = harness.run.writes_determined_by(&event, |tool| tool != "delete_deal");
    writes.into_iter().map(|write| (write.envelope.name, write.outcome, write.approved_by)).collect()
}

fn save(outcome: WriteOutcome) -> (String, WriteOutcome, Option<String>) {
    ("save".into(), outcome, None)
}

/// A run in which one call to each of `tools` is running. The intents of the calls are recorded.
fn started(policy: Policy, tools: &[&str], change: impl Fn(&mut CallFacts)) -> (Harness, Vec<CallToRun>) {
    let mut harness = Harness::new(RunSpec { policy, approval_wait_ms: Some(1000), ..spec() });
    let requested = tools.iter().enumerate().map(|(n, tool)| call(&n.to_string(), tool, json!({ "n": n }))).collect();
    harness.reply(calls(requested));
    harness.prepare_as(|call| {
        let PreparedCall::Ready(mut facts) = prepare(call) else { panic!("the call was refused") };
        change(&mut facts);
        PreparedCall::Ready(facts)
    });
    let running = harness.running();
    for call in &running {
        let intent = EventKind::Intended { call_id: call.call_id.clone() };
        assert_eq!(determined(&harness, intent.clone()), [], "an intent determines nothing");
        harness.apply(intent);
    }
    (harness, running)
}

fn all_tools() -> Policy {
    Policy::allowing("home", TOOLS)
}

#[test]
fn envelope_of_a_write_determines_its_outcome() {
    let (harness, running) = started(all_tools(), &["save"], |_| {});
    let failed = |code| Err(ToolError::new(code, "failed"));
    for (result, outcome) in [
        (Ok(json!(1)), WriteOutcome::Done),
        (failed(ErrorCode::Timeout), WriteOutcome::Unknown),
        (failed(ErrorCode::NetworkError), WriteOutcome::Unknown),
        (failed(ErrorCode::Unknown), WriteOutcome::Unknown),
        (failed(ErrorCode::ProviderError), WriteOutcome::Failed),
        (failed(ErrorCode::ValidationError), WriteOutcome::Failed),
    ] {
        let event = EventKind::call_ended(envelope_of(&running[0], result.clone()));
        assert_eq!(determined(&harness, event), [save(outcome)], "{result:?}");
    }
    for (source, outcomes) in
        [(CallSource::Captured, vec![save(WriteOutcome::Captured)]), (CallSource::Recorded, vec![])]
    {
        let mut envelope = envelope_of(&running[0], Ok(json!(1)));
        envelope.metadata.source = Some(source);
        assert_eq!(determined(&harness, EventKind::call_ended(envelope)), outcomes);
    }
}

#[test]
fn reads_and_calls_to_delegates_are_not_external_writes() {
    for tool in ["search", "delete_deal"] {
        let (harness, running) = started(all_tools(), &[tool], |_| {});
        let event = EventKind::call_ended(envelope_of(&running[0], Ok(json!(1))));
        assert_eq!(determined(&harness, event), [], "{tool}");
    }
}

#[test]
fn recovery_makes_the_outcome_of_an_interrupted_write_unknown_unless_it_is_repeated_or_verified() {
    for (who, idempotent, verifiable, outcomes) in [
        (UnknownOutcome::Model, false, false, vec![save(WriteOutcome::Unknown)]),
        (UnknownOutcome::Person, false, false, vec![save(WriteOutcome::Unknown)]),
        (UnknownOutcome::Model, true, false, vec![]),
        (UnknownOutcome::Model, false, true, vec![]),
    ] {
        let mut policy = all_tools();
        policy.unknown_outcome = who;
        let (mut harness, running) = started(policy, &["save"], |facts| {
            (facts.idempotent, facts.verifiable) = (idempotent, verifiable);
        });
        assert_eq!(determined(&harness, EventKind::recovered()), outcomes, "{who:?} {idempotent} {verifiable}");
        harness.apply(EventKind::recovered());
        let call_id = running[0].call_id.clone();
        if verifiable {
            let verified = |unknown_reason| EventKind::Verified { call_id: call_id.clone(), unknown_reason };
            assert_eq!(determined(&harness, verified(None)), []);
            assert_eq!(determined(&harness, verified(Some("no answer".into()))), [save(WriteOutcome::Unknown)]);
        }
        if who == UnknownOutcome::Person {
            let decided = |decision| EventKind::ApprovalDecided {
                call_id: call_id.clone(),
                definition_hash: "hash-1".into(),
                decision,
                decided_by: None,
                reason: None,
            };
            assert_eq!(determined(&harness, decided(Decision::Approve)), [], "the write is repeated");
            let denied = decided(Decision::Deny { reason: None });
            assert_eq!(determined(&harness, denied), [save(WriteOutcome::Unknown)]);
            assert_eq!(determined(&harness, EventKind::TimerFired), [], "it is already known to be unknown");
        }
    }
}

#[test]
fn end_of_a_run_makes_the_outcomes_of_its_running_writes_unknown() {
    let (mut harness, running) = started(all_tools(), &["save", "save", "search"], |facts| facts.order_keys.clear());
    let unknown = save(WriteOutcome::Unknown);
    for event in [
        EventKind::Cancelled { message: None },
        EventKind::Failed { reason: "interrupted".into(), message: "stopped".into() },
    ] {
        assert_eq!(determined(&harness, event), [unknown.clone(), unknown.clone()]);
    }
    let ended = EventKind::call_ended(envelope_of(&running[0], Ok(json!(1))));
    assert_eq!(determined(&harness, ended.clone()), [save(WriteOutcome::Done)], "the other write is still running");
    harness.apply(ended);
    assert_eq!(determined(&harness, EventKind::Cancelled { message: None }), [unknown]);
}

#[test]
fn envelope_that_arrives_after_the_time_limit_makes_the_outcomes_of_the_other_writes_unknown() {
    let limits = Limits { timeout_ms: Some(1000), ..spec().limits };
    let mut harness = Harness::new(RunSpec { policy: all_tools(), limits, max_parallel_calls: 2, ..spec() });
    harness.reply(calls((0..3).map(|n| call(&n.to_string(), "save", json!({ "n": n }))).collect()));
    harness.prepare_as(|call| {
        let PreparedCall::Ready(mut facts) = prepare(call) else { panic!("the call was refused") };
        facts.order_keys.clear();
        PreparedCall::Ready(facts)
    });
    let running = harness.running();
    for call in &running {
        harness.apply(EventKind::Intended { call_id: call.call_id.clone() });
    }
    let ended = EventKind::call_ended(envelope_of(&running[0], Ok(json!(1))));
    harness.millis = 999;
    assert_eq!(determined(&harness, ended.clone()), [save(WriteOutcome::Done)]);
    harness.millis = 1000;
    assert_eq!(determined(&harness, ended.clone()), [save(WriteOutcome::Done), save(WriteOutcome::Unknown)]);
    harness.apply(ended);
    assert_eq!(harness.ending().status, RunStatus::Timeout);
}

#[test]
fn external_write_names_the_person_who_approved_it() {
    let mut harness = Harness::new(spec());
    harness.request_calls(vec![call("a", "pay", json!({ "n": 1 }))]);
    let id = harness.run.pending_approvals().remove(0).call_id;
    harness.decide(&id, Decision::Edit { input: json!({ "n": 2 }) }).unwrap();
    harness.prepare_again();
    let running = harness.running();
    harness.apply(EventKind::Intended { call_id: running[0].call_id.clone() });
    let ended = EventKind::call_ended(envelope_of(&running[0], Ok(json!(1))));
    assert_eq!(determined(&harness, ended), [("pay".into(), WriteOutcome::Done, Some("ann".into()))]);
}
