//! Authenticates API keys, manages keys and realms, and creates the first administrator.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use quick_cache::sync::Cache;
use secrecy::{ExposeSecret, SecretString};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;
use tokio::sync::watch;
use toolwright_authz::{Action, Resource};
pub use toolwright_store::{ApiKey, PrincipalQuery, PrincipalSummary};
use toolwright_store::{CreateKeyError, EnsureError, NewApiKey, Page, Store};
use toolwright_types::{
    Clock, KeyId, OrgId, Principal, PrincipalName, RealmId, RealmName, RealmScope, Role, ScopeName, SystemClock,
    Timestamp,
};

use crate::Unavailable;
use crate::access::{Access, Denied, Session};
pub use crate::browser_login::{BrowserLogin, SESSION_LIFETIME};
use crate::browser_login::{Credential, LoginLink};
pub use crate::key_watch::KeyWatch;

/// How long a key is cached. A key that was revoked on another server works for at most this long.
const KEY_CACHE_TTL: Duration = Duration::from_secs(10);

/// Authenticates callers and manages keys and realms. Cheap to clone.
#[derive(Clone)]
pub struct Identity(pub(crate) Arc<Inner>);

pub(crate) struct Inner {
    pub(crate) store: Store,
    access: Access,
    pub(crate) admin: Arc<Principal>,
    /// The hash of the administrator's key from the environment. The database does not contain it.
    pub(crate) admin_key: Option<[u8; 32]>,
    /// The principals by the hash of their API key or browser session.
    pub(crate) principals: Cache<[u8; 32], CachedKey>,
    /// Notifies the open streams of this server when a key is revoked or a browser logs out.
    pub(crate) revocations: watch::Sender<()>,
    /// The link that was printed at the start and not used yet.
    pub(crate) login_link: Mutex<Option<LoginLink>>,
    /// The realms by id. Entries never become stale, because realms are neither changed nor deleted.
    realms: Cache<RealmId, Arc<RealmScope>>,
}

/// A key or browser session that was found in the database.
#[derive(Clone)]
pub(crate) struct CachedKey {
    pub(crate) found_at: Instant,
    pub(crate) expires_at: Option<Timestamp>,
    pub(crate) principal: Arc<Principal>,
}

impl CachedKey {
    pub(crate) fn is_valid(&self) -> bool {
        self.found_at.elapsed() < KEY_CACHE_TTL && self.expires_at.is_none_or(|end| end > SystemClock.now())
    }
}

/// The reason why a caller was not authenticated.
#[derive(Debug, thiserror::Error)]
pub enum AuthenticationError {
    /// The key is missing, unknown, expired or revoked.
    #[error("the API key is unknown, expired or revoked")]
    UnknownKey,
    /// The realm does not exist, or the principal may not enter it.
    #[error("realm `{0}` does not exist, or you have no access to it")]
    Realm(String),
    /// The database failed.
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
}

/// The reason why a key or realm could not be managed.
#[derive(Debug, thiserror::Error)]
pub enum ManageError {
    /// The principal lacks the permission.
    #[error(transparent)]
    Denied(#[from] Denied),
    /// The key does not exist.
    #[error("key `{0}` does not exist")]
    UnknownKey(KeyId),
    /// The realm does not exist.
    #[error("realm `{0}` does not exist")]
    UnknownRealm(RealmName),
    /// A realm with this name exists.
    #[error("realm `{0}` already exists")]
    DuplicateRealm(RealmName),
    /// The principal exists, with other roles or another home realm than requested.
    #[error(
        "principal `{0}` exists with other roles or another home realm; omit `roles` and `realm` to issue another key for it"
    )]
    OtherPrincipal(PrincipalName),
    /// The label is not valid.
    #[error("{0}")]
    Label(String),
    /// The database failed.
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
}

/// A request for a new key.
#[derive(Debug, Clone)]
pub struct KeyRequest {
    /// A label that describes the purpose of the key.
    pub label: String,
    /// The principal that the key authenticates. `None` means the caller. The principal is created if it does not
    /// exist.
    pub principal: Option<PrincipalName>,
    /// The roles of a new principal. `None` means `member`.
    pub roles: Option<Vec<Role>>,
    /// The home realm of a new principal. `None` means the realm of the session.
    pub realm: Option<RealmName>,
    /// The time after which the key is rejected.
    pub expires_at: Option<Timestamp>,
}

/// A new key. Its text is not stored and cannot be read again.
pub struct IssuedKey {
    /// The stored part of the key.
    pub key: ApiKey,
    /// The name of the principal that the key authenticates.
    pub owner: PrincipalName,
    /// The text that a client sends.
    pub text: SecretString,
}

impl Identity {
    /// Creates the default org, realm and administrator if they do not exist.
    pub async fn bootstrap(store: Store, access: Access, admin_key: Option<SecretString>) -> Result<Self, Unavailable> {
        let default = default_name("default")?;
        let tenancy = store.tenancy();
        let org = tenancy.ensure_org(&default).await?;
        let failed = |error: EnsureError| Unavailable::new("the default realm could not be set up", error);
        let realm = tenancy.ensure_realm(org, &default).await.map_err(failed)?;
        let admin = tenancy
            .ensure_principal(org, &default_name("admin")?, realm.realm, &[Role::Admin])
            .await
            .map_err(failed)?;
        Ok(Self(Arc::new(Inner {
            admin: Arc::new(admin),
            access,
            admin_key: admin_key.map(|key| hash(key.expose_secret())),
            principals: Cache::new(10_000),
            revocations: watch::Sender::new(()),
            login_link: Mutex::new(None),
            realms: Cache::new(10_000),
            store,
        })))
    }

    /// Whether at least one valid key exists, with which a client can authenticate.
    pub async fn has_key(&self) -> Result<bool, Unavailable> {
        let now = SystemClock.now();
        let is_valid = |key: &ApiKey| key.revoked_at.is_none() && key.expires_at.is_none_or(|end| end > now);
        let keys = self.0.store.tenancy().keys(self.0.admin.org).await?;
        Ok(self.0.admin_key.is_some() || keys.iter().any(|(key, _)| is_valid(key)))
    }

    /// Issues the first key of the administrator.
    pub async fn issue_first_key(&self) -> Result<SecretString, Unavailable> {
        Ok(self.issue(&self.0.admin, "bootstrap", None, "bootstrap").await?.text)
    }

    /// Authenticates a key and returns a session in the given realm, or in the home realm of the principal.
    pub async fn authenticate(&self, key: &str, realm: Option<&str>) -> Result<Session, AuthenticationError> {
        self.session_of(&Credential::Key(hash(key)), realm).await
    }

    /// Returns a session of the principal of a credential.
    pub(crate) async fn session_of(
        &self,
        credential: &Credential,
        realm: Option<&str>,
    ) -> Result<Session, AuthenticationError> {
        let principal = self.principal_of(credential).await?.ok_or(AuthenticationError::UnknownKey)?;
        let realm = match realm {
            None => self.home_realm(&principal).await?,
            Some(name) => self.enter_realm(&principal, name).await?,
        };
        Ok(Session::new(principal, realm))
    }

    /// Creates a key, and its principal if it does not exist.
    pub async fn create_key(&self, session: &Session, request: KeyRequest) -> Result<IssuedKey, ManageError> {
        self.0.access.require(session, Action::Write, Resource::Keys)?;
        let owner = match &request.principal {
            None => (*session.principal).clone(),
            Some(name) => self.ensure_principal(session, name, &request).await?,
        };
        if request.label.contains('\0') || request.label.chars().count() > 128 {
            let message = "label must have at most 128 characters and must not contain U+0000";
            return Err(ManageError::Label(message.into()));
        }
        let by = session.principal.name.as_str();
        Ok(self.issue(&owner, &request.label, request.expires_at, by).await?)
    }

    /// Returns all keys of the org, each with the name of the principal that it authenticates.
    pub async fn keys(&self, session: &Session) -> Result<Vec<(ApiKey, PrincipalName)>, ManageError> {
        self.0.access.require(session, Action::Read, Resource::Keys)?;
        Ok(self.0.store.tenancy().keys(session.principal.org).await.map_err(Unavailable::from)?)
    }

    /// Returns a page of the principals of the org, sorted by name. The cursor is the name of the last principal.
    pub async fn principals(
        &self,
        session: &Session,
        query: &PrincipalQuery,
    ) -> Result<Page<PrincipalSummary, PrincipalName>, ManageError> {
        self.0.access.require(session, Action::Read, Resource::Keys)?;
        let tenancy = self.0.store.tenancy();
        Ok(tenancy.principals(session.principal.org, query).await.map_err(Unavailable::from)?)
    }

    /// Whether the session may administrate the org.
    pub fn is_administrator(&self, session: &Session) -> bool {
        self.0.access.require(session, Action::Write, Resource::Realms).is_ok()
    }

    /// Revokes a key. This server rejects the key and ends its streams at once. Other servers do so within seconds.
    pub async fn revoke_key(&self, session: &Session, key: KeyId) -> Result<(), ManageError> {
        self.0.access.require(session, Action::Write, Resource::Keys)?;
        let revoked = self.0.store.tenancy().revoke_key(session.principal.org, key).await.map_err(Unavailable::from)?;
        self.0.principals.clear();
        self.0.revocations.send_replace(());
        if revoked { Ok(()) } else { Err(ManageError::UnknownKey(key)) }
    }

    /// Returns the realms of the org.
    pub async fn realms(&self, session: &Session) -> Result<Vec<RealmScope>, ManageError> {
        self.0.access.require(session, Action::Read, Resource::Realms)?;
        Ok(self.0.store.tenancy().realms(session.principal.org).await.map_err(Unavailable::from)?)
    }

    /// Creates a realm.
    pub async fn create_realm(&self, session: &Session, name: &RealmName) -> Result<RealmScope, ManageError> {
        self.0.access.require(session, Action::Write, Resource::Realms)?;
        let tenancy = self.0.store.tenancy();
        match tenancy.create_realm(session.principal.org, name).await.map_err(write_failed)? {
            (realm, true) => Ok(realm),
            (_, false) => Err(ManageError::DuplicateRealm(name.clone())),
        }
    }

    /// Returns the org of the first administrator.
    pub fn home_org(&self) -> OrgId {
        self.0.admin.org
    }

    /// Returns a session of the first administrator in its home realm, for work that the server does at startup.
    pub async fn admin_session(&self) -> Result<Session, Unavailable> {
        let principal = Arc::clone(&self.0.admin);
        let realm = self.home_realm(&principal).await?;
        Ok(Session::new(principal, realm))
    }

    /// Returns all realms of the first administrator's org, for work that the server does at startup.
    pub async fn all_realms(&self) -> Result<Vec<RealmScope>, Unavailable> {
        Ok(self.0.store.tenancy().realms(self.0.admin.org).await?)
    }

    /// Watches the key of a request whose response takes long, so that the response can end when the key is rejected.
    pub fn watch_key(&self, key: &str) -> KeyWatch {
        KeyWatch::new(self.clone(), Credential::Key(hash(key)), self.0.revocations.subscribe())
    }

    /// Returns the principal of a credential, unless it is unknown, revoked or expired.
    pub(crate) async fn principal_of(&self, credential: &Credential) -> Result<Option<Arc<Principal>>, Unavailable> {
        match credential {
            Credential::Key(hash) => self.principal_of_key(*hash).await,
            Credential::BrowserSession(hashes) => self.principal_of_browser_session(hashes).await,
        }
    }

    async fn principal_of_key(&self, hash: [u8; 32]) -> Result<Option<Arc<Principal>>, Unavailable> {
        if self.0.admin_key.is_some_and(|admin| bool::from(admin.ct_eq(&hash))) {
            return Ok(Some(Arc::clone(&self.0.admin)));
        }
        if let Some(cached) = self.0.principals.get(&hash).filter(CachedKey::is_valid) {
            return Ok(Some(cached.principal));
        }
        let found_at = Instant::now();
        let Some((key, principal)) = self.0.store.tenancy().find_key(&hash).await? else { return Ok(None) };
        let principal = Arc::new(principal);
        let cached = CachedKey { found_at, expires_at: key.expires_at, principal: Arc::clone(&principal) };
        self.0.principals.insert(hash, cached);
        Ok(Some(principal))
    }

    async fn home_realm(&self, principal: &Principal) -> Result<Arc<RealmScope>, Unavailable> {
        if let Some(realm) = self.0.realms.get(&principal.home) {
            return Ok(realm);
        }
        let found = self.0.store.tenancy().realm_by_id(principal.home).await?;
        let missing = || Unavailable::new("the home realm of the principal does not exist", "no row");
        let realm = Arc::new(found.ok_or_else(missing)?);
        self.0.realms.insert(principal.home, Arc::clone(&realm));
        Ok(realm)
    }

    /// Returns a session of the same principal in another realm. Fails if the principal may not enter that realm.
    pub async fn switch_realm(&self, session: &Session, realm: &str) -> Result<Session, AuthenticationError> {
        let realm = self.enter_realm(&session.principal, realm).await?;
        Ok(Session::new(Arc::clone(&session.principal), realm))
    }

    /// Returns a realm that the principal may enter. The error is the same for a missing realm and a missing
    /// permission, so that it does not reveal which realms exist.
    pub async fn enter_realm(
        &self,
        principal: &Arc<Principal>,
        name: &str,
    ) -> Result<Arc<RealmScope>, AuthenticationError> {
        let denied = || AuthenticationError::Realm(name.to_owned());
        let parsed: RealmName = name.parse().map_err(|_| denied())?;
        let found = self.0.store.tenancy().realm(principal.org, &parsed).await.map_err(Unavailable::from)?;
        let session = Session::new(Arc::clone(principal), Arc::new(found.ok_or_else(denied)?));
        self.0.access.require(&session, Action::Read, Resource::Realm).map_err(|_| denied())?;
        Ok(session.realm)
    }

    async fn ensure_principal(
        &self,
        session: &Session,
        name: &PrincipalName,
        request: &KeyRequest,
    ) -> Result<Principal, ManageError> {
        let tenancy = self.0.store.tenancy();
        let org = session.principal.org;
        let home = match &request.realm {
            None => session.realm.realm,
            Some(name) => {
                let found = tenancy.realm(org, name).await.map_err(Unavailable::from)?;
                found.ok_or_else(|| ManageError::UnknownRealm(name.clone()))?.realm
            }
        };
        let roles = request.roles.clone().unwrap_or_else(|| vec![Role::Member]);
        let principal = tenancy.ensure_principal(org, name, home, &roles).await.map_err(write_failed)?;
        let same_roles = request.roles.is_none() || as_set(&principal.roles) == as_set(&roles);
        let same_home = request.realm.is_none() || principal.home == home;
        if same_roles && same_home { Ok(principal) } else { Err(ManageError::OtherPrincipal(name.clone())) }
    }

    pub(crate) async fn issue(
        &self,
        owner: &Principal,
        label: &str,
        expires_at: Option<Timestamp>,
        by: &str,
    ) -> Result<IssuedKey, Unavailable> {
        let text = SecretString::from(format!(
            "tw_{}",
            data_encoding::BASE32_NOPAD.encode(&rand::random::<[u8; 32]>()).to_ascii_lowercase()
        ));
        let new =
            NewApiKey { principal: owner.id, label: label.to_owned(), hash: hash(text.expose_secret()), expires_at };
        let key = self
            .0
            .store
            .tenancy()
            .create_key(new, by)
            .await
            .map_err(|error: CreateKeyError| Unavailable::new("the key could not be stored", error))?;
        Ok(IssuedKey { key, owner: owner.name.clone(), text })
    }
}

fn as_set(roles: &[Role]) -> BTreeSet<Role> {
    roles.iter().copied().collect()
}

fn write_failed(error: EnsureError) -> Unavailable {
    Unavailable::new("the database rejected the change", error)
}

/// Hashes a key. A salt is not necessary, because keys have 256 random bits and cannot be guessed.
pub(crate) fn hash(key: &str) -> [u8; 32] {
    Sha256::digest(key.as_bytes()).into()
}

fn default_name(text: &str) -> Result<ScopeName, Unavailable> {
    text.parse().map_err(|error| Unavailable::new("a built-in name is not valid", error))
}
