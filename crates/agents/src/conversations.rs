//! Lists, reads, updates and deletes conversations.

use toolwright_authz::{Action, Resource};
use toolwright_store::Store;
pub use toolwright_store::{
    Conversation, ConversationCursor, ConversationPatch, ConversationQuery, ConversationStatus, Page, Turn,
};
use toolwright_types::{ConversationId, PrincipalId};

use toolwright_catalog::Unavailable;
use toolwright_catalog::{Access, Session};
use toolwright_runs::Runs;

/// Manages stored conversations. Cheap to clone.
#[derive(Clone)]
pub struct Conversations {
    store: Store,
    access: Access,
    runs: Runs,
}

/// Why a conversation could not be read or changed.
#[derive(Debug, thiserror::Error)]
pub enum ConversationError {
    /// The conversation does not exist, or the principal may not see it.
    #[error("there is no conversation `{0}`")]
    Unknown(String),
    /// A run of the conversation has not ended.
    #[error("run `{0}` of this conversation has not ended; wait for it or cancel it")]
    Busy(toolwright_types::RunId),
    /// The change is invalid.
    #[error("{0}")]
    Invalid(String),
    /// The principal lacks permission.
    #[error(transparent)]
    Denied(#[from] toolwright_catalog::Denied),
    /// The database failed.
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
}

impl From<toolwright_store::StoreError> for ConversationError {
    fn from(error: toolwright_store::StoreError) -> Self {
        ConversationError::Unavailable(error.into())
    }
}

impl Conversations {
    /// Creates the service.
    pub fn new(store: Store, access: Access, runs: Runs) -> Self {
        Self { store, access, runs }
    }

    /// Returns a page of the principal's conversations. With `all`, returns the conversations of all principals.
    pub async fn list(
        &self,
        session: &Session,
        all: bool,
        query: ConversationQuery,
    ) -> Result<Page<Conversation, ConversationCursor>, ConversationError> {
        let query = self.permitted_query(session, all, query)?;
        Ok(self.store.conversations(&session.realm).list(&query).await?)
    }

    /// Counts the principal's conversations. With `all`, counts the conversations of all principals.
    pub async fn count(
        &self,
        session: &Session,
        all: bool,
        query: ConversationQuery,
    ) -> Result<u64, ConversationError> {
        let query = self.permitted_query(session, all, query)?;
        Ok(self.store.conversations(&session.realm).count(&query).await?)
    }

    fn permitted_query(
        &self,
        session: &Session,
        all: bool,
        mut query: ConversationQuery,
    ) -> Result<ConversationQuery, ConversationError> {
        if all {
            // No principal has the id 0. A session that may read the conversations of this owner may read all
            // conversations.
            let unowned = Resource::Conversation { owner: PrincipalId::from_bits(0) };
            self.access.require(session, Action::Read, unowned)?;
        } else {
            query.owner = Some(session.principal.id);
        }
        Ok(query)
    }

    /// Returns a conversation and at most `limit` of its turns, beginning with turn `from`.
    pub async fn get(
        &self,
        session: &Session,
        id: ConversationId,
        from: u32,
        limit: u32,
    ) -> Result<(Conversation, Vec<Turn>), ConversationError> {
        let conversation = self.permitted(session, id, Action::Read).await?;
        let turns = self.store.conversations(&session.realm).turns(id, from, limit).await?;
        Ok((conversation, turns))
    }

    /// Changes the title or the status of a conversation.
    pub async fn update(
        &self,
        session: &Session,
        id: ConversationId,
        patch: ConversationPatch,
    ) -> Result<Conversation, ConversationError> {
        self.permitted(session, id, Action::Write).await?;
        let updated = self.store.conversations(&session.realm).update(id, patch).await;
        updated.map_err(|error| match error {
            toolwright_store::UpdateError::Store(inner) => inner.into(),
            other => ConversationError::Invalid(other.to_string()),
        })
    }

    /// Deletes a conversation with all its turns.
    pub async fn delete(&self, session: &Session, id: ConversationId) -> Result<(), ConversationError> {
        self.permitted(session, id, Action::Write).await?;
        if let Some((run, _)) = self.runs.open_run_of(&session.realm, id).await? {
            return Err(ConversationError::Busy(run));
        }
        let deleted = self.store.conversations(&session.realm).delete(id).await?;
        if deleted { Ok(()) } else { Err(ConversationError::Unknown(id.to_string())) }
    }

    async fn permitted(
        &self,
        session: &Session,
        id: ConversationId,
        action: Action,
    ) -> Result<Conversation, ConversationError> {
        let unknown = || ConversationError::Unknown(id.to_string());
        let found = self.store.conversations(&session.realm).get(id).await?.ok_or_else(unknown)?;
        let resource = Resource::Conversation { owner: found.owner };
        if self.access.require(session, Action::Read, resource).is_err() {
            return Err(unknown());
        }
        self.access.require(session, action, resource)?;
        Ok(found)
    }
}
