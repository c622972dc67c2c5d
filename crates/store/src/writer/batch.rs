//! Defines the queued jobs, and the batches of jobs that are written in one transaction.

use tokio::sync::oneshot;
use toolwright_types::RunId;

use super::{BuildChanges, RunChange, WriteError};

/// One call to the [`Writer`](super::Writer).
pub(super) enum Job {
    Write(Write),
    /// Changes that the service builds just before it writes them. No other code needs these changes earlier.
    Build {
        run: RunId,
        build: BuildChanges,
    },
    ClearFailure {
        run: RunId,
        done: oneshot::Sender<()>,
    },
}

/// The changes of one run. Either all of them are written or none.
pub(super) struct Write {
    pub(super) run: RunId,
    pub(super) changes: Vec<RunChange>,
    /// The channel to the caller, if the caller waits for the commit.
    pub(super) done: Option<oneshot::Sender<Result<(), WriteError>>>,
}

impl Write {
    /// Whether these changes end the run.
    pub(super) fn ends(&self) -> bool {
        self.changes
            .iter()
            .any(|change| matches!(change, RunChange::UpdateState { state, .. } if state.status.is_terminal()))
    }

    pub(super) fn reply(self, outcome: Result<(), WriteError>) {
        if let Some(done) = self.done {
            // Sending fails if the caller has stopped waiting. The changes are written nevertheless.
            let _ = done.send(outcome);
        }
    }
}

/// The writes of the next transaction.
#[derive(Default)]
pub(super) struct Batch {
    pub(super) writes: Vec<Write>,
    /// A request to clear the failure of a run. It is applied after the writes and closes the batch. Writes of the run
    /// that were queued earlier stay rejected. Writes that are queued later go to the next batch.
    pub(super) clear_failure: Option<(RunId, oneshot::Sender<()>)>,
    changes: usize,
    awaited: bool,
}

impl Batch {
    pub(super) fn add(&mut self, job: Job) {
        match job {
            Job::Write(write) => {
                self.changes += write.changes.len();
                self.awaited |= write.done.is_some();
                self.writes.push(write);
            }
            Job::Build { run, build } => {
                // A panic must not end the service, which writes all runs.
                let built = std::panic::catch_unwind(std::panic::AssertUnwindSafe(build));
                let changes = built.unwrap_or_else(|_| {
                    tracing::error!(%run, "the changes of a run could not be built");
                    Vec::new()
                });
                self.add(Job::Write(Write { run, changes, done: None }));
            }
            Job::ClearFailure { run, done } => self.clear_failure = Some((run, done)),
        }
    }

    /// Whether the batch is complete, so that further jobs belong to the next batch.
    pub(super) fn is_full(&self, max_changes: usize) -> bool {
        self.changes >= max_changes || self.clear_failure.is_some()
    }

    /// Whether a caller waits for the commit.
    pub(super) fn is_awaited(&self) -> bool {
        self.awaited
    }
}
