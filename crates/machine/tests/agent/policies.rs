//! What an agent may not do: the model is told why, and the tool does not run.

use serde_json::{Value, json};
use toolwright_machine::agent::{Happened, Prepared, Spec};
use toolwright_machine::{Guardrail, Policy, RunStatus};
use toolwright_types::SideEffects;

use crate::bench::*;

fn under(change: impl FnOnce(&mut Policy)) -> Bench {
    let mut policy = Policy::allowing("home", ALLOWED);
    change(&mut policy);
    Bench::new(Spec { policy, ..spec() })
}

fn guarded(guardrail: Value) -> Bench {
    let guardrail: Guardrail = serde_json::from_value(guardrail).unwrap();
    under(|policy| policy.guardrails.push(guardrail))
}

#[test]
fn a_tool_off_the_list_is_refused_even_if_its_input_is_wrong() {
    let mut bench = under(|_| {});
    bench.ask(vec![call("a", "hidden", json!({})), call("b", "hidden", json!({ "bad": 1 }))]);
    assert_eq!(bench.receipts(), [denied("hidden", "not_allowed"), denied("hidden", "not_allowed")]);
    assert_eq!(bench.outputs().in_order().next().unwrap().version, "1.0.0");
    assert_eq!(bench.run.status(), RunStatus::Running, "the model may react");
    assert!(
        bench.told()[0].starts_with(r#"{"error":{"code":"POLICY_DENIED","message":"this agent may not call `hidden`"#)
    );
}

#[test]
fn the_list_does_not_mind_case() {
    let mut bench = under(|policy| policy.enabled_tools = ["SEARCH".to_owned()].into());
    bench.ask(vec![call("a", "search", json!({})), call("b", "save", json!({}))]);
    assert_eq!(bench.running().len(), 1);
    assert_eq!(bench.receipts(), [denied("save", "not_allowed")]);
}

#[test]
fn effects_are_bounded() {
    for (allowed, search, save) in
        [(SideEffects::Writes, true, true), (SideEffects::Reads, true, false), (SideEffects::None, false, false)]
    {
        let mut bench = under(|policy| policy.side_effects = allowed);
        bench.ask(vec![call("a", "search", json!({})), call("b", "save", json!({}))]);
        let running: Vec<String> = bench.running().into_iter().map(|call| call.facts.name).collect();
        assert_eq!(running.contains(&"search".to_owned()), search, "{allowed:?}");
        assert_eq!(running.contains(&"save".to_owned()), save, "{allowed:?}");
        assert!(bench.receipts().iter().all(|(_, _, reason)| reason.as_deref() == Some("side_effects")));
    }
}

#[test]
fn no_delete_refuses_what_deletes() {
    let mut bench = guarded(json!({ "type": "no_delete" }));
    bench.ask(vec![call("a", "delete_deal", json!({})), call("b", "save", json!({}))]);
    assert_eq!(bench.receipts(), [denied("delete_deal", "no_delete")]);
    assert_eq!(bench.running()[0].facts.name, "save");
}

#[test]
fn max_cost_tightens_the_limit() {
    let mut bench = guarded(json!({ "type": "max_cost", "parameters": { "maxCostUsd": 0.005 } }));
    bench.ask(vec![call("a", "search", json!({}))]);
    assert_eq!(bench.receipts(), [denied("search", "MAX_COST_EXCEEDED")]);
    assert_eq!(bench.ending().status, RunStatus::BudgetExceeded);
}

#[test]
fn filtered_input_is_not_sent() {
    let rules = json!({ "words": ["launch code"], "appliesTo": "input" });
    let mut bench = guarded(json!({ "type": "content_filter", "parameters": rules }));
    bench.ask(vec![call("a", "search", json!({ "q": ["the LAUNCH CODE"] })), call("b", "search", json!({ "q": "x" }))]);
    assert_eq!(bench.receipts(), [denied("search", "content_filter")]);
    let other = bench.running().remove(0);
    bench.end_call(&other, Ok(json!("launch code")));
    assert_eq!(bench.receipts()[1], fine("search"), "only the input is looked at");
}

#[test]
fn filtered_output_is_not_shown() {
    let mut bench = guarded(json!({ "type": "content_filter", "parameters": { "patterns": ["\\d{4}-\\d{4}"] } }));
    bench.ask(vec![call("a", "search", json!({ "q": "card" }))]);
    let search = bench.running().remove(0);
    bench.end_call(&search, Ok(json!({ "card": "1234-5678" })));
    assert_eq!(bench.receipts(), [denied("search", "content_filter")]);
    let saved = bench.run.save();
    assert!(!saved.contains("1234-5678"), "it is kept nowhere");
}

#[test]
fn filtered_words_do_not_slip_through_in_an_error() {
    let mut bench = guarded(json!({ "type": "content_filter", "parameters": { "words": ["hunter2"] } }));
    bench.ask(vec![call("a", "search", json!({}))]);
    let search = bench.running().remove(0);
    let error =
        toolwright_types::ToolError::new(toolwright_types::ErrorCode::ProviderError, "password hunter2 is wrong");
    bench.end_call(&search, Err(error));
    assert_eq!(bench.receipts(), [denied("search", "content_filter")]);
}

#[test]
fn a_realm_boundary_holds() {
    let touching = |realms: &[&str]| {
        let realms: std::collections::BTreeSet<String> = realms.iter().map(|realm| (*realm).to_owned()).collect();
        move |call: &toolwright_machine::agent::CallToPrepare| {
            let mut facts = facts(&call.tool);
            facts.realms.clone_from(&realms);
            Prepared::Ready(Box::new(facts))
        }
    };
    for (realms, allowed) in
        [(&[][..], true), (&["home"], true), (&["home", "friend"], true), (&["home", "stranger"], false)]
    {
        let mut bench = guarded(json!({ "type": "realm_boundary", "parameters": { "realms": ["friend"] } }));
        bench.reply(calls(vec![call("a", "search", json!({}))]));
        bench.prepare_as(touching(realms));
        assert_eq!(bench.running().len() == 1, allowed, "{realms:?}");
        if !allowed {
            assert_eq!(bench.receipts(), [denied("search", "realm_boundary")]);
        }
    }
}

#[test]
fn what_the_preparation_refuses_is_shown_as_it_is() {
    let mut bench = under(|_| {});
    bench.ask(vec![call("a", "search", json!({ "bad": 1 }))]);
    let outputs = bench.outputs();
    let envelope = outputs.in_order().next().unwrap();
    assert_eq!(envelope.error.as_ref().unwrap().message, "`bad` is not a field");
    assert_eq!((envelope.version.as_str(), &envelope.input), ("1.0.0", &json!({ "bad": 1 })));
    bench.reply(text("I see"));
    assert_eq!(bench.send(Happened::TimePassed), Ok(toolwright_machine::agent::Applied::Late));
}
