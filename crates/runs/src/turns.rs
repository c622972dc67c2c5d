//! Converts the messages of a run into the turns that the run adds to its conversation.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use toolwright_machine::agent::AgentRun;
use toolwright_machine::journal::RunStart;
use toolwright_store::{NewTurn, RunChange, Turn};
use toolwright_types::{CallId, DocumentId, Message, RealmId, RequestedCall, RunId, Timestamp, ToolEnvelope, TurnId};

/// The content of a turn, except its text.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct TurnBody {
    /// The calls that the assistant requested.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tool_calls: Vec<TurnCall>,
    /// For a tool result: the id that the model gave the call, the name of the tool, and whether the call failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result_of: Option<(String, String, bool)>,
    /// For a tool result: the id that the run gave the call. Absent in turns of earlier releases.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call_id: Option<CallId>,
}

/// A call that the assistant requested, with the id that the run gave the call.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct TurnCall {
    /// The call as the model requested it.
    #[serde(flatten)]
    pub requested: RequestedCall,
    /// The id that the run gave the call. Its envelope has the same id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call_id: Option<CallId>,
}

impl TurnCall {
    /// Returns the arguments as the input of the tool. Malformed arguments become a text.
    pub fn input(&self) -> Value {
        self.requested.arguments.to_value()
    }
}

impl TurnBody {
    /// Reads the body of a stored turn. The result is empty if the body cannot be parsed.
    pub fn of(turn: &Turn) -> Self {
        turn.body.as_deref().and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default()
    }
}

/// Returns the turn for the user's message that starts a run.
pub fn of_user(run: RunId, message: &Message, at: Timestamp) -> NewTurn {
    turn(run, message, &mut OpenEnvelopes::default(), at)
}

/// Returns the turns that a run adds when it ends: all messages after the user's message. The last turn has the tokens
/// and the duration of the run.
pub(super) fn of_run(start: &RunStart, realm: RealmId, run: &AgentRun, at: Timestamp) -> Option<RunChange> {
    let conversation = start.conversation?;
    let history = start.spec.request.messages.len();
    let new = run.messages().get(history..).unwrap_or_default();
    let resource_usage = run.resource_usage();
    let last = new.len().saturating_sub(1);
    let mut envelopes = OpenEnvelopes::of(run);
    let turns = new.iter().enumerate().map(|(position, message)| {
        let turn = turn(run.id(), message, &mut envelopes, at);
        if position != last {
            return turn;
        }
        NewTurn { tokens: resource_usage.usage.total(), duration_ms: resource_usage.active_us / 1000, ..turn }
    });
    Some(RunChange::AddTurns { realm, conversation, turns: turns.collect(), title_if_none: None })
}

fn turn(run: RunId, message: &Message, envelopes: &mut OpenEnvelopes<'_>, at: Timestamp) -> NewTurn {
    let (role, content, body) = content_of(message, envelopes);
    let body = body.and_then(|body| serde_json::to_string(&body).ok());
    let (id, role) = (TurnId::generate(), role.to_owned());
    NewTurn { id, role, content, body, tokens: 0, duration_ms: 0, run: Some(run), at }
}

/// Returns the role, the text and the body of the turn for a message.
fn content_of(message: &Message, envelopes: &mut OpenEnvelopes<'_>) -> (&'static str, String, Option<TurnBody>) {
    match message {
        Message::System { content } => ("system", content.clone(), None),
        Message::User { content } => ("user", content.clone(), None),
        Message::Assistant { content, tool_calls, .. } => {
            let calls =
                tool_calls.iter().map(|call| TurnCall { call_id: envelopes.take(call), requested: call.clone() });
            let body = TurnBody { tool_calls: calls.collect(), ..TurnBody::default() };
            ("assistant", content.clone(), if tool_calls.is_empty() { None } else { Some(body) })
        }
        // Images are not stored in turns. They are in the journal of the run.
        Message::Tool { id, name, content, is_error, images: _ } => {
            let result_of = Some((id.clone(), name.clone(), *is_error));
            let call_id = envelopes.found.get(id).cloned();
            ("tool", content.clone(), Some(TurnBody { tool_calls: Vec::new(), result_of, call_id }))
        }
    }
}

/// Finds the envelope for each call that the model requested.
#[derive(Default)]
struct OpenEnvelopes<'a> {
    /// The envelopes that no request was matched with yet. Envelopes of equal requests are in the order of the
    /// requests.
    open: Vec<&'a ToolEnvelope>,
    /// The number of calls of the run.
    calls: u64,
    /// The call ids of the matched envelopes, by the id that the model gave the call. If the model uses an id again,
    /// the later call replaces the earlier one: the result of the earlier call comes before the later request.
    found: HashMap<String, CallId>,
}

impl<'a> OpenEnvelopes<'a> {
    fn of(run: &'a AgentRun) -> Self {
        let open = run.envelopes_in_request_order();
        Self { calls: open.len() as u64, open, found: HashMap::new() }
    }

    /// Returns the call id of the envelope that answers a request, and removes this envelope. Requests must be passed
    /// in the order in which the model made them.
    fn take(&mut self, requested: &RequestedCall) -> Option<CallId> {
        let input = requested.arguments.to_value();
        let is_result = |envelope: &&ToolEnvelope| self.is_result(envelope, &input);
        // The model may have requested the tool by another name, such as its id.
        let by_name = |envelope: &&ToolEnvelope| envelope.name.eq_ignore_ascii_case(&requested.name);
        let found = self.open.iter().position(|envelope| by_name(envelope) && is_result(envelope));
        let found = found.or_else(|| self.open.iter().position(is_result))?;
        let call_id = self.open.remove(found).call_id.clone();
        self.found.insert(requested.id.clone(), call_id.clone());
        Some(call_id)
    }

    fn is_result(&self, envelope: &ToolEnvelope, input: &Value) -> bool {
        match &envelope.metadata.edited_from {
            None => envelope.input == *input,
            // A person edited the input. The id of the original call was derived from the original input, so the id
            // shows whether the original input was `input`.
            Some(original) => {
                (0..self.calls).any(|seq| CallId::derive(&envelope.name, &envelope.version, input, seq) == *original)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use toolwright_types::Arguments;

    use super::*;

    fn envelope(name: &str, input: Value, seq: u64, edited_from: Option<CallId>) -> ToolEnvelope {
        let call_id = CallId::derive(name, "1.0.0", &input, seq);
        let at = "2026-01-01T00:00:00Z";
        let metadata = match edited_from {
            Some(original) => json!({ "edited_from": original }),
            None => json!({}),
        };
        serde_json::from_value(json!({
            "call_id": call_id, "name": name, "version": "1.0.0", "input": input, "output": 1, "error": null,
            "t_start": at, "t_end": at, "metadata": metadata,
        }))
        .unwrap()
    }

    fn requested(name: &str, input: Value) -> RequestedCall {
        RequestedCall { id: "model-id".to_owned(), name: name.to_owned(), arguments: Arguments::Json(input) }
    }

    #[test]
    fn each_requested_call_gets_the_call_id_of_its_own_envelope() {
        let (a, b, c) = (json!({ "q": "a" }), json!({ "q": "b" }), json!({ "q": "c" }));
        let edited = CallId::derive("find", "1.0.0", &b, 0);
        let envelopes = [
            envelope("find", a.clone(), 0, None),
            envelope("find", a.clone(), 1, None),
            envelope("other", a.clone(), 0, None),
            envelope("find", c.clone(), 0, Some(edited)),
        ];
        let mut open = OpenEnvelopes { calls: 4, open: envelopes.iter().collect(), found: HashMap::new() };
        let mut take = |name: &str, input: &Value| open.take(&requested(name, input.clone()));
        for (name, input, expected) in [
            ("other", &a, Some(2)),
            ("FIND", &a, Some(0)),
            ("find", &c, None),
            ("find", &b, Some(3)),
            ("the id of find", &a, Some(1)),
            ("find", &a, None),
        ] {
            let expected = expected.map(|at: usize| envelopes[at].call_id.clone());
            assert_eq!(take(name, input), expected, "{name} {input}");
        }
    }
}
