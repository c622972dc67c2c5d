//! Replays a bundle and reports the first difference from the recorded reactions.

use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;
use serde_json::{Value, json};
use toolwright_types::RunId;

use super::super::diff::{ValueDifference, differences};
use super::super::shared_parts::{self, SharedPart};
use super::super::{EntryBody, RunStart, STARTED_KIND};
use super::{Bundle, InvalidBundle, RunOutcome, StoredEntry, read_entry};
use crate::agent::{AgentRun, Effect, Event};

/// A difference between a replay and the recorded reactions.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Divergence {
    /// The number of the entry at which the replay differs; 0 if the outcome differs.
    pub entry: u64,
    /// The kind of the entry.
    pub kind: String,
    /// The JSON pointer of the differing field.
    pub field: String,
    /// The recorded value.
    pub expected: Value,
    /// The replayed value.
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

impl Bundle {
    /// Replays the journal with the machine of this release, and returns the first difference. The replay needs no
    /// clock and no network, because all times and answers come from the entries.
    pub fn replay(&self) -> Result<Option<Divergence>, InvalidBundle> {
        let mut replayer = Replayer::new(self.run, &self.parts);
        for entry in &self.entries {
            let kind = match replayer.apply(entry) {
                Ok(kind) => kind,
                Err(InvalidBundle::Entry { n, problem }) => {
                    let divergence = Divergence {
                        entry: n,
                        kind: String::new(),
                        field: "/".to_owned(),
                        expected: json!("the run accepts the entry"),
                        got: json!(problem),
                    };
                    return Ok(Some(divergence));
                }
                Err(error) => return Err(error),
            };
            let (expected, got) = (list(self.reactions.get(&entry.n)), list(replayer.reactions.get(&entry.n)));
            if let Some(found) = first_difference(entry.n, &kind, "/reactions", &expected, &got) {
                return Ok(Some(found));
            }
        }
        let subject = replayer.start.as_ref().map(|start| start.subject.as_str()).unwrap_or_default();
        if subject != self.subject {
            return Ok(first_difference(1, STARTED_KIND, "/subject", &json!(self.subject), &json!(subject)));
        }
        let replayed = replayer.machine.as_ref().map(RunOutcome::from_run);
        let replayed = serde_json::to_value(replayed).unwrap_or_default();
        let recorded = serde_json::to_value(&self.outcome).unwrap_or_default();
        Ok(first_difference(0, "", "", &recorded, &replayed))
    }
}

/// Replays a run entry by entry and collects the envelopes and effects that each entry produces.
pub(super) struct Replayer<'a> {
    run: RunId,
    parts: BTreeMap<&'a str, &'a str>,
    pub start: Option<RunStart>,
    pub machine: Option<AgentRun>,
    pub reactions: BTreeMap<u64, Vec<Value>>,
    /// The number of messages in the last model request, and its tools. For the next request, only new messages and
    /// changed tools are recorded.
    sent: (usize, Value),
    /// The number of envelopes so far.
    known_envelopes: usize,
}

impl<'a> Replayer<'a> {
    pub(super) fn new(run: RunId, parts: &'a [SharedPart]) -> Self {
        let parts = parts.iter().map(|part| (part.hash.as_str(), part.body.as_str())).collect();
        Self {
            run,
            parts,
            start: None,
            machine: None,
            reactions: BTreeMap::new(),
            sent: (0, Value::Null),
            known_envelopes: 0,
        }
    }

    /// Applies one entry and returns its kind.
    pub(super) fn apply(&mut self, written: &StoredEntry) -> Result<String, InvalidBundle> {
        let n = written.n;
        let entry_error = |problem: String| InvalidBundle::Entry { n, problem };
        let entry = read_entry(written, &self.parts)?;
        let kind = entry.kind().to_owned();
        match (entry.body, &mut self.machine) {
            (EntryBody::Started(start), None) if start.spec.run == self.run => {
                self.machine = Some(AgentRun::new(start.spec.clone(), written.at));
                self.start = Some(*start);
            }
            (EntryBody::Event(kind), Some(machine)) => {
                let applied = machine.apply(Event { at: written.at, kind });
                applied.map_err(|error| entry_error(error.to_string()))?;
            }
            (EntryBody::Started(_), Some(_)) => return Err(entry_error("the start entry is repeated".to_owned())),
            _ => return Err(entry_error("the first entry must be the start of this run".to_owned())),
        }
        let mut reactions = Vec::new();
        if let Some(machine) = &self.machine {
            // The envelope of a call is recorded as a reaction to the entry that ended the call. If it were not
            // recorded, a difference would be reported only at the later entry at which the model sees the result.
            for envelope in machine.envelopes_after(self.known_envelopes) {
                let text = serde_json::to_string(envelope).unwrap_or_default();
                reactions.push(
                    json!({ "type": "envelope", "call_id": envelope.call_id, "hash": shared_parts::hash_of(&text) }),
                );
            }
            self.known_envelopes += reactions.len();
        }
        let effects = self.machine.as_mut().map(AgentRun::next).unwrap_or_default();
        reactions.extend(effects.into_iter().map(|effect| self.abbreviate(effect)));
        if !reactions.is_empty() {
            self.reactions.insert(n, reactions);
        }
        Ok(kind)
    }

    /// Serializes an effect without the messages and tools that earlier model requests already contained.
    fn abbreviate(&mut self, effect: Effect) -> Value {
        let mut value = serde_json::to_value(&effect).unwrap_or_default();
        let Effect::CallModel { request, .. } = effect else { return value };
        let (known, tools) = &mut self.sent;
        let Some(fields) = value.get_mut("request").and_then(Value::as_object_mut) else { return value };
        let new = request.messages.get(*known..).unwrap_or_default();
        fields.insert("message_offset".into(), json!(*known));
        fields.insert("messages".into(), serde_json::to_value(new).unwrap_or_default());
        *known = request.messages.len();
        let offered = fields.shift_remove("tools").unwrap_or_default();
        if offered != *tools {
            fields.insert("tools".into(), offered.clone());
            *tools = offered;
        }
        value
    }
}

fn list(reactions: Option<&Vec<Value>>) -> Value {
    Value::Array(reactions.cloned().unwrap_or_default())
}

fn first_difference(entry: u64, kind: &str, prefix: &str, expected: &Value, got: &Value) -> Option<Divergence> {
    let ValueDifference { field, expected, got } = differences(expected, got).into_iter().next()?;
    Some(Divergence { entry, kind: kind.to_owned(), field: format!("{prefix}{field}"), expected, got })
}
