//! Who is calling: API keys, realms and the first administrator.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use quick_cache::sync::Cache;
use secrecy::{ExposeSecret, SecretString};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;
use toolwright_authz::{Action, Resource};
pub use toolwright_store::Key;
use toolwright_store::{CreateKeyError, EnsureError, NewKey, Store};
use toolwright_types::{
    Clock, KeyId, OrgId, Principal, PrincipalName, RealmId, RealmName, RealmScope, Role, ScopeName, SystemClock,
    Timestamp,
};

use crate::Unavailable;
use crate::access::{Access, Denied, Session};

/// How long a revoked key can still work on another server.
const KEY_MEMORY: Duration = Duration::from_secs(10);

/// Authenticates, and manages keys and realms. Cheap to clone.
#[derive(Clone)]
pub struct Identity(Arc<Inner>);

struct Inner {
    store: Store,
    access: Access,
    admin: Arc<Principal>,
    /// The hash of the key from the environment, which no table holds.
    admin_key: Option<[u8; 32]>,
    /// Whose keys these hashes are of, and since when that is known.
    known: Cache<[u8; 32], (Instant, Arc<Principal>)>,
    /// Realms neither change nor go.
    realms: Cache<RealmId, Arc<RealmScope>>,
}

/// Why a caller is not let in.
#[derive(Debug, thiserror::Error)]
pub enum LoginError {
    /// No key, or none that is known.
    #[error("the API key is unknown, expired or revoked")]
    UnknownKey,
    /// The realm is not there, or not for this principal.
    #[error("there is no realm `{0}` for you")]
    Realm(String),
    /// The database failed.
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
}

/// Why a key or realm could not be managed.
#[derive(Debug, thiserror::Error)]
pub enum ManageError {
    /// Not permitted.
    #[error(transparent)]
    Denied(#[from] Denied),
    /// There is no such key.
    #[error("there is no key `{0}`")]
    UnknownKey(KeyId),
    /// There is no such realm.
    #[error("there is no realm `{0}`")]
    UnknownRealm(RealmName),
    /// There is one already.
    #[error("realm `{0}` already exists")]
    DuplicateRealm(RealmName),
    /// The principal exists with other roles or another home.
    #[error(
        "principal `{0}` exists with other roles or another home realm; leave `roles` and `realm` out to give it one more key"
    )]
    OtherPrincipal(PrincipalName),
    /// The label cannot be stored.
    #[error("{0}")]
    Label(String),
    /// The database failed.
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
}

/// A wish for a new key.
#[derive(Debug, Clone)]
pub struct KeyRequest {
    /// What it is for.
    pub label: String,
    /// Whose it is; the caller's when absent. Made when it does not exist.
    pub principal: Option<PrincipalName>,
    /// The roles of a principal that is made; member when absent.
    pub roles: Option<Vec<Role>>,
    /// The home of a principal that is made; the session's realm when absent.
    pub realm: Option<RealmName>,
    /// When it stops working.
    pub expires_at: Option<Timestamp>,
}

/// A key that was made, and the only sight of its text.
pub struct IssuedKey {
    /// What is kept.
    pub key: Key,
    /// Whose it is.
    pub owner: PrincipalName,
    /// The key itself.
    pub text: SecretString,
}

impl Identity {
    /// Makes sure that the default org, realm and administrator exist.
    pub(crate) async fn bootstrap(
        store: Store,
        access: Access,
        admin_key: Option<SecretString>,
    ) -> Result<Self, Unavailable> {
        let default = default_name("default")?;
        let tenancy = store.tenancy();
        let org = tenancy.ensure_org(&default).await?;
        let failed = |error: EnsureError| Unavailable::new("the default realm could not be set up")(Box::new(error));
        let realm = tenancy.ensure_realm(org, &default).await.map_err(failed)?;
        let admin = tenancy
            .ensure_principal(org, &default_name("admin")?, realm.realm, &[Role::Admin])
            .await
            .map_err(failed)?;
        Ok(Self(Arc::new(Inner {
            admin: Arc::new(admin),
            access,
            admin_key: admin_key.map(|key| hash(key.expose_secret())),
            known: Cache::new(10_000),
            realms: Cache::new(10_000),
            store,
        })))
    }

    /// Whether anyone can log in at all.
    pub(crate) async fn has_key(&self) -> Result<bool, Unavailable> {
        let now = SystemClock.now();
        let works = |key: &Key| key.revoked_at.is_none() && key.expires_at.is_none_or(|end| end > now);
        let keys = self.0.store.tenancy().keys(self.0.admin.org).await?;
        Ok(self.0.admin_key.is_some() || keys.iter().any(|(key, _)| works(key)))
    }

    /// The administrator's first key.
    pub(crate) async fn issue_first_key(&self) -> Result<SecretString, Unavailable> {
        Ok(self.issue(&self.0.admin, "bootstrap", None, "bootstrap").await?.text)
    }

    /// The session of whoever holds `key`, in the realm asked for or else its own.
    pub async fn login(&self, key: &str, realm: Option<&str>) -> Result<Session, LoginError> {
        let principal = self.principal(key).await?.ok_or(LoginError::UnknownKey)?;
        let realm = match realm {
            None => self.home(&principal).await?,
            Some(name) => self.enter(&principal, name).await?,
        };
        Ok(Session { principal, realm })
    }

    /// Makes a key, and the principal it is for if there is none of that name.
    pub async fn create_key(&self, session: &Session, request: KeyRequest) -> Result<IssuedKey, ManageError> {
        self.0.access.require(session, Action::Write, Resource::Keys)?;
        let owner = match &request.principal {
            None => (*session.principal).clone(),
            Some(name) => self.ensure_principal(session, name, &request).await?,
        };
        if request.label.contains('\0') || request.label.chars().count() > 128 {
            return Err(ManageError::Label("a label has at most 128 characters and no U+0000".into()));
        }
        let by = session.principal.name.as_str();
        Ok(self.issue(&owner, &request.label, request.expires_at, by).await?)
    }

    /// All keys of the org, each with its owner's name.
    pub async fn keys(&self, session: &Session) -> Result<Vec<(Key, PrincipalName)>, ManageError> {
        self.0.access.require(session, Action::Read, Resource::Keys)?;
        Ok(self.0.store.tenancy().keys(session.principal.org).await.map_err(Unavailable::from)?)
    }

    /// Makes a key useless: here at once, on other servers within seconds.
    pub async fn revoke_key(&self, session: &Session, key: KeyId) -> Result<(), ManageError> {
        self.0.access.require(session, Action::Write, Resource::Keys)?;
        let revoked = self.0.store.tenancy().revoke_key(session.principal.org, key).await.map_err(Unavailable::from)?;
        self.0.known.clear();
        if revoked { Ok(()) } else { Err(ManageError::UnknownKey(key)) }
    }

    /// The realms of the org.
    pub async fn realms(&self, session: &Session) -> Result<Vec<RealmScope>, ManageError> {
        self.0.access.require(session, Action::Read, Resource::Realms)?;
        Ok(self.0.store.tenancy().realms(session.principal.org).await.map_err(Unavailable::from)?)
    }

    /// Makes a realm.
    pub async fn create_realm(&self, session: &Session, name: &RealmName) -> Result<RealmScope, ManageError> {
        self.0.access.require(session, Action::Write, Resource::Realms)?;
        let tenancy = self.0.store.tenancy();
        match tenancy.create_realm(session.principal.org, name).await.map_err(ensure_failed)? {
            (realm, true) => Ok(realm),
            (_, false) => Err(ManageError::DuplicateRealm(name.clone())),
        }
    }

    /// The org of the first administrator.
    pub fn home_org(&self) -> OrgId {
        self.0.admin.org
    }

    /// A session of the first administrator in its own realm, for what the server does by itself at start.
    pub async fn admin_session(&self) -> Result<Session, Unavailable> {
        let principal = Arc::clone(&self.0.admin);
        let realm = self.home(&principal).await?;
        Ok(Session { principal, realm })
    }

    /// Every realm, for what the server does by itself at start.
    pub(crate) async fn all_realms(&self) -> Result<Vec<RealmScope>, Unavailable> {
        Ok(self.0.store.tenancy().realms(self.0.admin.org).await?)
    }

    async fn principal(&self, key: &str) -> Result<Option<Arc<Principal>>, Unavailable> {
        let hash = hash(key);
        if self.0.admin_key.is_some_and(|admin| bool::from(admin.ct_eq(&hash))) {
            return Ok(Some(Arc::clone(&self.0.admin)));
        }
        if let Some((since, known)) = self.0.known.get(&hash)
            && since.elapsed() < KEY_MEMORY
        {
            return Ok(Some(known));
        }
        let now = Instant::now();
        let found = self.0.store.tenancy().find_key(&hash).await?.map(|(_, principal)| Arc::new(principal));
        if let Some(principal) = &found {
            self.0.known.insert(hash, (now, Arc::clone(principal)));
        }
        Ok(found)
    }

    async fn home(&self, principal: &Principal) -> Result<Arc<RealmScope>, Unavailable> {
        if let Some(realm) = self.0.realms.get(&principal.home) {
            return Ok(realm);
        }
        let found = self.0.store.tenancy().realm_by_id(principal.home).await?;
        let missing = || Unavailable::new("the principal's home realm is gone")("no row".into());
        let realm = Arc::new(found.ok_or_else(missing)?);
        self.0.realms.insert(principal.home, Arc::clone(&realm));
        Ok(realm)
    }

    /// The same session in another realm, if the principal may enter that.
    pub async fn elsewhere(&self, session: &Session, realm: &str) -> Result<Session, LoginError> {
        let realm = self.enter(&session.principal, realm).await?;
        Ok(Session { principal: Arc::clone(&session.principal), realm })
    }

    /// The named realm, if it exists and the principal may enter it. The two refusals look alike, so that nobody
    /// learns the names of other realms.
    pub(crate) async fn enter(&self, principal: &Arc<Principal>, name: &str) -> Result<Arc<RealmScope>, LoginError> {
        let refused = || LoginError::Realm(name.to_owned());
        let parsed: RealmName = name.parse().map_err(|_| refused())?;
        let found = self.0.store.tenancy().realm(principal.org, &parsed).await.map_err(Unavailable::from)?;
        let session = Session { principal: Arc::clone(principal), realm: Arc::new(found.ok_or_else(refused)?) };
        self.0.access.require(&session, Action::Read, Resource::Realm).map_err(|_| refused())?;
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
        let principal = tenancy.ensure_principal(org, name, home, &roles).await.map_err(ensure_failed)?;
        let same_roles = request.roles.is_none() || as_set(&principal.roles) == as_set(&roles);
        let same_home = request.realm.is_none() || principal.home == home;
        if same_roles && same_home { Ok(principal) } else { Err(ManageError::OtherPrincipal(name.clone())) }
    }

    async fn issue(
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
        let new = NewKey { principal: owner.id, label: label.to_owned(), hash: hash(text.expose_secret()), expires_at };
        let key = self
            .0
            .store
            .tenancy()
            .create_key(new, by)
            .await
            .map_err(|error: CreateKeyError| Unavailable::new("the key could not be stored")(Box::new(error)))?;
        Ok(IssuedKey { key, owner: owner.name.clone(), text })
    }
}

fn as_set(roles: &[Role]) -> BTreeSet<Role> {
    roles.iter().copied().collect()
}

fn ensure_failed(error: EnsureError) -> Unavailable {
    Unavailable::new("the database refused the change")(Box::new(error))
}

/// Keys are random and long, so a plain hash cannot be searched.
fn hash(key: &str) -> [u8; 32] {
    Sha256::digest(key.as_bytes()).into()
}

fn default_name(text: &str) -> Result<ScopeName, Unavailable> {
    text.parse().map_err(|error| Unavailable::new("a built-in name is not valid")(Box::new(error)))
}
