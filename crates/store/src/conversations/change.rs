//! What people do to a conversation besides talking.

use serde_json::Value;
use toolwright_types::ConversationId;

use super::rows::{ConversationRow, conversation_columns};
use super::{Conversation, ConversationStatus, Conversations};
use crate::db::Unavailable;
use crate::sql::storable;

/// What is to be different; what is absent stays.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ConversationPatch {
    /// What it is called.
    pub title: Option<String>,
    /// Where it stands.
    pub status: Option<ConversationStatus>,
    /// What its runs share, as a whole.
    pub shared_context: Option<Value>,
}

/// Why a conversation cannot be changed.
#[derive(Debug, thiserror::Error)]
pub enum UpdateError {
    /// There is no such conversation.
    #[error("the conversation does not exist")]
    NotFound,
    /// The shared context could be written but not read.
    #[error("the shared context is nested too deep")]
    TooDeep,
    /// The database failed.
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
}

impl Conversations<'_> {
    /// Changes what the patch names.
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

    /// Forgets a conversation with all that was said. Its runs stay, and are part of none. False when there is none.
    pub async fn delete(&self, conversation: ConversationId) -> Result<bool, Unavailable> {
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
