//! The ledger of a run: how often each call was requested, and the envelopes of all calls.

use indexmap::{IndexMap, IndexSet};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use toolwright_types::{CallId, ToolEnvelope};

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Ledger {
    /// The history of each signature. A signature is the id of the first call with a tool, version and input.
    signatures: IndexMap<CallId, SignatureRecord>,
    /// The calls in the order in which they were started or refused.
    order: IndexSet<CallId>,
    envelopes: IndexMap<CallId, ToolEnvelope>,
}

/// The history of the calls with one signature.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
struct SignatureRecord {
    /// The number of calls.
    count: u64,
    /// Whether one of the calls has an envelope.
    has_result: bool,
    /// How often the model requested a call with this signature although a result was already available.
    repeats: u32,
}

/// A call with its assigned id.
pub(super) struct RegisteredCall {
    pub call_id: CallId,
    pub signature: CallId,
    pub repeat: u32,
}

impl Ledger {
    /// Registers a call that the model requested.
    pub(super) fn register(&mut self, name: &str, version: &str, input: &Value) -> RegisteredCall {
        let (call_id, signature) = self.next_call_id(name, version, input);
        let repeat = self.signatures.get_mut(&signature).map_or(0, |record| {
            record.repeats = record.repeats.saturating_add(u32::from(record.has_result));
            record.repeats
        });
        RegisteredCall { call_id, signature, repeat }
    }

    /// Returns the id and the signature of the next call with this tool, version and input.
    pub(super) fn next_call_id(&mut self, name: &str, version: &str, input: &Value) -> (CallId, CallId) {
        let signature = CallId::derive(name, version, input, 0);
        let record = self.signatures.entry(signature.clone()).or_default();
        let seq = record.count;
        record.count += 1;
        let call_id = if seq == 0 { signature.clone() } else { CallId::derive(name, version, input, seq) };
        (call_id, signature)
    }

    /// Records that a call was started.
    pub(super) fn mark_started(&mut self, id: &CallId) {
        self.order.insert(id.clone());
    }

    /// Inserts the envelope of a call. A call that was never started is appended to the start order.
    pub(super) fn insert(&mut self, signature: &CallId, envelope: ToolEnvelope) {
        self.order.insert(envelope.call_id.clone());
        if let Some(record) = self.signatures.get_mut(signature) {
            record.has_result = true;
        }
        self.envelopes.insert(envelope.call_id.clone(), envelope);
    }

    pub(super) fn envelope(&self, id: &CallId) -> Option<&ToolEnvelope> {
        self.envelopes.get(id)
    }

    /// The envelopes in insertion order. The first `known` envelopes are skipped.
    pub(super) fn envelopes_after(&self, known: usize) -> impl Iterator<Item = &ToolEnvelope> {
        self.envelopes.values().skip(known)
    }

    /// The envelopes in an order that does not depend on timing. They are sorted by when the first call with their
    /// signature (same tool, version and input) was requested. Envelopes with the same signature are sorted by the
    /// sequence number of their call.
    pub(super) fn in_request_order(&self) -> Vec<&ToolEnvelope> {
        let mut envelopes: Vec<&ToolEnvelope> = self.in_start_order().collect();
        envelopes.sort_by_cached_key(|envelope| {
            let derive = |seq| CallId::derive(&envelope.name, &envelope.version, &envelope.input, seq);
            match self.signatures.get_full(&derive(0)) {
                Some((position, _, record)) => {
                    (position, (0..record.count).find(|seq| derive(*seq) == envelope.call_id))
                }
                // The envelope's input differs from the requested input, for example after an edit, so the signature is
                // not in the ledger.
                None => (usize::MAX, None),
            }
        });
        envelopes
    }

    /// The envelopes in the order in which the calls were started or refused.
    pub(super) fn in_start_order(&self) -> impl Iterator<Item = &ToolEnvelope> {
        self.order.iter().filter_map(|id| self.envelopes.get(id))
    }
}
