//! Reading single conversations and their turns.

use toolwright_types::ConversationId;

use super::rows::{ConversationRow, TurnRow, conversation_columns, turn_columns};
use super::{Conversation, Conversations, Turn};
use crate::db::Unavailable;
use crate::page;

impl Conversations<'_> {
    /// The conversation with that id.
    pub async fn get(&self, conversation: ConversationId) -> Result<Option<Conversation>, Unavailable> {
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

    /// The turns from index `from` on, in their order; at least 1 and at most 1000 whatever the limit says.
    pub async fn turns(&self, of: ConversationId, from: u32, limit: u32) -> Result<Vec<Turn>, Unavailable> {
        let rows: Vec<TurnRow> = read!(&self.store.db, |pool| {
            sqlx::query_as(concat!(
                "SELECT ",
                turn_columns!(),
                " FROM turns t JOIN conversations c ON c.id = t.conversation_id
                  WHERE c.realm_id = $1 AND c.id = $2 AND t.turn_index >= $3 ORDER BY t.turn_index LIMIT $4"
            ))
            .bind(self.realm.to_string())
            .bind(of.to_string())
            .bind(i64::from(from))
            .bind(i64::from(page::clamp(limit)))
            .fetch_all(pool)
        })?;
        rows.into_iter().map(Turn::try_from).collect()
    }

    /// The last turns, in their order; at least 1 and at most 1000 whatever the limit says.
    pub async fn last_turns(&self, of: ConversationId, limit: u32) -> Result<Vec<Turn>, Unavailable> {
        let rows: Vec<TurnRow> = read!(&self.store.db, |pool| {
            sqlx::query_as(concat!(
                "SELECT ",
                turn_columns!(),
                " FROM turns t JOIN conversations c ON c.id = t.conversation_id
                  WHERE c.realm_id = $1 AND c.id = $2 ORDER BY t.turn_index DESC LIMIT $3"
            ))
            .bind(self.realm.to_string())
            .bind(of.to_string())
            .bind(i64::from(page::clamp(limit)))
            .fetch_all(pool)
        })?;
        rows.into_iter().rev().map(Turn::try_from).collect()
    }
}
