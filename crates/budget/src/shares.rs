//! Limits how many units of a resource each owner holds.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// A limit on the units of a resource that each owner may hold at once. Without the limit, one owner could hold all
/// units.
#[derive(Debug)]
pub struct Shares {
    each: usize,
    owners: Mutex<HashMap<String, Weak<Semaphore>>>,
}

/// A unit of a resource that an owner holds until this value is dropped.
#[derive(Debug)]
pub struct Share(#[expect(dead_code, reason = "dropping the permit returns the unit")] OwnedSemaphorePermit);

impl Shares {
    /// Allows each owner to hold `each` units.
    pub fn new(each: usize) -> Self {
        Self { each: each.min(Semaphore::MAX_PERMITS), owners: Mutex::default() }
    }

    /// The number of units that each owner may hold.
    pub fn each(&self) -> usize {
        self.each
    }

    /// Waits for a unit. Waiting callers of an owner are served in order. Returns `None` only if the semaphore is
    /// closed, which never happens.
    pub async fn acquire(&self, owner: &str) -> Option<Share> {
        self.of(owner).acquire_owned().await.ok().map(Share)
    }

    /// Returns a unit, or `None` if the owner holds all of its units.
    pub fn try_acquire(&self, owner: &str) -> Option<Share> {
        self.of(owner).try_acquire_owned().ok().map(Share)
    }

    fn of(&self, owner: &str) -> Arc<Semaphore> {
        let mut owners = self.owners.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = owners.get(owner).and_then(Weak::upgrade) {
            return known;
        }
        owners.retain(|_, semaphore| semaphore.strong_count() > 0);
        let new = Arc::new(Semaphore::new(self.each));
        owners.insert(owner.to_owned(), Arc::downgrade(&new));
        new
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn owner_can_acquire_a_unit_again_after_returning_one() {
        let shares = Shares::new(2);
        let mut held: Vec<_> = (0..2).map(|_| shares.try_acquire("ada").unwrap()).collect();
        assert!(shares.try_acquire("ada").is_none());
        assert!(shares.try_acquire("bob").is_some());
        held.pop();
        assert!(shares.try_acquire("ada").is_some());
    }
}
