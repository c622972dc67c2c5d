//! The event stream of a realm: changes of runs, approvals, definitions and drift, for any number of listeners.
//!
//! Each realm with listeners has one [`Tail`] on this server. The tail reads new events from the store and broadcasts
//! them, so the number of listeners does not change the number of queries. A listener that connects again first reads
//! the missed events from the store.

mod listener;
mod tail;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use toolwright_catalog::registry::{Registry, RegistryError};
use toolwright_catalog::{Access, Identity, Session, Unavailable};
use toolwright_store::Store;
pub use toolwright_store::{Event, EventKind, EventPosition, InvalidEventPosition};
use toolwright_types::{Clock, RealmId, Timestamp};

pub use listener::{EventListener, StreamItem};
use tail::Tail;

/// How often old events are deleted.
const DELETE_EVERY: Duration = Duration::from_secs(600);
/// How long events are kept.
const KEPT: Duration = Duration::from_secs(24 * 3600);
/// The maximum number of events that are kept in each realm.
const MAX_KEPT: u32 = 10_000;

/// Gives access to the event streams of all realms. Cheap to clone.
#[derive(Clone)]
pub struct Events(Arc<Inner>);

struct Inner {
    store: Store,
    registry: Registry,
    access: Access,
    /// The tails of the realms that have listeners.
    tails: Mutex<HashMap<RealmId, Arc<Tail>>>,
    background: TaskTracker,
    stop: CancellationToken,
}

/// An event that all listeners share.
pub struct SharedEvent {
    /// The event.
    pub event: Event,
    text: OnceLock<String>,
}

impl SharedEvent {
    fn new(event: Event) -> Self {
        Self { event, text: OnceLock::new() }
    }

    /// Returns the serialized event. Only the first listener serializes it.
    pub fn text(&self, serialize: impl FnOnce(&Event) -> String) -> &str {
        self.text.get_or_init(|| serialize(&self.event))
    }
}

impl Events {
    pub(crate) fn new(
        store: Store,
        registry: Registry,
        access: Access,
        background: TaskTracker,
        stop: CancellationToken,
    ) -> Self {
        Self(Arc::new(Inner { store, registry, access, tails: Mutex::default(), background, stop }))
    }

    /// Opens the stream of the session's realm. `kinds` selects the events; an empty list selects all. The stream
    /// starts after the event `after`. Without `after`, it starts with the next event.
    pub async fn listen(
        &self,
        session: Session,
        kinds: Vec<EventKind>,
        after: Option<EventPosition>,
    ) -> Result<EventListener, RegistryError> {
        self.0.registry.may_enter(&session)?;
        let bounds = self.0.store.events(&session.realm).bounds().await?;
        let (tail, receiver, position) = self.0.subscribe(&session, bounds.newest);
        Ok(EventListener::new(Arc::clone(&self.0), session, kinds, (tail, receiver, position), (bounds, after)))
    }

    /// Deletes old events in every realm: all events before the time `before`, and the oldest events if there are more
    /// than `keep`.
    pub async fn delete_old(&self, identity: &Identity, before: Timestamp, keep: u32) -> Result<u64, Unavailable> {
        let mut deleted = 0;
        for realm in identity.all_realms().await? {
            deleted += self.0.store.events(&realm).delete_old(before, keep).await?;
        }
        Ok(deleted)
    }

    /// Deletes old events periodically, until the server stops.
    pub(crate) async fn run_retention(self, identity: Identity, clock: Arc<dyn Clock>) {
        let kept = i64::try_from(KEPT.as_micros()).unwrap_or(i64::MAX);
        loop {
            let before = Timestamp::from_micros(clock.now().as_micros().saturating_sub(kept));
            if let Err(error) = self.delete_old(&identity, before, MAX_KEPT).await {
                tracing::warn!(error = &error as &dyn std::error::Error, "old events cannot be deleted");
            }
            if self.0.stop.run_until_cancelled(tokio::time::sleep(DELETE_EVERY)).await.is_none() {
                return;
            }
        }
    }
}

impl Inner {
    /// Subscribes to the tail of a realm. If the realm has no tail, starts one at the position `newest`.
    fn subscribe(self: &Arc<Self>, session: &Session, newest: EventPosition) -> tail::Subscription {
        let mut tails = self.tails();
        let tail = tails.entry(session.realm.realm).or_insert_with(|| {
            let tail = Arc::new(Tail::new(newest));
            let task = Arc::clone(&tail).run(Arc::clone(self), Arc::clone(&session.realm));
            self.background.spawn(task);
            tail
        });
        tail.subscribe()
    }

    /// Removes the tail of a realm if it has no listeners.
    fn remove_if_unused(&self, realm: RealmId, tail: &Tail) -> bool {
        // Listeners subscribe under the same lock, so no listener can be added between the check and the removal.
        let mut tails = self.tails();
        let unused = !tail.has_listeners();
        if unused {
            tails.remove(&realm);
        }
        unused
    }

    fn tails(&self) -> MutexGuard<'_, HashMap<RealmId, Arc<Tail>>> {
        self.tails.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
