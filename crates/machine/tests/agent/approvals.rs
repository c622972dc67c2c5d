//! Approvals: one decision per call, bound to the call and to its tool definition.

use serde_json::{Value, json};
use toolwright_machine::agent::{
    ApplyOutcome, ApprovalOutcome, Decision, Effect, EventError, EventKind, PreparedCall, RunSpec,
};
use toolwright_machine::{ApprovalTrigger, Guardrail, Policy, RunStatus};
use toolwright_types::CallId;

use crate::harness::*;

fn awaiting_approval(input: Value) -> (Harness, CallId) {
    let mut harness = Harness::new(RunSpec { approval_wait_ms: Some(1000), ..spec() });
    harness.request_calls(vec![call("a", "pay", input)]);
    let id = harness.run.pending_approvals()[0].call_id.clone();
    (harness, id)
}

#[test]
fn approval_request_lists_every_setting_that_requires_approval() {
    let guardrail = |parameters: Value| -> Option<Guardrail> {
        serde_json::from_value(json!({ "type": "require_confirmation", "parameters": parameters })).unwrap()
    };
    let writes = || guardrail(json!({ "sideEffects": "writes" }));
    for (tool, agent, rail, expected) in [
        ("search", false, None, vec![]),
        ("search", true, None, vec![]),
        ("save", true, None, vec![ApprovalTrigger::Agent]),
        ("delete_deal", true, None, vec![ApprovalTrigger::Agent]),
        ("pay", false, None, vec![ApprovalTrigger::Tool]),
        ("pay", true, writes(), vec![ApprovalTrigger::Tool, ApprovalTrigger::Agent, ApprovalTrigger::Guardrail]),
        ("search", false, writes(), vec![]),
        ("search", false, guardrail(json!({ "sideEffects": "reads" })), vec![ApprovalTrigger::Guardrail]),
        ("search", false, guardrail(json!({ "tools": ["Search"] })), vec![ApprovalTrigger::Guardrail]),
        ("save", false, guardrail(json!({ "tools": ["search"] })), vec![]),
        ("search", false, guardrail(json!({})), vec![ApprovalTrigger::Guardrail]),
    ] {
        let mut policy = Policy::allowing("home", TOOLS);
        policy.requires_approval = agent;
        policy.guardrails.extend(rail);
        let mut harness = Harness::new(RunSpec { policy, ..spec() });
        harness.request_calls(vec![call("a", tool, json!({}))]);
        let fired = harness.run.pending_approvals().first().map(|request| request.triggers.clone()).unwrap_or_default();
        assert_eq!(fired, expected, "{tool} {agent}");
        assert_eq!(harness.run.status() == RunStatus::AwaitingApproval, !expected.is_empty());
    }
}

#[test]
fn approved_call_is_prepared_again_and_runs() {
    let (mut harness, id) = awaiting_approval(json!({ "usd": 5 }));
    assert_eq!(harness.run.status(), RunStatus::AwaitingApproval);
    let request = harness.run.pending_approvals().remove(0);
    assert_eq!((request.definition_hash.as_str(), request.expires_at), ("hash-1", Some(at(1000))));
    assert_eq!(harness.run.wake_at(), Some(at(1000)));
    harness.decide(&id, Decision::Approve).unwrap();
    let [Effect::PrepareAgain { call_id, call }] = &harness.run.pending()[..] else { panic!() };
    assert_eq!((call_id, call.version.as_deref()), (&id, Some("1.0.0")));
    assert!(call.names.is_some(), "the approved names are kept");
    harness.prepare_again();
    assert_eq!(harness.running()[0].call_id, id);
    harness.end_all();
    assert_eq!(harness.results(), [succeeded("pay")]);
    let record = &harness.run.decisions()[0];
    assert_eq!((&record.triggers, &record.outcome), (&vec![ApprovalTrigger::Tool], &ApprovalOutcome::Approved));
    assert_eq!(record.decided_by.as_deref(), Some("ann"));
}

#[test]
fn second_decision_on_a_call_is_rejected() {
    let (mut harness, id) = awaiting_approval(json!({}));
    harness.decide(&id, Decision::Approve).unwrap();
    let before = harness.run.clone();
    assert_eq!(harness.decide(&id, Decision::Approve), Err(EventError::NotAwaitingApproval(id.clone())));
    assert_eq!(harness.decide(&id, Decision::Deny { reason: None }), Err(EventError::NotAwaitingApproval(id.clone())));
    assert_eq!(harness.run, before);
    harness.prepare_again();
    harness.end_all();
    assert_eq!(harness.decide(&id, Decision::Approve), Err(EventError::NotAwaitingApproval(id)));
    let stranger = CallId::derive("x", "", &json!(0), 0);
    assert_eq!(harness.decide(&stranger, Decision::Approve), Err(EventError::UnknownCall(stranger)));
}

#[test]
fn second_call_with_equal_input_requires_a_new_approval() {
    let (mut harness, id) = awaiting_approval(json!({}));
    harness.decide(&id, Decision::Approve).unwrap();
    harness.prepare_again();
    harness.end_all();
    harness.request_calls(vec![call("b", "pay", json!({}))]);
    let again = harness.run.pending_approvals()[0].call_id.clone();
    assert_ne!(again, id);
    assert_eq!(again, CallId::derive("pay", "1.0.0", &json!({}), 1));
}

#[test]
fn denial_reason_is_shown_to_the_model() {
    let (mut harness, id) = awaiting_approval(json!({}));
    harness.decide(&id, Decision::Deny { reason: Some("too expensive".into()) }).unwrap();
    assert_eq!(harness.results(), [denied("pay", "approval_denied")]);
    assert!(harness.tool_contents()[0].contains("too expensive"));
    let details = harness.outputs().tools_by_id[&id].error.clone().unwrap().details.unwrap();
    assert_eq!(details["required_by"], json!(["tool"]));
    assert_eq!(harness.run.resource_usage().tool_calls, 0);
}

#[test]
fn call_is_denied_when_its_approval_request_expires() {
    let (mut harness, id) = awaiting_approval(json!({}));
    harness.millis = 1001;
    let before = harness.run.clone();
    assert_eq!(harness.decide(&id, Decision::Approve), Err(EventError::Expired(id.clone())));
    assert_eq!(harness.run, before);
    harness.apply(EventKind::Expired { call_id: id.clone() });
    assert_eq!(harness.results(), [denied("pay", "approval_expired")]);
    assert_eq!(harness.run.decisions()[0].outcome, ApprovalOutcome::Expired);
    assert_eq!(harness.send(EventKind::Expired { call_id: id.clone() }), Err(EventError::NotWaiting(id)));
}

#[test]
fn edited_call_gets_a_new_id() {
    let (mut harness, id) = awaiting_approval(json!({ "usd": 500 }));
    harness.decide(&id, Decision::Edit { input: json!({ "usd": 5 }) }).unwrap();
    let [Effect::PrepareAgain { call_id, call }] = &harness.run.pending()[..] else { panic!() };
    assert_eq!(call_id, &CallId::derive("pay", "1.0.0", &json!({ "usd": 5 }), 0));
    assert_eq!(call.input, json!({ "usd": 5 }));
    assert!(call.names.is_none(), "names in an edited input are looked up");
    let edited = call_id.clone();
    assert_eq!(harness.decide(&id, Decision::Approve), Err(EventError::NotAwaitingApproval(id.clone())));
    harness.prepare_again();
    harness.end_all();
    let outputs = harness.outputs();
    assert_eq!(outputs.tool_order, std::slice::from_ref(&edited));
    let envelope = &outputs.tools_by_id[&edited];
    assert_eq!((&envelope.metadata.edited_from, &envelope.input), (&Some(id.clone()), &json!({ "usd": 5 })));
    assert!(
        harness.tool_contents()[0].contains(r#"changed the arguments of this call to {"usd":5}"#),
        "{:?}",
        harness.tool_contents()
    );
    assert_eq!(harness.run.decisions()[0].outcome, ApprovalOutcome::Edited(edited));
}

#[test]
fn call_edited_to_the_same_input_gets_a_new_id() {
    let (mut harness, id) = awaiting_approval(json!({}));
    harness.decide(&id, Decision::Edit { input: json!({}) }).unwrap();
    harness.prepare_again();
    assert_eq!(harness.running()[0].call_id, CallId::derive("pay", "1.0.0", &json!({}), 1));
}

#[test]
fn call_with_invalid_edited_input_is_refused() {
    let (mut harness, id) = awaiting_approval(json!({}));
    harness.decide(&id, Decision::Edit { input: json!({ "bad": 1 }) }).unwrap();
    harness.prepare_again();
    let outputs = harness.outputs();
    let envelope = outputs.in_order().next().unwrap();
    assert_eq!(envelope.metadata.edited_from, Some(id));
    assert_eq!(reason(envelope).as_deref(), Some("input_schema"));
}

#[test]
fn edited_input_is_checked_by_guardrails() {
    let filter = json!({ "type": "content_filter", "parameters": { "words": ["evil"] } });
    let mut policy = Policy::allowing("home", TOOLS);
    policy.guardrails.push(serde_json::from_value(filter).unwrap());
    let mut harness = Harness::new(RunSpec { policy, ..spec() });
    harness.request_calls(vec![call("a", "pay", json!({}))]);
    let id = harness.run.pending_approvals()[0].call_id.clone();
    harness.decide(&id, Decision::Edit { input: json!({ "to": "evil corp" }) }).unwrap();
    harness.prepare_again();
    assert_eq!(harness.results(), [denied("pay", "content_filter")]);
}

#[test]
fn approval_for_a_different_tool_definition_is_rejected() {
    let (mut harness, id) = awaiting_approval(json!({}));
    let other = |decision| EventKind::ApprovalDecided {
        call_id: id.clone(),
        definition_hash: "hash-0".into(),
        decision,
        decided_by: None,
        reason: None,
    };
    assert_eq!(harness.send(other(Decision::Approve)), Err(EventError::DefinitionChanged(id.clone())));
    assert_eq!(
        harness.send(other(Decision::Edit { input: json!({}) })),
        Err(EventError::DefinitionChanged(id.clone()))
    );
    harness.decide(&id, Decision::Approve).unwrap();
    let mut changed = facts("pay");
    changed.definition_hash = "hash-2".into();
    harness.apply(EventKind::PreparedAgain { call_id: id, call: PreparedCall::Ready(Box::new(changed)) });
    assert_eq!(harness.results(), [denied("pay", "definition_changed")]);
}

#[test]
fn approval_is_void_if_a_definition_behind_the_tool_changed() {
    let with_closure = |closure: Option<&str>| {
        let mut facts = facts("pay");
        facts.closure_hash = closure.map(str::to_owned);
        PreparedCall::Ready(Box::new(facts))
    };
    for (shown, fresh, valid) in [
        (Some("a"), Some("a"), true),
        (Some("a"), Some("b"), false),
        (Some("a"), None, false),
        // A journal of an earlier release has no hash to compare with.
        (None, Some("b"), true),
    ] {
        let mut harness = Harness::new(spec());
        harness.reply(calls(vec![call("a", "pay", json!({}))]));
        harness.apply(EventKind::Prepared { iteration: 1, calls: vec![with_closure(shown)] });
        let id = harness.run.pending_approvals()[0].call_id.clone();
        harness.decide(&id, Decision::Approve).unwrap();
        harness.apply(EventKind::PreparedAgain { call_id: id, call: with_closure(fresh) });
        match valid {
            true => assert!(harness.running().iter().all(|call| call.approved) && harness.running().len() == 1),
            false => assert_eq!(harness.results(), [denied("pay", "definition_changed")], "{shown:?} {fresh:?}"),
        }
    }
}

#[test]
fn approved_call_is_refused_if_its_tool_was_blocked_after_the_request() {
    let (mut harness, id) = awaiting_approval(json!({}));
    harness.decide(&id, Decision::Approve).unwrap();
    let error =
        toolwright_types::ToolError::new(toolwright_types::ErrorCode::PolicyDenied, "blocked").reason("blocked");
    let refused = envelope("pay", "1.0.0", json!({}), Err(error));
    harness.apply(EventKind::PreparedAgain { call_id: id, call: PreparedCall::Refused(Box::new(refused)) });
    assert_eq!(harness.results(), [denied("pay", "blocked")]);
}

#[test]
fn other_calls_run_while_one_awaits_approval() {
    let mut harness = Harness::new(spec());
    harness.request_calls(vec![call("a", "pay", json!(1)), call("b", "search", json!(2))]);
    assert_eq!((harness.run.status(), harness.run.suspended()), (RunStatus::Running, false));
    harness.end_all();
    assert_eq!((harness.run.status(), harness.run.suspended()), (RunStatus::AwaitingApproval, true));
    let id = harness.run.pending_approvals()[0].call_id.clone();
    assert_eq!(harness.decide(&id, Decision::Deny { reason: None }), Ok(ApplyOutcome::Accepted));
    assert_eq!(harness.results(), [succeeded("search"), denied("pay", "approval_denied")]);
    assert!(harness.tool_contents()[0].contains("approval_denied"), "tool messages follow call order");
    assert!(harness.tool_contents()[1].contains("ok"));
}
