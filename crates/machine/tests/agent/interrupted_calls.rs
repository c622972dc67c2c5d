//! Recovery of calls whose driver was lost while they were running.

use serde_json::json;
use toolwright_machine::agent::{
    CallFacts, CallToPrepare, CallToRun, Decision, Effect, EffectId, Event, EventError, EventKind, PreparedCall,
    RunSpec,
};
use toolwright_machine::{ApprovalTrigger, Policy, RunStatus};
use toolwright_types::{ErrorCode, UnknownOutcome};

use crate::harness::*;

/// A run whose only write was interrupted after its intent.
fn interrupted(who: UnknownOutcome, change: impl Fn(&mut CallFacts)) -> (Harness, CallToRun) {
    interrupted_by(who, change, |_| EventKind::recovered())
}

/// Like [`interrupted`], but an external scheduler executes each call separately, and only the execution of the write
/// was lost.
fn interrupted_call_only(change: impl Fn(&mut CallFacts)) -> (Harness, CallToRun) {
    interrupted_by(UnknownOutcome::Model, change, |call| EventKind::Recovered { call_id: Some(call.call_id.clone()) })
}

fn interrupted_by(
    who: UnknownOutcome,
    change: impl Fn(&mut CallFacts),
    kind: impl Fn(&CallToRun) -> EventKind,
) -> (Harness, CallToRun) {
    let mut policy = Policy::allowing("home", TOOLS);
    policy.unknown_outcome = who;
    let mut harness = Harness::new(RunSpec { policy, approval_wait_ms: Some(1000), ..spec() });
    harness.reply(calls(vec![call("a", "save", json!({ "n": 1 }))]));
    harness.prepare_as(|call: &CallToPrepare| {
        let PreparedCall::Ready(mut facts) = prepare(call) else { panic!("the call was refused") };
        change(&mut facts);
        PreparedCall::Ready(facts)
    });
    let call = harness.running().remove(0);
    harness.apply(EventKind::Intended { call_id: call.call_id.clone() });
    harness.apply(kind(&call));
    (harness, call)
}

fn unknown() -> [(String, Option<ErrorCode>, Option<String>); 1] {
    [("save".into(), Some(ErrorCode::Unknown), Some("outcome_unknown".into()))]
}

#[test]
fn interrupted_idempotent_call_is_repeated_under_the_same_id() {
    let (harness, call) = interrupted(UnknownOutcome::Person, |facts| facts.idempotent = true);
    assert_eq!(harness.running(), [CallToRun { repeated: true, ..call }]);
}

#[test]
fn recovering_one_call_reissues_only_that_call() {
    let mut harness = Harness::new(RunSpec { policy: Policy::allowing("home", TOOLS), ..spec() });
    harness.reply(calls(vec![call("a", "save", json!({ "n": 1 })), call("b", "save", json!({ "n": 2 }))]));
    harness.prepare_as(|call: &CallToPrepare| {
        let PreparedCall::Ready(mut facts) = prepare(call) else { panic!("the call was refused") };
        (facts.idempotent, facts.order_keys) = (true, Default::default());
        PreparedCall::Ready(facts)
    });
    let [lost, kept] = &harness.running()[..] else { panic!("expected two running calls") };
    for call in [lost, kept] {
        harness.apply(EventKind::Intended { call_id: call.call_id.clone() });
    }
    harness.run.next();
    harness.apply(EventKind::Recovered { call_id: Some(lost.call_id.clone()) });
    let again: Vec<_> = harness.run.next().iter().map(Effect::id).collect();
    assert_eq!(again, [EffectId::Call(lost.call_id.clone())]);
    let attempts = [lost, kept].map(|call| harness.run.attempt(&EffectId::Call(call.call_id.clone())));
    assert_eq!(attempts, [1, 0]);

    let id = lost.call_id.clone();
    harness.apply(EventKind::call_ended(envelope_of(lost, Ok(json!({})))));
    let event = Event { at: at(9), kind: EventKind::Recovered { call_id: Some(id.clone()) } };
    assert_eq!(harness.run.apply(event), Err(EventError::NotRunning(id)), "an ended call cannot be recovered");
}

#[test]
fn recovering_one_call_verifies_it_or_reports_an_unknown_outcome() {
    let (harness, _) = interrupted_call_only(|_| {});
    assert_eq!(harness.results(), unknown());
    let (mut harness, call) = interrupted_call_only(|facts| facts.verifiable = true);
    let [Effect::VerifyCall { call: verified, .. }] = &harness.run.pending()[..] else {
        panic!("expected a verification")
    };
    assert_eq!(verified.call_id, call.call_id);
    harness.apply(EventKind::Verified { call_id: call.call_id.clone(), unknown_reason: None });
    assert_eq!(harness.running(), [call], "the write did not take effect, so the call runs now");
}

#[test]
fn stored_recovery_event_without_call_id_applies_to_the_whole_run() {
    let old: EventKind = serde_json::from_str(r#"{ "type": "recovered" }"#).unwrap();
    assert_eq!(old, EventKind::recovered());
    assert_eq!(serde_json::to_string(&old).unwrap(), r#"{"type":"recovered"}"#);
}

#[test]
fn interrupted_call_with_a_verify_operation_is_verified() {
    let interrupted_write = || interrupted(UnknownOutcome::Model, |facts| facts.verifiable = true);
    let (mut harness, call) = interrupted_write();
    let [Effect::VerifyCall { call: verified, .. }] = &harness.run.pending()[..] else {
        panic!("expected a verification")
    };
    assert_eq!(verified.call_id, call.call_id);
    assert_eq!(harness.run.status(), RunStatus::Running);
    harness.apply(EventKind::recovered());
    assert_eq!(harness.run.pending().len(), 1, "the verification is repeated after another recovery");

    harness.apply(EventKind::call_ended(envelope_of(&call, Ok(json!({ "ok": "save" })))));
    assert_eq!(harness.results(), [succeeded("save")], "the write took effect");

    let (mut harness, call) = interrupted_write();
    harness.apply(EventKind::Verified { call_id: call.call_id.clone(), unknown_reason: None });
    assert_eq!(harness.running(), [call], "the write did not take effect, so the call runs now");

    let (mut harness, call) = interrupted_write();
    harness.apply(EventKind::Verified { call_id: call.call_id.clone(), unknown_reason: Some("no idea".into()) });
    assert_eq!(harness.results(), unknown(), "the verification could not tell");
}

#[test]
fn unknown_outcome_is_reported_to_the_model_by_default() {
    let (harness, _) = interrupted(UnknownOutcome::Model, |_| {});
    assert!(harness.running().is_empty());
    assert_eq!(harness.results(), unknown());
    let [Effect::CallModel { iteration: 2, .. }] = &harness.run.pending()[..] else {
        panic!("expected the next model call")
    };
}

#[test]
fn person_decides_on_unknown_outcome_if_the_policy_requires_it() {
    let interrupted_write = || interrupted(UnknownOutcome::Person, |_| {});
    let (mut harness, call) = interrupted_write();
    let request = harness.run.pending_approvals().remove(0);
    assert_eq!(
        (harness.run.status(), request.triggers),
        (RunStatus::AwaitingApproval, vec![ApprovalTrigger::UnknownOutcome])
    );
    let edit = harness.decide(&call.call_id, Decision::Edit { input: json!({}) });
    assert_eq!(
        edit,
        Err(EventError::NotEditable(call.call_id.clone())),
        "a call with an unknown outcome cannot be edited"
    );
    harness.decide(&call.call_id, Decision::Approve).unwrap();
    harness.prepare_again();
    assert_eq!(harness.running()[0].call_id, call.call_id);

    let (mut harness, call) = interrupted_write();
    harness.decide(&call.call_id, Decision::Deny { reason: None }).unwrap();
    assert_eq!(harness.results(), unknown(), "not denied: the write may have taken effect");

    let (mut harness, call) = interrupted_write();
    harness.apply(EventKind::Expired { call_id: call.call_id });
    assert_eq!(harness.results(), unknown());
}

#[test]
fn call_whose_intent_was_not_recorded_is_unchanged_by_recovery() {
    let mut harness = Harness::new(spec());
    harness.request_calls(vec![call("a", "save", json!({})), call("b", "search", json!({}))]);
    let before = harness.running();
    harness.apply(EventKind::recovered());
    assert_eq!(harness.running(), before);
}

#[test]
fn time_until_a_lost_driver_is_replaced_is_not_active_time() {
    let mut harness = Harness::new(spec());
    harness.millis = 5_000;
    harness.apply(EventKind::recovered());
    assert_eq!(harness.run.resource_usage().active_us, 0);
}
