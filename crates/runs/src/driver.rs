//! The loop that drives one run in this process until the run ends or is suspended.
//!
//! A run that only waits for approvals, clients or child runs is suspended. A suspended run has no driver until a
//! command arrives or its timer is due.

use std::sync::Arc;
use std::time::Duration;

use futures::{FutureExt, StreamExt};
use tokio::sync::mpsc;
use toolwright_catalog::Unavailable;
use toolwright_machine::agent::EventKind;
use toolwright_store::WriteError;
use toolwright_types::{Clock, Timestamp};

use super::command::{CommandError, CommandRequest, RunCommand};
use super::core::{Driven, RunCore, interrupted};
use super::journal::Durability;

/// Drives one run.
pub(super) struct Driver {
    pub core: RunCore,
    pub inbox: mpsc::UnboundedReceiver<CommandRequest>,
    /// An event that the driver records first, such as the recovery of the run.
    pub first: Option<EventKind>,
}

/// Why the loop ended.
enum LoopEnd {
    /// The run has ended.
    Ended,
    /// The run is suspended, and its row is updated.
    Suspended,
    /// The server is stopping. Another server recovers the run, or this server does after a restart.
    Stopped,
}

impl Driver {
    /// Drives the run until it ends or is suspended.
    pub(crate) async fn run(mut self) {
        let correlation = self.core.start.correlation_id();
        tracing::Span::current().record("correlation", correlation.as_str());
        match self.run_loop().await {
            Ok(LoopEnd::Suspended) => {}
            Ok(LoopEnd::Stopped) => self.reject_commands(|| Unavailable::new("the server is stopping", "no driver")),
            Ok(LoopEnd::Ended) => self.retire(),
            Err(error) => {
                let run = self.core.handle.id;
                tracing::error!(%run, error = &error as &dyn std::error::Error, "the journal failed; the run is recovered later");
                self.reject_commands(|| error.clone().into());
                self.core.host.recover_later(run, &self.core.home, RunCommand::Wake);
            }
        }
    }

    async fn run_loop(&mut self) -> Result<LoopEnd, WriteError> {
        if let Some(first) = self.first.take() {
            self.core.abandon_timed_out_children();
            let _ = self.core.record_and_apply(first, Durability::Committed).await?;
        }
        loop {
            self.core.start_effects().await?;
            if self.core.machine.ending().is_some() {
                self.core.finish().await?;
                return Ok(LoopEnd::Ended);
            }
            if self.core.work.effects.is_empty() && self.core.machine.suspended() {
                match self.suspend().await? {
                    None => return Ok(LoopEnd::Suspended),
                    Some(request) => {
                        self.reacquire().await?;
                        self.handle(request).await?;
                    }
                }
                continue;
            }
            if let Some(Some(outcome)) = self.core.work.effects.next().now_or_never() {
                self.core.complete(outcome?).await?;
                continue;
            }
            // No effect has finished, so the driver is about to wait. The writer can commit the buffered entries
            // meanwhile.
            self.core.journal.hand_over().await?;
            let wake_at = self.core.machine.wake_at();
            tokio::select! {
                biased;
                Some(request) = self.inbox.recv() => self.handle(request).await?,
                Some(outcome) = self.core.work.effects.next() => self.core.complete(outcome?).await?,
                () = sleep_until(self.core.host.clock(), wake_at) => self.core.check_clock().await?,
                () = self.core.host.stop().cancelled() => {
                    if self.core.start.durable {
                        self.core.executor.cancel();
                        return Ok(LoopEnd::Stopped);
                    }
                    let _ = self.core.record_and_apply(interrupted(), Durability::Deferred).await?;
                }
            }
        }
    }

    async fn handle(&mut self, request: CommandRequest) -> Result<(), WriteError> {
        let result = self.core.handle_command(request.command).await?;
        // Sending fails if the sender of the command no longer waits for the reply. The reply is then discarded.
        let _ = request.reply.send(result);
        Ok(())
    }

    /// Suspends the run. Returns a command if one arrived while the run was being suspended.
    async fn suspend(&mut self) -> Result<Option<CommandRequest>, WriteError> {
        self.core.commit(Driven::No).await?;
        self.core.host.run_suspended();
        let request = self.core.handle.release(&mut self.inbox, Some(self.core.snapshot()));
        if request.is_none() {
            self.core.notify_parent_of_suspension();
        }
        Ok(request)
    }

    /// Makes this server the driver of the run again, directly after the run was suspended. Fails if another server has
    /// claimed the run.
    async fn reacquire(&mut self) -> Result<(), WriteError> {
        let run = self.core.handle.id;
        match self.core.host.lease().claim_run(run).await {
            Ok(true) => Ok(()),
            Ok(false) => Err(WriteError::Conflict(run)),
            Err(source) => Err(WriteError::Store { run, source: Arc::new(source) }),
        }
    }

    /// Releases a run that has not ended, and rejects the commands that are still in the inbox. The stored state does
    /// not change.
    fn reject_commands(&mut self, reason: impl Fn() -> Unavailable) {
        while let Some(request) = self.core.handle.release(&mut self.inbox, None) {
            let _ = request.reply.send(Err(reason().into()));
        }
    }

    /// Releases a run that has ended, replies to the commands that are still in the inbox, and notifies the parent run.
    fn retire(mut self) {
        let snapshot = self.core.snapshot();
        let core = self.core;
        while let Some(request) = core.handle.release(&mut self.inbox, Some(Arc::clone(&snapshot))) {
            let result = match request.command {
                RunCommand::Wake | RunCommand::ChildEnded { .. } | RunCommand::ChildSuspended { .. } => Ok(()),
                _ => Err(CommandError::Ended(snapshot.run.status().to_string())),
            };
            let _ = request.reply.send(result);
        }
        core.notify_parent_of_end();
    }
}

/// Waits until a point in time, or forever if it is `None`.
pub(super) async fn sleep_until(clock: &dyn Clock, moment: Option<Timestamp>) {
    match moment {
        None => std::future::pending().await,
        Some(moment) => {
            let micros = moment.as_micros().saturating_sub(clock.now().as_micros());
            tokio::time::sleep(Duration::from_micros(u64::try_from(micros).unwrap_or(0))).await;
        }
    }
}
