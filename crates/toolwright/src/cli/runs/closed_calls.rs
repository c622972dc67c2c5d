//! Finds the calls that each entry of a journal closes. Only `call_ended` contains the envelope of its call, so the
//! journal is replayed.

use std::collections::{HashMap, HashSet};

use serde::Deserialize;
use serde_json::Value;
use toolwright_api::wire::JournalEntryView;
use toolwright_machine::agent::{Decision, EventKind, PreparedCall, may_have_changed};
use toolwright_machine::journal::{Entry, EntryBody, Replayer, RunStart};
use toolwright_types::{CallId, SideEffects, ToolEnvelope};

/// A call that has ended.
pub(super) struct ClosedCall {
    /// The input and the result.
    pub envelope: ToolEnvelope,
    /// The input that the model requested, if a person edited it.
    pub original_input: Option<Value>,
}

/// A replay of the entries of a run.
#[derive(Default)]
pub(super) struct ClosedCalls {
    replay: Replay,
    /// The names and versions of the tools that write.
    writing_tools: HashSet<(String, String)>,
    /// The input of each edited call before the edit, by the id that the call had then.
    original_inputs: HashMap<CallId, Value>,
    /// The last entry that closes a write.
    pub last_write: Option<u64>,
    /// The last entry that closes a call that started a child run. The child run may have made writes.
    pub last_child_run: Option<u64>,
}

#[derive(Default)]
enum Replay {
    #[default]
    NotStarted,
    Running {
        replayer: Box<Replayer>,
        start: Box<RunStart>,
        /// The number of calls that earlier entries closed.
        known: usize,
    },
    /// This release cannot replay the journal.
    Failed,
}

impl ClosedCalls {
    /// Whether the journal could be replayed. If not, only the calls of `call_ended` entries were returned.
    pub(super) fn is_complete(&self) -> bool {
        !matches!(self.replay, Replay::Failed)
    }

    /// Applies the next entry and returns the calls that it closes.
    pub(super) fn apply(&mut self, entry: &JournalEntryView) -> Vec<ClosedCall> {
        let Ok(body) = EntryBody::deserialize(&entry.body) else {
            self.replay = Replay::Failed;
            return Vec::new();
        };
        self.collect_writing_tools(&body);
        self.collect_original_input(&body);
        let own = match &body {
            EntryBody::Event(EventKind::CallEnded { envelope, .. }) => vec![(**envelope).clone()],
            _ => Vec::new(),
        };
        let closed = self.replay(Entry { n: entry.n, at: entry.at, body }).unwrap_or_else(|| {
            self.replay = Replay::Failed;
            own
        });
        self.record_writes(entry.n, &closed);
        let with_original_input = |envelope: ToolEnvelope| {
            let original = envelope.metadata.edited_from.as_ref();
            let original_input = original.and_then(|id| self.original_inputs.remove(id));
            ClosedCall { envelope, original_input }
        };
        closed.into_iter().map(with_original_input).collect()
    }

    fn replay(&mut self, entry: Entry) -> Option<Vec<ToolEnvelope>> {
        match &mut self.replay {
            Replay::NotStarted => {
                let start = match &entry.body {
                    EntryBody::Started(start) => start.clone(),
                    EntryBody::Event(_) => return None,
                };
                let replayer = Box::new(Replayer::new(entry, None).ok()?);
                self.replay = Replay::Running { replayer, start, known: 0 };
            }
            Replay::Running { replayer, .. } => replayer.apply(entry).ok()?,
            Replay::Failed => return None,
        }
        let Replay::Running { replayer, known, .. } = &mut self.replay else { return None };
        let closed: Vec<ToolEnvelope> = replayer.run().envelopes_after(*known).cloned().collect();
        *known += closed.len();
        Some(closed)
    }

    fn collect_writing_tools(&mut self, body: &EntryBody) {
        let prepared = match body {
            EntryBody::Event(EventKind::Prepared { calls, .. }) => calls.as_slice(),
            EntryBody::Event(EventKind::PreparedAgain { call, .. }) => std::slice::from_ref(call),
            _ => &[],
        };
        self.writing_tools.extend(prepared.iter().filter_map(|call| match call {
            PreparedCall::Ready(facts) if facts.effects == SideEffects::Writes => {
                Some((facts.name.clone(), facts.version.clone()))
            }
            _ => None,
        }));
    }

    /// Stores the input of a call before a person's edit replaces it.
    fn collect_original_input(&mut self, body: &EntryBody) {
        if let (
            Replay::Running { replayer, .. },
            EntryBody::Event(EventKind::ApprovalDecided { call_id, decision: Decision::Edit { .. }, .. }),
        ) = (&self.replay, body)
        {
            let requests = replayer.run().pending_approvals().into_iter();
            let edited = requests.filter(|request| request.call_id == *call_id);
            self.original_inputs.extend(edited.map(|request| (request.call_id, request.input)));
        }
    }

    fn record_writes(&mut self, n: u64, closed: &[ToolEnvelope]) {
        let starts_run = |envelope: &ToolEnvelope| match &self.replay {
            Replay::Running { start, .. } => start.starts_run(&envelope.name),
            _ => false,
        };
        let writes = |envelope: &ToolEnvelope| {
            self.writing_tools.contains(&(envelope.name.clone(), envelope.version.clone()))
                && may_have_changed(envelope)
        };
        if closed.iter().any(starts_run) {
            self.last_child_run = Some(n);
        } else if closed.iter().any(writes) {
            self.last_write = Some(n);
        }
    }
}
