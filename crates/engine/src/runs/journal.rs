//! Writes a run's journal: an entry goes to the store and to those who watch before it counts.

use std::sync::Arc;

use toolwright_machine::agent::AgentRun;
use toolwright_machine::journal::{Entry, Recorded, chain};
use toolwright_store::{Change, Checkpoint, Mark, Part, RunState, Wait, WaitKind, WriteError, Writer};
use toolwright_types::{RealmId, Timestamp};

use super::live::LiveRun;

/// How often a run looks after the runs it waits for, in microseconds.
pub(super) const LOOK_AFTER_US: i64 = 60_000_000;

/// How soon an entry must be safe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Safety {
    /// Before anything follows from it.
    Now,
    /// As soon as it suits the store, unless the run is durable.
    Soon,
}

/// When entries are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Pace {
    /// Those that may wait, when it suits the store.
    Behind,
    /// Each before anything follows from it.
    Each,
    /// All together when the run is settled, and nobody sees them before.
    Together,
}

impl Pace {
    /// That of a run that this server drives.
    pub fn of(durable: bool) -> Self {
        if durable { Pace::Each } else { Pace::Behind }
    }
}

/// The journal of one run.
pub(super) struct RunJournal {
    writer: Writer,
    live: Arc<LiveRun>,
    /// The realm that keeps it.
    realm: RealmId,
    /// The last entry.
    last: Mark,
    pace: Pace,
    /// What nobody waits for, until there is enough of it or the run has nothing else to do: waking the writer for each
    /// entry would cost more than the entry.
    held: Vec<Change>,
    /// The entry that the last checkpoint was made after.
    checked: u64,
    /// The last entries, until watchers are shown them.
    unseen: Vec<Arc<toolwright_store::Entry>>,
}

/// After how many entries a run is worth a checkpoint.
const LONG: u64 = 50;

/// How many changes are held at most.
const MOST_HELD: usize = 32;

impl RunJournal {
    /// The journal of `live` after its entry `last`; from its beginning when there is none.
    pub fn new(writer: Writer, live: Arc<LiveRun>, realm: RealmId, last: Option<Mark>, pace: Pace) -> Self {
        let last = last.unwrap_or_else(|| Mark { n: 0, hash: chain::origin(live.id) });
        Self { writer, live, realm, last, pace, held: Vec::new(), checked: last.n, unseen: Vec::new() }
    }

    /// The last entry.
    pub fn mark(&self) -> Mark {
        self.last
    }

    /// Appends an entry and gives back what it says.
    pub async fn append(&mut self, at: Timestamp, what: Recorded, safety: Safety) -> Result<Recorded, WriteError> {
        self.append_with(at, what, safety, Vec::new()).await
    }

    /// The same, with changes that are made together with it.
    pub async fn append_with(
        &mut self,
        at: Timestamp,
        what: Recorded,
        safety: Safety,
        changes: Vec<Change>,
    ) -> Result<Recorded, WriteError> {
        let (what, whole) = self.hold(at, what, changes);
        match (safety, self.pace) {
            (_, Pace::Together) => {}
            (Safety::Soon, Pace::Behind) if self.held.len() < MOST_HELD => {}
            (Safety::Soon, Pace::Behind) => self.pass_on().await?,
            _ => self.settle(Vec::new()).await?,
        }
        self.reveal();
        self.unseen.push(Arc::new(whole));
        Ok(what)
    }

    /// Appends entries that are written together with these changes or not at all, and waits until they are safe.
    pub async fn append_all(
        &mut self,
        entries: impl Iterator<Item = Entry>,
        mut changes: Vec<Change>,
    ) -> Result<(), WriteError> {
        let mut seen = Vec::new();
        for Entry { at, what, .. } in entries {
            let (_, whole) = self.hold(at, what, std::mem::take(&mut changes));
            seen.push(Arc::new(whole));
        }
        self.settle(Vec::new()).await?;
        for entry in seen {
            self.live.show(entry);
        }
        Ok(())
    }

    /// Holds an entry and the changes that belong to it, and gives what it says and the entry as watchers read it.
    fn hold(&mut self, at: Timestamp, what: Recorded, mut changes: Vec<Change>) -> (Recorded, toolwright_store::Entry) {
        let entry = Entry { n: self.last.n + 1, at, what };
        let (body, parts) = entry.parted();
        let written = link(&self.last, at, entry.kind(), body);
        let hash = written.hash;
        // Watchers read an entry as a whole.
        let whole = if parts.is_empty() { written.clone() } else { with_body(&written, entry.body()) };
        name_parts(&mut changes, &parts);
        self.held.extend(parts.into_iter().map(|part| Change::Keep { realm: self.realm, part: kept(part) }));
        self.held.extend(changes);
        self.held.push(Change::Append(written));
        self.last = Mark { n: entry.n, hash };
        (entry.what, whole)
    }

    /// Shows the last entry to watchers. That of an end comes after everything about it is safe: whoever hears that a
    /// run has ended may go on from there at once.
    pub fn reveal(&mut self) {
        if self.pace == Pace::Together && self.has_news() {
            return;
        }
        for entry in self.unseen.drain(..) {
            self.live.show(entry);
        }
    }

    /// Makes changes that are no entries, such as where the run stands, and waits until everything so far is safe.
    pub async fn settle(&mut self, changes: Vec<Change>) -> Result<(), WriteError> {
        self.held.extend(changes);
        self.writer.commit(self.live.id, std::mem::take(&mut self.held)).await
    }

    /// Whether much was written since the last checkpoint.
    pub fn is_long(&self) -> bool {
        self.last.n.saturating_sub(self.checked) >= LONG
    }

    /// Lets whoever takes the run up begin where it stands after the last entry. Written with what comes next.
    pub fn checkpoint(&mut self, run: &AgentRun) {
        if self.checked < self.last.n {
            self.checked = self.last.n;
            self.held.push(Change::Checkpoint(Checkpoint { n: self.last.n, body: run.save() }));
        }
    }

    /// Whether something is not written yet.
    pub fn has_news(&self) -> bool {
        !self.held.is_empty()
    }

    /// The same without waiting.
    pub fn note(&mut self, change: Change) {
        self.held.push(change);
    }

    /// Hands what is held to the writer.
    pub async fn pass_on(&mut self) -> Result<(), WriteError> {
        if self.held.is_empty() || self.pace == Pace::Together {
            return Ok(());
        }
        self.writer.write(self.live.id, std::mem::take(&mut self.held)).await
    }

    /// A handle that waits until everything so far is safe.
    pub async fn flush(&mut self) -> Result<impl Future<Output = Result<(), WriteError>> + Send + 'static, WriteError> {
        self.pass_on().await?;
        // What is written together is safe before anybody hears of it.
        let writer = (self.pace != Pace::Together).then(|| self.writer.clone());
        let id = self.live.id;
        Ok(async move {
            match writer {
                Some(writer) => writer.commit(id, Vec::new()).await,
                None => Ok(()),
            }
        })
    }
}

/// An entry as it is written behind the last one.
pub(super) fn link(last: &Mark, at: Timestamp, kind: &str, body: String) -> toolwright_store::Entry {
    let n = last.n + 1;
    let hash = chain::link(&last.hash, n, at, &body);
    toolwright_store::Entry { n, at, kind: kind.to_owned(), body, hash }
}

/// The entry with another body.
pub(super) fn with_body(entry: &toolwright_store::Entry, body: String) -> toolwright_store::Entry {
    toolwright_store::Entry { n: entry.n, at: entry.at, kind: entry.kind.clone(), body, hash: entry.hash }
}

/// Lets the row of a run that begins name the parts of its first entry.
fn name_parts(changes: &mut [Change], parts: &[toolwright_machine::journal::parts::Part]) {
    for change in changes {
        if let Change::Begin { run, .. } = change {
            run.parts = parts.iter().map(|part| part.hash.clone()).collect();
        }
    }
}

fn kept(part: toolwright_machine::journal::parts::Part) -> Part {
    Part { hash: part.hash, body: part.body }
}

/// Where a run stands after its entry `mark`, as the store lists it. Whether it is driven is its driver's to say: one that
/// only waits may still be looked after.
pub(super) fn state_of(run: &AgentRun, now: Timestamp, mark: Mark, driven: bool) -> RunState {
    let ending = run.ending();
    let spent = run.spent();
    RunState {
        status: run.status(),
        reason: ending.and_then(|ending| ending.reason.clone()),
        message: ending.and_then(|ending| ending.message.clone()),
        updated_at: now,
        ended_at: ending.map(|_| now),
        // A run that is driven has its own timer.
        wake_at: run.suspended().then(|| wake_at(run, now)).flatten(),
        iterations: run.model_calls(),
        tokens: spent.usage.total(),
        cost_usd: spent.cost_usd,
        driven,
        mark,
    }
}

/// When a run that waits must be looked at. One that waits for a run it started is told when that ends; should the
/// server stop in between, it finds out by itself.
pub(super) fn wake_at(run: &AgentRun, now: Timestamp) -> Option<Timestamp> {
    let looks =
        (!run.paused().is_empty()).then(|| Timestamp::from_micros(now.as_micros().saturating_add(LOOK_AFTER_US)));
    run.wake_at().into_iter().chain(looks).min()
}

/// What a run waits for, as the store lists it.
pub(super) fn waits_of(run: &AgentRun) -> Vec<Wait> {
    let approvals = run.approvals().into_iter().map(|request| Wait {
        body: serde_json::to_string(&request).unwrap_or_default(),
        call_id: request.call_id,
        kind: WaitKind::Approval,
        asked_at: request.asked_at,
        expires_at: request.expires_at,
    });
    let clients = run.client_actions().into_iter().map(|request| Wait {
        body: serde_json::to_string(&request).unwrap_or_default(),
        call_id: request.call_id,
        kind: WaitKind::Client,
        asked_at: request.handed_at,
        expires_at: request.expires_at,
    });
    approvals.chain(clients).collect()
}
