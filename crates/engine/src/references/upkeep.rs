//! Fetches again what has come of age, one server at a time.

use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;
use toolwright_store::DueSync;
use toolwright_types::{Document, ToolProviderConfig};

use super::{AGAIN, References};
use crate::access::Session;
use crate::registry::RegistryError;

/// How often the clock is looked at.
const ROUND: Duration = Duration::from_secs(15);
/// How many types are fetched in one round.
const AT_ONCE: i64 = 20;

impl References {
    /// Keeps what has a `ttlSeconds` no older than that, until `stop`.
    pub(crate) async fn keep_fresh(self, stop: CancellationToken) {
        while stop.run_until_cancelled(tokio::time::sleep(ROUND)).await.is_some() {
            // A call that is under way is ended by whoever ends all calls.
            if let Some(Err(error)) = stop.run_until_cancelled(self.refresh()).await {
                tracing::warn!(%error, "reference data could not be fetched again");
            }
        }
    }

    /// Fetches what is due. A type that another server takes is left to it, and one that nobody wants any more is dropped.
    pub(crate) async fn refresh(&self) -> Result<(), RegistryError> {
        for due in self.store.due_references(AT_ONCE).await? {
            let Some((session, provider)) = self.wanted(&due).await? else {
                self.store.claim_reference(&due, None).await?;
                continue;
            };
            // For longer than a fetch takes: whoever dies with it is followed by another.
            let claimed = self.store.claim_reference(&due, Some(self.after(AGAIN))).await?;
            if let (true, Some(source)) = (claimed, provider.body.reference_source(&due.data_type)) {
                let synced = self.sync_one(&session, &provider, source).await?;
                if let Some(error) = synced.errors.first() {
                    tracing::warn!(provider = %due.provider, data_type = due.data_type, %error, "reference data is stale");
                }
            }
        }
        Ok(())
    }

    /// The provider, on the authority of whoever fetched the type last, as long as all of them are there.
    async fn wanted(&self, due: &DueSync) -> Result<Option<(Session, Document<ToolProviderConfig>)>, RegistryError> {
        let tenancy = self.store.tenancy();
        let principal = tenancy.principal_by_id(due.principal).await?;
        let (Some(principal), Some(realm)) = (principal, tenancy.realm_by_id(due.realm).await?) else {
            return Ok(None);
        };
        let session = Session { principal: Arc::new(principal), realm: Arc::new(realm) };
        let provider = self.registry.find::<ToolProviderConfig>(&session, &due.provider).await?;
        let provider = provider.filter(|provider| provider.body.reference_source(&due.data_type).is_some());
        Ok(provider.map(|provider| (session, provider)))
    }
}
