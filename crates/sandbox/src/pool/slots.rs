//! Limits how many jobs run at once, in total and for each tenant.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use futures::future::BoxFuture;
use serde_json::Value;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;

use super::AsyncHost;

/// The slots in which jobs run.
pub(super) struct JobSlots {
    all: Arc<Semaphore>,
    /// The number of slots that one tenant may use.
    per_tenant: usize,
    tenants: Mutex<HashMap<String, Weak<Semaphore>>>,
}

/// The slot of a running job.
struct Slot {
    _tenant: OwnedSemaphorePermit,
    _all: OwnedSemaphorePermit,
}

impl JobSlots {
    pub(super) fn new(max_running: usize) -> Self {
        let max_running = max_running.max(1);
        let per_tenant = max_running.saturating_sub(max_running.div_ceil(4)).max(1);
        Self { all: Arc::new(Semaphore::new(max_running)), per_tenant, tenants: Mutex::default() }
    }

    /// Waits for a slot. Returns `None` when the semaphores are closed. The permit of the tenant is acquired first, so
    /// that a job that waits for it does not occupy a slot that other tenants could use.
    async fn acquire(&self, tenant: &str) -> Option<Slot> {
        let tenant = self.tenant_semaphore(tenant).acquire_owned().await.ok()?;
        let all = Arc::clone(&self.all).acquire_owned().await.ok()?;
        Some(Slot { _tenant: tenant, _all: all })
    }

    /// Waits for a slot and notifies the host about the wait.
    async fn acquire_notifying(&self, host: &dyn AsyncHost, tenant: &str) -> Option<Slot> {
        host.on_queued();
        let slot = self.acquire(tenant).await;
        host.on_dequeued();
        slot
    }

    fn tenant_semaphore(&self, tenant: &str) -> Arc<Semaphore> {
        let mut tenants = self.tenants.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = tenants.get(tenant).and_then(Weak::upgrade) {
            return known;
        }
        tenants.retain(|_, semaphore| semaphore.strong_count() > 0);
        let new = Arc::new(Semaphore::new(self.per_tenant));
        tenants.insert(tenant.to_owned(), Arc::downgrade(&new));
        new
    }
}

/// A host that releases the slot of its job during each call, because a call may take long and may need a slot itself.
pub(super) struct SlotReleasingHost<'a> {
    slots: &'a JobSlots,
    tenant: &'a str,
    host: &'a dyn AsyncHost,
    slot: tokio::sync::Mutex<Option<Slot>>,
}

impl<'a> SlotReleasingHost<'a> {
    /// Waits for a slot. Returns `None` when the semaphores are closed.
    pub(super) async fn acquire(slots: &'a JobSlots, tenant: &'a str, host: &'a dyn AsyncHost) -> Option<Self> {
        let slot = slots.acquire_notifying(host, tenant).await?;
        Some(Self { slots, tenant, host, slot: tokio::sync::Mutex::new(Some(slot)) })
    }
}

impl AsyncHost for SlotReleasingHost<'_> {
    fn call<'a>(&'a self, function: &'a str, arguments: Value) -> BoxFuture<'a, Result<Value, String>> {
        Box::pin(async move {
            let mut slot = self.slot.lock().await;
            *slot = None;
            let answer = self.host.call(function, arguments).await;
            *slot = self.slots.acquire_notifying(self.host, self.tenant).await;
            answer
        })
    }

    fn deadline(&self) -> Option<Instant> {
        self.host.deadline()
    }
}
