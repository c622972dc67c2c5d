//! The logins of browsers: sessions that a cookie identifies, and the one-time link that the server prints at the start.
//!
//! A session has the rights of the key that it was opened with, and ends with that key. This module knows no cookies and
//! no HTTP.

use std::sync::Arc;
use std::sync::PoisonError;
use std::time::{Duration, Instant};

use secrecy::{ExposeSecret, SecretString};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;
use toolwright_store::NewBrowserSession;
use toolwright_types::{Clock, KeyId, Principal, SystemClock, Timestamp};

use crate::Unavailable;
use crate::access::Session;
use crate::identity::{AuthenticationError, CachedKey, Identity, hash};
use crate::key_watch::KeyWatch;

/// How long a browser session lasts, if its key does not expire earlier.
pub const SESSION_LIFETIME: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// How long a login link can be used.
const LINK_LIFETIME: Duration = Duration::from_secs(15 * 60);

/// What authenticates a request.
#[derive(Debug, Clone)]
pub(crate) enum Credential {
    /// The hash of an API key.
    Key([u8; 32]),
    /// The hashes of the cookie of a browser.
    BrowserSession(SessionHashes),
}

/// The hashes under which the session of a cookie may be stored.
#[derive(Debug, Clone)]
pub(crate) struct SessionHashes {
    /// The hash of a session of a key in the database.
    stored_key: [u8; 32],
    /// The hash of a session of the administrator's key from the environment. It depends on that key, so that the
    /// session ends when the key changes, and so that the database contains nothing from which the key could be guessed.
    environment_key: Option<[u8; 32]>,
}

/// A login link that was not used yet.
#[derive(Debug)]
pub(crate) struct LoginLink {
    hash: [u8; 32],
    issued_at: Instant,
}

/// A new browser session. The text of its cookie is not stored and cannot be read again.
pub struct BrowserLogin {
    /// The session, in the home realm of the principal.
    pub session: Session,
    /// The value of the cookie.
    pub cookie: SecretString,
    /// When the session ends.
    pub expires_at: Timestamp,
}

impl Identity {
    /// Opens a browser session with the rights of an API key.
    pub async fn log_in(&self, key: &str) -> Result<BrowserLogin, AuthenticationError> {
        let session = self.authenticate(key, None).await?;
        let hash = hash(key);
        if self.0.admin_key.is_some_and(|admin| bool::from(admin.ct_eq(&hash))) {
            return self.open_browser_session(session, None, None).await;
        }
        // The key may have been revoked on another server since it was cached.
        let found = self.0.store.tenancy().find_key(&hash).await.map_err(Unavailable::from)?;
        let (key, _) = found.ok_or(AuthenticationError::UnknownKey)?;
        self.open_browser_session(session, Some(key.id), key.expires_at).await
    }

    /// Opens an administrator's browser session with the token of the login link. The token is used up. The session has
    /// an API key of its own, which is listed and can be revoked.
    pub async fn log_in_by_link(&self, token: &str) -> Result<BrowserLogin, AuthenticationError> {
        if !self.take_login_link(token) {
            return Err(AuthenticationError::UnknownKey);
        }
        let expires_at = SystemClock.now().saturating_add(SESSION_LIFETIME);
        let admin = Arc::clone(&self.0.admin);
        let issued = self.issue(&admin, "login link", Some(expires_at), admin.name.as_str()).await?;
        let session = self.authenticate(issued.text.expose_secret(), None).await?;
        self.open_browser_session(session, Some(issued.key.id), Some(expires_at)).await
    }

    /// Creates the token of a login link, which replaces the previous link. The token works once, for fifteen minutes.
    pub fn issue_login_link(&self) -> SecretString {
        let token = random_token();
        let link = LoginLink { hash: hash(&token), issued_at: Instant::now() };
        *self.0.login_link.lock().unwrap_or_else(PoisonError::into_inner) = Some(link);
        token.into()
    }

    /// Authenticates the cookie of a browser and returns a session in the given realm, or in the home realm of the
    /// principal.
    pub async fn authenticate_browser(
        &self,
        cookie: &str,
        realm: Option<&str>,
    ) -> Result<Session, AuthenticationError> {
        self.session_of(&Credential::BrowserSession(self.session_hashes(cookie)), realm).await
    }

    /// Watches the browser session of a request whose response takes long.
    pub fn watch_browser(&self, cookie: &str) -> KeyWatch {
        let credential = Credential::BrowserSession(self.session_hashes(cookie));
        KeyWatch::new(self.clone(), credential, self.0.revocations.subscribe())
    }

    /// Ends the browser session of a cookie, with its open streams. Does nothing if the session has already ended.
    pub async fn log_out(&self, cookie: &str) -> Result<(), Unavailable> {
        let hashes = self.session_hashes(cookie);
        let tenancy = self.0.store.tenancy();
        tenancy.delete_browser_session(&hashes.stored_key).await?;
        if let Some(hash) = &hashes.environment_key {
            tenancy.delete_browser_session(hash).await?;
        }
        self.0.principals.remove(&hashes.stored_key);
        self.0.revocations.send_replace(());
        Ok(())
    }

    /// Returns the principal of a browser session, unless the session is unknown or has ended, or its key is revoked or
    /// expired.
    pub(crate) async fn principal_of_browser_session(
        &self,
        hashes: &SessionHashes,
    ) -> Result<Option<Arc<Principal>>, Unavailable> {
        if let Some(cached) = self.0.principals.get(&hashes.stored_key).filter(CachedKey::is_valid) {
            return Ok(Some(cached.principal));
        }
        let found_at = Instant::now();
        let Some((expires_at, principal)) = self.find_browser_session(hashes).await? else { return Ok(None) };
        let cached = CachedKey { found_at, expires_at: Some(expires_at), principal: Arc::clone(&principal) };
        self.0.principals.insert(hashes.stored_key, cached);
        Ok(Some(principal))
    }

    async fn find_browser_session(
        &self,
        hashes: &SessionHashes,
    ) -> Result<Option<(Timestamp, Arc<Principal>)>, Unavailable> {
        let tenancy = self.0.store.tenancy();
        if let Some((expires_at, principal)) = tenancy.find_browser_session(&hashes.stored_key).await? {
            return Ok(Some((expires_at, Arc::new(principal))));
        }
        let Some(hash) = &hashes.environment_key else { return Ok(None) };
        let expires_at = tenancy.find_keyless_browser_session(hash).await?;
        Ok(expires_at.map(|expires_at| (expires_at, Arc::clone(&self.0.admin))))
    }

    async fn open_browser_session(
        &self,
        session: Session,
        key: Option<KeyId>,
        key_expires_at: Option<Timestamp>,
    ) -> Result<BrowserLogin, AuthenticationError> {
        let cookie = random_token();
        let hashes = self.session_hashes(&cookie);
        let hash = match (key, hashes.environment_key) {
            (None, Some(hash)) => hash,
            (None, None) => return Err(AuthenticationError::UnknownKey),
            (Some(_), _) => hashes.stored_key,
        };
        let latest = SystemClock.now().saturating_add(SESSION_LIFETIME);
        let expires_at = key_expires_at.map_or(latest, |end| end.min(latest));
        let new = NewBrowserSession { hash, key, expires_at };
        self.0.store.tenancy().create_browser_session(new).await.map_err(Unavailable::from)?;
        Ok(BrowserLogin { session, cookie: cookie.into(), expires_at })
    }

    fn take_login_link(&self, token: &str) -> bool {
        let mut slot = self.0.login_link.lock().unwrap_or_else(PoisonError::into_inner);
        let matches = slot
            .as_ref()
            .is_some_and(|link| link.issued_at.elapsed() < LINK_LIFETIME && bool::from(link.hash.ct_eq(&hash(token))));
        if matches {
            *slot = None;
        }
        matches
    }

    fn session_hashes(&self, cookie: &str) -> SessionHashes {
        SessionHashes {
            stored_key: session_hash(b"", cookie),
            environment_key: self.0.admin_key.map(|admin| session_hash(&admin, cookie)),
        }
    }
}

/// Hashes a cookie. The prefix ensures that the hash of a cookie is never the hash of a key.
fn session_hash(key: &[u8], cookie: &str) -> [u8; 32] {
    let mut hasher = Sha256::new();
    hasher.update(b"browser session\0");
    hasher.update(key);
    hasher.update(cookie.as_bytes());
    hasher.finalize().into()
}

fn random_token() -> String {
    data_encoding::BASE32_NOPAD.encode(&rand::random::<[u8; 32]>()).to_ascii_lowercase()
}
