//! Runs with predefined calls instead of a model.

use serde_json::json;
use toolwright_machine::RunStatus;
use toolwright_machine::agent::{Decision, Effect, PredefinedCall, RunSpec};
use toolwright_types::{ErrorCode, ToolError};

use crate::harness::{Harness, spec};

fn predefined(tools: &[&str]) -> RunSpec {
    let calls = tools.iter().map(|tool| PredefinedCall { tool: (*tool).to_owned(), input: json!({ "of": tool }) });
    RunSpec { predefined_calls: calls.collect(), ..spec() }
}

#[test]
fn predefined_calls_run_in_sequence_without_a_model() {
    let mut harness = Harness::new(predefined(&["save", "search"]));
    for tool in ["save", "search"] {
        harness.prepare();
        let running = harness.running();
        assert_eq!((running.len(), running[0].facts.name.as_str()), (1, tool));
        harness.end_all();
    }
    assert_eq!(harness.run.status(), RunStatus::Completed);
    assert_eq!(harness.run.outputs().in_order().count(), 2);
    assert!(harness.run.pending().iter().all(|effect| matches!(effect, Effect::Finish { .. })));
}

#[test]
fn later_predefined_calls_run_after_a_failure_and_the_run_fails() {
    let mut harness = Harness::new(predefined(&["save", "search"]));
    harness.prepare();
    let call = harness.running().remove(0);
    harness.end_call(&call, Err(ToolError::new(ErrorCode::ProviderError, "no")));
    harness.prepare();
    harness.end_all();
    let ending = harness.run.ending().unwrap();
    assert_eq!((ending.status, ending.reason.as_deref()), (RunStatus::Error, Some("calls_failed")));
}

#[test]
fn predefined_call_requires_approval_if_its_tool_requires_confirmation() {
    let mut harness = Harness::new(predefined(&["pay"]));
    harness.prepare();
    let asked = harness.run.pending_approvals();
    assert_eq!(harness.run.status(), RunStatus::AwaitingApproval);
    harness.decide(&asked[0].call_id, Decision::Deny { reason: None }).unwrap();
    assert_eq!(harness.run.status(), RunStatus::Error);
}
