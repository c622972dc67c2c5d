//! The runs that have a gap where a change failed.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use toolwright_types::RunId;

use super::WriteError;

/// How many runs are remembered that wanted to end. Nobody is left to forget them.
const MOST_ENDED: usize = 10_000;

/// The runs that are refused, and why. Clones share them.
#[derive(Clone, Default)]
pub(super) struct Refused(Arc<Mutex<Runs>>);

#[derive(Default)]
struct Runs {
    errors: HashMap<RunId, WriteError>,
    ended: VecDeque<RunId>,
}

impl Refused {
    pub(super) fn check(&self, run: RunId) -> Result<(), WriteError> {
        self.lock().errors.get(&run).map_or(Ok(()), |error| Err(error.clone()))
    }

    pub(super) fn add(&self, run: RunId, error: WriteError) {
        self.lock().errors.insert(run, error);
    }

    /// Like [`Refused::add`], for a run that wanted to end: it will hardly be heard of again.
    pub(super) fn add_ended(&self, run: RunId, error: WriteError) {
        let mut runs = self.lock();
        runs.errors.insert(run, error);
        runs.ended.push_back(run);
        if runs.ended.len() > MOST_ENDED
            && let Some(oldest) = runs.ended.pop_front()
        {
            runs.errors.remove(&oldest);
        }
    }

    pub(super) fn remove(&self, run: RunId) {
        let mut runs = self.lock();
        runs.errors.remove(&run);
        runs.ended.retain(|ended| *ended != run);
    }

    fn lock(&self) -> MutexGuard<'_, Runs> {
        // Nothing panics while it is locked.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_is_refused_until_it_is_forgotten_and_of_those_that_ended_the_last_are_remembered() {
        let refused = Refused::default();
        let runs: Vec<RunId> = (0..=MOST_ENDED).map(|n| RunId::from_bits(n as u128)).collect();
        let going_on = RunId::from_bits(u128::MAX);
        refused.add(going_on, WriteError::Conflict(going_on));
        for run in &runs {
            refused.add_ended(*run, WriteError::Conflict(*run));
        }
        assert!(refused.check(going_on).is_err());
        assert!(refused.check(runs[0]).is_ok());
        assert!(runs[1..].iter().all(|run| refused.check(*run).is_err()));
        refused.remove(going_on);
        assert!(refused.check(going_on).is_ok());
    }
}
