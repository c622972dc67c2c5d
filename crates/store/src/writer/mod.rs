//! Writes the changes of runs in the order in which they were queued, many changes per transaction. If the changes of
//! one run fail, other runs are not affected.
//!
//! A commit costs far more than the rows in it. Therefore all changes that are queued when a transaction ends are
//! written in the next transaction. If a change fails, the changes of its transaction are written again run by run. The
//! writer makes no other retry. After a failed change the journal of the run has a gap. Further changes of the run are
//! rejected until its driver has read the stored state and calls [`Writer::clear_failure`].

mod apply;
mod batch;
mod failed_runs;
mod run_store;
mod service;
mod wakeup;
mod write_set;

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;
use toolwright_types::{Clock, ConversationId, RealmId, RunId};

use crate::conversations::{NewConversation, NewTurn};
use crate::db::StoreError;
use crate::runs::{
    JournalEntry, NewRun, RunState, ServerId, StoredCheckpoint, StoredDecision, StoredEffect, StoredPart, UndoneEffect,
    Wait,
};
use crate::store::Store;

use batch::{Job, Write};
use failed_runs::FailedRuns;
use wakeup::{WakeOnDrop, WriterWakeup};

pub use run_store::{BoxFuture, RunChanges, RunStore};
pub use service::WriterService;
pub(crate) use service::write_all;

/// One change of a run or of its conversation.
#[derive(Debug, Clone, PartialEq)]
pub enum RunChange {
    /// Inserts the run.
    Begin {
        /// The realm.
        realm: RealmId,
        /// The run.
        run: Box<NewRun>,
        /// The state of the run.
        state: Box<RunState>,
    },
    /// Stores a shared part that an entry refers to.
    StorePart {
        /// The realm.
        realm: RealmId,
        /// The part.
        part: StoredPart,
    },
    /// Appends an entry to the journal.
    Append(JournalEntry),
    /// Updates the state and replaces the waits.
    UpdateState {
        /// The state of the run.
        state: RunState,
        /// The waits of the run. They replace all earlier waits.
        waits: Vec<Wait>,
    },
    /// Stores the decision on an approval, in the same transaction as the journal entry of the decision.
    Decide(StoredDecision),
    /// Stores the outcome of a write to the outside world, in the same transaction as the journal entry that determines
    /// it.
    RecordEffect(StoredEffect),
    /// Marks a call of another run of the same realm as undone by this run.
    UndoEffect(UndoneEffect),
    /// Saves a checkpoint, from which recovery continues without reading earlier entries.
    Checkpoint(StoredCheckpoint),
    /// Stores the reply to a command in the run's inbox.
    Reply {
        /// The id of the command.
        id: String,
        /// The reply, as JSON.
        reply: String,
    },
    /// Deletes the tasks of a run that has ended.
    ClearTasks,
    /// Inserts a conversation.
    OpenConversation {
        /// The realm.
        realm: RealmId,
        /// The conversation.
        conversation: NewConversation,
    },
    /// Appends turns to a conversation. Ignored if the conversation was deleted.
    AddTurns {
        /// The realm of the conversation.
        realm: RealmId,
        /// The conversation.
        conversation: ConversationId,
        /// The turns. They are numbered with the next free indexes.
        turns: Vec<NewTurn>,
        /// The title to set if the conversation has no title.
        title_if_none: Option<String>,
    },
    /// Replaces the shared context of a conversation. Ignored if the conversation was deleted.
    ShareContext {
        /// The realm of the conversation.
        realm: RealmId,
        /// The conversation.
        conversation: ConversationId,
        /// The shared context, as JSON.
        shared_context: String,
    },
    /// Replaces the summary of the first turns. Ignored if the conversation was deleted.
    Summarise {
        /// The realm of the conversation.
        realm: RealmId,
        /// The conversation.
        conversation: ConversationId,
        /// The summary.
        summary: String,
        /// The number of turns that `summary` summarises, counted from the first turn.
        summarised_turns: u32,
    },
}

/// The options of a writer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WriterOptions {
    /// The number of calls that can be queued before a caller has to wait.
    pub queue: usize,
    /// The number of changes after which a transaction accepts no further changes.
    pub max_batch: usize,
    /// The maximum delay of changes for which no caller waits. The delay lets later changes join the same transaction.
    pub linger: Duration,
}

impl Default for WriterOptions {
    fn default() -> Self {
        Self { queue: 4096, max_batch: 2048, linger: Duration::from_millis(10) }
    }
}

/// The reason why a change is not written.
#[derive(Debug, Clone, thiserror::Error)]
pub enum WriteError {
    /// A row that the change inserts exists already. Another writer has started the run or appended the entry.
    #[error("run `{0}` was already written by another writer")]
    Conflict(RunId),
    /// The server no longer drives the run, or a newer state of the run is already stored.
    #[error("run `{0}` is driven by another server")]
    LeaseLost(RunId),
    /// The database failed on this change or on an earlier change of the run. Read the stored state to find out which
    /// changes were written.
    #[error("changes of run `{run}` are rejected because an earlier change failed")]
    Store {
        /// The run.
        run: RunId,
        /// The error of the database.
        #[source]
        source: Arc<StoreError>,
    },
    /// The writer service has stopped.
    #[error("the writer has stopped")]
    Stopped,
}

/// A function that builds the changes of a run.
pub type BuildChanges = Box<dyn FnOnce() -> Vec<RunChange> + Send>;

/// The expected number of changes that one call of [`Writer::build_and_write`] builds.
const BUILT_CHANGES: usize = 4;

/// The handle of a [`WriterService`]. Clones share the queue.
#[derive(Clone)]
pub struct Writer {
    queue: mpsc::Sender<Job>,
    failed_runs: FailedRuns,
    wakeup: Arc<WriterWakeup>,
    /// Cancelled when the service has stopped or was dropped.
    service_ended: CancellationToken,
    // Declared after the queue, because fields are dropped in the order of their declaration. Dropping this field wakes
    // the service, which must then find the queue closed.
    _wake_on_drop: WakeOnDrop,
}

impl Writer {
    /// Queues changes of a run and returns without waiting for the commit. The changes are written in one transaction,
    /// after all changes that were queued before them. If the write fails, a later call for the same run returns the
    /// error.
    pub async fn write(&self, run: RunId, changes: Vec<RunChange>) -> Result<(), WriteError> {
        self.failed_runs.check(run)?;
        let count = changes.len();
        self.queue(Job::Write(Write { run, changes, done: None })).await?;
        self.wakeup.changes_queued(count, self.queue.capacity());
        Ok(())
    }

    /// Like [`Writer::write`], for changes that the service builds just before it writes them. This saves the caller's
    /// time. The service builds the changes of many runs in one batch, which costs less than building them separately
    /// for each call.
    pub async fn build_and_write(&self, run: RunId, build: BuildChanges) -> Result<(), WriteError> {
        self.failed_runs.check(run)?;
        self.queue(Job::Build { run, build }).await?;
        self.wakeup.changes_queued(BUILT_CHANGES, self.queue.capacity());
        Ok(())
    }

    /// Queues changes of a run and waits until they, and all earlier changes of the run, are committed. With an empty
    /// list, waits for the earlier changes. After [`WriteError::Stopped`] it is unknown whether the changes were
    /// written.
    pub async fn commit(&self, run: RunId, changes: Vec<RunChange>) -> Result<(), WriteError> {
        self.failed_runs.check(run)?;
        let (done, committed) = oneshot::channel();
        self.queue(Job::Write(Write { run, changes, done: Some(done) })).await?;
        self.wakeup.wake();
        self.reply(committed).await.flatten()
    }

    /// Accepts changes of a failed run again. Changes that were queued before this call stay rejected. Also call this
    /// when a driver gives up a failed run, because otherwise the writer remembers the run forever.
    pub async fn clear_failure(&self, run: RunId) -> Result<(), WriteError> {
        let (done, cleared) = oneshot::channel();
        self.queue(Job::ClearFailure { run, done }).await?;
        self.wakeup.wake();
        self.reply(cleared).await
    }

    /// Waits for the service's reply to a job, or until the service has ended.
    ///
    /// It is not enough to wait until the reply's sender is dropped. A job that is sent while the receiver of the queue
    /// is dropped can stay in the queue as long as a writer exists. Then the reply's sender, which is part of the job,
    /// is not dropped either.
    async fn reply<T>(&self, mut reply: oneshot::Receiver<T>) -> Result<T, WriteError> {
        tokio::select! {
            biased;
            received = &mut reply => received.map_err(|_| WriteError::Stopped),
            // The service may have replied just before it ended.
            () = self.service_ended.cancelled() => reply.try_recv().map_err(|_| WriteError::Stopped),
        }
    }

    async fn queue(&self, job: Job) -> Result<(), WriteError> {
        self.queue.send(job).await.map_err(|_| WriteError::Stopped)
    }
}

impl fmt::Debug for Writer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Writer").field("free", &self.queue.capacity()).finish_non_exhaustive()
    }
}

/// Creates a writer for the runs that `server` drives, and the service that performs the writes. Nothing is written
/// until [`WriterService::run`] is called.
pub fn writer(
    run_store: Arc<dyn RunStore>,
    clock: Arc<dyn Clock>,
    server: ServerId,
    options: WriterOptions,
) -> (Writer, WriterService) {
    let (sender, receiver) = mpsc::channel(options.queue.max(1));
    let (failed_runs, wakeup) = (FailedRuns::default(), Arc::new(WriterWakeup::new(options.max_batch)));
    let service_ended = CancellationToken::new();
    let service = WriterService {
        run_store,
        clock,
        server,
        stored_parts: HashMap::new(),
        queue: receiver,
        failed_runs: failed_runs.clone(),
        wakeup: Arc::clone(&wakeup),
        options,
        _ended: service_ended.clone().drop_guard(),
    };
    let wake_on_drop = WakeOnDrop(Arc::clone(&wakeup));
    (Writer { queue: sender, failed_runs, wakeup, service_ended, _wake_on_drop: wake_on_drop }, service)
}

impl Store {
    /// Creates a [`writer`] for this store.
    pub fn writer(&self, server: ServerId, options: WriterOptions) -> (Writer, WriterService) {
        writer(Arc::new(self.clone()), Arc::clone(&self.clock), server, options)
    }
}

#[cfg(test)]
mod tests {
    use toolwright_types::DocumentId as _;

    use super::*;

    #[tokio::test]
    async fn job_queued_while_the_service_is_dropped_fails_with_stopped() {
        let (queue, receiver) = mpsc::channel(1);
        let (wakeup, service_ended) = (Arc::new(WriterWakeup::new(1)), CancellationToken::new());
        let writer = Writer {
            queue,
            failed_runs: FailedRuns::default(),
            wakeup: Arc::clone(&wakeup),
            service_ended: service_ended.clone(),
            _wake_on_drop: WakeOnDrop(wakeup),
        };
        // The job gets its place in the queue before the receiver is dropped, and is sent afterwards.
        let place = writer.queue.reserve().await.unwrap();
        drop(receiver);
        let (done, cleared) = oneshot::channel();
        place.send(Job::ClearFailure { run: RunId::generate(), done });
        service_ended.cancel();
        assert!(matches!(writer.reply(cleared).await, Err(WriteError::Stopped)));
    }
}
