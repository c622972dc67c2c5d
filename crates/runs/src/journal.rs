//! The journal of a run: appends entries, writes them to the store and publishes them to watchers.

use std::sync::Arc;

use serde::Serialize;
use serde_json::Value;
use toolwright_machine::agent::{AgentRun, EventKind, ForkState};
use toolwright_machine::journal::{Entry, EntryBody, RunStart, chain};
use toolwright_store::{
    EntryNotes, JournalPosition, RunChange, RunLabels, RunState, StoredCheckpoint, StoredPart, Wait, WaitKind,
    WriteError, Writer,
};
use toolwright_types::{Message, RealmId, Timestamp};

use super::registry::RunHandle;

/// How often a run checks whether the child runs that it waits for have ended, in microseconds.
pub(super) const CHILD_CHECK_INTERVAL_US: i64 = 60_000_000;

/// When an entry must be committed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Durability {
    /// Before the driver acts on the entry.
    Committed,
    /// Later, in a batch, unless the run is durable.
    Deferred,
}

/// When the entries of a run are committed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FlushPolicy {
    /// Entries with [`Durability::Deferred`] are committed later, in batches. Other entries are committed before the
    /// driver acts on them.
    Deferred,
    /// Each entry is committed before the driver acts on it.
    Each,
    /// All entries of one step are committed together, at the end of the step. Watchers see them after the commit.
    Batched,
}

impl FlushPolicy {
    /// The policy of a run that this server drives. If an external scheduler drives the run, its policy is
    /// [`FlushPolicy::Batched`].
    pub(crate) fn of(durable: bool) -> Self {
        if durable { FlushPolicy::Each } else { FlushPolicy::Deferred }
    }
}

/// The journal of one run.
pub(super) struct RunJournal {
    writer: Writer,
    handle: Arc<RunHandle>,
    /// The realm that stores the run.
    realm: RealmId,
    /// The last entry.
    last: JournalPosition,
    policy: FlushPolicy,
    /// Changes that were not handed to the writer yet. They are buffered because waking the writer for each entry would
    /// be slow.
    buffer: Vec<RunChange>,
    /// The number of the entry after which the last checkpoint was taken.
    checkpointed: u64,
    /// Entries that watchers have not seen yet.
    unpublished: Vec<Arc<toolwright_store::JournalEntry>>,
}

/// The minimum number of entries between two checkpoints.
const CHECKPOINT_INTERVAL: u64 = 50;

/// The part of its journal that a run replays at most after its last checkpoint, as a divisor. A checkpoint grows with
/// the run, so checkpoints at a fixed interval would make the total cost of a long run quadratic.
const CHECKPOINT_FRACTION: u64 = 8;

/// The maximum number of characters of the user's message that are stored in the row of a run, for lists and searches.
const MAX_LABEL_CHARS: usize = 500;

/// The maximum length of the label of an agentic tool's run whose input has no task.
const MAX_INPUT_LABEL_CHARS: usize = 200;

/// The maximum number of buffered changes.
const MAX_BUFFERED: usize = 32;

impl RunJournal {
    /// Opens the journal of a run to append entries after the entry `last`. For a new run, `last` is `None`.
    pub(crate) fn new(
        writer: Writer,
        handle: Arc<RunHandle>,
        realm: RealmId,
        last: Option<JournalPosition>,
        policy: FlushPolicy,
    ) -> Self {
        let last = last.unwrap_or_else(|| JournalPosition { n: 0, hash: chain::origin(handle.id) });
        Self { writer, handle, realm, last, policy, buffer: Vec::new(), checkpointed: last.n, unpublished: Vec::new() }
    }

    /// The last entry.
    pub(crate) fn position(&self) -> JournalPosition {
        self.last
    }

    /// Appends an entry, together with changes that are committed in the same transaction. Returns the body of the
    /// entry.
    pub(crate) async fn append_with(
        &mut self,
        at: Timestamp,
        what: EntryBody,
        notes: EntryNotes,
        durability: Durability,
        changes: Vec<RunChange>,
    ) -> Result<EntryBody, WriteError> {
        let (what, full) = self.buffer_entry(at, what, notes, changes);
        self.write_buffered(durability, full).await?;
        Ok(what)
    }

    /// Writes the buffered entry as `durability` and the policy require, and publishes earlier entries.
    async fn write_buffered(
        &mut self,
        durability: Durability,
        full: toolwright_store::JournalEntry,
    ) -> Result<(), WriteError> {
        match (durability, self.policy) {
            (_, FlushPolicy::Batched) => {}
            (Durability::Deferred, FlushPolicy::Deferred) if self.buffer.len() < MAX_BUFFERED => {}
            (Durability::Deferred, FlushPolicy::Deferred) => self.hand_over().await?,
            _ => self.commit(Vec::new()).await?,
        }
        self.publish();
        self.unpublished.push(Arc::new(full));
        Ok(())
    }

    /// Appends entries and changes in one transaction, and waits for its commit.
    pub(crate) async fn append_all(
        &mut self,
        entries: impl Iterator<Item = (Entry, EntryNotes)>,
        mut changes: Vec<RunChange>,
    ) -> Result<(), WriteError> {
        let mut seen = Vec::new();
        for (Entry { at, body: what, .. }, notes) in entries {
            let (_, full) = self.buffer_entry(at, what, notes, std::mem::take(&mut changes));
            seen.push(Arc::new(full));
        }
        self.commit(Vec::new()).await?;
        for entry in seen {
            self.handle.publish(entry);
        }
        Ok(())
    }

    /// Buffers an entry with its changes. Returns the body of the entry, and the entry in the form that watchers read.
    fn buffer_entry(
        &mut self,
        at: Timestamp,
        what: EntryBody,
        notes: EntryNotes,
        mut changes: Vec<RunChange>,
    ) -> (EntryBody, toolwright_store::JournalEntry) {
        let entry = Entry { n: self.last.n + 1, at, body: what };
        let (body, parts) = entry.split_shared_parts();
        let written = toolwright_store::JournalEntry { notes, ..link(&self.last, at, entry.kind(), body) };
        let hash = written.hash;
        // Watchers read the entry with its shared parts.
        let full = if parts.is_empty() { written.clone() } else { with_body(&written, entry.to_json()) };
        name_parts(&mut changes, &parts);
        self.buffer
            .extend(parts.into_iter().map(|part| RunChange::StorePart { realm: self.realm, part: stored_part(part) }));
        self.buffer.extend(changes);
        self.buffer.push(RunChange::Append(written));
        self.last = JournalPosition { n: entry.n, hash };
        (entry.body, full)
    }

    /// Publishes the entries that watchers have not seen yet. With [`FlushPolicy::Batched`], nothing is published
    /// before the commit. With every policy, the caller publishes the end of a run only after its commit, because a watcher
    /// that sees the end may read the stored run at once.
    pub(crate) fn publish(&mut self) {
        if self.policy == FlushPolicy::Batched && self.has_buffered() {
            return;
        }
        for entry in self.unpublished.drain(..) {
            self.handle.publish(entry);
        }
    }

    /// Adds changes other than entries, such as the state of the run, and commits all buffered changes.
    pub(crate) async fn commit(&mut self, changes: Vec<RunChange>) -> Result<(), WriteError> {
        self.buffer.extend(changes);
        self.writer.commit(self.handle.id, std::mem::take(&mut self.buffer)).await
    }

    /// Whether enough entries were written since the last checkpoint: [`CHECKPOINT_INTERVAL`], and in a long run an eighth
    /// of the entries before the checkpoint.
    pub(crate) fn needs_checkpoint(&self) -> bool {
        let interval = CHECKPOINT_INTERVAL.max(self.checkpointed / CHECKPOINT_FRACTION);
        self.last.n.saturating_sub(self.checkpointed) >= interval
    }

    /// Buffers a checkpoint of the machine after the last entry. It is committed with the next commit.
    pub(crate) fn checkpoint(&mut self, run: &AgentRun) {
        if self.checkpointed < self.last.n {
            self.checkpointed = self.last.n;
            self.buffer.push(RunChange::Checkpoint(StoredCheckpoint { n: self.last.n, body: run.save() }));
        }
    }

    /// Whether there are buffered changes.
    pub(crate) fn has_buffered(&self) -> bool {
        !self.buffer.is_empty()
    }

    /// Buffers a change. It is committed with the next commit.
    pub(crate) fn note(&mut self, change: RunChange) {
        self.buffer.push(change);
    }

    /// Hands the buffered changes to the writer.
    pub(crate) async fn hand_over(&mut self) -> Result<(), WriteError> {
        if self.buffer.is_empty() || self.policy == FlushPolicy::Batched {
            return Ok(());
        }
        self.writer.write(self.handle.id, std::mem::take(&mut self.buffer)).await
    }

    /// Hands the buffered changes to the writer. The returned future waits for their commit.
    pub(crate) async fn flush(
        &mut self,
    ) -> Result<impl Future<Output = Result<(), WriteError>> + Send + 'static, WriteError> {
        self.hand_over().await?;
        // A batched run has nothing to wait for here: it commits all entries at the end of the step.
        let writer = (self.policy != FlushPolicy::Batched).then(|| self.writer.clone());
        let id = self.handle.id;
        Ok(async move {
            match writer {
                Some(writer) => writer.commit(id, Vec::new()).await,
                None => Ok(()),
            }
        })
    }
}

/// The stored form of the entry after `last`.
pub(super) fn link(last: &JournalPosition, at: Timestamp, kind: &str, body: String) -> toolwright_store::JournalEntry {
    let n = last.n + 1;
    let hash = chain::link(&last.hash, n, at, &body);
    toolwright_store::JournalEntry { n, at, kind: kind.to_owned(), body, hash, notes: EntryNotes::default() }
}

/// Returns a copy of the entry with another body, for example with the shared parts restored.
pub(super) fn with_body(entry: &toolwright_store::JournalEntry, body: String) -> toolwright_store::JournalEntry {
    let toolwright_store::JournalEntry { n, at, kind, hash, notes, .. } = entry;
    toolwright_store::JournalEntry { n: *n, at: *at, kind: kind.clone(), body, hash: *hash, notes: notes.clone() }
}

/// Returns the notes that are stored with the journal entry of an event. Must be called before the event is applied to
/// the machine.
pub(super) fn notes_of(run: &AgentRun, event: &EventKind) -> EntryNotes {
    EntryNotes {
        call_id: event.call_id().cloned(),
        tool: run.tool_of(event).map(str::to_owned),
        fork_state: Some(ForkState::of(run).to_string()),
    }
}

/// The labels of a new run.
pub(super) fn labels_of(start: &RunStart) -> RunLabels {
    // The user's message of an agentic tool's run also contains instructions. People search for the task, so the task
    // is the label. Without a task, the label is the beginning of the input.
    let task = start.agentic.as_ref().map(|execution| match execution.input.get("task").and_then(Value::as_str) {
        Some(task) => task.to_owned(),
        None => execution.input.to_string().chars().take(MAX_INPUT_LABEL_CHARS).collect(),
    });
    let messages = start.spec.request.messages.iter().rev();
    let last = messages.into_iter().find_map(|message| match message {
        Message::User { content } => Some(content.as_str()),
        _ => None,
    });
    let user_message = task.as_deref().or(last).map(|text| text.chars().take(MAX_LABEL_CHARS).collect());
    let correlation_id = Some(start.correlation_id().to_string());
    RunLabels { agent_version: start.agent_version.clone(), correlation_id, user_message }
}

/// Lists the hashes of the shared parts in the row of the new run, so that the retention cleanup does not delete these
/// parts.
fn name_parts(changes: &mut [RunChange], parts: &[toolwright_machine::journal::shared_parts::SharedPart]) {
    for change in changes {
        if let RunChange::Begin { run, .. } = change {
            run.shared_parts = parts.iter().map(|part| part.hash.clone()).collect();
        }
    }
}

fn stored_part(part: toolwright_machine::journal::shared_parts::SharedPart) -> StoredPart {
    StoredPart { hash: part.hash, body: part.body }
}

/// Returns the state of a run as it is stored in the row of the run. `mark` is the last journal entry. `driven` is a
/// parameter, because it does not follow from the machine: a run that waits may still have a driver.
pub(super) fn state_of(run: &AgentRun, now: Timestamp, mark: JournalPosition, driven: bool) -> RunState {
    let ending = run.ending();
    let resource_usage = run.resource_usage();
    RunState {
        status: run.status(),
        reason: ending.and_then(|ending| ending.reason.clone()),
        message: ending.and_then(|ending| ending.message.clone()),
        updated_at: now,
        ended_at: ending.map(|_| now),
        // Only a suspended run needs a stored timer. A driver has its own timer.
        wake_at: run.suspended().then(|| wake_at(run, now)).flatten(),
        iterations: run.started_model_calls(),
        tokens: resource_usage.usage.total(),
        cost_usd: resource_usage.cost_usd,
        driven,
        journal_position: mark,
    }
}

/// Returns when a suspended run must be woken. A run that waits for a child run is notified when the child run ends. If
/// the server stops before it sends this notification, the notification never arrives. So the run also checks its child
/// runs periodically.
pub(super) fn wake_at(run: &AgentRun, now: Timestamp) -> Option<Timestamp> {
    let looks = (!run.suspended_children().is_empty())
        .then(|| Timestamp::from_micros(now.as_micros().saturating_add(CHILD_CHECK_INTERVAL_US)));
    run.wake_at().into_iter().chain(looks).min()
}

/// Returns the waits of a run as they are stored.
pub(super) fn waits_of(run: &AgentRun) -> Vec<Wait> {
    let approvals = run.pending_approvals().into_iter().map(|request| Wait {
        body: json_text(&request),
        tool: request.tool,
        call_id: request.call_id,
        kind: WaitKind::Approval,
        requested_at: request.requested_at,
        expires_at: request.expires_at,
    });
    let clients = run.pending_client_actions().into_iter().map(|request| Wait {
        body: json_text(&request),
        tool: request.tool,
        call_id: request.call_id,
        kind: WaitKind::Client,
        requested_at: request.handed_over_at,
        expires_at: request.expires_at,
    });
    approvals.chain(clients).collect()
}

#[expect(clippy::expect_used, reason = "every map key of a request is a string and every number finite")]
pub(super) fn json_text(request: &impl Serialize) -> String {
    serde_json::to_string(request).expect("a request serializes to JSON")
}
