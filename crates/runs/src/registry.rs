//! The registry of the runs in memory, with the channels to their drivers and the data for their watchers.
//!
//! A run is registered while it is driven or watched. All other data of a run is in the store.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};

use tokio::sync::{Notify, mpsc, watch};
use toolwright_machine::AgentRun;
use toolwright_machine::journal::RunStart;
use toolwright_models::Sink;
use toolwright_store::JournalEntry;
use toolwright_types::{Owner, RealmScope, RunId};

use super::command::CommandRequest;

/// The runs in memory, by id.
#[derive(Default)]
pub(crate) struct RunRegistry(Mutex<RegisteredRuns>);

#[derive(Default)]
struct RegisteredRuns {
    runs: HashMap<RunId, Weak<RunHandle>>,
    /// The number of registered runs at which unused handles are removed.
    sweep_at: usize,
}

/// The first entry and the machine of a run at one point in time.
pub struct RunSnapshot {
    /// The first entry of the run's journal.
    pub start: Arc<RunStart>,
    /// The state of the machine.
    pub run: AgentRun,
}

/// A run in memory.
pub struct RunHandle {
    /// The id of the run.
    pub id: RunId,
    /// Sends commands to the driver; `None` while this process does not drive the run.
    inbox: Mutex<Option<mpsc::UnboundedSender<CommandRequest>>>,
    feed: Mutex<EntryFeed>,
    changed: Notify,
    settled: watch::Sender<Option<Arc<RunSnapshot>>>,
    meta: OnceLock<RunMeta>,
    children: Mutex<ChildRuns>,
}

/// The child runs of a run in memory.
#[derive(Default)]
struct ChildRuns {
    /// The child runs that were started while the run was in memory.
    started: Vec<RunId>,
    /// The child runs whose calls have ended before them.
    abandoned: HashSet<RunId>,
}

/// The metadata of a run, which never changes.
#[derive(Clone)]
pub struct RunMeta {
    /// The first entry of the run's journal.
    pub start: Arc<RunStart>,
    /// The realm that stores the run. The run may act in another realm.
    pub home: Arc<RealmScope>,
    /// The principal that started the run.
    pub owner: Owner,
}

/// The journal entries and the partial model reply that watchers read.
#[derive(Default)]
pub(super) struct EntryFeed {
    /// The journal so far.
    pub entries: Vec<Arc<JournalEntry>>,
    pub partial: PartialReply,
}

/// The part of the current model reply that has arrived so far. Only the complete reply is written to the journal.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(super) struct PartialReply {
    pub iteration: u32,
    /// The number of times that the reply started again from its beginning, because the model call was retried.
    pub restarts: u32,
    pub text: String,
    pub thinking: String,
}

impl RunRegistry {
    /// Returns the handle of a run. Registers the run if it is not in memory.
    pub(crate) fn get_or_insert(&self, id: RunId) -> Arc<RunHandle> {
        let mut registered = lock(&self.0);
        if let Some(handle) = registered.runs.get(&id).and_then(Weak::upgrade) {
            return handle;
        }
        if registered.runs.len() >= registered.sweep_at {
            registered.runs.retain(|_, handle| handle.strong_count() > 0);
            registered.sweep_at = (registered.runs.len() * 2).max(1024);
        }
        let handle = Arc::new(RunHandle::new(id));
        registered.runs.insert(id, Arc::downgrade(&handle));
        handle
    }

    /// The handle of a run in memory.
    pub(crate) fn get(&self, id: RunId) -> Option<Arc<RunHandle>> {
        lock(&self.0).runs.get(&id).and_then(Weak::upgrade)
    }
}

impl RunHandle {
    fn new(id: RunId) -> Self {
        Self {
            id,
            inbox: Mutex::default(),
            feed: Mutex::default(),
            changed: Notify::new(),
            settled: watch::Sender::new(None),
            meta: OnceLock::new(),
            children: Mutex::default(),
        }
    }

    /// The metadata of the run; `None` until the run is loaded.
    pub fn meta(&self) -> Option<&RunMeta> {
        self.meta.get()
    }

    /// Registers a child run.
    pub fn add_child(&self, child: RunId) {
        lock(&self.children).started.push(child);
    }

    /// Records that the call of a child run has ended. The child run may not have started yet.
    pub fn abandon_child(&self, child: RunId) {
        lock(&self.children).abandoned.insert(child);
    }

    /// Whether the call of a child run has ended before the child run.
    pub fn has_abandoned(&self, child: RunId) -> bool {
        lock(&self.children).abandoned.contains(&child)
    }

    /// The child runs that were started while the run was in memory.
    pub fn children(&self) -> Vec<RunId> {
        lock(&self.children).started.clone()
    }

    /// Removes the driver from the handle, because the run could not be started.
    pub fn discard(&self) {
        *lock(&self.inbox) = None;
        self.settled.send_replace(None);
    }

    /// Whether this process drives the run.
    pub fn is_driven(&self) -> bool {
        lock(&self.inbox).is_some()
    }

    /// Registers the driver of a new run. Returns the driver's inbox.
    pub fn attach_driver(&self, meta: RunMeta) -> mpsc::UnboundedReceiver<CommandRequest> {
        let _ = self.meta.set(meta);
        self.open(&mut lock(&self.inbox), None)
    }

    /// Sends a command to the driver. If there is no driver, returns an inbox that contains the command. The caller
    /// must then start a driver with this inbox.
    // INVARIANT: commands are sent and drivers are released under the same lock. So no command is lost, and no run has
    // two drivers in this process.
    pub fn send(&self, request: CommandRequest) -> Option<mpsc::UnboundedReceiver<CommandRequest>> {
        let mut inbox = lock(&self.inbox);
        let undelivered = match inbox.as_ref() {
            Some(driver) => driver.send(request).err().map(|unsent| unsent.0),
            None => Some(request),
        };
        undelivered.map(|request| self.open(&mut inbox, Some(request)))
    }

    /// Releases the driver and publishes the snapshot. If the inbox still contains a command, the driver is not
    /// released: the command is returned, and the driver must execute it.
    pub fn release(
        &self,
        inbox: &mut mpsc::UnboundedReceiver<CommandRequest>,
        snapshot: Option<Arc<RunSnapshot>>,
    ) -> Option<CommandRequest> {
        let mut own = lock(&self.inbox);
        if let Ok(request) = inbox.try_recv() {
            return Some(request);
        }
        *own = None;
        self.settled.send_replace(snapshot);
        None
    }

    /// Waits until the run ends or is suspended, and returns its snapshot. Returns `None` if the driver stopped before
    /// that, because the server stops or the journal cannot be written.
    pub async fn settled(&self) -> Option<Arc<RunSnapshot>> {
        let mut settled = self.settled.subscribe();
        loop {
            if let Some(snapshot) = settled.borrow_and_update().clone() {
                return Some(snapshot);
            }
            if lock(&self.inbox).is_none() {
                return None;
            }
            settled.changed().await.ok()?;
        }
    }

    /// Sets the metadata and the entries of a run that was loaded.
    pub fn set_history(&self, meta: RunMeta, entries: Vec<Arc<JournalEntry>>) {
        let _ = self.meta.set(meta);
        let mut feed = lock(&self.feed);
        if feed.entries.len() < entries.len() {
            feed.entries = entries;
        }
        drop(feed);
        self.changed.notify_waiters();
    }

    /// Publishes an entry to watchers.
    pub fn publish(&self, entry: Arc<JournalEntry>) {
        let mut feed = lock(&self.feed);
        if matches!(entry.kind.as_str(), "model_replied" | "model_failed") {
            feed.partial.text.clear();
            feed.partial.thinking.clear();
        }
        // The feed has only consecutive entries. An entry that is already in the feed is skipped. An entry after a gap
        // is skipped too: another server wrote the missing entries, and watchers then read all of them from the store.
        if feed.entries.last().map_or(0, |last| last.n) + 1 == entry.n {
            feed.entries.push(entry);
        }
        drop(feed);
        self.changed.notify_waiters();
    }

    /// The number of the last entry in memory.
    pub fn last_entry(&self) -> u64 {
        lock(&self.feed).entries.last().map_or(0, |last| last.n)
    }

    /// Adds entries that another server wrote.
    pub fn append_foreign(&self, entries: Vec<Arc<JournalEntry>>) {
        let mut feed = lock(&self.feed);
        let last = feed.entries.last().map_or(0, |last| last.n);
        feed.entries.extend(entries.into_iter().filter(|entry| entry.n > last));
        drop(feed);
        self.changed.notify_waiters();
    }

    /// The entries in memory.
    pub fn entries(&self) -> Vec<Arc<JournalEntry>> {
        lock(&self.feed).entries.clone()
    }

    pub(super) fn feed(&self) -> MutexGuard<'_, EntryFeed> {
        lock(&self.feed)
    }

    pub(super) fn changed(&self) -> &Notify {
        &self.changed
    }

    fn open(
        &self,
        inbox: &mut MutexGuard<'_, Option<mpsc::UnboundedSender<CommandRequest>>>,
        first: Option<CommandRequest>,
    ) -> mpsc::UnboundedReceiver<CommandRequest> {
        let (sender, receiver) = mpsc::unbounded_channel();
        if let Some(request) = first {
            // This cannot fail: the receiver exists.
            let _ = sender.send(request);
        }
        **inbox = Some(sender);
        self.settled.send_replace(None);
        receiver
    }
}

/// Publishes the partial reply of a model to the watchers of a run.
pub(super) struct ReplyPublisher(Arc<RunHandle>);

impl ReplyPublisher {
    pub(crate) fn new(handle: Arc<RunHandle>, iteration: u32) -> Self {
        handle.feed().partial = PartialReply { iteration, ..PartialReply::default() };
        Self(handle)
    }

    fn update(&self, change: impl FnOnce(&mut PartialReply)) {
        change(&mut self.0.feed().partial);
        self.0.changed.notify_waiters();
    }
}

impl Sink for ReplyPublisher {
    fn text(&mut self, delta: &str) {
        self.update(|reply| reply.text.push_str(delta));
    }

    fn thinking(&mut self, delta: &str) {
        self.update(|reply| reply.thinking.push_str(delta));
    }

    fn restart(&mut self) {
        self.update(|reply| {
            *reply =
                PartialReply { iteration: reply.iteration, restarts: reply.restarts + 1, ..PartialReply::default() }
        });
    }
}

/// Locks a mutex. Poisoning is ignored, because no code in this module can panic in the middle of a change.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
