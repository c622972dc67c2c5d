//! Whether the run waits for this event. Looks only, so that a refused event changes nothing.

use toolwright_types::{CallId, Timestamp};

use super::call::{Call, CallState};
use super::run::{AgentRun, Phase};
use super::{Decision, Event, EventError, Happened};

pub(super) fn check(run: &AgentRun, event: &Event) -> Result<(), EventError> {
    match &event.what {
        Happened::ModelReplied { step, .. } | Happened::ModelFailed { step, .. } => model(run, *step),
        Happened::Prepared { step, calls } => preparing(run, *step, calls.len()),
        Happened::PreparedAgain { call_id, .. } => preparing_again(run, call_id),
        Happened::Intended { call_id } | Happened::TakenUp { call_id: Some(call_id) } => running(run, call_id),
        Happened::Verified { call_id, .. } => in_doubt(run, call_id),
        Happened::CallEnded { envelope, .. } => {
            in_doubt(run, &envelope.call_id).or_else(|_| running(run, &envelope.call_id))
        }
        Happened::CallPaused { call_id, .. } => running(run, call_id),
        Happened::CallWentOn { call_id } => paused(run, call_id),
        Happened::CallHandedOver { pending, .. } => running(run, &pending.call_id),
        Happened::Approval { call_id, definition_hash, decision, .. } => {
            approval(run, call_id, event.at).and_then(|call| same_definition(call, definition_hash, decision))
        }
        Happened::ClientReturned { call_id, .. } => client(run, call_id, event.at),
        Happened::Expired { call_id } => waiting(run, call_id),
        Happened::TakenUp { call_id: None }
        | Happened::TimePassed
        | Happened::Cancelled { .. }
        | Happened::Failed { .. } => Ok(()),
    }
}

impl AgentRun {
    /// Whether there is, or was, a call with this id.
    pub(super) fn knows(&self, id: &CallId) -> bool {
        self.batch().is_some_and(|batch| batch.find(id).is_some())
            || self.ledger.receipt(id).is_some()
            || self.approvals.iter().any(|record| record.call_id == *id)
    }
}

fn model(run: &AgentRun, step: u32) -> Result<(), EventError> {
    let open = run.phase == Phase::Model && run.spent.iterations == step;
    if open { Ok(()) } else { Err(EventError::NoModelCall(step)) }
}

fn preparing(run: &AgentRun, step: u32, found: usize) -> Result<(), EventError> {
    match &run.phase {
        Phase::Preparing(calls) if run.spent.iterations == step => {
            let expected = calls.len();
            if found == expected { Ok(()) } else { Err(EventError::PreparedCount { expected, found }) }
        }
        _ => Err(EventError::NotPreparing(step)),
    }
}

fn preparing_again(run: &AgentRun, id: &CallId) -> Result<(), EventError> {
    match &find(run, id, EventError::NotPreparingAgain)?.state {
        CallState::Agreed => Ok(()),
        _ => Err(EventError::NotPreparingAgain(id.clone())),
    }
}

fn running(run: &AgentRun, id: &CallId) -> Result<(), EventError> {
    match &find(run, id, EventError::NotRunning)?.state {
        CallState::Running => Ok(()),
        _ => Err(EventError::NotRunning(id.clone())),
    }
}

fn paused(run: &AgentRun, id: &CallId) -> Result<(), EventError> {
    match &find(run, id, EventError::NotWaiting)?.state {
        CallState::Paused { .. } => Ok(()),
        _ => Err(EventError::NotWaiting(id.clone())),
    }
}

fn approval<'a>(run: &'a AgentRun, id: &CallId, at: Timestamp) -> Result<&'a Call, EventError> {
    let call = find(run, id, EventError::NotAwaitingApproval)?;
    match &call.state {
        CallState::Asked { .. } => in_time(call, run.now.max(at)).map(|()| call),
        _ => Err(EventError::NotAwaitingApproval(id.clone())),
    }
}

fn in_doubt(run: &AgentRun, id: &CallId) -> Result<(), EventError> {
    match &find(run, id, EventError::NotInDoubt)?.state {
        CallState::InDoubt => Ok(()),
        _ => Err(EventError::NotInDoubt(id.clone())),
    }
}

fn same_definition(call: &Call, approved: &str, decision: &Decision) -> Result<(), EventError> {
    if matches!(decision, Decision::Edit { .. }) && call.intended.is_some() {
        return Err(EventError::NotEditable(call.call_id.clone()));
    }
    let denies = matches!(decision, Decision::Deny { .. });
    let same = call.facts.as_ref().is_some_and(|facts| facts.definition_hash == approved);
    if denies || same { Ok(()) } else { Err(EventError::OtherDefinition(call.call_id.clone())) }
}

fn client(run: &AgentRun, id: &CallId, at: Timestamp) -> Result<(), EventError> {
    let call = find(run, id, EventError::NotAwaitingClient)?;
    match &call.state {
        CallState::Handed { .. } => in_time(call, run.now.max(at)),
        _ => Err(EventError::NotAwaitingClient(id.clone())),
    }
}

fn waiting(run: &AgentRun, id: &CallId) -> Result<(), EventError> {
    match &find(run, id, EventError::NotWaiting)?.state {
        CallState::Asked { .. } | CallState::Handed { .. } => Ok(()),
        _ => Err(EventError::NotWaiting(id.clone())),
    }
}

fn in_time(call: &Call, at: Timestamp) -> Result<(), EventError> {
    let late = call.state.expires_at().is_some_and(|end| at > end);
    if late { Err(EventError::TooLate(call.call_id.clone())) } else { Ok(()) }
}

/// The call, if it is one of those under way; a call that was closed before is not unknown.
fn find<'a>(run: &'a AgentRun, id: &CallId, closed: fn(CallId) -> EventError) -> Result<&'a Call, EventError> {
    let found = run.batch().and_then(|batch| batch.find(id));
    found.ok_or_else(|| if run.knows(id) { closed(id.clone()) } else { EventError::UnknownCall(id.clone()) })
}
