//! Reads runs: their state, journals, checkpoints and waits.
//!
//! The [`Writer`](crate::Writer) writes runs in batches. This module does not parse the content of journal entries.

pub(crate) mod checkpoints;
pub(crate) mod decisions;
mod due;
pub(crate) mod effects;
mod filters;
pub(crate) mod inbox;
mod inline_journal;
mod journal_page;
mod list;
pub(crate) mod parts;
mod read;
mod remove;
mod rows;
pub(crate) mod servers;
pub(crate) mod tasks;
mod tree;
mod trials;
mod waits;
pub(crate) mod write;

use std::str::FromStr;

use toolwright_types::{
    CallId, ConversationId, Owner, PrincipalId, RealmId, RealmScope, RunId, RunStatus, Timestamp, TrialKind,
};

use crate::sql::Sql;
use crate::store::Store;

pub use decisions::{DecisionCursor, DecisionOutcome, DecisionQuery, DecisionRecord, StoredDecision};
pub use effects::{EffectCursor, EffectOutcome, EffectQuery, EffectRecord, Resolution, StoredEffect, UndoneEffect};
pub use filters::CallFilter;
pub use inbox::InboxItem;
pub use journal_page::{JournalPageQuery, JournalRow};
pub use list::{RunCursor, RunQuery};
pub use remove::Tombstone;
pub use servers::ServerId;
pub use tasks::{StoredTask, TaskStart, TaskState};
pub use trials::{TrialQuery, TrialSummary};
pub use waits::{PendingWait, WaitCursor, WaitQuery};

/// The runs of one realm.
#[derive(Debug, Clone, Copy)]
pub struct RealmRuns<'a> {
    store: &'a Store,
    // INVARIANT: every query of this handle selects rows of this realm only.
    realm: RealmId,
}

impl Store {
    /// Returns the runs of one realm.
    pub fn runs(&self, scope: &RealmScope) -> RealmRuns<'_> {
        RealmRuns::new(self, scope)
    }
}

impl<'a> RealmRuns<'a> {
    fn new(store: &'a Store, scope: &RealmScope) -> Self {
        Self { store, realm: scope.realm }
    }
}

/// The owners whose runs a query returns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Owners {
    /// One owner.
    Only(Owner),
    /// All owners of the realm: for a principal that may read all runs, and for the server itself. The results of such
    /// a query must not be shown to another principal.
    All,
}

impl Owners {
    /// Appends the condition that the run in the row `r` belongs to these owners.
    fn push(self, sql: &mut Sql) {
        if let Owners::Only(owner) = self {
            sql.push(" AND r.owner_id = ").text(owner.to_string());
        }
    }
}

/// The parent run and the root run of a run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Ancestry {
    /// The parent run.
    pub parent: Option<RunId>,
    /// The first run of the chain of parents. `None` if the run has no parent.
    pub root: Option<RunId>,
}

/// The kind of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum RunKind {
    /// The execution of an agent.
    Agent,
    /// One direct call to a tool.
    Tool,
    /// The execution of an agentic tool.
    AgenticTool,
    /// A call to a composite tool.
    CompositeTool,
    /// The execution of a workflow.
    Workflow,
}

impl RunKind {
    /// All kinds.
    pub const ALL: [RunKind; 5] =
        [RunKind::Agent, RunKind::Tool, RunKind::AgenticTool, RunKind::CompositeTool, RunKind::Workflow];

    /// The name of the kind in the database and in the REST API.
    pub fn as_str(self) -> &'static str {
        match self {
            RunKind::Agent => "agent",
            RunKind::Tool => "tool",
            RunKind::AgenticTool => "agentic-tool",
            RunKind::CompositeTool => "composite-tool",
            RunKind::Workflow => "workflow",
        }
    }
}

/// The text is not a kind of run.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("run kind must be `agent`, `tool`, `agentic-tool`, `composite-tool` or `workflow`, got `{0}`")]
pub struct UnknownRunKind(String);

impl FromStr for RunKind {
    type Err = UnknownRunKind;

    fn from_str(text: &str) -> Result<Self, UnknownRunKind> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == text).ok_or_else(|| UnknownRunKind(text.to_owned()))
    }
}

/// A new run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewRun {
    /// The id.
    pub id: RunId,
    /// The kind of run.
    pub kind: RunKind,
    /// The name of the agent or tool.
    pub subject: String,
    /// The content hash of the definition.
    pub subject_hash: String,
    /// The parent run.
    pub parent: Option<RunId>,
    /// The conversation that the run belongs to. Ignored if the conversation does not exist in the run's realm or was
    /// deleted.
    pub conversation: Option<ConversationId>,
    /// The principal that requested the run.
    pub owner: Owner,
    /// The principal whose permissions the run uses.
    pub principal: PrincipalId,
    /// Whether the run is recovered after a crash.
    pub durable: bool,
    /// The start time.
    pub started_at: Timestamp,
    /// The run that this run was forked from.
    pub fork: Option<Fork>,
    /// The trial that the run belongs to, if any.
    pub trial: Option<TrialAssignment>,
    /// The hashes of the shared parts to which the journal entries refer.
    pub shared_parts: Vec<PartHash>,
    /// Properties that are displayed in lists of runs.
    pub labels: RunLabels,
}

/// Properties that are displayed in lists of runs and can be searched for. All are absent in runs of earlier builds.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RunLabels {
    /// The version of the agent.
    pub agent_version: Option<String>,
    /// The correlation id of the request that started the run.
    pub correlation_id: Option<String>,
    /// The first characters of the user's message.
    pub user_message: Option<String>,
}

/// The trial that a run belongs to, and the arm (compared variant) that the run executes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TrialAssignment {
    /// The kind of trial.
    pub kind: TrialKind,
    /// The name of the arm: one of the variants that the trial compares.
    pub arm: String,
    /// For a comparison, the id of the trial. For a replay or a shadow run, the id of the original run.
    pub of: Option<String>,
}

/// The point at which a run was forked from another run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fork {
    /// The run from which this run was forked.
    pub run: RunId,
    /// The number of the last entry that both runs share.
    pub n: u64,
}

/// The current state of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct RunState {
    /// The status.
    pub status: RunStatus,
    /// The machine-readable reason for the status.
    pub reason: Option<String>,
    /// The explanation of the status for human readers.
    pub message: Option<String>,
    /// The time of the last change of the state.
    pub updated_at: Timestamp,
    /// The end time.
    pub ended_at: Option<Timestamp>,
    /// The time at which a server must wake the run if nothing else has woken it before.
    pub wake_at: Option<Timestamp>,
    /// The number of model calls.
    pub iterations: u32,
    /// The number of tokens used by the model calls.
    pub tokens: u64,
    /// The cost so far, in US dollars.
    pub cost_usd: f64,
    /// Whether the server that writes this state continues to drive the run.
    pub driven: bool,
    /// The position of the journal's last entry. The number is 0 if the journal is empty.
    pub journal_position: JournalPosition,
}

/// A position in a journal, identified by number and hash.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct JournalPosition {
    /// The number of the entry.
    pub n: u64,
    /// The hash of the entry. It also depends on all earlier entries.
    pub hash: EntryHash,
}

/// The hash of an entry and of all entries before it.
pub type EntryHash = [u8; 32];

/// The hash of a shared part's content, in hexadecimal.
pub type PartHash = String;

/// JSON that the start entries of many runs have in common, such as messages and tools. It is stored once per realm,
/// and entries refer to it by hash.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredPart {
    /// The hash of the content.
    pub hash: PartHash,
    /// The content, as JSON.
    pub body: String,
}

/// A stored run.
#[derive(Debug, Clone, PartialEq)]
pub struct Run {
    /// The realm.
    pub realm: RealmId,
    /// The id.
    pub id: RunId,
    /// The kind of run.
    pub kind: RunKind,
    /// The name of the agent or tool.
    pub subject: String,
    /// The content hash of the definition.
    pub subject_hash: String,
    /// The parent run.
    pub parent: Option<RunId>,
    /// The conversation that the run belongs to. `None` if it was deleted.
    pub conversation: Option<ConversationId>,
    /// The principal that requested the run.
    pub owner: Owner,
    /// The principal whose permissions the run uses.
    pub principal: PrincipalId,
    /// Whether the run is recovered after a crash.
    pub durable: bool,
    /// Whether the external scheduler drives the run. The scheduler then chooses a server for each task.
    pub scheduled: bool,
    /// The start time.
    pub started_at: Timestamp,
    /// The run that this run was forked from.
    pub fork: Option<Fork>,
    /// The trial that the run belongs to, if any.
    pub trial: Option<TrialAssignment>,
    /// Properties that are displayed in lists of runs.
    pub labels: RunLabels,
    /// The current state.
    pub state: RunState,
}

/// One stored entry of a run's journal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JournalEntry {
    /// The number of the entry: 1, 2, 3, without gaps.
    pub n: u64,
    /// The time of the event.
    pub at: Timestamp,
    /// The kind of the entry.
    pub kind: String,
    /// The content, as JSON.
    pub body: String,
    /// The hash of the entry and of all entries before it.
    pub hash: EntryHash,
    /// Further facts about the entry, for pages of a journal. They are not part of the hash.
    pub notes: EntryNotes,
}

/// Facts about an entry that its content does not contain, or that queries need. All are absent in entries of earlier
/// builds and in inline journals.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EntryNotes {
    /// The call to which the event of this entry belongs.
    pub call_id: Option<CallId>,
    /// The tool of the call.
    pub tool: Option<String>,
    /// The fork state of the run before this entry, as text. The machine defines the format.
    pub fork_state: Option<String>,
}

/// The saved state of a run's machine after one of its entries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredCheckpoint {
    /// The number of the entry after which the state was saved.
    pub n: u64,
    /// The state of the machine, as JSON.
    pub body: String,
}

/// An approval or a client result that a suspended run waits for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wait {
    /// The call that is blocked.
    pub call_id: CallId,
    /// The kind of wait.
    pub kind: WaitKind,
    /// The name of the tool.
    pub tool: String,
    /// The details for the person or client that has to act, as JSON.
    pub body: String,
    /// The start of the wait.
    pub requested_at: Timestamp,
    /// The time at which the wait expires.
    pub expires_at: Option<Timestamp>,
}

/// Who has to act before the run can continue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum WaitKind {
    /// A person approves or denies the call.
    Approval,
    /// A client executes the call and returns its result.
    Client,
}

impl WaitKind {
    /// The name of the kind in the database.
    pub fn as_str(self) -> &'static str {
        match self {
            WaitKind::Approval => "approval",
            WaitKind::Client => "client",
        }
    }
}
