//! Selects the turns of a conversation that are sent to the model of an agent.
//!
//! The first selected turn is always a user's message. So the model never gets a tool result without the call that
//! produced it.

use serde_json::Value;
use toolwright_models::estimate_tokens;
use toolwright_runs::turns::TurnBody;
use toolwright_store::Turn;
use toolwright_types::{MemoryConfig, MemoryStrategy, Message};

/// The default number of turns for `sliding_window` and `summary`.
const DEFAULT_TURNS: u32 = 20;

/// The latest turns of a conversation that are sent to the model.
#[derive(Debug, Default, PartialEq)]
pub struct HistoryWindow {
    /// The messages, oldest first.
    pub messages: Vec<Message>,
    /// The number of earlier turns that were omitted.
    pub dropped: usize,
}

/// Returns the latest turns that the agent's memory configuration allows and that fit into `budget` tokens.
pub fn select_history(turns: &[Turn], config: &MemoryConfig, budget: Option<u64>) -> HistoryWindow {
    let max_turns = match config.strategy {
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
        if turns.len() - at > max_turns || tokens > budget {
            break;
        }
        if turn.role == "user" {
            from = at;
        }
    }
    let messages = turns.iter().skip(from).filter_map(message).collect();
    HistoryWindow { messages, dropped: from }
}

fn turn_tokens(turn: &Turn) -> u64 {
    4 + estimate_tokens(&turn.content) + turn.body.as_deref().map_or(0, estimate_tokens)
}

/// Converts a turn to a message; `None` if the role is unknown, or the body of a tool result cannot be parsed.
fn message(turn: &Turn) -> Option<Message> {
    let content = turn.content.clone();
    let body = TurnBody::of(turn);
    match turn.role.as_str() {
        "system" => Some(Message::System { content }),
        "user" => Some(Message::User { content }),
        "assistant" => {
            let tool_calls = body.tool_calls.into_iter().map(|call| call.requested).collect();
            Some(Message::Assistant { content, tool_calls, thinking: Vec::<Value>::new() })
        }
        "tool" => {
            let (id, name, is_error) = body.result_of?;
            Some(Message::Tool { id, name, content, is_error, images: Vec::new() })
        }
        _ => None,
    }
}
