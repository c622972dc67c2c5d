//! Wakes the writer service while it waits for more changes. A change for which no caller waits does not wake the
//! service, because a wake-up costs more than the change. The service wakes when such changes fill a transaction or the
//! queue.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::Notify;

#[derive(Debug)]
pub(super) struct WriterWakeup {
    notify: Notify,
    /// The number of changes queued since the last [`WriterWakeup::reset`].
    queued_changes: AtomicUsize,
    /// The number of changes at which a transaction is full.
    batch_size: usize,
}

impl WriterWakeup {
    pub(super) fn new(batch_size: usize) -> Self {
        Self { notify: Notify::new(), queued_changes: AtomicUsize::new(0), batch_size }
    }

    /// Reports that changes were queued for which no caller waits. Wakes the service if the changes fill a transaction
    /// or if the queue has no free slots.
    pub(super) fn changes_queued(&self, changes: usize, free_slots: usize) {
        let queued_changes = self.queued_changes.fetch_add(changes, Ordering::Relaxed) + changes;
        if queued_changes >= self.batch_size || free_slots == 0 {
            self.wake();
        }
    }

    pub(super) fn wake(&self) {
        self.notify.notify_one();
    }

    /// Sets the count to zero. Called before the service empties the queue.
    pub(super) fn reset(&self) {
        self.queued_changes.store(0, Ordering::Relaxed);
    }

    pub(super) async fn wait(&self) {
        self.notify.notified().await;
    }
}

/// Wakes the service when a [`Writer`](super::Writer) is dropped, because it may have been the last writer.
#[derive(Debug)]
pub(super) struct WakeOnDrop(pub(super) Arc<WriterWakeup>);

impl Clone for WakeOnDrop {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl Drop for WakeOnDrop {
    fn drop(&mut self) {
        self.0.wake();
    }
}
