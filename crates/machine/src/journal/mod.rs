//! The journal of a run: everything it could not have computed by itself, in the order it learned it.
//!
//! An entry is written before its effect counts. The state of a run, its timeline and its outputs are functions of
//! these entries; [`replay`] is the one that makes the machine.

pub mod bundle;
pub mod chain;
pub mod diff;
pub mod parts;
pub mod recording;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use toolwright_types::{
    CallId, ConversationId, LlmConfig, ModelChoice, RunId, Timestamp, ToolDefinition, ToolEnvelope, Trial,
};

use self::recording::Recording;

use crate::agent::{AgentRun, Event, EventError, Happened, Spec};

/// The form in which entries are written. A release reads its own and all earlier ones.
const VERSION: u32 = 1;

/// As long as most entries are, so that their texts need not grow.
const USUAL_LENGTH: usize = 1024;

/// One entry.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    /// Its number, from 1.
    pub n: u64,
    /// When it was made.
    pub at: Timestamp,
    /// What it says.
    pub what: Recorded,
}

/// What an entry says.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Recorded {
    /// The run began; the first entry of every journal, and nowhere else.
    Began(Box<Began>),
    /// Something that the machine was told.
    #[serde(untagged)]
    Happened(Happened),
}

/// What a run began with.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Began {
    /// The agent, by name; the tool, if one was called directly.
    pub agent: String,
    /// Whether a tool was called directly: there is no agent.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub direct: bool,
    /// The exact definition.
    pub definition_hash: String,
    /// Who asked for the run, by name.
    pub owner: String,
    /// On whose authority it acts, by name.
    pub principal: String,
    /// The model, and what to ask when it cannot be had.
    #[serde(default, skip_serializing_if = "is_default")]
    pub model: LlmConfig,
    /// The model to ask when the first cannot be had.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fallback: Option<ModelChoice>,
    /// Which of its tools are agents.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub delegates: BTreeSet<String>,
    /// The versions that are wanted of its tools, where any are.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub wanted: BTreeMap<String, String>,
    /// The tools that the agent brought along: no realm has them, so whoever goes on with the run finds them here.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub carried: Vec<ToolDefinition>,
    /// Whether each entry is committed before the next effect.
    #[serde(default, skip_serializing_if = "is_default")]
    pub durable: bool,
    /// How many runs started runs to get here.
    #[serde(default, skip_serializing_if = "is_default")]
    pub depth: u8,
    /// The run that this one is a part of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<RunId>,
    /// The call of that run that started this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent_call: Option<CallId>,
    /// The conversation it belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conversation: Option<ConversationId>,
    /// The client's session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// The run whose beginning it shares, and the last entry that it does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forked_from: Option<(RunId, u64)>,
    /// The implementations that its tools are bound to, where they are: `tool` or `tool@requirement`, by the tool.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub bound: BTreeMap<String, String>,
    /// Its part in a trial.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trial: Option<Trial>,
    /// What is answered as it was before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recording: Option<Arc<Recording>>,
    /// The run whose calls it takes back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub undoes: Option<RunId>,
    /// What its author should know about the way it began.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
    /// What the machine was given.
    pub spec: Spec,
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

impl Began {
    /// A beginning on the authority of whoever asked for it, with nothing that a run need not have.
    pub fn of(
        agent: impl Into<String>,
        definition_hash: impl Into<String>,
        who: impl Into<String>,
        spec: Spec,
    ) -> Self {
        let who = who.into();
        Self {
            agent: agent.into(),
            direct: false,
            definition_hash: definition_hash.into(),
            owner: who.clone(),
            principal: who,
            model: LlmConfig::default(),
            fallback: None,
            delegates: BTreeSet::new(),
            wanted: BTreeMap::new(),
            carried: Vec::new(),
            durable: false,
            depth: 0,
            parent: None,
            parent_call: None,
            conversation: None,
            session: None,
            forked_from: None,
            bound: BTreeMap::new(),
            trial: None,
            recording: None,
            undoes: None,
            warnings: Vec::new(),
            spec,
        }
    }
}

/// A written entry that cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum UnreadableEntry {
    /// Written by a later release.
    #[error("entry {n} has form {version}, which this release does not know")]
    Version {
        /// The entry.
        n: u64,
        /// Its form.
        version: u32,
    },
    /// Damaged.
    #[error("entry {n} cannot be read")]
    Damaged {
        /// The entry.
        n: u64,
        /// What does not fit.
        #[source]
        source: serde_json::Error,
    },
}

/// Entries that are no journal.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    /// The first is not a beginning.
    #[error("the journal does not begin with the beginning of a run")]
    NoBeginning,
    /// A number is missing or comes twice.
    #[error("entry {found} stands where entry {expected} should")]
    Gap {
        /// The number that should come.
        expected: u64,
        /// The number that came.
        found: u64,
    },
    /// The machine does not take an entry.
    #[error("entry {n} does not fit the run")]
    Rejected {
        /// The entry.
        n: u64,
        /// Why not.
        #[source]
        source: EventError,
    },
}

#[derive(Serialize)]
struct Writing<'a> {
    v: u32,
    #[serde(flatten)]
    what: &'a Recorded,
}

/// The kind of entry that a journal begins with.
pub const BEGAN: &str = "began";

/// The kind of entry that says whether calls can be made.
pub const PREPARED: &str = "prepared";

/// The kind of entry that says how a call ended.
pub const CALL_ENDED: &str = "call_ended";

/// The text of the entry that says that a call ended, and no more than its receipt does: that of
/// [`Happened::ended`], without a copy of the receipt.
#[expect(clippy::expect_used, reason = "an envelope is JSON")]
pub fn call_ended(envelope: &ToolEnvelope) -> String {
    #[derive(Serialize)]
    struct Ended<'a> {
        v: u32,
        r#type: &'static str,
        envelope: &'a ToolEnvelope,
    }
    written(&Ended { v: VERSION, r#type: CALL_ENDED, envelope }).expect("an entry is JSON")
}

/// As text, in one piece for entries of the usual length.
fn written(entry: &impl Serialize) -> Result<String, serde_json::Error> {
    let mut text = Vec::with_capacity(USUAL_LENGTH);
    serde_json::to_writer(&mut text, entry)?;
    String::from_utf8(text).map_err(serde::ser::Error::custom)
}

#[derive(Deserialize)]
struct Header {
    v: u32,
}

impl Entry {
    /// The word for what it says.
    pub fn kind(&self) -> &'static str {
        match &self.what {
            Recorded::Began(_) => BEGAN,
            Recorded::Happened(happened) => happened.kind(),
        }
    }

    /// What it says, as JSON text with the form's version.
    #[expect(clippy::expect_used, reason = "every map key is a string and every number finite; tests write every kind")]
    pub fn body(&self) -> String {
        written(&Writing { v: VERSION, what: &self.what }).expect("an entry is JSON")
    }

    /// What it says, as it is written: what many runs have in common is taken out and named by its hash.
    #[expect(clippy::expect_used, reason = "as above")]
    pub fn parted(&self) -> (String, Vec<parts::Part>) {
        if !matches!(self.what, Recorded::Began(_)) {
            return (self.body(), Vec::new());
        }
        let mut entry = serde_json::to_value(Writing { v: VERSION, what: &self.what }).expect("an entry is JSON");
        let parts = parts::take_out(&mut entry);
        (entry.to_string(), parts)
    }

    /// The entry from its parts.
    pub fn read(n: u64, at: Timestamp, body: &str) -> Result<Self, UnreadableEntry> {
        let damaged = |source| UnreadableEntry::Damaged { n, source };
        let Header { v } = serde_json::from_str(body).map_err(damaged)?;
        match v {
            VERSION => Ok(Self { n, at, what: serde_json::from_str(body).map_err(damaged)? }),
            version => Err(UnreadableEntry::Version { n, version }),
        }
    }
}

/// A run as it stood after one of its entries. Whoever goes on from here needs nothing that came before, not even a
/// machine that would decide the same today.
#[derive(Debug, Clone, PartialEq)]
pub struct Checkpoint {
    /// The entry.
    pub n: u64,
    /// The machine.
    pub run: AgentRun,
}

/// The run that these entries made, and what it began with. What it waits for has been handed out to nobody.
pub fn replay(entries: impl IntoIterator<Item = Entry>) -> Result<(Began, AgentRun), ReplayError> {
    replay_from(None, entries)
}

/// The same, from a checkpoint on if there is one: the entries up to it are there to be read, not to be told again.
pub fn replay_from(
    checkpoint: Option<Checkpoint>,
    entries: impl IntoIterator<Item = Entry>,
) -> Result<(Began, AgentRun), ReplayError> {
    let mut entries = entries.into_iter();
    let first = entries.next().ok_or(ReplayError::NoBeginning)?;
    let Recorded::Began(began) = first.what else {
        return Err(ReplayError::NoBeginning);
    };
    let (known, mut run) = match checkpoint {
        Some(Checkpoint { n, run }) => (n, run),
        None => (first.n, AgentRun::new(began.spec.clone(), first.at)),
    };
    let mut last = first.n;
    for entry in entries {
        if entry.n != last + 1 {
            return Err(ReplayError::Gap { expected: last + 1, found: entry.n });
        }
        last = entry.n;
        if last <= known {
            continue;
        }
        if let Recorded::Happened(what) = entry.what {
            // As in life: an effect counts as handed out before its answer comes.
            run.hand_out();
            run.apply(Event { at: entry.at, what }).map_err(|source| ReplayError::Rejected { n: last, source })?;
        }
    }
    run.reissue();
    Ok((*began, run))
}
