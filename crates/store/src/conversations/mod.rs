//! Conversations and their turns: what a user and an agent said, across runs.
//!
//! They are opened and continued by runs, through the [`Writer`](crate::Writer); here they are read, renamed and
//! deleted.

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

/// The conversations of one realm; those of every other do not exist here.
#[derive(Debug, Clone, Copy)]
pub struct Conversations<'a> {
    store: &'a Store,
    // INVARIANT: every query of this module is confined to this realm.
    realm: RealmId,
}

impl<'a> Conversations<'a> {
    pub(crate) fn new(store: &'a Store, scope: &RealmScope) -> Self {
        Self { store, realm: scope.realm }
    }
}

/// A conversation that begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewConversation {
    /// Its identity.
    pub id: ConversationId,
    /// The name of the agent it is with.
    pub agent: String,
    /// Whose it is.
    pub owner: PrincipalId,
    /// What it is called.
    pub title: Option<String>,
    /// When it began.
    pub created_at: Timestamp,
}

/// A conversation as it stands in the store.
#[derive(Debug, Clone, PartialEq)]
pub struct Conversation {
    /// Its identity.
    pub id: ConversationId,
    /// The name of the agent it is with.
    pub agent: String,
    /// Whose it is.
    pub owner: PrincipalId,
    /// What it is called.
    pub title: Option<String>,
    /// Where it stands.
    pub status: ConversationStatus,
    /// How many turns it has.
    pub turn_count: u32,
    /// The tokens of all turns.
    pub total_tokens: u64,
    /// What was said in the first turns, in short.
    pub summary: Option<String>,
    /// How many turns, from the first on, the summary stands for.
    pub summarised_turns: u32,
    /// What the runs of the conversation share.
    pub shared_context: Value,
    /// When it began.
    pub created_at: Timestamp,
    /// When something was last said or changed.
    pub updated_at: Timestamp,
}

/// Where a conversation stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ConversationStatus {
    /// It goes on.
    Active,
    /// It has come to its end.
    Completed,
    /// It was put away.
    Archived,
}

impl ConversationStatus {
    /// Every status.
    pub const ALL: [ConversationStatus; 3] =
        [ConversationStatus::Active, ConversationStatus::Completed, ConversationStatus::Archived];

    /// The status as it is written on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            ConversationStatus::Active => "ACTIVE",
            ConversationStatus::Completed => "COMPLETED",
            ConversationStatus::Archived => "ARCHIVED",
        }
    }
}

/// Text that is no status of a conversation.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a status of a conversation; `ACTIVE`, `COMPLETED` and `ARCHIVED` are")]
pub struct UnknownConversationStatus(String);

impl FromStr for ConversationStatus {
    type Err = UnknownConversationStatus;

    fn from_str(text: &str) -> Result<Self, UnknownConversationStatus> {
        let found = Self::ALL.into_iter().find(|status| status.as_str() == text);
        found.ok_or_else(|| UnknownConversationStatus(text.to_owned()))
    }
}

/// Something that was said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewTurn {
    /// Its identity.
    pub id: TurnId,
    /// Who spoke: `user`, `assistant`, `system` or `tool`.
    pub role: String,
    /// What was said.
    pub content: String,
    /// What else belongs to it, such as calls, as JSON.
    pub body: Option<String>,
    /// The tokens it took.
    pub tokens: u64,
    /// How long it took.
    pub duration_ms: u64,
    /// The run it was said in.
    pub run: Option<RunId>,
    /// When.
    pub at: Timestamp,
}

/// A turn as it stands in the store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Turn {
    /// Its place in the conversation, from 0 on, without gaps.
    pub index: u32,
    /// Its identity.
    pub id: TurnId,
    /// Who spoke.
    pub role: String,
    /// What was said.
    pub content: String,
    /// What else belongs to it, as JSON.
    pub body: Option<String>,
    /// The tokens it took.
    pub tokens: u64,
    /// How long it took.
    pub duration_ms: u64,
    /// The run it was said in.
    pub run: Option<RunId>,
    /// When.
    pub at: Timestamp,
}
