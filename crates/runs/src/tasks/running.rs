//! Keeps track of the tasks that this server executes, so that this server does not execute the same task twice at the
//! same time.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures::FutureExt;
use futures::future::{BoxFuture, Shared};
use tokio::sync::oneshot;
use toolwright_catalog::Unavailable;
use toolwright_machine::agent::EventKind;
use toolwright_types::RunId;

pub(super) type TaskKey = (RunId, String);
pub(super) type TaskResult = Result<TaskEnd, Arc<Unavailable>>;
pub(super) type RunningTask = Shared<BoxFuture<'static, TaskResult>>;

/// How the execution of a task ended.
#[derive(Clone)]
pub(super) enum TaskEnd {
    /// The task has an outcome.
    Outcome(Arc<EventKind>),
    /// There is no outcome to pass on: it is already in the store, the execution was interrupted, or the run no longer
    /// waits for the task.
    Stored,
    /// Another invocation executes the task.
    Elsewhere,
}

/// The tasks that this server executes, each with the invocation that executes it.
#[derive(Default)]
pub(super) struct RunningTasks(Mutex<HashMap<TaskKey, (Arc<str>, RunningTask)>>);

impl RunningTasks {
    /// Returns the task that this invocation executes; `None` if another invocation executes the task. If no
    /// invocation on this server executes the task, `start` is called to start it.
    pub(super) fn join(
        &self,
        key: TaskKey,
        invocation: &Arc<str>,
        start: impl FnOnce(oneshot::Sender<TaskResult>),
    ) -> Option<RunningTask> {
        let mut tasks = self.lock();
        if let Some((other, running)) = tasks.get(&key) {
            return (other == invocation).then(|| running.clone());
        }
        let (ended, ends) = oneshot::channel();
        let lost = || Arc::new(Unavailable::new("a task was lost", "it ended without a result"));
        let running: RunningTask = ends.map(move |result| result.unwrap_or_else(|_| Err(lost()))).boxed().shared();
        tasks.insert(key, (Arc::clone(invocation), running.clone()));
        drop(tasks);
        start(ended);
        Some(running)
    }

    /// Removes a task if this invocation executes it.
    pub(super) fn remove(&self, key: &TaskKey, invocation: &Arc<str>) {
        let mut tasks = self.lock();
        if tasks.get(key).is_some_and(|(other, _)| other == invocation) {
            tasks.remove(key);
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<TaskKey, (Arc<str>, RunningTask)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
