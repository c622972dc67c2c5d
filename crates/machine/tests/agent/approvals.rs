//! A person decides: once, on this call, on this definition.

use serde_json::{Value, json};
use toolwright_machine::agent::{Applied, Decision, Effect, EventError, Happened, Prepared, Spec, Verdict};
use toolwright_machine::{Guardrail, Knob, Policy, RunStatus};
use toolwright_types::CallId;

use crate::bench::*;

fn asked(input: Value) -> (Bench, CallId) {
    let mut bench = Bench::new(Spec { approval_wait_ms: Some(1000), ..spec() });
    bench.ask(vec![call("a", "pay", input)]);
    let id = bench.run.approvals()[0].call_id.clone();
    (bench, id)
}

#[test]
fn the_three_knobs_add_up_and_are_recorded() {
    let guardrail = |parameters: Value| -> Option<Guardrail> {
        serde_json::from_value(json!({ "type": "require_confirmation", "parameters": parameters })).unwrap()
    };
    let writes = || guardrail(json!({ "sideEffects": "writes" }));
    for (tool, agent, rail, expected) in [
        ("search", false, None, vec![]),
        ("search", true, None, vec![]),
        ("save", true, None, vec![Knob::Agent]),
        ("delete_deal", true, None, vec![Knob::Agent]),
        ("pay", false, None, vec![Knob::Tool]),
        ("pay", true, writes(), vec![Knob::Tool, Knob::Agent, Knob::Guardrail]),
        ("search", false, writes(), vec![]),
        ("search", false, guardrail(json!({ "sideEffects": "reads" })), vec![Knob::Guardrail]),
        ("search", false, guardrail(json!({ "tools": ["Search"] })), vec![Knob::Guardrail]),
        ("save", false, guardrail(json!({ "tools": ["search"] })), vec![]),
        ("search", false, guardrail(json!({})), vec![Knob::Guardrail]),
    ] {
        let mut policy = Policy::allowing("home", TOOLS);
        policy.requires_approval = agent;
        policy.guardrails.extend(rail);
        let mut bench = Bench::new(Spec { policy, ..spec() });
        bench.ask(vec![call("a", tool, json!({}))]);
        let fired = bench.run.approvals().first().map(|request| request.because.clone()).unwrap_or_default();
        assert_eq!(fired, expected, "{tool} {agent}");
        assert_eq!(bench.run.status() == RunStatus::AwaitingApproval, !expected.is_empty());
    }
}

#[test]
fn an_approved_call_is_prepared_again_and_runs() {
    let (mut bench, id) = asked(json!({ "usd": 5 }));
    assert_eq!(bench.run.status(), RunStatus::AwaitingApproval);
    let request = bench.run.approvals().remove(0);
    assert_eq!((request.definition_hash.as_str(), request.expires_at), ("hash-1", Some(at(1000))));
    assert_eq!(bench.run.wake_at(), Some(at(1000)));
    bench.decide(&id, Decision::Approve).unwrap();
    let [Effect::PrepareAgain { call_id, call }] = &bench.run.pending()[..] else { panic!() };
    assert_eq!((call_id, call.version.as_deref()), (&id, Some("1.0.0")));
    assert!(call.names.is_some(), "names mean what they meant when the person agreed");
    bench.prepare_again();
    assert_eq!(bench.running()[0].call_id, id);
    bench.end_all();
    assert_eq!(bench.receipts(), [fine("pay")]);
    let record = &bench.run.decisions()[0];
    assert_eq!((&record.because, &record.verdict), (&vec![Knob::Tool], &Verdict::Approved));
    assert_eq!(record.by.as_deref(), Some("ann"));
}

#[test]
fn an_approval_counts_once() {
    let (mut bench, id) = asked(json!({}));
    bench.decide(&id, Decision::Approve).unwrap();
    let before = bench.run.clone();
    assert_eq!(bench.decide(&id, Decision::Approve), Err(EventError::NotAwaitingApproval(id.clone())));
    assert_eq!(bench.decide(&id, Decision::Deny { reason: None }), Err(EventError::NotAwaitingApproval(id.clone())));
    assert_eq!(bench.run, before);
    bench.prepare_again();
    bench.end_all();
    assert_eq!(bench.decide(&id, Decision::Approve), Err(EventError::NotAwaitingApproval(id)));
    let stranger = CallId::derive("x", "", &json!(0), 0);
    assert_eq!(bench.decide(&stranger, Decision::Approve), Err(EventError::UnknownCall(stranger)));
}

#[test]
fn the_next_equal_call_is_asked_for_again() {
    let (mut bench, id) = asked(json!({}));
    bench.decide(&id, Decision::Approve).unwrap();
    bench.prepare_again();
    bench.end_all();
    bench.ask(vec![call("b", "pay", json!({}))]);
    let again = bench.run.approvals()[0].call_id.clone();
    assert_ne!(again, id);
    assert_eq!(again, CallId::derive("pay", "1.0.0", &json!({}), 1));
}

#[test]
fn a_denied_call_tells_the_model_why() {
    let (mut bench, id) = asked(json!({}));
    bench.decide(&id, Decision::Deny { reason: Some("too expensive".into()) }).unwrap();
    assert_eq!(bench.receipts(), [denied("pay", "approval_denied")]);
    assert!(bench.told()[0].contains("too expensive"));
    let details = bench.outputs().tools_by_id[&id].error.clone().unwrap().details.unwrap();
    assert_eq!(details["required_by"], json!(["tool"]));
    assert_eq!(bench.run.spent().tool_calls, 0);
}

#[test]
fn nobody_decides_in_time() {
    let (mut bench, id) = asked(json!({}));
    bench.millis = 1001;
    let before = bench.run.clone();
    assert_eq!(bench.decide(&id, Decision::Approve), Err(EventError::TooLate(id.clone())));
    assert_eq!(bench.run, before);
    bench.tell(Happened::Expired { call_id: id.clone() });
    assert_eq!(bench.receipts(), [denied("pay", "approval_expired")]);
    assert_eq!(bench.run.decisions()[0].verdict, Verdict::Expired);
    assert_eq!(bench.send(Happened::Expired { call_id: id.clone() }), Err(EventError::NotWaiting(id)));
}

#[test]
fn an_edited_call_is_another_call() {
    let (mut bench, id) = asked(json!({ "usd": 500 }));
    bench.decide(&id, Decision::Edit { input: json!({ "usd": 5 }) }).unwrap();
    let [Effect::PrepareAgain { call_id, call }] = &bench.run.pending()[..] else { panic!() };
    assert_eq!(call_id, &CallId::derive("pay", "1.0.0", &json!({ "usd": 5 }), 0));
    assert_eq!(call.input, json!({ "usd": 5 }));
    assert!(call.names.is_none(), "names in another input are looked up");
    let edited = call_id.clone();
    assert_eq!(bench.decide(&id, Decision::Approve), Err(EventError::NotAwaitingApproval(id.clone())));
    bench.prepare_again();
    bench.end_all();
    let outputs = bench.outputs();
    assert_eq!(outputs.tool_order, std::slice::from_ref(&edited));
    let envelope = &outputs.tools_by_id[&edited];
    assert_eq!((&envelope.metadata.edited_from, &envelope.input), (&Some(id.clone()), &json!({ "usd": 5 })));
    assert!(bench.told()[0].contains(r#"changed the arguments of this call to {"usd":5}"#), "{:?}", bench.told());
    assert_eq!(bench.run.decisions()[0].verdict, Verdict::Edited(edited));
}

#[test]
fn an_edit_to_the_same_input_is_another_call_too() {
    let (mut bench, id) = asked(json!({}));
    bench.decide(&id, Decision::Edit { input: json!({}) }).unwrap();
    bench.prepare_again();
    assert_eq!(bench.running()[0].call_id, CallId::derive("pay", "1.0.0", &json!({}), 1));
}

#[test]
fn an_edit_that_does_not_fit_is_refused_like_any_input() {
    let (mut bench, id) = asked(json!({}));
    bench.decide(&id, Decision::Edit { input: json!({ "bad": 1 }) }).unwrap();
    bench.prepare_again();
    let outputs = bench.outputs();
    let envelope = outputs.in_order().next().unwrap();
    assert_eq!(envelope.metadata.edited_from, Some(id));
    assert_eq!(reason(envelope).as_deref(), Some("input_schema"));
}

#[test]
fn an_edit_cannot_get_around_a_guardrail() {
    let filter = json!({ "type": "content_filter", "parameters": { "words": ["evil"] } });
    let mut policy = Policy::allowing("home", TOOLS);
    policy.guardrails.push(serde_json::from_value(filter).unwrap());
    let mut bench = Bench::new(Spec { policy, ..spec() });
    bench.ask(vec![call("a", "pay", json!({}))]);
    let id = bench.run.approvals()[0].call_id.clone();
    bench.decide(&id, Decision::Edit { input: json!({ "to": "evil corp" }) }).unwrap();
    bench.prepare_again();
    assert_eq!(bench.receipts(), [denied("pay", "content_filter")]);
}

#[test]
fn an_approval_binds_to_the_definition_that_was_shown() {
    let (mut bench, id) = asked(json!({}));
    let other =
        |decision| Happened::Approval { call_id: id.clone(), definition_hash: "hash-0".into(), decision, by: None };
    assert_eq!(bench.send(other(Decision::Approve)), Err(EventError::OtherDefinition(id.clone())));
    assert_eq!(bench.send(other(Decision::Edit { input: json!({}) })), Err(EventError::OtherDefinition(id.clone())));
    bench.decide(&id, Decision::Approve).unwrap();
    let mut changed = facts("pay");
    changed.definition_hash = "hash-2".into();
    bench.tell(Happened::PreparedAgain { call_id: id, call: Prepared::Ready(Box::new(changed)) });
    assert_eq!(bench.receipts(), [denied("pay", "definition_changed")]);
}

#[test]
fn a_tool_that_was_blocked_meanwhile_does_not_run() {
    let (mut bench, id) = asked(json!({}));
    bench.decide(&id, Decision::Approve).unwrap();
    let error =
        toolwright_types::ToolError::new(toolwright_types::ErrorCode::PolicyDenied, "blocked").reason("blocked");
    let refused = envelope("pay", "1.0.0", json!({}), Err(error));
    bench.tell(Happened::PreparedAgain { call_id: id, call: Prepared::Refused(Box::new(refused)) });
    assert_eq!(bench.receipts(), [denied("pay", "blocked")]);
}

#[test]
fn others_go_on_while_one_waits() {
    let mut bench = Bench::new(spec());
    bench.ask(vec![call("a", "pay", json!(1)), call("b", "search", json!(2))]);
    assert_eq!((bench.run.status(), bench.run.suspended()), (RunStatus::Running, false));
    bench.end_all();
    assert_eq!((bench.run.status(), bench.run.suspended()), (RunStatus::AwaitingApproval, true));
    let id = bench.run.approvals()[0].call_id.clone();
    assert_eq!(bench.decide(&id, Decision::Deny { reason: None }), Ok(Applied::Taken));
    assert_eq!(bench.receipts(), [fine("search"), denied("pay", "approval_denied")]);
    assert!(bench.told()[0].contains("approval_denied"), "results are told in call order");
    assert!(bench.told()[1].contains("ok"));
}
