//! Advances runs that an external scheduler drives: one event at a time, on any server.
//!
//! [`Stepper::advance`] applies one event to a run and lets the run continue until it only waits for tasks, people or
//! timers. Then it commits all new entries in one transaction and returns the tasks to schedule. [`Stepper::execute`]
//! executes these tasks, perhaps on another server, applies their outcomes and returns the tasks that follow.
//!
//! The scheduler may repeat a call to either function, because a server or the scheduler crashed before the reply
//! arrived. A run does not apply the same event twice, and a task with an outcome is not executed again. A task that
//! was started and has no outcome is executed again, unless it is a write. For a write, the machine records that the
//! attempt was interrupted.
//!
//! Two servers may advance the same run at the same time. Then the commit of one of them fails, because the journal has
//! changed. The server whose commit failed applies its event again, to the new state.

mod batch;
mod execution;
mod plan;
mod recorder;
mod running;

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use toolwright_catalog::Unavailable;
use toolwright_machine::agent::{AgentRun, Effect, EffectId, EventKind};
use toolwright_store::{JournalPosition, RunChange, WriteError, Writer};
use toolwright_types::{RunId, SideEffects, Timestamp};

use super::command::{CommandError, RunCommand};
use super::command_reply::encode_reply;
use super::core::{Driven, Intents, RunCore, Work};
use super::journal::{CHILD_CHECK_INTERVAL_US, Durability, FlushPolicy, RunJournal, wake_at};
use super::ports::{DriverHost, EffectOutcome, LoadedRun, ScheduledRun, TaskStore};
use plan::{EndedTask, StepEvent};
pub use plan::{Task, TaskEvent, TaskPlan, Timer};
use recorder::{RecordedTask, TaskRecorder};
use running::RunningTasks;

/// The maximum number of attempts to apply one event. An attempt fails if another server has changed the journal in the
/// meantime.
const MAX_CONFLICTS: usize = 3;
/// The maximum number of cached runs.
const MAX_CACHED_RUNS: u64 = 10_000;
/// How long an unused run stays in the cache.
const CACHE_IDLE: Duration = Duration::from_secs(600);

/// Advances scheduled runs and executes their tasks.
pub(super) struct Stepper {
    store: Arc<dyn TaskStore>,
    /// Writes rows that name the scheduler as the driver.
    writer: Writer,
    cache: moka::sync::Cache<RunId, CacheSlot>,
    running: RunningTasks,
}

/// The cache entry of one run. The mutex ensures that only one event at a time is applied to the run.
type CacheSlot = Arc<tokio::sync::Mutex<Option<CachedRun>>>;

/// The result of looking up a run in the cache and the store.
enum CacheLookup<'a> {
    Run(&'a mut CachedRun),
    Ended(ScheduledRun),
    /// The run does not exist, or the scheduler does not drive it.
    NotScheduled,
}

/// Whether a cached run is compared with the row of the run before it is used. The row shows whether another server has
/// advanced the run.
#[derive(Clone, Copy, PartialEq)]
enum Freshness {
    Checked,
    Assumed,
}

/// Why an event could not be applied.
enum AdvanceError {
    /// Another server has changed the journal.
    Conflict,
    Unavailable(Unavailable),
}

impl From<WriteError> for AdvanceError {
    fn from(error: WriteError) -> Self {
        match error {
            WriteError::Conflict(_) | WriteError::LeaseLost(_) => AdvanceError::Conflict,
            other => AdvanceError::Unavailable(other.into()),
        }
    }
}

impl<E: Into<Unavailable>> From<ReadError<E>> for AdvanceError {
    fn from(ReadError(error): ReadError<E>) -> Self {
        AdvanceError::Unavailable(error.into())
    }
}

/// An error while reading data that a run needs.
struct ReadError<E>(E);

impl Stepper {
    pub(crate) fn new(store: Arc<dyn TaskStore>, writer: Writer) -> Self {
        let cache = moka::sync::Cache::builder().max_capacity(MAX_CACHED_RUNS).time_to_idle(CACHE_IDLE).build();
        Self { store, writer, cache, running: RunningTasks::default() }
    }

    /// The writer whose rows name the scheduler as the driver.
    pub(crate) fn writer(&self) -> &Writer {
        &self.writer
    }

    /// Applies an event to a run and returns the plan of what to schedule next.
    pub(crate) async fn advance(
        &self,
        host: &Arc<dyn DriverHost>,
        run: RunId,
        event: &StepEvent<'_>,
    ) -> Result<TaskPlan, Unavailable> {
        let slot = self.slot(run);
        let mut slot = slot.lock().await;
        for attempt in 0..MAX_CONFLICTS {
            // The commit of an outcome fails if another server has advanced the run. So the row need not be read before
            // the commit.
            let freshness = if attempt == 0 && event.has_outcomes() { Freshness::Assumed } else { Freshness::Checked };
            let cached = match self.cached_run(host, &mut slot, run, freshness).await? {
                CacheLookup::Run(cached) => cached,
                CacheLookup::Ended(row) => return self.after_end(run, &row, event).await,
                CacheLookup::NotScheduled => return Ok(TaskPlan::default()),
            };
            let error = match cached.apply(self, event, freshness).await {
                Ok(plan) => {
                    if cached.core.machine.ending().is_some() {
                        *slot = None;
                        self.cache.invalidate(&run);
                    }
                    return Ok(plan);
                }
                Err(error) => error,
            };
            // The cached machine may have applied events that were not committed. So the next attempt loads the run
            // from the store.
            *slot = None;
            self.writer.clear_failure(run).await?;
            if let AdvanceError::Unavailable(error) = error {
                return Err(error);
            }
        }
        Err(Unavailable::new("the run is advanced by another server", "its journal changed several times in a row"))
    }

    fn slot(&self, run: RunId) -> CacheSlot {
        self.cache.get_with(run, Arc::default)
    }

    /// Returns the plan for a run that has ended. The scheduler asks for this plan if the reply with the previous plan
    /// was lost.
    async fn after_end(&self, run: RunId, row: &ScheduledRun, event: &StepEvent<'_>) -> Result<TaskPlan, Unavailable> {
        if let StepEvent::Command(id) = event {
            let reply = encode_reply(Err(CommandError::Ended(row.status.to_string()))).map_err(no_reply)?;
            self.store.inbox_reply(run, id, &reply).await?;
        }
        Ok(TaskPlan { parent: self.scheduled_parent(row.parent).await?, ..TaskPlan::default() })
    }

    async fn scheduled_parent(&self, parent: Option<RunId>) -> Result<Option<RunId>, Unavailable> {
        let Some(parent) = parent else { return Ok(None) };
        Ok(self.store.run(parent).await?.is_some_and(|row| row.scheduled).then_some(parent))
    }

    /// Returns the current state of a run: from the cache, or from the store if another server has advanced the run.
    async fn cached_run<'a>(
        &self,
        host: &Arc<dyn DriverHost>,
        slot: &'a mut Option<CachedRun>,
        run: RunId,
        freshness: Freshness,
    ) -> Result<CacheLookup<'a>, Unavailable> {
        if freshness == Freshness::Assumed
            && let Some(cached) = slot.take()
        {
            return Ok(CacheLookup::Run(slot.insert(cached)));
        }
        let Some(row) = self.store.run(run).await? else {
            tracing::warn!(%run, "the scheduler asks for a run that does not exist in this database");
            return Ok(CacheLookup::NotScheduled);
        };
        if row.status.is_terminal() {
            *slot = None;
            return Ok(CacheLookup::Ended(row));
        }
        if !row.scheduled {
            return Ok(CacheLookup::NotScheduled);
        }
        let current = slot.take().filter(|cached| cached.position == row.position);
        let cached = match current {
            Some(cached) => cached,
            None => self.load(host, run, row).await?,
        };
        Ok(CacheLookup::Run(slot.insert(cached)))
    }

    async fn load(&self, host: &Arc<dyn DriverHost>, run: RunId, row: ScheduledRun) -> Result<CachedRun, Unavailable> {
        let (handle, home) = (host.registry().get_or_insert(run), Arc::new(row.home));
        let loaded = host.load_run(&handle, &home).await?;
        let missing = || Unavailable::new("the run has no journal", "no entries");
        let LoadedRun { start, run: machine, journal, executor, .. } = loaded.ok_or_else(missing)?;
        let last = Some(journal.position());
        let journal = RunJournal::new(self.writer.clone(), Arc::clone(&handle), home.realm, last, FlushPolicy::Batched);
        let recorder = Arc::new(TaskRecorder::new(executor));
        let (host, executor) = (Arc::clone(host), Arc::clone(&recorder) as _);
        let core = RunCore { host, handle, start, home, machine, journal, executor, work: Work::default() };
        Ok(CachedRun { core, recorder, freshly_loaded: true, position: row.position })
    }
}

struct CachedRun {
    core: RunCore,
    recorder: Arc<TaskRecorder>,
    /// Whether the run was loaded from the store and no event was applied since. Its outstanding tasks may have been
    /// scheduled before it was loaded.
    freshly_loaded: bool,
    /// The last entry of the journal when this state was loaded or committed.
    position: JournalPosition,
}

impl CachedRun {
    async fn apply(
        &mut self,
        stepper: &Stepper,
        event: &StepEvent<'_>,
        freshness: Freshness,
    ) -> Result<TaskPlan, AdvanceError> {
        let applied = match event {
            StepEvent::Wake => {
                // A run never rejects this command.
                let _ = self.core.handle_command(RunCommand::Wake).await?;
                false
            }
            StepEvent::Ended(tasks) => self.apply_outcomes(stepper, tasks).await?,
            StepEvent::Command(id) => self.apply_command(stepper, id).await?,
        };
        if !applied && freshness == Freshness::Assumed {
            return Err(AdvanceError::Conflict);
        }
        // If the event was not applied, it may be a repeated event: the scheduler did not receive the first reply. Then
        // all outstanding tasks are returned again.
        let all_tasks = self.run_to_rest().await? || !applied;
        if self.core.machine.ending().is_some() {
            return self.finish(stepper).await;
        }
        if all_tasks {
            self.recorder.tasks().clear();
            let outstanding = self.core.machine.pending().into_iter().filter(is_task).collect();
            self.core.start_these(outstanding, Intents::Recorded).await?;
            self.complete_effects().await?;
        }
        if self.core.journal.has_buffered() {
            self.core.commit(Driven::Yes).await?;
            self.position = self.core.journal.position();
            if self.core.machine.suspended() {
                self.core.notify_parent_of_suspension();
            }
        }
        let recorded = std::mem::take(&mut *self.recorder.tasks());
        let machine = &self.core.machine;
        let tasks = recorded.into_iter().map(|RecordedTask { effect, name, allowance }| {
            let attempt = machine.attempt(&effect);
            Task { run: machine.id(), effect, attempt, name, allowance, scheduled_before: all_tasks }
        });
        let timer = timer(machine, self.core.host.clock().now(), event);
        Ok(TaskPlan { tasks: tasks.collect(), timer, parent: None })
    }

    /// Starts the effects that the machine requests, and repeats this until the run only waits. Returns whether the run
    /// was freshly loaded.
    async fn run_to_rest(&mut self) -> Result<bool, WriteError> {
        let freshly_loaded = std::mem::take(&mut self.freshly_loaded);
        let mut effects = self.core.machine.next();
        if freshly_loaded {
            // These effects may already be scheduled as tasks. `apply` later returns them as tasks again, without
            // recording a new intent.
            effects.retain(|effect| !is_task(effect) || is_unintended_write(effect));
        }
        loop {
            self.core.start_these(effects, Intents::Record).await?;
            if !self.complete_effects().await? {
                return Ok(freshly_loaded);
            }
            effects = self.core.machine.next();
        }
    }

    /// Completes the effects in progress. Returns whether there were any.
    async fn complete_effects(&mut self) -> Result<bool, WriteError> {
        let mut any = false;
        while let Some(outcome) = self.core.work.effects.next().await {
            any = true;
            self.core.complete(outcome?).await?;
        }
        Ok(any)
    }

    async fn finish(&mut self, stepper: &Stepper) -> Result<TaskPlan, AdvanceError> {
        self.core.journal.note(RunChange::ClearTasks);
        self.core.finish().await?;
        let start = Arc::clone(&self.core.start);
        let parent = stepper.scheduled_parent(start.parent).await.map_err(ReadError)?;
        if parent.is_none() {
            self.core.notify_parent_of_end();
        }
        Ok(TaskPlan { parent, ..TaskPlan::default() })
    }

    /// Returns the effect of a task; `None` if the run does not wait for this effect, or waits for another attempt at
    /// it.
    fn pending_effect(&self, task: &Task) -> Option<Effect> {
        let machine = &self.core.machine;
        machine.pending_effect(&task.effect).filter(|_| machine.attempt(&task.effect) == task.attempt)
    }

    /// Records the outcomes of tasks. Returns true if every outcome was recorded.
    async fn apply_outcomes(&mut self, stepper: &Stepper, ended: &[EndedTask]) -> Result<bool, AdvanceError> {
        let mut all_applied = true;
        for EndedTask { task, outcome } in ended {
            let applied = match outcome {
                Some(_) if self.pending_effect(task).is_none() => false,
                Some(outcome) => {
                    self.core.complete(EffectOutcome::Event(EventKind::clone(outcome))).await?;
                    true
                }
                None => self.apply_stored_outcome(stepper, task).await?,
            };
            all_applied &= applied;
        }
        Ok(all_applied)
    }

    /// Records the stored outcome of a task. If a call was started and has no outcome, records that the call was
    /// interrupted. Returns false if nothing was recorded.
    async fn apply_stored_outcome(&mut self, stepper: &Stepper, task: &Task) -> Result<bool, AdvanceError> {
        let Some(effect) = self.pending_effect(task) else { return Ok(false) };
        let Some(stored) = stepper.store.task(task.run, &task.id()).await.map_err(ReadError)? else {
            // The task was deleted because too much time had passed since the intent of the write. A new intent is
            // recorded.
            self.core.start_these(vec![effect], Intents::Record).await?;
            return Ok(true);
        };
        match (stored.outcome, &task.effect) {
            (Some(outcome), _) => {
                let unreadable = |error| ReadError(Unavailable::new("the outcome of a task cannot be read", error));
                let event: EventKind = serde_json::from_str(&outcome).map_err(unreadable)?;
                self.core.complete(EffectOutcome::Event(event)).await?;
                Ok(true)
            }
            (None, EffectId::Call(call_id)) => {
                tracing::warn!(run = %task.run, call = %call_id, "the server that executed a call is gone");
                let recovered = EventKind::Recovered { call_id: Some(call_id.clone()) };
                Ok(self.core.record_and_apply(recovered, Durability::Deferred).await?.is_ok())
            }
            (None, _) => Ok(false),
        }
    }

    /// Executes the command with this id in the inbox. Returns false if the command already has a reply or does not
    /// exist.
    async fn apply_command(&mut self, stepper: &Stepper, id: &str) -> Result<bool, AdvanceError> {
        let item = stepper.store.inbox_get(self.core.handle.id, id).await.map_err(ReadError)?;
        let Some(item) = item.filter(|item| item.reply.is_none()) else { return Ok(false) };
        let unreadable = |error| ReadError(Unavailable::new("a command cannot be read", error));
        let command = serde_json::from_str(&item.command).map_err(unreadable)?;
        let result = self.core.handle_command(command).await?;
        let reply = encode_reply(result).map_err(no_reply).map_err(ReadError)?;
        self.core.journal.note(RunChange::Reply { id: id.to_owned(), reply });
        Ok(true)
    }
}

/// Whether an effect becomes a task. The other effects, such as preparing calls, are executed at once because the
/// machine needs their outcome to continue.
fn is_task(effect: &Effect) -> bool {
    matches!(effect, Effect::CallModel { .. } | Effect::RunCall(_) | Effect::VerifyCall { .. })
}

/// Whether an effect is a write without an intent in the journal. Such a write was not scheduled yet.
fn is_unintended_write(effect: &Effect) -> bool {
    matches!(effect, Effect::RunCall(call) if call.facts.effects == SideEffects::Writes && !call.repeated)
}

fn timer(machine: &AgentRun, now: Timestamp, event: &StepEvent<'_>) -> Option<Timer> {
    let due = wake_at(machine, now)?.as_micros();
    let own = machine.wake_at().is_some_and(|own| own.as_micros() <= due);
    let (at, key) = match event {
        // The timer is only for the check of child runs. Its time is rounded up to a full minute, so that all requests
        // within one minute set the same timer.
        _ if !own => {
            let at = due - due.rem_euclid(CHILD_CHECK_INTERVAL_US) + CHILD_CHECK_INTERVAL_US;
            (at, at.to_string())
        }
        // The run was woken before it was due, perhaps because the clock of another machine is ahead. The key is new,
        // so that the scheduler sets another timer.
        StepEvent::Wake => (due, format!("{due}/{}", now.as_micros())),
        StepEvent::Ended(_) | StepEvent::Command(_) => (due, due.to_string()),
    };
    // The delay is rounded up, so that the run is not woken a fraction of a millisecond before it is due.
    let in_ms = u64::try_from(at.saturating_sub(now.as_micros())).unwrap_or(0).div_ceil(1000);
    Some(Timer { key, in_ms })
}

fn no_reply(error: CommandError) -> Unavailable {
    Unavailable::new("the run cannot reply", error)
}
