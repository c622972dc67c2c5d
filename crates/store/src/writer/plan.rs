//! The rows that a batch of changes comes down to. A pure function: nothing here touches a database.

use std::collections::{BTreeMap, HashMap};

use toolwright_types::{ConversationId, RealmId, RunId};

use super::Change;
use crate::conversations::NewConversation;
use crate::conversations::write::{Said, Summary};
use crate::runs::write::Begun;
use crate::runs::{Entry, RunState, Wait};

/// What to write, each kind in the order it was queued.
///
/// Inside a transaction only the outcome counts, so of several states of a run the last is written, a run that began
/// in the batch is inserted as it stands at its end, and all entries go into one table in one go.
#[derive(Debug, Default)]
pub(super) struct Plan<'a> {
    pub(super) conversations: Vec<(RealmId, &'a NewConversation)>,
    pub(super) talk: Vec<Talk<'a>>,
    pub(super) runs: Vec<Begun<'a>>,
    pub(super) entries: Vec<(RunId, &'a Entry)>,
    /// Of runs that began before the batch.
    pub(super) states: Vec<(RunId, &'a RunState)>,
    pub(super) waits: Vec<(RunId, &'a Wait)>,
}

/// A change of a conversation.
#[derive(Debug)]
pub(super) enum Talk<'a> {
    Said(Said<'a>),
    Summary(Summary<'a>),
}

impl<'a> Plan<'a> {
    pub(super) fn of(changes: impl IntoIterator<Item = (RunId, &'a Change)>) -> Self {
        let mut planner = Planner::default();
        for (run, change) in changes {
            planner.add(run, change);
        }
        planner.finish()
    }
}

#[derive(Default)]
struct Planner<'a> {
    plan: Plan<'a>,
    /// Where in `plan.runs` a run is that began in the batch.
    begun: HashMap<RunId, usize>,
    /// Where in `plan.states` one is that began before.
    settled: HashMap<RunId, usize>,
    /// What each run waits for in the end.
    waiting: BTreeMap<RunId, &'a [Wait]>,
}

impl<'a> Planner<'a> {
    fn add(&mut self, run: RunId, change: &'a Change) {
        match change {
            Change::Begin { realm, run: new, state } => {
                self.begun.entry(new.id).or_insert(self.plan.runs.len());
                self.plan.runs.push(Begun { realm: *realm, run: new, state });
            }
            Change::Append(entry) => self.plan.entries.push((run, entry)),
            Change::Settle { state, waits } => self.settle(run, state, waits),
            Change::OpenConversation { realm, conversation } => self.plan.conversations.push((*realm, conversation)),
            Change::AddTurns { realm, conversation, turns, title_if_none } => {
                let (realm, conversation, title_if_none) = (*realm, *conversation, title_if_none.as_deref());
                self.plan.talk.push(Talk::Said(Said { realm, conversation, turns, title_if_none }));
            }
            Change::Summarise { realm, conversation, summary, summarised_turns } => {
                let (realm, conversation, turns) = (*realm, *conversation, *summarised_turns);
                self.plan.talk.push(Talk::Summary(Summary { realm, conversation, text: summary, turns }));
            }
        }
    }

    fn settle(&mut self, run: RunId, state: &'a RunState, waits: &'a [Wait]) {
        self.waiting.insert(run, waits);
        if let Some(begun) = self.begun.get(&run).and_then(|&at| self.plan.runs.get_mut(at)) {
            begun.state = state;
        } else if let Some(earlier) = self.settled.get(&run).and_then(|&at| self.plan.states.get_mut(at)) {
            earlier.1 = state;
        } else {
            self.settled.insert(run, self.plan.states.len());
            self.plan.states.push((run, state));
        }
    }

    fn finish(mut self) -> Plan<'a> {
        self.plan.waits = self.waiting.iter().flat_map(|(run, waits)| waits.iter().map(|wait| (*run, wait))).collect();
        // INVARIANT: conversations are changed in the order of their ids, and before runs. Whoever deletes one locks it
        // before its runs, and other servers do as we do; so no two transactions wait for each other in a ring.
        self.plan.talk.sort_by_key(Talk::conversation);
        self.plan
    }
}

impl Talk<'_> {
    fn conversation(&self) -> ConversationId {
        match self {
            Talk::Said(said) => said.conversation,
            Talk::Summary(summary) => summary.conversation,
        }
    }
}
