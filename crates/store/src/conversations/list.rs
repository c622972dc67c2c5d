//! Lists and counts conversations.

use toolwright_query::Filter;
use toolwright_types::{ConversationId, PrincipalId};

use super::rows::{ConversationRow, conversation_columns, owner_name};
use super::{Conversation, ConversationStatus, RealmConversations};
use crate::db::StoreError;
use crate::page::{Page, TimeCursor, push_limit};
use crate::row_filter::{FieldColumn, RowView};
use crate::sql::Sql;

/// The position after a conversation in a list.
pub type ConversationCursor = TimeCursor<ConversationId>;

/// A query for conversations. Fields that are `None` do not restrict the result.
#[derive(Debug, Clone)]
pub struct ConversationQuery {
    /// The owner.
    pub owner: Option<PrincipalId>,
    /// The name that the agent had when the conversation was created.
    pub agent: Option<String>,
    /// The status.
    pub status: Option<ConversationStatus>,
    /// A filter on the JSON object that clients receive for a conversation.
    pub matching: Option<Filter>,
    /// The page size. Values outside 1–1000 are set to the nearest limit.
    pub limit: u32,
    /// The cursor that was returned with the previous page. `None` for the first page.
    pub cursor: Option<ConversationCursor>,
}

impl Default for ConversationQuery {
    fn default() -> Self {
        Self { owner: None, agent: None, status: None, matching: None, limit: 20, cursor: None }
    }
}

/// The fields of a conversation that filters can use.
const LIST_VIEW: RowView = RowView {
    id: "conversations.id",
    body: None,
    fields: &[
        ("id", FieldColumn::Scalar("conversations.id")),
        ("agentRef", FieldColumn::Scalar("conversations.agent")),
        ("principalId", FieldColumn::Scalar(owner_name!())),
        ("title", FieldColumn::Scalar("conversations.title")),
        ("status", FieldColumn::Scalar("conversations.status")),
        ("turnCount", FieldColumn::Scalar("conversations.turn_count")),
        ("totalTokensUsed", FieldColumn::Scalar("conversations.total_tokens")),
        ("summary", FieldColumn::Scalar("conversations.summary")),
        ("sharedContext", FieldColumn::Json("conversations.shared_context")),
        ("createdAt", FieldColumn::Timestamp("conversations.created_at")),
        ("updatedAt", FieldColumn::Timestamp("conversations.updated_at")),
    ],
};

impl ConversationQuery {
    /// Whether filters in `matching` can use this field.
    pub fn is_filterable(field: &str) -> bool {
        LIST_VIEW.is_filterable(field)
    }
}

impl RealmConversations<'_> {
    /// Returns one page of conversations, most recently updated first.
    pub async fn list(&self, query: &ConversationQuery) -> Result<Page<Conversation, ConversationCursor>, StoreError> {
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
        Page::from_rows(rows, query.limit, |last: &Conversation| ConversationCursor::after(last.updated_at, last.id))
    }

    /// Counts the conversations that match the query, across all pages.
    pub async fn count(&self, query: &ConversationQuery) -> Result<u64, StoreError> {
        let mut sql = Sql::new("SELECT COUNT(*)");
        self.push_from(&mut sql, query)?;
        let (text, values) = sql.into_parts();
        let count: i64 = read!(&self.store.db, |pool| bind_all!(sqlx::query_scalar(text), values).fetch_one(pool))?;
        u64::try_from(count).map_err(StoreError::unreadable)
    }

    /// Appends ` FROM conversations WHERE …` with the conditions of the query.
    fn push_from(&self, sql: &mut Sql, query: &ConversationQuery) -> Result<(), StoreError> {
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
        query.matching.as_ref().map_or(Ok(()), |filter| LIST_VIEW.push(sql, &self.store.db, filter))
    }
}
