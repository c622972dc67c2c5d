//! Collects the tool calls of a streamed reply, in order, with unique ids and with the arguments as the model wrote
//! them.

use std::collections::HashSet;

use genai::chat::ToolCall;
use serde_json::{Value, json};
use toolwright_types::{Arguments, RequestedCall};

use super::protocol::Protocol;
use crate::names::NameTable;

/// The tool calls of an unfinished stream.
pub(super) struct StreamedCalls {
    protocol: Protocol,
    calls: Vec<ToolCall>,
    /// The total length of the strings in the arguments of all calls, in bytes.
    bytes: usize,
}

impl StreamedCalls {
    pub(super) fn new(protocol: Protocol) -> Self {
        Self { protocol, calls: Vec::new(), bytes: 0 }
    }

    /// Records a call. Google streams complete calls. For all other protocols, `genai` repeats a call each time its
    /// arguments grow.
    pub(super) fn record(&mut self, call: ToolCall) {
        self.bytes += string_bytes(&call.fn_arguments);
        let existing = self.calls.iter_mut().find(|known| known.call_id == call.call_id);
        match existing.filter(|_| self.protocol != Protocol::Gemini) {
            Some(known) => {
                self.bytes -= string_bytes(&known.fn_arguments);
                *known = call;
            }
            None => self.calls.push(call),
        }
    }

    /// The total length of the strings in the arguments so far, in bytes.
    pub(super) fn argument_bytes(&self) -> usize {
        self.bytes
    }

    /// Returns the calls of the finished reply. `captured` are the calls that `genai` collected; `None` if the stream
    /// ended without an end event.
    pub(super) fn finish(self, captured: Option<Vec<ToolCall>>) -> CompletedCalls {
        let calls = match (self.protocol, captured) {
            (Protocol::Gemini, _) | (_, None) => self.calls.clone(),
            (_, Some(captured)) => captured,
        };
        let calls =
            if self.protocol == Protocol::Gemini { assign_unique_ids(calls) } else { remove_partial_duplicates(calls) };
        CompletedCalls { calls, streamed: self.calls }
    }
}

fn string_bytes(value: &Value) -> usize {
    match value {
        Value::String(text) => text.len(),
        Value::Array(items) => items.iter().map(string_bytes).sum(),
        Value::Object(fields) => fields.iter().map(|(name, field)| name.len() + string_bytes(field)).sum(),
        _ => 0,
    }
}

/// The tool calls of a finished reply.
pub(super) struct CompletedCalls {
    /// The calls as types of `genai`.
    pub calls: Vec<ToolCall>,
    streamed: Vec<ToolCall>,
}

impl CompletedCalls {
    /// Converts the calls. `truncated` is true if the reply reached the token limit.
    pub(super) fn to_requested_calls(&self, names: &NameTable, truncated: bool) -> Vec<RequestedCall> {
        let request = |call: &ToolCall| RequestedCall {
            id: call.call_id.clone(),
            name: names.original(&call.fn_name),
            arguments: self.arguments(call, truncated),
        };
        self.calls.iter().map(request).collect()
    }

    fn arguments(&self, call: &ToolCall, truncated: bool) -> Arguments {
        let text = match &call.fn_arguments {
            Value::Null => return Arguments::Json(json!({})),
            Value::String(text) => text,
            other => return Arguments::Json(other.clone()),
        };
        if text.trim().is_empty() && !truncated {
            return Arguments::Json(json!({}));
        }
        // `text` is the content of a JSON string, or a text that is not JSON, or JSON that was not parsed because the
        // stream ended early. In the first case, the streamed text is the JSON string itself.
        let raw = self.streamed.iter().find(|known| known.call_id == call.call_id);
        let raw = raw.and_then(|known| known.fn_arguments.as_str()).unwrap_or_default();
        let parsed = [raw, text].map(|text| toolwright_budget::from_slice::<Value>(text.as_bytes()).ok());
        match parsed {
            [Some(value), _] if value.as_str() == Some(text) => Arguments::Json(value),
            [_, Some(value)] => Arguments::Json(value),
            _ => Arguments::Malformed(text.clone()),
        }
    }
}

/// Makes the ids unique. `genai` creates missing ids from the position of a call in its chunk, so calls of two chunks
/// can have the same id. New ids have the same format, because `genai` removes ids of this format from later requests.
fn assign_unique_ids(mut calls: Vec<ToolCall>) -> Vec<ToolCall> {
    let mut taken = HashSet::new();
    for call in &mut calls {
        let mut number = 0;
        while !taken.insert(call.call_id.clone()) {
            call.call_id = format!("call#{}#{number}", call.fn_name);
            number += 1;
        }
    }
    calls
}

/// Removes incomplete copies of a call. `genai` fills gaps between call indexes with copies of the next call. Only the
/// last copy is complete. Calls without an id, which some OpenAI-compatible servers send, get an id, so that their
/// results can be matched.
fn remove_partial_duplicates(calls: Vec<ToolCall>) -> Vec<ToolCall> {
    let mut complete: Vec<ToolCall> = Vec::with_capacity(calls.len());
    for (index, mut call) in calls.into_iter().enumerate() {
        if call.call_id.is_empty() {
            call.call_id = format!("call_{index}");
        }
        match complete.iter_mut().find(|known| known.call_id == call.call_id) {
            Some(known) => *known = call,
            None => complete.push(call),
        }
    }
    complete
}
