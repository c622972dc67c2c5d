//! Who runs next: so many jobs at once, and no tenant takes all of them.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use futures::future::BoxFuture;
use serde_json::Value;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::AsyncHost;

/// The turns of all jobs.
pub(super) struct Turns {
    all: Arc<Semaphore>,
    /// How many one tenant may have.
    share: usize,
    tenants: Mutex<HashMap<String, Weak<Semaphore>>>,
}

/// What a job has while it runs.
struct Turn {
    _own: OwnedSemaphorePermit,
    _all: OwnedSemaphorePermit,
}

impl Turns {
    pub(super) fn new(running: usize) -> Self {
        let running = running.max(1);
        let share = running.saturating_sub(running.div_ceil(4)).max(1);
        Self { all: Arc::new(Semaphore::new(running)), share, tenants: Mutex::default() }
    }

    /// None when there are no more turns, ever. The tenant's own comes first: whoever waits for it keeps nobody else waiting.
    async fn take(&self, tenant: &str) -> Option<Turn> {
        let own = self.of(tenant).acquire_owned().await.ok()?;
        let all = Arc::clone(&self.all).acquire_owned().await.ok()?;
        Some(Turn { _own: own, _all: all })
    }

    /// The same, and the host hears of it.
    async fn take_for(&self, host: &dyn AsyncHost, tenant: &str) -> Option<Turn> {
        host.queued();
        let turn = self.take(tenant).await;
        host.resumed();
        turn
    }

    fn of(&self, tenant: &str) -> Arc<Semaphore> {
        let mut tenants = self.tenants.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = tenants.get(tenant).and_then(Weak::upgrade) {
            return known;
        }
        tenants.retain(|_, semaphore| semaphore.strong_count() > 0);
        let new = Arc::new(Semaphore::new(self.share));
        tenants.insert(tenant.to_owned(), Arc::downgrade(&new));
        new
    }
}

/// A host that is called without a turn: what it does may need one, and may take long.
pub(super) struct Yielding<'a> {
    turns: &'a Turns,
    tenant: &'a str,
    host: &'a dyn AsyncHost,
    turn: tokio::sync::Mutex<Option<Turn>>,
}

impl<'a> Yielding<'a> {
    /// Waits for a turn. None when there are no more.
    pub(super) async fn begin(turns: &'a Turns, tenant: &'a str, host: &'a dyn AsyncHost) -> Option<Self> {
        let turn = turns.take_for(host, tenant).await?;
        Some(Self { turns, tenant, host, turn: tokio::sync::Mutex::new(Some(turn)) })
    }
}

impl AsyncHost for Yielding<'_> {
    fn call<'a>(&'a self, function: &'a str, arguments: Value) -> BoxFuture<'a, Result<Value, String>> {
        Box::pin(async move {
            let mut turn = self.turn.lock().await;
            *turn = None;
            let answer = self.host.call(function, arguments).await;
            *turn = self.turns.take_for(self.host, self.tenant).await;
            answer
        })
    }
}
