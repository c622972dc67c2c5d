//! Logins: secrets that somebody was granted for a while, and that renew themselves.
//!
//! A renewal uses up what the next one would need, at many servers: whoever renews twice with the same token loses the
//! login. So one server at a time has the right to renew a secret, and the others wait for what it gets.

use std::sync::Arc;
use std::time::Duration;

use ipnet::IpNet;
use secrecy::SecretString;
use tokio::sync::oneshot;
use tokio_util::task::TaskTracker;
use toolwright_store::{PutError, SecretIdentity, Store, UnsealError};
use toolwright_tools::http::{Access, Grant, HttpClient};
use toolwright_types::{Clock, ErrorCode, RealmScope, ToolError, ToolProviderConfig};
use url::Url;

/// How long an authorization server may take. Nobody waits for that long, but what it grants must not be lost.
const ANSWER: Duration = Duration::from_secs(45);
/// How long one server has the right to renew a login, before another tries.
const RIGHT: Duration = Duration::from_secs(60);
/// How often the others look whether it is done.
const GLANCE: Duration = Duration::from_millis(100);
/// A token that is younger is not renewed because a server refuses it: that server wants something else.
const YOUNG: Duration = Duration::from_secs(10);
/// The pauses before each attempt at keeping what was granted.
const ATTEMPTS: [Duration; 6] = [
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
    /// What must not be given up in the middle.
    pub background: TaskTracker,
}

/// Why a login cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LoginError {
    /// The caller is told.
    #[error("{}", .0.message)]
    Told(ToolError),
    /// The secret cannot be opened.
    #[error(transparent)]
    Unseal(#[from] UnsealError),
    /// The changed one cannot be kept.
    #[error(transparent)]
    Put(#[from] PutError),
    /// The database failed.
    #[error(transparent)]
    Unavailable(#[from] toolwright_store::Unavailable),
}

/// Hears of the new token, or that somebody else renews it.
type Tell = oneshot::Sender<Option<Result<SecretString, LoginError>>>;

impl Logins {
    /// The token of a login to a provider, renewed first if it is about to expire. Waits for as long as another server renews
    /// it; the caller has a deadline.
    pub async fn token(
        &self,
        realm: &RealmScope,
        identity: &SecretIdentity,
        provider: &ToolProviderConfig,
    ) -> Result<SecretString, LoginError> {
        let mut identity = *identity;
        let mut tried = false;
        loop {
            let grant = match self.open(realm, &identity).await {
                // Renewed since it was looked up.
                Err(LoginError::Unseal(UnsealError::Changed(_))) => {
                    identity = self.freed(realm, &identity).await?;
                    continue;
                }
                grant => grant?,
            };
            check_purpose(&grant, provider)?;
            let now = self.clock.now();
            if !grant.is_due(now) || (tried && !grant.is_over(now)) {
                return Ok(grant.access_token.into());
            }
            let still_good = (!grant.is_over(now)).then(|| grant.access_token.clone());
            let allow = if is_at_home(&grant, provider) { provider.egress_allow.clone() } else { Vec::new() };
            let (tell, hear) = oneshot::channel();
            // Whoever waits may leave; what is claimed must be used, and what is granted anew must be kept all the same.
            self.background.spawn(self.clone().renew(realm.clone(), identity, grant, allow, tell));
            match hear.await.unwrap_or_else(|_| Some(Err(told("login_renewal", "the renewal broke off")))) {
                Some(renewed) => return renewed.or_else(|error| still_good.map(SecretString::from).ok_or(error)),
                None => {
                    let before = identity.revision;
                    identity = self.freed(realm, &identity).await?;
                    tried = identity.revision == before;
                }
            }
        }
    }

    /// Waits until nobody has the right to renew a login: its present value.
    async fn freed(&self, realm: &RealmScope, identity: &SecretIdentity) -> Result<SecretIdentity, LoginError> {
        loop {
            let latest = self.store.secrets(realm).latest(identity).await?;
            let (latest, is_claimed) = latest.ok_or_else(|| told("login_ended", "the login was taken back"))?;
            if !is_claimed {
                return Ok(latest);
            }
            tokio::time::sleep(GLANCE).await;
        }
    }

    async fn renew(self, realm: RealmScope, identity: SecretIdentity, grant: Grant, allow: Vec<IpNet>, tell: Tell) {
        match self.store.secrets(&realm).claim_renewal(&identity, self.clock.now().later(RIGHT)).await {
            Ok(true) => {}
            Ok(false) => return drop(tell.send(None)),
            Err(error) => return drop(tell.send(Some(Err(error.into())))),
        }
        let access = Access { allow: &allow, certificate: None };
        let asked = tokio::time::timeout(ANSWER, grant.renewed(&self.http, &access, self.clock.now())).await;
        let late = || ToolError::new(ErrorCode::Timeout, "the authorization server did not answer in time").into();
        match asked.unwrap_or_else(|_| Err(late())) {
            Ok(renewed) => self.keep(&realm, &identity, &renewed, tell).await,
            Err(failure) => {
                // The right is given back, so that the next call tries again.
                if let Err(error) = self.store.secrets(&realm).release_renewal(&identity).await {
                    tracing::warn!(%error, "the right to renew a login cannot be given back");
                }
                let _ = tell.send(Some(Err(LoginError::Told(failure.error))));
            }
        }
    }

    /// Keeps a renewed login, however often that takes. Whoever waits has the token after the first attempt.
    async fn keep(&self, realm: &RealmScope, identity: &SecretIdentity, renewed: &Grant, tell: Tell) {
        let mut tell = Some(tell);
        for pause in ATTEMPTS {
            tokio::time::sleep(pause).await;
            // A new login in the meantime is the better one, and the next call has it.
            let kept = self.store.secrets(realm).replace(identity, &renewed.to_secret()).await;
            if let Some(tell) = tell.take() {
                let _ = tell.send(Some(Ok(renewed.access_token.clone().into())));
            }
            match kept {
                Ok(_) => return,
                Err(error) => tracing::warn!(secret = %identity.id, %error, "a renewed login cannot be kept"),
            }
        }
        tracing::error!(secret = %identity.id, "a renewed login is lost; somebody has to log in again");
    }

    /// Has a token renewed before it is used again, unless it is being renewed or has just been.
    pub async fn refused(&self, realm: &RealmScope, identity: &SecretIdentity) -> Result<(), LoginError> {
        let marking = self.clone().mark(realm.clone(), *identity);
        self.background.spawn(marking).await.unwrap_or(Ok(()))
    }

    async fn mark(self, realm: RealmScope, identity: SecretIdentity) -> Result<(), LoginError> {
        let mut grant = match self.open(&realm, &identity).await {
            Err(LoginError::Unseal(UnsealError::Changed(_))) => return Ok(()),
            grant => grant?,
        };
        let now = self.clock.now();
        // What was issued in the future was issued by another clock.
        let is_young = grant.issued_at <= now && now < grant.issued_at.later(YOUNG);
        if grant.refresh_token.is_none() || is_young {
            return Ok(());
        }
        let secrets = self.store.secrets(&realm);
        if secrets.claim_renewal(&identity, now.later(RIGHT)).await? {
            grant.expires_at = Some(now);
            secrets.replace(&identity, &grant.to_secret()).await?;
        }
        Ok(())
    }

    async fn open(&self, realm: &RealmScope, identity: &SecretIdentity) -> Result<Grant, LoginError> {
        let secret = self.store.secrets(realm).unseal(identity).await?;
        Grant::read(&secret).ok_or_else(|| told("no_login", "the secret is none that somebody got by logging in"))
    }
}

/// A login is for one server. Whoever changes where a provider is does not get what others were granted there.
fn check_purpose(grant: &Grant, provider: &ToolProviderConfig) -> Result<(), LoginError> {
    let origin = |url: &str| Url::parse(url).ok().map(|url| url.origin());
    match (&grant.resource, &provider.base_url) {
        (Some(resource), Some(url)) if origin(resource) != origin(url) => {
            Err(told("no_login", &format!("the login is for {resource}, and the provider is elsewhere now")))
        }
        _ => Ok(()),
    }
}

/// Whether a login is renewed at the provider's own host, for which the provider may allow private networks. Where else it is
/// renewed is in the secret, and that may be anybody's.
fn is_at_home(grant: &Grant, provider: &ToolProviderConfig) -> bool {
    let host = |url: &str| Url::parse(url).ok()?.host_str().map(str::to_owned);
    provider.base_url.as_deref().and_then(host).is_some_and(|home| host(&grant.token_endpoint) == Some(home))
}

fn told(reason: &str, message: &str) -> LoginError {
    LoginError::Told(ToolError::new(ErrorCode::AuthRequired, message).reason(reason))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicI64, Ordering};

    use serde_json::json;
    use toolwright_store::{Location, Options, Promise, SealKey, SecretScope};
    use toolwright_tools::http::Egress;
    use toolwright_types::{ProviderType, RefName, Timestamp};

    use super::*;

    struct Now(AtomicI64);

    impl Clock for Now {
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

    /// Logins at 1000 seconds, and what was granted at some other time.
    async fn logins(folder: &std::path::Path, issued_at: i64) -> (Logins, RealmScope, SecretIdentity) {
        let clock = Arc::new(Now(AtomicI64::new(1000)));
        let url = Location::Sqlite(folder.join("db"));
        let seal = SealKey::from_base64(&format!("{}=", "A".repeat(43))).unwrap();
        let store = Store::open(Options { url, sync: Promise::System, clock: clock.clone(), seal }).await.unwrap();
        let org = store.tenancy().ensure_org(&"acme".parse().unwrap()).await.unwrap();
        let realm = store.tenancy().ensure_realm(org, &"main".parse().unwrap()).await.unwrap();
        let name: RefName = "login".parse().unwrap();
        store.secrets(&realm).put(SecretScope::Realm, &name, grant(issued_at).to_secret(), "someone").await.unwrap();
        let identity = store.secrets(&realm).shared(&name).await.unwrap().unwrap();
        let http = HttpClient::new(Egress::default());
        (Logins { store, http, clock, background: TaskTracker::new() }, realm, identity)
    }

    #[tokio::test]
    async fn a_refusal_has_a_token_renewed_unless_it_is_young_or_somebody_is_at_it() {
        for (issued_at, claimed, renewed) in [
            (500, false, true),
            (500, true, false),
            (995, false, false),
            // By a clock that is ahead of ours.
            (5000, false, true),
        ] {
            let folder = tempfile::tempdir().unwrap();
            let (logins, realm, identity) = logins(folder.path(), issued_at).await;
            let secrets = logins.store.secrets(&realm);
            if claimed {
                assert!(secrets.claim_renewal(&identity, logins.clock.now().later(RIGHT)).await.unwrap());
            }
            logins.refused(&realm, &identity).await.unwrap();
            let (latest, is_claimed) = secrets.latest(&identity).await.unwrap().unwrap();
            assert_eq!((latest.revision > identity.revision, is_claimed), (renewed, claimed), "issued at {issued_at}");
            let due = logins.open(&realm, &latest).await.unwrap().is_due(logins.clock.now());
            assert_eq!(due, renewed, "issued at {issued_at}");
            // The one that was refused is known to be another by now.
            if renewed {
                logins.refused(&realm, &identity).await.unwrap();
                assert_eq!(secrets.latest(&identity).await.unwrap().unwrap().0, latest);
            }
        }
    }

    #[test]
    fn a_login_is_for_one_origin_and_private_networks_are_for_its_host() {
        for (url, fits, at_home) in [
            ("https://mcp.example.com/mcp", true, false),
            ("https://mcp.example.com/other", true, false),
            ("https://login.example.com/mcp", false, true),
            ("http://mcp.example.com/mcp", false, false),
            ("https://mcp.example.com:8443/mcp", false, false),
        ] {
            assert_eq!(check_purpose(&grant(0), &provider(url)).is_ok(), fits, "{url}");
            assert_eq!(is_at_home(&grant(0), &provider(url)), at_home, "{url}");
        }
    }
}
