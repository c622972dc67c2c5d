//! One agent with two libraries over the same inputs or recorded runs, and live arms side by side.
//!
//! A trial is the runs that name it. What is told of it is a function of what they recorded.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures::StreamExt as _;
use futures::stream::FuturesUnordered;
use serde_json::{Map, Value};
use toolwright_authz::{Action, Resource};
use toolwright_machine::trial::{Report, Sample};
use toolwright_types::{DocumentId, Principal, PrincipalId, RealmScope, RunId, Timestamp, Trial, TrialId, TrialKind};

use super::binding::{Binder, Bindings, Library};
use super::replay::{Staging, Tape, Words};
use super::spec::Origin;
use super::{Agents, BindingError, CompiledAgent, Original, StartError, TrialError};
use crate::Unavailable;
use crate::access::Session;
use crate::runs::{LiveRun, NewRunPlan, RunQuery, SignalError, Snapshot};

/// How many runs of each arm a trial has at most.
pub const MOST_RUNS: usize = 2_000;
/// How many pairs of runs are under way at once.
const SIDE_BY_SIDE: usize = 4;
/// How many runs are read at once, and of how many a report tells at most.
const PAGE: u32 = 1_000;

/// A wish to compare two libraries.
#[derive(Debug, Clone)]
pub struct Comparison {
    /// The agent.
    pub agent: String,
    /// What the other is held against.
    pub a: Library,
    /// The other.
    pub b: Library,
    /// What is tried.
    pub over: Over,
    /// How often each is.
    pub repeat: u32,
    /// Whether writes are made. Otherwise they are captured, as in every other trial.
    pub sends_writes: bool,
}

/// What two libraries are tried on.
#[derive(Debug, Clone)]
pub enum Over {
    /// What users say, with what the prompt is told.
    Inputs(Vec<(String, Map<String, Value>)>),
    /// Runs of the agent that are replayed.
    Runs(Vec<Original>),
}

/// Why two libraries are not compared. Nothing was started.
#[derive(Debug, thiserror::Error)]
pub enum CompareError {
    /// The session could not start the agent.
    #[error(transparent)]
    Start(#[from] StartError),
    /// A library cannot be used.
    #[error("{source}")]
    Library {
        /// Whether it is the first.
        first: bool,
        /// Why not.
        #[source]
        source: BindingError,
    },
    /// There is nothing to tell apart.
    #[error("both libraries are the same; nothing could be told apart")]
    Same,
    /// There is nothing to try, or too much.
    #[error("a trial has 1 to {MOST_RUNS} runs for each library, not {0}")]
    Count(usize),
    /// An input says nothing.
    #[error("the input says nothing")]
    Empty(usize),
    /// A run cannot be replayed.
    #[error("{source}")]
    Run {
        /// Which of them, from 0.
        at: usize,
        /// Why not.
        #[source]
        source: TrialError,
    },
    /// A run is of another agent.
    #[error("the run is one of agent `{agent}`")]
    OtherAgent {
        /// Which of them, from 0.
        at: usize,
        /// Its agent.
        agent: String,
    },
    /// Writes cannot be made once more.
    #[error("what a recorded run would write is always captured")]
    RecordedWrites,
    /// The database failed.
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
}

/// A trial, as far as it has come.
pub struct Compared {
    /// The agent.
    pub agent: String,
    /// Whether more is to come.
    pub under_way: bool,
    /// How many runs each arm is to have.
    pub runs: u32,
    /// What became of those that have ended.
    pub report: Report,
}

/// What is told of an agent's live runs.
pub struct LiveReport {
    /// Each library that a share of the runs had, held against the runs that did not.
    pub split: Vec<Report>,
    /// Each library that was tried in the shadow of runs, held against those runs.
    pub shadow: Vec<Report>,
}

/// What every run of a trial has in common.
struct Stage {
    session: Session,
    agent: Arc<CompiledAgent>,
    realm: Arc<RealmScope>,
    principal: Arc<Principal>,
    captures: bool,
    /// What is bound by one of the two is called by both, also where it is recorded: what was recorded took no time.
    called: BTreeSet<String>,
}

/// One of the two.
struct Arm {
    library: Library,
    bound: Bindings,
    mark: Trial,
}

/// What one pair of runs is given.
enum Input {
    Said(String, Map<String, Value>),
    Played(Tape),
}

impl Agents {
    /// Begins to compare two libraries, and leaves that to itself.
    pub async fn compare(&self, session: &Session, wanted: Comparison) -> Result<TrialId, CompareError> {
        let Comparison { agent, a, b, over, repeat, sends_writes } = wanted;
        let agent = self.find(session, &agent).await?;
        self.may_run(session, &agent)?;
        let (principal, _) = self.effective(session, &agent, None).await?;
        let realm = Arc::clone(&session.realm);
        let tools = self.0.resolver.tools(&agent, &realm, &principal).await?;
        let binder = Binder { agent: &agent, tools: &tools, realm: &realm, principal: &principal };
        let mut bound = Vec::with_capacity(2);
        for (first, library) in [(true, &a), (false, &b)] {
            let found = self.bind(session, &binder, library).await;
            bound.push(found.map_err(|source| CompareError::Library { first, source })?);
        }
        let (of_b, of_a) = (bound.pop().unwrap_or_default(), bound.pop().unwrap_or_default());
        if of_a == of_b || a.name() == b.name() {
            return Err(CompareError::Same);
        }
        if sends_writes && matches!(over, Over::Runs(_)) {
            return Err(CompareError::RecordedWrites);
        }
        let inputs = self.inputs(session, &agent, over).await?;
        let repeat = usize::try_from(repeat.max(1)).unwrap_or(usize::MAX);
        let runs = inputs.len().saturating_mul(repeat);
        if !(1..=MOST_RUNS).contains(&runs) {
            return Err(CompareError::Count(runs));
        }
        self.has_room()?;
        let trial = TrialId::generate();
        let mark = |library: &Library, baseline: bool| Trial {
            trial: Some(trial),
            runs: u32::try_from(runs).ok(),
            baseline,
            ..Trial::new(TrialKind::Compare, library.name())
        };
        let (mark_a, mark_b) = (mark(&a, true), mark(&b, false));
        let a = Arm { bound: of_a, mark: mark_a, library: a };
        let b = Arm { bound: of_b, mark: mark_b, library: b };
        let called = a.bound.keys().chain(b.bound.keys()).cloned().collect();
        let stage = Stage { session: session.clone(), agent, realm, principal, captures: !sends_writes, called };
        let planned = Planned {
            owner: session.principal.id,
            agent: stage.agent.document.meta.ref_name.to_string(),
            arms: [a.mark.arm.clone(), b.mark.arm.clone()],
            runs: u32::try_from(runs).unwrap_or(u32::MAX),
        };
        let (agents, guard) = (self.clone(), self.0.trials.begin(trial, planned));
        self.0.runs.accompany(async move {
            // The inputs in their order, and then once more.
            let mut pairs = (0..runs).zip(inputs.iter().cycle());
            let mut under_way = FuturesUnordered::new();
            loop {
                while under_way.len() < SIDE_BY_SIDE
                    && let Some((at, input)) = pairs.next()
                {
                    under_way.push(agents.try_both(&stage, &a, &b, at, input));
                }
                if under_way.next().await.is_none() {
                    break;
                }
            }
            drop(guard);
        });
        Ok(trial)
    }

    /// A trial of the session, as far as it has come.
    pub async fn compared(&self, session: &Session, trial: TrialId) -> Result<Option<Compared>, SignalError> {
        let wanted = RunQuery { trial: Some(TrialKind::Compare), trial_of: Some(trial.to_string()), ..page() };
        let begun = self.0.trials.get(trial);
        let found = self.snapshots(session, wanted).await?;
        let first = found.iter().find_map(|snapshot| snapshot.began.trial.clone());
        let planned = begun.as_ref().filter(|planned| planned.owner == session.principal.id);
        let (agent, runs) = match (found.first(), &first, planned) {
            (Some(snapshot), Some(mark), _) => (snapshot.began.agent.clone(), mark.runs.unwrap_or_default()),
            // Its first run has not been written yet.
            (_, _, Some(planned)) => (planned.agent.clone(), planned.runs),
            _ => return Ok(None),
        };
        let mut arms: [(String, Vec<Sample>); 2] =
            planned.map(|planned| planned.arms.clone().map(|arm| (arm, Vec::new()))).unwrap_or_default();
        for snapshot in &found {
            let Some(mark) = &snapshot.began.trial else { continue };
            let [a, b] = &mut arms;
            let (name, samples) = if mark.baseline { a } else { b };
            name.clone_from(&mark.arm);
            if snapshot.run.ending().is_some() || snapshot.run.suspended() {
                samples.push(Sample::of(&snapshot.run, mark.number));
            }
        }
        let ended: usize = arms.iter().map(|(_, samples)| samples.len()).sum();
        let [(a, of_a), (b, of_b)] = &arms;
        Ok(Some(Compared {
            agent,
            under_way: begun.is_some() || ended < found.len(),
            runs,
            report: Report::of((a, of_a), (b, of_b)),
        }))
    }

    /// What became of an agent's runs with and without its libraries, from `since` on.
    pub async fn live_report(
        &self,
        session: &Session,
        agent: &str,
        since: Option<Timestamp>,
    ) -> Result<LiveReport, TrialError> {
        let agent = self.find(session, agent).await?;
        let name = agent.document.meta.ref_name.to_string();
        self.0.access.require(session, Action::Read, Resource::Agent { name: &name }).map_err(StartError::from)?;
        let wanted = |kind| RunQuery { trial: Some(kind), subject: Some(name.clone()), since, ..page() };
        let mut arms: BTreeMap<String, Vec<Sample>> = BTreeMap::new();
        for snapshot in self.snapshots(session, wanted(TrialKind::Split)).await? {
            // A fork lives with what another run had done.
            if let (Some(mark), None, Some(_)) =
                (&snapshot.began.trial, snapshot.began.forked_from, snapshot.run.ending())
            {
                arms.entry(mark.arm.clone()).or_default().push(Sample::of(&snapshot.run, None));
            }
        }
        let without = arms.remove(Trial::DEFAULT_ARM).unwrap_or_default();
        let held = |(arm, samples): (&String, &Vec<Sample>)| Report::of((Trial::DEFAULT_ARM, &without), (arm, samples));
        let split = arms.iter().map(held).collect();
        Ok(LiveReport { split, shadow: self.shadows(session, wanted(TrialKind::Shadow)).await? })
    }

    /// Each library that was tried in shadows, held against the runs that they belong to.
    async fn shadows(&self, session: &Session, wanted: RunQuery) -> Result<Vec<Report>, TrialError> {
        let mut arms: BTreeMap<String, (Vec<Sample>, Vec<Sample>)> = BTreeMap::new();
        for snapshot in self.snapshots(session, wanted).await? {
            let Some((mark, of)) = snapshot.began.trial.as_ref().and_then(|mark| Some((mark, mark.of?))) else {
                continue;
            };
            if snapshot.run.ending().is_none() {
                continue;
            }
            let whole = match self.0.runs.get(session, of).await {
                Ok(record) if record.snapshot.run.ending().is_some() => record.snapshot,
                Err(SignalError::Unavailable(error)) => return Err(error.into()),
                // It waits for somebody, or was deleted.
                _ => continue,
            };
            let (wholes, shadows) = arms.entry(mark.arm.clone()).or_default();
            let number = u32::try_from(shadows.len()).ok();
            wholes.push(Sample::of(&whole.run, number));
            shadows.push(Sample::of(&snapshot.run, number));
        }
        let held = arms.iter().map(|(arm, (wholes, shadows))| Report::of((Trial::DEFAULT_ARM, wholes), (arm, shadows)));
        Ok(held.collect())
    }

    /// The runs that a query means, the latest first, as far as a report tells of them.
    async fn snapshots(&self, session: &Session, mut wanted: RunQuery) -> Result<Vec<Arc<Snapshot>>, SignalError> {
        let mut found = Vec::new();
        while found.len() < 2 * MOST_RUNS {
            let page = self.0.runs.list(session, wanted.clone()).await?;
            for row in page.items {
                found.push(self.0.runs.get(session, row.id).await?.snapshot);
            }
            match page.next {
                Some(next) => wanted.cursor = Some(next),
                None => break,
            }
        }
        Ok(found)
    }

    async fn inputs(&self, session: &Session, agent: &CompiledAgent, over: Over) -> Result<Vec<Input>, CompareError> {
        match over {
            Over::Inputs(inputs) => {
                if let Some(at) = inputs.iter().position(|(message, _)| message.trim().is_empty()) {
                    return Err(CompareError::Empty(at));
                }
                Ok(inputs.into_iter().map(|(message, context)| Input::Said(message, context)).collect())
            }
            Over::Runs(originals) => {
                if originals.len() > MOST_RUNS {
                    return Err(CompareError::Count(originals.len()));
                }
                let mut inputs = Vec::with_capacity(originals.len());
                for (at, original) in originals.into_iter().enumerate() {
                    let tape = Box::pin(self.tape(session, original)).await;
                    let tape = tape.map_err(|source| CompareError::Run { at, source })?;
                    let own = agent.document.meta.ref_name.as_str();
                    if let Some(other) = tape.agent().filter(|name| !name.eq_ignore_ascii_case(own)) {
                        return Err(CompareError::OtherAgent { at, agent: other.to_owned() });
                    }
                    self.may_play(session, agent, &tape).map_err(|source| CompareError::Run { at, source })?;
                    inputs.push(Input::Played(tape));
                }
                Ok(inputs)
            }
        }
    }

    /// Runs both arms on one input, now one and now the other first: what the first makes quicker for the second, such as
    /// a cache, must not favour one of them.
    async fn try_both(&self, stage: &Stage, a: &Arm, b: &Arm, at: usize, input: &Input) {
        for arm in if at.is_multiple_of(2) { [a, b] } else { [b, a] } {
            if self.0.runs.stopping() {
                return;
            }
            let mark = Trial { number: u32::try_from(at).ok(), ..arm.mark.clone() };
            match Box::pin(self.try_one(stage, arm, mark, input)).await {
                Ok(live) => drop(live.settled().await),
                // The report has one run less.
                Err(error) => {
                    tracing::warn!(
                        error = &error as &dyn std::error::Error,
                        arm = arm.library.name(),
                        "a run of a trial did not begin"
                    );
                }
            }
        }
    }

    async fn try_one(&self, stage: &Stage, arm: &Arm, mark: Trial, input: &Input) -> Result<Arc<LiveRun>, TrialError> {
        let (message, context) = match input {
            Input::Said(message, context) => (message.clone(), context.clone()),
            Input::Played(tape) => {
                let mark = Trial { of: Some(tape.run), ..mark };
                let staging = Staging { library: &arm.library, called: &stage.called, words: Words::default(), mark };
                return Ok(self.play(&stage.session, tape.clone(), staging).await?.started.live);
            }
        };
        self.has_room()?;
        let Stage { session, agent, realm, principal, captures, .. } = stage;
        let origin = Origin {
            run: RunId::generate(),
            realm: Arc::clone(realm),
            home: Arc::clone(&session.realm),
            owner: (session.principal.id, session.principal.name.to_string()),
            principal: Arc::clone(principal),
            parent: None,
            conversation: None,
            session: None,
        };
        let mut began = self.draft(agent, origin, context, message).await?.began;
        (began.bound, began.trial) = (arm.bound.clone(), Some(mark));
        began.spec.policy.captures = *captures;
        let crew = self.0.runs.recruit(&began, Arc::clone(realm), Arc::clone(principal)).await?;
        let plan = NewRunPlan {
            crew: Arc::new(crew),
            home: Arc::clone(&session.realm),
            owner: session.principal.id,
            principal: principal.id,
            changes: Vec::new(),
            began,
            prefix: Vec::new(),
        };
        Ok(self.0.runs.begin(plan).await.map_err(Unavailable::from)?)
    }
}

fn page() -> RunQuery {
    RunQuery { limit: PAGE, ..RunQuery::default() }
}

/// The trials that this server is making.
#[derive(Clone, Default)]
pub(crate) struct UnderWay(Arc<Mutex<HashMap<TrialId, Planned>>>);

/// What a trial is to be.
#[derive(Clone)]
struct Planned {
    owner: PrincipalId,
    agent: String,
    arms: [String; 2],
    runs: u32,
}

/// A trial that is being made, for as long as this is there.
struct Making {
    all: UnderWay,
    trial: TrialId,
}

impl UnderWay {
    fn begin(&self, trial: TrialId, planned: Planned) -> Making {
        self.lock().insert(trial, planned);
        Making { all: self.clone(), trial }
    }

    fn get(&self, trial: TrialId) -> Option<Planned> {
        self.lock().get(&trial).cloned()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<TrialId, Planned>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Making {
    fn drop(&mut self) {
        self.all.lock().remove(&self.trial);
    }
}
