//! Recordings: the answers that one run received, used to answer the same requests of another run.
//!
//! A request is looked up by its content, independent of time and order. A run that is recovered after a crash
//! therefore gets the same answers.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use toolwright_types::{CallId, CallSource, ModelRequest, ToolEnvelope};

use super::{Entry, EntryBody, ReplayError, shared_parts};
use crate::agent::{AgentRun, CallToPrepare, Effect, Event, EventKind, PreparedCall};

/// The recorded answers of a run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Recording {
    /// The model replies.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub replies: Vec<RecordedReply>,
    /// The ended calls.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub calls: Vec<RecordedCall>,
    /// The prepared calls.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub prepared: Vec<RecordedPreparation>,
    /// Tools that are executed even if the recording contains their results.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub live_tools: BTreeSet<String>,
    /// Whether the model is called even if the recording contains its replies.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub live_model: bool,
}

/// A recorded model reply.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RecordedReply {
    /// The hash of the request.
    pub request_hash: String,
    /// The reply or the failure.
    pub event: EventKind,
}

/// A recorded call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RecordedCall {
    /// The original id of the call, even if a person edited the input.
    pub call_id: CallId,
    /// The tool.
    pub name: String,
    /// The input that the model requested.
    pub input: Value,
    /// The event that ended the call.
    pub event: EventKind,
}

/// A recorded preparation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RecordedPreparation {
    /// The tool name that the model used.
    pub tool: String,
    /// The input that the model requested.
    pub input: Value,
    /// The facts, or the refusal.
    pub prepared: PreparedCall,
}

impl Recording {
    /// Collects all answers in a journal: model replies, preparations and ended calls.
    pub fn from_entries(entries: &[Entry]) -> Result<Self, ReplayError> {
        let Some(EntryBody::Started(start)) = entries.first().map(|first| &first.body) else {
            return Err(ReplayError::MissingStart);
        };
        let first = entries.first().map(|first| first.at).ok_or(ReplayError::MissingStart)?;
        let mut run = AgentRun::new(start.spec.clone(), first);
        let mut recording = Recording::default();
        let (mut request_hash, mut preparing) = (String::new(), Vec::new());
        // The `call_ended` events by call id. They contain fields that the envelope does not have.
        let mut ended_events: BTreeMap<CallId, EventKind> = BTreeMap::new();
        for entry in entries.iter().skip(1) {
            for effect in run.next() {
                match effect {
                    Effect::CallModel { request, .. } => request_hash = hash_request(&request),
                    Effect::PrepareCalls { calls, .. } => preparing = calls,
                    _ => {}
                }
            }
            let EntryBody::Event(kind) = &entry.body else { return Err(ReplayError::MissingStart) };
            match kind {
                EventKind::ModelReplied { .. } | EventKind::ModelFailed { .. } => {
                    recording.replies.push(RecordedReply { request_hash: request_hash.clone(), event: kind.clone() });
                }
                EventKind::Prepared { calls, .. } => {
                    let zipped = std::mem::take(&mut preparing).into_iter().zip(calls.iter().cloned());
                    let preparation =
                        |(CallToPrepare { tool, input, .. }, prepared)| RecordedPreparation { tool, input, prepared };
                    recording.prepared.extend(zipped.map(preparation));
                }
                EventKind::CallEnded { envelope, .. } => {
                    drop(ended_events.insert(envelope.call_id.clone(), kind.clone()))
                }
                _ => {}
            }
            let event = Event { at: entry.at, kind: kind.clone() };
            run.apply(event).map_err(|source| ReplayError::Rejected { n: entry.n, source })?;
        }
        for envelope in run.envelopes_after(0).filter(|envelope| !ended_with_run(envelope)) {
            let event = match ended_events.remove(&envelope.call_id) {
                Some(EventKind::CallEnded { usage, nested_calls, offered_tools, .. }) => {
                    EventKind::CallEnded { envelope: Box::new(envelope.clone()), usage, nested_calls, offered_tools }
                }
                _ => EventKind::call_ended(envelope.clone()),
            };
            let (call_id, input) = match &envelope.metadata.edited_from {
                None => (envelope.call_id.clone(), envelope.input.clone()),
                // A person edited the input, so the input that the model requested is looked up by the original call
                // id.
                Some(first) => (first.clone(), recording.input_of(first).unwrap_or_else(|| envelope.input.clone())),
            };
            recording.calls.push(RecordedCall { call_id, name: envelope.name.clone(), input, event });
        }
        Ok(recording)
    }

    /// Returns the recorded reply to a model request.
    pub fn reply(&self, iteration: u32, request: &ModelRequest) -> Option<EventKind> {
        let request_hash = hash_request(request);
        let known = self
            .replies
            .iter()
            .find(|reply| reply.request_hash == request_hash)
            .filter(|_| self.answers(&request_hash))?;
        Some(match known.event.clone() {
            EventKind::ModelReplied { reply, schema_error, answer_unchecked, .. } => {
                EventKind::ModelReplied { iteration, reply, schema_error, answer_unchecked }
            }
            EventKind::ModelFailed { reason, message, .. } => EventKind::ModelFailed { iteration, reason, message },
            other => other,
        })
    }

    /// Whether the recording answers the model request with this hash.
    pub fn answers(&self, request_hash: &str) -> bool {
        !self.live_model && self.replies.iter().any(|reply| reply.request_hash == request_hash)
    }

    /// Returns the recorded preparation of a call. Returns `None` if the call was not refused and its end is not
    /// recorded. Also returns `None` for a tool in `live_tools`, because the recording does not answer its calls.
    pub fn preparation(&self, tool: &str, input: &Value) -> Option<&PreparedCall> {
        let matches = |known: &&RecordedPreparation| known.tool.eq_ignore_ascii_case(tool) && known.input == *input;
        let found = &self.prepared.iter().find(matches)?.prepared;
        match found {
            PreparedCall::Refused(envelope) => (!self.is_live(&envelope.name)).then_some(found),
            PreparedCall::Ready(facts) => self.find_call(None, &facts.name, input).map(|_| found),
        }
    }

    /// Returns the recorded end of a call. Calls with the same tool and input can use the same recorded answer
    /// repeatedly.
    pub fn ended(&self, call_id: &CallId, name: &str, input: &Value) -> Option<EventKind> {
        let mut event = self.find_call(Some(call_id), name, input)?.event.clone();
        if let EventKind::CallEnded { envelope, .. } = &mut event {
            envelope.call_id = call_id.clone();
            envelope.metadata.source = Some(CallSource::Recorded);
        }
        Some(event)
    }

    fn find_call(&self, call_id: Option<&CallId>, name: &str, input: &Value) -> Option<&RecordedCall> {
        let matches = |known: &&RecordedCall| known.name.eq_ignore_ascii_case(name) && known.input == *input;
        let exact = call_id.and_then(|id| self.calls.iter().find(|known| known.call_id == *id && matches(known)));
        exact.or_else(|| self.calls.iter().rev().find(matches)).filter(|known| !self.is_live(&known.name))
    }

    fn is_live(&self, tool: &str) -> bool {
        self.live_tools.iter().any(|live| live.eq_ignore_ascii_case(tool))
    }

    /// Returns the input that the model requested for a call.
    fn input_of(&self, call_id: &CallId) -> Option<Value> {
        let max_seq = u64::try_from(self.prepared.len()).unwrap_or(u64::MAX);
        let made_call = |known: &&RecordedPreparation| match &known.prepared {
            PreparedCall::Refused(_) => false,
            PreparedCall::Ready(facts) => {
                (0..max_seq).any(|seq| CallId::derive(&facts.name, &facts.version, &known.input, seq) == *call_id)
            }
        };
        self.prepared.iter().find(made_call).map(|known| known.input.clone())
    }
}

/// Summarizes a run for a comparison with another run. Ids and times are left out because they always differ.
pub fn comparison_summary(run: &AgentRun) -> Value {
    let resource_usage = run.resource_usage();
    let calls: Vec<Value> = run
        .envelopes_in_request_order()
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
        "iterations": resource_usage.iterations,
        "usage": resource_usage.usage,
        "costUsd": resource_usage.cost_usd,
    })
}

/// The hash of the messages and tools of a model request. The model name and its parameters are not included.
fn hash_request(request: &ModelRequest) -> String {
    shared_parts::hash_of(&json!([request.messages, request.tools]).to_string())
}

/// Whether the call of the envelope was unfinished when the run ended. The end of the run then created the envelope.
fn ended_with_run(envelope: &ToolEnvelope) -> bool {
    let details = envelope.error.as_ref().and_then(|error| error.details.as_ref());
    details.is_some_and(|details| details.get("started").is_some())
}
