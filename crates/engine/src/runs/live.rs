//! The runs that are in memory: who drives them, who watches them, and what is being said right now.
//!
//! A run is here while it is driven or watched. Everything else about it is in its journal.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};

use tokio::sync::{Notify, mpsc, watch};
use toolwright_machine::AgentRun;
use toolwright_machine::journal::Began;
use toolwright_models::Sink;
use toolwright_store::Entry;
use toolwright_types::{PrincipalId, RealmScope, RunId};

use super::signal::Signal;

/// The runs in memory, by id.
#[derive(Default)]
pub(crate) struct Hub(Mutex<Known>);

#[derive(Default)]
struct Known {
    runs: HashMap<RunId, Weak<LiveRun>>,
    /// At this size the map is cleared of runs that are gone.
    sweep_at: usize,
}

/// Where a run stood when it last came to rest.
pub struct Snapshot {
    /// What it began with.
    pub began: Arc<Began>,
    /// The machine.
    pub run: AgentRun,
}

/// One run in memory.
pub(crate) struct LiveRun {
    pub id: RunId,
    /// The way to its driver; none while nobody drives it.
    inbox: Mutex<Option<mpsc::UnboundedSender<Signal>>>,
    feed: Mutex<Feed>,
    changed: Notify,
    settled: watch::Sender<Option<Arc<Snapshot>>>,
    birth: OnceLock<Birth>,
    /// The runs that it has started since it is in memory.
    adopted: Mutex<Vec<RunId>>,
}

/// What never changes about a run.
#[derive(Clone)]
pub(crate) struct Birth {
    pub began: Arc<Began>,
    /// The realm that keeps it; it may act in another.
    pub home: Arc<RealmScope>,
    /// Who asked for it.
    pub owner: PrincipalId,
}

/// What watchers read.
#[derive(Default)]
pub(super) struct Feed {
    /// The whole journal.
    pub entries: Vec<Arc<Entry>>,
    pub said: Said,
}

/// What the model says in the step under way. In no journal: the reply is, when it is whole.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(super) struct Said {
    pub step: u32,
    /// How often the step was begun anew.
    pub restarts: u32,
    pub text: String,
    pub thinking: String,
}

impl Hub {
    /// The run, made known if it was not.
    pub fn get_or_insert(&self, id: RunId) -> Arc<LiveRun> {
        let mut known = lock(&self.0);
        if let Some(live) = known.runs.get(&id).and_then(Weak::upgrade) {
            return live;
        }
        if known.runs.len() >= known.sweep_at {
            known.runs.retain(|_, live| live.strong_count() > 0);
            known.sweep_at = (known.runs.len() * 2).max(1024);
        }
        let live = Arc::new(LiveRun::new(id));
        known.runs.insert(id, Arc::downgrade(&live));
        live
    }

    /// The run, if it is in memory.
    pub fn get(&self, id: RunId) -> Option<Arc<LiveRun>> {
        lock(&self.0).runs.get(&id).and_then(Weak::upgrade)
    }
}

impl LiveRun {
    fn new(id: RunId) -> Self {
        Self {
            id,
            inbox: Mutex::default(),
            feed: Mutex::default(),
            changed: Notify::new(),
            settled: watch::Sender::new(None),
            birth: OnceLock::new(),
            adopted: Mutex::default(),
        }
    }

    /// What never changes about the run, once somebody has loaded it.
    pub fn birth(&self) -> Option<&Birth> {
        self.birth.get()
    }

    /// Remembers a run that this one has started.
    pub fn adopt(&self, child: RunId) {
        lock(&self.adopted).push(child);
    }

    /// The runs that this one has started since it is in memory.
    pub fn adopted(&self) -> Vec<RunId> {
        lock(&self.adopted).clone()
    }

    /// Gives up a run that could not begin.
    pub fn abandon(&self) {
        *lock(&self.inbox) = None;
        self.settled.send_replace(None);
    }

    /// Whether this process drives it.
    pub fn is_driven(&self) -> bool {
        lock(&self.inbox).is_some()
    }

    /// Takes the place of the driver of a run that has just begun.
    pub fn begin(&self, birth: Birth) -> mpsc::UnboundedReceiver<Signal> {
        let _ = self.birth.set(birth);
        self.open(&mut lock(&self.inbox), None)
    }

    /// Sends a signal to the driver. If there is none, the caller gets the inbox of the one it must start.
    // INVARIANT: signals are sent, and a driver leaves, under the same lock. So none is lost, and no run has two drivers.
    pub fn send(&self, signal: Signal) -> Option<mpsc::UnboundedReceiver<Signal>> {
        let mut inbox = lock(&self.inbox);
        let undelivered = match inbox.as_ref() {
            Some(driver) => driver.send(signal).err().map(|gone| gone.0),
            None => Some(signal),
        };
        undelivered.map(|signal| self.open(&mut inbox, Some(signal)))
    }

    /// Ends the driver's part, unless a signal has come in the meantime: then it is given, and the driver goes on.
    pub fn leave(
        &self,
        inbox: &mut mpsc::UnboundedReceiver<Signal>,
        snapshot: Option<Arc<Snapshot>>,
    ) -> Option<Signal> {
        let mut own = lock(&self.inbox);
        if let Ok(signal) = inbox.try_recv() {
            return Some(signal);
        }
        *own = None;
        self.settled.send_replace(snapshot);
        None
    }

    /// Where the run stands when it next comes to rest; none when its driver was lost.
    pub async fn settled(&self) -> Option<Arc<Snapshot>> {
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

    /// Gives the feed what the journal had when the run was loaded.
    pub fn recall(&self, birth: Birth, entries: Vec<Arc<Entry>>) {
        let _ = self.birth.set(birth);
        let mut feed = lock(&self.feed);
        if feed.entries.len() < entries.len() {
            feed.entries = entries;
        }
        drop(feed);
        self.changed.notify_waiters();
    }

    /// Shows an entry to watchers.
    pub fn show(&self, entry: Arc<Entry>) {
        let mut feed = lock(&self.feed);
        if matches!(entry.kind.as_str(), "model_replied" | "model_failed") {
            feed.said.text.clear();
            feed.said.thinking.clear();
        }
        // A watcher may have come between the entry and this, and have found it in the store; or others have gone on with
        // the run meanwhile, and what is between is read from there.
        if feed.entries.last().map_or(0, |last| last.n) + 1 == entry.n {
            feed.entries.push(entry);
        }
        drop(feed);
        self.changed.notify_waiters();
    }

    /// The number of the last entry that is known here.
    pub fn last_entry(&self) -> u64 {
        lock(&self.feed).entries.last().map_or(0, |last| last.n)
    }

    /// Adds entries that another server wrote.
    pub fn learn(&self, news: Vec<Arc<Entry>>) {
        let mut feed = lock(&self.feed);
        let known = feed.entries.last().map_or(0, |last| last.n);
        feed.entries.extend(news.into_iter().filter(|entry| entry.n > known));
        drop(feed);
        self.changed.notify_waiters();
    }

    /// The journal so far, if the run was loaded.
    pub fn entries(&self) -> Vec<Arc<Entry>> {
        lock(&self.feed).entries.clone()
    }

    pub(super) fn feed(&self) -> MutexGuard<'_, Feed> {
        lock(&self.feed)
    }

    pub(super) fn changed(&self) -> &Notify {
        &self.changed
    }

    fn open(
        &self,
        inbox: &mut MutexGuard<'_, Option<mpsc::UnboundedSender<Signal>>>,
        first: Option<Signal>,
    ) -> mpsc::UnboundedReceiver<Signal> {
        let (sender, receiver) = mpsc::unbounded_channel();
        if let Some(signal) = first {
            // The receiver is right here.
            let _ = sender.send(signal);
        }
        **inbox = Some(sender);
        self.settled.send_replace(None);
        receiver
    }
}

/// Lets watchers hear what the model says in one step.
pub(super) struct Listener(Arc<LiveRun>);

impl Listener {
    pub fn to(live: Arc<LiveRun>, step: u32) -> Self {
        live.feed().said = Said { step, ..Said::default() };
        Self(live)
    }

    fn hear(&self, change: impl FnOnce(&mut Said)) {
        change(&mut self.0.feed().said);
        self.0.changed.notify_waiters();
    }
}

impl Sink for Listener {
    fn text(&mut self, delta: &str) {
        self.hear(|said| said.text.push_str(delta));
    }

    fn thinking(&mut self, delta: &str) {
        self.hear(|said| said.thinking.push_str(delta));
    }

    fn restart(&mut self) {
        self.hear(|said| *said = Said { step: said.step, restarts: said.restarts + 1, ..Said::default() });
    }
}

/// A panic elsewhere does not make what it left behind unusable: every change above is whole.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
