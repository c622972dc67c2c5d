//! Logins: secrets that somebody was granted for a while, and that renew themselves.
//!
//! A renewal uses up what the next one would need, at many servers: whoever renews twice with the same token loses the
//! login. So one server at a time has the right to renew a secret, and the others wait for what it gets.

use std::sync::Arc;
use std::time::Duration;

use ipnet::IpNet;
use secrecy::SecretString;
use tokio_util::task::TaskTracker;
use toolwright_store::{PutError, SecretIdentity, Store, UnsealError};
use toolwright_tools::http::{Access, Grant, HttpClient};
use toolwright_types::{Clock, ErrorCode, RealmScope, ToolError};

/// How long one server may take to renew a login, before another tries.
const RIGHT: Duration = Duration::from_secs(40);
/// How long the authorization server may take.
const PATIENCE: Duration = Duration::from_secs(30);
/// How often the others look whether it is done.
const GLANCE: Duration = Duration::from_millis(50);
/// A token that is younger is not renewed because a server refuses it: that server wants something else.
const YOUNG: Duration = Duration::from_secs(10);

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
    /// The renewed one cannot be kept.
    #[error(transparent)]
    Put(#[from] PutError),
    /// The database failed.
    #[error(transparent)]
    Unavailable(#[from] toolwright_store::Unavailable),
}

impl Logins {
    /// The token of a login, renewed first if it is about to expire.
    pub async fn token(
        &self,
        realm: &RealmScope,
        identity: &SecretIdentity,
        allow: &[IpNet],
    ) -> Result<SecretString, LoginError> {
        let mut identity = *identity;
        let secrets = self.store.secrets(realm);
        let begun = tokio::time::Instant::now();
        while begun.elapsed() < RIGHT + PATIENCE {
            match self.open(realm, &identity).await {
                // Renewed since it was looked up.
                Err(LoginError::Unseal(UnsealError::Changed(_))) => {}
                Err(error) => return Err(error),
                Ok(grant) if !grant.is_due(self.clock.now()) => return Ok(grant.access_token.into()),
                Ok(grant) => {
                    if secrets.claim_renewal(&identity, self.clock.now().later(RIGHT)).await? {
                        let renewal = self.clone().renew(realm.clone(), identity, grant, allow.to_vec());
                        // Whoever waits may leave; what was granted anew must be kept all the same.
                        let renewed = self.background.spawn(renewal).await;
                        return renewed.map_err(|_| told("login_renewal", "the renewal broke off"))?;
                    }
                    tokio::time::sleep(GLANCE).await;
                }
            }
            let gone = || told("login_ended", "the login was taken back");
            identity = secrets.latest(&identity).await?.ok_or_else(gone)?;
        }
        Err(told("login_renewal", "another server takes too long to renew the login"))
    }

    async fn renew(
        self,
        realm: RealmScope,
        identity: SecretIdentity,
        grant: Grant,
        allow: Vec<IpNet>,
    ) -> Result<SecretString, LoginError> {
        let secrets = self.store.secrets(&realm);
        let access = Access { allow: &allow, certificate: None };
        let asked = tokio::time::timeout(PATIENCE, grant.renewed(&self.http, &access, self.clock.now())).await;
        let late = || ToolError::new(ErrorCode::Timeout, "the authorization server did not answer in time").into();
        match asked.unwrap_or_else(|_| Err(late())) {
            Ok(renewed) => {
                // A new login in the meantime is the better one, and the next call has it.
                secrets.replace(&identity, &renewed.to_secret()).await?;
                Ok(renewed.access_token.into())
            }
            Err(failure) => {
                // The right is given back, so that the next call tries again.
                secrets.release_renewal(&identity).await?;
                Err(LoginError::Told(failure.error))
            }
        }
    }

    /// Has a token renewed before it is used again, unless it has just been.
    pub async fn refused(&self, realm: &RealmScope, identity: &SecretIdentity) -> Result<(), LoginError> {
        let mut grant = match self.open(realm, identity).await {
            Err(LoginError::Unseal(UnsealError::Changed(_))) => return Ok(()),
            grant => grant?,
        };
        let now = self.clock.now();
        if grant.refresh_token.is_some() && grant.issued_at.later(YOUNG) < now {
            grant.expires_at = Some(now);
            self.store.secrets(realm).replace(identity, &grant.to_secret()).await?;
        }
        Ok(())
    }

    async fn open(&self, realm: &RealmScope, identity: &SecretIdentity) -> Result<Grant, LoginError> {
        let secret = self.store.secrets(realm).unseal(identity).await?;
        Grant::read(&secret).ok_or_else(|| told("no_login", "the secret is none that somebody got by logging in"))
    }
}

fn told(reason: &str, message: &str) -> LoginError {
    LoginError::Told(ToolError::new(ErrorCode::AuthRequired, message).reason(reason))
}
