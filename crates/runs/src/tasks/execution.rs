//! Executes one task of a run.
//!
//! A write is registered in the store before it starts. All other tasks can be executed twice without harm. They are
//! registered only if they may have been scheduled before or if they take long.

use std::sync::Arc;
use std::time::Duration;

use toolwright_catalog::Unavailable;
use toolwright_machine::agent::{CallToRun, Effect, EffectId};
use toolwright_store::{TaskStart, TaskState};
use toolwright_types::{RunId, SideEffects, Timestamp};

use super::plan::EndedTask;
use super::recorder::TaskRecorder;
use super::running::TaskEnd;
use super::{CacheLookup, Freshness, Stepper, Task};
use crate::core::is_too_late;
use crate::journal::wake_at;
use crate::ports::{DriverHost, EffectExecutor as _, START_WITHIN, execute_effect};
use crate::registry::RunHandle;

/// How often a task checks that its run has not ended, and how often a server checks whether a write on another server
/// has ended. A task that takes longer than this interval is registered in the store.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// The data that a server needs to execute a task.
pub(super) struct TaskContext {
    recorder: Arc<TaskRecorder>,
    handle: Arc<RunHandle>,
    effect: Effect,
    /// For a write: the time of its intent.
    intended_at: Option<Timestamp>,
}

impl TaskContext {
    fn write(&self) -> Option<&CallToRun> {
        match &self.effect {
            Effect::RunCall(call) if call.facts.effects == SideEffects::Writes => Some(call),
            _ => None,
        }
    }
}

impl Stepper {
    /// Returns the data to execute each task, and when the run must be woken. If the run no longer waits for a task,
    /// the data of that task is `None`.
    pub(super) async fn contexts(
        &self,
        host: &Arc<dyn DriverHost>,
        run: RunId,
        tasks: &[Task],
    ) -> Result<(Vec<Option<TaskContext>>, Option<Timestamp>), Unavailable> {
        let slot = self.slot(run);
        let mut slot = slot.lock().await;
        let CacheLookup::Run(cached) = self.cached_run(host, &mut slot, run, Freshness::Checked).await? else {
            return Ok((tasks.iter().map(|_| None).collect(), None));
        };
        let contexts = tasks.iter().map(|task| {
            let effect = cached.pending_effect(task)?;
            let (recorder, handle) = (Arc::clone(&cached.recorder), Arc::clone(&cached.core.handle));
            let intended_at = match &task.effect {
                EffectId::Call(call) => cached.core.machine.intended_at(call),
                _ => None,
            };
            Some(TaskContext { recorder, handle, effect, intended_at })
        });
        Ok((contexts.collect(), wake_at(&cached.core.machine, host.clock().now())))
    }

    /// Executes a task that its run waits for.
    pub(super) async fn execute_task(
        &self,
        host: &Arc<dyn DriverHost>,
        invocation: &str,
        task: &Task,
        context: TaskContext,
    ) -> Result<TaskEnd, Unavailable> {
        let registers_first = context.write().is_some() || task.scheduled_before;
        if registers_first && let Some(end) = self.register(host, invocation, task, &context).await? {
            return Ok(end);
        }
        let TaskContext { recorder, handle, effect, .. } = context;
        let executor = Arc::clone(&recorder.executor);
        let running = match effect {
            Effect::RunCall(call) => {
                let ready = recorder.take_ready(&call.call_id);
                Some(executor.call(call, ready, task.allowance))
            }
            other => execute_effect(executor, &handle, other),
        };
        let Some(running) = running else { return Ok(TaskEnd::Stored) };
        let watch = async {
            if !registers_first {
                self.register_later(host, invocation, task).await;
            }
            self.run_ended(host, task.run, &recorder).await;
        };
        let outcome = tokio::select! {
            outcome = running => outcome,
            () = watch => return Ok(TaskEnd::Stored),
            () = host.stop().cancelled() => {
                recorder.executor.cancel();
                return Err(Unavailable::new("the server is stopping", "a task was interrupted"));
            }
        };
        Ok(outcome.into_event().map_or(TaskEnd::Stored, |event| TaskEnd::Outcome(Arc::new(event.limit_depth()))))
    }

    /// Registers that this server starts a task. If this server must not execute the task, returns the reason as a
    /// [`TaskEnd`].
    async fn register(
        &self,
        host: &Arc<dyn DriverHost>,
        invocation: &str,
        task: &Task,
        context: &TaskContext,
    ) -> Result<Option<TaskEnd>, Unavailable> {
        let Some(write) = context.write() else {
            return Ok(match self.start_task(host, invocation, task, true).await? {
                TaskState::New | TaskState::Running | TaskState::Lost => None,
                TaskState::Claimed => Some(TaskEnd::Elsewhere),
                TaskState::Done | TaskState::Obsolete => Some(TaskEnd::Stored),
            });
        };
        let time_limit = context.recorder.time_limit(write);
        // While the lease of this server is valid, other servers wait for the write instead of treating it as
        // interrupted.
        host.lease().cover(time_limit + START_WITHIN).await?;
        loop {
            let state = self.start_task(host, invocation, task, false).await?;
            match state {
                TaskState::New => break,
                TaskState::Done | TaskState::Obsolete | TaskState::Lost => return Ok(Some(TaskEnd::Stored)),
                // No server can still execute the write, because its time limit has passed. The server that registered
                // the task may not have received the reply to its registration and may never have started the write.
                _ if has_timed_out(context.intended_at, time_limit, host.clock().now()) => {
                    return Ok(Some(TaskEnd::Stored));
                }
                TaskState::Claimed => return Ok(Some(TaskEnd::Elsewhere)),
                TaskState::Running => tokio::time::sleep(POLL_INTERVAL).await,
            }
        }
        if context.intended_at.is_some_and(|intended_at| is_too_late(intended_at, host.clock().now())) {
            // Recovery assumes that a write starts soon after its intent. Too much time has passed since the intent, so
            // the task is deleted, and the run records a new intent.
            self.store.delete_task(task.run, &task.id()).await?;
            return Ok(Some(TaskEnd::Stored));
        }
        Ok(None)
    }

    /// Registers a task that takes long, so that other invocations do not execute it too.
    async fn register_later(&self, host: &Arc<dyn DriverHost>, invocation: &str, task: &Task) {
        tokio::time::sleep(POLL_INTERVAL).await;
        if let Err(error) = self.start_task(host, invocation, task, true).await {
            tracing::debug!(run = %task.run, error = &error as &dyn std::error::Error, "a task cannot be registered");
        }
    }

    async fn start_task(
        &self,
        host: &Arc<dyn DriverHost>,
        invocation: &str,
        task: &Task,
        repeatable: bool,
    ) -> Result<TaskState, Unavailable> {
        let (id, server, at) = (task.id(), host.lease().server(), host.clock().now());
        Ok(self.store.start_task(TaskStart { run: task.run, id: &id, invocation, server, at, repeatable }).await?)
    }

    /// Stores outcomes that could not be applied to the run, so that registered tasks are not executed again.
    pub(super) async fn store_outcomes(&self, ended: &[EndedTask]) {
        for EndedTask { task, outcome } in ended {
            let Some(outcome) = outcome else { continue };
            let Ok(outcome) = serde_json::to_string(&**outcome) else { continue };
            if let Err(error) = self.store.finish_task(task.run, &task.id(), &outcome).await {
                tracing::warn!(run = %task.run, error = &error as &dyn std::error::Error, "the outcome of a task is lost");
            }
        }
    }

    /// Waits until the run has ended, here or on another server.
    async fn run_ended(&self, host: &Arc<dyn DriverHost>, run: RunId, recorder: &TaskRecorder) {
        loop {
            tokio::select! {
                () = recorder.ended.cancelled() => return,
                () = host.stop().cancelled() => return std::future::pending().await,
                () = tokio::time::sleep(POLL_INTERVAL) => {}
            }
            match self.store.run(run).await {
                Ok(Some(row)) if !row.status.is_terminal() => {}
                Ok(_) => return recorder.cancel(),
                Err(error) => {
                    tracing::debug!(%run, error = &error as &dyn std::error::Error, "cannot check whether a run has ended");
                }
            }
        }
    }
}

/// Whether the intent of a write is so old that no server can still execute the write.
fn has_timed_out(intended_at: Option<Timestamp>, time_limit: Duration, now: Timestamp) -> bool {
    intended_at.is_some_and(|intended_at| now > intended_at.saturating_add(START_WITHIN + time_limit))
}
