//! Ends a run. Every unfinished call gets an envelope with an error, and every call in the conversation gets a tool
//! message.

use toolwright_types::{ErrorCode, OnMissing, SideEffects, ToolError};

use super::call::{Call, CallState};
use super::run::{AgentRun, Phase};
use super::{planned, preparation, tool_messages, workflow};
use crate::{Ending, RunStatus, resolve_pins};

impl AgentRun {
    /// Ends the run now.
    pub(super) fn end(&mut self, ending: Ending) {
        let ending = self.check_required_pins(ending);
        let phase = std::mem::replace(&mut self.phase, Phase::Ended(ending.clone()));
        let (_, mut closer) = self.split_batch();
        let mut calls: Vec<Call> = match phase {
            Phase::Preparing(requested) => {
                requested.into_iter().map(|call| preparation::unprepared_call(&mut closer, call)).collect()
            }
            Phase::Calling(batch) => batch.calls,
            Phase::Model | Phase::Ended(_) => Vec::new(),
        };
        for call in calls.iter_mut().filter(|call| call.state != CallState::Done) {
            let error = unfinished_call_error(call, &ending);
            closer.fail(call, error);
        }
        if self.workflow.is_some() {
            return workflow::record_end(self, &calls, &ending);
        }
        if self.plan.is_some() {
            // The conversation of a planned run has no tool calls, so it gets no results.
            return planned::end(self, &calls, &ending);
        }
        let results = tool_messages::tool_messages(&calls, &self.ledger);
        self.push_messages(results);
    }

    /// Replaces the ending `completed` by an error if a required pin has no value.
    fn check_required_pins(&self, ending: Ending) -> Ending {
        let required = self.spec.pins.iter().any(|pin| pin.on_missing == OnMissing::Error);
        if ending.status != RunStatus::Completed || !required {
            return ending;
        }
        match resolve_pins(&self.outputs(), &self.spec.pins, |_| None) {
            Ok(_) => ending,
            Err(error) => Ending::with_reason(RunStatus::Error, "pin_missing", error.to_string()),
        }
    }

    pub(super) fn cancel(&mut self, message: Option<String>) {
        let message = message.unwrap_or_else(|| "the run was cancelled".to_owned());
        self.end(Ending::with_reason(RunStatus::Cancelled, "cancelled", message));
    }

    pub(super) fn fail(&mut self, reason: &str, message: String) {
        self.end(Ending::with_reason(RunStatus::Error, reason, message));
    }

    /// Ends the run if its time limit is exceeded.
    pub(super) fn check_timeout(&mut self) {
        if let Some(breach) = self.spec.limits.timed_out(&self.resource_usage) {
            self.end(breach.ending());
        }
    }
}

/// The error of a call that was unfinished when its run ended.
fn unfinished_call_error(call: &Call, ending: &Ending) -> ToolError {
    let started = call.started();
    let code = match (ending.status, started) {
        (RunStatus::Timeout, true) => ErrorCode::Timeout,
        (RunStatus::Cancelled | RunStatus::Error, _) => ErrorCode::Unknown,
        _ => ErrorCode::PolicyDenied,
    };
    let why = ending.message.as_deref().unwrap_or("the run ended");
    let error = ToolError::new(code, format!("{why} before this call ended"))
        .reason(ending.reason.as_deref().unwrap_or("ended"))
        .detail("started", started);
    let writes = call.facts.as_ref().is_some_and(|facts| facts.effects == SideEffects::Writes);
    // A started write may have taken effect, and the envelope must say so.
    if started && writes { error.detail("outcome", "unknown") } else { error }
}
