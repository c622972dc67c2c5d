//! Finds the writes to the outside world whose outcome an event determines, and classifies their outcomes.

use toolwright_types::{CallId, CallSource, ErrorCode, NestedCall, SideEffects, Timestamp, ToolEnvelope, ToolError};

use super::call::{Call, CallState};
use super::run::AgentRun;
use super::{ClientResult, Event, EventKind, interrupted_calls};

/// A write to the outside world that was started, with its outcome.
#[derive(Debug, Clone, PartialEq)]
pub struct ExternalWrite {
    /// The envelope of the call.
    pub envelope: ToolEnvelope,
    /// The outcome.
    pub outcome: WriteOutcome,
    /// The time of the last intent.
    pub started_at: Timestamp,
    /// The person who approved the call.
    pub approved_by: Option<String>,
}

/// The outcome of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WriteOutcome {
    /// The write took effect.
    Done,
    /// The write did not take effect.
    Failed,
    /// The write may have taken effect.
    Unknown,
    /// The write was captured and not sent.
    Captured,
}

impl AgentRun {
    /// The writes whose outcome this event determines. The run must accept the event, and must not have applied it yet.
    /// `is_external` returns whether the tool with the given name itself writes to the outside world. A delegate does
    /// not: its child run makes the writes.
    pub fn writes_determined_by(&self, event: &Event, is_external: impl Fn(&str) -> bool) -> Vec<ExternalWrite> {
        let calls = self.batch().into_iter().flat_map(|batch| &batch.calls);
        let started: Vec<&Call> = calls.filter(|call| is_started_write(call) && is_external(&call.name)).collect();
        if started.is_empty() {
            return Vec::new();
        }
        let mut writes = Vec::new();
        let ended = match &event.kind {
            // The envelope of the event shows the outcome. In the run, a content filter may replace this envelope.
            EventKind::CallEnded { envelope, .. } => Some(&**envelope),
            _ => None,
        };
        if let Some((call, envelope)) = ended.and_then(|envelope| Some((find(&started, &envelope.call_id)?, envelope)))
        {
            writes.extend(self.write(call, envelope.clone(), outcome(envelope)));
        }
        let others: Vec<&Call> =
            started.into_iter().filter(|call| ended.is_none_or(|ended| ended.call_id != call.call_id)).collect();
        if !others.is_empty() && self.may_close_other_calls(event) {
            self.collect_closed(event, &others, &mut writes);
        }
        writes
    }

    /// Whether the event can close started calls whose envelope it does not contain. The end of a call changes only that
    /// call, unless the run then exceeds a limit. A long list of writes has such an event for each item, so this check
    /// avoids most copies of the run.
    fn may_close_other_calls(&self, event: &Event) -> bool {
        let mut usage = self.resource_usage;
        match &event.kind {
            EventKind::CallEnded { envelope, usage: child_usage, nested_calls, .. } => {
                usage.usage += *child_usage;
                usage.tool_calls = usage.tool_calls.saturating_add(*nested_calls);
                usage.add_cost(envelope.metadata.cost_usd);
            }
            EventKind::Intended { .. } | EventKind::ChildSuspended { .. } | EventKind::ChildEnded { .. } => {}
            _ => return true,
        }
        // A failed step of a workflow closes the calls that wait for a person, a client or a child run.
        let calls = || self.batch().into_iter().flat_map(|batch| &batch.calls);
        let waits = |call: &Call| !matches!(call.state, CallState::Running | CallState::Interrupted);
        if self.workflow.is_some() && calls().any(|call| is_started_write(call) && waits(call)) {
            return true;
        }
        usage.active_us = self.active_us_at(event.at);
        let queued =
            self.batch().into_iter().flat_map(|batch| &batch.calls).filter(|call| call.state == CallState::Queued);
        let highest_price = queued.map(Call::price_usd).fold(0.0, f64::max);
        self.spec.breach_before_call(&usage, highest_price).is_some()
    }

    /// Adds the writes whose calls the event closes without an envelope from the tool. Any event can end the run and so
    /// close all calls. Therefore the event is applied to a copy of the run.
    fn collect_closed(&self, event: &Event, started: &[&Call], writes: &mut Vec<ExternalWrite>) {
        let mut after = self.clone();
        if after.apply(event.clone()).is_err() {
            return;
        }
        let known = self.ledger.envelopes_after(0).count();
        for envelope in after.ledger.envelopes_after(known) {
            let Some(call) = find(started, &envelope.call_id) else { continue };
            let outcome = match &event.kind {
                EventKind::ClientReturned { call_id, result } if *call_id == call.call_id => match result {
                    ClientResult::Output(_) => Some(WriteOutcome::Done),
                    ClientResult::Error(_) => Some(WriteOutcome::Failed),
                },
                _ => outcome(envelope),
            };
            writes.extend(self.write(call, envelope.clone(), outcome));
        }
        // A write also gets the outcome `Unknown` if the event makes the run ask a person about it. The person's
        // decision closes the call later.
        let waiting = after.batch().into_iter().flat_map(|batch| &batch.calls).filter(|call| awaits_decision(call));
        for call in waiting {
            if find(started, &call.call_id).is_some_and(|before| !awaits_decision(before)) {
                let error = interrupted_calls::outcome_unknown("a person was asked and has not decided yet");
                let envelope = call.failure_envelope(error, after.now);
                writes.extend(self.write(call, envelope, Some(WriteOutcome::Unknown)));
            }
        }
    }

    fn write(&self, call: &Call, envelope: ToolEnvelope, outcome: Option<WriteOutcome>) -> Option<ExternalWrite> {
        let approval = self.decisions.iter().rev().find(|record| record.approves(&call.call_id));
        Some(ExternalWrite {
            envelope,
            outcome: outcome?,
            started_at: call.intended_at?,
            approved_by: approval.and_then(|record| record.decided_by.clone()),
        })
    }
}

fn is_started_write(call: &Call) -> bool {
    let writes = call.facts.as_ref().is_some_and(|facts| facts.effects == SideEffects::Writes);
    writes && call.intended_at.is_some() && call.state != CallState::Done
}

fn awaits_decision(call: &Call) -> bool {
    call.intended_at.is_some() && matches!(call.state, CallState::AwaitingApproval { .. })
}

fn find<'a>(calls: &[&'a Call], id: &CallId) -> Option<&'a Call> {
    calls.iter().copied().find(|call| call.call_id == *id)
}

/// The outcome of a write that was started. `None` if a recording answered the call, so that no write happened.
fn outcome(envelope: &ToolEnvelope) -> Option<WriteOutcome> {
    match (envelope.metadata.source, &envelope.error) {
        (Some(CallSource::Recorded), _) => None,
        (Some(CallSource::Captured), _) => Some(WriteOutcome::Captured),
        (None, None) => Some(WriteOutcome::Done),
        (None, Some(_)) if may_have_changed(envelope) => Some(WriteOutcome::Unknown),
        (None, Some(_)) => Some(WriteOutcome::Failed),
    }
}

/// Whether a call to a tool that writes may have changed external state.
pub fn may_have_changed(envelope: &ToolEnvelope) -> bool {
    if envelope.metadata.source.is_some() {
        // The output came from a recording, or the write was captured and not executed. So the call changed nothing.
        return false;
    }
    may_have_happened(envelope.error.as_ref()) || envelope.metadata.calls.iter().any(nested_may_have_changed)
}

/// Whether a nested call may have changed external state.
fn nested_may_have_changed(call: &NestedCall) -> bool {
    call.source.is_none() && (may_have_happened(call.error.as_ref()) || call.calls.iter().any(nested_may_have_changed))
}

fn may_have_happened(error: Option<&ToolError>) -> bool {
    let may_have = [ErrorCode::Timeout, ErrorCode::NetworkError, ErrorCode::Unknown];
    error.is_none_or(|error| may_have.contains(&error.code))
}
