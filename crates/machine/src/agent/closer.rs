//! Closes calls: gives each call its final envelope and adds the envelope to the ledger. No other module adds
//! envelopes.

use toolwright_types::{CallId, ErrorCode, NestedCall, Timestamp, ToolEnvelope, ToolError};

use super::call::{Batch, Call, CallState};
use super::depth::{MAX_DEPTH, limit_depth};
use super::ledger::Ledger;
use super::run::{AgentRun, Phase};
use super::{RunSpec, decide};
use crate::ResourceUsage;

/// The fields of a run that are needed to close a call. They are borrowed separately from the batch that contains the
/// call.
pub(super) struct CallCloser<'a> {
    pub spec: &'a RunSpec,
    pub ledger: &'a mut Ledger,
    pub resource_usage: &'a mut ResourceUsage,
    pub now: Timestamp,
}

impl AgentRun {
    /// Borrows the current batch and, separately, the fields that are needed to close its calls.
    pub(super) fn split_batch(&mut self) -> (Option<&mut Batch>, CallCloser<'_>) {
        let batch = match &mut self.phase {
            Phase::Calling(batch) => Some(batch),
            _ => None,
        };
        let closer = CallCloser {
            spec: &self.spec,
            ledger: &mut self.ledger,
            resource_usage: &mut self.resource_usage,
            now: self.now,
        };
        (batch, closer)
    }
}

impl AgentRun {
    /// Applies `act` to a call of the current batch. Returns `None` if the batch has no such call, which cannot happen
    /// for an event that passed `check`.
    pub(super) fn with_call<T>(
        &mut self,
        id: &CallId,
        act: impl FnOnce(&mut Call, &mut CallCloser<'_>) -> T,
    ) -> Option<T> {
        let (batch, mut closer) = self.split_batch();
        batch.and_then(|batch| batch.find_mut(id)).map(|call| act(call, &mut closer))
    }
}

impl CallCloser<'_> {
    /// Closes a call with an error. Used if the tool returned no envelope.
    pub(super) fn fail(&mut self, call: &mut Call, error: ToolError) {
        let envelope = call.failure_envelope(error, self.now);
        self.insert(call, envelope);
    }

    /// Closes a call that was refused during its preparation. The final envelope is the envelope of the preparation
    /// with this error.
    pub(super) fn refuse(&mut self, call: &mut Call, error: ToolError, envelope: ToolEnvelope) {
        self.close(call, ToolEnvelope { error: Some(error), input: call.input.clone(), ..envelope });
    }

    /// Closes a call with the envelope that its tool or its preparation returned.
    pub(super) fn close(&mut self, call: &mut Call, mut envelope: ToolEnvelope) {
        self.resource_usage.add_cost(envelope.metadata.cost_usd);
        limit_envelope_depth(&mut envelope);
        if let Some(error) = decide::content_filter_violation(&self.spec.policy, &envelope) {
            envelope.output = serde_json::Value::Null;
            envelope.error = Some(error);
            envelope.attachments.clear();
            envelope.truncated = false;
        }
        self.insert(call, envelope);
    }

    fn insert(&mut self, call: &mut Call, mut envelope: ToolEnvelope) {
        envelope.call_id = call.call_id.clone();
        envelope.metadata.edited_from = call.edited_from.clone();
        if envelope.error.is_some() {
            envelope.output = serde_json::Value::Null;
        }
        call.state = CallState::Done;
        self.ledger.insert(&call.signature, envelope);
    }
}

pub(super) fn limit_envelope_depth(envelope: &mut ToolEnvelope) {
    let was_text = envelope.output.is_string();
    envelope.output = limit_depth(std::mem::take(&mut envelope.output));
    envelope.input = limit_depth(std::mem::take(&mut envelope.input));
    if let Some(details) = envelope.error.as_mut().and_then(|error| error.details.as_mut()) {
        *details = limit_depth(std::mem::take(details));
    }
    limit_calls_depth(&mut envelope.metadata.calls);
    if !was_text && envelope.output.is_string() {
        let warning = format!("the output is nested deeper than {MAX_DEPTH} levels and was converted to text");
        envelope.metadata.warnings.push(warning);
    }
}

fn limit_calls_depth(calls: &mut [NestedCall]) {
    for call in calls {
        call.input = limit_depth(std::mem::take(&mut call.input));
        limit_calls_depth(&mut call.calls);
    }
}

/// The error of a call that the policy or a limit does not allow.
pub(super) fn denied(reason: &str, message: impl Into<String>) -> ToolError {
    ToolError::new(ErrorCode::PolicyDenied, message).reason(reason)
}
