//! Remembers the runs whose changes are rejected because an earlier change failed.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use toolwright_types::RunId;

use super::WriteError;

/// The maximum number of remembered runs that the failed change would have ended. The drivers of these runs have
/// stopped and never clear the failure, so the number of these runs must be limited.
const MAX_ENDED_RUNS: usize = 10_000;

/// The failed runs with their errors. Clones share the same data.
#[derive(Clone, Default)]
pub(super) struct FailedRuns(Arc<Mutex<Failures>>);

#[derive(Default)]
struct Failures {
    errors: HashMap<RunId, WriteError>,
    ended: VecDeque<RunId>,
}

impl FailedRuns {
    pub(super) fn check(&self, run: RunId) -> Result<(), WriteError> {
        self.lock().errors.get(&run).map_or(Ok(()), |error| Err(error.clone()))
    }

    pub(super) fn insert(&self, run: RunId, error: WriteError) {
        self.lock().errors.insert(run, error);
    }

    /// Like [`FailedRuns::insert`], for a run that the failed change would have ended. Only the last [`MAX_ENDED_RUNS`]
    /// such runs are remembered.
    pub(super) fn insert_ended(&self, run: RunId, error: WriteError) {
        let mut failures = self.lock();
        failures.errors.insert(run, error);
        failures.ended.push_back(run);
        if failures.ended.len() > MAX_ENDED_RUNS
            && let Some(oldest) = failures.ended.pop_front()
        {
            failures.errors.remove(&oldest);
        }
    }

    pub(super) fn remove(&self, run: RunId) {
        let mut failures = self.lock();
        failures.errors.remove(&run);
        failures.ended.retain(|ended| *ended != run);
    }

    fn lock(&self) -> MutexGuard<'_, Failures> {
        // A poisoned lock can be ignored, because no code panics while it holds the lock.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn at_most_10000_failures_of_ended_runs_are_kept() {
        let failed_runs = FailedRuns::default();
        let runs: Vec<RunId> = (0..=MAX_ENDED_RUNS).map(|n| RunId::from_bits(n as u128)).collect();
        let unfinished = RunId::from_bits(u128::MAX);
        failed_runs.insert(unfinished, WriteError::Conflict(unfinished));
        for run in &runs {
            failed_runs.insert_ended(*run, WriteError::Conflict(*run));
        }
        assert!(failed_runs.check(unfinished).is_err());
        assert!(failed_runs.check(runs[0]).is_ok());
        assert!(runs[1..].iter().all(|run| failed_runs.check(*run).is_err()));
        failed_runs.remove(unfinished);
        assert!(failed_runs.check(unfinished).is_ok());
    }
}
