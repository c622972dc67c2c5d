//! Policy violations: the tool does not run, and the model sees the reason.

use serde_json::{Value, json};
use toolwright_machine::agent::{EventKind, PreparedCall, RunSpec};
use toolwright_machine::{Guardrail, Policy, RunStatus};
use toolwright_types::SideEffects;

use crate::harness::*;

fn with_policy(change: impl FnOnce(&mut Policy)) -> Harness {
    let mut policy = Policy::allowing("home", ALLOWED);
    change(&mut policy);
    Harness::new(RunSpec { policy, ..spec() })
}

fn with_guardrail(guardrail: Value) -> Harness {
    let guardrail: Guardrail = serde_json::from_value(guardrail).unwrap();
    with_policy(|policy| policy.guardrails.push(guardrail))
}

#[test]
fn tool_outside_the_allow_list_is_refused_before_input_validation() {
    let mut harness = with_policy(|_| {});
    harness.request_calls(vec![call("a", "hidden", json!({})), call("b", "hidden", json!({ "bad": 1 }))]);
    assert_eq!(harness.results(), [denied("hidden", "not_allowed"), denied("hidden", "not_allowed")]);
    assert_eq!(harness.outputs().in_order().next().unwrap().version, "1.0.0");
    assert_eq!(harness.run.status(), RunStatus::Running, "the model can react");
    assert!(
        harness.tool_contents()[0]
            .starts_with(r#"{"error":{"code":"POLICY_DENIED","message":"this agent may not call `hidden`"#)
    );
}

#[test]
fn tool_names_in_the_allow_list_are_case_insensitive() {
    let mut harness = with_policy(|policy| policy.enabled_tools = ["SEARCH".to_owned()].into());
    harness.request_calls(vec![call("a", "search", json!({})), call("b", "save", json!({}))]);
    assert_eq!(harness.running().len(), 1);
    assert_eq!(harness.results(), [denied("save", "not_allowed")]);
}

#[test]
fn call_with_stronger_side_effects_than_the_policy_allows_is_refused() {
    for (allowed, search, save) in
        [(SideEffects::Writes, true, true), (SideEffects::Reads, true, false), (SideEffects::None, false, false)]
    {
        let mut harness = with_policy(|policy| policy.side_effects = allowed);
        harness.request_calls(vec![call("a", "search", json!({})), call("b", "save", json!({}))]);
        let running: Vec<String> = harness.running().into_iter().map(|call| call.facts.name).collect();
        assert_eq!(running.contains(&"search".to_owned()), search, "{allowed:?}");
        assert_eq!(running.contains(&"save".to_owned()), save, "{allowed:?}");
        assert!(harness.results().iter().all(|(_, _, reason)| reason.as_deref() == Some("side_effects")));
    }
}

#[test]
fn no_delete_guardrail_refuses_tools_that_delete() {
    let mut harness = with_guardrail(json!({ "type": "no_delete" }));
    harness.request_calls(vec![call("a", "delete_deal", json!({})), call("b", "save", json!({}))]);
    assert_eq!(harness.results(), [denied("delete_deal", "no_delete")]);
    assert_eq!(harness.running()[0].facts.name, "save");
}

#[test]
fn max_cost_guardrail_lowers_the_cost_limit() {
    let mut harness = with_guardrail(json!({ "type": "max_cost", "parameters": { "maxCostUsd": 0.005 } }));
    harness.request_calls(vec![call("a", "search", json!({}))]);
    assert_eq!(harness.results(), [denied("search", "MAX_COST_EXCEEDED")]);
    assert_eq!(harness.ending().status, RunStatus::BudgetExceeded);
}

#[test]
fn call_whose_input_contains_a_blocked_word_is_refused() {
    let rules = json!({ "words": ["launch code"], "appliesTo": "input" });
    let mut harness = with_guardrail(json!({ "type": "content_filter", "parameters": rules }));
    harness.request_calls(vec![
        call("a", "search", json!({ "q": ["the LAUNCH CODE"] })),
        call("b", "search", json!({ "q": "x" })),
    ]);
    assert_eq!(harness.results(), [denied("search", "content_filter")]);
    let other = harness.running().remove(0);
    harness.end_call(&other, Ok(json!("launch code")));
    assert_eq!(harness.results()[1], succeeded("search"), "only the input is filtered");
}

#[test]
fn output_that_matches_a_blocked_pattern_is_removed() {
    let mut harness =
        with_guardrail(json!({ "type": "content_filter", "parameters": { "patterns": ["\\d{4}-\\d{4}"] } }));
    harness.request_calls(vec![call("a", "search", json!({ "q": "card" }))]);
    let search = harness.running().remove(0);
    harness.end_call(&search, Ok(json!({ "card": "1234-5678" })));
    assert_eq!(harness.results(), [denied("search", "content_filter")]);
    let saved = harness.run.save();
    assert!(!saved.contains("1234-5678"), "the filtered text must not be saved");
}

#[test]
fn error_that_contains_a_blocked_word_is_replaced() {
    let mut harness = with_guardrail(json!({ "type": "content_filter", "parameters": { "words": ["hunter2"] } }));
    harness.request_calls(vec![call("a", "search", json!({}))]);
    let search = harness.running().remove(0);
    let error =
        toolwright_types::ToolError::new(toolwright_types::ErrorCode::ProviderError, "password hunter2 is wrong");
    harness.end_call(&search, Err(error));
    assert_eq!(harness.results(), [denied("search", "content_filter")]);
}

#[test]
fn realm_boundary_refuses_calls_to_unlisted_realms() {
    let touching = |realms: &[&str]| {
        let realms: std::collections::BTreeSet<String> = realms.iter().map(|realm| (*realm).to_owned()).collect();
        move |call: &toolwright_machine::agent::CallToPrepare| {
            let mut facts = facts(&call.tool);
            facts.realms.clone_from(&realms);
            PreparedCall::Ready(Box::new(facts))
        }
    };
    for (realms, allowed) in
        [(&[][..], true), (&["home"], true), (&["home", "friend"], true), (&["home", "stranger"], false)]
    {
        let mut harness = with_guardrail(json!({ "type": "realm_boundary", "parameters": { "realms": ["friend"] } }));
        harness.reply(calls(vec![call("a", "search", json!({}))]));
        harness.prepare_as(touching(realms));
        assert_eq!(harness.running().len() == 1, allowed, "{realms:?}");
        if !allowed {
            assert_eq!(harness.results(), [denied("search", "realm_boundary")]);
        }
    }
}

#[test]
fn error_of_a_call_refused_during_preparation_is_kept_unchanged() {
    let mut harness = with_policy(|_| {});
    harness.request_calls(vec![call("a", "search", json!({ "bad": 1 }))]);
    let outputs = harness.outputs();
    let envelope = outputs.in_order().next().unwrap();
    assert_eq!(envelope.error.as_ref().unwrap().message, "`bad` is not a field");
    assert_eq!((envelope.version.as_str(), &envelope.input), ("1.0.0", &json!({ "bad": 1 })));
    harness.reply(text("I see"));
    assert_eq!(harness.send(EventKind::TimerFired), Ok(toolwright_machine::agent::ApplyOutcome::AlreadyEnded));
}
