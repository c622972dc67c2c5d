//! Reads the new events of one realm and broadcasts them to the listeners.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::broadcast;
use toolwright_store::{Event, EventPosition, StoreError};
use toolwright_types::RealmScope;

use super::{Inner, SharedEvent};

/// How often the store is read if this server writes no events. Other servers may have written some.
const POLL_INTERVAL: Duration = Duration::from_secs(1);
/// The pause before the next query if an active transaction delays events.
const DELAYED_INTERVAL: Duration = Duration::from_millis(20);
/// The pause between a change and the query for new events. It limits the number of queries while many changes are
/// written.
const COALESCE: Duration = Duration::from_millis(10);
/// The maximum number of events that one query reads.
pub(super) const PAGE_SIZE: u32 = 500;
/// The maximum number of events that a listener may be behind. A listener that is further behind gets a reset.
const CAPACITY: usize = 1024;

/// A message to all listeners of a realm.
#[derive(Clone)]
pub(super) enum Message {
    Event(Arc<SharedEvent>),
    /// Events up to this position were deleted before the tail could read them.
    Reset(EventPosition),
}

/// The result of a subscription: the tail, a receiver of its messages, and the position of the last message that was
/// sent before the subscription.
pub(super) type Subscription = (Arc<Tail>, broadcast::Receiver<Message>, EventPosition);

pub(super) struct Tail {
    messages: broadcast::Sender<Message>,
    /// The position of the last message. Messages are sent while this lock is held, so that each subscriber knows the
    /// position before its first message.
    position: Mutex<EventPosition>,
}

impl Tail {
    pub(super) fn new(position: EventPosition) -> Self {
        Self { messages: broadcast::Sender::new(CAPACITY), position: Mutex::new(position) }
    }

    pub(super) fn subscribe(self: &Arc<Self>) -> Subscription {
        let position = self.position();
        (Arc::clone(self), self.messages.subscribe(), *position)
    }

    pub(super) fn has_listeners(&self) -> bool {
        self.messages.receiver_count() > 0
    }

    /// Broadcasts the events of a realm until it has no listeners or the server stops.
    pub(super) async fn run(self: Arc<Self>, inner: Arc<Inner>, realm: Arc<RealmScope>) {
        let mut changes = inner.store.watch_events();
        while !inner.remove_if_unused(realm.realm, &self) {
            let pause = match self.advance(&inner, &realm).await {
                Ok(pause) => pause,
                Err(error) => {
                    tracing::warn!(%error, "could not read events");
                    POLL_INTERVAL
                }
            };
            tokio::select! {
                () = inner.stop.cancelled() => return,
                () = tokio::time::sleep(pause) => {}
                Ok(()) = changes.changed() => tokio::time::sleep(COALESCE).await,
            }
        }
    }

    /// Reads and broadcasts the next events. Returns the pause before the next call.
    async fn advance(&self, inner: &Inner, realm: &RealmScope) -> Result<Duration, StoreError> {
        let (events, after) = (inner.store.events(realm), *self.position());
        let page = events.read_after(after, PAGE_SIZE).await?;
        if page.lost {
            self.reset(events.bounds().await?.newest);
            return Ok(Duration::ZERO);
        }
        let is_full = u32::try_from(page.events.len()).is_ok_and(|count| count >= PAGE_SIZE);
        self.publish(page.events);
        Ok(if is_full {
            Duration::ZERO
        } else if page.delayed {
            DELAYED_INTERVAL
        } else {
            POLL_INTERVAL
        })
    }

    pub(super) fn publish(&self, events: Vec<Event>) {
        let mut position = self.position();
        for event in events {
            *position = event.position;
            // Sending fails if there are no listeners any more.
            let _ = self.messages.send(Message::Event(Arc::new(SharedEvent::new(event))));
        }
    }

    fn reset(&self, newest: EventPosition) {
        let mut position = self.position();
        *position = newest;
        let _ = self.messages.send(Message::Reset(newest));
    }

    fn position(&self) -> MutexGuard<'_, EventPosition> {
        self.position.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
