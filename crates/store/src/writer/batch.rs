//! What is queued, and what of it shares a transaction.

use tokio::sync::oneshot;
use toolwright_types::RunId;

use super::{Change, WriteError};

/// One call of the writer.
pub(super) enum Job {
    Write(Write),
    Forget { run: RunId, done: oneshot::Sender<()> },
}

/// Changes of one run that are written together or not at all.
pub(super) struct Write {
    pub(super) run: RunId,
    pub(super) changes: Vec<Change>,
    /// Whoever waits for it.
    pub(super) done: Option<oneshot::Sender<Result<(), WriteError>>>,
}

impl Write {
    /// Whether the run ends with it.
    pub(super) fn ends(&self) -> bool {
        self.changes.iter().any(|change| matches!(change, Change::Settle { state, .. } if state.status.is_end()))
    }

    pub(super) fn answer(self, outcome: Result<(), WriteError>) {
        if let Some(done) = self.done {
            // Whoever asked may have gone; what was written stays written.
            let _ = done.send(outcome);
        }
    }
}

/// The writes of the next transaction.
#[derive(Default)]
pub(super) struct Batch {
    pub(super) writes: Vec<Write>,
    /// Comes after the writes, and ends the batch: what is queued behind it may be written, what is before may not.
    pub(super) forget: Option<(RunId, oneshot::Sender<()>)>,
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
            Job::Forget { run, done } => self.forget = Some((run, done)),
        }
    }

    /// Whether it must take nothing more.
    pub(super) fn is_full(&self, max_changes: usize) -> bool {
        self.changes >= max_changes || self.forget.is_some()
    }

    /// Whether someone waits for it.
    pub(super) fn is_awaited(&self) -> bool {
        self.awaited
    }
}
