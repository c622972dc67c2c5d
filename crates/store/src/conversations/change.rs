//! Updates and deletes conversations at the request of a user.

use serde_json::Value;
use toolwright_types::ConversationId;

use super::rows::{ConversationRow, conversation_columns};
use super::{Conversation, ConversationStatus, RealmConversations};
use crate::db::StoreError;
use crate::sql::storable;

/// The fields to change. `None` leaves a field unchanged.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ConversationPatch {
    /// The title.
    pub title: Option<String>,
    /// The status.
    pub status: Option<ConversationStatus>,
    /// The new shared context. It replaces the whole old context.
    pub shared_context: Option<Value>,
}

/// The reason why a conversation cannot be changed.
#[derive(Debug, thiserror::Error)]
pub enum UpdateError {
    /// The conversation does not exist.
    #[error("the conversation does not exist")]
    NotFound,
    /// The shared context is nested so deeply that the JSON parser could not read it back.
    #[error("the shared context is nested too deeply")]
    TooDeep,
    /// The database failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl RealmConversations<'_> {
    /// Changes the fields that are set in the patch.
    pub async fn update(
        &self,
        conversation: ConversationId,
        patch: ConversationPatch,
    ) -> Result<Conversation, UpdateError> {
        let shared_context = patch.shared_context.as_ref().map(Value::to_string);
        if shared_context.as_deref().is_some_and(|text| serde_json::from_str::<Value>(text).is_err()) {
            return Err(UpdateError::TooDeep);
        }
        let mut tx = self.store.db.begin().await?;
        let row: Option<ConversationRow> = within!(tx, |conn| {
            sqlx::query_as(concat!(
                "UPDATE conversations SET title = COALESCE($1, title), status = COALESCE($2, status),
                        shared_context = COALESCE($3, shared_context),
                        updated_at = CASE WHEN updated_at < $4 THEN $4 ELSE updated_at END
                 WHERE realm_id = $5 AND id = $6 RETURNING ",
                conversation_columns!()
            ))
            .bind(patch.title.as_deref().map(storable))
            .bind(patch.status.map(ConversationStatus::as_str))
            .bind(shared_context)
            .bind(self.store.now().as_micros())
            .bind(self.realm.to_string())
            .bind(conversation.to_string())
            .fetch_optional(conn)
        })?;
        let changed = row.ok_or(UpdateError::NotFound)?.try_into()?;
        tx.commit_unannounced().await?;
        Ok(changed)
    }

    /// Deletes a conversation and its turns. The runs of the conversation are kept, without a conversation. Returns
    /// `false` if the conversation does not exist.
    pub async fn delete(&self, conversation: ConversationId) -> Result<bool, StoreError> {
        let mut tx = self.store.db.begin().await?;
        let deleted = execute!(
            tx,
            sqlx::query("DELETE FROM conversations WHERE realm_id = $1 AND id = $2")
                .bind(self.realm.to_string())
                .bind(conversation.to_string())
        )?;
        tx.commit_unannounced().await?;
        Ok(deleted > 0)
    }
}
