//! Connects runs to an external scheduler, which drives them by calling any of the servers.
//!
//! The scheduler decides when a task is executed, and guarantees that each task is executed. Journals and commands stay
//! in the store: the scheduler receives their ids, and tasks without inputs and outputs. The scheduler may repeat a
//! request; a repeated request has no further effect.

use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use toolwright_catalog::Unavailable;
use toolwright_store::{WriteError, Writer};
use toolwright_types::{RealmScope, RunId, RunStatus, Timestamp};

use super::command::{CommandError, RunCommand};
use super::command_reply::decode_reply;
use super::lifecycle::{self, RunLaunch};
use super::ports::{DriverHost, TaskStore};
use super::tasks::{Stepper, Task, TaskEvent, TaskPlan};
use super::{Inner, RunHandle, RunSnapshot, Runs};

/// How often the row of a run is read while a caller waits for the run and no notification arrives.
const POLL_INTERVAL: Duration = Duration::from_millis(250);
/// The maximum number of idle runs that one query reads.
const PAGE_SIZE: u32 = 200;

/// Why the scheduler did not accept a request.
pub type SchedulerError = Box<dyn std::error::Error + Send + Sync>;

/// The client of an external scheduler, which drives durable runs instead of this server. The scheduler calls
/// [`Runs::advance`], which returns a [`TaskPlan`]. Then the scheduler calls [`Runs::execute_tasks`] with the tasks of
/// the plan, which returns the next plan, and so on until a plan has no tasks.
pub trait TaskScheduler: Send + Sync {
    /// Asks the scheduler to advance a run soon.
    fn wake(&self, run: RunId) -> BoxFuture<'_, Result<(), SchedulerError>>;

    /// Checks that the scheduler answers.
    fn check(&self) -> BoxFuture<'_, Result<(), SchedulerError>>;

    /// Delivers a command of the inbox to a run, and returns when the run has replied.
    fn deliver<'a>(&'a self, run: RunId, command: &'a str) -> BoxFuture<'a, Result<(), SchedulerError>>;
}

/// The client of the external scheduler and the [`Stepper`] that executes its requests on this server.
pub(super) struct ExternalScheduler {
    client: Arc<dyn TaskScheduler>,
    stepper: Arc<Stepper>,
}

impl ExternalScheduler {
    /// `writer` must be a writer whose rows name the scheduler as the driver.
    pub(crate) fn new(client: Arc<dyn TaskScheduler>, store: Arc<dyn TaskStore>, writer: Writer) -> Self {
        Self { client, stepper: Arc::new(Stepper::new(store, writer)) }
    }

    /// Stores the start of a run, and asks the scheduler to advance it.
    pub(crate) async fn start(
        &self,
        host: &Arc<dyn DriverHost>,
        launch: RunLaunch,
    ) -> Result<Arc<RunHandle>, WriteError> {
        let handle = lifecycle::start_scheduled_run(host, launch, self.stepper.writer()).await?;
        let (client, run) = (Arc::clone(&self.client), handle.id);
        let wake = async move {
            if let Err(error) = client.wake(run).await {
                // The run is stored. [`Runs::wake_idle_runs`] wakes it later.
                tracing::warn!(%run, error = &*error as &dyn std::error::Error, "the external scheduler cannot be reached");
            }
        };
        // A stored run counts as started, so the caller does not wait for the scheduler.
        host.spawn(run, Box::pin(wake));
        Ok(handle)
    }
}

impl Runs {
    /// Applies an event to a scheduled run and returns the plan of what to schedule next.
    pub async fn advance(&self, run: RunId, event: TaskEvent) -> Result<TaskPlan, Unavailable> {
        let scheduler = self.0.scheduler(run).map_err(no_scheduler)?;
        Box::pin(scheduler.stepper.advance(&self.0.host(), run, &(&event).into())).await
    }

    /// Executes tasks of a run at the same time and applies their outcomes. Returns the plan of what to schedule next.
    /// `invocation` is the id of the request. The scheduler must repeat the request until it gets a reply, and may use
    /// the same id to execute the tasks that follow.
    pub async fn execute_tasks(&self, run: RunId, invocation: &str, tasks: Vec<Task>) -> Result<TaskPlan, Unavailable> {
        let scheduler = self.0.scheduler(run).map_err(no_scheduler)?;
        scheduler.stepper.execute(&self.0.host(), run, invocation, tasks).await
    }

    /// Checks that the external scheduler answers. Returns `None` if this server has no external scheduler.
    pub async fn check_scheduler(&self) -> Option<Result<(), SchedulerError>> {
        Some(self.0.scheduler.as_ref()?.client.check().await)
    }

    /// Returns the number of runs that an external scheduler drives.
    pub async fn count_scheduled(&self) -> Result<u64, Unavailable> {
        Ok(self.0.store.count_scheduled().await?)
    }

    /// Wakes the scheduled runs that are running or due and have not changed for the duration `idle`. Such a run was
    /// started while the scheduler could not be reached, or the scheduler has lost its request to wake the run.
    pub async fn wake_idle_runs(&self, idle: Duration) {
        let Some(scheduler) = &self.0.scheduler else { return };
        let idle = i64::try_from(idle.as_micros()).unwrap_or(i64::MAX);
        let before = Timestamp::from_micros(self.0.clock.now().as_micros().saturating_sub(idle));
        let mut last = None;
        loop {
            let runs = match self.0.store.scheduled_runs(before, last, PAGE_SIZE).await {
                Ok(runs) => runs,
                Err(error) => {
                    tracing::warn!(error = &error as &dyn std::error::Error, "idle runs cannot be listed");
                    return;
                }
            };
            let Some(newest) = runs.last() else { return };
            last = Some(*newest);
            for run in runs {
                if let Err(error) = scheduler.client.wake(run).await {
                    tracing::warn!(%run, error = &*error as &dyn std::error::Error, "an idle run cannot be woken");
                    return;
                }
            }
        }
    }
}

fn no_scheduler(error: CommandError) -> Unavailable {
    Unavailable::new("this server has no external scheduler", error)
}

impl Inner {
    /// Returns the external scheduler, or an error if this server has none.
    fn scheduler(&self, run: RunId) -> Result<&ExternalScheduler, CommandError> {
        self.scheduler.as_ref().ok_or_else(|| CommandError::NoScheduler(run.to_string()))
    }

    /// Whether an external scheduler drives the run.
    pub(super) async fn is_scheduled(&self, handle: &RunHandle) -> Result<bool, Unavailable> {
        if handle.is_driven() {
            return Ok(false);
        }
        Ok(self.store.run_anywhere(handle.id).await?.is_some_and(|(_, row)| row.scheduled))
    }

    /// Sends a command to a scheduled run and waits for the reply.
    pub(super) async fn send_through_inbox(&self, run: RunId, command: RunCommand) -> Result<(), CommandError> {
        let scheduler = self.scheduler(run)?;
        let unreachable = |source: SchedulerError| Unavailable::new("the external scheduler cannot be reached", source);
        if matches!(command, RunCommand::Wake) {
            return Ok(scheduler.client.wake(run).await.map_err(unreachable)?);
        }
        let id = format!("cmd_{}", ulid::Ulid::new());
        let body = serde_json::to_string(&command)
            .map_err(|error| Unavailable::new("the command cannot be encoded", error))?;
        self.store.inbox_put(run, &id, &body, self.clock.now()).await.map_err(Unavailable::from)?;
        scheduler.client.deliver(run, &id).await.map_err(unreachable)?;
        let item = self.store.inbox_get(run, &id).await.map_err(Unavailable::from)?;
        let reply = item.and_then(|item| item.reply);
        let reply = reply.ok_or_else(|| Unavailable::new("the run has not replied", "no reply"))?;
        // If deleting fails, the command stays in the inbox until the run is deleted.
        if let Err(error) = self.store.inbox_delete(run, &id).await {
            tracing::debug!(%run, error = &error as &dyn std::error::Error, "a command stays in the inbox after its reply");
        }
        decode_reply(&reply)
    }

    /// Waits until a scheduled run ends or is suspended, and returns its snapshot. Returns `None` if the run does not
    /// exist, if a server drives it, or if this server stops.
    pub(super) async fn wait_for_rest_of_scheduled(
        &self,
        home: &RealmScope,
        handle: &RunHandle,
    ) -> Result<Option<Arc<RunSnapshot>>, Unavailable> {
        loop {
            let mut changed = std::pin::pin!(handle.changed().notified());
            // The notification is enabled before the row is read, so that a change between the read and the wait is not
            // missed.
            changed.as_mut().enable();
            let Some(row) = self.store.runs(home).get(handle.id).await? else { return Ok(None) };
            if row.state.status != RunStatus::Running {
                return match self.load(home, handle.id).await {
                    Ok(history) => Ok(Some(history.snapshot)),
                    Err(CommandError::Unavailable(error)) => Err(error),
                    Err(_) => Ok(None),
                };
            }
            if !row.scheduled {
                return Ok(None);
            }
            tokio::select! {
                () = self.stop.cancelled() => return Ok(None),
                _ = tokio::time::timeout(POLL_INTERVAL, changed) => {}
            }
        }
    }
}
