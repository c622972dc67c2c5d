//! A run in a file: its journal, everything the journal names, and what the machine made of it.
//!
//! A bundle is UTF-8 JSON Lines. The first line is the header, the last one the outcome; in between stand the parts and
//! blobs that entries name by their hashes, and the entries in their order, each followed by what the run asked for
//! because of it. So a bundle can be replayed anywhere, and a replay that differs can say where.

use std::collections::BTreeMap;
use std::fmt;

use data_encoding::HEXLOWER;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use toolwright_types::{RunId, RunStatus, Timestamp};

use super::chain::{self, Hash};
use super::diff::{Difference, differences};
use super::parts::{self, Part};
use super::{Began, Entry, Recorded};
use crate::agent::{AgentRun, Effect, Event};

/// The form of bundles. A release reads its own and all earlier ones.
const FORM: u32 = 1;

/// An entry exactly as it is written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Written {
    /// Its number, from 1.
    pub n: u64,
    /// When it was made.
    pub at: Timestamp,
    /// What it says, its parts named by their hashes.
    pub body: String,
    /// Its hash in the chain.
    pub hash: Hash,
}

/// Something outside of the journal that an envelope names.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Attached {
    /// Its name, which begins with the hash of its bytes.
    #[serde(rename = "blob")]
    pub id: String,
    /// Its bytes.
    pub base64: String,
}

/// A run that can be replayed.
#[derive(Debug, Clone, PartialEq)]
pub struct Bundle {
    /// The run.
    pub run: RunId,
    /// Its agent, by name.
    pub agent: String,
    /// The parts that entries name.
    pub parts: Vec<Part>,
    /// What envelopes name.
    pub blobs: Vec<Attached>,
    /// The journal.
    pub entries: Vec<Written>,
    /// What the run filed and asked for, by the entry that made it do so.
    pub asked: BTreeMap<u64, Vec<Value>>,
    /// What became of it.
    pub outcome: Outcome,
}

/// What became of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Outcome {
    /// Where it stands.
    pub status: RunStatus,
    /// Why, as a word.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Everything it leaves behind.
    pub outputs: Value,
    /// What it used.
    pub spent: Value,
    /// What people decided.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub decisions: Vec<Value>,
}

/// Why a text is no bundle.
#[derive(Debug, thiserror::Error)]
pub enum InvalidBundle {
    /// A line does not say what it should.
    #[error("line {line}: {problem}")]
    Line {
        /// Its number, from 1.
        line: usize,
        /// What is wrong.
        problem: String,
    },
    /// Written by a later release.
    #[error("the bundle has form {0}, which this release does not know; use the release that wrote it, or a later one")]
    Form(u32),
    /// Something is missing at its end.
    #[error("the bundle is cut off: {0}")]
    CutOff(&'static str),
    /// An entry is not the one that was written.
    #[error("entry {n} was changed, moved or dropped: the chain of hashes breaks there")]
    Chain {
        /// The entry.
        n: u64,
    },
    /// An entry cannot be put together or read.
    #[error("entry {n}: {problem}")]
    Entry {
        /// The entry.
        n: u64,
        /// What is wrong.
        problem: String,
    },
    /// Something that an envelope names is not in it, or not what its name says.
    #[error("blob {0} is missing or was changed")]
    Blob(String),
}

/// Where a replay differs from what was recorded.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Divergence {
    /// The entry after which it does; 0 for the outcome.
    pub entry: u64,
    /// What the entry says happened.
    pub kind: String,
    /// Which field.
    pub field: String,
    /// What was recorded.
    pub expected: Value,
    /// What the machine made of it now.
    pub got: Value,
}

impl fmt::Display for Divergence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { entry, kind, field, expected, got } = self;
        match entry {
            0 => write!(f, "outcome, {field}: expected {expected}, got {got}"),
            n => write!(f, "entry {n} ({kind}), {field}: expected {expected}, got {got}"),
        }
    }
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Header {
    bundle: u32,
    run: RunId,
    agent: String,
    entries: u64,
    head: String,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct PartLine {
    part: String,
    text: String,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct EntryLine {
    entry: u64,
    at: Timestamp,
    hash: String,
    text: String,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct AskedLine {
    after: u64,
    asked: Vec<Value>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct OutcomeLine {
    outcome: Outcome,
}

impl Bundle {
    /// The bundle of a journal, with what the machine of this release makes of it.
    pub fn of(
        run: RunId,
        entries: Vec<Written>,
        parts: Vec<Part>,
        blobs: Vec<Attached>,
    ) -> Result<Self, InvalidBundle> {
        broken_at(run, &entries).map_or(Ok(()), |n| Err(InvalidBundle::Chain { n }))?;
        let mut told = Telling::new(run, &parts);
        for entry in &entries {
            told.tell(entry)?;
        }
        let Telling { began, asked, machine, .. } = told;
        let (Some(began), Some(machine)) = (began, machine) else {
            return Err(InvalidBundle::CutOff("it has no entries"));
        };
        Ok(Self { run, agent: began.agent.clone(), parts, blobs, entries, asked, outcome: Outcome::of(&machine) })
    }

    /// The bundle as text.
    #[expect(clippy::expect_used, reason = "every line is made of texts, numbers and JSON")]
    pub fn text(&self) -> String {
        let mut text = String::new();
        let mut line = |line: Value| {
            text.push_str(&line.to_string());
            text.push('\n');
        };
        let value = |line: Result<Value, serde_json::Error>| line.expect("a line is JSON");
        let head = self.entries.last().map(|last| HEXLOWER.encode(&last.hash)).unwrap_or_default();
        let entries = u64::try_from(self.entries.len()).unwrap_or(u64::MAX);
        let header = Header { bundle: FORM, run: self.run, agent: self.agent.clone(), entries, head };
        line(value(serde_json::to_value(header)));
        for Part { hash, body } in &self.parts {
            line(json!({ "part": hash, "text": body }));
        }
        for blob in &self.blobs {
            line(value(serde_json::to_value(blob)));
        }
        for Written { n, at, body, hash } in &self.entries {
            line(json!({ "entry": n, "at": at, "hash": HEXLOWER.encode(hash), "text": body }));
            if let Some(asked) = self.asked.get(n) {
                line(json!({ "after": n, "asked": asked }));
            }
        }
        line(json!({ "outcome": value(serde_json::to_value(&self.outcome)) }));
        text
    }

    /// The bundle from its text. Nothing in it is believed: the chain, the parts and the blobs are held against their
    /// hashes.
    pub fn read(text: &str) -> Result<Self, InvalidBundle> {
        let mut lines = text.lines().enumerate().map(|(at, line)| (at + 1, line));
        let (_, first) = lines.next().ok_or(InvalidBundle::CutOff("it is empty"))?;
        let header: Header = match serde_json::from_str::<Value>(first) {
            Ok(value) => match value.get("bundle").and_then(Value::as_u64) {
                None => return Err(wrong(1, "this is no bundle: its first line has no `bundle`")),
                Some(form) if form != u64::from(FORM) => {
                    return Err(InvalidBundle::Form(u32::try_from(form).unwrap_or(u32::MAX)));
                }
                Some(_) => serde_json::from_value(value).map_err(|error| wrong(1, &error.to_string()))?,
            },
            Err(_) => return Err(wrong(1, "this is no bundle: its first line is not JSON")),
        };
        let mut bundle = Self {
            run: header.run,
            agent: header.agent,
            parts: Vec::new(),
            blobs: Vec::new(),
            entries: Vec::new(),
            asked: BTreeMap::new(),
            outcome: Outcome {
                status: RunStatus::Running,
                reason: None,
                outputs: Value::Null,
                spent: Value::Null,
                decisions: Vec::new(),
            },
        };
        let mut ended = false;
        for (at, line) in lines {
            if ended {
                return Err(wrong(at, "there is something behind the outcome"));
            }
            ended = bundle.read_line(at, line)?;
        }
        if !ended {
            return Err(InvalidBundle::CutOff("it has no outcome"));
        }
        bundle.check(header.entries, &header.head)?;
        Ok(bundle)
    }

    /// Reads one line; true if it is the last.
    fn read_line(&mut self, at: usize, line: &str) -> Result<bool, InvalidBundle> {
        let value: Value = serde_json::from_str(line).map_err(|error| wrong(at, &error.to_string()))?;
        let has = |name: &str| value.get(name).is_some();
        let unfit = |error: serde_json::Error| wrong(at, &error.to_string());
        if has("part") {
            let PartLine { part, text } = serde_json::from_value(value).map_err(unfit)?;
            self.parts.push(Part { hash: part, body: text });
        } else if has("blob") {
            self.blobs.push(serde_json::from_value(value).map_err(unfit)?);
        } else if has("entry") {
            let EntryLine { entry, at: when, hash, text } = serde_json::from_value(value).map_err(unfit)?;
            let hash = HEXLOWER.decode(hash.as_bytes()).ok().and_then(|bytes| Hash::try_from(bytes).ok());
            let hash = hash.ok_or_else(|| wrong(at, "`hash` is not 64 hexadecimal digits"))?;
            self.entries.push(Written { n: entry, at: when, body: text, hash });
        } else if has("after") {
            let AskedLine { after, asked } = serde_json::from_value(value).map_err(unfit)?;
            if self.asked.insert(after, asked).is_some() {
                return Err(wrong(at, "what was asked for after this entry is told twice"));
            }
        } else if has("outcome") {
            self.outcome = serde_json::from_value::<OutcomeLine>(value).map_err(unfit)?.outcome;
            return Ok(true);
        } else {
            return Err(wrong(at, "it is neither a part, a blob, an entry, what was asked for, nor the outcome"));
        }
        Ok(false)
    }

    fn check(&self, entries: u64, head: &str) -> Result<(), InvalidBundle> {
        broken_at(self.run, &self.entries).map_or(Ok(()), |n| Err(InvalidBundle::Chain { n }))?;
        let count = u64::try_from(self.entries.len()).unwrap_or(u64::MAX);
        let last = self.entries.last().map(|last| HEXLOWER.encode(&last.hash)).unwrap_or_default();
        if count != entries || last != head {
            return Err(InvalidBundle::CutOff("its entries are not those that its header counts"));
        }
        let first = self.entries.first().map(|first| first.body.as_str()).unwrap_or("{}");
        let wrong = |problem: String| InvalidBundle::Entry { n: 1, problem };
        let named = parts::named_in(first).map_err(|error| wrong(error.to_string()))?;
        if let Some(missing) = named.values().find(|hash| !self.parts.iter().any(|part| part.hash == **hash)) {
            return Err(wrong(format!("part {missing} is missing")));
        }
        if let Some(n) = self.asked.keys().find(|n| **n == 0 || **n > count) {
            return Err(InvalidBundle::Entry { n: *n, problem: "there is no such entry".to_owned() });
        }
        for id in self.entries.iter().flat_map(|entry| blobs_named_in(&entry.body)) {
            if !self.blobs.iter().any(|blob| blob.id == id) {
                return Err(InvalidBundle::Blob(id));
            }
        }
        for part in &self.parts {
            if parts::hash_of(&part.body) != part.hash {
                return Err(InvalidBundle::Entry { n: 1, problem: format!("part {} was changed", part.hash) });
            }
        }
        for blob in &self.blobs {
            let bytes = data_encoding::BASE64.decode(blob.base64.as_bytes()).ok();
            let hash = bytes.map(|bytes| parts::hash_of_bytes(&bytes));
            if hash.is_none_or(|hash| blob.id.split('-').next() != Some(hash.as_str())) {
                return Err(InvalidBundle::Blob(blob.id.clone()));
            }
        }
        Ok(())
    }

    /// The entries of the journal, with their parts in them.
    pub fn journal(&self) -> Result<Vec<Entry>, InvalidBundle> {
        let parts: BTreeMap<&str, &str> =
            self.parts.iter().map(|part| (part.hash.as_str(), part.body.as_str())).collect();
        self.entries.iter().map(|written| read_entry(written, &parts)).collect()
    }

    /// Runs the journal through the machine of this release. No clock, no network: time is what the entries say.
    pub fn replay(&self) -> Result<Option<Divergence>, InvalidBundle> {
        let mut told = Telling::new(self.run, &self.parts);
        for entry in &self.entries {
            let kind = match told.tell(entry) {
                Ok(kind) => kind,
                Err(InvalidBundle::Entry { n, problem }) => {
                    let divergence = Divergence {
                        entry: n,
                        kind: String::new(),
                        field: "/".to_owned(),
                        expected: json!("the run takes the entry"),
                        got: json!(problem),
                    };
                    return Ok(Some(divergence));
                }
                Err(error) => return Err(error),
            };
            let (expected, got) = (list(self.asked.get(&entry.n)), list(told.asked.get(&entry.n)));
            if let Some(found) = difference(entry.n, &kind, "/asked", &expected, &got) {
                return Ok(Some(found));
            }
        }
        let agent = told.began.as_ref().map(|began| began.agent.as_str()).unwrap_or_default();
        if agent != self.agent {
            return Ok(difference(1, "began", "/agent", &json!(self.agent), &json!(agent)));
        }
        let now = told.machine.as_ref().map(Outcome::of);
        let now = serde_json::to_value(now).unwrap_or_default();
        let then = serde_json::to_value(&self.outcome).unwrap_or_default();
        Ok(difference(0, "", "", &then, &now))
    }
}

impl Outcome {
    /// What became of a run so far.
    pub fn of(run: &AgentRun) -> Self {
        let value = |value: Result<Value, serde_json::Error>| value.unwrap_or_default();
        Self {
            status: run.status(),
            reason: run.ending().and_then(|ending| ending.reason.clone()),
            outputs: value(serde_json::to_value(run.outputs())),
            spent: value(serde_json::to_value(run.spent())),
            decisions: run.decisions().iter().map(|record| value(serde_json::to_value(record))).collect(),
        }
    }
}

/// Where envelopes say that attachments are fetched.
const BLOBS: &str = "/api/v1/ai/blobs/";

/// The attachments that an entry names.
pub fn blobs_named_in(body: &str) -> Vec<String> {
    if !body.contains(BLOBS) {
        return Vec::new();
    }
    let body: Value = serde_json::from_str(body).unwrap_or_default();
    let attachments = body.pointer("/envelope/attachments").and_then(Value::as_array).into_iter().flatten();
    let urls = attachments.filter_map(|attachment| attachment.get("url")?.as_str()?.strip_prefix(BLOBS));
    urls.map(str::to_owned).collect()
}

/// The first entry at which the chain of a journal breaks.
pub fn broken_at(run: RunId, entries: &[Written]) -> Option<u64> {
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

/// A run told entry by entry, with what it asks for after each.
struct Telling<'a> {
    run: RunId,
    parts: BTreeMap<&'a str, &'a str>,
    began: Option<Began>,
    machine: Option<AgentRun>,
    asked: BTreeMap<u64, Vec<Value>>,
    /// How many messages, and which tools, have been shown in requests so far: the next one is told by what is new.
    shown: (usize, Value),
    /// How many receipts have been filed.
    receipts: usize,
}

impl<'a> Telling<'a> {
    fn new(run: RunId, parts: &'a [Part]) -> Self {
        let parts = parts.iter().map(|part| (part.hash.as_str(), part.body.as_str())).collect();
        Self { run, parts, began: None, machine: None, asked: BTreeMap::new(), shown: (0, Value::Null), receipts: 0 }
    }

    /// Tells one entry, and gives the word for what it says.
    fn tell(&mut self, written: &Written) -> Result<String, InvalidBundle> {
        let n = written.n;
        let wrong = |problem: String| InvalidBundle::Entry { n, problem };
        let entry = read_entry(written, &self.parts)?;
        let kind = entry.kind().to_owned();
        match (entry.what, &mut self.machine) {
            (Recorded::Began(began), None) if began.spec.run == self.run => {
                self.machine = Some(AgentRun::new(began.spec.clone(), written.at));
                self.began = Some(*began);
            }
            (Recorded::Happened(what), Some(machine)) => {
                let taken = machine.apply(Event { at: written.at, what });
                taken.map_err(|error| wrong(error.to_string()))?;
            }
            (Recorded::Began(_), Some(_)) => return Err(wrong("a run begins once".to_owned())),
            _ => return Err(wrong("the journal does not begin with the beginning of this run".to_owned())),
        }
        let mut asked = Vec::new();
        if let Some(machine) = &self.machine {
            // A result may be shown much later; that it is filed is seen at once.
            for envelope in machine.receipts_after(self.receipts) {
                let receipt = serde_json::to_string(envelope).unwrap_or_default();
                asked.push(json!({ "type": "receipt", "call_id": envelope.call_id, "hash": parts::hash_of(&receipt) }));
            }
            self.receipts += asked.len();
        }
        let effects = self.machine.as_mut().map(AgentRun::next).unwrap_or_default();
        asked.extend(effects.into_iter().map(|effect| self.put_short(effect)));
        if !asked.is_empty() {
            self.asked.insert(n, asked);
        }
        Ok(kind)
    }

    /// An effect without what earlier ones have said already.
    fn put_short(&mut self, effect: Effect) -> Value {
        let mut value = serde_json::to_value(&effect).unwrap_or_default();
        let Effect::CallModel { request, .. } = effect else { return value };
        let (known, tools) = &mut self.shown;
        let Some(told) = value.get_mut("request").and_then(Value::as_object_mut) else { return value };
        let new = request.messages.get(*known..).unwrap_or_default();
        told.insert("messages_before".into(), json!(*known));
        told.insert("messages".into(), serde_json::to_value(new).unwrap_or_default());
        *known = request.messages.len();
        let offered = told.shift_remove("tools").unwrap_or_default();
        if offered != *tools {
            told.insert("tools".into(), offered.clone());
            *tools = offered;
        }
        value
    }
}

/// An entry with its parts in it.
fn read_entry(written: &Written, parts: &BTreeMap<&str, &str>) -> Result<Entry, InvalidBundle> {
    let wrong = |problem: String| InvalidBundle::Entry { n: written.n, problem };
    let find = |hash: &str| parts.get(hash).map(|body| (*body).to_owned());
    let body = parts::put_back(&written.body, find).map_err(|error| wrong(error.to_string()))?;
    Entry::read(written.n, written.at, &body).map_err(|error| wrong(explained(&error)))
}

fn explained(error: &dyn std::error::Error) -> String {
    match error.source() {
        Some(source) => format!("{error}: {source}"),
        None => error.to_string(),
    }
}

fn list(asked: Option<&Vec<Value>>) -> Value {
    Value::Array(asked.cloned().unwrap_or_default())
}

fn wrong(line: usize, problem: &str) -> InvalidBundle {
    InvalidBundle::Line { line, problem: problem.to_owned() }
}

fn difference(entry: u64, kind: &str, place: &str, expected: &Value, got: &Value) -> Option<Divergence> {
    let Difference { field, expected, got } = differences(expected, got).into_iter().next()?;
    Some(Divergence { entry, kind: kind.to_owned(), field: format!("{place}{field}"), expected, got })
}
