//! Format compatibility: saved runs and events of earlier versions remain readable.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use toolwright_machine::agent::{ClientResult, Decision, Event, EventKind, RestoreError, RunSpec};
use toolwright_machine::{AgentRun, Limits, Policy, RunStatus};

use crate::harness::*;

/// A run in format version 1. Do not regenerate this file. If the code can no longer read it, the format needs a new
/// version.
const SAVED_V1: &str = include_str!("../data/saved-v1.json");

/// Journal events in format version 1.
const EVENTS_V1: &str = include_str!("../data/events-v1.json");

/// A run that awaits an approval, a second preparation and a client, with one call done and one refused.
fn waiting() -> Harness {
    let mut policy = Policy::allowing("home", ALLOWED);
    policy.requires_approval = true;
    policy.guardrails = [
        json!({ "type": "max_cost", "parameters": { "maxCostUsd": 0.5 } }),
        json!({ "type": "no_delete" }),
        json!({ "type": "require_confirmation", "parameters": { "tools": ["pay"], "sideEffects": "writes" } }),
        json!({ "type": "content_filter", "parameters": { "words": ["evil"], "patterns": ["x{3}"] } }),
        json!({ "type": "realm_boundary", "parameters": { "realms": ["friend"] } }),
    ]
    .map(|guardrail| serde_json::from_value(guardrail).unwrap())
    .to_vec();
    let mut harness = Harness::new(RunSpec {
        policy,
        limits: Limits { max_tokens: Some(10_000), ..Limits::default() },
        approval_wait_ms: Some(60_000),
        client_wait_ms: Some(60_000),
        traces_url: Some("http://traces/7".into()),
        ..spec()
    });
    harness.run.next();
    harness.millis = 120;
    let mut first = calls(vec![call("m0", "search", json!({ "q": 0 }))]);
    first.content = "Let me look.".into();
    first.thinking = vec![json!({ "signature": "abc" })];
    first.cost_usd = None;
    harness.reply(first);
    harness.prepare();
    harness.end_all();
    harness.request_calls(vec![
        call("m1", "pay", json!({ "usd": 5 })),
        call("m2", "browser", json!({ "open": "tab" })),
        call("m3", "delete_deal", json!({ "id": 1 })),
        call("m4", "save", json!({ "id": 2 })),
        call("m5", "search", json!({ "q": 0 })),
    ]);
    harness.run.next();
    let search = harness.running().remove(1);
    harness.end_call(&search, Ok(json!({ "hits": [1.5, null, "ä"] })));
    harness.hand_over();
    let save = harness.run.pending_approvals()[1].call_id.clone();
    harness.decide(&save, Decision::Edit { input: json!({ "id": 3 }) }).unwrap();
    harness
}

#[test]
fn saved_run_equals_the_stored_example_of_format_version_1() {
    let harness = waiting();
    let saved: Value = serde_json::from_str(&harness.run.save()).unwrap();
    assert_eq!(saved, serde_json::from_str::<Value>(SAVED_V1).unwrap());
    assert_eq!(AgentRun::restore(&harness.run.save()).unwrap(), harness.run);
}

#[test]
fn run_saved_in_format_version_1_continues_to_its_end() {
    let run = AgentRun::restore(SAVED_V1).unwrap();
    let mut harness = Harness { run, millis: 500 };
    assert_eq!(harness.run.status(), RunStatus::Running);
    harness.prepare_again();
    harness.end_all();
    assert_eq!(harness.run.status(), RunStatus::AwaitingApproval);
    let pay = harness.run.pending_approvals().remove(0);
    harness.decide(&pay.call_id, Decision::Deny { reason: Some("no".into()) }).unwrap();
    let tab = harness.run.pending_client_actions().remove(0);
    harness.apply(EventKind::ClientReturned { call_id: tab.call_id, result: ClientResult::Output(json!("opened")) });
    harness.reply(text("All done."));
    assert_eq!(harness.ending().status, RunStatus::Completed);
    assert_eq!(harness.outputs().response, "All done.");
    assert_eq!(
        harness.results(),
        [
            succeeded("search"),
            denied("delete_deal", "no_delete"),
            succeeded("browser"),
            succeeded("search"),
            succeeded("save"),
            denied("pay", "approval_denied"),
        ]
    );
}

#[test]
fn events_stored_in_format_version_1_are_read() {
    let written: Vec<Value> = serde_json::from_str(EVENTS_V1).unwrap();
    for event in &written {
        let read: Event = serde_json::from_value(event.clone()).unwrap_or_else(|error| panic!("{event}: {error}"));
        assert_eq!(serde_json::to_value(&read).unwrap(), *event);
    }
    let kinds: BTreeSet<&str> = written.iter().filter_map(|event| event["kind"]["type"].as_str()).collect();
    assert_eq!(kinds.len(), 17, "{kinds:?}");
}

#[test]
fn restore_rejects_invalid_json_and_newer_versions_and_damaged_content() {
    let restore = |text: &str| AgentRun::restore(text).unwrap_err();
    assert!(matches!(restore("{"), RestoreError::Unreadable(_)));
    assert!(matches!(restore(r#"{"run":{}}"#), RestoreError::Unreadable(_)));
    assert!(matches!(restore(r#"{"v":2,"run":{}}"#), RestoreError::Version(2)));
    assert!(matches!(restore(r#"{"v":1,"run":{}}"#), RestoreError::Damaged { version: 1, .. }));
}
