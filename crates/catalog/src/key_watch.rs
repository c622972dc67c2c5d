//! Watches the API key of a request whose response takes long, so that the response can end when the key is no longer
//! accepted.

use std::time::Duration;

use tokio::sync::watch;

use crate::identity::Identity;

/// How often a key is looked up again. The lookup detects keys that have expired and keys that another server has
/// revoked.
const RECHECK_INTERVAL: Duration = Duration::from_secs(5);

/// Watches an API key that authenticated a request.
pub struct KeyWatch {
    identity: Identity,
    hash: [u8; 32],
    revocations: watch::Receiver<()>,
}

impl KeyWatch {
    pub(crate) fn new(identity: Identity, hash: [u8; 32], revocations: watch::Receiver<()>) -> Self {
        Self { identity, hash, revocations }
    }

    /// Completes when the key is revoked or has expired. If the database does not answer, the key stays accepted until
    /// the next check.
    pub async fn rejected(mut self) {
        loop {
            tokio::select! {
                Ok(()) = self.revocations.changed() => {}
                () = tokio::time::sleep(RECHECK_INTERVAL) => {}
            }
            match self.identity.principal_of(self.hash).await {
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
