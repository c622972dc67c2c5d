//! Writes what runs do: in the order it was queued, many changes to a transaction, one run's failure apart from the
//! others.
//!
//! A commit costs far more than the rows in it, so everything that is waiting when a transaction ends shares the next
//! one. What is *not* here: any retry. A run whose change failed has a gap where the change should be; it is refused
//! until its driver has looked at what is stored and says so by [`Writer::forget`].

mod apply;
mod batch;
mod bell;
mod plan;
mod refused;
mod service;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use toolwright_types::{Clock, ConversationId, RealmId, RunId};

use crate::conversations::{NewConversation, NewTurn};
use crate::db::Unavailable;
use crate::ledger::Ledger;
use crate::runs::{Checkpoint, Entry, NewRun, Part, RunState, ServerId, Wait};
use crate::store::Store;

use batch::{Job, Write};
use bell::{Bell, RingWhenGone};
use refused::Refused;

pub use service::WriterService;
pub(crate) use service::write_all;

/// One thing that a run changes.
#[derive(Debug, Clone, PartialEq)]
pub enum Change {
    /// The run begins.
    Begin {
        /// The realm it belongs to.
        realm: RealmId,
        /// The run.
        run: Box<NewRun>,
        /// Where it stands.
        state: Box<RunState>,
    },
    /// An entry of it names this, which is kept once for the realm.
    Keep {
        /// The realm.
        realm: RealmId,
        /// What is kept.
        part: Part,
    },
    /// Something happened in it.
    Append(Entry),
    /// It stands somewhere else now.
    Settle {
        /// Where it stands.
        state: RunState,
        /// What it waits for, instead of all it waited for before.
        waits: Vec<Wait>,
    },
    /// It can be gone on with from here, without what came before.
    Checkpoint(Checkpoint),
    /// It answers something that was said to it through [`Store::say`].
    Answer {
        /// What was said.
        id: String,
        /// The answer, as JSON.
        answer: String,
    },
    /// It has ended, and its steps are of no use any more.
    ClearSteps,
    /// A conversation begins.
    OpenConversation {
        /// The realm it belongs to.
        realm: RealmId,
        /// The conversation.
        conversation: NewConversation,
    },
    /// Something was said. Lost on a conversation that was deleted meanwhile.
    AddTurns {
        /// The realm of the conversation.
        realm: RealmId,
        /// The conversation.
        conversation: ConversationId,
        /// What was said; it gets the next free indexes.
        turns: Vec<NewTurn>,
        /// What the conversation is called from now on if it has no title.
        title_if_none: Option<String>,
    },
    /// The first turns were put in short. Lost on a conversation that was deleted meanwhile.
    Summarise {
        /// The realm of the conversation.
        realm: RealmId,
        /// The conversation.
        conversation: ConversationId,
        /// The summary.
        summary: String,
        /// How many turns, from the first on, it stands for.
        summarised_turns: u32,
    },
}

/// How a writer trades time for work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WriterOptions {
    /// How many calls can be queued before a caller has to wait.
    pub queue: usize,
    /// A transaction takes no further calls once it has this many changes.
    pub max_batch: usize,
    /// How long changes that nobody waits for may be held back to share a transaction with later ones.
    pub linger: Duration,
}

impl Default for WriterOptions {
    fn default() -> Self {
        Self { queue: 4096, max_batch: 2048, linger: Duration::from_millis(10) }
    }
}

/// Why a change is not written.
#[derive(Debug, Clone, thiserror::Error)]
pub enum WriteError {
    /// What was to be written is there already, or the run was taken over: someone else drives it, or has begun it.
    #[error("run `{0}` has another owner")]
    Conflict(RunId),
    /// The database failed on this change, or on one before it; whether that one is stored must be read.
    #[error("run `{run}` is not written any more: one of its changes failed")]
    Unavailable {
        /// The run.
        run: RunId,
        /// What the database said.
        #[source]
        source: Arc<Unavailable>,
    },
    /// The writer has ended, and writes nothing more for anyone.
    #[error("the writer has stopped")]
    Stopped,
}

/// The way in to a [`WriterService`]. Clones share it.
#[derive(Clone)]
pub struct Writer {
    queue: mpsc::Sender<Job>,
    refused: Refused,
    bell: Arc<Bell>,
    // Behind the queue: who hears it finds the queue closed.
    _gone: RingWhenGone,
}

impl Writer {
    /// Queues changes of a run, and returns when they are queued. They are written together, after all that was
    /// queued before; if that fails, a later call for the same run says so.
    pub async fn write(&self, run: RunId, changes: Vec<Change>) -> Result<(), WriteError> {
        self.refused.check(run)?;
        let count = changes.len();
        self.queue(Job::Write(Write { run, changes, done: None })).await?;
        self.bell.queued(count, self.queue.capacity());
        Ok(())
    }

    /// Queues changes of a run, and returns when they and all earlier ones of the run are committed. Without
    /// changes, waits for the earlier ones alone. After [`WriteError::Stopped`] they may be written or not.
    pub async fn commit(&self, run: RunId, changes: Vec<Change>) -> Result<(), WriteError> {
        self.refused.check(run)?;
        let (done, committed) = oneshot::channel();
        self.queue(Job::Write(Write { run, changes, done: Some(done) })).await?;
        self.bell.ring();
        committed.await.unwrap_or(Err(WriteError::Stopped))
    }

    /// Lets a run that was refused be written again. What was queued for it until now stays refused. Also for a run
    /// that is given up: a writer remembers each that it refuses.
    pub async fn forget(&self, run: RunId) -> Result<(), WriteError> {
        let (done, forgotten) = oneshot::channel();
        self.queue(Job::Forget { run, done }).await?;
        self.bell.ring();
        forgotten.await.map_err(|_| WriteError::Stopped)
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

/// A writer of the runs that a server drives, and the service that does its work once it is [run](WriterService::run).
pub fn writer(
    ledger: Arc<dyn Ledger>,
    clock: Arc<dyn Clock>,
    server: ServerId,
    options: WriterOptions,
) -> (Writer, WriterService) {
    let (sender, receiver) = mpsc::channel(options.queue.max(1));
    let (refused, bell) = (Refused::default(), Arc::new(Bell::new(options.max_batch)));
    let service = WriterService::new(ledger, clock, server, receiver, refused.clone(), Arc::clone(&bell), options);
    let gone = RingWhenGone(Arc::clone(&bell));
    (Writer { queue: sender, refused, bell, _gone: gone }, service)
}

impl Store {
    /// A [`writer`] to this store.
    pub fn writer(&self, server: ServerId, options: WriterOptions) -> (Writer, WriterService) {
        writer(Arc::new(self.clone()), Arc::clone(&self.clock), server, options)
    }
}
