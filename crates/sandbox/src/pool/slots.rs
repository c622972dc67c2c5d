//! Limits how many jobs run at the same time: in total, for each tenant and for each principal.

use std::sync::Arc;

use futures::future::BoxFuture;
use serde_json::Value;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;
use toolwright_budget::{Share, Shares};

use super::AsyncHost;

/// The tenant and the principal for which a job runs.
#[derive(Debug, Clone, Copy)]
pub struct JobOwner<'a> {
    /// The tenant. Two tenants never share a worker.
    pub tenant: &'a str,
    /// The principal. `None` for a job of the tenant itself.
    pub principal: Option<&'a str>,
}

impl<'a> From<&'a str> for JobOwner<'a> {
    fn from(tenant: &'a str) -> Self {
        Self { tenant, principal: None }
    }
}

/// The slots in which jobs run.
pub(super) struct JobSlots {
    all: Arc<Semaphore>,
    tenants: Shares,
    principals: Shares,
}

/// The slot of a running job.
struct Slot {
    _principal: Option<Share>,
    _tenant: Share,
    _all: OwnedSemaphorePermit,
}

impl JobSlots {
    pub(super) fn new(max_running: usize) -> Self {
        let max_running = max_running.max(1);
        let reserved = max_running.div_ceil(4);
        let per_tenant = max_running.saturating_sub(reserved).max(1);
        let per_principal = per_tenant.saturating_sub(reserved).max(1);
        Self {
            all: Arc::new(Semaphore::new(max_running)),
            tenants: Shares::new(per_tenant),
            principals: Shares::new(per_principal),
        }
    }

    /// Waits for a slot. Returns `None` when the semaphores are closed. The shares of the principal and of the tenant
    /// are acquired first, so that a job that waits for them does not occupy a slot that others could use.
    async fn acquire(&self, owner: JobOwner<'_>) -> Option<Slot> {
        let principal = match owner.principal {
            Some(principal) => Some(self.principals.acquire(&format!("{}/{principal}", owner.tenant)).await?),
            None => None,
        };
        let tenant = self.tenants.acquire(owner.tenant).await?;
        let all = Arc::clone(&self.all).acquire_owned().await.ok()?;
        Some(Slot { _principal: principal, _tenant: tenant, _all: all })
    }

    /// Waits for a slot and notifies the host about the wait.
    async fn acquire_notifying(&self, host: &dyn AsyncHost, owner: JobOwner<'_>) -> Option<Slot> {
        host.on_queued();
        let slot = self.acquire(owner).await;
        host.on_dequeued();
        slot
    }
}

/// A host that releases the slot of its job during each call, because a call may take long and may need a slot itself.
pub(super) struct SlotReleasingHost<'a> {
    slots: &'a JobSlots,
    owner: JobOwner<'a>,
    host: &'a dyn AsyncHost,
    slot: tokio::sync::Mutex<Option<Slot>>,
}

impl<'a> SlotReleasingHost<'a> {
    /// Waits for a slot. Returns `None` when the semaphores are closed.
    pub(super) async fn acquire(slots: &'a JobSlots, owner: JobOwner<'a>, host: &'a dyn AsyncHost) -> Option<Self> {
        let slot = slots.acquire_notifying(host, owner).await?;
        Some(Self { slots, owner, host, slot: tokio::sync::Mutex::new(Some(slot)) })
    }
}

impl AsyncHost for SlotReleasingHost<'_> {
    fn call<'a>(&'a self, function: &'a str, arguments: Value) -> BoxFuture<'a, Result<Value, String>> {
        Box::pin(async move {
            let mut slot = self.slot.lock().await;
            *slot = None;
            let answer = self.host.call(function, arguments).await;
            *slot = self.slots.acquire_notifying(self.host, self.owner).await;
            answer
        })
    }

    fn deadline(&self) -> Option<Instant> {
        self.host.deadline()
    }
}
