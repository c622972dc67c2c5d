//! Converts the messages of a run into the turns that the run adds to its conversation.

use serde::{Deserialize, Serialize};
use toolwright_machine::agent::AgentRun;
use toolwright_machine::journal::RunStart;
use toolwright_store::{NewTurn, RunChange, Turn};
use toolwright_types::{DocumentId, Message, RealmId, RequestedCall, RunId, Timestamp, TurnId};

/// The content of a turn besides its text.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct TurnBody {
    /// The calls that the assistant requested.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tool_calls: Vec<RequestedCall>,
    /// For a tool result: the id of the call, the name of the tool, and whether the call failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result_of: Option<(String, String, bool)>,
}

impl TurnBody {
    /// The content of a stored turn besides its text; empty if it cannot be parsed.
    pub fn of(turn: &Turn) -> Self {
        turn.body.as_deref().and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default()
    }
}

/// The turn for the user's message that starts a run.
pub fn of_user(run: RunId, message: &Message, at: Timestamp) -> NewTurn {
    turn(run, message, at, 0, 0)
}

/// The turns that a run adds when it ends: all messages after the user's message. The last turn has the tokens and the
/// duration of the run.
pub(super) fn of_run(start: &RunStart, realm: RealmId, run: &AgentRun, at: Timestamp) -> Option<RunChange> {
    let conversation = start.conversation?;
    let history = start.spec.request.messages.len();
    let new = run.messages().get(history..).unwrap_or_default();
    let resource_usage = run.resource_usage();
    let last = new.len().saturating_sub(1);
    let turns = new.iter().enumerate().map(|(position, message)| {
        let (tokens, millis) =
            if position == last { (resource_usage.usage.total(), resource_usage.active_us / 1000) } else { (0, 0) };
        turn(run.id(), message, at, tokens, millis)
    });
    Some(RunChange::AddTurns { realm, conversation, turns: turns.collect(), title_if_none: None })
}

fn turn(run: RunId, message: &Message, at: Timestamp, tokens: u64, duration_ms: u64) -> NewTurn {
    let (role, content, body) = turn_of(message);
    NewTurn { id: TurnId::generate(), role: role.to_owned(), content, body, tokens, duration_ms, run: Some(run), at }
}

/// The role, the text and the body of a message as a turn.
pub fn turn_of(message: &Message) -> (&'static str, String, Option<String>) {
    let body = |body: TurnBody| serde_json::to_string(&body).ok();
    match message {
        Message::System { content } => ("system", content.clone(), None),
        Message::User { content } => ("user", content.clone(), None),
        Message::Assistant { content, tool_calls, .. } => {
            let calls = TurnBody { tool_calls: tool_calls.clone(), result_of: None };
            ("assistant", content.clone(), if tool_calls.is_empty() { None } else { body(calls) })
        }
        // Images are not stored in turns. They remain in the run that used them.
        Message::Tool { id, name, content, is_error, images: _ } => {
            let result_of = Some((id.clone(), name.clone(), *is_error));
            ("tool", content.clone(), body(TurnBody { tool_calls: Vec::new(), result_of }))
        }
    }
}
