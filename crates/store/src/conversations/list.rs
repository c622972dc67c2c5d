//! Lists of conversations, page by page.

use toolwright_query::Filter;
use toolwright_types::{ConversationId, PrincipalId};

use super::rows::{ConversationRow, conversation_columns};
use super::{Conversation, ConversationStatus, Conversations};
use crate::db::Unavailable;
use crate::matching::{Cell, Shown};
use crate::page::{Page, TimeCursor, push_limit};
use crate::sql::Sql;

/// Where a page of conversations ended.
pub type ConversationCursor = TimeCursor<ConversationId>;

/// Which conversations, from where on. What is absent does not matter.
#[derive(Debug, Clone)]
pub struct ConversationQuery {
    /// Whose it is.
    pub owner: Option<PrincipalId>,
    /// The name of its agent, as the conversation recorded it.
    pub agent: Option<String>,
    /// Where it stands.
    pub status: Option<ConversationStatus>,
    /// What must hold for the conversation as it is listed; nothing when absent.
    pub matching: Option<Filter>,
    /// How many; at least 1 and at most 1000 are given whatever is asked.
    pub limit: u32,
    /// Where the page before ended.
    pub cursor: Option<ConversationCursor>,
}

impl Default for ConversationQuery {
    fn default() -> Self {
        Self { owner: None, agent: None, status: None, matching: None, limit: 20, cursor: None }
    }
}

/// A conversation as it is listed.
const SHOWN: Shown = Shown {
    id: "conversations.id",
    body: None,
    fields: &[
        ("id", Cell::Plain("conversations.id")),
        ("agentRef", Cell::Plain("conversations.agent")),
        ("principalId", Cell::Plain("conversations.owner_id")),
        ("title", Cell::Plain("conversations.title")),
        ("status", Cell::Plain("conversations.status")),
        ("turnCount", Cell::Plain("conversations.turn_count")),
        ("totalTokensUsed", Cell::Plain("conversations.total_tokens")),
        ("summary", Cell::Plain("conversations.summary")),
        ("sharedContext", Cell::Json("conversations.shared_context")),
        ("createdAt", Cell::Moment("conversations.created_at")),
        ("updatedAt", Cell::Moment("conversations.updated_at")),
    ],
};

impl ConversationQuery {
    /// Whether `matching` can ask about this field.
    pub fn knows(field: &str) -> bool {
        SHOWN.knows(field)
    }
}

impl Conversations<'_> {
    /// One page of conversations, those in which something happened last first.
    pub async fn list(&self, query: &ConversationQuery) -> Result<Page<Conversation, ConversationCursor>, Unavailable> {
        let mut sql = Sql::new(concat!("SELECT ", conversation_columns!()));
        self.push_from(&mut sql, query)?;
        if let Some((at, conversation)) = query.cursor.as_ref().map(ConversationCursor::position) {
            sql.push(" AND (updated_at, id) < (").integer(at).push(", ").text(conversation.to_string()).push(")");
        }
        sql.push(" ORDER BY updated_at DESC, id DESC");
        push_limit(&mut sql, query.limit);

        let (text, values) = sql.into_parts();
        let rows: Vec<ConversationRow> =
            read!(&self.store.db, |pool| bind_all!(sqlx::query_as(text), values).fetch_all(pool))?;
        Page::of(rows, query.limit, |last: &Conversation| ConversationCursor::after(last.updated_at, last.id))
    }

    /// How many conversations there are on all pages.
    pub async fn count(&self, query: &ConversationQuery) -> Result<u64, Unavailable> {
        let mut sql = Sql::new("SELECT COUNT(*)");
        self.push_from(&mut sql, query)?;
        let (text, values) = sql.into_parts();
        let count: i64 = read!(&self.store.db, |pool| bind_all!(sqlx::query_scalar(text), values).fetch_one(pool))?;
        Ok(u64::try_from(count).unwrap_or(0))
    }

    /// ` FROM conversations WHERE …`: those that are wanted.
    fn push_from(&self, sql: &mut Sql, query: &ConversationQuery) -> Result<(), Unavailable> {
        sql.push(" FROM conversations WHERE realm_id = ").text(self.realm.to_string());
        if let Some(owner) = query.owner {
            sql.push(" AND owner_id = ").text(owner.to_string());
        }
        if let Some(agent) = &query.agent {
            sql.push(" AND agent = ").free_text(agent);
        }
        if let Some(status) = query.status {
            sql.push(" AND status = ").text(status.as_str());
        }
        query.matching.as_ref().map_or(Ok(()), |filter| SHOWN.push(sql, &self.store.db, filter))
    }
}
