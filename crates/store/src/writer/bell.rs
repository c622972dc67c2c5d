//! What interrupts a writer that waits for more. What nobody waits for does not: to wake the writer for each change would cost
//! more than the change.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::Notify;

#[derive(Debug)]
pub(super) struct Bell {
    rung: Notify,
    /// How many changes have come since the writer last looked.
    waiting: AtomicUsize,
    /// How many are enough for a transaction.
    enough: usize,
}

impl Bell {
    pub(super) fn new(enough: usize) -> Self {
        Self { rung: Notify::new(), waiting: AtomicUsize::new(0), enough }
    }

    /// Changes that nobody waits for were queued, and there is room for so many more calls.
    pub(super) fn queued(&self, changes: usize, room: usize) {
        let waiting = self.waiting.fetch_add(changes, Ordering::Relaxed) + changes;
        if waiting >= self.enough || room == 0 {
            self.ring();
        }
    }

    pub(super) fn ring(&self) {
        self.rung.notify_one();
    }

    /// The writer takes all that is queued.
    pub(super) fn looked(&self) {
        self.waiting.store(0, Ordering::Relaxed);
    }

    pub(super) async fn heard(&self) {
        self.rung.notified().await;
    }
}

/// Rings when a writer is gone, which may have been the last.
#[derive(Debug)]
pub(super) struct RingWhenGone(pub(super) Arc<Bell>);

impl Clone for RingWhenGone {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl Drop for RingWhenGone {
    fn drop(&mut self) {
        self.0.ring();
    }
}
