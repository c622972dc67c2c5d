//! The lease of this server: the right to drive runs until a point in time. Servers that share a database need leases.
//!
//! A server that crashes or cannot reach the database no longer renews its lease. When the lease ends, other servers
//! recover the runs of that server. So a write starts only if its time limit ends before the lease ends.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use tokio_util::sync::CancellationToken;
use toolwright_store::{RunStore, ServerId, StoreError};
use toolwright_types::{Clock, RunId, Timestamp};

/// The duration of a lease.
const TERM: Duration = Duration::from_secs(15);
/// The interval of renewals.
const RENEWAL: Duration = Duration::from_secs(5);
/// [`Lease::cover`] fails if the lease is still too short after this many extensions.
const MAX_ATTEMPTS: u32 = 5;

/// The lease of this server.
pub(crate) struct Lease {
    server: ServerId,
    store: Arc<dyn RunStore>,
    clock: Arc<dyn Clock>,
    /// The end of the lease, in microseconds.
    until: AtomicI64,
}

impl Lease {
    /// Takes a lease. A server that does not share its database ends all earlier leases and takes a lease that never
    /// ends.
    pub(crate) async fn take(
        store: Arc<dyn RunStore>,
        clock: Arc<dyn Clock>,
        shared: bool,
    ) -> Result<Self, StoreError> {
        let lease = Self { server: ServerId::generate(), store, clock, until: AtomicI64::new(0) };
        if shared {
            lease.extend(TERM).await?;
        } else {
            lease.store.end_all_leases().await?;
            lease.extend(Duration::MAX).await?;
        }
        Ok(lease)
    }

    /// The server that holds the lease.
    pub(crate) fn server(&self) -> &ServerId {
        &self.server
    }

    /// Extends the lease so that it covers work that starts now and takes at most `span`.
    pub(crate) async fn cover(&self, span: Duration) -> Result<(), StoreError> {
        // If the database is slow, part of the new lease has already passed when the reply arrives. The lease is then
        // extended again.
        for _ in 0..MAX_ATTEMPTS {
            let left = self.until.load(Ordering::Relaxed).saturating_sub(self.clock.now().as_micros());
            if u128::try_from(left).is_ok_and(|left| left > span.as_micros()) {
                return Ok(());
            }
            self.extend(span.saturating_add(TERM)).await?;
        }
        let slow = "the database is too slow to hold a lease on runs";
        Err(std::io::Error::new(std::io::ErrorKind::TimedOut, slow).into())
    }

    /// Makes this server the driver of a run. Returns false if another server drives the run, or the run has ended.
    pub(crate) async fn claim_run(&self, run: RunId) -> Result<bool, StoreError> {
        self.store.claim_run(run, &self.server, self.clock.now()).await
    }

    /// Renews the lease until `stop` is cancelled, then ends the lease.
    pub(crate) async fn keep(self: Arc<Self>, stop: CancellationToken) {
        loop {
            tokio::select! {
                biased;
                () = stop.cancelled() => break,
                () = tokio::time::sleep(RENEWAL) => {}
            }
            if let Err(error) = self.extend(TERM).await {
                tracing::warn!(error = &error as &dyn std::error::Error, "the lease on runs cannot be renewed");
            }
        }
        if let Err(error) = self.store.end_lease(&self.server).await {
            tracing::warn!(error = &error as &dyn std::error::Error, "the lease on runs cannot be ended");
        }
    }

    async fn extend(&self, span: Duration) -> Result<(), StoreError> {
        let until = self.clock.now().saturating_add(span).as_micros();
        let until = until.max(self.until.load(Ordering::Relaxed));
        self.store.lease(&self.server, Timestamp::from_micros(until)).await?;
        self.until.fetch_max(until, Ordering::Relaxed);
        Ok(())
    }
}
