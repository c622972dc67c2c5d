//! Records the nested calls of a call, for its envelope.

use std::sync::{Mutex, MutexGuard, PoisonError};

use serde_json::Value;
use toolwright_types::{NestedCall, ToolEnvelope, ToolError};

/// The maximum size of the inputs of all nested calls in one envelope, in bytes of JSON.
const MAX_INPUT_BYTES: usize = 64 * 1024;

/// The nested calls of a call. They are stored outside of the attempt, so that they are reported even if the attempt is
/// dropped midway.
#[derive(Debug, Default)]
pub struct NestedCalls(Mutex<Inner>);

#[derive(Debug, Default)]
struct Inner {
    calls: Vec<NestedCall>,
    input_bytes: usize,
}

impl NestedCalls {
    /// Records the start of a nested call and returns its index.
    pub(super) fn begin(&self, envelope: &ToolEnvelope) -> usize {
        self.lock().add(envelope)
    }

    /// Records the end of the nested call at `index`. `None` records a call that was refused before it started.
    pub(super) fn end(&self, index: Option<usize>, envelope: &ToolEnvelope) {
        let mut inner = self.lock();
        let index = index.unwrap_or_else(|| inner.add(envelope));
        if let Some(call) = inner.calls.get_mut(index) {
            call.error = envelope.error.clone().map(|error| ToolError { details: None, ..error });
            call.t_end = Some(envelope.t_end);
            call.source = envelope.metadata.source;
            call.cost_usd = envelope.metadata.cost_usd;
            call.calls.clone_from(&envelope.metadata.calls);
        }
    }

    /// Takes all recorded calls.
    pub(super) fn take(&self) -> Vec<NestedCall> {
        std::mem::take(&mut self.lock().calls)
    }

    /// A poisoned lock is usable, because every statement leaves the data consistent.
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    fn add(&mut self, envelope: &ToolEnvelope) -> usize {
        let size = self.input_bytes + envelope.input.to_string().len();
        let input = if size <= MAX_INPUT_BYTES { envelope.input.clone() } else { Value::Null };
        if !input.is_null() {
            self.input_bytes = size;
        }
        self.calls.push(NestedCall {
            call_id: envelope.call_id.clone(),
            name: envelope.name.clone(),
            version: envelope.version.clone(),
            input,
            error: None,
            t_start: envelope.t_start,
            t_end: None,
            source: None,
            cost_usd: None,
            calls: Vec::new(),
        });
        self.calls.len() - 1
    }
}
