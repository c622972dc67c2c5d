//! The approval of a plan: who decides, which edits are accepted, and how a refusal ends the run.

use serde_json::{Value, json};
use toolwright_machine::RunStatus;
use toolwright_machine::agent::{APPROVE_PLAN_TOOL, Decision, EventError, EventKind, PreparedCall, RunSpec};

use crate::harness::{Harness, facts};
use crate::plans::{plan, planned};

fn approvable() -> RunSpec {
    let mut spec = planned(|plan| plan.requires_approval = true);
    spec.policy.enabled_tools.insert(APPROVE_PLAN_TOOL.into());
    spec
}

/// Starts a run with a plan. `confirms` tells whether the tool that is called for the approval asks a person.
fn start(confirms: bool) -> Harness {
    let mut harness = Harness::new(approvable());
    harness.reply(plan(json!([{ "step": 2, "parameters": { "id": 1 } }])));
    harness.prepare_as(|call| {
        let mut facts = facts("search");
        (facts.name, facts.requires_confirmation) = (call.tool.clone(), confirms);
        PreparedCall::Ready(Box::new(facts))
    });
    harness
}

#[test]
fn plan_is_not_executed_if_the_tool_for_its_approval_asked_no_person() {
    let mut harness = start(false);
    harness.end_all();
    assert_eq!(harness.ending().reason.as_deref(), Some("approval_denied"));
    assert_eq!(harness.ending().message.as_deref(), Some("no person approved the plan"));
    assert!(harness.outputs().in_order().all(|envelope| envelope.name != "save"));
}

#[test]
fn invalid_edit_of_a_plan_is_rejected_and_the_approval_stays_pending() {
    let mut harness = start(true);
    let asked = harness.run.pending_approvals().remove(0);
    let mut rejected = |input: Value| match harness.decide(&asked.call_id, Decision::Edit { input }) {
        Err(EventError::InvalidPlan { issues, .. }) => issues[0].to_string(),
        other => panic!("{other:?}"),
    };
    assert!(rejected(json!("go")).contains("invalid type"));
    assert_eq!(rejected(json!({ "steps": [] })), "/steps: must have at least one step");
    let unknown = json!({ "steps": [{ "step": 9, "parameters": {} }] });
    assert_eq!(rejected(unknown), "/steps/0/step: must be a step of the sequence (1, 2), got 9");
    assert_eq!(harness.run.status(), RunStatus::AwaitingApproval);
    assert_eq!(harness.run.decisions(), []);
    let valid = json!({ "steps": [{ "step": 2, "parameters": { "id": 2 } }] });
    harness.decide(&asked.call_id, Decision::Edit { input: valid }).unwrap();
}

#[test]
fn plan_that_no_person_approved_in_time_ends_the_run_with_its_own_reason() {
    let mut harness = start(true);
    let call_id = harness.run.pending_approvals().remove(0).call_id;
    harness.apply(EventKind::Expired { call_id });
    assert_eq!(harness.ending().reason.as_deref(), Some("approval_expired"));
}
