//! Recovers calls whose driver was lost after it recorded the intent. An idempotent call is repeated. A call whose tool
//! has a verify operation is verified. For any other call, the outcome is unknown: this is reported to the model, or a
//! person decides. A write that is not idempotent is repeated only after a verification or a person's decision.

use toolwright_types::{CallId, ErrorCode, ExecutionSite, ToolError, UnknownOutcome};

use super::call::{Call, CallState};
use super::closer::CallCloser;
use super::decide::is_captured;
use super::preparation::approval_expiry;
use super::run::AgentRun;
use super::{CallFacts, EffectId};
use crate::ApprovalTrigger;

pub(super) fn record_intent(run: &mut AgentRun, id: &CallId) {
    run.with_call(id, |call, closer| {
        // A second intent starts a new attempt, so that a late outcome of the first attempt is not accepted for the
        // second.
        call.attempt += u32::from(call.intended_at.is_some());
        call.intended_at = Some(closer.now);
    });
}

/// Recovers the interrupted calls of the run, or only the call `only`. Calls without an intent need no recovery: they
/// were not executed, or executing them again is harmless.
pub(super) fn recover(run: &mut AgentRun, only: Option<&CallId>) {
    if let Some(id) = only {
        // The driver of this effect was lost, so `next` must issue the effect again.
        run.issued.retain(|issued| *issued != EffectId::Call(id.clone()));
    }
    let (batch, mut closer) = run.split_batch();
    let calls = batch.into_iter().flat_map(|batch| &mut batch.calls);
    let calls = calls.filter(|call| only.is_none_or(|id| call.call_id == *id));
    for call in calls.filter(|call| call.state == CallState::Running && call.intended_at.is_some()) {
        call.attempt += 1;
        let facts = call.facts.as_ref();
        // A captured call is never executed, and for a client tool only the payload was being prepared. So calls of
        // both kinds can be repeated like idempotent calls.
        let repeatable = |facts: &CallFacts| {
            let for_client = facts.execution_site == ExecutionSite::Client;
            facts.idempotent || for_client || is_captured(&closer.spec.policy, facts)
        };
        if facts.is_some_and(repeatable) {
            continue;
        }
        if facts.is_some_and(|facts| facts.verifiable) {
            call.state = CallState::Interrupted;
        } else {
            report_unknown_outcome(call, &mut closer, "the tool is not idempotent and has no `verifyToolRef`");
        }
    }
}

pub(super) fn apply_verification(run: &mut AgentRun, id: &CallId, reason: Option<String>) {
    run.with_call(id, |call, closer| match reason {
        // The write did not take effect. The call runs again and records a new intent.
        None => {
            call.intended_at = None;
            call.state = CallState::Running;
        }
        Some(why) => report_unknown_outcome(call, closer, &why),
    });
}

/// Reports an unknown outcome to the model, or asks a person to decide, depending on the policy.
fn report_unknown_outcome(call: &mut Call, closer: &mut CallCloser<'_>, why: &str) {
    match closer.spec.policy.unknown_outcome {
        UnknownOutcome::Model => closer.fail(call, outcome_unknown(why)),
        UnknownOutcome::Person => {
            let triggers = vec![ApprovalTrigger::UnknownOutcome];
            call.state = CallState::AwaitingApproval { triggers, at: closer.now, expires_at: approval_expiry(closer) };
        }
    }
}

/// The error of a call whose outcome is unknown.
pub fn outcome_unknown(why: &str) -> ToolError {
    let message = format!("the server stopped during this call, and its outcome is unknown: {why}");
    ToolError::new(ErrorCode::Unknown, message)
        .reason("outcome_unknown")
        .detail("outcome", "unknown")
        .detail("started", true)
}
