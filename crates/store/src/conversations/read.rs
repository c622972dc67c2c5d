//! Reads single conversations and their turns.

use toolwright_types::ConversationId;

use super::rows::{ConversationRow, TurnRow, conversation_columns, turn_columns};
use super::{Conversation, RealmConversations, Turn};
use crate::db::StoreError;
use crate::page;

impl RealmConversations<'_> {
    /// Returns the conversation with this id.
    pub async fn get(&self, conversation: ConversationId) -> Result<Option<Conversation>, StoreError> {
        let row: Option<ConversationRow> = read!(&self.store.db, |pool| {
            sqlx::query_as(concat!(
                "SELECT ",
                conversation_columns!(),
                " FROM conversations WHERE realm_id = $1 AND id = $2"
            ))
            .bind(self.realm.to_string())
            .bind(conversation.to_string())
            .fetch_optional(pool)
        })?;
        row.map(Conversation::try_from).transpose()
    }

    /// Returns the turns from index `from`, in order. A limit outside 1–1000 is set to the nearest bound.
    pub async fn turns(&self, conversation: ConversationId, from: u32, limit: u32) -> Result<Vec<Turn>, StoreError> {
        let rows: Vec<TurnRow> = read!(&self.store.db, |pool| {
            sqlx::query_as(concat!(
                "SELECT ",
                turn_columns!(),
                " FROM turns t JOIN conversations c ON c.id = t.conversation_id
                  WHERE c.realm_id = $1 AND c.id = $2 AND t.turn_index >= $3 ORDER BY t.turn_index LIMIT $4"
            ))
            .bind(self.realm.to_string())
            .bind(conversation.to_string())
            .bind(i64::from(from))
            .bind(i64::from(page::clamp(limit)))
            .fetch_all(pool)
        })?;
        rows.into_iter().map(Turn::try_from).collect()
    }

    /// Returns the last turns, oldest first. A limit outside 1–1000 is set to the nearest bound.
    pub async fn last_turns(&self, conversation: ConversationId, limit: u32) -> Result<Vec<Turn>, StoreError> {
        let rows: Vec<TurnRow> = read!(&self.store.db, |pool| {
            sqlx::query_as(concat!(
                "SELECT ",
                turn_columns!(),
                " FROM turns t JOIN conversations c ON c.id = t.conversation_id
                  WHERE c.realm_id = $1 AND c.id = $2 ORDER BY t.turn_index DESC LIMIT $3"
            ))
            .bind(self.realm.to_string())
            .bind(conversation.to_string())
            .bind(i64::from(page::clamp(limit)))
            .fetch_all(pool)
        })?;
        rows.into_iter().rev().map(Turn::try_from).collect()
    }
}
