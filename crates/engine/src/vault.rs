//! Secrets as the rest of the server sees them: set, listed, removed, and opened for one call.

use futures::future::BoxFuture;
use secrecy::SecretString;
use toolwright_authz::{Action, Resource};
use toolwright_store::{PutError, SecretInfo, SecretScope, Store};
use toolwright_tools::ports::{self, SecretIdentity};
use toolwright_types::{InvalidId, Principal, RealmScope, RefName, ToolError, ToolProviderConfig};

use crate::Unavailable;
use crate::access::{Access, Denied, Session};
use crate::logins::{LoginError, Logins};

/// Values larger than this are files, not secrets.
const LARGEST: usize = 64 * 1024;

/// Keeps secrets. Cheap to clone.
#[derive(Clone)]
pub struct Vault {
    store: Store,
    access: Access,
}

/// What is shown of a secret.
pub type SecretView = SecretInfo;

/// Why a secret could not be kept or removed.
#[derive(Debug, thiserror::Error)]
pub enum VaultError {
    /// Not permitted.
    #[error(transparent)]
    Denied(#[from] Denied),
    /// There is none of this name in this scope.
    #[error("there is no secret `{name}` in scope `{scope}`")]
    NotFound {
        /// The name.
        name: RefName,
        /// The scope.
        scope: &'static str,
    },
    /// Empty or too large.
    #[error("a secret's value has 1 to {LARGEST} bytes")]
    Size,
    /// The owner is unknown here.
    #[error("{0}")]
    Owner(String),
    /// The database failed.
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
}

impl Vault {
    pub(crate) fn new(store: Store, access: Access) -> Self {
        Self { store, access }
    }

    /// Gives the secret `name` of `scope` a value.
    pub async fn put(
        &self,
        session: &Session,
        scope: SecretScope,
        name: &RefName,
        value: SecretString,
    ) -> Result<SecretView, VaultError> {
        use secrecy::ExposeSecret;
        self.require(session, scope, name)?;
        if !(1..=LARGEST).contains(&value.expose_secret().len()) {
            return Err(VaultError::Size);
        }
        let by = session.principal.name.as_str();
        self.store.secrets(&session.realm).put(scope, name, value, by).await.map_err(|error| match error {
            PutError::UnknownOwner(_) => VaultError::Owner(error.to_string()),
            other => VaultError::Unavailable(Unavailable::new("the secret could not be stored")(Box::new(other))),
        })
    }

    /// The secrets that apply to the session, without their values.
    pub async fn list(&self, session: &Session) -> Result<Vec<SecretView>, VaultError> {
        self.access.require(session, Action::Read, Resource::Realm)?;
        let all = self.store.secrets(&session.realm).list(session.principal.id).await.map_err(Unavailable::from)?;
        Ok(all)
    }

    /// Removes the secret `name` of `scope`.
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

fn unavailable(source: impl std::error::Error + Send + Sync + 'static) -> ports::Unavailable {
    ports::Unavailable { port: "the secret store", source: Box::new(source) }
}

/// The vault as the executor sees it.
pub(crate) struct VaultPort {
    pub store: Store,
    pub logins: Logins,
}

impl ports::Secrets for VaultPort {
    fn identify<'a>(
        &'a self,
        realm: &'a RealmScope,
        principal: &'a Principal,
        name: &'a str,
    ) -> BoxFuture<'a, Result<Option<SecretIdentity>, ports::Unavailable>> {
        Box::pin(async move {
            // A reference that cannot be a name finds nothing, as any other that is not there.
            let Ok(name) = name.parse::<RefName>() else {
                return Ok(None);
            };
            let found = self.store.secrets(realm).lookup(&name, principal.id).await.map_err(unavailable)?;
            Ok(found.map(|identity| SecretIdentity {
                id: opaque_id(&identity),
                scope: identity.scope.as_str(),
                revision: identity.revision,
            }))
        })
    }

    fn reveal<'a>(
        &'a self,
        realm: &'a RealmScope,
        identity: &'a SecretIdentity,
    ) -> BoxFuture<'a, Result<SecretString, ports::Unavailable>> {
        Box::pin(async move {
            let stored = stored_identity(identity).map_err(unavailable)?;
            self.store.secrets(realm).unseal(&stored).await.map_err(unavailable)
        })
    }

    fn token<'a>(
        &'a self,
        realm: &'a RealmScope,
        identity: &'a SecretIdentity,
        provider: &'a ToolProviderConfig,
    ) -> BoxFuture<'a, Result<Result<SecretString, ToolError>, ports::Unavailable>> {
        Box::pin(async move {
            let stored = stored_identity(identity).map_err(unavailable)?;
            match self.logins.token(realm, &stored, provider).await {
                Ok(token) => Ok(Ok(token)),
                Err(LoginError::Told(error)) => Ok(Err(error)),
                Err(error) => Err(unavailable(error)),
            }
        })
    }

    fn refused<'a>(
        &'a self,
        realm: &'a RealmScope,
        identity: &'a SecretIdentity,
    ) -> BoxFuture<'a, Result<(), ports::Unavailable>> {
        Box::pin(async move {
            let stored = stored_identity(identity).map_err(unavailable)?;
            self.logins.refused(realm, &stored).await.map_err(unavailable)
        })
    }
}

/// The executor carries an identity without looking into it; a user's secret is found again by its owner.
fn opaque_id(identity: &toolwright_store::SecretIdentity) -> String {
    match identity.scope {
        SecretScope::User(owner) => format!("{}/{owner}", identity.id),
        SecretScope::Realm | SecretScope::Org => identity.id.to_string(),
    }
}

fn stored_identity(identity: &SecretIdentity) -> Result<toolwright_store::SecretIdentity, InvalidId> {
    let (id, scope) = match identity.id.split_once('/') {
        Some((id, owner)) => (id, SecretScope::User(owner.parse()?)),
        None if identity.scope == SecretScope::Realm.as_str() => (identity.id.as_str(), SecretScope::Realm),
        None => (identity.id.as_str(), SecretScope::Org),
    };
    Ok(toolwright_store::SecretIdentity { id: id.parse()?, scope, revision: identity.revision })
}
