//! The journal of a run: everything that the run could not have computed by itself, in order of arrival.
//!
//! An entry is written before its event takes effect. The state of a run, its timeline and its outputs are functions of
//! these entries; [`replay`] computes the state.

pub mod bundle;
pub mod chain;
pub mod diff;
pub mod recording;
mod replay;
pub mod shared_parts;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use toolwright_types::{
    CallId, ConversationId, CorrelationId, ExecutionMode, LlmConfig, ModelChoice, RunId, Timestamp, ToolDefinition,
    ToolEnvelope, Trial,
};

use self::recording::Recording;
pub use self::replay::{Checkpoint, ReplayError, Replayer, replay, replay_from};

use crate::agent::{EventKind, RunSpec};
use crate::is_default;

/// The format version of entries. A release reads this version and all earlier versions.
const FORMAT_VERSION: u32 = 1;

/// The initial buffer size for the text of an entry, large enough for most entries.
const TYPICAL_ENTRY_BYTES: usize = 1024;

/// One journal entry.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    /// The number of the entry, from 1.
    pub n: u64,
    /// The time of the entry.
    pub at: Timestamp,
    /// The content of the entry.
    pub body: EntryBody,
}

/// The content of an entry.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum EntryBody {
    /// The start of the run. Only the first entry of a journal has this content.
    Started(Box<RunStart>),
    /// An event that was applied to the machine.
    #[serde(untagged)]
    Event(EventKind),
}

/// The start of a run: its definition, its principal, its context and its spec.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunStart {
    /// The name of the agent, or of the tool in a direct call.
    pub subject: String,
    /// Whether the run is a direct call to a tool, without an agent.
    #[serde(default, skip_serializing_if = "is_default")]
    pub direct: bool,
    /// The call that the run performs, if the run executes an agentic tool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agentic: Option<Box<AgenticExecution>>,
    /// The call that the run performs, if the run is a call to a composite tool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub composite: Option<Box<CompositeCall>>,
    /// The version of the agent. Absent in a direct call and in journals of earlier releases.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_version: Option<String>,
    /// The hash of the exact definition.
    pub definition_hash: String,
    /// The name of the principal who requested the run.
    pub owner: String,
    /// The name of the principal whose permissions apply to the run.
    pub principal: String,
    /// The model configuration.
    #[serde(default, skip_serializing_if = "is_default")]
    pub model: LlmConfig,
    /// The fallback model. It is used when the configured model is unavailable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fallback: Option<ModelChoice>,
    /// The names of the tools that are agents.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub delegates: BTreeSet<String>,
    /// The names of those tools of the run that are agentic or composite. Calls to them start child runs too.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub agentic_tools: BTreeSet<String>,
    /// The version requirements for the agent's tools, by tool name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub version_requirements: BTreeMap<String, String>,
    /// Tool definitions that the agent definition contains. They are not stored as definitions of a realm, so recovery
    /// reads them from the journal.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tool_definitions: Vec<ToolDefinition>,
    /// Whether the run continues after a crash. If so, each entry is committed before the next effect starts.
    #[serde(default, skip_serializing_if = "is_default")]
    pub durable: bool,
    /// The number of ancestors of the run: 0 for a run without a parent.
    #[serde(default, skip_serializing_if = "is_default")]
    pub depth: u8,
    /// The number of Toolwright servers that the request passed through before the run was started here.
    #[serde(default, skip_serializing_if = "is_default")]
    pub hops: u8,
    /// The correlation id of the request that started the run. Absent if no request started it, and in journals of
    /// earlier releases.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub correlation: Option<CorrelationId>,
    /// The parent run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<RunId>,
    /// The call of the parent run that started this run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent_call: Option<CallId>,
    /// The conversation to which the run adds turns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conversation: Option<ConversationId>,
    /// The id of the client's session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// The run that this run was forked from, and the number of the last entry that both journals contain.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forked_from: Option<(RunId, u64)>,
    /// The library of the run: for each tool name, the implementation as `tool` or `tool@requirement`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub bindings: BTreeMap<String, String>,
    /// The run's role in a trial.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trial: Option<Trial>,
    /// The recording whose replies and envelopes answer the model calls and tool calls of this run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recording: Option<Arc<Recording>>,
    /// The run whose calls this run compensates.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compensates: Option<RunId>,
    /// Warnings about how the run was started.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
    /// The input of the machine.
    pub spec: RunSpec,
}

/// A call to an agentic tool, as recorded by the run that performs it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AgenticExecution {
    /// The id of the tool.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub tool_id: String,
    /// How the tool uses its model.
    pub mode: ExecutionMode,
    /// The input of the call.
    pub input: Value,
}

/// A call to a composite tool, as recorded by the run that performs it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CompositeCall {
    /// The id of the composite tool.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub tool_id: String,
    /// The operation to which the call was routed.
    pub operation: String,
}

impl RunStart {
    /// Creates the start of a run that acts with the permissions of its owner. All optional fields have their defaults.
    pub fn new(
        subject: impl Into<String>,
        definition_hash: impl Into<String>,
        owner: impl Into<String>,
        spec: RunSpec,
    ) -> Self {
        let owner = owner.into();
        Self {
            subject: subject.into(),
            direct: false,
            agentic: None,
            composite: None,
            agent_version: None,
            definition_hash: definition_hash.into(),
            owner: owner.clone(),
            principal: owner,
            model: LlmConfig::default(),
            fallback: None,
            delegates: BTreeSet::new(),
            agentic_tools: BTreeSet::new(),
            version_requirements: BTreeMap::new(),
            tool_definitions: Vec::new(),
            durable: false,
            depth: 0,
            hops: 0,
            correlation: None,
            parent: None,
            parent_call: None,
            conversation: None,
            session: None,
            forked_from: None,
            bindings: BTreeMap::new(),
            trial: None,
            recording: None,
            compensates: None,
            warnings: Vec::new(),
            spec,
        }
    }

    /// Whether calls to this tool start runs.
    pub fn starts_run(&self, tool: &str) -> bool {
        self.delegates.contains(tool) || self.agentic_tools.contains(tool)
    }

    /// Returns the correlation id of the run, or the id of the run if the correlation id is absent.
    pub fn correlation_id(&self) -> CorrelationId {
        self.correlation.clone().unwrap_or_else(|| CorrelationId::of_run(self.spec.run))
    }
}

/// A stored entry that cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum UnreadableEntry {
    /// The entry was written by a newer release.
    #[error("entry {n} has format version {version}, which this release does not support")]
    Version {
        /// The entry.
        n: u64,
        /// The format version of the entry.
        version: u32,
    },
    /// The entry is damaged.
    #[error("entry {n} cannot be read")]
    Damaged {
        /// The entry.
        n: u64,
        /// The parse error.
        #[source]
        source: serde_json::Error,
    },
}

#[derive(Serialize)]
struct EntryText<'a> {
    v: u32,
    #[serde(flatten)]
    body: &'a EntryBody,
}

/// The kind of the first entry of a journal.
pub const STARTED_KIND: &str = "started";

/// The kind of the entry for prepared calls.
pub const PREPARED_KIND: &str = "prepared";

/// The kind of the entry for an ended call.
pub const CALL_ENDED_KIND: &str = "call_ended";

/// Returns the JSON text of an entry with [`EventKind::call_ended`], without copying the envelope.
#[expect(clippy::expect_used, reason = "an envelope serializes to JSON")]
pub fn call_ended_text(envelope: &ToolEnvelope) -> String {
    #[derive(Serialize)]
    struct Ended<'a> {
        v: u32,
        r#type: &'static str,
        envelope: &'a ToolEnvelope,
    }
    to_text(&Ended { v: FORMAT_VERSION, r#type: CALL_ENDED_KIND, envelope }).expect("an entry serializes to JSON")
}

/// Serializes an entry. The initial buffer is large enough for most entries.
fn to_text(entry: &impl Serialize) -> Result<String, serde_json::Error> {
    let mut text = Vec::with_capacity(TYPICAL_ENTRY_BYTES);
    serde_json::to_writer(&mut text, entry)?;
    String::from_utf8(text).map_err(serde::ser::Error::custom)
}

#[derive(Deserialize)]
struct Header {
    v: u32,
}

impl Entry {
    /// The stored name of the entry's kind.
    pub fn kind(&self) -> &'static str {
        match &self.body {
            EntryBody::Started(_) => STARTED_KIND,
            EntryBody::Event(event) => event.as_str(),
        }
    }

    /// The content as JSON text with the format version.
    #[expect(clippy::expect_used, reason = "every map key is a string and every number finite; tests write every kind")]
    pub fn to_json(&self) -> String {
        to_text(&EntryText { v: FORMAT_VERSION, body: &self.body }).expect("an entry serializes to JSON")
    }

    /// Returns the stored form of the content, and the parts that were extracted from it. In the stored form, parts
    /// that many runs share are replaced by their hashes.
    #[expect(clippy::expect_used, reason = "every map key is a string and every number finite")]
    pub fn split_shared_parts(&self) -> (String, Vec<shared_parts::SharedPart>) {
        if !matches!(self.body, EntryBody::Started(_)) {
            return (self.to_json(), Vec::new());
        }
        let mut entry = serde_json::to_value(EntryText { v: FORMAT_VERSION, body: &self.body })
            .expect("an entry serializes to JSON");
        let parts = shared_parts::extract(&mut entry);
        (entry.to_string(), parts)
    }

    /// Parses a stored entry.
    pub fn parse(n: u64, at: Timestamp, body: &str) -> Result<Self, UnreadableEntry> {
        let damaged = |source| UnreadableEntry::Damaged { n, source };
        let Header { v } = serde_json::from_str(body).map_err(damaged)?;
        match v {
            FORMAT_VERSION => Ok(Self { n, at, body: serde_json::from_str(body).map_err(damaged)? }),
            version => Err(UnreadableEntry::Version { n, version }),
        }
    }
}
