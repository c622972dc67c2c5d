//! Combines a batch of changes into the rows to write. Does not access the database.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use toolwright_types::{CallId, ConversationId, RealmId, RunId};

use super::RunChange;
use crate::conversations::NewConversation;
use crate::conversations::write::{NewTurns, SharedContext, Summary};
use crate::runs::write::{InlineRun, RunInsert, StateUpdate};
use crate::runs::{
    JournalEntry, RunState, ServerId, StoredCheckpoint, StoredDecision, StoredEffect, StoredPart, UndoneEffect, Wait,
};

/// The rows to write, grouped by table.
///
/// Readers see only the state after the transaction. Therefore only the last state of a run is written, and a new run
/// is inserted with its last state. The entries of all runs are inserted together.
#[derive(Debug, Default)]
pub(super) struct WriteSet<'a> {
    pub(super) conversations: Vec<(RealmId, &'a NewConversation)>,
    pub(super) conversation_changes: Vec<ConversationChange<'a>>,
    pub(super) runs: Vec<RunInsert<'a>>,
    /// Runs that have ended before they are first written.
    pub(super) inline_runs: Vec<InlineRun<'a>>,
    pub(super) entries: Vec<(RunId, &'a JournalEntry)>,
    pub(super) parts: Vec<(RealmId, &'a StoredPart)>,
    /// New states of runs that are already in the database.
    pub(super) states: Vec<StateUpdate<'a>>,
    pub(super) waits: Vec<(RunId, &'a Wait)>,
    pub(super) decisions: Vec<(RunId, &'a StoredDecision)>,
    /// The last outcome of each write to the outside world.
    pub(super) effects: Vec<(RunId, &'a StoredEffect)>,
    /// Calls that were undone, each with the run that undid it.
    pub(super) undone: Vec<(RunId, &'a UndoneEffect)>,
    /// The last checkpoint of each run that has not ended.
    pub(super) checkpoints: Vec<(RunId, &'a StoredCheckpoint)>,
    /// Runs that end in the batch and are already in the database.
    pub(super) ended: Vec<RunId>,
    /// Replies to run commands: run, command id, reply.
    pub(super) replies: Vec<(RunId, &'a str, &'a str)>,
    /// Runs whose tasks must be deleted.
    pub(super) cleared: Vec<RunId>,
}

#[derive(Debug)]
pub(super) enum ConversationChange<'a> {
    NewTurns(NewTurns<'a>),
    Summary(Summary<'a>),
    SharedContext(SharedContext<'a>),
}

impl<'a> WriteSet<'a> {
    /// Returns the runs that are already in the database and have new entries in the batch.
    pub(super) fn continued(&self) -> Vec<RunId> {
        let inserted: HashSet<RunId> = self.runs.iter().map(|insert| insert.run.id).collect();
        let continued: BTreeSet<RunId> = self.entries.iter().map(|(run, _)| *run).collect();
        continued.into_iter().filter(|run| !inserted.contains(run)).collect()
    }

    pub(super) fn from_changes(
        server: &'a ServerId,
        changes: impl IntoIterator<Item = (RunId, &'a RunChange)>,
    ) -> Self {
        let mut builder = WriteSetBuilder::new(server);
        for (run, change) in changes {
            builder.add(run, change);
        }
        builder.finish()
    }
}

struct WriteSetBuilder<'a> {
    server: &'a ServerId,
    write_set: WriteSet<'a>,
    /// The index in `write_set.runs` of each run that the batch inserts.
    inserted: HashMap<RunId, usize>,
    /// The index in `write_set.states` of each run that is already in the database and has a new state.
    updated: HashMap<RunId, usize>,
    /// The last waits of each run.
    waiting: BTreeMap<RunId, &'a [Wait]>,
    /// The last checkpoint of each run.
    checkpoints: BTreeMap<RunId, &'a StoredCheckpoint>,
    /// The last outcome of each write. An upsert statement fails if it contains the same row twice.
    effects: BTreeMap<(RunId, &'a CallId), &'a StoredEffect>,
}

impl<'a> WriteSetBuilder<'a> {
    fn new(server: &'a ServerId) -> Self {
        Self {
            server,
            write_set: WriteSet::default(),
            inserted: HashMap::new(),
            updated: HashMap::new(),
            waiting: BTreeMap::new(),
            checkpoints: BTreeMap::new(),
            effects: BTreeMap::new(),
        }
    }

    fn add(&mut self, run: RunId, change: &'a RunChange) {
        match change {
            RunChange::Begin { realm, run, state } if InlineRun::qualifies(run, state) => {
                self.write_set.inline_runs.push(InlineRun {
                    realm: *realm,
                    run,
                    state,
                    entries: Vec::with_capacity(3),
                });
            }
            RunChange::Begin { realm, run: new, state } => {
                self.inserted.entry(new.id).or_insert(self.write_set.runs.len());
                self.write_set.runs.push(RunInsert { realm: *realm, run: new, state, server: self.server });
            }
            RunChange::StorePart { realm, part } => self.write_set.parts.push((*realm, part)),
            RunChange::Append(entry) => {
                match self.write_set.inline_runs.last_mut().filter(|inline| inline.run.id == run) {
                    // All changes of an inline run are adjacent, so comparing with the last inline run is enough.
                    Some(inline) => inline.entries.push(entry),
                    None => self.write_set.entries.push((run, entry)),
                }
            }
            RunChange::UpdateState { state, waits } => self.update_state(run, state, waits),
            RunChange::Decide(decision) => self.write_set.decisions.push((run, decision)),
            RunChange::RecordEffect(effect) => drop(self.effects.insert((run, &effect.call_id), effect)),
            RunChange::UndoEffect(undone) => self.write_set.undone.push((run, undone)),
            RunChange::Checkpoint(checkpoint) => drop(self.checkpoints.insert(run, checkpoint)),
            RunChange::Reply { id, reply } => self.write_set.replies.push((run, id, reply)),
            RunChange::ClearTasks => self.write_set.cleared.push(run),
            RunChange::OpenConversation { realm, conversation } => {
                self.write_set.conversations.push((*realm, conversation))
            }
            RunChange::AddTurns { realm, conversation, turns, title_if_none } => {
                let (realm, conversation, title_if_none) = (*realm, *conversation, title_if_none.as_deref());
                self.write_set.conversation_changes.push(ConversationChange::NewTurns(NewTurns {
                    realm,
                    conversation,
                    turns,
                    title_if_none,
                }));
            }
            RunChange::ShareContext { realm, conversation, shared_context } => {
                let (realm, conversation) = (*realm, *conversation);
                self.write_set.conversation_changes.push(ConversationChange::SharedContext(SharedContext {
                    realm,
                    conversation,
                    json: shared_context,
                }));
            }
            RunChange::Summarise { realm, conversation, summary, summarised_turns } => {
                let (realm, conversation, turns) = (*realm, *conversation, *summarised_turns);
                self.write_set.conversation_changes.push(ConversationChange::Summary(Summary {
                    realm,
                    conversation,
                    text: summary,
                    turns,
                }));
            }
        }
    }

    fn update_state(&mut self, run: RunId, state: &'a RunState, waits: &'a [Wait]) {
        self.waiting.insert(run, waits);
        if let Some(insert) = self.inserted.get(&run).and_then(|&at| self.write_set.runs.get_mut(at)) {
            insert.state = state;
        } else if let Some(earlier) = self.updated.get(&run).and_then(|&at| self.write_set.states.get_mut(at)) {
            earlier.state = state;
        } else {
            self.updated.insert(run, self.write_set.states.len());
            self.write_set.states.push(StateUpdate { run, state, server: self.server });
        }
    }

    fn finish(mut self) -> WriteSet<'a> {
        // Remove duplicate shared parts. An upsert statement fails if it contains the same row twice.
        self.write_set.parts.sort_by(|a, b| (a.0, &a.1.hash).cmp(&(b.0, &b.1.hash)));
        self.write_set.parts.dedup_by(|a, b| a.0 == b.0 && a.1.hash == b.1.hash);
        self.write_set.waits =
            self.waiting.iter().flat_map(|(run, waits)| waits.iter().map(|wait| (*run, wait))).collect();
        let inserted = self.write_set.runs.iter().map(|insert| (insert.run.id, insert.state));
        let updated = self.write_set.states.iter().map(|update| (update.run, update.state));
        let ended: HashSet<RunId> =
            inserted.chain(updated).filter(|(_, state)| state.ended_at.is_some()).map(|(run, _)| run).collect();
        self.write_set.ended = self.updated.keys().filter(|run| ended.contains(run)).copied().collect();
        self.write_set.checkpoints = self.checkpoints.into_iter().filter(|(run, _)| !ended.contains(run)).collect();
        self.write_set.effects = self.effects.into_iter().map(|((run, _), effect)| (run, effect)).collect();
        // The undone calls belong to other runs. All servers change the rows of these calls in the same order, which
        // prevents deadlocks.
        self.write_set.undone.sort_by(|(_, a), (_, b)| (a.run, &a.call_id).cmp(&(b.run, &b.call_id)));
        // INVARIANT: conversations are changed in the order of their ids and before runs. All servers lock rows in this
        // order, and the deletion of a conversation also locks the conversation before its runs. This prevents
        // deadlocks.
        self.write_set.conversation_changes.sort_by_key(ConversationChange::conversation);
        self.write_set
    }
}

impl ConversationChange<'_> {
    fn conversation(&self) -> ConversationId {
        match self {
            ConversationChange::NewTurns(turns) => turns.conversation,
            ConversationChange::Summary(summary) => summary.conversation,
            ConversationChange::SharedContext(shared) => shared.conversation,
        }
    }
}

#[cfg(test)]
mod tests {
    use toolwright_types::{DocumentId, Owner, PrincipalId, RunStatus, Timestamp};

    use super::*;
    use crate::runs::{EntryNotes, JournalPosition, NewRun, RunKind, RunLabels};

    fn state(status: RunStatus) -> RunState {
        RunState {
            status,
            reason: None,
            message: None,
            updated_at: Timestamp::from_micros(0),
            ended_at: None,
            wake_at: None,
            iterations: 0,
            tokens: 0,
            cost_usd: 0.0,
            driven: false,
            journal_position: JournalPosition::default(),
        }
    }

    fn begin(run: RunId) -> RunChange {
        let new = NewRun {
            id: run,
            kind: RunKind::Tool,
            subject: "t".into(),
            subject_hash: String::new(),
            parent: None,
            conversation: None,
            owner: Owner::new(PrincipalId::from_bits(0)),
            principal: PrincipalId::from_bits(0),
            durable: false,
            started_at: Timestamp::from_micros(0),
            fork: None,
            trial: None,
            shared_parts: Vec::new(),
            labels: RunLabels::default(),
        };
        RunChange::Begin {
            realm: RealmId::from_bits(0),
            run: Box::new(new),
            state: Box::new(state(RunStatus::Running)),
        }
    }

    fn append(n: u64) -> RunChange {
        RunChange::Append(JournalEntry {
            n,
            at: Timestamp::from_micros(0),
            kind: String::new(),
            body: String::new(),
            hash: [0; 32],
            notes: EntryNotes::default(),
        })
    }

    fn settle(status: RunStatus) -> RunChange {
        RunChange::UpdateState { state: state(status), waits: Vec::new() }
    }

    fn summarise(conversation: ConversationId, summarised_turns: u32) -> RunChange {
        RunChange::Summarise { realm: RealmId::from_bits(0), conversation, summary: String::new(), summarised_turns }
    }

    #[test]
    fn new_run_that_ends_in_the_same_batch_is_inserted_with_its_final_state() {
        let server = ServerId::generate();
        let [a, b] = [RunId::generate(), RunId::generate()];
        let changes = [
            (a, begin(a)),
            (a, append(1)),
            (b, begin(b)),
            (a, settle(RunStatus::AwaitingClient)),
            (b, append(1)),
            (a, append(2)),
            (a, settle(RunStatus::Completed)),
        ];
        let write_set = WriteSet::from_changes(&server, changes.iter().map(|(run, change)| (*run, change)));
        let runs: Vec<_> = write_set.runs.iter().map(|insert| (insert.run.id, insert.state.status)).collect();
        assert_eq!(runs, [(a, RunStatus::Completed), (b, RunStatus::Running)]);
        assert!(write_set.states.is_empty());
        let entries: Vec<_> = write_set.entries.iter().map(|(run, entry)| (*run, entry.n)).collect();
        assert_eq!(entries, [(a, 1), (b, 1), (a, 2)]);
    }

    #[test]
    fn existing_run_is_updated_once_with_its_last_state() {
        let server = ServerId::generate();
        let [a, b] = [RunId::generate(), RunId::generate()];
        let changes = [
            (a, settle(RunStatus::AwaitingApproval)),
            (b, settle(RunStatus::Error)),
            (a, settle(RunStatus::Completed)),
        ];
        let write_set = WriteSet::from_changes(&server, changes.iter().map(|(run, change)| (*run, change)));
        let states: Vec<_> = write_set.states.iter().map(|update| (update.run, update.state.status)).collect();
        assert_eq!(states, [(a, RunStatus::Completed), (b, RunStatus::Error)]);
    }

    #[test]
    fn conversation_changes_are_sorted_by_conversation_and_then_by_queue_order() {
        let (server, run) = (ServerId::generate(), RunId::generate());
        let [a, b] = [1, 2].map(ConversationId::from_bits);
        let changes = [summarise(b, 1), summarise(a, 1), summarise(b, 2), summarise(a, 2)];
        let write_set = WriteSet::from_changes(&server, changes.iter().map(|change| (run, change)));
        let order: Vec<_> = write_set
            .conversation_changes
            .iter()
            .map(|conversation_changes| match conversation_changes {
                ConversationChange::Summary(summary) => (summary.conversation, summary.turns),
                other => panic!("unexpected change: {other:?}"),
            })
            .collect();
        assert_eq!(order, [(a, 1), (a, 2), (b, 1), (b, 2)]);
    }
}
