//! Watches a run: sends the updates after a given entry, and the partial reply of the model.
//!
//! [`Timeline`] computes the updates from the journal, entry by entry. So a watcher that connects late or reconnects
//! reads the same updates. A slow watcher receives fewer and longer text deltas, but all of the text.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use toolwright_machine::AgentRun;
use toolwright_machine::agent::Event;
use toolwright_machine::journal::{self, EntryBody};
use toolwright_machine::timeline::{RunUpdate, RunUpdateKind, Timeline};
use toolwright_store::JournalEntry;
use toolwright_types::Timestamp;

use super::Inner;
use super::registry::{PartialReply, RunHandle};

/// How often the store is polled when another server drives the run.
const FOREIGN_POLL_INTERVAL: Duration = Duration::from_secs(1);

/// An event that a watcher receives.
#[derive(Debug)]
pub enum WatchEvent {
    /// The updates of one journal entry; may be empty.
    Entry {
        /// The number of the entry.
        n: u64,
        /// The time of the entry.
        at: Timestamp,
        /// The updates.
        updates: Vec<RunUpdate>,
    },
    /// A piece of the model's reply.
    Text {
        /// When the watcher read this piece.
        at: Timestamp,
        /// The iteration.
        iteration: u32,
        /// The piece.
        delta: String,
    },
    /// A piece of the model's thinking.
    Thinking {
        /// When the watcher read this piece.
        at: Timestamp,
        /// The iteration.
        iteration: u32,
        /// The piece.
        delta: String,
    },
    /// The model starts the reply again. The pieces received so far must be discarded.
    Restart {
        /// When the watcher read the restart.
        at: Timestamp,
        /// The iteration.
        iteration: u32,
    },
}

/// A watcher of a run.
pub struct RunWatch {
    shared: Arc<Inner>,
    handle: Arc<RunHandle>,
    /// The number of the last entry that the client already knows. Only later entries are sent.
    after: u64,
    /// How many entries were read from the feed.
    read: usize,
    timeline: Option<Timeline>,
    sent: PartialReply,
    queue: VecDeque<WatchEvent>,
    ended: bool,
}

impl RunWatch {
    pub(super) fn new(shared: Arc<Inner>, handle: Arc<RunHandle>, after: u64) -> Self {
        Self {
            shared,
            handle,
            after,
            read: 0,
            timeline: None,
            sent: PartialReply::default(),
            queue: VecDeque::new(),
            ended: false,
        }
    }

    /// The name of the agent or tool that the run executes.
    pub fn agent(&self) -> &str {
        self.handle.meta().map_or("", |meta| meta.start.subject.as_str())
    }

    /// Waits for the next event; `None` after the end of the run.
    pub async fn next(&mut self) -> Option<WatchEvent> {
        let handle = Arc::clone(&self.handle);
        loop {
            if let Some(seen) = self.queue.pop_front() {
                return Some(seen);
            }
            if self.ended {
                return None;
            }
            let mut changed = std::pin::pin!(handle.changed().notified());
            // The notification is enabled before the feed is read, so that a change between reading and waiting is not
            // missed.
            changed.as_mut().enable();
            if !self.read_new() && tokio::time::timeout(FOREIGN_POLL_INTERVAL, changed).await.is_err() {
                self.poll_store().await;
            }
        }
    }

    /// Reads the new entries of the run from the store, unless this server drives the run.
    async fn poll_store(&self) {
        let Some(meta) = self.handle.meta().filter(|_| !self.handle.is_driven()) else { return };
        let known = self.handle.last_entry();
        match self.shared.entries_after(&meta.home, self.handle.id, known).await {
            Ok(entries_after) => self.handle.append_foreign(entries_after),
            Err(error) => tracing::warn!(run = %self.handle.id, %error, "a watched run cannot be read"),
        }
    }

    /// Reads new entries or new text. Returns whether anything was new.
    fn read_new(&mut self) -> bool {
        let (fresh, partial): (Vec<Arc<JournalEntry>>, PartialReply) = {
            let feed = self.handle.feed();
            let fresh: Vec<Arc<JournalEntry>> = feed.entries.iter().skip(self.read).cloned().collect();
            let partial = if fresh.is_empty() && feed.partial != self.sent {
                feed.partial.clone()
            } else {
                PartialReply::default()
            };
            (fresh, partial)
        };
        self.read += fresh.len();
        if fresh.is_empty() {
            return self.push_partial(partial);
        }
        for entry in fresh {
            match self.updates(&entry) {
                Ok(updates) => self.push_entry(entry.n, entry.at, updates),
                Err(error) => {
                    tracing::error!(run = %self.handle.id, entry = entry.n, error, "an entry cannot be replayed");
                    self.ended = true;
                }
            }
        }
        true
    }

    fn updates(&mut self, entry: &JournalEntry) -> Result<Vec<RunUpdate>, String> {
        let entry = journal::Entry::parse(entry.n, entry.at, &entry.body).map_err(|error| error.to_string())?;
        let step = match (entry.body, &mut self.timeline) {
            (EntryBody::Started(start), timeline) => {
                timeline.insert(Timeline::new(AgentRun::new(start.spec, entry.at))).advance()
            }
            (EntryBody::Event(what), Some(timeline)) => {
                timeline.apply(Event { at: entry.at, kind: what }).map_err(|error| error.to_string())?
            }
            _ => return Ok(Vec::new()),
        };
        Ok(step.updates)
    }

    fn push_entry(&mut self, n: u64, at: Timestamp, updates: Vec<RunUpdate>) {
        self.ended |= updates.iter().any(|update| matches!(update.kind, RunUpdateKind::Ended { .. }));
        if n > self.after {
            let updates = updates.into_iter().filter_map(|update| self.without_sent_text(at, update)).collect();
            self.queue.push_back(WatchEvent::Entry { n, at, updates });
        }
    }

    /// Returns the update without the text that was already sent in pieces; `None` if all of the text was already sent.
    fn without_sent_text(&mut self, at: Timestamp, update: RunUpdate) -> Option<RunUpdate> {
        let RunUpdateKind::Text(text) = &update.kind else { return Some(update) };
        if self.sent.iteration != update.iteration {
            return Some(update);
        }
        let sent = std::mem::take(&mut self.sent.text);
        match text.strip_prefix(sent.as_str()) {
            Some("") => None,
            Some(rest) => Some(RunUpdate { kind: RunUpdateKind::Text(rest.to_owned()), ..update }),
            None => {
                self.queue.push_back(WatchEvent::Restart { at, iteration: update.iteration });
                Some(update)
            }
        }
    }

    /// Queues the pieces of a partial reply that were not sent yet. Returns whether the queue has events.
    fn push_partial(&mut self, partial: PartialReply) -> bool {
        let (iteration, at) = (partial.iteration, self.shared.clock.now());
        if (partial.iteration, partial.restarts) != (self.sent.iteration, self.sent.restarts) {
            if partial.iteration == 0 {
                return false;
            }
            if partial.iteration == self.sent.iteration && !(self.sent.text.is_empty() && self.sent.thinking.is_empty())
            {
                self.queue.push_back(WatchEvent::Restart { at, iteration });
            }
            self.sent =
                PartialReply { iteration: partial.iteration, restarts: partial.restarts, ..PartialReply::default() };
        }
        let thinking = take_new(&mut self.sent.thinking, &partial.thinking);
        let text = take_new(&mut self.sent.text, &partial.text);
        self.queue.extend(thinking.map(|delta| WatchEvent::Thinking { at, iteration, delta }));
        self.queue.extend(text.map(|delta| WatchEvent::Text { at, iteration, delta }));
        !self.queue.is_empty()
    }
}

/// Extends `sent` to the length of `whole`, and returns the added part; `None` if nothing was added.
fn take_new(sent: &mut String, whole: &str) -> Option<String> {
    let new = whole.get(sent.len()..).filter(|new| !new.is_empty())?.to_owned();
    sent.push_str(&new);
    Some(new)
}
