//! Wire views of conversations and their turns.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use toolwright_agents::conversations::{Conversation, TurnWithCalls};
use toolwright_machine::view::ToolCallEntry;
use toolwright_types::Timestamp;

/// A conversation.
#[derive(Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ConversationView {
    /// The id of the conversation.
    pub id: String,
    /// The agent of the conversation.
    pub agent_ref: String,
    /// The name of the principal that owns the conversation.
    pub principal_id: String,
    /// The title.
    pub title: Option<String>,
    /// ACTIVE, COMPLETED or ARCHIVED.
    pub status: Cow<'static, str>,
    /// The number of turns.
    pub turn_count: u32,
    /// The tokens of all turns.
    pub total_tokens_used: u64,
    /// A summary of the earlier turns.
    pub summary: Option<String>,
    /// The context that all runs of the conversation share.
    #[schema(value_type = Object)]
    pub shared_context: Value,
    /// When the conversation started.
    #[schema(value_type = String, format = DateTime)]
    pub created_at: Timestamp,
    /// When the conversation was changed last.
    #[schema(value_type = String, format = DateTime)]
    pub updated_at: Timestamp,
    /// The turns. Present only in the response to a `GET` of one conversation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub turns: Option<Vec<TurnView>>,
}

impl ConversationView {
    /// Creates the view of a conversation, optionally with turns.
    pub(crate) fn new(conversation: Conversation, turns: Option<Vec<TurnWithCalls>>) -> Self {
        Self {
            id: conversation.id.to_string(),
            agent_ref: conversation.agent,
            principal_id: conversation.owner_name,
            title: conversation.title,
            status: conversation.status.as_str().into(),
            turn_count: conversation.turn_count,
            total_tokens_used: conversation.total_tokens,
            summary: conversation.summary,
            shared_context: conversation.shared_context,
            created_at: conversation.created_at,
            updated_at: conversation.updated_at,
            turns: turns.map(|turns| turns.into_iter().map(TurnView::from).collect()),
        }
    }
}

/// A turn of a conversation.
#[derive(Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct TurnView {
    /// The id of the turn.
    pub id: String,
    /// The index of the turn, from 0.
    pub turn_index: u32,
    /// `user`, `assistant`, `system` or `tool`.
    pub role: String,
    /// The content of the turn.
    pub content: String,
    /// The calls that the model requested, with their results.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tool_calls: Vec<ToolCallEntry>,
    /// If the turn is the result of a call: the id of the call. The turn that requested the call has an entry with the
    /// same `callId` in `toolCalls`. Absent in turns that an earlier release stored.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call_id: Option<String>,
    /// If the turn is the result of a call: the id that the model gave the call. Models may use an id twice; use
    /// `callId` to find the call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool_call_id: Option<String>,
    /// If the turn is the result of a call: the tool that was called.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool_ref: Option<String>,
    /// The tokens used.
    pub tokens_used: u64,
    /// The duration in milliseconds.
    pub duration_ms: u64,
    /// The run that produced the turn.
    pub run_id: Option<String>,
    /// When the turn was added.
    #[schema(value_type = String, format = DateTime)]
    pub created_at: Timestamp,
}

impl From<TurnWithCalls> for TurnView {
    fn from(TurnWithCalls { turn, tool_calls, result_of, call_id }: TurnWithCalls) -> Self {
        let (tool_call_id, tool_ref) = result_of.unzip();
        Self {
            id: turn.id.to_string(),
            turn_index: turn.index,
            role: turn.role,
            content: turn.content,
            tool_calls,
            call_id: call_id.map(|id| id.to_string()),
            tool_call_id,
            tool_ref,
            tokens_used: turn.tokens,
            duration_ms: turn.duration_ms,
            run_id: turn.run.map(|run| run.to_string()),
            created_at: turn.at,
        }
    }
}
