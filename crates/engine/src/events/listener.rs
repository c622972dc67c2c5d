//! One client of an event stream: reads missed events from the store, then receives new events from the tail.

use std::collections::VecDeque;
use std::sync::Arc;

use tokio::sync::broadcast;
use tokio::sync::broadcast::error::RecvError;
use toolwright_authz::{Action, Resource};
use toolwright_catalog::Session;
use toolwright_store::{Event, EventBounds, EventKind, EventPosition};
use toolwright_types::DocumentKind;

use super::tail::{Message, PAGE_SIZE, Subscription, Tail};
use super::{Inner, SharedEvent};

/// An element of an event stream.
pub enum StreamItem {
    /// The stream is open. It continues after this position.
    Ready(EventPosition),
    /// The client has missed events and must reload the data that it shows. The stream continues after this position.
    Reset(EventPosition),
    /// A change.
    Event(Arc<SharedEvent>),
}

/// A client of the event stream of a realm.
pub struct EventListener {
    inner: Arc<Inner>,
    session: Session,
    /// The kinds of events to return. An empty list means all kinds.
    kinds: Vec<EventKind>,
    tail: Arc<Tail>,
    messages: broadcast::Receiver<Message>,
    /// The position of the last event that was read, even if it was not returned to the client.
    last: EventPosition,
    /// Events up to this position are read from the store. Later events come from the tail, which broadcasts new
    /// events.
    live_after: EventPosition,
    queue: VecDeque<StreamItem>,
}

impl EventListener {
    pub(super) fn new(
        inner: Arc<Inner>,
        session: Session,
        kinds: Vec<EventKind>,
        (tail, messages, live_after): Subscription,
        (bounds, after): (EventBounds, Option<EventPosition>),
    ) -> Self {
        // A position after the newest event comes from another database, such as this database before a backup was
        // restored.
        let known = |after: &EventPosition| (bounds.deleted..=bounds.newest.max(live_after)).contains(after);
        let (last, first) = match after {
            None => (live_after, StreamItem::Ready(live_after)),
            Some(after) if known(&after) => (after, StreamItem::Ready(after)),
            Some(_) => (live_after, StreamItem::Reset(live_after)),
        };
        Self { inner, session, kinds, tail, messages, last, live_after, queue: VecDeque::from([first]) }
    }

    /// Returns the next element. The first element is always [`StreamItem::Ready`] or [`StreamItem::Reset`]. Returns
    /// `None` if the store fails; the client can connect again.
    pub async fn next(&mut self) -> Option<StreamItem> {
        loop {
            if let Some(item) = self.queue.pop_front() {
                return Some(item);
            }
            if self.last < self.live_after {
                self.read_missed().await?;
                continue;
            }
            match self.messages.recv().await {
                Ok(Message::Event(shared)) if shared.event.position > self.last => {
                    self.last = shared.event.position;
                    if self.selects(&shared.event) {
                        return Some(StreamItem::Event(shared));
                    }
                }
                Ok(Message::Reset(position)) if position > self.last => {
                    self.last = position;
                    return Some(StreamItem::Reset(position));
                }
                // The event was already read from the store.
                Ok(_) => {}
                Err(RecvError::Lagged(_)) => self.reset(),
                Err(RecvError::Closed) => return None,
            }
        }
    }

    /// Reads a page of missed events from the store. Later events come from the tail.
    async fn read_missed(&mut self) -> Option<()> {
        let page = match self.inner.store.events(&self.session.realm).read_after(self.last, PAGE_SIZE).await {
            Ok(page) => page,
            Err(error) => {
                tracing::warn!(%error, "could not read the events that a client has missed");
                return None;
            }
        };
        if page.lost {
            self.reset();
            return Some(());
        }
        // The tail has read all events up to `live_after`, so an empty page means that there are no further events.
        self.last = page.events.last().map_or(self.live_after, |event| event.position);
        let selected: Vec<Event> = page.events.into_iter().filter(|event| self.selects(event)).collect();
        self.queue.extend(selected.into_iter().map(|event| StreamItem::Event(Arc::new(SharedEvent::new(event)))));
        Some(())
    }

    /// Tells the client that it has missed events, and continues with the next event of the tail.
    fn reset(&mut self) {
        let (_, messages, position) = self.tail.subscribe();
        (self.messages, self.last, self.live_after) = (messages, position, position);
        self.queue.push_back(StreamItem::Reset(position));
    }

    /// Whether the client selected this kind of event and may read the run or definition that has changed.
    fn selects(&self, event: &Event) -> bool {
        (self.kinds.is_empty() || self.kinds.contains(&event.kind))
            && self
                .resource(event)
                .is_some_and(|resource| self.inner.access.allows(&self.session, Action::Read, resource))
    }

    fn resource<'a>(&self, event: &'a Event) -> Option<Resource<'a>> {
        let name = event.ref_name.as_deref();
        Some(match event.kind {
            EventKind::Run | EventKind::Approval => Resource::Run { owner: event.owner?.id() },
            EventKind::Definition(DocumentKind::Tool) => {
                Resource::Tool { category: event.category.as_deref(), name: name? }
            }
            EventKind::Definition(DocumentKind::Provider) => Resource::Provider { name: name? },
            EventKind::Definition(DocumentKind::Agent) => Resource::Agent { name: name? },
            EventKind::Definition(DocumentKind::Fragment) => Resource::Fragment { name: name? },
            EventKind::Definition(DocumentKind::Type) => Resource::Type { name: name? },
            EventKind::Definition(DocumentKind::Workflow) => Resource::Workflow { name: name? },
            EventKind::Definition(DocumentKind::StepRegistration) => Resource::StepRegistration { name: name? },
            EventKind::Definition(DocumentKind::ConditionBinding) => Resource::ConditionBinding { name: name? },
            EventKind::Definition(DocumentKind::Trigger) => Resource::Trigger { name: name? },
            EventKind::Definition(DocumentKind::Webhook) => Resource::Webhook { name: name? },
            // Everyone in the realm may list drift.
            EventKind::Drift => Resource::Realm,
        })
    }
}
