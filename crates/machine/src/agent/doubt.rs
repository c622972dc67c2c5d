//! Calls that were about to be made when their driver was lost: repeated where that does no harm, asked about where
//! somebody knows, and otherwise told as they are. Never repeated blindly, never dropped.

use toolwright_types::{CallId, ErrorCode, ToolError, UnknownOutcome};

use super::EffectId;
use super::call::{Call, CallState};
use super::decide::captured;
use super::desk::Desk;
use super::prepared::approval_expiry;
use super::run::AgentRun;
use crate::Knob;

pub(super) fn intended(run: &mut AgentRun, id: &CallId) {
    run.with_call(id, |call, desk| {
        // The one that was intended before was not begun, or another is wanted: what it comes to is not this one's.
        call.attempt += u32::from(call.intended.is_some());
        call.intended = Some(desk.now);
    });
}

/// Decides what becomes of each call that the last driver may have made, or of the one whose driver was lost. A call
/// without an intent was not made, or may be made again.
pub(super) fn taken_up(run: &mut AgentRun, only: Option<&CallId>) {
    if let Some(id) = only {
        // Nobody has it any more: what is made again is handed out again.
        run.handed.retain(|handed| *handed != EffectId::Call(id.clone()));
    }
    let (batch, mut desk) = run.counter();
    let calls = batch.into_iter().flat_map(|batch| &mut batch.calls);
    let calls = calls.filter(|call| only.is_none_or(|id| call.call_id == *id));
    for call in calls.filter(|call| call.state == CallState::Running && call.intended.is_some()) {
        call.attempt += 1;
        let facts = call.facts.as_ref();
        // One that is captured was not made either.
        if facts.is_some_and(|facts| facts.idempotent || captured(&desk.spec.policy, facts)) {
            continue;
        }
        if facts.is_some_and(|facts| facts.verifiable) {
            call.state = CallState::InDoubt;
        } else {
            surface(call, &mut desk, "the tool is not idempotent and has no `verifyToolRef`");
        }
    }
}

pub(super) fn verified(run: &mut AgentRun, id: &CallId, why_unknown: Option<String>) {
    run.with_call(id, |call, desk| match why_unknown {
        // It is made now, and intended once more before.
        None => {
            call.intended = None;
            call.state = CallState::Running;
        }
        Some(why) => surface(call, desk, &why),
    });
}

/// Lets whoever should hear of it know that nobody knows.
fn surface(call: &mut Call, desk: &mut Desk<'_>, why: &str) {
    match desk.spec.policy.unknown_outcome {
        UnknownOutcome::Model => desk.refuse(call, unknown(why)),
        UnknownOutcome::Person => {
            let because = vec![Knob::UnknownOutcome];
            call.state = CallState::Asked { because, at: desk.now, expires_at: approval_expiry(desk) };
        }
    }
}

/// Why a call of which nobody knows whether it was made has failed.
pub fn unknown(why: &str) -> ToolError {
    let message =
        format!("the server stopped while this call was being made, and whether it was made is not known: {why}");
    ToolError::new(ErrorCode::Unknown, message)
        .reason("outcome_unknown")
        .detail("outcome", "unknown")
        .detail("started", true)
}
