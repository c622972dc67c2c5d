//! What a run was answered, so that another run that asks the same is answered the same.
//!
//! Nothing here depends on when or in which order something is asked: a question is known by what it says. So a run that
//! is taken up after a crash finds the same answers.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use toolwright_types::{CallId, CallSource, ModelRequest, ToolEnvelope};

use super::{Entry, Recorded, ReplayError, parts};
use crate::agent::{AgentRun, CallToPrepare, Effect, Event, Happened, Prepared};

/// The answers of a run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Recording {
    /// What the model said.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub replies: Vec<RecordedReply>,
    /// What became of calls.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub calls: Vec<RecordedCall>,
    /// What was known of calls before they were made.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub prepared: Vec<RecordedPreparation>,
    /// Tools that are called although their answers are here.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub replaced_tools: BTreeSet<String>,
    /// Whether the model is asked although its answers are here.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub replaced_model: bool,
}

/// What the model said to a question.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RecordedReply {
    /// The question, by its hash.
    pub asked: String,
    /// What it said, or that it said nothing.
    pub answer: Happened,
}

/// What became of a call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RecordedCall {
    /// The call that the model asked for.
    pub call_id: CallId,
    /// The tool.
    pub name: String,
    /// What the model asked for.
    pub input: Value,
    /// How it ended.
    pub ended: Happened,
}

/// What was known of a call before it was made.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RecordedPreparation {
    /// The name the model used.
    pub tool: String,
    /// What the model asked for.
    pub input: Value,
    /// The facts, or why it could not be made.
    pub prepared: Prepared,
}

impl Recording {
    /// Everything that the run of this journal was answered.
    pub fn of(entries: &[Entry]) -> Result<Self, ReplayError> {
        let Some(Recorded::Began(began)) = entries.first().map(|first| &first.what) else {
            return Err(ReplayError::NoBeginning);
        };
        let first = entries.first().map(|first| first.at).ok_or(ReplayError::NoBeginning)?;
        let mut run = AgentRun::new(began.spec.clone(), first);
        let mut recording = Recording::default();
        let (mut asked, mut preparing) = (String::new(), Vec::new());
        // What an end says beyond its receipt.
        let mut ends: BTreeMap<CallId, Happened> = BTreeMap::new();
        for entry in entries.iter().skip(1) {
            for effect in run.next() {
                match effect {
                    Effect::CallModel { request, .. } => asked = question(&request),
                    Effect::PrepareCalls { calls, .. } => preparing = calls,
                    _ => {}
                }
            }
            let Recorded::Happened(what) = &entry.what else { return Err(ReplayError::NoBeginning) };
            match what {
                Happened::ModelReplied { .. } | Happened::ModelFailed { .. } => {
                    recording.replies.push(RecordedReply { asked: asked.clone(), answer: what.clone() });
                }
                Happened::Prepared { calls, .. } => {
                    let zipped = std::mem::take(&mut preparing).into_iter().zip(calls.iter().cloned());
                    let preparation =
                        |(CallToPrepare { tool, input, .. }, prepared)| RecordedPreparation { tool, input, prepared };
                    recording.prepared.extend(zipped.map(preparation));
                }
                Happened::CallEnded { envelope, .. } => drop(ends.insert(envelope.call_id.clone(), what.clone())),
                _ => {}
            }
            let event = Event { at: entry.at, what: what.clone() };
            run.apply(event).map_err(|source| ReplayError::Rejected { n: entry.n, source })?;
        }
        for receipt in run.receipts_after(0).filter(|receipt| !left_behind(receipt)) {
            let ended = match ends.remove(&receipt.call_id) {
                Some(Happened::CallEnded { usage, calls, offers, .. }) => {
                    Happened::CallEnded { envelope: Box::new(receipt.clone()), usage, calls, offers }
                }
                _ => Happened::ended(receipt.clone()),
            };
            let (call_id, input) = match &receipt.metadata.edited_from {
                None => (receipt.call_id.clone(), receipt.input.clone()),
                // The model had asked for something else.
                Some(first) => (first.clone(), recording.input_of(first).unwrap_or_else(|| receipt.input.clone())),
            };
            recording.calls.push(RecordedCall { call_id, name: receipt.name.clone(), input, ended });
        }
        Ok(recording)
    }

    /// What the model said to this question.
    pub fn reply(&self, step: u32, request: &ModelRequest) -> Option<Happened> {
        let asked = question(request);
        let known = self.replies.iter().find(|reply| reply.asked == asked).filter(|_| self.answers(&asked))?;
        Some(match known.answer.clone() {
            Happened::ModelReplied { reply, misfit, .. } => Happened::ModelReplied { step, reply, misfit },
            Happened::ModelFailed { reason, message, .. } => Happened::ModelFailed { step, reason, message },
            other => other,
        })
    }

    /// Whether a question, by its hash, is answered from here.
    pub fn answers(&self, asked: &str) -> bool {
        !self.replaced_model && self.replies.iter().any(|reply| reply.asked == asked)
    }

    /// What was known of such a call before it was made, if it is also known how it ended.
    pub fn preparation(&self, tool: &str, input: &Value) -> Option<&Prepared> {
        let same = |known: &&RecordedPreparation| known.tool.eq_ignore_ascii_case(tool) && known.input == *input;
        let found = &self.prepared.iter().find(same)?.prepared;
        match found {
            Prepared::Refused(envelope) => (!self.replaces(&envelope.name)).then_some(found),
            Prepared::Ready(facts) => self.find(None, &facts.name, input).map(|_| found),
        }
    }

    /// How this call ended; the same question as often as it is asked.
    pub fn ended(&self, call_id: &CallId, name: &str, input: &Value) -> Option<Happened> {
        let mut ended = self.find(Some(call_id), name, input)?.ended.clone();
        if let Happened::CallEnded { envelope, .. } = &mut ended {
            envelope.call_id = call_id.clone();
            envelope.metadata.source = Some(CallSource::Recorded);
        }
        Some(ended)
    }

    fn find(&self, call_id: Option<&CallId>, name: &str, input: &Value) -> Option<&RecordedCall> {
        let same = |known: &&RecordedCall| known.name.eq_ignore_ascii_case(name) && known.input == *input;
        let exactly = call_id.and_then(|id| self.calls.iter().find(|known| known.call_id == *id && same(known)));
        exactly.or_else(|| self.calls.iter().rev().find(same)).filter(|known| !self.replaces(&known.name))
    }

    fn replaces(&self, tool: &str) -> bool {
        self.replaced_tools.iter().any(|replaced| replaced.eq_ignore_ascii_case(tool))
    }

    /// What the model had asked for when it made this call.
    fn input_of(&self, call_id: &CallId) -> Option<Value> {
        let most = u64::try_from(self.prepared.len()).unwrap_or(u64::MAX);
        let made = |known: &&RecordedPreparation| match &known.prepared {
            Prepared::Refused(_) => false,
            Prepared::Ready(facts) => {
                (0..most).any(|seq| CallId::derive(&facts.name, &facts.version, &known.input, seq) == *call_id)
            }
        };
        self.prepared.iter().find(made).map(|known| known.input.clone())
    }
}

/// What became of a run, in the words that runs are compared by: no ids and no times, which no two runs share.
pub fn compared(run: &AgentRun) -> Value {
    let spent = run.spent();
    let calls: Vec<Value> = run
        .receipts_as_asked()
        .into_iter()
        .map(|envelope| {
            let error = envelope.error.as_ref();
            json!({
                "tool": envelope.name,
                "version": envelope.version,
                "input": envelope.input,
                "output": envelope.output,
                "error": error.map(|error| json!({ "code": error.code, "message": error.message })),
            })
        })
        .collect();
    json!({
        "status": run.status(),
        "reason": run.ending().and_then(|ending| ending.reason.clone()),
        "answer": run.outputs().response,
        "calls": calls,
        "iterations": spent.iterations,
        "usage": spent.usage,
        "costUsd": spent.cost_usd,
    })
}

/// What a model is asked, by its hash: what was said, and what it may call. Which model it is and how freely it speaks is
/// not part of the question.
fn question(request: &ModelRequest) -> String {
    parts::hash_of(&json!([request.messages, request.tools]).to_string())
}

/// Whether a receipt only says that its run ended first.
fn left_behind(receipt: &ToolEnvelope) -> bool {
    let details = receipt.error.as_ref().and_then(|error| error.details.as_ref());
    details.is_some_and(|details| details.get("started").is_some())
}
