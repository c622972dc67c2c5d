//! The simulated environment of the servers: the stored state, the effects of tools, and the time.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;
use toolwright_store::{EffectOutcome, InboxItem, JournalEntry, RunState, StoredCheckpoint, Wait};
use toolwright_types::{CallId, Clock, OrgId, RealmId, RealmScope, RunId, Timestamp};

use super::random::Random;

/// The time limit of every tool.
pub(super) const TIME_LIMIT: Duration = Duration::from_secs(10);

/// The probability of each fault, per thousand.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Faults {
    /// A transaction fails, and nothing is written.
    pub refused: u64,
    /// A transaction is committed, and its reply is lost.
    pub reply_lost: u64,
    /// The database takes seconds instead of milliseconds.
    pub slow: u64,
    /// The server crashes. This is the probability at each point where a crash is simulated.
    pub crash: u64,
    /// A request to a tool is lost.
    pub lost: u64,
}

/// The stored state of a run.
pub(super) struct Row {
    pub entries: Vec<JournalEntry>,
    pub checkpoint: Option<StoredCheckpoint>,
    pub state: RunState,
    pub waits: Vec<Wait>,
    pub effects: BTreeMap<CallId, EffectOutcome>,
    pub decisions: Vec<u64>,
    pub driver: Option<String>,
}

/// The writes of all runs, by run and call.
pub(super) type Writes = BTreeMap<(RunId, CallId), ExternalWrite>;

/// The driver name in the rows of runs that the external scheduler drives.
pub(super) const SCHEDULER: &str = "scheduler";

/// A task of a scheduled run, as it is stored.
pub(super) struct TaskRow {
    pub invocation: String,
    pub server: String,
    pub outcome: Option<String>,
}

/// What one call to a tool that writes has done to the outside world.
#[derive(Debug, Default)]
pub(super) struct ExternalWrite {
    pub tool: String,
    /// How often the tool executed the write.
    pub done: u32,
}

/// The complete state of a simulation.
pub(super) struct WorldState {
    pub random: Random,
    pub faults: Faults,
    /// Whether faults have stopped.
    stop_faults: bool,
    pub rows: BTreeMap<RunId, Row>,
    pub leases: BTreeMap<String, Timestamp>,
    pub writes: Writes,
    pub tasks: BTreeMap<(RunId, String), TaskRow>,
    pub inbox: BTreeMap<(RunId, String), InboxItem>,
    /// Runs that the external scheduler drives or has driven.
    pub scheduled: BTreeSet<RunId>,
    /// How many commands were sent through the inbox.
    pub commands: u64,
    /// The time at which each child run ends.
    pub children: BTreeMap<RunId, Timestamp>,
    /// Durable runs whose start was confirmed to the caller.
    pub confirmed: Vec<RunId>,
    pub crashes: u32,
    /// Violated invariants.
    pub violations: Vec<String>,
    /// A digest of all events in order.
    trace: DefaultHasher,
    /// The events as text, if requested.
    log: Option<Vec<String>>,
}

/// The simulated world. Clones share it.
#[derive(Clone)]
pub(super) struct World {
    state: Arc<Mutex<WorldState>>,
    start: Instant,
}

impl World {
    pub(super) fn new(seed: u64, verbose: bool) -> Self {
        let mut random = Random::of(seed);
        let mut chance = |most: u64| if random.chance(400) { random.below(most) } else { 0 };
        let faults = Faults {
            refused: chance(150),
            reply_lost: chance(100),
            slow: chance(150),
            crash: chance(120),
            lost: chance(200),
        };
        let state = WorldState {
            random,
            faults,
            stop_faults: false,
            rows: BTreeMap::new(),
            leases: BTreeMap::new(),
            writes: BTreeMap::new(),
            tasks: BTreeMap::new(),
            inbox: BTreeMap::new(),
            scheduled: BTreeSet::new(),
            commands: 0,
            children: BTreeMap::new(),
            confirmed: Vec::new(),
            crashes: 0,
            violations: Vec::new(),
            trace: DefaultHasher::new(),
            log: verbose.then(Vec::new),
        };
        Self { state: Arc::new(Mutex::new(state)), start: Instant::now() }
    }

    pub(super) fn state(&self) -> MutexGuard<'_, WorldState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Logs an event.
    pub(super) fn note(&self, what: impl FnOnce() -> String) {
        let now = self.now();
        let mut state = self.state();
        let what = what();
        (now.as_micros(), &what).hash(&mut state.trace);
        if let Some(log) = &mut state.log {
            log.push(format!("{:>10} ms  {what}", self.start.elapsed().as_millis()));
        }
    }

    pub(super) fn violation(&self, what: String) {
        self.note(|| format!("VIOLATION {what}"));
        self.state().violations.push(what);
    }

    /// The digest of all events, and the log if requested.
    pub(super) fn trace(&self) -> (u64, Vec<String>) {
        let mut state = self.state();
        (state.trace.finish(), state.log.take().unwrap_or_default())
    }

    pub(super) async fn sleep_random(&self, choose_duration: impl FnOnce(&mut Random) -> Duration) {
        let span = choose_duration(&mut self.state().random);
        tokio::time::sleep(span).await;
    }

    pub(super) fn chance(&self, in_a_thousand: u64) -> bool {
        self.state().random.chance(in_a_thousand)
    }

    /// Stops all faults.
    pub(super) fn stop_faults(&self) {
        self.note(|| "calm".into());
        let mut state = self.state();
        state.faults = Faults::default();
        state.stop_faults = true;
    }

    pub(super) fn is_faultless(&self) -> bool {
        self.state().stop_faults
    }

    /// Whether the journal of a run has an entry of this kind that contains the text `about`.
    pub(super) fn recorded(&self, run: RunId, kind: &str, about: &str) -> bool {
        let state = self.state();
        let Some(row) = state.rows.get(&run) else { return false };
        row.entries.iter().any(|entry| entry.kind == kind && entry.body.contains(about))
    }

    /// Whether the external scheduler drives a run.
    pub(super) fn is_scheduled(&self, run: RunId) -> bool {
        self.state().rows.get(&run).is_some_and(|row| row.driver.as_deref() == Some(SCHEDULER))
    }

    /// The runs that the external scheduler drives.
    pub(super) fn scheduled_runs(&self) -> Vec<RunId> {
        let state = self.state();
        let scheduled = state.rows.iter().filter(|(_, row)| row.driver.as_deref() == Some(SCHEDULER));
        scheduled.map(|(run, _)| *run).collect()
    }

    /// Returns how often a person approved a call after the first intent of the call. Each of these approvals permits
    /// one more attempt.
    pub(super) fn approvals_after_intent(&self, run: RunId, call_id: &CallId) -> u32 {
        let state = self.state();
        let entries = state.rows.get(&run).map_or(&[][..], |row| &row.entries);
        let about = entries.iter().filter(|entry| entry.body.contains(call_id.as_str()));
        let mut since = about.skip_while(|entry| entry.kind != "intended");
        let agreed = since.by_ref().filter(|entry| entry.kind == "approval_decided" && entry.body.contains("approve"));
        u32::try_from(agreed.count()).unwrap_or(u32::MAX)
    }
}

impl Clock for World {
    fn now(&self) -> Timestamp {
        let passed = i64::try_from(self.start.elapsed().as_micros()).unwrap_or(i64::MAX);
        Timestamp::from_micros(1_700_000_000_000_000 + passed)
    }
}

/// The realm of all runs.
pub(super) fn home() -> Arc<RealmScope> {
    Arc::new(RealmScope {
        org: OrgId::from_bits(1),
        realm: RealmId::from_bits(2),
        name: "home".parse().expect("a name"),
    })
}
