//! The calls that a call makes, for its receipt.

use std::sync::{Mutex, MutexGuard, PoisonError};

use serde_json::Value;
use toolwright_types::{PartCall, ToolEnvelope, ToolError};

/// How much the arguments of all calls may add to a receipt, in bytes of JSON.
const MOST_INPUT: usize = 64 * 1024;

/// What a call has called so far. It is kept beside the attempt, which may be given up in the middle: what was begun is told
/// even so.
#[derive(Debug, Default)]
pub struct Parts(Mutex<Told>);

#[derive(Debug, Default)]
struct Told {
    calls: Vec<PartCall>,
    input: usize,
}

impl Parts {
    /// A call begins; `receipt` is its own as far as it goes. Gives its place.
    pub(super) fn begin(&self, receipt: &ToolEnvelope) -> usize {
        self.lock().add(receipt)
    }

    /// A call has ended: the one at `place`, or one that never began.
    pub(super) fn end(&self, place: Option<usize>, receipt: &ToolEnvelope) {
        let mut told = self.lock();
        let place = place.unwrap_or_else(|| told.add(receipt));
        if let Some(call) = told.calls.get_mut(place) {
            call.error = receipt.error.clone().map(|error| ToolError { details: None, ..error });
            call.t_end = Some(receipt.t_end);
            call.source = receipt.metadata.source;
            call.calls.clone_from(&receipt.metadata.calls);
        }
    }

    /// All of them.
    pub(super) fn told(&self) -> Vec<PartCall> {
        std::mem::take(&mut self.lock().calls)
    }

    /// What is behind the lock is whole after each statement, so a panic elsewhere does not spoil it.
    fn lock(&self) -> MutexGuard<'_, Told> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Told {
    fn add(&mut self, receipt: &ToolEnvelope) -> usize {
        let size = self.input + receipt.input.to_string().len();
        let input = if size <= MOST_INPUT { receipt.input.clone() } else { Value::Null };
        if !input.is_null() {
            self.input = size;
        }
        self.calls.push(PartCall {
            call_id: receipt.call_id.clone(),
            name: receipt.name.clone(),
            version: receipt.version.clone(),
            input,
            error: None,
            t_start: receipt.t_start,
            t_end: None,
            source: None,
            calls: Vec::new(),
        });
        self.calls.len() - 1
    }
}
