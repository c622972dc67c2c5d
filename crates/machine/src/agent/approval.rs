//! Applies approval decisions. Each call gets one decision. An approved call is prepared again before it runs, because
//! the definition of its tool may have changed.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use toolwright_types::{CallId, Timestamp, ToolError};

use super::call::{Call, CallState};
use super::closer::{CallCloser, denied};
use super::depth::limit_depth;
use super::run::AgentRun;
use super::{Decision, PreparedCall, decide, interrupted_calls};
use crate::ApprovalTrigger;

/// The decision on one call, with the settings that required it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ApprovalRecord {
    /// The call that was shown to the person.
    pub call_id: CallId,
    /// The settings that required the decision.
    pub triggers: Vec<ApprovalTrigger>,
    /// The decision.
    pub outcome: ApprovalOutcome,
    /// The person who decided.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decided_by: Option<String>,
    /// The time of the decision.
    pub at: Timestamp,
}

impl ApprovalRecord {
    /// Whether a person approved the call with this id, with its original input or with an edited input.
    pub(super) fn approves(&self, call_id: &CallId) -> bool {
        match &self.outcome {
            ApprovalOutcome::Approved => self.call_id == *call_id,
            ApprovalOutcome::Edited(edited) => edited == call_id,
            ApprovalOutcome::Denied | ApprovalOutcome::Expired => false,
        }
    }
}

/// The outcome of an approval request.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ApprovalOutcome {
    /// The call may run.
    Approved,
    /// The call may not run.
    Denied,
    /// The call runs with another input, under this id.
    Edited(CallId),
    /// The request expired without a decision.
    Expired,
}

pub(super) fn apply_decision(run: &mut AgentRun, id: &CallId, decision: Decision, decided_by: Option<String>) {
    record_decision(run, id, decided_by, |call, closer, triggers| match decision {
        Decision::Approve => {
            call.intended_at = None;
            call.state = CallState::Approved;
            ApprovalOutcome::Approved
        }
        Decision::Deny { reason } if call.intended_at.is_some() => {
            closer.fail(
                call,
                interrupted_calls::outcome_unknown(
                    reason.as_deref().unwrap_or("a person was asked and decided not to repeat it"),
                ),
            );
            ApprovalOutcome::Denied
        }
        Decision::Deny { reason } => {
            let message = reason.unwrap_or_else(|| "a person denied this call".to_owned());
            closer.fail(call, not_approved_error("approval_denied", message, triggers));
            ApprovalOutcome::Denied
        }
        Decision::Edit { input } => ApprovalOutcome::Edited(edit(closer, call, input)),
    });
}

pub(super) fn expire(run: &mut AgentRun, id: &CallId) {
    record_decision(run, id, None, |call, closer, triggers| {
        if call.intended_at.is_some() {
            closer.fail(call, interrupted_calls::outcome_unknown("a person was asked and did not decide in time"));
            return ApprovalOutcome::Expired;
        }
        let message = "the approval request expired without a decision".to_owned();
        closer.fail(call, not_approved_error("approval_expired", message, triggers));
        ApprovalOutcome::Expired
    });
}

pub(super) fn apply_second_preparation(run: &mut AgentRun, id: &CallId, result: PreparedCall) {
    run.with_call(id, |call, closer| match (decide::decide_approved(closer.spec, &call.input, &result), result) {
        (Ok(()), PreparedCall::Ready(facts)) if has_same_definition(call, &facts) => {
            call.facts = Some(*facts);
            call.state = CallState::Queued;
        }
        (Ok(()), _) => {
            let message = "the tool, its provider or a tool that it may call changed after the approval was requested; \
                           request the call again";
            closer.fail(call, denied("definition_changed", message));
        }
        (Err(error), PreparedCall::Refused(envelope)) => closer.refuse(call, error, *envelope),
        (Err(error), PreparedCall::Ready(_)) => closer.fail(call, error),
    });
}

/// Applies `act` to a call that awaits approval and records the outcome.
fn record_decision(
    run: &mut AgentRun,
    id: &CallId,
    decided_by: Option<String>,
    act: impl FnOnce(&mut Call, &mut CallCloser<'_>, &[ApprovalTrigger]) -> ApprovalOutcome,
) {
    let record = run.with_call(id, |call, closer| {
        let CallState::AwaitingApproval { triggers, .. } = &call.state else {
            return None;
        };
        let triggers = triggers.clone();
        let outcome = act(call, closer, &triggers);
        Some(ApprovalRecord { call_id: id.clone(), triggers, outcome, decided_by, at: closer.now })
    });
    run.decisions.extend(record.flatten());
}

/// Replaces the input of the call and gives it a new id.
fn edit(closer: &mut CallCloser<'_>, call: &mut Call, input: Value) -> CallId {
    let input = limit_depth(input);
    let (call_id, _) = closer.ledger.next_call_id(&call.name, &call.version, &input);
    // The signature is not changed. If the model requests the original input again, that request counts as a repeat.
    call.edited_from = Some(std::mem::replace(&mut call.call_id, call_id.clone()));
    call.input = input;
    call.state = CallState::Approved;
    call_id
}

fn has_same_definition(call: &Call, fresh: &super::CallFacts) -> bool {
    call.facts.as_ref().is_some_and(|shown| {
        let same_closure = shown.closure_hash.is_none() || shown.closure_hash == fresh.closure_hash;
        let same_tool = shown.name == fresh.name && shown.version == fresh.version;
        shown.definition_hash == fresh.definition_hash && same_tool && same_closure
    })
}

fn not_approved_error(reason: &str, message: String, triggers: &[ApprovalTrigger]) -> ToolError {
    let names: Vec<&str> = triggers.iter().map(|trigger| trigger.as_str()).collect();
    denied(reason, message).detail("required_by", names)
}
