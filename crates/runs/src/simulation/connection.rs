//! The connection of a server to the simulated database, with faults.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures::future::BoxFuture;
use toolwright_store::{
    InboxItem, RunChange, RunChanges, RunStore, ServerId, StoreError, StoredTask, TaskStart, TaskState, WriteError,
};
use toolwright_types::{RunId, Timestamp};

use super::server::Lifetime;
use super::world::{Row, SCHEDULER, TaskRow, World, home};
use crate::ports::{ScheduledRun, TaskStore};

/// The connection of one server.
pub(super) struct Connection {
    pub world: World,
    pub lifetime: Arc<Lifetime>,
    /// Whether all requests fail.
    pub disconnected: AtomicBool,
}

/// The outcome of sending a request.
enum Delivery {
    Delivered,
    /// The request takes effect, and its reply is lost.
    ReplyLost,
    Lost,
}

impl Connection {
    /// Waits for the duration of a request, and returns whether the request and its reply are delivered.
    async fn send(&self) -> Delivery {
        let faults = self.world.state().faults;
        self.lifetime.maybe_crash("before a transaction").await;
        self.world
            .sleep_random(|random| if random.chance(faults.slow) { random.millis(25_000) } else { random.millis(30) })
            .await;
        if self.disconnected.load(Ordering::Relaxed) {
            tokio::time::sleep(Duration::from_secs(5)).await;
            return Delivery::Lost;
        }
        if self.world.chance(faults.refused) {
            return Delivery::Lost;
        }
        if self.world.chance(faults.reply_lost) { Delivery::ReplyLost } else { Delivery::Delivered }
    }

    /// Sends a request that has the given effect, and returns the reply. Returns an error if the request or the reply
    /// is lost.
    async fn ask<T>(&self, effect: impl FnOnce() -> T) -> Result<T, StoreError> {
        let fate = self.send().await;
        if matches!(fate, Delivery::Lost) {
            return Err(gone());
        }
        let answer = effect();
        self.lifetime.maybe_crash("after a transaction").await;
        if matches!(fate, Delivery::ReplyLost) { Err(gone()) } else { Ok(answer) }
    }

    /// Simulates the duration and the faults of a read. The caller then reads the state directly.
    pub(super) async fn read(&self) -> Result<(), StoreError> {
        self.ask(|| ()).await
    }
}

fn gone() -> StoreError {
    std::io::Error::other("simulated").into()
}

impl RunStore for Connection {
    fn write<'a>(
        &'a self,
        server: &'a ServerId,
        _now: Timestamp,
        changes: &'a [RunChanges<'a>],
    ) -> BoxFuture<'a, HashMap<RunId, WriteError>> {
        Box::pin(async move {
            let written = self.ask(|| write(&self.world, &server.to_string(), changes)).await;
            written.unwrap_or_else(|error| {
                let source = Arc::new(error);
                let failed = |run: RunId| WriteError::Store { run, source: Arc::clone(&source) };
                changes.iter().map(|(run, _)| (*run, failed(*run))).collect()
            })
        })
    }

    fn lease<'a>(&'a self, server: &'a ServerId, until: Timestamp) -> BoxFuture<'a, Result<(), StoreError>> {
        Box::pin(self.ask(move || {
            self.world.note(|| format!("{} has a lease until {}", self.lifetime.name, until.as_micros() / 1000));
            let mut state = self.world.state();
            let lease = state.leases.entry(server.to_string()).or_insert(until);
            *lease = (*lease).max(until);
        }))
    }

    fn end_lease<'a>(&'a self, server: &'a ServerId) -> BoxFuture<'a, Result<(), StoreError>> {
        Box::pin(self.ask(move || self.world.state().leases.retain(|other, _| *other != server.to_string())))
    }

    fn end_all_leases(&self) -> BoxFuture<'_, Result<(), StoreError>> {
        Box::pin(self.ask(|| self.world.state().leases.clear()))
    }

    fn claim_run<'a>(
        &'a self,
        run: RunId,
        server: &'a ServerId,
        now: Timestamp,
    ) -> BoxFuture<'a, Result<bool, StoreError>> {
        Box::pin(self.ask(move || {
            let server = server.to_string();
            let mut state = self.world.state();
            let Some(row) = state.rows.get(&run) else { return false };
            let held = row.driver.as_ref().is_some_and(|driver| {
                let leased = state.leases.get(driver).is_some_and(|until| *until > now);
                driver == SCHEDULER || *driver != server && leased
            });
            let free = row.state.ended_at.is_none() && !held;
            if free && let Some(row) = state.rows.get_mut(&run) {
                row.driver = Some(server);
            }
            drop(state);
            self.world.note(|| format!("{} takes {run}: {free}", self.lifetime.name));
            free
        }))
    }
}

/// Executes one transaction under the constraints of the database: entry numbers are unique, and only the driver of a
/// run may write to it.
fn write(world: &World, server: &str, changes: &[RunChanges<'_>]) -> HashMap<RunId, WriteError> {
    let mut failed = HashMap::new();
    let mut runs: Vec<RunId> = changes.iter().map(|(run, _)| *run).collect();
    runs.sort_unstable();
    runs.dedup();
    for run in runs {
        let of_run: Vec<&RunChange> =
            changes.iter().filter(|(other, _)| *other == run).flat_map(|(_, changes)| *changes).collect();
        if !write_run(world, server, run, &of_run) {
            failed.insert(run, WriteError::Conflict(run));
        }
    }
    failed
}

fn write_run(world: &World, server: &str, run: RunId, changes: &[&RunChange]) -> bool {
    let mut state = world.state();
    let begins = changes.iter().any(|change| matches!(change, RunChange::Begin { .. }));
    let claims = changes.iter().any(|change| matches!(change, RunChange::Append(_) | RunChange::UpdateState { .. }));
    match state.rows.get(&run) {
        Some(_) if begins => return false,
        None if !begins => return false,
        Some(row) if claims && row.driver.as_deref() != Some(server) => return false,
        _ => {}
    }
    let last = state.rows.get(&run).map_or(0, |row| row.entries.len() as u64);
    let mut numbers = changes.iter().filter_map(|change| match change {
        RunChange::Append(entry) => Some(entry.n),
        _ => None,
    });
    match numbers.next() {
        Some(first) if first <= last => return false,
        Some(first) if first > last + 1 => {
            state.violations.push(format!("{run}: entry {first} is written after entry {last}"));
            return false;
        }
        _ => {}
    }
    // A change is rejected if it would set the state of the run back to an earlier journal position.
    let position = state.rows.get(&run).map_or(0, |row| row.state.journal_position.n);
    let mut positions = changes.iter().filter_map(|change| match change {
        RunChange::UpdateState { state, .. } => Some(state.journal_position.n),
        _ => None,
    });
    if positions.any(|n| n < position) {
        return false;
    }
    drop(state);
    for change in changes {
        apply(world, server, run, change);
    }
    true
}

fn apply(world: &World, server: &str, run: RunId, change: &RunChange) {
    if let RunChange::Append(entry) = change {
        world.note(|| format!("{run} {} {}", entry.n, entry.kind));
    }
    let mut state = world.state();
    if let RunChange::Begin { state: started, .. } = change {
        let (started, driver) = ((**started).clone(), Some(server.to_owned()));
        let row = Row {
            entries: Vec::new(),
            checkpoint: None,
            state: started,
            waits: Vec::new(),
            effects: BTreeMap::new(),
            decisions: Vec::new(),
            driver,
        };
        state.rows.insert(run, row);
        if server == SCHEDULER {
            state.scheduled.insert(run);
        }
    }
    let Some(row) = state.rows.get_mut(&run) else { return };
    match change {
        RunChange::Append(entry) => row.entries.push(entry.clone()),
        RunChange::Checkpoint(checkpoint) if row.checkpoint.as_ref().is_none_or(|older| older.n <= checkpoint.n) => {
            row.checkpoint = Some(checkpoint.clone());
        }
        RunChange::UpdateState { state, waits } => {
            row.driver = state.driven.then(|| server.to_owned());
            row.state = state.clone();
            row.waits = waits.clone();
        }
        RunChange::RecordEffect(effect) => {
            row.effects.insert(effect.call_id.clone(), effect.outcome);
        }
        RunChange::Decide(decision) => row.decisions.push(decision.n),
        RunChange::Reply { id, reply } => {
            if let Some(item) = state.inbox.get_mut(&(run, id.clone())) {
                item.reply = Some(reply.clone());
            }
        }
        RunChange::ClearTasks => state.tasks.retain(|(of, _), _| *of != run),
        _ => {}
    }
}

impl TaskStore for Connection {
    fn run(&self, run: RunId) -> BoxFuture<'_, Result<Option<ScheduledRun>, StoreError>> {
        Box::pin(self.ask(move || {
            let state = self.world.state();
            let row = state.rows.get(&run)?;
            Some(ScheduledRun {
                home: (*home()).clone(),
                status: row.state.status,
                position: row.state.journal_position,
                parent: None,
                scheduled: row.driver.as_deref() == Some(SCHEDULER),
            })
        }))
    }

    fn start_task<'a>(&'a self, start: TaskStart<'a>) -> BoxFuture<'a, Result<TaskState, StoreError>> {
        Box::pin(self.ask(move || {
            let mut state = self.world.state();
            let (key, server) = ((start.run, start.id.to_owned()), start.server.to_string());
            let open = state.rows.get(&start.run).is_some_and(|row| row.state.ended_at.is_none());
            let found = match state.tasks.get(&key) {
                Some(TaskRow { outcome: Some(_), .. }) => TaskState::Done,
                Some(task) => {
                    let leased = state.leases.get(&task.server).is_some_and(|until| *until > start.at);
                    match (task.server != server && leased, task.invocation == start.invocation) {
                        (true, false) => TaskState::Claimed,
                        _ if open && start.repeatable => TaskState::New,
                        (true, true) => TaskState::Running,
                        (false, _) => TaskState::Lost,
                    }
                }
                None if open => TaskState::New,
                None => TaskState::Obsolete,
            };
            if found == TaskState::New {
                let invocation = start.invocation.to_owned();
                state.tasks.insert(key, TaskRow { server, invocation, outcome: None });
            }
            found
        }))
    }

    fn finish_task<'a>(&'a self, run: RunId, id: &'a str, outcome: &'a str) -> BoxFuture<'a, Result<(), StoreError>> {
        Box::pin(self.ask(move || {
            let mut state = self.world.state();
            if let Some(task) = state.tasks.get_mut(&(run, id.to_owned())).filter(|task| task.outcome.is_none()) {
                task.outcome = Some(outcome.to_owned());
            }
        }))
    }

    fn task<'a>(&'a self, run: RunId, id: &'a str) -> BoxFuture<'a, Result<Option<StoredTask>, StoreError>> {
        Box::pin(self.ask(move || {
            let state = self.world.state();
            state.tasks.get(&(run, id.to_owned())).map(|task| StoredTask { outcome: task.outcome.clone() })
        }))
    }

    fn delete_task<'a>(&'a self, run: RunId, id: &'a str) -> BoxFuture<'a, Result<(), StoreError>> {
        Box::pin(self.ask(move || drop(self.world.state().tasks.remove(&(run, id.to_owned())))))
    }

    fn inbox_get<'a>(&'a self, run: RunId, id: &'a str) -> BoxFuture<'a, Result<Option<InboxItem>, StoreError>> {
        Box::pin(self.ask(move || self.world.state().inbox.get(&(run, id.to_owned())).cloned()))
    }

    fn inbox_reply<'a>(&'a self, run: RunId, id: &'a str, reply: &'a str) -> BoxFuture<'a, Result<(), StoreError>> {
        Box::pin(self.ask(move || {
            let mut state = self.world.state();
            if let Some(item) = state.inbox.get_mut(&(run, id.to_owned())).filter(|item| item.reply.is_none()) {
                item.reply = Some(reply.to_owned());
            }
        }))
    }
}

impl Connection {
    /// Stores a command in the inbox.
    pub(super) async fn inbox_put(&self, run: RunId, id: &str, command: String) -> Result<(), StoreError> {
        self.ask(move || {
            let mut state = self.world.state();
            state.commands += 1;
            state.inbox.insert((run, id.to_owned()), InboxItem { command, reply: None });
        })
        .await
    }
}
