//! Sets, lists and removes secrets, and opens them for calls.

use futures::future::BoxFuture;
use secrecy::SecretString;
use toolwright_authz::{Action, Resource};
use toolwright_store::{PutError, SecretInfo, SecretScope, Store};
use toolwright_tools::ports::{self, SecretRevision};
use toolwright_types::{InvalidId, Principal, RealmScope, RefName, ToolError, ToolProviderConfig};

use crate::logins::{Logins, TokenError};
use toolwright_catalog::Unavailable;
use toolwright_catalog::{Access, Denied, Session};

/// The maximum size of a secret in bytes.
const MAX_SECRET_BYTES: usize = 64 * 1024;

/// Manages secrets. Cheap to clone.
#[derive(Clone)]
pub struct Vault {
    store: Store,
    access: Access,
}

/// The reason why a secret could not be set, listed or removed.
#[derive(Debug, thiserror::Error)]
pub enum VaultError {
    /// The session lacks the permission.
    #[error(transparent)]
    Denied(#[from] Denied),
    /// The secret does not exist in this scope.
    #[error("there is no secret `{name}` in scope `{scope}`")]
    NotFound {
        /// The name of the secret.
        name: RefName,
        /// The name of the scope.
        scope: &'static str,
    },
    /// The value is empty or too large.
    #[error("the value of a secret must have 1 to {MAX_SECRET_BYTES} bytes")]
    Size,
    /// The user who would own the secret does not exist in this realm.
    #[error("{0}")]
    Owner(String),
    /// The principal has the maximum number of secrets.
    #[error("{0}; delete an unused secret first")]
    TooMany(PutError),
    /// The database failed.
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
}

impl Vault {
    pub(crate) fn new(store: Store, access: Access) -> Self {
        Self { store, access }
    }

    /// Sets the value of the secret `name` in `scope`.
    pub async fn put(
        &self,
        session: &Session,
        scope: SecretScope,
        name: &RefName,
        value: SecretString,
    ) -> Result<SecretInfo, VaultError> {
        use secrecy::ExposeSecret;
        self.require(session, scope, name)?;
        if !(1..=MAX_SECRET_BYTES).contains(&value.expose_secret().len()) {
            return Err(VaultError::Size);
        }
        let by = session.principal.name.as_str();
        self.store.secrets(&session.realm).put(scope, name, value, by).await.map_err(|error| match error {
            PutError::UnknownOwner(_) => VaultError::Owner(error.to_string()),
            PutError::TooMany(_) => VaultError::TooMany(error),
            other => VaultError::Unavailable(Unavailable::new("the secret could not be stored", other)),
        })
    }

    /// Returns the secrets that the session can use, without their values.
    pub async fn list(&self, session: &Session) -> Result<Vec<SecretInfo>, VaultError> {
        self.access.require(session, Action::Read, Resource::Realm)?;
        let all = self.store.secrets(&session.realm).list(session.principal.id).await.map_err(Unavailable::from)?;
        Ok(all)
    }

    /// Returns who owns the secret that the session would use: `user`, `realm` or `org`. Returns `None` if there is no
    /// such secret.
    pub(crate) async fn scope_of(&self, session: &Session, name: &str) -> Result<Option<&'static str>, Unavailable> {
        // The name is not valid, so no secret has this name.
        let Ok(name) = name.parse::<RefName>() else { return Ok(None) };
        let found = self.store.secrets(&session.realm).lookup(&name, session.principal.id).await?;
        Ok(found.map(|identity| identity.scope.as_str()))
    }

    /// Removes the secret `name` from `scope`.
    pub async fn remove(&self, session: &Session, scope: SecretScope, name: &RefName) -> Result<(), VaultError> {
        self.require(session, scope, name)?;
        let removed = self.store.secrets(&session.realm).remove(scope, name).await.map_err(Unavailable::from)?;
        if removed { Ok(()) } else { Err(VaultError::NotFound { name: name.clone(), scope: scope.as_str() }) }
    }

    fn require(&self, session: &Session, scope: SecretScope, name: &RefName) -> Result<(), Denied> {
        let owner = match scope {
            SecretScope::User(owner) => Some(owner),
            SecretScope::Realm | SecretScope::Org => None,
        };
        self.access.require(session, Action::Write, Resource::Secret { name: name.as_str(), owner })
    }
}

fn unavailable(source: impl std::error::Error + Send + Sync + 'static) -> ports::PortError {
    ports::PortError { port: "the secret store", source: Box::new(source) }
}

/// Resolves secrets for the executor. Implements the port `SecretResolver` of the executor.
pub(crate) struct VaultPort {
    pub store: Store,
    pub logins: Logins,
}

impl ports::SecretResolver for VaultPort {
    fn identify<'a>(
        &'a self,
        realm: &'a RealmScope,
        principal: &'a Principal,
        name: &'a str,
    ) -> BoxFuture<'a, Result<Option<SecretRevision>, ports::PortError>> {
        Box::pin(async move {
            // The name is not valid, so no secret has this name.
            let Ok(name) = name.parse::<RefName>() else {
                return Ok(None);
            };
            let found = self.store.secrets(realm).lookup(&name, principal.id).await.map_err(unavailable)?;
            Ok(found.map(|identity| SecretRevision {
                id: opaque_id(&identity),
                scope: identity.scope.as_str(),
                revision: identity.revision,
            }))
        })
    }

    fn reveal<'a>(
        &'a self,
        realm: &'a RealmScope,
        identity: &'a SecretRevision,
    ) -> BoxFuture<'a, Result<SecretString, ports::PortError>> {
        Box::pin(async move {
            let stored = stored_identity(identity).map_err(unavailable)?;
            self.store.secrets(realm).unseal(&stored).await.map_err(unavailable)
        })
    }

    fn token<'a>(
        &'a self,
        realm: &'a RealmScope,
        identity: &'a SecretRevision,
        provider: &'a ToolProviderConfig,
    ) -> BoxFuture<'a, Result<Result<SecretString, ToolError>, ports::PortError>> {
        Box::pin(async move {
            let stored = stored_identity(identity).map_err(unavailable)?;
            match self.logins.token(realm, &stored, provider).await {
                Ok(token) => Ok(Ok(token)),
                Err(TokenError::Rejected(error)) => Ok(Err(error)),
                Err(error) => Err(unavailable(error)),
            }
        })
    }

    fn token_rejected<'a>(
        &'a self,
        realm: &'a RealmScope,
        identity: &'a SecretRevision,
    ) -> BoxFuture<'a, Result<(), ports::PortError>> {
        Box::pin(async move {
            let stored = stored_identity(identity).map_err(unavailable)?;
            self.logins.mark_rejected(realm, &stored).await.map_err(unavailable)
        })
    }
}

/// Encodes the identity of a secret as text for the executor. For a user's secret, the text contains the owner.
/// [`stored_identity`] decodes the text.
fn opaque_id(identity: &toolwright_store::SecretIdentity) -> String {
    match identity.scope {
        SecretScope::User(owner) => format!("{}/{owner}", identity.id),
        SecretScope::Realm | SecretScope::Org => identity.id.to_string(),
    }
}

fn stored_identity(identity: &SecretRevision) -> Result<toolwright_store::SecretIdentity, InvalidId> {
    let (id, scope) = match identity.id.split_once('/') {
        Some((id, owner)) => (id, SecretScope::User(owner.parse()?)),
        None if identity.scope == SecretScope::Realm.as_str() => (identity.id.as_str(), SecretScope::Realm),
        None => (identity.id.as_str(), SecretScope::Org),
    };
    Ok(toolwright_store::SecretIdentity { id: id.parse()?, scope, revision: identity.revision })
}
