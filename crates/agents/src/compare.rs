//! Compares two libraries of an agent on the same messages or recorded runs. It also reports on the libraries of live
//! traffic splits and shadow runs.
//!
//! A trial is not stored by itself: it consists of the runs that contain the id of the trial. Its report is computed
//! from the journals of these runs. An *arm* of a trial is one of the compared libraries with its runs.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures::StreamExt as _;
use futures::stream::FuturesUnordered;
use serde_json::{Map, Value};
use toolwright_authz::{Action, Resource};
use toolwright_machine::trial::{Report, Sample};
use toolwright_types::{DocumentId, Principal, PrincipalId, RealmId, RealmScope, Timestamp, Trial, TrialId, TrialKind};

use super::binding::{BindingContext, Bindings, LibrarySelection};
use super::replay::{ModelOverrides, RecordedRun, ReplayOptions};
use super::spec::RunOrigin;
use super::{Agents, BindingError, CompiledAgent, ReplaySource, StartError, TrialError};
use toolwright_catalog::Session;
use toolwright_catalog::Unavailable;
use toolwright_runs::{CommandError, RunHandle, RunLaunch, RunQuery, RunSnapshot};

/// The maximum number of runs per arm of a trial.
pub(crate) const MAX_RUNS: usize = 2_000;
/// The maximum number of pairs of runs that are executed at the same time.
const CONCURRENT_PAIRS: usize = 4;
/// The page size of queries for runs.
const PAGE: u32 = 1_000;

/// A request to compare two libraries.
#[derive(Debug, Clone)]
pub struct CompareRequest {
    /// The agent.
    pub agent: String,
    /// The library that is the baseline.
    pub a: LibrarySelection,
    /// The library that is compared with the baseline.
    pub b: LibrarySelection,
    /// The cases to run.
    pub cases: ComparisonCases,
    /// The number of times that each case runs.
    pub repeat: u32,
    /// Whether writes are executed. If false, writes are captured: they are recorded and not executed.
    pub sends_writes: bool,
}

/// The cases on which two libraries are compared.
#[derive(Debug, Clone)]
pub enum ComparisonCases {
    /// User messages, each with the context for the prompt.
    Messages(Vec<(String, Map<String, Value>)>),
    /// Recorded runs of the agent to replay.
    Runs(Vec<ReplaySource>),
}

/// Why a comparison could not be started. No run was started.
#[derive(Debug, thiserror::Error)]
pub enum CompareError {
    /// The agent cannot be started.
    #[error(transparent)]
    Start(#[from] StartError),
    /// A library cannot be used.
    #[error("{source}")]
    Library {
        /// Whether the library is the baseline.
        first: bool,
        /// The cause.
        #[source]
        source: BindingError,
    },
    /// Both libraries are the same.
    #[error("the libraries must differ")]
    SameLibrary,
    /// The trial would have no runs or too many.
    #[error("a trial must have between 1 and {MAX_RUNS} runs for each library, got {0}")]
    RunCount(usize),
    /// The message at this index is empty.
    #[error("the message must not be empty")]
    EmptyMessage(usize),
    /// A recorded run cannot be replayed.
    #[error("{source}")]
    Run {
        /// The index of the run.
        at: usize,
        /// The cause.
        #[source]
        source: TrialError,
    },
    /// A recorded run is a run of another agent.
    #[error("the run belongs to agent `{agent}`")]
    OtherAgent {
        /// The index of the run.
        at: usize,
        /// The agent of the run.
        agent: String,
    },
    /// Writes cannot be executed when recorded runs are replayed.
    #[error("must be `capture` for recorded runs, whose writes are always captured")]
    RecordedWrites,
    /// The database failed.
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
}

/// The current state of a trial.
pub struct ComparisonReport {
    /// The agent.
    pub agent: String,
    /// Whether the trial is still running.
    pub under_way: bool,
    /// The planned number of runs per arm.
    pub runs: u32,
    /// The comparison of the runs that have ended or are suspended.
    pub report: Report,
}

/// A report on the libraries of an agent's live splits and shadow runs.
pub struct LiveTrialReport {
    /// One report for each library of a live split: the runs that used the library, compared with runs that used none.
    pub split: Vec<Report>,
    /// One report for each library of a shadow split: the shadow runs, compared with their original runs.
    pub shadow: Vec<Report>,
}

/// The settings of a trial that are the same for each of its runs.
struct TrialSetup {
    session: Session,
    agent: Arc<CompiledAgent>,
    realm: Arc<RealmScope>,
    principal: Arc<Principal>,
    captures: bool,
    /// The tools that at least one of the two libraries replaces. Both arms call these tools and do not use the
    /// recording. Otherwise one arm would get recorded outputs without delay, and the durations could not be compared.
    live_tools: BTreeSet<String>,
}

/// One of the two arms of a comparison: a library and its implementations.
struct Arm {
    library: LibrarySelection,
    bound: Bindings,
    trial: Trial,
}

/// The input of one pair of runs.
enum TrialCase {
    Message(String, Map<String, Value>),
    Recorded(RecordedRun),
}

impl Agents {
    /// Starts to compare two libraries in the background. Returns the id of the trial.
    pub async fn compare(&self, session: &Session, request: CompareRequest) -> Result<TrialId, CompareError> {
        let CompareRequest { agent, a, b, cases, repeat, sends_writes } = request;
        let agent = self.find(session, &agent).await?;
        self.check_may_run(session, &agent)?;
        let principal = self.effective_principal(session, &agent, None).await?;
        let realm = Arc::clone(&session.realm);
        let tools = self.0.resolver.tools(&agent, &realm, &principal).await?;
        let context = BindingContext { agent: &agent, tools: &tools, realm: &realm, principal: &principal };
        let mut bound = Vec::with_capacity(2);
        for (first, library) in [(true, &a), (false, &b)] {
            let found = self.bind(session, &context, library).await;
            bound.push(found.map_err(|source| CompareError::Library { first, source })?);
        }
        let (of_b, of_a) = (bound.pop().unwrap_or_default(), bound.pop().unwrap_or_default());
        if of_a == of_b || a.name() == b.name() {
            return Err(CompareError::SameLibrary);
        }
        if sends_writes && matches!(cases, ComparisonCases::Runs(_)) {
            return Err(CompareError::RecordedWrites);
        }
        let cases = self.prepare_cases(session, &agent, cases).await?;
        let repeat = usize::try_from(repeat.max(1)).unwrap_or(usize::MAX);
        let runs = cases.len().saturating_mul(repeat);
        if !(1..=MAX_RUNS).contains(&runs) {
            return Err(CompareError::RunCount(runs));
        }
        self.check_capacity()?;
        let trial_id = TrialId::generate();
        let trial = |library: &LibrarySelection, baseline: bool| Trial {
            trial: Some(trial_id),
            runs: u32::try_from(runs).ok(),
            baseline,
            ..Trial::new(TrialKind::Compare, library.name())
        };
        let a = Arm { bound: of_a, trial: trial(&a, true), library: a };
        let b = Arm { bound: of_b, trial: trial(&b, false), library: b };
        let live_tools = a.bound.keys().chain(b.bound.keys()).cloned().collect();
        let setup =
            TrialSetup { session: session.clone(), agent, realm, principal, captures: !sends_writes, live_tools };
        let active_trial = ActiveTrial {
            owner: session.principal.id,
            realm: session.realm.realm,
            started_at: self.0.runs.now(),
            agent: setup.agent.document.meta.ref_name.to_string(),
            arms: [a.trial.arm.clone(), b.trial.arm.clone()],
            runs: u32::try_from(runs).unwrap_or(u32::MAX),
        };
        let (agents, guard) = (self.clone(), self.0.trials.register(trial_id, active_trial));
        self.0.runs.spawn_background(async move {
            // Every case runs once before any case runs a second time.
            let mut pairs = (0..runs).zip(cases.iter().cycle());
            let mut active = FuturesUnordered::new();
            loop {
                while active.len() < CONCURRENT_PAIRS
                    && let Some((at, case)) = pairs.next()
                {
                    active.push(agents.run_pair(&setup, &a, &b, at, case));
                }
                if active.next().await.is_none() {
                    break;
                }
            }
            drop(guard);
        });
        Ok(trial_id)
    }

    /// Returns the current state of a trial; `None` if the trial does not exist or the session may not see it.
    pub async fn comparison_report(
        &self,
        session: &Session,
        trial: TrialId,
    ) -> Result<Option<ComparisonReport>, CommandError> {
        let query = RunQuery { trial: Some(TrialKind::Compare), trial_of: Some(trial.to_string()), ..page() };
        let active_trial = self.0.trials.get(trial);
        let found = self.list_snapshots(session, query).await?;
        let first = found.iter().find_map(|snapshot| snapshot.start.trial.clone());
        let own_trial = active_trial.as_ref().filter(|active| active.is_of(session));
        let (agent, runs) = match (found.first(), &first, own_trial) {
            (Some(snapshot), Some(trial), _) => (snapshot.start.subject.clone(), trial.runs.unwrap_or_default()),
            // The trial was just started, and its first run is not stored yet.
            (_, _, Some(active)) => (active.agent.clone(), active.runs),
            _ => return Ok(None),
        };
        let mut arms: [(String, Vec<Sample>); 2] =
            own_trial.map(|active| active.arms.clone().map(|arm| (arm, Vec::new()))).unwrap_or_default();
        for snapshot in &found {
            let Some(trial) = &snapshot.start.trial else { continue };
            let [a, b] = &mut arms;
            let (name, samples) = if trial.baseline { a } else { b };
            name.clone_from(&trial.arm);
            if snapshot.run.ending().is_some() || snapshot.run.suspended() {
                samples.push(Sample::from_run(&snapshot.run, trial.number));
            }
        }
        let ended: usize = arms.iter().map(|(_, samples)| samples.len()).sum();
        let [(a, of_a), (b, of_b)] = &arms;
        Ok(Some(ComparisonReport {
            agent,
            under_way: active_trial.is_some() || ended < found.len(),
            runs,
            report: Report::compare((a, of_a), (b, of_b)),
        }))
    }

    /// Compares runs of an agent. Only runs that started at or after `since` are included. Runs that used a library of
    /// the traffic split are compared with runs that used none. Shadow runs are compared with their original runs.
    pub async fn live_report(
        &self,
        session: &Session,
        agent: &str,
        since: Option<Timestamp>,
    ) -> Result<LiveTrialReport, TrialError> {
        let agent = self.find(session, agent).await?;
        let name = agent.document.meta.ref_name.to_string();
        self.0.access.require(session, Action::Read, Resource::Agent { name: &name }).map_err(StartError::from)?;
        let query = |kind| RunQuery { trial: Some(kind), subject: Some(name.clone()), since, ..page() };
        let mut arms: BTreeMap<String, Vec<Sample>> = BTreeMap::new();
        for snapshot in self.list_snapshots(session, query(TrialKind::Split)).await? {
            // A fork is excluded: its first entry is a copy, so it names the arm of the original run.
            if let (Some(trial), None, Some(_)) =
                (&snapshot.start.trial, snapshot.start.forked_from, snapshot.run.ending())
            {
                arms.entry(trial.arm.clone()).or_default().push(Sample::from_run(&snapshot.run, None));
            }
        }
        let baseline = arms.remove(Trial::DEFAULT_ARM).unwrap_or_default();
        let compare =
            |(arm, samples): (&String, &Vec<Sample>)| Report::compare((Trial::DEFAULT_ARM, &baseline), (arm, samples));
        let split = arms.iter().map(compare).collect();
        Ok(LiveTrialReport { split, shadow: self.shadow_reports(session, query(TrialKind::Shadow)).await? })
    }

    /// Compares the shadow runs of each library with their original runs.
    async fn shadow_reports(&self, session: &Session, query: RunQuery) -> Result<Vec<Report>, TrialError> {
        let mut arms: BTreeMap<String, (Vec<Sample>, Vec<Sample>)> = BTreeMap::new();
        for snapshot in self.list_snapshots(session, query).await? {
            let Some((trial, original)) = snapshot.start.trial.as_ref().and_then(|trial| Some((trial, trial.of?)))
            else {
                continue;
            };
            if snapshot.run.ending().is_none() {
                continue;
            }
            let original = match self.0.runs.get(session, original).await {
                Ok(record) if record.snapshot.run.ending().is_some() => record.snapshot,
                Err(CommandError::Unavailable(error)) => return Err(error.into()),
                // The original run has not ended, or was deleted.
                _ => continue,
            };
            let (originals, shadows) = arms.entry(trial.arm.clone()).or_default();
            let number = u32::try_from(shadows.len()).ok();
            originals.push(Sample::from_run(&original.run, number));
            shadows.push(Sample::from_run(&snapshot.run, number));
        }
        let reports = arms
            .iter()
            .map(|(arm, (originals, shadows))| Report::compare((Trial::DEFAULT_ARM, originals), (arm, shadows)));
        Ok(reports.collect())
    }

    /// Returns the runs that match a query, latest first. Stops reading pages once there are twice [`MAX_RUNS`] runs,
    /// which is the size of the largest trial.
    async fn list_snapshots(
        &self,
        session: &Session,
        mut query: RunQuery,
    ) -> Result<Vec<Arc<RunSnapshot>>, CommandError> {
        let mut found = Vec::new();
        while found.len() < 2 * MAX_RUNS {
            let page = self.0.runs.list(session, query.clone()).await?;
            for row in page.items {
                found.push(self.0.runs.get(session, row.id).await?.snapshot);
            }
            match page.next {
                Some(next) => query.cursor = Some(next),
                None => break,
            }
        }
        Ok(found)
    }

    async fn prepare_cases(
        &self,
        session: &Session,
        agent: &CompiledAgent,
        cases: ComparisonCases,
    ) -> Result<Vec<TrialCase>, CompareError> {
        match cases {
            ComparisonCases::Messages(inputs) => {
                if let Some(at) = inputs.iter().position(|(message, _)| message.trim().is_empty()) {
                    return Err(CompareError::EmptyMessage(at));
                }
                Ok(inputs.into_iter().map(|(message, context)| TrialCase::Message(message, context)).collect())
            }
            ComparisonCases::Runs(originals) => {
                if originals.len() > MAX_RUNS {
                    return Err(CompareError::RunCount(originals.len()));
                }
                let mut inputs = Vec::with_capacity(originals.len());
                for (at, original) in originals.into_iter().enumerate() {
                    let recorded_run = Box::pin(self.load_recorded_run(session, original)).await;
                    let recorded_run = recorded_run.map_err(|source| CompareError::Run { at, source })?;
                    let expected = agent.document.meta.ref_name.as_str();
                    if let Some(other) = recorded_run.agent().filter(|name| !name.eq_ignore_ascii_case(expected)) {
                        return Err(CompareError::OtherAgent { at, agent: other.to_owned() });
                    }
                    self.check_may_replay(session, agent, &recorded_run)
                        .map_err(|source| CompareError::Run { at, source })?;
                    inputs.push(TrialCase::Recorded(recorded_run));
                }
                Ok(inputs)
            }
        }
    }

    /// Runs both arms on one case, one after the other. The arm that runs first alternates, because the first run may
    /// affect the second, for example by filling a cache.
    async fn run_pair(&self, setup: &TrialSetup, a: &Arm, b: &Arm, at: usize, case: &TrialCase) {
        for arm in if at.is_multiple_of(2) { [a, b] } else { [b, a] } {
            if self.0.runs.stopping() {
                return;
            }
            let trial = Trial { number: u32::try_from(at).ok(), ..arm.trial.clone() };
            match Box::pin(self.run_arm(setup, arm, trial, case)).await {
                Ok(handle) => drop(handle.settled().await),
                // The trial continues. Its report then lacks this run.
                Err(error) => {
                    tracing::warn!(
                        error = &error as &dyn std::error::Error,
                        arm = arm.library.name(),
                        "run of a trial could not be started"
                    );
                }
            }
        }
    }

    async fn run_arm(
        &self,
        setup: &TrialSetup,
        arm: &Arm,
        trial: Trial,
        case: &TrialCase,
    ) -> Result<Arc<RunHandle>, TrialError> {
        let (message, context) = match case {
            TrialCase::Message(message, context) => (message.clone(), context.clone()),
            TrialCase::Recorded(recorded_run) => {
                let trial = Trial { of: Some(recorded_run.run), ..trial };
                let options = ReplayOptions {
                    library: &arm.library,
                    live_tools: &setup.live_tools,
                    overrides: ModelOverrides::default(),
                    trial,
                };
                return Ok(Box::pin(self.start_replay(&setup.session, recorded_run.clone(), options))
                    .await?
                    .started
                    .handle);
            }
        };
        self.check_capacity()?;
        let TrialSetup { session, agent, realm, principal, captures, .. } = setup;
        let origin = RunOrigin::new(session, Arc::clone(realm), Arc::clone(principal));
        let (owner, scope) = (origin.owner.0, origin.scope());
        let mut start = self.draft_run(agent, origin, context, message).await?.start;
        (start.bindings, start.trial) = (arm.bound.clone(), Some(trial));
        start.spec.policy.capture_writes = *captures;
        let executor = self.0.runs.build_executor(&start, scope).await?;
        let plan = RunLaunch {
            executor: Arc::new(executor),
            home: Arc::clone(&session.realm),
            owner,
            principal: principal.id,
            changes: Vec::new(),
            start,
            prefix: Vec::new(),
        };
        Ok(self.0.runs.launch(plan).await.map_err(Unavailable::from)?)
    }
}

fn page() -> RunQuery {
    RunQuery { limit: PAGE, ..RunQuery::default() }
}

/// The trials that this server is running.
#[derive(Clone, Default)]
pub(crate) struct ActiveTrials(Arc<Mutex<HashMap<TrialId, ActiveTrial>>>);

/// A running trial.
#[derive(Clone)]
pub(crate) struct ActiveTrial {
    pub owner: PrincipalId,
    pub realm: RealmId,
    pub started_at: Timestamp,
    pub agent: String,
    pub arms: [String; 2],
    pub runs: u32,
}

/// Keeps a trial registered as running until this guard is dropped.
struct ActiveTrialGuard {
    trials: ActiveTrials,
    trial: TrialId,
}

impl ActiveTrial {
    /// Whether the principal of the session started the trial in the realm of the session.
    pub(crate) fn is_of(&self, session: &Session) -> bool {
        self.owner == session.principal.id && self.realm == session.realm.realm
    }
}

impl ActiveTrials {
    pub(crate) fn in_realm(&self, realm: RealmId) -> Vec<(TrialId, ActiveTrial)> {
        let trials = self.lock();
        let own = trials.iter().filter(|(_, active)| active.realm == realm);
        own.map(|(trial, active)| (*trial, active.clone())).collect()
    }

    fn register(&self, trial: TrialId, active_trial: ActiveTrial) -> ActiveTrialGuard {
        self.lock().insert(trial, active_trial);
        ActiveTrialGuard { trials: self.clone(), trial }
    }

    /// Whether this server runs the trial.
    pub(crate) fn contains(&self, trial: TrialId) -> bool {
        self.lock().contains_key(&trial)
    }

    fn get(&self, trial: TrialId) -> Option<ActiveTrial> {
        self.lock().get(&trial).cloned()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<TrialId, ActiveTrial>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for ActiveTrialGuard {
    fn drop(&mut self) {
        self.trials.lock().remove(&self.trial);
    }
}
