//! Converts database rows to conversations and turns.

use toolwright_types::{ConversationId, PrincipalId, RunId, Timestamp, TurnId};

use super::{Conversation, Turn};
use crate::db::StoreError;

/// The name of the owner, or the owner's id if the principal does not exist. Conversations have no foreign key to
/// principals.
macro_rules! owner_name {
    () => {
        "COALESCE((SELECT p.name FROM principals p WHERE p.id = conversations.owner_id), conversations.owner_id)"
    };
}

/// The columns of a [`ConversationRow`].
macro_rules! conversation_columns {
    () => {
        concat!(
            "id, agent, owner_id, ",
            crate::conversations::rows::owner_name!(),
            " AS owner_name, title, status, turn_count, total_tokens, summary, summarised_turns, shared_context,
             created_at, updated_at"
        )
    };
}

/// The columns of a [`TurnRow`].
macro_rules! turn_columns {
    () => {
        "t.turn_index, t.id, t.role, t.content, t.body, t.tokens, t.duration_ms, t.run_id, t.created_at"
    };
}

pub(super) use {conversation_columns, owner_name, turn_columns};

#[derive(sqlx::FromRow)]
pub(super) struct ConversationRow {
    #[sqlx(try_from = "String")]
    id: ConversationId,
    agent: String,
    #[sqlx(try_from = "String")]
    owner_id: PrincipalId,
    owner_name: String,
    title: Option<String>,
    status: String,
    turn_count: i64,
    total_tokens: i64,
    summary: Option<String>,
    summarised_turns: i64,
    shared_context: String,
    created_at: i64,
    updated_at: i64,
}

impl TryFrom<ConversationRow> for Conversation {
    type Error = StoreError;

    fn try_from(row: ConversationRow) -> Result<Self, StoreError> {
        Ok(Self {
            id: row.id,
            agent: row.agent,
            owner: row.owner_id,
            owner_name: row.owner_name,
            title: row.title,
            status: row.status.parse().map_err(StoreError::unreadable)?,
            turn_count: u32::try_from(row.turn_count).map_err(StoreError::unreadable)?,
            total_tokens: u64::try_from(row.total_tokens).map_err(StoreError::unreadable)?,
            summary: row.summary,
            summarised_turns: u32::try_from(row.summarised_turns).map_err(StoreError::unreadable)?,
            shared_context: serde_json::from_str(&row.shared_context).map_err(StoreError::unreadable)?,
            created_at: Timestamp::from_micros(row.created_at),
            updated_at: Timestamp::from_micros(row.updated_at),
        })
    }
}

#[derive(sqlx::FromRow)]
pub(super) struct TurnRow {
    turn_index: i64,
    #[sqlx(try_from = "String")]
    id: TurnId,
    role: String,
    content: String,
    body: Option<String>,
    tokens: i64,
    duration_ms: i64,
    run_id: Option<String>,
    created_at: i64,
}

impl TryFrom<TurnRow> for Turn {
    type Error = StoreError;

    fn try_from(row: TurnRow) -> Result<Self, StoreError> {
        Ok(Self {
            index: u32::try_from(row.turn_index).map_err(StoreError::unreadable)?,
            id: row.id,
            role: row.role,
            content: row.content,
            body: row.body,
            tokens: u64::try_from(row.tokens).map_err(StoreError::unreadable)?,
            duration_ms: u64::try_from(row.duration_ms).map_err(StoreError::unreadable)?,
            run: row.run_id.map(RunId::try_from).transpose().map_err(StoreError::unreadable)?,
            at: Timestamp::from_micros(row.created_at),
        })
    }
}
