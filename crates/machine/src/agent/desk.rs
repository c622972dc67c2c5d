//! Closing a call: the one place where a receipt is filed.

use toolwright_types::{CallId, ErrorCode, PartCall, Timestamp, ToolEnvelope, ToolError};

use super::call::{Batch, Call, CallState};
use super::depth::{MAX_DEPTH, shallow};
use super::ledger::Ledger;
use super::run::{AgentRun, Phase};
use super::{Prepared, Spec, decide};
use crate::Spent;

/// The parts of a run that closing a call touches, apart from the call itself.
pub(super) struct Desk<'a> {
    pub spec: &'a Spec,
    pub ledger: &'a mut Ledger,
    pub spent: &'a mut Spent,
    pub now: Timestamp,
}

impl AgentRun {
    /// The calls under way, and the desk where they are closed.
    pub(super) fn counter(&mut self) -> (Option<&mut Batch>, Desk<'_>) {
        let batch = match &mut self.phase {
            Phase::Calling(batch) => Some(batch),
            _ => None,
        };
        let desk = Desk { spec: &self.spec, ledger: &mut self.ledger, spent: &mut self.spent, now: self.now };
        (batch, desk)
    }
}

impl AgentRun {
    /// Does something with one of the calls under way; nothing if there is no such call, which `check` rules out.
    pub(super) fn with_call<T>(&mut self, id: &CallId, act: impl FnOnce(&mut Call, &mut Desk<'_>) -> T) -> Option<T> {
        let (batch, mut desk) = self.counter();
        batch.and_then(|batch| batch.find_mut(id)).map(|call| act(call, &mut desk))
    }
}

impl Desk<'_> {
    /// Closes a call without its tool having had a say.
    pub fn refuse(&mut self, call: &mut Call, error: ToolError) {
        let envelope = call.failed(error, self.now);
        self.file(call, envelope);
    }

    /// Closes a call that was prepared and may not run. A receipt of the preparation keeps what it says besides.
    pub fn refuse_prepared(&mut self, call: &mut Call, error: ToolError, prepared: Prepared) {
        match prepared {
            Prepared::Refused(envelope) => {
                self.close(call, ToolEnvelope { error: Some(error), input: call.input.clone(), ..*envelope });
            }
            Prepared::Ready(_) => self.refuse(call, error),
        }
    }

    /// Closes a call with what its tool, or its preparation, said.
    pub fn close(&mut self, call: &mut Call, mut envelope: ToolEnvelope) {
        self.spent.pay(envelope.metadata.cost_usd);
        flatten(&mut envelope);
        if let Some(error) = decide::unfit_to_see(&self.spec.policy, &envelope) {
            envelope.output = serde_json::Value::Null;
            envelope.error = Some(error);
            envelope.attachments.clear();
            envelope.truncated = false;
        }
        self.file(call, envelope);
    }

    fn file(&mut self, call: &mut Call, mut envelope: ToolEnvelope) {
        envelope.call_id = call.call_id.clone();
        envelope.metadata.edited_from = call.edited_from.clone();
        if envelope.error.is_some() {
            envelope.output = serde_json::Value::Null;
        }
        call.state = CallState::Done;
        self.ledger.file(&call.signature, envelope);
    }
}

pub(super) fn flatten(envelope: &mut ToolEnvelope) {
    let was_text = envelope.output.is_string();
    envelope.output = shallow(std::mem::take(&mut envelope.output));
    envelope.input = shallow(std::mem::take(&mut envelope.input));
    if let Some(details) = envelope.error.as_mut().and_then(|error| error.details.as_mut()) {
        *details = shallow(std::mem::take(details));
    }
    flatten_calls(&mut envelope.metadata.calls);
    if !was_text && envelope.output.is_string() {
        let warning = format!("the output is nested deeper than {MAX_DEPTH} levels and kept as text");
        envelope.metadata.warnings.push(warning);
    }
}

fn flatten_calls(calls: &mut [PartCall]) {
    for call in calls {
        call.input = shallow(std::mem::take(&mut call.input));
        flatten_calls(&mut call.calls);
    }
}

/// A refusal by rule.
pub(super) fn denied(reason: &str, message: impl Into<String>) -> ToolError {
    ToolError::new(ErrorCode::PolicyDenied, message).reason(reason)
}
