//! A bundle: a run as a file, with its journal, everything that the journal refers to, and the machine's reaction to
//! each entry.
//!
//! A bundle is UTF-8 JSON Lines. The first line is the header and the last line is the outcome. In between are the
//! shared parts and blobs that entries refer to by hash, and then the entries in order. Each entry is followed by the
//! envelopes and effects that it produced. A bundle can be replayed on any computer without network access. The replay
//! reports the first difference from the recorded reactions.

mod read;
mod replay;
mod write;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use toolwright_types::{RunId, RunStatus, Timestamp};

use self::replay::Replayer;
use super::Entry;
use super::chain::{self, Hash};
use super::shared_parts::{self, SharedPart};
use crate::agent::AgentRun;

pub use self::replay::Divergence;

/// The format version of bundles. A release reads this version and all earlier versions.
const FORMAT_VERSION: u32 = 1;

/// An entry exactly as stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredEntry {
    /// The number of the entry, from 1.
    pub n: u64,
    /// The time of the entry.
    pub at: Timestamp,
    /// The content, with shared parts replaced by their hashes.
    pub body: String,
    /// The hash of the entry in the chain.
    pub hash: Hash,
}

/// Binary content that is stored outside of the journal and that an envelope refers to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AttachedBlob {
    /// The id, which starts with the hash of the content.
    #[serde(rename = "blob")]
    pub id: String,
    /// The content in base64.
    pub base64: String,
}

/// The content of a bundle file.
#[derive(Debug, Clone, PartialEq)]
pub struct Bundle {
    /// The id of the run.
    pub run: RunId,
    /// The name of the agent, or of the tool in a direct call.
    pub subject: String,
    /// The shared parts that entries refer to.
    pub parts: Vec<SharedPart>,
    /// The blobs that envelopes refer to.
    pub blobs: Vec<AttachedBlob>,
    /// The journal.
    pub entries: Vec<StoredEntry>,
    /// The envelopes and effects that each entry produced, by entry number.
    pub reactions: BTreeMap<u64, Vec<Value>>,
    /// The state of the run after the last entry.
    pub outcome: RunOutcome,
}

/// The part of a run's state that is compared after a replay.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunOutcome {
    /// The status.
    pub status: RunStatus,
    /// A stable reason code.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The outputs.
    pub outputs: Value,
    /// The consumed resources.
    pub resource_usage: Value,
    /// The approval decisions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub decisions: Vec<Value>,
}

/// The reason why a text is not a valid bundle.
#[derive(Debug, thiserror::Error)]
pub enum InvalidBundle {
    /// A line is invalid.
    #[error("line {line}: {problem}")]
    Line {
        /// The line number, from 1.
        line: usize,
        /// The problem.
        problem: String,
    },
    /// The bundle was written by a newer release.
    #[error(
        "the bundle has format version {0}, which this release does not support; use the release that wrote it, or a later one"
    )]
    UnsupportedVersion(u32),
    /// The bundle is incomplete.
    #[error("the bundle is incomplete: {0}")]
    Incomplete(&'static str),
    /// An entry was changed, moved or dropped.
    #[error("entry {n} was changed, moved or dropped: the hash chain breaks there")]
    BrokenChain {
        /// The entry.
        n: u64,
    },
    /// An entry cannot be restored or applied.
    #[error("entry {n}: {problem}")]
    Entry {
        /// The entry.
        n: u64,
        /// The problem.
        problem: String,
    },
    /// A blob that an envelope refers to is missing, or its content does not match its id.
    #[error("blob `{0}` is missing or was changed")]
    Blob(String),
}

impl Bundle {
    /// Creates the bundle of a journal. The reactions are computed by the machine of this release.
    pub fn new(
        run: RunId,
        entries: Vec<StoredEntry>,
        parts: Vec<SharedPart>,
        blobs: Vec<AttachedBlob>,
    ) -> Result<Self, InvalidBundle> {
        first_broken_entry(run, &entries).map_or(Ok(()), |n| Err(InvalidBundle::BrokenChain { n }))?;
        let mut replayer = Replayer::new(run, &parts);
        for entry in &entries {
            replayer.apply(entry)?;
        }
        let Replayer { start, reactions, machine, .. } = replayer;
        let (Some(start), Some(machine)) = (start, machine) else {
            return Err(InvalidBundle::Incomplete("it has no entries"));
        };
        Ok(Self {
            run,
            subject: start.subject.clone(),
            parts,
            blobs,
            entries,
            reactions,
            outcome: RunOutcome::from_run(&machine),
        })
    }

    /// Returns the entries of the journal with their shared parts restored.
    pub fn journal(&self) -> Result<Vec<Entry>, InvalidBundle> {
        let parts: BTreeMap<&str, &str> =
            self.parts.iter().map(|part| (part.hash.as_str(), part.body.as_str())).collect();
        self.entries.iter().map(|written| read_entry(written, &parts)).collect()
    }
}

impl RunOutcome {
    /// Returns the outcome of a run in its current state.
    pub fn from_run(run: &AgentRun) -> Self {
        let value = |value: Result<Value, serde_json::Error>| value.unwrap_or_default();
        Self {
            status: run.status(),
            reason: run.ending().and_then(|ending| ending.reason.clone()),
            outputs: value(serde_json::to_value(run.outputs())),
            resource_usage: value(serde_json::to_value(run.resource_usage())),
            decisions: run.decisions().iter().map(|record| value(serde_json::to_value(record))).collect(),
        }
    }
}

/// The URL prefix of attachments in envelopes.
const BLOB_URL_PREFIX: &str = "/api/v1/ai/blobs/";

/// Returns the ids of the blobs that an entry refers to.
pub fn referenced_blobs(body: &str) -> Vec<String> {
    if !body.contains(BLOB_URL_PREFIX) {
        return Vec::new();
    }
    let body: Value = serde_json::from_str(body).unwrap_or_default();
    let attachments = body.pointer("/envelope/attachments").and_then(Value::as_array).into_iter().flatten();
    let urls = attachments.filter_map(|attachment| attachment.get("url")?.as_str()?.strip_prefix(BLOB_URL_PREFIX));
    urls.map(str::to_owned).collect()
}

/// Returns the first entry at which the hash chain of a journal breaks.
pub fn first_broken_entry(run: RunId, entries: &[StoredEntry]) -> Option<u64> {
    let mut previous = chain::origin(run);
    for (at, entry) in entries.iter().enumerate() {
        let expected = u64::try_from(at).unwrap_or(u64::MAX).saturating_add(1);
        previous = chain::link(&previous, entry.n, entry.at, &entry.body);
        if entry.n != expected || previous != entry.hash {
            return Some(expected);
        }
    }
    None
}

/// Restores the shared parts of an entry and parses it.
fn read_entry(written: &StoredEntry, parts: &BTreeMap<&str, &str>) -> Result<Entry, InvalidBundle> {
    let entry_error = |problem: String| InvalidBundle::Entry { n: written.n, problem };
    let find = |hash: &str| parts.get(hash).map(|body| (*body).to_owned());
    let body = shared_parts::restore(&written.body, find).map_err(|error| entry_error(error.to_string()))?;
    Entry::parse(written.n, written.at, &body).map_err(|error| entry_error(error_chain(&error)))
}

fn error_chain(error: &dyn std::error::Error) -> String {
    match error.source() {
        Some(source) => format!("{error}: {source}"),
        None => error.to_string(),
    }
}
