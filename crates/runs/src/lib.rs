//! Starts runs, drives them, lets clients watch them, and recovers them after a crash.
//!
//! A run consists of a machine and a journal. A driver executes the machine's effects and records their outcomes in the
//! journal. Watchers, replays and recovery read the journal.

mod approvals;
pub mod blobs;
mod bundles;
mod command;
mod command_reply;
mod control;
mod core;
mod direct;
mod driver;
mod effects;
mod executor;
mod host;
mod inspect;
mod journal;
mod lease;
mod lifecycle;
mod load;
mod plan_schema;
mod ports;
mod predefined;
mod projections;
mod read;
mod recovery;
mod refused;
mod registry;
mod retention;
mod scheduler;
#[cfg(test)]
mod simulation;
mod tasks;
pub mod turns;
mod verify;
mod watch;

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::future::BoxFuture;
use serde_json::json;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use toolwright_authz::Action;
use toolwright_machine::AgentOutputs;
use toolwright_machine::journal::{Entry, RunStart};
use toolwright_models::{ErrorKind, ModelError};
pub use toolwright_store::{
    CallFilter, DecisionCursor, DecisionOutcome, DecisionQuery, DecisionRecord, EffectCursor, EffectOutcome,
    EffectQuery, EffectRecord, JournalPageQuery, PendingWait, Run, RunCursor, RunKind, RunQuery, TrialQuery,
    TrialSummary, WaitCursor, WaitKind, WaitQuery,
};
use toolwright_store::{Owners, ServerId, Store, WriteError, Writer, WriterOptions};
use toolwright_tools::Executor;
use toolwright_types::{CallId, Clock, ConversationId, RealmScope, RunId, RunStatus, Timestamp};

pub use approvals::DecisionDetails;
pub use bundles::{ExportError, Verification};
pub use command::CommandError;
use command::RunCommand;
pub use control::AcceptedCommand;
pub use direct::{DirectCall, DirectOutcome};
pub use effects::{EffectError, EffectId};
use executor::BoundTool;
pub use executor::{AnswerSchemas, RunExecutor, RunScope};
pub use inspect::{
    AlignedEntry, Divergence, InspectError, InspectedEntry, JournalComparison, JournalPage, RunNode, RunTree, StateAt,
};
use lease::Lease;
pub use lifecycle::RunLaunch;
pub use plan_schema::{PlanSchema, listed_violations};
use ports::{DriverHost, ParentCommand};
pub use predefined::PredefinedRun;
use registry::RunRegistry;
pub use registry::RunSnapshot;
pub use registry::{RunHandle, RunMeta};
pub use retention::Retention;
use scheduler::ExternalScheduler;
pub use scheduler::{SchedulerError, TaskScheduler};
pub use tasks::{Task, TaskEvent, TaskPlan, Timer};
pub use watch::{RunWatch, WatchEvent};

use crate::blobs::BlobStore;
use executor::call_context;
use toolwright_catalog::{
    Access, ModelRegistry, Resolver, Session, Toolset, Unavailable, VersionedRef, select_version,
};

/// Starts, reads and controls all runs of this server. Cheap to clone.
#[derive(Clone)]
pub struct Runs(Arc<Inner>);

/// The services that runs use.
pub struct Dependencies {
    /// Stores the rows and the journals of runs.
    pub store: Store,
    /// Executes tool calls.
    pub executor: Executor,
    /// Stores payloads that are too large for a journal.
    pub blobs: BlobStore,
    /// The models of agents.
    pub models: ModelRegistry,
    /// Resolves the tools of agents.
    pub resolver: Resolver,
    /// Decides who may see and change a run.
    pub access: Access,
    /// The clock.
    pub clock: Arc<dyn Clock>,
}

struct Inner {
    store: Store,
    lease: Arc<Lease>,
    writer: Writer,
    executor: Executor,
    blobs: BlobStore,
    models: ModelRegistry,
    resolver: Resolver,
    access: Access,
    clock: Arc<dyn Clock>,
    registry: RunRegistry,
    drivers: TaskTracker,
    /// The direct calls in progress.
    calls: TaskTracker,
    stop: CancellationToken,
    /// Runs whose journals could not be written, each with its realm and a command. `Runs::recover_unwritten_runs`
    /// recovers each of these runs by sending it the command.
    unwritten: Mutex<HashMap<RunId, (Arc<RealmScope>, RunCommand)>>,
    /// Notified when a run is suspended, because the timer of that run may be due before all others.
    suspended: Arc<Notify>,
    /// The external scheduler, which drives durable runs instead of this server.
    scheduler: Option<ExternalScheduler>,
}

/// A run: its stored row and its current state.
pub struct RunRecord {
    /// The row in the store.
    pub row: Run,
    /// The first entry and the current state of the machine.
    pub snapshot: Arc<RunSnapshot>,
}

impl Runs {
    /// Takes the lease of this server and starts the tasks that write journals. `shared` says whether other servers use
    /// the same database. Call [`Runs::start`] next, which recovers and wakes runs.
    pub async fn open(
        dependencies: Dependencies,
        shared: bool,
        scheduler: Option<Arc<dyn TaskScheduler>>,
        background: &TaskTracker,
        stop: &CancellationToken,
    ) -> Result<Self, Unavailable> {
        let Dependencies { store, executor, blobs, models, resolver, access, clock } = dependencies;
        let lease = Arc::new(Lease::take(Arc::new(store.clone()), Arc::clone(&clock), shared).await?);
        if shared {
            background.spawn(Arc::clone(&lease).keep(stop.clone()));
        }
        let (writer, writing) = store.writer(lease.server().clone(), WriterOptions::default());
        background.spawn(writing.run(stop.clone()));
        let scheduler = scheduler.map(|client| {
            let (writer, writing) = store.writer(ServerId::scheduler(), WriterOptions::default());
            background.spawn(writing.run(stop.clone()));
            ExternalScheduler::new(client, Arc::new(store.clone()), writer)
        });
        Ok(Self(Arc::new(Inner {
            store,
            lease,
            writer,
            executor,
            blobs,
            models,
            resolver,
            access,
            clock,
            registry: RunRegistry::default(),
            drivers: TaskTracker::new(),
            calls: TaskTracker::new(),
            stop: CancellationToken::new(),
            unwritten: Mutex::default(),
            suspended: Arc::default(),
            scheduler,
        })))
    }

    /// Recovers the runs of servers without a valid lease. Then starts the tasks that wake suspended runs and delete
    /// expired runs.
    pub async fn start(
        &self,
        shared: bool,
        retention: Retention,
        background: &TaskTracker,
        stop: &CancellationToken,
    ) -> Result<(), Unavailable> {
        self.recover_abandoned_runs().await?;
        background.spawn(self.clone().run_timers(shared, stop.clone()));
        background.spawn(self.clone().run_retention(retention, stop.clone()));
        Ok(())
    }

    /// The number of tasks that drive or recover a run on this server.
    pub fn running(&self) -> usize {
        self.0.drivers.len()
    }

    /// Verifies the hashes of a journal, and returns the subject (the name of the agent or tool) and the entries of the
    /// run.
    pub async fn journal_of(&self, session: &Session, run: RunId) -> Result<(String, Vec<Entry>), CommandError> {
        let row = self.permitted(session, run, Action::Execute).await?;
        if let Some((n, why)) = self.verify(session, run).await?.broken {
            return Err(CommandError::Broken { n, why });
        }
        let loaded = self.0.load(&session.realm, run).await?;
        Ok((row.subject, load::parse_entries(&loaded.entries)?))
    }

    /// Builds the executor of a run that is already stored.
    pub async fn build_executor(&self, start: &RunStart, scope: RunScope) -> Result<RunExecutor, Unavailable> {
        self.0.build_executor(start, scope).await
    }

    /// The unfinished run of a conversation, if there is one.
    pub async fn open_run_of(
        &self,
        realm: &RealmScope,
        conversation: ConversationId,
    ) -> Result<Option<(RunId, RunStatus)>, Unavailable> {
        let status = RunStatus::ALL.into_iter().filter(|status| !status.is_terminal()).collect();
        let query = RunQuery { conversation: Some(conversation), status, limit: 1, ..RunQuery::default() };
        let page = self.0.store.runs(realm).list(Owners::All, &query).await?;
        Ok(page.items.first().map(|run| (run.id, run.state.status)))
    }

    /// The outputs of a run; empty if the run does not exist.
    pub async fn outputs(&self, home: &RealmScope, run: RunId) -> Result<AgentOutputs, Unavailable> {
        match self.0.load(home, run).await {
            Ok(loaded) => Ok(loaded.snapshot.run.outputs()),
            Err(CommandError::Unavailable(error)) => Err(error),
            Err(_) => Ok(AgentOutputs::default()),
        }
    }

    /// The current time of the server's clock.
    pub fn now(&self) -> Timestamp {
        self.0.clock.now()
    }

    /// The metadata of a run that is in memory.
    pub fn meta(&self, run: RunId) -> Option<RunMeta> {
        self.0.registry.get(run)?.meta().cloned()
    }

    /// Waits until the run ends or is suspended, and returns a snapshot of the run; `None` if the run does not exist.
    /// If another server drives the run, returns the current snapshot of the run without waiting.
    pub async fn wait_for_rest(&self, home: &RealmScope, run: RunId) -> Result<Option<Arc<RunSnapshot>>, Unavailable> {
        if let Some(handle) = self.0.registry.get(run).filter(|handle| handle.is_driven())
            && let Some(snapshot) = handle.settled().await
        {
            return Ok(Some(snapshot));
        }
        if let Some(snapshot) = self.0.wait_for_rest_of_scheduled(home, &self.0.registry.get_or_insert(run)).await? {
            return Ok(Some(snapshot));
        }
        match self.0.load(home, run).await {
            Ok(loaded) => Ok(Some(loaded.snapshot)),
            Err(CommandError::Unavailable(error)) => Err(error),
            Err(_) => Ok(None),
        }
    }

    /// Waits until a run that this server started ends or is suspended, and returns a snapshot of the run. Returns
    /// `None` if the driver stopped before that.
    pub async fn settled(&self, handle: &Arc<RunHandle>) -> Option<Arc<RunSnapshot>> {
        let home = Arc::clone(&handle.meta()?.home);
        self.0.settled(handle, &home).await
    }

    /// Builds the executor of a new run.
    pub async fn new_executor(
        &self,
        start: &RunStart,
        scope: RunScope,
        tools: Arc<Toolset>,
        answers: AnswerSchemas,
    ) -> RunExecutor {
        self.0.new_executor(start, scope, tools, answers).await
    }

    /// Stores the start of a run. Then this server or the external scheduler drives the run. The future is boxed because
    /// the start of a run is large.
    pub fn launch(&self, launch: RunLaunch) -> BoxFuture<'_, Result<Arc<RunHandle>, WriteError>> {
        Box::pin(async move {
            let (parent, home) = (launch.start.parent, Arc::clone(&launch.home));
            let handle = match &self.0.scheduler {
                Some(scheduler) if launch.start.durable => scheduler.start(&self.0.host(), launch).await,
                _ => lifecycle::start_run(&self.0.host(), launch).await,
            }?;
            let parent = parent.and_then(|parent| self.0.registry.get(parent));
            if parent.is_some_and(|parent| parent.has_abandoned(handle.id)) {
                // The call ended while it started this run. A run that has already been cancelled rejects the command.
                let _ = self.0.send(&handle, &home, abandoned()).await;
            }
            Ok(handle)
        })
    }

    /// Spawns a background task. Shutdown waits for the task, and cancels it after the grace period.
    pub fn spawn_background(&self, task: impl Future<Output = ()> + Send + 'static) {
        let stop = self.0.stop.clone();
        self.0.drivers.spawn(async move {
            let _ = stop.run_until_cancelled(task).await;
        });
    }

    /// Whether the server is stopping and starts no more runs.
    pub fn stopping(&self) -> bool {
        self.0.drivers.is_closed()
    }

    /// Waits up to `grace` for the runs and calls in progress, then ends those that are left. Durable runs are
    /// recovered later, other runs end as interrupted. Cancelled calls still end with an envelope.
    pub async fn finish(&self, grace: Duration) {
        let Inner { drivers, calls, stop, .. } = &*self.0;
        drivers.close();
        calls.close();
        let finished = async { tokio::join!(drivers.wait(), calls.wait()) };
        if tokio::time::timeout(grace, finished).await.is_err() {
            let (runs, calls_left) = (drivers.len(), calls.len());
            tracing::warn!(runs, calls = calls_left, "runs and calls did not finish in time and are ended");
            stop.cancel();
            tokio::join!(drivers.wait(), calls.wait());
        }
    }
}

/// Derives the id of a child run from the idempotency key of its call. So a repeated call finds the child run that the
/// first attempt started.
pub fn child_run_id(key: &str) -> RunId {
    let digest = toolwright_types::json::digest(&json!([key, "run"]));
    RunId::from_bits(digest.iter().take(16).fold(0, |bits, byte| (bits << 8) | u128::from(*byte)))
}

/// Cancels a child run whose call has ended before it.
fn abandoned() -> RunCommand {
    RunCommand::Cancel { message: Some("the call that started the run has timed out".to_owned()) }
}

impl Inner {
    /// Waits until the run ends or is suspended, and returns a snapshot of the run. Returns `None` if the driver
    /// stopped before that.
    async fn settled(&self, handle: &RunHandle, home: &RealmScope) -> Option<Arc<RunSnapshot>> {
        if let Some(snapshot) = handle.settled().await {
            return Some(snapshot);
        }
        let rest = self.wait_for_rest_of_scheduled(home, handle).await;
        rest.unwrap_or_else(|error| {
            tracing::error!(run = %handle.id, error = &error as &dyn std::error::Error, "a run cannot be read");
            None
        })
    }

    fn host(self: &Arc<Self>) -> Arc<dyn DriverHost> {
        Arc::clone(self) as _
    }

    /// Sends a command to a run and waits for the reply. If an external scheduler drives the run, the command goes
    /// through the inbox. Otherwise [`lifecycle::send`] delivers the command, and recovers the run if it has no driver.
    fn send(
        self: &Arc<Self>,
        handle: &Arc<RunHandle>,
        home: &Arc<RealmScope>,
        command: RunCommand,
    ) -> BoxFuture<'static, Result<(), CommandError>> {
        let (shared, handle, home) = (Arc::clone(self), Arc::clone(handle), Arc::clone(home));
        Box::pin(async move {
            if shared.is_scheduled(&handle).await? {
                return shared.send_through_inbox(handle.id, command).await;
            }
            lifecycle::send(&shared.host(), &handle, &home, command).await
        })
    }

    /// Cancels the child runs of a run that has ended.
    async fn cancel_children(self: &Arc<Self>, handle: &RunHandle, home: &Arc<RealmScope>, start: &RunStart) {
        if start.delegates.is_empty() && start.agentic_tools.is_empty() {
            return;
        }
        let status = RunStatus::ALL.into_iter().filter(|status| !status.is_terminal()).collect();
        let query = RunQuery { parent: Some(handle.id), status, limit: 1000, ..RunQuery::default() };
        let stored = match self.store.runs(home).list(Owners::All, &query).await {
            Ok(page) => page.items.into_iter().map(|run| run.id).collect(),
            Err(error) => {
                tracing::error!(run = %handle.id, %error, "the children of a run cannot be listed");
                Vec::new()
            }
        };
        // Child runs that this server drives are added from memory, because their rows may not be committed yet.
        let driven = |child: &RunId| self.registry.get(*child).is_some_and(|child| child.is_driven());
        let children: HashSet<RunId> = handle.children().into_iter().filter(driven).chain(stored).collect();
        for child in children {
            let message = Some("the parent run has ended".to_owned());
            let child = self.registry.get_or_insert(child);
            // A child run that has already ended rejects the command.
            let _ = self.send(&child, home, RunCommand::Cancel { message }).await;
        }
    }

    /// Cancels the child runs of calls that have ended before them. A child run that is being started is cancelled when
    /// it has started.
    async fn abandon_children(self: &Arc<Self>, handle: &RunHandle, home: &Arc<RealmScope>, calls: &[CallId]) {
        for call in calls {
            let child = child_run_id(&Executor::idempotency_key_for(handle.id, call));
            handle.abandon_child(child);
            let is_driven = self.registry.get(child).is_some_and(|child| child.is_driven());
            let is_unfinished = is_driven
                || match self.store.runs(home).get(child).await {
                    Ok(row) => row.is_some_and(|row| !row.state.status.is_terminal()),
                    Err(error) => {
                        tracing::error!(run = %handle.id, %child, %error, "a child run cannot be read");
                        false
                    }
                };
            if is_unfinished {
                // A child run that has ended in the meantime rejects the command.
                let _ = self.send(&self.registry.get_or_insert(child), home, abandoned()).await;
            }
        }
    }

    /// Sends a command to the parent of a run, if the run has one, and does not wait for the reply.
    fn notify_parent(self: &Arc<Self>, start: &RunStart, home: &Arc<RealmScope>, command: ParentCommand) {
        if let (Some(parent), Some(call_id)) = (start.parent, start.parent_call.clone()) {
            let (shared, home) = (Arc::clone(self), Arc::clone(home));
            self.drivers.spawn(async move {
                let parent = shared.registry.get_or_insert(parent);
                // A parent run that no longer waits for this child rejects the command.
                let _ = shared.send(&parent, &home, command(call_id)).await;
            });
        }
    }

    /// Returns the implementations that replace tools of a run. The keys are tool names in lower case.
    async fn bound(&self, start: &RunStart, realm: &RealmScope) -> HashMap<String, BoundTool> {
        let mut bound = HashMap::new();
        for (tool, implementation) in &start.bindings {
            let Some(VersionedRef { name, version_req: wanted }) = VersionedRef::parse(implementation) else {
                continue;
            };
            // If the implementation does not exist, this time limit is zero. A call to the implementation then fails
            // when it is prepared.
            let versions = self.resolver.catalog.versions(realm, name).await.unwrap_or_default();
            let limit = select_version(&versions, wanted.as_ref()).map(|tool| tool.limits.total).unwrap_or_default();
            bound.insert(
                tool.to_ascii_lowercase(),
                BoundTool { tool: tool.clone(), name: name.to_owned(), wanted, limit },
            );
        }
        bound
    }

    async fn new_executor(
        &self,
        start: &RunStart,
        scope: RunScope,
        tools: Arc<Toolset>,
        answers: AnswerSchemas,
    ) -> RunExecutor {
        // A run with predefined calls or a given plan never calls a model, so it needs none.
        let model = match start.spec.uses_model() {
            true => self.models.model(&scope.realm, &scope.principal, &start.model, start.fallback.as_ref()).await,
            false => Err(ModelError::new(ErrorKind::InvalidRequest, "the run has no model")),
        };
        let cx = Arc::new(call_context(start, scope, &tools));
        let bound = Box::pin(self.bound(start, &cx.realm)).await;
        let recording = start.recording.clone();
        let (executor, blobs, prepared) = (self.executor.clone(), self.blobs.clone(), Mutex::default());
        RunExecutor { executor, blobs, model, tools, bound, recording, cx, answers, prepared }
    }
}
