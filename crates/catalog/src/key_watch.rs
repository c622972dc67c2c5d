//! Watches the API key of a request whose response takes long, so that the response can end when the key is no longer
//! accepted.

use std::time::Duration;

use tokio::sync::watch;

use crate::browser_login::Credential;
use crate::identity::Identity;

/// How often a key is looked up again. The lookup detects keys that have expired and keys that another server has
/// revoked.
const RECHECK_INTERVAL: Duration = Duration::from_secs(5);

/// Watches an API key or a browser session that authenticated a request.
pub struct KeyWatch {
    identity: Identity,
    credential: Credential,
    revocations: watch::Receiver<()>,
}

impl KeyWatch {
    pub(crate) fn new(identity: Identity, credential: Credential, revocations: watch::Receiver<()>) -> Self {
        Self { identity, credential, revocations }
    }

    /// Completes when the key is revoked or has expired, or the browser session has ended. If the database does not answer, the key stays accepted until
    /// the next check.
    pub async fn rejected(mut self) {
        loop {
            tokio::select! {
                Ok(()) = self.revocations.changed() => {}
                () = tokio::time::sleep(RECHECK_INTERVAL) => {}
            }
            match self.identity.principal_of(&self.credential).await {
                Ok(None) => return,
                Ok(Some(_)) => {}
                Err(error) => {
                    tracing::warn!(
                        error = &error as &dyn std::error::Error,
                        "could not check whether a key is still valid"
                    );
                }
            }
        }
    }
}
