//! The calls of a reply: complete, in order, each with an id of its own and the arguments as the model wrote them.

use std::collections::HashSet;

use genai::chat::ToolCall;
use serde_json::{Value, json};
use toolwright_types::{Arguments, RequestedCall};

use super::family::Family;
use crate::names::NameTable;

/// The calls that a stream has shown so far.
pub(super) struct Streamed {
    family: Family,
    calls: Vec<ToolCall>,
}

impl Streamed {
    pub fn new(family: Family) -> Self {
        Self { family, calls: Vec::new() }
    }

    /// Google sends whole calls; the others send each call again and again as it grows.
    pub fn note(&mut self, call: ToolCall) {
        let grown = self.calls.iter_mut().find(|known| known.call_id == call.call_id);
        match grown.filter(|_| self.family != Family::Gemini) {
            Some(known) => *known = call,
            None => self.calls.push(call),
        }
    }

    /// The calls of the reply. `captured` is what genai gathered; None when the stream ended without its notice.
    pub fn finish(self, captured: Option<Vec<ToolCall>>) -> Finished {
        let calls = match (self.family, captured) {
            (Family::Gemini, _) | (_, None) => self.calls.clone(),
            (_, Some(captured)) => captured,
        };
        let calls = if self.family == Family::Gemini { renumber(calls) } else { without_halves(calls) };
        Finished { calls, streamed: self.calls }
    }
}

/// The calls of a finished reply.
pub(super) struct Finished {
    /// As genai has them.
    pub calls: Vec<ToolCall>,
    streamed: Vec<ToolCall>,
}

impl Finished {
    /// The calls in this project's words. `cut` says that the reply ran out of room.
    pub fn requested(&self, names: &NameTable, cut: bool) -> Vec<RequestedCall> {
        let request = |call: &ToolCall| RequestedCall {
            id: call.call_id.clone(),
            name: names.original(&call.fn_name),
            arguments: self.arguments(call, cut),
        };
        self.calls.iter().map(request).collect()
    }

    fn arguments(&self, call: &ToolCall, cut: bool) -> Arguments {
        let text = match &call.fn_arguments {
            Value::Null => return Arguments::Json(json!({})),
            Value::String(text) => text,
            other => return Arguments::Json(other.clone()),
        };
        if text.trim().is_empty() && !cut {
            return Arguments::Json(json!({}));
        }
        // A text: a JSON text that parsed, what did not parse, or, when the stream ended early, what nobody tried to
        // parse. What was streamed tells the first from the others.
        let raw = self.streamed.iter().find(|known| known.call_id == call.call_id);
        let raw = raw.and_then(|known| known.fn_arguments.as_str()).unwrap_or_default();
        let parsed = [raw, text].map(|text| serde_json::from_str::<Value>(text).ok());
        match parsed {
            [Some(value), _] if value.as_str() == Some(text) => Arguments::Json(value),
            [_, Some(value)] => Arguments::Json(value),
            _ => Arguments::Malformed(text.clone()),
        }
    }
}

/// genai numbers the calls that Google gave no id within a chunk, so those of two chunks can share one. Its form of
/// such ids is kept, because it takes them out again on the way back.
fn renumber(mut calls: Vec<ToolCall>) -> Vec<ToolCall> {
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

/// genai fills a gap in the numbers of calls with copies of the call after it; the last one is the complete one. Calls
/// that an imitation gave no id get one, so that their results can be told apart.
fn without_halves(calls: Vec<ToolCall>) -> Vec<ToolCall> {
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
