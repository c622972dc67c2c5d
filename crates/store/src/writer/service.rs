//! The background service that writes the queued changes.

use std::collections::{HashMap, HashSet};
use std::pin::pin;
use std::sync::Arc;

use tokio::sync::mpsc;
use tokio::sync::mpsc::error::TryRecvError;
use tokio::time::sleep;
use tokio_util::sync::{CancellationToken, DropGuard};
use toolwright_types::{Clock, RealmId, RunId, Timestamp};

use super::apply::apply;
use super::batch::{Batch, Job, Write};
use super::failed_runs::FailedRuns;
use super::run_store::{RunChanges, RunStore};
use super::wakeup::WriterWakeup;
use super::write_set::WriteSet;
use super::{RunChange, WriteError, WriterOptions};
use crate::db::StoreError;
use crate::runs::write::ApplyError;
use crate::runs::{PartHash, ServerId};
use crate::store::Store;

/// The duration for which a stored shared part is not written again, in microseconds. Within this duration, the stored
/// time of the part's last use is not updated. The duration must therefore be far shorter than the duration for which
/// unreferenced parts are kept.
const PART_CACHE_TTL_US: i64 = 3_600_000_000;
/// The maximum number of cached hashes of shared parts.
const MAX_CACHED_PARTS: usize = 50_000;

/// The service behind a [`Writer`](crate::Writer).
pub struct WriterService {
    pub(super) run_store: Arc<dyn RunStore>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) server: ServerId,
    /// The hashes of recently written shared parts, with the time of the write. A shared part is JSON that the first
    /// entries of many runs have in common.
    pub(super) stored_parts: HashMap<(RealmId, PartHash), Timestamp>,
    pub(super) queue: mpsc::Receiver<Job>,
    pub(super) failed_runs: FailedRuns,
    pub(super) wakeup: Arc<WriterWakeup>,
    pub(super) options: WriterOptions,
    /// Tells the writers that the service has ended.
    pub(super) _ended: DropGuard,
}

impl WriterService {
    /// Writes queued changes until `stop` is cancelled or the last [`Writer`](crate::Writer) is dropped. Then closes
    /// the queue, writes the remaining changes and returns. If the future is dropped before it completes, uncommitted
    /// changes are lost.
    pub async fn run(mut self, stop: CancellationToken) {
        while let Some(first) = self.next_job(&stop).await {
            let batch = self.collect_batch(first, &stop).await;
            self.write(batch).await;
        }
    }

    async fn next_job(&mut self, stop: &CancellationToken) -> Option<Job> {
        tokio::select! {
            biased;
            () = stop.cancelled() => self.queue.close(),
            job = self.queue.recv() => return job,
        }
        // A closed queue still returns the jobs that were queued before it was closed.
        self.queue.recv().await
    }

    /// Collects all queued jobs in a batch. While no caller waits for a job of the batch, also waits for further jobs.
    async fn collect_batch(&mut self, first: Job, stop: &CancellationToken) -> Batch {
        let mut batch = Batch::default();
        batch.add(first);
        let mut linger = pin!(sleep(self.options.linger));
        let (mut yielded, mut linger_over) = (false, false);
        loop {
            self.wakeup.reset();
            while !batch.is_full(self.options.max_batch) {
                match self.queue.try_recv() {
                    Ok(job) => batch.add(job),
                    Err(TryRecvError::Empty) => break,
                    Err(TryRecvError::Disconnected) => return batch,
                }
            }
            if linger_over || batch.is_full(self.options.max_batch) {
                return batch;
            }
            if batch.is_awaited() {
                // Yield once: callers that waited for the last commit continue now, and their next changes can join
                // this batch.
                if !std::mem::replace(&mut yielded, true) {
                    tokio::task::yield_now().await;
                    continue;
                }
                return batch;
            }
            linger_over = tokio::select! {
                biased;
                () = self.wakeup.wait() => false,
                () = stop.cancelled() => true,
                () = &mut linger => true,
            };
        }
    }

    async fn write(&mut self, batch: Batch) {
        let (mut accepted, rejected): (Vec<_>, Vec<_>) =
            batch.writes.into_iter().partition(|write| self.failed_runs.check(write.run).is_ok());
        let now = self.clock.now();
        let new_parts = self.drop_cached_parts(&mut accepted, now);
        let changed = accepted.iter().filter(|write| !write.changes.is_empty());
        let changes: Vec<RunChanges<'_>> = changed.map(|write| (write.run, write.changes.as_slice())).collect();
        let failed =
            if changes.is_empty() { HashMap::new() } else { self.run_store.write(&self.server, now, &changes).await };
        drop(changes);
        if failed.is_empty() {
            self.stored_parts.extend(new_parts.into_iter().map(|part| (part, now)));
        }
        self.record_failures(&accepted, failed);
        for write in accepted.into_iter().chain(rejected) {
            let outcome = self.failed_runs.check(write.run);
            write.reply(outcome);
        }
        if let Some((run, done)) = batch.clear_failure {
            self.failed_runs.remove(run);
            // Sending fails if the caller has stopped waiting.
            let _ = done.send(());
        }
    }

    /// Removes the changes that would store a recently written shared part again. Returns the keys of the parts that
    /// are still to be written.
    fn drop_cached_parts(&mut self, writes: &mut [Write], now: Timestamp) -> Vec<(RealmId, PartHash)> {
        let mut new_parts = Vec::new();
        if self.stored_parts.len() > MAX_CACHED_PARTS {
            self.stored_parts.clear();
        }
        for write in writes {
            write.changes.retain(|change| {
                let RunChange::StorePart { realm, part } = change else { return true };
                let key = (*realm, part.hash.clone());
                let age = |at: &Timestamp| now.as_micros().saturating_sub(at.as_micros());
                let is_new = self.stored_parts.get(&key).is_none_or(|at| age(at) > PART_CACHE_TTL_US);
                if is_new {
                    new_parts.push(key);
                }
                is_new
            });
        }
        new_parts
    }

    fn record_failures(&self, writes: &[Write], failed: HashMap<RunId, WriteError>) {
        let Some(error) = failed.values().next() else { return };
        // One log line reports all runs: when the database fails, many runs fail for the same reason.
        tracing::warn!(runs = failed.len(), %error, cause = ?std::error::Error::source(error), "runs were not written");
        let ended: HashSet<RunId> = writes.iter().filter(|write| write.ends()).map(|write| write.run).collect();
        for (run, error) in failed {
            if ended.contains(&run) {
                self.failed_runs.insert_ended(run, error);
            } else {
                self.failed_runs.insert(run, error);
            }
        }
    }
}

/// Writes the changes of all runs. Returns the runs whose changes were not written, with the errors.
pub(crate) async fn write_all(
    store: &Store,
    server: &ServerId,
    now: Timestamp,
    writes: &[RunChanges<'_>],
) -> HashMap<RunId, WriteError> {
    let outcome = match write_together(store, server, now, writes).await {
        Ok(()) => Ok(HashMap::new()),
        Err(BatchFailure::Change) => write_run_by_run(store, server, now, writes).await,
        Err(BatchFailure::Transaction(error)) => Err(error),
    };
    match outcome {
        Ok(failed) => failed.into_iter().map(|(run, error)| (run, apply_failed(run, error))).collect(),
        Err(error) => {
            let error = Arc::new(error);
            writes.iter().map(|(run, _)| (*run, store_failed(*run, error.clone()))).collect()
        }
    }
}

/// The reason why a batch was not written.
enum BatchFailure {
    /// One of the changes failed. The changes of other runs may succeed.
    Change,
    /// The transaction did not begin, or it is unknown whether the transaction was committed. There is no retry,
    /// because a retry could find rows of the first attempt and report a conflict.
    Transaction(StoreError),
}

async fn write_together(
    store: &Store,
    server: &ServerId,
    now: Timestamp,
    writes: &[RunChanges<'_>],
) -> Result<(), BatchFailure> {
    let write_set = WriteSet::from_changes(server, writes.iter().flat_map(changes_of));
    let mut tx = store.db.begin().await.map_err(BatchFailure::Transaction)?;
    let has_events = apply(&mut tx, &write_set, server, now).await.map_err(|_| BatchFailure::Change)?;
    tx.commit_unannounced().await.map_err(BatchFailure::Transaction)?;
    if has_events {
        store.announce_events();
    }
    Ok(())
}

/// Writes the runs one by one in one transaction, with a savepoint per run. Returns the runs that failed; none of their
/// changes are written.
async fn write_run_by_run(
    store: &Store,
    server: &ServerId,
    now: Timestamp,
    writes: &[RunChanges<'_>],
) -> Result<HashMap<RunId, ApplyError>, StoreError> {
    let mut failed = HashMap::new();
    let mut tx = store.db.begin().await?;
    for (run, writes) in by_run(writes) {
        let write_set = WriteSet::from_changes(server, writes.into_iter().flat_map(changes_of));
        tx.savepoint().await?;
        match apply(&mut tx, &write_set, server, now).await {
            Ok(_) => tx.release_savepoint().await?,
            Err(error) => {
                tx.rollback_to_savepoint().await?;
                failed.insert(run, error);
            }
        }
    }
    tx.commit_unannounced().await?;
    store.announce_events();
    Ok(failed)
}

/// Groups the writes by run, in the order of each run's first write.
fn by_run<'a, 'b>(writes: &'a [RunChanges<'b>]) -> Vec<(RunId, Vec<&'a RunChanges<'b>>)> {
    let mut indexes = HashMap::new();
    let mut runs: Vec<(RunId, Vec<&RunChanges<'_>>)> = Vec::new();
    for write in writes {
        let index = *indexes.entry(write.0).or_insert(runs.len());
        match runs.get_mut(index) {
            Some((_, run_writes)) => run_writes.push(write),
            None => runs.push((write.0, vec![write])),
        }
    }
    runs
}

fn changes_of<'a>(&(run, changes): &RunChanges<'a>) -> impl Iterator<Item = (RunId, &'a RunChange)> {
    changes.iter().map(move |change| (run, change))
}

fn apply_failed(run: RunId, error: ApplyError) -> WriteError {
    match error {
        ApplyError::LeaseLost => WriteError::LeaseLost(run),
        ApplyError::Store(error) => store_failed(run, Arc::new(error)),
    }
}

fn store_failed(run: RunId, source: Arc<StoreError>) -> WriteError {
    if source.is_unique_violation() { WriteError::Conflict(run) } else { WriteError::Store { run, source } }
}
