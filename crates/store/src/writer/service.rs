//! The one task that writes.

use std::collections::{HashMap, HashSet};
use std::pin::pin;
use std::sync::Arc;

use tokio::sync::mpsc;
use tokio::sync::mpsc::error::TryRecvError;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use toolwright_types::{Clock, RealmId, RunId, Timestamp};

use super::apply::apply;
use super::batch::{Batch, Job, Write};
use super::bell::Bell;
use super::plan::Plan;
use super::refused::Refused;
use super::{Change, WriteError, WriterOptions};
use crate::db::{Db, Unavailable};
use crate::ledger::{Ledger, RunChanges};
use crate::runs::{PartHash, ServerId};

/// How long a part counts as kept, in microseconds; far less than one that nobody wants is kept for.
const KNOWN_FOR_US: i64 = 3_600_000_000;
/// How many parts are remembered.
const MOST_KNOWN_PARTS: usize = 50_000;

/// Does the work of a [`Writer`](crate::Writer).
pub struct WriterService {
    ledger: Arc<dyn Ledger>,
    clock: Arc<dyn Clock>,
    server: ServerId,
    /// Parts that were written, and when. One that was is not written again for a while.
    kept: HashMap<(RealmId, PartHash), Timestamp>,
    queue: mpsc::Receiver<Job>,
    refused: Refused,
    bell: Arc<Bell>,
    options: WriterOptions,
}

impl WriterService {
    pub(super) fn new(
        ledger: Arc<dyn Ledger>,
        clock: Arc<dyn Clock>,
        server: ServerId,
        queue: mpsc::Receiver<Job>,
        refused: Refused,
        bell: Arc<Bell>,
        options: WriterOptions,
    ) -> Self {
        Self { ledger, clock, server, kept: HashMap::new(), queue, refused, bell, options }
    }

    /// Writes until it is stopped, or until the last writer is gone; then takes nothing new, writes what is queued,
    /// and ends. Dropped before that, it leaves everything out that no transaction has committed.
    pub async fn run(mut self, stop: CancellationToken) {
        while let Some(first) = self.next(&stop).await {
            let batch = self.fill(first, &stop).await;
            self.write(batch).await;
        }
    }

    async fn next(&mut self, stop: &CancellationToken) -> Option<Job> {
        tokio::select! {
            biased;
            () = stop.cancelled() => self.queue.close(),
            job = self.queue.recv() => return job,
        }
        // What was queued before it was closed is still given.
        self.queue.recv().await
    }

    /// A batch with all that is queued; while nobody waits for it, also with what comes soon.
    async fn fill(&mut self, first: Job, stop: &CancellationToken) -> Batch {
        let mut batch = Batch::default();
        batch.add(first);
        let mut lingered = pin!(sleep(self.options.linger));
        let (mut yielded, mut late) = (false, false);
        loop {
            self.bell.looked();
            while !batch.is_full(self.options.max_batch) {
                match self.queue.try_recv() {
                    Ok(job) => batch.add(job),
                    Err(TryRecvError::Empty) => break,
                    Err(TryRecvError::Disconnected) => return batch,
                }
            }
            if late || batch.is_full(self.options.max_batch) {
                return batch;
            }
            if batch.is_awaited() {
                // Those who were answered by the last transaction go on just now, and would have to wait for this one.
                if !std::mem::replace(&mut yielded, true) {
                    tokio::task::yield_now().await;
                    continue;
                }
                return batch;
            }
            late = tokio::select! {
                biased;
                () = self.bell.heard() => false,
                () = stop.cancelled() => true,
                () = &mut lingered => true,
            };
        }
    }

    async fn write(&mut self, batch: Batch) {
        let (mut accepted, refused): (Vec<_>, Vec<_>) =
            batch.writes.into_iter().partition(|write| self.refused.check(write.run).is_ok());
        let now = self.clock.now();
        let fresh = self.leave_out_known_parts(&mut accepted, now);
        let changed = accepted.iter().filter(|write| !write.changes.is_empty());
        let changes: Vec<RunChanges<'_>> = changed.map(|write| (write.run, write.changes.as_slice())).collect();
        let failed =
            if changes.is_empty() { HashMap::new() } else { self.ledger.write(&self.server, now, &changes).await };
        drop(changes);
        if failed.is_empty() {
            self.kept.extend(fresh.into_iter().map(|part| (part, now)));
        }
        self.refuse(&accepted, failed);
        for write in accepted.into_iter().chain(refused) {
            let outcome = self.refused.check(write.run);
            write.answer(outcome);
        }
        if let Some((run, done)) = batch.forget {
            self.refused.remove(run);
            // Whoever asked may have gone.
            let _ = done.send(());
        }
    }

    /// Drops what is kept already, and gives what will be.
    fn leave_out_known_parts(&mut self, writes: &mut [Write], now: Timestamp) -> Vec<(RealmId, PartHash)> {
        let mut fresh = Vec::new();
        if self.kept.len() > MOST_KNOWN_PARTS {
            self.kept.clear();
        }
        for write in writes {
            write.changes.retain(|change| {
                let Change::Keep { realm, part } = change else { return true };
                let key = (*realm, part.hash.clone());
                let age = |at: &Timestamp| now.as_micros().saturating_sub(at.as_micros());
                let is_new = self.kept.get(&key).is_none_or(|at| age(at) > KNOWN_FOR_US);
                if is_new {
                    fresh.push(key);
                }
                is_new
            });
        }
        fresh
    }

    fn refuse(&self, writes: &[Write], failed: HashMap<RunId, WriteError>) {
        let Some(error) = failed.values().next() else { return };
        // One for all: when the database is gone, each of many runs fails for the same reason.
        tracing::warn!(runs = failed.len(), %error, cause = ?std::error::Error::source(error), "runs were not written");
        let ended: HashSet<RunId> = writes.iter().filter(|write| write.ends()).map(|write| write.run).collect();
        for (run, error) in failed {
            if ended.contains(&run) {
                self.refused.add_ended(run, error);
            } else {
                self.refused.add(run, error);
            }
        }
    }
}

/// Writes everything, or all but the runs that it gives back with their errors.
pub(crate) async fn write_all(
    db: &Db,
    server: &ServerId,
    now: Timestamp,
    writes: &[RunChanges<'_>],
) -> HashMap<RunId, WriteError> {
    let outcome = match write_together(db, server, now, writes).await {
        Ok(()) => Ok(HashMap::new()),
        Err(Failure::Change) => write_apart(db, server, now, writes).await,
        Err(Failure::Transaction(error)) => Err(error),
    };
    match outcome {
        Ok(failed) => failed.into_iter().map(|(run, error)| (run, refusal(run, Arc::new(error)))).collect(),
        Err(error) => {
            let error = Arc::new(error);
            writes.iter().map(|(run, _)| (*run, refusal(*run, error.clone()))).collect()
        }
    }
}

/// Why a batch was not written.
enum Failure {
    /// One of its changes cannot be made; the others may be.
    Change,
    /// It did not begin, or nobody knows whether it was committed. To repeat it would be to find our own rows and take
    /// them for someone else's.
    Transaction(Unavailable),
}

async fn write_together(db: &Db, server: &ServerId, now: Timestamp, writes: &[RunChanges<'_>]) -> Result<(), Failure> {
    let plan = Plan::of(server, writes.iter().flat_map(each_change));
    let mut tx = db.begin().await.map_err(Failure::Transaction)?;
    apply(&mut tx, &plan, server, now).await.map_err(|_| Failure::Change)?;
    tx.commit_unannounced().await.map_err(Failure::Transaction)
}

/// Run by run in one transaction, and gives the runs that failed: nothing of theirs is written.
async fn write_apart(
    db: &Db,
    server: &ServerId,
    now: Timestamp,
    writes: &[RunChanges<'_>],
) -> Result<HashMap<RunId, Unavailable>, Unavailable> {
    let mut failed = HashMap::new();
    let mut tx = db.begin().await?;
    for (run, writes) in by_run(writes) {
        let plan = Plan::of(server, writes.into_iter().flat_map(each_change));
        tx.savepoint().await?;
        match apply(&mut tx, &plan, server, now).await {
            Ok(()) => tx.keep_since_savepoint().await?,
            Err(error) => {
                tx.back_to_savepoint().await?;
                failed.insert(run, error);
            }
        }
    }
    tx.commit_unannounced().await?;
    Ok(failed)
}

/// The writes of each run in their order, the runs in the order of their first.
fn by_run<'a, 'b>(writes: &'a [RunChanges<'b>]) -> Vec<(RunId, Vec<&'a RunChanges<'b>>)> {
    let mut places = HashMap::new();
    let mut runs: Vec<(RunId, Vec<&RunChanges<'_>>)> = Vec::new();
    for write in writes {
        let at = *places.entry(write.0).or_insert(runs.len());
        match runs.get_mut(at) {
            Some((_, of_run)) => of_run.push(write),
            None => runs.push((write.0, vec![write])),
        }
    }
    runs
}

fn each_change<'a>(&(run, changes): &RunChanges<'a>) -> impl Iterator<Item = (RunId, &'a Change)> {
    changes.iter().map(move |change| (run, change))
}

fn refusal(run: RunId, error: Arc<Unavailable>) -> WriteError {
    if error.is_duplicate() || error.is_missing() {
        WriteError::Conflict(run)
    } else {
        WriteError::Unavailable { run, source: error }
    }
}
