//! The run's books: which calls were made how often, and their receipts.

use indexmap::{IndexMap, IndexSet};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use toolwright_types::{CallId, ToolEnvelope};

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Ledger {
    /// By the id of the first such call.
    seen: IndexMap<CallId, Seen>,
    /// Calls that were started or refused, in that order.
    order: IndexSet<CallId>,
    envelopes: IndexMap<CallId, ToolEnvelope>,
}

/// What is known about calls with one tool, version and input.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
struct Seen {
    /// How many there were.
    count: u64,
    /// Whether one of them has a result.
    answered: bool,
    /// How many the model asked for although there was a result.
    repeats: u32,
}

/// A call as it was entered.
pub(super) struct Entry {
    pub call_id: CallId,
    pub signature: CallId,
    pub repeat: u32,
}

impl Ledger {
    /// Enters a call that the model asks for.
    pub fn enter(&mut self, name: &str, version: &str, input: &Value) -> Entry {
        let (call_id, signature) = self.number(name, version, input);
        let repeat = self.seen.get_mut(&signature).map_or(0, |seen| {
            seen.repeats = seen.repeats.saturating_add(u32::from(seen.answered));
            seen.repeats
        });
        Entry { call_id, signature, repeat }
    }

    /// The next id for this tool, version and input, and the id that all such calls have in common.
    pub fn number(&mut self, name: &str, version: &str, input: &Value) -> (CallId, CallId) {
        let signature = CallId::derive(name, version, input, 0);
        let seen = self.seen.entry(signature.clone()).or_default();
        let seq = seen.count;
        seen.count += 1;
        let call_id = if seq == 0 { signature.clone() } else { CallId::derive(name, version, input, seq) };
        (call_id, signature)
    }

    /// Notes that a call begins.
    pub fn start(&mut self, id: &CallId) {
        self.order.insert(id.clone());
    }

    /// Files a receipt. A call that never began takes its place in the order now.
    pub fn file(&mut self, signature: &CallId, envelope: ToolEnvelope) {
        self.order.insert(envelope.call_id.clone());
        if let Some(seen) = self.seen.get_mut(signature) {
            seen.answered = true;
        }
        self.envelopes.insert(envelope.call_id.clone(), envelope);
    }

    pub fn receipt(&self, id: &CallId) -> Option<&ToolEnvelope> {
        self.envelopes.get(id)
    }

    /// The receipts after the first `known`, in the order they were filed.
    pub fn filed_after(&self, known: usize) -> impl Iterator<Item = &ToolEnvelope> {
        self.envelopes.values().skip(known)
    }

    /// The receipts in an order that does not depend on what took how long: by when the model first asked for such a call,
    /// then by how often.
    pub fn as_asked(&self) -> Vec<&ToolEnvelope> {
        let mut receipts: Vec<&ToolEnvelope> = self.in_order().collect();
        receipts.sort_by_cached_key(|receipt| {
            let derive = |seq| CallId::derive(&receipt.name, &receipt.version, &receipt.input, seq);
            match self.seen.get_full(&derive(0)) {
                Some((place, _, seen)) => (place, (0..seen.count).find(|seq| derive(*seq) == receipt.call_id)),
                // Its input is not told as it was.
                None => (usize::MAX, None),
            }
        });
        receipts
    }

    /// The receipts in the order the calls were started or refused.
    pub fn in_order(&self) -> impl Iterator<Item = &ToolEnvelope> {
        self.order.iter().filter_map(|id| self.envelopes.get(id))
    }
}
