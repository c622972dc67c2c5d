//! What the server does for runs that nobody drives: their time comes, or their server has gone.

use std::sync::{Arc, PoisonError};
use std::time::Duration;

use tokio_util::sync::CancellationToken;
use toolwright_types::{RunId, Timestamp};

use super::journal::LOOK_AFTER_US;
use super::ports::Host;
use super::signal::{SignalError, Wish};
use super::{Inner, Runs};
use crate::Unavailable;

/// The longest sleep: another server may have put down a run whose time comes sooner.
const LONGEST_SLEEP: Duration = Duration::from_secs(5);
/// How many runs are woken at once.
const AT_ONCE: u32 = 200;

impl Runs {
    /// Goes on with the durable runs that a lost server left in the middle, and ends the others. What those intended and
    /// nobody saw the outcome of is told in their receipts.
    pub(crate) async fn take_up_abandoned(&self) -> Result<(), Unavailable> {
        let (mut resumed, mut ended) = (0usize, 0usize);
        for (realm, row) in self.0.store.abandoned_runs(self.0.clock.now()).await? {
            let live = self.0.hub.get_or_insert(row.id);
            // One that began here just now may not know yet whose it is.
            if live.is_driven() {
                continue;
            }
            let taken_up = take_up(self.0.send(&live, &Arc::new(realm), Wish::Wake), row.id);
            if row.durable {
                resumed += 1;
                self.0.drivers.spawn(taken_up);
            } else {
                ended += 1;
                taken_up.await;
            }
        }
        if resumed + ended > 0 {
            tracing::warn!(resumed, ended, "a server that is gone left runs in the middle");
        }
        Ok(())
    }

    /// Goes on with the runs whose journals could not be written, if they can be now.
    fn try_lost_again(&self) {
        let lost = std::mem::take(&mut *self.0.lost.lock().unwrap_or_else(PoisonError::into_inner));
        for (run, (home, wish)) in lost {
            let shared = Arc::clone(&self.0);
            self.0.drivers.spawn(async move {
                let live = shared.hub.get_or_insert(run);
                let sent = shared.send(&live, &home, wish.clone()).await;
                // One that was lost once more is remembered by its driver; one that cannot be read is by nobody.
                if let Err(error) = sent.or_else(SignalError::unless_elsewhere) {
                    tracing::warn!(%run, error = &error as &dyn std::error::Error, "a run cannot be gone on with yet");
                    Host::lost(&*shared, run, &home, wish);
                }
            });
        }
    }

    /// Wakes runs whose time has come, and where servers share a database takes up what lost ones left, until `stop`.
    pub(crate) async fn keep_time(self, shared: bool, stop: CancellationToken) {
        // A run may have ended whose server died before it could tell the one that waits for it. At first that one does
        // not have to wait until it would look by itself.
        let mut ahead = LOOK_AFTER_US;
        loop {
            if shared && let Err(error) = self.take_up_abandoned().await {
                tracing::warn!(error = &error as &dyn std::error::Error, "cannot see which runs are abandoned");
            }
            self.try_lost_again();
            let pause = match self.0.wake_due(std::mem::take(&mut ahead)).await {
                Ok(pause) => pause,
                Err(error) => {
                    tracing::warn!(error = &error as &dyn std::error::Error, "cannot see which runs are due");
                    LONGEST_SLEEP
                }
            };
            tokio::select! {
                () = stop.cancelled() => return,
                () = tokio::time::sleep(pause) => {}
                () = self.0.put_down.notified() => {}
            }
        }
    }
}

impl Inner {
    /// Wakes what is due within so many microseconds, and says when to look again.
    async fn wake_due(self: &Arc<Self>, ahead: i64) -> Result<Duration, Unavailable> {
        let by = Timestamp::from_micros(self.clock.now().as_micros().saturating_add(ahead));
        for (realm, row) in self.store.due_runs(by, AT_ONCE).await? {
            let live = self.hub.get_or_insert(row.id);
            let sent = self.send(&live, &Arc::new(realm), Wish::Wake).await;
            if let Err(error) = sent.or_else(SignalError::unless_elsewhere) {
                tracing::warn!(run = %row.id, error = &error as &dyn std::error::Error, "a run that is due cannot be woken");
            }
        }
        let Some(next) = self.store.next_wake().await? else { return Ok(LONGEST_SLEEP) };
        let micros = next.as_micros().saturating_sub(self.clock.now().as_micros());
        // Never at once: a run that cannot be woken must not keep the server busy.
        let pause = Duration::from_micros(u64::try_from(micros).unwrap_or(0)).max(Duration::from_millis(100));
        Ok(pause.min(LONGEST_SLEEP))
    }
}

async fn take_up(sent: impl Future<Output = Result<(), SignalError>>, run: RunId) {
    // Another server may have been faster.
    if let Err(error) = sent.await.or_else(SignalError::unless_elsewhere) {
        tracing::error!(%run, error = &error as &dyn std::error::Error, "a run that was left cannot be taken up");
    }
}
