//! A driver is lost while a call is being made: what its successor does about the call.

use serde_json::json;
use toolwright_machine::agent::{
    CallToPrepare, CallToRun, Decision, Effect, EffectId, Event, EventError, Facts, Happened, Prepared, Spec,
};
use toolwright_machine::{Knob, Policy, RunStatus};
use toolwright_types::{ErrorCode, UnknownOutcome};

use crate::bench::*;

/// A run whose one write was about to be made when its driver was lost.
fn lost(who: UnknownOutcome, change: impl Fn(&mut Facts)) -> (Bench, CallToRun) {
    lost_as(who, change, |_| Happened::taken_up())
}

/// The same, when only the driver of the call was lost.
fn lost_alone(change: impl Fn(&mut Facts)) -> (Bench, CallToRun) {
    lost_as(UnknownOutcome::Model, change, |call| Happened::TakenUp { call_id: Some(call.call_id.clone()) })
}

fn lost_as(
    who: UnknownOutcome,
    change: impl Fn(&mut Facts),
    what: impl Fn(&CallToRun) -> Happened,
) -> (Bench, CallToRun) {
    let mut policy = Policy::allowing("home", TOOLS);
    policy.unknown_outcome = who;
    let mut bench = Bench::new(Spec { policy, approval_wait_ms: Some(1000), ..spec() });
    bench.reply(calls(vec![call("a", "save", json!({ "n": 1 }))]));
    bench.prepare_as(|call: &CallToPrepare| {
        let Prepared::Ready(mut facts) = prepare(call) else { panic!("not ready") };
        change(&mut facts);
        Prepared::Ready(facts)
    });
    let call = bench.running().remove(0);
    bench.tell(Happened::Intended { call_id: call.call_id.clone() });
    bench.tell(what(&call));
    (bench, call)
}

fn unknown() -> [(String, Option<ErrorCode>, Option<String>); 1] {
    [("save".into(), Some(ErrorCode::Unknown), Some("outcome_unknown".into()))]
}

#[test]
fn what_is_idempotent_is_made_again_under_the_same_id() {
    let (bench, call) = lost(UnknownOutcome::Person, |facts| facts.idempotent = true);
    assert_eq!(bench.running(), [CallToRun { again: true, ..call }]);
}

#[test]
fn a_call_whose_driver_alone_was_lost_is_handed_out_again_and_the_others_are_not() {
    let mut bench = Bench::new(Spec { policy: Policy::allowing("home", TOOLS), ..spec() });
    bench.reply(calls(vec![call("a", "save", json!({ "n": 1 })), call("b", "save", json!({ "n": 2 }))]));
    bench.prepare_as(|call: &CallToPrepare| {
        let Prepared::Ready(mut facts) = prepare(call) else { panic!("not ready") };
        (facts.idempotent, facts.order_keys) = (true, Default::default());
        Prepared::Ready(facts)
    });
    let [lost, kept] = &bench.running()[..] else { panic!("both are under way") };
    for call in [lost, kept] {
        bench.tell(Happened::Intended { call_id: call.call_id.clone() });
    }
    bench.run.next();
    bench.tell(Happened::TakenUp { call_id: Some(lost.call_id.clone()) });
    let again: Vec<_> = bench.run.next().iter().map(Effect::id).collect();
    assert_eq!(again, [EffectId::Call(lost.call_id.clone())]);
    let attempts = [lost, kept].map(|call| bench.run.attempt(&EffectId::Call(call.call_id.clone())));
    assert_eq!(attempts, [1, 0]);

    let id = lost.call_id.clone();
    bench.tell(Happened::ended(receipt(lost, Ok(json!({})))));
    let event = Event { at: at(9), what: Happened::TakenUp { call_id: Some(id.clone()) } };
    assert_eq!(bench.run.apply(event), Err(EventError::NotRunning(id)), "what has ended is not lost");
}

#[test]
fn of_a_call_whose_driver_alone_was_lost_the_rest_is_decided_as_ever() {
    let (bench, _) = lost_alone(|_| {});
    assert_eq!(bench.receipts(), unknown());
    let (mut bench, call) = lost_alone(|facts| facts.verifiable = true);
    let [Effect::VerifyCall { call: asked, .. }] = &bench.run.pending()[..] else { panic!("nobody is asked") };
    assert_eq!(asked.call_id, call.call_id);
    bench.tell(Happened::Verified { call_id: call.call_id.clone(), unknown: None });
    assert_eq!(bench.running(), [call], "it was not made, so it is made now");
}

#[test]
fn a_journal_of_a_release_that_lost_only_whole_drivers_is_read() {
    let old: Happened = serde_json::from_str(r#"{ "type": "taken_up" }"#).unwrap();
    assert_eq!(old, Happened::taken_up());
    assert_eq!(serde_json::to_string(&old).unwrap(), r#"{"type":"taken_up"}"#);
}

#[test]
fn where_somebody_knows_they_are_asked() {
    let ask = || lost(UnknownOutcome::Model, |facts| facts.verifiable = true);
    let (mut bench, call) = ask();
    let [Effect::VerifyCall { call: asked, .. }] = &bench.run.pending()[..] else { panic!("nobody is asked") };
    assert_eq!(asked.call_id, call.call_id);
    assert_eq!(bench.run.status(), RunStatus::Running);
    bench.tell(Happened::taken_up());
    assert_eq!(bench.run.pending().len(), 1, "and asked once more when that driver is lost too");

    bench.tell(Happened::ended(receipt(&call, Ok(json!({ "ok": "save" })))));
    assert_eq!(bench.receipts(), [fine("save")], "it was made");

    let (mut bench, call) = ask();
    bench.tell(Happened::Verified { call_id: call.call_id.clone(), unknown: None });
    assert_eq!(bench.running(), [call], "it was not made, so it is made now");

    let (mut bench, call) = ask();
    bench.tell(Happened::Verified { call_id: call.call_id.clone(), unknown: Some("no idea".into()) });
    assert_eq!(bench.receipts(), unknown(), "who should know does not");
}

#[test]
fn what_nobody_knows_is_told_to_the_model() {
    let (bench, _) = lost(UnknownOutcome::Model, |_| {});
    assert!(bench.running().is_empty());
    assert_eq!(bench.receipts(), unknown());
    let [Effect::CallModel { step: 2, .. }] = &bench.run.pending()[..] else { panic!("the run does not go on") };
}

#[test]
fn or_to_a_person_who_has_it_repeated_or_not() {
    let ask = || lost(UnknownOutcome::Person, |_| {});
    let (mut bench, call) = ask();
    let request = bench.run.approvals().remove(0);
    assert_eq!((bench.run.status(), request.because), (RunStatus::AwaitingApproval, vec![Knob::UnknownOutcome]));
    let edit = bench.decide(&call.call_id, Decision::Edit { input: json!({}) });
    assert_eq!(edit, Err(EventError::NotEditable(call.call_id.clone())), "what may have been done is not rewritten");
    bench.decide(&call.call_id, Decision::Approve).unwrap();
    bench.prepare_again();
    assert_eq!(bench.running()[0].call_id, call.call_id);

    let (mut bench, call) = ask();
    bench.decide(&call.call_id, Decision::Deny { reason: None }).unwrap();
    assert_eq!(bench.receipts(), unknown(), "not denied: it may have been made");

    let (mut bench, call) = ask();
    bench.tell(Happened::Expired { call_id: call.call_id });
    assert_eq!(bench.receipts(), unknown());
}

#[test]
fn a_call_that_was_not_begun_or_only_reads_is_simply_made() {
    let mut bench = Bench::new(spec());
    bench.ask(vec![call("a", "save", json!({})), call("b", "search", json!({}))]);
    let before = bench.running();
    bench.tell(Happened::taken_up());
    assert_eq!(bench.running(), before);
}

#[test]
fn time_without_a_driver_is_not_the_runs() {
    let mut bench = Bench::new(spec());
    bench.millis = 5_000;
    bench.tell(Happened::taken_up());
    assert_eq!(bench.run.spent().active_us, 0);
}
