//! Conversations as their owners see them: listed, read, renamed, deleted.

use toolwright_authz::{Action, Resource};
use toolwright_store::Store;
pub use toolwright_store::{
    Conversation, ConversationCursor, ConversationPatch, ConversationQuery, ConversationStatus, Page, Turn,
};
use toolwright_types::{ConversationId, PrincipalId};

use crate::Unavailable;
use crate::access::{Access, Session};
use crate::runs::Runs;

/// Keeps conversations. Cheap to clone.
#[derive(Clone)]
pub struct Conversations {
    store: Store,
    access: Access,
    runs: Runs,
}

/// Why a conversation could not be read or changed.
#[derive(Debug, thiserror::Error)]
pub enum ConversationError {
    /// There is none of this id, or not for this principal.
    #[error("there is no conversation `{0}`")]
    Unknown(String),
    /// A run of it has not ended.
    #[error("run `{0}` of this conversation has not ended; wait for it or cancel it")]
    Busy(toolwright_types::RunId),
    /// What it is to be changed to makes no sense.
    #[error("{0}")]
    Invalid(String),
    /// Not permitted.
    #[error(transparent)]
    Denied(#[from] crate::Denied),
    /// The database failed.
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
}

impl From<toolwright_store::Unavailable> for ConversationError {
    fn from(error: toolwright_store::Unavailable) -> Self {
        ConversationError::Unavailable(error.into())
    }
}

impl Conversations {
    pub(crate) fn new(store: Store, access: Access, runs: Runs) -> Self {
        Self { store, access, runs }
    }

    /// A page of conversations: the session's own; `all` asks for everyone's.
    pub async fn list(
        &self,
        session: &Session,
        all: bool,
        query: ConversationQuery,
    ) -> Result<Page<Conversation, ConversationCursor>, ConversationError> {
        let query = self.permitted_query(session, all, query)?;
        Ok(self.store.conversations(&session.realm).list(&query).await?)
    }

    /// How many conversations there are: the session's own, or everyone's.
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
            // Nobody's conversation is like anybody's: whoever may read it may read all.
            let anybody = Resource::Conversation { owner: PrincipalId::from_bits(0) };
            self.access.require(session, Action::Read, anybody)?;
        } else {
            query.owner = Some(session.principal.id);
        }
        Ok(query)
    }

    /// A conversation and a part of its turns.
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

    /// Renames a conversation, or puts it away.
    pub async fn update(
        &self,
        session: &Session,
        id: ConversationId,
        patch: ConversationPatch,
    ) -> Result<Conversation, ConversationError> {
        self.permitted(session, id, Action::Write).await?;
        let updated = self.store.conversations(&session.realm).update(id, patch).await;
        updated.map_err(|error| match error {
            toolwright_store::UpdateError::Unavailable(inner) => inner.into(),
            other => ConversationError::Invalid(other.to_string()),
        })
    }

    /// Deletes a conversation with all its turns.
    pub async fn delete(&self, session: &Session, id: ConversationId) -> Result<(), ConversationError> {
        self.permitted(session, id, Action::Write).await?;
        if let Some((run, _)) = self.runs.unfinished_of(&session.realm, id).await? {
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
