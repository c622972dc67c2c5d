//! A server's way to what is stored, with everything that can go wrong on it.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use toolwright_store::{Answer, Change, Ledger, RunChanges, ServerId, Unavailable, WriteError};
use toolwright_types::{RunId, Timestamp};

use super::server::Life;
use super::world::{Row, World};

/// The way of one server.
pub struct Wire {
    pub world: World,
    pub life: Arc<Life>,
    /// Cut: nothing gets through.
    pub cut: AtomicBool,
}

/// What becomes of a message that is sent.
enum Fate {
    Arrives,
    /// It has an effect, and its answer does not come back.
    Unheard,
    Lost,
}

impl Wire {
    /// The time that a message takes, and what becomes of it then.
    async fn send(&self) -> Fate {
        let faults = self.world.truth().faults;
        self.life.may_end("before a transaction").await;
        self.world.pass(|dice| if dice.happens(faults.slow) { dice.millis(25_000) } else { dice.millis(30) }).await;
        if self.cut.load(Ordering::Relaxed) {
            tokio::time::sleep(Duration::from_secs(5)).await;
            return Fate::Lost;
        }
        if self.world.chance(faults.refused) {
            return Fate::Lost;
        }
        if self.world.chance(faults.unheard) { Fate::Unheard } else { Fate::Arrives }
    }

    /// Sends something that has an effect, and gives the answer if it comes back.
    async fn ask<T>(&self, effect: impl FnOnce() -> T) -> Result<T, Unavailable> {
        let fate = self.send().await;
        if matches!(fate, Fate::Lost) {
            return Err(gone());
        }
        let answer = effect();
        self.life.may_end("after a transaction").await;
        if matches!(fate, Fate::Unheard) { Err(gone()) } else { Ok(answer) }
    }

    /// Whether what is stored can be read.
    pub async fn read(&self) -> Result<(), Unavailable> {
        self.ask(|| ()).await
    }
}

fn gone() -> Unavailable {
    std::io::Error::other("simulated").into()
}

impl Ledger for Wire {
    fn write<'a>(
        &'a self,
        server: &'a ServerId,
        _now: Timestamp,
        changes: &'a [RunChanges<'a>],
    ) -> Answer<'a, HashMap<RunId, WriteError>> {
        Box::pin(async move {
            let written = self.ask(|| write(&self.world, &server.to_string(), changes)).await;
            written.unwrap_or_else(|error| {
                let source = Arc::new(error);
                let failed = |run: RunId| WriteError::Unavailable { run, source: Arc::clone(&source) };
                changes.iter().map(|(run, _)| (*run, failed(*run))).collect()
            })
        })
    }

    fn lease<'a>(&'a self, server: &'a ServerId, until: Timestamp) -> Answer<'a, Result<(), Unavailable>> {
        Box::pin(self.ask(move || {
            self.world.note(|| format!("{} has a lease until {}", self.life.name, until.as_micros() / 1000));
            let mut truth = self.world.truth();
            let lease = truth.leases.entry(server.to_string()).or_insert(until);
            *lease = (*lease).max(until);
        }))
    }

    fn end_lease<'a>(&'a self, server: &'a ServerId) -> Answer<'a, Result<(), Unavailable>> {
        Box::pin(self.ask(move || self.world.truth().leases.retain(|other, _| *other != server.to_string())))
    }

    fn end_all_leases(&self) -> Answer<'_, Result<(), Unavailable>> {
        Box::pin(self.ask(|| self.world.truth().leases.clear()))
    }

    fn take_run<'a>(
        &'a self,
        run: RunId,
        server: &'a ServerId,
        now: Timestamp,
    ) -> Answer<'a, Result<bool, Unavailable>> {
        Box::pin(self.ask(move || {
            let server = server.to_string();
            let mut truth = self.world.truth();
            let Some(row) = truth.rows.get(&run) else { return false };
            let held = row
                .driver
                .as_ref()
                .is_some_and(|driver| *driver != server && truth.leases.get(driver).is_some_and(|until| *until > now));
            let free = row.state.ended_at.is_none() && !held;
            if free && let Some(row) = truth.rows.get_mut(&run) {
                row.driver = Some(server);
            }
            drop(truth);
            self.world.note(|| format!("{} takes {run}: {free}", self.life.name));
            free
        }))
    }
}

/// One transaction, with the rules of the tables: an entry has a number of its own, and a run is written by its driver.
fn write(world: &World, server: &str, changes: &[RunChanges<'_>]) -> HashMap<RunId, WriteError> {
    let mut failed = HashMap::new();
    let mut runs: Vec<RunId> = changes.iter().map(|(run, _)| *run).collect();
    runs.sort_unstable();
    runs.dedup();
    for run in runs {
        let of_run: Vec<&Change> =
            changes.iter().filter(|(other, _)| *other == run).flat_map(|(_, changes)| *changes).collect();
        if !write_run(world, server, run, &of_run) {
            failed.insert(run, WriteError::Conflict(run));
        }
    }
    failed
}

fn write_run(world: &World, server: &str, run: RunId, changes: &[&Change]) -> bool {
    let mut truth = world.truth();
    let begins = changes.iter().any(|change| matches!(change, Change::Begin { .. }));
    let claims = changes.iter().any(|change| matches!(change, Change::Append(_) | Change::Settle { .. }));
    match truth.rows.get(&run) {
        Some(_) if begins => return false,
        None if !begins => return false,
        Some(row) if claims && row.driver.as_deref() != Some(server) => return false,
        _ => {}
    }
    let last = truth.rows.get(&run).map_or(0, |row| row.entries.len() as u64);
    let mut numbers = changes.iter().filter_map(|change| match change {
        Change::Append(entry) => Some(entry.n),
        _ => None,
    });
    match numbers.next() {
        Some(first) if first <= last => return false,
        Some(first) if first > last + 1 => {
            truth.violations.push(format!("{run}: entry {first} is written after entry {last}"));
            return false;
        }
        _ => {}
    }
    drop(truth);
    for change in changes {
        apply(world, server, run, change);
    }
    true
}

fn apply(world: &World, server: &str, run: RunId, change: &Change) {
    if let Change::Append(entry) = change {
        world.note(|| format!("{run} {} {}", entry.n, entry.kind));
    }
    let mut truth = world.truth();
    if let Change::Begin { state, .. } = change {
        let (state, driver) = ((**state).clone(), Some(server.to_owned()));
        let row = Row { entries: Vec::new(), checkpoint: None, state, waits: Vec::new(), driver };
        truth.rows.insert(run, row);
    }
    let Some(row) = truth.rows.get_mut(&run) else { return };
    match change {
        Change::Append(entry) => row.entries.push(entry.clone()),
        Change::Checkpoint(checkpoint) if row.checkpoint.as_ref().is_none_or(|older| older.n <= checkpoint.n) => {
            row.checkpoint = Some(checkpoint.clone());
        }
        Change::Settle { state, waits } => {
            row.driver = state.driven.then(|| server.to_owned());
            row.state = state.clone();
            row.waits = waits.clone();
        }
        _ => {}
    }
}
