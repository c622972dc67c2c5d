//! Recovers the runs of servers that have crashed or lost their leases, and wakes suspended runs whose timers are due.

use std::sync::{Arc, PoisonError};
use std::time::Duration;

use tokio_util::sync::CancellationToken;
use toolwright_types::{RunId, Timestamp};

use super::command::{CommandError, RunCommand};
use super::journal::CHILD_CHECK_INTERVAL_US;
use super::ports::DriverHost;
use super::{Inner, Runs};
use toolwright_catalog::Unavailable;

/// The maximum sleep between two checks. It is short because another server may suspend a run whose timer is due soon.
const MAX_SLEEP: Duration = Duration::from_secs(5);
/// The maximum number of due runs that one query reads.
const PAGE_SIZE: u32 = 200;

impl Runs {
    /// Sends `RunCommand::Wake` to each run whose server has no valid lease. This function does not recover the runs
    /// itself: `RunHandle::send` finds no driver for the command, so `lifecycle::send` spawns `lifecycle::recover`,
    /// which claims, loads and drives the run. `lifecycle::recover` continues a durable run, and ends any other run as
    /// interrupted. The envelopes of interrupted writes say that the outcome is unknown.
    pub async fn recover_abandoned_runs(&self) -> Result<(), Unavailable> {
        let (mut resumed, mut ended) = (0usize, 0usize);
        for (realm, row) in self.0.store.abandoned_runs(self.0.clock.now()).await? {
            let handle = self.0.registry.get_or_insert(row.id);
            // This server drives the run, but the row that names this server as the driver may not be committed yet.
            if handle.is_driven() {
                continue;
            }
            let recovery = log_failure(self.0.send(&handle, &Arc::new(realm), RunCommand::Wake), row.id);
            if row.durable {
                resumed += 1;
                self.0.drivers.spawn(recovery);
            } else {
                ended += 1;
                recovery.await;
            }
        }
        if resumed + ended > 0 {
            tracing::warn!(resumed, ended, "recovering the runs of a lost server");
        }
        Ok(())
    }

    /// Recovers the runs whose journals could not be written earlier: sends each of them the command with which it was
    /// registered.
    fn recover_unwritten_runs(&self) {
        let unwritten = std::mem::take(&mut *self.0.unwritten.lock().unwrap_or_else(PoisonError::into_inner));
        for (run, (home, command)) in unwritten {
            let shared = Arc::clone(&self.0);
            self.0.drivers.spawn(async move {
                let handle = shared.registry.get_or_insert(run);
                let sent = shared.send(&handle, &home, command.clone()).await;
                // The command could not be executed, so the run is registered again.
                if let Err(error) = sent.or_else(CommandError::ignore_not_ours) {
                    tracing::warn!(%run, error = &error as &dyn std::error::Error, "a run cannot be recovered yet");
                    DriverHost::recover_later(&*shared, run, &home, command);
                }
            });
        }
    }

    /// Wakes due runs, and recovers runs whose journals could not be written, until `stop` is cancelled. If `shared` is
    /// set (several servers share the database), also recovers the runs of servers without a valid lease.
    pub async fn run_timers(self, shared: bool, stop: CancellationToken) {
        // A server may have crashed after a child run ended and before the parent run was notified. So the first round
        // after a start also wakes the runs whose next check of their child runs is due within one interval.
        let mut ahead = CHILD_CHECK_INTERVAL_US;
        loop {
            if shared && let Err(error) = self.recover_abandoned_runs().await {
                tracing::warn!(error = &error as &dyn std::error::Error, "abandoned runs cannot be listed");
            }
            self.recover_unwritten_runs();
            let pause = match self.0.wake_due(std::mem::take(&mut ahead)).await {
                Ok(pause) => pause,
                Err(error) => {
                    tracing::warn!(error = &error as &dyn std::error::Error, "due runs cannot be listed");
                    MAX_SLEEP
                }
            };
            tokio::select! {
                () = stop.cancelled() => return,
                () = tokio::time::sleep(pause) => {}
                () = self.0.suspended.notified() => {}
            }
        }
    }
}

impl Inner {
    /// Wakes the runs that are due within `ahead` microseconds. Returns how long to sleep before the next check.
    async fn wake_due(self: &Arc<Self>, ahead: i64) -> Result<Duration, Unavailable> {
        let by = Timestamp::from_micros(self.clock.now().as_micros().saturating_add(ahead));
        for (realm, row) in self.store.due_runs(by, PAGE_SIZE).await? {
            let handle = self.registry.get_or_insert(row.id);
            let sent = self.send(&handle, &Arc::new(realm), RunCommand::Wake).await;
            if let Err(error) = sent.or_else(CommandError::ignore_not_ours) {
                tracing::warn!(run = %row.id, error = &error as &dyn std::error::Error, "a due run cannot be woken");
            }
        }
        let Some(next) = self.store.next_wake().await? else { return Ok(MAX_SLEEP) };
        let micros = next.as_micros().saturating_sub(self.clock.now().as_micros());
        // Sleeps at least 100 ms, because a run that cannot be woken remains due and would cause a busy loop.
        let pause = Duration::from_micros(u64::try_from(micros).unwrap_or(0)).max(Duration::from_millis(100));
        Ok(pause.min(MAX_SLEEP))
    }
}

async fn log_failure(sent: impl Future<Output = Result<(), CommandError>>, run: RunId) {
    // Another server may have recovered the run first, which is not an error.
    if let Err(error) = sent.await.or_else(CommandError::ignore_not_ours) {
        tracing::error!(%run, error = &error as &dyn std::error::Error, "an abandoned run cannot be recovered");
    }
}
