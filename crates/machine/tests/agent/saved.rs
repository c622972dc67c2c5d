//! Yesterday's bytes: a run that was saved once is read for ever.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use toolwright_machine::agent::{ClientResult, Decision, Event, Happened, RestoreError, Spec};
use toolwright_machine::{AgentRun, Limits, Policy, RunStatus};

use crate::bench::*;

/// Written by the first release. Never written again: a format that cannot read it is a new version.
const SAVED_V1: &str = include_str!("../data/saved-v1.json");

/// One event of every kind, as the first release wrote them into journals.
const EVENTS_V1: &str = include_str!("../data/events-v1.json");

/// A run that waits for two people and a client, with one call done and one refused.
fn waiting() -> Bench {
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
    let mut bench = Bench::new(Spec {
        policy,
        limits: Limits { max_tokens: Some(10_000), ..Limits::default() },
        approval_wait_ms: Some(60_000),
        client_wait_ms: Some(60_000),
        traces_url: Some("http://traces/7".into()),
        ..spec()
    });
    bench.run.next();
    bench.millis = 120;
    let mut first = calls(vec![call("m0", "search", json!({ "q": 0 }))]);
    first.content = "Let me look.".into();
    first.thinking = vec![json!({ "signature": "abc" })];
    first.cost_usd = None;
    bench.reply(first);
    bench.prepare();
    bench.end_all();
    bench.ask(vec![
        call("m1", "pay", json!({ "usd": 5 })),
        call("m2", "browser", json!({ "open": "tab" })),
        call("m3", "delete_deal", json!({ "id": 1 })),
        call("m4", "save", json!({ "id": 2 })),
        call("m5", "search", json!({ "q": 0 })),
    ]);
    bench.run.next();
    let search = bench.running().remove(1);
    bench.end_call(&search, Ok(json!({ "hits": [1.5, null, "ä"] })));
    bench.hand_over();
    let save = bench.run.approvals()[1].call_id.clone();
    bench.decide(&save, Decision::Edit { input: json!({ "id": 3 }) }).unwrap();
    bench
}

#[test]
fn todays_run_is_saved_as_the_first_release_did() {
    let bench = waiting();
    let saved: Value = serde_json::from_str(&bench.run.save()).unwrap();
    assert_eq!(saved, serde_json::from_str::<Value>(SAVED_V1).unwrap());
    assert_eq!(AgentRun::restore(&bench.run.save()).unwrap(), bench.run);
}

#[test]
fn a_run_of_the_first_release_goes_on() {
    let run = AgentRun::restore(SAVED_V1).unwrap();
    let mut bench = Bench { run, millis: 500 };
    assert_eq!(bench.run.status(), RunStatus::Running);
    bench.prepare_again();
    bench.end_all();
    assert_eq!(bench.run.status(), RunStatus::AwaitingApproval);
    let pay = bench.run.approvals().remove(0);
    bench.decide(&pay.call_id, Decision::Deny { reason: Some("no".into()) }).unwrap();
    let tab = bench.run.client_actions().remove(0);
    bench.tell(Happened::ClientReturned { call_id: tab.call_id, result: ClientResult::Output(json!("opened")) });
    bench.reply(text("All done."));
    assert_eq!(bench.ending().status, RunStatus::Completed);
    assert_eq!(bench.outputs().response, "All done.");
    assert_eq!(
        bench.receipts(),
        [
            fine("search"),
            denied("delete_deal", "no_delete"),
            fine("browser"),
            fine("search"),
            fine("save"),
            denied("pay", "approval_denied"),
        ]
    );
}

#[test]
fn events_of_the_first_release_are_read() {
    let written: Vec<Value> = serde_json::from_str(EVENTS_V1).unwrap();
    for event in &written {
        let read: Event = serde_json::from_value(event.clone()).unwrap_or_else(|error| panic!("{event}: {error}"));
        assert_eq!(serde_json::to_value(&read).unwrap(), *event);
    }
    let kinds: BTreeSet<&str> = written.iter().filter_map(|event| event["what"]["type"].as_str()).collect();
    assert_eq!(kinds.len(), 12, "{kinds:?}");
}

#[test]
fn what_is_no_saved_run_is_refused_with_its_kind() {
    let restore = |text: &str| AgentRun::restore(text).unwrap_err();
    assert!(matches!(restore("{"), RestoreError::Unreadable(_)));
    assert!(matches!(restore(r#"{"run":{}}"#), RestoreError::Unreadable(_)));
    assert!(matches!(restore(r#"{"v":2,"run":{}}"#), RestoreError::Version(2)));
    assert!(matches!(restore(r#"{"v":1,"run":{}}"#), RestoreError::Damaged { version: 1, .. }));
}
