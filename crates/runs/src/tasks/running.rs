//! Keeps track of the tasks that this server executes, so that it does not execute a task twice at the same time.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures::FutureExt;
use futures::future::{BoxFuture, Shared};
use tokio::sync::oneshot;
use toolwright_catalog::Unavailable;
use toolwright_types::RunId;

pub(super) type TaskKey = (RunId, String);
pub(super) type RunningTask = Shared<BoxFuture<'static, Result<(), Arc<Unavailable>>>>;

/// The tasks that this server executes. A second request for the same task waits for the first execution.
#[derive(Default)]
pub(super) struct RunningTasks(Mutex<HashMap<TaskKey, RunningTask>>);

impl RunningTasks {
    /// Returns the running task. If the task is not running, `start` is called to start it.
    pub(super) fn join(
        &self,
        key: TaskKey,
        start: impl FnOnce(oneshot::Sender<Result<(), Arc<Unavailable>>>),
    ) -> RunningTask {
        let mut tasks = self.lock();
        if let Some(running) = tasks.get(&key) {
            return running.clone();
        }
        let (ended, ends) = oneshot::channel();
        let lost = || Arc::new(Unavailable::new("a task was lost", "it ended without a result"));
        let running: RunningTask = ends.map(move |result| result.unwrap_or_else(|_| Err(lost()))).boxed().shared();
        tasks.insert(key, running.clone());
        drop(tasks);
        start(ended);
        running
    }

    pub(super) fn remove(&self, key: &TaskKey) {
        self.lock().remove(key);
    }

    /// Removes this task, unless another execution was started under the same key.
    pub(super) fn forget(&self, key: &TaskKey, running: &RunningTask) {
        let mut tasks = self.lock();
        if tasks.get(key).is_some_and(|other| other.ptr_eq(running)) {
            tasks.remove(key);
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<TaskKey, RunningTask>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
