//! The end of a run, whatever the reason: every call that was asked for gets a receipt, and the conversation is left
//! whole.

use toolwright_types::{ErrorCode, OnMissing, SideEffects, ToolError};

use super::call::{Call, CallState};
use super::run::{AgentRun, Phase};
use super::{prepared, show};
use crate::{Ending, RunStatus, resolve_pins};

impl AgentRun {
    /// Ends the run here and now.
    pub(super) fn end(&mut self, ending: Ending) {
        let ending = self.with_pins(ending);
        let phase = std::mem::replace(&mut self.phase, Phase::Ended(ending.clone()));
        let (_, mut desk) = self.counter();
        let mut calls: Vec<Call> = match phase {
            Phase::Preparing(requested) => {
                requested.into_iter().map(|call| prepared::unprepared(&mut desk, call)).collect()
            }
            Phase::Calling(batch) => batch.calls,
            Phase::Model | Phase::Ended(_) => Vec::new(),
        };
        for call in calls.iter_mut().filter(|call| call.state != CallState::Done) {
            let error = left_behind(call, &ending);
            desk.refuse(call, error);
        }
        let results = show::tool_messages(&calls, &self.ledger);
        self.say(results);
    }

    /// An answer without an output that must be there is none.
    fn with_pins(&self, ending: Ending) -> Ending {
        let required = self.spec.pins.iter().any(|pin| pin.on_missing == OnMissing::Error);
        if ending.status != RunStatus::Completed || !required {
            return ending;
        }
        match resolve_pins(&self.outputs(), &self.spec.pins, |_| None) {
            Ok(_) => ending,
            Err(error) => Ending::because(RunStatus::Error, "pin_missing", error.to_string()),
        }
    }

    pub(super) fn cancel(&mut self, message: Option<String>) {
        let message = message.unwrap_or_else(|| "the run was cancelled".to_owned());
        self.end(Ending::because(RunStatus::Cancelled, "cancelled", message));
    }

    pub(super) fn fail(&mut self, reason: &str, message: String) {
        self.end(Ending::because(RunStatus::Error, reason, message));
    }

    /// Ends the run if its time is up.
    pub(super) fn watch_time(&mut self) {
        if let Some(breach) = self.spec.limits.timed_out(&self.spent) {
            self.end(breach.ending());
        }
    }
}

/// What becomes of a call that the end of its run overtakes.
fn left_behind(call: &Call, ending: &Ending) -> ToolError {
    let started = call.started();
    let code = match (ending.status, started) {
        (RunStatus::Timeout, true) => ErrorCode::Timeout,
        (RunStatus::Cancelled | RunStatus::Error, _) => ErrorCode::Unknown,
        _ => ErrorCode::PolicyDenied,
    };
    let why = ending.message.as_deref().unwrap_or("the run ended");
    let error = ToolError::new(code, format!("{why} before this call was done"))
        .reason(ending.reason.as_deref().unwrap_or("ended"))
        .detail("started", started);
    let writes = call.facts.as_ref().is_some_and(|facts| facts.effects == SideEffects::Writes);
    // Whoever reads the receipt must not take it for granted that nothing was changed.
    if started && writes { error.detail("outcome", "unknown") } else { error }
}
