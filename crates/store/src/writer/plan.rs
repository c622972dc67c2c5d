//! The rows that a batch of changes comes down to. A pure function: nothing here touches a database.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use toolwright_types::{ConversationId, RealmId, RunId};

use super::Change;
use crate::conversations::NewConversation;
use crate::conversations::write::{Said, Summary};
use crate::runs::write::{Begun, Settled, Told};
use crate::runs::{Checkpoint, Entry, Part, RunState, ServerId, Wait};

/// What to write, each kind in the order it was queued.
///
/// Inside a transaction only the outcome counts, so of several states of a run the last is written, a run that began
/// in the batch is inserted as it stands at its end, and all entries go into one table in one go.
#[derive(Debug, Default)]
pub(super) struct Plan<'a> {
    pub(super) conversations: Vec<(RealmId, &'a NewConversation)>,
    pub(super) talk: Vec<Talk<'a>>,
    pub(super) runs: Vec<Begun<'a>>,
    /// Runs that were over before they were written.
    pub(super) told: Vec<Told<'a>>,
    pub(super) entries: Vec<(RunId, &'a Entry)>,
    pub(super) parts: Vec<(RealmId, &'a Part)>,
    /// Of runs that began before the batch.
    pub(super) states: Vec<Settled<'a>>,
    pub(super) waits: Vec<(RunId, &'a Wait)>,
    /// The last checkpoint of each run that goes on.
    pub(super) checkpoints: Vec<(RunId, &'a Checkpoint)>,
    /// Runs that have ended and began before the batch.
    pub(super) ended: Vec<RunId>,
    /// What runs answer to what was said to them.
    pub(super) answers: Vec<(RunId, &'a str, &'a str)>,
    /// Runs whose steps are of no use any more.
    pub(super) cleared: Vec<RunId>,
}

/// A change of a conversation.
#[derive(Debug)]
pub(super) enum Talk<'a> {
    Said(Said<'a>),
    Summary(Summary<'a>),
}

impl<'a> Plan<'a> {
    /// The runs that began before the batch and have entries in it.
    pub(super) fn continued(&self) -> Vec<RunId> {
        let begun: HashSet<RunId> = self.runs.iter().map(|begun| begun.run.id).collect();
        let continued: BTreeSet<RunId> = self.entries.iter().map(|(run, _)| *run).collect();
        continued.into_iter().filter(|run| !begun.contains(run)).collect()
    }

    pub(super) fn of(server: &'a ServerId, changes: impl IntoIterator<Item = (RunId, &'a Change)>) -> Self {
        let mut planner = Planner::by(server);
        for (run, change) in changes {
            planner.add(run, change);
        }
        planner.finish()
    }
}

struct Planner<'a> {
    server: &'a ServerId,
    plan: Plan<'a>,
    /// Where in `plan.runs` a run is that began in the batch.
    begun: HashMap<RunId, usize>,
    /// Where in `plan.states` one is that began before.
    settled: HashMap<RunId, usize>,
    /// What each run waits for in the end.
    waiting: BTreeMap<RunId, &'a [Wait]>,
    /// The last checkpoint of each run.
    checkpoints: BTreeMap<RunId, &'a Checkpoint>,
}

impl<'a> Planner<'a> {
    fn by(server: &'a ServerId) -> Self {
        Self {
            server,
            plan: Plan::default(),
            begun: HashMap::new(),
            settled: HashMap::new(),
            waiting: BTreeMap::new(),
            checkpoints: BTreeMap::new(),
        }
    }

    fn add(&mut self, run: RunId, change: &'a Change) {
        match change {
            Change::Begin { realm, run, state } if Told::is_one(run, state) => {
                self.plan.told.push(Told { realm: *realm, run, state, entries: Vec::with_capacity(3) });
            }
            Change::Begin { realm, run: new, state } => {
                self.begun.entry(new.id).or_insert(self.plan.runs.len());
                self.plan.runs.push(Begun { realm: *realm, run: new, state, server: self.server });
            }
            Change::Keep { realm, part } => self.plan.parts.push((*realm, part)),
            Change::Append(entry) => match self.plan.told.last_mut().filter(|told| told.run.id == run) {
                // All changes of such a run come one after the other.
                Some(told) => told.entries.push(entry),
                None => self.plan.entries.push((run, entry)),
            },
            Change::Settle { state, waits } => self.settle(run, state, waits),
            Change::Checkpoint(checkpoint) => drop(self.checkpoints.insert(run, checkpoint)),
            Change::Answer { id, answer } => self.plan.answers.push((run, id, answer)),
            Change::ClearSteps => self.plan.cleared.push(run),
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
            earlier.state = state;
        } else {
            self.settled.insert(run, self.plan.states.len());
            self.plan.states.push(Settled { run, state, server: self.server });
        }
    }

    fn finish(mut self) -> Plan<'a> {
        // One statement cannot keep the same part twice.
        self.plan.parts.sort_by(|a, b| (a.0, &a.1.hash).cmp(&(b.0, &b.1.hash)));
        self.plan.parts.dedup_by(|a, b| a.0 == b.0 && a.1.hash == b.1.hash);
        self.plan.waits = self.waiting.iter().flat_map(|(run, waits)| waits.iter().map(|wait| (*run, wait))).collect();
        let begun = self.plan.runs.iter().map(|begun| (begun.run.id, begun.state));
        let settled = self.plan.states.iter().map(|settled| (settled.run, settled.state));
        let ended: HashSet<RunId> =
            begun.chain(settled).filter(|(_, state)| state.ended_at.is_some()).map(|(run, _)| run).collect();
        self.plan.ended = self.settled.keys().filter(|run| ended.contains(run)).copied().collect();
        self.plan.checkpoints = self.checkpoints.into_iter().filter(|(run, _)| !ended.contains(run)).collect();
        // INVARIANT: conversations are changed in the order of their ids, and before runs. Other servers do as we do, and
        // whoever deletes a conversation locks it before its runs; so transactions queue for it instead of each holding
        // what the other wants.
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

#[cfg(test)]
mod tests {
    use toolwright_types::{DocumentId, PrincipalId, RunStatus, Timestamp};

    use super::*;
    use crate::runs::{Mark, NewRun, RunKind};

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
            mark: Mark::default(),
        }
    }

    fn begin(run: RunId) -> Change {
        let new = NewRun {
            id: run,
            kind: RunKind::Tool,
            subject: "t".into(),
            subject_hash: String::new(),
            parent: None,
            conversation: None,
            owner: PrincipalId::from_bits(0),
            principal: PrincipalId::from_bits(0),
            durable: false,
            started_at: Timestamp::from_micros(0),
            fork: None,
            trial: None,
            parts: Vec::new(),
        };
        Change::Begin { realm: RealmId::from_bits(0), run: Box::new(new), state: Box::new(state(RunStatus::Running)) }
    }

    fn append(n: u64) -> Change {
        Change::Append(Entry {
            n,
            at: Timestamp::from_micros(0),
            kind: String::new(),
            body: String::new(),
            hash: [0; 32],
        })
    }

    fn settle(status: RunStatus) -> Change {
        Change::Settle { state: state(status), waits: Vec::new() }
    }

    fn summarise(conversation: ConversationId, summarised_turns: u32) -> Change {
        Change::Summarise { realm: RealmId::from_bits(0), conversation, summary: String::new(), summarised_turns }
    }

    #[test]
    fn a_whole_run_in_one_batch_is_one_row_and_its_entries() {
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
        let plan = Plan::of(&server, changes.iter().map(|(run, change)| (*run, change)));
        let runs: Vec<_> = plan.runs.iter().map(|begun| (begun.run.id, begun.state.status)).collect();
        assert_eq!(runs, [(a, RunStatus::Completed), (b, RunStatus::Running)]);
        assert!(plan.states.is_empty());
        let entries: Vec<_> = plan.entries.iter().map(|(run, entry)| (*run, entry.n)).collect();
        assert_eq!(entries, [(a, 1), (b, 1), (a, 2)]);
    }

    #[test]
    fn of_a_run_that_began_before_the_last_state_is_written() {
        let server = ServerId::generate();
        let [a, b] = [RunId::generate(), RunId::generate()];
        let changes = [
            (a, settle(RunStatus::AwaitingApproval)),
            (b, settle(RunStatus::Error)),
            (a, settle(RunStatus::Completed)),
        ];
        let plan = Plan::of(&server, changes.iter().map(|(run, change)| (*run, change)));
        let states: Vec<_> = plan.states.iter().map(|settled| (settled.run, settled.state.status)).collect();
        assert_eq!(states, [(a, RunStatus::Completed), (b, RunStatus::Error)]);
    }

    #[test]
    fn conversations_are_changed_in_the_order_of_their_ids_and_each_in_the_order_of_its_changes() {
        let (server, run) = (ServerId::generate(), RunId::generate());
        let [a, b] = [1, 2].map(ConversationId::from_bits);
        let changes = [summarise(b, 1), summarise(a, 1), summarise(b, 2), summarise(a, 2)];
        let plan = Plan::of(&server, changes.iter().map(|change| (run, change)));
        let order: Vec<_> = plan
            .talk
            .iter()
            .map(|talk| match talk {
                Talk::Summary(summary) => (summary.conversation, summary.turns),
                Talk::Said(said) => panic!("nothing was said: {said:?}"),
            })
            .collect();
        assert_eq!(order, [(a, 1), (a, 2), (b, 1), (b, 2)]);
    }
}
