//! What an agent is told of the conversation so far.
//!
//! Turns are cut only where a user speaks, so that a model never sees a result without its call.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use toolwright_models::estimate_tokens;
use toolwright_store::Turn;
use toolwright_types::{MemoryConfig, MemoryStrategy, Message, RequestedCall};

/// How many turns `sliding_window` and `summary` keep when the agent does not say.
const DEFAULT_TURNS: u32 = 20;

/// What a turn holds beside its text.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct TurnBody {
    /// The calls that an assistant asked for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tool_calls: Vec<RequestedCall>,
    /// For a result: the id of its call, the tool, and whether it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result_of: Option<(String, String, bool)>,
}

impl TurnBody {
    /// What a turn holds beside its text; nothing if this release cannot read it.
    pub fn of(turn: &Turn) -> Self {
        turn.body.as_deref().and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default()
    }
}

/// What is kept of a history.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Kept {
    /// The messages, oldest first.
    pub messages: Vec<Message>,
    /// How many turns were left out before them.
    pub dropped: usize,
}

/// The last part of `turns` that fits the agent's memory and `budget` tokens.
pub(crate) fn keep(turns: &[Turn], config: &MemoryConfig, budget: Option<u64>) -> Kept {
    let most = match config.strategy {
        MemoryStrategy::None => 0,
        MemoryStrategy::Full => usize::MAX,
        MemoryStrategy::SlidingWindow | MemoryStrategy::Summary => {
            usize::try_from(config.max_conversation_turns.unwrap_or(DEFAULT_TURNS)).unwrap_or(usize::MAX)
        }
    };
    let budget = [config.max_context_tokens, budget].into_iter().flatten().min().unwrap_or(u64::MAX);
    let mut tokens = 0u64;
    let mut from = turns.len();
    for (at, turn) in turns.iter().enumerate().rev() {
        tokens = tokens.saturating_add(turn_tokens(turn));
        if turns.len() - at > most || tokens > budget {
            break;
        }
        if turn.role == "user" {
            from = at;
        }
    }
    let messages = turns.iter().skip(from).filter_map(message).collect();
    Kept { messages, dropped: from }
}

fn turn_tokens(turn: &Turn) -> u64 {
    4 + estimate_tokens(&turn.content) + turn.body.as_deref().map_or(0, estimate_tokens)
}

/// The turns of messages: role, text and the rest.
pub(crate) fn turn_of(message: &Message) -> (&'static str, String, Option<String>) {
    let body = |body: TurnBody| serde_json::to_string(&body).ok();
    match message {
        Message::System { content } => ("system", content.clone(), None),
        Message::User { content } => ("user", content.clone(), None),
        Message::Assistant { content, tool_calls, .. } => {
            let calls = TurnBody { tool_calls: tool_calls.clone(), result_of: None };
            ("assistant", content.clone(), if tool_calls.is_empty() { None } else { body(calls) })
        }
        // Pictures are of the run that saw them; what is remembered is what was said about them.
        Message::Tool { id, name, content, is_error, images: _ } => {
            let result_of = Some((id.clone(), name.clone(), *is_error));
            ("tool", content.clone(), body(TurnBody { tool_calls: Vec::new(), result_of }))
        }
    }
}

/// The message that a turn was; none if this release cannot read it.
fn message(turn: &Turn) -> Option<Message> {
    let content = turn.content.clone();
    let body = TurnBody::of(turn);
    match turn.role.as_str() {
        "system" => Some(Message::System { content }),
        "user" => Some(Message::User { content }),
        "assistant" => Some(Message::Assistant { content, tool_calls: body.tool_calls, thinking: Vec::<Value>::new() }),
        "tool" => {
            let (id, name, is_error) = body.result_of?;
            Some(Message::Tool { id, name, content, is_error, images: Vec::new() })
        }
        _ => None,
    }
}
