//! Everything outside of the servers: what is stored, what tools have done, and the time.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;
use toolwright_store::{Checkpoint, Entry, RunState, Wait};
use toolwright_types::{CallId, Clock, OrgId, RealmId, RealmScope, RunId, Timestamp};

use super::dice::Dice;

/// How long a call of any tool may take.
pub const TIME_LIMIT: Duration = Duration::from_secs(10);

/// How often things go wrong, each in so many of a thousand cases.
#[derive(Debug, Default, Clone, Copy)]
pub struct Faults {
    /// A transaction fails, and nothing of it is written.
    pub refused: u64,
    /// A transaction is committed, and nobody hears of it.
    pub unheard: u64,
    /// The database takes seconds instead of milliseconds.
    pub slow: u64,
    /// The server dies, at each of the moments where that matters.
    pub death: u64,
    /// A request of a tool gets lost on its way.
    pub lost: u64,
}

/// One run as it is stored.
pub struct Row {
    pub entries: Vec<Entry>,
    pub checkpoint: Option<Checkpoint>,
    pub state: RunState,
    pub waits: Vec<Wait>,
    pub driver: Option<String>,
}

/// What came of a call that changes the world.
#[derive(Debug, Default)]
pub struct Deed {
    pub tool: String,
    /// How often the world has changed.
    pub done: u32,
}

/// What is true, whoever knows it.
pub struct Truth {
    pub dice: Dice,
    pub faults: Faults,
    /// Whether nothing goes wrong any more.
    calm: bool,
    pub rows: BTreeMap<RunId, Row>,
    pub leases: BTreeMap<String, Timestamp>,
    pub deeds: BTreeMap<(RunId, CallId), Deed>,
    /// Runs that calls have started, and when they end.
    pub children: BTreeMap<RunId, Timestamp>,
    /// Durable runs whose beginning was confirmed.
    pub promised: Vec<RunId>,
    pub deaths: u32,
    /// What must never be.
    pub violations: Vec<String>,
    /// A digest of everything that happened, in its order.
    trace: DefaultHasher,
    /// The same in words, where somebody wants to read it.
    story: Option<Vec<String>>,
}

/// The world. Clones share it.
#[derive(Clone)]
pub struct World {
    truth: Arc<Mutex<Truth>>,
    began: Instant,
}

impl World {
    pub fn new(seed: u64, tell: bool) -> Self {
        let mut dice = Dice::of(seed);
        let mut chance = |most: u64| if dice.happens(400) { dice.below(most) } else { 0 };
        let faults = Faults {
            refused: chance(150),
            unheard: chance(100),
            slow: chance(150),
            death: chance(120),
            lost: chance(200),
        };
        let truth = Truth {
            dice,
            faults,
            calm: false,
            rows: BTreeMap::new(),
            leases: BTreeMap::new(),
            deeds: BTreeMap::new(),
            children: BTreeMap::new(),
            promised: Vec::new(),
            deaths: 0,
            violations: Vec::new(),
            trace: DefaultHasher::new(),
            story: tell.then(Vec::new),
        };
        Self { truth: Arc::new(Mutex::new(truth)), began: Instant::now() }
    }

    pub fn truth(&self) -> MutexGuard<'_, Truth> {
        self.truth.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes what happened.
    pub fn note(&self, what: impl FnOnce() -> String) {
        let now = self.now();
        let mut truth = self.truth();
        let what = what();
        (now.as_micros(), &what).hash(&mut truth.trace);
        if let Some(story) = &mut truth.story {
            story.push(format!("{:>10} ms  {what}", self.began.elapsed().as_millis()));
        }
    }

    pub fn violation(&self, what: String) {
        self.note(|| format!("VIOLATION {what}"));
        self.truth().violations.push(what);
    }

    /// The digest of all that happened, and the story if it was told.
    pub fn trace(&self) -> (u64, Vec<String>) {
        let mut truth = self.truth();
        (truth.trace.finish(), truth.story.take().unwrap_or_default())
    }

    /// Waits for as long as `choose` says.
    pub async fn pass(&self, choose: impl FnOnce(&mut Dice) -> Duration) {
        let span = choose(&mut self.truth().dice);
        tokio::time::sleep(span).await;
    }

    pub fn chance(&self, in_a_thousand: u64) -> bool {
        self.truth().dice.happens(in_a_thousand)
    }

    /// From now on nothing goes wrong any more.
    pub fn calm(&self) {
        self.note(|| "calm".into());
        let mut truth = self.truth();
        truth.faults = Faults::default();
        truth.calm = true;
    }

    pub fn is_calm(&self) -> bool {
        self.truth().calm
    }

    /// Whether an entry of this kind about this call or step is stored.
    pub fn recorded(&self, run: RunId, kind: &str, about: &str) -> bool {
        let truth = self.truth();
        let Some(row) = truth.rows.get(&run) else { return false };
        row.entries.iter().any(|entry| entry.kind == kind && entry.body.contains(about))
    }

    /// How often a person has agreed to a call that may have been made before.
    pub fn agreed_again(&self, run: RunId, call_id: &CallId) -> u32 {
        let truth = self.truth();
        let entries = truth.rows.get(&run).map_or(&[][..], |row| &row.entries);
        let about = entries.iter().filter(|entry| entry.body.contains(call_id.as_str()));
        let mut since = about.skip_while(|entry| entry.kind != "intended");
        let agreed = since.by_ref().filter(|entry| entry.kind == "approval" && entry.body.contains("approve"));
        u32::try_from(agreed.count()).unwrap_or(u32::MAX)
    }
}

impl Clock for World {
    fn now(&self) -> Timestamp {
        let passed = i64::try_from(self.began.elapsed().as_micros()).unwrap_or(i64::MAX);
        Timestamp::from_micros(1_700_000_000_000_000 + passed)
    }
}

/// The realm that everything happens in.
pub fn home() -> Arc<RealmScope> {
    Arc::new(RealmScope {
        org: OrgId::from_bits(1),
        realm: RealmId::from_bits(2),
        name: "home".parse().expect("a name"),
    })
}
