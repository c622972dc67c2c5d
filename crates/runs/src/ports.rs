//! The traits through which a run uses its environment: the server that drives it, the executor of its effects, and the
//! store of scheduled tasks.
//!
//! They are traits so that the simulation can replace the environment, inject failures and change the order of events.

use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use tokio_util::sync::CancellationToken;
use toolwright_catalog::Unavailable;
use toolwright_machine::agent::{AgentRun, CallToPrepare, CallToRun, Effect, EventKind, PreparedCall};
use toolwright_machine::journal::RunStart;
use toolwright_store::{InboxItem, JournalPosition, Store, StoredTask, TaskStart, TaskState, Writer};
use toolwright_tools::{Allowance, ReadyCall};
use toolwright_types::{CallId, Clock, ModelRequest, RealmScope, RunId, RunStatus, Timestamp};

use super::command::RunCommand;
use super::journal::RunJournal;
use super::lease::Lease;
use super::registry::{RunHandle, RunRegistry};

/// The maximum time between the intent of a write and its start. A write that would start later gets a new intent.
/// Recovery relies on this: it assumes that the write has ended when this time plus the time limit of the call has
/// passed since the intent. The lease is extended to cover the same period.
pub(super) const START_WITHIN: Duration = Duration::from_secs(5);

/// The server that drives a run.
pub(super) trait DriverHost: Send + Sync {
    /// The clock.
    fn clock(&self) -> &dyn Clock;

    /// The lease with which this server drives runs.
    fn lease(&self) -> &Lease;

    /// Writes the journals of runs.
    fn writer(&self) -> &Writer;

    /// The runs in memory.
    fn registry(&self) -> &RunRegistry;

    /// Spawns a task for a run. Shutdown waits for the task.
    fn spawn(&self, run: RunId, task: BoxFuture<'static, ()>);

    /// Loads a run from the store; `None` if the run does not exist.
    fn load_run<'a>(
        &'a self,
        handle: &'a Arc<RunHandle>,
        home: &'a Arc<RealmScope>,
    ) -> BoxFuture<'a, Result<Option<LoadedRun>, Unavailable>>;

    /// Cancelled when the server stops.
    fn stop(&self) -> &CancellationToken;

    /// Notifies the timer task that a run was suspended, because the timer of that run may be due before all others.
    fn run_suspended(&self);

    /// Registers a run whose journal could not be written. The timer task later recovers the run by sending it this
    /// command.
    fn recover_later(&self, run: RunId, home: &Arc<RealmScope>, command: RunCommand);

    /// Whether a child run has ended.
    fn has_ended<'a>(&'a self, home: &'a RealmScope, run: RunId) -> BoxFuture<'a, bool>;

    /// Cancels the child runs of a run that has ended.
    fn cancel_children<'a>(
        self: Arc<Self>,
        handle: &'a RunHandle,
        home: &'a Arc<RealmScope>,
        start: &'a RunStart,
    ) -> BoxFuture<'a, ()>;

    /// Cancels the child runs of calls that have ended before them.
    fn abandon_children<'a>(
        self: Arc<Self>,
        handle: &'a RunHandle,
        home: &'a Arc<RealmScope>,
        calls: &'a [CallId],
    ) -> BoxFuture<'a, ()>;

    /// Sends a command to the parent run, if the run has a parent, and does not wait for the reply.
    fn notify_parent(self: Arc<Self>, start: &RunStart, home: &Arc<RealmScope>, command: ParentCommand);
}

/// Creates the command to a parent run from the id of the call that waits for the child run.
pub(super) type ParentCommand = Box<dyn FnOnce(CallId) -> RunCommand + Send>;

/// A run that was loaded to be driven.
pub(super) struct LoadedRun {
    pub start: Arc<RunStart>,
    pub run: AgentRun,
    pub journal: RunJournal,
    pub executor: Arc<dyn EffectExecutor>,
    /// Whether the row of the run says that the run has ended. If a server crashed between the last entry and the
    /// update of the row, this is false although the run has ended.
    pub end_persisted: bool,
}

/// The outcome of an effect.
pub enum EffectOutcome {
    /// An event that is recorded in the journal.
    Event(EventKind),
    /// The calls of one model reply, after their preparation. Each has the result that the machine gets and, if the
    /// preparation succeeded in this process, the prepared call.
    Prepared { iteration: u32, results: Vec<(PreparedCall, Option<ReadyCall>)> },
    /// A call that was prepared again.
    PreparedAgain { call_id: CallId, call: PreparedCall, ready: Option<Box<ReadyCall>> },
    /// A write that was not started, because too much time had passed since its intent.
    TooLate { call: Box<CallToRun>, ready: Option<Box<ReadyCall>>, allowance: Option<Allowance> },
    /// The calls whose child runs have ended.
    ChildrenEnded(Vec<CallId>),
    /// The child runs of calls that have ended before them are cancelled.
    ChildrenAbandoned,
    /// The external scheduler executes the effect later.
    Scheduled,
}

impl EffectOutcome {
    /// Returns the event that records this outcome. Writes that are too late, ended and cancelled child runs, and
    /// scheduled effects have no event.
    pub fn into_event(self) -> Option<EventKind> {
        match self {
            EffectOutcome::Event(event) => Some(event),
            EffectOutcome::Prepared { iteration, results } => {
                Some(EventKind::Prepared { iteration, calls: results.into_iter().map(|(call, _)| call).collect() })
            }
            EffectOutcome::PreparedAgain { call_id, call, .. } => Some(EventKind::PreparedAgain { call_id, call }),
            EffectOutcome::TooLate { .. }
            | EffectOutcome::ChildrenEnded(_)
            | EffectOutcome::ChildrenAbandoned
            | EffectOutcome::Scheduled => None,
        }
    }
}

/// Executes the effects of one run.
pub trait EffectExecutor: Send + Sync {
    /// Calls the model, and publishes the partial reply to the watchers of the run.
    fn ask(
        self: Arc<Self>,
        handle: Arc<RunHandle>,
        iteration: u32,
        request: Box<ModelRequest>,
    ) -> BoxFuture<'static, EffectOutcome>;

    /// Prepares the calls that one model reply requests.
    fn prepare_all(self: Arc<Self>, iteration: u32, calls: Vec<CallToPrepare>) -> BoxFuture<'static, EffectOutcome>;

    /// Prepares a call again, after it was approved.
    fn prepare_again(self: Arc<Self>, call_id: CallId, call: CallToPrepare) -> BoxFuture<'static, EffectOutcome>;

    /// Executes a call. `ready` is the prepared call, if this process prepared it; `allowance` is the budget of the
    /// child run that the call starts.
    fn call(
        self: Arc<Self>,
        call: Box<CallToRun>,
        ready: Option<ReadyCall>,
        allowance: Option<Allowance>,
    ) -> BoxFuture<'static, EffectOutcome>;

    /// Asks the verify operation whether an interrupted write took effect.
    fn verify(self: Arc<Self>, call: Box<CallToRun>, intended_at: Timestamp) -> BoxFuture<'static, EffectOutcome>;

    /// The time limit of a call.
    fn time_limit(&self, call: &CallToRun) -> Duration;

    /// Whether a call starts a child run.
    fn starts_run(&self, call: &CallToRun) -> bool;

    /// Cancels the effects in progress.
    fn cancel(&self);
}

/// The part of a run's row that the loop of scheduled runs needs.
pub(super) struct ScheduledRun {
    /// The realm that stores the run.
    pub home: RealmScope,
    pub status: RunStatus,
    /// The last journal entry that the row takes into account.
    pub position: JournalPosition,
    pub parent: Option<RunId>,
    /// Whether an external scheduler drives the run.
    pub scheduled: bool,
}

/// The result of a request to the store.
type StoreResult<'a, T> = BoxFuture<'a, Result<T, toolwright_store::StoreError>>;

/// Stores the tasks and the inbox of scheduled runs.
pub(super) trait TaskStore: Send + Sync {
    /// Returns the row of a run, whichever realm stores the run.
    fn run(&self, run: RunId) -> StoreResult<'_, Option<ScheduledRun>>;

    /// Registers that a server starts a task, if the server may execute the task. Returns the state that the task then
    /// has.
    fn start_task<'a>(&'a self, start: TaskStart<'a>) -> StoreResult<'a, TaskState>;

    /// Stores the outcome of a task, unless an outcome is already stored.
    fn finish_task<'a>(&'a self, run: RunId, id: &'a str, outcome: &'a str) -> StoreResult<'a, ()>;

    /// Returns a task that was registered by `start_task`.
    fn task<'a>(&'a self, run: RunId, id: &'a str) -> StoreResult<'a, Option<StoredTask>>;

    /// Deletes a task that was registered and that no server has executed.
    fn delete_task<'a>(&'a self, run: RunId, id: &'a str) -> StoreResult<'a, ()>;

    /// Returns a command of the inbox and its reply.
    fn inbox_get<'a>(&'a self, run: RunId, id: &'a str) -> StoreResult<'a, Option<InboxItem>>;

    /// Stores the reply to a command for a run that has ended, unless a reply is already stored.
    fn inbox_reply<'a>(&'a self, run: RunId, id: &'a str, reply: &'a str) -> StoreResult<'a, ()>;
}

impl TaskStore for Store {
    fn run(&self, run: RunId) -> StoreResult<'_, Option<ScheduledRun>> {
        Box::pin(async move {
            let found = self.run_anywhere(run).await?;
            Ok(found.map(|(home, row)| ScheduledRun {
                home,
                status: row.state.status,
                position: row.state.journal_position,
                parent: row.parent,
                scheduled: row.scheduled,
            }))
        })
    }

    fn start_task<'a>(&'a self, start: TaskStart<'a>) -> StoreResult<'a, TaskState> {
        Box::pin(Store::start_task(self, start))
    }

    fn finish_task<'a>(&'a self, run: RunId, id: &'a str, outcome: &'a str) -> StoreResult<'a, ()> {
        Box::pin(Store::finish_task(self, run, id, outcome))
    }

    fn task<'a>(&'a self, run: RunId, id: &'a str) -> StoreResult<'a, Option<StoredTask>> {
        Box::pin(Store::task(self, run, id))
    }

    fn delete_task<'a>(&'a self, run: RunId, id: &'a str) -> StoreResult<'a, ()> {
        Box::pin(Store::delete_task(self, run, id))
    }

    fn inbox_get<'a>(&'a self, run: RunId, id: &'a str) -> StoreResult<'a, Option<InboxItem>> {
        Box::pin(Store::inbox_get(self, run, id))
    }

    fn inbox_reply<'a>(&'a self, run: RunId, id: &'a str, reply: &'a str) -> StoreResult<'a, ()> {
        Box::pin(Store::inbox_reply(self, run, id, reply))
    }
}

/// Executes an effect. Returns `None` for approvals, client actions and the end of the run, which no executor performs.
/// For [`Effect::RunCall`], this function passes neither a prepared call nor the budget of a child run. A caller that
/// has a prepared call or a budget calls [`EffectExecutor::call`] directly.
pub(super) fn execute_effect(
    executor: Arc<dyn EffectExecutor>,
    handle: &Arc<RunHandle>,
    effect: Effect,
) -> Option<BoxFuture<'static, EffectOutcome>> {
    match effect {
        Effect::CallModel { iteration, request } => Some(executor.ask(Arc::clone(handle), iteration, request)),
        Effect::PrepareCalls { iteration, calls } => Some(executor.prepare_all(iteration, calls)),
        Effect::PrepareAgain { call_id, call } => Some(executor.prepare_again(call_id, call)),
        Effect::RunCall(call) => Some(executor.call(call, None, None)),
        Effect::VerifyCall { call, intended_at } => Some(executor.verify(call, intended_at)),
        Effect::RequestApproval(_) | Effect::RequestClientAction(_) | Effect::Finish { .. } => None,
    }
}
