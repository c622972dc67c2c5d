//! Runs that know what to do before they begin.

use serde_json::json;
use toolwright_machine::RunStatus;
use toolwright_machine::agent::{Decision, Effect, PlannedCall, Spec};
use toolwright_types::{ErrorCode, ToolError};

use crate::bench::{Bench, spec};

fn planned(tools: &[&str]) -> Spec {
    let plan = tools.iter().map(|tool| PlannedCall { tool: (*tool).to_owned(), input: json!({ "of": tool }) });
    Spec { plan: plan.collect(), ..spec() }
}

#[test]
fn planned_calls_are_made_one_after_the_other_and_no_model_is_asked() {
    let mut bench = Bench::new(planned(&["save", "search"]));
    for tool in ["save", "search"] {
        bench.prepare();
        let running = bench.running();
        assert_eq!((running.len(), running[0].facts.name.as_str()), (1, tool));
        bench.end_all();
    }
    assert_eq!(bench.run.status(), RunStatus::Completed);
    assert_eq!(bench.run.outputs().in_order().count(), 2);
    assert!(bench.run.pending().iter().all(|effect| matches!(effect, Effect::Finish { .. })));
}

#[test]
fn a_call_that_fails_keeps_nobody_from_the_next_and_is_told_at_the_end() {
    let mut bench = Bench::new(planned(&["save", "search"]));
    bench.prepare();
    let call = bench.running().remove(0);
    bench.end_call(&call, Err(ToolError::new(ErrorCode::ProviderError, "no")));
    bench.prepare();
    bench.end_all();
    let ending = bench.run.ending().unwrap();
    assert_eq!((ending.status, ending.reason.as_deref()), (RunStatus::Error, Some("plan_incomplete")));
}

#[test]
fn a_person_is_asked_as_in_any_run() {
    let mut bench = Bench::new(planned(&["pay"]));
    bench.prepare();
    let asked = bench.run.approvals();
    assert_eq!(bench.run.status(), RunStatus::AwaitingApproval);
    bench.decide(&asked[0].call_id, Decision::Deny { reason: None }).unwrap();
    assert_eq!(bench.run.status(), RunStatus::Error);
}
