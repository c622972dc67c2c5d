//! Checks whether the run expects an event. The check does not modify the run, so a rejected event changes nothing.

use toolwright_types::{CallId, Timestamp};

use super::call::{Call, CallState};
use super::planned;
use super::run::{AgentRun, Phase};
use super::{Decision, Event, EventError, EventKind, MAX_BUFFERED_SIGNALS};

pub(super) fn check(run: &AgentRun, event: &Event) -> Result<(), EventError> {
    match &event.kind {
        EventKind::ModelReplied { iteration, .. } | EventKind::ModelFailed { iteration, .. } => {
            expect_model_call(run, *iteration)
        }
        EventKind::Prepared { iteration, calls } => expect_preparation(run, *iteration, calls.len()),
        EventKind::PreparedAgain { call_id, .. } => expect_second_preparation(run, call_id),
        EventKind::Intended { call_id } | EventKind::Recovered { call_id: Some(call_id) } => {
            expect_running(run, call_id)
        }
        EventKind::Verified { call_id, .. } => expect_interrupted(run, call_id),
        EventKind::CallEnded { envelope, .. } => {
            expect_interrupted(run, &envelope.call_id).or_else(|_| expect_running(run, &envelope.call_id))
        }
        EventKind::ChildSuspended { call_id, .. } => {
            expect_suspended_child(run, call_id).or_else(|_| expect_running(run, call_id))
        }
        EventKind::ChildEnded { call_id } => expect_suspended_child(run, call_id),
        EventKind::HandedToClient { pending, .. } => expect_running(run, &pending.call_id),
        EventKind::ApprovalDecided { call_id, definition_hash, decision, .. } => {
            let call = expect_approval(run, call_id, event.at)?;
            check_definition(call, definition_hash, decision)?;
            match decision {
                Decision::Edit { input } => planned::check_edit(run, call_id, input),
                Decision::Approve | Decision::Deny { .. } => Ok(()),
            }
        }
        EventKind::ClientReturned { call_id, .. } => expect_client(run, call_id, event.at),
        EventKind::Expired { call_id } => expect_waiting(run, call_id),
        EventKind::SignalReceived { name, .. } => expect_signal(run, name),
        EventKind::Paused { .. } | EventKind::Resumed { .. } => expect_workflow(run),
        EventKind::Recovered { call_id: None }
        | EventKind::TimerFired
        | EventKind::Cancelled { .. }
        | EventKind::Failed { .. } => Ok(()),
    }
}

impl AgentRun {
    /// Whether this run has or had a call with this id.
    pub(super) fn has_seen_call(&self, id: &CallId) -> bool {
        self.batch().is_some_and(|batch| batch.find(id).is_some())
            || self.ledger.envelope(id).is_some()
            || self.decisions.iter().any(|record| record.call_id == *id)
    }
}

fn expect_model_call(run: &AgentRun, iteration: u32) -> Result<(), EventError> {
    let open = run.phase == Phase::Model && run.resource_usage.iterations == iteration;
    if open { Ok(()) } else { Err(EventError::NoModelCall(iteration)) }
}

fn expect_preparation(run: &AgentRun, iteration: u32, found: usize) -> Result<(), EventError> {
    let expected = match (&run.phase, &run.workflow) {
        (Phase::Preparing(calls), _) if run.resource_usage.iterations == iteration => calls.len(),
        (_, Some(state)) => state.preparing.get(&iteration).map(Vec::len).ok_or(EventError::NotPreparing(iteration))?,
        _ => return Err(EventError::NotPreparing(iteration)),
    };
    if found == expected { Ok(()) } else { Err(EventError::PreparedCount { expected, found }) }
}

fn expect_signal(run: &AgentRun, name: &str) -> Result<(), EventError> {
    let state = run.workflow.as_ref().ok_or(EventError::NoWorkflow)?;
    let is_awaited = state.awaiting.contains_key(name);
    if is_awaited || state.buffered_signals() < MAX_BUFFERED_SIGNALS { Ok(()) } else { Err(EventError::TooManySignals) }
}

fn expect_workflow(run: &AgentRun) -> Result<(), EventError> {
    run.workflow.as_ref().map(drop).ok_or(EventError::NoWorkflow)
}

fn expect_second_preparation(run: &AgentRun, id: &CallId) -> Result<(), EventError> {
    match &find_call(run, id, EventError::NotPreparingAgain)?.state {
        CallState::Approved => Ok(()),
        _ => Err(EventError::NotPreparingAgain(id.clone())),
    }
}

fn expect_running(run: &AgentRun, id: &CallId) -> Result<(), EventError> {
    match &find_call(run, id, EventError::NotRunning)?.state {
        CallState::Running => Ok(()),
        _ => Err(EventError::NotRunning(id.clone())),
    }
}

fn expect_suspended_child(run: &AgentRun, id: &CallId) -> Result<(), EventError> {
    match &find_call(run, id, EventError::NotWaiting)?.state {
        CallState::ChildSuspended { .. } => Ok(()),
        _ => Err(EventError::NotWaiting(id.clone())),
    }
}

fn expect_approval<'a>(run: &'a AgentRun, id: &CallId, at: Timestamp) -> Result<&'a Call, EventError> {
    let call = find_call(run, id, EventError::NotAwaitingApproval)?;
    match &call.state {
        CallState::AwaitingApproval { .. } => check_not_expired(call, run.now.max(at)).map(|()| call),
        _ => Err(EventError::NotAwaitingApproval(id.clone())),
    }
}

fn expect_interrupted(run: &AgentRun, id: &CallId) -> Result<(), EventError> {
    match &find_call(run, id, EventError::NotInterrupted)?.state {
        CallState::Interrupted => Ok(()),
        _ => Err(EventError::NotInterrupted(id.clone())),
    }
}

fn check_definition(call: &Call, approved: &str, decision: &Decision) -> Result<(), EventError> {
    if matches!(decision, Decision::Edit { .. }) && call.intended_at.is_some() {
        return Err(EventError::NotEditable(call.call_id.clone()));
    }
    let denies = matches!(decision, Decision::Deny { .. });
    let same = call.facts.as_ref().is_some_and(|facts| facts.definition_hash == approved);
    if denies || same { Ok(()) } else { Err(EventError::DefinitionChanged(call.call_id.clone())) }
}

fn expect_client(run: &AgentRun, id: &CallId, at: Timestamp) -> Result<(), EventError> {
    let call = find_call(run, id, EventError::NotAwaitingClient)?;
    match &call.state {
        CallState::AwaitingClient { .. } => check_not_expired(call, run.now.max(at)),
        _ => Err(EventError::NotAwaitingClient(id.clone())),
    }
}

fn expect_waiting(run: &AgentRun, id: &CallId) -> Result<(), EventError> {
    match &find_call(run, id, EventError::NotWaiting)?.state {
        CallState::AwaitingApproval { .. } | CallState::AwaitingClient { .. } => Ok(()),
        _ => Err(EventError::NotWaiting(id.clone())),
    }
}

fn check_not_expired(call: &Call, at: Timestamp) -> Result<(), EventError> {
    let late = call.state.expires_at().is_some_and(|end| at > end);
    if late { Err(EventError::Expired(call.call_id.clone())) } else { Ok(()) }
}

/// Finds a call of the current batch. If the call has already ended, the error is the one that `closed` creates. If the
/// run never had this call, the error is `UnknownCall`.
fn find_call<'a>(run: &'a AgentRun, id: &CallId, closed: fn(CallId) -> EventError) -> Result<&'a Call, EventError> {
    let found = run.batch().and_then(|batch| batch.find(id));
    found.ok_or_else(|| if run.has_seen_call(id) { closed(id.clone()) } else { EventError::UnknownCall(id.clone()) })
}
