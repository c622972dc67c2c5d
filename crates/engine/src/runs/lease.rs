//! How long this server may drive runs, where several share a database.
//!
//! A server that stops renewing its lease, because it is gone or cannot reach the database, loses its runs to the
//! others when the lease is over. So nothing that may change the world begins unless it must end before that.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use tokio_util::sync::CancellationToken;
use toolwright_store::{Ledger, ServerId, Unavailable};
use toolwright_types::{Clock, RunId, Timestamp};

/// For how long a lease is taken.
const TERM: Duration = Duration::from_secs(15);
/// How often it is taken anew.
const RENEWAL: Duration = Duration::from_secs(5);
/// How often a longer one is asked for before giving up.
const MOST_ATTEMPTS: u32 = 5;

/// The lease of this server.
pub(crate) struct Lease {
    server: ServerId,
    ledger: Arc<dyn Ledger>,
    clock: Arc<dyn Clock>,
    /// Until when, in microseconds.
    until: AtomicI64,
}

impl Lease {
    /// Takes a lease. A server that has its database to itself ends those of its predecessors, and takes one for ever.
    pub async fn take(ledger: Arc<dyn Ledger>, clock: Arc<dyn Clock>, shared: bool) -> Result<Self, Unavailable> {
        let lease = Self { server: ServerId::generate(), ledger, clock, until: AtomicI64::new(0) };
        if shared {
            lease.extend(TERM).await?;
        } else {
            lease.ledger.end_all_leases().await?;
            lease.extend(Duration::MAX).await?;
        }
        Ok(lease)
    }

    /// Whose it is.
    pub fn server(&self) -> &ServerId {
        &self.server
    }

    /// Makes sure that the lease outlives something which begins now and takes `span` at most.
    pub async fn cover(&self, span: Duration) -> Result<(), Unavailable> {
        // A lease that took long to get may be half over when it comes.
        for _ in 0..MOST_ATTEMPTS {
            let left = self.until.load(Ordering::Relaxed).saturating_sub(self.clock.now().as_micros());
            if u128::try_from(left).is_ok_and(|left| left > span.as_micros()) {
                return Ok(());
            }
            self.extend(span.saturating_add(TERM)).await?;
        }
        let slow = "the database is too slow to hold a lease on runs";
        Err(std::io::Error::new(std::io::ErrorKind::TimedOut, slow).into())
    }

    /// Makes this server the one that drives a run; false when another does, or the run has ended.
    pub async fn take_run(&self, run: RunId) -> Result<bool, Unavailable> {
        self.ledger.take_run(run, &self.server, self.clock.now()).await
    }

    /// Renews the lease until `stop`, and gives it back.
    pub async fn keep(self: Arc<Self>, stop: CancellationToken) {
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
        if let Err(error) = self.ledger.end_lease(&self.server).await {
            tracing::warn!(error = &error as &dyn std::error::Error, "the lease on runs cannot be given back");
        }
    }

    async fn extend(&self, span: Duration) -> Result<(), Unavailable> {
        let until = self.clock.now().later(span).as_micros();
        let until = until.max(self.until.load(Ordering::Relaxed));
        self.ledger.lease(&self.server, Timestamp::from_micros(until)).await?;
        self.until.fetch_max(until, Ordering::Relaxed);
        Ok(())
    }
}
