//! Runs: what was started, where it stands, its journal, and what it waits for.
//!
//! Here they are read. They are written by the [`Writer`](crate::Writer), many at a time; what an entry says is the
//! business of whoever drives the run.

pub(crate) mod checkpoints;
mod list;
pub(crate) mod parts;
mod read;
mod remove;
mod rows;
pub(crate) mod servers;
pub(crate) mod steps;
mod story;
mod upkeep;
mod waits;
pub(crate) mod write;

use std::str::FromStr;

use toolwright_types::{
    CallId, ConversationId, PrincipalId, RealmId, RealmScope, RunId, RunStatus, Timestamp, TrialKind,
};

use crate::store::Store;

pub use list::{RunCursor, RunQuery};
pub use remove::Tombstone;
pub use servers::ServerId;
pub use steps::{Said, StepState};
pub use waits::{PendingWait, WaitCursor, WaitQuery};

/// The runs of one realm; those of every other do not exist here.
#[derive(Debug, Clone, Copy)]
pub struct Runs<'a> {
    store: &'a Store,
    // INVARIANT: every query of this module but those of `upkeep` is confined to this realm.
    realm: RealmId,
}

impl<'a> Runs<'a> {
    pub(crate) fn new(store: &'a Store, scope: &RealmScope) -> Self {
        Self { store, realm: scope.realm }
    }
}

/// What a run is an execution of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum RunKind {
    /// An agent.
    Agent,
    /// One call of a tool.
    Tool,
}

impl RunKind {
    /// Every kind.
    pub const ALL: [RunKind; 2] = [RunKind::Agent, RunKind::Tool];

    /// The kind as it is written on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            RunKind::Agent => "agent",
            RunKind::Tool => "tool",
        }
    }
}

/// Text that is no kind of run.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a kind of run; `agent` and `tool` are")]
pub struct UnknownRunKind(String);

impl FromStr for RunKind {
    type Err = UnknownRunKind;

    fn from_str(text: &str) -> Result<Self, UnknownRunKind> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == text).ok_or_else(|| UnknownRunKind(text.to_owned()))
    }
}

/// A run that begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewRun {
    /// Its identity.
    pub id: RunId,
    /// What it is an execution of.
    pub kind: RunKind,
    /// The name of that agent or tool.
    pub subject: String,
    /// The content hash of its definition.
    pub subject_hash: String,
    /// The run that started it.
    pub parent: Option<RunId>,
    /// The conversation it is part of; left out when that does not exist in the run's realm, or no longer.
    pub conversation: Option<ConversationId>,
    /// Who asked for it.
    pub owner: PrincipalId,
    /// On whose authority it acts.
    pub principal: PrincipalId,
    /// Whether it goes on after a crash.
    pub durable: bool,
    /// When it began.
    pub started_at: Timestamp,
    /// The run whose beginning it shares.
    pub fork: Option<Fork>,
    /// Its part in a trial.
    pub trial: Option<InTrial>,
    /// The parts that its entries name.
    pub parts: Vec<PartHash>,
}

/// The part that a run has in a trial, as lists show it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InTrial {
    /// What kind of trial.
    pub kind: TrialKind,
    /// Which of the implementations that are tried.
    pub arm: String,
    /// The trial, or the run that it replays or is the shadow of.
    pub of: Option<String>,
}

/// Where a run left another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fork {
    /// The other run.
    pub run: RunId,
    /// The last entry of that run which is this one's too.
    pub n: u64,
}

/// Where a run stands.
#[derive(Debug, Clone, PartialEq)]
pub struct RunState {
    /// In one word.
    pub status: RunStatus,
    /// Why it has this status, in a word for programs.
    pub reason: Option<String>,
    /// And in a sentence for people.
    pub message: Option<String>,
    /// Since when this is so.
    pub updated_at: Timestamp,
    /// When it ended.
    pub ended_at: Option<Timestamp>,
    /// When it must be looked at again, whatever happens until then.
    pub wake_at: Option<Timestamp>,
    /// How often the model was asked.
    pub iterations: u32,
    /// The tokens that took.
    pub tokens: u64,
    /// What it cost so far, in US dollars.
    pub cost_usd: f64,
    /// Whether the server that writes this goes on with it.
    pub driven: bool,
    /// The last entry of its journal so far; number 0 when there is none.
    pub mark: Mark,
}

/// A place in a journal that can be told from every other.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Mark {
    /// The entry's number.
    pub n: u64,
    /// Its hash, which covers all before it.
    pub hash: EntryHash,
}

/// What entries are chained with.
pub type EntryHash = [u8; 32];

/// What a part is found by: the hash of what it says, in hexadecimal.
pub type PartHash = String;

/// Something that entries of several runs have in common.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part {
    /// The hash of what it says.
    pub hash: PartHash,
    /// What it says, as JSON.
    pub body: String,
}

/// A run as it stands in the store.
#[derive(Debug, Clone, PartialEq)]
pub struct Run {
    /// The realm it belongs to.
    pub realm: RealmId,
    /// Its identity.
    pub id: RunId,
    /// What it is an execution of.
    pub kind: RunKind,
    /// The name of that agent or tool.
    pub subject: String,
    /// The content hash of its definition.
    pub subject_hash: String,
    /// The run that started it.
    pub parent: Option<RunId>,
    /// The conversation it is part of; none when that was deleted.
    pub conversation: Option<ConversationId>,
    /// Who asked for it.
    pub owner: PrincipalId,
    /// On whose authority it acts.
    pub principal: PrincipalId,
    /// Whether it goes on after a crash.
    pub durable: bool,
    /// Whether a conductor outside drives it, through whichever server it reaches.
    pub conducted: bool,
    /// When it began.
    pub started_at: Timestamp,
    /// The run whose beginning it shares.
    pub fork: Option<Fork>,
    /// Its part in a trial.
    pub trial: Option<InTrial>,
    /// Where it stands.
    pub state: RunState,
}

/// One entry of a run's journal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Its number in the run, from 1 on, without gaps.
    pub n: u64,
    /// When it happened.
    pub at: Timestamp,
    /// What kind of thing.
    pub kind: String,
    /// The thing itself, as JSON.
    pub body: String,
    /// The hash of the entry and of all before it; zeros in a journal that was written before there were any.
    pub hash: EntryHash,
}

/// Where a run stood after one of its entries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Checkpoint {
    /// The entry.
    pub n: u64,
    /// Its machine, as JSON.
    pub body: String,
}

/// Something a suspended run waits for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wait {
    /// The call that cannot go on.
    pub call_id: CallId,
    /// Who has to act.
    pub kind: WaitKind,
    /// What they need to know, as JSON.
    pub body: String,
    /// Since when.
    pub asked_at: Timestamp,
    /// Until when.
    pub expires_at: Option<Timestamp>,
}

/// Who has to act before a run can go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum WaitKind {
    /// A person decides whether the call may be made.
    Approval,
    /// A client makes the call and returns its result.
    Client,
}

impl WaitKind {
    /// The kind as it is stored.
    pub fn as_str(self) -> &'static str {
        match self {
            WaitKind::Approval => "approval",
            WaitKind::Client => "client",
        }
    }
}
