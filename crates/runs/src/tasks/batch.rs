//! Executes tasks of one run at the same time, and applies their outcomes to the run.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use futures::{FutureExt, StreamExt};
use tokio::sync::oneshot;
use toolwright_catalog::Unavailable;
use toolwright_types::{RunId, Timestamp};

use super::execution::TaskContext;
use super::plan::{EndedTask, StepEvent};
use super::running::{TaskEnd, TaskKey, TaskResult};
use super::{Stepper, Task, TaskPlan};
use crate::driver::sleep_until;
use crate::ports::DriverHost;

impl Stepper {
    /// Executes tasks of a run and applies their outcomes. When none of these tasks is in progress any more, returns
    /// the tasks that follow. `invocation` is the id of the scheduler's request, which the scheduler repeats until it
    /// gets a reply. So another invocation may leave a running task to the invocation that executes it.
    pub(crate) async fn execute(
        self: &Arc<Self>,
        host: &Arc<dyn DriverHost>,
        run: RunId,
        invocation: &str,
        tasks: Vec<Task>,
    ) -> Result<TaskPlan, Unavailable> {
        let batch = TaskBatch {
            stepper: Arc::clone(self),
            host: Arc::clone(host),
            run,
            invocation: invocation.into(),
            running: FuturesUnordered::new(),
            in_progress: HashSet::new(),
            wake_at: None,
        };
        let (ended, end) = oneshot::channel();
        // The batch runs in its own Tokio task, so that outcomes are recorded even if the scheduler disconnects.
        let execution = async move {
            // Sending fails if the caller no longer waits.
            let _ = ended.send(batch.execute(tasks).await);
        };
        host.spawn(run, Box::pin(execution));
        end.await.unwrap_or_else(|_| Err(Unavailable::new("tasks were lost", "they ended without a result")))
    }
}

/// The tasks that one invocation executes.
struct TaskBatch {
    stepper: Arc<Stepper>,
    host: Arc<dyn DriverHost>,
    run: RunId,
    invocation: Arc<str>,
    running: FuturesUnordered<BoxFuture<'static, (Task, TaskResult)>>,
    /// The ids of the tasks that were started and whose outcomes are not applied yet.
    in_progress: HashSet<String>,
    /// When this batch must wake the run. The scheduler wakes only runs without tasks.
    wake_at: Option<Timestamp>,
}

impl TaskBatch {
    async fn execute(mut self, tasks: Vec<Task>) -> Result<TaskPlan, Unavailable> {
        self.start(tasks).await?;
        let (mut plan, mut failure) = (TaskPlan::default(), None);
        loop {
            let applied = tokio::select! {
                biased;
                ended = self.running.next() => match ended {
                    Some(first) => self.apply(first).await,
                    None => break,
                },
                () = sleep_until(self.host.clock(), self.wake_at) => self.advance(&StepEvent::Wake).await.map(Some),
            };
            // While other tasks are in progress, the tasks that follow are executed at once. Otherwise they are
            // returned, so that the scheduler records them before they are executed.
            let started = match applied {
                Ok(Some(next)) => {
                    plan = next;
                    if self.running.is_empty() { Ok(()) } else { self.start(std::mem::take(&mut plan.tasks)).await }
                }
                Ok(None) => Ok(()),
                Err(error) => Err(error),
            };
            if let Err(error) = started {
                self.wake_at = None;
                failure = Some(error);
            }
        }
        failure.map_or(Ok(plan), Err)
    }

    /// Starts the tasks that are not in progress.
    async fn start(&mut self, mut tasks: Vec<Task>) -> Result<(), Unavailable> {
        tasks.retain(|task| !self.in_progress.contains(&task.id()));
        if tasks.is_empty() {
            return Ok(());
        }
        let (contexts, wake_at) = self.stepper.contexts(&self.host, self.run, &tasks).await?;
        self.wake_at = wake_at;
        for (task, context) in tasks.into_iter().zip(contexts) {
            let id = task.id();
            let running = match context {
                None => std::future::ready(Ok(TaskEnd::Stored)).boxed(),
                Some(context) => self.run_task(task.clone(), context),
            };
            self.in_progress.insert(id);
            self.running.push(running.map(|result| (task, result)).boxed());
        }
        Ok(())
    }

    /// Starts a task in its own Tokio task, because this batch may wait for a database connection that the task holds.
    fn run_task(&self, task: Task, context: TaskContext) -> BoxFuture<'static, TaskResult> {
        let key = (self.run, task.id());
        let start = |ended: oneshot::Sender<TaskResult>| {
            let (stepper, host, invocation) =
                (Arc::clone(&self.stepper), Arc::clone(&self.host), Arc::clone(&self.invocation));
            let execution = async move {
                let result = stepper.execute_task(&host, &invocation, &task, context).await;
                // Sending fails if the batch has panicked.
                let _ = ended.send(result.map_err(Arc::new));
            };
            self.host.spawn(self.run, Box::pin(execution));
        };
        match self.stepper.running.join(key, &self.invocation, start) {
            Some(running) => running.boxed(),
            None => std::future::ready(Ok(TaskEnd::Elsewhere)).boxed(),
        }
    }

    /// Applies the outcomes of all tasks that have ended by now. Returns `None` if there is nothing to apply.
    async fn apply(&mut self, first: (Task, TaskResult)) -> Result<Option<TaskPlan>, Unavailable> {
        let (mut ended, mut failure, mut next) = (Vec::new(), None, Some(first));
        let mut over = Vec::new();
        while let Some((task, result)) = next {
            over.push(task.id());
            match result {
                Ok(TaskEnd::Elsewhere) => {}
                Ok(TaskEnd::Stored) => ended.push(EndedTask { task, outcome: None }),
                Ok(TaskEnd::Outcome(outcome)) => ended.push(EndedTask { task, outcome: Some(outcome) }),
                Err(error) => failure = Some(Unavailable::new("a task could not be executed", error)),
            }
            next = self.running.next().now_or_never().flatten();
        }
        let plan = if ended.is_empty() { None } else { Some(self.advance(&StepEvent::Ended(&ended)).await) };
        if let Some(Err(_)) = plan {
            self.stepper.store_outcomes(&ended).await;
        }
        for id in over {
            self.stepper.running.remove(&self.key(&id), &self.invocation);
            self.in_progress.remove(&id);
        }
        match failure {
            Some(error) => Err(error),
            None => plan.transpose(),
        }
    }

    async fn advance(&mut self, event: &StepEvent<'_>) -> Result<TaskPlan, Unavailable> {
        let plan = Box::pin(self.stepper.advance(&self.host, self.run, event)).await?;
        let wake_at = |in_ms| self.host.clock().now().saturating_add(Duration::from_millis(in_ms));
        self.wake_at = plan.timer.as_ref().map(|timer| wake_at(timer.in_ms));
        Ok(plan)
    }

    fn key(&self, id: &str) -> TaskKey {
        (self.run, id.to_owned())
    }
}

impl Drop for TaskBatch {
    fn drop(&mut self) {
        // If this batch has panicked, other invocations execute its remaining tasks.
        for id in &self.in_progress {
            self.stepper.running.remove(&self.key(id), &self.invocation);
        }
    }
}
