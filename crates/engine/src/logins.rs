//! Renews logins. A login is an OAuth grant that is stored as a secret.
//!
//! Many authorization servers rotate refresh tokens: a refresh token can be used once, and a second use revokes the
//! login. So one server claims the renewal of a login, and the other servers wait for the result.

use std::sync::Arc;
use std::time::Duration;

use ipnet::IpNet;
use secrecy::SecretString;
use tokio::sync::oneshot;
use tokio_util::task::TaskTracker;
use toolwright_store::{PutError, SecretIdentity, Store, UnsealError};
use toolwright_tools::http::{Grant, HttpClient, NetworkAccess};
use toolwright_types::{Clock, ErrorCode, RealmScope, ToolError, ToolProviderConfig};
use url::Url;

/// The timeout of a renewal. It is longer than the timeout of a call, because the new grant is lost if a renewal is
/// interrupted.
const RENEWAL_TIMEOUT: Duration = Duration::from_secs(45);
/// How long a server's claim to renew a login is valid.
const CLAIM_DURATION: Duration = Duration::from_secs(60);
/// How often the other servers check whether the renewal is finished.
const POLL_INTERVAL: Duration = Duration::from_millis(100);
/// The minimum age of a token that is renewed because a provider rejected it. If a newer token is rejected, another
/// renewal would not help.
const MIN_REJECTED_AGE: Duration = Duration::from_secs(10);
/// The delay before each attempt to store a renewed login.
const STORE_DELAYS: [Duration; 6] = [
    Duration::ZERO,
    Duration::from_millis(200),
    Duration::from_secs(1),
    Duration::from_secs(3),
    Duration::from_secs(10),
    Duration::from_secs(20),
];

/// Renews logins. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Logins {
    pub store: Store,
    pub http: HttpClient,
    pub clock: Arc<dyn Clock>,
    /// Tracks the tasks that renew logins. Each renewal is a separate task, because it must continue if the call that
    /// needs it is cancelled.
    pub background: TaskTracker,
}

/// The reason why the token of a login cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TokenError {
    /// The login is not valid for this call. The caller gets this error.
    #[error("{}", .0.message)]
    Rejected(ToolError),
    /// The secret cannot be opened.
    #[error(transparent)]
    Unseal(#[from] UnsealError),
    /// The secret with the renewed token cannot be stored.
    #[error(transparent)]
    Put(#[from] PutError),
    /// The database failed.
    #[error(transparent)]
    Unavailable(#[from] toolwright_store::StoreError),
}

/// Sends the new token or the error to the call that needs the renewal. Sends `None` if another server has claimed the
/// renewal.
type RenewalSender = oneshot::Sender<Option<Result<SecretString, TokenError>>>;

impl Logins {
    /// Returns the access token of a login to a provider. A token that is about to expire is renewed first. While
    /// another server renews the token, this function waits without a timeout, so the caller must set one.
    pub(crate) async fn token(
        &self,
        realm: &RealmScope,
        identity: &SecretIdentity,
        provider: &ToolProviderConfig,
    ) -> Result<SecretString, TokenError> {
        let mut identity = *identity;
        let mut tried = false;
        loop {
            let grant = match self.open(realm, &identity).await {
                // The login was renewed after the caller looked up its secret.
                Err(TokenError::Unseal(UnsealError::Changed(_))) => {
                    identity = self.wait_for_renewal(realm, &identity).await?;
                    continue;
                }
                grant => grant?,
            };
            check_resource(&grant, provider)?;
            let now = self.clock.now();
            if !grant.needs_renewal(now) || (tried && !grant.is_expired(now)) {
                return Ok(grant.access_token.into());
            }
            let current_token = (!grant.is_expired(now)).then(|| grant.access_token.clone());
            let allow = if is_same_host(&grant, provider) { provider.egress_allow.clone() } else { Vec::new() };
            let (sender, receiver) = oneshot::channel();
            // The renewal runs in the background, because the caller may be cancelled. Once a renewal is claimed, it
            // must be completed and the new grant must be stored.
            self.background.spawn(self.clone().renew(realm.clone(), identity, grant, allow, sender));
            match receiver.await.unwrap_or_else(|_| Some(Err(rejected("login_renewal", "the renewal was interrupted"))))
            {
                Some(renewed) => return renewed.or_else(|error| current_token.map(SecretString::from).ok_or(error)),
                None => {
                    let before = identity.revision;
                    identity = self.wait_for_renewal(realm, &identity).await?;
                    tried = identity.revision == before;
                }
            }
        }
    }

    /// Waits until no server has claimed the renewal of a login, and returns the current revision of the secret.
    async fn wait_for_renewal(
        &self,
        realm: &RealmScope,
        identity: &SecretIdentity,
    ) -> Result<SecretIdentity, TokenError> {
        loop {
            let latest = self.store.secrets(realm).latest(identity).await?;
            let (latest, is_claimed) = latest.ok_or_else(|| rejected("login_ended", "the login was removed"))?;
            if !is_claimed {
                return Ok(latest);
            }
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }

    async fn renew(
        self,
        realm: RealmScope,
        identity: SecretIdentity,
        grant: Grant,
        allow: Vec<IpNet>,
        sender: RenewalSender,
    ) {
        match self.store.secrets(&realm).claim_renewal(&identity, self.clock.now().saturating_add(CLAIM_DURATION)).await
        {
            Ok(true) => {}
            Ok(false) => return drop(sender.send(None)),
            Err(error) => return drop(sender.send(Some(Err(error.into())))),
        }
        let access = NetworkAccess { allow: &allow, certificate: None };
        let result = tokio::time::timeout(RENEWAL_TIMEOUT, grant.renew(&self.http, &access, self.clock.now())).await;
        let timed_out = || ToolError::new(ErrorCode::Timeout, "the authorization server did not answer in time").into();
        match result.unwrap_or_else(|_| Err(timed_out())) {
            Ok(renewed) => self.store_renewed(&realm, &identity, &renewed, sender).await,
            Err(failure) => {
                // The claim is released so that the next call tries again.
                if let Err(error) = self.store.secrets(&realm).release_renewal(&identity).await {
                    tracing::warn!(%error, "could not release the claim to renew a login");
                }
                let _ = sender.send(Some(Err(TokenError::Rejected(failure.error))));
            }
        }
    }

    /// Stores a renewed login, with several attempts. The caller gets the token after the first attempt, whether or not
    /// that attempt succeeded.
    async fn store_renewed(
        &self,
        realm: &RealmScope,
        identity: &SecretIdentity,
        renewed: &Grant,
        sender: RenewalSender,
    ) {
        let mut sender = Some(sender);
        for delay in STORE_DELAYS {
            tokio::time::sleep(delay).await;
            // If a user has logged in again in the meantime, `replace` keeps that login, and the next call uses it.
            let stored = self.store.secrets(realm).replace(identity, &renewed.to_secret()).await;
            if let Some(sender) = sender.take() {
                let _ = sender.send(Some(Ok(renewed.access_token.clone().into())));
            }
            match stored {
                Ok(_) => return,
                Err(error) => tracing::warn!(secret = %identity.id, %error, "could not store a renewed login"),
            }
        }
        tracing::error!(secret = %identity.id, "a renewed login was lost; log in again");
    }

    /// Marks a rejected token as expired, so that the token is renewed before its next use. Has no effect if the token
    /// is being renewed, is new or cannot be renewed.
    pub(crate) async fn mark_rejected(&self, realm: &RealmScope, identity: &SecretIdentity) -> Result<(), TokenError> {
        let expire = self.clone().expire(realm.clone(), *identity);
        self.background.spawn(expire).await.unwrap_or(Ok(()))
    }

    async fn expire(self, realm: RealmScope, identity: SecretIdentity) -> Result<(), TokenError> {
        let mut grant = match self.open(&realm, &identity).await {
            Err(TokenError::Unseal(UnsealError::Changed(_))) => return Ok(()),
            grant => grant?,
        };
        let now = self.clock.now();
        // If the token was issued in the future, the clocks of the servers differ and the age of the token is unknown.
        // Such a token does not count as new.
        let is_new = grant.issued_at <= now && now < grant.issued_at.saturating_add(MIN_REJECTED_AGE);
        if grant.refresh_token.is_none() || is_new {
            return Ok(());
        }
        let secrets = self.store.secrets(&realm);
        if secrets.claim_renewal(&identity, now.saturating_add(CLAIM_DURATION)).await? {
            grant.expires_at = Some(now);
            secrets.replace(&identity, &grant.to_secret()).await?;
        }
        Ok(())
    }

    async fn open(&self, realm: &RealmScope, identity: &SecretIdentity) -> Result<Grant, TokenError> {
        let secret = self.store.secrets(realm).unseal(identity).await?;
        Grant::from_secret(&secret)
            .ok_or_else(|| rejected("no_login", "the secret is not a login; log in to the provider first"))
    }
}

/// Checks that the provider has the same origin as the server for which the login was made. Without this check, the
/// token would be sent to another server after a change of the base URL.
fn check_resource(grant: &Grant, provider: &ToolProviderConfig) -> Result<(), TokenError> {
    let origin = |url: &str| Url::parse(url).ok().map(|url| url.origin());
    match (&grant.resource, &provider.base_url) {
        (Some(resource), Some(url)) if origin(resource) != origin(url) => {
            let message =
                format!("the login is for {resource}, but the provider has another base URL now; log in again");
            Err(rejected("no_login", &message))
        }
        _ => Ok(()),
    }
}

/// Whether the token endpoint of a login has the same host as the provider. Only then may a renewal reach the private
/// networks that the provider permits. The check is needed because any user may have chosen the token endpoint: it is
/// part of the secret.
fn is_same_host(grant: &Grant, provider: &ToolProviderConfig) -> bool {
    let host = |url: &str| Url::parse(url).ok()?.host_str().map(str::to_owned);
    provider.base_url.as_deref().and_then(host).is_some_and(|own| host(&grant.token_endpoint) == Some(own))
}

fn rejected(reason: &str, message: &str) -> TokenError {
    TokenError::Rejected(ToolError::new(ErrorCode::AuthRequired, message).reason(reason))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicI64, Ordering};

    use serde_json::json;
    use toolwright_store::{Location, SealKey, SecretScope, StoreOptions, SyncMode};
    use toolwright_tools::http::EgressPolicy;
    use toolwright_types::{ProviderType, RefName, Timestamp};

    use super::*;

    struct ManualClock(AtomicI64);

    impl Clock for ManualClock {
        fn now(&self) -> Timestamp {
            Timestamp::from_micros(self.0.load(Ordering::Relaxed) * 1_000_000)
        }
    }

    fn grant(issued_at: i64) -> Grant {
        let at = |seconds: i64| Timestamp::from_micros(seconds * 1_000_000);
        let grant = json!({ "tokenEndpoint": "https://login.example.com/token", "clientId": "c", "resource": "https://mcp.example.com/mcp",
            "accessToken": "a", "refreshToken": "r", "issuedAt": at(issued_at), "expiresAt": at(100_000) });
        serde_json::from_value(grant).unwrap()
    }

    fn provider(url: &str) -> ToolProviderConfig {
        let mut provider = ToolProviderConfig::new("p".parse().unwrap(), ProviderType::Mcp);
        provider.base_url = Some(url.to_owned());
        provider
    }

    /// Creates a login that was issued at `issued_at`, and a service whose clock shows 1000 seconds.
    async fn logins(folder: &std::path::Path, issued_at: i64) -> (Logins, RealmScope, SecretIdentity) {
        let clock = Arc::new(ManualClock(AtomicI64::new(1000)));
        let url = Location::Sqlite(folder.join("db"));
        let seal = SealKey::from_base64(&format!("{}=", "A".repeat(43))).unwrap();
        let store =
            Store::open(StoreOptions { url, sync: SyncMode::System, clock: clock.clone(), seal }).await.unwrap();
        let org = store.tenancy().ensure_org(&"acme".parse().unwrap()).await.unwrap();
        let realm = store.tenancy().ensure_realm(org, &"main".parse().unwrap()).await.unwrap();
        let name: RefName = "login".parse().unwrap();
        store.secrets(&realm).put(SecretScope::Realm, &name, grant(issued_at).to_secret(), "someone").await.unwrap();
        let identity = store.secrets(&realm).shared(&name).await.unwrap().unwrap();
        let http = HttpClient::new(EgressPolicy::default());
        (Logins { store, http, clock, background: TaskTracker::new() }, realm, identity)
    }

    #[tokio::test]
    async fn rejected_token_is_marked_as_expired_unless_it_is_new_or_already_being_renewed() {
        for (issued_at, claimed, renewed) in [
            (500, false, true),
            (500, true, false),
            (995, false, false),
            // The token was issued by a server whose clock is ahead.
            (5000, false, true),
        ] {
            let folder = tempfile::tempdir().unwrap();
            let (logins, realm, identity) = logins(folder.path(), issued_at).await;
            let secrets = logins.store.secrets(&realm);
            if claimed {
                assert!(
                    secrets.claim_renewal(&identity, logins.clock.now().saturating_add(CLAIM_DURATION)).await.unwrap()
                );
            }
            logins.mark_rejected(&realm, &identity).await.unwrap();
            let (latest, is_claimed) = secrets.latest(&identity).await.unwrap().unwrap();
            assert_eq!((latest.revision > identity.revision, is_claimed), (renewed, claimed), "issued at {issued_at}");
            let due = logins.open(&realm, &latest).await.unwrap().needs_renewal(logins.clock.now());
            assert_eq!(due, renewed, "issued at {issued_at}");
            // After the renewal, `identity` is an old revision, so a second rejection has no effect.
            if renewed {
                logins.mark_rejected(&realm, &identity).await.unwrap();
                assert_eq!(secrets.latest(&identity).await.unwrap().unwrap().0, latest);
            }
        }
    }

    #[test]
    fn login_for_another_origin_is_rejected_and_token_endpoint_host_is_compared_with_the_provider() {
        for (url, is_valid, same_host) in [
            ("https://mcp.example.com/mcp", true, false),
            ("https://mcp.example.com/other", true, false),
            ("https://login.example.com/mcp", false, true),
            ("http://mcp.example.com/mcp", false, false),
            ("https://mcp.example.com:8443/mcp", false, false),
        ] {
            assert_eq!(check_resource(&grant(0), &provider(url)).is_ok(), is_valid, "{url}");
            assert_eq!(is_same_host(&grant(0), &provider(url)), same_host, "{url}");
        }
    }
}
