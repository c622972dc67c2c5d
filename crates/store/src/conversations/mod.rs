//! Stores conversations and their turns. Turns are the messages that a user and an agent exchanged in one or more runs.
//!
//! Runs create and extend conversations through the [`Writer`](crate::Writer). This module reads, updates and deletes
//! them.

mod change;
mod list;
mod read;
mod rows;
pub(crate) mod write;

use std::str::FromStr;

use serde_json::Value;
use toolwright_types::{ConversationId, PrincipalId, RealmId, RealmScope, RunId, Timestamp, TurnId};

use crate::store::Store;

pub use change::{ConversationPatch, UpdateError};
pub use list::{ConversationCursor, ConversationQuery};

/// The conversations of one realm.
#[derive(Debug, Clone, Copy)]
pub struct RealmConversations<'a> {
    store: &'a Store,
    // INVARIANT: every query of this handle selects rows of this realm only.
    realm: RealmId,
}

impl Store {
    /// Returns the conversations of one realm.
    pub fn conversations(&self, scope: &RealmScope) -> RealmConversations<'_> {
        RealmConversations::new(self, scope)
    }
}

impl<'a> RealmConversations<'a> {
    fn new(store: &'a Store, scope: &RealmScope) -> Self {
        Self { store, realm: scope.realm }
    }
}

/// A new conversation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewConversation {
    /// The id.
    pub id: ConversationId,
    /// The name of the agent.
    pub agent: String,
    /// The owner.
    pub owner: PrincipalId,
    /// The title.
    pub title: Option<String>,
    /// The time at which the conversation was created.
    pub created_at: Timestamp,
}

/// A stored conversation.
#[derive(Debug, Clone, PartialEq)]
pub struct Conversation {
    /// The id.
    pub id: ConversationId,
    /// The name of the agent.
    pub agent: String,
    /// The owner.
    pub owner: PrincipalId,
    /// The name of the owner.
    pub owner_name: String,
    /// The title.
    pub title: Option<String>,
    /// The status.
    pub status: ConversationStatus,
    /// The number of turns.
    pub turn_count: u32,
    /// The sum of the tokens of all turns.
    pub total_tokens: u64,
    /// The summary of the oldest turns.
    pub summary: Option<String>,
    /// The number of turns that `summary` summarises, counted from the first turn.
    pub summarised_turns: u32,
    /// The data that the runs of the conversation share.
    pub shared_context: Value,
    /// The time at which the conversation was created.
    pub created_at: Timestamp,
    /// The time of the last turn or change.
    pub updated_at: Timestamp,
}

/// The status of a conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ConversationStatus {
    /// The conversation is open.
    Active,
    /// The conversation has ended.
    Completed,
    /// The conversation is archived.
    Archived,
}

impl ConversationStatus {
    /// All statuses.
    pub const ALL: [ConversationStatus; 3] =
        [ConversationStatus::Active, ConversationStatus::Completed, ConversationStatus::Archived];

    /// The name of the status in the database and in the REST API.
    pub fn as_str(self) -> &'static str {
        match self {
            ConversationStatus::Active => "ACTIVE",
            ConversationStatus::Completed => "COMPLETED",
            ConversationStatus::Archived => "ARCHIVED",
        }
    }
}

/// The text is not a conversation status.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("conversation status must be `ACTIVE`, `COMPLETED` or `ARCHIVED`, got `{0}`")]
pub struct UnknownConversationStatus(String);

impl FromStr for ConversationStatus {
    type Err = UnknownConversationStatus;

    fn from_str(text: &str) -> Result<Self, UnknownConversationStatus> {
        let found = Self::ALL.into_iter().find(|status| status.as_str() == text);
        found.ok_or_else(|| UnknownConversationStatus(text.to_owned()))
    }
}

/// A new turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewTurn {
    /// The id.
    pub id: TurnId,
    /// The role: `user`, `assistant`, `system` or `tool`.
    pub role: String,
    /// The text.
    pub content: String,
    /// Further content such as tool calls, as JSON.
    pub body: Option<String>,
    /// The number of tokens.
    pub tokens: u64,
    /// The duration in milliseconds.
    pub duration_ms: u64,
    /// The run that produced the turn.
    pub run: Option<RunId>,
    /// The time of the turn.
    pub at: Timestamp,
}

/// A stored turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Turn {
    /// The index in the conversation: 0, 1, 2, without gaps.
    pub index: u32,
    /// The id.
    pub id: TurnId,
    /// The role.
    pub role: String,
    /// The text.
    pub content: String,
    /// Further content, as JSON.
    pub body: Option<String>,
    /// The number of tokens.
    pub tokens: u64,
    /// The duration in milliseconds.
    pub duration_ms: u64,
    /// The run that produced the turn.
    pub run: Option<RunId>,
    /// The time of the turn.
    pub at: Timestamp,
}
