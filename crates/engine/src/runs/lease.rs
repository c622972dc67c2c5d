//! How long this server may drive runs, where several share a database.
//!
//! A server that stops renewing its lease, because it is gone or cannot reach the database, loses its runs to the
//! others when the lease is over. So nothing that may change the world begins unless it must end before that.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use tokio_util::sync::CancellationToken;
use toolwright_store::{ServerId, Store, Unavailable};
use toolwright_types::{Clock, Timestamp};

/// For how long a lease is taken.
const TERM: Duration = Duration::from_secs(15);
/// How often it is taken anew.
const RENEWAL: Duration = Duration::from_secs(5);

/// The lease of this server.
pub(crate) struct Lease {
    server: ServerId,
    store: Store,
    clock: Arc<dyn Clock>,
    /// Until when, in microseconds.
    until: AtomicI64,
}

impl Lease {
    /// Takes a lease. A server that has its database to itself ends those of its predecessors, and takes one for ever.
    pub async fn take(store: Store, clock: Arc<dyn Clock>, shared: bool) -> Result<Self, Unavailable> {
        let lease = Self { server: ServerId::generate(), store, clock, until: AtomicI64::new(0) };
        if shared {
            lease.extend(TERM).await?;
        } else {
            lease.store.end_all_leases().await?;
            lease.extend(Duration::MAX).await?;
        }
        Ok(lease)
    }

    /// Whose it is.
    pub fn server(&self) -> &ServerId {
        &self.server
    }

    /// Makes sure that the lease outlives something which takes `span` at most.
    pub async fn cover(&self, span: Duration) -> Result<(), Unavailable> {
        let left = self.until.load(Ordering::Relaxed).saturating_sub(self.clock.now().as_micros());
        if u128::try_from(left).is_ok_and(|left| left > span.as_micros()) {
            return Ok(());
        }
        self.extend(span.saturating_add(TERM)).await
    }

    /// Renews the lease until `stop`, and gives it back.
    pub async fn keep(self: Arc<Self>, stop: CancellationToken) {
        loop {
            tokio::select! {
                () = stop.cancelled() => break,
                () = tokio::time::sleep(RENEWAL) => {}
            }
            if let Err(error) = self.extend(TERM).await {
                tracing::warn!(error = &error as &dyn std::error::Error, "the lease on runs cannot be renewed");
            }
        }
        if let Err(error) = self.store.end_lease(&self.server).await {
            tracing::warn!(error = &error as &dyn std::error::Error, "the lease on runs cannot be given back");
        }
    }

    async fn extend(&self, span: Duration) -> Result<(), Unavailable> {
        let micros = i64::try_from(span.as_micros()).unwrap_or(i64::MAX);
        let until = self.clock.now().as_micros().saturating_add(micros);
        let until = until.max(self.until.load(Ordering::Relaxed));
        self.store.lease(&self.server, Timestamp::from_micros(until)).await?;
        self.until.fetch_max(until, Ordering::Relaxed);
        Ok(())
    }
}
